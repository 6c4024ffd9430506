//! `/sys/devices/system/node`: islands as the nodes of `mbind`, each with its cores and the memory near to it, as in Linux's `Documentation/ABI/stable/sysfs-devices-node`.

use core::fmt::{Result, Write};

use motet_hal::Machine;
use motet_layout::{IslandId, PAGE_SIZE, sync::Ordering};
use motet_protocol::memory::{NEAR, block, distance};

use super::{Entry as E, ProcNode, ROOT, cores, machine::islands, number, text::Text};
use crate::cpu::Cpu;

/// What is before the number in a directory's name.
pub const PREFIX: &str = "node";
/// How far memory is, as firmware's tables say it (ACPI, SLIT): an island's own, and all else.
const LOCAL: u32 = 10;
const REMOTE: u32 = 20;
const KIB: u64 = 1024;

fn node(island: IslandId) -> ProcNode {
    ProcNode { entry: E::Node, tasks_of: u32::from(island.0), ..ROOT }
}

/// The directory of that name.
pub fn named<M: Machine>(cpu: &Cpu<M>, name: &[u8]) -> Option<ProcNode> {
    let id = IslandId::from_raw(number(name.strip_prefix(PREFIX.as_bytes())?)?)?;
    islands(cpu).any(|(island, _)| island == id).then(|| node(id))
}

/// The first one from `from` on.
pub fn next<M: Machine>(cpu: &Cpu<M>, from: u32) -> Option<(u32, ProcNode)> {
    let (island, _) = islands(cpu).find(|(island, _)| u32::from(island.0) >= from)?;
    Some((u32::from(island.0), node(island)))
}

/// A file of them all, or of one.
pub fn show<M: Machine>(cpu: &Cpu<M>, file: ProcNode, out: &mut Text<M>) -> Result {
    let Some(island) = IslandId::from_raw(file.tasks_of) else { return Ok(()) };
    match file.entry {
        E::NodeCpulist => cores::write_island(cpu, island, true, out),
        E::NodeCpumap => cores::write_island(cpu, island, false, out),
        E::NodeDistance => write_distances(cpu, island, out),
        E::NodeMeminfo => write_memory(cpu, island, out),
        _ => write_all(cpu, out),
    }
}

/// The numbers of all nodes.
fn write_all<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    cores::write_list(islands(cpu).map(|(island, _)| island.index()), out)
}

/// Two lines of `status`: a process may have memory near any island.
pub fn write_allowed<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let mask = islands(cpu).fold(0u32, |mask, (island, _)| mask | 1 << island.index());
    write!(out, "Mems_allowed:\t{mask:x}\nMems_allowed_list:\t")?;
    write_all(cpu, out)
}

fn write_distances<M: Machine>(cpu: &Cpu<M>, from: IslandId, out: &mut Text<M>) -> Result {
    let mut separator = "";
    for (to, _) in islands(cpu) {
        write!(out, "{separator}{}", if to == from { LOCAL } else { REMOTE })?;
        separator = " ";
    }
    out.write_char('\n')
}

/// What an island's allocator has, and what nobody has that is near to this island before others.
fn write_memory<M: Machine>(cpu: &Cpu<M>, island: IslandId, out: &mut Text<M>) -> Result {
    let state = &cpu.pool.header().memory;
    let share = &state.islands[island.index()];
    let first_near = |near: u32| islands(cpu).map(|(id, _)| id).find(|id| distance(near, id.index()) == NEAR);
    let unowned = (0..state.block_count.get())
        .map(|index| block(cpu.pool, index))
        .filter(|block| block.owner.load(Ordering::Relaxed) == 0 && first_near(block.near.get()) == Some(island));
    let free = unowned.count() as u64 * u64::from(state.block_frames.get());
    let owned = u64::from(share.owned_frames.load(Ordering::Relaxed));
    let used = owned.saturating_sub(u64::from(share.free_frames.load(Ordering::Relaxed)));
    let total = owned + free;
    for (name, frames) in [("MemTotal", total), ("MemFree", total - used), ("MemUsed", used)] {
        let kib = frames * PAGE_SIZE / KIB;
        writeln!(out, "Node {} {name}:{kib:>1$} kB", island.index(), 23 - name.len())?;
    }
    Ok(())
}
