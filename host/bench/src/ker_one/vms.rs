//! Real-time systems in virtual machines of `machines/ker-one.toml`, beside the same images on the bare board.
//!
//! All are timed by instructions at which cores come by (`--points`): in the kernel where it is entered and left, in the guests where their
//! handlers begin and where a thread reads the time.

use std::{path::PathBuf, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    run::{guest_path, kernel_path},
    timed::{self, Passage, Point, bare},
};
use motet_layout::{Isa, marks};

use super::{
    build_guests,
    image::{self, Image},
    moments::{self, Moment, Spread, Ways, What},
    paper_vms::TESTS,
    parts::{self, Parts, Why},
};
use crate::{
    flick::machines::Bench as Machines,
    motet::Described,
    project::{self, Project, file_error},
};

/// How far cores may be apart, in microseconds: there is one, whose interrupts are taken at that time at the latest.
pub const QUANTUM_US: &str = "0.25";
const AT_MOST: Duration = Duration::from_secs(1200);
const TICK_US: f64 = 1000.0;
/// On the bare board an instruction takes 2 ns of the board's own time.
const SHIFT: u32 = 1;
/// Ticks of the first run on the board, by whose length those of the second are chosen, in microseconds of the board's time.
const FIRST_TICK_US: u32 = 500;

/// A real-time kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Its image, in docs/guests.md, and in metrics.
    pub name: &'static str,
    /// Its name in tables and on the page.
    pub title: &'static str,
    /// What its handler of interrupts begins at.
    handler: &'static str,
}

/// Those that are measured.
pub const KERNELS: [Kernel; 2] = [
    Kernel { name: "rtos", title: "Motet's RTOS", handler: "motet_guest_trap_entry" },
    Kernel { name: "freertos", title: "FreeRTOS", handler: "trap" },
];

/// How long runs are.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    /// A test of Thread-Metric, in ticks.
    interval_ticks: u32,
    /// Response times, in ticks.
    response_ticks: u32,
}

/// In the machine's file: what a hit of L1D takes.
const HITS: &str = "ways = 4, cycles = 4 }\nl3";

const LONG: Lengths = Lengths { interval_ticks: 250, response_ticks: 2000 };
/// Long enough for each of four guests to have several turns.
const QUICK: Lengths = Lengths { interval_ticks: 20, response_ticks: 500 };

/// Thread-Metric of a kernel, in the order of [`TESTS`]: counts in a second.
#[derive(Clone, Debug)]
pub struct Scores {
    /// On the bare board.
    pub native: Vec<f64>,
    /// In a virtual machine.
    pub vm: Vec<f64>,
    /// In one beside three general ones, which compute.
    pub beside: Vec<f64>,
}

impl Scores {
    /// The performance ratios (equation 2).
    pub fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.vm.iter().zip(&self.native).map(|(vm, native)| vm / native)
    }

    /// The same beside general machines, as in the paper.
    pub fn ratios_beside(&self) -> impl Iterator<Item = f64> + '_ {
        self.beside.iter().zip(&self.native).map(|(vm, native)| vm / native)
    }
}

/// Response times of a kernel, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Response {
    /// From the beginning of the handler of the tick until the thread runs, on the bare board, ...
    pub release_native: Spread,
    /// ... of which the firmware there takes this to set the timer, ...
    pub native_call: Spread,
    /// ... in a virtual machine, ...
    pub release_vm: Spread,
    /// Beside a general guest that prints once a second, ...
    pub beside: Beside,
    /// ... and beside one that does not print meanwhile.
    pub quiet: Beside,
}

/// Of them, beside a general guest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// From the beginning of the handler of the tick until the thread runs.
    pub release: Spread,
    /// From the interrupt in the general guest until the handler of the tick begins.
    pub preemption: Spread,
    /// The kernel's stays between guests, with interrupts masked.
    pub critical: Spread,
}

impl Response {
    /// What the paper adds up (equations 3 and 4): the longest of each, with the release on the bare board at its shortest.
    pub fn overhead_us(&self, beside: &Beside) -> f64 {
        beside.critical.max + beside.preemption.max + self.release_us(beside)
    }

    /// Equation 3.
    pub fn release_us(&self, beside: &Beside) -> f64 {
        beside.release.max - self.release_native.min
    }
}

/// All results of the experiment.
#[derive(Debug)]
pub struct Results {
    /// Of four guests that take turns: hypercalls, virtual interrupts, switches.
    pub calls: Spread,
    pub interrupts: Spread,
    pub switches: Spread,
    /// The same three where hits of L1D cost no cycles beside the instruction's.
    pub overlapped: [Spread; 3],
    /// Instructions: a real-time guest's timer preempts a general one, it waits again, and a slice ends.
    pub instructions: [Parts; 3],
    /// By kernel.
    pub scores: Vec<Scores>,
    /// By kernel.
    pub responses: Vec<Response>,
    /// From a guest's access to a device until the monitor runs, and from the monitor's answer until the guest runs.
    pub trap: Spread,
    pub resume: Spread,
    pub machine: String,
}

