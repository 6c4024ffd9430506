//! Accelerators of the FPGA in virtual machines (`docs/protocols/fpga.md`): guests that share regions with each other and with programs, that
//! are stopped for more urgent ones, killed at any moment, and store anything anywhere.

use std::{ffi::OsStr, fs, path::PathBuf, time::Duration};

use motet_layout::Isa;

use crate::{
    accel::FPGA,
    bad_input,
    crossing::compiled,
    guests::built,
    process::{Ended, Motet},
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 10] = [
        ("accel_guests::a_guest_uses_an_accelerator_as_if_it_had_it_alone", alone),
        ("accel_guests::transfers_end_at_a_guests_memory", outside),
        ("accel_guests::guests_and_a_program_share_regions", shared),
        ("accel_guests::registers_are_taken_from_who_is_stopped", stopped),
        ("accel_guests::guests_are_killed_at_any_moment_and_nobody_notices", killed),
        ("accel_guests::a_port_that_fails_is_an_exception_once", port),
        ("accel_guests::what_is_not_there_is_refused", refused),
        ("accel_guests::guests_of_aarch64_use_accelerators_at_any_address", alone_aarch64),
        ("accel_guests::guests_of_both_instruction_sets_share_regions", shared_by_both),
        ("accel_guests::a_port_that_fails_is_an_abort_once_on_aarch64", port_aarch64),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Two islands; the FPGA follows.
const MACHINE: &str = "[pool]
size = \"512MiB\"
[[island]]
name = \"one\"
isa = \"riscv64\"
cores = 2
[[island]]
name = \"two\"
isa = \"riscv64\"
cores = 1
[fpga]
";

/// One core.
const ONE: &str = "[pool]
size = \"512MiB\"
[[island]]
name = \"one\"
isa = \"riscv64\"
cores = 1
[fpga]
";

/// Islands of both instruction sets with guests.
const BOTH: &str = "[pool]
size = \"512MiB\"
[[island]]
name = \"one\"
isa = \"aarch64\"
cores = 2
guests = true
[[island]]
name = \"two\"
isa = \"riscv64\"
cores = 1
[fpga]
";

/// The guest `accelerated` of docs/guests.md.
pub fn guest(isa: Isa) -> Result<PathBuf, String> {
    built(isa, "accelerated")
}

/// The FPGA of these tests: the long transform's frames take as long as a test of many jobs can wait for.
pub fn fpga() -> String {
    FPGA.replace("frame_ns = 20000000", "frame_ns = 3000000")
}

/// Runs a command that has the guest and the program `accel` in `/in`.
pub fn run(keys: &str, options: &[&str], command: &str) -> Result<Ended, String> {
    run_on(&format!("{keys}{}", fpga()), options, command)
}

/// The same with another FPGA.
pub fn run_on(fpga: &str, options: &[&str], command: &str) -> Result<Ended, String> {
    let guest = guest(Isa::RiscV64)?;
    let files = ["--in".as_ref(), guest.as_os_str()];
    let options: Vec<&OsStr> = files.into_iter().chain(options.iter().map(AsRef::as_ref)).collect();
    run_machine(&format!("{MACHINE}{fpga}"), &options, command)
}

/// On a machine with one core.
pub fn run_on_one(options: &[&str], command: &str) -> Result<Ended, String> {
    let guest = guest(Isa::RiscV64)?;
    let files = ["--in".as_ref(), guest.as_os_str()];
    let options: Vec<&OsStr> = files.into_iter().chain(options.iter().map(AsRef::as_ref)).collect();
    run_machine(&format!("{ONE}{}", fpga()), &options, command)
}

/// On a machine of both, with AArch64's guest in `/in/arm`, too.
pub fn run_on_both(keys: &str, command: &str) -> Result<Ended, String> {
    let (guest, folder) = (guest(Isa::RiscV64)?, tempfile::tempdir().map_err(|error| error.to_string())?);
    let arm = folder.path().join("arm");
    fs::copy(self::guest(Isa::AArch64)?, &arm).map_err(|error| error.to_string())?;
    let options = ["--in".as_ref(), guest.as_os_str(), "--in".as_ref(), arm.as_os_str()];
    run_machine(&format!("{BOTH}{keys}{}", fpga()), &options, command)
}

fn run_machine(text: &str, options: &[&OsStr], command: &str) -> Result<Ended, String> {
    let programs = compiled("accel", &["-O2"])?;
    let machine = programs.path.join("machine.toml");
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    let program = programs.path.join("accel");
    let run =
        Motet::run(["--machine".as_ref(), machine.as_os_str()]).argument("--in").argument(program).arguments(options);
    Ok(run.arguments(["--quiet", "--", command]).limit(Duration::from_secs(900)).wait())
}

fn alone() -> Result<(), String> {
    let command = "for name in qam16 fft512 fft1024; do vm run --accel qam16 --accel fft512 --accel fft1024 --append \
                   \"function=$name rounds=3 pause_ticks=2\" /in/guest-accelerated; done";
    let right = ["qam16", "fft512", "fft1024"];
    let right = right.map(|name| format!("{name}: 3 jobs, connected in 1, stopped in 0\npassed 3\n"));
    // Nobody else has wanted the region meanwhile.
    run("", &[], command)?.expect_code(0)?.expect_output(&right.concat()).map(drop)
}

fn outside() -> Result<(), String> {
    let command = "for name in qam16 fft512; do vm run --accel $name --append part=outside /in/guest-accelerated; done";
    for options in [&[][..], &["--timed"]] {
        run("", options, command)?.expect_code(0)?.expect_output("passed 4\npassed 4\n")?;
    }
    Ok(())
}

/// On both islands at once.
fn shared() -> Result<(), String> {
    let command = "vm run --accel fft512 --append 'rounds=8 frames=2' /in/guest-accelerated >/tmp/1 & \
                   vm run --accel fft1024 --append 'rounds=20 seed=2' /in/guest-accelerated >/tmp/2 & \
                   vm run --accel qam16 --append 'rounds=100' /in/guest-accelerated >/tmp/3 & \
                   /in/accel qam >/tmp/4 & vm run --accel qam16 --accel fft512 --append 'part=hostile rounds=2000' \
                   /in/guest-accelerated >/tmp/5 & wait; tail -qn 1 /tmp/1 /tmp/2 /tmp/3 /tmp/4 /tmp/5";
    let right = "passed 8\npassed 20\npassed 100\nright\npassed 2000\n";
    for options in [&[][..], &["--timed"]] {
        run("", options, command)?.expect_code(0)?.expect_output(right)?;
    }
    Ok(())
}

/// A region for two guests of different urgency: in deterministic runs they meet in the same way each time.
fn stopped() -> Result<(), String> {
    let command = "vm run --nice 10 --accel fft512 --append 'rounds=6 frames=8' /in/guest-accelerated & usleep 20000; \
                   vm run --nice -20 --accel fft1024 --append 'rounds=8 pause_ticks=5' /in/guest-accelerated & wait";
    let both = || run("", &["--timed", "--deterministic"], command);
    let first = both()?;
    let lines = first.expect_code(0)?.output.lines();
    let counts = |name: &str| -> Option<Vec<u32>> {
        let line = lines.clone().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().filter_map(|word| word.trim_end_matches(',').parse().ok()).collect())
    };
    // The modest one goes on by itself where it was stopped; the urgent one has to ask again when that has begun to compute.
    let is_right = matches!(counts("fft512: ").as_deref(), Some([6, _, 1..=6]))
        && matches!(counts("fft1024: ").as_deref(), Some([8, 2..=8, 0]));
    if !is_right {
        return Err(first.describe());
    }
    if both()?.output == first.output { Ok(()) } else { Err("two runs differ".into()) }
}

