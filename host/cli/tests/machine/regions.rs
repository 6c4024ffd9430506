//! Regions of interest in timed machines: what their counts say is what the programs did.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command, time::Duration};

use serde_json::Value;

use crate::{
    bad_input,
    process::{self, Ended, ISAS, Motet},
    trial::{Trial, trial},
};

/// Instructions that a mark and what it needs may cost beside the work of a region.
const CALL_MAX: u64 = 300;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let work = |isa: &'static str| {
        trial(&format!("regions::work_on_{isa}_is_counted_where_it_is_done"), move || work_is_counted(isa))
    };
    let mut trials: Vec<Trial> = ISAS.into_iter().map(work).collect();
    trials.extend([
        trial("regions::a_pipeline_is_work_of_all_islands", pipeline),
        trial("regions::wrong_names_are_told_once", wrong_names),
        trial("regions::more_than_fit_count_as_one", too_many),
        trial("regions::mean_nothing_to_the_host", on_the_host),
        trial("regions::the_guests_motet_explains_itself", usage),
    ]);
    trials
}

fn program(isa: &str) -> Result<PathBuf, String> {
    let path = process::target().join(bad_input::target_of(isa)).join("release/regions");
    if path.is_file() { Ok(path) } else { Err(format!("{} is not built", path.display())) }
}

/// Runs a command in a timed machine that has the program for `isa` as /tmp/regions; what was measured.
fn measured(isa: &str, options: &[&str], command: &str) -> Result<(Ended, Value), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let stats = folder.path().join("stats.json");
    let command = format!("cp /in/regions /tmp; {command}");
    let ended = Motet::run(["--timed".as_ref(), "--stats".as_ref(), stats.as_os_str(), "--in".as_ref()])
        .argument(program(isa)?)
        .arguments(options)
        .arguments(["--", &command])
        .limit(Duration::from_secs(900))
        .wait();
    ended.expect_code(0)?;
    let text = fs::read_to_string(&stats).map_err(|error| format!("{error}\n{}", ended.describe()))?;
    let stats = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok((ended, stats))
}

