//! What the kernels of a timed machine find in their pools' headers.

use std::{mem::offset_of, ops::Range};

use motet_coherence::Config;
use motet_layout::{CORES_PER_ISLAND_MAX, CoreRecord, DMA_REGISTERS, PAGE_SIZE, PoolHeader};
use motet_protocol::{Context as _, peer::bell_of};
use motet_timing::PS_PER_NS;

use crate::HostPool;

/// Realtime when a deterministic machine starts: 2025-01-01 UTC.
const DETERMINISTIC_START_NS: u64 = 1_735_689_600_000_000_000;

/// Tells a kernel that its machine is timed, and what it has to know for that.
pub(super) fn describe(pool: &HostPool, config: &Config, deterministic: bool) {
    let header = pool.header();
    let is_alone = pool.islands().len() == config.islands.len();
    header.timed.set(1);
    // Memory that it shares with other kernels, its calls do not use.
    header.uncached.set((is_alone && config.has_uncached_links()).into());
    note_private(pool, config);
    for (record, island) in header.islands.iter().zip(&config.islands[pool.islands()]) {
        record.frequency_mhz.set(u32::try_from(island.timing.frequency_mhz()).unwrap_or(u32::MAX));
    }
    note_costs(pool, config);
    for (record, from) in header.islands.iter().zip(pool.islands()) {
        for (to, link) in config.links[from].iter().enumerate() {
            // Of another kernel, it knows no island, but a place among its doorbells.
            let place = if is_alone { to } else { bell_of(from as u32, to as u32).island().index() };
            record.doorbell_ns[place].set(ns(link.doorbell_ps));
            record.transit_ns[place].set(ns(link.transit_ps));
        }
    }
    if deterministic {
        header.realtime_at_zero_ns.set(DETERMINISTIC_START_NS);
        // Others in each kernel.
        for (index, word) in header.seed.iter().enumerate() {
            word.set((pool.first_core() * header.seed.len() + index) as u64 + 1);
        }
    }
}

/// For a word of a header.
fn ns(ps: u64) -> u32 {
    u32::try_from(ps.div_ceil(PS_PER_NS)).unwrap_or(u32::MAX)
}

/// Tells a kernel what stores into other islands' records take, and what a transfer does.
fn note_costs(pool: &HostPool, config: &Config) {
    let header = pool.header();
    header.dma_setup_ns.set(ns(config.dma_setup_ps + u64::from(DMA_REGISTERS) * config.device_store_ps));
    header.dma_kib_ns.set(ns(config.dma_kib_ps));
    for (from, record) in pool.islands().zip(&header.islands) {
        for (to, store_ns) in (0..pool.islands().len()).zip(&record.store_ns) {
            let records = offset_of!(PoolHeader, cores) + to * CORES_PER_ISLAND_MAX * size_of::<CoreRecord>();
            store_ns.set(ns(config.store_ps(from, pool.start() + records as u64)));
        }
    }
}

/// Tells a kernel which of its islands cache blocks of its pool privately.
fn note_private(pool: &HostPool, config: &Config) {
    let memory = &pool.header().memory;
    let block_len = u64::from(memory.block_frames.get()) * PAGE_SIZE;
    for index in 0..memory.block_count.get() {
        let start = pool.start() + u64::from(index) * block_len;
        // A range may begin or end within the block.
        let overlaps = |part: Range<u64>| part.start < start + block_len && start < part.end;
        let is_private = |island: usize| config.private_parts(island).any(overlaps);
        let islands =
            (0..config.islands.len()).filter(|&island| is_private(island)).fold(0, |bits, island| bits | 1 << island);
        motet_protocol::memory::set_private(pool.pool(), index, pool.own_islands(islands));
    }
}

#[cfg(test)]
mod tests {
    use motet_machine::MachineSpec;

    use super::*;
    use crate::Command;

    #[test]
    fn each_kernel_is_told_of_its_own_island_and_how_far_it_is_to_the_others() {
        let island = |name: &str, isa: &str, mhz: u32| {
            format!(
                "[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\ncores = 1\n[[model.core]]\nisland = \"{name}\"\nfrequency_mhz = {mhz}\n\
                 memory_cycles = 100\n"
            )
        };
        let all = [island("a", "x86_64", 1000), island("b", "aarch64", 2000), island("c", "riscv64", 500)].concat();
        let text = format!("os = \"multikernel\"\n[messages]\nslots = 2\n[pool]\nsize = \"256MiB\"\n{all}");
        let machine = MachineSpec::parse(&text).unwrap();
        let mut config = machine.model_config().unwrap();
        for (from, links) in config.links.iter_mut().enumerate() {
            for (to, link) in links.iter_mut().enumerate() {
                link.doorbell_ps = (1000 * from + 100 * to) as u64 * PS_PER_NS;
            }
        }
        let pool = HostPool::create(&machine, &Command::default(), 3, false).unwrap();
        for kernel in pool.kernels() {
            describe(kernel, &config, true);
            let (header, own) = (kernel.header(), kernel.islands().start);
            let record = &header.islands[0];
            assert_eq!((header.timed.get(), record.frequency_mhz.get()), (1, [1000, 2000, 500][own]));
            for node in 0..3 {
                let place = bell_of(own as u32, node).island().index();
                assert_eq!(record.doorbell_ns[place].get(), 1000 * own as u32 + 100 * node);
            }
            assert_eq!(header.seed[0].get(), (own * CORES_PER_ISLAND_MAX * header.seed.len()) as u64 + 1);
        }
    }
}
