//! Runs of guest programs on both kinds of machine. What a run has counted is kept, so that an experiment which was cut goes on where it was.

use std::{
    collections::VecDeque,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    run::kernel_path,
    stats::{KernelStats, RegionStats},
};
use motet_layout::Isa;
use serde::{Deserialize, Serialize};

use crate::{
    flick::machines::Bench as Machines,
    motet::Described,
    process,
    project::{self, Project, file_error},
};

/// Doorbells take 2 us: with less, a core that has asked another kernel sleeps before the answer, as it would.
pub const QUANTUM_US: &str = "1";
/// The first call of the compiler builds a C library.
const COMPILE_AT_MOST: Duration = Duration::from_secs(1800);
const AT_MOST: Duration = Duration::from_secs(3 * 3600);
/// Twice the memory, and where each part of it ends then. Windows keep their size.
const LARGE: [(&str, &str); 4] = [
    ("size = \"1GiB\"", "size = \"2GiB\""),
    ("end = \"512MiB\"", "end = \"1GiB\""),
    ("end = \"444MiB\"", "end = \"956MiB\""),
    ("end = \"888MiB\"", "end = \"1912MiB\""),
];
/// The last-level caches of the paper's second comparison (Figure 10), instead of 4 MiB.
const LARGE_CACHES: [(&str, &str); 2] =
    [("l3 = { size = \"4MiB\"", "l3 = { size = \"32MiB\""), ("\nsize = \"4MiB\"", "\nsize = \"32MiB\"")];
/// What makes pages follow the islands that use them.
const ADAPTIVE: (&str, &str) = ("[pool]", "policy = \"adaptive\"\n\n[pool]");
/// What makes messages take longer.
const TCP: (&str, &str) = ("coalesce = false", "coalesce = false\ntransport = \"tcp\"");
/// What makes pages come ahead, as many as a message has room for.
const PREFETCH: (&str, &str) = ("coalesce = false", "coalesce = false\nprefetch = 14");
/// What makes kernels read pages where they are.
const BY_REFERENCE: (&str, &str) = ("coalesce = false", "coalesce = false\nby-reference = true");
/// Changes when what is kept is another thing, so that no older one is taken for it.
const VERSION: u32 = 1;

/// The memory models, in the order of the paper's bars.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Model {
    /// Each part of the memory is near to one island
    Separated,
    /// Common memory is far from both
    Shared,
    /// One memory, near to both, under one last-level cache
    FullyShared,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Separated, Self::Shared, Self::FullyShared];

    /// Its name in metrics.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Separated => "separated",
            Self::Shared => "shared",
            Self::FullyShared => "fully_shared",
        }
    }

    /// Its name in tables and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Separated => "Separated",
            Self::Shared => "Shared",
            Self::FullyShared => "Fully Shared",
        }
    }
}

/// Sizes of last-level caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Cache {
    /// 4 MiB, as the machine files have
    #[default]
    #[value(name = "4MiB")]
    Usual,
    /// 32 MiB, as Figure 10
    #[value(name = "32MiB")]
    Large,
}

/// What a machine has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// Twice the memory: MG's arrays of class A have 430 MiB, and each kernel keeps all of them.
    pub is_large: bool,
    /// Its last-level caches.
    pub cache: Cache,
}

/// Whose kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum System {
    /// Motet's: all islands share the memory
    Fused,
    /// Popcorn's way: a kernel for each island, and messages over shared memory
    #[value(name = "popcorn-shm")]
    Multikernel,
    /// Motet's, where pages follow the islands that use them
    Adaptive,
    /// As popcorn-shm, with messages that take as long as over TCP
    #[value(name = "popcorn-tcp")]
    Tcp,
    /// As popcorn-shm, where each request brings the next pages, too
    Prefetch,
    /// As popcorn-shm, where kernels read pages in each other's memory
    ByReference,
    /// Both
    PrefetchByReference,
}

/// How many they are.
pub const SYSTEMS: usize = System::ALL.len();

