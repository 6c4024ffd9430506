//! Real-time policies (sched(7)): who is more urgent runs, at once, on every island and in virtual machines.

use std::{fs, time::Duration};

use crate::{
    crossing::Programs,
    process::{ISAS, Motet, root},
    trial::{Trial, trial},
    vm,
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("realtime::the_urgent_run_before_others_of_their_core_on_every_island", islands),
        ("realtime::who_becomes_more_urgent_runs", changes),
        ("realtime::a_wake_up_from_another_island_takes_the_core_at_once", at_once),
        ("realtime::a_wake_up_from_another_island_takes_the_core_from_a_guest_at_once", from_guest),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1500);

/// The program for every instruction set, as `realtime-ISA`.
fn programs() -> Result<Programs, String> {
    let programs = Programs::new()?;
    for isa in ISAS {
        let source = root().join("tests/guest/realtime/realtime.c");
        programs.compile(&source, &format!("realtime-{isa}"), &["-O2", &format!("--isa={isa}")])?;
    }
    Ok(programs)
}

fn expect(programs: &Programs, options: &[&str], command: &str, output: &str) -> Result<(), String> {
    let run = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(options).arguments(["--", command]);
    run.limit(LIMIT).wait().expect_code(0)?.expect_output(output).map(drop)
}

fn islands() -> Result<(), String> {
    let line = |(isa, core): (&str, u32)| {
        format!("/in/programs/realtime-{isa} {core} {core} told limited first wakes posts rounds || exit\n")
    };
    let command: String = [("x86_64", 0), ("aarch64", 16), ("riscv64", 33)].map(line).concat();
    expect(&programs()?, &[], &command, &"told\nlimited\nfirst\nwakes\nposts\nrounds\n".repeat(ISAS.len()))
}

fn changes() -> Result<(), String> {
    expect(&programs()?, &[], "/in/programs/realtime-riscv64 33 32 changes", "changes\n")
}

/// In simulated time, which does not depend on the host: within a tenth of a slice.
fn at_once() -> Result<(), String> {
    let command = "/in/programs/realtime-x86_64 0 0 writes | /in/programs/realtime-riscv64 33 33 reads &&
        /in/programs/realtime-riscv64 32 32 writes | /in/programs/realtime-riscv64 33 33 reads &&
        /in/programs/realtime-riscv64 33 32 changes_at_once";
    expect(&programs()?, &["--timed"], command, "reads\nreads\nchanges_at_once\n")
}

/// The guest never waits, and is a less urgent real-time machine.
fn from_guest() -> Result<(), String> {
    let programs = programs()?;
    fs::copy(vm::guest(), programs.path.join("guest")).map_err(|error| error.to_string())?;
    let command =
        "mkfifo /tmp/times; /in/programs/realtime-riscv64 33 33 reads_alone </tmp/times & reads=$!; exec 3>/tmp/times
        until grep -q ' 33 6 1 ' /proc/$reads/stat; do sleep 0.01; done
        on riscv64 taskset 200000000 vm run --real-time 5 --append spin /in/programs/guest 3>&- & vm=$!
        until grep -q ' 33 5 2 ' /proc/$vm/stat; do sleep 0.01; done 2>/dev/null; sleep 0.02
        /in/programs/realtime-x86_64 0 0 writes >&3; exec 3>&-; wait $reads; kill -KILL $vm";
    expect(&programs, &["--timed"], command, "reads_alone\n")
}
