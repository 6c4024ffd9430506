//! Threads in the words of idle cores' states: none is lost or taken twice, whoever else wakes the core, and whichever island dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use shuttle::rand::{Rng, thread_rng};

use motet_abi::process::SCHED_FIFO;
use motet_layout::{
    CORE_AWAKE, CORE_HANDED, CORE_IDLE, CORE_OFFLINE, CORE_POLLING, CORE_WAKING, CoreId, ISLAND_DEAD, ISLAND_GONE,
    ISLAND_JOINED, ISLAND_RECLAIMING, IslandId, PENDING_URGENT, SpaceRecord, THREAD_READY, THREAD_RUNNING,
    ThreadRecord, handshake::then_look, sync::Ordering,
};
use motet_protocol::{
    Context, cores,
    cores::core_record,
    direct, handed, orphans, ready, rejoin,
    run_queue::{self, in_transit_by},
    schedule::{self, Schedule},
    shootdown,
};

use crate::harness::{Bells, Core, Objects, dies_after, explore, fresh_pool, must_be_caught, quietly, together};

const IDLE: u8 = 0;
const GIVER: u8 = 1;
const OTHER: u8 = 2;
/// An island that has died before.
const LOST: u8 = 3;

fn core_of(island: u8) -> CoreId {
    CoreId::new(IslandId(island), 0)
}

type Give = fn(&Core, &'static ThreadRecord, CoreId) -> bool;
type Wake = fn(&Core) -> Option<&'static ThreadRecord>;

/// As a kernel gives a thread: by the word if the core is idle, otherwise by the inbox.
fn hand_over(core: &Core, thread: &'static ThreadRecord, target: CoreId, give: Give) {
    thread.state.store(in_transit_by(core.core()), Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::Release);
    if !give(core, thread, target) {
        run_queue::push(core, thread, target);
    }
}

/// As a kernel wakes: what it was handed runs at once, if it waits for that, and is ready otherwise.
fn woken(core: &Core) -> Option<&'static ThreadRecord> {
    if thread_rng().gen_range(0..2) == 0 {
        run_queue::end_idle_with(core).1
    } else {
        run_queue::end_idle(core);
        None
    }
}

fn next_thread(core: &Core, state: u32, wake: Wake) -> &'static ThreadRecord {
    loop {
        if let Some(thread) = run_queue::next(core) {
            return thread;
        }
        if run_queue::begin_idle(core, state) {
            if state == CORE_POLLING {
                while core_record(core, core.core()).state.load(Ordering::Acquire) == CORE_POLLING {
                    core.relax();
                }
            } else {
                core.sleep();
            }
        }
        if let Some(thread) = wake(core) {
            return thread;
        }
    }
}

/// Two cores give an idle one two threads each, in the way that they find.
fn givers(state: u32, give: Give, wake: Wake) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let idle = Core::new(pool, IDLE, &bells);
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for island in [GIVER, OTHER] {
            let core = Core::new(pool, island, &bells);
            let threads = [0, 1].map(|_: u32| objects.thread(core_of(island)));
            actors.push(Box::new(move || {
                for thread in threads {
                    hand_over(&core, thread, core_of(IDLE), give);
                }
            }));
        }
        actors.push(Box::new(move || {
            let mut seen = Vec::new();
            while seen.len() < 4 {
                let thread = next_thread(&idle, state, wake);
                assert!(!seen.contains(&idle.raw(thread)), "a thread was taken twice");
                seen.push(idle.raw(thread));
            }
            assert!(run_queue::next(&idle).is_none(), "a thread too many");
        }));
        together(actors);
    }
}

#[test]
fn no_thread_in_a_state_is_lost() {
    explore(1500, givers(CORE_IDLE, handed::give, woken));
    explore(1500, givers(CORE_POLLING, handed::give, woken));
}

