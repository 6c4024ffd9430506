//! A machine of hosted islands: its run, its end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use motet_hal::{Interrupts, Machine};
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, ISLAND_FAILED, ISLAND_JOINED, ISLAND_REJOINING, Isa, IslandId, Pool};
use motet_protocol::rejoin;

use crate::baton::{Baton, Point};
use crate::config::{Config, Defect, Driver, IslandConfig};
use crate::damage::threads;
use crate::hidden;
use crate::kernels::{Kernels, core_of, shape};
use crate::machine::{AArch64, Hosted, Island, Plain, RiscV64, X86_64, become_core, lock};
use crate::network::Link;
use crate::region::Region;
use crate::turns;

/// The host's side of the pool: consoles, files.
pub trait Host: Send {
    /// The host was rung, or the run is over: look at the pool. Returns the cores to ring, as its kernel numbers them.
    fn look(&mut self, pool: Pool) -> Vec<CoreId>;

    /// The machine has ended by itself; its cores stand where they are, with the locks that they have.
    fn ended(&mut self, _pool: Pool) {}

    /// Under a seed: an island is about to be started again.
    fn restarts(&mut self, _pool: Pool, _island: IslandId) {}

    /// Under a seed: an island that was started again has just joined. With a point at every atomic operation, nobody has done anything since.
    fn joined(&mut self, _pool: Pool, _island: IslandId) {}
}

/// A host that never does anything.
pub struct NoHost;

impl Host for NoHost {
    fn look(&mut self, _pool: Pool) -> Vec<CoreId> {
        Vec::new()
    }
}

/// A finished run.
pub struct Outcome {
    /// Each kernel's exit status (`header.exit` - 1): one, if the islands have the same. `None`: its command has not ended, or it had none.
    pub statuses: Vec<Option<u32>>,
    /// What each island logged.
    pub logs: Vec<Vec<u8>>,
    /// Points passed (seeded driver).
    pub steps: u64,
    /// Those that [`Faults::death_with`](crate::Faults::death_with) counts.
    pub steps_with: u64,
    /// Hash of all scheduling decisions (seeded driver): equal for equal runs.
    pub trace: u64,
    region: Region,
}

impl Outcome {
    /// The machine's exit status: the first kernel's.
    ///
    /// # Panics
    /// Its command has not ended.
    pub fn status(&self) -> u32 {
        self.statuses[0].expect("the first kernel's command has ended")
    }

    /// A kernel's pool as it was left, until this value is dropped.
    pub fn pool(&self, kernel: usize) -> Pool {
        self.region.pool(kernel)
    }
}

/// A run that ended badly.
#[derive(Debug)]
pub struct Failure {
    /// The seed, for the seeded driver.
    pub seed: Option<u64>,
    /// What happened, and where every core was.
    pub message: String,
    /// What each island logged.
    pub logs: Vec<Vec<u8>>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.seed {
            Some(seed) => writeln!(f, "seed {seed} fails (MOTET_SEED={seed} repeats it): {}", self.message)?,
            None => writeln!(f, "{}", self.message)?,
        }
        for (island, log) in self.logs.iter().enumerate() {
            writeln!(f, "--- log of island {island}\n{}", String::from_utf8_lossy(log))?;
        }
        Ok(())
    }
}

/// The payload that unwinds a core out of its kernel when the run is over.
pub struct Ended;

impl Ended {
    pub fn unwind() -> ! {
        resume_unwind(Box::new(Ended))
    }
}

/// What the HAL calls of a core and other cores share.
struct CoreState {
    /// [`Interrupts`] that arrived.
    pending: AtomicU32,
    /// Timer deadline on the world's clock.
    timer_ns: AtomicU64,
    /// Started: rings before are lost, as with MSI-X that is not enabled yet.
    started: AtomicBool,
    bell: Mutex<()>,
    rung: Condvar,
}

