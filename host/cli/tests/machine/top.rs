//! `motet top`: who watches a running machine sees what it does, and changes nothing (docs/top.md).

use serde_json::Value;

use crate::{
    command_line::{Terminal, hung_up},
    process::{Motet, Running, root},
    restart::{await_line, ended},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 7] = [
        ("top::tables_show_what_a_machine_does", tables),
        ("top::json_counts_what_happens_in_an_interval", counted),
        ("top::a_timed_machine_shows_its_time_and_its_caches", timed),
        ("top::kernels_without_shared_memory_are_one_machine", several_kernels),
        ("top::a_terminal_is_as_it_was_before", on_a_terminal),
        ("top::a_terminal_that_hangs_up_ends_it", without_a_terminal),
        ("top::what_is_wrong_is_refused_and_a_machine_that_ends_is_told", refused_and_ended),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A core of RISC-V is at work, and the others wait.
const LOAD: &str = "on riscv64 sh -c 'echo started; while [ ! -e /tmp/over ]; do :; done'";

fn top(running: &Running, words: &[&str]) -> Motet {
    Motet::default().arguments(["top", "--run", &running.id().to_string()]).arguments(words)
}

/// Lines of JSON.
fn watched(running: &Running, words: &[&str]) -> Result<Vec<Value>, String> {
    let seen = top(running, &["--json"]).arguments(words).wait();
    let lines = seen.expect_code(0)?.output.lines();
    lines.map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))).collect()
}

fn fact(holds: bool, what: impl std::fmt::Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what:#?}")) }
}

/// Runs `steps` beside a machine that does this, and ends it.
fn beside(motet: Motet, steps: impl FnOnce(&mut Running) -> Result<(), String>) -> Result<(), String> {
    let mut running = motet.start();
    let outcome = await_line(&mut running, "started").and_then(|()| steps(&mut running));
    running.kill();
    ended(running, outcome).map(drop)
}

fn tables() -> Result<(), String> {
    beside(Motet::command(LOAD), |running| {
        let seen = top(running, &["--batch", "--interval", "2"]).wait();
        let text = &seen.expect_code(0)?.expect_errors(&[])?.output;
        let row = |begin: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| row.first() == Some(&begin))
        };
        let shows = |begin: &str, words: &[&str]| row(begin).is_some_and(|row| row[1..].starts_with(words));
        fact(text.starts_with(&format!("motet top: machine of process {}, 2.", running.id())), text)?;
        fact(shows("x86", &["x86_64", "runs"]) && shows("arm", &["aarch64", "runs", "0%"]), text)?;
        fact(shows("riscv", &["riscv64", "runs"]) && shows("arm.0", &["idle", "0%"]), text)?;
        // The load, on one of two cores.
        let busy = |row: Vec<&str>| row.get(2).and_then(|word| word.strip_suffix('%')?.parse::<u32>().ok());
        let cores = ["riscv.0", "riscv.1"].map(|core| row(core).and_then(busy).unwrap_or(0));
        fact(cores.iter().max() > Some(&80) && cores.iter().min() < Some(&20), text)?;
        let is_load = |line: &str| line.contains(" root R riscv64 riscv ") && line.ends_with(" sh");
        fact(text.lines().any(is_load), text)
    })
}

fn counted() -> Result<(), String> {
    let command = format!("{LOAD} & while [ ! -e /tmp/over ]; do on aarch64 true; done");
    beside(Motet::command(&command), |running| {
        let lines = watched(running, &["--count", "2", "--interval", "1.5"])?;
        fact(lines.len() == 2, &lines)?;
        for line in lines {
            let islands = line["islands"].as_array().ok_or("no islands")?;
            let counts = |index: usize, name: &str| islands[index]["counts"][name].as_u64().unwrap_or(0);
            fact(
                counts(0, "syscalls") > 10 && counts(0, "page_faults") > 10 && counts(0, "doorbells_rung") > 0,
                &line,
            )?;
            // `on` executes a program of another island's, which its threads go to.
            fact(counts(1, "arrivals") > 0, &line)?;
            fact((1.4..4.0).contains(&line["seconds"].as_f64().unwrap_or(0.0)), &line)?;
            fact(line["forks"].as_u64() > Some(0) && line["memory"][1].as_u64() < line["memory"][0].as_u64(), &line)?;
            fact(line["simulated"].is_null() && islands[0]["cores"][0]["caches"].is_null(), &line)?;
            let processes = line["processes"].as_array().ok_or("no processes")?;
            fact(
                processes.iter().any(|process| process["pid"] == 1 && process["resident"].as_u64() > Some(4096)),
                &line,
            )?;
            fact(processes.iter().any(|process| process["cpu"].as_f64() > Some(0.7)), &line)?;
        }
        Ok(())
    })
}

