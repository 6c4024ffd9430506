//! The HAL conformance suite on hosted islands of every page-table format.

use motet_hal_hosted::{Config, Defect, Driver, Faults, IslandConfig, Kernel, NoHost, run, run_seeds};
use motet_layout::Isa;

/// The suite in place of a kernel.
struct Suite;

impl Kernel for Suite {
    fn run<M: motet_hal::Machine>(machine: &'static M) -> ! {
        motet_hal::conformance::run(machine)
    }
}

fn islands() -> Vec<IslandConfig> {
    let mut split = IslandConfig::new(Isa::X86_64, 2);
    split.split_at = Some(32 << 20);
    vec![split, IslandConfig::new(Isa::AArch64, 3), IslandConfig::new(Isa::RiscV64, 1)]
}

fn conform(driver: Driver, faults: Faults, islands: Vec<IslandConfig>) -> Result<u64, motet_hal_hosted::Failure> {
    let mut config = Config::new(driver, islands);
    config.mode = "conformance";
    config.faults = faults;
    let count = config.islands.len();
    let outcome = run::<Suite>(config, Box::new(NoHost), |_| {})?;
    let logs: Vec<_> = outcome.logs.iter().map(|log| String::from_utf8_lossy(log).into_owned()).collect();
    let report = logs.join("");
    assert_eq!(outcome.status(), 0, "{report}");
    assert!(!report.contains("FAILED"), "{report}");
    assert_eq!(report.matches(" passed, 0 failed").count(), count + 1, "{report}");
    Ok(outcome.trace)
}

#[test]
fn threads() {
    conform(Driver::Threads, Faults::default(), islands()).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn one_island() {
    let one = vec![IslandConfig::new(Isa::RiscV64, 2)];
    conform(Driver::Threads, Faults::default(), one).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn seeds() {
    run_seeds(0..3, |seed| conform(Driver::Seeded(seed), Faults::default(), islands()).map(drop));
}

#[test]
fn seeds_with_late_doorbells_and_stalls() {
    let faults = Faults { bell_delay_ns_max: 200_000, stall_every: 500, stall_ns_max: 300_000, ..Faults::default() };
    run_seeds(100..103, |seed| conform(Driver::Seeded(seed), faults, islands()).map(drop));
}

#[test]
fn a_seed_reproduces_its_run() {
    let two = || vec![IslandConfig::new(Isa::X86_64, 2), IslandConfig::new(Isa::AArch64, 1)];
    let trace =
        |seed| conform(Driver::Seeded(seed), Faults::default(), two()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

/// The suite notices every defect: a suite that cannot fail proves nothing.
#[test]
fn defects_are_noticed() {
    for defect in Defect::ALL {
        let islands = vec![IslandConfig::new(Isa::AArch64, 2), IslandConfig::new(Isa::RiscV64, 1)];
        let mut config = Config::new(Driver::Seeded(1), islands);
        config.mode = "conformance";
        config.defect = Some(defect);
        config.check_stale = false; // the suite itself is to notice
        config.steps_max = 500_000;
        match run::<Suite>(config, Box::new(NoHost), |_| {}) {
            Ok(outcome) => {
                println!("{defect:?} fails the suite after {} steps", outcome.steps);
                assert_ne!(outcome.status(), 0, "{defect:?} was not noticed");
            }
            Err(failure) => println!("{defect:?} ends the run: {}", failure.message.lines().next().unwrap_or_default()),
        }
    }
}
