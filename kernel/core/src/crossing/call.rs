//! A call across instruction sets on one page: the states that it goes through, and who moves it from each to the next.
//!
//! ```text
//!                 caller's core                                     callee's core
//!
//!        fetch --------------------------------> choose: another core, policies
//!          | the core that was called last            |
//!          v                                          |
//!       claimed <-------------------------------------+
//!          |    \  the core does not sleep: the long way, through run queues,
//!          |     \ as an ordinary thread (`long`); over a link, only another call of this core, or of
//!          |      \ the island to that core, is in the way, and it waits for its turn first
//!          v
//!       written ---- somebody wants the thread: withdrawn, then the long way
//!          |
//!          v
//!        given  ------------------------------------->  called (over a link: taken, or withdrawn
//!          |                                              | after a while, then the long way)
//!          | sleeps in the middle of the fault,           |
//!          | or runs other threads                        v
//!          |                                  +-------> runs -----> left: whatever needs an
//!          |                    served there  |           |         ordinary thread (`adopt`)
//!          |                                  +-----------+
//!          |                                              |
//!        answered <------- returned, or calls back -------+------> sleeps again
//!          |
//!          v
//!        back: the thread goes on, with the results or in the function that was called back
//! ```
//!
//! [`call`] is the left side, [`run_called`] the right one; `fetch` and `choose` come before both. A core that had something else to do while the function ran finds the
//! answer later ([`super::answers::first_returned`]), and does the same with it.
//!
//! Each step is inlined, once for coherent islands and once for others ([`Reach`]): a call is made of few and large functions that keep
//! values in registers.
//!
//! Protocol page: `docs/protocols/crossing.md`.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, convention::Arguments, registers};
use motet_hal::{Interrupts, Machine, Trap};
use motet_layout::{CoreId, CrossingRecord, ProcessRecord, SpaceRecord, ThreadRecord};
use motet_protocol::{
    Context,
    direct::{self, Outcome, Reach},
    noncoherent,
    run_queue::Wake,
};

use super::{
    Awake as _, Fetch, answers, back,
    callee::{self, Begun, Step},
    caller::{self, Made},
    cores::last_callee,
    long,
    message::{self, Spread, fits},
    records::{new_record, spare_record},
    request::{Ready, Request, below_caller},
    stack,
    state::LONG_WAY_NS,
};
use crate::{alarm, cpu::Cpu, mm};

/// As [`call_again`], over a link.
pub fn call_again_noncoherent<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
) -> Option<Fetch> {
    match cpu.crossing.reach() {
        Reach::Coherent => None,
        Reach::Noncoherent => call_noncoherent(cpu, thread, process, space),
        Reach::Engine => call_by_engine(cpu, thread, process, space),
    }
}

/// As [`call_again`], where an engine may carry the call.
#[cold]
#[inline(never)]
pub fn call_by_engine<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
) -> Option<Fetch> {
    call_again(cpu, thread, process, space, Reach::Engine)
}

/// As [`call_again`], over a link by stores. It is a function of its own, so that the compiler has more registers for the coherent way.
#[inline(never)]
pub fn call_noncoherent<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
) -> Option<Fetch> {
    call_again(cpu, thread, process, space, Reach::Noncoherent)
}

/// Calls a function that this core knows on the core that the thread has called last.
#[inline(always)]
pub fn call_again<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
    reach: Reach,
) -> Option<Fetch> {
    if reach.is_noncoherent() && cpu.crossing.is_to_take_long_way(cpu.raw(thread)) {
        return None;
    }
    let function = registers::pc(&thread.frame);
    let pin = cpu.crossing.pins(reach).get(function, mm::epoch(cpu, space))?;
    let (record, core) = last_callee(cpu, thread, process, pin.isa)?;
    let request = Request::of(cpu, thread, space, function, &pin).ok()?;
    call(cpu, Ready { thread, space, record, target: core, request: &request }, reach)
}

/// Makes a call: the short way if `target` sleeps, otherwise the long way. Afterwards the thread is not this core's, or is
/// back.
///
/// # Errors
/// `ENOMEM`; `EFAULT`: the thread pointer is not an address, or the stack cannot be written.
pub fn make<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    target: CoreId,
    mut request: Request,
    arguments: &Arguments,
) -> Result<Fetch, Errno> {
    let has_one_stack = request.program.is_some_and(|program| program.one_stack.get() != 0);
    request.stack = if has_one_stack {
        below_caller(cpu, thread, space, request.sp)?
    } else if request.isa == M::ISA {
        // As if it had been called without a crossing.
        request.sp
    } else {
        stack::of(cpu, thread, space, request.isa, target.island())?
    };
    let record = spare_record(cpu, thread).or_else(|| new_record(cpu, thread)).ok_or(Errno::ENOMEM)?;
    let ready = Ready { thread, space, record, target, request: &request };
    let is_wanted = thread.attention.load(Ordering::Relaxed) != 0;
    let takes_long_way = cpu.crossing.takes_long_way(cpu.raw(thread));
    if !request.is_local
        && !is_wanted
        && !takes_long_way
        && let Some(fetch) = call(cpu, ready, cpu.crossing.reach())
    {
        return Ok(fetch);
    }
    long::make(cpu, ready, arguments)
}

/// The caller's side: gives a call to its target, if that sleeps. The thread's frame holds the caller's registers, and keeps them. `None`:
/// it is not so; otherwise the thread is no longer this core's, or is again.
#[inline(always)]
fn call<M: Machine>(cpu: &Cpu<M>, ready: Ready<'_>, reach: Reach) -> Option<Fetch> {
    let Ready { thread, space, request, .. } = ready;
    if request.stack == 0 {
        return None;
    }
    if reach.is_noncoherent() && back::moves_home(cpu, thread, space, request.isa) {
        return None;
    }
    if !fits(&request.signature) {
        // A copy of its own: the other one stays in registers.
        return call_spread(cpu, Ready { ..ready }, reach);
    }
    place(cpu, ready, None, reach)
}

