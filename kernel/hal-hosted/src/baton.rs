//! The deterministic driver: one core runs at a time, and a seeded generator decides who goes on.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use motet_layout::{CORES_PER_ISLAND_MAX, CoreRecord, ISLANDS_MAX, IslandId, LockClass};
use motet_protocol::rejoin;

use crate::config::Faults;
use crate::kernels::core_of;
use crate::machine::{lock, this_core};
use crate::turns;
use crate::world::{Ended, World};

/// Where a core lets others go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// After that many user instructions.
    User(u64),
    /// In a spin loop.
    Relax,
    /// After ringing.
    Ring,
    /// In another call of the HAL.
    Call,
    /// Before an atomic operation on the pool (`--cfg motet_model`).
    #[cfg_attr(not(motet_model), allow(dead_code))]
    Atomic,
}

/// Whether a core is about to change a word with a lock of a class.
#[cfg(motet_model)]
fn changes_with(record: &CoreRecord, class: LockClass) -> bool {
    motet_layout::sync::changes() && motet_protocol::lock::faults::holds(record, class)
}

/// Only builds for models know.
#[cfg(not(motet_model))]
fn changes_with(_record: &CoreRecord, _class: LockClass) -> bool {
    false
}

/// Longest walk along the words of the pool.
const WALK_MAX: u64 = 500_000;
/// What a run ends with in which a core goes along words of the pool without end. In builds for models.
pub const ENDLESS_WALK: &str = "a walk does not end";

/// A kernel that writes nonsense does so about every so many steps.
const NONSENSE_EVERY: u64 = 20;

/// Virtual time of a user instruction: slow, so that timers need few instructions to wait for.
const USER_INSTRUCTION_NS: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    /// Not started.
    Absent,
    Ready,
    /// In `wait_for_interrupt`.
    Waiting,
    Parked,
}

/// A splitmix64 generator: small, seedable by any number, good enough for schedules.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `bound` (not 0).
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

struct State {
    random: Random,
    now_ns: u64,
    steps: u64,
    /// Those that [`Faults::death_with`] counts.
    steps_with: u64,
    /// Who runs; none before the start and after the end.
    running: Option<usize>,
    status: Vec<Status>,
    /// Those that have been started, in ascending order.
    started: Vec<usize>,
    /// Those that can run, as they were seen last: its memory is used again.
    runnable: Vec<usize>,
    last_point: Vec<Option<Point>>,
    /// How many atomic operations a core has done since it was last elsewhere.
    walked: Vec<u64>,
    /// Doorbells under way: when they arrive, and at which core.
    bells: Vec<(u64, usize)>,
    /// When the host looks at the pool.
    host_at_ns: Option<u64>,
    /// Islands do not run before these times (`u64::MAX`: dead).
    stalled_until_ns: [u64; ISLANDS_MAX],
    /// Which life of a core may run: threads of earlier ones never do, until the end.
    lives: Vec<u32>,
    /// The step at which the island of [`Faults::death`] dies (again).
    dies_at: u64,
    rejoins: u32,
    /// It has been started again, and has not joined yet.
    is_rejoining: bool,
    /// The word that [`Faults::damage`] or [`Faults::damaged_link`] asks for has changed.
    damaged: bool,
    /// Hash of all decisions.
    trace: u64,
}

impl State {
    fn start(&mut self, core: usize) {
        self.status[core] = Status::Ready;
        if let Err(at) = self.started.binary_search(&core) {
            self.started.insert(at, core);
        }
    }
}

/// The baton and everything that decides who holds it.
pub struct Baton {
    state: Mutex<State>,
    /// Copy of `State::now_ns` for readers without the lock.
    now_ns: AtomicU64,
    quantum: u64,
    faults: Faults,
    steps_max: u64,
}