#[test]
fn giving_by_a_look_and_a_store_is_caught() {
    let give: Give = |core, thread, target| {
        let state = &core_record(core, target).state;
        let is_idle = state.load(Ordering::SeqCst) == CORE_IDLE;
        if is_idle {
            state.store((core.raw(thread) / 4096) as u32 * 256 | CORE_HANDED, Ordering::SeqCst);
            core.ring(target);
        }
        is_idle
    };
    must_be_caught(1500, givers(CORE_IDLE, give, woken));
}

#[test]
fn waking_by_a_look_and_a_store_is_caught() {
    let wake: Wake = |core| {
        let state = &core_record(core, core.core()).state;
        let found = state.load(Ordering::SeqCst);
        state.store(CORE_AWAKE, Ordering::SeqCst);
        then_look();
        let number = u64::from(found >> 8) * 4096;
        if found & 0xff == CORE_HANDED { core.object(number) } else { None }
    };
    must_be_caught(1500, givers(CORE_IDLE, handed::give, wake));
}

/// A thread goes there and back: each core waits for it as soon as it has given it, and looks for nothing else unless something is due.
fn ping_pong(give: Give) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        const ROUNDS: usize = 3;
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let thread = objects.thread(core_of(IDLE));
        let space = quietly(|| objects.make::<SpaceRecord>());
        let flushed = Arc::new(AtomicU32::new(0));
        let side = |island: u8, begins: bool, target: u8| {
            let (core, flushed) = (Core::new(pool, island, &bells), flushed.clone());
            quietly(|| space.active[island as usize].store(1, Ordering::Relaxed));
            move || {
                let serve = |core: &Core| shootdown::serve(core, || _ = flushed.fetch_add(1 << (8 * island), Relaxed));
                for round in 0..ROUNDS {
                    if round > 0 || !begins {
                        let found = next_thread(&core, CORE_IDLE, woken);
                        assert!(std::ptr::eq(found, thread));
                        serve(&core);
                    }
                    // What the thread does here, it does with translations that are true.
                    hand_over(&core, thread, core_of(target), give);
                }
                if begins {
                    assert!(std::ptr::eq(next_thread(&core, CORE_IDLE, woken), thread));
                    serve(&core);
                }
                core_record(&core, core.core()).state.store(CORE_OFFLINE, Ordering::SeqCst);
            }
        };
        let (home, away, editor) = (side(IDLE, true, GIVER), side(GIVER, false, IDLE), Core::new(pool, OTHER, &bells));
        together(vec![Box::new(home), Box::new(away), Box::new(move || shootdown::shoot_down(&editor, space, || ()))]);
    }
}

#[test]
fn shoot_downs_reach_cores_that_hand_a_thread_to_each_other() {
    explore(1500, ping_pong(handed::give));
}

/// A core sleeps when it is asked to drop its translations, and is then given a thread by a core that dies before it rings. Nobody reclaims that until the
/// shoot-down has ended.
#[test]
fn a_shoot_down_ends_whose_core_is_given_a_thread_by_the_dying() {
    explore(1500, || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let (thread, space) = (objects.thread(core_of(GIVER)), quietly(|| objects.make::<SpaceRecord>()));
        let [idle, giver, editor] = [IDLE, GIVER, OTHER].map(|island| Core::new(pool, island, &bells));
        quietly(|| space.active[IDLE as usize].store(1, Ordering::Relaxed));
        let over = Arc::new(AtomicBool::default());
        let (is_over, operations) = (over.clone(), thread_rng().gen_range(0..10));
        together(vec![
            Box::new(move || dies_after(operations, || hand_over(&giver, thread, core_of(IDLE), handed::give))),
            Box::new(move || {
                while !is_over.load(Relaxed) {
                    if run_queue::next(&idle).is_none() && run_queue::begin_idle(&idle, CORE_IDLE) {
                        idle.sleep();
                    }
                    run_queue::end_idle_with(&idle);
                    shootdown::serve(&idle, || ());
                    idle.relax();
                }
            }),
            Box::new(move || {
                shootdown::shoot_down(&editor, space, || ());
                over.store(true, Relaxed);
                editor.ring(core_of(IDLE));
            }),
        ]);
    });
}

