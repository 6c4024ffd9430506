//! `motet bench sensitivity`: how much the headline figures of a machine depend on those numbers of its file that
//! no paper has. Each is set to half and to double, alone, and the figures are measured again; at last all at once, each to
//! the end that made calls slower, and each to the one that made them faster.

mod figures;
mod keys;
mod page;
mod parameters;
mod tornado;

use clap::Args;
use motet_error::Result;
use motet_machine::MachineSpec;

use self::{
    figures::Figure,
    keys::Keys,
    parameters::{Parameter, Parameters},
    tornado::{Bar, End, Tornado},
};
use crate::{
    flick::{calls, machines::Bench},
    motet::Described,
    output::Output,
    project::{self, Project, file_error},
    report::{Collected, number},
};

/// How many calls each figure is the mean of.
const CALLS: u64 = 1000;
const QUICK_CALLS: u64 = 100;
/// The machines, if none is named: one whose memory is coherent and one whose is not.
const USUAL: [&str; 2] = ["flick", "stramash-shared"];

const EXAMPLES: &str = "\
Examples:
  ./motet bench sensitivity --report DIR two machines; then open DIR/index.html
  ./motet bench sensitivity stramash-separated --quick
                                         another machine, fewer calls
  ./motet bench sensitivity flick --parameter doorbell_ns
                                         one parameter (an unknown name lists all)

docs/benchmarks.md says what is set to what, and what was found.";

/// Options of `motet bench sensitivity`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// flick, stramash-separated, stramash-shared, stramash-fully-shared, or one of these three with -32m [default: flick, stramash-shared]
    #[arg(value_name = "MACHINE")]
    machines: Vec<String>,
    #[command(flatten)]
    output: Output,
    /// Fewer calls
    #[arg(long)]
    quick: bool,
    /// Change only this number of the machine file (may be repeated)
    #[arg(long, value_name = "NAME")]
    parameter: Vec<String>,
    /// Measure only this figure (may be repeated)
    #[arg(long, value_name = "METRIC")]
    figure: Vec<String>,
}

/// Runs the experiment. A run that fails does not keep the others from being reported.
///
/// # Errors
/// A machine, parameter or figure does not exist, a run failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    let named = options.machines.iter().map(String::as_str);
    let machines: Vec<&str> = if options.machines.is_empty() { USUAL.to_vec() } else { named.collect() };
    let wanted = machines.iter().map(|machine| Wanted::of(machine, options)).collect::<Result<Vec<_>>>()?;
    options.output.prepare()?;
    let mut collected = Collected::default();
    let mut tornados = Vec::new();
    for wanted in &wanted {
        match study(wanted, options.quick, &mut collected) {
            Ok(more) => tornados.extend(more),
            Err(error) => collected.add(Err(error)),
        }
    }
    options.output.page("Sensitivity", || page::body(&tornados, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&tornados.iter().map(Tornado::verdict).collect::<String>())?;
    outcome
}

/// What is to be measured on a machine.
struct Wanted {
    machine: String,
    parameters: Parameters,
    chosen: Vec<Parameter>,
    figures: Vec<Figure>,
}

impl Wanted {
    fn of(machine: &str, options: &Options) -> Result<Self> {
        let parameters = parameters::of(machine)?;
        let chosen = parameters.named(machine, &options.parameter)?;
        let figures = figures::named(machine, &options.figure)?;
        Ok(Self { machine: machine.into(), parameters, chosen, figures })
    }
}

fn study(wanted: &Wanted, quick: bool, collected: &mut Collected) -> Result<Vec<Tornado>> {
    let name = &wanted.machine;
    let project = Project::find()?;
    let folder = project.scratch(&format!("sensitivity-{name}"))?;
    let bench = Bench { project, folder };
    let machine = bench.machine(name)?;
    let keys = Keys::parse(&machine.machine.text)?;
    wanted.parameters.check(&keys)?;
    let count = if quick { QUICK_CALLS } else { CALLS };
    let described = project::describe(&machine.machine)?;
    let source = format!("machines/{name}.toml, {count} calls");
    let whole = wanted.chosen.len() == wanted.parameters.chosen.len();
    let study = Study { bench, keys, count, whole };
    let mut tornados = Vec::new();
    for figure in &wanted.figures {
        match study.tornado(figure, &wanted.chosen, collected) {
            Ok(tornado) => {
                collected.add(Ok(tornado.measurements(&described, &source)));
                tornados.push(tornado);
            }
            Err(error) => collected.add(Err(error)),
        }
    }
    Ok(tornados)
}

/// What all measurements share.
struct Study {
    bench: Bench,
    /// The machine's file.
    keys: Keys,
    count: u64,
    /// All parameters are measured, so they can be set all at once.
    whole: bool,
}

impl Study {
    /// A figure as the machine file has it, and with each parameter at each of its ends. Runs that fail are told in `collected`.
    fn tornado(&self, figure: &Figure, chosen: &[Parameter], collected: &mut Collected) -> Result<Tornado> {
        let base = self.measure(figure, &[])?;
        eprintln!("motet: {}: {} us with the file's own numbers", figure.metric, number(base));
        let mut bars = Vec::new();
        for (index, parameter) in chosen.iter().enumerate() {
            match self.bar(figure, parameter, base) {
                Ok(bar) => {
                    let [low, high] = bar.ends.map(|end| format!("{} us with {}", number(end.us), end.to));
                    eprintln!("motet: {} of {}: {}: {low}, {high}", index + 1, chosen.len(), parameter.name);
                    bars.push(bar);
                }
                Err(error) => collected.add(Err(error)),
            }
        }
        let mut all = Vec::new();
        for slower in [false, true].into_iter().filter(|_| self.whole) {
            let changes: Vec<_> = bars.iter().filter_map(|bar| Some((bar.name, bar.end(base, slower)?.to))).collect();
            match self.measure(figure, &changes) {
                Ok(us) => all.push(us),
                Err(error) => collected.add(Err(error)),
            }
        }
        Ok(Tornado::new(figure.clone(), base, bars, all.try_into().ok()))
    }

    fn bar(&self, figure: &Figure, parameter: &Parameter, base: f64) -> Result<Bar> {
        let value = self.keys.get(parameter.name)?;
        let end = |to: f64| {
            let to = self.keys.clone().set(parameter.name, to)?;
            let us = if to == value { base } else { self.measure(figure, &[(parameter.name, to)])? };
            Ok(End { to, us })
        };
        let [low, high] = parameter.span.ends(value);
        Ok(Bar { name: parameter.name, value, ends: [end(low)?, end(high)?] })
    }

    /// Microseconds on the machine with these changes.
    fn measure(&self, figure: &Figure, changes: &[(&str, f64)]) -> Result<f64> {
        let mut keys = self.keys.clone();
        for (name, to) in changes {
            keys.set(name, *to)?;
        }
        let file = self.bench.folder.join("machine.toml");
        std::fs::write(&file, keys.text()).map_err(file_error(&file))?;
        let described = Described { machine: MachineSpec::load(&file)?, file };
        let described = if figure.polls { self.bench.polling(&described)? } else { described };
        let described = self.bench.crossing(described, figure.protocol)?;
        calls::us_on(&self.bench, &described, figure.polls, figure.isas, self.count)
    }
}