/// The machine that all islands are part of.
pub struct World {
    pub config: Config,
    pub kernels: Kernels,
    entry: fn(&'static Island) -> !,
    machines: Mutex<Vec<&'static Island>>,
    /// Those of islands that have died and were started again.
    dead_machines: Mutex<Vec<&'static Island>>,
    cores: Vec<CoreState>,
    /// By island.
    links: Vec<Option<Link>>,
    baton: Option<Baton>,
    epoch: Instant,
    ended: AtomicBool,
    failure: Mutex<Option<String>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// By kernel.
    hosts: Mutex<Vec<Box<dyn Host>>>,
    host_rung: Mutex<bool>,
    host_bell: Condvar,
}

/// What runs on every core.
pub trait Kernel {
    /// The kernel's entry point.
    fn run<M: Machine>(machine: &'static M) -> !;
}

/// Runs a core of `island`, as the ISA that it says it has.
fn enter<K: Kernel>(island: &'static Island) -> ! {
    match island.isa {
        Isa::X86_64 => K::run(Hosted::<X86_64>::leak(island)),
        Isa::AArch64 => K::run(Hosted::<AArch64>::leak(island)),
        Isa::RiscV64 => K::run(Hosted::<RiscV64>::leak(island)),
        Isa::Hosted => K::run(Hosted::<Plain>::leak(island)),
    }
}

/// Runs a machine with kernel `K` until `header.exit` is set. `prepare` fills the pool behind the header (which describes
/// the machine already).
///
/// # Errors
/// A kernel panicked, all cores wait for ever, or the run did not end in time.
pub fn run<K: Kernel>(config: Config, host: Box<dyn Host>, mut prepare: impl FnMut(Pool)) -> Result<Outcome, Failure> {
    run_kernels::<K>(config, vec![host], |_, pool| prepare(pool))
}

/// As [`run`], also where each island has a kernel of its own ([`Config::windows`]): then each has a host, and `prepare` fills each one's pool. The run ends when
/// all kernels that live have joined, and those that were given a command have set their `header.exit`.
///
/// # Errors
/// See [`run`].
///
/// # Panics
/// There are more or fewer hosts than kernels, or a kernel of its own is to join again.
pub fn run_kernels<K: Kernel>(
    config: Config,
    hosts: Vec<Box<dyn Host>>,
    prepare: impl FnMut(usize, Pool),
) -> Result<Outcome, Failure> {
    let shape = shape(&config);
    assert_eq!(hosts.len(), shape.kernels, "hosts of kernels");
    assert!(shape.kernels == 1 || config.faults.rejoins == 0, "no kernel of its own joins again");
    let region = Region::new(shape);
    let kernels = Kernels::new(&config, &region, prepare);
    let world: &'static World = Box::leak(Box::new(World::new(config, kernels, hosts, enter::<K>)));
    world.boot();
    match &world.baton {
        Some(baton) => {
            world.leave_unrepaired(|| {
                baton.begin(world);
                turns::take(world, baton);
            });
        }
        None => world.attend(),
    }
    world.join();
    let seed = if let Driver::Seeded(seed) = world.config.driver { Some(seed) } else { None };
    let mut logs: Vec<Vec<u8>> = vec![Vec::new(); world.config.islands.len()];
    for machine in lock(&world.dead_machines).iter().chain(lock(&world.machines).iter()) {
        logs[machine.island_index()].extend(machine.take_log());
        machine.clear();
    }
    world.host_looks();
    if let Some(message) = lock(&world.failure).take() {
        return Err(Failure { seed, message, logs });
    }
    let (steps, steps_with, trace) = world.baton.as_ref().map_or((0, 0, 0), Baton::trace);
    let statuses = world.kernels.statuses();
    Ok(Outcome { statuses, logs, steps, steps_with, trace, region })
}

/// Times as many seeds in `./motet test long`.
const SEEDS_LONG: u64 = 4;

/// Runs `each` with many seeds; `MOTET_SEED` replaces them by one, `MOTET_SEEDS` by more or fewer, `MOTET_LONG` by [`SEEDS_LONG`] times as many.
///
/// # Panics
/// At the first seed whose run fails, with the seed.
pub fn run_seeds(seeds: std::ops::Range<u64>, mut each: impl FnMut(u64) -> Result<(), Failure>) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match (number("MOTET_SEED"), number("MOTET_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => seeds.start..seeds.start + count,
        (None, None) if std::env::var_os("MOTET_LONG").is_some() => {
            seeds.start..seeds.start + SEEDS_LONG * (seeds.end - seeds.start)
        }
        (None, None) => seeds,
    };
    for seed in seeds {
        if let Err(failure) = each(seed) {
            panic!("{failure}");
        }
    }
}

impl World {
    fn new(config: Config, kernels: Kernels, hosts: Vec<Box<dyn Host>>, entry: fn(&'static Island) -> !) -> Self {
        let cores = config.islands.len() * CORES_PER_ISLAND_MAX;
        let baton = match config.driver {
            Driver::Threads => None,
            Driver::Seeded(seed) => Some(Baton::new(seed, cores, config.quantum, config.faults, config.steps_max)),
        };
        let core = || CoreState {
            pending: AtomicU32::new(0),
            timer_ns: AtomicU64::new(u64::MAX),
            started: AtomicBool::new(false),
            bell: Mutex::new(()),
            rung: Condvar::new(),
        };
        let seed = if let Driver::Seeded(seed) = config.driver { Some(seed) } else { None };
        let link =
            |island: &IslandConfig| seed.zip(island.network.as_ref()).map(|(seed, network)| Link::new(network, seed));
        Self {
            links: config.islands.iter().map(link).collect(),
            kernels,
            entry,
            machines: Mutex::default(),
            dead_machines: Mutex::default(),
            cores: (0..cores).map(|_| core()).collect(),
            baton,
            epoch: Instant::now(),
            ended: AtomicBool::new(false),
            failure: Mutex::default(),
            threads: Mutex::default(),
            hosts: Mutex::new(hosts),
            host_rung: Mutex::new(false),
            host_bell: Condvar::new(),
            config,
        }
    }

    fn boot(&'static self) {
        #[cfg(motet_model)]
        motet_layout::sync::set_hook(before_atomic);
        let machines: Vec<_> = (0..self.config.islands.len()).map(|island| self.make(IslandId(island as u8))).collect();
        lock(&self.machines).clone_from(&machines);
        for machine in machines {
            self.start(CoreId::new(IslandId(machine.island_index() as u8), 0));
            machine.hidden_harts().for_each(|hart| _ = self.start(hart));
        }
    }

    /// The machine under an island, as it is when that starts.
    fn make(&'static self, island: IslandId) -> &'static Island {
        Box::leak(Box::new(Island::new(self, island, &self.config.islands[island.index()], self.config.mode)))
    }

    /// What the host does to start an island again. The cores that are to be [spawned](Self::spawn).
    pub fn restart(&'static self, island: IslandId) -> Vec<CoreId> {
        let pool = self.kernels.first_pool();
        lock(&self.hosts)[0].restarts(pool, island);
        rejoin::begin(pool.header(), island);
        for index in 0..CORES_PER_ISLAND_MAX {
            let state = &self.cores[CoreId::new(island, index).index()];
            state.pending.store(0, Ordering::Relaxed);
            state.timer_ns.store(u64::MAX, Ordering::Relaxed);
            state.started.store(false, Ordering::Release);
        }
        if let Some(link) = &self.links[island.index()] {
            link.restart();
        }
        let machine = self.make(island);
        let dead = std::mem::replace(&mut lock(&self.machines)[island.index()], machine);
        lock(&self.dead_machines).push(dead);
        let cores: Vec<CoreId> = [CoreId::new(island, 0)].into_iter().chain(machine.hidden_harts()).collect();
        cores.iter().for_each(|core| self.cores[core.index()].started.store(true, Ordering::Release));
        cores
    }

    /// Starts a core. `false`: it runs already.
    pub fn start(&'static self, core: CoreId) -> bool {
        let state = &self.cores[core.index()];
        if state.started.swap(true, Ordering::AcqRel) {
            return false;
        }
        match &self.baton {
            Some(baton) => baton.enter(core.index()),
            None => self.spawn(core),
        }
        true
    }

    /// Does something with [`Defect::Unrepaired`].
    fn leave_unrepaired(&self, act: impl FnOnce()) {
        #[cfg(motet_model)]
        if let Some(Defect::Unrepaired(class)) = self.config.defect {
            motet_protocol::lock::faults::leave_unrepaired(Some(class));
        }
        act();
        #[cfg(motet_model)]
        motet_protocol::lock::faults::leave_unrepaired(None);
    }

    /// Begins a core's thread.
    fn spawn(&'static self, core: CoreId) {
        let name = format!("core {}.{}", core.island().0, core.index_in_island());
        let thread = std::thread::Builder::new().name(name).stack_size(1 << 20).spawn(move || self.live(core));
        lock(&self.threads).push(thread.expect("the host can start a thread"));
    }

    /// A life of a core.
    pub fn live(&'static self, core: CoreId) {
        become_core(core, self);
        let machine = lock(&self.machines)[core.island().index()];
        let end = catch_unwind(AssertUnwindSafe(|| {
            if machine.is_hidden(core) { hidden::live(machine) } else { (self.entry)(machine) }
        }));
        let Err(payload) = end;
        let _quiet = Quiet::begin();
        if !payload.is::<Ended>() {
            let record = self.kernels.island_record(core.island());
            record.state.store(ISLAND_FAILED, Ordering::Release);
            let (island, index) = (core.island().0, core.index_in_island());
            let place = self.baton.as_ref().map(Baton::describe).unwrap_or_default();
            self.fail(format!("core {island}.{index} panicked: {}\n{place}", message_of(&*payload)));
        }
    }

    fn join(&self) {
        // Cores may start others until they see the end.
        loop {
            let Some(thread) = lock(&self.threads).pop() else { return };
            if thread.join().is_err() {
                self.fail("a core's thread died outside of its kernel".into());
            }
        }
    }

    /// The threaded driver's host: keeps the clock, looks when rung, sees the end.
    fn attend(&'static self) {
        while !self.has_ended() {
            if self.look_for_end(self.now_ns()) {
                self.finish();
                return;
            }
            if self.epoch.elapsed() > self.config.time_max {
                self.fail(format!("the run does not end\n{}", self.describe()));
                return;
            }
            let rung = lock(&self.host_rung);
            let (mut rung, _) = self
                .host_bell
                .wait_timeout_while(rung, Duration::from_millis(1), |rung| !*rung)
                .unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut *rung) {
                drop(rung);
                for core in self.host_looks() {
                    self.ring(core);
                }
            }
        }
    }

    fn describe(&self) -> String {
        let started = self.cores.iter().enumerate().filter(|(_, core)| core.started.load(Ordering::Relaxed));
        let line = |(core, state): (usize, &CoreState)| {
            let record = self.kernels.core_record(core_of(core));
            format!(
                "  core {}.{}: pending {:#x}, timer {}, state {}, thread {:#x}, inbox {:#x}, asked {}, done {}\n",
                core / CORES_PER_ISLAND_MAX,
                core % CORES_PER_ISLAND_MAX,
                state.pending.load(Ordering::Relaxed),
                state.timer_ns.load(Ordering::Relaxed),
                record.state.load(Ordering::Relaxed),
                record.current_thread.load(Ordering::Relaxed),
                record.inbox.load(Ordering::Relaxed),
                record.shootdown_asked.load(Ordering::Relaxed),
                record.shootdown_done.load(Ordering::Relaxed),
            )
        };
        started.map(line).chain(self.describe_threads()).collect()
    }

    fn describe_threads(&self) -> impl Iterator<Item = String> {
        self.kernels.pools().iter().flat_map(|pool| threads(*pool)).map(|thread| {
            format!(
                "  thread {}: state {:#x}, core {:#x}, {:?}, in a crossing call {:#x}\n",
                thread.tid.get(),
                thread.state.load(Ordering::Relaxed),
                thread.core.load(Ordering::Relaxed),
                thread.stage.get(),
                thread.crossing.get(),
            )
        })
    }

    /// Whether the machine has set its exit word. Keeps the host's clock in the header going until then.
    pub fn look_for_end(&self, now_ns: u64) -> bool {
        let joins =
            |island: &IslandId| self.kernels.island_record(*island).state.load(Ordering::Relaxed) == ISLAND_REJOINING;
        let mut islands = (0..self.config.islands.len()).map(|island| IslandId(island as u8));
        if !self.all_have_joined() {
            self.kernels.show_clock(now_ns);
        } else if self.config.faults.rejoins != 0 && islands.any(|island| joins(&island)) {
            self.kernels.first_pool().header().host_clock_ns.store(now_ns, Ordering::Relaxed);
        }
        self.kernels.have_ended()
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The machine has said that it ends.
    pub fn finish(&self) {
        if !self.has_ended() {
            let _quiet = Quiet::begin();
            lock(&self.hosts).iter_mut().zip(self.kernels.pools()).for_each(|(host, pool)| host.ended(*pool));
        }
        self.end();
    }

    /// Ends the run: every core unwinds out of its next call.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for core in &self.cores {
            let _bell = lock(&core.bell);
            core.rung.notify_all();
        }
    }

