//! hthreads (`user/hthreads`): over every back end, for several instruction sets at once and for each alone, threads, mutexes, condition
//! variables, barriers and interrupts do what POSIX says, and a lock is a store and a load.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use motet_fabric::stats::Stats;
use motet_toolchain::Tools;

use crate::{
    bad_input::{SEED_VARIABLE, of_the_day, seed},
    crossing::Programs,
    libraries::{run, text},
    process::{self, Ended, ISAS, Motet, root},
    trial::{Trial, is_long, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// Tests with an ordinary compiler, which builds its C library for a minute: one process, so that only the first one waits for it.
pub const FOR_ONE: &str = "programs for one instruction set";
/// The one of them that is tested where what is slow is not asked for. Others want its C library, too.
pub const FIRST_FOR_ONE: &str = ISAS[2];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("hthreads::programs_for_several_instruction_sets_keep_to_posix", several),
        ("hthreads::a_back_end_that_cannot_be_is_named", refused),
        ("hthreads::a_lock_is_a_store_and_a_load", short_way),
    ];
    let for_one = trial("hthreads::programs_for_one_instruction_set_keep_to_posix", single).sharing(FOR_ONE);
    tests.into_iter().map(|(name, test)| trial(name, test)).chain([for_one]).collect()
}

/// What `MOTET_HTHREADS` has, and the back end's name.
type BackEnd = (&'static str, &'static str);
const BACK_ENDS: [BackEnd; 6] = [
    ("hardware", "hardware"),
    ("hybrid", "hybrid"),
    ("fused", "fused"),
    ("rpc", "rpc"),
    ("rpc:awake", "rpc"),
    ("software:3", "software"),
];
/// Those whose code differs by instruction set, or that go to other islands by themselves.
const FEW: [BackEnd; 3] = [("hardware", "hardware"), ("fused", "fused"), ("rpc", "rpc")];
/// What the program of tests prints.
const TESTS: &str = "kinds\ncounting\ntime_limits\nconditions\nlimited_waits\nbarriers\npriorities\njoins\nmany\n\
    owners_that_die\ninterrupts\nislands\n";
/// Servers on a core that others use, too, and a host with two processors.
const LIMIT: Duration = Duration::from_secs(2000);

/// The default machine with a service core.
pub const MACHINE: &str = "[pool]\nsize = \"512MiB\"\n\
    [[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 1\n\
    [[island]]\nname = \"arm\"\nisa = \"aarch64\"\ncores = 1\n\
    [[island]]\nname = \"riscv\"\nisa = \"riscv64\"\ncores = 2\n\
    [[service]]\n";
/// One of 1 GHz whose instructions take a cycle each, and accesses to memory nothing.
pub const TIMED: &str = "[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"slaves\"\nisa = \"riscv64\"\ncores = 2\n[[service]]\n\
    [model]\ndevice_ns = 0\n[[model.core]]\nfrequency_mhz = 1000\ncpi = 1.0\nmemory_cycles = 0\n";

/// A file of the project.
pub fn source(name: &str) -> PathBuf {
    root().join(name)
}

fn semantics() -> PathBuf {
    source("tests/guest/hthreads/semantics.c")
}

/// Programs, and a machine for them.
pub struct Tested {
    /// Its programs.
    pub programs: Programs,
    machine: PathBuf,
}

impl Tested {
    /// A machine of a machine file.
    pub fn new(machine: &str) -> Result<Self, String> {
        let programs = Programs::new()?;
        let path = programs.path.join("machine.toml");
        fs::write(&path, machine).map_err(text)?;
        Ok(Self { programs, machine: path })
    }

    /// A run of a command there.
    pub fn motet(&self, options: &[&str], command: &str) -> Motet {
        let motet = Motet::run(["--in".as_ref(), self.programs.path.as_os_str()]).limit(LIMIT);
        motet.argument("--machine").argument(&self.machine).arguments(options).arguments(["--", command])
    }

    /// Runs a command there.
    pub fn run(&self, options: &[&str], command: &str) -> Ended {
        self.motet(options, command).wait()
    }

    /// Runs `program` over each of some back ends.
    fn over(&self, back_ends: &[BackEnd], before: &str, program: &str, islands: u32) -> Result<(), String> {
        let lines: Vec<String> = back_ends
            .iter()
            .map(|(words, name)| format!("MOTET_HTHREADS={words} {before} /in/programs/{program} {name} || exit"))
            .collect();
        let ended = self.run(&[], &format!("export ISLANDS={islands}\n{}", lines.join("\n")));
        let is_right = ended.expect_code(0).and_then(|ended| ended.expect_output(&TESTS.repeat(back_ends.len())));
        is_right.map(drop).map_err(|error| format!("{}={}, {lines:?}: {error}", SEED_VARIABLE, seed()))
    }
}

