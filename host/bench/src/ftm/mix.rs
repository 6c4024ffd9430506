//! A machine that is full: 8 scalar and 8 vector processes on 4 cores and 2 accelerators, by the kernel's choice and with cores of their own.

use motet_error::Result;

use super::rivals::{Accelerated, Bench, Cost, LONG_QUANTUM_US, MACHINES, Rival, cost};
use crate::{
    motet::Described,
    project,
    report::{Measurement, number},
};

/// Processes of each kind, and cores and accelerators, as in `user/ftm/ftm.c`.
const EACH: f64 = 8.0;
const CORES: u32 = 4;
const ACCELERATORS: u32 = 2;
/// Instructions in a phase, there too.
const PHASE: f64 = 50e6;
const PHASES: u32 = 4;
const QUICK_PHASES: u32 = 2;

/// What was measured on one machine, in cycles until the last process had ended.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Its name in tables and on the page.
    pub title: &'static str,
    suffix: &'static str,
    /// Each process is bound to a core of its kind.
    pub pinned: f64,
    /// The kernel's choice.
    pub fused: f64,
    /// The same, and vector processes say when they are done with vectors.
    pub hinted: f64,
    /// What a schedule that knows all takes at least.
    pub oracle: f64,
    machine: String,
}

/// Measures both machines: cores and accelerators have a kernel each, or one.
///
/// # Errors
/// A run fails.
pub fn measure(bench: &Bench, quick: bool) -> Result<Vec<Mix>> {
    let phases = if quick { QUICK_PHASES } else { PHASES };
    let of = |kernels: &Accelerated, changes: &[(&str, String)]| {
        let changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, &**to)).collect();
        let (file, accelerator) = kernels.visible;
        let machine = bench.machines.changed(&bench.machines.machine(file)?, "mix", &changes)?;
        let accelerator = if accelerator == 1 { CORES } else { accelerator };
        measure_on(bench, kernels, &machine, accelerator, phases)
    };
    let [two, one, _] = &MACHINES;
    let two_changes =
        [("cores = 1\n\n", format!("cores = {CORES}\n\n")), ("cores = 1\ncpu", format!("cores = {ACCELERATORS}\ncpu"))];
    let one_changes = [
        ("cores = 2\n", format!("cores = {}\n", CORES + ACCELERATORS)),
        ("cores = [1]", format!("cores = [{CORES}, {}]", CORES + 1)),
    ];
    Ok(vec![of(two, &two_changes)?, of(one, &one_changes)?])
}

fn measure_on(bench: &Bench, kernels: &Accelerated, machine: &Described, accelerator: u32, phases: u32) -> Result<Mix> {
    let run = |rival: Rival, what: &str| -> Result<f64> {
        let words = format!("{what} {phases}");
        let Cost { cycles, .. } = cost(&bench.run(machine, LONG_QUANTUM_US, rival, accelerator, &words)?, "mix")?;
        eprintln!("motet: mix, {}, {} ({what}): {} cycles", kernels.title, rival.name(), number(cycles));
        Ok(cycles)
    };
    Ok(Mix {
        title: kernels.title,
        suffix: kernels.suffix,
        pinned: run(Rival::Pinned, "mix")?,
        fused: run(Rival::Fused, "mix")?,
        hinted: run(Rival::Fused, "hinted")?,
        oracle: oracle(f64::from(phases)),
        machine: project::describe(&machine.machine)?,
    })
}

/// A lower bound: all work divided among all cores, or all vector work among the accelerators, whatever takes longer.
fn oracle(phases: f64) -> f64 {
    let vector_phases = EACH * (phases / 2.0).floor();
    let all = 2.0 * EACH * phases / f64::from(CORES + ACCELERATORS);
    let of_accelerators = vector_phases / f64::from(ACCELERATORS);
    PHASE * all.max(of_accelerators)
}

/// What was measured, for the table and the JSON file.
pub fn measurements(mix: &Mix) -> Vec<Measurement> {
    let measurement = |metric: &str, value, unit, target, source: &str| Measurement {
        metric: format!("{metric}{}", mix.suffix),
        value,
        unit,
        machine: mix.machine.clone(),
        reference: None,
        target,
        source: source.into(),
    };
    let what = "8 scalar and 8 vector processes on 4 cores and 2 accelerators";
    vec![
        measurement("mix_pinned_cycles", mix.pinned, "cycles", None, &format!("{what}, each on cores of its kind")),
        measurement("mix_fused_cycles", mix.fused, "cycles", None, &format!("{what}, by the kernel's choice")),
        measurement("mix_hinted_cycles", mix.hinted, "cycles", None, "the same with motet_done() after vector phases"),
        measurement("mix_oracle_cycles", mix.oracle, "cycles", None, "a lower bound: no schedule is faster"),
        measurement("mix_fused_over_pinned", mix.pinned / mix.fused, "throughput", Some(1.0), "more is better"),
        measurement("mix_hinted_over_pinned", mix.pinned / mix.hinted, "throughput", Some(1.0), "more is better"),
        measurement("mix_fused_over_oracle", mix.oracle / mix.fused, "throughput", None, "1 is out of reach"),
        measurement("mix_hinted_over_oracle", mix.oracle / mix.hinted, "throughput", None, "1 is out of reach"),
        measurement("mix_pinned_over_oracle", mix.oracle / mix.pinned, "throughput", None, "1 is out of reach"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_schedule_is_faster_than_the_oracle() {
        // 64 phases on six cores; 16 vector phases on two would take less.
        assert_eq!(oracle(4.0), PHASE * 64.0 / 6.0);
    }
}