    /// Ends the run with a failure; the first one counts.
    pub fn fail(&self, message: String) {
        let message = if self.has_ended() { message } else { format!("{message}{}", self.describe()) };
        lock(&self.failure).get_or_insert(message);
        self.end();
    }

    pub fn now_ns(&self) -> u64 {
        match &self.baton {
            Some(baton) => baton.now_ns(),
            None => self.epoch.elapsed().as_nanos() as u64,
        }
    }

    pub fn user_budget(&self) -> u64 {
        self.baton.as_ref().map_or(256, Baton::user_budget)
    }

    /// A point where others may go on, and where a core sees the end of the run.
    pub fn point(&self, core: CoreId, point: Point) {
        if std::thread::panicking() {
            return; // a guard is dropped while the core unwinds
        }
        if self.has_ended() {
            Ended::unwind();
        }
        let _quiet = Quiet::begin();
        match &self.baton {
            Some(baton) => baton.point(self, core.index(), point),
            None if point == Point::Relax => std::thread::yield_now(),
            None => {}
        }
    }

    pub fn set_timer(&self, core: CoreId, deadline_ns: u64) {
        self.cores[core.index()].timer_ns.store(deadline_ns, Ordering::Relaxed);
        self.point(core, Point::Call);
    }

    pub fn timer_ns(&self, core: usize) -> u64 {
        self.cores[core].timer_ns.load(Ordering::Relaxed)
    }