impl System {
    /// The one that is judged first.
    pub const BOTH: [Self; 2] = [Self::Fused, Self::Multikernel];
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Fused,
        Self::Multikernel,
        Self::Adaptive,
        Self::Tcp,
        Self::Prefetch,
        Self::ByReference,
        Self::PrefetchByReference,
    ];
    /// Those with a kernel for each island.
    pub const RIVALS: [Self; 5] =
        [Self::Multikernel, Self::Tcp, Self::Prefetch, Self::ByReference, Self::PrefetchByReference];

    /// Its name in metrics.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Multikernel => "popcorn_shm",
            Self::Adaptive => "adaptive",
            Self::Tcp => "popcorn_tcp",
            Self::Prefetch => "popcorn_prefetch",
            Self::ByReference => "popcorn_by_reference",
            Self::PrefetchByReference => "popcorn_prefetch_by_reference",
        }
    }

    /// What its machine file has beside the shipped one's lines, and what it is called with that.
    const fn changes(self) -> (&'static str, &'static [(&'static str, &'static str)]) {
        match self {
            Self::Fused | Self::Multikernel => ("", &[]),
            Self::Adaptive => ("adaptive", &[ADAPTIVE]),
            Self::Tcp => ("tcp", &[TCP]),
            Self::Prefetch => ("prefetch", &[PREFETCH]),
            Self::ByReference => ("by-reference", &[BY_REFERENCE]),
            Self::PrefetchByReference => ("prefetch-by-reference", &[PREFETCH, BY_REFERENCE]),
        }
    }

    /// The lines that its machine file has beside the shipped one's, for people.
    pub const fn lines(self) -> &'static str {
        match self {
            Self::Fused | Self::Multikernel => "",
            Self::Adaptive => " with policy = \"adaptive\"",
            Self::Tcp => " with transport = \"tcp\"",
            Self::Prefetch => " with prefetch = 14",
            Self::ByReference => " with by-reference = true",
            Self::PrefetchByReference => " with prefetch = 14 and by-reference = true",
        }
    }

    /// The machine file of a model, less its policy.
    pub fn machine(self, model: Model) -> String {
        let start = match self {
            Self::Fused | Self::Adaptive => "stramash",
            Self::Multikernel | Self::Tcp | Self::Prefetch | Self::ByReference | Self::PrefetchByReference => {
                "multikernel"
            }
        };
        format!("{start}-{}", model.metric().replace('_', "-"))
    }
}

/// What a run has counted, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What was run, for people who look into the folder.
    pub what: String,
    /// Standard output.
    pub output: String,
    /// Regions of interest.
    pub regions: Vec<RegionStats>,
    /// What kernels have exchanged, where there are several.
    pub kernels: Vec<KernelStats>,
    /// Why times may be wrong.
    pub warnings: Vec<String>,
    /// How long the host took.
    pub host_s: f64,
}

impl Kept {
    /// A region by its name.
    ///
    /// # Errors
    /// The program did not come to its end.
    pub fn region(&self, name: &str) -> Result<&RegionStats> {
        let found = self.regions.iter().find(|region| region.name == name && region.open == 0);
        found.ok_or_else(|| Error::new(ErrorKind::Software, format!("{}: no region `{name}`", self.what)))
    }

    /// Messages that kernels have sent, of the kinds for which this is true.
    pub fn messages(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let kinds = self.kernels.iter().flat_map(|kernel| &kernel.messages);
        kinds.filter(|(kind, _)| counts(kind)).map(|(_, message)| message.sent).sum()
    }
}

/// A run that is wanted.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program, compiled.
    pub program: PathBuf,
    /// What follows its name.
    pub arguments: String,
    /// Its machine.
    pub machine: Described,
    /// How long it may take, beside the others.
    pub weight: f64,
}

impl Case {
    fn what(&self) -> String {
        let name = |path: &Path| path.file_stem().unwrap_or_default().display().to_string();
        format!("{} {} on {}", name(&self.program), self.arguments, name(&self.machine.file))
    }
}

/// The runs of an experiment.
#[derive(Debug)]
pub struct Runs {
    /// Runs of timed machines.
    pub machines: Machines,
    /// Where results are kept.
    folder: PathBuf,
    /// A hash of the kernels, the simulator and QEMU.
    build: u64,
    /// What was made ahead, each for one use.
    ahead: Vec<(PathBuf, Result<Kept>)>,
    begun: Instant,
    /// Of runs that are to come, and of those that were made.
    to_come: f64,
    made: f64,
}

impl Runs {
    /// Finds the project, and what is kept. `fresh`: that is removed.
    ///
    /// # Errors
    /// Something is not built, or the host refuses.
    pub fn new(fresh: bool) -> Result<Self> {
        let project = Project::find()?;
        let folder = project.target.join("bench/stramash-runs");
        if fresh && folder.exists() {
            fs::remove_dir_all(&folder).map_err(file_error(&folder))?;
        }
        fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        let build = build(&project)?;
        let scratch = project.scratch("stramash")?;
        let machines = Machines { project, folder: scratch };
        Ok(Self { machines, folder, build, ahead: Vec::new(), begun: Instant::now(), to_come: 0.0, made: 0.0 })
    }

