//! Calls across instruction sets: where their data lies, what becomes of them when an island is busy, missing or dies, in
//! which order they run, and what ends the process.

use std::{fs, path::PathBuf, time::Duration};

use rustix::process::{Signal, kill_process};

use crate::{
    bad_input::seed,
    crossing::{Lonely, calling_as_flick, compiled, source},
    placement::shipped,
    process::{self, Ended, Motet, expect_gone, pid, started},
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 16] = [
        ("crossing::data_lies_near_the_island_asked_for", near),
        ("crossing::pages_move_to_other_islands_while_all_store_to_them", moved),
        ("crossing::pages_follow_the_island_that_uses_them", followed),
        ("crossing::a_called_function_that_computes_is_interrupted", limited),
        ("crossing::calls_of_a_busy_island_do_what_the_policy_says", busy),
        ("crossing::a_thread_in_a_local_call_goes_on_when_another_leaves", together),
        ("crossing::calls_of_a_missing_island_can_end_the_process", missing),
        ("crossing::policies_are_inherited_by_programs_that_are_executed", inherited),
        ("crossing::calls_wait_by_priority", order),
        ("crossing::returns_that_cannot_be_end_the_process", gates),
        ("crossing::returns_do_not_fault_and_need_no_page", returns),
        ("crossing::an_island_that_dies_while_a_thread_is_there_is_named", death),
        ("crossing::a_machine_can_survive_the_death_of_an_island", survival),
        ("crossing::a_machine_survives_an_island_that_hangs", hanging_island),
        ("crossing::a_machine_survives_the_death_of_an_island_by_flicks_protocol", survival_by_flicks_protocol),
        ("crossing::islands_die_at_random_moments", deaths),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A machine with one core of each instruction set.
struct Single(tempfile::TempDir);

impl Single {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let island = |(name, isa, private)| {
            format!("[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\ncores = 1\nprivate = \"{private}MiB\"\n")
        };
        let islands = [("x86", "x86_64", 64), ("arm", "aarch64", 256), ("riscv", "riscv64", 64)].map(island).concat();
        let text = format!("[pool]\nsize = \"256MiB\"\n{islands}");
        fs::write(folder.path().join("machine.toml"), text).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("machine.toml")
    }
}

fn near() -> Result<(), String> {
    let ended = compiled("near", &["-O2"])?.run("near", None);
    let data = "sums 1 1 99 22\nwritten 2\nzeros 2\nconstants 1\non_two 2\ntouched by riscv 2\n";
    let blocks = "strays 0\nhere 0\nthere 2\nlittle 1\nlarge 2\nlarger 2\ngrown 1\n";
    let wanted = format!("{data}{blocks}no such island: 1 1\nno island: 1 1\n");
    ended.expect_code(0)?.expect_output(&wanted).map(drop)
}

fn moved() -> Result<(), String> {
    compiled("moved", &["-O2"])?.run("moved", None).expect_code(0)?.expect_output("moved\n").map(drop)
}

/// On the machine of Stramash's Separated model, whose islands have near memory of their own.
fn followed() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = folder.path().join("machine.toml");
    let text = fs::read_to_string(shipped("stramash-separated")).map_err(|error| error.to_string())?;
    fs::write(&machine, format!("policy = \"adaptive\"\n{text}")).map_err(|error| error.to_string())?;
    compiled("follow", &["-O2"])?.run("follow", Some(&machine)).expect_code(0)?.expect_output("followed\n").map(drop)
}

/// By each way in which cores call each other: where they cache each other's memory, over links, and by Flick's protocol.
fn limited() -> Result<(), String> {
    let programs = compiled("limited", &["-O2"])?;
    programs.run("limited 1", None).expect_code(0)?.expect_output("limited: ok\n")?;
    let machine = programs.path.join("machine.toml");
    let flick = fs::read_to_string(shipped("flick")).map_err(|error| error.to_string())?;
    for text in [flick, calling_as_flick()?] {
        fs::write(&machine, text).map_err(|error| error.to_string())?;
        let motet = Motet::run(["--timed", "--in"]).argument(programs.path.join("limited")).argument("--machine");
        let ended = motet.argument(&machine).arguments(["--", "/in/limited", "1"]).wait();
        ended.expect_code(0)?.expect_output("limited: ok\n")?;
    }
    Ok(())
}

