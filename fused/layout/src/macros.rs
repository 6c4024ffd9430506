//! `pool_struct!`: declares a structure of the pool and asserts its layout on every target.

/// Declares a structure that lives in the pool.
///
/// Every field is written with its offset, the structure with its size and alignment; a mismatch, a hole or a field
/// type that is not [`PoolSafe`](crate::PoolSafe) does not compile.
///
/// ```
/// use motet_layout::{Cell64, pool_struct};
/// use motet_layout::sync::AtomicU32;
/// pool_struct! {
///     /// A counter with a name.
///     pub struct Example: size 16, align 8 {
///         /// Incremented by every island.
///         0 pub count: AtomicU32,
///         4 _pad: AtomicU32,
///         8 pub name: Cell64,
///     }
/// }
/// ```
/// A pointer does not compile:
/// ```compile_fail
/// motet_layout::pool_struct! { struct Bad: size 8, align 8 { 0 next: *const u8, } }
/// ```
/// nor does a target-sized integer, a `bool`, or an unnamed hole:
/// ```compile_fail
/// motet_layout::pool_struct! { struct Bad: size 8, align 8 { 0 length: core::sync::atomic::AtomicUsize, } }
/// ```
/// ```compile_fail
/// motet_layout::pool_struct! { struct Bad: size 16, align 8 { 0 a: motet_layout::Cell32, 8 b: motet_layout::Cell64, } }
/// ```
#[macro_export]
macro_rules! pool_struct {
    ($(#[$meta:meta])* $vis:vis struct $name:ident : size $size:literal, align $align:literal {
        $($(#[$field_meta:meta])* $offset:literal $field_vis:vis $field:ident : $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[repr(C, align($align))]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $type),* }

        impl $crate::PoolSafe for $name {}
        impl $crate::PoolStruct for $name {
            const LAYOUT: $crate::StructLayout = $crate::StructLayout {
                name: stringify!($name),
                size: $size,
                align: $align,
                fields: &[$($crate::Field {
                    name: stringify!($field), offset: $offset, size: ::core::mem::size_of::<$type>(),
                }),*],
            };
        }
        const _: () = {
            const fn pool_safe<T: $crate::PoolSafe>() {}
            $(pool_safe::<$type>(); assert!(::core::mem::offset_of!($name, $field) == $offset, "field offset");)*
            assert!(::core::mem::size_of::<$name>() == $size, "structure size");
            assert!(::core::mem::align_of::<$name>() == $align, "structure alignment");
            assert!(0 $(+ ::core::mem::size_of::<$type>())* == $size, "padding must be named");
        };
    };
}
