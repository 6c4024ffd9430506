//! The cores' traces: room for them in the pool, and what comes out of it while the machine runs.

use motet_layout::{CoreId, IslandId, Pool, PoolAddr, TraceRing, TraceTable};
use motet_protocol::{
    Context,
    trace::{self, Event, Kind, Scope},
};

use motet_machine::{IslandSpec, MachineSpec};
use motet_timing::Records;

use crate::{
    HostPool,
    stats::{FpgaChangeStats, GuestRunStats, GuestStats},
};

/// Room of a core's ring, in events: what a busy core writes while the host does something else.
const RING_EVENTS: u64 = 8192;
/// Most events that are kept: what viewers of traces can still open.
const EVENTS_MAX: usize = 4_000_000;
/// Most runs of virtual machines in the statistics.
const GUEST_RUNS: usize = 8192;

/// What the cores of one machine did, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// In order of time; those of a core in the order in which they happened.
    pub events: Vec<(CoreId, Event)>,
    /// Events that found no room.
    pub lost: u64,
    /// What regions of the FPGA were: the last changes.
    pub fpga: Vec<FpgaChangeStats>,
}

/// Bytes of a kernel's pool that the trace of its islands needs.
pub(crate) fn room(islands: &[IslandSpec]) -> u64 {
    size_of::<TraceTable>() as u64 + cores(islands).count() as u64 * trace::ring_bytes(RING_EVENTS)
}

/// Makes the rings, in [`room`] zeroed bytes at `at`, before any island starts.
pub(crate) fn lay_out(pool: &HostPool, islands: &[IslandSpec], at: PoolAddr, scope: Scope) {
    let table = pool.pool().at::<TraceTable>(at);
    let mut next = at.add(size_of::<TraceTable>() as u64);
    for core in cores(islands) {
        let ring = pool.pool().at::<TraceRing>(next);
        ring.capacity.set(RING_EVENTS);
        ring.scope.set(scope as u32);
        table[core.index()].set(next.0);
        next = next.add(trace::ring_bytes(RING_EVENTS));
    }
    pool.header().trace.set(at.0);
}

/// When cores ran virtual machines, which the trace has too. The last [`GUEST_RUNS`]; `None`: there was none.
pub(crate) fn guests(events: &[(CoreId, Event)], end_ps: u64) -> Option<GuestStats> {
    let mut open: Vec<(CoreId, GuestRunStats)> = Vec::new();
    let mut runs = Vec::new();
    for (core, event) in events.iter().filter(|(_, event)| matches!(event.kind, Kind::Guest | Kind::GuestStop)) {
        let at_ps = event.time_ns.saturating_mul(1000);
        if let Some(at) = open.iter().position(|(one, _)| one == core) {
            runs.push(GuestRunStats { to_ps: at_ps, ..open.swap_remove(at).1 });
        }
        if event.kind == Kind::Guest {
            let (island, place) = (core.island().index(), core.index_in_island());
            let (machine, vcpu) = (event.pid, event.detail);
            open.push((*core, GuestRunStats { machine, vcpu, island, core: place, from_ps: at_ps, to_ps: at_ps }));
        }
    }
    // What runs at the end of the command says no more.
    runs.extend(open.into_iter().map(|(_, run)| GuestRunStats { to_ps: end_ps.max(run.from_ps), ..run }));
    runs.sort_by_key(|run| (run.from_ps, run.island, run.core));
    let lost = runs.len().saturating_sub(GUEST_RUNS);
    runs.drain(..lost);
    (!runs.is_empty()).then_some(GuestStats { runs, runs_lost: lost as u64 })
}

/// The consumer of all rings.
pub(crate) struct Recorder {
    records: Records,
    /// With the pool that each is in.
    rings: Vec<(CoreId, Pool, &'static TraceRing)>,
    events: Vec<(CoreId, Event)>,
    lost: u64,
}

impl Recorder {
    /// The recorder of a machine, `None` when its pool has no rings.
    pub(crate) fn new(pool: &HostPool, machine: &MachineSpec) -> Option<Self> {
        let of_kernel = |kernel: &HostPool| {
            let (pool, first) = (kernel.pool(), kernel.first_core());
            let ring =
                move |core: CoreId| Some((CoreId((first + core.index()) as u8), pool, trace::ring_of(pool, core)?));
            cores(&machine.islands[kernel.islands()]).filter_map(ring).collect::<Vec<_>>()
        };
        let rings: Vec<_> = pool.kernels().flat_map(of_kernel).collect();
        (!rings.is_empty()).then(|| Self { records: pool.records(), rings, events: Vec::new(), lost: 0 })
    }

