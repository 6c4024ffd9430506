//! What memory costs that the other island has written (`user/stramash/access.c`, Figure 11): the first time, and again.

use motet_error::{Error, ErrorKind, Result};

use super::{
    paper,
    runs::{Case, Kept, Model, Runs, Size, System},
};
use crate::{project, report::Measurement};

/// Regions of the program, and what they are.
pub const PASSES: [(&str, &str); 12] = [
    ("home", "home reads what home has written"),
    ("away_own", "the other island reads what it has written"),
    ("away_cold", "the other island reads what home has written, and what it has never used"),
    ("away_warm", "the other island reads that again"),
    ("away_later", "the other island reads that once more, after five more times"),
    ("home_cold", "home reads what the other island has written, and what it has never used"),
    ("home_warm", "home reads that again"),
    ("home_later", "home reads that once more, after five more times"),
    ("away_cold_write", "the other island writes what home has written, and what it has never used"),
    ("away_warm_write", "the other island writes that again"),
    ("home_cold_write", "home writes what the other island has written, and what it has never used"),
    ("home_warm_write", "home writes that again"),
];
/// The systems, in the order of their bars.
pub const SYSTEMS: [System; 6] = [
    System::Multikernel,
    System::Fused,
    System::Adaptive,
    System::Prefetch,
    System::ByReference,
    System::PrefetchByReference,
];
const FUSED: usize = 1;
const ADAPTIVE: usize = 2;
/// Those of them with a kernel for each island.
const RIVALS: [usize; 4] = [0, 3, 4, 5];

/// The passes in a memory model.
#[derive(Clone, Debug)]
pub struct Access {
    /// Which model.
    pub model: Model,
    /// Milliseconds by [`PASSES`], of [`SYSTEMS`].
    pub ms: [Vec<f64>; SYSTEMS.len()],
    /// What it was measured on.
    pub machine: String,
}

impl Access {
    /// So many times as long as another of [`SYSTEMS`] one takes, by [`PASSES`].
    fn ratios(&self, slow: usize, fast: usize) -> impl Iterator<Item = f64> {
        self.ms[slow].iter().zip(&self.ms[fast]).map(|(slow, fast)| slow / fast)
    }
}

/// Measures these models.
///
/// # Errors
/// The program does not compile, or a machine file is missing.
pub fn measure(runs: &mut Runs, models: &[Model]) -> Result<Vec<Result<Access>>> {
    let program = runs.compile("user/stramash/access.c", &["-O2"], "access")?;
    let case = |system, model| -> Result<Case> {
        let machine = runs.machine(system, model, Size::default())?;
        Ok(Case { program: program.clone(), arguments: String::new(), machine, weight: 2.0 })
    };
    let of = |&model: &Model| -> Result<(Model, Vec<Case>)> {
        Ok((model, SYSTEMS.into_iter().map(|system| case(system, model)).collect::<Result<_>>()?))
    };
    let cases = models.iter().map(of).collect::<Result<Vec<_>>>()?;
    runs.announce(cases.iter().flat_map(|(_, cases)| cases));
    Ok(cases.iter().map(|(model, cases)| of_model(runs, *model, cases)).collect())
}

fn of_model(runs: &mut Runs, model: Model, cases: &[Case]) -> Result<Access> {
    let mut ms = [const { Vec::new() }; SYSTEMS.len()];
    for (ms, case) in ms.iter_mut().zip(cases) {
        *ms = passes(&runs.run(case)?)?;
    }
    Ok(Access { model, ms, machine: project::describe(&cases[0].machine.machine)? })
}

fn passes(kept: &Kept) -> Result<Vec<f64>> {
    if !kept.output.lines().any(|line| line.ends_with(" verified")) {
        return Err(Error::new(ErrorKind::Software, format!("{}: not verified:\n{}", kept.what, kept.output)));
    }
    PASSES.iter().map(|(region, _)| Ok(kept.region(region)?.time_ps as f64 / 1e9)).collect()
}

/// The figures.
pub fn measurements(all: &[Access]) -> Vec<Measurement> {
    all.iter().flat_map(of_access).collect()
}

fn of_access(access: &Access) -> Vec<Measurement> {
    let model = access.model.metric();
    let of = |metric: String, value, unit, reference, source: String| Measurement {
        metric,
        value,
        unit,
        machine: access.machine.clone(),
        reference,
        target: None,
        source,
    };
    let mut all = Vec::new();
    for (system, ms) in SYSTEMS.into_iter().zip(&access.ms) {
        for ((region, what), &ms) in PASSES.iter().zip(ms) {
            let name = format!("access_{region}_ms_{}_{model}", system.metric());
            all.push(of(name, ms, "ms", None, format!("10 MiB, word by word: {what}")));
        }
    }
    for rival in RIVALS {
        let name = SYSTEMS[rival].metric();
        for ((region, _), ratio) in PASSES.iter().zip(access.ratios(rival, FUSED)) {
            let reference = paper::access(region, access.model).filter(|_| SYSTEMS[rival] == System::Multikernel);
            let source =
                "time with messages over time on fused kernels; reference: Figure 11, the most that its text says";
            all.push(of(format!("access_{region}_over_{name}_{model}"), ratio, "ratio", reference, source.into()));
        }
    }
    for ((region, _), ratio) in PASSES.iter().zip(access.ratios(0, ADAPTIVE)) {
        let name = format!("access_{region}_adaptive_over_popcorn_shm_{model}");
        all.push(of(name, ratio, "ratio", None, "the same where pages follow the islands that use them".into()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_over_fused_kernels_and_only_cold_reads_have_a_reference() {
        let ms = [9.0, 3.0, 4.0, 6.0, 7.0, 5.0].map(|ms| vec![ms; PASSES.len()]);
        let all = measurements(&[Access { model: Model::Shared, ms, machine: "m".into() }]);
        let of = |name: &str| all.iter().find(|measured| measured.metric == name).unwrap();
        assert_eq!(of("access_away_cold_over_popcorn_shm_shared").value, 3.0);
        assert_eq!(of("access_away_cold_over_popcorn_shm_shared").reference, Some(2.5));
        assert_eq!(of("access_away_warm_over_popcorn_shm_shared").reference, None);
        assert_eq!(of("access_away_cold_over_popcorn_prefetch_shared").value, 2.0);
        assert_eq!(of("access_away_cold_over_popcorn_prefetch_shared").reference, None);
        assert_eq!(of("access_home_warm_ms_adaptive_shared").value, 4.0);
        assert_eq!(of("access_home_warm_adaptive_over_popcorn_shm_shared").value, 2.25);
        crate::report::assert_each_once(&all);
    }

    #[test]
    fn a_wrong_sum_is_no_time() {
        let kept = Kept { output: "access 10 MiB to aarch64 WRONG SUM\n".into(), ..Kept::default() };
        assert!(passes(&kept).unwrap_err().message.contains("not verified"));
    }
}
