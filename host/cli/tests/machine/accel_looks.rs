//! Cores that look what becomes of a store to registers of the FPGA, instead of sleeping (`docs/protocols/fpga.md`, "Looking"): for guests, and
//! while their island dies.

use std::{fs, thread, time::Duration};

use motet_layout::Isa;
use serde_json::Value;

use crate::{
    accel_guests::guest,
    crossing::compiled,
    process::Motet,
    restart::{Machine, await_line, ended, kill, start},
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("accel_looks::a_guest_runs_on_while_its_region_is_made_ready", alone),
        ("accel_looks::whatever_is_ready_runs_while_a_guests_region_is_made_ready", beside),
        ("accel_looks::who_shares_an_interface_goes_on_after_a_core_that_looked_has_died", death),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A region of which each of two accelerators is made within 1.4 ms, and an island.
const ONE_REGION: &str = "[fpga]\nexpire_us = 1\nport_kib_ns = 12000\n[[fpga.region]]\nbitstream = 117450\n\
    [[fpga.accelerator]]\nname = \"qam16\"\nframe_ns = 47000\nregions = [1]\n\
    [[fpga.accelerator]]\nname = \"fft1024\"\nframe_ns = 33600\nregions = [1]\n";

/// How many regions were made ready for a guest, and while how many of them it went on running, in simulated time; `before`: a command before that.
fn looked(isa: Isa, before: &str) -> Result<[usize; 2], String> {
    let image = guest(isa)?;
    let island = format!("[[island]]\nname = \"one\"\nisa = \"{}\"\ncores = 1\nguests = true\n", isa.name());
    let machine = Machine::new(&format!("{island}{ONE_REGION}"))?;
    let [file, stats, trace] = ["machine.toml", "stats.json", "trace.json"].map(|name| machine.0.path().join(name));
    let command = format!(
        "{before}vm run --real-time 50 --accel qam16 --accel fft1024 --append 'part=allocations rounds=5' /in/{}",
        image.file_name().unwrap_or_default().display()
    );
    let ended = Motet::run(["--timed", "--deterministic", "--quantum", "1", "--quiet", "--in"])
        .argument(&image)
        .argument("--machine")
        .argument(&file)
        .argument("--stats")
        .argument(&stats)
        .argument("--trace")
        .argument(&trace)
        .arguments(["--", &command])
        .wait();
    ended.expect_code(0)?.expect_output("passed 5\n")?;
    let stats: Value = fs::read(&stats).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let list = |at: &str| stats.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
    let (runs, changes) = (list("/guests/runs"), list("/fpga/changes"));
    let ready: Vec<u64> = changes
        .iter()
        .filter(|change| change["state"] == "hold")
        .filter_map(|change| change["at_ps"].as_u64())
        .collect();
    let runs_at = |at_ps: &&u64| {
        let is_in = |run: &Value| Some(run["from_ps"].as_u64()? < **at_ps && **at_ps < run["to_ps"].as_u64()?);
        runs.iter().any(|run| is_in(run) == Some(true))
    };
    Ok([ready.len(), ready.iter().filter(runs_at).count()])
}

/// Each is made ready within the guest's own time.
fn alone() -> Result<(), String> {
    for isa in [Isa::RiscV64, Isa::AArch64] {
        let [ready, while_running] = looked(isa, "")?;
        if ready != 10 || while_running != ready {
            return Err(format!("{}: {ready} regions, {while_running} while the guest ran", isa.name()));
        }
    }
    Ok(())
}

/// A program that computes has the core meanwhile.
fn beside() -> Result<(), String> {
    for isa in [Isa::RiscV64, Isa::AArch64] {
        let [ready, while_running] = looked(isa, "while :; do :; done & ")?;
        if ready != 10 || while_running != 0 {
            return Err(format!("{}: {ready} regions, {while_running} while the guest ran", isa.name()));
        }
    }
    Ok(())
}

/// It dies again and again, as its core looks only a part of the time: who waits beside it would not be woken for ever, in three of ten runs.
fn death() -> Result<(), String> {
    let programs = compiled("looks", &["-O2", "--isa", "x86_64"])?;
    let program = programs.path.join("looks");
    let islands = ["one", "two"].map(|name| format!("[[island]]\nname = \"{name}\"\nisa = \"x86_64\"\ncores = 1\n"));
    let region = ONE_REGION.replace("port_kib_ns = 12000", "port_kib_ns = 5000");
    let machine = Machine::new(&format!("{}{region}", islands.concat()))?;
    let program_text = program.to_string_lossy();
    for round in (0..10).step_by(of_long(3, 1)) {
        let mut running = start(&machine, &["--survive", "--quiet", "--in", &program_text], "/in/looks 0 16");
        let mut steps = || {
            await_line(&mut running, "started")?;
            thread::sleep(Duration::from_micros(300 * round));
            kill(&running, "two")
        };
        let outcome = steps();
        ended(running, outcome)?.expect_code(0)?.expect_output("started\nright\n")?;
    }
    Ok(())
}
