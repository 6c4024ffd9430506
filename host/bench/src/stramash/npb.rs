//! IS, CG, MG and FT, whose thread goes to another instruction set, on fused kernels and on kernels that exchange messages.

use clap::ValueEnum;
use motet_error::{Error, ErrorKind, Result};

use super::{
    paper,
    runs::{Cache, Case, Kept, Model, Runs, SYSTEMS, Size, System},
};
use crate::{project, report::Measurement};

/// The problem's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Class {
    /// The smallest: minutes
    #[default]
    S,
    /// That of the paper: hours
    A,
}

impl Class {
    /// Its letter.
    pub const fn letter(self) -> char {
        match self {
            Self::S => 'S',
            Self::A => 'A',
        }
    }
}

/// A benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Benchmark {
    /// Integer sort
    Is,
    /// Conjugate gradient
    Cg,
    /// Multigrid
    Mg,
    /// Fourier transforms
    Ft,
}

impl Benchmark {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 4] = [Self::Is, Self::Cg, Self::Mg, Self::Ft];

    /// Its name in metrics, and that of its program.
    pub const fn metric(self) -> &'static str {
        ["is", "cg", "mg", "ft"][self as usize]
    }

    /// Its name in tables and on the page.
    pub const fn name(self) -> &'static str {
        ["IS", "CG", "MG", "FT"][self as usize]
    }

    /// The schedule by which the paper's messages come out.
    pub const fn schedule(self) -> &'static str {
        match self {
            Self::Is | Self::Cg => "alternating",
            Self::Mg | Self::Ft => "round-trips",
        }
    }

    /// Messages that its arrays need (`user/npb/count`, docs/npb.md).
    pub const fn counted(self, class: Class) -> u64 {
        match class {
            Class::S => [1687, 1064, 677, 5245][self as usize],
            Class::A => [206_979, 15_924, 287_601, 164_625][self as usize],
        }
    }

    /// The paper's ratio, where its text has one.
    pub fn published(self, model: Model, level: Level) -> Option<f64> {
        match (self, model, level) {
            (Self::Is, _, Level::O0) => Some(paper::IS_OVER_POPCORN),
            (Self::Cg, Model::Separated | Model::Shared, Level::O0) => Some(paper::CG_OVER_POPCORN),
            _ => None,
        }
    }
}

/// How the program is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Level {
    /// Not optimised, as the paper's programs were
    O0,
    /// Optimised
    O2,
}

impl Level {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::O0, Self::O2];

    /// Its name in metrics.
    pub const fn metric(self) -> &'static str {
        ["o0", "o2"][self as usize]
    }

    /// The compiler's option, and its name in tables.
    pub const fn option(self) -> &'static str {
        ["-O0", "-O2"][self as usize]
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The problem.
    pub class: Class,
    /// Which benchmarks.
    pub benchmarks: Vec<Benchmark>,
    /// How they are compiled.
    pub levels: Vec<Level>,
    /// The memory models.
    pub models: Vec<Model>,
    /// The systems: always fused kernels and the plain rival, which all others are compared with.
    pub systems: Vec<System>,
    /// The last-level cache.
    pub cache: Cache,
    /// How many runs at a time.
    pub jobs: usize,
}

impl Plan {
    /// What begins the names of its metrics. Other sizes than the usual ones are figures of their own.
    fn prefix(&self) -> String {
        let class = if self.class == Class::A { "class_a_" } else { "" };
        let cache = if self.cache == Cache::Large { "l3_32m_" } else { "" };
        format!("{class}{cache}")
    }

    /// What the sources of its metrics begin with.
    fn size(&self) -> String {
        let cache = if self.cache == Cache::Large { ", 32 MiB of last-level cache" } else { "" };
        format!("class {}{cache}", self.class.letter())
    }
}

/// A run of a benchmark.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Of the timed part.
    pub seconds: f64,
    /// Messages, but those of the kernels' acquaintance and of system calls.
    pub messages: u64,
    /// Messages for system calls of the thread while it is away.
    pub calls: u64,
    /// Messages by kind, which are not 0.
    pub kinds: Vec<(String, u64)>,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Doorbells in the timed part, of all cores.
    pub doorbells: u64,
}

impl Timed {
    /// Of kernels that ring for each message: exchanges of two of them in the timed part.
    fn exchanges(&self) -> f64 {
        self.doorbells as f64 / 2.0
    }
}

