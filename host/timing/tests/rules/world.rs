//! A machine without QEMU: the pool's header, the clocks, and doorbells that only note what was rung.

use std::{
    alloc::{Layout, alloc_zeroed, handle_alloc_error},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use motet_layout::{
    CORE_AWAKE, CORE_IDLE, CoreRecord, PAGE_SIZE, Pool, PoolHeader,
    sync::{
        AtomicU32,
        Ordering::{Relaxed, SeqCst},
    },
};
use motet_timing::{Bells, ClockRegion, PACE_PARKED, Settings, Timing, host};

/// The quantum of all tests: 10 us.
pub const QUANTUM_PS: u64 = 10_000_000;

/// A quantum that neither grows nor shrinks.
pub const fn fixed(quantum_ps: u64, deterministic: bool) -> Settings {
    Settings { quantum_ps, quantum_max_ps: quantum_ps, quantum_least_ps: quantum_ps, deterministic }
}

/// How cores run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Within a quantum.
    BySide,
    /// One at a time.
    InTurns,
}

/// What was rung.
#[derive(Debug, Default)]
pub struct Noted {
    rung: Mutex<Vec<usize>>,
    settled: Mutex<Vec<usize>>,
    /// Doorbells do not arrive for so long that nobody waits for them any more.
    pub deaf: AtomicBool,
    /// Waiting cores sleep until they are woken, however long that takes: a wake-up that is lost shows.
    for_ever: bool,
}

impl Noted {
    /// With which waiting cores sleep until they are woken.
    pub fn for_ever() -> Self {
        Self { for_ever: true, ..Self::default() }
    }

    /// The cores rung by the rules, in order.
    pub fn rung(&self) -> Vec<usize> {
        self.rung.lock().unwrap().clone()
    }

    /// Whether a core has been rung; forgets one ring of it.
    pub fn take_rung(&self, core: usize) -> bool {
        let mut rung = self.rung.lock().unwrap();
        rung.iter().position(|&other| other == core).map(|at| rung.remove(at)).is_some()
    }

    /// The cores whose doorbells were waited for.
    pub fn settled(&self) -> Vec<usize> {
        self.settled.lock().unwrap().clone()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Handle(pub Arc<Noted>);

impl std::ops::Deref for Handle {
    type Target = Noted;
    fn deref(&self) -> &Noted {
        &self.0
    }
}

impl Bells for Handle {
    fn ring(&self, core: usize) {
        self.rung.lock().unwrap().push(core);
    }

    fn settle(&self, core: usize) -> bool {
        self.settled.lock().unwrap().push(core);
        !self.deaf.load(SeqCst)
    }

    fn wait(&self, word: &AtomicU32, expected: u32, at_most: Duration) {
        let is_parked = expected == PACE_PARKED;
        host::wait(word, expected, if self.for_ever && is_parked { Duration::from_secs(3600) } else { at_most });
    }

    fn wake(&self, word: &AtomicU32) {
        host::wake(word);
    }
}

/// A machine.
pub struct World {
    pub region: &'static ClockRegion,
    pub header: &'static PoolHeader,
    pub bells: Handle,
    pub timing: Timing<Handle>,
    pub cores: Vec<usize>,
    /// Cores that nobody rings any more. Held while a core is rung.
    gone: Mutex<Vec<usize>>,
}

impl World {
    /// Islands with so many cores.
    pub fn new(islands: &[u32], side: Side) -> Self {
        Self::with(islands, side, Handle::default())
    }

    /// The same, with these bells.
    pub fn with(islands: &[u32], side: Side, bells: Handle) -> Self {
        let deterministic = side == Side::InTurns;
        Self::of(islands, fixed(QUANTUM_PS, deterministic), bells)
    }

    /// The same, with these settings.
    pub fn of(islands: &[u32], settings: Settings, bells: Handle) -> Self {
        Self::hiding(islands, &[], settings, bells)
    }

    /// The same, with hidden harts behind the cores.
    pub fn hiding(islands: &[u32], hidden: &[usize], settings: Settings, bells: Handle) -> Self {
        let (region, header): (&ClockRegion, &PoolHeader) = (zeroed(), zeroed());
        header.island_count.set(islands.len() as u32);
        let mut cores = Vec::new();
        for (island, (record, &count)) in header.islands.iter().zip(islands).enumerate() {
            record.core_count.set(count);
            cores.extend((0..count as usize).map(|core| island * motet_layout::CORES_PER_ISLAND_MAX + core));
        }
        for &core in &cores {
            header.cores[core].state.store(CORE_AWAKE, Relaxed);
            header.cores[core].alarm_ns.store(u64::MAX, Relaxed);
        }
        region.set_up(settings, cores.len() + hidden.len());
        hidden.iter().for_each(|&core| region.add_hidden(header, core));
        let timing = Timing::new(region, header, bells.clone()).expect("set up");
        Self { region, header, bells, timing, cores, gone: Mutex::default() }
    }

    /// One whose time runs; kernels sleep with [`CORE_IDLE`] from here on.
    pub fn started(islands: &[u32], side: Side) -> Self {
        let world = Self::new(islands, side);
        world.start();
        for &core in &world.cores {
            world.record(core).state.store(CORE_IDLE, Relaxed);
        }
        world
    }

    /// All cores announce themselves.
    pub fn start(&self) {
        while self.cores.iter().filter(|&&core| !self.timing.announce(core)).count() > 0 {}
    }

    /// A core is awake: nobody rings it from here on, and what was rung is forgotten.
    pub fn stay_awake(&self, core: usize) {
        let _nobody_rings = self.gone.lock().unwrap();
        self.record(core).state.store(CORE_AWAKE, SeqCst);
        self.record(core).rung_at_ns.store(0, SeqCst);
    }

    /// A core lies down for good: nobody rings it any more.
    pub fn leave(&self, core: usize, now_ps: u64) {
        self.gone.lock().unwrap().push(core);
        self.record(core).rung_at_ns.store(0, SeqCst);
        self.record(core).alarm_ns.store(u64::MAX, SeqCst);
        self.record(core).state.store(CORE_IDLE, SeqCst);
        self.timing.sleep(core, now_ps);
    }

    /// A pool that is nothing but its header.
    pub fn pool(&self) -> Pool {
        let base = std::ptr::from_ref(self.header).cast_mut().cast();
        // SAFETY: page-aligned, so many bytes, never freed; all made of atomics.
        unsafe { Pool::new(base, size_of::<PoolHeader>() as u64) }
    }

    pub fn record(&self, core: usize) -> &'static CoreRecord {
        &self.header.cores[core]
    }

    /// What a kernel does to ring a sleeping core, except for the doorbell; `false`: it is awake already.
    pub fn ring(&self, core: usize, arrives_ns: u64) -> bool {
        let gone = self.gone.lock().unwrap();
        let record = self.record(core);
        if gone.contains(&core) || record.state.compare_exchange(CORE_IDLE, CORE_AWAKE, SeqCst, SeqCst).is_err() {
            return false;
        }
        record.rung_at_ns.store(arrives_ns, SeqCst);
        record.rings_received.fetch_add(1, SeqCst);
        true
    }
}

/// Zeroed memory for a structure that consists of atomics.
pub fn zeroed<T>() -> &'static T {
    // SAFETY: the layout is not empty; both types are made of atomics, for which zero is a value; never freed.
    unsafe {
        let layout = Layout::new::<T>().align_to(PAGE_SIZE as usize).expect("a power of two");
        let base = alloc_zeroed(layout);
        if base.is_null() {
            handle_alloc_error(layout);
        }
        &*base.cast::<T>()
    }
}