    /// Compiles a source of the project for all instruction sets.
    ///
    /// # Errors
    /// The compiler cannot be fetched, or refuses.
    pub fn compile(&self, source: &str, options: &[&str], name: &str) -> Result<PathBuf> {
        let project = &self.machines.project;
        let output = self.machines.folder.join(name);
        let mut motet = Command::new(project.motet());
        motet.args(["cc", "-std=c11"]).args(options);
        for folder in ["user/include", "user/npb"] {
            motet.arg("-I").arg(project.root.join(folder));
        }
        motet.arg(project.root.join(source)).arg("-o").arg(&output).arg("-lm");
        process::expect(&mut motet, COMPILE_AT_MOST)?;
        Ok(output)
    }

    /// A machine of a model, of a size.
    ///
    /// # Errors
    /// Its file cannot be read, or the changed one not written.
    pub fn machine(&self, system: System, model: Model, size: Size) -> Result<Described> {
        let mut machine = self.machines.machine(&system.machine(model))?;
        let (name, lines) = system.changes();
        let memory = if size.is_large { &LARGE[..] } else { &[] };
        let caches = if size.cache == Cache::Large { &LARGE_CACHES[..] } else { &[] };
        for (name, changes, must_be_there) in [(name, lines, true), ("large", memory, false), ("32m", caches, false)] {
            let is_there = |(from, _): &&(&str, &str)| must_be_there || machine.machine.text.contains(from);
            let changes: Vec<(&str, &str)> = changes.iter().filter(is_there).copied().collect();
            if !changes.is_empty() {
                machine = self.machines.changed(&machine, name, &changes)?;
            }
        }
        Ok(machine)
    }

    /// Says that these are to come, so that the remaining time can be told.
    pub fn announce<'a>(&mut self, cases: impl Iterator<Item = &'a Case>) {
        for case in cases {
            if self.kept(case).is_none() {
                self.to_come += case.weight;
            }
        }
    }

    /// Makes those runs of which nothing is kept, so many at a time: simulated time does not depend on what the host does beside. What fails is
    /// told to who asks for that run.
    ///
    /// # Errors
    /// The host refuses a folder.
    pub fn run_beside(&mut self, cases: &[&Case], jobs: usize) -> Result<()> {
        let mut waiting: VecDeque<&Case> = cases.iter().copied().filter(|case| self.kept(case).is_none()).collect();
        let folder = |job: usize| self.machines.project.scratch(&format!("stramash-{job}"));
        let folders: Vec<PathBuf> = (0..jobs.min(waiting.len())).map(folder).collect::<Result<_>>()?;
        if folders.len() < 2 {
            return Ok(());
        }
        let project = self.machines.project.clone();
        let shared = Mutex::new((self, &mut waiting));
        let lock = || shared.lock().expect("no thread of these panics");
        let work = |folder: PathBuf| {
            let machines = Machines { project: project.clone(), folder };
            loop {
                let next = {
                    let (runs, waiting) = &mut *lock();
                    waiting.pop_front().inspect(|case| runs.tell(case))
                };
                let Some(case) = next else { return };
                let made = make(&machines, case);
                let (runs, _) = &mut *lock();
                let made = runs.take(case, made);
                let path = runs.path(case);
                runs.ahead.push((path, made));
            }
        };
        std::thread::scope(|scope| folders.into_iter().for_each(|folder| _ = scope.spawn(|| work(folder))));
        Ok(())
    }

    /// What a run has counted: what is kept of it, or that of a run now.
    ///
    /// # Errors
    /// The run fails.
    pub fn run(&mut self, case: &Case) -> Result<Kept> {
        let path = self.path(case);
        let kept = if let Some(place) = self.ahead.iter().position(|(ahead, _)| *ahead == path) {
            self.ahead.swap_remove(place).1?
        } else if let Some(kept) = self.kept(case) {
            kept
        } else {
            self.tell(case);
            let made = make(&self.machines, case);
            self.take(case, made)?
        };
        kept.warnings.iter().for_each(|warning| eprintln!("motet: {}: {warning}", kept.what));
        Ok(kept)
    }

    /// Says that a run begins.
    fn tell(&self, case: &Case) {
        eprintln!("motet: {} ({})", case.what(), self.remaining());
    }

    /// Counts and keeps a run. Of one whose order the host has disturbed, nothing is kept: the next one may be right.
    fn take(&mut self, case: &Case, made: Result<Made>) -> Result<Kept> {
        self.made += case.weight;
        self.to_come = (self.to_come - case.weight).max(0.0);
        let Made { kept, is_in_order } = made?;
        if is_in_order {
            self.keep(case, &kept)?;
        }
        Ok(kept)
    }

    /// How long the rest takes, by how long what there was has taken.
    fn remaining(&self) -> String {
        if self.made == 0.0 {
            return "first run".to_owned();
        }
        let minutes = |seconds: f64| format!("{}:{:02}", seconds as u64 / 60, seconds as u64 % 60);
        let begun = self.begun.elapsed().as_secs_f64();
        format!("after {}, about {} more", minutes(begun), minutes(begun / self.made * self.to_come))
    }

    fn path(&self, case: &Case) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        let program = fs::read(&case.program).unwrap_or_default();
        (VERSION, self.build, QUANTUM_US, program, &case.machine.machine.text, &case.arguments).hash(&mut hasher);
        self.folder.join(format!("{:016x}.json", hasher.finish()))
    }

    /// What is kept of a run. A file that is not whole is none.
    fn kept(&self, case: &Case) -> Option<Kept> {
        serde_json::from_slice(&fs::read(self.path(case)).ok()?).ok()
    }

    fn keep(&self, case: &Case, kept: &Kept) -> Result<()> {
        let (path, new) = (self.path(case), self.folder.join("new"));
        let text = serde_json::to_vec(kept).expect("numbers and strings");
        fs::write(&new, text).map_err(file_error(&new))?;
        fs::rename(&new, &path).map_err(file_error(&path))
    }
}

