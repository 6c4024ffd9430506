//! The service core, rule by rule: each error of the table in `docs/protocols/service.md`, and what random operations seldom come to.

#[allow(dead_code)]
mod files_support;
#[allow(dead_code)]
mod service_support;

use motet_layout::sync::Ordering::SeqCst;
use motet_protocol::service::{Answer, Code, DETACHED, Device, KILLED, Operation, Operation::*, ThreadIndex, clients};
use service_support::spec::Id;
use service_support::{BARRIERS, ISLANDS, MUTEXES, Machine};

/// An answer: `Ok`: the value; an error's code; `None`: the thread waits.
type Said = Option<Result<u32, Code>>;

const DONE: Said = Some(Ok(0));
const WAITS: Said = None;

fn is(code: Code) -> Said {
    Some(Err(code))
}

fn value(value: u32) -> Said {
    Some(Ok(value))
}

fn said(answer: Answer) -> Said {
    if answer.is_wait() {
        return None;
    }
    assert!(answer.is_done(), "{answer:?} is no answer");
    Some(match Code::from_raw(answer.code()) {
        Some(Code::Ok) => Ok(answer.value()),
        code => Err(code.expect("the core's codes")),
    })
}

/// A process of three threads (windows 0 to 2, which are their numbers), and one of another process.
struct Rig(Machine);

const A: Id = (0, 0);
const B: Id = (0, 1);
const C: Id = (0, 2);
const OTHER: Id = (1, 0);

impl Rig {
    fn new() -> Self {
        let machine = Machine::new();
        machine.use_page(0, 7, 0);
        machine.use_page(1, 8, 0);
        [A, B, C, OTHER].iter().for_each(|id| machine.allot(*id));
        Self(machine)
    }

    fn ask(&mut self, id: Id, operation: Operation, object: u16, argument: u32) -> Said {
        said(self.0.ask(id, operation, object, argument))
    }

    /// What stands in a window now.
    fn has(&self, id: Id) -> Said {
        said(self.0.answer(id))
    }

    /// Each one in turn, and what is answered.
    fn all(&mut self, steps: &[(Id, Operation, u16, u32, Said)]) {
        for (at, &(id, operation, object, argument, expected)) in steps.iter().enumerate() {
            assert_eq!(self.ask(id, operation, object, argument), expected, "step {at}: {operation:?} by {id:?}");
        }
    }

    /// Threads with turns on island 0, by window and priority, all started.
    fn start(&mut self, slots: u32, threads: &[(Id, u32)]) {
        assert_eq!(self.ask((0, 31), Slots, 0, slots), DONE);
        for &(id, priority) in threads {
            self.0.allot(id);
            assert_eq!(self.ask((0, 31), Create, id.1 as u16, priority | 1 << 8), value(id.1 as u32));
            self.ask(id, Start, 0, 0);
        }
    }

    /// Windows of the first page whose threads are to be kept from running.
    fn stopped(&self) -> Vec<u32> {
        let stopped = self.0.core.control[0].stopped.load(SeqCst);
        (0..32).filter(|window| stopped >> window & 1 != 0).collect()
    }

    fn with_turns(slots: u32, threads: &[(Id, u32)]) -> Self {
        let mut rig = Self::new();
        rig.0.allot((0, 31));
        rig.start(slots, threads);
        rig
    }
}

#[test]
fn errors_of_windows_and_words() {
    let mut rig = Rig::new();
    rig.all(&[
        ((0, 5), Own, 0, 0, is(Code::NoThread)),
        ((3, 0), Own, 0, 0, is(Code::NoThread)),
        (A, MutexCreate, 0, 0, value(0)),
        (A, Lock, 0, 0, DONE),
        (B, Lock, 0, 0, WAITS),
        (B, Nothing, 0, 0, is(Code::Waits)),
    ]);
    assert_eq!(said(rig.0.put(A, 0x70 << 56 | 200 << 48)), is(Code::Unknown));
    rig.0.died(A);
    assert_eq!(rig.ask(A, Own, 0, 0), is(Code::NoThread));
}

