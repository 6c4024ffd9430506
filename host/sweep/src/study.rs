//! A study file, and the points that it stands for.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use motet_error::{Error, ErrorKind, Result};
use motet_machine::MachineSpec;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::{
    axis::{Axis, AxisTable, Part, Shown, Target, product},
    keys,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyTable {
    about: Option<String>,
    machine: Option<String>,
    command: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    inputs: Vec<String>,
    seeds: Option<SeedsTable>,
    #[serde(default)]
    metrics: Vec<String>,
    x: Option<String>,
    #[serde(default = "hour")]
    timeout_s: u64,
    #[serde(default)]
    axis: Vec<AxisTable>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SeedsTable {
    Count(u32),
    List(Vec<u64>),
}

fn hour() -> u64 {
    3600
}

/// A study.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its file's name.
    pub name: String,
    /// In a sentence, what it is for.
    pub about: String,
    /// Metrics that are kept, with `*` in them; none: all.
    pub metrics: Vec<String>,
    /// The axis along which plots go.
    pub x: Option<String>,
    /// What there is to be measured.
    pub points: Vec<Point>,
}

/// One run of a machine: what it is given, all of which its id is a digest of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The name of its folder.
    pub id: String,
    /// The axes' values, as they are shown.
    pub axes: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// The file that the machine is made from.
    pub machine: String,
    /// The machine file of this point.
    #[serde(skip)]
    pub description: String,
    /// Its digest.
    pub machine_sha256: String,
    /// What the machine's shell runs.
    pub command: String,
    /// Options of `motet run`.
    pub options: Vec<String>,
    /// After so many seconds the point has failed.
    pub timeout_s: u64,
    /// Metrics that are kept.
    pub metrics: Vec<String>,
}

impl Point {
    /// For messages: `doorbell_ns=500 machine=machines/quad.toml seed=1`.
    pub fn label(&self) -> String {
        let axes = self.axes.iter().map(|(name, value)| format!("{name}={value}"));
        axes.chain([format!("seed={}", self.seed)]).collect::<Vec<_>>().join(" ")
    }
}

impl Study {
    /// Reads a study; files that it names are looked for beside it, then in the project's folder.
    ///
    /// # Errors
    /// It, or a machine that it makes, is wrong: the message names the key.
    pub fn load(path: &Path, root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::read(path, error))?;
        let wrong = |why: String| Error::new(ErrorKind::Config, format!("{}: {why}", path.display()));
        let table: StudyTable = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let expansion = Expansion::new(&table, Folders { beside: absolute(beside)?, root: root.into() });
        let points = expansion.and_then(|mut expansion| expansion.points()).map_err(wrong)?;
        Ok(Self {
            name: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
            about: table.about.unwrap_or_default(),
            metrics: table.metrics,
            x: table.x,
            points,
        })
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize().map_err(|error| Error::read(path, error))
}

struct Folders {
    beside: PathBuf,
    root: PathBuf,
}

impl Folders {
    fn find(&self, name: &str) -> std::result::Result<PathBuf, String> {
        let tried = [self.beside.join(name), self.root.join(name)];
        tried
            .into_iter()
            .find(|path| path.exists())
            .ok_or_else(|| format!("there is no {name}, neither beside the study nor in the project's folder"))
    }
}

/// From tables to points.
struct Expansion<'a> {
    table: &'a StudyTable,
    folders: Folders,
    axes: Vec<Axis>,
    seeds: Vec<u64>,
    inputs: Vec<PathBuf>,
    /// By name, the machine files.
    machines: BTreeMap<String, Table>,
}

impl<'a> Expansion<'a> {
    fn new(table: &'a StudyTable, folders: Folders) -> std::result::Result<Self, String> {
        let axes: Vec<Axis> = table.axis.iter().map(AxisTable::axis).collect::<std::result::Result<_, _>>()?;
        let seeds = match &table.seeds {
            None => vec![1],
            Some(SeedsTable::Count(count)) => (1..=u64::from(*count)).collect(),
            Some(SeedsTable::List(seeds)) => seeds.clone(),
        };
        if seeds.is_empty() {
            return Err("`seeds` has no values".into());
        }
        let inputs = table.inputs.iter().map(|name| folders.find(name).map_err(|why| format!("`inputs`: {why}")));
        let inputs = inputs.collect::<std::result::Result<_, _>>()?;
        let expansion = Self { table, folders, axes, seeds, inputs, machines: BTreeMap::new() };
        expansion.check_names()?;
        Ok(expansion)
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.axes.iter().flat_map(|axis| &axis.parts)
    }