/// As [`call`], with more arguments than a message has room for.
#[cold]
#[inline(never)]
fn call_spread<M: Machine>(cpu: &Cpu<M>, ready: Ready<'_>, reach: Reach) -> Option<Fetch> {
    let spread = Spread::of(cpu, ready.thread, ready.space, ready.request)?;
    place(cpu, ready, Some(&spread), reach)
}

/// As [`call`], of a request that the target can be given.
#[inline(always)]
fn place<M: Machine>(cpu: &Cpu<M>, ready: Ready<'_>, spread: Option<&Spread>, reach: Reach) -> Option<Fetch> {
    let Ready { thread, space, record, target, request } = ready;
    let mut claimed = caller::claim(cpu, target, reach)?;
    if reach.has_engine() && cpu.crossing.engine_copies(target, message::length(&request.signature, spread)) {
        claimed = claimed.by_engine(cpu);
    }
    ready.record(cpu);
    if !message::write(cpu, claimed.message(cpu), thread, space, request, spread) {
        claimed.withdraw(cpu);
        return None;
    }
    let begin = || {
        ready.begin(cpu);
        // Before it is made, so that what is called finds it counted.
        request.count(cpu, target);
    };
    let made = caller::give(cpu, thread, space, target, claimed, begin)?;
    if reach.is_noncoherent() {
        cpu.crossing.turn().came(cpu.raw(thread));
        cpu.crossing.set_resumes(false);
    }
    Some(wait(cpu, thread, record, made, reach))
}

/// The call in `record` has been given. A core that has nothing else to do sleeps until it is answered, in the middle of the thread's
/// fault: then the thread is as one that it has never left. Otherwise the thread is gone, and looked for later.
#[inline(always)]
pub fn wait<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    made: Made,
    reach: Reach,
) -> Fetch {
    if reach.is_noncoherent() {
        // Who sleeps says until when itself.
        cpu.crossing.wait_for(thread, (!made.is_idle).then(|| cpu.now_ns() + LONG_WAY_NS));
    }
    if !made.is_idle {
        return Fetch::Gone;
    }
    let mut wake = cpu.doze();
    let is_long = reach.is_noncoherent() && wake == Wake::Look && answers::waits_on(cpu);
    if is_long {
        wake = cpu.doze();
    }
    let may_stay = wake == Wake::Look
        && !cpu.due.deferred().contains(Interrupts::TIMER)
        && cpu.mm.active() == cpu.crossing.resident();
    let outcome = if may_stay { direct::outcome(cpu, made.callee, reach) } else { Outcome::Runs };
    let has_new_ext = match outcome {
        Outcome::Returned => caller::resume(cpu, thread, record, made.callee, reach),
        Outcome::Calls => back::take_call(cpu, thread, record, made.callee),
        Outcome::Runs | Outcome::Left | Outcome::Withdrawn => {
            cpu.has_woken(wake);
            return Fetch::Gone;
        }
    };
    answers::go_on(cpu, thread, &made, has_new_ext);
    if is_long {
        alarm::reprogram_timer(cpu);
    }
    Fetch::Run
}

/// Runs the function that this core was called for, until the call is answered, or its thread becomes an ordinary one.
///
/// `true`: it has returned, or called back, and this core has announced that it is about to sleep. Otherwise the thread may be there to go on
/// ([`super::take_left`]).
#[inline(always)]
pub fn called<M: Machine>(cpu: &Cpu<M>) -> bool {
    run_called(cpu, Reach::Coherent)
}

/// As [`called`], of a call over a link.
#[inline(always)]
pub fn called_from_noncoherent<M: Machine>(cpu: &Cpu<M>) -> bool {
    if cpu.crossing.reach().has_engine() { called_by_engine(cpu) } else { called_by_stores(cpu) }
}

/// As [`run_called`], over a link by stores. It is a function of its own, so that the compiler has more registers for the coherent way.
#[inline(never)]
fn called_by_stores<M: Machine>(cpu: &Cpu<M>) -> bool {
    run_called(cpu, Reach::Noncoherent)
}

/// As [`run_called`], where an engine may carry the answer.
#[cold]
#[inline(never)]
fn called_by_engine<M: Machine>(cpu: &Cpu<M>) -> bool {
    if let Some(caller) = direct::caller(cpu) {
        noncoherent::await_call(cpu, caller);
    }
    run_called(cpu, Reach::Engine)
}

/// The callee's side, as [`called`].
#[inline(always)]
fn run_called<M: Machine>(cpu: &Cpu<M>, reach: Reach) -> bool {
    answers::stop_polling(cpu);
    let Some(begun) = callee::begin(cpu, reach) else { return false };
    alarm::limit_call(cpu);
    loop {
        if direct::is_disturbed(cpu, begun.given.caller, reach) {
            return leave(cpu, &begun, None, reach);
        }
        let trap = cpu.machine.run_user(begun.frame);
        match callee::step(cpu, &begun, trap, reach) {
            Step::Answered => return true,
            Step::Served => {}
            Step::Leaves(trap) => return leave(cpu, &begun, Some(trap), reach),
        }
    }
}

/// The function becomes an ordinary thread of this core, and goes on with `trap`. `false`, as [`called`].
#[inline(always)]
fn leave<M: Machine>(cpu: &Cpu<M>, begun: &Begun, trap: Option<Trap>, reach: Reach) -> bool {
    callee::adopt(cpu, begun.given.place(), Some(begun.frame), begun.sp_at_return, trap, reach);
    false
}
