//! Models: the firmware's own code for what harts want of each other, under a scheduler that explores interleavings.
//!
//! `RUSTFLAGS="--cfg motet_model" cargo test -p motet-firmware --test model` (without the flag this file is empty). Each model
//! has a twin with a step left out or reordered, which must be caught.
#![cfg(motet_model)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use motet_firmware::{
    calls::Shared,
    hart::{HartId, HartSet},
    mail::Fence,
    state::Launch,
    trips::{Called, Place, Stand, Trips},
};
use shuttle::{sync::atomic::AtomicUsize as TableWord, thread};

const SCHEDULES: usize = 3000;
const LAUNCH: Launch = Launch { address: 0x8020_0000, argument: 0 };

fn hart(id: usize) -> HartId {
    HartId::new(id).unwrap()
}

fn explore(model: impl Fn() + Clone + Send + Sync + 'static) {
    motet_layout::sync::set_hook(|| {
        // Any operation on one of shuttle's own atomics is a scheduling point.
        shuttle::sync::atomic::AtomicBool::new(false).load(SeqCst);
    });
    // More in `./motet test long`.
    let schedules = if std::env::var_os("MOTET_LONG").is_some() { 10 * SCHEDULES } else { SCHEDULES };
    shuttle::check_random(model.clone(), schedules);
    shuttle::check_pct(model, schedules, 3);
}

fn must_be_caught(model: impl Fn() + Clone + Send + Sync + 'static) {
    let caught = catch_unwind(AssertUnwindSafe(|| explore(model))).is_err();
    assert!(caught, "a broken variant passed: the model cannot fail");
}

/// Three harts ask each other for fences at once, twice: who has waited finds its own fence done, and no other.
fn ask_each_other(waits: bool) {
    const HARTS: usize = 3;
    let shared = Arc::new(Shared::new());
    let done: Arc<[[AtomicUsize; HARTS]; HARTS]> = Arc::default();
    let finished = Arc::new(AtomicUsize::new(0));
    let harts = [0, 1, 2].map(|own| {
        let (shared, done, finished) = (shared.clone(), done.clone(), finished.clone());
        thread::spawn(move || {
            let serve = || {
                shared.mail.serve(hart(own), |fence| match fence {
                    Fence::Addresses { start, len, asid: Some(7) } => {
                        assert_eq!(done[own][start].swap(len, SeqCst) + 1, len, "hart {start} asked hart {own}");
                    }
                    other @ (Fence::Instructions | Fence::Addresses { .. }) => panic!("{other:?}"),
                });
                thread::yield_now();
            };
            let others = HartSet(0b111).without(hart(own));
            for round in 1..=2 {
                shared.mail.post_fence(hart(own), others, Fence::Addresses { start: own, len: round, asid: Some(7) });
                for other in others.iter() {
                    while waits && !shared.mail.is_served(hart(own), other) {
                        serve();
                    }
                    assert!(!waits || done[other.index()][own].load(SeqCst) == round);
                }
            }
            finished.fetch_add(1, SeqCst);
            while finished.load(SeqCst) < HARTS {
                serve();
            }
        })
    });
    harts.into_iter().for_each(|hart| hart.join().unwrap());
}

#[test]
fn fences_are_done_when_their_asker_goes_on() {
    explore(|| ask_each_other(true));
}

#[test]
fn a_request_that_is_written_too_early_is_caught() {
    must_be_caught(|| ask_each_other(false));
}

