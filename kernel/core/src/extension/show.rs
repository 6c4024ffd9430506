//! What programs are told of extensions: what every core has on which they may run, so that what they ask for is never missed.

use core::fmt;

use motet_layout::sync::Ordering;

use motet_abi::{
    extension::{Described, ExtensionSet},
    system,
};
use motet_hal::{Machine, Text};
use motet_layout::{CoreId, Isa, ThreadRecord};
use motet_protocol::{
    cores::{all_cores, core_record},
    run_queue::{self, allowed},
};

use super::place::affinity;
use crate::cpu::Cpu;

/// Longest description of a core (`IslandRecord::extensions`).
const DESCRIPTION_MAX: usize = 448;

/// Writes down what programs on this core are told.
pub fn announce<M: Machine>(cpu: &Cpu<M>, withheld: ExtensionSet) {
    let described = Described { isa: M::ISA, text: cpu.machine.extensions(), withheld };
    let shown = Text::<DESCRIPTION_MAX>::of(format_args!("{described}"));
    let (hwcap, hwcap2) = system::hwcap(M::ISA, shown.as_str());
    cpu.own.hwcap[0].set(hwcap);
    cpu.own.hwcap[1].set(hwcap2);
    cpu.own.probe.set(if M::ISA == Isa::RiscV64 { system::riscv_extensions(shown.as_str()) } else { 0 });
}

/// Writes the flags of a core.
///
/// # Errors
/// `out`'s.
pub fn cpuinfo<M: Machine>(cpu: &Cpu<M>, core: CoreId, out: &mut impl fmt::Write) -> fmt::Result {
    let record = &cpu.pool.header().islands[core.island().index()];
    let bytes = record.extensions.each_ref().map(|byte| byte.load(Ordering::Relaxed));
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let Some(isa) = cpu.isa_of(core) else { return Ok(()) };
    let withheld = ExtensionSet::from_bits(isa, core_record(cpu, core).withheld.get());
    let text = core::str::from_utf8(&bytes[..len]).unwrap_or("");
    write!(out, "{}", Described { isa, text, withheld })
}

/// What a core of any ISA has, by the names of machine files.
pub fn of_any_core<M: Machine>(cpu: &Cpu<M>, core: CoreId) -> ExtensionSet {
    let isa = cpu.isa_of(core).unwrap_or(M::ISA);
    ExtensionSet::from_bits(isa, core_record(cpu, core).capabilities.get())
}

/// AT_HWCAP and AT_HWCAP2 of a program that a thread begins.
pub fn hwcap<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, isa: Isa) -> [u64; 2] {
    let of_isa = || all_cores(cpu).filter(|&core| cpu.isa_of(core) == Some(isa));
    // An affinity that names no core of the program's ISA does not bind it.
    let is_bound = of_isa().any(|core| allowed(affinity(thread), core));
    let records = of_isa().filter(|&core| !is_bound || allowed(affinity(thread), core));
    let all = records.map(|core| core_record(cpu, core).hwcap.each_ref().map(motet_layout::Cell64::get));
    all.reduce(|all, one| [all[0] & one[0], all[1] & one[1]]).unwrap_or_default()
}

/// What `riscv_hwprobe` says of these cores; `None`: none of them is RISC-V.
pub fn hwprobe<M: Machine>(cpu: &Cpu<M>, mask: [u64; 2]) -> Option<u64> {
    let asked = all_cores(cpu).filter(|&core| cpu.isa_of(core) == Some(Isa::RiscV64) && run_queue::allowed(mask, core));
    asked.map(|core| core_record(cpu, core).probe.get()).reduce(|all, one| all & one)
}
