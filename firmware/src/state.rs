//! States of harts (SBI, "Hart State Management Extension").
//!
//! A word for each hart. Whoever finds a hart stopped claims it, writes where it shall start, and only then publishes that;
//! everything else is changed by the hart itself.

use motet_layout::{
    handshake::then_look,
    sync::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};
use rustsbi::spec::hsm::hart_state;

use crate::hart::{HARTS_MAX, HartId};

/// Being started: a caller has claimed the hart and writes where. Callers see it as pending.
const CLAIMED: u64 = 16;
/// About to suspend itself and to go on elsewhere. Callers see it as pending.
const LEAVING: u64 = 17;
/// Lost in a trap of the firmware. Callers see a stopped hart that does not start.
const HALTED: u64 = 18;

/// The standard's states, as words.
const STARTED: u64 = hart_state::STARTED as u64;
const STOPPED: u64 = hart_state::STOPPED as u64;
const START_PENDING: u64 = hart_state::START_PENDING as u64;
const STOP_PENDING: u64 = hart_state::STOP_PENDING as u64;
const SUSPENDED: u64 = hart_state::SUSPENDED as u64;
const SUSPEND_PENDING: u64 = hart_state::SUSPEND_PENDING as u64;
const RESUME_PENDING: u64 = hart_state::RESUME_PENDING as u64;

/// Where a hart enters S-mode, and what it finds in `a1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Physical address.
    pub address: u64,
    /// `a1`.
    pub argument: u64,
}

/// Why a hart does not start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// It runs, or somebody else starts it.
    Started,
    /// The firmware has lost it.
    Halted,
}

/// What a hart does at the end of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Goes on behind the call.
    Return,
    /// Stops until somebody starts it.
    Stop,
    /// Sleeps until an interrupt, then goes on behind the call.
    Sleep,
    /// Sleeps until an interrupt, then starts anew.
    SleepAndLaunch,
}

/// States of all harts, which begin stopped.
#[derive(Debug)]
pub struct HartStates([HartState; HARTS_MAX]);

#[derive(Debug)]
struct HartState {
    state: AtomicU64,
    address: AtomicU64,
    argument: AtomicU64,
}

