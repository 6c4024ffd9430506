//! What a `[model]` table may say: every number within bounds that keep sums of latencies far from overflow, every name
//! known, nothing said twice, nothing contradictory. [`crate::ModelTable::resolve`] relies on it.

use crate::{
    LINE_SIZE,
    bytes::Bytes,
    config::{Policy, RangeConfig, Replacement},
    error::{Key, Result, fail},
    resolve::{RECORDS, Shape},
    table::{AccessTable, CacheTable, CoreTable, ModelTable, TlbTable},
    tlb::PAGE_SHIFTS,
};

/// Longest latency, in nanoseconds: a second.
const LATENCY_NS_MAX: u64 = 1_000_000_000;
/// Longest latency, in cycles.
const LATENCY_CYCLES_MAX: u64 = 1_000_000;
/// Time for 1024 bytes of DMA, in nanoseconds: no bandwidth is unlimited, and the least is a megabyte per second.
const DMA_KIB_NS: std::ops::RangeInclusive<u64> = 1..=1_000_000;
/// Fastest clock.
const FREQUENCY_MHZ_MAX: u64 = 100_000;
/// Least and most cycles per instruction. Instructions take time, or a loop would not let time pass.
const CPI: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
/// Largest cache, in bytes.
const CACHE_SIZE_MAX: u64 = 1 << 30;
/// Most lines in a set.
const WAYS_MAX: u32 = 1024;
/// Most entries of a TLB, and of a walker's cache for a level.
const TLB_ENTRIES_MAX: usize = 1 << 16;
const WALK_CACHE_MAX: usize = 1024;
/// What a link carries, in megabytes per second: a byte takes a whole number of picoseconds, and a window of a queue less than 2^32
/// of them with the bounds below.
const BANDWIDTH_MB_S: std::ops::RangeInclusive<u64> = 1..=1_000_000;
/// Most bytes of a transfer beside its data.
const PACKET_BYTES_MAX: u64 = 4096;
/// Most bytes of stores under way.
const POSTED_BYTES_MAX: u64 = 65536;
/// Ranges end where pages do.
const RANGE_UNIT: u64 = 4096;

impl ModelTable {
    /// Checks everything but what depends on how caches and memory come together.
    pub(crate) fn check(&self, shape: &Shape) -> Result<()> {
        let model = Key::model();
        nanoseconds(&model.name("doorbell_ns"), self.doorbell_ns)?;
        nanoseconds(&model.name("device_ns"), self.device_ns)?;
        nanoseconds(&model.name("device_store_ns"), self.device_store_ns)?;
        let dma = model.name("dma");
        nanoseconds(&dma.name("setup_ns"), self.dma.setup_ns)?;
        if let Some(value) = self.dma.kib_ns.filter(|value| !DMA_KIB_NS.contains(value)) {
            let [least, most] = [DMA_KIB_NS.start(), DMA_KIB_NS.end()];
            return fail(&dma.name("kib_ns"), format!("{value}; 1024 bytes take {least} to {most} nanoseconds"));
        }
        self.check_links(shape)?;
        if let Some(l3) = &self.l3 {
            check_geometry(&model.name("l3"), l3.size, l3.ways, l3.replacement.unwrap_or(self.replacement))?;
        }
        for (index, core) in self.core.iter().enumerate() {
            self.check_core(shape, index, core)?;
        }
        for (index, access) in self.access.iter().enumerate() {
            self.check_access(shape, index, access)?;
        }
        Ok(())
    }

    fn check_links(&self, shape: &Shape) -> Result<()> {
        let link = Key::model().name("link");
        nanoseconds(&link.name("snoop_invalidate_ns"), self.link.snoop_invalidate_ns)?;
        nanoseconds(&link.name("snoop_data_ns"), self.link.snoop_data_ns)?;
        nanoseconds(&link.name("transit_ns"), self.link.transit_ns)?;
        nanoseconds(&link.name("back_invalidate_ns"), self.link.back_invalidate_ns)?;
        nanoseconds(&link.name("write_back_ns"), self.link.write_back_ns)?;
        for (index, pair) in self.link.pair.iter().enumerate() {
            let key = link.name("pair").index(index);
            let [one, other] = &pair.islands;
            known_island(shape, &key.name("islands"), one)?;
            known_island(shape, &key.name("islands"), other)?;
            if one == other {
                return fail(&key.name("islands"), format!("\"{one}\" twice; a pair is two islands"));
            }
            let same = |earlier: &&crate::table::PairTable| {
                earlier.islands == pair.islands || earlier.islands == [other.clone(), one.clone()]
            };
            if self.link.pair[..index].iter().any(|earlier| same(&earlier)) {
                return fail(&key.name("islands"), format!("\"{one}\" and \"{other}\" have a table already"));
            }
            nanoseconds(&key.name("snoop_invalidate_ns"), pair.snoop_invalidate_ns)?;
            nanoseconds(&key.name("snoop_data_ns"), pair.snoop_data_ns)?;
            nanoseconds(&key.name("transit_ns"), pair.transit_ns)?;
            nanoseconds(&key.name("doorbell_ns"), pair.doorbell_ns)?;
        }
        Ok(())
    }

