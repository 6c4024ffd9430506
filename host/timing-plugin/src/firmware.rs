//! Motet's firmware, which runs in machine mode at addresses of its own, and its hidden harts (docs/firmware.md).
//!
//! It names the hart that it rings by a mark, as kernels do. A hidden hart announces itself when it falls asleep for the first time: as a core
//! that sleeps, for which nobody waits.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use motet_layout::marks;
use motet_plugin_api::{Guest, Instruction, Vcpu};

use crate::{PLUGIN, Plugin, mark_executed, operands, takes_part, translated, traps};

/// Bytes of private memory, from its start, that are the firmware's.
const LEN: u64 = 2 << 20;

/// The virtual CPUs that have said that they are hidden harts, and have not fallen asleep since: a bit each.
static ABOUT_TO_WAIT: AtomicU64 = AtomicU64::new(0);

/// Where the firmware lies on an island whose private memory starts here.
pub fn memory(private: u64) -> Range<u64> {
    private..private + LEN
}

/// Lets translated code report what the firmware does beside executing instructions and accessing memory.
pub fn report(plugin: &Plugin, instruction: &Instruction<'_>, code: &[u8], mark: Option<u8>) {
    match mark {
        Some(mark @ (marks::WOKE | marks::HIDDEN)) => instruction.call(mark_executed, mark.into()),
        Some(marks::RING_HART) => instruction.call_with_guest(rings, 0),
        _ => {}
    }
    traps::report(plugin, instruction, code);
    translated::report_tables(plugin, instruction, code);
}

/// The firmware is about to ring a hart, whose number is that of its virtual CPU.
fn rings(vcpu: &mut Vcpu, guest: &Guest<'_>, _data: usize) {
    let Some(plugin) = PLUGIN.get() else { return };
    let target = operands::named(guest, "a0").and_then(|hart| plugin.core_at(usize::try_from(hart).ok()?));
    let (Some(core), Some(target)) = (plugin.core(vcpu), target) else { return };
    plugin.is_about_to_ring(vcpu);
    plugin.timing.note_ring_of(core, target, plugin.now_ps(vcpu));
}

/// A hart says that it is hidden.
pub fn hart_waits(plugin: &Plugin, vcpu: &Vcpu) {
    if plugin.hidden.contains(&vcpu.index()) {
        ABOUT_TO_WAIT.fetch_or(1 << vcpu.index(), Relaxed);
    }
}

/// A virtual CPU sleeps that takes no part in the machine's time yet; QEMU's big lock is held.
pub fn fell_asleep(plugin: &'static Plugin, vcpu: &mut Vcpu) {
    if plugin.hidden.contains(&vcpu.index()) && ABOUT_TO_WAIT.load(Relaxed) >> vcpu.index() & 1 != 0 {
        let core = plugin.first_core + vcpu.index();
        takes_part(plugin, vcpu, core);
        // Now, because QEMU may wake the virtual CPU for reasons of its own, or not, and it then falls asleep again.
        plugin.sample(core, motet_timing::PS_PER_NS);
        plugin.timing.announce_asleep(core);
    }
}
