//! What a timed run tells at its end.

use std::path::Path;

use motet_fabric::{
    Error, ErrorKind, Result,
    stats::{CoreStats, Stats},
};

use crate::progress;

/// Prints the table.
pub fn print(stats: &Stats) {
    progress::print(
        "motet: core       time ms    idle ms   stall ms instructions   IPC    L1I hit  L1D hit  L2 hit  L3 hit   L3 misses",
    );
    for core in &stats.cores {
        let rates = hit_rates(core).map(|rate| format!("{:>7.2}%", rate * 100.0));
        progress::print(&format!(
            "motet: {:<9} {:>9} {:>10} {:>10} {:>12} {:>5.2}  {} {:>11}",
            format!("{}.{}", core.island, core.core),
            milliseconds(core.time_ps),
            milliseconds(core.idle_ps),
            milliseconds(core.stall_ps),
            core.instructions,
            core.instructions_per_cycle(),
            rates.join(" "),
            core.count("l3i_misses") + core.count("l3d_misses"),
        ));
    }
    if stats.out_of_turn != 0 {
        progress::print(&format!("motet: {} times a core went on out of turn", stats.out_of_turn));
    }
}

/// Share of accesses that hit, 0 to 1, in L1I, L1D, L2 and L3; of none, 1.
fn hit_rates(core: &CoreStats) -> [f64; 4] {
    let sum = |names: &[&str]| names.iter().map(|name| core.count(name)).sum::<u64>();
    let rate = |accesses: u64, misses: u64| 1.0 - misses as f64 / accesses.max(1) as f64;
    let (l1i, l1d) = (core.count("l1i_misses"), core.count("l1d_misses"));
    let (l2, l3) = (sum(&["l2i_misses", "l2d_misses"]), sum(&["l3i_misses", "l3d_misses"]));
    let data = sum(&["loads", "stores", "atomics", "walks"]);
    [rate(core.count("fetches"), l1i), rate(data, l1d), rate(l1i + l1d, l2), rate(l2, l3)]
}

fn milliseconds(ps: u64) -> String {
    format!("{:.3}", ps as f64 / 1e9)
}

/// Writes everything as JSON.
///
/// # Errors
/// The file cannot be written.
pub fn write(stats: &Stats, path: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(stats).expect("numbers and strings");
    text.push('\n');
    std::fs::write(path, text)
        .map_err(|error| Error::new(ErrorKind::CantCreate, format!("{}: {error}", path.display())))
}
