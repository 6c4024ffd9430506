//! The conformance suite: what every HAL must do, run on the machine itself, on all islands at once.
//!
//! Each island's core 0 goes through the same list of tests; its other cores are started by a test and then obey core 0
//! ([`workers`]). Tests between islands meet at barriers. Everything shared lies in the last [`SCRATCH_LEN`] bytes of
//! the pool, which the host leaves zeroed in this mode.
//!
//! The diagnostic console says `conformance: NAME ok` or `conformance: NAME FAILED: why` per test, and at the end
//! `conformance: N passed, N failed`. The last island to finish writes the machine's exit word: 1 when nothing failed on
//! any island, otherwise 2.

mod between;
mod guest;
mod interrupts;
mod memory;
mod network;
mod programs;
mod scratch;
mod stray;
mod user;
mod vectors;
mod workers;

use core::cell::Cell;
use core::fmt::Write;

use motet_layout::sync::Ordering;
use motet_layout::{CoreId, FINGERPRINT, IslandId, Pool};

use crate::Machine;
use scratch::{Scratch, Word};

pub use scratch::SCRATCH_LEN;
pub use stray::{Stray, run as go_astray};

/// Longest wait for another island, in nanoseconds: long enough for it to boot on a busy host.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Longest wait for something that is under way, in nanoseconds.
const SHORT_NS: u64 = 10_000_000_000;

/// Why a test fails.
#[derive(Clone, Copy, Debug)]
struct Failure {
    what: &'static str,
    found: u64,
    expected: u64,
}

type Check = Result<(), Failure>;

/// Fails unless both values are the same.
fn same(what: &'static str, found: u64, expected: u64) -> Check {
    ensure(found == expected, what, found, expected)
}

/// Fails unless `condition` holds; the numbers are shown.
fn ensure(condition: bool, what: &'static str, found: u64, expected: u64) -> Check {
    if condition { Ok(()) } else { Err(Failure { what, found, expected }) }
}

/// The suite as one island's core 0 sees it.
struct Suite<M: Machine> {
    machine: &'static M,
    pool: Pool,
    island: IslandId,
    islands: usize,
    cores: usize,
    scratch: Scratch,
    passed: Cell<u64>,
    failed: Cell<u64>,
    /// Another island did not come to a barrier: tests between islands make no sense any more.
    deserted: Cell<bool>,
}

/// Runs the suite, reports on the diagnostic console, ends the machine.
pub fn run<M: Machine>(machine: &'static M) -> ! {
    if machine.core().index_in_island() != 0 {
        workers::obey(machine);
    }
    let suite = Suite::new(machine);
    suite.run_all();
    suite.finish()
}

impl<M: Machine> Suite<M> {
    fn new(machine: &'static M) -> Self {
        let header = machine.pool().header();
        let island = machine.island();
        Self {
            machine,
            pool: machine.pool(),
            island,
            islands: header.island_count.get() as usize,
            cores: header.islands[island.index()].core_count.get() as usize,
            scratch: Scratch::new(machine.pool()),
            passed: Cell::new(0),
            failed: Cell::new(0),
            deserted: Cell::new(false),
        }
    }

    fn run_all(&self) {
        self.log(format_args!("island {} ({}), {} islands", self.island.0, M::ISA.name(), self.islands));
        self.log(format_args!("fingerprint {FINGERPRINT:#018x}"));
        self.test("fingerprint", Self::fingerprint);
        self.test("identity", Self::identity);
        self.memory_tests();
        self.user_tests();
        self.vector_tests();
        self.guest_tests();
        self.interrupt_tests();
        self.network_tests();
        self.worker_tests();
        self.between_tests();
    }