#[test]
fn errors_of_threads() {
    Rig::new().all(&[
        (A, Start, 0, 0, is(Code::Invalid)),
        (A, Create, 9, 0, is(Code::NoThread)),
        (A, Create, 0x8001, 0, is(Code::NoThread)),
        (A, Create, 0, 0, is(Code::Invalid)),
        (A, Create, 1, 0b100 << 8, is(Code::Invalid)), // no such island
        (A, Create, 1, 0, value(1)),
        (A, Create, 1, 0, is(Code::Invalid)),
        (B, Own, 0, 0, is(Code::Invalid)), // it has not started
        (B, Start, 0, 0, value(0)),
        (B, Start, 0, 0, is(Code::Invalid)),
        (A, Delete, 1, 0, is(Code::Invalid)),
        (A, Delete, 9, 0, is(Code::NoThread)),
        (A, Join, 9, 0, is(Code::NoThread)),
        (A, Join, 0, 0, is(Code::Deadlock)),
        (A, Join, 2, 0, is(Code::Invalid)), // nobody has asked for anything there
        (C, Join, 1, 0, WAITS),
        (A, Join, 1, 0, is(Code::Invalid)),
        (A, Detach, 1, 0, is(Code::Invalid)),
        (A, Detach, 9, 0, is(Code::NoThread)),
        (C, Withdraw, 0, 0, is(Code::Withdrawn)),
        (A, Detach, 1, 0, DONE),
        (A, Detach, 1, 0, is(Code::Invalid)),
        (A, Join, 1, 0, is(Code::Invalid)),
        (A, SetPriority, 9, 0, is(Code::NoThread)),
        (A, SetPriority, 1, 256, is(Code::Invalid)),
        (B, Exit, 0, 3, DONE),
        (A, SetPriority, 1, 0, is(Code::Invalid)),
        (B, Own, 0, 0, is(Code::NoThread)),
        (A, Slots, 8, 0, is(Code::Invalid)),
        (OTHER, Join, 1, 0, is(Code::NoThread)),
    ]);
}

#[test]
fn a_user_has_at_most_half_of_each_table() {
    let mut rig = Rig::new();
    for (page, user) in [(0, 1000), (1, 1001)] {
        rig.0.core.control[page].user.set(user);
    }
    for (operation, argument, entries) in
        [(MutexCreate, 0, MUTEXES), (ConditionCreate, 0, MUTEXES), (BarrierCreate, 2, BARRIERS)]
    {
        let half = entries.div_ceil(2);
        let create = |rig: &mut Rig, id| rig.ask(id, operation, 0, argument);
        for number in 0..half {
            assert_eq!(create(&mut rig, A), value(number as u32));
        }
        assert_eq!(create(&mut rig, B), is(Code::Full), "{operation:?}");
        assert_eq!(create(&mut rig, OTHER), value(half as u32), "another user's are not counted");
    }
    assert_eq!(rig.ask(A, MutexDestroy, 0, 0), DONE);
    assert_eq!(rig.ask(B, MutexCreate, 0, 0), value(0));
}

fn thread(id: Id) -> ThreadIndex {
    ThreadIndex::new(id.0, id.1).expect("a window")
}

#[test]
fn who_sleeps_in_its_kernel_leaves_its_turn_to_the_less_urgent() {
    let mut rig = Rig::with_turns(1, &[(B, 10), (C, 200)]);
    let core = rig.0.core;
    assert!(clients::sleeps(core, thread(B)), "another one wants the turn");
    Device::new(core, 0).control();
    assert!(clients::has_lost_turn(core, thread(B)));
    assert_eq!(rig.has(C), value(0), "it has begun");
    // Though it is the most urgent one, it sleeps; the other one goes on and asks.
    rig.all(&[(C, Own, 0, 0, value(2))]);
    assert!(clients::has_lost_turn(core, thread(B)));
    assert!(clients::wakes(core, thread(B)), "it wants its turn");
    Device::new(core, 0).control();
    assert!(!clients::has_lost_turn(core, thread(B)) && clients::has_lost_turn(core, thread(C)));
    assert!(!clients::wakes(core, thread(B)), "it has said so");
}