struct Bench {
    machines: Machines,
    machine: Described,
    lengths: Lengths,
}

/// Runs all measurements.
///
/// # Errors
/// Images are not built, or a run fails.
pub fn measure(quick: bool) -> Result<Results> {
    let project = Project::find()?;
    let folder = project.scratch("ker-one-vms")?;
    build_guests(&project)?;
    let machines = Machines { project, folder };
    let machine = machines.machine("ker-one")?;
    let bench = Bench { machines, machine, lengths: if quick { QUICK } else { LONG } };
    let turns = bench.turns(&bench.machine)?;
    let ways = Ways::of(&turns, bench.entry_us());
    let overlapping = bench.machines.changed(&bench.machine, "overlapping", &[(HITS, "ways = 4, cycles = 0 }\nl3")])?;
    let overlapped = Ways::of(&bench.turns(&overlapping)?, bench.entry_us());
    let counting = bench.machines.changed(&bench.machine, "counting", &parts::COUNTING)?;
    let instructions = bench.instructions(&counting)?;
    let [trap, resume] = moments::monitor(&turns, bench.entry_us()).map(|samples| Spread::of(&samples));
    Ok(Results {
        calls: Spread::of(&ways.calls),
        interrupts: Spread::of(&ways.interrupts),
        switches: Spread::of(&ways.switches),
        overlapped: [&overlapped.calls, &overlapped.interrupts, &overlapped.switches].map(|way| Spread::of(way)),
        instructions,
        scores: KERNELS.iter().map(|kernel| bench.scores(kernel)).collect::<Result<_>>()?,
        responses: KERNELS.iter().map(|kernel| bench.response(kernel)).collect::<Result<_>>()?,
        trap,
        resume,
        machine: project::describe(&bench.machine.machine)?,
    })
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Software, format!("a guest has not said what it should:\n{what}"))
}

/// Points of a run, and what each is.
#[derive(Debug)]
struct Points(Vec<(What, Point)>);

impl Points {
    fn add(&mut self, what: What, address: u64, register: Option<&str>) {
        self.0.push((what, Point { island: 0, address, register: register.map(str::to_owned) }));
    }

    fn moments(&self, passages: &[Passage]) -> Vec<Moment> {
        let moment = |passage: &Passage| {
            let (what, _) = self.0.get(passage.point)?;
            Some(Moment { what: *what, at_us: passage.at_ps as f64 / 1e6, value: passage.value })
        };
        passages.iter().filter_map(moment).collect()
    }
}

impl Bench {
    fn image(&self, name: &str) -> PathBuf {
        self.machines.project.target.join(guest_path(Isa::RiscV64, name))
    }

    /// Getting into the kernel, before its handler's first instruction.
    fn entry_us(&self) -> f64 {
        let config = self.machine.machine.model_config();
        config.map_or(0.0, |config| config.islands[0].timing.traps.entry_ps as f64 / 1e6)
    }

    /// What is watched of a guest.
    fn guest_points(&self, kernel: &Kernel) -> Result<Points> {
        let image = Image::read(&self.image(kernel.name))?;
        let mut points = Points(Vec::new());
        points.add(What::Handler, image.symbol(kernel.handler)?, None);
        points.add(What::Released, image.time_read_in("8response7respond")?, None);
        Ok(points)
    }

    /// The same, with the kernel below it.
    fn points(&self, kernel: &Kernel) -> Result<Points> {
        let image = Image::read(&self.machines.project.target.join(kernel_path(Isa::RiscV64)))?;
        let mut points = self.guest_points(kernel)?;
        for entry in ["motet_trap", "motet_guest_trap"] {
            points.add(What::Trap, image.symbol(entry)?, Some("scause"));
        }
        for way_back in ["motet_enter_user", "motet_guest_trap"] {
            let returns = image.return_behind(image.symbol(way_back)?)?;
            points.add(What::Leaves, returns - image.length_before(returns), Some("hstatus"));
            points.add(What::Return, returns, Some("hgatp"));
        }
        for (mark, what) in parts::MARKS {
            let word = marks::riscv64(mark);
            image.instructions(|other| other == word).into_iter().for_each(|at| points.add(what, at, None));
        }
        Ok(points)
    }

    /// Runs a shell command in the machine: what it has printed, and when cores came by the points.
    fn run(&self, points: &Points, images: &[&str], command: &str) -> Result<(String, Vec<Moment>)> {
        self.run_on(&self.machine, points, images, command)
    }

