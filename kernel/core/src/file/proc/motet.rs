//! procfs files that only Motet has: counters per island, and processes with the place where they run.

use core::fmt::{Result, Write};

use motet_layout::sync::{AtomicU64, Ordering};

use motet_hal::Machine;
use motet_layout::{CoreId, CoreRecord, Isa, IslandCounters, IslandMemory, IslandRecord, Peers};
use motet_protocol::{
    memory::{FAR, NEAR, NEUTRAL},
    peer::MessageKind,
};

use super::{
    machine::{NS_PER_S, cores, isa_name, islands},
    next_thread,
    process::Summary,
    text::Text,
};
use crate::{cpu::Cpu, peers};

type Counter = fn(&IslandCounters) -> &AtomicU64;

const COUNTERS: [(&str, Counter); 15] = [
    ("doorbells_rung", |counters| &counters.doorbells_rung),
    ("doorbells_taken", |counters| &counters.doorbells_taken),
    ("foreign_wakeups", |counters| &counters.foreign_wakeups),
    ("arrivals", |counters| &counters.arrivals),
    ("remote_pte_edits", |counters| &counters.remote_pte_edits),
    ("shootdowns", |counters| &counters.shootdowns),
    ("shootdowns_foreign", |counters| &counters.shootdowns_foreign),
    ("blocks_taken", |counters| &counters.blocks_taken),
    ("blocks_returned", |counters| &counters.blocks_returned),
    ("syscalls", |counters| &counters.syscalls),
    ("page_faults", |counters| &counters.page_faults),
    ("context_switches", |counters| &counters.context_switches),
    ("icache_syncs", |counters| &counters.icache_syncs),
    ("clock_steps", |counters| &counters.clock_steps),
    ("clock_step_ns_max", |counters| &counters.clock_step_ns_max),
];

type OfIsland = fn(&IslandRecord) -> &AtomicU64;

/// What follows its users, where pages do.
const FOLLOWED: [(&str, OfIsland); 3] = [
    ("regions_followed", |island| &island.regions_followed),
    ("pages_moved", |island| &island.pages_moved),
    ("pages_replicated", |island| &island.pages_replicated),
];

type OfCore = fn(&CoreRecord) -> u64;

/// What each core counts: an island's cores together.
const OF_CORES: [(&str, OfCore); 2] = [
    ("register_stores", |record| record.register_stores.get()),
    ("short_switches", |record| record.short_switches.get()),
];

type Frames = fn(&IslandMemory) -> u32;

/// An island's share of the pool, and how much of it is memory near to it, near to no island, and near to others only.
const FRAMES: [(&str, Frames); 8] = [
    ("frames_owned", |share| share.owned_frames.load(Ordering::Relaxed)),
    ("frames_free", |share| share.free_frames.load(Ordering::Relaxed)),
    ("frames_near", |share| share.owned_by_distance[NEAR].get()),
    ("frames_near_free", |share| share.free_by_distance[NEAR].get()),
    ("frames_neutral", |share| share.owned_by_distance[NEUTRAL].get()),
    ("frames_neutral_free", |share| share.free_by_distance[NEUTRAL].get()),
    ("frames_far", |share| share.owned_by_distance[FAR].get()),
    ("frames_far_free", |share| share.free_by_distance[FAR].get()),
];

