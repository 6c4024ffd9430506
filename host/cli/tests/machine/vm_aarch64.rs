//! Virtual machines (`docs/vms.md`) on AArch64 cores: a general system on several cores, machines that are killed at any moment, images that
//! are damaged, and cores that run no guests. Real-time systems and the hostile guest are in `guests.rs`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use motet_layout::Isa;

use crate::{
    firmware,
    guests::built,
    process::{self, Motet},
    trial::{Trial, trial},
    vm::{self, INIT},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 8] = [
        ("vm_aarch64::debians_kernel_runs_programs_on_one_core", || linux(1)),
        ("vm_aarch64::debians_kernel_runs_programs_on_two_cores", || linux(2)),
        ("vm_aarch64::a_machine_finds_the_island_with_guests_and_stays_there", islands),
        ("vm_aarch64::a_machine_that_is_killed_gives_its_memory_back", killed),
        ("vm_aarch64::damaged_images_are_refused_with_a_reason", damaged),
        ("vm_aarch64::cores_without_guests_say_what_is_missing", absent),
        ("vm_aarch64::a_guests_time_is_the_simulated_one", timed),
        ("vm_aarch64::two_cores_of_a_guest_share_simulated_time", timed_cores),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A run of a machine whose AArch64 cores have guests, with files to be found in `/in`.
fn machine(files: &[PathBuf], command: &str) -> Motet {
    let machine = process::root().join("machines/guests.toml");
    let motet = Motet::run(["--quiet".as_ref(), "--machine".as_ref(), machine.as_os_str()]);
    let motet = files.iter().fold(motet, |motet, file| motet.argument("--in").argument(file));
    motet.arguments(["--", command])
}

/// Has the cores say how often they have interrupted each other.
const TELL_INTERRUPTS: &str =
    "echo \"told: $(/bin/busybox awk '/^ *IPI[01]:/ { n += $2 + $3 } END { print n }' /proc/interrupts)\"\nwhile read";

/// Debian's kernel starts its cores, which interrupt each other, runs programs, and takes what is typed.
fn linux(cores: u32) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let busybox = fs::read(process::target().join("userland/aarch64/busybox")).map_err(|error| error.to_string())?;
    let [initrd, linux] = ["initrd", "linux"].map(|name| folder.path().join(name));
    let archive = firmware::archive(&[
        ("init", INIT.replacen("while read", TELL_INTERRUPTS, 1).as_bytes()),
        ("bin/busybox", &busybox),
    ]);
    fs::write(&initrd, archive).map_err(|error| error.to_string())?;
    fs::copy(firmware::linux_kernel(Isa::AArch64)?, &linux).map_err(|error| error.to_string())?;
    let command = format!(
        "mkfifo /tmp/in; vm run --memory 256 --cpus {cores} --append 'console=ttyAMA0 quiet panic=-1' --initrd /in/initrd \
         /in/linux </tmp/in >/tmp/out & vm=$!; exec 3>/tmp/in; until grep -q program: /tmp/out; do \
         kill -0 $vm || break; sleep 1; done; printf 'what is typed\\nend\\n' >&3; wait $vm; echo $?; cat /tmp/out"
    );
    let ended = machine(&[initrd, linux], &command).limit(Duration::from_secs(1200)).wait();
    let is_well = ended.output.starts_with("0\n")
        && [&format!("program: {cores} cores"), "<what is typed>"].iter().all(|text| ended.output.contains(*text));
    let told = ended.output.lines().find_map(|line| line.strip_prefix("told: ")?.trim().parse::<u32>().ok());
    if is_well && told.is_some_and(|told| cores == 1 || told > 0) { Ok(()) } else { Err(ended.describe()) }
}

/// The first island's cores have no guests. The heartbeats of those of the others stay together.
fn islands() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let island = |name: &str, guests: bool| {
        format!("[[island]]\nname = \"{name}\"\nisa = \"aarch64\"\ncores = 2\nguests = {guests}\n")
    };
    let text = ["[pool]\nsize = \"512MiB\"\n", &island("a", false), &island("b", true), &island("c", true)].concat();
    let path = folder.path().join("machine.toml");
    fs::write(&path, text).map_err(|error| error.to_string())?;
    // Where each thread is, again and again.
    let command = "vm run --cpus 4 --append 'rounds=30 interval_ms=100' /in/guest-heartbeat >/tmp/out & vm=$!; \
         until grep -q '^heartbeat 1 ' /tmp/out; do kill -0 $vm || break; usleep 10000; done 2>/dev/null; \
         for n in 1 2 3 4 5 6 7 8 9; do cat /proc/$vm/task/*/stat; usleep 10000; done | cut -d ' ' -f 39 >/tmp/cores; \
         wait $vm; echo $?; while read core; do echo $((core / 16)); done </tmp/cores | sort -u | wc -l; tail -n 1 /tmp/out; \
         taskset 3 vm run /in/guest-heartbeat; echo $?";
    let image = built(Isa::AArch64, "heartbeat")?;
    let motet =
        Motet::run(["--quiet".as_ref(), "--machine".as_ref(), path.as_os_str(), "--in".as_ref(), image.as_os_str()]);
    let ended = motet.arguments(["--", command]).limit(Duration::from_secs(600)).wait();
    ended.expect_code(0)?.expect_output("0\n1\npassed 30\n1\n")?.expect_errors(&["guests = true"]).map(drop)
}

