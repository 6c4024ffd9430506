//! `motet vm console`: consoles of virtual machines from other terminals of the host (docs/vms.md).

use std::{fs, path::Path, time::Duration};

use motet_layout::Isa;

use crate::{
    command_line::Terminal,
    guests::built,
    process::{Motet, Running, root},
    trial::{Trial, trial},
    vm::guest,
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("vm_console::a_terminal_comes_and_goes_on_riscv64", || typed(Isa::RiscV64, "two-riscv.toml")),
        ("vm_console::a_terminal_comes_and_goes_on_aarch64", || typed(Isa::AArch64, "guests.toml")),
        ("vm_console::what_was_written_last_comes_first", history),
        ("vm_console::who_is_there_at_the_end_has_seen_everything", ends),
        ("vm_console::what_is_wrong_is_refused", refused),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);

fn console(run: &Running, more: &[&str]) -> Motet {
    let run = run.id().to_string();
    Motet::default().arguments(["vm", "console", "--run", &run]).arguments(more).limit(LIMIT)
}

/// A machine with one guest.
fn machine(name: &str, image: &Path, append: &str) -> Motet {
    let path = root().join("machines").join(name);
    let options = ["--append", append, "--machine"];
    let motet = Motet::default().arguments(["vm", "run", "--quiet"]).arguments(options).argument(path);
    motet.argument("--general").argument(image).limit(LIMIT)
}

fn until_output(running: &mut Running, text: &str) -> Result<(), String> {
    let is_there = running.until(|running| running.output.so_far().contains(text));
    if is_there { Ok(()) } else { Err(format!("no {text:?}: {}", running.output.so_far())) }
}

/// One at a time has the console: who has it types, others are refused, who leaves it lets the machine go on.
fn typed(isa: Isa, name: &str) -> Result<(), String> {
    let mut running = machine(name, &built(isa, "serial")?, "lines=3").start();
    until_output(&mut running, "serial: ready\n")?;
    let mut session = Terminal::open()?.start(&console(&running, &["1"]))?;
    session.expect("Ctrl-] leaves it")?;
    session.expect("serial: ready\n")?;
    session.type_bytes(b"one\n")?;
    session.expect("ONE\n")?;
    let wrong = "somebody else uses the console of virtual machine 1";
    console(&running, &["1"]).wait().expect_code(64)?.expect_errors(&[wrong])?;
    session.type_bytes(b"tw\x1d")?;
    session.finish(0)?;
    // Who is killed has left.
    let mut killed = console(&running, &[]).start();
    if !killed.until(|killed| killed.output.so_far().contains("ONE\n")) {
        return Err(killed.wait().describe());
    }
    killed.kill();
    drop(killed.wait());
    let last = loop {
        let last = console(&running, &["1"]).input("o\nthree\n").wait();
        if !last.errors.contains(wrong) {
            break last;
        }
    };
    last.expect_code(0)?.expect_errors(&["it ends with the virtual machine", "virtual machine 1 has ended"])?;
    let ended = running.wait();
    ended.expect_code(0)?;
    let is_whole = ended.output.starts_with("serial: ready\nONE\nTWO\nTHREE\nserial 3 14 ");
    if is_whole && last.output == ended.output { Ok(()) } else { Err(ended.describe() + &last.describe()) }
}

/// Lines of a hundred bytes come by standard input: who comes later gets the last ones, whole.
fn history() -> Result<(), String> {
    const LINES: usize = 300;
    let line = |number: usize| format!("{number:04}{}\n", "x".repeat(95));
    let typed: String = (1..LINES).map(line).collect();
    let append = format!("lines={LINES}");
    let mut running = machine("two-riscv.toml", &built(Isa::RiscV64, "serial")?, &append).input(typed).start();
    until_output(&mut running, &line(LINES - 1).to_uppercase())?;
    let ended = console(&running, &[]).input(line(LINES)).wait();
    ended.expect_code(0)?;
    running.wait().expect_code(0)?;
    let shown: Vec<_> = ended.output.lines().filter(|line| line.ends_with('X')).collect();
    let wanted: Vec<_> = (LINES + 1 - shown.len()..=LINES).map(|number| line(number).to_uppercase()).collect();
    let are_whole = shown.iter().zip(&wanted).all(|(shown, wanted)| *shown == wanted.trim_end());
    let is_first = ended.output.starts_with(wanted.first().map_or("?", String::as_str));
    let is_well = are_whole && is_first && (30..=42).contains(&shown.len()) && ended.output.ends_with("passed 1\n");
    if is_well { Ok(()) } else { Err(ended.describe()) }
}

/// Machines come and go, and so do those who look: nobody misses what was written last, and nothing of a machine stays.
fn ends() -> Result<(), String> {
    const MACHINES: usize = 40;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    fs::copy(guest(), folder.path().join("guest")).map_err(|error| error.to_string())?;
    let machine = root().join("machines/two-riscv.toml");
    let name = folder.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let command = format!(
        "left() {{ awk '/^(MemFree|Slab)/ {{ kib += $2 }} END {{ print kib }}' /proc/meminfo; }}; runs() {{ n=0; while [ $n -lt $1 ]; do \
         vm run --append 'ticks 100' /in/{name}/guest >/dev/null; n=$((n + 1)); done; }}; \
         runs 5; before=$(left); runs {MACHINES}; vm list | wc -l; n=0; \
         until after=$(left); [ $((before - after)) -lt 512 ] || [ $n -gt 600 ]; do usleep 100000; n=$((n + 1)); done; \
         [ $((before - after)) -lt 512 ] || echo \"$before $after\""
    );
    let options = ["--quiet".as_ref(), "--machine".as_ref(), machine.as_os_str(), "--in".as_ref()];
    let mut running = Motet::run(options).argument(folder.path()).arguments(["--", &command]).limit(LIMIT).start();
    let mut seen = 0;
    while running.goes_on() {
        let ended = console(&running, &[]).wait();
        match ended.status.and_then(|status| status.code()) {
            Some(0) if ended.output.ends_with("tick 99\n") => seen += 1,
            // The machine itself has ended.
            Some(0) if !running.goes_on() => {}
            Some(64 | 69) => {}
            _ => return Err(ended.describe()),
        }
    }
    running.wait().expect_code(0)?.expect_output("1\n")?;
    if seen > 5 { Ok(()) } else { Err(format!("{seen} ends of {MACHINES} were seen")) }
}

fn refused() -> Result<(), String> {
    let mut running = machine("two-riscv.toml", &built(Isa::RiscV64, "serial")?, "lines=1").start();
    until_output(&mut running, "serial: ready\n")?;
    for (words, status, why) in [
        (&["99"][..], 64, "there is no virtual machine 99"),
        (&["one"], 64, "invalid value 'one'"),
        (&["-1"], 64, "unexpected argument"),
        (&["1", "2"], 64, "unexpected argument"),
    ] {
        console(&running, words).wait().expect_code(status)?.expect_errors(&[why])?;
    }
    // Not the process of a run.
    let process = std::process::id().to_string();
    let nobody = Motet::default().arguments(["vm", "console", "--run", &process]).wait();
    nobody.expect_code(69)?.expect_errors(&["does not answer"])?;
    console(&running, &[]).input("end\n").wait().expect_code(0)?;
    running.wait().expect_code(0).map(drop)
}