#[test]
fn who_sleeps_and_is_not_stopped_says_nothing() {
    let mut rig = Rig::with_turns(1, &[(B, 10), (C, 10)]);
    let core = rig.0.core;
    rig.all(&[(B, Yield, 0, 0, WAITS)]);
    assert_eq!(rig.has(C), value(0));
    rig.all(&[(C, Exit, 0, 0, DONE)]);
    assert!(!clients::sleeps(core, thread(B)), "nobody wants its turn");
    assert!(!clients::wakes(core, thread(B)), "and nobody has it");
    assert_eq!(core.crowded.load(SeqCst), 0);
}

#[test]
fn errors_of_mutexes() {
    let mut rig = Rig::new();
    rig.all(&[
        (A, MutexCreate, 0, 3, is(Code::Invalid)),
        (A, MutexCreate, 0, 0, value(0)),
        (A, MutexCreate, 0, 1, value(1)),
        (A, MutexCreate, 0, 2, value(2)),
        (A, MutexCreate, 0, 0, value(3)),
    ]);
    assert_eq!(rig.ask(A, MutexCreate, 0, 0), is(Code::Full), "there are {MUTEXES}");
    for operation in [MutexDestroy, Lock, TryLock, Unlock, Consistent] {
        assert_eq!(rig.ask(A, operation, 4, 0), is(Code::Invalid), "there is no such mutex");
        assert_eq!(rig.ask(OTHER, operation, 0, 0), is(Code::Invalid), "it is another process's");
    }
    rig.all(&[
        (A, Lock, 0, 0, DONE),
        (A, TryLock, 0, 0, is(Code::Busy)),
        (B, TryLock, 0, 0, is(Code::Busy)),
        (B, Unlock, 0, 0, is(Code::NotOwner)),
        (B, MutexDestroy, 0, 0, is(Code::Busy)),
        (A, Consistent, 0, 0, is(Code::Invalid)),
        (A, Lock, 2, 0, DONE),
        (A, Lock, 2, 0, is(Code::Deadlock)),
        (A, TryLock, 2, 0, is(Code::Busy)),
        (A, Lock, 1, 0, DONE),
    ]);
    for _ in 1..0xffff {
        assert_eq!(rig.ask(A, Lock, 1, 0), DONE);
    }
    rig.all(&[
        (A, Lock, 1, 0, is(Code::Full)),
        (A, TryLock, 1, 0, is(Code::Full)),
        (A, Exit, 0, 0, DONE),
        (B, TryLock, 0, 0, is(Code::OwnerDead)),
        (B, Lock, 1, 0, is(Code::OwnerDead)),
        (B, Consistent, 0, 0, DONE),
        (B, Unlock, 0, 0, DONE),
        (C, Lock, 0, 0, DONE),
        (B, Unlock, 1, 0, DONE),
        (C, Lock, 1, 0, is(Code::NotRecoverable)),
        (C, TryLock, 1, 0, is(Code::NotRecoverable)),
        (C, MutexDestroy, 1, 0, DONE),
        (C, Unlock, 3, 0, is(Code::NotOwner)),
    ]);
}