    /// Takes what is there.
    pub(crate) fn drain(&mut self) {
        for &(core, pool, ring) in &self.rings {
            let (events, lost) = (&mut self.events, &mut self.lost);
            *lost += trace::take(pool, ring, RING_EVENTS, |event| {
                let event = named(&self.records, core, event);
                if events.len() < EVENTS_MAX { events.push((core, event)) } else { *lost += 1 }
            });
        }
    }

    /// All that was taken. Call it when no island runs any more.
    pub(crate) fn finish(mut self) -> Recording {
        self.drain();
        let not_written: u64 = self.rings.iter().map(|(.., ring)| ring.lost.get()).sum();
        // What a core did stays in order whatever its clock says.
        let mut latest = [0; motet_layout::CORES_MAX];
        for (core, event) in &mut self.events {
            let latest = &mut latest[core.index()];
            event.time_ns = event.time_ns.max(*latest);
            *latest = event.time_ns;
        }
        self.events.sort_by_key(|(core, event)| (event.time_ns, *core));
        Recording { events: self.events, lost: self.lost + not_written, fpga: Vec::new() }
    }
}

/// An event of a core, with the machine's number of the core that it tells of.
fn named(records: &Records, core: CoreId, event: Event) -> Event {
    let detail = match event.kind {
        Kind::Wake | Kind::Start | Kind::Move | Kind::Ring | Kind::Rung | Kind::Sleep | Kind::Awake => {
            records.named(core.index(), event.detail).map_or(event.detail, |core| core as u32)
        }
        Kind::Run | Kind::Stop | Kind::Guest | Kind::GuestStop => event.detail,
    };
    Event { detail, ..event }
}

/// The cores of a kernel's islands, by its numbers.
fn cores(islands: &[IslandSpec]) -> impl Iterator<Item = CoreId> {
    let islands = islands.iter().enumerate();
    islands.flat_map(|(index, island)| (0..island.cores).map(move |core| CoreId::new(IslandId(index as u8), core)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use motet_layout::sync::Ordering;
    use motet_protocol::trace::Kind::{Guest, GuestStop, Wake};

    fn machine() -> MachineSpec {
        let text = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 2\n\
            [[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\n";
        MachineSpec::parse(text).unwrap()
    }

    fn pool(trace: Scope) -> HostPool {
        HostPool::create(&machine(), &Command { trace, ..Command::default() }, 2, false).unwrap()
    }

    fn event(time_ns: u64, tid: u32) -> Event {
        Event { time_ns, kind: Wake, tid, pid: 0, detail: 3, name: *b"0123456789abcdef" }
    }

    #[test]
    fn there_is_no_trace_unless_asked_for() {
        let pool = pool(Scope::Nothing);
        assert_eq!(pool.header().trace.get(), 0);
        assert!(Recorder::new(&pool, &machine()).is_none() && trace::ring_of(pool.pool(), CoreId(0)).is_none());
    }

    #[test]
    fn events_of_all_cores_come_out_by_time() {
        let pool = pool(Scope::All);
        let mut recorder = Recorder::new(&pool, &machine()).unwrap();
        let ring = |core: u8| trace::ring_of(pool.pool(), CoreId(core)).unwrap();
        assert!(trace::ring_of(pool.pool(), CoreId(2)).is_none(), "the first island has two cores");
        trace::put(pool.pool(), ring(16), &event(5, 1));
        trace::put(pool.pool(), ring(1), &event(7, 2));
        recorder.drain();
        trace::put(pool.pool(), ring(16), &event(9, 3));
        trace::put(pool.pool(), ring(16), &event(8, 4)); // a clock that went back
        let recording = recorder.finish();
        let want = [(16, event(5, 1)), (1, event(7, 2)), (16, event(9, 3)), (16, event(9, 4))];
        assert_eq!(recording.events, want.map(|(core, event)| (CoreId(core), event)));
        assert_eq!(recording.lost, 0);
    }

    #[test]
    fn cores_of_kernels_have_the_machines_numbers() {
        let text = format!("os = \"multikernel\"\n{}", machine().text.replace("64MiB", "512MiB"));
        let machine = MachineSpec::parse(&text).unwrap();
        let pool = HostPool::create(&machine, &Command { trace: Scope::All, ..Command::default() }, 2, false).unwrap();
        let mut recorder = Recorder::new(&pool, &machine).unwrap();
        let rings = pool.kernels().map(|kernel| (kernel.pool(), trace::ring_of(kernel.pool(), CoreId(0)).unwrap()));
        for ((pool, ring), time_ns) in rings.zip([7, 5]) {
            // It rings the other kernel, which has the place behind its own, wakes itself, and runs a thread.
            for (kind, detail) in [(Kind::Ring, 16), (Kind::Awake, 0), (Kind::Run, 16)] {
                trace::put(pool, ring, &Event { time_ns, kind, detail, ..event(0, 1) });
            }
        }
        recorder.drain();
        let told: Vec<_> =
            recorder.finish().events.iter().map(|(core, event)| (core.0, event.kind, event.detail)).collect();
        let of =
            |core: u8, other: u32| [(core, Kind::Ring, other), (core, Kind::Awake, core.into()), (core, Kind::Run, 16)];
        assert_eq!(told, [of(16, 0), of(0, 16)].concat());
    }

    #[test]
    fn runs_of_virtual_machines_are_from_each_dispatch_to_the_next_stop_of_the_core() {
        let about = |time_ns, kind, pid, detail| Event { time_ns, kind, tid: 9, pid, detail, name: [0; 16] };
        let events = [
            (CoreId(0), about(10, Guest, 1, 0)),
            (CoreId(16), about(11, Guest, 2, 3)),
            (CoreId(0), event(12, 1)),
            (CoreId(0), about(15, GuestStop, 1, 0)),
            (CoreId(0), about(16, GuestStop, 1, 0)),
            (CoreId(0), about(20, Guest, 1, 1)),
            (CoreId(0), about(25, Guest, 2, 0)), // the stop before was lost
        ];
        let found = guests(&events, 30_000).unwrap();
        let run =
            |machine, vcpu, island, from_ps, to_ps| GuestRunStats { machine, vcpu, island, core: 0, from_ps, to_ps };
        let want = [
            run(1, 0, 0, 10_000, 15_000),
            run(2, 3, 1, 11_000, 30_000),
            run(1, 1, 0, 20_000, 25_000),
            run(2, 0, 0, 25_000, 30_000),
        ];
        assert_eq!((found.runs.as_slice(), found.runs_lost), (want.as_slice(), 0));
        assert!(guests(&events[2..3], 30_000).is_none());
        let many: Vec<_> = (0..GUEST_RUNS as u64 + 2).map(|at| (CoreId(0), about(at, Guest, 1, 0))).collect();
        let found = guests(&many, 0).unwrap();
        assert_eq!((found.runs.len(), found.runs_lost, found.runs[0].from_ps), (GUEST_RUNS, 2, 2000));
    }

    #[test]
    fn a_full_ring_keeps_the_oldest_and_counts_the_rest() {
        let pool = pool(Scope::All);
        let mut recorder = Recorder::new(&pool, &machine()).unwrap();
        let ring = trace::ring_of(pool.pool(), CoreId(0)).unwrap();
        for round in 0..2 {
            for number in 0..RING_EVENTS + 3 {
                trace::put(pool.pool(), ring, &event(round * RING_EVENTS + number, number as u32));
            }
            recorder.drain();
        }
        let recording = recorder.finish();
        assert_eq!((recording.events.len() as u64, recording.lost), (2 * RING_EVENTS, 6));
        let tids = recording.events.iter().map(|(_, event)| u64::from(event.tid));
        assert!(tids.eq((0..RING_EVENTS).chain(0..RING_EVENTS)));
    }

    #[test]
    fn what_a_broken_kernel_writes_is_not_believed() {
        let pool = pool(Scope::All);
        let mut recorder = Recorder::new(&pool, &machine()).unwrap();
        let ring = trace::ring_of(pool.pool(), CoreId(0)).unwrap();
        ring.capacity.set(u64::MAX);
        ring.head.store(u64::MAX / 2, Ordering::Relaxed);
        recorder.drain();
        let recording = recorder.finish();
        assert_eq!((recording.events.len(), recording.lost), (0, RING_EVENTS), "events of kind 0 do not exist");
    }
}
