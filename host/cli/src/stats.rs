//! What a timed run tells at its end.

use std::path::Path;

use motet_fabric::{Error, ErrorKind, Result, timing::Report};

use crate::progress;

/// Prints the table.
pub fn print(report: &Report) {
    progress::print(
        "motet: core       time ms    idle ms   stall ms instructions   IPC    L1I hit  L1D hit  L2 hit  L3 hit   L3 misses",
    );
    for core in &report.cores {
        let busy_ps = core.clock_ps.saturating_sub(core.idle_ps).max(1);
        let cycles = busy_ps as f64 * core.frequency_mhz as f64 / 1e6;
        let rates = core.memory.hit_rates().map(|rate| format!("{:>7.2}%", rate * 100.0));
        progress::print(&format!(
            "motet: {:<9} {:>9} {:>10} {:>10} {:>12} {:>5.2}  {} {:>11}",
            format!("{}.{}", core.island, core.core),
            milliseconds(core.clock_ps),
            milliseconds(core.idle_ps),
            milliseconds(core.stall_ps),
            core.instructions,
            core.instructions as f64 / cycles,
            rates.join(" "),
            core.memory.l3i_misses + core.memory.l3d_misses,
        ));
    }
    if report.escapes != 0 {
        progress::print(&format!("motet: {} times a core went on out of turn", report.escapes));
    }
}

fn milliseconds(ps: u64) -> String {
    format!("{:.3}", ps as f64 / 1e9)
}

/// Writes everything as JSON.
///
/// # Errors
/// The file cannot be written.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let cores: Vec<serde_json::Value> = report
        .cores
        .iter()
        .map(|core| {
            let names = motet_coherence::counter_names().iter().map(|&name| name.to_owned());
            let memory: serde_json::Map<_, _> =
                names.zip(core.memory.values().into_iter().map(serde_json::Value::from)).collect();
            serde_json::json!({
                "island": core.island,
                "core": core.core,
                "time_ps": core.clock_ps,
                "idle_ps": core.idle_ps,
                "stall_ps": core.stall_ps,
                "instructions": core.instructions,
                "frequency_mhz": core.frequency_mhz,
                "memory": memory,
            })
        })
        .collect();
    let all = serde_json::json!({ "time_ps": report.now_ps, "escapes": report.escapes, "cores": cores });
    std::fs::write(path, format!("{all:#}\n"))
        .map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", path.display())))
}
