//! Where memory lies, what happens when it is full, and the shipped machines of published systems in simulated time.

use std::path::{Path, PathBuf};

use motet_layout::CORES_PER_ISLAND_MAX;

use crate::{
    process::{self, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 8] = [
        ("placement::islands_use_memory_near_to_them", near_first),
        ("placement::timed_islands_seldom_read_far_memory", near_reads),
        ("placement::fetches_come_from_where_the_machine_file_says", text),
        ("placement::what_crosses_a_link_is_never_an_old_copy", no_old_copies),
        ("placement::published_machines_run_in_simulated_time", published),
        ("placement::children_start_on_idle_islands_whose_caches_are_coherent", children),
        ("placement::threads_leave_busy_cores_for_idle_islands_whose_caches_are_coherent", shared),
        ("placement::a_full_pool_is_an_error_that_programs_survive", full_pool),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

pub fn shipped(name: &str) -> PathBuf {
    process::root().join("machines").join(format!("{name}.toml"))
}

fn run_on(machine: &Path, command: &str) -> Motet {
    Motet::run(["--machine".as_ref(), machine.as_os_str()]).arguments(["--", command])
}

/// A row of `/proc/motet`.
fn row(table: &str, name: &str) -> Result<Vec<u64>, String> {
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(name));
    let numbers = line.ok_or_else(|| format!("no {name} in {table}"))?.split_whitespace().skip(1);
    numbers.map(|word| word.parse().map_err(|_| format!("{name}: {word:?}"))).collect()
}

fn near_first() -> Result<(), String> {
    let work = "on aarch64 sort -r /proc/motet >/dev/null; cat /proc/motet";
    for (machine, near, neutral) in [("stramash-separated", true, false), ("stramash-shared", true, false)] {
        let ended = run_on(&shipped(machine), work).wait();
        let table = ended.output.clone();
        ended.expect_code(0)?;
        for island in 0..2 {
            let has = |name: &str| row(&table, name).map(|frames| frames[island] != 0);
            let found = (has("frames_near")?, has("frames_neutral")?, has("frames_far")?);
            if found != (near, neutral, false) {
                return Err(format!("{machine}, island {island}: {found:?} in\n{table}"));
            }
        }
    }
    Ok(())
}

/// A program that works on memory of its own, on the island that is not the host's: less than a tenth is far.
fn near_reads() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let stats = folder.path().join("stats.json");
    let machine = shipped("stramash-separated");
    let work = "on aarch64 sh -c 'seq 1 20000 | sort -r | sort | tail -1'";
    let motet = Motet::run(["--timed", "--stats"]).argument(&stats).argument("--machine").argument(&machine);
    motet.arguments(["--", work]).wait().expect_code(0)?.expect_output("9999\n")?;
    let text = std::fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let memory = &stats["cores"][1]["memory"];
    let [near, far] = ["near_reads", "far_reads"].map(|name| memory[name].as_u64().unwrap_or(0));
    if near > 10 * far { Ok(()) } else { Err(format!("{near} near reads, {far} far reads")) }
}

/// A shell's child, on two islands of one instruction set with a core each: the shell runs on the first. Over a link that is not coherent it
/// stays at home.
fn children() -> Result<(), String> {
    for (text, island) in two_riscv()?.into_iter().zip([1, 0]) {
        let ended = simulate(&text, "cut -d ' ' -f 39 /proc/self/stat; true")?;
        ended.expect_code(0)?.expect_output(&format!("{}\n", island * CORES_PER_ISLAND_MAX))?;
    }
    Ok(())
}

/// Two islands of one instruction set with a core each, and the same with a link that is not coherent.
fn two_riscv() -> Result<[String; 2], String> {
    let shipped = std::fs::read_to_string(shipped("two-riscv")).map_err(|error| error.to_string())?;
    let link = "[[model.range]]\nname = \"first\"\nend = \"256MiB\"\nnear = [\"rv0\"]\n\
        [[model.range]]\nname = \"second\"\nnear = [\"rv1\"]\n\
        [[model.access]]\nisland = \"rv1\"\nrange = \"first\"\ndata = \"uncached\"\n";
    Ok([shipped.clone(), shipped + link])
}