/// Hart 0 changes a table and asks hart 1 to forget it, if that runs; hart 2 starts hart 1 meanwhile, which forgets everything
/// then. In the end hart 1 does not remember the old table.
fn start_meanwhile(changes_first: bool) {
    let shared = Arc::new(Shared::new());
    let (table, remembered, over) =
        (Arc::new(TableWord::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let asker = {
        let (shared, table, over) = (shared.clone(), table.clone(), over.clone());
        thread::spawn(move || {
            let change = || table.store(1, SeqCst);
            if changes_first {
                change();
            }
            let runs = shared.states.is_running(hart(1));
            if !changes_first {
                change();
            }
            if runs {
                shared.mail.post_fence(hart(0), HartSet(0b10), Fence::Instructions);
                while !shared.mail.is_served(hart(0), hart(1)) {
                    thread::yield_now();
                }
            }
            over.fetch_add(1, SeqCst);
        })
    };
    let starter = {
        let (shared, over) = (shared.clone(), over.clone());
        thread::spawn(move || {
            shared.states.start(hart(1), LAUNCH).unwrap();
            over.fetch_add(1, SeqCst);
        })
    };
    let started = {
        let (shared, table, remembered, over) = (shared, table, remembered.clone(), over);
        thread::spawn(move || {
            while shared.states.take_launch(hart(1)).is_none() {
                thread::yield_now();
            }
            remembered.store(table.load(SeqCst), SeqCst);
            while over.load(SeqCst) < 2 {
                shared.mail.serve(hart(1), |_| remembered.store(table.load(SeqCst), SeqCst));
                thread::yield_now();
            }
        })
    };
    for thread in [asker, starter, started] {
        thread.join().unwrap();
    }
    assert_eq!(remembered.load(SeqCst), 1, "hart 1 remembers the old table");
}

#[test]
fn a_hart_that_starts_meanwhile_remembers_nothing_old() {
    explore(|| start_meanwhile(true));
}

#[test]
fn looking_before_changing_is_caught() {
    must_be_caught(|| start_meanwhile(false));
}

/// What can be left out of a trip.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The home hart does a fence while its thread is away.
    CallingHome,
    /// A hidden hart that has found nothing sleeps without saying so first.
    Rest,
    /// A hidden hart ends the trip before it has stored the thread's registers where its home has them.
    Storing,
}

/// Two harts send a thread each, two hidden harts run them. Meanwhile the page tables change, as one of the home harts is told: it calls its thread
/// home before it says that it has done its fence. Nobody uses the old tables after that, each thread runs on one hart at a time, and all come home,
/// with the registers of when they ended, which both harts have in the same memory.
fn travel(without: Without) {
    const HOMES: usize = 2;
    let trips = Arc::new(Trips::new());
    let [rung, over] = [(); 2].map(|()| Arc::new([(); 4].map(|()| AtomicUsize::new(0))));
    let running: Arc<[AtomicUsize; HOMES]> = Arc::default();
    let fenced = Arc::new(TableWord::new(0));
    let registers: Arc<[TableWord; HOMES]> = Arc::new([(); HOMES].map(|()| TableWord::new(0)));
    let homes = (0..HOMES).map(|own| {
        let (trips, rung, over, fenced, registers) =
            (trips.clone(), rung.clone(), over.clone(), fenced.clone(), registers.clone());
        thread::spawn(move || {
            let place = Place::of(hart(own));
            registers[own].store(1, SeqCst);
            let ring = |hidden: HartId| rung[hidden.index()].store(1, SeqCst);
            trips.post(place, trips.ticket()).into_iter().for_each(ring);
            // Hart 0 is asked for a fence.
            let mut is_asked = own == 0;
            loop {
                if trips.stand(place) == Stand::Home {
                    assert_eq!(registers[own].load(SeqCst), 2, "it has come home without its registers");
                    break;
                }
                if is_asked && without == Without::CallingHome {
                    fenced.store(1, SeqCst);
                    is_asked = false;
                } else if is_asked {
                    match trips.call_home(place) {
                        Called::Ring(hidden) => ring(hidden),
                        Called::Withdrawn => {
                            assert_eq!(registers[own].load(SeqCst), 1, "a hidden hart had its registers");
                            break;
                        }
                        Called::Home => {}
                    }
                    is_asked = false;
                }
                thread::yield_now();
            }
            if own == 0 {
                fenced.store(1, SeqCst);
            }
            trips.clear(place);
            over[0].fetch_add(1, SeqCst);
        })
    });
    let homes: Vec<_> = homes.collect();
    let hidden = [2, 3].map(|own| {
        let (trips, rung, over, fenced, running, registers) =
            (trips.clone(), rung.clone(), over.clone(), fenced.clone(), running.clone(), registers.clone());
        thread::spawn(move || {
            let is_over = || over[0].load(SeqCst) == HOMES;
            while !is_over() {
                let found = match without {
                    Without::Rest => trips.take(hart(own)),
                    Without::Nothing | Without::CallingHome | Without::Storing => {
                        trips.take(hart(own)).or_else(|| trips.rest(hart(own)))
                    }
                };
                let Some(place) = found else {
                    // It sleeps until it is rung.
                    for patience in 0.. {
                        if rung[own].swap(0, SeqCst) != 0 || is_over() {
                            break;
                        }
                        assert!(without != Without::Rest || patience < 200, "hart {own} sleeps for good");
                        thread::yield_now();
                    }
                    trips.rise(hart(own));
                    continue;
                };
                let whose = place.index();
                assert_eq!(running[whose].swap(own, SeqCst), 0, "a thread runs twice");
                let loaded = registers[whose].load(SeqCst);
                assert_eq!(loaded, 1, "registers are not those that it left with");
                for _ in 0..2 {
                    assert!(whose != 0 || fenced.load(SeqCst) == 0, "old page tables are used after the fence");
                    if trips.is_called(place) {
                        break;
                    }
                    thread::yield_now();
                }
                running[whose].store(0, SeqCst);
                if without == Without::Storing {
                    trips.end(place);
                }
                registers[whose].store(loaded + 1, SeqCst);
                if without != Without::Storing {
                    trips.end(place);
                }
            }
        })
    });
    homes.into_iter().chain(hidden).for_each(|hart| hart.join().unwrap());
}

#[test]
fn threads_on_hidden_harts_come_home_before_a_fence() {
    explore(|| travel(Without::Nothing));
}

#[test]
fn a_fence_with_the_thread_away_is_caught() {
    must_be_caught(|| travel(Without::CallingHome));
}

#[test]
fn sleeping_without_a_word_is_caught() {
    must_be_caught(|| travel(Without::Rest));
}

#[test]
fn ending_before_registers_are_stored_is_caught() {
    must_be_caught(|| travel(Without::Storing));
}

/// What can be left out when a hidden hart is taken out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Nothing,
    /// Whoever takes it out looks what it has before saying that it is out.
    Order,
    /// It is rung for a thread that it does not take, and rings nobody else.
    PassingOn,
}