#[test]
fn errors_of_condition_variables() {
    let mut rig = Rig::new();
    for number in 0..MUTEXES as u32 {
        assert_eq!(rig.ask(A, ConditionCreate, 0, 0), value(number));
    }
    assert_eq!(rig.ask(A, ConditionCreate, 0, 0), is(Code::Full));
    for operation in [ConditionDestroy, ConditionWait, Signal, Broadcast] {
        assert_eq!(rig.ask(A, operation, 4, 0), is(Code::Invalid), "there is none");
        assert_eq!(rig.ask(OTHER, operation, 0, 0), is(Code::Invalid), "it is another process's");
    }
    rig.all(&[
        (A, ConditionWait, 0, 0, is(Code::Invalid)), // no such mutex
        (A, MutexCreate, 0, 0, value(0)),
        (A, MutexCreate, 0, 1, value(1)),
        (A, ConditionWait, 0, 0x1_0000, is(Code::Invalid)),
        (A, ConditionWait, 0, 0, is(Code::NotOwner)),
        (A, Lock, 1, 0, DONE),
        (A, Lock, 1, 0, DONE),
        (A, ConditionWait, 0, 1, is(Code::Invalid)), // it would not be free
        (A, Lock, 0, 0, DONE),
        (A, ConditionWait, 0, 0, WAITS),
        (B, ConditionDestroy, 0, 0, is(Code::Busy)),
        (B, MutexDestroy, 0, 0, is(Code::Busy)),
        (B, MutexCreate, 0, 0, value(2)),
        (B, Lock, 2, 0, DONE),
        (B, ConditionWait, 0, 2, is(Code::Invalid)), // another mutex
        (C, Lock, 0, 0, DONE),
    ]);
    // The next owner is told, and who does not repair it leaves it to nobody, be it by a wait.
    rig.0.died(C);
    rig.all(&[(B, Lock, 0, 0, is(Code::OwnerDead)), (B, ConditionWait, 0, 0, WAITS)]);
    rig.0.allot(C);
    rig.all(&[(C, Broadcast, 0, 0, value(2))]);
    assert_eq!((rig.has(A), rig.has(B)), (is(Code::NotRecoverable), is(Code::NotRecoverable)));
}

#[test]
fn who_waited_for_a_condition_variable_is_told_that_the_mutex_owner_died() {
    let mut rig = Rig::new();
    rig.all(&[
        (A, MutexCreate, 0, 0, value(0)),
        (A, ConditionCreate, 0, 0, value(0)),
        (A, Lock, 0, 0, DONE),
        (A, ConditionWait, 0, 0, WAITS),
        (B, Lock, 0, 0, DONE),
        (B, Signal, 0, 0, value(1)),
    ]);
    rig.0.died(B);
    assert_eq!(rig.has(A), is(Code::OwnerDead));
}

#[test]
fn errors_of_barriers() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, BarrierCreate, 0, 0), is(Code::Invalid));
    assert_eq!(rig.ask(A, BarrierCreate, 0, 4097), is(Code::Invalid));
    for number in 0..BARRIERS as u32 {
        assert_eq!(rig.ask(A, BarrierCreate, 0, 2), value(number));
    }
    rig.all(&[
        (A, BarrierCreate, 0, 2, is(Code::Full)),
        (A, BarrierWait, 2, 0, is(Code::Invalid)),
        (A, BarrierDestroy, 2, 0, is(Code::Invalid)),
        (OTHER, BarrierWait, 0, 0, is(Code::Invalid)),
        (OTHER, BarrierDestroy, 0, 0, is(Code::Invalid)),
        (A, BarrierWait, 0, 0, WAITS),
        (B, BarrierDestroy, 0, 0, is(Code::Busy)),
        (B, BarrierWait, 0, 0, value(1)),
        (B, BarrierDestroy, 0, 0, DONE),
    ]);
    assert_eq!(rig.has(A), DONE);
}

#[test]
fn errors_of_sources() {
    Rig::new().all(&[
        (A, SourceBind, 64, 0, is(Code::Invalid)),
        (A, SourceWait, 64, 0, is(Code::Invalid)),
        (A, SourceRaise, 64, 0, is(Code::Invalid)),
        (A, SourceRaise, 1, 0, is(Code::NotOwner)),
        (A, SourceWait, 1, 0, is(Code::NotOwner)),
        (A, SourceBind, 1, 0, DONE),
        (B, SourceBind, 1, 0, is(Code::Busy)),
        (OTHER, SourceBind, 1, 0, is(Code::Busy)),
        (B, SourceWait, 1, 0, is(Code::NotOwner)),
        (OTHER, SourceRaise, 1, 0, is(Code::NotOwner)),
        (B, SourceRaise, 1, 0, DONE),
        (B, SourceRaise, 1, 0, DONE),
        (A, SourceWait, 1, 0, value(2)),
        (A, SourceWait, 1, 0, WAITS),
        (A, Withdraw, 0, 0, is(Code::Withdrawn)),
    ]);
}

