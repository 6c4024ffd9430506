//! The rules of time, without QEMU: threads stand for cores.

mod engine;
mod fpga;
mod hardware;
mod hidden;
mod kernels;
mod together;
mod world;

use std::{mem::offset_of, time::Duration};

use motet_layout::{
    CALL_GIVEN, CORE_AWAKE, CORE_IDLE, CORE_OUT, CORE_POLLING, CoreRecord, DMA_ANSWER, DMA_CALL, DMA_HOME, DMA_NONE,
    sync::Ordering::SeqCst,
};
use motet_timing::{Bells, PS_PER_NS, Settings, TIME_END_PS};
use world::{Handle, QUANTUM_PS, Side, World, fixed};

const US: u64 = 1000 * PS_PER_NS;

#[test]
fn time_starts_when_all_cores_are_there() {
    let world = World::new(&[1, 1], Side::BySide);
    assert!(!world.timing.announce(0), "core 16 is not there yet");
    assert_eq!(world.record(0).clock_ns.load(SeqCst), 0);
    assert!(world.timing.announce(16));
    assert!(world.timing.announce(0));
    assert_eq!(world.record(0).clock_ns.load(SeqCst), 1);
}

#[test]
fn a_sleeping_core_holds_nobody_back() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.sleep(16, US);
    let next = world.timing.boundary(0, 100 * QUANTUM_PS);
    assert_eq!((next.now_ps, next.escaped), (100 * QUANTUM_PS, false));
}

#[test]
fn a_core_that_runs_alone_needs_no_boundary_for_a_quantum_or_until_its_alarm() {
    let world = World::started(&[1, 1], Side::BySide);
    let eighth_ps = QUANTUM_PS / 8;
    assert_eq!(world.timing.boundary(0, 1000).step_ps, eighth_ps);
    world.timing.sleep(16, 1000);
    let step_ps = |now_ps| world.timing.boundary(0, now_ps).step_ps;
    assert_eq!(step_ps(100 * QUANTUM_PS), QUANTUM_PS);
    let mut now_ps = 200 * QUANTUM_PS;
    for (in_ps, step) in [(QUANTUM_PS / 2, QUANTUM_PS / 2), (eighth_ps / 2, eighth_ps), (2 * QUANTUM_PS, QUANTUM_PS)] {
        now_ps += 100 * QUANTUM_PS;
        world.record(0).alarm_ns.store((now_ps + in_ps) / PS_PER_NS, SeqCst);
        assert_eq!(step_ps(now_ps), step);
    }
    // Somebody is about to run.
    world.ring(16, now_ps / PS_PER_NS);
    assert_eq!(step_ps(now_ps), eighth_ps);
    assert_eq!(World::started(&[1], Side::BySide).timing.boundary(0, 1000).step_ps, QUANTUM_PS);
    let in_turns = World::started(&[1, 1], Side::InTurns);
    in_turns.stay_awake(16);
    assert_eq!(in_turns.timing.boundary(0, 1000).step_ps, QUANTUM_PS);
}

#[test]
fn a_core_passes_a_boundary_at_which_nothing_is_to_be_done_and_says_how_far_it_is() {
    let world = World::started(&[1, 1], Side::BySide);
    let (passes, clock) = (|now_ps| world.timing.passes(0, now_ps), &world.region.cores[0].clock_ps);
    assert!(!passes(1000), "it has not looked yet how far it may run");
    world.timing.boundary(0, 1000);
    let now_ps = QUANTUM_PS / 2;
    assert!(passes(now_ps));
    assert_eq!(clock.load(SeqCst), now_ps);
    assert!(!passes(QUANTUM_PS), "it would come too far");
    world.record(0).alarm_ns.store(now_ps / PS_PER_NS, SeqCst);
    assert!(!passes(now_ps), "its alarm has gone off");
    world.record(0).alarm_ns.store(u64::MAX, SeqCst);
    world.header.exit.store(1, SeqCst);
    assert!(!passes(now_ps), "the run is over");
    world.header.exit.store(0, SeqCst);
    assert!(passes(now_ps));
    world.timing.sleep(0, now_ps);
    assert!(!passes(now_ps), "it comes from sleep");
    assert_eq!(clock.load(SeqCst), now_ps);
    assert!(!World::started(&[1, 1], Side::InTurns).timing.passes(0, 0), "it has to pass on its turn");
}

