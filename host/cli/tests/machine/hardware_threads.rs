//! Devices that are threads (`docs/protocols/hardware-threads.md`): programs cannot tell them from software, apart from asking.

use std::{fs, path::PathBuf, time::Duration};

use crate::{
    crossing::Programs,
    libraries::text,
    process::{Ended, Motet, root},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("hardware_threads::devices_are_created_joined_and_cancelled_as_threads", devices),
        ("hardware_threads::where_there_is_no_device_software_does_the_same", software),
        ("hardware_threads::a_process_that_is_killed_leaves_its_device", killed),
        ("hardware_threads::a_deterministic_run_is_the_same_twice", twice),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

const LIMIT: Duration = Duration::from_secs(1500);

const MACHINE: &str = "[pool]\nsize = \"512MiB\"\n\
    [[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 1\n\
    [[island]]\nname = \"arm\"\nisa = \"aarch64\"\ncores = 1\n\
    [[island]]\nname = \"riscv\"\nisa = \"riscv64\"\ncores = 2\n\
    [[service]]\n";
const DEVICES: &str = "[[hardware_thread]]\nname = \"sort0\"\ndoes = \"sort\"\n[[hardware_thread]]\nname = \"filter0\"\ndoes = \"filter\"\n";
const TIMED: &str = "[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 2\n[[service]]\n";

/// Tests of the program for which it does not matter who does the work.
const ALL: &str = "sorting filtering counting signals cancelling mistakes crowd";

struct Tested {
    programs: Programs,
    machine: PathBuf,
}

impl Tested {
    fn new(machine: &str) -> Result<Self, String> {
        let programs = Programs::new()?;
        let path = programs.path.join("machine.toml");
        fs::write(&path, machine).map_err(text)?;
        let source = root().join("tests/guest/hthreads/devices.c");
        programs.compile(&source, "devices", &["-O2", "-lhthread"])?;
        Ok(Self { programs, machine: path })
    }

    fn run(&self, options: &[&str], command: &str) -> Ended {
        let motet = Motet::run(["--in".as_ref(), self.programs.path.as_os_str()]).limit(LIMIT);
        motet.argument("--machine").argument(&self.machine).arguments(options).arguments(["--", command]).wait()
    }

    /// Runs tests over back ends: what stands before the program, the back end, whether devices are to do the work, and which tests.
    fn over(&self, runs: &[(&str, &str, u32, &str)]) -> Result<(), String> {
        let line = |(before, back_end, devices, tests): &(&str, &str, u32, &str)| {
            format!("MOTET_HTHREADS={back_end} {before} /in/programs/devices {devices} {tests} || exit\n")
        };
        let expected: String =
            runs.iter().map(|run| run.3.split(' ').map(|test| format!("{test}\n")).collect::<String>()).collect();
        let ended = self.run(&[], &runs.iter().map(line).collect::<String>());
        ended.expect_code(0)?.expect_output(&expected).map(drop)
    }
}

fn devices() -> Result<(), String> {
    let tested = Tested::new(&format!("{MACHINE}{DEVICES}"))?;
    tested.over(&[
        ("", "hardware", 1, &format!("{ALL} forking regions")),
        ("on riscv64", "hardware", 1, &format!("{ALL} forking regions")),
        ("", "hybrid", 1, "sorting filtering crowd"),
        ("", "hybrid", 0, "counting signals cancelling"),
    ])
}

fn software() -> Result<(), String> {
    let tested = Tested::new(MACHINE)?;
    tested.over(&[("", "hardware", 0, ALL), ("", "hybrid", 0, ALL), ("", "fused", 0, ALL), ("", "rpc", 0, ALL)])
}

fn killed() -> Result<(), String> {
    let tested = Tested::new(&format!("{MACHINE}{DEVICES}"))?;
    tested.over(&[("", "hardware", 1, "killed killed killed")])
}

/// Two runs have the same output, which has the simulated time in nanoseconds, and that is another one if a device is slower.
fn twice() -> Result<(), String> {
    let run = |machine: &str| {
        let ended = Tested::new(machine)?
            .run(&["--timed", "--deterministic"], "MOTET_HTHREADS=hardware /in/programs/devices 1 timed");
        ended.expect_code(0).map(|ended| ended.output.clone())
    };
    let machine = format!("{TIMED}{DEVICES}");
    let (first, second) = (run(&machine)?, run(&machine)?);
    if first != second || !first.ends_with(" ns\ntimed\n") {
        return Err(format!("two runs:\n{first}{second}"));
    }
    let slower = run(&machine.replace("does = \"sort\"", "does = \"sort\"\nelement_ns = 1000"))?;
    let ns = |output: &str| output.split(' ').next().and_then(|number| number.parse::<u64>().ok()).ok_or("no time");
    // 4 blocks of 1024 words of 32 bits in 10 passes, and 4096 of 64 bits in 12, take a microsecond for each instead of 10 ns.
    let more = (4 * 1024 * 10 + 4096 * 12) * 990;
    if ns(&slower)? < ns(&first)? + more {
        return Err(format!("a slower device: {slower} instead of {first}"));
    }
    Ok(())
}