impl Baton {
    pub fn new(seed: u64, cores: usize, quantum: u64, faults: Faults, steps_max: u64) -> Self {
        let state = State {
            random: Random(seed),
            now_ns: 0,
            steps: 0,
            steps_with: 0,
            running: None,
            status: vec![Status::Absent; cores],
            started: Vec::new(),
            runnable: Vec::new(),
            last_point: vec![None; cores],
            walked: vec![0; cores],
            bells: Vec::new(),
            host_at_ns: None,
            stalled_until_ns: [0; ISLANDS_MAX],
            lives: vec![0; cores],
            dies_at: faults.death.map_or(u64::MAX, |(_, step)| step),
            rejoins: 0,
            is_rejoining: false,
            damaged: false,
            trace: 0xcbf2_9ce4_8422_2325,
        };
        Self { state: Mutex::new(state), now_ns: AtomicU64::new(0), quantum, faults, steps_max }
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Steps taken, those that [`Faults::death_with`] counts, and the hash of all decisions.
    pub fn trace(&self) -> (u64, u64, u64) {
        let state = lock(&self.state);
        (state.steps, state.steps_with, state.trace)
    }

    /// How many user instructions to run before the next point.
    pub fn user_budget(&self) -> u64 {
        1 + lock(&self.state).random.below(self.quantum)
    }

    /// Enters a core; it runs when it is chosen.
    pub fn enter(&self, core: usize) {
        lock(&self.state).start(core);
    }

    /// The core whose turn it is, and which life of it; none before the start.
    pub fn holder(&self) -> Option<(usize, u32)> {
        let state = lock(&self.state);
        state.running.map(|core| (core, state.lives[core]))
    }

    /// Gives the baton to the first core.
    pub fn begin(&self, world: &World) {
        let mut state = lock(&self.state);
        match self.choose(world, &mut state, None) {
            Ok(first) => state.running = Some(first),
            Err(reason) => self.give_up(world, state, &reason),
        }
    }

    /// Lets others go on, perhaps.
    pub fn point(&self, world: &World, core: usize, point: Point) {
        let cost_ns = match point {
            Point::User(instructions) => instructions * USER_INSTRUCTION_NS,
            Point::Relax => 200,
            Point::Ring => 500,
            Point::Call => 50,
            Point::Atomic => 2,
        };
        let mut state = self.step(world, core, point, cost_ns);
        match self.choose(world, &mut state, Some((core, point))) {
            Ok(next) if next == core => {}
            Ok(next) => {
                state.running = Some(next);
                drop(self.await_turn(world, core, state));
            }
            Err(reason) => self.give_up_and_end(world, state, &reason),
        }
    }

    /// Sleeps until an interrupt is pending for `core`.
    pub fn wait(&self, world: &World, core: usize) {
        let mut state = self.step(world, core, Point::Call, 50);
        state.status[core] = Status::Waiting;
        match self.choose(world, &mut state, None) {
            Ok(next) => {
                state.running = Some(next);
                self.await_turn(world, core, state).status[core] = Status::Ready;
            }
            Err(reason) => self.give_up_and_end(world, state, &reason),
        }
    }

    /// Takes `core` out of the game.
    pub fn park(&self, world: &World, core: usize) {
        let mut state = self.step(world, core, Point::Call, 50);
        state.status[core] = Status::Parked;
        match self.choose(world, &mut state, None) {
            Ok(next) => state.running = Some(next),
            Err(reason) => self.give_up(world, state, &reason),
        }
    }

    /// Sends a doorbell on its way.
    pub fn ring(&self, core: usize) {
        let mut state = lock(&self.state);
        self.send_bell(&mut state, core);
    }

    pub fn ring_host(&self) {
        let mut state = lock(&self.state);
        let at = state.now_ns + 1000 + state.random.below(20_000);
        state.host_at_ns.get_or_insert(at);
    }

    /// Where every core is.
    pub fn describe(&self) -> String {
        Self::describe_state(&lock(&self.state))
    }

    fn describe_state(state: &State) -> String {
        let mut text = format!("at {} ns, step {}, running {:?}\n", state.now_ns, state.steps, state.running);
        for (core, status) in state.status.iter().enumerate().filter(|(_, status)| **status != Status::Absent) {
            let last = state.last_point[core];
            let (island, index) = (core / CORES_PER_ISLAND_MAX, core % CORES_PER_ISLAND_MAX);
            let stalled = state.stalled_until_ns[island];
            writeln!(text, "  core {island}.{index}: {status:?}, last at {last:?}, stalled until {stalled}")
                .expect("a String takes everything");
        }
        text
    }

    fn send_bell(&self, state: &mut State, core: usize) {
        let late =
            if self.faults.bell_delay_ns_max == 0 { 0 } else { state.random.below(self.faults.bell_delay_ns_max) };
        let at = state.now_ns + state.random.below(2000) + late;
        state.bells.push((at, core));
    }

    fn step(&self, world: &World, core: usize, point: Point, cost_ns: u64) -> MutexGuard<'_, State> {
        if world.has_ended() {
            Ended::unwind();
        }
        let mut state = lock(&self.state);
        state.steps += 1;
        state.now_ns += cost_ns;
        self.now_ns.store(state.now_ns, Ordering::Relaxed);
        state.last_point[core] = Some(point);
        state.walked[core] = if point == Point::Atomic { state.walked[core] + 1 } else { 0 };
        if state.walked[core] > WALK_MAX {
            let place = std::backtrace::Backtrace::force_capture();
            self.give_up_and_end(world, state, &format!("{ENDLESS_WALK}\n{place}"));
        }
        state.steps_with += u64::from(self.is_counted(world, core, point));
        if state.steps > self.steps_max {
            self.give_up_and_end(world, state, "the run does not end");
        }
        if world.look_for_end(state.now_ns) {
            drop(state);
            world.finish();
            Ended::unwind();
        }
        self.inject(world, &mut state);
        state
    }

