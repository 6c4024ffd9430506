//! `motet restart`: islands that die while the machine runs, and join again (`docs/protocols/hotplug.md`).

use std::{fs, mem::offset_of, os::unix::fs::FileExt as _, path::Path, time::Duration};

use motet_layout::{CoreId, CoreRecord, IslandId, PoolHeader};
use rustix::process::{Signal, kill_process};

use crate::{
    process::{Ended, Motet, Running, children_of, command_line, pid},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("restart::islands_of_every_isa_join_again_three_times_in_a_row", every_isa),
        ("restart::an_island_joins_again_under_load", under_load),
        ("restart::an_island_that_dies_while_it_boots_can_be_started_once_more", dies_while_it_boots),
        ("restart::an_island_whose_kernel_fails_is_given_up_and_joins_again", fails),
        ("restart::what_cannot_be_started_again_is_refused_with_a_sentence", refused),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// The first island cannot be started again: the second one of its kind can. Cores 0, 16, 32, 48 and 49.
const FOUR: &str = "[[island]]\nname = \"first\"\nisa = \"x86_64\"\ncores = 1\n\
    [[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 1\n\
    [[island]]\nname = \"arm\"\nisa = \"aarch64\"\ncores = 1\n\
    [[island]]\nname = \"riscv\"\nisa = \"riscv64\"\ncores = 2\n";
const LIMIT: Duration = Duration::from_secs(1200);

/// Waits until a file says something.
const UNTIL: &str =
    "until_online() { until [ \"$(cat /sys/devices/system/cpu/online)\" = $1 ]; do usleep 5000; done; }; ";

/// A machine of these islands, in a file.
pub struct Machine(pub tempfile::TempDir);

impl Machine {
    pub fn new(islands: &str) -> Result<Self, String> {
        Self::with("", islands)
    }

    /// With lines before all others.
    pub fn with(lines: &str, islands: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let text = format!("{lines}[pool]\nsize = \"256MiB\"\n{islands}");
        std::fs::write(folder.path().join("machine.toml"), text).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }
}

pub fn start(machine: &Machine, options: &[&str], command: &str) -> Running {
    let file = machine.0.path().join("machine.toml");
    Motet::run(["--machine".as_ref(), file.as_os_str()])
        .limit(LIMIT)
        .arguments(options)
        .arguments(["--", command])
        .start()
}

/// Waits for a line of the command's.
pub fn await_line(running: &mut Running, line: &str) -> Result<(), String> {
    if running.until(|running| running.output.so_far().lines().any(|found| found == line)) {
        return Ok(());
    }
    running.kill();
    let (output, errors) = (running.output.so_far(), running.errors.so_far());
    Err(format!("no line {line:?}\n--- output\n{output}\n--- errors\n{errors}"))
}

/// The QEMU of an island.
fn qemu_of(running: &Running, island: &str) -> Option<u32> {
    children_of(running.id()).into_iter().find(|&id| command_line(id).contains(&format!("-name motet-{island},")))
}

pub fn kill(running: &Running, island: &str) -> Result<(), String> {
    let victim = qemu_of(running, island).ok_or(format!("no QEMU of {island}"))?;
    kill_process(pid(victim)?, Signal::KILL).map_err(|error| error.to_string())
}

fn restart(running: &Running, island: &str) -> Ended {
    let run = running.id().to_string();
    Motet::default().arguments(["restart", island, "--run", &run]).wait()
}

/// Nobody is left when a run has failed.
pub fn ended(mut running: Running, outcome: Result<(), String>) -> Result<Ended, String> {
    if let Err(why) = outcome {
        running.kill();
        return Err(format!("{why}\n{}", running.wait().describe()));
    }
    Ok(running.wait())
}

/// A shell that runs all along sees each island go and come, and uses it: alone, in a pipeline over all three instruction sets, and with many
/// processes at once. It stays on the first island, as it would die with the other one of its kind.
fn every_isa() -> Result<(), String> {
    let machine = Machine::new(FOUR)?;
    let islands = [("arm", "0,16,48-49", "20"), ("riscv", "0,16,32", "30"), ("x86", "0,32,48-49", "10")];
    let mut command = format!("{UNTIL}taskset -p 1 $$ > /dev/null; ");
    for (name, without, _) in islands {
        command += &format!(
            "for round in 1 2 3; do echo ready {name} $round; until_online {without}; echo dead {name} $round; \
             until_online 0,16,32,48-49; grep -c ^processor /proc/cpuinfo; \
             on aarch64 uname -m | on riscv64 cat | on x86_64 taskset 10000 sort; \
             for i in 1 2 3 4 5 6 7 8; do seq 100 | on riscv64 sort -n | on aarch64 tail -1 & done | on x86_64 taskset 10000 uniq -c; wait; \
             echo alive {name} $round; done; "
        );
    }
    let mut running = start(&machine, &["--survive"], &command);
    let mut steps = || {
        for (name, ..) in islands {
            for round in 1..=3 {
                await_line(&mut running, &format!("ready {name} {round}"))?;
                kill(&running, name)?;
                await_line(&mut running, &format!("dead {name} {round}"))?;
                restart(&running, name).expect_code(0)?.expect_errors(&["joined again after"])?;
                await_line(&mut running, &format!("alive {name} {round}"))?;
            }
        }
        Ok(())
    };
    let outcome = steps();
    let ended = ended(running, outcome)?;
    let lives = islands.map(|(name, ..)| {
        [1, 2, 3].map(|round| {
            format!("ready {name} {round}\ndead {name} {round}\n5\naarch64\n      8 100\nalive {name} {round}\n")
        })
    });
    ended.expect_code(0)?.expect_output(&lives.concat().concat())?;
    ended.expect_errors(&["island arm is started again", "arm (aarch64, 1 core) joined again after"]).map(drop)
}

/// Everything is under way when the island dies, and goes on while it comes back.
fn under_load() -> Result<(), String> {
    let machine = Machine::new(FOUR)?;
    let command = format!(
        "{UNTIL} while [ ! -e /tmp/over ]; do on riscv64 seq 300 | on aarch64 sort -n | on riscv64 tail -1; done >/dev/null 2>&1 & \
         while [ ! -e /tmp/over ]; do on aarch64 mkdir -p /tmp/a/b; on riscv64 rm -r /tmp/a; done >/dev/null 2>&1 & \
         for round in 1 2 3; do echo ready $round; until_online 0,16,48-49; echo dead $round; until_online 0,16,32,48-49; \
         sleep 0.2; done; touch /tmp/over; wait; on riscv64 seq 5 | on aarch64 tail -1"
    );
    let mut running = start(&machine, &["--survive"], &command);
    let mut steps = || {
        for round in 1..=3 {
            await_line(&mut running, &format!("ready {round}"))?;
            kill(&running, "arm")?;
            await_line(&mut running, &format!("dead {round}"))?;
            restart(&running, "arm").expect_code(0)?;
        }
        Ok(())
    };
    let outcome = steps();
    let ended = ended(running, outcome)?;
    ended.expect_code(0)?.expect_output("ready 1\ndead 1\nready 2\ndead 2\nready 3\ndead 3\n5\n").map(drop)
}

/// The new QEMU is killed as soon as it is there. Who asked learns it, the machine goes on, and the next one joins. Where the island had joined before it
/// was killed, there is another try.
fn dies_while_it_boots() -> Result<(), String> {
    const TRIES_MAX: u32 = 1000;
    let machine = Machine::new(FOUR)?;
    // Another island's death tells that it is over.
    let command =
        format!("{UNTIL} echo started; until_online 0,16,32; echo dead; until_online 0,16,48-49; on riscv64 uname -m");
    let mut running = start(&machine, &["--survive"], &command);
    let mut steps = || {
        await_line(&mut running, "started")?;
        kill(&running, "riscv")?;
        await_line(&mut running, "dead")?;
        let run = running.id().to_string();
        for _ in 0..TRIES_MAX {
            let mut asks = Motet::default().arguments(["restart", "riscv", "--run", &run]).start();
            while kill(&running, "riscv").is_err() && asks.goes_on() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let asked = asks.wait();
            // Its death has yet to be noticed.
            if asked.code() == 0 || asked.errors.contains("island riscv lives") {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            asked.expect_code(64)?.expect_errors(&["island riscv has died before it had joined: QEMU was killed"])?;
            restart(&running, "riscv").expect_code(0)?;
            return kill(&running, "arm");
        }
        Err("the island had always joined before it was killed".into())
    };
    let outcome = steps();
    let ended = ended(running, outcome)?;
    ended.expect_code(0)?.expect_output("started\ndead\nriscv64\n").map(drop)
}

/// Somebody has written into a lock's word that the core which is about to take it has it already: that core's kernel fails.
fn fails() -> Result<(), String> {
    let machine = Machine::new(FOUR)?;
    let command = format!(
        "{UNTIL} echo started; while on aarch64 usleep 1000; do :; done; until_online 0,16,48-49; echo dead; \
         until_online 0,16,32,48-49; on aarch64 uname -m"
    );
    let mut running = start(&machine, &["--survive"], &command);
    let mut steps = || {
        await_line(&mut running, "started")?;
        let core = CoreId::new(IslandId(2), 0);
        let record = offset_of!(PoolHeader, cores) + core.index() * size_of::<CoreRecord>();
        // Again and again: a lock that it holds just then is written as it is, and given back.
        let mut written = Ok(());
        running.until(|running| {
            written = write_word(running, record + offset_of!(CoreRecord, timer_lock), u64::from(core.0) + 1);
            written.is_err() || running.errors.so_far().contains("takes a lock that it holds")
        });
        written?;
        await_line(&mut running, "dead")?;
        restart(&running, "arm").expect_code(0).map(drop)
    };
    let outcome = steps();
    let ended = ended(running, outcome)?;
    ended.expect_code(0)?.expect_output("started\ndead\naarch64\n")?;
    ended.expect_errors(&[
        "island arm: failed: ",
        "takes a lock that it holds (Timers)",
        "the machine goes on without it",
    ])?;
    Ok(())
}

/// Writes a word of a machine's pool, as an island that has gone wrong could.
fn write_word(running: &Running, at: usize, word: u64) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let is_pool =
        |path: &Path| fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:motet-pool"));
    let files = fs::read_dir(format!("/proc/{}/fd", running.id())).map_err(told)?;
    let path = files.flatten().map(|entry| entry.path()).find(|path| is_pool(path)).ok_or("no pool")?;
    let pool = fs::OpenOptions::new().write(true).open(path).map_err(told)?;
    pool.write_all_at(&word.to_le_bytes(), at as u64).map_err(told)
}

/// A machine, options of its run, and islands with what the refusal begins with.
type Refused<'a> = (&'a Machine, &'a [&'a str], &'a [(&'a str, &'a str)]);

