//! More of accelerators in virtual machines (`docs/protocols/fpga.md`): interrupts, transfers in all of a machine's memory, whose request comes first
//! and which region it gets, bitstreams that are wrong, and machines that the host starts.

use std::{collections::BTreeMap, fs};

use motet_layout::Isa;
use serde_json::Value;

use crate::{
    accel_guests::{guest, run, run_on, run_on_both, run_on_one},
    process::{self, Ended, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 9] = [
        ("accel_vms::each_job_is_an_interrupt", interrupts),
        ("accel_vms::who_is_stopped_is_interrupted_once", stopped),
        ("accel_vms::transfers_reach_all_of_a_machines_memory", memory),
        ("accel_vms::real_time_machines_come_before_all_others", realtime),
        ("accel_vms::a_region_that_is_it_already_is_taken_first", fewest),
        ("accel_vms::of_equals_the_earlier_deadline_comes_first", deadlines),
        ("accel_vms::wrong_bitstreams_are_errors_of_who_wants_them", wrong_bitstreams),
        ("accel_vms::the_host_gives_accelerators_to_images", from_host),
        ("accel_vms::charts_show_regions_and_machines", charts),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

const TIMED: [&str; 2] = ["--timed", "--deterministic"];

fn interrupts() -> Result<(), String> {
    let command = "for name in qam16 fft512; do vm run --accel $name --append 'part=interrupts rounds=12 frames=2' /in/guest-accelerated; done";
    for options in [&[][..], &["--timed"]] {
        run("", options, command)?.expect_code(0)?.expect_output("passed 12\npassed 12\n")?;
    }
    let command = command.replace("/in/guest-accelerated", "/in/arm");
    run_on_both("", &command)?.expect_code(0)?.expect_output("passed 12\npassed 12\n").map(drop)
}

/// A modest machine that a more urgent one stops in most of its jobs. Both sleep until they are interrupted.
fn stopped() -> Result<(), String> {
    let command = "vm run --nice 10 --accel fft512 --append 'part=interrupts rounds=10 frames=8' /in/guest-accelerated >/tmp/1 & \
                   for n in 1 2 3 4 5 6; do usleep 20000; \
                   vm run --nice -20 --accel fft1024 --append 'part=interrupts rounds=4' /in/guest-accelerated; done; wait; cat /tmp/1";
    let right = "passed 4\n".repeat(6) + "passed 10\n";
    run("", &[], command)?.expect_code(0)?.expect_output(&right)?;
    let (ended, stats) = measured("", command)?;
    ended.expect_code(0)?.expect_output(&right)?;
    if number(&stats, "preemptions") > 0 { Ok(()) } else { Err("nobody was stopped".into()) }
}

/// Beside each other, and with somebody who stores anything anywhere.
fn memory() -> Result<(), String> {
    let command = "vm run --accel qam16 --append 'part=memory rounds=60' /in/guest-accelerated >/tmp/1 & \
                   vm run --accel qam16 --append 'part=memory rounds=60 frames=2 seed=2' /in/guest-accelerated >/tmp/2 & \
                   vm run --accel qam16 --append 'part=hostile rounds=1000' /in/guest-accelerated >/tmp/3 & \
                   wait; cat /tmp/1 /tmp/2 /tmp/3";
    for options in [&[][..], &["--timed"]] {
        run("", options, command)?.expect_code(0)?.expect_output("passed 60\npassed 60\npassed 1000\n")?;
    }
    Ok(())
}

/// Even the lowest real-time priority is above the most urgent nice value.
fn realtime() -> Result<(), String> {
    let command = "vm run --nice -20 --accel fft512 --append 'rounds=6 frames=8' /in/guest-accelerated & usleep 20000; \
                   vm run --real-time 1 --accel fft1024 --append 'rounds=8 pause_ticks=5' /in/guest-accelerated & wait";
    let ended = run("", &TIMED, command)?;
    let is_stopped = |name: &str| {
        let line = ended.output.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
    };
    ended.expect_code(0)?;
    match (is_stopped("fft512: "), is_stopped("fft1024: ")) {
        (Some(1..), Some(0)) => Ok(()),
        _ => Err(ended.describe()),
    }
}

/// Both accelerators fit into both regions; their frames take long.
const TWO: &str = "[[fpga.region]]
bitstream = 33495
[[fpga.region]]
bitstream = 117450
[[fpga.accelerator]]
name = \"qam16\"
frame_ns = 100000
regions = [1, 2]
[[fpga.accelerator]]
name = \"qam64\"
frame_ns = 20000000
regions = [1, 2]
";

/// While one has the smaller region the larger one becomes what another one needs. Who comes next could have either.
fn fewest() -> Result<(), String> {
    let command = "vm run --accel qam64 --append 'part=interrupts rounds=1 frames=10' /in/guest-accelerated & usleep 50000; \
                   vm run --accel qam16 --append 'part=interrupts rounds=1' /in/guest-accelerated; wait; \
                   vm run --accel qam16 --append 'part=interrupts rounds=1' /in/guest-accelerated";
    let loads = |policy: &str| -> Result<u64, String> {
        let (ended, stats) = measured_on(&format!("policy = \"{policy}\"\n{TWO}"), command)?;
        ended.expect_code(0)?.expect_output(&"passed 1\n".repeat(3))?;
        Ok(number(&stats, "loads"))
    };
    match (loads("smallest-first")?, loads("fewest-reconfigurations")?) {
        (3, 2) => Ok(()),
        (smallest, fewest) => Err(format!("{smallest} reconfigurations, and {fewest} with fewest reconfigurations")),
    }
}

/// Two that are as urgent wait for a third: the one that came later has less time.
fn deadlines() -> Result<(), String> {
    let command = "vm run --accel fft512 --append 'part=interrupts rounds=1 frames=8' /in/guest-accelerated >/dev/null & usleep 5000; \
                   vm run --accel fft1024:900000 --append 'part=interrupts rounds=1' /in/guest-accelerated | sed 's/^/first: /' & usleep 5000; \
                   vm run --accel fft1024:100 --append 'part=interrupts rounds=1' /in/guest-accelerated | sed 's/^/second: /' & wait";
    for (policy, right) in
        [("smallest-first", "first: passed 1\nsecond: passed 1\n"), ("deadline", "second: passed 1\nfirst: passed 1\n")]
    {
        let ended = run(&format!("policy = \"{policy}\"\n"), &TIMED, command)?;
        ended.expect_code(0)?.expect_output(right)?;
    }
    Ok(())
}

/// A store that waits for such a bitstream is a store where nothing is, and the second byte of STAT says why. Others use the region before and after.
fn wrong_bitstreams() -> Result<(), String> {
    // Cause 7: store/AMO access fault.
    let command = "vm run --accel qam16 --append 'rounds=100' /in/guest-accelerated >/tmp/other & \
                   for n in 1 2 3 4 5; do vm run --accel fft512 /in/guest-accelerated | grep -c 'failed: an exception: cause 0x7, '; \
                   vm run --accel fft1024 --append 'rounds=2' /in/guest-accelerated | tail -n 1; done; wait; tail -n 1 /tmp/other";
    for key in ["unsigned", "misplaced"] {
        let fpga = crate::accel::FPGA;
        let wrong = fpga.replace("20000000\nregions = [2]\n", &format!("20000000\nregions = [2]\n{key} = [2]\n"));
        if wrong == fpga {
            return Err("the FPGA has other accelerators".into());
        }
        for options in [&[][..], &["--timed"]] {
            let ended = run_on(&wrong, options, command)?;
            let right = "1\npassed 2\n".repeat(5) + "passed 100\n";
            ended.expect_code(0)?.expect_output(&right)?;
        }
    }
    Ok(())
}

/// On a machine of this repository, as the help says: each image has what it is given.
fn from_host() -> Result<(), String> {
    let (guest, folder) = (guest(Isa::RiscV64)?, tempfile::tempdir().map_err(|error| error.to_string())?);
    let [radio, other] = ["radio.elf", "other.elf"].map(|name| folder.path().join(name));
    for copy in [&radio, &other] {
        fs::copy(&guest, copy).map_err(|error| error.to_string())?;
    }
    let machine = process::root().join("machines/accelerators.toml");
    let vm = || Motet::default().arguments(["vm", "run", "--quiet", "--machine"]).argument(&machine);
    let ended = vm()
        .arguments(["--rtos".as_ref(), radio.as_os_str(), "--general".as_ref(), other.as_os_str()])
        .arguments(["--accel", "radio.elf=qam16", "--accel", "fft512", "--append", "rounds=2"])
        .wait();
    ended.expect_code(0)?.expect_lines(
        "radio.elf: qam16: 2 jobs, connected in 1, stopped in 0\nradio.elf: passed 2\n\
         other.elf: fft512: 2 jobs, connected in 1, stopped in 0\nother.elf: passed 2\n",
    )?;
    for wrong in ["none.elf=fir", "qam"] {
        vm().argument("--general").argument(&other).arguments(["--accel", wrong]).wait().expect_code(64)?;
    }
    Ok(())
}

/// Two machines share the only core, beside the regions: on the page, in the figures and in the trace. What runs on a core does
/// so alone, and both have run.
fn charts() -> Result<(), String> {
    let command = "vm run --accel qam16 --append 'rounds=4' /in/guest-accelerated >/tmp/1 & \
                   vm run --accel fft512 --append 'rounds=4' /in/guest-accelerated >/tmp/2 & \
                   wait; cat /tmp/1 /tmp/2 | grep -c 'passed 4'";
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let paths = ["report", "trace.json"].map(|name| folder.path().join(name));
    let [report, trace] = [0, 1].map(|at: usize| paths[at].to_string_lossy().into_owned());
    run_on_one(&[TIMED[0], TIMED[1], "--report", &report], command)?.expect_code(0)?.expect_output("2\n")?;
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let json = |text: String| serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
    let page = read(&format!("{report}/index.html"))?;
    for what in ["Regions and virtual machines over time", ">region 1<", ">VM 1, vCPU 0<", ">VM 2, vCPU 0<"] {
        if !page.contains(what) {
            return Err(format!("the page has no {what}"));
        }
    }
    let stats = json(read(&format!("{report}/stats.json"))?)?;
    check_runs(stats["guests"]["runs"].as_array().ok_or("no runs of virtual machines")?)?;
    run_on_one(&["--timed", "--trace", &trace], command)?.expect_code(0)?.expect_output("2\n")?;
    let lines = json(read(&trace)?)?;
    let lines = lines.as_array().ok_or("the trace is no array")?;
    crate::measured::check_tracks(lines)?;
    for track in ["VM 1, vCPU 0", "VM 2, vCPU 0", "region 1"] {
        let named = lines.iter().find(|line| line["ph"] == "M" && line["args"]["name"] == track);
        let is_on = |line: &&Value| line["ph"] == "B" && named.is_some_and(|named| line["tid"] == named["tid"]);
        if lines.iter().filter(is_on).count() < 2 {
            return Err(format!("the trace has no slices of {track}"));
        }
    }
    Ok(())
}

/// Runs of two machines, of which no two are on one core at once.
fn check_runs(runs: &[Value]) -> Result<(), String> {
    let mut ends: BTreeMap<[u64; 2], u64> = BTreeMap::new();
    let mut machines: BTreeMap<u64, u64> = BTreeMap::new();
    for run in runs {
        let number = |key: &str| run[key].as_u64().ok_or_else(|| format!("no {key}: {run}"));
        let core = [number("island")?, number("core")?];
        let (from_ps, to_ps) = (number("from_ps")?, number("to_ps")?);
        if to_ps < from_ps || ends.insert(core, to_ps).is_some_and(|end_ps| end_ps > from_ps) {
            return Err(format!("another machine still runs on the core: {run}"));
        }
        *machines.entry(number("machine")?).or_default() += to_ps - from_ps;
    }
    match machines.into_iter().collect::<Vec<_>>()[..] {
        [(1, 1..), (2, 1..)] if ends.len() == 1 => Ok(()),
        ref other => Err(format!("machines and how long they ran: {other:?}, on {} cores", ends.len())),
    }
}

/// A deterministic run, and what the FPGA did in it.
fn measured(keys: &str, command: &str) -> Result<(Ended, Value), String> {
    measured_on(&format!("{keys}{}", crate::accel_guests::fpga()), command)
}

fn measured_on(fpga: &str, command: &str) -> Result<(Ended, Value), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("stats.json");
    let file = path.to_str().ok_or("no path")?;
    let ended = run_on(fpga, &[TIMED[0], TIMED[1], "--stats", file], command)?;
    let text = fs::read(&path).map_err(|error| format!("{error}: {}", ended.describe()))?;
    Ok((ended, serde_json::from_slice(&text).map_err(|error| error.to_string())?))
}

fn number(stats: &Value, key: &str) -> u64 {
    stats["fpga"][key].as_u64().unwrap_or(u64::MAX)
}
