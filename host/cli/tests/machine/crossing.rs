//! Programs of `motet cc` whose functions are pinned to different instruction sets: what they do on the host, where
//! everything runs on one processor, they do on a machine, too.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::{
    bad_input::of_the_day,
    compiled, libraries,
    process::{self, Ended, Motet, Running},
    random_programs,
    scripts::{self, Did, Results, Script},
    trial::{Trial, Wanted, trial},
};

type Test = fn() -> Result<(), String>;

/// Programs of `tests/guest/cc` that print the same everywhere.
const SAME: [&str; 27] = [
    "values",
    "calls",
    "library",
    "signals",
    "altstack",
    "queued",
    "processes",
    "threads",
    "classes",
    "streams",
    "exceptions",
    "jump",
    "thrown",
    "events",
    "locks",
    "sockets",
    "mapped",
    "memory",
    "cancel",
    "robust",
    "ranges",
    "leftover",
    "waits",
    "bounds",
    "told",
    "faults",
    "sysv",
];
const LEVELS: [&str; 2] = ["-O0", "-O2"];

/// All of them.
pub fn trials(wanted: &Wanted) -> Vec<Trial> {
    let tests: [(&str, Test); 18] = [
        ("crossing::functions_run_where_they_are_pinned", places),
        ("crossing::a_jump_to_a_function_that_has_returned_ends_the_process", lost),
        ("crossing::a_thread_pointer_that_is_no_address_ends_the_process", thread_pointers),
        ("crossing::without_an_island_the_local_build_runs", local_builds),
        ("crossing::strict_pins_need_an_island", strict),
        ("crossing::a_program_that_looks_at_its_stack_has_one", one_stack),
        ("crossing::a_function_that_one_instruction_set_alone_has_is_called_from_all", own_functions),
        ("crossing::a_program_starts_on_an_instruction_set_that_the_machine_has", without_primary),
        ("crossing::on_starts_a_program_where_it_says", started_by_on),
        ("crossing::calls_go_both_ways_by_flicks_protocol", by_flicks_protocol),
        ("crossing::flicks_descriptors_are_seen_whenever_they_come", descriptors_at_any_time),
        ("crossing::calls_over_a_link_do_not_wait_for_ever", over_a_link),
        ("crossing::calls_over_a_link_are_stores_alone", by_stores_alone),
        ("crossing::pages_that_the_host_fills_for_the_board_are_no_old_copies", filled_by_host),
        ("crossing::programs_that_the_board_starts_read_no_old_copies", started_by_board),
        ("crossing::an_executable_for_one_isa_is_an_ordinary_one", single),
        ("crossing::gdb_stops_in_a_pinned_function_on_its_island", debugger),
        ("crossing::random_programs_do_what_they_do_unpinned", random_programs::check),
    ];
    let mut trials = same_trials(wanted);
    trials.extend(tests.into_iter().map(|(name, test)| trial(name, test)));
    trials
}

const NOTHING_LEFT: &str = "crossing::programs_leave_nothing_behind";

/// One trial for each program, and one for what they leave behind, all together; the first one that runs compiles and boots for all that are
/// not filtered out.
fn same_trials(wanted: &Wanted) -> Vec<Trial> {
    let name_of = |program: &str, level: &str| format!("crossing::{program}_at{}", level.to_lowercase());
    let pairs = SAME.iter().flat_map(|program| LEVELS.map(|level| (*program, level)));
    let is_wanted = |(program, level): &(&str, &str)| wanted.has(&name_of(program, level));
    let mut pairs: Vec<(&'static str, &'static str)> = pairs.filter(is_wanted).collect();
    if pairs.is_empty() && wanted.has(NOTHING_LEFT) {
        pairs = SAME.iter().map(|program| (*program, of_the_day(&LEVELS))).collect();
    }
    let shared = Arc::new(Shared { pairs, done: OnceLock::new() });
    let trial_of = |(program, level): &(&'static str, &'static str)| {
        let (shared, program, level) = (shared.clone(), *program, *level);
        trial(&name_of(program, level), move || {
            let (programs, results) = shared.done()?;
            let name = file(program, level);
            let got = results.get(&name).ok_or("no result")?.as_ref().map_err(String::clone)?;
            scripts::compare(&programs.on_host(&name)?, got)
        })
    };
    // Compiled in one of both ways each day, where what is slow is not asked for.
    let trial_of = |pair: &(&'static str, &'static str)| {
        let trial = trial_of(pair);
        if pair.1 == of_the_day(&LEVELS) { trial } else { trial.long() }
    };
    let mut trials: Vec<Trial> = shared.pairs.iter().map(trial_of).collect();
    trials.push(trial(NOTHING_LEFT, move || scripts::nothing_is_left(&shared.done()?.1)));
    trials.into_iter().map(|trial| trial.sharing("crossing")).collect()
}

