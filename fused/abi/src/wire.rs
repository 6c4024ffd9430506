//! Structures as Linux lays them out in user memory: fields at stated offsets, little-endian, padding zero.

use core::ops::{Deref, DerefMut};

/// Bytes at a multiple of 16: words of them are accessed as words, also where the compiler may assume nothing else of an address (RISC-V, AArch64 with strict alignment).
#[derive(Clone, Debug)]
#[repr(align(16))]
pub struct Aligned<const N: usize>([u8; N]);

impl<const N: usize> Aligned<N> {
    /// All of them zero.
    #[inline]
    pub const fn zeroed() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Deref for Aligned<N> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> DerefMut for Aligned<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A value with a fixed encoding in user memory.
pub trait Wire: Sized {
    /// Bytes it takes.
    const SIZE: usize;
    /// Writes it to the first [`SIZE`](Self::SIZE) bytes of `out`. Padding is left as it is.
    ///
    /// # Panics
    /// When `out` is shorter.
    fn put(&self, out: &mut [u8]);
    /// Reads it from the first [`SIZE`](Self::SIZE) bytes of `from`.
    ///
    /// # Panics
    /// When `from` is shorter.
    fn take(from: &[u8]) -> Self;
}

macro_rules! wire_integers {
    ($($t:ty),*) => { $(impl Wire for $t {
        const SIZE: usize = size_of::<$t>();
        #[inline(always)]
        fn put(&self, out: &mut [u8]) {
            out[..size_of::<$t>()].copy_from_slice(&self.to_le_bytes());
        }
        #[inline(always)]
        fn take(from: &[u8]) -> Self {
            let mut bytes = [0; size_of::<$t>()];
            bytes.copy_from_slice(&from[..size_of::<$t>()]);
            Self::from_le_bytes(bytes)
        }
    })* };
}
wire_integers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl<T: Wire, const N: usize> Wire for [T; N] {
    const SIZE: usize = N * T::SIZE;
    #[inline]
    fn put(&self, out: &mut [u8]) {
        for (n, item) in self.iter().enumerate() {
            item.put(&mut out[n * T::SIZE..]);
        }
    }
    #[inline]
    fn take(from: &[u8]) -> Self {
        core::array::from_fn(|n| T::take(&from[n * T::SIZE..]))
    }
}

/// Declares a structure of the ABI: its size, and each field with its offset. Overlapping or escaping fields do not
/// compile.
macro_rules! wire_struct {
    ($(#[$meta:meta])* $name:ident: $size:literal {
        $($(#[$field_meta:meta])* $offset:literal $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type),* }

        impl $name {
            /// Field names with their offsets and sizes.
            pub const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), $offset, <$type as $crate::wire::Wire>::SIZE)),*];

            /// Its bytes.
            pub fn to_bytes(&self) -> [u8; $size] {
                let mut out = [0; $size];
                $crate::wire::Wire::put(self, &mut out);
                out
            }
        }

        impl $crate::wire::Wire for $name {
            const SIZE: usize = $size;
            #[inline]
            fn put(&self, out: &mut [u8]) {
                $($crate::wire::Wire::put(&self.$field, &mut out[$offset..]);)*
            }
            #[inline]
            fn take(from: &[u8]) -> Self {
                Self { $($field: $crate::wire::Wire::take(&from[$offset..])),* }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::wire::Wire::take(&[0; $size])
            }
        }

        const _: () = {
            let mut end = 0;
            $(assert!($offset >= end, "fields overlap or are out of order");
            end = $offset + <$type as $crate::wire::Wire>::SIZE;)*
            assert!(end <= $size, "fields leave the structure");
        };
    };
}
pub(crate) use wire_struct;

/// Reads a little-endian value at `offset`; for structures that are built piece by piece.
pub(crate) fn take_at<T: Wire>(from: &[u8], offset: usize) -> T {
    T::take(&from[offset..])
}

/// Writes a little-endian value at `offset`.
pub(crate) fn put_at<T: Wire>(out: &mut [u8], offset: usize, value: T) {
    value.put(&mut out[offset..]);
}
