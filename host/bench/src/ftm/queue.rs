//! Figure 4: threads of 1 to 8 cores that want vectors at the same time, which one accelerator has, or two.

use motet_error::Result;

use super::rivals::{Bench, MACHINES, QUANTUM_US, Rival, cost};
use crate::{
    motet::Described,
    project,
    report::{Measurement, number},
};

/// Application cores, each of which has a thread.
const MOST: u32 = 8;
const QUICK: [u32; 2] = [1, 4];
const ACCELERATORS: [u32; 2] = [1, 2];

/// One rival on machines with this many accelerators.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The rival.
    pub rival: Rival,
    /// Cores with vectors.
    pub accelerators: u32,
    /// Cores without, each with a thread, and cycles until all threads have ended.
    pub points: Vec<[f64; 2]>,
    machine: String,
}

impl Queue {
    /// The longest time, over that of so many threads one after the other as one alone takes, dealt out to the accelerators.
    pub fn over_linear(&self) -> f64 {
        let Some(&[_, alone]) = self.points.first() else { return f64::NAN };
        let over = |&[threads, cycles]: &[f64; 2]| cycles / (alone * linear(threads, self.accelerators));
        self.points.iter().skip(1).map(over).fold(0.0, f64::max)
    }
}

/// Turns that one of the accelerators has, with threads dealt out to all.
pub fn linear(threads: f64, accelerators: u32) -> f64 {
    (threads / f64::from(accelerators)).ceil()
}

/// Measures all rivals.
///
/// # Errors
/// A run fails.
pub fn measure(bench: &Bench, quick: bool) -> Result<Vec<Queue>> {
    let mut queues = Vec::new();
    for rival in [Rival::Fused, Rival::Firmware, Rival::Pinned] {
        for accelerators in ACCELERATORS {
            let mut queue = Queue { rival, accelerators, points: Vec::new(), machine: String::new() };
            let all: Vec<u32> = if quick { QUICK.to_vec() } else { (1..=MOST).collect() };
            for cores in all {
                let machine = machine(bench, rival, cores, accelerators)?;
                queue.machine = project::describe(&machine.machine)?;
                let words = format!("queue {cores} {accelerators}");
                let cycles =
                    cost(&bench.run(&machine, QUANTUM_US, rival, MACHINES[0].visible.1, &words)?, "queue")?.cycles;
                queue.points.push([f64::from(cores), cycles]);
            }
            let shown: Vec<String> = queue.points.iter().map(|[_, cycles]| number(*cycles)).collect();
            eprintln!("motet: {}, {accelerators} accelerators: {} cycles", rival.name(), shown.join(", "));
            queues.push(queue);
        }
    }
    Ok(queues)
}

fn machine(bench: &Bench, rival: Rival, cores: u32, accelerators: u32) -> Result<Described> {
    let how = format!("{cores}-{accelerators}");
    if rival == Rival::Firmware {
        let changes = [
            ("cores = 1\n", format!("cores = {cores}\n")),
            ("hidden_harts = 1", format!("hidden_harts = {accelerators}")),
        ];
        let changes = changes.each_ref().map(|(from, to)| (*from, &**to));
        return bench.machines.changed(&bench.machines.machine("ftm-firmware")?, &how, &changes);
    }
    let changes =
        [("cores = 1\n\n", format!("cores = {cores}\n\n")), ("cores = 1\ncpu", format!("cores = {accelerators}\ncpu"))];
    let changes = changes.each_ref().map(|(from, to)| (*from, &**to));
    bench.machines.changed(&bench.machines.machine("ftm")?, &how, &changes)
}

/// What was measured, for the table and the JSON file.
pub fn measurements(queues: &[Queue]) -> Vec<Measurement> {
    let mut all = Vec::new();
    let source = "threads that use vectors for some 3 million instructions, one on each core without; reference: of one thread alone";
    for queue in queues {
        let (rival, accelerators) = (queue.rival.metric(), queue.accelerators);
        let alone = queue.points.first().map(|&[_, cycles]| cycles);
        for &[threads, cycles] in &queue.points {
            all.push(Measurement {
                metric: format!("queue_{rival}_{threads}_threads_{accelerators}_accelerators_cycles"),
                value: cycles,
                unit: "cycles",
                machine: queue.machine.clone(),
                reference: alone.map(|alone| alone * linear(threads, accelerators)),
                target: None,
                source: source.into(),
            });
        }
    }
    for rival in [Rival::Fused, Rival::Firmware, Rival::Pinned] {
        let of_rival: Vec<&Queue> = queues.iter().filter(|queue| queue.rival == rival).collect();
        let Some(first) = of_rival.first() else { continue };
        all.push(Measurement {
            metric: format!("queue_over_linear_max_{}", rival.metric()),
            value: of_rival.iter().map(|queue| queue.over_linear()).fold(0.0, f64::max),
            unit: "ratio",
            machine: first.machine.clone(),
            reference: None,
            target: (rival != Rival::Pinned).then_some(1.0),
            source: "the largest ratio of these to their references; the paper's Figure 4: not above 1".into(),
        });
    }
    let both = queues.iter().filter(|queue| queue.rival != Rival::Pinned);
    let worst = both.max_by(|a, b| a.over_linear().total_cmp(&b.over_linear()));
    all.extend(worst.map(|worst| Measurement {
        metric: "queue_over_linear_max".into(),
        value: worst.over_linear(),
        unit: "ratio",
        machine: worst.machine.clone(),
        reference: None,
        target: Some(1.0),
        source: "of both ways".into(),
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_is_what_one_thread_after_the_other_takes() {
        let queue = |accelerators, points: &[[f64; 2]]| Queue {
            rival: Rival::Fused,
            accelerators,
            points: points.to_vec(),
            machine: String::new(),
        };
        assert_eq!(queue(1, &[[1.0, 100.0], [2.0, 150.0], [3.0, 330.0]]).over_linear(), 1.1);
        // Three threads on two accelerators: one of these has two.
        assert_eq!(queue(2, &[[1.0, 100.0], [2.0, 100.0], [3.0, 180.0]]).over_linear(), 1.0);
    }
}
