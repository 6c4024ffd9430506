//! Guests (docs/guests.md) on QEMU's boards by themselves, and in virtual machines: each runs to its end, and what it counts fits together.
//! How much it counts is not looked at.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use motet_fabric::{qemu, run::guest_path};
use motet_layout::Isa;

use crate::{
    bad_input,
    firmware::Board,
    process::{self, Motet},
    trial::{Trial, trial},
};

/// Thread-Metric's tests, which print one number.
const COUNTS: [&str; 8] =
    ["basic", "cooperative", "preemptive", "interrupt", "interrupt-preemption", "message", "synchronization", "memory"];
/// What the test of response times prints, with four numbers.
const TIMES: [&str; 3] = ["interrupt-latency", "task-release", "response"];

/// Cores of a board.
const CORES: usize = 3;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for isa in [Isa::RiscV64, Isa::AArch64] {
        for guest in ["rtos", "freertos"] {
            let name = |what: &str| format!("guests::{guest}_{what}_on_{}", isa.name());
            trials.push(trial(&name("passes_every_test"), move || passes(isa, guest)));
            trials.push(trial(&name("refuses_wrong_arguments"), move || refuses(isa, guest)));
        }
        let name = |what: &str| format!("guests::{what}_on_{}", isa.name());
        trials.push(trial(&name("a_heartbeat_has_every_core"), move || beats(isa)));
        trials.push(trial(&name("a_console_interrupts"), move || types(isa)));
        trials.push(trial(&name("a_hostile_guest_makes_all_its_attempts"), move || attempts(isa)));
        let name = |what: &str| format!("guests::{what}_in_virtual_machines_on_{}", isa.name());
        trials.push(trial(&name("real_time_kernels_pass_every_test"), move || in_virtual_machines(isa)));
    }
    trials.push(trial("guests::motet_guests_builds_them_and_says_where_they_are", builds));
    trials.push(trial("guests::machines_of_both_instruction_sets_run_beside_each_other", beside));
    trials.push(trial("guests::a_heartbeat_has_every_core_of_a_virtual_machine", beats_in_machine));
    trials.push(trial("guests::a_hostile_guest_makes_all_its_attempts_in_a_virtual_machine", attempts_in_machine));
    trials
}

fn builds() -> Result<(), String> {
    let ended = Motet::default().arguments(["guests", "riscv64"]).limit(Duration::from_secs(3000)).wait();
    let wanted = built(Isa::RiscV64, "rtos")?.display().to_string();
    let paths = || ended.expect_code(0).map(|ended| ended.output.lines());
    let are_there = paths()?.all(|path| Path::new(path).is_file());
    if are_there && paths()?.any(|path| path == wanted) { Ok(()) } else { Err(ended.describe()) }
}

/// Ticks of 10 ms, so that hosts under load respond to one at least.
const ROUNDS: &str = "rounds=2 interval_ms=200 tick_us=10000";

fn passes(isa: Isa, guest: &str) -> Result<(), String> {
    has_passed(&board(isa, guest, ROUNDS)?.ended()?)
}

/// The same images, one beside the other.
fn in_virtual_machines(isa: Isa) -> Result<(), String> {
    run_beside(&built(isa, "rtos")?, &built(isa, "freertos")?)
}

/// One on each kind of cores.
fn beside() -> Result<(), String> {
    run_beside(&built(Isa::AArch64, "rtos")?, &built(Isa::RiscV64, "freertos")?)
}

fn run_beside(rtos: &Path, general: &Path) -> Result<(), String> {
    let images = ["--rtos".as_ref(), rtos.as_os_str(), "--general".as_ref(), general.as_os_str()];
    let ended = virtual_machine(&["--append", ROUNDS]).arguments(images).wait();
    ended.expect_code(0)?;
    ["guest-rtos: ", "guest-freertos: "].into_iter().try_for_each(|prefix| {
        let lines = ended.output.lines().filter_map(|line| line.strip_prefix(prefix));
        has_passed(&lines.map(|line| format!("{line}\n")).collect::<String>())
    })
}

/// A run of virtual machines, in a machine where cores of both instruction sets have guests.
fn virtual_machine(options: &[&str]) -> Motet {
    let machine = process::root().join("machines/guests.toml");
    let motet = Motet::default().arguments(["vm", "run", "--quiet", "--machine"]).argument(&machine);
    motet.arguments(options).limit(LIMIT)
}

/// Whether a guest has done all of [`ROUNDS`].
fn has_passed(text: &str) -> Result<(), String> {
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

fn beats(isa: Isa) -> Result<(), String> {
    has_beaten(&board(isa, "heartbeat", BEATS)?.ended()?)
}

/// More cores than real ones.
fn beats_in_machine() -> Result<(), String> {
    let image = built(Isa::AArch64, "heartbeat")?;
    let options = ["--append", BEATS, "--cpus", &CORES.to_string()];
    let ended = virtual_machine(&options).argument("--general").argument(&image).wait();
    has_beaten(&ended.expect_code(0)?.output)
}

const BEATS: &str = "rounds=5 interval_ms=200";

fn has_beaten(text: &str) -> Result<(), String> {
    let mut last = [0; CORES];
    for number in 1..=5 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("heartbeat {number} ")));
        let words = line.into_iter().flat_map(str::split_whitespace);
        let passes: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let goes_on = passes.iter().zip(last).all(|(now, before)| *now >= before);
        if passes.len() != CORES || !goes_on || passes[0] == last[0] {
            return Err(format!("heartbeat {number}: {passes:?} after {last:?}\n{text}"));
        }
        last.copy_from_slice(&passes);
    }
    if last.contains(&0) || !text.ends_with("passed 5\n") { Err(format!("{last:?}\n{text}")) } else { Ok(()) }
}