    fn check_core(&self, shape: &Shape, index: usize, core: &CoreTable) -> Result<()> {
        let key = Key::model().name("core").index(index);
        if let Some(name) = &core.island {
            known_island(shape, &key.name("island"), name)?;
        }
        if self.core[..index].iter().any(|earlier| earlier.island == core.island) {
            return match &core.island {
                Some(name) => fail(&key.name("island"), format!("\"{name}\" has a [[model.core]] already")),
                None => fail(&key, "there is a [[model.core]] without `island` already"),
            };
        }
        if !(1..=FREQUENCY_MHZ_MAX).contains(&core.frequency_mhz) {
            let message = format!("{}; a frequency is 1 to {FREQUENCY_MHZ_MAX} MHz", core.frequency_mhz);
            return fail(&key.name("frequency_mhz"), message);
        }
        check_instructions(&key, core)?;
        check_tlbs(&key, core)?;
        self.check_caches(&key, core)?;
        for (name, value) in [
            ("l3_cycles", core.l3_cycles),
            ("peer_cycles", core.peer_cycles),
            ("atomic_cycles", core.atomic_cycles),
            ("trap_entry_cycles", core.trap_entry_cycles),
            ("trap_exit_cycles", core.trap_exit_cycles),
            ("syscall_entry_cycles", core.syscall_entry_cycles),
            ("syscall_exit_cycles", core.syscall_exit_cycles),
            ("end_of_interrupt_cycles", core.end_of_interrupt_cycles),
            ("wake_cycles", core.wake_cycles),
            ("memory_cycles", Some(core.memory_cycles)),
            ("remote_cycles", core.remote_cycles),
        ] {
            at_most(&key.name(name), value, LATENCY_CYCLES_MAX, "cycles")?;
        }
        check_order(&key, core)
    }

    fn check_caches(&self, key: &Key, core: &CoreTable) -> Result<()> {
        let caches = [("l1i", &core.l1i), ("l1d", &core.l1d), ("l2", &core.l2), ("l3", &core.l3)];
        for (name, cache) in caches {
            let Some(cache) = cache else { continue };
            let key = key.name(name);
            check_geometry(&key, cache.size, cache.ways, cache.replacement.unwrap_or(self.replacement))?;
            at_most(&key.name("cycles"), Some(cache.cycles), LATENCY_CYCLES_MAX, "cycles")?;
        }
        if core.l1i.is_none()
            && core.l1d.is_none()
            && let Some((name, _)) = caches.into_iter().find(|(_, cache)| cache.is_some())
        {
            return fail(&key.name(name), "without l1i or l1d nothing is cached, so there can be no other level");
        }
        // What a level holds, the next holds too.
        let own = caches.into_iter().zip([1, 1, 2, 3]);
        let own = own.filter_map(|((name, cache), level)| Some((level, key.name(name), name, cache.as_ref()?.size)));
        let common = self.l3.as_ref().map(|l3| (3, Key::model().name("l3"), "l3", l3.size));
        let levels: Vec<_> = own.chain(common).collect();
        for (level, key, _, size) in &levels {
            if let Some((_, _, nearer, larger)) = levels.iter().find(|nearer| nearer.0 < *level && nearer.3 > *size) {
                return fail(
                    &key.name("size"),
                    format!("{size} is less than the {larger} of {nearer}, which it must hold"),
                );
            }
        }
        match (&self.l3, &core.l3, core.l3_cycles) {
            (Some(_), Some(_), _) => {
                fail(&key.name("l3"), "[model.l3] is one for all islands; this island cannot have its own")
            }
            (Some(_), None, None) => {
                fail(&key.name("l3_cycles"), "is missing: the latency of [model.l3] for this island")
            }
            (None, _, Some(_)) => fail(&key.name("l3_cycles"), "is the latency of [model.l3], which there is not"),
            (Some(_), None, Some(_)) | (None, _, None) => Ok(()),
        }
    }

