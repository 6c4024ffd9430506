//! Why a guest stopped: what of it the kernel, or who made the guest, has to do for it.
//!
//! Registers are in the guest's frame; what only the trap says is here, in terms of no ISA where there are any.

use motet_layout::UserFrame;

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
        word: GuestWord,
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

/// An instruction of a guest, packed for the same reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, packed(2))]
pub struct GuestWord(u32);

impl GuestWord {
    /// The instruction as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<u32> for GuestWord {
    fn from(word: u32) -> Self {
        Self(word)
    }
}

/// An access of a guest to its physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestAccess {
    /// Its kind.
    pub kind: Access,
    /// Bytes, 0 when the core does not tell: then the instruction has to be looked at.
    pub size_bytes: u8,
    /// The register (by its number in the frame, or [`ZERO_REGISTER`]) that is loaded or stored, when the core tells.
    pub register: Option<u8>,
    /// What a loaded value becomes in its register.
    pub widen: Widen,
    /// Bytes of the instruction, 0 when the core does not tell.
    pub instruction_bytes: u8,
}

/// How a value that is loaded fills its register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Widen {
    /// The bits beyond it are 0.
    Zero,
    /// They are copies of its sign, up to 32; the others are 0 (AArch64 LDRSB, LDRSH to a W register).
    Sign32,
    /// They are copies of its sign.
    Sign64,
}

/// A register of the ISA that is 0 whatever is written to it (RISC-V x0, AArch64 XZR): no frame has it.
pub const ZERO_REGISTER: u8 = u8::MAX;

/// A general register of a guest, by its number in the frame or [`ZERO_REGISTER`].
pub fn register(frame: &UserFrame, number: u8) -> u64 {
    if number == ZERO_REGISTER { 0 } else { frame.regs[usize::from(number)].get() }
}

/// Sets it.
pub fn set_register(frame: &UserFrame, number: u8, value: u64) {
    if number != ZERO_REGISTER {
        frame.regs[usize::from(number)].set(value);
    }
}

impl GuestAccess {
    /// An access of which the core tells no more: the instruction has to be looked at.
    pub const fn unknown(kind: Access) -> Self {
        Self { kind, size_bytes: 0, register: None, widen: Widen::Zero, instruction_bytes: 0 }
    }

    /// What is in the register of a load of `value`, of whose bits those of the access count.
    pub const fn widened(self, value: u64) -> u64 {
        let unused = 64_u32.saturating_sub(8 * self.size_bytes as u32) & 63;
        let signed = ((value << unused) as i64 >> unused) as u64;
        match self.widen {
            Widen::Zero => value << unused >> unused,
            Widen::Sign32 => signed & 0xffff_ffff,
            Widen::Sign64 => signed,
        }
    }
}

/// A set of a guest's interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuestInterrupts(pub u32);

impl GuestInterrupts {
    /// None.
    pub const EMPTY: Self = Self(0);
    /// Another core of its machine wants it.
    pub const SOFTWARE: Self = Self(1);
    /// Its timer passed its deadline.
    pub const TIMER: Self = Self(2);
    /// Of a device.
    pub const EXTERNAL: Self = Self(4);

    /// Whether all of `those` are among these.
    pub const fn contains(self, those: Self) -> bool {
        self.0 & those.0 == those.0
    }

    /// Both sets together.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These but for those.
    pub const fn without(self, those: Self) -> Self {
        Self(self.0 & !those.0)
    }
}

/// An exception that its hypervisor lets a guest take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuestException {
    /// It does not have the instruction, whose bytes these are (0: not known).
    IllegalInstruction {
        /// Its bytes.
        word: u32,
    },
    /// Nothing answers at the address of its last [`GuestTrap::Fault`], which did this.
    Access(Access),
}

/// An access of a guest to a system register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemRegister {
    /// Its number, as instructions of the ISA encode it (RISC-V: of the CSR; AArch64: op0, op1, CRn, CRm, op2).
    pub number: u16,
    /// Whether it is written.
    pub is_write: bool,
    /// The general register (by its number in the frame, or [`ZERO_REGISTER`]) that is written to it or gets its value.
    pub register: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_values_fill_their_registers() {
        let load = |size_bytes, widen| GuestAccess {
            size_bytes,
            register: Some(1),
            widen,
            ..GuestAccess::unknown(Access::Read)
        };
        for (size, widen, expected) in [
            (1, Widen::Zero, 0xf8),
            (1, Widen::Sign32, 0xffff_fff8),
            (1, Widen::Sign64, 0xffff_ffff_ffff_fff8),
            (2, Widen::Zero, 0x76f8),
            (2, Widen::Sign64, 0x76f8),
            (4, Widen::Zero, 0x8432_76f8),
            (4, Widen::Sign64, 0xffff_ffff_8432_76f8),
            (8, Widen::Zero, 0x1234_5678_8432_76f8),
        ] {
            assert_eq!(load(size, widen).widened(0x1234_5678_8432_76f8), expected, "{size} {widen:?}");
        }
    }
}