fn busy() -> Result<(), String> {
    let programs = compiled("busy", &["-O2"])?;
    let machine = Single::new()?;
    let lines = |policy: i32, islands: [i32; 5], calls: u32| {
        let [island, deeper, by_arm, only, then] = islands;
        format!(
            "policy {policy}\nwhere {island}\ndeeper {deeper}\nby arm {by_arm}\nonly {only}\ncalls {calls}\n\
             pages 0\nthen {then}\n"
        )
    };
    // They wait: for the end of the other function's time slice.
    let waits = lines(0, [2, 2, 2, 2, 2], 0);
    programs.run("busy", Some(&machine.path())).expect_code(0)?.expect_output(&waits)?;
    // What is strict waits in any case. A call within a call that runs locally is none, so three calls are counted, and
    // that of the thread which never returns.
    let local = lines(0, [0, 0, 1, 2, 2], 4);
    programs.run("busy 2", Some(&machine.path())).expect_code(0)?.expect_output(&local)?;
    let ended = programs.run("busy 3", Some(&machine.path()));
    ended.expect_code(128 + 9)?.expect_output("policy 0\n")?;
    ended.expect_errors(&["it calls a function for riscv64, all of whose cores are busy", "at where "]).map(drop)
}

fn together() -> Result<(), String> {
    let ended = compiled("together", &["-O2"])?.run("together", None);
    ended.expect_code(0)?.expect_output("first 0\nsecond 0\ndone\n").map(drop)
}

fn missing() -> Result<(), String> {
    let lonely = Lonely::new()?;
    let programs = compiled("islands", &["-O2"])?;
    let ended = programs.run_as("motet crossings wait end", "islands", Some(&lonely.path()));
    ended.expect_code(128 + 9)?.expect_output("main 0\n")?;
    ended.expect_errors(&["it calls a function for aarch64, of which no island is there", "at on_arm "]).map(drop)
}

fn inherited() -> Result<(), String> {
    let programs = compiled("busy", &["-O2"])?;
    let machine = Single::new()?;
    let ended = programs.run_as("motet crossings end local sh -c", "busy", Some(&machine.path()));
    ended.expect_code(128 + 9)?.expect_errors(&["all of whose cores are busy"])?;
    for words in ["later local true", "wait wait true", "wait local"] {
        Motet::command(&format!("motet crossings {words}")).wait().expect_code(64)?.expect_errors(&["MISSING"])?;
    }
    Ok(())
}

/// Timed, so that all of them come within one time slice.
fn order() -> Result<(), String> {
    let (programs, machine) = (compiled("order", &["-O2"])?, Single::new()?);
    let ended = Motet::run(["--timed", "--machine"])
        .argument(machine.path())
        .argument("--in")
        .argument(programs.path.join("order"))
        .arguments(["--", "/in/order"])
        .wait();
    ended.expect_code(0)?.expect_output("3 5 2 4 0 1\n").map(drop)
}

fn gates() -> Result<(), String> {
    let programs = compiled("gates", &["-O1"])?;
    let cases: [(&str, i32, &[&str]); 6] = [
        ("crooked", 9, &["is killed: it returns through a frame", "crooked was called by main+"]),
        ("lost", 11, &["at 0x123456789000 (riscv64", "lost was called by main+"]),
        ("smashed", 11, &["smashed was called by calls_smashed+", "calls_smashed was called by main+"]),
        (
            "twice",
            9,
            &["is killed: it returns through a frame", "inner was called by outer+", "outer was called by main+"],
        ),
        ("uncalled", 9, &["is killed: it returns from a call that it has not made"]),
        ("middle", 9, &["is killed: it jumps into the middle of code for aarch64", "at whole+0x4 (x86_64"]),
    ];
    for (case, signal, errors) in cases {
        let ended = programs.run(&format!("gates {case}"), None);
        ended.expect_code(128 + signal)?.expect_output("before\n")?.expect_errors(errors)?;
    }
    Ok(())
}

fn returns() -> Result<(), String> {
    let ended = compiled("returns", &["-O2"])?.run("returns", None);
    let right = "right 3\nagain 900\nrefused -38 -38 -38 -38\nunmapped 0\nstill 900\n";
    ended.expect_code(0)?.expect_output(right).map(drop)
}

