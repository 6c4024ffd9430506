//! Machines whose islands have a kernel each (`docs/protocols/messages.md`).

use std::{fs, path::Path};

use motet_fabric::stats::{KernelStats, Stats};

use crate::{
    process::{Ended, Motet, root},
    restart::Machine,
    timed::stats_of,
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 9] = [
        ("multikernel::each_island_has_a_kernel_of_its_own", own_kernels),
        ("multikernel::small_rings_that_ring_seldom_do", small_rings),
        ("multikernel::timed_runs_are_equal_and_count_messages", equal_runs),
        ("multikernel::windows_are_near_or_far_as_the_memory_model_says", models),
        ("multikernel::time_passes_for_kernels_that_sleep", sleeping),
        ("multikernel::a_kernel_on_x86_64_cannot_read_anothers_memory", || strays("x86_64", "aarch64")),
        ("multikernel::a_kernel_on_aarch64_cannot_read_anothers_memory", || strays("aarch64", "riscv64")),
        ("multikernel::a_kernel_on_riscv64_cannot_read_anothers_memory", || strays("riscv64", "x86_64")),
        ("multikernel::what_one_kernel_does_for_all_islands_is_refused", refused),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Two kernels with small rings.
fn pair(first: &str, second: &str) -> Result<Machine, String> {
    let island = |isa: &str| format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 2\n");
    let messages = "[messages]\nslots = 2\nslot = \"8KiB\"\ncoalesce = true\n";
    Machine::with("os = \"multikernel\"\n", &format!("{messages}{}{}", island(first), island(second)))
}

fn on(machine: &Machine, options: &[&str], command: &str) -> Ended {
    let file = machine.0.path().join("machine.toml");
    Motet::run(["--machine".as_ref(), file.as_os_str()]).arguments(options).arguments(["--", command]).wait()
}

/// It sees its own cores and memory, and has heard of both others: to each a message, of each one. It has programs for no other core.
fn own_kernels() -> Result<(), String> {
    let count = "grep -E '^(island|isa|cores|kernels?|node_info|message)' /proc/motet | tr -s ' '";
    let command = format!("nproc; grep -c ^processor /proc/cpuinfo; {count}; on aarch64 true; echo $?");
    let file = root().join("machines/multikernel.toml");
    let ended = Motet::run(["--machine".as_ref(), file.as_os_str()]).arguments(["--", &command]).wait();
    let wanted = "1\n1\nisland 0\nisa x86_64\ncores 1\nkernel 0\nkernels 3\nmessage_bytes_sent 44\nmessage_bytes_taken 44\n\
        message_doorbells 2\nmessages_refused 0\nnode_info 4\nkernel_isa_0 x86_64\nkernel_isa_1 aarch64\nkernel_isa_2 riscv64\n126\n";
    let why = "/isa/aarch64/bin/true: Operation not supported";
    ended.expect_code(0)?.expect_output(wanted)?.expect_errors(&[why]).map(drop)
}

fn small_rings() -> Result<(), String> {
    let machine = pair("riscv64", "aarch64")?;
    let ended = on(&machine, &[], "nproc; cat /proc/motet | grep -E '^(kernels|node_info)' | tr -s ' '");
    ended.expect_code(0)?.expect_output("2\nkernels 2\nnode_info 2\n").map(drop)
}

/// A timed run of a machine file, and what was counted.
fn timed(folder: &Path, machine: &str, options: &[&str], command: &str) -> Result<(Ended, Stats, String), String> {
    let (file, path) = (root().join("machines").join(machine), folder.join("stats.json"));
    let ended = Motet::run(["--timed".as_ref(), "--machine".as_ref(), file.as_os_str()])
        .arguments(["--stats".as_ref(), path.as_os_str()])
        .arguments(options)
        .arguments(["--", command])
        .wait();
    ended.expect_code(0)?;
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Ok((ended, stats_of(&path)?, text))
}

/// Each message that was sent was taken, and those of this kind were so many for each kernel.
fn expect_messages(stats: &Stats, infos: u64) -> Result<(), String> {
    let kernels = &stats.kernels;
    let sum = |of: fn(&KernelStats) -> u64| kernels.iter().map(of).sum::<u64>();
    let each = |kernel: &KernelStats| {
        let info = kernel.messages.get("node_info").copied().unwrap_or_default();
        (info.sent, info.taken, kernel.refused) == (infos, infos, 0) && kernel.bytes_sent >= 22 * infos
    };
    let islands = stats.machine.islands.iter().map(|island| &island.name);
    let is_right = kernels.iter().map(|kernel| &kernel.island).eq(islands) && kernels.iter().all(each);
    let total = sum(|kernel| kernel.messages.values().map(|messages| messages.sent).sum());
    let taken = sum(|kernel| kernel.messages.values().map(|messages| messages.taken).sum());
    let bytes = (sum(|kernel| kernel.bytes_sent), sum(|kernel| kernel.bytes_taken));
    // Those for messages are among the doorbells between cores.
    let rung = stats.cores.iter().map(|core| core.ipis_sent).sum::<u64>();
    let doorbells = sum(|kernel| kernel.doorbells);
    if is_right && (total, total, bytes.0) == (taken, doorbells, bytes.1) && rung >= doorbells {
        return Ok(());
    }
    Err(format!("{rung} doorbells between cores; messages: {kernels:#?}"))
}

fn equal_runs() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [report, trace] = ["report", "trace.json"].map(|name| folder.path().join(name));
    let command = "grep -E '^(message_(bytes|door)|node_info)' /proc/motet | tr -s ' '; sleep 1";
    let paths = [&report, &trace].map(|path| path.to_string_lossy());
    let options = ["--deterministic", "--report", &paths[0], "--trace", &paths[1]];
    let run = || {
        let (ended, stats, text) = timed(folder.path(), "multikernel-shared.toml", &options, command)?;
        let events = fs::read_to_string(&trace).map_err(|error| error.to_string())?;
        Ok::<_, String>((ended, stats, text, events))
    };
    let ((first, stats, text, events), (second, _, again, events_again)) = (run()?, run()?);
    // What the kernel says itself is what is reported.
    first.expect_output("message_bytes_sent 22\nmessage_bytes_taken 22\nmessage_doorbells 1\nnode_info 2\n")?;
    first.expect_errors(&["messages", "x86 sent", "arm taken", "node_info"])?;
    if (&first.output, &text, &events) != (&second.output, &again, &events_again) {
        return Err(format!("two runs differ:\n{text}\n{again}\n{events}\n{events_again}"));
    }
    if !["rings arm.0", "rings x86.0"].iter().all(|ring| events.contains(ring)) {
        return Err(format!("the trace has not that each kernel rang the other one:\n{events}"));
    }
    if let [first, ..] = stats.disorders().as_slice() {
        return Err(first.clone());
    }
    expect_messages(&stats, 1)?;
    let page = fs::read_to_string(report.join("index.html")).map_err(|error| error.to_string())?;
    if page.contains("Messages between kernels") { Ok(()) } else { Err("the page has no messages".into()) }
}

