//! Two threads that wake each other, one of them away (`user/stramash/futex.c`, Figure 13).

use motet_error::{Error, ErrorKind, Result};

use super::runs::{Case, Kept, Model, Runs, Size, System};
use crate::{project, report::Measurement};

const ROUNDS: u32 = 200;
/// In each round both threads are woken once.
const WAKES: f64 = 2.0 * ROUNDS as f64;

/// Wake-ups on a system.
#[derive(Clone, Copy, Debug)]
pub struct Wakes {
    /// Microseconds from one wake-up to the next.
    pub us: f64,
    /// The same of two threads at home.
    pub home_us: f64,
    /// Doorbells of all cores for each wake-up.
    pub doorbells: f64,
}

/// Wake-ups in a memory model.
#[derive(Clone, Debug)]
pub struct Futex {
    /// Which model.
    pub model: Model,
    /// Of [`System::BOTH`].
    pub systems: [Wakes; 2],
    /// What it was measured on.
    pub machine: String,
}

/// Measures these models.
///
/// # Errors
/// The program does not compile, or a machine file is missing.
pub fn measure(runs: &mut Runs, models: &[Model]) -> Result<Vec<Result<Futex>>> {
    let program = runs.compile("user/stramash/futex.c", &["-O2", "-D_GNU_SOURCE"], "futex")?;
    let case = |system, model| -> Result<Case> {
        let machine = runs.machine(system, model, Size::default())?;
        Ok(Case { program: program.clone(), arguments: ROUNDS.to_string(), machine, weight: 0.5 })
    };
    let of = |&model: &Model| -> Result<(Model, [Case; 2])> {
        let [fused, rival] = System::BOTH.map(|system| case(system, model));
        Ok((model, [fused?, rival?]))
    };
    let cases = models.iter().map(of).collect::<Result<Vec<_>>>()?;
    runs.announce(cases.iter().flat_map(|(_, cases)| cases));
    Ok(cases.iter().map(|(model, cases)| of_model(runs, *model, cases)).collect())
}

fn of_model(runs: &mut Runs, model: Model, cases: &[Case; 2]) -> Result<Futex> {
    let [fused, rival] = cases.each_ref().map(|case| runs.run(case).and_then(|kept| wakes(&kept)));
    Ok(Futex { model, systems: [fused?, rival?], machine: project::describe(&cases[0].machine.machine)? })
}

fn wakes(kept: &Kept) -> Result<Wakes> {
    if !kept.output.lines().any(|line| line.ends_with(" verified")) {
        return Err(Error::new(ErrorKind::Software, format!("{}: not verified:\n{}", kept.what, kept.output)));
    }
    let (region, alone) = (kept.region("rounds")?, kept.region("alone")?);
    let us = |time_ps: u64| time_ps as f64 / 1e6 / WAKES;
    let doorbells: u64 = region.cores.iter().map(|core| core.ipis_received).sum();
    Ok(Wakes { us: us(region.time_ps), home_us: us(alone.time_ps), doorbells: doorbells as f64 / WAKES })
}

/// The figures.
pub fn measurements(all: &[Futex]) -> Vec<Measurement> {
    let mut measured: Vec<Measurement> = all.iter().flat_map(of_futex).collect();
    let worst = all.iter().max_by(|a, b| a.systems[0].doorbells.total_cmp(&b.systems[0].doorbells));
    measured.extend(worst.map(|futex| Measurement {
        target: Some(1.0),
        ..measurement(
            futex,
            "futex_doorbells_per_wake".into(),
            futex.systems[0].doorbells,
            "doorbells",
            "fused kernels; the worst memory model",
        )
    }));
    measured
}

fn of_futex(futex: &Futex) -> Vec<Measurement> {
    let model = futex.model.metric();
    let [fused, rival] = &futex.systems;
    let mut all = Vec::new();
    for (system, wakes) in System::BOTH.into_iter().zip(&futex.systems) {
        let name = system.metric();
        for (metric, value, unit, source) in [
            (
                "wake_us",
                wakes.us,
                "us",
                "a thread is woken, takes its lock, adds, and wakes the other, which is on the other island",
            ),
            ("home_wake_us", wakes.home_us, "us", "the same where both are at home"),
            ("doorbells", wakes.doorbells, "doorbells", "for each wake-up, of both cores"),
        ] {
            all.push(measurement(futex, format!("futex_{metric}_{name}_{model}"), value, unit, source));
        }
    }
    let source = "time of a wake-up with messages over time on fused kernels; Figure 13 has no figures in its text";
    all.push(measurement(futex, format!("futex_over_popcorn_shm_{model}"), rival.us / fused.us, "ratio", source));
    all
}

fn measurement(futex: &Futex, metric: String, value: f64, unit: &'static str, source: &str) -> Measurement {
    let machine = futex.machine.clone();
    Measurement { metric, value, unit, machine, reference: None, target: None, source: source.into() }
}

#[cfg(test)]
mod tests {
    use motet_fabric::stats::{CoreStats, RegionStats};

    use super::*;

    #[test]
    fn wake_ups_are_two_a_round() {
        let region = |name: &str, us: u64| RegionStats {
            name: name.into(),
            time_ps: us * 1_000_000,
            cores: vec![CoreStats { ipis_received: u64::from(ROUNDS), ..CoreStats::default() }; 2],
            ..RegionStats::default()
        };
        let output = "futex 200 to aarch64 verified\n".to_owned();
        let kept = Kept { output, regions: vec![region("alone", 1200), region("rounds", 4000)], ..Kept::default() };
        let wakes = wakes(&kept).unwrap();
        assert_eq!((wakes.us, wakes.home_us, wakes.doorbells), (10.0, 3.0, 1.0));
        assert!(super::wakes(&Kept::default()).unwrap_err().message.contains("not verified"));
    }

    #[test]
    fn the_headline_is_the_worst_model() {
        let futex = |model, doorbells, rival_us| Futex {
            model,
            systems: [
                Wakes { us: 10.0, home_us: 3.0, doorbells },
                Wakes { us: rival_us, home_us: 3.0, doorbells: 6.0 },
            ],
            machine: "m".into(),
        };
        let all = measurements(&[futex(Model::Separated, 1.0, 100.0), futex(Model::Shared, 1.5, 150.0)]);
        let value = |name: &str| all.iter().find(|measured| measured.metric == name).unwrap().value;
        assert_eq!((value("futex_doorbells_per_wake"), value("futex_over_popcorn_shm_shared")), (1.5, 15.0));
        crate::report::assert_each_once(&all);
    }
}