/// At any moment: the time until then grows by little each time. What is lost a second time is a leak, as in `vm::random`.
fn killed() -> Result<(), String> {
    const SLACK_KIB: u32 = 512;
    let command = format!(
        "free() {{ awk '/MemFree/ {{ print $2 }}' /proc/meminfo; }}; \
         kills() {{ n=0; while [ $n -lt $1 ]; do vm run --cpus 3 --append interval_ms=50 /in/guest-heartbeat >/dev/null & \
         vm=$!; usleep $((n * 3000)); kill -KILL $vm; wait $vm; n=$((n + 1)); done 2>/dev/null; }}; \
         whole() {{ vm run --cpus 3 --append 'interval_ms=50 rounds=3' /in/guest-heartbeat | tail -n 1; }}; \
         whole; kills 20; before=$(free); kills 60; after=$(free); vm list | wc -l; whole; \
         [ $((before - after)) -lt {SLACK_KIB} ] || {{ kills 60; again=$(free); \
         [ $((after - again)) -lt {SLACK_KIB} ] || echo \"$before $after $again\"; }}"
    );
    let ended = machine(&[built(Isa::AArch64, "heartbeat")?], &command).limit(Duration::from_secs(900)).wait();
    ended.expect_code(0)?.expect_output("passed 3\n1\npassed 3\n").map(drop)
}

/// Images of AArch64.
fn damaged() -> Result<(), String> {
    let image = built(Isa::AArch64, "heartbeat")?;
    let of = |folder: &Path, command: &str| machine(&[folder.into()], command);
    vm::damaged_images(&image, 60, "rounds=1 interval_ms=1", of)
}

/// An island whose kernel is in EL1, one whose cores cannot keep their time from guests, and a machine without such cores.
fn absent() -> Result<(), String> {
    let image = built(Isa::AArch64, "rtos")?;
    let run = |options: &[&str]| {
        let motet = Motet::default().arguments(["vm", "run", "--quiet"]).arguments(options);
        motet.argument("--general").argument(&image).wait()
    };
    let machine = |name: &str| process::root().join("machines").join(name).display().to_string();
    let riscv = machine("two-riscv.toml");
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let old = folder.path().join("old.toml").display().to_string();
    let text = "[pool]\nsize = \"512MiB\"\n[[island]]\nname = \"a\"\nisa = \"aarch64\"\ncores = 1\nguests = true\ncpu = \"cortex-a76\"\n";
    fs::write(&old, text).map_err(|error| error.to_string())?;
    for (options, why) in [
        (&[][..], "guests = true"),
        (&["--machine", &old, "--timed"], "FEAT_ECV"),
        (&["--machine", &riscv], "it is for aarch64, which no core of this machine is"),
    ] {
        let ended = run(options);
        if ended.status.is_none_or(|status| status.success()) || !ended.errors.contains(why) {
            return Err(format!("{options:?}: {}", ended.describe()));
        }
    }
    Ok(())
}

/// Runs without chance of a guest: what two of them print is the same.
fn simulated(image: &str, arguments: &str) -> Result<String, String> {
    let run = || {
        let path = process::root().join("machines/guests.toml");
        let motet = Motet::run(["--quiet", "--timed", "--deterministic", "--machine"]).argument(path).argument("--in");
        let command = format!("vm run {arguments} /in/guest-{image}");
        let ended =
            motet.argument(built(Isa::AArch64, image)?).arguments(["--", &command]).limit(Duration::from_secs(1200));
        ended.wait().expect_code(0).map(|ended| ended.output.clone())
    };
    let (first, second) = (run()?, run()?);
    if first == second { Ok(first) } else { Err(format!("first:\n{first}second:\n{second}")) }
}

/// Each tick of a millisecond comes when it is due, and so little later as it takes to serve it.
fn timed() -> Result<(), String> {
    let output = simulated("rtos", "--append 'test=response interval_ms=20 idle=1'")?;
    let latency = output.lines().find_map(|line| line.strip_prefix("interrupt-latency "));
    let numbers: Vec<u32> = latency.unwrap_or("").split(' ').filter_map(|word| word.parse().ok()).collect();
    let is_right = matches!(numbers[..], [100..=u32::MAX, _, 0..100_000, 18..=20]);
    if is_right && output.ends_with("passed 1\n") { Ok(()) } else { Err(output) }
}

/// Cores compute and are interrupted for each other's sake in the same way each time.
fn timed_cores() -> Result<(), String> {
    let output = simulated("heartbeat", "--cpus 2 --append 'rounds=3 interval_ms=2'")?;
    if output.ends_with("passed 3\n") { Ok(()) } else { Err(output) }
}
