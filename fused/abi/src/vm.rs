//! `/dev/vm`: the interface between a monitor and the kernel, the same on every ISA. An open file of it is a virtual machine.
//!
//! Bytes that are written to the file are its console's output for the host (`motet vm console`); reads return what the host has typed.
//!
//! All structures are words of 64 bits.

use motet_layout::Isa;

use crate::elf::isa_of_machine;

/// `ioctl(file, MEMORY, [start, bytes, fd, offset])`: from the guest's physical address `start` on, its memory is what the file in memory `fd` (a memfd, or one of `/dev/shm`) has
/// from `offset` on. Nobody shortens the file meanwhile. Page-aligned; pieces do not overlap.
pub const MEMORY: u32 = 0x4d70;
/// `ioctl(file, VCPU)`: makes a core; its number, from 0 on.
pub const VCPU: u32 = 0x4d71;
/// `ioctl(file, START, [vcpu, pc, first, second])`: a core that is stopped begins at `pc`, with these arguments in the registers where
/// functions have their first two.
pub const START: u32 = 0x4d72;
/// `ioctl(file, RUN, exit)`: the calling thread is that core, until something needs the monitor: see [`Exit`].
/// `EBUSY`: another thread is the core, also while that thread waits or does not run.
pub const RUN: u32 = 0x4d73;
/// `ioctl(file, LINE, line | LINE_HIGH)`: an interrupt line goes high, or low. RISC-V: `line` is the number of a core, whose external
/// interrupt it is. AArch64: `id << LINE_INTERRUPT_SHIFT`, the id of an interrupt that the cores share (32 to 95), at the machine's controller.
pub const LINE: u32 = 0x4d74;
/// See [`LINE`].
pub const LINE_INTERRUPT_SHIFT: u32 = 8;
/// Bit of [`LINE`]'s argument: high.
pub const LINE_HIGH: u64 = 1 << 32;

/// Bytes of an image by which [`image_isa`] knows it.
pub const IMAGE_HEAD_BYTES: usize = 64;

/// The instruction set of an image for a machine, an ELF file or a Linux kernel (Documentation/arch: riscv/boot-image-header.rst,
/// arm64/booting.rst), by its first bytes. `None`: it is neither, or for none that machines have.
pub fn image_isa(head: &[u8]) -> Option<Isa> {
    const ELF_MACHINE: usize = 18;
    const LINUX_MAGIC: usize = 0x38;
    if head.starts_with(b"\x7fELF") {
        let machine = u16::from_le_bytes(*head.get(ELF_MACHINE..)?.first_chunk()?);
        return isa_of_machine(machine).filter(|isa| matches!(isa, Isa::RiscV64 | Isa::AArch64));
    }
    match head.get(LINUX_MAGIC..)?.first_chunk::<4>()? {
        b"RSC\x05" => Some(Isa::RiscV64),
        b"ARM\x64" => Some(Isa::AArch64),
        _ => None,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_what_it_is_for() {
        let mut head = [0; IMAGE_HEAD_BYTES];
        assert_eq!(image_isa(&head), None);
        for (magic, isa) in [(b"ARM\x64", Isa::AArch64), (b"RSC\x05", Isa::RiscV64)] {
            head[0x38..0x3c].copy_from_slice(magic);
            assert_eq!(image_isa(&head), Some(isa));
            assert_eq!(image_isa(&head[..0x3b]), None);
        }
        head[..4].copy_from_slice(b"\x7fELF");
        for (machine, isa) in [(183, Some(Isa::AArch64)), (243, Some(Isa::RiscV64)), (62, None), (0, None)] {
            head[18] = machine;
            assert_eq!(image_isa(&head), isa, "e_machine {machine}, whatever is behind");
        }
        assert_eq!((image_isa(&head[..19]), image_isa(b"")), (None, None));
    }
}
