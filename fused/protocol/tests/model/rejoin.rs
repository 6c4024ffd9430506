//! An island dies, is reclaimed and joins again, while another one brings it threads, takes locks that it has died with, and takes pages from what it
//! translates: each thread is run once, nobody waits for ever, and no translation is used that was shot down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{
    CORE_AWAKE, CORE_IDLE, CORE_OFFLINE, Cell64, CoreId, FileLock, ISLAND_DEAD, ISLAND_JOINED, ISLAND_RECLAIMING,
    IslandId, PENDING_LEAVES, Pool, SpaceRecord, ThreadRecord, handshake::then_look,
};
use motet_protocol::cores::{self, core_record};
use motet_protocol::{Context, hotplug, lock, orphans, rejoin, run_queue, shootdown};
use shuttle::rand::Rng;

use crate::harness::{
    Bells, Core, Objects, as_its_core, explore, fresh_pool, must_be_caught, point, quietly, together,
};

const UNDERTAKER: u8 = 0;
const MORTAL: u8 = 1;
const BRINGER: u8 = 2;
const THREADS: usize = 3;
/// The last one goes on until the end.
const LIVES: u32 = 3;
/// Whoever waits so long waits for ever.
const LOOKS_MAX: u32 = 20_000;

fn mortal() -> CoreId {
    CoreId::new(IslandId(MORTAL), 0)
}

/// A core in one of its lives.
#[derive(Clone)]
struct Living {
    core: Core,
    life: u32,
}

impl Context for Living {
    as_its_core!();

    fn life(&self) -> u32 {
        self.life
    }
}

/// The steps of the protocol, to be left out or reordered.
#[derive(Clone, Copy)]
struct Steps {
    /// The host may start the island again.
    may_begin: fn(Pool) -> bool,
    /// How often the island had died, as locks have it.
    life: fn(u32) -> u32,
    /// The first core comes.
    before_joining: fn(&Living),
    /// It is awake.
    awake: fn(&Living),
    /// It has translated first.
    after_use: fn(&Living),
    /// It may sleep, for the first time.
    may_sleep: fn(&Living) -> bool,
    /// The host says that the island has died.
    declare_dead: fn(Pool),
    /// No space says any more that the dead cores use it.
    forget_spaces: fn(&World),
}

const RIGHT: Steps = Steps {
    may_begin: |pool| rejoin::is_gone(pool.header(), IslandId(MORTAL)),
    life: |deaths| deaths,
    before_joining: |core| rejoin::take_records(core),
    awake: |_| (),
    after_use: |_| (),
    may_sleep: |core| run_queue::begin_idle(core, CORE_IDLE),
    declare_dead: |pool| rejoin::declare_dead(pool.header(), IslandId(MORTAL)),
    forget_spaces: |world| world.space.active[usize::from(MORTAL)].store(0, Ordering::Relaxed),
};

fn choose(bound: u32) -> u32 {
    shuttle::rand::thread_rng().gen_range(0..bound)
}