/// Section 8.2 of Stramash's paper: each kernel's memory is near to it, and messages lie in memory that is far from both, from one, or from none.
fn models() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    for (model, far) in [("shared", [true, true]), ("separated", [false, true]), ("fully-shared", [false, false])] {
        let (_, stats, text) =
            timed(folder.path(), &format!("multikernel-{model}.toml"), &["--deterministic"], "true")?;
        expect_messages(&stats, 1)?;
        let reads = stats.cores.iter().map(|core| core.count("far_reads"));
        // A message takes some lines; a kernel that had memory far from it would read thousands.
        let is_right =
            reads.clone().zip(far).all(|(reads, far)| (far && (1..100).contains(&reads)) || (!far && reads == 0));
        if !is_right || stats.cores.iter().any(|core| core.count("near_reads") == 0 || core.count("stale_reads") != 0) {
            return Err(format!("{model}: far reads {:?}\n{text}", reads.collect::<Vec<_>>()));
        }
    }
    Ok(())
}

/// Three kernels, one of which has two cores, side by side: when all sleep, time goes on to the first one's alarm.
fn sleeping() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let command = "before=$(date +%s); sleep 3600; echo $(($(date +%s) - before))";
    let (ended, stats, _) = timed(folder.path(), "multikernel.toml", &[], command)?;
    if !["3600\n", "3601\n"].contains(&ended.output.as_str()) {
        return Err(format!("not an hour between two dates\n{}", ended.output));
    }
    expect_messages(&stats, 2)?;
    let slept = |core: &motet_fabric::stats::CoreStats| core.idle_ps > 3599 * 1_000_000_000_000;
    if stats.cores.len() == 4 && stats.cores.iter().all(slept) { Ok(()) } else { Err(format!("{:?}", stats.cores)) }
}

/// A kernel on `isa`, as the first and as the last of two.
fn strays(isa: &str, other: &str) -> Result<(), String> {
    stray(&pair(isa, other)?, isa, &["behind", "above"])?;
    stray(&pair(other, isa)?, isa, &["below", "device"])
}

fn stray(machine: &Machine, isa: &str, places: &[&str]) -> Result<(), String> {
    let file = machine.0.path().join("machine.toml");
    for place in places {
        let test = Motet::default().argument("conformance").arguments(["--machine".as_ref(), file.as_os_str()]);
        let ended = test.arguments(["--stray", place]).wait();
        ended.expect_code(70)?;
        let said = &ended.errors;
        if !said.contains("the pool's handle refuses the address: true") || said.contains("stray: found") {
            return Err(format!("--stray {place}: it has read memory that is not its own:\n{said}"));
        }
        let address = said.split("reading 0x").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("?");
        let failure = said.lines().find(|line| line.contains(&format!("island {isa} failed"))).unwrap_or("");
        if !failure.contains(address) {
            return Err(format!("--stray {place}: the fault does not name {address}:\n{said}"));
        }
    }
    Ok(())
}

fn refused() -> Result<(), String> {
    let machine = pair("x86_64", "aarch64")?;
    on(&machine, &["--survive"], "true").expect_code(64)?.expect_errors(&["none goes on without the others"])?;
    let file = machine.0.path().join("machine.toml");
    let suite = Motet::default().argument("conformance").arguments(["--machine".as_ref(), file.as_os_str()]).wait();
    suite.expect_code(64)?.expect_errors(&["the suite tests kernels that share a pool"])?;
    let fused = Motet::default().arguments(["conformance", "--stray", "above"]).wait();
    fused.expect_code(64)?.expect_errors(&["only a kernel that shares no memory can go astray"]).map(drop)
}
