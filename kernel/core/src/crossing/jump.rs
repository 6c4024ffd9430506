//! Calls that end otherwise than by a return: by a jump (`longjmp`), or because an exception leaves the function.
//!
//! A jump ends calls from the innermost one on, until the thread is in the one that its target's frame belongs to. Which one that is, the target's
//! stack pointer says: each call has a part of the stack of its instruction set. Functions may also run on stacks of their own, such as those of signals. What they
//! jump to there is taken to be in the innermost call that can have it.
//!
//! Neither trusts the program: whatever the numbers, it ends calls of its own thread and goes on with registers of its own.

use core::ops::Range;

use motet_abi::{
    Errno,
    convention::{self, Results},
};
use motet_hal::Machine;
use motet_layout::{BY_SYSTEM_CALL, CrossingRecord, Isa, USER_END};

use super::{
    long,
    records::{innermost, outer_of},
    report, stack,
};
use crate::{
    call::{Call, Stop, SysResult, cost, end_call},
    handover, mm,
};

/// What a look at a call costs, in instructions, roughly.
const LOOKED: u64 = 100;
/// No thread is in more calls: each has a part of a stack.
const DEPTH_MAX: usize = 1 << 20;

/// `jump(isa, sp, function, first, second)`: the thread goes on in `function(first, second)`, in the call that has the stack pointer `sp` on an
/// instruction set; calls that were made from there are over. 0: it is the innermost one, and the thread goes on where it is.
///
/// # Errors
/// `EINVAL`: there is no such instruction set, or no call of the thread has that stack pointer; `EFAULT`: `function` is no address of a program.
pub fn jump<M: Machine>(call: &Call<M>) -> SysResult {
    let [isa, sp, function, first, second, _] = call.args;
    let (cpu, thread) = (call.cpu, call.thread);
    let isa = u32::try_from(isa).ok().and_then(Isa::from_raw).ok_or(Errno::EINVAL)?;
    let stack = mm::area_at(cpu, mm::space_of(cpu, call.process), sp.wrapping_sub(1));
    let Some(outermost) = last_over(call, &Target { isa, sp, stack })? else { return Ok(0) };
    check(function)?;
    let ends = core::iter::successors(innermost(cpu, thread), |record| {
        let is_last = core::ptr::eq(*record, outermost);
        outer_of(cpu, thread, record).filter(|_| !is_last)
    });
    if ends.take(DEPTH_MAX).any(is_elsewhere) {
        report::kill(cpu, thread, call.process, format_args!("it jumps out of a call to another kernel"));
        return Err(Stop::Gone);
    }
    while let Some(record) = innermost(cpu, thread).filter(|record| !core::ptr::eq(*record, outermost)) {
        long::drop_last(cpu, thread, record);
        call.serve_due(cost::OBJECT);
    }
    go_on(call, outermost, function, &[first, second])
}

/// `leave(function, argument)`: the call that the thread is in is over, and its caller calls `function(argument)` in its place.
///
/// # Errors
/// `EINVAL`: the thread is in no call, or it was made by a system call, in the place of which no function can be called; `EFAULT`:
/// `function` is no address of a program, or the caller's stack cannot be written.
pub fn leave<M: Machine>(call: &Call<M>) -> SysResult {
    let [function, argument, ..] = call.args;
    let (cpu, thread) = (call.cpu, call.thread);
    let is_called = |record: &&CrossingRecord| {
        record.callee_isa.get() == M::ISA as u32 && record.result.get() & BY_SYSTEM_CALL == 0
    };
    let record = innermost(cpu, thread).filter(is_called).ok_or(Errno::EINVAL)?;
    if is_elsewhere(record) {
        report::kill(cpu, thread, call.process, format_args!("an exception leaves a call of another kernel"));
        return Err(Stop::Gone);
    }
    check(function)?;
    let isa = Isa::from_raw(record.caller_isa.get()).ok_or(Errno::EINVAL)?;
    let words = convention::return_address(isa, record.return_pc.get(), record.caller_sp.get());
    if !stack::push(cpu, mm::space_of(cpu, call.process), &words) {
        return Err(Errno::EFAULT.into());
    }
    go_on(call, record, function, &[argument])
}

/// Whether a call is between two kernels: the other half would not hear of the jump.
fn is_elsewhere(record: &'static CrossingRecord) -> bool {
    record.caller_node.get() | record.callee_node.get() != 0
}

/// A program may jump there: other addresses x86-64 refuses when the kernel is about to.
fn check(function: u64) -> Result<(), Errno> {
    if function < USER_END { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Where a jump leads.
struct Target {
    isa: Isa,
    sp: u64,
    /// The addresses around it, of the stack that it is on.
    stack: Range<u64>,
}

impl Target {
    /// Whether it can be in a call that begins with the stack pointer `begins` and has made another one with `calls`.
    fn fits(&self, begins: Option<u64>, calls: Option<u64>) -> Fit {
        let is_here = |sp: &u64| self.stack.contains(&sp.wrapping_sub(1));
        let (begins, calls) = (begins.filter(is_here), calls.filter(is_here));
        if begins.is_some_and(|begins| self.sp > begins) || calls.is_some_and(|calls| self.sp < calls) {
            Fit::No
        } else if begins.is_some() || calls.is_some() {
            Fit::Yes
        } else {
            Fit::OtherStack
        }
    }
}

/// Whether the target of a jump is in a call.
#[derive(PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    /// Only if the call uses a stack of its own.
    OtherStack,
}

/// The last one of the calls that end because of a jump to `target`; `None`: there are none.
///
/// # Errors
/// `EINVAL`: the target is nowhere.
fn last_over<M: Machine>(call: &Call<M>, target: &Target) -> Result<Option<&'static CrossingRecord>, Errno> {
    let (cpu, thread) = (call.cpu, call.thread);
    let (mut over, mut on_other_stack) = (None, None);
    let (mut isa, mut calls) = (M::ISA as u32, None);
    let mut next = innermost(cpu, thread);
    loop {
        if isa == target.isa as u32 {
            match target.fits(next.map(|record| record.callee_sp.get()), calls) {
                Fit::Yes => return Ok(over),
                Fit::OtherStack => on_other_stack = on_other_stack.or(Some(over)),
                Fit::No => {}
            }
        }
        let Some(record) = next else { return on_other_stack.ok_or(Errno::EINVAL) };
        (isa, calls) = (record.caller_isa.get(), Some(record.caller_sp.get()));
        over = next;
        next = outer_of(cpu, thread, record);
        call.serve_due(LOOKED);
    }
}

/// Ends the thread's last call. Its caller goes on with another one, where it made the first.
fn go_on<M: Machine>(call: &Call<M>, record: &'static CrossingRecord, function: u64, arguments: &[u64]) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let isa = Isa::from_raw(record.caller_isa.get());
    let (Some(core), Some(isa)) = (long::caller_core(cpu, record), isa) else {
        report::kill(cpu, thread, call.process, format_args!("the record of its call is damaged"));
        return Err(Stop::Gone);
    };
    let Ok(target) = long::target(cpu, thread, call.process, core) else { return Err(Stop::Gone) };
    end_call(thread);
    long::pop(cpu, thread, record, &Results::default());
    convention::call_instead(&thread.frame, isa, function, arguments);
    handover::hand_to(cpu, thread, target);
    Err(Stop::Gone)
}