    /// Whether a step is one that [`Faults::death_with`] counts.
    fn is_counted(&self, world: &World, core: usize, point: Point) -> bool {
        let (Some((island, _)), Some(class)) = (self.faults.death, self.faults.death_with) else { return false };
        // First: a look at the pool's words is an operation, too.
        let changes = point == Point::Atomic && changes_with(world.kernels.core_record(core_of(core)), class);
        changes && core / CORES_PER_ISLAND_MAX == island.index() && world.all_have_joined()
    }

    fn inject(&self, world: &World, state: &mut State) {
        if state.is_rejoining && self.faults.death.is_some_and(|(island, _)| world.tells_of_joining(island)) {
            state.is_rejoining = false;
        }
        if self.faults.stall_every != 0 && state.random.below(self.faults.stall_every) == 0 {
            let island = state.random.below(ISLANDS_MAX as u64) as usize;
            let until = state.now_ns + state.random.below(self.faults.stall_ns_max.max(1));
            state.stalled_until_ns[island] = state.stalled_until_ns[island].max(until);
        }
        if self.faults.damage.is_some_and(|step| state.steps >= step) && !state.damaged {
            let State { random, .. } = state;
            state.damaged =
                crate::damage::damage_crossing(world.kernels.first_pool(), &mut |bound| random.below(bound));
        }
        if self.faults.damaged_link.is_some_and(|step| state.steps >= step) && !state.damaged {
            let State { random, .. } = state;
            state.damaged = crate::damage::damage_link(world.kernels.first_pool(), &mut |bound| random.below(bound));
        }
        if let Some(island) = self.faults.nonsense
            && world.all_have_joined()
            && state.random.below(NONSENSE_EVERY) == 0
        {
            let (peers, windows) = (&world.kernels.pool(island).header().peers, world.kernels.windows(island));
            crate::damage::damage_window(peers, windows, &mut |bound| state.random.below(bound));
        }
        if let Some((island, _)) = self.faults.death
            && self.faults.death_with.map_or(state.steps, |_| state.steps_with) >= state.dies_at
            && state.stalled_until_ns[island.index()] != u64::MAX
            && (!self.faults.survives || world.all_have_joined())
        {
            state.stalled_until_ns[island.index()] = u64::MAX;
            state.is_rejoining = false;
            if world.kernels.are_many() {
                world.kernels.bury(island);
            } else if self.faults.survives {
                world.lose(island);
                self.send_bell(state, 0);
            }
        }
        if let Some((island, _)) = self.faults.death
            && state.rejoins < self.faults.rejoins
            && state.stalled_until_ns[island.index()] == u64::MAX
            && rejoin::is_gone(world.kernels.first_pool().header(), island)
        {
            self.restart(state, island);
        }
    }

