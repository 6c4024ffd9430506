//! Timed runs: time is simulated, the same every time if that is asked for, and costs nothing when it is not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use motet_fabric::stats::Stats;
use rustix::process::{Signal, kill_process};

use crate::{
    bad_input,
    crossing::compiled,
    process::{self, ISAS, Motet, Running, expect_gone, pid, started},
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// The pipeline of the README, over three instruction sets.
const PIPELINE: &str = "cat /in/text | on aarch64 tr -cs A-Za-z '\\n' | on riscv64 sort | uniq -c | on aarch64 sort -rn | \
                        head -20";

/// Machines that run at the same time, of which the host has too few processors for all their cores.
const BESIDE: usize = 4;
/// Seeds that are tried besides, should the host have been so busy that too few runs can be compared.
const MORE_SEEDS: u64 = 6;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 13] = [
        ("timed::sleeping_takes_simulated_time_only", sleeping),
        ("timed::simulated_time_has_an_end_that_is_told", end_of_time),
        ("timed::polling_cores_take_their_alarms", polling),
        ("timed::statistics_that_cannot_be_written_are_refused_before_the_run", unwritable_stats),
        ("timed::statistics_of_an_interrupted_run_say_so", interrupted),
        ("timed::deterministic_runs_are_equal", equal_runs),
        ("timed::threads_that_meet_do_so_alike_however_busy_the_host_is", alike),
        ("timed::a_core_that_rings_does_not_wait_for_who_is_rung", ringing),
        ("timed::counters_that_programs_read_show_simulated_time", counters),
        ("timed::a_quantum_grows", growing_quantum),
        ("timed::cores_that_use_the_same_lines_within_a_quantum_are_reported", sharing),
        ("timed::untimed_runs_load_no_plugin", no_plugin),
        ("timed::a_core_that_stops_is_named", stopped_island),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// What a run has written with `--stats`.
pub fn stats_of(path: &Path) -> Result<Stats, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn sleeping() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("stats.json");
    // So long that nobody waits for it on the host's clock.
    let ended = Motet::run(["--timed".as_ref(), "--stats".as_ref(), path.as_os_str()])
        .arguments(["--", "time sleep 2; before=$(date +%s); on riscv64 sleep 3600; echo $(($(date +%s) - before))"])
        .wait();
    ended.expect_code(0)?.expect_errors(&["real\t0m 2.00s"])?;
    // Both dates are cut to seconds, and some milliseconds go by besides.
    if !["3600\n", "3601\n"].contains(&ended.output.as_str()) {
        return Err(format!("not an hour between two dates\n{}", ended.output));
    }
    let stats = stats_of(&path)?;
    let seconds = stats.time_ps as f64 / 1e12;
    if !(3602.0..3603.0).contains(&seconds) {
        return Err(format!("{seconds} s of simulated time\n{}", ended.errors));
    }
    let sleeper = &stats.cores[2];
    let (sent, received) = stats
        .cores
        .iter()
        .fold((0, 0), |(sent, received), core| (sent + core.ipis_sent, received + core.ipis_received));
    if sleeper.island != "riscv" || sleeper.idle_ps < 3600 * 1_000_000_000_000 || received == 0 || sent < received {
        return Err(format!("{sleeper:?}: {sent} doorbells sent, {received} received"));
    }
    // Those that slept to the end, too.
    let behind = stats.cores.iter().find(|core| core.time_ps < stats.time_ps);
    if let Some(core) = behind {
        return Err(format!("{core:?} ends before the run, at {} ps", stats.time_ps));
    }
    Ok(())
}

fn end_of_time() -> Result<(), String> {
    let ended =
        Motet::run(["--timed", "--", "on riscv64 sleep 18000000; echo slept; sleep 18000000; echo again"]).wait();
    ended
        .expect_code(70)?
        .expect_output("slept\n")?
        .expect_errors(&["the simulated time ends after 213 days"])
        .map(drop)
}

fn interrupted() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("stats.json");
    let mut running = Motet::run(["--timed".as_ref(), "--stats".as_ref(), path.as_os_str()])
        .arguments(["--", "echo started; while true; do true; done"])
        .start();
    let islands = started(&mut running)?;
    kill_process(pid(running.id())?, Signal::INT).map_err(|error| error.to_string())?;
    let ended = running.wait();
    expect_gone(&islands)?;
    ended.expect_code(128 + Signal::INT.as_raw())?.expect_errors(&["interrupted (signal 2)"])?;
    let warnings = stats_of(&path)?.warnings;
    if warnings.iter().any(|warning| warning.contains("interrupted (signal 2)")) {
        return Ok(());
    }
    Err(format!("warnings {warnings:?}\n{}", ended.errors))
}