/// Two harts send a thread each until it has run; of two hidden harts, hart 2 is taken out meanwhile. From when it has no thread, as whoever takes
/// it out sees, it runs none, and the other one runs both.
fn take_out(lack: Lack) {
    const HOMES: usize = 2;
    let trips = Arc::new(Trips::new());
    let rung = Arc::new([(); 4].map(|()| AtomicUsize::new(0)));
    let [over, is_out] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let has_run: Arc<[AtomicUsize; HOMES]> = Arc::default();
    let homes = (0..HOMES).map(|own| {
        let (trips, rung, over, has_run) = (trips.clone(), rung.clone(), over.clone(), has_run.clone());
        thread::spawn(move || {
            let place = Place::of(hart(own));
            while has_run[own].load(SeqCst) == 0 {
                let ring = |hidden: HartId| rung[hidden.index()].store(1, SeqCst);
                trips.post(place, trips.ticket()).into_iter().for_each(ring);
                while trips.stand(place) != Stand::Home {
                    thread::yield_now();
                }
                trips.clear(place);
            }
            over.fetch_add(1, SeqCst);
        })
    });
    let homes: Vec<_> = homes.collect();
    let hidden = [2, 3].map(|own| {
        let (trips, rung, over, is_out, has_run) =
            (trips.clone(), rung.clone(), over.clone(), is_out.clone(), has_run.clone());
        thread::spawn(move || {
            let is_over = || over.load(SeqCst) == HOMES;
            while !is_over() {
                let Some(place) = trips.take(hart(own)).or_else(|| trips.rest(hart(own))) else {
                    if lack != Lack::PassingOn && trips.is_out(hart(own)) {
                        trips.pass_on().into_iter().for_each(|other| rung[other.index()].store(1, SeqCst));
                    }
                    for patience in 0.. {
                        if rung[own].swap(0, SeqCst) != 0 || is_over() {
                            break;
                        }
                        assert!(lack != Lack::PassingOn || patience < 2000, "hart {own} sleeps for good");
                        thread::yield_now();
                    }
                    trips.rise(hart(own));
                    continue;
                };
                let was_out = own == 2 && is_out.load(SeqCst) != 0;
                assert!(!was_out || trips.is_called(place), "a hart that is out runs a thread");
                thread::yield_now();
                if !trips.is_called(place) {
                    has_run[place.index()].store(1, SeqCst);
                }
                trips.end(place);
            }
        })
    });
    let both = HartSet(0b1100);
    let dismiss = || assert!(trips.dismiss(hart(2), both));
    if lack != Lack::Order {
        dismiss();
    }
    while trips.call_home_from(hart(2)) {
        thread::yield_now();
    }
    if lack == Lack::Order {
        dismiss();
    }
    is_out.store(1, SeqCst);
    homes.into_iter().chain(hidden).for_each(|hart| hart.join().unwrap());
}

#[test]
fn a_hidden_hart_that_is_taken_out_runs_no_thread() {
    explore(|| take_out(Lack::Nothing));
}

#[test]
fn looking_what_a_hart_has_before_it_is_out_is_caught() {
    must_be_caught(|| take_out(Lack::Order));
}

#[test]
fn keeping_a_ring_for_a_thread_that_is_not_taken_is_caught() {
    must_be_caught(|| take_out(Lack::PassingOn));
}