/// Programs of several trials, each with an option, and what they did on one machine.
struct Shared {
    pairs: Vec<(&'static str, &'static str)>,
    done: OnceLock<Result<(Programs, Results), String>>,
}

impl Shared {
    /// Compiles the programs and runs them, the first time.
    fn done(&self) -> Result<&(Programs, Results), String> {
        let run = || {
            let programs = Programs::new()?;
            for (program, level) in &self.pairs {
                programs.compile(&source(program), &file(program, level), &[level])?;
            }
            let results = programs.on_machine(self.pairs.iter().map(|(program, level)| file(program, level)))?;
            Ok((programs, results))
        };
        self.done.get_or_init(run).as_ref().map_err(String::clone)
    }
}

fn file(program: &str, level: &str) -> String {
    format!("{program}{level}")
}

/// The source of a program of `tests/guest/cc`.
pub fn source(program: &str) -> PathBuf {
    let path = process::root().join("tests/guest/cc").join(program).with_extension("cc");
    if path.is_file() { path } else { path.with_extension("c") }
}

/// Compiled programs in a folder of their own.
pub struct Programs {
    _folder: tempfile::TempDir,
    /// Where they are.
    pub path: PathBuf,
}

impl Programs {
    /// None so far.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = folder.path().join("programs");
        fs::create_dir(&path).map_err(|error| error.to_string())?;
        Ok(Self { _folder: folder, path })
    }

    /// Compiles a program for all instruction sets.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile(&self, source: &Path, name: &str, options: &[&str]) -> Result<(), String> {
        let mut arguments: Vec<OsString> = options.iter().map(OsString::from).collect();
        let output = self.path.join(name);
        arguments.extend([source.into(), "-o".into(), output.into(), "-lm".into(), "-lpthread".into()]);
        let compiler = if source.extension().is_some_and(|extension| extension == "cc") { "c++" } else { "cc" };
        compiled::put(source, options, &self.path.join(name), || libraries::compile(compiler, &arguments))
    }

    /// What a program does on the host.
    ///
    /// # Errors
    /// It does not start.
    pub fn on_host(&self, name: &str) -> Result<Did, String> {
        let path = self.path.join(name);
        let ended = Command::new("timeout").arg("600").arg(&path).output();
        let ended = ended.map_err(|error| format!("{}: {error}", path.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Did { output: text(&ended.stdout), errors: text(&ended.stderr), status: ended.status.code().unwrap_or(-1) })
    }

    /// What programs do on the default machine, all in one boot if they let the machine live.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn on_machine(&self, names: impl IntoIterator<Item = String>) -> Result<Results, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut scripts = Vec::new();
        for name in names {
            let path = folder.path().join(format!("{name}.sh"));
            fs::write(&path, format!("exec /in/programs/{name}\n")).map_err(|error| error.to_string())?;
            scripts.push(Script::new(&name, path));
        }
        let programs = self.path.to_str().ok_or("the folder for temporary files has an odd name")?;
        Ok(scripts::on_machine(&scripts, &["--in", programs]))
    }

    /// Runs a program (and its arguments) on the default machine, or on another.
    pub fn run(&self, command: &str, machine: Option<&Path>) -> Ended {
        self.run_as("", command, machine)
    }

    /// As [`run`](Self::run), behind words that run a command.
    pub fn run_as(&self, before: &str, command: &str, machine: Option<&Path>) -> Ended {
        let path = self.path.join(command.split(' ').next().unwrap_or_default());
        let mut motet = Motet::run(["--in".as_ref(), path.as_os_str()]);
        if let Some(machine) = machine {
            motet = motet.argument("--machine").argument(machine);
        }
        motet.arguments(["--", &format!("{before} /in/{command}")]).wait()
    }
}

/// A program of `tests/guest/cc`, compiled with options.
///
/// # Errors
/// What the compiler says.
pub fn compiled(program: &str, options: &[&str]) -> Result<Programs, String> {
    let programs = Programs::new()?;
    programs.compile(&source(program), program, options)?;
    Ok(programs)
}