#[test]
fn a_quantum_grows_while_nothing_is_exchanged_and_is_short_again_afterwards() {
    let settings = Settings { quantum_max_ps: 100 * US, ..fixed(10 * US, false) };
    let world = World::of(&[1, 1], settings, Handle::default());
    world.start();
    let goes_on = |core, now_ps| !world.timing.boundary(core, now_ps).escaped;
    // The slower core, and how far the other one may come: a quarter of that, from 10 to 100 us.
    for (slower_us, farthest_us) in [(8, 18), (100, 125), (400, 500), (2000, 2100)] {
        world.timing.boundary(16, slower_us * US);
        let step_ps = settings.step_ps();
        assert!(goes_on(0, farthest_us * US - step_ps), "{slower_us}");
        assert!(!goes_on(0, farthest_us * US - step_ps + 1), "{slower_us}");
    }
    // An exchange: at once also for a core that need not have looked.
    world.timing.boundary(16, 2500 * US);
    assert!(goes_on(0, 2510 * US));
    world.record(16).ring_target.set(0);
    world.timing.note_ring(16, 2500 * US);
    assert!(!goes_on(0, 2520 * US));
    world.timing.boundary(16, 2512 * US);
    assert!(goes_on(0, 2520 * US));
}

#[test]
fn a_quantum_shrinks_while_lines_are_used_out_of_turn_and_grows_back() {
    let settings = Settings { quantum_least_ps: US / 10, ..fixed(10 * US, false) };
    let world = World::of(&[1, 1], settings, Handle::default());
    world.start();
    let next = |core, now_ps| world.timing.boundary(core, now_ps);
    // The slower core, and how far the other one may come, of which an eighth is a step.
    let expect = |slower_ps: u64, quantum_ps: u64| {
        next(16, slower_ps);
        let farthest_ps = slower_ps + quantum_ps - quantum_ps / 8;
        let at_limit = next(0, farthest_ps);
        assert_eq!((at_limit.escaped, at_limit.step_ps), (false, quantum_ps / 8), "{slower_ps}");
        assert!(next(0, farthest_ps + 1).escaped, "{slower_ps}");
    };
    expect(100 * US, 10 * US);
    world.timing.note_doubt(0, 200 * US);
    assert!(!world.timing.passes(16, 101 * US), "it is told at once");
    expect(200 * US, US / 10);
    expect(204 * US, US);
    expect(220 * US, 5 * US);
    expect(300 * US, 10 * US);
    // What comes back while it is short keeps it short.
    world.timing.note_doubt(0, 400 * US);
    world.timing.note_return(0, 404 * US);
    expect(404 * US, US / 10);
    world.timing.note_return(0, 415 * US);
    expect(424 * US, 5 * US);
    // An exchange in turn is none of this quantum's business.
    world.record(16).ring_target.set(0);
    world.timing.note_ring(16, 500 * US);
    expect(501 * US, 10 * US);
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.note_doubt(0, 200 * US);
    assert_eq!(world.timing.boundary(16, 200 * US).step_ps, QUANTUM_PS / 8, "a fixed one");
}

#[test]
fn turns_are_short_while_lines_are_used_out_of_turn() {
    let settings = Settings { quantum_least_ps: US / 10, ..fixed(10 * US, true) };
    let world = World::of(&[1, 1], settings, Handle::default());
    world.start();
    world.record(16).state.store(CORE_IDLE, SeqCst);
    world.timing.sleep(16, US);
    let step_ps = |now_ps| world.timing.boundary(0, now_ps).step_ps;
    assert_eq!(step_ps(100 * US), 10 * US);
    world.timing.note_doubt(0, 110 * US);
    assert_eq!([110, 114, 130, 150].map(|now_us| step_ps(now_us * US)), [US / 10, US, 5 * US, 10 * US]);
    // Who wakes comes when the host lets it, so others' turns do not depend on what it says; who falls asleep has its turn until then.
    assert!(world.ring(16, 161_000));
    world.timing.note_doubt(16, 159 * US);
    world.timing.note_return(16, 159 * US);
    assert_eq!(step_ps(160 * US), 10 * US);
    world.record(0).state.store(CORE_IDLE, SeqCst);
    world.timing.note_doubt(0, 162 * US);
    world.timing.sleep(0, 162 * US);
    let next = world.timing.boundary(16, US);
    assert_eq!((next.now_ps, next.step_ps), (161 * US, US / 10));
}

