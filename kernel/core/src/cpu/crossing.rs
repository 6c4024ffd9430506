//! What a core keeps in mind of calls across instruction sets.

use core::cell::{Cell, RefCell};

use motet_abi::{
    convention::Arguments,
    fat::{Pin, Signature},
};
use motet_hal::{Machine, Trap};
use motet_layout::{CROSSING_FLICK, CoreId, FatProgram, ISLANDS_MAX, Isa, IslandId, Pool, PoolAddr, ThreadRecord};
use motet_protocol::{cores::is_dead, direct::Reach, dma, run_queue::Wake};

use super::Cpu;

/// What a core keeps in mind: of calls that it has made, of the one that it runs, and of functions that it knows.
pub struct CrossingCore {
    reach: Reach,
    migrates: bool,
    /// By island: from how many words on the engine carries a message there.
    engine_copies_from: [u8; ISLANDS_MAX],
    /// Why this core has woken, as long as [`Causes::WOKEN`](super::Causes::WOKEN) says that it has.
    woken: Cell<Wake>,
    /// Pool address.
    resident: Cell<u64>,
    /// Cores that run functions which threads of this core have called the short way.
    awaited: CoreSet,
    /// This core looks for the ends of those calls; they do not ring.
    polls_calls: Cell<bool>,
    /// The register frame of functions that this core is called to run (pool address), 0 none yet.
    call_frame: Cell<u64>,
    /// The call back (its number) whose caller's registers are still in that frame; 0: none.
    frame_of: Cell<u64>,
    /// Calls back that this core has made.
    calls_back: Cell<u64>,
    /// The thread of a function that this core was called to run, once it is an ordinary one, and what it has stopped at.
    left: Cell<Option<(&'static ThreadRecord, Option<Trap>)>>,
    /// Functions that threads of this core have called on other ISAs, by stores.
    pins: Pins,
    /// Functions that have been called as Flick does, or where an engine may carry the call ([`Reach::Engine`]): apart, so that calls by stores
    /// look for neither.
    other_pins: Pins,
    /// Of the call that is sent or has come as Flick does: what it does not take is of an earlier one.
    arguments: RefCell<Arguments>,
    /// Islands, by bit, to which nobody migrates any more, as they have died.
    dead_islands: Cell<u32>,
    // What follows is of calls over links ([`Reach::Noncoherent`]).
    /// The thread whose function the one core in `awaited` runs.
    away: Cell<Option<&'static ThreadRecord>>,
    /// The call of this core that waits for its turn.
    turn: FirstInLine,
    /// Until when the call that this core has made may wait for its callee, in nanoseconds of the machine's clock; 0: this core says so when it sleeps;
    /// `u64::MAX`: as long as it takes.
    gives_up_ns: Cell<u64>,
    /// This core has given up, and waits for what its callee says to that.
    withdraws: Cell<bool>,
    /// The call lets a function go on.
    resumes: Cell<bool>,
    /// The thread (pool address) whose call takes the long way, because nobody has taken it; 0: none.
    long_way: Cell<u64>,
    /// This core has told the others to ring it.
    is_rung: Cell<bool>,
}

impl CrossingCore {
    /// Of a core of island `own` that has made no call.
    pub fn new(pool: Pool, own: IslandId) -> Self {
        let header = pool.header();
        let is_uncached = header.uncached.get() != 0;
        let migrates = header.crossing.get() == CROSSING_FLICK;
        let engine_copies_from =
            if is_uncached && !migrates { engine_copies_from(pool, own) } else { [dma::NEVER; ISLANDS_MAX] };
        let has_engine = engine_copies_from.iter().any(|&words| words != dma::NEVER);
        let reach = match is_uncached {
            true if has_engine => Reach::Engine,
            true => Reach::Noncoherent,
            false => Reach::Coherent,
        };
        Self {
            reach,
            migrates,
            engine_copies_from,
            woken: Cell::new(Wake::Look),
            resident: Cell::new(0),
            awaited: CoreSet::default(),
            polls_calls: Cell::new(false),
            call_frame: Cell::new(0),
            frame_of: Cell::new(0),
            calls_back: Cell::new(0),
            left: Cell::new(None),
            pins: Pins::default(),
            other_pins: Pins::default(),
            arguments: RefCell::default(),
            dead_islands: Cell::new(0),
            away: Cell::new(None),
            turn: FirstInLine::default(),
            gives_up_ns: Cell::new(u64::MAX),
            withdraws: Cell::new(false),
            resumes: Cell::new(false),
            long_way: Cell::new(0),
            is_rung: Cell::new(false),
        }
    }
}

/// From how many words on messages go to each of the other islands by engines.
fn engine_copies_from(pool: Pool, from: IslandId) -> [u8; ISLANDS_MAX] {
    let header = pool.header();
    let mut words = [dma::NEVER; ISLANDS_MAX];
    let islands = (0..header.island_count.get()).filter_map(IslandId::from_raw).filter(|&island| island != from);
    for to in islands {
        words[to.index()] = dma::words_from(header, from, to);
    }
    words
}

/// How calls are made on this machine, and what this core is doing about them.
impl CrossingCore {
    /// How far this machine's islands are from each other.
    #[inline(always)]
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether calls are made as Flick does (`crossing::migration`).
    #[inline(always)]
    pub fn migrates(&self) -> bool {
        self.migrates
    }

