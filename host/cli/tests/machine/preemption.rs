//! A thread that becomes ready takes the turn of a less urgent one that computes, wherever that does so (`docs/protocols/service.md`).

use std::fs;

use fastrand::Rng;
use rustix::process::{Signal, kill_process};

use crate::{
    bad_input::{SEED_VARIABLE, seed},
    hthreads::{MACHINE, Tested, source},
    process::{self, pid, started},
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("preemption::the_urgent_run_at_once_on_every_island", islands),
        ("preemption::the_urgent_run_at_once_in_simulated_time", timed),
        ("preemption::a_deterministic_run_is_the_same_twice", twice),
        ("preemption::threads_on_hidden_harts_lose_their_turns", hidden),
        ("preemption::the_urgent_run_at_once_where_islands_do_not_cache_each_others_memory", uncached),
        ("preemption::turns_go_on_after_the_death_of_an_island", death),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Tests of the program.
const TESTS: &str = "created\nwoken\nby_time\nequal\nowner\nin_a_call\nforeign\nasleep\nsignals\nkilled\n";

/// A machine, and the program for all instruction sets, or for some.
fn tested_with(machine: &str, options: &[&str]) -> Result<Tested, String> {
    let tested = Tested::new(machine)?;
    let options = [options, &["-O2", "-lhthread"]].concat();
    tested.programs.compile(&source("tests/guest/hthreads/preemption.c"), "preemption", &options)?;
    Ok(tested)
}

fn tested(machine: &str) -> Result<Tested, String> {
    tested_with(machine, &[])
}

/// Those of another instruction set than the program's first thread's are in a call across instruction sets when they lose their turns.
fn islands() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let mut from_first = [("", "0 1"), ("", "1 1"), ("", "2 2"), ("MOTET_HTHREADS=hybrid", "2 2")];
    let mut from_others = [("on riscv64", "2 2"), ("on aarch64", "0 1")];
    let mut random = Rng::with_seed(seed());
    random.shuffle(&mut from_first);
    random.shuffle(&mut from_others);
    let runs = [&from_first[..of_long(2, from_first.len())], &from_others[..of_long(1, from_others.len())]].concat();
    let line = |(before, place): &(&str, &str)| format!("{before} /in/programs/preemption {place} || exit\n");
    let command: String = runs.iter().map(line).collect();
    let ended = tested.run(&[], &command);
    let is_right = ended.expect_code(0).and_then(|ended| ended.expect_output(&TESTS.repeat(runs.len())));
    is_right.map(drop).map_err(|error| format!("{SEED_VARIABLE}={}:\n{command}{error}", seed()))
}

fn timed() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let ended = tested.run(
        &["--timed"],
        "/in/programs/preemption 1 1 created woken by_time && /in/programs/preemption 2 2 created equal owner foreign asleep",
    );
    ended.expect_code(0)?.expect_output("created\nwoken\nby_time\ncreated\nequal\nowner\nforeign\nasleep\n").map(drop)
}

/// In everything that can be seen: what the program prints has the time in nanoseconds.
fn twice() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let command = "MOTET_HTHREADS=hardware /in/programs/preemption 2 2 measured; cat /proc/stat";
    let run = || tested.run(&["--timed", "--deterministic"], command).expect_code(0).map(|ended| ended.output.clone());
    let (first, second) = (run()?, run()?);
    if first == second && first.contains(" ns\nmeasured\n") {
        Ok(())
    } else {
        Err(format!("two runs:\n{first}\n{second}"))
    }
}

/// Those that compute are away, on the only hart with vector registers, when they lose their turns.
fn hidden() -> Result<(), String> {
    let machine = "migration = \"firmware\"\n[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\n\
        cores = 2\nfirmware = \"motet\"\nhidden_harts = 1\n[[service]]\n";
    let tested = tested_with(machine, &["--isa=riscv64"])?;
    let command = "VECTORS=1 /in/programs/preemption 0 2 created woken by_time equal asleep signals";
    tested
        .run(&[], command)
        .expect_code(0)?
        .expect_output("created\nwoken\nby_time\nequal\nasleep\nsignals\n")
        .map(drop)
}

fn uncached() -> Result<(), String> {
    let shipped = process::root().join("machines/hthreads.toml");
    let machine = fs::read_to_string(shipped).map_err(|error| error.to_string())?.replace("cores = 6\n", "cores = 2\n");
    let tested = tested(&machine)?;
    let command =
        "/in/programs/preemption 1 2 created woken by_time owner foreign && /in/programs/preemption 0 1 created asleep";
    let output = "created\nwoken\nby_time\nowner\nforeign\ncreated\nasleep\n";
    tested.run(&["--timed"], command).expect_code(0)?.expect_output(output).map(drop)
}

/// A process has threads with turns and others without one on an island that dies; it ends, and so nobody waits for those turns.
fn death() -> Result<(), String> {
    let tested = tested(MACHINE)?;
    let command = "/in/programs/preemption 2 2 doomed tells >/tmp/tells & until [ -s /tmp/tells ] || ! kill -0 $!; do usleep 10000; done; \
                   sleep 1; echo started; wait $!; echo $?; \
                   /in/programs/preemption 1 1 created woken owner";
    let mut running = tested.motet(&["--survive"], command).start();
    let islands = started(&mut running)?;
    let victim = islands.iter().find(|&&id| process::command_line(id).contains("qemu-system-riscv64"));
    kill_process(pid(*victim.ok_or("no QEMU for riscv64")?)?, Signal::KILL).map_err(|error| error.to_string())?;
    let ended = running.wait();
    ended.expect_code(0)?.expect_output("started\n137\ncreated\nwoken\nowner\n").map(drop)
}