/// A real-time thread is pushed onto a core that is being handed another one: `looks`, before that runs, says whether anything has come. It is rung for
/// what comes afterwards.
fn urgent(looks: fn(&Core) -> bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let [idle, giver, other] = [IDLE, GIVER, OTHER].map(|island| Core::new(pool, island, &bells));
        let (given, realtime) = (objects.thread(core_of(GIVER)), objects.thread(core_of(OTHER)));
        quietly(|| schedule::set(realtime, Schedule::new(SCHED_FIFO, 1, false).unwrap()));
        together(vec![
            Box::new(move || hand_over(&giver, given, core_of(IDLE), handed::give)),
            Box::new(move || {
                realtime.state.store(in_transit_by(other.core()), Ordering::Relaxed);
                run_queue::push(&other, realtime, core_of(IDLE));
            }),
            Box::new(move || {
                let mut seen = Vec::new();
                while seen.len() < 2 {
                    let mut found = run_queue::next(&idle);
                    if found.is_none() {
                        if run_queue::begin_idle(&idle, CORE_IDLE) {
                            idle.sleep();
                        }
                        found = run_queue::end_idle_with(&idle).1;
                        if found.is_some() && looks(&idle) {
                            handed::make_ready(&idle, found.take().unwrap());
                        }
                    }
                    let Some(thread) = found else { continue };
                    seen.push(idle.raw(thread));
                    // It computes until it is interrupted by something that has come.
                    while seen.len() == 1 && !schedule::of(thread).is_realtime() {
                        idle.sleep();
                        if has_come(&idle) {
                            break;
                        }
                    }
                }
            }),
        ]);
    }
}

fn has_come(core: &Core) -> bool {
    let is_urgent = core.own_record().pending.fetch_and(!PENDING_URGENT, Ordering::SeqCst) & PENDING_URGENT != 0;
    is_urgent || run_queue::has_ready(core.own_record())
}

#[test]
fn a_real_time_thread_is_seen_by_a_core_that_is_handed_another_one() {
    explore(1500, urgent(has_come));
}

#[test]
fn running_what_a_core_was_handed_without_a_look_is_caught() {
    must_be_caught(5000, urgent(|_| false));
}

/// What the reclaimer waits for.
type Wait = fn(&Core);

/// What a core does, if anything, between its sleep and its exchange of the state.
type First = Option<fn(&Core)>;

/// Says that the core has nothing on its way to it, while a thread may still be in its state.
const EARLY: First = Some(|core| {
    let record = core.own_record();
    record.shootdown_passed.store(record.shootdown_asked.load(Ordering::Acquire), Ordering::Release);
});

