//! What a timed machine charges beside instructions and the accesses that programs make.

use std::{fs, path::Path, time::Duration};

use motet_fabric::stats::{CoreStats, RegionStats, Stats};

use crate::{
    bad_input::target_of,
    process::{self, ISAS, Motet},
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("charged::a_system_call_costs_its_entry_and_exit_more_and_nothing_else", traps),
        trial("charged::pages_that_no_tlb_has_are_walked_and_unmapped_ones_flushed", pages),
    ]
}

/// Runs the program of regions for each ISA, with each of `calls` as its arguments, in a deterministic timed machine with a core of
/// each, which `cores` describes; what was counted.
fn measured(cores: impl Fn(&str) -> String, calls: &[&str]) -> Result<Stats, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (machine, stats, programs) =
        (folder.path().join("machine.toml"), folder.path().join("stats.json"), folder.path().join("programs"));
    fs::create_dir(&programs).map_err(|error| error.to_string())?;
    let (mut text, mut commands) = ("[pool]\nsize = \"512MiB\"\n".to_owned(), String::new());
    for isa in ISAS {
        let program = process::target().join(target_of(isa)).join("release/regions");
        fs::copy(&program, programs.join(isa)).map_err(|error| format!("{}: {error}", program.display()))?;
        text += &format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 1\n");
        for command in calls {
            commands += &format!("/in/programs/{isa} {command}; on {isa} sleep 0.001;");
        }
    }
    for isa in ISAS {
        text +=
            &format!("[[model.core]]\nisland = \"{isa}\"\nfrequency_mhz = 1000\nmemory_cycles = 100\n{}", cores(isa));
        for cache in ["l1i", "l1d"] {
            text += &format!("{cache} = {{ size = \"256KiB\", ways = 8, cycles = 1 }}\n");
        }
    }
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    let ended = Motet::run(["--timed", "--deterministic", "--quiet", "--machine"])
        .argument(&machine)
        .argument("--stats")
        .argument(&stats)
        .argument("--in")
        .argument(&programs)
        .arguments(["--", &commands])
        .limit(Duration::from_secs(900))
        .wait();
    ended.expect_code(0)?;
    read(&stats).map_err(|error| format!("{error}\n{}", ended.describe()))
}

fn read(path: &Path) -> Result<Stats, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// A core in a region, by its island.
fn core<'a>(stats: &'a Stats, region: &str, island: &str) -> Result<&'a CoreStats, String> {
    let found = |region: &'a RegionStats| region.cores.iter().find(|core| core.island == island);
    let region = stats.regions.iter().find(|other| other.name == region).and_then(found);
    region.ok_or_else(|| format!("no region {region:?} of {island}"))
}