fn places() -> Result<(), String> {
    let ended = compiled("islands", &["-O2"])?.run("islands", None);
    ended.expect_code(0)?;
    let mut lines = ended.output.lines();
    let counts = ["from to calls", "0 1 1", "1 2 1", "2 0 1", "pages_run_locally 0", "calls_run_locally 0"];
    let wanted = ["main 0", "arm 1", "riscv 2", "x86 0"].into_iter().chain(counts);
    let chain = [
        ("in on_x86 called by on_riscv+", "(riscv64, island 2, "),
        ("in on_riscv called by on_arm+", "(aarch64, island 1, "),
        ("in on_arm called by main+", "(x86_64, island 0, "),
    ];
    let same = lines.by_ref().take(10).eq(wanted)
        && chain
            .iter()
            .all(|(start, end)| lines.next().is_some_and(|line| line.starts_with(start) && line.contains(end)))
        && lines.eq(counts);
    if same { Ok(()) } else { Err(ended.describe()) }
}

fn lost() -> Result<(), String> {
    let programs = compiled("lost", &["-O1"])?;
    for command in ["lost", "lost there"] {
        let ended = programs.run(command, None);
        ended.expect_code(128 + 6)?.expect_output("before 0\n")?;
        let words = ["motet: longjmp to a function that has returned", "ends by signal 6", "jumps was called by main+"];
        ended.expect_errors(&words)?;
    }
    Ok(())
}

/// On each instruction set: a caller hands over a thread pointer that is not canonical, and a function that calls back. The kernels go on.
fn thread_pointers() -> Result<(), String> {
    let programs = compiled("pointer", &["-O1"])?;
    let command = "for isa in x86_64 aarch64 riscv64; do for how in '' back; do \
        on $isa /in/programs/pointer $how; echo $isa $how $?; done; done";
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(["--", command]).wait();
    let lines = |isa: &str| format!("before\n{isa} 137\nbefore\n{isa} back 137\n");
    let wanted: String = ["x86_64", "aarch64", "riscv64"].map(lines).concat();
    ended.expect_code(0)?.expect_output(&wanted)?;
    ended.expect_errors(&["with thread pointer 0x1234567800000000, which is no address"])?;
    let told = ended.errors.matches("is killed: it calls a function for ").count();
    if told == 6 { Ok(()) } else { Err(ended.describe()) }
}

/// A machine without RISC-V and AArch64.
pub struct Lonely(tempfile::TempDir);

impl Lonely {
    /// Describes it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let text = "[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 1\n";
        fs::write(folder.path().join("machine.toml"), text).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }

    /// Its description.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("machine.toml")
    }
}

fn local_builds() -> Result<(), String> {
    let ended = compiled("islands", &["-O2"])?.run("islands", Some(&Lonely::new()?.path()));
    let counts = |pages| format!("from to calls\npages_run_locally {pages}\ncalls_run_locally 0\n");
    let wanted = format!("main 0\narm 0\nriscv 0\nx86 0\n{0}{0}", counts(2));
    ended.expect_code(0)?.expect_output(&wanted).map(drop)
}

fn one_stack() -> Result<(), String> {
    let found = "1\n".repeat(9 + 3) + "deep\n";
    for level in LEVELS {
        compiled("depth", &[level, "-Wl,-z,one-stack"])?.run("depth", None).expect_code(0)?.expect_output(&found)?;
    }
    // Otherwise it has several.
    let ended = compiled("depth", &["-O1"])?.run("depth", None);
    if ended.output.contains("-1\n") { Ok(()) } else { Err(ended.describe()) }
}

fn own_functions() -> Result<(), String> {
    for level in LEVELS {
        let ended = compiled("own", &[level])?.run("own", None);
        ended.expect_code(0)?.expect_output("100.25 100.5 100.75\n201.25 201.5 201.75\n302.25 302.5 302.75\n")?;
    }
    Ok(())
}

fn strict() -> Result<(), String> {
    let programs = compiled("strict", &["-O2"])?;
    programs.run("strict", None).expect_code(0)?.expect_output("calls\n2\n3\n")?;
    let ended = programs.run("strict", Some(&Lonely::new()?.path()));
    ended.expect_code(128 + 9)?.expect_output("calls\n2\n")?;
    ended.expect_errors(&["it calls a function for riscv64, of which no island is there", "at only_riscv"]).map(drop)
}

fn without_primary() -> Result<(), String> {
    let machine = process::root().join("machines/two-riscv.toml");
    let ended = compiled("strict", &["-O2", "--isa", "aarch64"])?.run("strict", Some(&machine));
    ended.expect_code(0)?.expect_output("calls\n2\n3\n").map(drop)
}