/// A benchmark, compiled in one way, in a memory model.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Which.
    pub benchmark: Benchmark,
    /// How compiled.
    pub level: Level,
    /// Where.
    pub model: Model,
    /// Of [`System::ALL`]; `None`: not asked for. The two of [`System::BOTH`] are always there.
    pub systems: [Option<Timed>; SYSTEMS],
    /// Seconds of the program that stays at home, in memory of its own island.
    pub home_s: f64,
    /// What it was measured on.
    pub machine: String,
}

impl Pair {
    /// With fused kernels, and with a kernel for each island.
    pub fn both(&self) -> [&Timed; 2] {
        System::BOTH.map(|system| self.systems[system as usize].as_ref().expect("these two are always measured"))
    }

    /// Seconds of a system; `None`: it was not asked for.
    pub fn seconds(&self, system: System) -> Option<f64> {
        self.systems[system as usize].as_ref().map(|timed| timed.seconds)
    }

    /// So many times as long as one system another one takes.
    pub fn over(&self, base: System, system: System) -> Option<f64> {
        Some(self.seconds(system)? / self.seconds(base)?)
    }

    /// So many times as long as the fused kernels the plain rival takes.
    pub fn ratio(&self) -> f64 {
        self.ratio_with(0.0)
    }

    /// [`ratio`](Self::ratio), if each exchange of two messages took so much longer.
    pub fn ratio_with(&self, added_us: f64) -> f64 {
        let [fused, multikernel] = self.both();
        (multikernel.seconds + multikernel.exchanges() * added_us / 1e6) / fused.seconds
    }

    /// How much longer each would have to take for a ratio; negative: it is passed already.
    pub fn added_us_for(&self, ratio: f64) -> f64 {
        let [fused, multikernel] = self.both();
        (ratio * fused.seconds - multikernel.seconds) * 1e6 / multikernel.exchanges()
    }
}

/// The runs of a plan, in the order in which they are made.
struct Planned {
    benchmark: Benchmark,
    level: Level,
    /// At home.
    home: Case,
    /// By model.
    models: Vec<(Model, [Option<Case>; SYSTEMS])>,
}

fn planned(runs: &Runs, plan: &Plan) -> Result<Vec<Planned>> {
    let mut all = Vec::new();
    for &level in &plan.levels {
        for &benchmark in &plan.benchmarks {
            let name = format!("{}-{}-{}", benchmark.metric(), level.metric(), plan.class.letter());
            let source = format!("user/npb/{}.c", benchmark.metric());
            let class = format!("-DCLASS_{}", plan.class.letter());
            let program = runs.compile(&source, &[level.option(), &class], &name)?;
            let size = Size { is_large: plan.class == Class::A, cache: plan.cache };
            let case = |system: System, model, arguments: &str| -> Result<Case> {
                let machine = runs.machine(system, model, size)?;
                Ok(Case {
                    program: program.clone(),
                    arguments: arguments.into(),
                    machine,
                    weight: weight(benchmark, level),
                })
            };
            let schedule = benchmark.schedule();
            let of_system = |system, model| {
                let is_wanted = System::BOTH.contains(&system) || plan.systems.contains(&system);
                is_wanted.then(|| case(system, model, schedule)).transpose()
            };
            let of_model = |&model: &Model| Ok((model, all_of(System::ALL.map(|system| of_system(system, model)))?));
            all.push(Planned {
                benchmark,
                level,
                home: case(System::Multikernel, Model::Shared, "home")?,
                models: plan.models.iter().map(of_model).collect::<Result<_>>()?,
            });
        }
    }
    Ok(all)
}

/// What each system has, if none has failed.
fn all_of<T>(results: [Result<T>; SYSTEMS]) -> Result<[T; SYSTEMS]> {
    let all: Vec<T> = results.into_iter().collect::<Result<_>>()?;
    Ok(all.try_into().unwrap_or_else(|_| unreachable!("as many as there were")))
}

/// How long a run takes beside the others, roughly.
fn weight(benchmark: Benchmark, level: Level) -> f64 {
    [[1.0, 2.0, 0.6, 6.0], [0.7, 1.0, 0.5, 3.0]][level as usize][benchmark as usize]
}