impl HartStates {
    /// All stopped.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        Self(
            [const { HartState { state: AtomicU64::new(STOPPED), address: AtomicU64::new(0), argument: AtomicU64::new(0) } };
                HARTS_MAX],
        )
    }

    /// What a caller is told about `hart`.
    pub fn status(&self, hart: HartId) -> usize {
        match self.of(hart).state.load(Acquire) {
            CLAIMED => hart_state::START_PENDING,
            LEAVING => hart_state::SUSPEND_PENDING,
            HALTED => hart_state::STOPPED,
            state => state as usize,
        }
    }

    /// Whether `hart` may hold translations or instructions that others want gone. One that does not drops all of them when
    /// it starts; the fence orders the caller's stores before this look, as the one in [`Self::take_launch`] orders the start
    /// before the loads of the started hart.
    pub fn is_running(&self, hart: HartId) -> bool {
        then_look();
        !matches!(self.of(hart).state.load(Acquire), STOPPED | CLAIMED | HALTED)
    }

    /// Whether the firmware has lost `hart`.
    pub fn is_halted(&self, hart: HartId) -> bool {
        self.of(hart).state.load(Acquire) == HALTED
    }

    /// Lets `hart` start; it has to be rung afterwards.
    ///
    /// # Errors
    /// It is not stopped.
    pub fn start(&self, hart: HartId, launch: Launch) -> Result<(), StartError> {
        let HartState { state, address, argument } = self.of(hart);
        match state.compare_exchange(STOPPED, CLAIMED, AcqRel, Acquire) {
            Ok(_) => {}
            Err(HALTED) => return Err(StartError::Halted),
            Err(_) => return Err(StartError::Started),
        }
        address.store(launch.address, Relaxed);
        argument.store(launch.argument, Relaxed);
        state.store(START_PENDING, Release);
        Ok(())
    }

    /// The calling hart will stop at the end of its call.
    pub fn request_stop(&self, own: HartId) {
        self.of(own).state.store(STOP_PENDING, Release);
    }

    /// The calling hart will sleep at the end of its call.
    pub fn request_sleep(&self, own: HartId) {
        self.of(own).state.store(SUSPEND_PENDING, Release);
    }

    /// The calling hart will sleep at the end of its call, and start anew.
    pub fn request_sleep_and_launch(&self, own: HartId, launch: Launch) {
        self.of(own).address.store(launch.address, Relaxed);
        self.of(own).argument.store(launch.argument, Relaxed);
        self.of(own).state.store(LEAVING, Release);
    }

    /// What the calling hart has asked for in its call.
    pub fn next(&self, own: HartId) -> Next {
        match self.of(own).state.load(Relaxed) {
            STOP_PENDING => Next::Stop,
            SUSPEND_PENDING => Next::Sleep,
            LEAVING => Next::SleepAndLaunch,
            _ => Next::Return,
        }
    }

    /// The calling hart has stopped.
    pub fn stopped(&self, own: HartId) {
        self.of(own).state.store(STOPPED, Release);
    }

    /// The calling hart sleeps.
    pub fn sleeps(&self, own: HartId) {
        self.of(own).state.store(SUSPENDED, Release);
    }

    /// The calling hart has woken, and goes on behind its call.
    pub fn woke(&self, own: HartId) {
        self.of(own).state.store(STARTED, Release);
    }

    /// The calling hart has woken, and starts anew.
    pub fn woke_to_launch(&self, own: HartId) {
        self.of(own).state.store(RESUME_PENDING, Release);
    }

    /// Where the calling hart starts, if somebody has started it or it starts anew. It then counts as started, and has to drop
    /// all translations and fetched instructions.
    pub fn take_launch(&self, own: HartId) -> Option<Launch> {
        let HartState { state, address, argument } = self.of(own);
        if !matches!(state.load(Acquire), START_PENDING | RESUME_PENDING) {
            return None;
        }
        let launch = Launch { address: address.load(Relaxed), argument: argument.load(Relaxed) };
        state.store(STARTED, Release);
        then_look();
        Some(launch)
    }

    /// The calling hart is lost; whether it already was.
    pub fn halt(&self, own: HartId) -> bool {
        self.of(own).state.swap(HALTED, AcqRel) == HALTED
    }

    fn of(&self, hart: HartId) -> &HartState {
        &self.0[hart.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: Launch = Launch { address: 0x8020_0000, argument: 7 };

    fn hart(id: usize) -> HartId {
        HartId::new(id).unwrap()
    }

    #[test]
    fn a_stopped_hart_starts_once_and_learns_where() {
        let states = HartStates::new();
        let one = hart(1);
        assert_eq!((states.status(one), states.is_running(one)), (hart_state::STOPPED, false));
        assert_eq!(states.take_launch(one), None);
        assert_eq!(states.start(one, LAUNCH), Ok(()));
        assert_eq!((states.status(one), states.is_running(one)), (hart_state::START_PENDING, true));
        let other = Launch { address: 0, argument: 0 };
        assert_eq!(states.start(one, other), Err(StartError::Started));
        assert_eq!(states.take_launch(one), Some(LAUNCH));
        assert_eq!(states.take_launch(one), None);
        assert_eq!(states.status(one), hart_state::STARTED);
        assert_eq!(states.status(hart(2)), hart_state::STOPPED);
    }

    #[test]
    fn of_two_that_start_a_hart_one_does() {
        for _ in 0..200 {
            let states = HartStates::new();
            let start = |argument| states.start(hart(3), Launch { address: argument, argument }).is_ok();
            let [first, second] = std::thread::scope(|scope| {
                let threads = [1, 2].map(|argument| scope.spawn(move || start(argument)));
                threads.map(|thread| thread.join().unwrap())
            });
            assert!(first ^ second);
            let argument = if first { 1 } else { 2 };
            assert_eq!(states.take_launch(hart(3)), Some(Launch { address: argument, argument }));
        }
    }

    #[test]
    fn a_call_ends_in_what_it_asked_for() {
        let states = HartStates::new();
        let own = hart(0);
        states.start(own, LAUNCH).unwrap();
        states.take_launch(own).unwrap();
        assert_eq!(states.next(own), Next::Return);
        states.request_sleep(own);
        assert_eq!((states.next(own), states.status(own)), (Next::Sleep, hart_state::SUSPEND_PENDING));
        states.sleeps(own);
        assert_eq!(states.status(own), hart_state::SUSPENDED);
        assert!(states.is_running(own), "it keeps its translations");
        states.woke(own);
        states.request_sleep_and_launch(own, Launch { argument: 8, ..LAUNCH });
        assert_eq!((states.next(own), states.status(own)), (Next::SleepAndLaunch, hart_state::SUSPEND_PENDING));
        states.woke_to_launch(own);
        assert_eq!(states.take_launch(own), Some(Launch { argument: 8, ..LAUNCH }));
        states.request_stop(own);
        assert_eq!((states.next(own), states.status(own)), (Next::Stop, hart_state::STOP_PENDING));
        states.stopped(own);
        assert_eq!(states.start(own, LAUNCH), Ok(()));
    }

    #[test]
    fn a_lost_hart_does_not_start() {
        let states = HartStates::new();
        assert!(!states.halt(hart(5)));
        assert!(states.halt(hart(5)), "a second time");
        assert_eq!(states.start(hart(5), LAUNCH), Err(StartError::Halted));
        assert!(states.is_halted(hart(5)) && !states.is_running(hart(5)));
        assert_eq!(states.status(hart(5)), hart_state::STOPPED);
    }
}
