//! One thread: a migration there and back, system calls, a product of matrices, fresh memory.

use motet_error::Result;

use super::{
    paper,
    rivals::{Accelerated, Bench, Cost, Costs, QUANTUM_US, Rival, cost},
};
use crate::{
    project,
    report::{Measurement, number},
};

/// System calls in an entry of the regions `home` and `away`.
const BATCH: f64 = 20.0;
/// The program's marks, of what is counted on Linux.
const MARKS: [(usize, &str); 8] =
    [(0, "migrate"), (1, "home"), (2, "away"), (3, "dgemm"), (4, "repeat"), (5, "touch"), (8, "first"), (9, "calls")];

/// What a rival's thread cost.
#[derive(Clone, Debug)]
pub struct Column {
    /// The rival.
    pub rival: Rival,
    /// What it ran on.
    pub machine: String,
    costs: Costs,
}

impl Column {
    fn cost(&self, region: &str) -> Cost {
        // `measure` has seen to it that all are there.
        self.costs.get(region).copied().unwrap_or(Cost { cycles: f64::NAN, instructions: f64::NAN })
    }

    /// Cycles of an entry.
    pub fn cycles(&self, region: &str) -> f64 {
        let batch = if matches!(region, "home" | "away") { BATCH } else { 1.0 };
        self.cost(region).cycles / batch
    }
}

/// What the program is to do: a few times, or often.
fn words(quick: bool) -> String {
    let [migrations, repeated] = if quick { [20, 50] } else { [100, 1000] };
    format!("migrate {migrations} getpid 20 dgemm 20 calls 20 repeat {repeated} touch 2")
}

/// Measures all rivals that a machine has.
///
/// # Errors
/// A run fails.
pub fn measure(bench: &Bench, machine: &Accelerated, quick: bool) -> Result<Vec<Column>> {
    let (file, accelerator) = machine.visible;
    let mut columns = vec![
        column(bench, file, Rival::Fused, accelerator, quick)?,
        column(bench, file, Rival::Pinned, accelerator, quick)?,
    ];
    if let Some(file) = machine.hidden {
        columns.insert(1, column(bench, file, Rival::Firmware, accelerator, quick)?);
    }
    Ok(columns)
}

fn column(bench: &Bench, file: &str, rival: Rival, accelerator: u32, quick: bool) -> Result<Column> {
    let described = bench.machines.machine(file)?;
    let costs = bench.run(&described, QUANTUM_US, rival, accelerator, &words(quick))?;
    let machine = format!("machines/{file}.toml: {}", project::describe(&described.machine)?);
    checked(Column { rival, machine, costs })
}

/// Measures Linux, in instructions of both harts.
///
/// # Errors
/// A run fails.
pub fn measure_linux(bench: &Bench, quick: bool) -> Result<Vec<Column>> {
    let column = |rival| {
        let costs = bench.run_linux(rival, &words(quick), &MARKS)?;
        checked(Column { rival, machine: bench.describe_linux(rival)?, costs })
    };
    Ok(vec![column(Rival::LinuxFirmware)?, column(Rival::LinuxPinned)?])
}

fn checked(column: Column) -> Result<Column> {
    for region in ["migrate", "first", "home", "away", "dgemm", "calls", "repeat", "touch"] {
        cost(&column.costs, region)?;
    }
    let [migration, away, product] = ["migrate", "away", "dgemm"].map(|region| number(column.cycles(region)));
    eprintln!("motet: {}: migration {migration} cycles, getpid away {away}, dgemm {product}", column.rival.name());
    Ok(column)
}