fn simulate(machine: &str, command: &str) -> Result<process::Ended, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("machine.toml");
    std::fs::write(&path, machine).map_err(|error| error.to_string())?;
    let motet = Motet::run(["--timed", "--deterministic", "--machine"]).argument(&path);
    Ok(motet.arguments(["--", command]).wait())
}

/// A shell's first child has the other island's core, and ends soon. The second one and the shell share a core until then: one of them goes, once,
/// and none over a link that is not coherent.
fn shared() -> Result<(), String> {
    let command = "busy() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); done; }; \
        moved() { while read name count; do [ $name = to_idle ] && echo $count; done </proc/self/migrations; }; \
        busy 500 & (busy 6000; moved) & busy 6000; moved; wait";
    let slow = "[[model.core]]\nfrequency_mhz = 50\ncpi = 1.0\nl1d = { size = \"32KiB\", ways = 8, cycles = 0 }\n\
        memory_cycles = 0\nremote_cycles = 0\n";
    for (text, moves) in two_riscv()?.into_iter().zip([1, 0]) {
        let ended = simulate(&(text + slow), command)?;
        ended.expect_code(0)?;
        let counts: Vec<u32> = ended.output.lines().filter_map(|line| line.parse().ok()).collect();
        if counts.len() != 2 || counts.iter().sum::<u32>() != moves {
            return Err(format!("not {moves}: {}", ended.describe()));
        }
    }
    Ok(())
}

/// On Flick's board, whose data accesses to the host's memory are not cached, far reads are instructions: its programs' text lies
/// there, and its kernel's does not, but may be told to take as long.
fn text() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let shipped = std::fs::read_to_string(shipped("flick")).map_err(|error| error.to_string())?;
    let board = |from: &str, to: &str| -> Result<[u64; 5], String> {
        let [machine, stats] = ["machine.toml", "stats.json"].map(|name| folder.path().join(name));
        std::fs::write(&machine, shipped.replace(from, to)).map_err(|error| error.to_string())?;
        let motet = Motet::run(["--timed", "--stats"]).argument(&stats).argument("--machine").argument(&machine);
        motet.arguments(["--", "on riscv64 sort -r /etc/passwd"]).wait().expect_code(0)?;
        let text = std::fs::read_to_string(&stats).map_err(|error| error.to_string())?;
        let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let memory = &stats["cores"][1]["memory"];
        let names = ["l1i_misses", "far_reads", "stall_far_ps", "near_reads", "stall_near_ps"];
        Ok(names.map(|name| memory[name].as_u64().unwrap_or(0)))
    };
    let key = "text = \"host-memory\"\n";
    if !shipped.contains(key) {
        return Err("the file does not say where text lies".into());
    }
    let [misses, far, far_ps, near, near_ps] = board(key, key)?;
    if far < 100 || far > misses || far_ps != far * 825_000 || near_ps != near * 267_000 {
        return Err(format!("{misses} fetches miss: {far} over the link in {far_ps} ps, {near} others in {near_ps}"));
    }
    let [_, far, ..] = board(key, "")?;
    if far != 0 {
        return Err(format!("{far} fetches over the link although text lies with the board"));
    }
    let [misses, far, _, near, near_ps] = board("fetch_ns = 267", "fetch_ns = 825")?;
    let kernel = (near_ps - near * 267_000) / 558_000;
    let all = near_ps == near * 267_000 + kernel * 558_000;
    if all && kernel >= 100 && far >= 100 && kernel + far == misses {
        return Ok(());
    }
    Err(format!("{misses} fetches miss: {far} over the link and {kernel} of the kernel ({near} reads in {near_ps} ps)"))
}

