//! The table that a timed run prints at its end.

use motet_fabric::stats::{CoreStats, RegionStats, Stats};

use crate::{messages, progress};

/// Most regions that the table shows; `--stats` has all.
const REGIONS_SHOWN: usize = 12;

/// Prints the table.
pub fn print(stats: &Stats) {
    progress::print(
        "motet: core       time ms    idle ms   stall ms instructions   IPC    L1I hit  L1D hit  L2 hit  L3 hit   L3 misses",
    );
    for core in &stats.cores {
        let rates = hit_rates(core).map(|rate| format!("{:>7.2}%", rate * 100.0));
        progress::print(&format!(
            "motet: {:<9} {:>9} {:>10} {:>10} {:>12} {:>5.2}  {} {:>11}",
            core.label(),
            milliseconds(core.time_ps),
            milliseconds(core.idle_ps),
            milliseconds(core.stall_ps),
            core.instructions,
            core.instructions_per_cycle(),
            rates.join(" "),
            core.count("l3i_misses") + core.count("l3d_misses"),
        ));
    }
    messages::lines(&stats.kernels).iter().for_each(|line| progress::print(line));
    for line in stats.regions.iter().take(REGIONS_SHOWN).flat_map(region_lines) {
        progress::print(&line);
    }
    if stats.regions.len() > REGIONS_SHOWN {
        progress::print(&format!("motet: and {} more regions (--stats)", stats.regions.len() - REGIONS_SHOWN));
    }
    for warning in stats.warnings.iter().chain(&stats.disorders()) {
        progress::print(&format!("motet: {warning}"));
    }
}

/// What the machine did in a region. Cores that did nothing are left out.
fn region_lines(region: &RegionStats) -> Vec<String> {
    let entries = if region.entries == 1 { "1 entry".into() } else { format!("{} entries", region.entries) };
    let open = if region.open == 0 { "" } else { ", open at the end" };
    let mut lines = vec![format!(
        "motet: region {}: {}, {entries}, clocks within {}{open}",
        region.name,
        duration(region.time_ps),
        duration(region.skew_ps),
    )];
    lines.push(
        "motet:   core      instructions   IPC  stall   L1I   L1D    L2    L3  near reads   far reads   snoops writebacks IPIs"
            .into(),
    );
    for core in region.cores.iter().filter(|core| core.instructions != 0) {
        let rates = hit_rates(core).map(|rate| format!("{:>4.0}%", rate * 100.0));
        lines.push(format!(
            "motet:   {:<9} {:>12} {:>5.2} {:>5.0}% {} {:>11} {:>11} {:>8} {:>10} {:>4}",
            core.label(),
            core.instructions,
            core.instructions_per_cycle(),
            core.stall_share() * 100.0,
            rates.join(" "),
            core.count("near_reads"),
            core.count("far_reads"),
            core.count("snoop_data") + core.count("snoop_invalidates"),
            core.count("memory_write_backs"),
            core.ipis_sent,
        ));
    }
    lines
}

/// The levels of [`level_hits`].
pub const LEVELS: [&str; 4] = ["L1I", "L1D", "L2", "L3"];

/// Share of accesses that hit, 0 to 1, by level; of none, 1.
fn hit_rates(core: &CoreStats) -> [f64; 4] {
    level_hits(core).map(|[hits, accesses]| if accesses == 0 { 1.0 } else { hits as f64 / accesses as f64 })
}

/// Hits and accesses of a core, by level.
pub fn level_hits(core: &CoreStats) -> [[u64; 2]; 4] {
    let sum = |names: &[&str]| names.iter().map(|name| core.count(name)).sum::<u64>();
    let of = |accesses: u64, misses: u64| [accesses.saturating_sub(misses), accesses];
    let (l1i, l1d) = (core.count("l1i_misses"), core.count("l1d_misses"));
    let (l2, l3) = (sum(&["l2i_misses", "l2d_misses"]), sum(&["l3i_misses", "l3d_misses"]));
    let data = sum(&["loads", "stores", "atomics", "walks"]);
    [of(core.count("fetches"), l1i), of(data, l1d), of(l1i + l1d, l2), of(l2, l3)]
}

/// A time, with the unit that suits its size.
fn duration(ps: u64) -> String {
    match ps {
        0..10_000_000 => format!("{:.1} ns", ps as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} us", ps as f64 / 1e6),
        10_000_000_000.. => format!("{:.1} ms", ps as f64 / 1e9),
    }
}

fn milliseconds(ps: u64) -> String {
    format!("{:.3}", ps as f64 / 1e9)
}

/// All that was counted, as JSON.
pub fn text(stats: &Stats) -> String {
    serde_json::to_string_pretty(stats).expect("numbers and strings") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_fit_a_terminal() {
        let counts =
            ["near_reads", "far_reads", "snoop_data", "memory_write_backs"].map(|name| (name.into(), 9_876_543));
        let core = CoreStats {
            island: "riscv".into(),
            core: 15,
            time_ps: 1_000_000,
            stall_ps: 1_000_000,
            cycles: 98_765_432_109,
            instructions: 98_765_432_109,
            ipis_sent: 9999,
            memory: counts.into(),
            ..CoreStats::default()
        };
        let cores = vec![CoreStats::default(), core];
        let region = RegionStats { name: "x".repeat(40), entries: 1000, open: 1, cores, ..RegionStats::default() };
        let lines = region_lines(&region);
        assert_eq!(lines.len(), 3, "a title, columns, and the core that did something");
        for line in lines {
            assert!(line.len() <= 120, "{} columns: {line}", line.len());
        }
    }

    #[test]
    fn durations_have_units_that_suit_them() {
        assert_eq!(duration(1_500), "1.5 ns");
        assert_eq!(duration(10_000_000), "10.0 us");
        assert_eq!(duration(12_857_000_000), "12.9 ms");
    }
}