#[test]
fn a_fixed_quantum_does_not_grow() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.boundary(16, 1000 * US);
    assert!(world.timing.boundary(0, 1010 * US).escaped);
}

#[test]
fn a_core_that_waits_in_vain_escapes() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.boundary(16, US);
    assert!(world.timing.boundary(0, 3 * QUANTUM_PS).escaped);
    assert_eq!(world.region.escapes.load(SeqCst), 1);
}

#[test]
fn a_rung_core_wakes_when_the_doorbell_arrives() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.sleep(16, US);
    world.ring(16, 7000);
    assert_eq!(world.timing.boundary(16, US).now_ps, 7 * US);
    let clock = &world.region.cores[16];
    assert_eq!((clock.ipis_received.load(SeqCst), clock.idle_ps.load(SeqCst)), (1, 6 * US));
    assert_eq!(world.record(16).rung_at_ns.load(SeqCst), 0, "taken note of");
}

#[test]
fn a_ring_arrives_after_its_latency_and_of_several_the_first_wakes() {
    let world = World::started(&[1, 1], Side::BySide);
    world.header.islands[0].doorbell_ns[1].set(2000);
    world.record(0).ring_target.set(16);
    world.timing.sleep(16, US);
    world.timing.note_ring(0, 5 * US);
    world.timing.note_ring(0, 4 * US);
    world.timing.note_ring(0, 9 * US);
    assert_eq!(world.timing.boundary(16, US).now_ps, 6 * US);
    assert_eq!(world.record(16).rings_received.load(SeqCst), 3);
    world.timing.boundary(0, 4 * US);
    assert_eq!(world.region.cores[0].ipis_sent.load(SeqCst), 3);
    world.record(0).ring_target.set(u32::MAX);
    world.timing.note_ring(0, 5 * US); // a damaged record: nobody is rung
}

#[test]
fn a_core_that_polls_goes_on_when_what_it_looks_at_is_written() {
    let world = World::started(&[1, 1], Side::BySide);
    world.record(0).ring_target.set(16);
    world.record(16).state.store(CORE_POLLING, SeqCst);
    world.timing.sleep(16, US);
    world.timing.note_write(0, 5 * US);
    assert_eq!(world.bells.rung(), [16]);
    assert_eq!(world.timing.boundary(16, US).now_ps, 5 * US);
    assert_eq!(world.region.cores[16].ipis_received.load(SeqCst), 0, "no doorbell");
}

#[test]
fn what_is_written_over_a_link_is_seen_when_it_has_arrived() {
    let world = World::started(&[1, 1], Side::BySide);
    world.header.islands[0].transit_ns[1].set(400);
    world.record(0).ring_target.set(16);
    world.record(16).state.store(CORE_POLLING, SeqCst);
    world.timing.sleep(16, US);
    world.timing.note_write(0, 5 * US);
    assert_eq!(world.timing.boundary(16, US).now_ps, 5 * US + 400_000);
    // A core that is about to poll, and finds it there already, goes on to when it arrives.
    world.timing.note_write(0, 7 * US);
    assert_eq!(world.timing.catch_up(16, 7 * US), 400_000);
}

#[test]
fn a_core_that_finds_a_doorbell_before_its_time_goes_on_to_it() {
    let world = World::started(&[1, 1], Side::BySide);
    world.record(16).rung_at_ns.store(7000, SeqCst);
    assert_eq!(world.timing.catch_up(16, 3 * US), 4 * US);
    assert_eq!(world.region.cores[16].idle_ps.load(SeqCst), 4 * US);
    assert_eq!(world.timing.catch_up(16, 3 * US), 0, "once");
    world.record(16).rung_at_ns.store(2000, SeqCst);
    assert_eq!(world.timing.catch_up(16, 3 * US), 0, "it has come already");
}