    fn run_on(
        &self,
        machine: &Described,
        points: &Points,
        images: &[&str],
        command: &str,
    ) -> Result<(String, Vec<Moment>)> {
        let [list, passages] = ["points", "passages"].map(|name| self.machines.folder.join(name));
        let island = &self.machine.machine.islands[0].name;
        let lines = points.0.iter().map(|(_, point)| {
            let register = point.register.as_ref().map_or(String::new(), |register| format!(" {register}"));
            format!("{island} {:#x}{register}\n", point.address)
        });
        std::fs::write(&list, lines.collect::<String>()).map_err(file_error(&list))?;
        let images: Vec<PathBuf> = images.iter().map(|name| self.image(name)).collect();
        let [list_text, passages_text] = [&list, &passages].map(|path| path.to_string_lossy().into_owned());
        let options = ["--deterministic", "--points", &list_text, "--passages", &passages_text];
        let files: Vec<&PathBuf> = images.iter().collect();
        let run = self.machines.run_with(machine, QUANTUM_US, &options, &files, command, AT_MOST)?;
        let text = std::fs::read_to_string(&passages).map_err(file_error(&passages))?;
        let passages: Option<Vec<Passage>> = text.lines().map(passage).collect();
        Ok((run.output, points.moments(&passages.ok_or_else(|| damaged("passages"))?)))
    }

    /// Four guests of one kind, which compute and tick, and share the core in turns, as in the paper.
    fn turns(&self, machine: &Described) -> Result<Vec<Moment>> {
        let ticks = self.lengths.response_ticks;
        let one = format!("vm run --append 'test=response interval_ms={ticks}' /in/guest-rtos >/dev/null & ");
        let command = format!("{}wait", one.repeat(4));
        let (_, moments) = self.run_on(machine, &self.points(&KERNELS[0])?, &["rtos"], &command)?;
        Ok(moments::from_ticks_of_each(&moments, 4, 16))
    }

    /// On a machine where an instruction takes a nanosecond, and nothing else takes time.
    fn instructions(&self, machine: &Described) -> Result<[Parts; 3]> {
        let kernel = &KERNELS[0];
        let append = format!("test=response interval_ms={} idle=1", QUICK.response_ticks);
        let command = format!("{GENERAL}{}", guest_command(kernel, &append));
        let (_, beside) = self.run_on(machine, &self.points(kernel)?, &[kernel.name, "heartbeat"], &command)?;
        let (beside, turns) = (moments::from_ticks(&beside, 16), self.turns(machine)?);
        let of = [(&beside, Why::Interrupt), (&beside, Why::Wait), (&turns, Why::Interrupt)];
        Ok(of.map(|(moments, why)| Parts::of(moments, why)))
    }

    fn scores(&self, kernel: &Kernel) -> Result<Scores> {
        let ticks = self.lengths.interval_ticks;
        let append = format!("interval_ms={ticks}");
        let guest = guest_command(kernel, &append);
        let seconds = f64::from(ticks) * TICK_US / 1e6;
        let score = |output: &str| -> Result<Vec<f64>> {
            TESTS.iter().map(|test| Ok(count(output, test.name)? / seconds)).collect()
        };
        let points = self.guest_points(kernel)?;
        let (output, _) = self.run(&points, &[kernel.name], &guest)?;
        let command = format!("{}{guest}", GENERAL.repeat(3));
        let (beside, _) = self.run(&points, &[kernel.name, "heartbeat"], &command)?;
        let native: Result<Vec<f64>> = TESTS.iter().map(|test| self.native_score(kernel, test.name)).collect();
        Ok(Scores { native: native?, vm: score(&output)?, beside: score(&beside)? })
    }

    /// Runs a test on the bare board, with ticks of that length: what it has printed, and when it came by points.
    fn native(&self, kernel: &Kernel, append: &str, tick_us: u32) -> Result<(String, Vec<Moment>)> {
        let path = self.image(kernel.name);
        let image = Image::read(&path)?;
        let mut points = self.guest_points(kernel)?;
        image.instructions(|word| word == image::CALL).into_iter().for_each(|at| {
            points.add(What::Tick, at, None);
            points.add(What::TickSet, at + 4, None);
        });
        let timed = timed::Options {
            plugin: self.machines.project.target.join(timed::plugin_path()),
            quantum_ps: 1_000_000,
            quantum_max_ps: 1_000_000,
            quantum_least_ps: 1_000_000,
            deterministic: false,
            accesses: None,
            points: points.0.iter().map(|(_, point)| point.clone()).collect(),
        };
        let append = format!("{append} tick_us={tick_us}");
        let program = bare::Program { image: &path, append: &append, shift: SHIFT, at_most: AT_MOST };
        let outcome = bare::run(&self.machine.machine, &timed, &program)?;
        Ok((outcome.output, points.moments(&outcome.passages)))
    }

