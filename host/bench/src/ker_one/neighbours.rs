//! How late a real-time guest's thread answers its tick, by the guest's own clock, beside everything else that a machine may do meanwhile. Nothing is left
//! out: a response that comes after a further tick counts, too.

use std::{path::PathBuf, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::run::{guest_path, target_of};
use motet_layout::Isa;

use super::{build_guests, vms::QUANTUM_US};
use crate::{
    flick::machines::Bench as Machines,
    linux,
    project::{self, Project},
    report::Measurement,
};

const AT_MOST: Duration = Duration::from_secs(1200);
/// Ticks of a millisecond.
const TICKS: u32 = 2000;
const TICKS_QUICK: u32 = 200;
/// The longest response that is wanted, in microseconds.
const TARGET_US: f64 = 25.0;

/// What runs beside the guest, all the time.
struct Neighbour {
    name: &'static str,
    /// In words.
    what: &'static str,
    /// Shell commands that leave it running.
    command: &'static str,
}

const NEIGHBOURS: [Neighbour; 6] = [
    Neighbour {
        name: "guest",
        what: "a general guest that ticks every millisecond and computes",
        command: "vm run --append 'test=response interval_ms=100000' /in/guest-rtos >/dev/null & ",
    },
    Neighbour {
        name: "linux",
        what: "a guest in which Debian's kernel boots, again and again",
        command: "vm run --memory 256 --append 'console=ttyS0 panic=-1' /in/vmlinuz >/dev/null 2>&1 & ",
    },
    Neighbour {
        name: "programs",
        what: "a shell that starts programs in a loop",
        command: "(while :; do /bin/true; done) & ",
    },
    Neighbour {
        name: "copies",
        what: "dd, which writes and overwrites files of 8 MiB",
        command: "(while :; do dd if=/dev/zero of=/tmp/copy bs=1M count=8 2>/dev/null; done) & ",
    },
    Neighbour {
        name: "machines",
        what: "a shell that starts virtual machines in a loop",
        command: "(while :; do vm run --append hello /in/guest >/dev/null; done) & ",
    },
    Neighbour {
        name: "hostile",
        what: "a guest that sets its timer all the time, and one that calls the firmware at random",
        command: "vm run --append alarms /in/guest >/dev/null & \
                  vm run --append 'attack=calls attempts=1000000000' /in/guest-hostile >/dev/null 2>&1 & ",
    },
];

/// Runs the guest beside each of them.
///
/// # Errors
/// Guests or Debian's kernel are not there, or a run fails.
pub fn measure(quick: bool) -> Result<Vec<Measurement>> {
    let project = Project::find()?;
    let folder = project.scratch("ker-one-neighbours")?;
    build_guests(&project)?;
    let guest = |name: &str| project.target.join(guest_path(Isa::RiscV64, name));
    let tries: PathBuf =
        [project.target.as_path(), target_of(Isa::RiscV64).as_ref(), "release/guest".as_ref()].iter().collect();
    let images = [guest("rtos"), guest("hostile"), tries, linux::image(&project, Isa::RiscV64)?];
    let machines = Machines { project, folder };
    let machine = machines.machine("ker-one")?;
    let described = project::describe(&machine.machine)?;
    let ticks = if quick { TICKS_QUICK } else { TICKS };
    let mut all = Vec::new();
    for neighbour in &NEIGHBOURS {
        let command = format!(
            "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; {}sleep 0.05; \
             vm run --real-time 50 --append 'test=response interval_ms={ticks} idle=1' /in/guest-rtos",
            neighbour.command
        );
        let files: Vec<&PathBuf> = images.iter().collect();
        let run = machines.run_with(&machine, QUANTUM_US, &["--deterministic"], &files, &command, AT_MOST)?;
        let [mean_us, max_us, samples] = response(&run.output).ok_or_else(|| {
            Error::new(ErrorKind::Software, format!("the guest has not said what it should:\n{}", run.output))
        })?;
        let source = format!(
            "from when a tick is due until the thread runs that waits for it, beside {}; {samples} samples",
            neighbour.what
        );
        let one = |metric: &str, value: f64| Measurement {
            metric: format!("rtos_response_beside_{}_{metric}_us", neighbour.name),
            value,
            unit: "us",
            machine: described.clone(),
            reference: None,
            target: (metric == "max").then_some(TARGET_US),
            source: source.clone(),
        };
        all.extend([one("mean", mean_us), one("max", max_us)]);
    }
    Ok(all)
}

/// Mean and longest response in microseconds, and how many there are, of the guest's line `response MIN MEAN MAX SAMPLES`, in nanoseconds.
fn response(output: &str) -> Option<[f64; 3]> {
    let numbers = output.lines().rev().find_map(|line| line.trim().strip_prefix("response "))?;
    let numbers: Option<Vec<f64>> = numbers.split(' ').map(|word| word.parse().ok()).collect();
    let [_, mean_ns, max_ns, samples] = numbers?[..] else { return None };
    (samples > 0.0).then_some([mean_ns / 1e3, max_ns / 1e3, samples])
}

#[cfg(test)]
mod tests {
    use super::response;

    #[test]
    fn the_guests_last_line_counts() {
        let output = "rtos: interval\r\nresponse 1000 2000 3000 10\r\nresponse 1000 2500 4000 20\r\npassed 1\r\n";
        assert_eq!(response(output), Some([2.5, 4.0, 20.0]));
        for wrong in ["", "response 1 2 3\n", "response 0 0 0 0\n", "response a 2 3 4\n"] {
            assert_eq!(response(wrong), None, "{wrong}");
        }
    }
}