#[test]
fn a_doorbell_does_not_take_a_core_back_in_time() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.sleep(16, 9 * US);
    world.ring(16, 7000);
    assert_eq!(world.timing.boundary(16, 9 * US).now_ps, 9 * US);
}

#[test]
fn of_alarm_and_doorbell_the_earlier_one_wakes() {
    for (ring_ns, at_ps, received) in [(40_000, 30 * US, 0), (20_000, 20 * US, 1)] {
        let world = World::started(&[1, 1], Side::BySide);
        world.record(16).alarm_ns.store(30_000, SeqCst);
        world.timing.sleep(16, US);
        world.timing.boundary(0, 50 * US);
        assert_eq!(world.bells.rung(), [16], "the alarm is due");
        world.ring(16, ring_ns);
        assert_eq!(world.timing.boundary(16, US).now_ps, at_ps);
        assert_eq!(world.region.cores[16].ipis_received.load(SeqCst), received);
    }
}

#[test]
fn a_core_that_the_host_rang_wakes_now() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.sleep(16, US);
    world.timing.boundary(0, 70 * US);
    let next = world.timing.boundary(16, US);
    assert_eq!((next.now_ps, next.woke), (70 * US, true));
    assert_eq!(world.region.cores[16].ipis_received.load(SeqCst), 0);
}

#[test]
fn waking_is_to_be_paid_for_unless_a_doorbell_has_or_the_core_only_polled() {
    let woke = |state: u32, rung: bool| {
        let world = World::started(&[1, 1], Side::BySide);
        world.record(16).alarm_ns.store(30_000, SeqCst);
        world.record(16).state.store(state, SeqCst);
        world.timing.sleep(16, US);
        world.timing.boundary(0, 50 * US);
        if rung {
            world.ring(16, 20_000);
        }
        world.record(16).state.store(state, SeqCst);
        let next = world.timing.boundary(16, US);
        assert!(!world.timing.boundary(16, next.now_ps).woke, "once");
        next.woke
    };
    assert!(woke(CORE_IDLE, false), "its alarm");
    assert!(!woke(CORE_IDLE, true), "a doorbell");
    assert!(!woke(CORE_POLLING, false), "it did not sleep");
}

#[test]
fn a_running_core_is_rung_for_its_alarm_once() {
    let world = World::started(&[1], Side::BySide);
    world.record(0).alarm_ns.store(5000, SeqCst);
    world.timing.boundary(0, 4 * US);
    assert!(world.bells.rung().is_empty());
    world.timing.boundary(0, 5 * US);
    world.timing.boundary(0, 6 * US);
    assert_eq!(world.bells.rung(), [0]);
    assert_eq!(world.record(0).alarm_ns.load(SeqCst), u64::MAX);
}

#[test]
fn when_all_sleep_time_jumps_to_the_first_alarm() {
    for side in [Side::BySide, Side::InTurns] {
        let world = World::started(&[1, 2], side);
        for (core, alarm_ns) in [(0, 5_000_000), (16, 3_000_000), (17, u64::MAX)] {
            world.record(core).alarm_ns.store(alarm_ns, SeqCst);
        }
        for core in [0, 16, 17] {
            if side == Side::InTurns {
                world.timing.boundary(core, US);
            }
            // One is taken out.
            world.record(core).state.store(if core == 17 { CORE_OUT } else { CORE_IDLE }, SeqCst);
            world.timing.sleep(core, US);
        }
        assert_eq!(world.bells.rung(), [16]);
        assert_eq!(world.timing.boundary(16, US).now_ps, 3000 * US);
        assert_eq!(world.region.now_ps.load(SeqCst), 3000 * US);
    }
}

#[test]
fn time_stops_at_its_end_and_wakes_nobody() {
    for side in [Side::BySide, Side::InTurns] {
        let world = World::started(&[1, 1], side);
        for (core, alarm_ns) in [(0, TIME_END_PS / PS_PER_NS), (16, u64::MAX - 1)] {
            world.record(core).alarm_ns.store(alarm_ns, SeqCst);
            if side == Side::InTurns {
                world.timing.boundary(core, US);
            }
            world.record(core).state.store(CORE_IDLE, SeqCst);
            world.timing.sleep(core, US);
        }
        assert_eq!((world.region.now_ps.load(SeqCst), world.bells.rung()), (TIME_END_PS, vec![]));
    }
}