    /// [`Reach::Engine`]: whether the engine carries a message of so many words to a core.
    pub fn engine_copies(&self, to: CoreId, words: u32) -> bool {
        words >= u32::from(self.engine_copies_from[to.island().index()])
    }

    #[inline(always)]
    pub(super) fn keep_wake(&self, why: Wake) {
        self.woken.set(why);
    }

    #[inline(always)]
    pub(super) fn kept_wake(&self) -> Wake {
        self.woken.get()
    }

    /// The address space that stays active while this core sleeps, because calls or threads come from it (pool address, 0 none).
    #[inline(always)]
    pub fn resident(&self) -> u64 {
        self.resident.get()
    }

    /// Another one does from now on.
    #[inline(always)]
    pub fn keep_resident(&self, space: u64) {
        self.resident.set(space);
    }

    /// Cores that run functions which threads of this core have called the short way.
    #[inline(always)]
    pub fn awaited(&self) -> &CoreSet {
        &self.awaited
    }

    /// Whether this core looks for the ends of those calls, so that they do not ring.
    #[inline(always)]
    pub fn polls_calls(&self) -> bool {
        self.polls_calls.get()
    }

    /// It does from now on, or does not.
    #[inline(always)]
    pub fn poll_calls(&self, polls: bool) {
        self.polls_calls.set(polls);
    }

    /// It looks no longer: whether it has.
    #[inline(always)]
    pub fn stop_polling_calls(&self) -> bool {
        self.polls_calls.replace(false)
    }

    /// Functions that threads of this core have called on other ISAs.
    #[inline(always)]
    pub fn pins(&self, reach: Reach) -> &Pins {
        if reach.has_engine() { &self.other_pins } else { &self.pins }
    }
}

/// The function that this core is called to run.
impl CrossingCore {
    /// The register frame of such functions, if there is one yet.
    #[inline(always)]
    pub fn call_frame(&self) -> Option<PoolAddr> {
        Some(PoolAddr(self.call_frame.get())).filter(|frame| frame.0 != 0)
    }

    /// It is this from now on.
    pub fn make_call_frame(&self, frame: PoolAddr) -> PoolAddr {
        self.call_frame.set(frame.0);
        frame
    }

    /// The call back whose caller's registers are in that frame, which they are no longer; 0: none.
    #[inline(always)]
    pub fn take_frame_of(&self) -> u64 {
        self.frame_of.replace(0)
    }

    /// The number of the call back that core `own`, which is this one, makes next.
    pub fn next_call_back(&self, own: CoreId) -> u64 {
        (self.calls_back.get() + 1) << 8 | u64::from(own.0)
    }

    /// The call back of this number is made: the registers of the function that makes it are in the frame.
    pub fn call_back(&self, number: u64) {
        self.calls_back.set(number >> 8);
        self.frame_of.set(number);
    }

    /// The function's thread is an ordinary one of this core from now on, and has stopped at `trap`.
    pub fn leave(&self, thread: &'static ThreadRecord, trap: Option<Trap>) {
        self.left.set(Some((thread, trap)));
    }

    /// That thread, if there is one, which is the caller's from now on, and what it has stopped at.
    #[inline(always)]
    pub fn take_left(&self) -> Option<(&'static ThreadRecord, Option<Trap>)> {
        self.left.take()
    }
}

/// Calls as Flick makes them.
impl CrossingCore {
    /// Functions that have been called in that way.
    pub fn migration_pins(&self) -> &Pins {
        &self.other_pins
    }

    /// Arguments of the call that is sent or has come: those that it does not take are of an earlier one. Nobody holds them while threads come home.
    pub fn arguments(&self) -> &RefCell<Arguments> {
        &self.arguments
    }