    /// Starts an island again that has died.
    fn restart(&self, state: &mut State, island: IslandId) {
        let Some((_, world)) = this_core() else { return };
        state.rejoins += 1;
        state.is_rejoining = true;
        state.dies_at = match state.rejoins == self.faults.rejoins {
            true => u64::MAX,
            false => state.steps + state.random.below(self.faults.dies_again_within.max(1)),
        };
        state.stalled_until_ns[island.index()] = 0;
        let cores = island.index() * CORES_PER_ISLAND_MAX..(island.index() + 1) * CORES_PER_ISLAND_MAX;
        for core in cores {
            state.status[core] = Status::Absent;
            state.lives[core] += 1;
        }
        for core in world.restart(island) {
            state.start(core.index());
        }
    }

    /// Who goes on. Time passes when nobody can.
    fn choose(&self, world: &World, state: &mut State, current: Option<(usize, Point)>) -> Result<usize, String> {
        loop {
            self.deliver(world, state);
            let mut runnable = std::mem::take(&mut state.runnable);
            runnable.clear();
            runnable.extend(state.started.iter().copied().filter(|&core| self.can_run(world, state, core)));
            let next = (!runnable.is_empty()).then(|| self.pick(state, &runnable, current));
            state.runnable = runnable;
            if let Some(next) = next {
                state.trace = (state.trace ^ (next as u64 + 1)).wrapping_mul(0x100_0000_01b3);
                return Ok(next);
            }
            let Some(next_event) = self.next_event(world, state) else {
                return Err("nothing will ever happen again: all cores wait, no timer, no doorbell".into());
            };
            state.now_ns = state.now_ns.max(next_event);
            self.now_ns.store(state.now_ns, Ordering::Relaxed);
        }
    }

    fn pick(&self, state: &mut State, runnable: &[usize], current: Option<(usize, Point)>) -> usize {
        if let Some((core, point)) = current.filter(|(core, _)| runnable.contains(core)) {
            let stay_of_16 = match point {
                Point::Relax if runnable.len() > 1 => 0,
                Point::Relax | Point::Call | Point::User(_) => 10,
                Point::Ring => 8,
                Point::Atomic => 15,
            };
            if state.random.below(16) < stay_of_16 {
                return core;
            }
        }
        runnable[state.random.below(runnable.len() as u64) as usize]
    }

    fn can_run(&self, world: &World, state: &State, core: usize) -> bool {
        state.stalled_until_ns[core / CORES_PER_ISLAND_MAX] <= state.now_ns
            && match state.status[core] {
                Status::Ready => true,
                Status::Waiting => world.is_interrupted(core, state.now_ns),
                Status::Absent | Status::Parked => false,
            }
    }

    fn deliver(&self, world: &World, state: &mut State) {
        let now = state.now_ns;
        world.move_frames(now);
        state.bells.retain(|&(at, core)| {
            if at <= now {
                world.deliver_bell(core);
            }
            at > now
        });
        if state.host_at_ns.is_some_and(|at| at <= now) {
            state.host_at_ns = None;
            for core in world.host_looks() {
                self.send_bell(state, core.index());
            }
        }
    }

    fn next_event(&self, world: &World, state: &State) -> Option<u64> {
        let stall = |core: usize| state.stalled_until_ns[core / CORES_PER_ISLAND_MAX];
        let bells = state.bells.iter().map(|&(at, core)| at.max(stall(core)));
        let cores = state.started.iter().copied().filter_map(|core| match state.status[core] {
            Status::Ready => Some(stall(core)),
            Status::Waiting if world.is_interrupted(core, state.now_ns) => Some(stall(core)),
            Status::Waiting => Some(world.timer_ns(core).max(stall(core))),
            Status::Absent | Status::Parked => None,
        });
        let frames = world.frames_at_ns();
        bells.chain(cores).chain(state.host_at_ns).chain(frames).filter(|&at| at != u64::MAX).min()
    }

    /// Returns when it is this life's turn.
    fn await_turn<'a>(&'a self, world: &World, core: usize, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.running != Some(core) || state.lives[core] != turns::life() {
            drop(state);
            turns::give_back();
            if world.has_ended() {
                Ended::unwind();
            }
            state = lock(&self.state);
        }
        state
    }

    fn give_up(&self, world: &World, state: MutexGuard<'_, State>, reason: &str) {
        let description = Self::describe_state(&state);
        drop(state);
        world.fail(format!("{reason}\n{description}"));
    }

    fn give_up_and_end(&self, world: &World, state: MutexGuard<'_, State>, reason: &str) -> ! {
        self.give_up(world, state, reason);
        Ended::unwind()
    }
}