/// What all share.
#[derive(Clone)]
struct World {
    lock: &'static FileLock,
    counter: &'static Cell64,
    counted: Arc<AtomicU32>,
    threads: [&'static ThreadRecord; THREADS],
    taken: Arc<AtomicU32>,
    space: &'static SpaceRecord,
    /// 1: the page is mapped.
    entry: &'static AtomicU64,
    is_released: Arc<AtomicBool>,
    /// Nobody brings anything any more, and everything is over.
    is_brought: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl World {
    /// A section under the lock.
    fn count(&self, core: &impl Context) {
        let _guard = lock::lock(core, self.lock);
        let before = self.counter.get();
        self.counter.set(before + 1);
        core.relax();
        assert_eq!(self.counter.get(), before + 1, "somebody else has the lock, too");
        self.counted.fetch_add(1, Relaxed);
    }
}

/// The island that dies: life after life, and the host that says so and starts it again.
fn live_again(core: &Core, world: &World, steps: Steps) {
    for life in 0..LIVES {
        let living = Living { core: core.clone(), life: (steps.life)(life) };
        let header = core.pool().header();
        let lives_on = life == LIVES - 1;
        let dies = |chance: u32| !lives_on && choose(chance) == 0;
        if life == 0 {
            live(&living, world, lives_on);
        } else {
            while !(steps.may_begin)(core.pool()) {
                core.relax();
            }
            rejoin::begin(header, IslandId(MORTAL));
            let joins = |living: &Living| {
                if dies(6) {
                    return;
                }
                (steps.before_joining)(living);
                if dies(6) {
                    return;
                }
                rejoin::join(living);
                if dies(6) {
                    return;
                }
                living.own_record().state.store(CORE_AWAKE, Ordering::Release);
                then_look();
                (steps.awake)(living);
                use_space(living, world, steps);
                if lives_on {
                    first_sleep(living, world, steps);
                }
                live(living, world, lives_on);
            };
            joins(&living);
        }
        if !lives_on {
            (steps.declare_dead)(core.pool());
            core.ring(CoreId::new(IslandId(UNDERTAKER), 0));
        }
    }
    world.is_over.store(true, Relaxed);
    core.ring(CoreId::new(IslandId(UNDERTAKER), 0));
}

/// Uses a page of the space, as long as it is told of nothing else.
fn use_space(core: &Living, world: &World, steps: Steps) {
    world.space.active[usize::from(MORTAL)].fetch_or(1, Ordering::SeqCst);
    let mut translation = world.entry.load(Ordering::SeqCst);
    core.relax();
    core.relax();
    (steps.after_use)(core);
    for _ in 0..4 {
        if translation != 0 {
            assert!(!world.is_released.load(Relaxed), "it uses a page that was released");
        }
        shootdown::serve(core, || translation = 0);
        core.relax();
    }
    world.space.active[usize::from(MORTAL)].fetch_and(!1, Ordering::SeqCst);
}

/// It has nothing to run yet, and sleeps. Rings for an earlier life may wake it.
fn first_sleep(core: &Living, world: &World, steps: Steps) {
    if (steps.may_sleep)(core) && !world.is_brought.load(Relaxed) {
        core.core.sleep();
    }
    run_queue::end_idle(core);
}

/// Takes locks, and threads if it does not die.
fn live(core: &Living, world: &World, lives_on: bool) {
    if !lives_on {
        // Another core of the island, which does not use the space in its next life.
        world.space.active[usize::from(MORTAL)].fetch_or(2 * choose(2), Ordering::SeqCst);
        for _ in 0..choose(6) {
            shootdown::pass(core, || ());
            core.relax();
        }
        if choose(2) == 0 {
            std::mem::forget(lock::lock(core, world.lock));
        }
        return;
    }
    world.count(core);
    while !world.is_brought.load(Relaxed) || run_queue::has_ready(core.own_record()) {
        while run_queue::next(core).is_some() {
            world.taken.fetch_add(1, Relaxed);
        }
        shootdown::pass(core, || ());
        core.relax();
    }
}

/// Brings threads to the island if that takes some, or has joined and has no core yet that does; else it runs them itself.
fn bring(core: &Core, world: &World) {
    let state = || core.pool().header().islands[usize::from(MORTAL)].state.load(Ordering::Acquire);
    for thread in world.threads {
        for _ in 0..choose(12) {
            shootdown::pass(core, || ());
            core.relax();
        }
        if run_queue::is_online(core, mortal()) || state() == ISLAND_JOINED {
            thread.core.store(u32::from(mortal().0), Ordering::Relaxed);
            run_queue::push(core, thread, mortal());
        } else {
            world.taken.fetch_add(1, Relaxed);
        }
    }
    shootdown::pass(core, || ());
    world.count(core);
    let deaths = || core.pool().header().islands[usize::from(MORTAL)].deaths.load(Ordering::Relaxed);
    while deaths() + 1 < LIVES || state() != ISLAND_JOINED {
        shootdown::pass(core, || ());
        core.relax();
    }
    for _ in 0..choose(12) {
        shootdown::pass(core, || ());
        core.relax();
    }
    world.entry.store(0, Ordering::Release);
    shootdown::shoot_down(core, world.space, || ());
    world.is_released.store(true, Relaxed);
    let mut looks = 0;
    // As whoever ends a space: a dead core does not say that it uses it no more.
    let is_active = || world.space.active[usize::from(MORTAL)].load(Ordering::SeqCst) != 0;
    while is_active() && !cores::is_dead(core, mortal()) {
        looks += 1;
        assert!(looks < LOOKS_MAX, "a core is waited for that died with the space active");
        shootdown::pass(core, || ());
        core.relax();
    }
    let mut looks = 0;
    while (world.taken.load(Relaxed) as usize) < THREADS {
        looks += 1;
        assert!(looks < LOOKS_MAX, "nobody runs a thread that was brought");
        shootdown::pass(core, || ());
        core.relax();
    }
    world.is_brought.store(true, Relaxed);
    while !world.is_over.load(Relaxed) {
        core.ring(mortal());
        shootdown::pass(core, || ());
        core.relax();
    }
}

/// The reclaimer reclaims whoever is lost.
fn reclaim(core: &Core, world: &World, steps: Steps) {
    let header = core.pool().header();
    let state = &header.islands[usize::from(MORTAL)].state;
    while !world.is_over.load(Relaxed) {
        shootdown::pass(core, || ());
        core.relax();
        if header.died.load(Ordering::Acquire) == 0 {
            continue;
        }
        header.died.store(0, Ordering::Release);
        then_look();
        if state.load(Ordering::Acquire) != ISLAND_DEAD {
            continue;
        }
        orphans::begin_reclaiming(core);
        orphans::wait_for_all(core);
        orphans::turn_off(core, IslandId(MORTAL));
        state.store(ISLAND_RECLAIMING, Ordering::Release);
        orphans::settle_calls(core);
        orphans::wait_for_all(core);
        orphans::forget_places(core);
        for thread in world.threads {
            let is_on_dead =
                CoreId::from_raw(thread.core.load(Ordering::SeqCst)).is_some_and(|on| cores::is_dead(core, on));
            if is_on_dead && orphans::is_orphaned(core, thread) {
                thread.core.store(u32::from(core.core().0), Ordering::Relaxed);
                world.taken.fetch_add(1, Relaxed);
            }
        }
        // Going through all frames for spaces is no part of this.
        quietly(|| {
            (steps.forget_spaces)(world);
            rejoin::finish_reclaiming(core, 1 << MORTAL);
        });
    }
}

fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let [reclaimer, dying, bringer] = [UNDERTAKER, MORTAL, BRINGER].map(|island| Core::new(pool, island, &bells));
        quietly(|| {
            for island in &pool.header().islands[..3] {
                island.state.store(ISLAND_JOINED, Ordering::Relaxed);
            }
        });
        let world = World {
            lock: objects.make(),
            counter: objects.make(),
            counted: Arc::default(),
            threads: [(); THREADS].map(|()| objects.thread(bringer.core())),
            taken: Arc::default(),
            space: objects.make(),
            entry: &objects.make::<SpaceRecord>().epoch,
            is_released: Arc::default(),
            is_brought: Arc::default(),
            is_over: Arc::default(),
        };
        quietly(|| world.entry.store(1, Ordering::Relaxed));
        let [reclaims, dies, brings] = [world.clone(), world.clone(), world.clone()];
        together(vec![
            Box::new(move || reclaim(&reclaimer, &reclaims, steps)),
            Box::new(move || live_again(&dying, &dies, steps)),
            Box::new(move || bring(&bringer, &brings)),
        ]);
        quietly(|| {
            assert_eq!(world.taken.load(Relaxed) as usize, THREADS, "times that threads were taken");
            assert_eq!(world.counter.get(), u64::from(world.counted.load(Relaxed)));
            let record = core_record(&Core::new(pool, BRINGER, &bells), mortal());
            assert_eq!(record.inbox_count.load(Ordering::Relaxed), 0, "it counts threads that are not there");
        });
    }
}

