//! What a core keeps in mind of calls across instruction sets.

use core::cell::{Cell, RefCell};

use motet_abi::{convention::Arguments, fat::Signature};
use motet_hal::{Machine, Trap};
use motet_layout::{CoreId, FatProgram, ISLANDS_MAX, Isa, IslandId, ThreadRecord};
use motet_protocol::{cores::is_dead, direct::Reach, run_queue::Wake};

use super::Cpu;

/// What a core keeps in mind: of calls that it has made, of the one that it runs, and of functions that it knows.
pub struct CrossingCore {
    /// How far this machine's islands are from each other.
    pub reach: Reach,
    /// Cores that run functions which threads of this core have called the short way.
    pub awaited: CoreSet,
    /// This core looks for the ends of those calls; they do not ring.
    pub polls_calls: Cell<bool>,
    /// [`Reach::Noncoherent`]: the thread whose function the one core in `awaited` runs.
    pub away: Cell<Option<&'static ThreadRecord>>,
    /// [`Reach::Noncoherent`]: the call of this core that waits for its turn.
    pub turn: Turn,
    /// [`Reach::Noncoherent`]: until when the call that this core has made may wait for its callee, in nanoseconds of the machine's clock; 0: this core
    /// says so when it sleeps; `u64::MAX`: as long as it takes.
    pub gives_up_ns: Cell<u64>,
    /// [`Reach::Noncoherent`]: this core has given up, and waits for what its callee says to that.
    pub withdraws: Cell<bool>,
    /// [`Reach::Noncoherent`]: the call lets a function go on.
    pub resumes: Cell<bool>,
    /// [`Reach::Noncoherent`]: the thread (pool address) whose call takes the long way, because nobody has taken it; 0: none.
    pub long_way: Cell<u64>,
    /// [`Reach::Noncoherent`]: this core has told the others to ring it.
    pub is_rung: Cell<bool>,
    /// Why this core has woken, until it looks for what to do: it may have been called.
    pub woken: Cell<Option<Wake>>,
    /// The address space that stays active while this core sleeps, because calls or threads come from it (pool address).
    pub resident: Cell<u64>,
    /// The register frame of functions that this core is called to run (pool address), 0 none yet.
    pub call_frame: Cell<u64>,
    /// The call back (its number) whose caller's registers are still in that frame; 0: none.
    pub frame_of: Cell<u64>,
    /// Calls back that this core has made.
    pub calls_back: Cell<u64>,
    /// Functions that threads of this core have called on other ISAs, by stores. Others are in `other_pins`.
    pins: Pins,
    /// By island: from how many words on the engine carries a message there.
    engine_copies_from: [u8; ISLANDS_MAX],
    /// Calls are made as Flick does ((`crossing::migration`)).
    pub migrates: bool,
    /// Functions that have been called in that way, or where an engine may carry the call ([`Reach::Engine`]): apart, so that calls by stores
    /// look for neither.
    pub other_pins: Pins,
    /// Of the call that is sent or has come: what it does not take is of an earlier one. Nobody holds it while threads come home.
    pub arguments: RefCell<Arguments>,
    /// The thread of a function that this core was called to run, once it is an ordinary one, and what it has stopped at.
    pub left: Cell<Option<(&'static ThreadRecord, Option<Trap>)>>,
    /// Islands, by bit, to which nobody migrates any more, as they have died.
    pub dead_islands: Cell<u32>,
}

impl CrossingCore {
    /// Of a core that has made no call, on a machine with islands of that reach; `migrates`: calls are made as Flick does;
    /// `engine_copies_from`: as [`motet_protocol::dma::words_from`] says of each island.
    pub fn new(reach: Reach, migrates: bool, engine_copies_from: [u8; ISLANDS_MAX]) -> Self {
        Self {
            reach,
            migrates,
            engine_copies_from,
            other_pins: Pins::default(),
            arguments: RefCell::default(),
            left: Cell::new(None),
            dead_islands: Cell::new(0),
            awaited: CoreSet::default(),
            polls_calls: Cell::new(false),
            away: Cell::new(None),
            turn: Turn::default(),
            gives_up_ns: Cell::new(u64::MAX),
            withdraws: Cell::new(false),
            resumes: Cell::new(false),
            long_way: Cell::new(0),
            is_rung: Cell::new(false),
            woken: Cell::new(None),
            resident: Cell::new(0),
            call_frame: Cell::new(0),
            frame_of: Cell::new(0),
            calls_back: Cell::new(0),
            pins: Pins::default(),
        }
    }
}

impl CrossingCore {
    /// Functions that threads of this core have called on other ISAs.
    #[inline(always)]
    pub fn pins(&self, reach: Reach) -> &Pins {
        if reach.has_engine() { &self.other_pins } else { &self.pins }
    }

    /// [`Reach::Engine`]: whether the engine carries a message of so many words to a core.
    pub fn engine_copies(&self, to: CoreId, words: u32) -> bool {
        words >= u32::from(self.engine_copies_from[to.island().index()])
    }

    /// [`Reach::Noncoherent`]: until when this core, which falls asleep at `now_ns`, waits for the callee of its call to take it; `u64::MAX`: it has no
    /// such call.
    #[inline(always)]
    pub fn gives_up_at(&self, now_ns: u64) -> u64 {
        if self.gives_up_ns.get() == 0 {
            self.gives_up_ns.set(now_ns + LONG_WAY_NS);
        }
        self.gives_up_ns.get()
    }