#[test]
fn interrupts_of_a_process_that_has_gone_do_not_come_to_the_next_one() {
    let mut rig = Rig::new();
    rig.all(&[(A, SourceBind, 1, 0, DONE), (A, SourceRaise, 1, 0, DONE)]);
    rig.0.left(7);
    rig.all(&[(OTHER, SourceBind, 1, 0, DONE), (OTHER, SourceWait, 1, 0, WAITS)]);
}

#[test]
fn what_a_thread_waits_for_comes_though_it_has_asked_for_something_else() {
    let mut rig = Rig::with_turns(1, &[(A, 1), (B, 1)]);
    assert_eq!(rig.has(B), WAITS);
    let number = rig.0.answer(B).sequence();
    assert_eq!(rig.ask(B, Own, 0, 0), is(Code::Waits));
    assert_eq!(rig.ask(A, Exit, 0, 0), DONE);
    assert_eq!((rig.has(B), rig.0.answer(B).sequence()), (DONE, number), "it runs on island 0, as it has asked to");
}

#[test]
fn a_time_limit_does_not_take_the_mutex_from_who_was_signalled() {
    let mut rig = Rig::new();
    rig.all(&[
        (A, MutexCreate, 0, 0, value(0)),
        (A, ConditionCreate, 0, 0, value(0)),
        (A, Lock, 0, 0, DONE),
        (A, ConditionWait, 0, 0, WAITS),
        (B, Lock, 0, 0, DONE),
        (B, Signal, 0, 0, value(1)),
        (A, Withdraw, 0, 0, WAITS),
        (B, Unlock, 0, 0, DONE),
    ]);
    assert_eq!(rig.has(A), DONE, "it was signalled");
    assert_eq!(rig.ask(A, Unlock, 0, 0), DONE);
}

#[test]
fn who_waits_no_longer_for_a_condition_variable_has_the_mutex_first() {
    let mut rig = Rig::new();
    rig.all(&[
        (A, MutexCreate, 0, 0, value(0)),
        (A, ConditionCreate, 0, 0, value(0)),
        (A, Lock, 0, 0, DONE),
        (A, ConditionWait, 0, 0, WAITS),
        (B, Lock, 0, 0, DONE),
        (A, Withdraw, 0, 0, WAITS),
        (A, Withdraw, 0, 0, WAITS),
        (B, Signal, 0, 0, DONE),
        (B, Unlock, 0, 0, DONE),
    ]);
    assert_eq!(rig.has(A), is(Code::Withdrawn));
    assert_eq!(rig.ask(A, Unlock, 0, 0), DONE);
}

#[test]
fn who_joins_a_thread_that_is_deleted_waits_no_longer() {
    let mut rig = Rig::new();
    rig.all(&[(A, Create, 1, 0, value(1)), (C, Join, 1, 0, WAITS), (A, Delete, 1, 0, DONE)]);
    assert_eq!(rig.has(C), value(KILLED));
    assert_eq!(rig.0.core.control[0].windows.load(SeqCst), 0b101, "its window is free");
}

#[test]
fn a_window_begins_anew_though_somebody_wrote_into_it_before() {
    let mut rig = Rig::new();
    rig.all(&[(A, Create, 1, 0, value(1)), (A, Delete, 1, 0, DONE), (B, Start, 0, 0, is(Code::NoThread))]);
    let request = rig.0.request(B, Start, 0, 0);
    rig.0.allot(B);
    assert_eq!(rig.ask(A, Create, 1, 0), value(1));
    assert_eq!(request.sequence(), 1, "the same request");
    assert_eq!(rig.ask(B, Start, 0, 0), value(0));
}

