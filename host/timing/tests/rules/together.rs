//! Cores that run at the same time, as threads.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use motet_layout::CORE_IDLE;
use motet_timing::Next;

use crate::world::{Handle, Noted, QUANTUM_PS, Side, World};

/// A small generator of pseudo-random numbers (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn no_core_is_more_than_a_quantum_ahead() {
    for islands in [[1, 1].as_slice(), &[2, 1], &[2, 2, 1]] {
        let world = World::new(islands, Side::BySide);
        world.start();
        let step_ps = world.timing.settings().step_ps();
        std::thread::scope(|scope| {
            for &core in &world.cores {
                let world = &world;
                scope.spawn(move || {
                    let mut random = Random(core as u64 + 1);
                    let mut now_ps = 1000;
                    while now_ps < 200 * QUANTUM_PS {
                        let next = if random.below(4) != 0 && world.timing.passes(core, now_ps) {
                            Next { now_ps, step_ps, escaped: false, woke: false }
                        } else {
                            world.timing.boundary(core, now_ps)
                        };
                        if !next.escaped {
                            let clocks = world.cores.iter().map(|&other| &world.region.cores[other].clock_ps);
                            let slowest_ps = clocks.map(|clock| clock.load(SeqCst)).min().unwrap();
                            if next.now_ps + step_ps > slowest_ps + QUANTUM_PS {
                                // The others would wait for it.
                                world.leave(core, now_ps);
                                panic!("core {core} runs too far");
                            }
                        }
                        now_ps = next.now_ps + 1 + random.below(step_ps);
                        (0..random.below(2000)).for_each(|_| std::hint::spin_loop());
                    }
                    world.leave(core, now_ps);
                });
            }
        });
    }
}

/// What a core of a machine does that runs programs: works, sleeps until it is rung or its alarm goes off, rings others.
/// The thread's own `doorbell` stands for the interrupt.
fn life(world: &World, core: usize, seed: u64, doorbells: &[AtomicU64], mut note: impl FnMut(usize, u64)) {
    let record = world.record(core);
    let mut random = Random(seed * 1000 + core as u64 + 1);
    let mut now_ps = 1000;
    let step_ps = world.timing.settings().step_ps();
    world.stay_awake(core);
    for _ in 0..150 {
        now_ps = world.timing.boundary(core, now_ps).now_ps;
        note(core, now_ps);
        now_ps += 1 + random.below(step_ps);
        if random.below(50) == 0 {
            // Its host is busy with something else: those that wait for it lie down.
            std::thread::sleep(Duration::from_millis(3));
        }
        match random.below(4) {
            0 => {
                // Interrupts that came while it was awake have been taken.
                doorbells[core].store(0, SeqCst);
                while world.bells.take_rung(core) {}
                record.alarm_ns.store(now_ps / 1000 + random.below(30_000), SeqCst);
                record.state.store(CORE_IDLE, SeqCst);
                world.timing.sleep(core, now_ps);
                while doorbells[core].swap(0, SeqCst) == 0 && !world.bells.take_rung(core) {
                    std::thread::yield_now();
                }
                now_ps = world.timing.boundary(core, now_ps).now_ps;
                world.stay_awake(core);
            }
            1 => {
                let other = world.cores[random.below(world.cores.len() as u64) as usize];
                if other != core && world.ring(other, now_ps / 1000 + 2000) {
                    doorbells[other].store(1, SeqCst);
                }
            }
            _ => {}
        }
    }
    world.leave(core, now_ps);
}

fn run(side: Side, seed: u64) -> (Vec<(usize, u64)>, World) {
    let bells = Handle(Arc::new(Noted::for_ever()));
    let world = World::with(&[1, 1, 2], side, bells);
    world.start();
    let doorbells: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let log = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for &core in &world.cores {
            let (world, doorbells, log) = (&world, &doorbells, &log);
            scope.spawn(move || {
                life(world, core, seed, doorbells, |core, now_ps| log.lock().unwrap().push((core, now_ps)));
            });
        }
    });
    (log.into_inner().unwrap(), world)
}

/// Threads wait without time limit here: a wake-up that is lost stops the test.
#[test]
fn cores_that_sleep_ring_and_wait_all_come_to_their_end() {
    for seed in 0..40 {
        run(Side::BySide, seed);
    }
}

#[test]
fn in_turns_two_runs_are_the_same() {
    for seed in 0..10 {
        let ((first, before), (second, after)) = (run(Side::InTurns, seed), run(Side::InTurns, seed));
        assert_eq!(first, second, "seed {seed}");
        assert_eq!(before.region.escapes.load(SeqCst) + after.region.escapes.load(SeqCst), 0);
    }
}