/// Its cores of RISC-V poll for a millisecond: for longer than this sleeps.
fn polling() -> Result<(), String> {
    let machine = process::root().join("machines/flick.toml");
    Motet::run(["--timed".as_ref(), "--machine".as_ref(), machine.as_os_str()])
        .arguments(["--", "on riscv64 sleep 0.0005; echo awake"])
        .wait()
        .expect_code(0)?
        .expect_output("awake\n")
        .map(drop)
}

fn unwritable_stats() -> Result<(), String> {
    let ended = Motet::run(["--timed", "--stats", "/nowhere/stats.json", "--", "echo ran"]).wait();
    ended.expect_code(73)?.expect_output("")?.expect_errors(&["--stats /nowhere/stats.json"]).map(drop)
}

/// Writes the file that the pipeline reads.
fn write_text(folder: &Path) -> Result<PathBuf, String> {
    let text = folder.join("text");
    let lines =
        |number: u32| format!("{} of {} is {}\n", number % 7, number % 31, "word ".repeat(number as usize % 11));
    fs::write(&text, (0..1000).map(lines).collect::<String>()).map_err(|error| error.to_string())?;
    Ok(text)
}

/// It exchanges much, then nothing, then something.
/// Cores so slow that a quantum often ends between a kernel's word that it rings and the ring.
fn ringing() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (machine, path) = (folder.path().join("machine.toml"), folder.path().join("stats.json"));
    let island =
        "[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 2\nprivate = \"64MiB\"\n";
    let cache = "{ size = 2048, ways = 2, cycles = 1 }";
    let latencies = "frequency_mhz = 200\nmemory_cycles = 200\nremote_cycles = 400\n";
    let core = format!("[[model.core]]\nisland = \"x86\"\n{latencies}l1i = {cache}\nl1d = {cache}\n");
    fs::write(&machine, format!("{island}{core}")).map_err(|error| error.to_string())?;
    let motet = Motet::run(["--timed", "--deterministic", "--quantum", "2", "--quiet", "--machine"]);
    let motet = motet.argument(&machine).argument("--stats").argument(&path);
    motet.arguments(["--", "echo a | cat | wc -c"]).wait().expect_code(0)?.expect_output("2\n")?;
    match stats_of(&path)?.out_of_turn {
        0 => Ok(()),
        count => Err(format!("{count} times a core went on although it was not its turn")),
    }
}

/// A reading lies between two of the clock, to the tick; without `--timed`, counters are the hardware's, which the first reading of
/// a program has already shown.
fn counters() -> Result<(), String> {
    let programs = compiled("counters", &["-O1"])?;
    let of_all =
        |cycles_per_us: u32| ISAS.map(|isa| format!("on {isa} /in/programs/counters {cycles_per_us}")).join(" && ");
    let run = |options: &[&str], cycles_per_us: u32| {
        Motet::run(options).argument("--in").argument(&programs.path).arguments(["--", &of_all(cycles_per_us)]).wait()
    };
    let ended = run(&["--timed", "--quiet"], 2000);
    ended.expect_code(0)?;
    ended.expect_output(&"counters count, others are refused\n".repeat(ISAS.len()))?;
    let ended = run(&["--quiet"], 0);
    ended.expect_code(0)?;
    let [refused, there] = ["counters count, others are refused\n", "counters count, others are there\n"];
    ended.expect_output(&[refused, refused, there].concat()).map(drop)
}

fn growing_quantum() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (text, path) = (write_text(folder.path())?, folder.path().join("stats.json"));
    let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i";
    let command = format!("{PIPELINE}; {{ on aarch64 sh -c '{count}' & on riscv64 sh -c '{count}'; wait; }} | sort");
    let run = |quantum: &str| {
        Motet::run(["--timed", "--quantum", quantum, "--stats"])
            .argument(&path)
            .arguments(["--in".as_ref(), text.as_os_str()])
            .arguments(["--", &command])
            .wait()
    };
    let fixed = run("10");
    fixed.expect_code(0)?;
    run("10:1000").expect_code(0)?.expect_output(&fixed.output)?;
    let machine = stats_of(&path)?.machine;
    if (machine.quantum_ps, machine.quantum_max_ps) != (10_000_000, 1_000_000_000) {
        return Err(format!("the statistics say {} and {} ps", machine.quantum_ps, machine.quantum_max_ps));
    }
    let turns = Motet::run(["--timed", "--deterministic", "--quantum", "10:1000", "--", "true"]).wait();
    turns.expect_code(64)?.expect_errors(&["--deterministic needs --quantum auto or a fixed one"]).map(drop)
}