#[test]
fn a_thread_that_is_killed_in_any_state_leaves_its_slot_and_its_window() {
    for state in 0..4 {
        let mut rig = Rig::with_turns(1, &[(A, 1)]);
        assert_eq!(rig.ask(A, MutexCreate, 0, 0), value(0));
        assert_eq!(rig.ask((0, 31), Lock, 0, 0), DONE);
        if state < 3 {
            assert_eq!(rig.ask((0, 31), Create, 1, 1 | 1 << 8 | DETACHED), value(1));
        }
        match state {
            1 => assert_eq!(rig.ask(B, Start, 0, 0), WAITS),
            2 => rig.all(&[(B, Start, 0, 0, WAITS), (A, Yield, 0, 0, WAITS), (B, Lock, 0, 0, WAITS)]),
            _ => {}
        }
        rig.0.died(B);
        let core = rig.0.core;
        assert_eq!(core.control[0].windows.load(SeqCst) & 0b10, 0, "state {state}: its window is free");
        assert_eq!(
            (core.processes[0].ready.get(), core.processes[0].running[0].get()),
            (0, 1),
            "state {state}: A runs"
        );
        assert_eq!(core.mutex[0].waiters.get(), 0, "state {state}: nobody waits");
    }
}

#[test]
fn each_urgent_thread_takes_the_turn_of_another_one_and_the_last_to_come_gives_way_first() {
    let mut rig = Rig::with_turns(3, &[((0, 5), 5), ((0, 3), 5), ((0, 4), 2)]);
    rig.start(3, &[((0, 6), 1)]);
    assert_eq!((rig.has((0, 6)), rig.stopped()), (DONE, vec![3]));
    rig.start(3, &[((0, 7), 1)]);
    assert_eq!((rig.has((0, 7)), rig.stopped()), (DONE, vec![3, 5]));
    rig.start(3, &[((0, 8), 2)]);
    assert_eq!((rig.has((0, 8)), rig.stopped()), (WAITS, vec![3, 5]), "none is less urgent");
    rig.all(&[((0, 6), Exit, 0, 0, DONE)]);
    assert_eq!((rig.has((0, 8)), rig.stopped()), (DONE, vec![3, 5]), "the more urgent first");
    rig.all(&[((0, 7), Exit, 0, 0, DONE)]);
    assert_eq!(rig.stopped(), [3], "then who has come first");
    rig.all(&[((0, 8), Exit, 0, 0, DONE)]);
    assert_eq!((rig.stopped(), rig.has((0, 3))), (vec![], DONE), "its last answer is as it was");
}

#[test]
fn a_thread_that_is_stopped_is_served_and_answered_at_its_turn() {
    let mut rig = Rig::with_turns(1, &[((0, 3), 5), ((0, 4), 1)]);
    assert_eq!((rig.has((0, 4)), rig.stopped()), (DONE, vec![3]));
    rig.all(&[((0, 3), MutexCreate, 0, 0, WAITS)]);
    assert_eq!((rig.0.core.mutex[0].owner.get(), rig.stopped()), (7, vec![]), "it waits for the answer");
    rig.all(&[((0, 4), Lock, 0, 0, DONE), ((0, 4), Exit, 0, 0, DONE)]);
    rig.all(&[((0, 3), Lock, 0, 0, is(Code::OwnerDead))]);
}

#[test]
fn a_thread_whose_requests_fail_gives_way_as_well() {
    let mut rig = Rig::with_turns(1, &[((0, 3), 5), ((0, 4), 1)]);
    rig.all(&[((0, 3), TryLock, 9, 0, WAITS), ((0, 4), Exit, 0, 0, DONE)]);
    assert_eq!(rig.has((0, 3)), is(Code::Invalid), "it is answered with its turn");
}

#[test]
fn who_makes_another_thread_ready_that_is_more_urgent_waits_for_the_answer() {
    let mut rig = Rig::with_turns(2, &[((0, 3), 5), ((0, 4), 1)]);
    rig.all(&[
        ((0, 3), MutexCreate, 0, 0, value(0)),
        ((0, 3), Lock, 0, 0, DONE),
        ((0, 4), Lock, 0, 0, WAITS),
        ((0, 31), Slots, 0, 1, DONE),
        ((0, 3), Unlock, 0, 0, WAITS),
    ]);
    assert_eq!((rig.has((0, 4)), rig.stopped()), (DONE, vec![]), "and need not be stopped");
    rig.all(&[((0, 4), Exit, 0, 0, DONE)]);
    assert_eq!(rig.has((0, 3)), DONE);
}