    /// Runs a test and reports it.
    fn test(&self, name: &str, body: impl FnOnce(&Self) -> Check) {
        match body(self) {
            Ok(()) => {
                self.passed.set(self.passed.get() + 1);
                self.log(format_args!("{name} ok"));
            }
            Err(Failure { what, found, expected }) => {
                self.failed.set(self.failed.get() + 1);
                self.log(format_args!("{name} FAILED: {what}: found {found:#x}, expected {expected:#x}"));
            }
        }
        self.machine.set_timer(u64::MAX);
        self.machine.poll_interrupts();
        self.machine.activate_space(motet_layout::Frame::NONE);
    }

    fn log(&self, line: core::fmt::Arguments<'_>) {
        struct Console<'a, M: Machine>(&'a M);
        impl<M: Machine> Write for Console<'_, M> {
            fn write_str(&mut self, text: &str) -> core::fmt::Result {
                self.0.log(text.as_bytes());
                Ok(())
            }
        }
        // Writing to the console cannot fail.
        let _ = writeln!(Console(self.machine), "conformance: {line}");
    }

    fn fingerprint(&self) -> Check {
        same("fingerprint in the pool header", self.pool.header().fingerprint.get(), FINGERPRINT)
    }

    fn identity(&self) -> Check {
        let record = &self.pool.header().islands[self.island.index()];
        same("ISA of the island record", u64::from(record.isa.get()), M::ISA as u64)?;
        same("core id", u64::from(self.machine.core().0), u64::from(CoreId::new(self.island, 0).0))?;
        same("pool length", self.pool.len(), self.pool.header().pool_len.get())?;
        ensure(!self.machine.extensions().is_empty(), "length of the extension list", 0, 1)
    }

    /// Waits until `condition`: spins a little, then sleeps. `false` when `patience_ns` have passed.
    fn wait_until(&self, patience_ns: u64, mut condition: impl FnMut() -> bool) -> bool {
        let start = self.machine.counter_ns();
        loop {
            for _ in 0..100 {
                if condition() {
                    return true;
                }
                self.machine.relax();
            }
            let now = self.machine.counter_ns();
            if now.wrapping_sub(start) > patience_ns {
                return condition();
            }
            self.machine.set_timer(now + 500_000);
            self.machine.wait_for_interrupt();
            self.machine.set_timer(u64::MAX);
        }
    }

    /// Waits for all islands to come here.
    fn meet(&self) -> Check {
        if self.deserted.get() {
            return Err(Failure { what: "another island is missing", found: 0, expected: 1 });
        }
        let generation = self.scratch.word(Word::Generation);
        let before = generation.load(Ordering::Acquire);
        let arrived = self.scratch.word(Word::Arrived);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.islands as u64 {
            arrived.store(0, Ordering::Relaxed);
            generation.store(before + 1, Ordering::Release);
            return Ok(());
        }
        let met = self.wait_until(PATIENCE_NS, || generation.load(Ordering::Acquire) != before);
        self.deserted.set(!met);
        ensure(met, "islands that came in time", arrived.load(Ordering::Relaxed), self.islands as u64)
    }

    /// Reports the totals; the last island ends the machine.
    fn finish(&self) -> ! {
        self.log(format_args!("{} passed, {} failed", self.passed.get(), self.failed.get()));
        let [passed, failed] = [Word::Passed, Word::Failed].map(|word| self.scratch.word(word));
        passed.fetch_add(self.passed.get(), Ordering::AcqRel);
        failed.fetch_add(self.failed.get(), Ordering::AcqRel);
        let finished = self.scratch.word(Word::Finished).fetch_add(1, Ordering::AcqRel) + 1;
        if finished == self.islands as u64 || self.deserted.get() {
            // All who have finished have counted before.
            let failed = failed.load(Ordering::Acquire) + u64::from(self.deserted.get());
            self.log(format_args!("machine: {} passed, {failed} failed", passed.load(Ordering::Acquire)));
            self.pool.header().exit.store(if failed == 0 { 1 } else { 2 }, Ordering::Release);
            self.machine.ring_host();
        }
        self.machine.park()
    }
}
