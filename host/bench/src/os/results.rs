//! What was counted, as figures and tables.

use std::fmt::Write;

use motet_error::Result;
use motet_layout::Isa;

use super::operations::{Figure, figures};
use crate::{
    linux::{Reference, Settings},
    project::{self, ISAS},
    report::{Measurement, geometric_mean, number},
};

/// Motet is to take no more than this part of Linux's instructions, on average.
const MEAN_TARGET: f64 = 0.5;

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Results {
    /// By instruction set.
    pub columns: Vec<Column>,
}

/// The figures of an instruction set.
#[derive(Debug)]
pub struct Column {
    /// Which.
    pub isa: Isa,
    machine: String,
    /// In the order of [`figures`].
    pub rows: Vec<Row>,
    linux: Vec<OnLinux>,
}

/// How Linux was started, and what it is.
#[derive(Debug)]
struct OnLinux {
    settings: Settings,
    source: String,
}

/// A figure on all systems.
#[derive(Clone, Debug)]
pub struct Row {
    /// The figure.
    pub figure: Figure,
    /// Instructions on Motet.
    pub motet: f64,
    /// Instructions on Linux; the first are with its usual settings.
    pub linux: Vec<f64>,
}

impl Row {
    /// Motet's instructions over Linux's.
    pub fn ratio(&self) -> f64 {
        self.motet / self.linux[0]
    }
}

impl Column {
    /// Figures of what the program's operations cost on Motet and on Linux, which is never without its usual settings.
    ///
    /// # Errors
    /// The counts cannot be right.
    pub fn new(isa: Isa, machine: String, motet: &[f64], linux: Vec<(Settings, Reference<Vec<f64>>)>) -> Result<Self> {
        let row = |figure: Figure| -> Result<Row> {
            let of_linux = linux.iter().map(|(_, reference)| figure.value(&reference.costs)).collect::<Result<_>>()?;
            Ok(Row { motet: figure.value(motet)?, linux: of_linux, figure })
        };
        let rows = figures().into_iter().map(row).collect::<Result<_>>()?;
        let linux = linux.into_iter().map(|(settings, reference)| OnLinux { settings, source: reference.source });
        Ok(Self { isa, machine, rows, linux: linux.collect() })
    }

    /// All figures of the instruction set.
    pub fn measurements(&self) -> Vec<Measurement> {
        let mut all: Vec<Measurement> = self.rows.iter().flat_map(|row| self.of_row(row)).collect();
        for (index, linux) in self.linux.iter().enumerate() {
            let name = format!("os_over_{}_mean_{}", linux.settings.name(), self.isa.name());
            let source = format!("geometric mean of all operations; {}", linux.source);
            all.push(self.ratio(name, mean(&[self], index), Some(MEAN_TARGET), source));
        }
        all
    }

    fn of_row(&self, row: &Row) -> Vec<Measurement> {
        let (name, isa) = (row.figure.name, self.isa.name());
        let instructions = |metric: String, value, reference, machine: String, source: String| Measurement {
            metric,
            value,
            unit: "instructions",
            machine,
            reference,
            target: None,
            source,
        };
        let usual = row.linux[0];
        let source = format!("{}; reference: {}", row.figure.says, self.linux[0].source);
        let mut all =
            vec![instructions(format!("os_{name}_{isa}"), row.motet, Some(usual), self.machine.clone(), source)];
        for (index, (linux, &value)) in self.linux.iter().zip(&row.linux).enumerate() {
            let metric = format!("os_{name}_{isa}_{}", linux.settings.name());
            let reference = (index > 0).then_some(usual);
            all.push(instructions(metric, value, reference, project::host(), linux.source.clone()));
        }
        let source = "Motet's instructions over Linux's with its usual settings".to_owned();
        all.push(self.ratio(format!("os_{name}_over_linux_{isa}"), row.ratio(), Some(1.0), source));
        all
    }

    fn ratio(&self, metric: String, value: f64, target: Option<f64>, source: String) -> Measurement {
        Measurement { metric, value, unit: "ratio", machine: self.machine.clone(), reference: None, target, source }
    }
}

/// Over all operations of these instruction sets, beside Linux with its settings of this number.
fn mean(columns: &[&Column], settings: usize) -> f64 {
    let rows = columns.iter().flat_map(|column| &column.rows);
    geometric_mean(&rows.map(|row| row.motet / row.linux[settings]).collect::<Vec<_>>())
}

