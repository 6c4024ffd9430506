//! What a timed run tells at its end.

use std::path::Path;

use motet_fabric::{Error, ErrorKind, Result, timing::Report};

use crate::progress;

/// Prints the table.
pub fn print(report: &Report) {
    progress::print("motet: core          time       idle     stalls   instructions   IPC/GHz");
    for core in &report.cores {
        let busy_ps = core.clock_ps.saturating_sub(core.idle_ps).max(1);
        progress::print(&format!(
            "motet: {:<10} {:>4} ms {:>7} ms {:>7} ms {:>14} {:>9.3}",
            format!("{}.{}", core.island, core.core),
            milliseconds(core.clock_ps),
            milliseconds(core.idle_ps),
            milliseconds(core.stall_ps),
            core.instructions,
            core.instructions as f64 * 1000.0 / busy_ps as f64,
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
            serde_json::json!({
                "island": core.island,
                "core": core.core,
                "time_ps": core.clock_ps,
                "idle_ps": core.idle_ps,
                "stall_ps": core.stall_ps,
                "instructions": core.instructions,
            })
        })
        .collect();
    let all = serde_json::json!({ "time_ps": report.now_ps, "escapes": report.escapes, "cores": cores });
    std::fs::write(path, format!("{all:#}\n"))
        .map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", path.display())))
}
