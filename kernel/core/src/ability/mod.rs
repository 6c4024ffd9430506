//! Abilities of cores: the extensions of an ISA that only some of them have, the cores on which a thread can run because of that, and threads' values in
//! vector registers. `extension` decides what happens to a thread whose core lacks an instruction.

mod area;
mod choice;
pub mod hidden;
mod length;
mod place;
mod promise;
mod show;
mod values;
mod version;

pub use area::{copy as copy_area, for_registers, is_ready as is_area_ready, release as release_area};
pub use choice::{begin as begin_with_length, choose_length, for_program, longest_vectors, need_length, told_length};
pub use length::{has_length, length_of};
pub use place::{
    PATIENCE_SLICES, able_cores, affinity, before_load, core_for, find_common, find_scarce, fits, forget,
    has_used_vectors, inherit, is_able, is_somewhere, keep_way, least_loaded, need_nothing, needs_again, open,
    reserve_least_loaded, set_needs, try_needs,
};
pub use promise::{keep_promise, promise};
pub use show::{Migrations, all_have, announce, cpuinfo, hwcap, hwprobe, of_any_core};
pub use values::{Room, Seen, Values, writes};
pub use version::{begin_ext, change_ext};

use motet_abi::extension::{AArch64, Extension, ExtensionSet, RiscV64, X86_64};
use motet_hal::Machine;
use motet_layout::{AT_LOAD_OPEN, CoreRecord, Isa, ThreadRecord};

/// The extensions that a core of this ISA has.
pub fn of_core<M: Machine>(record: &CoreRecord) -> ExtensionSet {
    ExtensionSet::from_bits(M::ISA, record.capabilities.get())
}

/// Whether every core of a core's instruction set has vector registers, as long as its own.
#[inline(always)]
pub fn has_common_vectors(core: &CoreRecord) -> bool {
    core.at_load.get() & AT_LOAD_OPEN != 0
}

/// The extensions that a thread needs, beyond those of all cores of this ISA. While it runs a function of another ISA, these are the ones that it needed at home.
pub fn of_thread<M: Machine>(thread: &ThreadRecord) -> ExtensionSet {
    let bits = if thread.needs_isa.get() == M::ISA as u32 { thread.needs.get() } else { 0 };
    ExtensionSet::from_bits(M::ISA, bits)
}

/// The extension whose registers the HAL opens and closes.
pub fn vectors<M: Machine>() -> Option<Extension> {
    vectors_of(M::ISA)
}

/// The same of any ISA.
pub const fn vectors_of(isa: Isa) -> Option<Extension> {
    Some(match isa {
        Isa::X86_64 => Extension::X86_64(X86_64::Avx),
        Isa::AArch64 => Extension::AArch64(AArch64::Sve),
        Isa::RiscV64 => Extension::RiscV64(RiscV64::V),
        Isa::Hosted => return None,
    })
}

/// Whether any of these instructions use the registers that the HAL opens and closes.
pub fn uses_vectors<M: Machine>(set: ExtensionSet) -> bool {
    const fn users_of(isa: Isa) -> ExtensionSet {
        match vectors_of(isa) {
            Some(vectors) => ExtensionSet::implying(vectors),
            None => ExtensionSet::empty(isa),
        }
    }
    !set.intersection(const { users_of(M::ISA) }).is_empty()
}