#[test]
fn doorbells_sent_are_counted_up_to_the_boundary() {
    let world = World::started(&[1, 1], Side::BySide);
    world.region.cores[0].rings_sent.store(3, SeqCst);
    assert_eq!(world.region.cores[0].ipis_sent.load(SeqCst), 0);
    world.timing.boundary(0, US);
    assert_eq!(world.region.cores[0].ipis_sent.load(SeqCst), 3);
    world.region.cores[0].rings_sent.store(4, SeqCst);
    world.timing.sleep(0, US);
    assert_eq!(world.region.cores[0].ipis_sent.load(SeqCst), 4);
}

#[test]
fn the_end_of_the_run_stops_time_and_lets_waiting_cores_go() {
    let world = World::started(&[1, 1], Side::BySide);
    world.timing.boundary(16, US);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.timing.boundary(0, 5 * QUANTUM_PS));
        world.header.exit.store(1, SeqCst);
        world.timing.boundary(16, 2 * US);
        assert!(!waiting.join().unwrap().escaped);
    });
    assert!(world.timing.is_stopped());
    assert!(world.region.cores[16].clock_ps.load(SeqCst) < QUANTUM_PS);
}

/// Core 0 sleeps, and it is the turn of core 16.
fn one_sleeps_in_turns() -> World {
    let world = World::started(&[1, 1], Side::InTurns);
    world.timing.boundary(0, US);
    world.timing.sleep(0, US);
    world.timing.boundary(16, US);
    world
}

#[test]
fn in_turns_a_ring_is_settled_before_the_turn_begins() {
    let world = one_sleeps_in_turns();
    assert_eq!(world.bells.settled(), [0; 0]);
    world.ring(0, 3000);
    world.timing.sleep(16, 2 * US);
    assert_eq!(world.timing.boundary(0, US).now_ps, 3 * US);
    assert_eq!(world.bells.settled(), [0]);
    assert_eq!(world.record(0).state.load(SeqCst), CORE_AWAKE);
}

#[test]
fn in_turns_a_turn_that_begins_with_a_ring_under_way_is_counted() {
    let world = one_sleeps_in_turns();
    world.bells.deaf.store(true, SeqCst);
    world.ring(0, 3000);
    world.timing.sleep(16, 2 * US);
    world.timing.boundary(0, US);
    assert_eq!(world.region.unsettled.load(SeqCst), 1);
}

#[test]
fn in_turns_who_rings_a_core_that_wakes_waits_for_it() {
    let world = one_sleeps_in_turns();
    world.record(16).ring_target.set(0);
    // It sleeps and nothing has woken it: nobody waits.
    world.timing.note_ring(16, 2 * US);
    std::thread::scope(|scope| {
        let ringing = scope.spawn(|| world.timing.note_ring(16, 3 * US));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!ringing.is_finished());
        let woken = scope.spawn(|| world.timing.boundary(0, US));
        ringing.join().unwrap();
        world.timing.sleep(16, 4 * US);
        woken.join().unwrap();
    });
    assert_eq!(world.record(0).rings_received.load(SeqCst), 2);
    assert_eq!(world.region.unsettled.load(SeqCst), 0);
}

#[test]
fn in_turns_a_core_that_does_not_wake_when_it_is_rung_again_is_counted() {
    let world = one_sleeps_in_turns();
    world.record(16).ring_target.set(0);
    world.timing.note_ring(16, 2 * US);
    world.timing.note_ring(16, 3 * US);
    assert_eq!(world.region.unsettled.load(SeqCst), 1);
}

#[test]
fn the_futex_of_another_value_is_not_waited_for() {
    let world = World::new(&[1], Side::BySide);
    world.region.started.store(1, SeqCst);
    world.bells.wait(&world.region.started, 0, std::time::Duration::from_secs(3600));
}

