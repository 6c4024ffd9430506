//! Hot paths cost what the record of figures says (`docs/figures/boot.json`), so that no change makes one slower without a word.

use std::{fs, time::Duration};

use motet_calls::{OPEN_CLOSE, OPERATIONS, STAT, counted};
use serde_json::Value;

use crate::{
    process::{ISAS, Motet, root, target},
    trial::{Trial, trial},
};

/// A cost may be above the recorded one by this part.
const TOLERANCE: f64 = 0.01;
/// Where a name is in its hash chain is random in each boot: what looks names up may be above by this part.
const TOLERANCE_OF_NAMES: f64 = 0.03;
/// As `motet bench boot` does it: with memory where it always is, so that page tables are needed in the same places.
const COMMAND: &str = "echo 0 > /proc/sys/kernel/randomize_va_space; /in/programs/calls";
const RECORD: &str = "docs/figures/boot.json";

/// All of them: one for each instruction set.
pub fn trials() -> Vec<Trial> {
    ISAS.iter().map(|isa| trial(&format!("hot_paths::cost_what_the_record_says_on_{isa}"), || costs(isa))).collect()
}

/// Executes what is measured under the plugin that counts instructions, on a machine of one core.
fn costs(isa: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (machine, programs, counted) =
        (folder.path().join("machine.toml"), folder.path().join("programs"), folder.path().join("counted"));
    let text = format!("[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 1\n");
    let copied = fs::write(&machine, text).and_then(|()| fs::create_dir(&programs)).and_then(|()| {
        let built = target().join(folder_of(isa)).join("release/calls");
        fs::copy(built, programs.join("calls"))
    });
    copied.map_err(|error| error.to_string())?;
    let plugin = target().join("release/libmotet_counting_plugin.so");
    let counting = format!("{isa}=-plugin {},out={}", plugin.display(), counted.display());
    let ended = Motet::run(["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.as_os_str()])
        .arguments(["--qemu", &counting, "--", COMMAND])
        .limit(Duration::from_secs(300))
        .wait();
    ended.expect_code(0)?.expect_output("calls: ok\n")?;
    let text = fs::read_to_string(&counted).map_err(|error| format!("{}: {error}", counted.display()))?;
    let costs = counted::costs(&text).ok_or("marks are missing")?;
    let record = fs::read_to_string(root().join(RECORD)).map_err(|error| format!("{RECORD}: {error}"))?;
    compare(isa, &costs, &serde_json::from_str(&record).map_err(|error| format!("{RECORD}: {error}"))?)
}

/// Where cargo puts guest programs for an instruction set.
fn folder_of(isa: &str) -> &'static str {
    match isa {
        "x86_64" => "x86_64-unknown-none",
        "aarch64" => "aarch64-unknown-none-softfloat",
        _ => "riscv64imac-unknown-none-elf",
    }
}

/// What each costs is recorded, and is not above that.
fn compare(isa: &str, costs: &counted::Costs, record: &Value) -> Result<(), String> {
    let figures = record["figures"].as_array().ok_or_else(|| format!("{RECORD}: no figures"))?;
    let recorded = |metric: &str| figures.iter().find(|figure| figure["metric"] == metric)?["value"].as_f64();
    let mut worse = String::new();
    for (operation, cost) in OPERATIONS.iter().zip(costs) {
        let metric = format!("{}_instructions_{isa}", operation.name);
        let by_name = [OPEN_CLOSE, STAT].contains(operation);
        let tolerance = if by_name { TOLERANCE_OF_NAMES } else { TOLERANCE };
        match recorded(&metric) {
            Some(recorded) if *cost <= recorded * (1.0 + tolerance) => {}
            Some(recorded) => worse += &format!("\n  {metric}: {cost:.1} instead of {recorded:.1}"),
            None => worse += &format!("\n  {metric}: {cost:.1}, and nothing is recorded"),
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    let ways = "make it cheaper, or record what it costs now (`./motet bench all boot --only calls`) in the same commit, which says why";
    Err(format!("above the record by more than is allowed:{worse}\n{ways}"))
}
