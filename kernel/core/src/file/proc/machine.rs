//! procfs files about the whole machine.

use core::fmt::{Result, Write};

use motet_layout::sync::Ordering;

use motet_abi::time::USER_HZ;
use motet_hal::Machine;
use motet_layout::{CoreId, CoreRecord, ISLAND_ABSENT, Isa, IslandId, IslandRecord, PAGE_SIZE, THREAD_RUNNING};
use motet_protocol::{
    cores::{all_cores, core_record},
    memory,
    run_queue::{is_ready, takes_threads},
    stacked, threads,
};

use super::text::Text;
use crate::{
    ability,
    cpu::{Cpu, KERNEL_RELEASE},
    random, tree,
};

pub const NS_PER_S: u64 = 1_000_000_000;
pub const NS_PER_TICK: u64 = NS_PER_S / USER_HZ;
const KIB: u64 = 1024;

/// The islands that exist, with their ids.
pub fn islands<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = (IslandId, &'static IslandRecord)> {
    let header = cpu.pool.header();
    (0..header.island_count.get())
        .filter_map(IslandId::from_raw)
        .map(|id| (id, &header.islands[id.index()]))
        .filter(|(_, record)| record.state.load(Ordering::Relaxed) != ISLAND_ABSENT)
}

/// The cores that are in use, by ascending id.
pub fn cores<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = (CoreId, &'static CoreRecord)> {
    let exists =
        |core: &CoreId| cpu.pool.header().islands[core.island().index()].state.load(Ordering::Relaxed) != ISLAND_ABSENT;
    all_cores(cpu)
        .filter(exists)
        .map(|core| (core, core_record(cpu, core)))
        .filter(|(_, record)| takes_threads(record.state.load(Ordering::Relaxed)))
}

/// The ISA's name.
pub fn isa_name(record: &IslandRecord) -> &'static str {
    Isa::from_raw(record.isa.get()).map_or("?", Isa::name)
}

/// `/proc/cpuinfo`: one paragraph per core, of all ISAs in one format. `processor` is the number that
/// `sched_setaffinity` uses.
pub fn cpuinfo<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    for (core, _) in cores(cpu) {
        let record = &cpu.pool.header().islands[core.island().index()];
        writeln!(out, "processor\t: {}", core.index())?;
        writeln!(out, "island\t\t: {}", core.island().index())?;
        writeln!(out, "core id\t\t: {}", core.index_in_island())?;
        writeln!(out, "isa\t\t: {}", isa_name(record))?;
        writeln!(out, "model name\t: Motet island {} ({})", core.island().index(), isa_name(record))?;
        out.write_str("flags\t\t: ")?;
        ability::cpuinfo(cpu, core, out)?;
        writeln!(out, "\nextensions\t: {}\n", ability::of_any_core(cpu, core))?;
    }
    Ok(())
}

/// `/proc/meminfo`: the pool.
pub fn meminfo<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let (free, total) = memory::usage(cpu.pool);
    let slabs: u64 = cpu.pool.header().slabs.iter().map(slab_bytes).sum();
    let lines = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("Shmem", 0),
        ("Slab", slabs),
        ("SReclaimable", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
    ];
    lines.into_iter().try_for_each(|(name, bytes)| writeln!(out, "{name}:{:>1$} kB", bytes / KIB, 23 - name.len()))
}

/// Of a class's frames, those included that wait to go back.
fn slab_bytes(cache: &motet_layout::SlabCache) -> u64 {
    let objects_per_frame = PAGE_SIZE.checked_div(u64::from(cache.object_size.get()));
    let cut = objects_per_frame.map_or(0, |objects| u64::from(cache.total.get()).div_ceil(objects));
    (cut + u64::from(cache.retired_count.get())) * PAGE_SIZE
}