#[test]
fn an_engine_that_is_started_with_nothing_to_transfer_does_nothing() {
    let world = World::started(&[1, 1], Side::BySide);
    let [sender, receiver] = [world.record(0), world.record(16)];
    sender.ring_target.set(16);
    sender.dma_out[19].set(7);
    for place in [DMA_NONE, DMA_ANSWER + 1, u32::MAX] {
        sender.dma_place.set(place);
        sender.dma_taken.set(1);
        world.timing.transfer(0, 10 * US, |_| 2 * US, |_, _, _| panic!("nothing moves"));
        let arrived = receiver.dma_arrives_ns.each_ref().map(|status| status.load(SeqCst));
        assert_eq!((sender.dma_taken.get(), arrived, receiver.rung_at_ns.load(SeqCst)), (0, [0; 2], 0), "{place}");
    }
}

#[test]
fn a_call_that_an_engine_carries_is_asked_for_last_and_caches_are_told() {
    let world = World::started(&[1, 1], Side::BySide);
    let [sender, receiver] = [world.record(0), world.record(16)];
    sender.ring_target.set(16);
    sender.dma_place.set(DMA_CALL);
    sender.out_call.message[0].set(7);
    sender.out_call.floats[7].set(8);
    receiver.state.store(CORE_AWAKE, SeqCst);
    let mut moved = Vec::new();
    world.timing.transfer(0, 10 * US, |bytes| bytes * US, |from, to, bytes| moved.push((to - from, bytes)));
    let slot = &receiver.calls[0];
    assert_eq!((slot.message[0].get(), slot.floats[7].get(), receiver.call_arrives_ns[0].get()), (7, 8, 202_000));
    assert_eq!((slot.request.load(SeqCst), sender.dma_ends_ns.get()), (CALL_GIVEN, 202_000));
    let between = 16 * size_of::<CoreRecord>() + offset_of!(CoreRecord, calls) - offset_of!(CoreRecord, out_call);
    assert_eq!(moved, [(between as u64, 192)]);
}

#[test]
fn a_transfer_ends_when_its_engine_says_and_a_place_takes_one_descriptor() {
    let world = World::started(&[1, 1], Side::BySide);
    let [sender, receiver] = [world.record(0), world.record(16)];
    sender.ring_target.set(16);
    sender.dma_place.set(DMA_HOME);
    sender.dma_out[19].set(7);
    // Who does not poll is rung when the transfer is over.
    receiver.state.store(CORE_AWAKE, SeqCst);
    world.timing.transfer(0, 10 * US, |_| 2 * US, |_, _, _| panic!("a descriptor leaves caches alone"));
    assert_eq!(receiver.dma_in[DMA_HOME as usize].words[19].get(), 7);
    assert_eq!(receiver.dma_arrives_ns[DMA_HOME as usize].load(SeqCst), 12_000);
    let latency_ns = u64::from(world.header.islands[0].doorbell_ns[1].get());
    assert_eq!(receiver.rung_at_ns.load(SeqCst), 12_000 + latency_ns);
    assert_eq!((sender.dma_taken.get(), world.region.cores[0].transfers.load(SeqCst)), (1, 1));
    // There is no room before the receiver has read it. The engine has taken back what the sender has said of the place.
    sender.dma_place.set(DMA_HOME);
    sender.dma_out[19].set(8);
    world.timing.transfer(0, 13 * US, |_| 2 * US, |_, _, _| panic!("a descriptor leaves caches alone"));
    assert_eq!((sender.dma_taken.get(), world.region.cores[0].transfers.load(SeqCst)), (0, 1));
    assert_eq!(receiver.dma_in[DMA_HOME as usize].words[19].get(), 7);
    receiver.dma_arrives_ns[DMA_HOME as usize].store(0, SeqCst);
    // Who polls sees it without being rung.
    receiver.rung_at_ns.store(0, SeqCst);
    world.header.islands[1].poll_ns.set(1000);
    world.timing.transfer(0, 20 * US, |_| 2 * US, |_, _, _| panic!("a descriptor leaves caches alone"));
    assert_eq!((receiver.rung_at_ns.load(SeqCst), receiver.written_at_ns.load(SeqCst)), (0, 22_000));
    assert_eq!(receiver.dma_in[DMA_HOME as usize].words[19].get(), 8);
}