/// machines/flick.toml, which calls as Flick does.
pub fn calling_as_flick() -> Result<String, String> {
    let flick = process::root().join("machines/flick.toml");
    let text = fs::read_to_string(flick).map_err(|error| error.to_string())?;
    Ok(text.replacen("[pool]", "crossing = \"flick\"\n[pool]", 1))
}

/// The board polls for a short while, and calls come at all times, just before it sleeps and afterwards.
fn descriptors_at_any_time() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = folder.path().join("machine.toml");
    let text = calling_as_flick()?.replacen("poll_us = 1000", "poll_us = 30", 1);
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    let programs = compiled("polled", &["-O2"])?;
    let ended = Motet::run(["--timed", "--in"])
        .argument(programs.path.join("polled"))
        .argument("--machine")
        .argument(&machine)
        .arguments(["--", "/in/polled", "60000", "60"])
        .wait();
    ended.expect_code(0)?.expect_output("polled: ok\n").map(drop)
}

/// Nested calls, arguments and results of all kinds, threads and system calls on the Flick machine that calls as Flick does; migration engines
/// and doorbells did it.
fn by_flicks_protocol() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (machine, stats) = (folder.path().join("machine.toml"), folder.path().join("stats.json"));
    fs::write(&machine, calling_as_flick()?).map_err(|error| error.to_string())?;
    let programs = compiled("migrated", &["-O2"])?;
    let ended = Motet::run(["--timed".as_ref(), "--stats".as_ref(), stats.as_os_str(), "--in".as_ref()])
        .argument(programs.path.join("migrated"))
        .argument("--machine")
        .argument(&machine)
        .arguments(["--", "/in/migrated"])
        .wait();
    ended.expect_code(0)?.expect_output("migrated: ok\n")?;
    let text = fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let count = |name: &str, core: usize| stats["cores"][core][name].as_u64().unwrap_or(0);
    // Each of the 300 calls of the threads is a transfer there and one back; the host has slept in the others.
    let ok = count("transfers", 0) >= 300 && count("transfers", 1) >= 300 && count("ipis_received", 0) >= 20;
    if ok { Ok(()) } else { Err(format!("transfers and doorbells: {}", stats["cores"])) }
}

/// On the Flick machine, by Motet's own protocol: both ways, and with calls that have to wait for their turn.
fn over_a_link() -> Result<(), String> {
    let flick = process::root().join("machines/flick.toml");
    for (program, option, place) in [("migrated", "-O1", ""), ("turns", "-O2", ""), ("hosts", "-O2", "on riscv64 ")] {
        let programs = compiled(program, &[option])?;
        let ended = Motet::run(["--timed", "--in"])
            .argument(programs.path.join(program))
            .argument("--machine")
            .argument(&flick)
            .arguments(["--", &format!("{place}/in/{program}")])
            .wait();
        ended.expect_code(0)?.expect_output(&format!("{program}: ok\n"))?;
    }
    Ok(())
}

/// On the Flick machine, by Motet's own protocol: calls read no old copy, and make no atomic operation over the link.
fn by_stores_alone() -> Result<(), String> {
    let programs = compiled("link", &["-O1"])?;
    let stats = programs.path.join("stats.json");
    let ended = Motet::run(["--timed".as_ref(), "--stats".as_ref(), stats.as_os_str(), "--in".as_ref()])
        .argument(programs.path.join("link"))
        .argument("--machine")
        .argument(process::root().join("machines/flick.toml"))
        .arguments(["--", "/in/link"])
        .wait();
    ended.expect_code(0)?.expect_output("link: ok\n")?;
    let text = fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    for name in ["from_host", "from_board"] {
        let regions = stats["regions"].as_array().map_or(&[][..], Vec::as_slice);
        let region = regions.iter().find(|region| region["name"] == name).ok_or("a region is missing")?;
        for counter in ["far_atomics", "stale_reads"] {
            let cores = region["cores"].as_array().map_or(&[][..], Vec::as_slice);
            let counts: Vec<_> = cores.iter().map(|core| core["memory"][counter].as_u64()).collect();
            if counts != [Some(0), Some(0)] {
                return Err(format!("{name}: {counter} of the cores: {counts:?}"));
            }
        }
    }
    Ok(())
}

/// On the Flick machine: the board's kernel makes the tables of what its processes execute and fork, and the host's walks and edits them.
fn started_by_board() -> Result<(), String> {
    reads_no_old_copies("started", "on riscv64 sh -c '/in/started; /in/started'", "started: ok\nstarted: ok\n")
}

/// The same of pages that the host fills for a program of the board.
fn filled_by_host() -> Result<(), String> {
    reads_no_old_copies("filled", "on riscv64 /in/filled", "filled: ok\n")
}