/// Guests that hold, wait for, and store anything to a region; afterwards there is nothing to be noticed of them.
fn killed() -> Result<(), String> {
    let command = format!(
        "n=0; while [ $n -lt 40 ]; do \
         vm run --nice $((n % 20)) --accel fft512 --append 'rounds=100000 frames=8' /in/guest-accelerated >/dev/null & one=$!; \
         vm run --nice -20 --accel fft1024 --append \"rounds=1000000 part=hostile seed=$((n + {}))\" \
         /in/guest-accelerated >/dev/null & two=$!; \
         vm run --accel qam16 --append 'part=memory rounds=1000000 frames=2' /in/guest-accelerated >/dev/null & three=$!; \
         usleep $((n * 2000)); kill -KILL $one; usleep $((n * 500)); kill -KILL $two $three; wait $one; wait $two; wait $three; \
         n=$((n + {})); done 2>/dev/null; vm list | wc -l; /in/accel killed; \
         vm run --accel fft512 --append 'rounds=2 frames=8' /in/guest-accelerated | tail -n 1; \
         vm run --accel fft1024 --append 'rounds=2' /in/guest-accelerated | tail -n 1",
        bad_input::seed() % 1_000_000_000,
        of_long(3, 1)
    );
    run("", &[], &command)?.expect_code(0)?.expect_output("1\nright\npassed 2\npassed 2\n").map(drop)
}