/// Compares runs with and without costs. Of x86-64, `syscall` and `sysret` are charged, and not what other traps take.
fn traps() -> Result<(), String> {
    const CALLS: u64 = 50;
    let entry_and_exit_ns = 79 + 71;
    let cores = |trap: u64, syscall: u64| {
        move |isa: &str| match isa {
            "x86_64" => format!(
                "trap_entry_cycles = {}\ntrap_exit_cycles = {}\nsyscall_entry_cycles = {syscall}\n\
                 syscall_exit_cycles = {}\nend_of_interrupt_cycles = {trap}\nwake_cycles = {trap}\n",
                10 * trap,
                20 * trap,
                syscall * 71 / 79
            ),
            _ => format!(
                "trap_entry_cycles = {syscall}\ntrap_exit_cycles = {}\nend_of_interrupt_cycles = {trap}\nwake_cycles = {trap}\n",
                syscall * 71 / 79
            ),
        }
    };
    let command = format!("calls {CALLS}");
    let command = [command.as_str()];
    let (free, charged) = (measured(cores(0, 0), &command)?, measured(cores(100, 79), &command)?);
    for isa in ISAS {
        let mut exact = 0;
        for region in ["1", "2", "3", "4", "5", "6", "7", "8", "9"] {
            let pair = [core(&free, region, isa)?, core(&charged, region, isa)?];
            // An interrupt in one of them: its handler's instructions and misses are in it, too.
            if pair.iter().any(|core| core.count("interrupt_ends") != 0 || core.count("traps") != CALLS) {
                continue;
            }
            exact += 1;
            let [free_ps, charged_ps] = pair.map(|core| core.time_ps - core.idle_ps);
            let wanted_ps = CALLS * entry_and_exit_ns * 1000;
            let counts = ["trap_returns", "trap_ps"].map(|name| pair[1].count(name));
            if charged_ps != free_ps + wanted_ps || counts != [CALLS, wanted_ps] {
                return Err(format!("{isa}, region {region}: {free_ps} ps became {charged_ps}: {pair:#?}"));
            }
        }
        if exact < 7 {
            return Err(format!("{isa}: calls were interrupted in all but {exact} regions: {:#?}", charged.regions));
        }
    }
    // What the machine did otherwise: it has faulted, taken interrupts, and slept.
    let of = |isa: &str, name: &str| {
        charged.cores.iter().filter(|core| core.island == isa).map(|core| core.count(name)).sum::<u64>()
    };
    for (isa, name) in ISAS.iter().flat_map(|isa| ["traps", "wakes"].map(|name| (isa, name))) {
        if of(isa, name) <= if name == "traps" { 10 * CALLS } else { 0 } {
            return Err(format!("{isa}: {name}: {:#?}", charged.cores));
        }
    }
    // Who comes back has come. Threads begin with a return alone, and some end without.
    for isa in ISAS {
        if of(isa, "traps").abs_diff(of(isa, "trap_returns")) > 20 {
            return Err(format!("{isa}: traps and returns: {:#?}", charged.cores));
        }
    }
    let ends = ISAS.map(|isa| of(isa, "interrupt_ends"));
    if ends.contains(&0) { Err(format!("ends of interrupts: {ends:?}")) } else { Ok(()) }
}

/// Reads a word of each of some pages in turn. Least recently used is replaced, so the TLBs have all of them or none.
fn pages() -> Result<(), String> {
    const ROUNDS: u64 = 20;
    let tlbs = "itlb = { entries = 64, ways = 4 }\ndtlb = { entries = 32, ways = 32 }\n\
                l2_tlb = { entries = 128, ways = 4, cycles = 7 }\n";
    let calls = [format!("pages 8 {ROUNDS}"), format!("pages 64 {ROUNDS}"), format!("pages 512 {ROUNDS}")];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let stats = measured(|_| tlbs.to_owned(), &calls)?;
    // What else is in a region: the mark, and an interrupt at worst.
    let other = 100;
    for isa in ISAS {
        for (pages, misses, walks) in [("8", 0, 0), ("64", ROUNDS * 64, 0), ("512", ROUNDS * 512, ROUNDS * 512)] {
            let core = core(&stats, pages, isa)?;
            let about = |name: &str, wanted: u64| (wanted..wanted + other).contains(&core.count(name));
            let reads = core.count("walks");
            if !about("dtlb_misses", misses)
                || !about("tlb_walks", walks)
                || reads < 4 * walks
                || reads > 4 * (walks + other)
            {
                return Err(format!(
                    "{isa}, {pages} pages: {misses} misses and {walks} walks are too few or many: {core:#?}"
                ));
            }
            let looks = core.count("dtlb_misses") + core.count("itlb_misses");
            if core.count("stall_tlb_ps") != looks * 7_000 {
                return Err(format!("{isa}, {pages} pages: the second level was asked {looks} times: {core:#?}"));
            }
        }
        let core = core(&stats, "unmap", isa)?;
        if core.count("tlb_flushes") < calls.len() as u64 || core.count("tlb_flushed") == 0 {
            return Err(format!("{isa}: pages were unmapped: {core:#?}"));
        }
    }
    Ok(())
}