/// `/proc/motet`: a table of counters, an island per column.
pub fn counters<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    write!(out, "{:<20}", "island")?;
    for (id, _) in islands(cpu) {
        write!(out, " {:>12}", id.index())?;
    }
    write!(out, "\n{:<20}", "isa")?;
    for (_, record) in islands(cpu) {
        write!(out, " {:>12}", isa_name(record))?;
    }
    write!(out, "\n{:<20}", "cores")?;
    for (island, _) in islands(cpu) {
        write!(out, " {:>12}", cores(cpu).filter(|(core, _)| core.island() == island).count())?;
    }
    for (name, frames) in FRAMES {
        write!(out, "\n{name:<20}")?;
        for (id, _) in islands(cpu) {
            write!(out, " {:>12}", frames(&cpu.pool.header().memory.islands[id.index()]))?;
        }
    }
    for (name, counter) in COUNTERS {
        write!(out, "\n{name:<20}")?;
        for (_, record) in islands(cpu) {
            write!(out, " {:>12}", counter(&record.counters).load(Ordering::Relaxed))?;
        }
    }
    for (name, of_island) in FOLLOWED {
        write!(out, "\n{name:<20}")?;
        for (_, record) in islands(cpu) {
            write!(out, " {:>12}", of_island(record).load(Ordering::Relaxed))?;
        }
    }
    for (name, of_core) in OF_CORES {
        write!(out, "\n{name:<20}")?;
        for (island, _) in islands(cpu) {
            let of_island = cores(cpu).filter(|(core, _)| core.island() == island);
            write!(out, " {:>12}", of_island.map(|(_, record)| of_core(record)).sum::<u64>())?;
        }
    }
    if peers::are_there(cpu) {
        messages(peers::of(cpu), out)?;
        for node in 0..peers::of(cpu).count.get() {
            let isa = peers::isa_of(cpu, node).map_or("?", Isa::name);
            write!(out, "\nkernel_isa_{node:<9} {isa:>12}")?;
        }
    }
    out.write_char('\n')
}

/// Where each island has a kernel of its own: what this one has to do with the others.
fn messages<M: Machine>(peers: &Peers, out: &mut Text<M>) -> Result {
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let mut line = |name: &str, value: u64| write!(out, "\n{name:<20} {value:>12}");
    line("kernel", peers.node.get().into())?;
    line("kernels", peers.count.get().into())?;
    line("message_bytes_sent", load(&peers.bytes_sent))?;
    line("message_bytes_taken", load(&peers.bytes_taken))?;
    line("message_doorbells", load(&peers.doorbells))?;
    line("pages_copied", load(&peers.pages_copied))?;
    line("pages_invalidated", load(&peers.pages_invalidated))?;
    line("messages_refused", peers.refused.iter().map(load).sum())?;
    for &kind in MessageKind::ALL {
        line(kind.name(), load(&peers.sent[kind as usize]) + load(&peers.taken[kind as usize]))?;
    }
    Ok(())
}

/// `/proc/motet-ps`: every process, and where it runs (or ran last).
pub fn processes<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let mut from = out.begin_lines();
    if from == 0 {
        let [pid, parent, user, state, island, core] = ["PID", "PPID", "USER", "STAT", "ISLAND", "CORE"];
        writeln!(out, "{pid:>5} {parent:>5} {user:<8} {state:<4} {island:<10} {core:>4} {:>8} COMMAND", "TIME")?;
        from = 1;
    }
    while out.begin_line(from)
        && let Some(pid) = next_thread(cpu, from as u32, |thread, process| thread.tid.get() == process.pid.get())
    {
        from = u64::from(pid) + 1;
        // It may have ended meanwhile.
        let Some(summary) = Summary::of(cpu, pid, true) else { continue };
        let core = CoreId::from_raw(summary.core).unwrap_or(cpu.id);
        let record = &cpu.pool.header().islands[core.island().index()];
        write!(out, "{pid:>5} {:>5} ", summary.parent)?;
        match summary.uid {
            0 => write!(out, "{:<8}", "root")?,
            uid => write!(out, "{uid:<8}")?,
        }
        write!(out, " {:<4} {:<7}/{:<2} {:>4}", summary.state, isa_name(record), core.island().index(), core.index())?;
        let seconds = (summary.user_ns + summary.system_ns) / NS_PER_S;
        writeln!(out, " {:>5}:{:02} {}", seconds / 60, seconds % 60, summary.name())?;
    }
    Ok(())
}