    /// Whether the call of `thread` (pool address) is to take the long way, which it then does.
    #[inline(always)]
    pub fn takes_long_way(&self, thread: u64) -> bool {
        let takes = self.long_way.get() == thread;
        if takes {
            self.long_way.set(0);
        }
        takes
    }
}

/// How long a call over a link waits for the short way before it takes the long way: what that takes.
pub const LONG_WAY_NS: u64 = 150_000;

/// Whose call waits for the short way (another thread of its core is away, or another core of the island calls there), and since when: of all that wait,
/// the one that began first.
#[derive(Default)]
pub struct Turn {
    thread: Cell<u64>,
    since_ns: Cell<u64>,
}

impl Turn {
    /// It is not the turn of `thread` (pool address) at `now_ns`: whether it waits. Once somebody has waited for long, the one that finds
    /// this out does not: the first waiter may have gone, and whoever stays is the first one then.
    pub fn waits(&self, thread: u64, now_ns: u64) -> bool {
        if self.thread.get() == 0 {
            self.thread.set(thread);
            self.since_ns.set(now_ns);
            return true;
        }
        let waits = now_ns.saturating_sub(self.since_ns.get()) < LONG_WAY_NS;
        if !waits {
            self.thread.set(0);
        }
        waits
    }

    /// The call of `thread` (pool address) is made.
    #[inline(always)]
    pub fn came(&self, thread: u64) {
        if self.thread.get() == thread {
            self.thread.set(0);
        }
    }
}

/// A set of the machine's cores.
#[derive(Default)]
pub struct CoreSet([Cell<u64>; 2]);

impl CoreSet {
    /// Adds a core.
    pub fn add(&self, core: CoreId) {
        let word = &self.0[core.index() / 64];
        word.set(word.get() | 1 << (core.index() % 64));
    }

    /// Takes a core out.
    pub fn remove(&self, core: CoreId) {
        let word = &self.0[core.index() / 64];
        word.set(word.get() & !(1 << (core.index() % 64)));
    }

    /// Whether there is none in it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0[0].get() | self.0[1].get() == 0
    }

    /// The cores that were in it when this was called.
    pub fn iter(&self) -> impl Iterator<Item = CoreId> {
        let mut words = [self.0[0].get(), self.0[1].get()];
        core::iter::from_fn(move || {
            let index = words.iter().position(|&word| word != 0)?;
            let bit = words[index].trailing_zeros();
            words[index] &= words[index] - 1;
            CoreId::from_raw(64 * index as u32 + bit)
        })
    }
}

/// What this core knows of a function that another ISA runs.
#[derive(Clone, Copy)]
pub struct Pinned {
    /// The ISA.
    pub isa: Isa,
    /// It must not run on another one.
    pub strict: bool,
    /// What it takes and gives.
    pub signature: Signature,
    /// The program that it belongs to.
    pub program: &'static FatProgram,
}

/// Functions found to be pinned to other ISAs, by address and the epoch of the address space.
#[derive(Default)]
pub struct Pins([PinSlot; 8]);

#[derive(Default)]
struct PinSlot {
    function: Cell<u64>,
    epoch: Cell<u64>,
    pin: Cell<Option<Pinned>>,
}

impl Pins {
    /// What is known of a function in the space that has (or had) this epoch.
    #[inline(always)]
    pub fn get(&self, function: u64, epoch: u64) -> Option<Pinned> {
        let slot = self.slot(function);
        if slot.function.get() == function && slot.epoch.get() == epoch { slot.pin.get() } else { None }
    }

    /// Remembers a function.
    pub fn put(&self, function: u64, epoch: u64, pin: Pinned) {
        let slot = self.slot(function);
        slot.function.set(function);
        slot.epoch.set(epoch);
        slot.pin.set(Some(pin));
    }

    /// Functions begin at multiples of 16 or so.
    fn slot(&self, function: u64) -> &PinSlot {
        &self.0[(function >> 4) as usize % self.0.len()]
    }
}

/// Longest transfer: the engine's own limits are far below.
const TRANSFER_NS_MAX: u64 = 1_000_000_000;

fn may_come(arrives_ns: u64, now_ns: u64) -> bool {
    arrives_ns.saturating_sub(now_ns) <= TRANSFER_NS_MAX
}

impl<M: Machine> Cpu<M> {
    /// Looks which islands have died. Whoever passes does so, before it says that it has: from then on it sends nothing to them.
    pub fn note_deaths(&self) {
        let islands = (0..self.pool.header().island_count.get()).filter_map(IslandId::from_raw);
        let dead = islands.filter(|&island| is_dead(self, CoreId::new(island, 0)));
        self.crossing.dead_islands.set(dead.fold(0, |bits, island| bits | 1 << island.index()));
    }

    /// Waits until a transfer is over whose end this core has looked for too early. `false`: no transfer takes so long, so what says when
    /// it arrives is damaged.
    pub fn wait_until(&self, arrives_ns: u64) -> bool {
        if !self.is_timed() {
            return true;
        }
        let may_come = may_come(arrives_ns, self.now_ns());
        while may_come && self.now_ns() < arrives_ns {
            self.machine.relax();
        }
        may_come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_in_an_hour_does_not_keep_a_core() {
        assert!(may_come(500, 1_000) && may_come(1_500, 1_000));
        assert!(!may_come(3_600_000_000_000, 1_000) && !may_come(u64::MAX - 1, 1_000));
    }
}