fn several() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    tested.programs.compile(&semantics(), "semantics", &["-O2", "-lhthread"])?;
    let some = [BACK_ENDS[0], of_the_day(&BACK_ENDS[1..])];
    tested.over(of_long(&some, &BACK_ENDS), "", "semantics", 0b111)?;
    // Started on the last island, too: threads go from there to the others.
    tested.over(of_long(&[of_the_day(&FEW)], &FEW), "on riscv64", "semantics", 0b111)
}

/// With the archives that `-lhthread` leaves for each instruction set.
fn single() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    let folder = process::target().join("toolchain");
    // Builds them.
    tested.programs.compile(&semantics(), "several", &["-O2", "-lhthread"])?;
    let tools = Tools::find(&folder).map_err(|error| error.message)?;
    for (index, isa) in ISAS.iter().enumerate().filter(|(_, isa)| is_long() || **isa == FIRST_FOR_ONE) {
        compile_for(&tools, &folder, isa, &tested.programs.path.join(isa))?;
        tested.over(&FEW, &format!("on {isa}"), isa, 1 << index)?;
    }
    Ok(())
}

fn compile_for(tools: &Tools, folder: &Path, isa: &str, output: &Path) -> Result<(), String> {
    let mut compiler = tools.command("cc");
    compiler.args(["-target", &format!("{isa}-linux-musl"), "-static", "-O2", "-I"]);
    compiler.arg(folder.join("include")).arg(semantics()).arg(folder.join("hthreads").join(isa).join("libhthread.a"));
    run(compiler.arg("-o").arg(output).env("ZIG_GLOBAL_CACHE_DIR", folder.join("zig-cache"))).map(drop)
}

fn refused() -> Result<(), String> {
    let tested = Tested::new(&MACHINE.replace("[[service]]\n", ""))?;
    tested.programs.compile(&semantics(), "semantics", &["-O2", "-lhthread"])?;
    let tries = ["hardware", "hybird", "rpc:2", "software:0", "software@99", "fused:1"];
    let says = [
        "no service core",
        "it is hardware, rpc, software, fused or hybrid",
        "that is not how",
        "that is not how",
        "there is no such CPU",
        "that is not how",
    ];
    for (words, why) in tries.iter().zip(says) {
        let ended = tested.run(&[], &format!("MOTET_HTHREADS={words} /in/programs/semantics fused"));
        ended.expect_code(1)?.expect_errors(&[&format!("hthreads: MOTET_HTHREADS={words}: "), why])?;
    }
    // Without the variable it takes what there is.
    tested.run(&[], "/in/programs/semantics fused kinds").expect_code(0)?.expect_output("kinds\n").map(drop)
}

/// Both in simulated time: what a pair of lock and unlock executes, and that the threads do not disturb each other.
fn short_way() -> Result<(), String> {
    /// Instructions of a pair: those of the benchmark, of the interface and of the way to the registers.
    const PAIR_MAX: u64 = 120;
    const PAIRS: u64 = 2 * 500;
    let tested = Tested::new(TIMED)?;
    tested.programs.compile(&source("user/hthreads/latency.c"), "latency", &["-O2", "-lhthread"])?;
    let stats_path = tested.programs.path.join("stats.json");
    let options = ["--timed", "--deterministic", "--stats", stats_path.to_str().ok_or("a path is not text")?];
    let ended = tested.run(&options, "MOTET_HTHREADS=hardware /in/programs/latency lock 2 500");
    ended.expect_code(0)?;
    let stats: Stats =
        serde_json::from_str(&fs::read_to_string(&stats_path).map_err(text)?).map_err(|e| e.to_string())?;
    let region = stats.regions.iter().find(|region| region.name == "pairs").ok_or("the region is missing")?;
    let instructions: u64 = region.cores.iter().map(|core| core.instructions).sum();
    if instructions > PAIR_MAX * PAIRS {
        return Err(format!("{instructions} instructions for {PAIRS} pairs\n{}", ended.output));
    }
    let ended = tested.run(&["--timed", "--deterministic"], "/in/programs/latency speedup 2 1001 250 25");
    ended.expect_code(0)?;
    if ended.output.starts_with("speedup hardware threads 2 iterations 1001 ") { Ok(()) } else { Err(ended.describe()) }
}