#[test]
fn as_urgent_takes_no_turn_until_a_priority_changes() {
    let mut rig = Rig::with_turns(1, &[((0, 3), 5), ((0, 4), 5)]);
    assert_eq!((rig.has((0, 4)), rig.stopped()), (WAITS, vec![]));
    rig.all(&[((0, 31), SetPriority, 4, 4, DONE)]);
    assert_eq!((rig.has((0, 4)), rig.stopped()), (DONE, vec![3]), "one that is ready becomes more urgent");
    rig.all(&[((0, 31), SetPriority, 4, 6, DONE)]);
    assert_eq!(rig.stopped(), [4], "one that runs becomes less urgent");
    rig.all(&[((0, 31), SetPriority, 3, 6, DONE)]);
    assert_eq!(rig.stopped(), [4]);
}

#[test]
fn a_thread_that_is_stopped_is_let_go_when_it_ends() {
    let mut rig = Rig::with_turns(1, &[((0, 3), 5), ((0, 4), 1)]);
    rig.all(&[((0, 3), Exit, 0, 9, DONE), ((0, 31), Join, 3, 0, value(9))]);
    assert_eq!(rig.stopped(), []);
    rig.start(1, &[((0, 5), 5), ((0, 6), 0)]);
    assert_eq!(rig.stopped(), [4]);
    rig.0.died((0, 4));
    assert_eq!(rig.stopped(), []);
    rig.all(&[((0, 6), Exit, 0, 0, DONE)]);
    assert_eq!(rig.has((0, 5)), DONE);
}

#[test]
fn a_slot_that_a_wait_leaves_goes_to_the_most_urgent_thread() {
    // 3 has the mutex and the slot, 4 waits for the mutex, 5 for a turn.
    let mut rig = Rig::with_turns(2, &[((0, 3), 5), ((0, 4), 1)]);
    rig.all(&[
        ((0, 3), MutexCreate, 0, 0, value(0)),
        ((0, 3), ConditionCreate, 0, 0, value(0)),
        ((0, 3), Lock, 0, 0, DONE),
        ((0, 4), Lock, 0, 0, WAITS),
        ((0, 31), Slots, 0, 1, DONE),
    ]);
    rig.start(1, &[((0, 5), 5)]);
    rig.all(&[((0, 3), ConditionWait, 0, 0, WAITS)]);
    assert_eq!((rig.has((0, 4)), rig.has((0, 5))), (DONE, WAITS));
}

#[test]
fn threads_run_on_islands_that_there_are() {
    let mut rig = Rig::new();
    assert_eq!(ISLANDS, 0b11);
    for (window, island) in [(3, 0), (4, 1), (5, 0), (6, 1)] {
        rig.0.allot((0, window));
        assert_eq!(rig.ask(A, Create, window as u16, 0), value(window as u32));
        assert_eq!(rig.ask((0, window), Start, 0, 0), value(island));
    }
}

#[test]
fn a_mutex_can_go_when_nobody_waits_with_it_any_more() {
    Rig::new().all(&[
        (A, MutexCreate, 0, 0, value(0)),
        (A, ConditionCreate, 0, 0, value(0)),
        (A, Lock, 0, 0, DONE),
        (A, ConditionWait, 0, 0, WAITS),
        (B, MutexDestroy, 0, 0, is(Code::Busy)),
        (B, Signal, 0, 0, value(1)),
        (A, Unlock, 0, 0, DONE),
        (B, MutexDestroy, 0, 0, DONE),
    ]);
}

#[test]
fn lists_that_damage_has_joined_end() {
    let mut rig = Rig::new();
    rig.all(&[(A, MutexCreate, 0, 0, value(0)), (A, ConditionCreate, 0, 0, value(0))]);
    for id in [B, C] {
        rig.all(&[(id, Lock, 0, 0, DONE), (id, ConditionWait, 0, 0, WAITS)]);
    }
    assert_eq!(rig.ask(A, Lock, 0, 0), DONE);
    // Both lists are one ring, and who leaves one comes to the other.
    let core = rig.0.core;
    rig.0.record(C).next.set(core.condition[0].waiters.get());
    core.mutex[0].waiters.set(core.condition[0].waiters.get());
    assert!(rig.ask(A, Broadcast, 0, 0).is_some());
}
