//! What a machine has done between two samples.

use std::collections::{BTreeMap, HashMap};

use motet_fabric::{
    timed::CoreCounts,
    watched::{COUNTERS, CoreSample, IslandSample, ProcessSample, Sample},
};
use motet_layout::PAGE_SIZE;
use serde::Serialize;

/// What is shown of a machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct View {
    /// The process of the host that runs it.
    pub process: u32,
    /// The interval on the host's clock.
    pub seconds: f64,
    /// Of a timed machine: its time, and how much of it passed in the interval.
    pub simulated: Option<[f64; 2]>,
    /// Bytes of memory for all, and free.
    pub memory: [u64; 2],
    /// Processes that were made.
    pub forks: u64,
    pub islands: Vec<IslandView>,
    pub processes: Vec<ProcessView>,
    /// Messages between kernels that were sent, by kind.
    pub messages: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct IslandView {
    pub name: String,
    pub isa: &'static str,
    pub state: &'static str,
    /// Share of the interval that its cores were at work.
    pub busy: f64,
    /// By the names of [`COUNTERS`].
    pub counts: BTreeMap<&'static str, u64>,
    /// Bytes of it near to the island, near to none, and near to others: in all, and free.
    pub memory: [[u64; 2]; 3],
    pub cores: Vec<CoreView>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct CoreView {
    pub name: String,
    pub state: &'static str,
    pub busy: f64,
    /// Threads that wait for it.
    pub ready: u32,
    pub runs: Option<Runs>,
    /// On timed machines.
    pub caches: Option<Caches>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Runs {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
}

/// What the simulator has counted of a core.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Caches {
    pub instructions: u64,
    /// Share of the time that it was awake.
    pub stall: f64,
    pub l1i_misses: u64,
    pub l1d_misses: u64,
    pub l2_misses: u64,
    pub l3_misses: u64,
    pub near_reads: u64,
    pub far_reads: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessView {
    pub pid: u32,
    pub user: u32,
    pub state: char,
    pub isa: &'static str,
    /// Where its threads run, or ran last.
    pub islands: Vec<String>,
    pub threads: u32,
    /// Threads in functions of other instruction sets.
    pub called: u32,
    /// Share of a core in the interval.
    pub cpu: f64,
    pub time_seconds: f64,
    pub resident: u64,
    pub name: String,
}

/// Makes views of samples that follow each other.
#[derive(Default)]
pub struct Meter {
    process: u32,
    before: Option<Sample>,
    /// By island and core: time since the core has accounted for its time, in nanoseconds, and how much of it was taken for work.
    open: HashMap<(usize, usize), [u64; 2]>,
    /// By kernel and process: time until the sample before, with what its cores had not accounted for.
    ran_ns: HashMap<(usize, u32), u64>,
}

impl Meter {
    /// Of the machine that a process runs.
    pub fn new(process: u32) -> Self {
        Self { process, ..Self::default() }
    }

    /// What has happened since the sample before. `None`: there was none.
    pub fn next(&mut self, now: Sample) -> Option<View> {
        let Some(before) = self.before.take() else {
            self.processes(&now, 0);
            self.before = Some(now);
            return None;
        };
        let host_ns = now.host.saturating_sub(before.host).as_nanos() as u64;
        let passed_ns = match (now.simulated_ns, before.simulated_ns) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            _ => host_ns,
        };
        let mut islands = Vec::new();
        for (index, island) in now.islands.iter().enumerate() {
            islands.push(self.island(index, before.islands.get(index), island, passed_ns));
        }
        let processes = self.processes(&now, passed_ns);
        let view = View {
            process: self.process,
            seconds: host_ns as f64 / 1e9,
            simulated: now.simulated_ns.map(|now| [now as f64 / 1e9, passed_ns as f64 / 1e9]),
            memory: now.memory,
            forks: now.forks.saturating_sub(before.forks),
            islands,
            processes,
            messages: messages(&before, &now),
        };
        self.before = Some(now);
        Some(view)
    }

    fn island(
        &mut self,
        index: usize,
        before: Option<&IslandSample>,
        now: &IslandSample,
        passed_ns: u64,
    ) -> IslandView {
        let cores: Vec<CoreView> = now
            .cores
            .iter()
            .enumerate()
            .map(|(number, core)| {
                let before = before.and_then(|before| before.cores.get(number));
                let busy = self.busy((index, number), before, core, passed_ns);
                core_view(format!("{}.{number}", now.name), before, core, busy)
            })
            .collect();
        let counts = COUNTERS.iter().zip(now.counts).enumerate();
        // An island that has joined again has begun to count again.
        let counted = |index: usize, now: u64| now.checked_sub(before.map_or(0, |before| before.counts[index]));
        IslandView {
            name: now.name.clone(),
            isa: now.isa,
            state: now.state,
            busy: cores.iter().map(|core| core.busy).sum::<f64>() / cores.len().max(1) as f64,
            counts: counts.map(|(index, (&(name, _), now))| (name, counted(index, now).unwrap_or(now))).collect(),
            memory: now.frames.map(|frames| frames.map(|frames| u64::from(frames) * PAGE_SIZE)),
            cores,
        }
    }

    /// Threads are charged when they stop. Those that run have had what their cores have not accounted for.
    fn processes(&mut self, now: &Sample, passed_ns: u64) -> Vec<ProcessView> {
        let mut taken: HashMap<(usize, u32), u64> = HashMap::new();
        for (index, island) in now.islands.iter().enumerate() {
            // Each island has a kernel of its own, or all have the same.
            let kernel = if now.messages.is_empty() { 0 } else { index };
            for (number, core) in island.cores.iter().enumerate() {
                let (Some((pid, ..)), Some([_, taken_ns])) = (&core.runs, self.open.get(&(index, number))) else {
                    continue;
                };
                let of_process = taken.entry((kernel, *pid)).or_default();
                *of_process = of_process.saturating_add(*taken_ns);
            }
        }
        let earlier = std::mem::take(&mut self.ran_ns);
        let mut views = Vec::new();
        for process in &now.processes {
            let key = (process.kernel, process.pid);
            let time_ns = process.time_ns.saturating_add(taken.get(&key).copied().unwrap_or(0));
            let ran_ns = time_ns.saturating_sub(earlier.get(&key).copied().unwrap_or(0));
            self.ran_ns.insert(key, time_ns);
            views.push(process_view(now, process, time_ns, ran_ns, passed_ns));
        }
        views
    }

    /// The share of the interval that a core was at work. Cores account for their time when they go to sleep, wake or change threads; what has
    /// passed since then is taken for more of what a core does now.
    fn busy(&mut self, key: (usize, usize), before: Option<&CoreSample>, now: &CoreSample, passed_ns: u64) -> f64 {
        let Some(before) = before else { return 0.0 };
        if let (Some(before), Some(now)) = (before.counts, now.counts) {
            let [time, idle] = [now.time_ps.saturating_sub(before.time_ps), now.idle_ps.saturating_sub(before.idle_ps)];
            return share(time.saturating_sub(idle), time);
        }
        let [busy_ns, idle_ns] = [0, 1].map(|kind| now.accounted_ns[kind].saturating_sub(before.accounted_ns[kind]));
        let [open_ns, taken_ns] = self.open.get(&key).copied().unwrap_or_default();
        let still_open_ns = open_ns.saturating_add(passed_ns).saturating_sub(busy_ns.saturating_add(idle_ns));
        let taken_now_ns = if now.is_awake { still_open_ns } else { 0 };
        self.open.insert(key, [still_open_ns, taken_now_ns]);
        share(busy_ns.saturating_add(taken_now_ns).saturating_sub(taken_ns), passed_ns)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

fn core_view(name: String, before: Option<&CoreSample>, now: &CoreSample, busy: f64) -> CoreView {
    let counts = now.counts.map(|now| (before.and_then(|before| before.counts).unwrap_or_default(), now));
    CoreView {
        name,
        state: now.state,
        busy,
        ready: now.ready,
        runs: now.runs.clone().map(|(pid, tid, name)| Runs { pid, tid, name }),
        caches: counts.map(|(before, now)| caches(&before, &now)),
    }
}

fn caches(before: &CoreCounts, now: &CoreCounts) -> Caches {
    let of = |count: fn(&CoreCounts) -> u64| count(now).saturating_sub(count(before));
    let awake_ps = of(|counts| counts.time_ps).saturating_sub(of(|counts| counts.idle_ps));
    Caches {
        instructions: of(|counts| counts.instructions),
        stall: share(of(|counts| counts.stall_ps), awake_ps),
        l1i_misses: of(|counts| counts.misses[0]),
        l1d_misses: of(|counts| counts.misses[1]),
        l2_misses: of(|counts| counts.misses[2]),
        l3_misses: of(|counts| counts.misses[3]),
        near_reads: of(|counts| counts.reads[0]),
        far_reads: of(|counts| counts.reads[1]),
    }
}

fn process_view(now: &Sample, process: &ProcessSample, time_ns: u64, ran_ns: u64, passed_ns: u64) -> ProcessView {
    let islands = now.islands.iter().enumerate().filter(|(index, _)| process.islands >> index & 1 != 0);
    let threads = process.threads.max(1);
    ProcessView {
        pid: process.pid,
        user: process.user,
        state: process.state,
        isa: process.isa,
        islands: islands.map(|(_, island)| island.name.clone()).collect(),
        threads: process.threads,
        called: process.called,
        // They may be charged for what they ran before the interval, too.
        cpu: share(ran_ns, passed_ns.saturating_mul(threads.into())) * f64::from(threads),
        time_seconds: time_ns as f64 / 1e9,
        resident: process.resident,
        name: process.name.clone(),
    }
}

fn messages(before: &Sample, now: &Sample) -> BTreeMap<&'static str, u64> {
    let earlier: HashMap<_, _> = before.messages.iter().copied().collect();
    let sent =
        |&(name, count): &(&'static str, u64)| (name, count.saturating_sub(earlier.get(name).copied().unwrap_or(0)));
    now.messages.iter().map(sent).collect()
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    /// A machine of two islands, one of which is at work.
    pub fn sample(seconds: u64) -> Sample {
        let core = |is_awake, busy: u64, idle: u64| CoreSample {
            state: if is_awake { "runs" } else { "idle" },
            is_awake,
            accounted_ns: [busy * 1_000_000, idle * 1_000_000],
            runs: is_awake.then(|| (12, 14, "sort".to_owned())),
            ..CoreSample::default()
        };
        let island = |name: &str, isa, cores| IslandSample {
            name: name.into(),
            isa,
            state: "runs",
            counts: std::array::from_fn(|index| seconds * 100 * (index as u64 + 1)),
            frames: [[1024, 256], [0, 0], [512, 512]],
            cores,
        };
        let process = |pid, user, name: &str, time: u64, islands| ProcessSample {
            pid,
            user,
            state: if pid == 12 { 'R' } else { 'S' },
            isa: "riscv64",
            islands,
            threads: 1,
            time_ns: time * 1_000_000_000,
            resident: u64::from(pid) << 20,
            name: name.into(),
            ..ProcessSample::default()
        };
        Sample {
            host: Duration::from_secs(seconds),
            memory: [1 << 30, 3 << 28],
            forks: 3 * seconds,
            islands: vec![
                island("x86", "x86_64", vec![core(false, 0, 250 * seconds), core(false, 500 * seconds, 500 * seconds)]),
                island("riscv", "riscv64", vec![core(true, 0, 0)]),
            ],
            processes: vec![process(1, 0, "sh", 1, 0b01), process(12, 1000, "sort", 10, 0b10)],
            ..Sample::default()
        }
    }

    /// The view of two seconds.
    pub fn view() -> View {
        let mut meter = Meter::new(4711);
        assert!(meter.next(sample(10)).is_none());
        meter.next(sample(12)).unwrap()
    }

    #[test]
    fn what_has_happened_in_the_interval_is_counted() {
        let view = view();
        assert_eq!((view.seconds, view.forks, view.simulated), (2.0, 6, None));
        assert_eq!(view.islands[0].counts["page_faults"], 400);
        assert_eq!(view.islands[0].memory, [[4 << 20, 1 << 20], [0, 0], [2 << 20, 2 << 20]]);
        assert_eq!(view.processes[1].cpu, 1.0);
        assert_eq!((view.processes[0].cpu, &view.processes[1].islands[..]), (0.0, &["riscv".to_owned()][..]));
    }

    #[test]
    fn time_that_no_core_has_accounted_for_is_what_the_core_does_now() {
        let busy: Vec<f64> = view().islands.iter().flat_map(|island| &island.cores).map(|core| core.busy).collect();
        assert_eq!(busy, [0.0, 0.5, 1.0]);
        // What was taken for work is accounted for later, and is not counted twice.
        let mut meter = Meter::new(1);
        let at = |seconds: u64, busy: u64, is_awake: bool| {
            let mut sample = sample(seconds);
            let runs = is_awake.then(|| (12, 12, "sort".to_owned()));
            let core = CoreSample { is_awake, accounted_ns: [busy * 1_000_000_000, 0], runs, ..CoreSample::default() };
            sample.islands[1].cores = vec![core];
            sample.processes[1].time_ns = busy * 1_000_000_000;
            sample
        };
        meter.next(at(0, 0, true));
        let first = meter.next(at(1, 0, true)).unwrap();
        assert_eq!((first.islands[1].busy, first.processes[1].cpu, first.processes[1].time_seconds), (1.0, 1.0, 1.0));
        let second = meter.next(at(2, 1, false)).unwrap();
        assert_eq!(
            (second.islands[1].busy, second.processes[1].cpu, second.processes[1].time_seconds),
            (0.0, 0.0, 1.0)
        );
        assert_eq!(meter.next(at(3, 1, false)).unwrap().islands[1].busy, 0.0);
    }

    #[test]
    fn simulated_time_is_the_interval_of_a_timed_machine() {
        let at = |ns: u64| {
            let mut sample = sample(ns);
            sample.simulated_ns = Some(ns * 1_000_000);
            let counts = CoreCounts {
                time_ps: ns * 1000,
                idle_ps: ns * 750,
                misses: [0, 5 * ns, 0, 0],
                ..CoreCounts::default()
            };
            sample.islands[1].cores[0].counts = Some(counts);
            sample
        };
        let mut meter = Meter::new(1);
        meter.next(at(10));
        let view = meter.next(at(30)).unwrap();
        assert_eq!(view.simulated, Some([0.03, 0.02]));
        let core = &view.islands[1].cores[0];
        assert_eq!((core.busy, core.caches.as_ref().unwrap().l1d_misses), (0.25, 100));
    }

    #[test]
    fn counts_that_go_back_and_islands_that_come_are_no_fault() {
        let mut meter = Meter::new(1);
        meter.next(sample(20));
        let mut next = sample(10);
        next.islands.push(IslandSample::default());
        let view = meter.next(next).unwrap();
        assert_eq!(view.islands.len(), 3);
        assert_eq!(view.islands[0].counts["syscalls"], 1000, "it has begun anew");
        assert!(meter.next(Sample::default()).unwrap().islands.is_empty());
        assert!(meter.next(sample(1)).is_some());
    }
}
