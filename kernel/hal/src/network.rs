//! An island's network device, as its kernel sees it: frames out and in.
//!
//! One core of an island uses the device, its first one. Frames are Ethernet's, without the check sequence at their end.

/// The longest frame: a header of 14 bytes and 1,500 bytes behind it.
pub const FRAME_BYTES_MAX: usize = 1514;

/// What the kernel gets of a network device, once.
pub struct Network {
    /// The device's Ethernet address.
    pub address: [u8; 6],
    /// Memory of this island alone, for connections' buffers. It is zeroed.
    pub memory: &'static mut [u8],
}

impl Network {
    /// Takes so many bytes of the memory, for ever. `None`: there are fewer.
    pub fn take_bytes(&mut self, len: usize) -> Option<&'static mut [u8]> {
        let memory = core::mem::take(&mut self.memory);
        if len > memory.len() {
            self.memory = memory;
            return None;
        }
        let (taken, rest) = memory.split_at_mut(len);
        self.memory = rest;
        Some(taken)
    }

    /// Puts values into the memory, for ever: kernels have no heap. `None`: there is no room, and none was made.
    pub fn place<T>(&mut self, count: usize, mut make: impl FnMut() -> T) -> Option<&'static mut [T]> {
        let skipped = self.memory.as_ptr().align_offset(align_of::<T>());
        let len = size_of::<T>().checked_mul(count)?;
        if skipped.checked_add(len)? > self.memory.len() {
            return None;
        }
        let _ = self.take_bytes(skipped);
        let at = self.take_bytes(len)?.as_mut_ptr().cast::<T>();
        for index in 0..count {
            // SAFETY: so many values fit into the bytes, which begin at an address for them.
            unsafe { at.add(index).write(make()) };
        }
        // SAFETY: they were written just now, and nobody else has these bytes.
        Some(unsafe { core::slice::from_raw_parts_mut(at, count) })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{boxed::Box, vec};

    use super::*;

    #[test]
    fn values_lie_apart_and_aligned_as_long_as_there_is_room() {
        let mut network = Network { address: [0; 6], memory: Box::leak(vec![0; 100].into_boxed_slice()) };
        assert_eq!(network.take_bytes(3).map(|bytes| bytes.len()), Some(3));
        let words = network.place(4, || 7_u64).expect("there is room");
        let more = network.place(4, || 9_u64).expect("there is room");
        more[0] = 1;
        assert_eq!((words, more), (&mut [7; 4][..], &mut [1, 9, 9, 9][..]));
        assert!(network.place(5, || 1_u64).is_none(), "32 bytes are left at most");
        assert!(network.take_bytes(100).is_none());
    }
}
