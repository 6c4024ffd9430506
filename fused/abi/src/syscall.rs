//! System calls by a neutral name, and their numbers on each ISA.

use motet_layout::Isa;

pub use crate::tables::Syscall;
use crate::tables::{AARCH64, RISCV64, X86_64};

/// Declares [`Syscall`] with its names.
macro_rules! syscalls {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// Every system call of Linux on any of our ISAs, by the name in Linux's tables.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Syscall { $($variant),* }

        pub(crate) static ALL: &[Syscall] = &[$(Syscall::$variant),*];
        pub(crate) static NAMES: &[&str] = &[$($name),*];
    };
}
pub(crate) use syscalls;

/// Declares an ISA's table: the calls by number.
macro_rules! numbers {
    ($name:ident: $len:literal; $($number:literal $call:ident),* $(,)?) => {
        pub(crate) static $name: [Option<Syscall>; $len] = {
            let mut table = [None; $len];
            $(table[$number] = Some(Syscall::$call);)*
            table
        };
    };
}
pub(crate) use numbers;

const fn table(isa: Isa) -> &'static [Option<Syscall>] {
    match isa {
        Isa::X86_64 => &X86_64,
        // The hosted ISA borrows the generic table.
        Isa::AArch64 | Isa::Hosted => &AARCH64,
        Isa::RiscV64 => &RISCV64,
    }
}

impl Syscall {
    /// The call with this number on `isa`.
    #[inline]
    pub fn decode(isa: Isa, number: u64) -> Option<Self> {
        table(isa).get(usize::try_from(number).ok()?).copied().flatten()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        crate::tables::NAMES[self as usize]
    }

    /// The call with this number among [`all`](Self::all), whatever the instruction set.
    pub fn from_index(index: u32) -> Option<Self> {
        Self::all().get(index as usize).copied()
    }

    /// The call of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|call| call.name() == name)
    }

    /// Its number on `isa`, `None` where the ISA does not have it. Slow: for tests and tools.
    pub fn number(self, isa: Isa) -> Option<u32> {
        table(isa).iter().position(|&call| call == Some(self)).map(|n| n as u32)
    }

    /// All calls, ascending by name.
    pub fn all() -> &'static [Self] {
        crate::tables::ALL
    }
}