impl Results {
    /// Figures over all instruction sets, if all were measured.
    pub fn summary(&self) -> Vec<Measurement> {
        let Some(first) = self.columns.first().filter(|_| self.columns.len() == ISAS.len()) else { return Vec::new() };
        let columns: Vec<&Column> = self.columns.iter().collect();
        let machines: Vec<&str> = self.columns.iter().map(|column| column.isa.name()).collect();
        let machine = format!("{}, {}", machines.join(", "), project::host());
        let measurement = |metric: String, value, unit, target, source: String| Measurement {
            metric,
            value,
            unit,
            machine: machine.clone(),
            reference: None,
            target: Some(target),
            source,
        };
        let mut all = Vec::new();
        for (index, linux) in first.linux.iter().enumerate() {
            let source = "geometric mean of all operations and instruction sets";
            let metric = format!("os_over_{}_mean", linux.settings.name());
            all.push(measurement(metric, mean(&columns, index), "ratio", MEAN_TARGET, source.into()));
        }
        let slower = self.slower();
        let source = if slower.is_empty() { "none".to_owned() } else { slower.join(", ") };
        all.push(measurement("os_slower_than_linux".into(), slower.len() as f64, "operations", 0.0, source));
        all
    }

    /// What takes more instructions on Motet than on Linux.
    pub fn slower(&self) -> Vec<String> {
        let of = |column: &Column| -> Vec<String> {
            let slower = column.rows.iter().filter(|row| row.ratio() > 1.0);
            slower.map(|row| format!("{} on {}", row.figure.name, column.isa.name())).collect()
        };
        self.columns.iter().flat_map(of).collect()
    }

    /// For people.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        for column in &self.columns {
            let _ = writeln!(text, "\ninstructions on {}; {}", column.isa.name(), column.linux[0].source);
            for row in [column.heads()].iter().chain(&column.cells()) {
                let (name, cells) = row.split_first().expect("a head");
                let _ = writeln!(
                    text,
                    "  {name:<22}{}",
                    cells.iter().map(|cell| format!("{cell:>16}")).collect::<String>()
                );
            }
        }
        let slower = self.slower();
        if !slower.is_empty() {
            let _ = writeln!(text, "\nmore than on Linux: {}", slower.join(", "));
        }
        text
    }
}

impl Column {
    /// Heads of [`Self::cells`].
    pub fn heads(&self) -> Vec<String> {
        let linux = self.linux.iter().map(|linux| match linux.settings {
            Settings::Usual => "Linux",
            Settings::MitigationsOff => "mitigations=off",
            Settings::Lean => "lean",
        });
        ["", "Motet"].into_iter().chain(linux).chain(["Motet/Linux"]).map(str::to_owned).collect()
    }

    /// The rows of a table.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let row = |row: &Row| {
            let counts = [row.motet].into_iter().chain(row.linux.iter().copied()).map(number);
            [row.figure.name.to_owned()].into_iter().chain(counts).chain([format!("{:.2}", row.ratio())]).collect()
        };
        self.rows.iter().map(row).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::{super::operations::tests::costs, *};

    /// Motet takes half of Linux's instructions, and of lean Linux's as many.
    pub fn results() -> Results {
        let linux = |settings, unit| (settings, Reference::known(costs(unit), "Linux: Debian 6"));
        let column = |isa| {
            let linux = vec![linux(Settings::Usual, 20.0), linux(Settings::Lean, 10.0)];
            Column::new(isa, "a machine".into(), &costs(10.0), linux).unwrap()
        };
        Results { columns: ISAS.map(column).into() }
    }

    #[test]
    fn each_figure_is_beside_linux_and_in_the_mean() {
        let mut results = results();
        let all: Vec<_> = results.columns.iter().flat_map(Column::measurements).chain(results.summary()).collect();
        crate::report::assert_each_once(&all);
        let found = |metric: &str| all.iter().find(|measured| measured.metric == metric).unwrap();
        let call = found("os_null_call_riscv64");
        assert_eq!((call.value, call.reference), (1000.0, Some(2000.0)));
        assert!(call.source.contains("Debian 6"));
        assert_eq!(found("os_null_call_riscv64_linux").value, 2000.0);
        assert_eq!(found("os_null_call_riscv64_linux_lean").reference, Some(2000.0));
        let ratio = found("os_context_switch_2_over_linux_x86_64");
        assert_eq!((ratio.value, ratio.target), (0.5, Some(1.0)));
        let near = |metric: &str, value: f64| (found(metric).value - value).abs() < 1e-9;
        assert!(near("os_over_linux_mean", 0.5) && near("os_over_linux_lean_mean_x86_64", 1.0));
        assert_eq!((found("os_slower_than_linux").value, results.slower().len()), (0.0, 0));
        results.columns[1].rows[0].motet = 2001.0;
        assert_eq!(results.slower(), ["null_call on aarch64"]);
        assert!(results.tables().ends_with("more than on Linux: null_call on aarch64\n"));
    }

    #[test]
    fn without_all_instruction_sets_there_is_no_summary() {
        let mut some = results();
        some.columns.pop();
        assert!(some.summary().is_empty());
        assert!(Results::default().summary().is_empty() && Results::default().tables().is_empty());
    }
}
