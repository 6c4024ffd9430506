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