/// How far a core comes that gives a thread and dies; or the thread's receiver dies.
fn death_of(victim: u8, wait: Wait, first: First) -> impl Fn() + Clone + Send + Sync + 'static {
    // More operations than giving has, or taking.
    let most = if victim == GIVER { 10 } else { 30 };
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let states = || pool.header().islands.iter().map(|island| &island.state);
        quietly(|| states().take(3).for_each(|state| state.store(ISLAND_JOINED, Ordering::Relaxed)));
        let thread = objects.thread(core_of(GIVER));
        let (over, gone) = (Arc::new(AtomicBool::default()), Arc::new(AtomicBool::default()));
        let taken = Arc::new(AtomicU32::default());
        let [idle, giver, reclaimer] = [IDLE, GIVER, OTHER].map(|island| Core::new(pool, island, &bells));
        let operations = thread_rng().gen_range(0..most);
        let end = {
            let (over, gone) = (over.clone(), gone.clone());
            move |core: &Core, dies: bool| {
                if dies {
                    gone.store(true, Relaxed);
                }
                // It lives, and passes, until all is over.
                while !dies && !over.load(Relaxed) {
                    shootdown::pass(core, || ());
                    core.relax();
                }
            }
        };
        let (give, receive) = (end.clone(), end);
        let (found, received, settled, run_over) = (taken.clone(), taken.clone(), taken.clone(), over.clone());
        together(vec![
            Box::new(move || {
                let act = || {
                    thread.state.store(in_transit_by(giver.core()), Ordering::Relaxed);
                    thread.core.store(u32::from(core_of(IDLE).0), Ordering::Release);
                    let given = handed::give(&giver, thread, core_of(IDLE));
                    if !given && victim == IDLE && cores::is_dead(&giver, core_of(IDLE)) {
                        // It stays here, as no other core has what it needs.
                        thread.core.store(u32::from(giver.core().0), Ordering::Release);
                        thread.state.store(THREAD_READY, Ordering::Relaxed);
                        found.fetch_add(1, Relaxed);
                    } else if !given {
                        run_queue::push(&giver, thread, core_of(IDLE));
                    }
                };
                if victim == GIVER {
                    dies_after(operations, act)
                } else {
                    act()
                }
                give(&giver, victim == GIVER);
            }),
            Box::new(move || {
                let act = || {
                    loop {
                        let is_over = run_over.load(Relaxed);
                        let mut found = run_queue::next(&idle);
                        if found.is_none() && !is_over {
                            if run_queue::begin_idle(&idle, CORE_IDLE) {
                                idle.sleep();
                            }
                            if let Some(first) = first {
                                first(&idle);
                            }
                            found = woken(&idle);
                        }
                        if let Some(thread) = found {
                            thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
                            received.fetch_add(u32::from(victim != IDLE), Relaxed);
                            return;
                        }
                        if is_over {
                            return;
                        }
                        shootdown::pass(&idle, || ());
                    }
                };
                if victim == IDLE {
                    dies_after(operations, act)
                } else {
                    act()
                }
                receive(&idle, victim == IDLE);
            }),
            Box::new(move || {
                while !gone.load(Relaxed) {
                    // One that sleeps is dead, too.
                    if victim == IDLE {
                        reclaimer.ring(core_of(IDLE));
                    }
                    reclaimer.relax();
                }
                let state = &pool.header().islands[victim as usize].state;
                orphans::turn_off(&reclaimer, IslandId(victim));
                state.store(ISLAND_DEAD, Ordering::SeqCst);
                wait(&reclaimer);
                let settle = || {
                    orphans::turn_off(&reclaimer, IslandId(victim));
                    state.store(ISLAND_RECLAIMING, Ordering::SeqCst);
                    let ends = orphans::is_orphaned(&reclaimer, thread);
                    let is_brought = !ends && orphans::is_stranded(&reclaimer, thread);
                    settled.fetch_add(u32::from(ends) + u32::from(is_brought), Relaxed);
                };
                // At once: settling is long enough for a core that has passed too early to take the thread.
                if first.is_some() {
                    quietly(settle)
                } else {
                    settle()
                }
                over.store(true, Relaxed);
                reclaimer.ring(core_of(IDLE));
            }),
        ]);
        assert_eq!(taken.load(Relaxed), 1, "times that the thread was taken");
    }
}

#[test]
fn a_thread_in_a_state_is_taken_once_whoever_dies() {
    for victim in [IDLE, GIVER] {
        for first in [None, Some((|core| shootdown::pass(core, || ())) as fn(&Core))] {
            explore(1000, death_of(victim, |core| orphans::wait_for_all(core), first));
        }
    }
}

#[test]
fn settling_before_others_have_passed_is_caught() {
    must_be_caught(5000, death_of(GIVER, |_| (), None));
}

#[test]
fn passing_before_the_thread_is_out_of_the_state_is_caught() {
    must_be_caught(5000, death_of(GIVER, |core| wait_for(core, core_of(IDLE)), EARLY));
}