fn attempts(isa: Isa) -> Result<(), String> {
    [1, 2].into_iter().try_for_each(|seed| {
        let text = board(isa, "hostile", &format!("seed={seed} attempts=2000"))?.ended()?;
        has_attempted(&text).map_err(|error| format!("seed {seed}: {error}"))
    })
}

/// Another seed each time.
fn attempts_in_machine() -> Result<(), String> {
    let image = built(Isa::AArch64, "hostile")?;
    let seed = bad_input::seed();
    let options = ["--append", &format!("seed={seed} attempts=2000")];
    let ended = virtual_machine(&options).argument("--general").argument(&image).wait();
    let context = |error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE);
    has_attempted(&ended.expect_code(0).map_err(context)?.output).map_err(context)
}

/// Whether a guest has made 2000 attempts of each kind.
fn has_attempted(text: &str) -> Result<(), String> {
    // What it has written to the serial port may be before a line. QEMU's calls cause no exception if they are calls at all. In a virtual machine
    // nothing is where there is no memory.
    for (attack, right) in [("memory", 1..=2000), ("calls", 0..=1999), ("registers", 1..=1999)] {
        let after = text.split_once(&format!("{attack} 2000 ")).map(|(_, after)| after);
        let exceptions: Option<u32> = after.and_then(|after| after.lines().next()?.parse().ok());
        if !exceptions.is_some_and(|exceptions| right.contains(&exceptions)) {
            return Err(format!("{attack}: {exceptions:?} exceptions\n{text}"));
        }
    }
    if text.ends_with("passed 3\n") { Ok(()) } else { Err(format!("it has not passed\n{text}")) }
}

fn refuses(isa: Isa, guest: &str) -> Result<(), String> {
    for (arguments, reason) in [("rounds=none", "bad argument: rounds=none"), ("test=none", "there is no test none")] {
        let mut board = board(isa, guest, arguments)?;
        let text = board.until(LIMIT, |_| false);
        // Neither PSCI nor QEMU's OpenSBI has a status for it.
        if !text.ends_with(&format!("failed: {reason}\n")) || board.status()? != Some(0) {
            return Err(format!("{:?}\n{text}", board.status()?));
        }
    }
    Ok(())
}

/// What is typed comes by interrupts.
fn types(isa: Isa) -> Result<(), String> {
    let board = board_command(isa, "serial", "lines=2")?;
    // Firmware forgets what is typed before the guest runs.
    const TYPES: &str = "pipe=$(mktemp -u); mkfifo $pipe; exec 3<>$pipe; rm $pipe; timeout 1500 \"$0\" \"$@\" <&3 | \
        while IFS= read -r line; do printf '%s\\n' \"$line\"; \
        case $line in 'serial: ready'*) printf 'one\\ntwo and more\\n' >&3;; esac; done";
    let mut typed = Command::new("sh");
    typed.args(["-c", TYPES]).arg(board.get_program());
    let mut board = Board::spawn({
        typed.args(board.get_args());
        typed
    })?;
    let text = board.until(LIMIT, |text| text.contains("passed") || text.contains("failed"));
    let is_well = ["ONE\n", "TWO AND MORE\n", "\npassed 1\n"].iter().all(|line| text.contains(line));
    if is_well { Ok(()) } else { Err(text) }
}

/// A board that takes longer hangs: seconds where nothing else runs.
const LIMIT: Duration = Duration::from_secs(1500);

/// Starts a guest on a board of its own.
fn board(isa: Isa, guest: &str, arguments: &str) -> Result<Board, String> {
    Board::spawn(board_command(isa, guest, arguments)?)
}

fn board_command(isa: Isa, guest: &str, arguments: &str) -> Result<Command, String> {
    let mut command = Command::new(qemu::locate(isa).map_err(|error| error.message)?);
    match isa {
        Isa::AArch64 => command.args(["-machine", "virt,gic-version=3", "-cpu", "cortex-a76"]),
        Isa::RiscV64 | Isa::X86_64 | Isa::Hosted => command.args(["-machine", "virt", "-bios", "default"]),
    };
    command.arg("-smp").arg(CORES.to_string()).args([
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
    Ok(command)
}

/// Where a guest is, which is built before any test.
pub fn built(isa: Isa, guest: &str) -> Result<PathBuf, String> {
    let path = process::target().join(guest_path(isa, guest));
    if path.is_file() { Ok(path) } else { Err(format!("{} is not there: run ./motet build --tests", path.display())) }
}