    pub fn is_interrupted(&self, core: usize, now_ns: u64) -> bool {
        self.cores[core].pending.load(Ordering::Acquire) != 0 || self.timer_ns(core) <= now_ns
    }

    /// Acknowledges what is pending.
    pub fn take_interrupts(&self, core: CoreId) -> Interrupts {
        let state = &self.cores[core.index()];
        let keep = if self.config.defect == Some(Defect::Acknowledge) { u32::MAX } else { 0 };
        let mut taken = Interrupts(state.pending.fetch_and(keep, Ordering::AcqRel));
        if self.timer_ns(core.index()) <= self.now_ns() {
            state.timer_ns.store(u64::MAX, Ordering::Relaxed);
            if self.config.defect == Some(Defect::HideDoorbell) {
                taken = Interrupts::EMPTY;
            }
            taken = taken.union(Interrupts::TIMER);
        }
        taken
    }

    pub fn ring(&self, target: CoreId) {
        match (&self.baton, self.cores.get(target.index())) {
            (_, None) => {}
            (Some(baton), Some(_)) => baton.ring(target.index()),
            (None, Some(_)) => self.deliver_bell(target.index()),
        }
    }

    pub fn deliver_bell(&self, core: usize) {
        let state = &self.cores[core];
        if state.started.load(Ordering::Acquire) {
            state.pending.fetch_or(Interrupts::DOORBELL.0, Ordering::AcqRel);
            let _bell = lock(&state.bell);
            state.rung.notify_all();
        }
    }

