//! Machines whose islands have a kernel each (`docs/protocols/messages.md`).

use crate::{
    process::{Ended, Motet, root},
    restart::Machine,
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("multikernel::each_island_has_a_kernel_of_its_own", own_kernels),
        ("multikernel::small_rings_that_ring_seldom_do", small_rings),
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
        message_doorbells 2\nmessages_refused 0\nnode_info 4\n126\n";
    let why = "/isa/aarch64/bin/true: Operation not supported";
    ended.expect_code(0)?.expect_output(wanted)?.expect_errors(&[why]).map(drop)
}

fn small_rings() -> Result<(), String> {
    let machine = pair("riscv64", "aarch64")?;
    let ended = on(&machine, &[], "nproc; cat /proc/motet | grep -E '^(kernels|node_info)' | tr -s ' '");
    ended.expect_code(0)?.expect_output("2\nkernels 2\nnode_info 2\n").map(drop)
}

/// A kernel on `isa`, as the first and as the last of two.
fn strays(isa: &str, other: &str) -> Result<(), String> {
    stray(&pair(isa, other)?, isa, &["behind", "above"])?;
    stray(&pair(other, isa)?, isa, &["below", "device"])
}

fn stray(machine: &Machine, isa: &str, places: &[&str]) -> Result<(), String> {
    let file = machine.0.path().join("machine.toml");
    for place in places {
        let test = Motet::default().argument("test").arguments(["--machine".as_ref(), file.as_os_str()]);
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
    for (option, why) in [("--timed", "their time is not simulated"), ("--survive", "none goes on without the others")]
    {
        on(&machine, &[option], "true").expect_code(64)?.expect_errors(&[why])?;
    }
    let file = machine.0.path().join("machine.toml");
    let suite = Motet::default().argument("test").arguments(["--machine".as_ref(), file.as_os_str()]).wait();
    suite.expect_code(64)?.expect_errors(&["the suite tests kernels that share a pool"])?;
    let fused = Motet::default().arguments(["test", "--stray", "above"]).wait();
    fused.expect_code(64)?.expect_errors(&["only a kernel that shares no memory can go astray"]).map(drop)
}