/// Kills the RISC-V island while a thread is there for ever. `after` runs when its process has ended.
fn without_riscv(options: &[&str], after: &str) -> Result<Ended, String> {
    let programs = compiled("busy", &["-O2"])?;
    programs.compile(&source("islands"), "islands", &["-O2"])?;
    let command = format!("/in/programs/busy 0 away & pid=$!; wait $pid; {after}");
    let motet = Motet::run(options).argument("--in").argument(&programs.path).arguments(["--", &command]);
    signalled(motet, Signal::KILL)
}

/// Sends a signal to the RISC-V island's QEMU once the machine has started, and waits for the end.
fn signalled(motet: Motet, signal: Signal) -> Result<Ended, String> {
    let mut running = motet.start();
    let islands = started(&mut running)?;
    let victim = islands.iter().find(|&&id| process::command_line(id).contains("qemu-system-riscv64"));
    kill_process(pid(*victim.ok_or("no QEMU for riscv64")?)?, signal).map_err(|error| error.to_string())?;
    let ended = running.wait();
    expect_gone(&islands)?;
    Ok(ended)
}

fn death() -> Result<(), String> {
    without_riscv(&[], "echo still here")?.expect_code(70)?.expect_errors(&["island riscv", "SIGKILL"]).map(drop)
}

/// An island that does nothing any more is as one that has died, also if another one has been waiting for it.
fn hanging_island() -> Result<(), String> {
    let command = "echo started; on riscv64 sleep 1000; on aarch64 echo still here";
    let ended = signalled(Motet::run(["--survive", "--hang-timeout", "3", "--", command]), Signal::STOP)?;
    let said = ["island riscv: hangs: no sign of life for 3 s", "the machine goes on without it"];
    ended.expect_code(0)?.expect_output("started\nstill here\n")?.expect_errors(&said).map(drop)
}

fn survival() -> Result<(), String> {
    // Functions run on the island that calls them, if theirs is no more.
    expect_survival(&["--survive"], "arm 1\nriscv 1\nx86 0\n")
}

/// The same where threads migrate. System calls are made at home, and so is what runs on whichever island there is.
fn survival_by_flicks_protocol() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = folder.path().join("machine.toml");
    let usual = process::root().join("machines/default.toml");
    let text = fs::read_to_string(usual).map_err(|error| error.to_string())?;
    fs::write(&machine, format!("crossing = \"flick\"\n{text}")).map_err(|error| error.to_string())?;
    let machine = machine.to_str().ok_or("a path that is no text")?;
    expect_survival(&["--survive", "--machine", machine], "arm 0\nriscv 0\nx86 0\n")
}

fn expect_survival(options: &[&str], islands: &str) -> Result<(), String> {
    let after = "echo ended $?; uname -m; on aarch64 uname -m; /in/programs/islands | grep -v in; \
                 motet crossings wait end /in/programs/islands; echo ended $?; on riscv64 true || echo none; \
                 for round in 1 2 3; do on aarch64 echo $round | cat; done";
    let ended = without_riscv(options, after)?;
    ended.expect_code(0)?.expect_errors(&[
        "island riscv: QEMU was killed (signal: 9 (SIGKILL)); the machine goes on without it",
        "is killed: island 2, which it was on, has died",
        "at spin+",
        "spin was called by spinner+",
        "it calls a function for riscv64, of which no island is there",
    ])?;
    let counts = "from to calls\n0 1 1\n1 0 1\npages_run_locally 1\ncalls_run_locally 0\n";
    let islands = format!("{islands}{counts}{counts}");
    let wanted = format!("policy 0\nstarted\nended 137\nx86_64\naarch64\n{islands}main 0\nended 137\nnone\n1\n2\n3\n");
    ended.expect_output(&wanted).map(drop)
}

/// What a machine has in use, and how many processes there are, on a line. Only the shell itself is at work; orphans have half a minute to end.
const IN_USE: &str = "in_use() { looks=0; while set -- /proc/[0-9]*; [ $# -gt 1 -a $((looks += 1)) -lt 3000 ]; do usleep 10000; done; \
                      while read name kib unit; do case $name in MemTotal:) sum=$kib;; MemFree:|Slab:) sum=$((sum - kib));; esac; \
                      done </proc/meminfo; echo in use: $sum KiB, $# processes; }; ";

