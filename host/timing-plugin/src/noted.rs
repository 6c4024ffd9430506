//! Accesses, one by one, for `--accesses`: calls beside those of the model, which runs that are not asked for them have not got. They
//! change nothing in the simulation.

use motet_coherence::{Kind, LINE_SIZE};
use motet_plugin_api::{Access, Block, Condition, Direction, Instruction, Physical, Vcpu};
use motet_record::Accesses;

use crate::{PLUGIN, Plugin, VcpuTime, atomics};

/// Lets translated code call for each line of a block.
pub fn report_fetches(plugin: &Plugin, block: &Block<'_>, lines: &[u64]) {
    if plugin.accesses.is_none() {
        return;
    }
    let always = plugin.times.word(std::mem::offset_of!(VcpuTime, counts));
    for &line in lines {
        block.call_if(always, Condition::AtLeast, 0, fetched, line as usize);
    }
}

/// Lets translated code call for each access of an instruction.
pub fn report_accesses(plugin: &Plugin, instruction: &Instruction<'_>, accesses: atomics::Accesses) {
    if plugin.accesses.is_none() {
        return;
    }
    match accesses {
        atomics::Accesses::AsReported => {
            instruction.call_on_access(Direction::Load, loaded);
            instruction.call_on_access(Direction::Store, stored);
        }
        atomics::Accesses::Atomic => instruction.call_on_access(Direction::Store, updated),
        atomics::Accesses::StoreConditional => instruction.call_on_access(Direction::Store, stored),
    }
}

fn fetched(vcpu: &mut Vcpu, line: usize) {
    if let Some((plugin, accesses, core)) = under_way(vcpu) {
        note(plugin, accesses, core, Kind::Fetch, line as u64);
    }
}

fn loaded(mut vcpu: Vcpu, access: Access<'_>) {
    accessed(&mut vcpu, Kind::Load, &access);
}

fn stored(mut vcpu: Vcpu, access: Access<'_>) {
    accessed(&mut vcpu, Kind::Store, &access);
}

fn updated(mut vcpu: Vcpu, access: Access<'_>) {
    accessed(&mut vcpu, Kind::Atomic, &access);
}

/// An access across lines is one for each line, as it is to the model.
fn accessed(vcpu: &mut Vcpu, kind: Kind, access: &Access<'_>) {
    let Some((plugin, accesses, core)) = under_way(vcpu) else { return };
    // Devices' registers are no memory.
    let Some(Physical::Memory(first)) = access.physical() else { return };
    let last = first + u64::from(access.size()) - 1;
    note(plugin, accesses, core, kind, first);
    if first / LINE_SIZE != last / LINE_SIZE {
        note(plugin, accesses, core, kind, last / LINE_SIZE * LINE_SIZE);
    }
}

/// The core that a virtual CPU is, if its accesses are asked for now.
fn under_way(vcpu: &Vcpu) -> Option<(&'static Plugin, &'static Accesses<'static>, usize)> {
    let plugin = PLUGIN.get()?;
    let accesses = plugin.accesses.as_ref().filter(|accesses| accesses.is_open())?;
    let core = plugin.core(vcpu).filter(|_| !plugin.timing.is_stopped())?;
    Some((plugin, accesses, plugin.number(core)))
}

fn note(plugin: &Plugin, accesses: &Accesses<'_>, core: usize, kind: Kind, local: u64) {
    // Firmware lies elsewhere.
    if let Some(address) = plugin.model.config().islands[plugin.island].global(kind, local) {
        accesses.note(core, kind, address);
    }
}