    fn check_access(&self, shape: &Shape, index: usize, access: &AccessTable) -> Result<()> {
        let key = Key::model().name("access").index(index);
        known_island(shape, &key.name("island"), &access.island)?;
        if !["private", RECORDS].contains(&access.range.as_str())
            && !self.range.iter().any(|range| range.name == access.range)
        {
            return fail(&key.name("range"), format!("there is no range \"{}\"", access.range));
        }
        let same = |earlier: &&AccessTable| earlier.island == access.island && earlier.range == access.range;
        if self.access[..index].iter().any(|earlier| same(&earlier)) {
            let message = format!("\"{}\" has a [[model.access]] to \"{}\" already", access.island, access.range);
            return fail(&key, message);
        }
        nanoseconds(&key.name("memory_ns"), access.memory_ns)?;
        nanoseconds(&key.name("fetch_ns"), access.fetch_ns)?;
        nanoseconds(&key.name("store_ns"), access.store_ns)?;
        if access.range == RECORDS && access.fetch_ns.is_some() {
            return fail(&key.name("fetch_ns"), "is of instructions, and there are none in records");
        }
        check_bandwidth(&key, access)?;
        for (name, policy) in [("data", access.data), ("fetch", access.fetch)] {
            if access.range == "private" && policy == Some(Policy::Private) {
                let message = "an island's private memory is its own; \"private\" is a way to cache ranges of the pool";
                return fail(&key.name(name), message);
            }
        }
        Ok(())
    }

    /// The parts of the pool, which follow each other without gaps.
    pub(crate) fn ranges(&self, shape: &Shape) -> Result<Vec<RangeConfig>> {
        if self.range.is_empty() {
            let near = (1 << shape.islands.len()) - 1;
            return Ok(vec![RangeConfig { name: "pool".into(), start: 0, end: shape.pool, near }]);
        }
        let mut ranges: Vec<RangeConfig> = Vec::new();
        for (index, range) in self.range.iter().enumerate() {
            let key = Key::model().name("range").index(index);
            let at = ranges.last().map_or(0, |range| range.end);
            let start = range.start.map_or(at, |bytes| bytes.0);
            let end = range.end.map_or(shape.pool, |bytes| bytes.0);
            if ["", "private", RECORDS].contains(&range.name.as_str()) {
                let message = format!(
                    "\"{}\" cannot be a range's name; \"private\" is islands' own memory, \"{RECORDS}\" are their records",
                    range.name
                );
                return fail(&key.name("name"), message);
            }
            if ranges.iter().any(|earlier| earlier.name == range.name) {
                return fail(&key.name("name"), format!("two ranges are called \"{}\"", range.name));
            }
            if start != at {
                let what = if start < at { "overlaps" } else { "leaves a hole after" };
                let before = ranges.last().map_or("the pool's beginning".into(), |range| format!("\"{}\"", range.name));
                let message = format!("{} {what} {before}, which ends at {}", Bytes(start), Bytes(at));
                return fail(&key.name("start"), message);
            }
            // Without `end`, it is the range's own table that is wrong.
            let end_key = if range.end.is_some() { key.name("end") } else { key.clone() };
            if end > shape.pool {
                return fail(
                    &end_key,
                    format!("{} is beyond the pool, which ends at {}", Bytes(end), Bytes(shape.pool)),
                );
            }
            if end <= start {
                return fail(&end_key, format!("\"{}\" is empty: from {} to {}", range.name, Bytes(start), Bytes(end)));
            }
            if end % RANGE_UNIT != 0 {
                return fail(&end_key, format!("{} is not a multiple of {}", Bytes(end), Bytes(RANGE_UNIT)));
            }
            let near = near_bits(shape, &key.name("near"), &range.near)?;
            ranges.push(RangeConfig { name: range.name.clone(), start, end, near });
        }
        match ranges.last() {
            Some(last) if last.end < shape.pool => {
                let key = Key::model().name("range").index(ranges.len() - 1).name("end");
                let message = format!("the last range ends at {}, the pool at {}", Bytes(last.end), Bytes(shape.pool));
                fail(&key, message)
            }
            _ => Ok(ranges),
        }
    }
}