/// Makes the runs of a plan. What fails is told, and does not keep the others from being made.
///
/// # Errors
/// A program does not compile, or a machine file is missing.
pub fn measure(runs: &mut Runs, plan: &Plan) -> Result<Vec<Result<Pair>>> {
    let planned = planned(runs, plan)?;
    let cases =
        planned.iter().flat_map(|one| one.models.iter().flat_map(|(_, cases)| cases).flatten().chain([&one.home]));
    runs.announce(cases.clone());
    runs.run_beside(&cases.collect::<Vec<_>>(), plan.jobs)?;
    let mut pairs = Vec::new();
    for one in &planned {
        let home = runs.run(&one.home).and_then(|kept| timed(&kept, one.benchmark, plan.class));
        for (model, cases) in &one.models {
            let system = |case: &Option<Case>| {
                let timed = |case| runs.run(case).and_then(|kept| timed(&kept, one.benchmark, plan.class));
                case.as_ref().map(timed).transpose()
            };
            let systems = cases.each_ref().map(system);
            let fused = cases[System::Fused as usize].as_ref().expect("it is always measured");
            let pair = || -> Result<Pair> {
                Ok(Pair {
                    benchmark: one.benchmark,
                    level: one.level,
                    model: *model,
                    systems: all_of(systems)?,
                    home_s: home.as_ref().map_err(Clone::clone)?.seconds,
                    machine: project::describe(&fused.machine.machine)?,
                })
            };
            pairs.push(pair());
        }
    }
    Ok(pairs)
}

/// What a run says, if its result is the published one.
fn timed(kept: &Kept, benchmark: Benchmark, class: Class) -> Result<Timed> {
    let start = format!("{} class {} ", benchmark.name(), class.letter());
    let is_right = |line: &str| line.starts_with(&start) && line.ends_with(" verified");
    if !kept.output.lines().any(is_right) {
        return Err(Error::new(ErrorKind::Software, format!("{}: not verified:\n{}", kept.what, kept.output)));
    }
    let region = kept.region(benchmark.metric())?;
    let is_call = |kind: &str| kind.starts_with("syscall_");
    let kinds = kept.kernels.first().map_or(Vec::new(), |kernel| kernel.messages.keys().cloned().collect());
    Ok(Timed {
        seconds: region.time_ps as f64 / 1e12,
        messages: kept.messages(|kind| kind != "node_info" && !is_call(kind)),
        calls: kept.messages(is_call),
        kinds: kinds
            .into_iter()
            .map(|kind| (kind.clone(), kept.messages(|other| other == kind)))
            .filter(|&(_, count)| count != 0)
            .collect(),
        bytes: kept.kernels.iter().map(|kernel| kernel.bytes_sent).sum(),
        doorbells: region.cores.iter().map(|core| core.ipis_sent).sum(),
    })
}

/// The figures.
pub fn measurements(plan: &Plan, pairs: &[Pair]) -> Vec<Measurement> {
    let class = plan.class;
    let mut all: Vec<Measurement> = pairs.iter().flat_map(|pair| of_pair(plan, pair)).collect();
    for &benchmark in &Benchmark::ALL {
        let of = |pair: &&Pair| pair.benchmark == benchmark && pair.level == Level::O2;
        // Of the models, the one that is furthest off: their messages are to be alike.
        let off = |pair: &&Pair| (pair.both()[1].messages as f64 / benchmark.counted(class) as f64 - 1.0).abs();
        let furthest = pairs.iter().filter(of).max_by(|a, b| off(a).total_cmp(&off(b)));
        all.extend(furthest.into_iter().flat_map(|pair| of_messages(plan, pair)));
    }
    if !pairs.is_empty() {
        let sent = |system: &Timed| system.messages + system.calls;
        let without = [System::Fused, System::Adaptive];
        let of_pair = |pair: &Pair| -> u64 {
            without.iter().filter_map(|&system| pair.systems[system as usize].as_ref()).map(sent).sum()
        };
        let fused: u64 = pairs.iter().map(of_pair).sum();
        let machine = pairs[0].machine.clone();
        let source = "of all runs on fused kernels; they have no messages. What they have instead is doorbells_fused_…";
        all.push(measurement("messages_fused".into(), fused as f64, "messages", machine, source.into()));
        for (systems, name) in [(&System::RIVALS[..], "best_rival"), (&[System::Fused], "fused")] {
            all.extend(worst_of_adaptive(plan, pairs, systems, name));
        }
    }
    let prefix = plan.prefix();
    all.into_iter().map(|one| Measurement { metric: format!("{prefix}{}", one.metric), ..one }).collect()
}