/// The measurements of one machine.
pub fn measurements(machine: &Accelerated, columns: &[Column]) -> Vec<Measurement> {
    let mut all = Vec::new();
    for column in columns {
        all.extend(absolute(column, machine.suffix));
    }
    let Some(pinned) = columns.iter().find(|column| column.rival == Rival::Pinned) else { return all };
    for column in columns.iter().filter(|column| column.rival != Rival::Pinned) {
        all.extend(over_pinned(column, pinned, machine.suffix));
    }
    let find = |rival| columns.iter().find(|column| column.rival == rival);
    if let Some(fused) = find(Rival::Fused) {
        let ratio = fused.cycles("away") / fused.cycles("home");
        let source = "getpid at the core with vectors, a vector instruction before each, over one at home";
        let measured = measurement(fused, format!("getpid_away_fused_ratio{}", machine.suffix), ratio, "ratio", source);
        all.push(Measurement { target: Some(1.1), ..measured });
        if let Some(firmware) = find(Rival::Firmware) {
            let ratio = firmware.cycles("touch") / fused.cycles("touch");
            let source = "10 MiB of fresh memory written by vector stores, nothing locked";
            let name = format!("first_touch_firmware_over_fused{}", machine.suffix);
            all.push(Measurement { target: Some(5.0), ..measurement(fused, name, ratio, "ratio", source) });
        }
        let both = columns.iter().filter(|column| column.rival != Rival::Pinned);
        let slowest = both.map(|column| column.cycles("dgemm") / pinned.cycles("dgemm")).fold(0.0, f64::max);
        let name = format!("dgemm_over_pinned{}", machine.suffix);
        let source = "product of 43x43x43, begun at home: the slowest way over a pinned thread";
        let measured = measurement(fused, name, slowest, "ratio", source);
        all.push(Measurement { reference: Some(paper::DGEMM_OVER_PINNED), target: Some(1.0), ..measured });
    }
    all
}

/// The measurements of Linux.
pub fn linux_measurements(columns: &[Column]) -> Vec<Measurement> {
    let mut all: Vec<Measurement> = columns.iter().flat_map(|column| absolute(column, "")).collect();
    if let [firmware, pinned] = columns {
        all.extend(over_pinned(firmware, pinned, ""));
    }
    all
}

fn measurement(column: &Column, metric: String, value: f64, unit: &'static str, source: &str) -> Measurement {
    Measurement {
        metric,
        value,
        unit,
        machine: column.machine.clone(),
        reference: None,
        target: None,
        source: source.into(),
    }
}

fn absolute(column: &Column, suffix: &str) -> Vec<Measurement> {
    let rival = column.rival.metric();
    // There is no clock on Linux that knows instructions: cycles are instructions there, as on Spike.
    let unit =
        if matches!(column.rival, Rival::LinuxFirmware | Rival::LinuxPinned) { "instructions" } else { "cycles" };
    let of = |what: &str, region: &str, source: &str| {
        measurement(column, format!("{what}_{rival}_{unit}{suffix}"), column.cycles(region), unit, source)
    };
    let is_firmware = matches!(column.rival, Rival::Firmware | Rival::LinuxFirmware);
    let migration = Measurement {
        reference: (!is_linux_pinned(column)).then_some(paper::MIGRATION_CYCLES),
        target: is_firmware.then_some(1700.0),
        ..of("migration", "migrate", "a thread goes to vectors and comes back; reference: Table 2")
    };
    let away = Measurement {
        reference: is_firmware.then_some(paper::GETPID_AWAY_CYCLES),
        ..of(
            "getpid_away",
            "away",
            "getpid where the vectors are, a vector instruction before each; reference: Table 2",
        )
    };
    let home = Measurement {
        reference: Some(paper::GETPID_HOME_CYCLES),
        ..of("getpid_home", "home", "getpid where the thread began; reference: Table 2")
    };
    let mut all = vec![
        migration,
        of("migration_first", "first", "the first time, with what is made then"),
        home,
        away,
        of("dgemm", "dgemm", "product of 43x43x43, begun at home"),
        of("dgemm_14_calls", "calls", "the same with 14 system calls in it"),
        of("dgemm_repeated", "repeat", "1000 products in a row (--quick: 50)"),
        of("first_touch", "touch", "10 MiB of fresh memory written by vector stores"),
    ];
    if unit == "cycles" {
        let instructions = column.cost("migrate").instructions;
        let name = format!("migration_{rival}_instructions{suffix}");
        let source = "of both cores, the firmware's included";
        all.push(Measurement {
            target: (column.rival == Rival::Fused).then_some(1200.0),
            ..measurement(column, name, instructions, "instructions", source)
        });
    }
    all
}

