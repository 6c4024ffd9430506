//! Virtual machines (`docs/vms.md`): what a guest finds, guests that do anything at all, machines that are killed at any moment, images that are
//! damaged, and who may do what.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use motet_layout::Isa;

use crate::{
    bad_input,
    crossing::compiled,
    firmware,
    process::{self, Ended, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 13] = [
        ("vm::a_guest_finds_what_a_machine_has", all),
        ("vm::exit_status_says_whether_the_guest_is_well", status),
        ("vm::what_is_typed_reaches_the_guest", echo),
        ("vm::machines_run_beside_each_other", beside),
        ("vm::floating_point_registers_are_kept_apart_on_a_core", floats),
        ("vm::a_guest_that_executes_anything_ends_alone", random),
        ("vm::a_machine_that_is_killed_gives_its_memory_back", killed),
        ("vm::damaged_images_are_refused_with_a_reason", damaged),
        ("vm::what_is_wrong_is_refused", refused),
        ("vm::cores_without_guests_say_so", absent),
        ("vm::the_host_runs_images_beside_each_other", from_host),
        ("vm::a_guests_time_is_the_simulated_one", timed),
        ("vm::debians_kernel_runs_programs_on_two_cores", linux),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A shell function that prints the sum of all virtual machines' counts in a column of `/proc/vms`.
pub const COUNTED: &str = "counted() { awk -v name=$1 'NR == 1 { while ($++at != name); } NR > 1 { sum += $at } END { print sum + 0 }' /proc/vms; }; ";

/// The guest (`user/guest`).
pub fn guest() -> PathBuf {
    process::target().join("riscv64imac-unknown-none-elf/release/guest")
}

/// A run of a machine of two RISC-V islands, with a file to be found in `/in`.
fn machine(file: &Path, command: &str) -> Motet {
    machine_with(file, &["--quiet"], command)
}

fn machine_with(file: &Path, options: &[&str], command: &str) -> Motet {
    let machine = process::root().join("machines/two-riscv.toml");
    Motet::run(["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), file.as_os_str()])
        .arguments(options)
        .arguments(["--", command])
}

fn run(command: &str) -> Ended {
    machine(&guest(), command).wait()
}

fn expect(is_right: bool, ended: &Ended) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(ended.describe()) }
}

fn all() -> Result<(), String> {
    let ended = run("vm run --cpus 3 --append all /in/guest && vm run --append hello /in/guest");
    ended.expect_code(0)?;
    let lines: Vec<_> = ended.output.lines().collect();
    let is_well = lines.ends_with(&["3 cores", "hello from a guest"]) && lines.contains(&"a serial port");
    let is_right = |line: &&&str| line.ends_with(": yes");
    expect(is_well && !ended.output.contains("NO") && lines.iter().filter(is_right).count() >= 16, &ended)
}

fn status() -> Result<(), String> {
    let ended = run("vm run --append fail /in/guest; echo $?; vm run --append hello /in/guest; echo $?");
    ended.expect_code(0)?.expect_output("1\nhello from a guest\n0\n").map(drop)
}

fn echo() -> Result<(), String> {
    let ended = run("printf 'one\\ntwo\\n\\n' | vm run --append echo /in/guest");
    ended.expect_code(0)?.expect_output("type\n<one>\n<two>\n").map(drop)
}

/// Two machines on each island, and a program that computes.
fn beside() -> Result<(), String> {
    let ended =
        run("for n in 1 2 3 4; do vm run --cpus 2 --append 'ticks 50' /in/guest >/tmp/$n & pids=\"$pids $!\"; done; \
         vm list | tail -n +2 | wc -l >/tmp/listed; for pid in $pids; do wait $pid || echo failed; done; \
         for n in 1 2 3 4; do tail -n 1 /tmp/$n; done; vm list | wc -l");
    ended.expect_code(0)?.expect_output("tick 49\ntick 49\ntick 49\ntick 49\n1\n").map(drop)
}

/// Three guests, each of which adds up while it is interrupted, and a program, on one core.
fn floats() -> Result<(), String> {
    let machine = process::root().join("machines/ker-one.toml");
    let guest = guest();
    let command = "for n in 1 2 3; do vm run --append all /in/guest >/tmp/$n & pids=\"$pids $!\"; done; \
        awk 'BEGIN { for (i = 0; i < 9000; i++) s += i / 8; print s }'; \
        for pid in $pids; do wait $pid || echo failed; done; cat /tmp/1 /tmp/2 /tmp/3 | grep -c '^1 cores$'";
    let run = Motet::run(["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), guest.as_os_str()]);
    let ended = run.arguments(["--quiet", "--", command]).limit(Duration::from_secs(900)).wait();
    ended.expect_code(0)?.expect_output("5.06194e+06\n3\n").map(drop)
}

/// Frames that are in use, as the machine counts them, when nothing runs.
const FREE: &str = "free() { awk '/MemFree/ { print $2 }' /proc/meminfo; }; ";
/// Memory that may be in use afterwards: slabs that have grown, in KiB. It may be more once (of seven times the same 30 guests, free memory went up and
/// down by 600 KiB, without a trend); what a second time as much is lost, is a leak.
const SLACK_KIB: u32 = 512;

fn random() -> Result<(), String> {
    let seed = bad_input::seed();
    const GUESTS: u64 = 30;
    let first = seed % 1_000_000_000;
    // Caches and slabs have grown when the first ones are over.
    let command = format!(
        "{FREE} guests() {{ n=0; while [ $n -lt {GUESTS} ]; do timeout -s KILL 4 vm run --cpus 2 \
         --append \"random $(({first} + $1 + n))\" /in/guest >/tmp/out 2>&1 </dev/null; n=$((n + 1)); done; }}; \
         vm run --append hello /in/guest; guests 0; before=$(free); guests {GUESTS}; after=$(free); \
         vm run --append all /in/guest | tail -n 1; vm list | wc -l; \
         [ $((before - after)) -lt {SLACK_KIB} ] || {{ guests {GUESTS}; again=$(free); \
         [ $((after - again)) -lt {SLACK_KIB} ] || echo \"$before $after $again\"; }}"
    );
    let ended = machine(&guest(), &command).limit(Duration::from_secs(1350)).wait();
    let context = |error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE);
    ended.expect_code(0).map_err(context)?.expect_output("hello from a guest\n1 cores\n1\n").map_err(context).map(drop)
}

/// At any moment: the time until then grows by little each time. What is lost a second time is a leak.
fn killed() -> Result<(), String> {
    let command = format!(
        "{FREE} kills() {{ n=0; while [ $n -lt $1 ]; do vm run --cpus 2 --memory 64 --append 'touch 48' /in/guest >/dev/null & \
         vm=$!; usleep $((n * 3000)); kill -KILL $vm; wait $vm; n=$((n + 1)); done 2>/dev/null; }}; \
         vm run --cpus 2 --memory 64 --append 'touch 48' /in/guest >/dev/null || echo failed; \
         kills 20; before=$(free); kills 60; after=$(free); vm list | wc -l; vm run --append hello /in/guest; \
         [ $((before - after)) -lt {SLACK_KIB} ] || {{ kills 60; again=$(free); \
         [ $((after - again)) -lt {SLACK_KIB} ] || echo \"$before $after $again\"; }}"
    );
    let ended = machine(&guest(), &command).limit(Duration::from_secs(900)).wait();
    ended.expect_code(0)?.expect_output("1\nhello from a guest\n").map(drop)
}

/// Images of RISC-V.
fn damaged() -> Result<(), String> {
    damaged_images(&guest(), 100, "hello", machine)
}

/// So many copies of an image, headers with random bytes: each is run with a command line, or refused with a sentence and status 1. One that runs
/// may find that its data are wrong, and say so. `machine`: one that has a folder in `/in` and runs a command.
pub fn damaged_images(
    image: &Path,
    count: usize,
    append: &str,
    machine: impl Fn(&Path, &str) -> Motet,
) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let image = fs::read(image).map_err(|error| error.to_string())?;
    let mut random = fastrand::Rng::with_seed(bad_input::seed());
    for number in 0..count {
        let mut copy = image.clone();
        let headers = 0..bad_input::headers_len(&image);
        for _ in 0..random.usize(1..=3) {
            bad_input::mutate(&mut random, &mut copy, headers.clone());
        }
        if random.u8(0..4) == 0 {
            copy.truncate(random.usize(0..4096));
        }
        fs::write(folder.path().join(number.to_string()), copy).map_err(|error| error.to_string())?;
    }
    let name = folder.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let command = format!(
        "n=0; while [ $n -lt {count} ]; do timeout -s KILL 2 vm run --append '{append}' /in/{name}/$n >/tmp/out 2>/tmp/errors; \
         status=$?; n=$((n + 1)); case $status in 0|137) continue;; 1) grep -q '^vm: ' /tmp/errors && echo refused && continue; grep -Eq 'exception |no try ' /tmp/out && continue;; esac; \
         echo \"$n $status\" >&2; cat /tmp/errors >&2; done"
    );
    let ended = machine(folder.path(), &command).limit(Duration::from_secs(1200)).wait();
    let refused = ended.output.lines().count();
    let is_well = ended.errors.is_empty() && refused > count / 4;
    expect(is_well, &ended).map_err(|error| format!("{}={}: {error}", bad_input::SEED_VARIABLE, bad_input::seed()))
}

/// Memory that cannot be a machine's, cores that are not there, and what a signal interrupts.
fn refused() -> Result<(), String> {
    let machine = process::root().join("machines/guests.toml");
    ["on riscv64", "on aarch64"].into_iter().try_for_each(|cores| {
        let ended = compiled("vms", &["-O2"])?.run_as(cores, "vms", Some(&machine));
        ended.expect_code(0)?.expect_output("right\n").map(drop)
    })
}

/// Not even their program is there.
fn absent() -> Result<(), String> {
    let ended = Motet::command("on x86_64 sh -c 'exec 3<>/dev/vm'; vm run /nowhere; echo $?").wait();
    let is_well = ended.output == "1\n" && ended.errors.contains("/dev/vm") && ended.errors.contains("vm: /nowhere: ");
    expect(is_well, &ended)
}

fn from_host() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for copy in [&first, &second] {
        fs::copy(guest(), copy).map_err(|error| error.to_string())?;
    }
    let images = ["--rtos".as_ref(), first.as_os_str(), "--general".as_ref(), second.as_os_str()];
    let ended = Motet::default().arguments(["vm", "run", "--quiet", "--append", "hello"]).arguments(images).wait();
    ended.expect_code(0)?;
    let mut lines: Vec<_> = ended.output.lines().collect();
    lines.sort_unstable();
    expect(lines == ["first: hello from a guest", "second: hello from a guest"], &ended)?;
    let one = ["--general".as_ref(), second.as_os_str()];
    let ended = Motet::default().arguments(["vm", "run", "--quiet", "--append", "fail"]).arguments(one).wait();
    ended.expect_code(1).map(drop)
}

/// What starts the other programs of the ram disk: a load of both cores, an echo of what is typed, and whether the console has interrupted: once or
/// more to send the first line, and again when something is typed after that.
pub const INIT: &str = "#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\n\
    for n in 1 2 3 4; do (/bin/busybox sha256sum /bin/busybox > /dev/null) & done; wait\n\
    echo \"program: $(/bin/busybox grep -c ^processor /proc/cpuinfo) cores\"\n\
    while read line && [ \"$line\" != end ]; do echo \"<$line>\"; done\n\
    /bin/busybox awk '/ttyS0/ { print \"console: interrupts\", ($2 + $3 > 1) }' /proc/interrupts\n/bin/busybox sleep 1\n/bin/busybox poweroff -f\n";

/// Debian's kernel starts two cores, runs programs, and takes what is typed.
fn linux() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let busybox = fs::read(process::target().join("userland/riscv64/busybox")).map_err(|error| error.to_string())?;
    let archive = firmware::archive(&[("init", INIT.as_bytes()), ("bin/busybox", &busybox)]);
    fs::write(folder.path().join("initrd"), archive).map_err(|error| error.to_string())?;
    fs::copy(firmware::linux_kernel(Isa::RiscV64)?, folder.path().join("linux")).map_err(|error| error.to_string())?;
    let name = folder.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let command = format!(
        "mkfifo /tmp/in; vm run --memory 256 --cpus 2 --append 'console=ttyS0 quiet panic=-1' --initrd /in/{name}/initrd \
         /in/{name}/linux </tmp/in >/tmp/out & vm=$!; exec 3>/tmp/in; until grep -q program: /tmp/out; do \
         kill -0 $vm || break; sleep 1; done; printf 'what is typed\\nend\\n' >&3; wait $vm; echo $?; cat /tmp/out"
    );
    let ended = machine(folder.path(), &command).limit(Duration::from_secs(1200)).wait();
    let is_well = ended.output.starts_with("0\n")
        && ["program: 2 cores", "<what is typed>", "console: interrupts 1"]
            .iter()
            .all(|text| ended.output.contains(text));
    expect(is_well, &ended)
}

/// Two runs without chance are the same to a guest, down to the last tick; a wait of a millisecond takes as long as it should.
fn timed() -> Result<(), String> {
    let run = || {
        let options = ["--quiet", "--timed", "--deterministic"];
        let run = machine_with(&guest(), &options, "vm run --append times /in/guest");
        let ended = run.limit(Duration::from_secs(600)).wait();
        ended.expect_code(0).map(|ended| ended.output.clone())
    };
    let (first, second) = (run()?, run()?);
    let waits = first.lines().filter_map(|line| line.split_once(' ')?.1.parse::<u32>().ok());
    let are_right = waits.clone().count() == 5 && waits.clone().all(|ticks| (10_000..20_000).contains(&ticks));
    if first == second && are_right { Ok(()) } else { Err(format!("first:\n{first}second:\n{second}")) }
}
