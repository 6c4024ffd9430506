//! What the kernels of a timed machine find in the pool's header.

use std::{mem::offset_of, ops::Range};

use motet_coherence::Config;
use motet_layout::{CORES_PER_ISLAND_MAX, CoreRecord, DMA_REGISTERS, PAGE_SIZE, PoolHeader};
use motet_protocol::Context as _;
use motet_timing::PS_PER_NS;

use crate::HostPool;

/// Realtime when a deterministic machine starts: 2025-01-01 UTC.
const DETERMINISTIC_START_NS: u64 = 1_735_689_600_000_000_000;

/// Tells the kernels that their machine is timed, and what they have to know for that.
pub(super) fn describe(pool: &HostPool, config: &Config, deterministic: bool) {
    let header = pool.header();
    header.timed.set(1);
    header.uncached.set(config.has_uncached_links().into());
    note_private(pool, config);
    for (record, island) in header.islands.iter().zip(&config.islands) {
        record.frequency_mhz.set(u32::try_from(island.timing.frequency_mhz()).unwrap_or(u32::MAX));
    }
    note_costs(header, config);
    for (record, links) in header.islands.iter().zip(&config.links) {
        for ((doorbell_ns, transit_ns), link) in record.doorbell_ns.iter().zip(&record.transit_ns).zip(links) {
            for (word, latency_ps) in [(doorbell_ns, link.doorbell_ps), (transit_ns, link.transit_ps)] {
                word.set(u32::try_from(latency_ps.div_ceil(PS_PER_NS)).unwrap_or(u32::MAX));
            }
        }
    }
    if deterministic {
        header.realtime_at_zero_ns.set(DETERMINISTIC_START_NS);
        for (index, word) in header.seed.iter().enumerate() {
            word.set(index as u64 + 1);
        }
    }
}

/// Tells the kernels what stores into other islands' records take, and what a transfer does.
fn note_costs(header: &PoolHeader, config: &Config) {
    let ns = |ps: u64| u32::try_from(ps.div_ceil(PS_PER_NS)).unwrap_or(u32::MAX);
    header.dma_setup_ns.set(ns(config.dma_setup_ps + u64::from(DMA_REGISTERS) * config.device_store_ps));
    header.dma_kib_ns.set(ns(config.dma_kib_ps));
    for (from, record) in (0..config.islands.len()).zip(&header.islands) {
        for (to, store_ns) in (0..config.islands.len()).zip(&record.store_ns) {
            let records = offset_of!(PoolHeader, cores) + to * CORES_PER_ISLAND_MAX * size_of::<CoreRecord>();
            store_ns.set(ns(config.store_ps(from, records as u64)));
        }
    }
}

/// Tells the kernels which islands cache blocks of the pool privately.
fn note_private(pool: &HostPool, config: &Config) {
    let memory = &pool.header().memory;
    let block_len = u64::from(memory.block_frames.get()) * PAGE_SIZE;
    for index in 0..memory.block_count.get() {
        let start = u64::from(index) * block_len;
        // A range may begin or end within the block.
        let overlaps = |part: Range<u64>| part.start < start + block_len && start < part.end;
        let is_private = |island: usize| config.private_parts(island).any(overlaps);
        let islands =
            (0..config.islands.len()).filter(|&island| is_private(island)).fold(0, |bits, island| bits | 1 << island);
        motet_protocol::memory::set_private(pool.pool(), index, islands);
    }
}
