//! Stores of programs to registers of the FPGA that are not connected (`docs/protocols/fpga.md`): they change nothing of the program, and permit
//! nothing that its mappings do not.

use libtest_mimic::Trial;

use crate::{crossing::compiled, process::Motet, restart::Machine, trial};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 2] = [
        ("accel_stores::a_program_keeps_all_registers_and_gets_its_signals", || kept(&[], "20")),
        ("accel_stores::the_same_in_simulated_time", || kept(&["--timed", "--deterministic"], "20 exact")),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A region of which each of two accelerators is made within 1.4 ms, and an island.
const ONE_REGION: &str = "[[island]]\nname = \"one\"\nisa = \"aarch64\"\ncores = 1\n\
    [fpga]\nexpire_us = 1\nport_kib_ns = 12000\n[[fpga.region]]\nbitstream = 117450\n\
    [[fpga.accelerator]]\nname = \"qam16\"\nframe_ns = 47000\nregions = [1]\n\
    [[fpga.accelerator]]\nname = \"fft1024\"\nframe_ns = 33600\nregions = [1]\n";

fn kept(arguments: &[&str], words: &str) -> Result<(), String> {
    let programs = compiled("stores", &["-O2", "--isa", "aarch64"])?;
    let machine = Machine::new(ONE_REGION)?;
    let ended = Motet::run(["--quiet", "--in"])
        .argument(programs.path.join("stores"))
        .argument("--machine")
        .argument(machine.0.path().join("machine.toml"))
        .arguments(arguments)
        .arguments(["--", &format!("/in/stores {words}")])
        .wait();
    ended.expect_code(0)?.expect_output("right\n").map(drop)
}