/// As [`orphans::wait_for_all`], for one core alone: going through all of them is so long that what comes too early mostly has come.
fn wait_for(core: &Core, other: CoreId) {
    let record = core_record(core, other);
    let ticket = record.shootdown_asked.fetch_add(1, Ordering::SeqCst) + 1;
    core.ring(other);
    while record.shootdown_passed.load(Ordering::Acquire) < ticket {
        core.relax();
    }
}

/// The reclaimer is idle as far as others see, as one that has just answered a call: it is given a thread by a core that dies.
fn death_of_its_giver(wait: Wait) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let thread = objects.thread(core_of(GIVER));
        let [reclaimer, giver] = [IDLE, GIVER].map(|island| Core::new(pool, island, &bells));
        quietly(|| {
            let states = pool.header().islands.iter().map(|island| &island.state);
            states.take(2).for_each(|state| state.store(ISLAND_JOINED, Ordering::Relaxed));
            assert!(run_queue::begin_idle(&reclaimer, CORE_IDLE));
        });
        let gone = Arc::new(AtomicBool::default());
        let is_gone = gone.clone();
        let operations = thread_rng().gen_range(0..10);
        together(vec![
            Box::new(move || {
                dies_after(operations, || hand_over(&giver, thread, core_of(IDLE), handed::give));
                gone.store(true, Relaxed);
            }),
            Box::new(move || {
                while !is_gone.load(Relaxed) {
                    reclaimer.relax();
                }
                rejoin::declare_dead(pool.header(), IslandId(GIVER));
                let taken = u32::from(reclaim(&reclaimer, thread, wait, orphans::is_orphaned));
                // It is awake.
                let found = woken(&reclaimer).or_else(|| run_queue::next(&reclaimer));
                assert_eq!(taken + u32::from(found.is_some()), 1, "times that the thread was taken");
                assert!(run_queue::next(&reclaimer).is_none(), "the thread is there twice");
            }),
        ]);
    }
}

/// Buries all islands that are dead. Whether the thread is to end, or was brought here.
fn reclaim(core: &Core, thread: &'static ThreadRecord, wait: Wait, is_orphaned: IsOrphaned) -> bool {
    let islands =
        || [IDLE, GIVER, LOST].into_iter().map(|island| (island, &core.pool().header().islands[island as usize].state));
    let dead = islands().filter(|(_, state)| state.load(Ordering::Acquire) == ISLAND_DEAD).collect::<Vec<_>>();
    wait(core);
    for &(island, state) in &dead {
        orphans::turn_off(core, IslandId(island));
        state.store(ISLAND_RECLAIMING, Ordering::SeqCst);
    }
    let takes = is_orphaned(core, thread) || orphans::is_stranded(core, thread);
    if takes {
        thread.core.store(u32::from(core.core().0), Ordering::Relaxed);
        thread.state.store(THREAD_READY, Ordering::Relaxed);
    }
    dead.iter().for_each(|(_, state)| state.store(ISLAND_GONE, Ordering::SeqCst));
    takes
}

