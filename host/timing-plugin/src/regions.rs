//! Regions of interest: marks that programs execute, with the region's name.

use std::cell::OnceCell;

use motet_layout::Isa;
use motet_plugin_api::{Guest, Register, Vcpu};
use motet_record::{Accesses, Executing, NAME_MAX, Name, Probe, WarningKind};

use crate::{Plugin, translated::Ahead};

thread_local! {
    /// The argument registers of this thread's virtual CPU.
    static ARGUMENTS: OnceCell<[Option<Register>; 2]> = const { OnceCell::new() };
}

/// A program on `core` marks the beginning or the end of a region. `ahead`: what is counted already and comes later.
pub fn marked(plugin: &Plugin, vcpu: &mut Vcpu, guest: &Guest<'_>, core: usize, begins: bool, ahead: Ahead) {
    if plugin.timing.is_stopped() {
        return;
    }
    let Some(name) = name(plugin, guest) else { return };
    // Clocks come closer to each other from here on.
    plugin.timing.note_exchange(plugin.now_ps(vcpu));
    let counts = || {
        // Its time goes on from where it was: a region must not move the core's next boundary.
        let now_ps = plugin.now_ps(vcpu);
        plugin.book(vcpu, core);
        Probe::new(plugin.clocks, &plugin.model).during(Executing {
            core: plugin.number(core),
            now_ps: now_ps.saturating_sub(ahead.time_ps),
            instructions_ahead: ahead.instructions,
        })
    };
    if begins {
        plugin.record.begin(&name, counts);
        plugin.accesses.iter().for_each(Accesses::enter);
    } else if plugin.record.end(&name, counts) {
        plugin.accesses.iter().for_each(Accesses::leave);
    }
}

/// The name that the program has put into its argument registers.
fn name(plugin: &Plugin, guest: &Guest<'_>) -> Option<Name> {
    let [address, len] = argument_registers(plugin.isa, guest)?;
    let wanted = (len as usize).min(NAME_MAX);
    let Some(bytes) = guest.memory(address, wanted) else {
        plugin.record.warn(WarningKind::Unreadable, &Name::of(format!("{address:#x}").as_bytes()).0);
        return None;
    };
    let (name, kept) = Name::of(&bytes);
    if !kept || len as usize > NAME_MAX {
        plugin.record.warn(WarningKind::Renamed, &name);
    }
    Some(name)
}

/// The first two argument registers of the ISA's C calling convention; `None` when QEMU does not know them.
fn argument_registers(isa: Isa, guest: &Guest<'_>) -> Option<[u64; 2]> {
    let names = match isa {
        Isa::X86_64 => [c"rdi", c"rsi"],
        Isa::AArch64 => [c"x0", c"x1"],
        Isa::RiscV64 | Isa::Hosted => [c"a0", c"a1"],
    };
    let [first, second] = ARGUMENTS.with(|known| *known.get_or_init(|| guest.find(names)));
    Some([guest.read(first?)?, guest.read(second?)?])
}