fn reads_no_old_copies(program: &str, command: &str, output: &str) -> Result<(), String> {
    let programs = compiled(program, &["-O1"])?;
    let stats = programs.path.join("stats.json");
    let ended = Motet::run(["--timed".as_ref(), "--stats".as_ref(), stats.as_os_str(), "--in".as_ref()])
        .argument(programs.path.join(program))
        .argument("--machine")
        .argument(process::root().join("machines/flick.toml"))
        .arguments(["--", command])
        .wait();
    ended.expect_code(0)?.expect_output(output)?;
    let text = fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match [0, 1].map(|core| stats["cores"][core]["memory"]["stale_reads"].as_u64()) {
        [Some(0), Some(0)] => Ok(()),
        counts => Err(format!("stale reads of the cores: {counts:?}: {:#}", stats["stale_read_addresses"])),
    }
}

/// Its main function tells its island; what `on` says is inherited, and can be taken back.
fn started_by_on() -> Result<(), String> {
    let programs = compiled("islands", &["-O2"])?;
    let command = "program=/in/programs/islands; for isa in x86_64 aarch64 riscv64; do \
        on $isa $program | grep '^main'; on $isa sh -c \"$program; exit \\$?\" | grep '^main'; done; \
        on riscv64 sh -c \"echo none > /proc/self/start_isa; exec $program\" | grep '^main'; \
        on riscv64 cat /proc/1/start_isa /proc/self/start_isa; \
        on riscv64 sh -c 'echo riscv64 > /proc/1/start_isa' 2>/dev/null || echo refused";
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(["--", command]).wait();
    let places = "main 0\nmain 0\nmain 1\nmain 1\nmain 2\nmain 2\nmain 0\n";
    ended.expect_code(0)?.expect_output(&format!("{places}none\nriscv64\nrefused\n")).map(drop)
}

fn single() -> Result<(), String> {
    let programs = Programs::new()?;
    let arm = programs.path.join("arm").display().to_string();
    programs.compile(&source("strict"), "fat", &["-O1", "--emit-isa", "aarch64", &arm])?;
    programs.run("arm", None).expect_code(0)?.expect_output("calls\n2\n3\n").map(drop)
}

/// The program runs again and again, so that it does not matter when gdb is ready.
fn debugger() -> Result<(), String> {
    let programs = Programs::new()?;
    let symbols = programs.path.join("symbols").display().to_string();
    programs.compile(&source("islands"), "islands", &["-O0", "-g", "--emit-isa", "riscv64", &symbols])?;
    let program = programs.path.join("islands");
    let mut running = Motet::run(["--gdb".as_ref(), "--in".as_ref(), program.as_os_str()])
        .arguments(["--", "while /in/islands; do sleep 0.05; done"])
        .limit(Duration::from_secs(600))
        .start();
    let ended = debug(&mut running, &symbols);
    running.kill();
    let ended = ended.map_err(|error| format!("{error}\n{}", running.errors.so_far()))?;
    let parts = ["Breakpoint 1, on_riscv ()", "islands.c:13", "#0  on_riscv ()", "stopped again", "[Inferior 1"];
    match parts.iter().find(|part| !ended.contains(**part)) {
        None => Ok(()),
        Some(part) => Err(format!("gdb does not say {part:?}:\n{ended}")),
    }
}

/// Stops twice in a function, then lets the island go; gives what gdb says.
fn debug(running: &mut Running, symbols: &str) -> Result<String, String> {
    if !running.until(|running| running.output.so_far().contains("riscv 2")) {
        return Err("the program has not started".into());
    }
    // As it is shown.
    let shown = running.errors.so_far();
    let line = shown.lines().find(|line| line.starts_with("motet:   riscv: gdb-multiarch ")).ok_or("no command")?;
    let command = line.trim_start_matches("motet:   riscv: ");
    let symbols = format!("add-symbol-file {symbols}");
    let steps = [&symbols, "break on_riscv", "continue", "bt", "continue", "echo stopped again\\n", "delete", "detach"];
    let steps: Vec<String> = steps.iter().map(|step| format!("-ex '{step}'")).collect();
    let batch = format!("exec timeout 300 {command} -batch -nx {} 2>&1 </dev/null", steps.join(" "));
    let gdb = Command::new("sh").arg("-c").arg(batch).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&gdb.stdout).into_owned();
    let before = running.output.len();
    if gdb.status.success() && !running.until(|running| running.output.len() > before + 1000) {
        return Err(format!("the island does not go on after gdb has left:\n{said}"));
    }
    Ok(said)
}
