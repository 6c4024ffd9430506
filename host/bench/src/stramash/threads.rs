//! A thread on each island at once: EP, CG and IS on three islands of one core each, beside the same program on one of them. The paper's programs have one thread.

use motet_error::{Error, ErrorKind, Result};

use super::runs::{Case, Kept, Runs};
use crate::{project, report::Measurement};

const MACHINE: &str = "three-islands";

/// A program, its class, and the speed-up that it is to reach. IS of class S takes 2 ms an iteration, most of which threads wait for each other.
const PROGRAMS: [(&str, char, f64); 3] = [("ep", 'S', 2.5), ("cg", 'S', 1.6), ("is", 'W', 1.6)];

/// Measures all of them.
///
/// # Errors
/// A program does not compile, or the machine file is missing.
pub fn measure(runs: &mut Runs) -> Result<Vec<Result<Vec<Measurement>>>> {
    let machine = runs.machines.machine(MACHINE)?;
    let described = project::describe(&machine.machine)?;
    let mut cases = Vec::new();
    for (program, class, _) in PROGRAMS {
        let options = ["-O2", &format!("-DCLASS_{class}")];
        let compiled = runs.compile(&format!("user/npb/{program}.c"), &options, &format!("{program}-o2-{class}"))?;
        cases.push(["home", "threads"].map(|schedule| Case {
            program: compiled.clone(),
            arguments: schedule.into(),
            machine: machine.clone(),
            weight: 2.0,
        }));
    }
    runs.announce(cases.iter().flatten());
    let mut all = Vec::new();
    for ((program, class, target), cases) in PROGRAMS.into_iter().zip(&cases) {
        let mut seconds = |case| runs.run(case).and_then(|kept| verified(&kept, program));
        let [home, threads] = cases.each_ref().map(&mut seconds);
        all.push(home.and_then(|home| Ok(measurements((program, class, target), home, threads?, &described))));
    }
    Ok(all)
}

/// Seconds of the timed part, if the sums are the published ones.
fn verified(kept: &Kept, program: &str) -> Result<f64> {
    if !kept.output.lines().any(|line| line.ends_with(" verified")) {
        return Err(Error::new(ErrorKind::Software, format!("{}: not verified:\n{}", kept.what, kept.output)));
    }
    Ok(kept.region(program)?.time_ps as f64 / 1e12)
}

fn measurements(
    (program, class, target): (&str, char, f64),
    home_s: f64,
    threads_s: f64,
    machine: &str,
) -> Vec<Measurement> {
    let of = |name: &str, value: f64, unit, target, what: &str| Measurement {
        metric: format!("npb_threads_three_islands_{name}_{program}"),
        value,
        unit,
        machine: machine.into(),
        reference: None,
        target,
        source: format!("class {class}, -O2, on machines/{MACHINE}.toml: {what}"),
    };
    vec![
        of("speedup", home_s / threads_s, "ratio", Some(target), "one thread at home over a thread on each island"),
        of("home_ms", 1e3 * home_s, "ms", None, "one thread, on x86-64"),
        of("ms", 1e3 * threads_s, "ms", None, "a thread on each island"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_ups_are_over_the_program_at_home() {
        let all = measurements(PROGRAMS[0], 1.5, 0.5, "m");
        assert_eq!((&*all[0].metric, all[0].value), ("npb_threads_three_islands_speedup_ep", 3.0));
        assert_eq!((all[1].value, all[2].value, all[0].target), (1500.0, 500.0, Some(2.5)));
        crate::report::assert_each_once(&all);
    }

    #[test]
    fn a_wrong_sum_is_no_time() {
        let kept = Kept { output: "EP class S schedule home NOT VERIFIED\n".into(), ..Kept::default() };
        assert!(verified(&kept, "ep").unwrap_err().message.contains("not verified"));
    }
}