/// Each machine, and what is asked of it in vain. Nothing dies of the question: all go on.
fn refused() -> Result<(), String> {
    let usual = Machine::new(FOUR)?;
    let flick = Machine::with("crossing = \"flick\"\n", FOUR)?;
    let lives = ("arm", "island arm lives (process ");
    let cases: [Refused<'_>; 4] = [
        (
            &usual,
            &["--survive"],
            &[
                lives,
                ("mips", "it has no island mips; its islands are first, x86, arm, riscv"),
                ("", "it has no island ; its islands are first"),
                ("first", "first is its first island, which has the console"),
                lives,
            ],
        ),
        (&usual, &[], &[("arm", "it ends when an island dies, and none can be started again; motet run --survive")]),
        (
            &usual,
            &["--timed"],
            &[("arm", "its time is simulated: it ends when an island dies, and none can be started again; motet run")],
        ),
        (&flick, &["--survive"], &[("arm", "none is started again; machines whose file does not say so start them")]),
    ];
    let command = "echo started; while [ $((i += 1)) -lt 30000 ]; do usleep 10000; done";
    let mut over = 0;
    for (machine, options, asked) in cases {
        let mut running = start(machine, options, command);
        over = running.id();
        let mut steps = || {
            await_line(&mut running, "started")?;
            asked.iter().try_for_each(|(island, why)| {
                restart(&running, island).expect_code(64)?.expect_errors(&[why]).map(drop)
            })?;
            if running.goes_on() { Ok(()) } else { Err(format!("it has ended: {options:?}")) }
        };
        let outcome: Result<(), String> = steps();
        running.kill();
        ended(running, outcome)?;
    }
    for run in [over, 1] {
        let nobody = Motet::default().arguments(["restart", "arm", "--run", &run.to_string()]).wait();
        nobody.expect_code(64)?.expect_errors(&[&format!("process {run} runs no machine; ")])?;
    }
    Ok(())
}