/// The pair in which pages that follow their users gain least over one of some other systems.
fn worst_of_adaptive(plan: &Plan, pairs: &[Pair], systems: &[System], name: &str) -> Option<Measurement> {
    let all = pairs.iter().flat_map(|pair| {
        systems.iter().filter_map(move |&system| Some((pair, system, pair.over(System::Adaptive, system)?)))
    });
    let (worst, system, ratio) = all.min_by(|(_, _, one), (_, _, other)| one.total_cmp(other))?;
    let source = format!(
        "{}: the smallest of all such ratios: {} {} on {}, {}{}",
        plan.size(),
        worst.benchmark.name(),
        worst.level.option(),
        worst.model.name(),
        system.metric(),
        system.lines()
    );
    Some(Measurement {
        target: Some(1.0),
        ..measurement(format!("adaptive_over_{name}_min"), ratio, "ratio", worst.machine.clone(), source)
    })
}

fn measurement(metric: String, value: f64, unit: &'static str, machine: String, source: String) -> Measurement {
    Measurement { metric, value, unit, machine, reference: None, target: None, source }
}

fn of_pair(plan: &Plan, pair: &Pair) -> Vec<Measurement> {
    let Pair { benchmark, level, model, .. } = pair;
    let end = format!("{}_{}", model.metric(), level.metric());
    let what = format!("{}, {}, {}", plan.size(), benchmark.schedule(), level.option());
    let is_papers = plan.class == Class::A && plan.cache == Cache::Usual;
    let published = is_papers.then(|| benchmark.published(*model, *level)).flatten();
    let ratio = Measurement {
        reference: published,
        ..measurement(
            format!("{}_over_popcorn_shm_{end}", benchmark.metric()),
            pair.ratio(),
            "ratio",
            pair.machine.clone(),
            format!(
                "{what}: time with a kernel for each island over time with fused kernels; reference: section 9.2, class A, -O0"
            ),
        )
    };
    let mut all = vec![ratio];
    for rival in System::RIVALS.into_iter().filter(|&rival| rival != System::Multikernel) {
        let Some(over_fused) = pair.over(System::Fused, rival) else { continue };
        all.push(measurement(
            format!("{}_over_{}_{end}", benchmark.metric(), rival.metric()),
            over_fused,
            "ratio",
            pair.machine.clone(),
            format!("{what}: time with a kernel for each island{} over time with fused kernels", rival.lines()),
        ));
    }
    for rival in System::RIVALS.into_iter().filter(|&rival| rival != System::Tcp) {
        let Some(timed) = &pair.systems[rival as usize] else { continue };
        all.extend(pair.over(System::Adaptive, rival).map(|over_adaptive| {
            measurement(
                format!("{}_adaptive_over_{}_{end}", benchmark.metric(), rival.metric()),
                over_adaptive,
                "ratio",
                pair.machine.clone(),
                format!(
                    "{what}: time with a kernel for each island{} over time with fused kernels and policy = \"adaptive\"",
                    rival.lines()
                ),
            )
        }));
        let messages = timed.messages as f64;
        all.push(measurement(
            format!("{}_messages_{}_{end}", benchmark.metric(), rival.metric()),
            messages,
            "messages",
            pair.machine.clone(),
            format!("{what}: messages of the whole program, without system calls{}", rival.lines()),
        ));
    }
    for (system, timed) in System::ALL.into_iter().zip(&pair.systems) {
        let Some(timed) = timed else { continue };
        let file = system.machine(*model);
        let name = format!("{}_{}_ms_{end}", benchmark.metric(), system.metric());
        let with = system.lines();
        let source = format!("{what}: the timed part, on machines/{file}.toml{with}");
        all.push(measurement(name, 1e3 * timed.seconds, "ms", pair.machine.clone(), source));
    }
    if *benchmark == Benchmark::Is {
        let source = format!(
            "{what}: by so much longer each request with its answer would have to take for the paper's ratio of {}; negative: it is passed",
            paper::IS_OVER_POPCORN
        );
        let added = pair.added_us_for(paper::IS_OVER_POPCORN);
        all.push(measurement(format!("is_added_us_for_paper_{end}"), added, "us", pair.machine.clone(), source));
    }
    if *model == Model::Shared {
        let name = format!("{}_home_ms_{}", benchmark.metric(), level.metric());
        let source = format!(
            "{}, home, {}: in memory that is near, on machines/multikernel-shared.toml",
            plan.size(),
            level.option()
        );
        all.push(measurement(name, 1e3 * pair.home_s, "ms", pair.machine.clone(), source));
    }
    all
}