/// Numbers that a link can have.
fn check_bandwidth(key: &Key, access: &AccessTable) -> Result<()> {
    if let Some(value) = access.bandwidth_mb_s.filter(|value| !BANDWIDTH_MB_S.contains(value)) {
        let [least, most] = [BANDWIDTH_MB_S.start(), BANDWIDTH_MB_S.end()];
        let message = format!("{value}; a link carries {least} to {most} megabytes per second");
        return fail(&key.name("bandwidth_mb_s"), message);
    }
    at_most(&key.name("packet_bytes"), access.packet_bytes, PACKET_BYTES_MAX, "bytes")?;
    at_most(&key.name("posted_bytes"), access.posted_bytes, POSTED_BYTES_MAX, "bytes")?;
    for (name, is_given) in [
        ("packet_bytes", access.packet_bytes.is_some()),
        ("posted_bytes", access.posted_bytes.is_some()),
        ("combine", access.combine.is_some()),
    ] {
        if is_given && access.bandwidth_mb_s.is_none() {
            return fail(&key.name(name), "says how a link is used; with it goes bandwidth_mb_s");
        }
    }
    Ok(())
}

/// That there is a link where one has a bandwidth, and stores that cross it where something is said of them.
pub(crate) fn check_link(key: &Key, access: &AccessTable, near: bool, data: Policy) -> Result<()> {
    if near && access.bandwidth_mb_s.is_some() {
        let message = format!("is of a link, and \"{}\" is near to \"{}\"", access.range, access.island);
        return fail(&key.name("bandwidth_mb_s"), message);
    }
    for (name, is_given) in [("posted_bytes", access.posted_bytes.is_some()), ("combine", access.combine.is_some())] {
        if is_given && data != Policy::Uncached {
            return fail(&key.name(name), "is for stores past the caches; with it goes data = \"uncached\"");
        }
    }
    Ok(())
}

fn near_bits(shape: &Shape, key: &Key, names: &[String]) -> Result<u32> {
    let mut near = 0;
    for name in names {
        let bit = 1 << known_island(shape, key, name)?;
        if near & bit != 0 {
            return fail(key, format!("\"{name}\" twice"));
        }
        near |= bit;
    }
    Ok(near)
}

fn known_island(shape: &Shape, key: &Key, name: &str) -> Result<usize> {
    match shape.islands.iter().position(|island| island.name == name) {
        Some(index) => Ok(index),
        None => {
            let names: Vec<&str> = shape.islands.iter().map(|island| island.name.as_str()).collect();
            fail(key, format!("there is no island \"{name}\"; the islands are {}", names.join(", ")))
        }
    }
}

fn nanoseconds(key: &Key, value: Option<u64>) -> Result<()> {
    at_most(key, value, LATENCY_NS_MAX, "nanoseconds")
}

fn at_most(key: &Key, value: Option<u64>, most: u64, unit: &str) -> Result<()> {
    match value {
        Some(value) if value > most => fail(key, format!("{value}; at most {most} {unit}")),
        _ => Ok(()),
    }
}

fn check_instructions(key: &Key, core: &CoreTable) -> Result<()> {
    let [low, high] = [CPI.start(), CPI.end()];
    if let Some(cpi) = core.cpi.filter(|cpi| !CPI.contains(cpi)) {
        return fail(&key.name("cpi"), format!("{cpi}; an instruction takes {low} to {high} cycles"));
    }
    for (name, cpi) in core.cpi_class.named() {
        if let Some(cpi) = cpi.filter(|cpi| !CPI.contains(cpi)) {
            let key = key.name("cpi_class").name(name);
            return fail(&key, format!("{cpi}; an instruction takes {low} to {high} cycles"));
        }
    }
    Ok(())
}

