//! Transfers by islands' engines (`/dev/dma`): what is copied, what is refused, who may end meanwhile, and how long they take.

use std::fs;

use crate::{
    crossing::{Programs, compiled},
    process::{self, Ended, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// What a transfer of 1 MiB takes on machines/flick.toml: `dma.setup_ns` + 1024 `dma.kib_ns`.
const MIB_NS: u64 = 1000 + 1024 * 130;
/// Longest that a program on the first island is told later: its core wakes, and the `read` returns.
const TOLD_NS_MAX: u64 = 50_000;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("transfers::memory_is_copied_and_nothing_else_is_written", untimed),
        ("transfers::memory_is_copied_in_simulated_time_too", timed),
        ("transfers::private_caches_are_told_of_transfers", fresh),
        ("transfers::the_engine_takes_what_the_machine_file_says", times),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

fn untimed() -> Result<(), String> {
    let ended = compiled("transfers", &["-O2"])?.run("transfers", None);
    let parts = "sizes\nerrors\nfull\nforks\nkilled\nunmapped\nislands\ncached\nprocesses\n";
    ended.expect_code(0)?.expect_output(parts).map(drop)
}

fn on_flick(programs: &Programs, options: &[&str], part: &str) -> Ended {
    let machine = process::root().join("machines/flick.toml");
    let program = programs.path.join("transfers");
    Motet::run(["--in".as_ref(), program.as_os_str(), "--machine".as_ref(), machine.as_os_str()])
        .arguments(["--timed", "--quiet"])
        .arguments(options)
        .arguments(["--", &format!("/in/transfers {part}")])
        .wait()
}

fn timed() -> Result<(), String> {
    let programs = compiled("transfers", &["-O2"])?;
    for part in ["errors", "full", "forks", "islands"] {
        on_flick(&programs, &[], part).expect_code(0)?.expect_output(&format!("{part}\n"))?;
    }
    Ok(())
}

/// The board copies within memory that it caches, and nobody tells its cache: its kernel does.
fn fresh() -> Result<(), String> {
    let programs = compiled("transfers", &["-O2"])?;
    let stats = programs.path.join("stats.json");
    let stats_file = stats.to_str().ok_or("a path is not text")?;
    on_flick(&programs, &["--stats", stats_file], "cached").expect_code(0)?.expect_output("cached\n")?;
    let text = fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let regions = stats["regions"].as_array().map_or(&[][..], Vec::as_slice);
    let region = regions.iter().find(|region| region["name"] == "cached").ok_or("the region is missing")?;
    let cores = region["cores"].as_array().map_or(&[][..], Vec::as_slice);
    let counts: Vec<_> = cores.iter().map(|core| core["memory"]["stale_reads"].as_u64()).collect();
    if counts == [Some(0), Some(0)] { Ok(()) } else { Err(format!("stale reads of the cores: {counts:?}")) }
}

/// Twice: deterministic runs are equal.
fn times() -> Result<(), String> {
    let programs = compiled("transfers", &["-O2"])?;
    let ended = [(); 2].map(|()| on_flick(&programs, &["--deterministic"], "times"));
    let [first, second] = &ended;
    first.expect_code(0)?;
    second.expect_code(0)?.expect_output(&first.output)?;
    let numbers: Vec<u64> = first.output.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [took_ns, told_ns] = numbers[..] else { return Err(first.describe()) };
    // Both ends are whole nanoseconds.
    if took_ns.abs_diff(MIB_NS) > 1 || told_ns > TOLD_NS_MAX {
        return Err(format!("{took_ns} ns instead of {MIB_NS}, told {told_ns} ns later\n{}", first.errors));
    }
    Ok(())
}