/// `/proc/uptime`.
pub fn uptime<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let idle: u64 = cores(cpu).map(|(_, record)| record.idle_ns.get()).sum();
    let (up, idle) = (cpu.reading_ns() / NS_PER_TICK, idle / NS_PER_TICK);
    writeln!(out, "{}.{:02} {}.{:02}", up / USER_HZ, up % USER_HZ, idle / USER_HZ, idle % USER_HZ)
}

/// `/proc/loadavg`: averages are not kept, so all three are the load now.
pub fn loadavg<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let (runnable, total) = count_threads(cpu);
    let last = cpu.pool.header().last_tid.get();
    writeln!(out, "{runnable}.00 {runnable}.00 {runnable}.00 {runnable}/{total} {last}")
}

/// `/proc/stat`.
pub fn stat<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let busy: u64 = cores(cpu).map(|(_, record)| record.busy_ns.get()).sum();
    let idle: u64 = cores(cpu).map(|(_, record)| record.idle_ns.get()).sum();
    writeln!(out, "cpu  {} 0 0 {} 0 0 0 0 0 0", busy / NS_PER_TICK, idle / NS_PER_TICK)?;
    for (core, record) in cores(cpu) {
        let (busy, idle) = (record.busy_ns.get() / NS_PER_TICK, record.idle_ns.get() / NS_PER_TICK);
        writeln!(out, "cpu{} {busy} 0 0 {idle} 0 0 0 0 0 0", core.index())?;
    }
    let sum = |counter: fn(&IslandRecord) -> u64| islands(cpu).map(|(_, record)| counter(record)).sum::<u64>();
    writeln!(out, "intr {}", sum(|record| record.counters.doorbells_taken.load(Ordering::Relaxed)))?;
    writeln!(out, "ctxt {}", sum(|record| record.counters.context_switches.load(Ordering::Relaxed)))?;
    let header = cpu.pool.header();
    writeln!(out, "btime {}", header.realtime_at_zero_ns.get() / NS_PER_S)?;
    writeln!(out, "processes {}", header.forks.load(Ordering::Relaxed))?;
    let (runnable, total) = count_threads(cpu);
    writeln!(out, "procs_running {runnable}\nprocs_blocked {}", total - runnable)
}

/// `/proc/interrupts`: doorbells taken, per island.
pub fn interrupts<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    for (id, record) in islands(cpu) {
        let taken = record.counters.doorbells_taken.load(Ordering::Relaxed);
        writeln!(out, "island{}: {taken:>10}  doorbell ({})", id.index(), isa_name(record))?;
    }
    Ok(())
}

/// `/proc/version`.
pub fn version<M: Machine>(out: &mut Text<M>) -> Result {
    writeln!(out, "Linux version {KERNEL_RELEASE} (motet) #1 SMP Motet {}", env!("CARGO_PKG_VERSION"))
}

/// `/proc/sys/kernel/random/uuid`: another one at each read.
pub fn uuid<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let mut bytes = [0; 16];
    random::fill(cpu, &mut bytes);
    write_uuid(out, bytes)
}

/// `/proc/sys/kernel/random/boot_id`: the same for the life of the machine.
pub fn boot_id<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>) -> Result {
    let seed = &cpu.pool.header().seed;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed[0].get().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    bytes[8..].copy_from_slice(&seed[1].get().wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes());
    write_uuid(out, bytes)
}

/// A version 4 UUID (RFC 9562) of random bytes.
fn write_uuid<M: Machine>(out: &mut Text<M>, mut bytes: [u8; 16]) -> Result {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.write_char('-')?;
        }
        write!(out, "{byte:02x}")?;
    }
    out.write_char('\n')
}

/// Threads that run or are ready, and all.
fn count_threads<M: Machine>(cpu: &Cpu<M>) -> (u32, u32) {
    let _tree = tree::lock_tree(cpu);
    let (mut runnable, mut total) = (0, 0);
    for thread in threads::all(cpu) {
        let state = thread.state.load(Ordering::Relaxed);
        runnable += u32::from((state == THREAD_RUNNING || is_ready(state)) && !stacked::waits(cpu, thread));
        total += 1;
    }
    (runnable, total)
}