fn timed() -> Result<(), String> {
    let motet = Motet::run(["--timed", "--quiet", "--", "echo started; while :; do on riscv64 true; done"]);
    beside(motet, |running| {
        let line = watched(running, &["--interval", "3"])?.remove(0);
        let [at, passed] = [0, 1].map(|index| line["simulated"][index].as_f64().unwrap_or(0.0));
        fact(passed > 0.0 && at > passed, &line)?;
        let caches = &line["islands"][0]["cores"][0]["caches"];
        let count = |name: &str| caches[name].as_u64().unwrap_or(0);
        fact(count("instructions") > 10_000 && count("l1d_misses") > 10, &line)?;
        let busy = line["islands"][0]["cores"][0]["busy"].as_f64().unwrap_or(-1.0);
        fact((0.0..=1.0).contains(&busy), &line)?;
        let text = top(running, &["--batch"]).wait();
        fact(text.expect_code(0)?.output.contains("L1D MISS"), &text.output)
    })
}

fn several_kernels() -> Result<(), String> {
    let machine = root().join("machines/multikernel.toml");
    let motet =
        Motet::run(["--machine".as_ref(), machine.as_os_str()]).arguments(["--", "echo started; while :; do :; done"]);
    beside(motet, |running| {
        let line = watched(running, &[])?.remove(0);
        let islands = line["islands"].as_array().ok_or("no islands")?;
        fact(islands.len() > 1 && islands.iter().all(|island| island["state"] == "runs"), &line)?;
        fact(line["messages"]["task_migrate"].is_u64(), &line)
    })
}

fn on_a_terminal() -> Result<(), String> {
    beside(Motet::command(LOAD), |running| {
        let terminal = Terminal::open()?;
        let before = terminal.settings()?;
        let mut session = terminal.start(&top(running, &["--interval", "0.2"]))?;
        session.expect("motet top: machine of process")?;
        session.expect("ISLAND")?;
        session.type_bytes(b"?")?;
        // Spaces that are there already are not drawn again.
        session.expect("Ctrl-C")?;
        session.type_bytes(b"xp \t")?;
        session.expect("STOPPED")?;
        fact(session.settings()? != before, "it is not raw")?;
        session.type_bytes(b"q")?;
        // The other screen is left.
        session.await_end("\x1b[?1049l")?;
        fact(session.settings()? == before, "the terminal is not as it was")?;
        session.finish(0)?;
        fact(running.goes_on(), "the machine has ended")
    })
}

fn refused_and_ended() -> Result<(), String> {
    let own = std::process::id().to_string();
    for (words, status, why) in [
        (&["--batch", "--run", &own][..], 64, "runs no machine"),
        (&["--run", &own], 64, "--batch prints tables"),
        (&["--count", "2"], 64, "--count is for --batch or --json"),
        (&["--interval", "0"], 64, "0.1 to 3600"),
        (&["--batch", "--json"], 64, "cannot be used with"),
    ] {
        Motet::default().argument("top").arguments(words).wait().expect_code(status)?.expect_errors(&[why])?;
    }
    let mut running = Motet::command("echo started; read line; sleep 3").input("\n").start();
    await_line(&mut running, "started")?;
    let seen = top(&running, &["--json", "--count", "0", "--interval", "0.5"]).wait();
    running.wait().expect_code(0)?;
    fact(seen.output.lines().count() > 1, &seen.output)?;
    seen.expect_code(0)?.expect_errors(&["has ended"]).map(drop)
}

fn without_a_terminal() -> Result<(), String> {
    beside(Motet::command(LOAD), |running| {
        let status = hung_up(&top(running, &["--interval", "0.2"]), "ISLAND")?;
        fact(status.success() && running.goes_on(), status)
    })
}