/// Kills islands at random moments, with everything under way on all of them, whatever locks they have; in every other run both that can be
/// killed. What goes on afterwards goes on to its end, forks, pipes and calls work as before, no process is left, and hardly any memory is lost.
/// `MOTET_KILLS`: how many machines, each with one or two kills.
fn deaths() -> Result<(), String> {
    const MACHINES: u64 = 4;
    const MACHINES_LONG: u64 = 20;
    const LIMIT: Duration = Duration::from_secs(1200);
    const LOAD: &str = "in_use; /in/programs/load 4000 & for round in $(seq 25); do on riscv64 seq 300 | on aarch64 sort -n | \
                        on riscv64 cat; done >/dev/null & for round in $(seq 25); do on riscv64 mkdir -p /tmp/a/$round; \
                        on aarch64 rm -r /tmp/a; done & for island in riscv64 aarch64; do on $island sh -c 'for round in \
                        $(seq 60); do (:) & (:) | cat; wait; done' & done; echo started; wait; seq 300 | sort -n | tail -n 1; rm -rf /tmp/a; \
                        in_use; echo done";
    let machines = std::env::var("MOTET_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(of_long(MACHINES, MACHINES_LONG));
    let programs = compiled("load", &["-O1"])?;
    let (mut random, mut killed, mut failures) = (fastrand::Rng::with_seed(seed()), 0, Vec::new());
    let (mut lost_kib, mut slowest) = (Vec::new(), Duration::ZERO);
    for number in 0..machines {
        let mut isas = ["riscv64", "aarch64"];
        random.shuffle(&mut isas);
        let plan =
            isas.into_iter().take(1 + number as usize % 2).map(|isa| (random.u64(0..1500), isa)).collect::<Vec<_>>();
        let command = format!("{IN_USE}{LOAD}");
        let mut running =
            Motet::run(["--survive", "--in"]).limit(LIMIT).argument(&programs.path).arguments(["--", &command]).start();
        let islands = started(&mut running)?;
        for &(delay_ms, isa) in &plan {
            std::thread::sleep(Duration::from_millis(delay_ms));
            let name = format!("qemu-system-{isa}");
            // Everything may have ended before; not each time.
            if let Some(&victim) = islands.iter().find(|&&id| process::command_line(id).contains(&name)) {
                kill_process(pid(victim)?, Signal::KILL).map_err(|error| error.to_string())?;
                killed += 1;
            }
        }
        let ended = running.wait();
        expect_gone(&islands)?;
        slowest = slowest.max(ended.took);
        match account(&ended) {
            Ok(kib) => lost_kib.push(kib),
            Err(text) => {
                println!("machine {number}, {plan:?}: {text}");
                failures.push(format!("machine {number}, {plan:?}: {text}"));
            }
        }
    }
    lost_kib.sort_unstable();
    println!("{machines} machines, {killed} islands killed, {} failures; the slowest took {slowest:?}", failures.len());
    println!("KiB lost, by machine: {lost_kib:?}");
    if let Some(first) = failures.first() {
        return Err(format!("{} of {machines} failed; the first: {first}", failures.len()));
    }
    if killed == 0 { Err("all machines ended before an island was killed".into()) } else { Ok(()) }
}

/// How many KiB more are in use at the end than at the beginning; the shell is the only process both times.
fn account(ended: &Ended) -> Result<i64, String> {
    /// What islands may take with them (docs/protocols/lock.md): mostly page tables and pages of a process that was just being made or ended.
    const LOST_KIB_MAX: i64 = 4096;
    ended.expect_code(0)?;
    let lines: Vec<&str> = ended.output.lines().collect();
    let in_use = |line: &str| line.strip_prefix("in use: ")?.strip_suffix(" KiB, 1 processes")?.parse::<i64>().ok();
    let [before, "started", "300", after, "done"] = lines[..] else { return Err(ended.describe()) };
    let (Some(before), Some(after)) = (in_use(before), in_use(after)) else { return Err(ended.describe()) };
    if after - before > LOST_KIB_MAX {
        return Err(format!("{} KiB are lost\n{}", after - before, ended.describe()));
    }
    Ok(after - before)
}