    fn check_names(&self) -> std::result::Result<(), String> {
        let mut names = vec!["seed"];
        for part in self.parts() {
            let name = part.name.as_str();
            if names.contains(&name) {
                return Err(format!("two axes are called `{name}`: give one another `name`"));
            }
            names.push(name);
            let place = format!("{{{name}}}");
            let words = || self.table.options.iter().chain([&self.table.command]);
            if part.target == Target::Argument && !words().any(|word| word.contains(&place)) {
                return Err(format!("axis `{name}`: neither `command` nor `options` has {place}"));
            }
        }
        let machines = self.parts().filter(|part| part.target == Target::Machine).count();
        match (&self.table.machine, machines) {
            (Some(_), 0) | (None, 1) => {}
            (None, 0) => return Err("no machine: it needs `machine`, or an axis of machines".into()),
            (Some(_), _) => return Err("both `machine` and an axis of machines".into()),
            (None, _) => return Err("two axes of machines".into()),
        }
        match &self.table.x {
            Some(x) if !names.contains(&x.as_str()) => Err(format!("`x`: there is no axis `{x}`")),
            _ => Ok(()),
        }
    }

    fn points(&mut self) -> std::result::Result<Vec<Point>, String> {
        let lengths: Vec<usize> = self.axes.iter().map(Axis::len).chain([self.seeds.len()]).collect();
        let combinations = product(&lengths)?;
        combinations.iter().map(|combination| self.point(combination)).collect()
    }

    fn point(&mut self, combination: &[usize]) -> std::result::Result<Point, String> {
        let chosen: Vec<(Part, Value)> = self
            .axes
            .iter()
            .zip(combination)
            .flat_map(|(axis, &index)| axis.parts.iter().map(move |part| (part.clone(), part.values[index].clone())))
            .collect();
        let seed = self.seeds[combination[self.axes.len()]];
        let axes: Vec<(String, String)> =
            chosen.iter().map(|(part, value)| (part.name.clone(), Shown(value).to_string())).collect();
        let machine = chosen.iter().find(|(part, _)| part.target == Target::Machine);
        let machine = machine.map(|(_, value)| Shown(value).to_string()).or_else(|| self.table.machine.clone());
        let machine = machine.unwrap_or_default();
        let description = self.description(&machine, &chosen)?;
        let replaced = |text: &str| {
            let arguments = chosen.iter().filter(|(part, _)| part.target == Target::Argument);
            let text = text.replace("{seed}", &seed.to_string());
            arguments.fold(text, |text, (part, value)| {
                text.replace(&format!("{{{}}}", part.name), &Shown(value).to_string())
            })
        };
        let inputs = self.inputs.iter().flat_map(|path| ["--in".to_owned(), path.display().to_string()]);
        let options = self.table.options.iter().map(|word| replaced(word)).chain(inputs).collect();
        let mut point = Point {
            id: String::new(),
            axes,
            seed,
            machine,
            machine_sha256: hex(description.as_bytes(), 64),
            description,
            command: replaced(&self.table.command),
            options,
            timeout_s: self.table.timeout_s,
            metrics: self.table.metrics.clone(),
        };
        let contents: Vec<String> = self.inputs.iter().map(|path| digest(path)).collect();
        let given = (&point.machine_sha256, &point.command, &point.options, point.seed, &point.axes, contents);
        point.id = hex(format!("{given:?}").as_bytes(), 12);
        Ok(point)
    }

    /// The machine file with the values of the axes of keys.
    fn description(&mut self, machine: &str, chosen: &[(Part, Value)]) -> std::result::Result<String, String> {
        if !self.machines.contains_key(machine) {
            let path = self.folders.find(machine).map_err(|why| format!("`machine`: {why}"))?;
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{machine}: {error}"))?;
            MachineSpec::parse(&text).map_err(|error| format!("{machine}: {error}"))?;
            self.machines.insert(machine.into(), text.parse().map_err(|error| format!("{machine}: {error}"))?);
        }
        let mut table = self.machines[machine].clone();
        let mut changes = Vec::new();
        for (part, value) in chosen {
            if let Target::Keys(paths) = &part.target {
                for path in paths {
                    keys::set(&mut table, path, value)
                        .map_err(|why| format!("axis `{}`: {machine}: {why}", part.name))?;
                    changes.push(format!("{path} = {value}"));
                }
            }
        }
        let text = table.to_string();
        MachineSpec::parse(&text).map_err(|error| format!("{machine} with {}: {error}", changes.join(", ")))?;
        Ok(text)
    }
}

