//! The time that guests read (docs/vms.md): it begins with their machine, and does not go back.

use std::{path::Path, time::Duration};

use motet_layout::Isa;

use crate::{
    guests::built,
    process::{Motet, root},
    trial::{Trial, trial},
    vm,
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, isa, machine: &'static str, back_us_max| {
        trial(&format!("vm_times::{name}"), move || begins(isa, machine, back_us_max))
    };
    vec![
        // Reading it traps.
        trial("a_guests_time_begins_with_its_machine_on_two_islands_of_riscv64", Isa::RiscV64, "two-riscv.toml", 0),
        // They read the core's counter.
        trial(
            "a_guests_time_begins_with_its_machine_on_an_island_of_riscv64",
            Isa::RiscV64,
            "default.toml",
            CLOCK_STEP_US,
        ),
        trial("a_guests_time_begins_with_its_machine_on_aarch64", Isa::AArch64, "guests.toml", CLOCK_STEP_US),
        crate::trial::trial("vm_times::a_timer_is_due_by_the_counter_that_the_guest_reads", due),
    ]
}

/// Where guests read the core's counter, and the island's clock is moved, one core learns of it before another; not by more than this, in
/// microseconds.
const CLOCK_STEP_US: u64 = 1000;

fn machine(name: &str, image: &Path, command: &str) -> Motet {
    let machine = root().join("machines").join(name);
    let motet = Motet::run(["--quiet".as_ref(), "--machine".as_ref(), machine.as_os_str(), "--in".as_ref()]);
    motet.argument(image).arguments(["--", command]).limit(Duration::from_secs(600))
}

/// The real machine has been there for two seconds when the virtual one is made.
fn begins(isa: Isa, name: &str, back_us_max: u64) -> Result<(), String> {
    const HUNDREDTH_US: u64 = 10_000;
    let command = "now() { awk '{ print int($1 * 100) }' /proc/uptime; }; sleep 2; before=$(now); \
        vm run --cpus 2 /in/guest-times >/tmp/out; echo $?; after=$(now); cat /tmp/out; echo took $((after - before))";
    let ended = machine(name, &built(isa, "times")?, command).wait();
    ended.expect_code(0)?;
    let number = |name: &str| {
        let found = ended.output.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        found.ok_or_else(|| ended.describe())
    };
    let [began, at_end, back] = [number("began")?, number("ended")?, number("back")?];
    // Uptimes are rounded down.
    let is_its_own = began < at_end && at_end <= (number("took")? + 1) * HUNDREDTH_US;
    let is_well = ended.output.starts_with("0\n") && ended.output.contains("passed 1\n");
    if is_well && is_its_own && back <= back_us_max { Ok(()) } else { Err(ended.describe()) }
}

/// Timers are the kernel's, and times are the counter's: when the one interrupts, the other has come there.
fn due() -> Result<(), String> {
    let command = "n=0; while [ $n -lt 20 ]; do vm run --append times /in/guest; n=$((n + 1)); done";
    let ended = machine("default.toml", &vm::guest(), command).wait();
    ended.expect_code(0)?;
    let waits = || ended.output.lines().filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok());
    // A millisecond.
    if waits().count() == 100 && waits().all(|ticks| ticks >= 10_000) { Ok(()) } else { Err(ended.describe()) }
}