    /// An island's network device.
    pub fn link(&self, island: IslandId) -> Option<&Link> {
        self.links.get(island.index())?.as_ref()
    }

    /// Moves frames that arrive by now, and interrupts the cores that they arrive at.
    pub fn move_frames(&self, now_ns: u64) {
        for (island, link) in self.links.iter().enumerate() {
            if link.as_ref().is_some_and(|link| link.advance(now_ns)) {
                let core = CoreId::new(IslandId(island as u8), 0);
                self.cores[core.index()].pending.fetch_or(Interrupts::NETWORK.0, Ordering::AcqRel);
            }
        }
    }

    /// When frames move next.
    pub fn frames_at_ns(&self) -> Option<u64> {
        self.links.iter().flatten().map(Link::next_ns).min().filter(|&at| at != u64::MAX)
    }

    pub fn ring_host(&self) {
        match &self.baton {
            Some(baton) => baton.ring_host(),
            None => {
                *lock(&self.host_rung) = true;
                self.host_bell.notify_all();
            }
        }
    }

    pub fn all_have_joined(&self) -> bool {
        self.kernels.have_joined()
    }

    /// What the host does when an island has died.
    pub fn lose(&self, island: IslandId) {
        rejoin::declare_dead(self.kernels.first_pool().header(), island);
    }