/// The first digits of a digest.
pub fn hex(bytes: &[u8], digits: usize) -> String {
    let text: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    text[..digits].into()
}

/// What a file has; of a folder, the names and contents of all files.
fn digest(path: &Path) -> String {
    if !path.is_dir() {
        return std::fs::read(path).map(|bytes| hex(&bytes, 64)).unwrap_or_default();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut parts: Vec<String> =
        entries.map(|entry| format!("{:?} {}", entry.file_name(), digest(&entry.path()))).collect();
    parts.sort();
    hex(parts.join("\n").as_bytes(), 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "[pool]\nsize = '64MiB'\n[[island]]\nname = 'x86'\nisa = 'x86_64'\ncores = 1\n";

    /// A study beside a machine file `m.toml`.
    fn load(text: &str) -> Result<Study> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.toml"), MACHINE).unwrap();
        std::fs::write(folder.path().join("bad.toml"), "[pool]\nsize = 'x'\n").unwrap();
        let path = folder.path().join("study.toml");
        std::fs::write(&path, text).unwrap();
        Study::load(&path, Path::new("/nonexistent"))
    }

    #[test]
    fn a_study_is_machines_times_arguments_times_seeds() {
        let study = load(
            "command = 'work {size} {seed}'\noptions = ['--quantum', '{size}']\nmachine = 'm.toml'\nseeds = [7, 9]\n\
             [[axis]]\nkey = 'island.x86.cores'\nvalues = [1, 2]\n[[axis]]\nargument = 'size'\nrange = { from = 1, to = 3 }\n",
        )
        .unwrap();
        assert_eq!(study.points.len(), 12);
        let last = &study.points[11];
        assert_eq!((last.command.as_str(), last.options.join(" ").as_str()), ("work 3 9", "--quantum 3"));
        assert_eq!(last.label(), "cores=2 size=3 seed=9");
        assert_eq!(MachineSpec::parse(&last.description).unwrap().core_count(), 2);
        let ids: std::collections::BTreeSet<&str> = study.points.iter().map(|point| point.id.as_str()).collect();
        assert_eq!(ids.len(), 12);
    }

    #[test]
    fn what_a_point_is_given_is_its_id() {
        let id =
            |command: &str| load(&format!("command = '{command}'\nmachine = 'm.toml'\n")).unwrap().points[0].id.clone();
        assert_eq!(id("a"), id("a"));
        assert_ne!(id("a"), id("b"));
    }

    #[test]
    fn what_is_wrong_with_a_study_is_told_with_its_key() {
        let axis = |axis: &str| format!("command = 'c'\nmachine = 'm.toml'\n[[axis]]\n{axis}\n");
        for (text, why) in [
            ("machine = 'm.toml'".to_owned(), "missing field `command`"),
            ("command = 'c'\nmachine = 'm.toml'\nseed = 3".into(), "unknown field `seed`, expected one of"),
            ("command = 'c'".into(), "needs `machine`"),
            ("command = 'c'\nmachine = 'x.toml'".into(), "`machine`: there is no x.toml"),
            ("command = 'c'\nmachine = 'bad.toml'".into(), "bad.toml: "),
            ("command = 'c'\nmachine = 'm.toml'\nseeds = []".into(), "`seeds` has no values"),
            ("command = 'c'\nmachine = 'm.toml'\nx = 'y'".into(), "no axis `y`"),
            ("command = 'c'\nmachine = 'm.toml'\ninputs = ['y']".into(), "`inputs`: there is no y"),
            (axis("key = 'island.arm.cores'\nvalues = [1]"), "`island.arm.cores`: there are x86"),
            (axis("key = 'island.x86.coers'\nvalues = [1]"), "m.toml with island.x86.coers = 1: "),
            (axis("key = 'island.x86.cores'\nvalues = ['many']"), "m.toml with island.x86.cores = \"many\": "),
            (axis("key = 'island.x86.cores'"), "axis `cores` has no values"),
            (axis("argument = 'size'\nvalues = [1]"), "axis `size`: neither"),
            (
                axis("key = 'pool.size'\nvalues = ['64MiB']\n[[axis]]\nkey = 'pool.size'\nvalues = [1]"),
                "two axes are called `size`",
            ),
            (axis("machine = ['m.toml']"), "both `machine` and an axis of machines"),
        ] {
            let error = load(&text).unwrap_err();
            assert!(error.message.contains(why) && error.message.contains("study.toml"), "{text}: {error}");
            assert_eq!(error.exit_status(), 78, "{text}");
        }
    }
}