/// Two cores add to words of one line, or of two: with a fixed quantum, and with the usual one, which is then short.
fn sharing() -> Result<(), String> {
    let programs = compiled("sharing", &["-O2"])?;
    let stats = programs.path.join("stats.json");
    // Whether it was told, and the time in the region.
    let run = |mode: &[&str], stride: u32| {
        let motet = Motet::run(mode).argument("--stats").argument(&stats);
        let ended = motet.argument("--in").argument(programs.path.join("sharing"));
        // So many that the kernel's own exchanges, when threads begin and meet, are no part of what counts.
        let additions = if stride == 1 { 50_000 } else { 2_000_000 };
        let ended = ended.arguments(["--", &format!("/in/sharing {stride} {additions}")]).wait();
        ended.expect_code(0)?.expect_output(&format!("{additions} {additions}\n"))?;
        let told = |text: &str| text.contains("TIMES CANNOT BE TRUSTED in region sharing");
        let Stats { warnings, regions, .. } = stats_of(&stats)?;
        let is_told = told(&ended.errors);
        if warnings.iter().any(|warning| told(warning)) != is_told {
            return Err(format!("{mode:?}: {warnings:?}\n{}", ended.errors));
        }
        let time_ps = regions.first().map_or(0, |region| region.time_ps);
        Ok((is_told, time_ps, format!("{mode:?}, {stride} words apart:\n{}", ended.errors)))
    };
    // With turns, a fixed quantum lets a core add within its cache until its turn ends: no host has a say in that. The usual quantum
    // takes a transfer of the line for each addition, and not a few cycles.
    let told_if_fixed = |mode: &[&str]| {
        let fixed = [mode, &["--quantum", "10"]].concat();
        let (fixed_is_told, fixed_ps, fixed_errors) = run(&fixed, 1)?;
        let (usual_is_told, usual_ps, usual_errors) = run(mode, 1)?;
        if !fixed_is_told || usual_is_told {
            return Err(format!("{fixed_ps} ps: {fixed_errors}\n{usual_ps} ps: {usual_errors}"));
        }
        for mode in [mode, &fixed] {
            let (is_told, _, errors) = run(mode, 16)?;
            if is_told {
                return Err(errors);
            }
        }
        Ok((fixed_ps, usual_ps))
    };
    let (fixed_ps, in_turns_ps) = told_if_fixed(&["--timed", "--deterministic"])?;
    if in_turns_ps < 10 * fixed_ps {
        return Err(format!("in turns: {fixed_ps} ps with a fixed quantum, {in_turns_ps} ps with the usual one"));
    }
    // Side by side, how often cores change places within a fixed quantum is the host's: it may let each addition move the line. So the usual
    // quantum is compared with what a fixed one does in turns.
    let (_, beside_ps) = told_if_fixed(&["--timed"])?;
    if beside_ps < 10 * fixed_ps {
        return Err(format!(
            "{fixed_ps} ps in turns with a fixed quantum, {beside_ps} ps side by side with the usual one"
        ));
    }
    Ok(())
}

fn equal_runs() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let text = write_text(folder.path())?;
    let run = |name: &str| {
        let path = folder.path().join(name);
        let ended = Motet::run(["--timed", "--deterministic", "--stats"])
            .argument(&path)
            .arguments(["--in".as_ref(), text.as_os_str()])
            .arguments(["--", PIPELINE])
            .wait();
        ended.expect_code(0)?;
        let stats = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok::<_, String>((ended.output, stats))
    };
    let (first, second) = (run("first.json")?, run("second.json")?);
    if !first.0.contains(" word\n") {
        return Err(format!("the pipeline printed {:?}", first.0));
    }
    if first != second {
        return Err(format!("two runs differ:\n{}\n{}\n{}\n{}", first.0, second.0, first.1, second.1));
    }
    let stats = stats_of(&folder.path().join("first.json"))?;
    match stats.disorders().as_slice() {
        [] => Ok(()),
        disorders => Err(disorders.join("; ")),
    }
}

