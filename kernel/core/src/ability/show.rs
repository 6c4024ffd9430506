//! What programs are told of extensions: those that every core has on which the program may run, so that it finds them wherever it runs.

use core::fmt;

use motet_layout::sync::Ordering;

use motet_abi::{
    extension::{Described, ExtensionSet},
    system,
};
use motet_hal::{Machine, Text};
use motet_layout::{CoreId, Isa, ThreadRecord};
use motet_protocol::{
    cores::{all_cores, core_record, cores_of},
    run_queue::{self, allowed},
};

use super::place::{self, affinity};
use crate::cpu::Cpu;

/// Longest description of a core (`IslandRecord::extensions`).
const DESCRIPTION_MAX: usize = 448;

/// Publishes this core's extensions, and what programs on it are told. Called before the core runs anything.
pub fn announce<M: Machine>(cpu: &Cpu<M>) {
    let withheld = place::announce(cpu);
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

/// The extensions of a core of any ISA, by the names of machine files.
pub fn of_any_core<M: Machine>(cpu: &Cpu<M>, core: CoreId) -> ExtensionSet {
    let isa = cpu.isa_of(core).unwrap_or(M::ISA);
    ExtensionSet::from_bits(isa, core_record(cpu, core).capabilities.get())
}

/// Whether all cores of the set's ISA have all of it, on islands that have joined.
pub fn all_have<M: Machine>(cpu: &Cpu<M>, set: ExtensionSet) -> bool {
    let mut cores = cpu.islands_of(set.isa()).flat_map(|island| cores_of(cpu, island));
    cores.all(|core| set.is_subset(of_any_core(cpu, core)))
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

/// A thread's moves between cores because of extensions, as `/proc/PID/migrations` shows them.
pub struct Migrations {
    needs: Option<ExtensionSet>,
    there: u64,
    back: u64,
    stayed: u64,
    patience_slices: u32,
    opened: u64,
    moving_ns: u64,
    sent: u64,
    called_home: u64,
    shared: u64,
    displaced: u64,
    stays: bool,
}

impl Migrations {
    /// The counts of a thread's moves.
    pub fn of(thread: &ThreadRecord) -> Self {
        let moves = &thread.moves;
        Self {
            needs: Isa::from_raw(thread.needs_isa.get()).map(|isa| ExtensionSet::from_bits(isa, thread.needs.get())),
            there: moves.there.get(),
            back: moves.back.get(),
            stayed: moves.stayed.get(),
            patience_slices: moves.patience_slices.get(),
            opened: moves.opened.get(),
            moving_ns: moves.moving_ns.get(),
            sent: moves.sent.get(),
            called_home: moves.called_home.get(),
            shared: thread.shared.get(),
            displaced: thread.displaced.get(),
            stays: moves.stays.get() != 0,
        }
    }

    /// Writes them, one a line.
    ///
    /// # Errors
    /// `out`'s.
    pub fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        match self.needs.filter(|needs| !needs.is_empty()) {
            Some(needs) => writeln!(out, "needs\t\t{needs}")?,
            None => writeln!(out, "needs\t\tnothing")?,
        }
        writeln!(out, "to_extension\t{}", self.there)?;
        writeln!(out, "back\t\t{}", self.back)?;
        writeln!(out, "stayed\t\t{}", self.stayed)?;
        writeln!(out, "patience_slices\t{}", self.patience_slices)?;
        writeln!(out, "opened\t\t{}", self.opened)?;
        writeln!(out, "moving_ns\t{}", self.moving_ns)?;
        writeln!(out, "to_hidden\t{}", self.sent)?;
        writeln!(out, "called_home\t{}", self.called_home)?;
        writeln!(out, "to_idle\t\t{}", self.shared)?;
        writeln!(out, "hot_removal\t{}", self.displaced)?;
        writeln!(out, "hint\t\t{}", if self.stays { "stay" } else { "none" })
    }
}
