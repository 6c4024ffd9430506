//! Why a guest stopped: what of it the kernel, or who made the guest, has to do for it.
//!
//! Registers are in the guest's frame; what only the trap says is here, in terms of no ISA where there are any.

use crate::Access;

/// What a guest did that its virtual machine cannot do by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuestTrap {
    /// It calls its hypervisor (RISC-V ECALL from VS-mode, AArch64 HVC or SMC); number and arguments are in the frame, `pc` is after
    /// the call.
    Hypercall {
        /// Immediate of the instruction, 0 if it has none.
        immediate: u16,
    },
    /// An address of the guest that its second stage does not translate, or not for this; `pc` is at the instruction.
    Fault {
        /// What it did there.
        access: GuestAccess,
        /// The guest's physical address.
        address: GuestAddress,
    },
    /// It reads or writes a system register that it does not have; `pc` is at the instruction.
    SystemRegister(SystemRegister),
    /// It has nothing to do until an interrupt; `pc` is after the instruction.
    WaitForInterrupt,
    /// An instruction that guests do not have; `pc` is at it.
    IllegalInstruction {
        /// Its bytes, little-endian, if the core tells them; 0: it does not.
        word: u32,
    },
    /// An error of the memory system, or an exception that the architecture does not tell of guests.
    BadAddress {
        /// The guest's physical address, when known.
        address: GuestAddress,
    },
}

/// An address that a guest takes for a physical one. Packed, so that a [`Trap`](crate::Trap) with one is not longer than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, packed(2))]
pub struct GuestAddress(u64);

impl GuestAddress {
    /// The address as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for GuestAddress {
    fn from(address: u64) -> Self {
        Self(address)
    }
}

/// An access of a guest to its physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestAccess {
    /// Its kind.
    pub kind: Access,
    /// Bytes, 0 when the core does not tell: then the instruction has to be looked at.
    pub size_bytes: u8,
    /// The register (by its number in the frame) that is loaded or stored, when the core tells.
    pub register: Option<u8>,
}

/// An access of a guest to a system register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemRegister {
    /// Its number, as instructions of the ISA encode it (RISC-V: of the CSR; AArch64: op0, op1, CRn, CRm, op2).
    pub number: u16,
    /// Whether it is written.
    pub is_write: bool,
    /// The general register (by its number in the frame) that is written to it or gets its value.
    pub register: u8,
}