    /// Whether an island has died, as far as this core has been told ([`Cpu::note_deaths`]).
    pub fn is_dead(&self, island: IslandId) -> bool {
        self.dead_islands.get() >> island.index() & 1 != 0
    }
}

/// Calls over links ([`Reach::Noncoherent`]).
impl CrossingCore {
    /// This core has made a call for `thread`, and waits for its callee to take it until then; `None`: it says so when it sleeps.
    #[inline(always)]
    pub fn wait_for(&self, thread: &'static ThreadRecord, gives_up_ns: Option<u64>) {
        self.away.set(Some(thread));
        self.gives_up_ns.set(gives_up_ns.unwrap_or(0));
    }

    /// The thread whose function the one core in [`awaited`](Self::awaited) runs.
    #[inline(always)]
    pub fn away(&self) -> Option<&'static ThreadRecord> {
        self.away.get()
    }

    /// The call of this core that waits for its turn.
    #[inline(always)]
    pub fn turn(&self) -> &FirstInLine {
        &self.turn
    }

    /// Whether this core has made a call that it does not wait for as long as it takes.
    #[inline(always)]
    pub fn may_give_up(&self) -> bool {
        self.gives_up_ns.get() != u64::MAX
    }

    /// Until when this core, which falls asleep at `now_ns` unless it has said so before, waits for the callee of its call to take it; `u64::MAX`:
    /// it has no such call.
    #[inline(always)]
    pub fn gives_up_at(&self, now_ns: u64) -> u64 {
        if self.gives_up_ns.get() == 0 {
            self.gives_up_ns.set(now_ns + LONG_WAY_NS);
        }
        self.gives_up_ns.get()
    }

    /// Whether the time is over for the call of this core.
    #[inline(always)]
    pub fn is_time_over(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.may_give_up() && now_ns() >= self.gives_up_ns.get()
    }

    /// This core waits for its call as long as it takes, or has none.
    #[inline(always)]
    pub fn no_longer_gives_up(&self) {
        self.gives_up_ns.set(u64::MAX);
    }

    /// This core has given up, and waits for what its callee says to that.
    pub fn withdraw(&self) {
        self.withdraws.set(true);
    }

    /// Its callee has said it: whether this core has waited for that.
    #[inline(always)]
    pub fn end_withdrawal(&self) -> bool {
        self.withdraws.replace(false)
    }

    /// Whether the call lets a function go on.
    #[inline(always)]
    pub fn resumes(&self) -> bool {
        self.resumes.get()
    }

    /// Says whether it does.
    #[inline(always)]
    pub fn set_resumes(&self, resumes: bool) {
        self.resumes.set(resumes);
    }

    /// Nobody has taken the call of `thread` (pool address): its next one takes the long way.
    pub fn send_long_way(&self, thread: u64) {
        self.long_way.set(thread);
    }

    /// Whether the call of `thread` (pool address) is to take the long way.
    #[inline(always)]
    pub fn is_to_take_long_way(&self, thread: u64) -> bool {
        self.long_way.get() == thread
    }

    /// Whether it is, which it then does.
    #[inline(always)]
    pub fn takes_long_way(&self, thread: u64) -> bool {
        let takes = self.is_to_take_long_way(thread);
        if takes {
            self.long_way.set(0);
        }
        takes
    }

    /// This core looks no longer for what others have for it: whether they have been told before to ring it.
    pub fn look_no_longer(&self) -> bool {
        self.is_rung.replace(true)
    }

    /// This core looks again: whether they have been told to ring it.
    #[inline(always)]
    pub fn look_again(&self) -> bool {
        self.is_rung.replace(false)
    }
}

/// How long a call over a link waits for the short way before it takes the long way: what that takes.
pub const LONG_WAY_NS: u64 = 150_000;

/// Whose call waits for the short way (another thread of its core is away, or another core of the island calls there), and since when: of all that wait,
/// the one that began first.
#[derive(Default)]
pub struct FirstInLine {
    thread: Cell<u64>,
    since_ns: Cell<u64>,
}

impl FirstInLine {
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
    /// It goes on below its caller's frames.
    pub one_stack: bool,
    /// The program that it belongs to.
    pub program: &'static FatProgram,
}

impl Pinned {
    /// What a program's note says of a pin.
    pub fn new(pin: &Pin, program: &'static FatProgram) -> Self {
        let one_stack = program.one_stack.get() != 0;
        Self { isa: pin.isa, strict: pin.strict, signature: pin.signature, one_stack, program }
    }
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
    /// Notes which islands have died. A core does this before it stores that it has passed; from then on it sends nothing to their cores.
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
