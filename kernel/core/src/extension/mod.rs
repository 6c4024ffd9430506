//! Extensions of an ISA that only some of its cores have: threads go where their instructions are.
//!
//! A thread starts anywhere. When it meets an instruction that its core lacks, the trap says which extension has it
//! ([`motet_abi::extension`]); from then on the thread *needs* that one, and runs on cores that have it: system calls, page faults and
//! signals are served there. When it has not used what it needed for a while, it needs it no longer, and goes back.
//!
//! Vector registers are closed at the end of each slice in which they were open, so their next use is seen. Those that every core of an
//! ISA has need not be, and may stay open ([`motet_hal::Machine::keep_vectors_open`]).
//!
//! Protocol page, with the states of a thread: `docs/protocols/extensions.md`.

mod area;
pub mod away;
mod back;
mod hint;
mod illegal;
mod place;
mod show;
mod values;

pub use area::{copy as copy_area, for_registers, release as release_area};
pub use back::{end_slice, gives_way};
pub use hint::{Migrations, done, need};
pub use illegal::{got_values, illegal};
pub use place::{
    LastAble, affinity, announce, before_load, core_for, find_scarce, forget, has_used_vectors, inherit,
    longest_vectors, need_nothing, reserve_least_loaded, take,
};
pub use show::{cpuinfo, hwcap, hwprobe, of_any_core};
pub use values::{Room, Seen, Values, writes};

use motet_abi::extension::{AArch64, Extension, ExtensionSet, RiscV64, X86_64};
use motet_hal::Machine;
use motet_layout::{CoreRecord, Isa, ThreadRecord};

/// What a core of this ISA has.
fn of_core<M: Machine>(record: &CoreRecord) -> ExtensionSet {
    ExtensionSet::from_bits(M::ISA, record.capabilities.get())
}

/// What a thread needs beyond what all cores of this ISA have. While it runs a function of another ISA, it needs what it needed at home.
fn of_thread<M: Machine>(thread: &ThreadRecord) -> ExtensionSet {
    let bits = if thread.needs_isa.get() == M::ISA as u32 { thread.needs.get() } else { 0 };
    ExtensionSet::from_bits(M::ISA, bits)
}

/// The extension whose registers the HAL opens and closes.
fn vectors<M: Machine>() -> Option<Extension> {
    vectors_of(M::ISA)
}

/// The same of any ISA.
const fn vectors_of(isa: Isa) -> Option<Extension> {
    Some(match isa {
        Isa::X86_64 => Extension::X86_64(X86_64::Avx),
        Isa::AArch64 => Extension::AArch64(AArch64::Sve),
        Isa::RiscV64 => Extension::RiscV64(RiscV64::V),
        Isa::Hosted => return None,
    })
}

/// Whether any of these instructions use the registers that the HAL opens and closes.
fn uses_vectors<M: Machine>(set: ExtensionSet) -> bool {
    const fn users_of(isa: Isa) -> ExtensionSet {
        match vectors_of(isa) {
            Some(vectors) => ExtensionSet::implying(vectors),
            None => ExtensionSet::empty(isa),
        }
    }
    !set.intersection(const { users_of(M::ISA) }).is_empty()
}
