//! Devices of virtual machines: the console's interrupts, and memory that machines share, with doorbells (docs/vms.md).

use std::{fs, time::Duration};

use motet_layout::Isa;

use crate::{
    crossing::Programs,
    guests,
    process::{Ended, Motet, root},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 10] = [
        ("shares::a_guest_reads_its_console_by_interrupts", serial),
        ("shares::two_guests_play_ping_pong_across_islands", guests_play),
        ("shares::a_guest_of_aarch64_reads_its_console_by_interrupts", serial_aarch64),
        ("shares::guests_of_two_instruction_sets_play_ping_pong", all_play),
        ("shares::a_guest_and_a_program_play_ping_pong", program_plays),
        ("shares::a_guest_that_resets_begins_again_and_its_peer_notices", || begin_again("two-riscv.toml", "share")),
        ("shares::a_guest_of_aarch64_that_resets_begins_again_and_its_peer_notices", || {
            begin_again("guests.toml", "share-aarch64")
        }),
        ("shares::an_area_is_its_users_alone", of_users),
        ("shares::what_is_wrong_is_refused", refused),
        ("shares::the_host_lists_and_ends_machines", from_host),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Guests and the program, in `/in/programs`.
fn programs() -> Result<Programs, String> {
    let programs = Programs::new()?;
    for guest in ["serial", "share"] {
        let image = guests::built(Isa::RiscV64, guest)?;
        fs::copy(image, programs.path.join(guest)).map_err(|error| error.to_string())?;
        let image = guests::built(Isa::AArch64, guest)?;
        fs::copy(image, programs.path.join(format!("{guest}-aarch64"))).map_err(|error| error.to_string())?;
    }
    for isa in ["x86_64", "riscv64"] {
        let source = root().join("tests/guest/vm/share.c");
        programs.compile(&source, &format!("play-{isa}"), &["-O2", &format!("--isa={isa}")])?;
    }
    Ok(programs)
}

fn run(command: &str) -> Result<Ended, String> {
    run_on("two-riscv.toml", command)
}

fn run_on(machine: &str, command: &str) -> Result<Ended, String> {
    let programs = programs()?;
    let machine = root().join("machines").join(machine);
    let options =
        ["--quiet".as_ref(), "--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
    Ok(Motet::run(options).arguments(["--", command]).limit(LIMIT).wait())
}

/// What both say who read by interrupts.
const READ: &str = "{ sleep 0.5; echo one; sleep 0.2; echo two and more; } | \
    vm run --append 'lines=2' $serial; vm run --append 'lines=0' $serial </dev/null; echo $?";

fn serial() -> Result<(), String> {
    has_read(&run(&format!("serial=/in/programs/serial; {READ}"))?, "1")
}

/// PSCI does not say why a machine is switched off.
fn serial_aarch64() -> Result<(), String> {
    has_read(&run_on("guests.toml", &format!("serial=/in/programs/serial-aarch64; {READ}"))?, "0")
}

fn has_read(ended: &Ended, status: &str) -> Result<(), String> {
    ended.expect_code(0)?;
    let lines: Vec<_> = ended.output.lines().collect();
    let is_well = lines.starts_with(&["serial: ready", "ONE", "TWO AND MORE"]) && lines.get(4) == Some(&"passed 1");
    // Nobody has typed anything: no interrupt, which the guest calls a failure.
    let has_failed = ended.output.contains("failed: 0 interrupts");
    if is_well && has_failed && lines.last() == Some(&status) { Ok(()) } else { Err(ended.describe()) }
}

/// Each on its island.
fn guests_play() -> Result<(), String> {
    let ended =
        run("play() { taskset $1 vm run --share court --append rounds=200 /in/programs/share >/tmp/$1; echo $?; }
        play 1 & play 10000 & wait; cat /tmp/1 /tmp/10000 | sort | cut -d ' ' -f 1-3; ls /dev/shm/vm.court | wc -l")?;
    ended.expect_code(0)?.expect_output("0\n0\npassed 1\npassed 1\nshare 0 400\nshare 1 400\n17\n").map(drop)
}

/// Two of AArch64, and one of them with one of RISC-V.
fn all_play() -> Result<(), String> {
    let ended = run_on(
        "guests.toml",
        "play() { vm run --share $1 --append rounds=200 /in/programs/$2 >/tmp/$3; echo $?; }; \
        play court share-aarch64 1 & play court share-aarch64 2 & wait; \
        play yard share-aarch64 3 & play yard share 4 & wait; \
        vm run --share other --share yard:64 --append rounds=1 /in/programs/share-aarch64; echo $?; \
        cat /tmp/1 /tmp/2 | sort | cut -d ' ' -f 1-3; cat /tmp/3 /tmp/4 | sort | cut -d ' ' -f 1-3",
    )?;
    let played = "passed 1\npassed 1\nshare 0 400\nshare 1 400\n";
    ended.expect_code(0)?.expect_output(&format!("0\n0\n0\n0\n1\n{played}{played}"))?;
    ended.expect_errors(&["vm: --share yard: it is there and has 4 KiB"]).map(drop)
}

/// The second peer resets its machine twice, and the first one notices each time that it has begun. A machine that is not to begin again ends, and
/// says so.
fn begin_again(machine: &str, image: &str) -> Result<(), String> {
    let ended = run_on(
        machine,
        &format!(
            "image=/in/programs/{image}; play() {{ vm run --share court --append 'rounds=50 again=2' $image >/tmp/$1; echo $?; }}; \
             play 1 & play 2 & wait; cat /tmp/1 /tmp/2 | sort | cut -d ' ' -f 1-3; \
             vm run --share yard --append again=1 $image & until [ -e /dev/shm/vm.yard/bell.15 ]; do sleep 0.1; done; \
             vm run --no-reboot --share yard --append again=1 $image; echo $?; vm list | sed 's/.* //'; kill -KILL $!; wait"
        ),
    )?;
    let wanted = format!("0\n0\npassed 1\npassed 1\nshare 0 100\nshare 1 100\n2\nIMAGE\n/in/programs/{image}\n");
    ended.expect_code(0)?.expect_output(&wanted)?;
    ended.expect_errors(&["vm: the guest has reset its machine, which ends (--no-reboot)"]).map(drop)
}

fn program_plays() -> Result<(), String> {
    let ended = run("for round in 1 2 3; do
        vm run --share court --append rounds=50 /in/programs/share >/tmp/guest & /in/programs/play-riscv64 court 50 >/tmp/program
        wait; cat /tmp/guest /tmp/program | cut -d ' ' -f 1,3 | sort; rm -r /dev/shm/vm.court; done")?;
    ended.expect_code(0)?.expect_output(&"passed \nshare 100\nshare 100\n".repeat(3)).map(drop)
}

fn of_users() -> Result<(), String> {
    let ended = run("vm run --share court --append rounds=0 /in/programs/share >/dev/null &
        until [ -e /dev/shm/vm.court/bell.15 ]; do sleep 0.1; done; cp /bin/vm /tmp/vm
        echo user:x:1000:1000::/tmp:/bin/sh >>/etc/passwd; start-stop-daemon -S -c user -x /tmp/vm -- run --share court /in/programs/share 2>&1; echo $?
        ls -ld /dev/shm/vm.court | cut -c 1-10; kill -KILL $!")?;
    let refusal = "vm: --share court: its memory cannot be opened (error 13)\n1\ndrwx------\n";
    ended.expect_code(0)?.expect_output(refusal).map(drop)
}

/// The memory of a machine does not get shorter.
fn refused() -> Result<(), String> {
    let ended = run("vm run --share a/b /in/programs/share; echo $?
        vm run --share court:8 --append rounds=0 /in/programs/share & until [ -e /dev/shm/vm.court/bell.15 ] && vm list | grep -q share; do sleep 0.1; done; sleep 1
        vm run --share court:4 /in/programs/share 2>&1; echo $?
        truncate -s 4096 /dev/shm/vm.court/memory 2>/dev/null || wc -c </dev/shm/vm.court/memory
        kill -KILL $!; wait $! 2>/dev/null; truncate -s 4096 /dev/shm/vm.court/memory && wc -c </dev/shm/vm.court/memory")?;
    let size = "vm: --share court: it is there and has 8 KiB\n1\n8192\n4096\n";
    ended.expect_code(0)?.expect_output(&format!("64\n{size}"))?;
    ended.expect_errors(&["vm: --share needs a value that it takes"]).map(drop)
}

/// Of two machines that share an area, one is ended from outside, and then the other one.
fn from_host() -> Result<(), String> {
    let image = guests::built(Isa::RiscV64, "share")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let other = folder.path().join("other");
    fs::copy(&image, &other).map_err(|error| error.to_string())?;
    let images = ["--rtos".as_ref(), image.as_os_str(), "--general".as_ref(), other.as_os_str()];
    let vm = |words: &[&str]| Motet::default().argument("vm").arguments(words).limit(LIMIT).wait();
    let options = ["vm", "run", "--quiet", "--share", "court", "--append", "rounds=1000000000"];
    let mut running = Motet::default().arguments(options).arguments(images).limit(LIMIT).start();
    let run = running.id().to_string();
    let ids = || -> Vec<String> {
        let listed = vm(&["list"]);
        let lines = listed.output.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|words| words.first() == Some(&run)).map(|words| words[1].clone()).collect()
    };
    if !running.until(|_| ids().len() == 2) {
        return Err(running.wait().describe());
    }
    vm(&["kill", "99", "--run", &run]).expect_code(64)?.expect_errors(&["there is no virtual machine 99"])?;
    vm(&["kill", "--run", &run, "1"]).expect_code(0)?;
    if !running.until(|_| ids() == ["2"]) {
        return Err(format!("{:?}", ids()));
    }
    vm(&["kill", "--run", &run, "2"]).expect_code(0)?;
    running.wait().expect_code(137).map(drop)
}