#[test]
fn an_island_that_joins_again_loses_no_thread_and_waits_for_no_dead_holder() {
    explore(2000, model(RIGHT));
}

#[test]
fn joining_before_the_reclamation_is_over_is_caught() {
    let may_begin = |pool: Pool| {
        let state = pool.header().islands[usize::from(MORTAL)].state.load(Ordering::Acquire);
        matches!(state, ISLAND_DEAD | ISLAND_RECLAIMING) || rejoin::is_gone(pool.header(), IslandId(MORTAL))
    };
    must_be_caught(10000, model(Steps { may_begin, ..RIGHT }));
}

#[test]
fn threads_of_an_earlier_life_that_stay_in_the_inbox_are_caught() {
    must_be_caught(10000, model(Steps { before_joining: |_| (), ..RIGHT }));
}

#[test]
fn taking_the_records_when_others_may_bring_threads_is_caught() {
    let awake = |core: &Living| {
        // Others have to bring one in between.
        (0..30).for_each(|_| point());
        rejoin::take_records(core);
    };
    must_be_caught(10000, model(Steps { before_joining: |_| (), awake, ..RIGHT }));
}

/// It takes what waits for it for rings that have come: those of the time before it was awake have not.
#[test]
fn sleeping_without_a_look_at_what_has_come_is_caught() {
    let may_sleep = |core: &Living| {
        core.core.forget_ring();
        run_queue::announce_idle(core, CORE_IDLE);
        true
    };
    must_be_caught(10000, model(Steps { may_sleep, ..RIGHT }));
}

