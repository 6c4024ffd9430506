//! Guests (docs/guests.md) on QEMU's boards by themselves: each runs to its end, and what it counts fits together. How much it
//! counts is not looked at.

use std::{path::PathBuf, process::Command, sync::OnceLock, time::Duration};

use libtest_mimic::Trial;
use motet_fabric::{qemu, run::guest_path};
use motet_layout::Isa;

use crate::{
    firmware::Machine,
    process::{self, Motet},
    trial,
};

/// Thread-Metric's tests, which print one number.
const COUNTS: [&str; 8] =
    ["basic", "cooperative", "preemptive", "interrupt", "interrupt-preemption", "message", "synchronization", "memory"];
/// What the test of response times prints, with four numbers.
const TIMES: [&str; 3] = ["interrupt-latency", "task-release", "response"];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for isa in [Isa::RiscV64, Isa::AArch64] {
        for guest in ["rtos", "freertos"] {
            let name = |what: &str| format!("guests::{guest}_{what}_on_{}", isa.name());
            trials.push(trial(&name("passes_every_test"), move || passes(isa, guest)));
            trials.push(trial(&name("refuses_wrong_arguments"), move || refuses(isa, guest)));
        }
    }
    trials
}

fn passes(isa: Isa, guest: &str) -> Result<(), String> {
    // Ticks of 10 ms, so that hosts under load respond to one at least.
    let text = board(isa, guest, "rounds=2 interval_ms=200 tick_us=10000")?.ended()?;
    let words = |name: &str| -> Vec<Vec<u64>> {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let lines = lines.filter(|line| line.first() == Some(&name));
        lines.map(|line| line[1..].iter().filter_map(|word| word.parse().ok()).collect()).collect()
    };
    for name in COUNTS {
        let rounds = words(name);
        if rounds.len() != 2 || rounds.iter().any(|round| round.len() != 1 || round[0] == 0) {
            return Err(format!("{name}: not two counts\n{text}"));
        }
    }
    for name in TIMES {
        let is_ordered =
            |round: &[u64]| matches!(round, [min, mean, max, samples] if min <= mean && mean <= max && *samples > 0);
        let rounds = words(name);
        if rounds.len() != 2 || !rounds.iter().all(|round| is_ordered(round)) {
            return Err(format!("{name}: not twice minimum, mean, maximum and samples\n{text}"));
        }
    }
    if text.lines().last() == Some("passed 9") { Ok(()) } else { Err(format!("it has not passed\n{text}")) }
}

fn refuses(isa: Isa, guest: &str) -> Result<(), String> {
    for (arguments, reason) in [("rounds=none", "bad argument: rounds=none"), ("test=none", "there is no test none")] {
        let mut machine = board(isa, guest, arguments)?;
        let text = machine.until(LIMIT, |_| false);
        // Neither PSCI nor QEMU's OpenSBI has a status for it.
        if !text.ends_with(&format!("failed: {reason}\n")) || machine.status()? != Some(0) {
            return Err(format!("{:?}\n{text}", machine.status()?));
        }
    }
    Ok(())
}

/// A board that takes longer hangs: seconds where nothing else runs.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts a guest on a board of its own.
fn board(isa: Isa, guest: &str, arguments: &str) -> Result<Machine, String> {
    let mut command = Command::new(qemu::locate(isa).map_err(|error| error.message)?);
    match isa {
        Isa::AArch64 => command.args(["-machine", "virt,gic-version=3", "-cpu", "cortex-a76"]),
        Isa::RiscV64 | Isa::X86_64 | Isa::Hosted => command.args(["-machine", "virt", "-bios", "default"]),
    };
    command.args([
        "-m",
        "128M",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
    ]);
    command.arg("-kernel").arg(built(isa, guest)?).args(["-append", arguments]);
    Machine::spawn(command)
}

/// Where a guest is; the first call builds all.
fn built(isa: Isa, guest: &str) -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let build = || {
        let ended = Motet::default().argument("guests").limit(Duration::from_secs(3600)).wait();
        ended.expect_code(0).map(drop)
    };
    BUILT.get_or_init(build).clone()?;
    Ok(process::target().join(guest_path(isa, guest)))
}
