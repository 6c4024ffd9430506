//! Calls over a link that engines carry: they do what they do by stores, and are carried where that is faster.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::{
    crossing::{Programs, compiled},
    process::{self, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 2] =
        [("engine_calls::calls_do_what_they_do_by_stores", right), ("engine_calls::the_faster_way_is_chosen", chosen)];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// machines/flick.toml with stores over the link that take `store_ns`, and calls by `way`; `None`: as the file has them.
fn machine(programs: &Programs, store_ns: Option<u32>, way: Option<&str>) -> Result<PathBuf, String> {
    let flick = process::root().join("machines/flick.toml");
    let mut text = fs::read_to_string(flick).map_err(|error| error.to_string())?;
    if let Some(store_ns) = store_ns {
        for old in ["store_ns = 4\n", "store_ns = 0\n"] {
            if !text.contains(old) {
                return Err(format!("machines/flick.toml has no `{}`", old.trim()));
            }
            // Not `device_store_ns`.
            text = text.replace(&format!("\n{old}"), &format!("\nstore_ns = {store_ns}\n"));
        }
    }
    if let Some(way) = way {
        text = text.replacen("[pool]", &format!("calls = \"{way}\"\n[pool]"), 1);
    }
    let file = programs.path.join("machine.toml");
    fs::write(&file, text).map_err(|error| error.to_string())?;
    Ok(file)
}

/// Nested calls, arguments and results of all kinds, threads that have to wait for their turn, calls that are withdrawn, signals.
fn right() -> Result<(), String> {
    for (program, option, place) in [("migrated", "-O1", ""), ("turns", "-O2", ""), ("hosts", "-O2", "on riscv64 ")] {
        let programs = compiled(program, &[option])?;
        let ended = Motet::run(["--timed", "--in"])
            .argument(programs.path.join(program))
            .argument("--machine")
            .argument(machine(&programs, None, Some("dma"))?)
            .arguments(["--", &format!("{place}/in/{program}")])
            .wait();
        ended.expect_code(0)?.expect_output(&format!("{program}: ok\n"))?;
    }
    Ok(())
}

/// What calls from the host and from the board take, in picoseconds, how many transfers there were, and reads of old copies.
#[derive(Debug)]
struct Took {
    time_ps: [u64; 2],
    transfers: [u64; 2],
    stale_reads: u64,
}

fn took(programs: &Programs, store_ns: Option<u32>, way: Option<&str>) -> Result<Took, String> {
    let stats = programs.path.join("stats.json");
    let ended = Motet::run(["--timed".as_ref(), "--stats".as_ref(), stats.as_os_str(), "--in".as_ref()])
        .argument(programs.path.join("link"))
        .argument("--machine")
        .argument(machine(programs, store_ns, way)?)
        .arguments(["--deterministic", "--", "/in/link"])
        .wait();
    ended.expect_code(0)?.expect_output("link: ok\n")?;
    let text = fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let regions = stats["regions"].as_array().ok_or("there are no regions")?;
    let mut took = Took { time_ps: [0; 2], transfers: [0; 2], stale_reads: 0 };
    for (name, time_ps) in ["from_host", "from_board"].into_iter().zip(&mut took.time_ps) {
        let region = regions.iter().find(|region| region["name"] == name).ok_or("a region is missing")?;
        *time_ps = region["time_ps"].as_u64().ok_or("a region has no time")?;
    }
    for (core, transfers) in took.transfers.iter_mut().enumerate() {
        *transfers = stats["cores"][core]["transfers"].as_u64().ok_or("a core has no count of transfers")?;
        took.stale_reads += stats["cores"][core]["memory"]["stale_reads"].as_u64().ok_or("a core has no count")?;
    }
    Ok(took)
}

/// In simulated time. As the file has it, stores are faster, and no engine carries anything. Where each keeps its core for 400 ns, engines are.
fn chosen() -> Result<(), String> {
    let programs = compiled("link", &["-O1"])?;
    let posted = took(&programs, None, None)?;
    let [stores, dma, fastest] = [Some("stores"), Some("dma"), None].map(|way| took(&programs, Some(400), way));
    let (stores, dma, fastest) = (stores?, dma?, fastest?);
    let all = format!("posted {posted:?}, then of 400 ns {stores:?}, {dma:?}, {fastest:?}");
    let none = posted.transfers == [0; 2] && stores.transfers == [0; 2];
    // 300 times three calls from the host, one of which calls back, and 300 calls back from the board.
    let carried = [&dma, &fastest].iter().all(|took| took.transfers[0] >= 1500 && took.transfers[1] >= 1500);
    let faster = (0..2).all(|way| {
        let stores_ps = stores.time_ps[way];
        dma.time_ps[way] < stores_ps && fastest.time_ps[way] < stores_ps && posted.time_ps[way] < fastest.time_ps[way]
    });
    let fresh = [&posted, &stores, &dma, &fastest].iter().all(|took| took.stale_reads == 0);
    if none && carried && faster && fresh { Ok(()) } else { Err(all) }
}