/// A living core's word is taken for that of a dead one then.
#[test]
fn locks_that_do_not_say_which_life_their_holder_is_in_are_caught() {
    must_be_caught(10000, model(Steps { life: |_| 0, ..RIGHT }));
}

/// What was asked of it is as good as done, as nothing was translated: but not what was asked since.
#[test]
fn acknowledging_old_shoot_downs_late_is_caught() {
    let after_use = |core: &Living| {
        let record = core.own_record();
        record.shootdown_done.store(record.shootdown_asked.load(Ordering::Acquire), Ordering::Release);
    };
    must_be_caught(5000, model(Steps { after_use, ..RIGHT }));
}

/// Whoever asks for what it was asked before finds it done.
#[test]
fn a_core_that_joins_again_is_in_use() {
    quietly(|| {
        let (pool, _) = fresh_pool(2);
        let core = Living { core: Core::new(pool, MORTAL, &Arc::default()), life: 1 };
        core.own_record().pending.store(PENDING_LEAVES, Ordering::Relaxed);
        rejoin::take_records(&core);
        hotplug::come_back(&core);
        assert!(hotplug::is_done(&core, mortal()) && !hotplug::is_asked(&core));
    });
}

/// The reclaimer does not look again.
#[test]
fn ringing_before_the_island_is_said_to_be_dead_is_caught() {
    let declare_dead = |pool: Pool| {
        let (header, island) = (pool.header(), &pool.header().islands[usize::from(MORTAL)]);
        header.died.store(1, Ordering::Release);
        header.cores[mortal().index()].state.store(CORE_OFFLINE, Ordering::Release);
        island.deaths.fetch_add(1, Ordering::AcqRel);
        island.state.store(ISLAND_DEAD, Ordering::Release);
    };
    must_be_caught(2000, model(Steps { declare_dead, ..RIGHT }));
}

/// Its locks are those of a core that lives, for ever.
#[test]
fn a_death_that_is_not_counted_is_caught() {
    let declare_dead = |pool: Pool| {
        let header = pool.header();
        header.cores[mortal().index()].state.store(CORE_OFFLINE, Ordering::Release);
        header.islands[usize::from(MORTAL)].state.store(ISLAND_DEAD, Ordering::Release);
        header.died.store(1, Ordering::Release);
    };
    must_be_caught(2000, model(Steps { declare_dead, ..RIGHT }));
}

#[test]
fn spaces_that_a_dead_core_still_uses_when_it_lives_again_are_caught() {
    must_be_caught(2000, model(Steps { forget_spaces: |_| (), ..RIGHT }));
}
