//! Programs that know nothing of hthreads, with the adaptor (`-lhthread-pthread`): their mutexes, condition variables and barriers are musl's, or
//! those of a back end that `MOTET_MUTEX` names, and do what POSIX says.

use std::{fs, path::PathBuf};

use motet_fabric::stats::Stats;
use motet_toolchain::Tools;

use crate::{
    bad_input::of_the_day,
    hthreads::{FIRST_FOR_ONE, FOR_ONE, MACHINE, TIMED, Tested, source},
    libraries::{run, text},
    process::{self, ISAS},
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("pthreads::programs_for_several_instruction_sets_keep_to_posix", several),
        ("pthreads::mutexes_and_conditions_of_cpp_follow", classes),
        ("pthreads::a_choice_that_cannot_be_is_named", refused),
        ("pthreads::a_mutex_of_musl_costs_little_more_and_one_of_the_core_is_a_store_and_a_load", short_way),
    ];
    let for_one = trial("pthreads::programs_for_one_instruction_set_keep_to_posix", single).sharing(FOR_ONE);
    tests.into_iter().map(|(name, test)| trial(name, test)).chain([for_one]).collect()
}

/// What `MOTET_MUTEX` has. Without anything, mutexes are musl's.
const CHOICES: [&str; 6] = ["", "hardware", "hybrid", "fused", "rpc", "software:3"];
const FEW: [&str; 2] = ["", "hardware"];

/// musl's, and another one each day.
fn some_choices() -> [&'static str; 2] {
    [CHOICES[0], of_the_day(&CHOICES[1..])]
}

/// What the program prints.
const TESTS: &str = "first_use\ncounting\nkinds\nconditions\nlimited_waits\nbarriers\nowners_that_die\ncancelling\nshared\n\
    destructors\nc11\nmany\n";

fn program() -> PathBuf {
    source("tests/guest/hthreads/pthreads.c")
}

/// Runs the program with each of some choices.
fn with(tested: &Tested, choices: &[&str], before: &str, program: &str) -> Result<(), String> {
    let line = |choice: &&str| {
        let whose = if choice.is_empty() { "musl" } else { "library" };
        format!("MOTET_MUTEX={choice} {before} /in/programs/{program} {whose} || exit")
    };
    let lines: Vec<String> = choices.iter().map(line).collect();
    tested.run(&[], &lines.join("\n")).expect_code(0)?.expect_output(&TESTS.repeat(choices.len())).map(drop)
}

fn several() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    tested.programs.compile(&program(), "pthreads", &["-O2", "-lhthread-pthread"])?;
    with(&tested, of_long(&some_choices(), &CHOICES), "", "pthreads")?;
    with(&tested, of_long(&[of_the_day(&FEW)], &FEW), "on riscv64", "pthreads")
}

/// With the archives that `-lhthread-pthread` leaves for each instruction set; where what is slow is not asked for, for one.
fn single() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    let folder = process::target().join("toolchain");
    // Builds them.
    tested.programs.compile(&program(), "several", &["-O2", "-lhthread-pthread"])?;
    let tools = Tools::find(&folder).map_err(|error| error.message)?;
    for isa in of_long(&[FIRST_FOR_ONE][..], &ISAS).iter().copied() {
        let archives = folder.join("hthreads").join(isa);
        let mut compiler = tools.command("cc");
        compiler.args(["-target", &format!("{isa}-linux-musl"), "-static", "-O2", "-w", "-I"]);
        compiler.arg(folder.join("include")).arg(program());
        compiler.args(["libhthread-pthread.a", "libhthread.a"].map(|name| archives.join(name)));
        compiler.arg("-o").arg(tested.programs.path.join(isa)).env("ZIG_GLOBAL_CACHE_DIR", folder.join("zig-cache"));
        run(&mut compiler)?;
        with(&tested, &FEW, &format!("on {isa}"), isa)?;
    }
    Ok(())
}

/// What C++'s library makes of mutexes and condition variables.
fn classes() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    let program = source("tests/guest/hthreads/classes.cc");
    tested.programs.compile(&program, "classes", &["-std=c++17", "-O2", "-lhthread-pthread"])?;
    let of = |choice: &str| if choice.is_empty() { "musl" } else { "library" };
    let line =
        |isa: &str, choice: &str| format!("MOTET_MUTEX={choice} on {isa} /in/programs/classes {} || exit", of(choice));
    let some = some_choices();
    let choices: &[&str] = of_long(&some, &CHOICES);
    let lines: Vec<String> = ISAS.iter().flat_map(|isa| choices.iter().map(|choice| line(isa, choice))).collect();
    let ended = tested.run(&[], &lines.join("\n"));
    ended.expect_code(0)?.expect_output(&"as they should be\n".repeat(lines.len())).map(drop)
}

/// Where there is no service core, too: whoever chooses it is refused, though the program runs.
fn refused() -> Result<(), String> {
    let tested = Tested::new(&MACHINE.replace("[[service]]\n", ""))?;
    tested.programs.compile(&program(), "pthreads", &["-O2", "-lhthread-pthread"])?;
    for (words, why) in [
        ("hardware", "no service core"),
        ("hybrid", "no service core"),
        ("hard", "it is hardware, rpc, software, fused or hybrid"),
        ("rpc:2", "that is not how"),
    ] {
        let ended = tested.run(&[], &format!("MOTET_MUTEX={words} /in/programs/pthreads musl kinds"));
        ended.expect_code(1)?.expect_errors(&[&format!("hthreads: MOTET_MUTEX={words}: "), why])?;
    }
    let both = "MOTET_MUTEX=fused MOTET_HTHREADS=rpc /in/programs/pthreads library kinds";
    tested.run(&[], both).expect_code(1)?.expect_errors(&["there is one back end for both"])?;
    let others = "MOTET_HTHREADS=hardware /in/programs/pthreads musl kinds && MOTET_MUTEX=fused /in/programs/pthreads library kinds";
    tested.run(&[], others).expect_code(0)?.expect_output("kinds\nkinds\n").map(drop)
}

/// In simulated time: what a lock and an unlock execute that nobody else wants.
fn short_way() -> Result<(), String> {
    const PAIRS: u64 = 500;
    let tested = Tested::new(TIMED)?;
    tested.programs.compile(&source("tests/guest/hthreads/pairs.c"), "pairs", &["-O2", "-lhthread-pthread"])?;
    tested.programs.compile(&source("tests/guest/hthreads/pairs.c"), "plain", &["-O2"])?;
    let stats_path = tested.programs.path.join("stats.json");
    let options = ["--timed", "--deterministic", "--stats", stats_path.to_str().ok_or("a path is not text")?];
    let instructions = |command: &str| -> Result<u64, String> {
        let ended = tested.run(&options, &format!("{command} {PAIRS}"));
        ended.expect_code(0)?;
        let stats = fs::read_to_string(&stats_path).map_err(text)?;
        let stats: Stats = serde_json::from_str(&stats).map_err(|error| error.to_string())?;
        let region = stats.regions.iter().find(|region| region.name == "pairs").ok_or("the region is missing")?;
        Ok(region.cores.iter().map(|core| core.instructions).sum::<u64>() / PAIRS)
    };
    let plain = instructions("/in/programs/plain")?;
    let without = instructions("/in/programs/pairs")?;
    let hardware = instructions("MOTET_MUTEX=hardware /in/programs/pairs")?;
    // Two loads and branches more for each call, and the registers' way.
    if without > plain + 16 || hardware > 150 || hardware < plain {
        return Err(format!(
            "instructions of a pair: {plain} without the adaptor, {without} with it, {hardware} in hardware"
        ));
    }
    Ok(())
}