/// Buffers that can be built, and that go together.
fn check_tlbs(key: &Key, core: &CoreTable) -> Result<()> {
    let second = core.l2_tlb.as_ref().map(crate::table::SecondTlbTable::geometry);
    let all = [("itlb", &core.itlb), ("dtlb", &core.dtlb), ("l2_tlb", &second)];
    for (name, tlb) in all {
        if let Some(tlb) = tlb {
            check_tlb(&key.name(name), tlb)?;
        }
    }
    at_most(
        &key.name("l2_tlb").name("cycles"),
        core.l2_tlb.as_ref().map(|tlb| tlb.cycles),
        LATENCY_CYCLES_MAX,
        "cycles",
    )?;
    match (&core.itlb, &core.dtlb) {
        (Some(_), None) => return fail(&key.name("itlb"), "with it goes a dtlb"),
        (None, Some(_)) => return fail(&key.name("dtlb"), "with it goes an itlb"),
        (None, None) if core.l2_tlb.is_some() => {
            return fail(&key.name("l2_tlb"), "without itlb and dtlb there can be no second level");
        }
        (None, None) if core.walk_cache_entries.is_some() => {
            return fail(&key.name("walk_cache_entries"), "without itlb and dtlb no page tables are read");
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    match core.walk_cache_entries {
        Some(entries) if !(1..=WALK_CACHE_MAX).contains(&entries) => fail(
            &key.name("walk_cache_entries"),
            format!("{entries}; a walker remembers 1 to {WALK_CACHE_MAX} tables of a level"),
        ),
        Some(_) | None => Ok(()),
    }
}

fn check_tlb(key: &Key, tlb: &TlbTable) -> Result<()> {
    let &TlbTable { entries, ways, .. } = tlb;
    if !(1..=TLB_ENTRIES_MAX).contains(&entries) {
        return fail(&key.name("entries"), format!("{entries}; a TLB has 1 to {TLB_ENTRIES_MAX} entries"));
    }
    if ways == 0 || entries % ways != 0 {
        return fail(&key.name("ways"), format!("{ways}; the {entries} entries cannot be divided so"));
    }
    if !(entries / ways).is_power_of_two() {
        let message =
            format!("{entries} in {ways} ways are {} sets; their number must be a power of two", entries / ways);
        return fail(&key.name("entries"), message);
    }
    let Some(pages) = &tlb.pages else { return Ok(()) };
    let is_size = |page: &Bytes| PAGE_SHIFTS.iter().any(|shift| page.0 == 1 << shift);
    if let Some(page) = pages.iter().find(|page| !is_size(page)) {
        return fail(&key.name("pages"), format!("{page}; pages have 4KiB, 2MiB or 1GiB"));
    }
    if (1..pages.len()).any(|at| pages[..at].contains(&pages[at])) {
        return fail(&key.name("pages"), "a size is there twice");
    }
    if !pages.contains(&Bytes(1 << PAGE_SHIFTS[0])) {
        return fail(&key.name("pages"), "4KiB is missing: all programs have such pages");
    }
    Ok(())
}

/// Whatever is farther takes at least as long.
fn check_order(key: &Key, core: &CoreTable) -> Result<()> {
    let cache = |name, cache: &Option<CacheTable>| {
        cache.as_ref().map(|cache| (name, key.name(name).name("cycles"), cache.cycles))
    };
    let l3 = core.l3_cycles.map(|cycles| ("l3", key.name("l3_cycles"), cycles));
    let beyond = [
        cache("l2", &core.l2),
        cache("l3", &core.l3).or(l3),
        Some(("memory", key.name("memory_cycles"), core.memory_cycles)),
        core.remote_cycles.map(|cycles| ("remote memory", key.name("remote_cycles"), cycles)),
    ];
    for first in [cache("l1i", &core.l1i), cache("l1d", &core.l1d)] {
        let mut nearer = first;
        for level in beyond.iter().flatten() {
            if let Some((name, _, cycles)) = nearer.as_ref().filter(|(_, _, cycles)| *cycles > level.2) {
                let message = format!("{} cycles are less than the {cycles} of {name}", level.2);
                return fail(&level.1, message);
            }
            nearer = Some(level.clone());
        }
    }
    Ok(())
}

fn check_geometry(key: &Key, size: Bytes, ways: u32, replacement: Replacement) -> Result<()> {
    if !(1..=WAYS_MAX).contains(&ways) {
        return fail(&key.name("ways"), format!("{ways}; a set has 1 to {WAYS_MAX} lines"));
    }
    if replacement == Replacement::TreePlru && (!ways.is_power_of_two() || ways > 64) {
        return fail(&key.name("ways"), format!("{ways}; tree-plru needs a power of two, at most 64"));
    }
    if size.0 == 0 || size.0 > CACHE_SIZE_MAX {
        return fail(&key.name("size"), format!("{size}; a cache has 64 bytes to {}", Bytes(CACHE_SIZE_MAX)));
    }
    let set = u64::from(ways) * LINE_SIZE;
    let sets = size.0 / set;
    if size.0 % set != 0 || !sets.is_power_of_two() {
        let below = if sets == 0 { 1 } else { 1 << sets.ilog2() };
        let message = format!(
            "{size} in {ways} ways of {LINE_SIZE} bytes: the number of sets must be a power of two; {} or {} would do",
            Bytes(below * set),
            Bytes(2 * below * set)
        );
        return fail(&key.name("size"), message);
    }
    Ok(())
}