fn is_linux_pinned(column: &Column) -> bool {
    column.rival == Rival::LinuxPinned
}

/// What a way costs over pinning on the same kernel.
fn over_pinned(column: &Column, pinned: &Column, suffix: &str) -> Vec<Measurement> {
    let rival = column.rival.metric();
    let ratio = |what: &str, region: &str, reference, target, source: &str| {
        let value = column.cycles(region) / pinned.cycles(region);
        let name = format!("{what}_{rival}_over_pinned{suffix}");
        Measurement { reference, target, ..measurement(column, name, value, "ratio", source) }
    };
    let is_fused = column.rival == Rival::Fused;
    vec![
        ratio(
            "migration",
            "migrate",
            Some(1.0 / paper::FASTER_THAN_PINNING),
            None,
            "there and back, over sched_setaffinity on the same kernel; reference: Figure 3",
        ),
        ratio("dgemm", "dgemm", Some(paper::DGEMM_OVER_PINNED), Some(1.0), "reference: Figure 5"),
        ratio(
            "dgemm_14_calls",
            "calls",
            Some(paper::CALLS_OVER_PINNED),
            is_fused.then_some(1.03),
            "reference: Figure 5",
        ),
        ratio("dgemm_1000", "repeat", Some(paper::REPEATED_OVER_PINNED), Some(1.0), "reference: Figure 6"),
    ]
}

/// Heads of the table of one machine.
pub fn heads(columns: &[Column]) -> Vec<String> {
    let names = columns.iter().map(|column| column.rival.name().to_owned());
    std::iter::once("cycles".to_owned()).chain(names).collect()
}

/// Rows of the table of one machine.
pub fn rows(columns: &[Column]) -> Vec<Vec<String>> {
    let row = |(what, region): (&str, &str)| {
        let cells = columns.iter().map(|column| number(column.cycles(region)));
        std::iter::once(what.to_owned()).chain(cells).collect()
    };
    [
        ("migration there and back", "migrate"),
        ("the first time", "first"),
        ("getpid at home", "home"),
        ("getpid where the vectors are", "away"),
        ("dgemm 43³", "dgemm"),
        ("dgemm 43³, 14 system calls", "calls"),
        ("dgemm 43³, repeated", "repeat"),
        ("first touch of 10 MiB", "touch"),
    ]
    .map(row)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::{super::rivals::MACHINES, *};

    fn column(rival: Rival, cycles: f64) -> Column {
        let regions = ["migrate", "first", "home", "away", "dgemm", "calls", "repeat", "touch"];
        let costs = regions.map(|region| (region.to_owned(), Cost { cycles, instructions: 2.0 * cycles }));
        Column { rival, machine: "m".into(), costs: costs.into() }
    }

    #[test]
    fn ratios_are_over_the_right_rival() {
        let columns = [column(Rival::Fused, 90.0), column(Rival::Firmware, 500.0), column(Rival::Pinned, 100.0)];
        let all = measurements(&MACHINES[0], &columns);
        let value = |name: &str| all.iter().find(|measured| measured.metric == name).unwrap().value;
        assert_eq!(value("dgemm_fused_over_pinned"), 0.9);
        assert_eq!(value("dgemm_over_pinned"), 5.0, "the slowest way");
        assert_eq!(value("first_touch_firmware_over_fused"), 500.0 / 90.0);
        assert_eq!(value("getpid_away_fused_ratio"), 1.0);
        assert_eq!(value("migration_fused_instructions"), 180.0);
        assert_eq!(value("getpid_home_pinned_cycles"), 5.0, "batches of 20");
        crate::report::assert_each_once(&all);
    }

    #[test]
    fn a_region_that_is_missing_is_named() {
        let mut column = column(Rival::Pinned, 1.0);
        column.costs.remove("touch");
        assert!(checked(column).unwrap_err().message.contains("`touch`"));
    }
}