/// A run that was made.
struct Made {
    kept: Kept,
    /// The host has not disturbed the order of its turns.
    is_in_order: bool,
}

/// Makes a run.
fn make(machines: &Machines, case: &Case) -> Result<Made> {
    let begun = Instant::now();
    let name = case.program.file_name().unwrap_or_default().display();
    let command = format!("/in/{name} {}", case.arguments);
    let run =
        machines.run_with(&case.machine, QUANTUM_US, &["--deterministic"], &[&case.program], &command, AT_MOST)?;
    let host_s = begun.elapsed().as_secs_f64();
    let mut warnings = run.stats.disorders();
    warnings.extend(run.stats.warnings.iter().cloned());
    let is_in_order = run.stats.out_of_turn == 0 && run.stats.unsettled == 0;
    let (output, regions, kernels) = (run.output, run.stats.regions, run.stats.kernels);
    Ok(Made { kept: Kept { what: case.what(), output, regions, kernels, warnings, host_s }, is_in_order })
}

/// A hash of all that decides, beside program and machine, what a run counts.
fn build(project: &Project) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let kernels = [Isa::X86_64, Isa::AArch64].map(kernel_path);
    for file in kernels.iter().map(PathBuf::as_path).chain([Path::new("release/libmotet_timing_plugin.so")]) {
        let path = project.target.join(file);
        fs::read(&path).map_err(file_error(&path))?.hash(&mut hasher);
    }
    for isa in [Isa::X86_64, Isa::AArch64] {
        project::qemu_version(isa)?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use motet_machine::{MachineSpec, MultikernelSpec};

    use super::*;

    fn runs(folder: &Path) -> Runs {
        let project = Project { root: folder.into(), target: folder.into() };
        let machines = Machines { project, folder: folder.into() };
        let begun = Instant::now();
        Runs { machines, folder: folder.into(), build: 7, ahead: Vec::new(), begun, to_come: 0.0, made: 0.0 }
    }

    fn case(folder: &Path) -> Case {
        let program = folder.join("is");
        fs::write(&program, "program").unwrap();
        let text = "[pool]\nsize = \"512MiB\"\n\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";
        let machine = Described { machine: MachineSpec::parse(text).unwrap(), file: folder.join("m.toml") };
        Case { program, arguments: "alternating".into(), machine, weight: 2.0 }
    }

    #[test]
    fn what_was_run_is_kept_until_something_of_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (mut runs, case) = (runs(folder.path()), case(folder.path()));
        assert_eq!(runs.kept(&case), None);
        let kept = Kept { what: case.what(), output: "o".into(), ..Kept::default() };
        assert_eq!(kept.what, "is alternating on m");
        runs.keep(&case, &kept).unwrap();
        assert_eq!(runs.run(&case).unwrap(), kept, "without a machine");

        let other = Case { arguments: "home".into(), ..case.clone() };
        assert_eq!(runs.kept(&other), None);
        let text = format!("{}\n# another\n", case.machine.machine.text);
        let machine = Described { machine: MachineSpec::parse(&text).unwrap(), ..case.machine.clone() };
        assert_eq!(runs.kept(&Case { machine, ..case.clone() }), None);
        runs.build = 8;
        assert_eq!(runs.kept(&case), None, "other kernels");
        runs.build = 7;
        runs.announce([&case, &other].into_iter());
        assert_eq!(runs.to_come, 2.0);
        fs::write(&case.program, "another program").unwrap();
        assert_eq!(runs.kept(&case), None);
    }

    #[test]
    fn large_machines_have_twice_the_memory_and_their_windows_where_kernels_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut runs = runs(folder.path());
        runs.machines.project.root = root;
        let size = |is_large| Size { is_large, ..Size::default() };
        for model in Model::ALL {
            let fused = runs.machine(System::Fused, model, size(true)).unwrap().machine;
            assert_eq!((fused.pool.size, fused.multikernel), (2 << 30, None));
            let text = runs.machine(System::Multikernel, model, size(true)).unwrap().machine;
            assert_eq!((text.pool.size, text.multikernel.unwrap().kernel_len), (2 << 30, 956 << 20));
            assert!(!text.text.contains("444MiB") && text.model_config().is_ok());
            let usual = runs.machine(System::Multikernel, model, size(false)).unwrap().machine;
            assert_eq!(usual.multikernel.unwrap().kernel_len, 444 << 20);
        }
    }

    #[test]
    fn larger_caches_are_those_of_the_shipped_machines_that_have_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = runs(folder.path());
        runs.machines.project.root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let size = Size { is_large: false, cache: Cache::Large };
        for model in Model::ALL {
            let shipped = runs.machines.machine(&format!("{}-32m", System::Fused.machine(model))).unwrap().machine;
            let config = |system| runs.machine(system, model, size).unwrap().machine.model_config().unwrap();
            assert_eq!(format!("{:?}", config(System::Fused)), format!("{:?}", shipped.model_config().unwrap()));
            let rival = format!("{:?}", config(System::Multikernel));
            let usual = runs.machine(System::Multikernel, model, Size::default()).unwrap().machine;
            assert_ne!(rival, format!("{:?}", usual.model_config().unwrap()));
        }
    }

    #[test]
    fn what_fails_beside_others_is_told_to_who_asks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (mut runs, case) = (runs(folder.path()), case(folder.path()));
        let other = Case { arguments: "home".into(), ..case.clone() };
        runs.announce([&case, &other].into_iter());
        // There is no `motet` in this folder.
        runs.run_beside(&[&case, &other], 2).unwrap();
        assert_eq!((runs.ahead.len(), runs.to_come), (2, 0.0));
        assert!(runs.run(&case).is_err() && runs.run(&other).is_err());
        assert_eq!(runs.ahead.len(), 0);
        let kept = Kept { what: case.what(), ..Kept::default() };
        runs.keep(&case, &kept).unwrap();
        runs.run_beside(&[&case], 2).unwrap();
        assert_eq!(runs.run(&case).unwrap(), kept);
    }

    #[test]
    fn rivals_differ_from_the_shipped_machine_in_what_they_are_called_by() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = runs(folder.path());
        runs.machines.project.root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let spec = |system| runs.machine(system, Model::Shared, Size::default()).unwrap().machine.multikernel.unwrap();
        let plain = spec(System::Multikernel);
        assert_eq!((plain.prefetch, plain.by_reference, plain.message_ns), (0, false, 0));
        let wanted = [
            plain,
            MultikernelSpec { message_ns: 37_500, ..plain },
            MultikernelSpec { prefetch: 14, ..plain },
            MultikernelSpec { by_reference: true, ..plain },
            MultikernelSpec { prefetch: 14, by_reference: true, ..plain },
        ];
        assert_eq!(System::RIVALS.map(spec), wanted);
    }

    #[test]
    fn half_a_file_is_not_taken_for_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let (runs, case) = (runs(folder.path()), case(folder.path()));
        runs.keep(&case, &Kept::default()).unwrap();
        let text = fs::read(runs.path(&case)).unwrap();
        fs::write(runs.path(&case), &text[..text.len() / 2]).unwrap();
        assert_eq!(runs.kept(&case), None);
    }

    #[test]
    fn the_remaining_time_follows_the_weights() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = runs(folder.path());
        assert_eq!(runs.remaining(), "first run");
        runs.begun = Instant::now() - Duration::from_secs(60);
        (runs.made, runs.to_come) = (2.0, 5.0);
        assert_eq!(runs.remaining(), "after 1:00, about 2:30 more");
    }
}