type IsOrphaned = fn(&Core, &'static ThreadRecord) -> bool;

#[test]
fn a_reclaimer_that_is_handed_a_thread_has_it_once() {
    explore(1500, death_of_its_giver(|core| orphans::wait_for_all(core)));
}

#[test]
fn reclaiming_with_a_thread_in_the_own_state_is_caught() {
    must_be_caught(1500, death_of_its_giver(|core| orphans::pass_all(core)));
}

/// A core keeps a thread that it could not give, as the target has died. Another island has died before, and is being reclaimed.
fn second_death(wait: Wait, is_orphaned: IsOrphaned) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let thread = objects.thread(core_of(GIVER));
        let [target, giver, reclaimer] = [IDLE, GIVER, OTHER].map(|island| Core::new(pool, island, &bells));
        quietly(|| {
            let states = pool.header().islands.iter().map(|island| &island.state);
            states.take(3).for_each(|state| state.store(ISLAND_JOINED, Ordering::Relaxed));
            rejoin::declare_dead(pool.header(), IslandId(LOST));
            assert!(run_queue::begin_idle(&target, CORE_IDLE));
        });
        let (taken, over) = (Arc::new(AtomicU32::default()), Arc::new(AtomicBool::default()));
        let (kept, ended, is_over) = (taken.clone(), taken.clone(), over.clone());
        together(vec![
            Box::new(move || {
                for _ in 0..thread_rng().gen_range(0..10) {
                    shootdown::pass(&giver, || ());
                    giver.relax();
                }
                // Nobody begins to give a dead core a thread.
                if direct::sleeps(&giver, core_of(IDLE)) {
                    thread.state.store(in_transit_by(giver.core()), Ordering::Relaxed);
                    thread.core.store(u32::from(core_of(IDLE).0), Ordering::Release);
                    // Some take their time: mostly the target dies meanwhile.
                    (0..thread_rng().gen_range(0..30)).for_each(|_| giver.relax());
                    if !handed::give(&giver, thread, core_of(IDLE)) {
                        thread.core.store(u32::from(giver.core().0), Ordering::Release);
                        thread.state.store(THREAD_READY, Ordering::Relaxed);
                        kept.fetch_add(1, Relaxed);
                    }
                } else {
                    kept.fetch_add(1, Relaxed);
                }
                while !is_over.load(Relaxed) {
                    shootdown::pass(&giver, || ());
                    giver.relax();
                }
            }),
            Box::new(move || {
                for _ in 0..thread_rng().gen_range(0..30) {
                    shootdown::pass(&target, || ());
                    target.relax();
                    if thread.core.load(Ordering::Relaxed) == u32::from(core_of(IDLE).0) {
                        break;
                    }
                }
                rejoin::declare_dead(pool.header(), IslandId(IDLE));
            }),
            Box::new(move || {
                while pool.header().islands[IDLE as usize].state.load(Ordering::SeqCst) != ISLAND_GONE {
                    let takes = reclaim(&reclaimer, thread, wait, is_orphaned);
                    ended.fetch_add(u32::from(takes), Relaxed);
                }
                over.store(true, Relaxed);
            }),
        ]);
        assert_eq!(taken.load(Relaxed), 1, "times that the thread was taken");
    }
}

#[test]
fn a_thread_for_an_island_that_dies_during_a_reclamation_has_one_owner() {
    let waits: [Wait; 2] = [|core| orphans::wait_for_all(core), |core| wait_for(core, core_of(GIVER))];
    for wait in waits {
        explore(1500, second_death(wait, orphans::is_orphaned));
    }
}

#[test]
fn taking_threads_of_islands_that_are_reclaimed_later_is_caught() {
    let is_orphaned: IsOrphaned = |core, thread| {
        CoreId::from_raw(thread.core.load(Ordering::SeqCst)).is_some_and(|found| cores::is_dead(core, found))
    };
    must_be_caught(5000, second_death(|core| wait_for(core, core_of(GIVER)), is_orphaned));
}

/// A core that is woken by something else finds the thread among its ready ones.
#[test]
fn whoever_wakes_the_core_the_thread_is_ready() {
    explore(1, || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let [idle, giver] = [IDLE, GIVER].map(|island| Core::new(pool, island, &bells));
        let thread = objects.thread(core_of(GIVER));
        assert!(!handed::give(&giver, thread, core_of(IDLE)), "it is awake");
        assert!(run_queue::begin_idle(&idle, CORE_IDLE));
        assert!(handed::give(&giver, thread, core_of(IDLE)));
        assert!(!handed::give(&giver, objects.thread(core_of(GIVER)), core_of(IDLE)), "it has one");
        assert!(!run_queue::wake_core(&giver, core_of(IDLE)), "it is about to wake");
        assert_eq!(run_queue::end_idle(&idle), run_queue::Wake::Look);
        assert!(ready::first(&idle, idle.own_record()).is_some_and(|found| std::ptr::eq(found, thread)));
        assert_ne!(core_record(&idle, idle.core()).state.load(Ordering::Relaxed), CORE_WAKING);
    });
}
