//! `/dev/vm`: what a monitor and the kernel say to each other. The same on every ISA. An open file of it is a virtual machine.
//!
//! All structures are words of 64 bits.

/// `ioctl(file, MEMORY, [start, bytes, fd, offset])`: from the guest's physical address `start` on, its memory is what the file in memory `fd` (a memfd, or one of `/dev/shm`) has
/// from `offset` on. Nobody shortens the file meanwhile. Page-aligned; pieces do not overlap.
pub const MEMORY: u32 = 0x4d70;
/// `ioctl(file, VCPU)`: makes a core; its number, from 0 on.
pub const VCPU: u32 = 0x4d71;
/// `ioctl(file, START, [vcpu, pc, first, second])`: a core that is stopped begins at `pc`, with these arguments in the registers where
/// functions have their first two.
pub const START: u32 = 0x4d72;
/// `ioctl(file, RUN, exit)`: the calling thread is that core, until something needs the monitor: see [`Exit`].
pub const RUN: u32 = 0x4d73;
/// `ioctl(file, LINE, vcpu | LINE_HIGH)`: the core's external interrupt line goes high, or low.
pub const LINE: u32 = 0x4d74;
/// Bit of [`LINE`]'s argument: high.
pub const LINE_HIGH: u64 = 1 << 32;

/// Most cores of a machine.
pub const VCPUS_MAX: u64 = motet_layout::VCPUS_MAX as u64;

/// Words of an [`Exit`].
pub const EXIT_WORDS: usize = 8;

/// Why a core stopped. The monitor gives `vcpu`; the kernel gives the rest, and takes `value` when the core runs again if it has asked
/// for that.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Which core.
    pub vcpu: u64,
    /// [`reason`].
    pub reason: u64,
    /// The guest's physical address of what it wants.
    pub address: u64,
    /// See [`reason`].
    pub value: u64,
    /// Bytes that it wants.
    pub bytes: u64,
    /// Where the guest was.
    pub pc: u64,
}

/// Why a core stopped.
pub mod reason {
    /// It loads `bytes` bytes from a device at `address`: the monitor gives `value`.
    pub const LOAD: u64 = 1;
    /// It stores `value` there: the monitor says that it has by running it again.
    pub const STORE: u64 = 2;
    /// It writes `bytes` bytes of its memory at `address` to its console: the monitor gives how many it has taken.
    pub const CONSOLE_WRITE: u64 = 3;
    /// It reads at most so many bytes from its console: the monitor gives how many there were.
    pub const CONSOLE_READ: u64 = 4;
    /// It writes the byte `value` to its console.
    pub const CONSOLE_PUT: u64 = 5;
    /// It reads a byte: the monitor gives it, or [`u64::MAX`].
    pub const CONSOLE_GET: u64 = 6;
    /// It shuts its machine down; `value` is 0 if all is well.
    pub const SHUTDOWN: u64 = 7;
    /// It wants its machine to begin again; `value` as for a shutdown.
    pub const RESET: u64 = 8;
    /// It has done what no core can, and what it cannot be told.
    pub const FAULT: u64 = 9;
    /// There is no memory left for the page at `address`.
    pub const NO_MEMORY: u64 = 10;
    /// The monitor's answer to a load or store: there is no such device. The guest takes an exception.
    pub const NOTHING: u64 = 11;
}

impl Exit {
    /// As the kernel and the monitor exchange it.
    pub fn to_words(self) -> [u64; EXIT_WORDS] {
        [self.vcpu, self.reason, self.address, self.value, self.bytes, self.pc, 0, 0]
    }

    /// What these words say.
    pub fn from_words(words: [u64; EXIT_WORDS]) -> Self {
        let [vcpu, reason, address, value, bytes, pc, ..] = words;
        Self { vcpu, reason, address, value, bytes, pc }
    }
}
