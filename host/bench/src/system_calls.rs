//! What system calls cost in instructions: alone and beside other islands, and on Linux with what users get and without
//! what can be left out.

use std::fmt::Write;

use motet_calls::OPERATIONS;
use motet_error::Result;
use motet_layout::Isa;

use crate::{
    counts::Costs,
    linux::{self, Reference, Settings},
    motet,
    project::{self, ISAS, Project},
    report::{Measurement, number},
};

/// The figures of one instruction set.
#[derive(Debug)]
pub struct Columns {
    isa: Isa,
    /// The island alone in its machine.
    alone: (String, Costs),
    /// The same island, with those of the other instruction sets.
    beside: (String, Costs),
    linux: Reference,
    further: [(Settings, Reference); Settings::FURTHER.len()],
}

/// Measures Motet; and Linux, if it was not measured before or `remeasure` asks for it.
///
/// # Errors
/// Linux or Motet does not run the operations to their end.
pub fn measure(project: &Project, isa: Isa, remeasure: bool) -> Result<Columns> {
    let linux = linux::reference(project, isa, Settings::Usual, remeasure)?;
    let [off, lean] =
        Settings::FURTHER.map(|settings| Ok((settings, linux::reference(project, isa, settings, remeasure)?)));
    let on = |islands: &[Isa]| {
        let (machine, costs) = motet::costs(project, isa, islands)?;
        Ok((project::describe(&machine.machine)?, costs))
    };
    eprintln!("motet: counting instructions of system calls on {}", isa.name());
    Ok(Columns { isa, alone: on(&[isa])?, beside: on(&ISAS)?, linux, further: [off?, lean?] })
}

/// Linux's figures alone, with what users get.
///
/// # Errors
/// Linux does not run the operations to their end.
pub fn linux_only(project: &Project, isa: Isa, remeasure: bool) -> Result<Vec<Measurement>> {
    let reference = linux::reference(project, isa, Settings::Usual, remeasure)?;
    let name = format!("{}_", Settings::Usual.name());
    Ok(measurements(isa, &name, &project::host(), &reference.costs, None, &reference.source))
}

impl Columns {
    /// Motet's figures beside Linux's, and the others beside those that they differ from.
    pub fn measurements(&self) -> Vec<Measurement> {
        let Self { isa, alone, beside, linux, further } = self;
        let source = format!("reference: {}", linux.source);
        let mut all = measurements(*isa, "", &alone.0, &alone.1, Some(&linux.costs), &source);
        let source = "with islands of the other instruction sets, which sleep; reference: the island alone";
        all.extend(measurements(*isa, "beside_islands_", &beside.0, &beside.1, Some(&alone.1), source));
        for (settings, reference) in further {
            let (name, source) =
                (format!("{}_", settings.name()), format!("{}; reference: {}", reference.source, linux.source));
            all.extend(measurements(*isa, &name, &project::host(), &reference.costs, Some(&linux.costs), &source));
        }
        all
    }

    /// All of them side by side, for people.
    pub fn table(&self) -> String {
        let heads = ["alone", "with islands", "Linux", "mitigations=off", "lean"];
        let [(_, off), (_, lean)] = &self.further;
        let columns = [&self.alone.1, &self.beside.1, &self.linux.costs, &off.costs, &lean.costs];
        let mut text = format!("\ninstructions on {}\n  {:<20}", self.isa.name(), "");
        let _ = writeln!(text, "{}", heads.map(|head| format!("{head:>16}")).concat());
        for (index, operation) in OPERATIONS.iter().enumerate() {
            let values = columns.map(|costs| format!("{:>16}", number(costs[index]))).concat();
            let _ = writeln!(text, "  {:<20}{values}", operation.name);
        }
        text
    }
}

fn measurements(
    isa: Isa,
    prefix: &str,
    machine: &str,
    costs: &Costs,
    references: Option<&Costs>,
    source: &str,
) -> Vec<Measurement> {
    let measurement = |index: usize| Measurement {
        metric: format!("{prefix}{}_instructions_{}", OPERATIONS[index].name, isa.name()),
        value: costs[index],
        unit: "instructions",
        machine: machine.to_owned(),
        reference: references.map(|references| references[index]),
        target: None,
        source: format!("median of {} batches; {source}", OPERATIONS[index].batches),
    };
    (0..OPERATIONS.len()).map(measurement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_compared_with_the_one_that_it_differs_from() {
        let costs = |first: f64| -> Costs { std::array::from_fn(|index| first + index as f64) };
        let linux = |first: f64| Reference::known(costs(first), "Linux");
        let further = [(Settings::MitigationsOff, linux(400.0)), (Settings::Lean, linux(300.0))];
        let (alone, beside) = (("one".to_owned(), costs(100.0)), ("three".to_owned(), costs(110.0)));
        let columns = Columns { isa: Isa::RiscV64, alone, beside, linux: linux(500.0), further };
        let all = columns.measurements();
        let found = |metric: &str| {
            let found = all.iter().find(|measurement| measurement.metric == metric);
            found.map(|measurement| (measurement.value, measurement.reference.unwrap()))
        };
        assert_eq!(found("getpid_instructions_riscv64"), Some((100.0, 500.0)));
        assert_eq!(found("beside_islands_getpid_instructions_riscv64"), Some((110.0, 100.0)));
        assert_eq!(found("linux_mitigations_off_getpid_instructions_riscv64"), Some((400.0, 500.0)));
        assert_eq!(found("linux_lean_getpid_instructions_riscv64"), Some((300.0, 500.0)));
        let table = columns.table();
        let row = table.lines().find(|line| line.contains("getpid")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["getpid", "100.0", "110.0", "500.0", "400.0", "300.0"]);
    }
}