/// Programs of threads that meet on all instruction sets, as the day's seeds choose: one run by itself, and then runs beside each other, whose threads the host
/// lets run in another order.
fn alike() -> Result<(), String> {
    let programs = compiled("alike", &["-O2"])?;
    let seeds = of_long(2, 20);
    let mut compared = 0;
    for index in 0.. {
        if index >= seeds && compared >= seeds {
            break;
        }
        if index == seeds + MORE_SEEDS {
            let runs = index * BESIDE as u64;
            return Err(format!("of {runs} runs beside others, {compared} were in order, so little was compared"));
        }
        let seed = bad_input::seed() + index;
        let context = |error: String| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE);
        compared += alike_with(&programs.path, seed).map_err(context)?;
        eprintln!("{compared} of {} runs beside others were in order", (index + 1) * BESIDE as u64);
    }
    Ok(())
}

/// Runs a seed alone, and several times at once. How many of these could be compared: all that do not say that they were out of order.
fn alike_with(programs: &Path, seed: u64) -> Result<u64, String> {
    let run = |name: String| {
        let stats = programs.join(name);
        let motet = Motet::run(["--timed", "--deterministic", "--quiet", "--stats"])
            .argument(&stats)
            .argument("--in")
            .argument(programs.join("alike"));
        (motet.arguments(["--".into(), format!("/in/alike {seed}")]).start(), stats)
    };
    let ended = |(running, path): (Running, PathBuf)| {
        running.wait().expect_code(0)?.expect_output("alike: ok\n")?;
        let disorders = stats_of(&path)?.disorders();
        let stats = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok::<_, String>((stats, disorders))
    };
    let (first, disorders) = ended(run("first".into()))?;
    if !disorders.is_empty() {
        return Err(disorders.join("; "));
    }
    let beside: Vec<_> = (0..BESIDE).map(|index| run(index.to_string())).collect();
    let others: Vec<_> = beside.into_iter().map(ended).collect::<Result<_, _>>()?;
    let in_order = || others.iter().filter(|(_, disorders)| disorders.is_empty());
    match in_order().find(|(other, _)| *other != first) {
        Some((other, _)) => Err(format!("two runs differ:\n{first}\n{other}")),
        None => Ok(in_order().count() as u64),
    }
}

fn no_plugin() -> Result<(), String> {
    for (arguments, expected) in [(&["--", "echo started; sleep 1000"][..], false), (&["--timed", "--", SPIN], true)] {
        let mut running = Motet::run(arguments).start();
        let islands = started(&mut running)?;
        for &island in &islands {
            let maps = fs::read_to_string(format!("/proc/{island}/maps")).map_err(|error| error.to_string())?;
            if maps.contains("libmotet_timing_plugin") != expected {
                return Err(format!("{} has the plugin: {}", process::command_line(island), !expected));
            }
        }
        kill_process(pid(running.id())?, Signal::TERM).map_err(|error| error.to_string())?;
        running.wait();
        expect_gone(&islands)?;
    }
    Ok(())
}

/// Keeps a core of each island busy.
const SPIN: &str =
    "for isa in aarch64 riscv64; do on $isa sh -c 'while :; do :; done' & done; echo started; while :; do :; done";

fn stopped_island() -> Result<(), String> {
    for (mode, name, program) in [("--timed", "arm", "aarch64"), ("--deterministic", "riscv", "riscv64")] {
        let mut running = Motet::run(["--timed", "--hang-timeout", "3"])
            .arguments((mode != "--timed").then_some(mode))
            .arguments(["--", SPIN])
            .start();
        let islands = started(&mut running)?;
        let victim = islands.iter().find(|&&id| process::command_line(id).contains(&format!("qemu-system-{program}")));
        let victim = *victim.ok_or_else(|| format!("no QEMU for {program}"))?;
        kill_process(pid(victim)?, Signal::STOP).map_err(|error| error.to_string())?;
        let wanted = format!("island {name} hangs: core 0");
        running.wait().expect_code(70)?.expect_errors(&[&wanted, "for 3 s", "its QEMU does not answer"])?;
        expect_gone(&islands)?;
    }
    Ok(())
}