/// Commands on both sides of Flick's link: pipes, programs that start others there, forks, files written and read on either side, signals.
const ACROSS: &str = "\
echo a | on riscv64 cat | wc -c
on riscv64 seq 2000 | sort -r | on riscv64 head -n 1
on riscv64 sh -c 'seq 500 | sort -r | tail -n 1 | on x86_64 cat | cat; (true); on x86_64 uname -m | tr a-z A-Z'
on riscv64 sh -c 'seq 3000 > /tmp/board; on x86_64 wc -l < /tmp/board'; tail -n 1 /tmp/board; echo last >> /tmp/board
on riscv64 tail -n 1 /tmp/board; on riscv64 cp /tmp/board /tmp/copy; cmp /tmp/board /tmp/copy && on riscv64 rm /tmp/copy
seq 3000 > /tmp/host; on riscv64 sort -r /tmp/host | head -n 1; mkdir /tmp/d; on riscv64 touch /tmp/d/x; ls /tmp/d
on riscv64 sleep 100 & kill $!; wait $!; echo $?
on riscv64 sh -c 'trap \"echo caught; exit 3\" TERM; while :; do sleep 0.01; done' & sleep 0.1; kill $!; wait $!; echo $?
on riscv64 sh -c 'sleep 100 & on x86_64 kill $!; wait $!; echo $?'
for i in 1 2 3 4 5; do on riscv64 sh -c 'echo $0 | cat' $i | cat; done
";
const ACROSS_SAYS: &str = "2\n999\n1\nX86_64\n3000\n3000\nlast\n999\nx\n143\ncaught\n3\n143\n1\n2\n3\n4\n5\n";

fn no_old_copies() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let stats = folder.path().join("stats.json");
    let motet = Motet::run(["--timed", "--stats"]).argument(&stats).argument("--machine").argument(shipped("flick"));
    motet.arguments(["--", ACROSS]).wait().expect_code(0)?.expect_output(ACROSS_SAYS)?;
    let text = std::fs::read_to_string(&stats).map_err(|error| error.to_string())?;
    let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let count = |core: usize, name: &str| stats["cores"][core]["memory"][name].as_u64().unwrap_or(u64::MAX);
    if count(1, "flushed_lines") == 0 {
        return Err("the board has never had a line leave its cache".into());
    }
    match [0, 1].map(|core| count(core, "stale_reads")) {
        [0, 0] if stats["stale_read_addresses"].is_null() => Ok(()),
        counts => Err(format!("{counts:?} stale reads: {:#}", stats["stale_read_addresses"])),
    }
}

fn published() -> Result<(), String> {
    for (name, isas) in [
        ("stramash-fully-shared-32m", "aarch64\nx86_64\n"),
        ("flick", "riscv64\nx86_64\n"),
        ("ftm", "riscv64\n"),
        ("ftm-firmware", "riscv64\n"),
        ("embedded", "aarch64\n"),
        ("guests", "aarch64\nriscv64\n"),
    ] {
        let command = "cd /isa; for isa in *; do on $isa uname -m | on $isa cat; done";
        let motet = Motet::run(["--timed".as_ref(), "--machine".as_ref(), shipped(name).as_os_str()]);
        let ended = motet.arguments(["--", command]).wait();
        let checked = ended.expect_code(0).and_then(|ended| ended.expect_output(isas)).map(drop);
        checked.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn full_pool() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = folder.path().join("machine.toml");
    let text = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n\
                [[island]]\nname = \"b\"\nisa = \"aarch64\"\ncores = 1\n";
    std::fs::write(&machine, text).map_err(|error| error.to_string())?;
    let command = "dd if=/dev/zero of=/first bs=64k; echo $?; on aarch64 dd if=/dev/zero of=/second bs=64k; echo $?; \
                   on aarch64 head -c 300000 /first | wc -c; rm /first /second; echo room >/third; cat /third";
    let ended = run_on(&machine, command).wait();
    ended.expect_code(0)?.expect_output("1\n1\n300000\nroom\n")?.expect_errors(&["No space left on device"]).map(drop)
}
