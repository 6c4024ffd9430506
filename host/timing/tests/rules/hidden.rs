//! Harts that only the firmware has.

use motet_layout::sync::Ordering::SeqCst;
use motet_timing::PS_PER_NS;

use crate::world::{Handle, QUANTUM_PS, Side, World, fixed};

/// The hidden hart of an island with a core.
const HIDDEN: usize = 1;
const US: u64 = 1000 * PS_PER_NS;

/// An island with a core and a hidden hart that sleeps.
fn started(side: Side) -> World {
    let world = World::hiding(&[1], &[HIDDEN], fixed(QUANTUM_PS, side == Side::InTurns), Handle::default());
    world.header.islands[0].doorbell_ns[0].set(300);
    assert!(!world.timing.announce(0), "the hidden hart is not there yet");
    world.timing.announce_asleep(HIDDEN);
    assert!(world.timing.announce(0));
    world
}

#[test]
fn one_that_sleeps_holds_nobody_back() {
    for side in [Side::BySide, Side::InTurns] {
        let world = started(side);
        let next = world.timing.boundary(0, 100 * QUANTUM_PS);
        assert_eq!((next.now_ps, next.escaped), (100 * QUANTUM_PS, false), "{side:?}");
    }
}

#[test]
fn one_that_is_rung_wakes_at_the_ringers_time_and_the_doorbells() {
    for side in [Side::BySide, Side::InTurns] {
        let world = started(side);
        world.timing.note_ring_of(0, HIDDEN, 5 * US);
        world.timing.sleep(0, 6 * US);
        let next = world.timing.boundary(HIDDEN, PS_PER_NS);
        let woken_ps = 5 * US + 300 * PS_PER_NS;
        assert_eq!((next.now_ps, next.woke), (woken_ps, false), "{side:?}");
        let clock = &world.region.cores[HIDDEN];
        assert_eq!((clock.idle_ps.load(SeqCst), clock.ipis_received.load(SeqCst)), (woken_ps - PS_PER_NS, 1));
        // It rings the core in turn, whose clock is ahead.
        world.timing.note_ring_of(HIDDEN, 0, 5 * US + 400 * PS_PER_NS);
        world.timing.sleep(HIDDEN, 5 * US + 500 * PS_PER_NS);
        assert_eq!(world.timing.boundary(0, 6 * US).now_ps, 6 * US);
    }
}

#[test]
fn one_that_runs_takes_part_in_the_quantum() {
    let world = started(Side::BySide);
    world.timing.note_ring_of(0, HIDDEN, US);
    world.timing.boundary(HIDDEN, PS_PER_NS);
    assert!(world.timing.boundary(0, 2 * QUANTUM_PS).escaped, "the hidden hart is behind, and stands");
    world.timing.boundary(HIDDEN, 2 * QUANTUM_PS);
    assert!(!world.timing.boundary(0, 2 * QUANTUM_PS).escaped);
}

#[test]
fn time_jumps_to_an_alarm_when_it_sleeps_too() {
    let world = started(Side::BySide);
    world.record(0).state.store(motet_layout::CORE_IDLE, SeqCst);
    world.record(0).alarm_ns.store(7000, SeqCst);
    world.timing.sleep(0, US);
    assert_eq!((world.bells.rung(), world.region.now_ps.load(SeqCst)), (vec![0], 7 * US));
}