    /// The length of ticks, in the board's time, of which a test on the board has one in a millisecond.
    fn native_tick_us(&self, kernel: &Kernel, test: &str) -> Result<u32> {
        let (output, moments) = self.native(kernel, &format!("test={test} interval_ms=10"), FIRST_TICK_US)?;
        let first_us = moments::tick_us(&moments).ok_or_else(|| damaged(&output))?;
        Ok((f64::from(FIRST_TICK_US) * TICK_US / first_us).round() as u32)
    }

    fn native_score(&self, kernel: &Kernel, test: &str) -> Result<f64> {
        let tick_us = self.native_tick_us(kernel, test)?;
        let interval_ms = self.lengths.interval_ticks * tick_us / 1000;
        let ticks = interval_ms * 1000 / tick_us;
        let (output, moments) = self.native(kernel, &format!("test={test} interval_ms={interval_ms}"), tick_us)?;
        let tick_us = moments::tick_us(&moments).ok_or_else(|| damaged(&output))?;
        Ok(count(&output, test)? / (f64::from(ticks) * tick_us / 1e6))
    }

    fn response(&self, kernel: &Kernel) -> Result<Response> {
        let ticks = self.lengths.response_ticks;
        let tick_us = self.native_tick_us(kernel, "response")?;
        let interval_ms = ticks * tick_us / 1000;
        let (_, native) = self.native(kernel, &format!("test=response interval_ms={interval_ms}"), tick_us)?;
        let points = self.points(kernel)?;
        let append = format!("test=response interval_ms={ticks}");
        let (_, alone) = self.run(&points, &[kernel.name], &guest_command(kernel, &append))?;
        let beside = |general: &str| {
            self.beside(kernel, &points, &format!("{general}{}", guest_command(kernel, &format!("{append} idle=1"))))
        };
        let [native, alone] = [native, alone].map(|moments| moments::from_ticks(&moments, 16));
        Ok(Response {
            release_native: Spread::of(&moments::releases(&native)),
            native_call: Spread::of(&moments::timer_calls(&native)),
            release_vm: Spread::of(&moments::releases(&alone)),
            beside: beside(GENERAL)?,
            quiet: beside(QUIET)?,
        })
    }

    fn beside(&self, kernel: &Kernel, points: &Points, command: &str) -> Result<Beside> {
        let (_, moments) = self.run(points, &[kernel.name, "heartbeat"], command)?;
        let moments = moments::from_ticks(&moments, 16);
        let ways = Ways::of(&moments, self.entry_us());
        Ok(Beside {
            release: Spread::of(&moments::releases(&moments)),
            preemption: Spread::of(&ways.preemptions),
            critical: Spread::of(&ways.all),
        })
    }
}

/// A general guest that computes for as long as the machine runs, and prints once a second, for which its monitor runs.
const GENERAL: &str = "vm run /in/guest-heartbeat >/dev/null & ";
/// The same, which prints at its beginning only.
const QUIET: &str = "vm run --append interval_ms=100000 /in/guest-heartbeat >/dev/null & ";

/// As in the paper, the real-time guest is above all others, and leaves them nothing as long as it computes.
fn guest_command(kernel: &Kernel, append: &str) -> String {
    const NO_LIMIT: &str = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us";
    format!("{NO_LIMIT}; vm run --real-time 50 --append '{append}' /in/guest-{}", kernel.name)
}

/// A line `POINT CORE PICOSECONDS VALUE`.
pub fn passage(line: &str) -> Option<Passage> {
    let words: Vec<&str> = line.split(' ').collect();
    let [point, core, at_ps, value] = words[..] else { return None };
    let value = u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?;
    Some(Passage { point: point.parse().ok()?, core: core.parse().ok()?, at_ps: at_ps.parse().ok()?, value })
}

/// What a test has counted, by its line.
fn count(output: &str, test: &str) -> Result<f64> {
    let found = output.lines().find_map(|line| line.trim_end().strip_prefix(test)?.strip_prefix(' ')?.parse().ok());
    found.ok_or_else(|| damaged(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_runs_are_read() {
        let wanted = Passage { point: 3, core: 0, at_ps: 1234, value: 0x15 };
        assert_eq!(passage("3 0 1234 0x15"), Some(wanted));
        for wrong in ["", "3 0 1234", "3 0 1234 15", "x 0 1 0x1"] {
            assert_eq!(passage(wrong), None, "{wrong}");
        }
        let output = "motet-rtos: interval 20 ms\r\ninterrupt-preemption 7\r\ninterrupt 5\r\n";
        assert_eq!(count(output, "interrupt").unwrap(), 5.0);
        assert!(count(output, "memory").is_err());
    }
}