/// The configuration port fails once: the store that waits is a store where nothing is.
fn port() -> Result<(), String> {
    let command = "vm run --accel qam16 /in/guest-accelerated; echo $?; vm run --accel qam16 /in/guest-accelerated";
    let ended = run("port_faults = 1\n", &[], command)?;
    let lines: Vec<&str> = ended.expect_code(0)?.output.lines().collect();
    // Cause 7: store/AMO access fault.
    let has_failed = lines.first().is_some_and(|line| line.starts_with("failed: an exception: cause 0x7, "));
    if has_failed && lines[1] == "1" && lines.last() == Some(&"passed 4") { Ok(()) } else { Err(ended.describe()) }
}

fn refused() -> Result<(), String> {
    let ended =
        run("", &[], "vm run --accel sha256 /in/guest-accelerated; echo $?; vm run --accel none /in/none; echo $?")?;
    let errors =
        ["vm: this machine has no accelerator sha256\n", "vm: --accel needs a value that it takes (vm --help)\n"];
    let is_right = ended.output == "1\n64\n" && ended.errors == errors.concat();
    if is_right { Ok(()) } else { Err(ended.describe()) }
}

/// Stores to registers that are read-only are permission faults, whose physical address is what the guest's own tables say, if it has some.
fn alone_aarch64() -> Result<(), String> {
    // A region that is the accelerator already may be connected before it is asked for.
    let command = "for name in qam16 fft512; do vm run --accel qam16 --accel fft512 --append \
                   \"function=$name rounds=3 pause_ticks=2\" /in/arm; vm run --accel fft512 --accel $name --append \
                   \"function=$name translated=1 rounds=3 pause_ticks=2\" /in/arm | sed 's/connected in 0/connected in 1/'; \
                   vm run --accel $name --append 'part=outside translated=1' /in/arm; done";
    let right = |name| format!("{name}: 3 jobs, connected in 1, stopped in 0\npassed 3\n");
    let right = ["qam16", "fft512"].map(|name| right(name).repeat(2) + "passed 4\n");
    run_on_both("", command)?.expect_code(0)?.expect_output(&right.concat()).map(drop)
}

/// Registers are taken from guests of either, and from the program; some are killed, others store anything anywhere.
fn shared_by_both() -> Result<(), String> {
    let command = format!(
        "vm run --accel fft512 --append 'rounds=8 frames=2 translated=1' /in/arm >/tmp/1 & \
         vm run --accel fft1024 --append 'rounds=20 seed=2' /in/guest-accelerated >/tmp/2 & \
         vm run --accel qam16 --append 'rounds=100' /in/arm >/tmp/3 & /in/accel qam >/tmp/4 & \
         vm run --accel qam16 --accel fft512 --append 'part=hostile rounds=2000 seed={seed}' /in/arm >/tmp/5 & wait; \
         tail -qn 1 /tmp/1 /tmp/2 /tmp/3 /tmp/4 /tmp/5; \
         n=0; while [ $n -lt 20 ]; do \
         vm run --nice $n --accel fft512 --append 'rounds=100000 frames=8' /in/arm >/dev/null & one=$!; \
         vm run --nice -20 --accel fft1024 --append \"rounds=1000000 part=hostile seed=$((n + {seed}))\" \
         /in/arm >/dev/null & two=$!; \
         usleep $((n * 4000)); kill -KILL $one; usleep $((n * 1000)); kill -KILL $two; wait $one; wait $two; \
         n=$((n + 1)); done 2>/dev/null; vm list | wc -l; /in/accel killed; \
         vm run --accel fft512 --append 'rounds=2 frames=8' /in/arm | tail -n 1",
        seed = bad_input::seed() % 1_000_000_000
    );
    let right = "passed 8\npassed 20\npassed 100\nright\npassed 2000\n1\nright\npassed 2\n";
    run_on_both("", &command)?.expect_code(0)?.expect_output(right).map(drop)
}

/// As on RISC-V. ESR_EL1: a data abort in EL1, external, of a store.
fn port_aarch64() -> Result<(), String> {
    let ended = run_on_both("port_faults = 1\n", "for n in 1 2; do vm run --accel qam16 /in/arm; done")?;
    let lines: Vec<&str> = ended.expect_code(0)?.output.lines().collect();
    let has_failed = lines.first().is_some_and(|line| line.starts_with("failed: an exception: cause 0x96000050, "));
    if has_failed && lines.last() == Some(&"passed 4") { Ok(()) } else { Err(ended.describe()) }
}