fn of_messages(plan: &Plan, pair: &Pair) -> Vec<Measurement> {
    let (class, benchmark, [fused, multikernel]) = (plan.class, pair.benchmark, pair.both());
    let (name, index) = (benchmark.metric(), benchmark as usize);
    let of = |metric: String, value: f64, unit, source: &str| {
        let source = format!("{}, {}, {}: {source}", plan.size(), benchmark.schedule(), pair.level.option());
        measurement(metric, value, unit, pair.machine.clone(), source)
    };
    let counted = benchmark.counted(class) as f64;
    let messages = multikernel.messages as f64;
    let mut all = vec![
        Measurement {
            reference: Some(counted),
            ..of(
                format!("messages_{name}"),
                messages,
                "messages",
                "of the whole program, without system calls; the memory model in which they are furthest from those that arrays need; reference: these",
            )
        },
        of(
            format!("messages_over_counted_{name}"),
            messages / counted,
            "ratio",
            "over what arrays need (user/npb/count)",
        ),
        of(format!("messages_calls_{name}"), multikernel.calls as f64, "messages", "for system calls while away"),
        of(format!("messages_bytes_{name}"), multikernel.bytes as f64, "bytes", "of all messages"),
        of(
            format!("doorbells_fused_{name}"),
            fused.doorbells as f64,
            "doorbells",
            "in the timed part, on fused kernels",
        ),
    ];
    if class == Class::A {
        let published = paper::MESSAGES[index] as f64;
        all.push(of(format!("messages_over_paper_{name}"), messages / published, "ratio", "over Table 3"));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn timed(seconds: f64, messages: u64) -> Timed {
        Timed { seconds, messages, calls: 0, kinds: Vec::new(), bytes: 10 * messages, doorbells: 3 }
    }

    fn pair(benchmark: Benchmark, model: Model, level: Level, messages: u64) -> Pair {
        let systems = [
            timed(0.5, 0),
            timed(1.0, messages),
            timed(0.25, 0),
            timed(1.5, messages),
            timed(0.75, messages / 2),
            timed(0.875, messages),
            timed(0.625, messages / 2),
        ];
        Pair { benchmark, level, model, systems: systems.map(Some), home_s: 0.4, machine: "m".into() }
    }

    fn plan(class: Class) -> Plan {
        let (benchmarks, levels, models) = (Benchmark::ALL.into(), Level::BOTH.into(), Model::ALL.into());
        Plan { class, benchmarks, levels, models, systems: System::ALL.into(), cache: Cache::Usual, jobs: 1 }
    }

    #[test]
    fn ratios_are_over_the_fused_kernels_and_the_paper_is_a_reference_for_its_class_alone() {
        let pairs: Vec<Pair> = { Level::BOTH.into_iter() }
            .flat_map(|level| Model::ALL.map(|model| pair(Benchmark::Cg, model, level, 2000)))
            .collect();
        for (class, reference) in [(Class::S, None), (Class::A, Some(paper::CG_OVER_POPCORN))] {
            let plan = plan(class);
            let all = measurements(&plan, &pairs);
            let named = |name: &str| format!("{}{name}", plan.prefix());
            let find = |name: &str| all.iter().find(|measured| measured.metric == named(name)).unwrap();
            let ratio = find("cg_over_popcorn_shm_shared_o0");
            assert_eq!((ratio.value, ratio.reference), (2.0, reference));
            assert_eq!(
                find("cg_over_popcorn_shm_shared_o2").reference,
                None,
                "the paper's programs were not optimised"
            );
            assert_eq!(find("cg_over_popcorn_shm_fully_shared_o0").reference, None);
            assert_eq!(find("cg_over_popcorn_tcp_shared_o0").value, 3.0);
            assert_eq!(find("cg_adaptive_over_popcorn_shm_shared_o0").value, 4.0);
            assert_eq!(find("cg_over_popcorn_prefetch_shared_o0").value, 1.5);
            assert_eq!(find("cg_over_popcorn_by_reference_shared_o0").value, 1.75);
            assert_eq!(find("cg_over_popcorn_prefetch_by_reference_shared_o2").value, 1.25);
            assert_eq!(find("cg_adaptive_over_popcorn_prefetch_shared_o0").value, 3.0);
            assert_eq!(find("cg_messages_popcorn_prefetch_shared_o0").value, 1000.0);
            let best = find("adaptive_over_best_rival_min");
            assert_eq!((best.value, find("adaptive_over_fused_min").value), (2.5, 2.0));
            assert!(best.source.contains("prefetch = 14 and by-reference"), "{}", best.source);
            assert_eq!((find("cg_home_ms_o2").value, find("messages_fused").value), (400.0, 0.0));
            let has_paper = all.iter().any(|measured| measured.metric == "class_a_messages_over_paper_cg");
            assert_eq!(has_paper, class == Class::A);
            crate::report::assert_each_once(&all);
        }
    }

    #[test]
    fn a_longer_exchange_makes_the_rival_slower() {
        // 1.5 exchanges of 1 s more against 0.5 s: 1.0 s of its own, and 1.5 s.
        let pair = pair(Benchmark::Is, Model::Shared, Level::O2, 1);
        assert_eq!((pair.ratio_with(0.0), pair.ratio_with(1e6)), (2.0, 5.0));
        assert_eq!(pair.added_us_for(5.0), 1e6);
        let all = measurements(&plan(Class::S), &[pair]);
        let added = all.iter().find(|measured| measured.metric == "is_added_us_for_paper_shared_o2").unwrap();
        assert!((added.value - 0.05e6 / 1.5).abs() < 1e-6, "{added:?}");
    }

    #[test]
    fn systems_that_were_not_asked_for_have_no_figures() {
        let mut pair = pair(Benchmark::Is, Model::Shared, Level::O0, 2000);
        for system in System::ALL.into_iter().filter(|system| !System::BOTH.contains(system)) {
            pair.systems[system as usize] = None;
        }
        let plan = Plan { cache: Cache::Large, ..plan(Class::A) };
        let all = measurements(&plan, &[pair]);
        let find = |name: &str| all.iter().find(|measured| measured.metric == format!("class_a_l3_32m_{name}"));
        let ratio = find("is_over_popcorn_shm_shared_o0").unwrap();
        assert_eq!((ratio.value, ratio.reference), (2.0, None), "the paper's ratio is that of 4 MiB");
        assert!(ratio.source.starts_with("class A, 32 MiB of last-level cache, alternating"), "{}", ratio.source);
        assert!(all.iter().all(|one| !one.metric.contains("adaptive") && !one.metric.contains("tcp")), "{all:?}");
        assert!(find("is_popcorn_shm_ms_shared_o0").is_some() && find("is_adaptive_ms_shared_o0").is_none());
    }

    #[test]
    fn messages_are_those_of_the_model_that_is_furthest_off() {
        let pairs = [
            pair(Benchmark::Mg, Model::Separated, Level::O2, 677),
            pair(Benchmark::Mg, Model::Shared, Level::O2, 700),
            pair(Benchmark::Mg, Model::FullyShared, Level::O2, 660),
        ];
        let all = measurements(&plan(Class::S), &pairs);
        let messages = all.iter().find(|measured| measured.metric == "messages_mg").unwrap();
        assert_eq!((messages.value, messages.reference), (700.0, Some(677.0)));
    }

    #[test]
    fn what_arrays_need_is_what_the_document_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/npb.md")).unwrap();
        for class in [Class::S, Class::A] {
            for benchmark in Benchmark::ALL {
                let start = format!("| {} | {} | {} | ", benchmark.name(), class.letter(), benchmark.schedule());
                let row = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
                let counted: u64 = row.split(" | ").next().unwrap().replace(',', "").parse().unwrap();
                assert_eq!(benchmark.counted(class), counted, "{start}");
            }
        }
    }

    #[test]
    fn a_result_that_is_not_the_published_one_is_no_time() {
        let kept = |output: &str| Kept { output: output.into(), ..Kept::default() };
        let wrong = "IS class S schedule alternating to aarch64 iterations 10 seconds 0.031 NOT VERIFIED\n";
        let error = super::timed(&kept(wrong), Benchmark::Is, Class::S).unwrap_err();
        assert!(error.message.contains("not verified"), "{error}");
        let right = wrong.replace("NOT VERIFIED", "verified");
        let error = super::timed(&kept(&right), Benchmark::Is, Class::S).unwrap_err();
        assert!(error.message.contains("no region `is`"), "{error}");
        assert!(super::timed(&kept(&right), Benchmark::Is, Class::A).is_err(), "of another class");
    }
}
