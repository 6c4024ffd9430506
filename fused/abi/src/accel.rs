//! `/dev/accel/NAME`: what `ioctl` of an accelerator's interface takes. The same on every ISA.

/// The client's priority; 0 is the most urgent.
pub const SET_PRIORITY: u32 = 0x4d60;
/// Within how many microseconds after a request it wants to be ready; 0: it does not say.
pub const SET_DEADLINE: u32 = 0x4d61;
/// How many bytes the interface has: a page of registers, and its data section behind it.
pub const BYTES: u32 = 0x4d62;
/// Which signals of [`signal`] the client is told of, a bit each: the others wake nobody. At first all.
pub const SET_SIGNALS: u32 = 0x4d63;

/// Signals, as they are read.
pub mod signal {
    /// It is over, and INT_CTRL asked for that.
    pub const OVER: u64 = 8;
}