fn region<'a>(stats: &'a Value, name: &str) -> Result<&'a Value, String> {
    let regions = stats["regions"].as_array().map_or(&[][..], Vec::as_slice);
    regions.iter().find(|region| region["name"] == name).ok_or_else(|| format!("no region {name} in {regions:#?}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(u64::MAX)
}

fn check(fact: bool, what: &str, value: &Value) -> Result<(), String> {
    if fact { Ok(()) } else { Err(format!("not so: {what}: {value:#}")) }
}

fn cores(region: &Value) -> impl Iterator<Item = &Value> {
    region["cores"].as_array().into_iter().flatten()
}

fn work_is_counted(isa: &'static str) -> Result<(), String> {
    let (first, second) = (200_000, 50_000);
    let command = format!("/tmp/regions work {first} {second}");
    let (_, stats) = measured(isa, &["--deterministic"], &command)?;
    let island_of = |isa: &str| {
        let islands = stats["machine"]["islands"].as_array().into_iter().flatten();
        islands.filter(|island| island["isa"] == isa).map(|island| island["name"].clone()).next()
    };
    for (name, entries, iterations) in [("first", 1, first), ("second", 1, second), ("both", 2, first + second)] {
        let region = region(&stats, name)?;
        check(number(region, "entries") == entries && number(region, "open") == 0, "entries", region)?;
        let busiest = cores(region).max_by_key(|core| number(core, "instructions")).ok_or("no cores")?;
        let wanted = 2 * iterations..2 * iterations + CALL_MAX * entries;
        check(wanted.contains(&number(busiest, "instructions")), "two instructions for each iteration", region)?;
        check(Some(&busiest["island"]) == island_of(isa).as_ref(), "on its island", region)?;
        let others = cores(region).map(|core| number(core, "instructions")).sum::<u64>();
        check(others == number(busiest, "instructions"), "on one core", region)?;
        check(number(region, "time_ps") == number(busiest, "time_ps"), "that core's time", region)?;
    }
    Ok(())
}

fn pipeline() -> Result<(), String> {
    let command = "on riscv64 motet roi whole sh -c 'head -n 1 /etc/passwd | on aarch64 cat | on x86_64 cat'; \
        on aarch64 motet roi failing sh -c 'exit 5' || echo $?; motet roi killed sh -c 'kill -9 $$' || echo $?";
    let (ended, stats) = measured("x86_64", &[], command)?;
    ended.expect_output("root:x:0:0:root:/root:/bin/sh\n5\n137\n")?.expect_errors(&["region whole", "1 entry"])?;
    let whole = region(&stats, "whole")?;
    let working: BTreeSet<&str> = cores(whole)
        .filter(|core| number(core, "instructions") > 10_000)
        .filter_map(|core| core["island"].as_str())
        .collect();
    check(working.len() == 3, "all islands work", whole)?;
    check(cores(whole).any(|core| number(core, "ipis_sent") > 0), "cores ring each other", whole)?;
    // Sums over time end where the totals do.
    for (rows, core) in stats["samples"]["cores"].as_array().into_iter().flatten().zip(cores(&stats)) {
        let rows = rows.as_array().map_or(&[][..], Vec::as_slice);
        let increasing = rows.windows(2).all(|pair| pair[0][0].as_u64() < pair[1][0].as_u64());
        check((2..=513).contains(&rows.len()) && increasing, "samples in order of time", &stats["samples"])?;
        let column =
            stats["samples"]["columns"].as_array().into_iter().flatten().position(|name| name == "instructions");
        let last = rows.last().and_then(|row| row[column?].as_u64());
        check(last == core["instructions"].as_u64(), "the last row is the total", core)?;
    }
    Ok(())
}

fn wrong_names() -> Result<(), String> {
    let (ended, stats) = measured("aarch64", &[], "/tmp/regions wrong")?;
    ended.expect_output("done\n")?.expect_errors(&[
        "its name, at 0x10, cannot be read (2 times)",
        "is called \"new\u{fffd}line\u{fffd}\"",
        "region of interest \"never begun\" ended without having begun",
        "open at the end",
    ])?;
    check(ended.errors.matches("cannot be read").count() == 1, "one warning", &stats["warnings"])?;
    let names: Vec<_> =
        stats["regions"].as_array().into_iter().flatten().map(|region| region["name"].clone()).collect();
    let long = "l".repeat(63);
    check(names == ["new\u{fffd}line\u{fffd}", &long, "(unnamed)", "open"], "names", &stats["regions"])?;
    let open = region(&stats, "open")?;
    check(number(open, "open") == 1 && number(open, "time_ps") > 0, "open", open)
}

fn too_many() -> Result<(), String> {
    let (ended, stats) = measured("riscv64", &[], "/tmp/regions many 70")?;
    ended.expect_output("done\n")?.expect_errors(&["there are more than 64 regions of interest: \"64\" and later"])?;
    check(stats["regions"].as_array().map(Vec::len) == Some(65), "64 and one", &stats["regions"])?;
    let others = region(&stats, "(others)")?;
    check(number(others, "entries") == 6, "entries", others)
}

fn on_the_host() -> Result<(), String> {
    for arguments in [&["work", "1000", "1000"][..], &["wrong"], &["many", "100"]] {
        let output = Command::new(program(std::env::consts::ARCH)?).args(arguments).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() || output.stdout != b"done\n" {
            return Err(format!("{arguments:?}: {output:?}"));
        }
    }
    Ok(())
}

/// Without time there are no regions, but commands run.
fn usage() -> Result<(), String> {
    let command = "motet --help; on riscv64 motet roi --help | head -n 1; motet nonsense; echo $?; motet roi name; echo $?; \
        on aarch64 motet roi name no-such-program; echo $?; on aarch64 motet roi name uname -m; echo $?";
    let usage = "usage: motet roi NAME COMMAND [ARGUMENT...]\n       motet crossings BUSY MISSING COMMAND [ARGUMENT...]\n\
        \x20      motet with EXTENSION[,EXTENSION...] COMMAND [ARGUMENT...]\n\
        \x20      motet --help | motet roi --help | motet crossings --help | motet with --help\n\n\
        Talks to the simulator and the machine that it runs in.\n\n  roi        runs a command as a region of interest\n  \
        crossings  runs a command whose calls wait for busy islands, or not\n  \
        with       runs a command on cores that have some extensions\nusage: motet roi NAME COMMAND [ARGUMENT...]\n64\n64\n127\naarch64\n0\n";
    let ended = Motet::command(command).wait();
    let wrong = "motet: there is no command 'nonsense' in the machine (motet --help)";
    ended.expect_code(0)?.expect_output(usage)?.expect_errors(&[wrong, "no-such-program: not found"]).map(drop)
}