    /// Tells the host of an island that has joined again. `false`: it has not.
    pub fn tells_of_joining(&self, island: IslandId) -> bool {
        let has_joined = self.kernels.island_record(island).state.load(Ordering::Relaxed) == ISLAND_JOINED;
        if has_joined {
            lock(&self.hosts)[0].joined(self.kernels.first_pool(), island);
        }
        has_joined
    }

    pub fn host_looks(&self) -> Vec<CoreId> {
        let looks = |(kernel, host): (usize, &mut Box<dyn Host>)| {
            let rung = host.look(self.kernels.pools()[kernel]);
            rung.into_iter()
                .map(move |core| CoreId::new(self.kernels.island_of(kernel, core.island()), core.index_in_island()))
        };
        lock(&self.hosts).iter_mut().enumerate().flat_map(looks).collect()
    }

    /// Sleeps until an interrupt is pending.
    pub fn wait(&self, core: CoreId) {
        let _quiet = Quiet::begin();
        if let Some(baton) = &self.baton {
            return baton.wait(self, core.index());
        }
        let state = &self.cores[core.index()];
        let mut bell = lock(&state.bell);
        loop {
            if self.has_ended() {
                drop(bell);
                Ended::unwind();
            }
            let now = self.now_ns();
            if self.is_interrupted(core.index(), now) {
                return;
            }
            let sleep = Duration::from_nanos((self.timer_ns(core.index()) - now).min(1_000_000_000));
            bell = state.rung.wait_timeout(bell, sleep).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn park(&self, core: CoreId) -> ! {
        let _quiet = Quiet::begin();
        if let Some(baton) = &self.baton {
            baton.park(self, core.index());
        }
        Ended::unwind()
    }
}

/// While one of these lives, atomic operations of this thread on the pool are no scheduling points: the driver itself
/// looks at the pool, with its own locks held.
pub struct Quiet {
    #[cfg(motet_model)]
    before: bool,
}

#[cfg(motet_model)]
thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Quiet {
    #[cfg(not(motet_model))]
    pub fn begin() -> Self {
        Self {}
    }

    #[cfg(motet_model)]
    pub fn begin() -> Self {
        Self { before: QUIET.replace(true) }
    }

    /// Whether they are none from now on, also without one of these; returns whether they were none.
    pub fn set(is_quiet: bool) -> bool {
        #[cfg(motet_model)]
        return QUIET.replace(is_quiet);
        #[cfg(not(motet_model))]
        is_quiet
    }
}

#[cfg(motet_model)]
impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(self.before);
    }
}

/// Called before every atomic operation on pools when built for models.
#[cfg(motet_model)]
fn before_atomic() {
    if let Some((core, world)) = crate::machine::this_core()
        && !QUIET.get()
        && world.baton.is_some()
    {
        world.point(core, Point::Atomic);
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<String>() {
        return text.clone();
    }
    payload.downcast_ref::<&str>().map_or_else(|| "no message".into(), |text| (*text).to_owned())
}
