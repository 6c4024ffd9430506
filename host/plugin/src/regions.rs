//! Regions of interest: marks that programs execute, with the region's name.

use motet_record::{Executing, NAME_MAX, Name, Probe, WarningKind};

use crate::{Plugin, guest, qemu::Vcpu};

/// A program on `core` marks the beginning or the end of a region. `ahead`: instructions from the mark on that are
/// counted already.
pub fn marked(plugin: &Plugin, vcpu: Vcpu, core: usize, begins: bool, ahead: u64) {
    if plugin.timing.is_stopped() {
        return;
    }
    let Some(name) = name(plugin) else { return };
    let counts = || {
        // Its time goes on from where it was: a region must not move the core's next boundary.
        let (now_ps, instructions, stall_ps) = plugin.times.update(vcpu, |time| {
            let now_ps = time.base_ps.wrapping_add(time.since_ps);
            (now_ps, std::mem::take(&mut time.instructions), std::mem::take(&mut time.stall_ps))
        });
        plugin.timing.book(core, instructions, stall_ps);
        Probe::new(plugin.clocks, &plugin.model).during(Executing {
            core: plugin.number(core),
            now_ps: now_ps.saturating_sub(plugin.block_ps(ahead)),
            instructions_ahead: ahead,
        })
    };
    if begins { plugin.record.begin(&name, counts) } else { plugin.record.end(&name, counts) }
}

/// The name that the program has put into its argument registers.
fn name(plugin: &Plugin) -> Option<Name> {
    let [address, len] = guest::argument_registers(plugin.isa)?;
    let wanted = (len as usize).min(NAME_MAX);
    let Some(bytes) = guest::memory(address, wanted) else {
        plugin.record.warn(WarningKind::Unreadable, &Name::of(format!("{address:#x}").as_bytes()).0);
        return None;
    };
    let (name, kept) = Name::of(&bytes);
    if !kept || len as usize > NAME_MAX {
        plugin.record.warn(WarningKind::Renamed, &name);
    }
    Some(name)
}
