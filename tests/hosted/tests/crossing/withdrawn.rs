//! Calls over links whose callee does not take them in time: they are withdrawn, and go the long way.
//!
//! The only AArch64 core runs a thread that never ends, so nothing that is asked of it is taken. What was asked last stays in the slot of
//! the callers' island.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op, run_seeds};
use motet_layout::{CALLS_BY_DMA, CALLS_BY_STORES, CoreId, Isa, IslandId, Pool, sync::Ordering};
use motet_tests_hosted::{
    ROUGH, Scenario, boot_and_look,
    calls::Sys,
    fat::{Body, Function, address_of},
    program::DATA,
    three_islands,
};

use super::{STEPS_MAX, function, run_for_ever, scenario, sum_of_calls_back};

/// The descriptors of two pipes: by one the AArch64 core is asked to be kept busy, by the other it is said that it is.
const ASKED: [u64; 2] = [3, 4];
const KEPT: [u64; 2] = [5, 6];
/// Where `getcpu` says on which core the caller is.
const CORE_BEFORE: u64 = DATA + 32;
const CORE_AFTER: u64 = DATA + 36;
/// Where bytes are read to.
const BUFFER: u64 = DATA + 1024;
const BUFFER_LEN: u64 = 1024;
const AT_FDCWD: u64 = -100i64 as u64;
/// The program's functions, by index.
const KEEPS: usize = 1;
const CALLED: usize = 2;
const CALLED_BACK: usize = 3;
/// What the first of them takes that is called.
const ARGUMENT: u64 = 3;
/// Set in the message of a call that lets a function go on.
const RESUMES: u64 = 1 << 62;

/// Sends a byte through a pipe.
fn send(body: &mut Body<'_>, pipe: [u64; 2]) {
    body.program.print(pipe[1], ".");
    body.program.or_exit(100);
}

/// Waits for a byte.
fn receive(body: &mut Body<'_>, pipe: [u64; 2]) {
    body.program.call(Sys::Read, &[pipe[0], BUFFER, 1]);
    body.program.or_exit(101);
}

/// The AArch64 core runs from now on a thread that never ends.
fn keep_core(body: &mut Body<'_>) {
    send(body, ASKED);
    receive(body, KEPT);
}

/// Calls a function, and prints what `/proc/self/crossings` says afterwards. A child keeps the AArch64 core when it is asked to: with
/// `IS_KEPT`, before the call. With `SHARES`, another child runs for ever on the x86-64 cores. With `CALLS_ON`, the call is Motet's `call_on`
/// instead of a fetch from a pinned function. The status is the function's result, or 1 if the caller has not come back to its core.
fn main<const IS_KEPT: bool, const SHARES: bool, const CALLS_ON: bool>(body: &mut Body<'_>) {
    let [keeper, other, result, before, after] = body.program.asm.roles.saved;
    for pipe in 0..2 {
        body.program.call(Sys::Pipe2, &[DATA + 16 + 8 * pipe, 0]);
        body.program.or_exit(102);
    }
    let keeps = body.program.fork(keeper);
    let runs = SHARES.then(|| body.program.fork(other));
    if IS_KEPT {
        keep_core(body);
    }
    body.program.call(Sys::Getcpu, &[CORE_BEFORE, 0, 0]);
    if CALLS_ON {
        body.program.call(Sys::CallOn, &[1, address_of(CALLED), ARGUMENT]);
    } else {
        body.program.arg(0, ARGUMENT);
        body.call(address_of(CALLED));
    }
    body.program.result_to(result);
    body.program.call(Sys::Getcpu, &[CORE_AFTER, 0, 0]);
    body.program.load_u32(before, CORE_BEFORE);
    body.program.load_u32(after, CORE_AFTER);
    let is_back = body.program.asm.label();
    body.program.asm.branch(Op::Beq, before, after, is_back);
    body.program.asm.li(result, 1);
    body.program.asm.bind(is_back);
    print_crossings(body);
    for pid in [Some(keeper), SHARES.then_some(other)].into_iter().flatten() {
        body.program.arg_from(0, pid);
        body.program.arg(1, 9);
        body.program.call_as_is(Sys::Kill);
        body.program.wait();
    }
    body.program.arg_from(0, result);
    body.program.call_as_is(Sys::ExitGroup);
    body.program.asm.bind(keeps);
    receive(body, ASKED);
    body.call(address_of(KEEPS));
    if let Some(runs) = runs {
        body.program.asm.bind(runs);
        run_for_ever(body);
    }
}

fn print_crossings(body: &mut Body<'_>) {
    body.program.arg(0, AT_FDCWD);
    body.program.arg_string(1, "/proc/self/crossings");
    body.program.arg(2, 0);
    body.program.call_as_is(Sys::Openat);
    body.program.or_exit(103);
    let result = body.result();
    body.program.arg_from(0, result);
    body.program.arg(1, BUFFER);
    body.program.arg(2, BUFFER_LEN);
    body.program.call_as_is(Sys::Read);
    body.program.or_exit(104);
    body.program.arg_from(2, result);
    body.program.arg(0, 1);
    body.program.arg(1, BUFFER);
    body.program.call_as_is(Sys::Write);
}

/// Keeps the AArch64 core: the system call makes the function an ordinary thread there.
fn keeper() -> Function {
    function("keeps", Some(Isa::AArch64), |body| {
        send(body, KEPT);
        run_for_ever(body);
    })
}

/// Runs a scenario under many seeds, on islands that do not cache each other's memory and whose cores sleep when they are idle, or poll for
/// longer than a call waits for its callee. All must end with this status, after so many calls
/// and calls back, and most of them with a withdrawn request that `is_it` knows by its message. Some find another call in the way, and take the long way at
/// once: with faults, by `call_on`, and, rarely, where the caller of the function that keeps the core has not seen yet that it has become a thread.
fn all_withdraw<const CALLS_ON: bool>(
    [alone, shared]: [(&Scenario, usize); 2],
    status: u32,
    [calls, calls_back]: [u64; 2],
    is_it: impl Fn([u64; 6]) -> bool,
) {
    const SEEDS: u64 = 60;
    const POLL_NS: u64 = 1_000_000;
    // Of runs with faults and of those without: how many there were, and how many of them had a withdrawn request.
    let mut counts = [[0; 2]; 2];
    run_seeds(0..SEEDS, |seed| {
        let (scenario, cores) = if seed % 2 == 0 { alone } else { shared };
        let mut config = Config::new(Driver::Seeded(seed), three_islands([cores, 1, 1]));
        config.uncached = true;
        config.islands[0].poll_ns = if seed % 3 == 2 { POLL_NS } else { 0 };
        config.calls_by = if seed % 8 < 4 { CALLS_BY_STORES } else { CALLS_BY_DMA };
        config.faults = if seed % 4 < 2 { Faults::default() } else { ROUGH };
        config.steps_max = STEPS_MAX;
        let (ended, asked) = boot_and_look(config, scenario, last_asked)?;
        assert_eq!((ended.status, ended.output), (status, crossings(calls, calls_back)), "{}", ended.errors);
        let is_withdrawn = is_it(asked.unwrap_or_else(|| panic!("seed {seed}: a slot is left as it must not be")));
        let is_calm = seed % 4 < 2;
        let is_in_the_way = asked.is_some_and(|message| message[2] == address_of(KEEPS));
        assert!(is_withdrawn || is_in_the_way || !is_calm || CALLS_ON, "seed {seed}: {asked:x?} was asked last");
        let [runs, withdrawn] = &mut counts[usize::from(is_calm)];
        (*runs, *withdrawn) = (*runs + 1, *withdrawn + u32::from(is_withdrawn));
        Ok(())
    });
    let [rough, calm] = counts;
    let least_calm = if CALLS_ON { calm[0] / 2 } else { calm[0] * 9 / 10 };
    assert!(2 * rough[1] >= rough[0] && calm[1] >= least_calm, "{counts:?}");
}

/// What the x86-64 cores have asked of the AArch64 core last; `None`: something of it is left to be done.
fn last_asked(pool: Pool) -> Option<[u64; 6]> {
    let callee = CoreId::new(IslandId(1), 0);
    let header = pool.header();
    let slot = &header.cores[callee.index()].calls[0];
    let owner = header.islands[0].slot_owners[callee.index()].load(Ordering::Relaxed);
    let is_over = [slot.request.load(Ordering::Relaxed), slot.withdrawn.load(Ordering::Relaxed), owner] == [0; 3];
    is_over.then(|| std::array::from_fn(|index| slot.message[index].get()))
}

fn crossings(calls: u64, calls_back: u64) -> String {
    let back = if calls_back == 0 { String::new() } else { format!("1 0 {calls_back}\n") };
    format!("from to calls\n0 1 {calls}\n{back}pages_run_locally 0\ncalls_run_locally 0\n")
}

/// The caller's core sleeps meanwhile, or runs another thread.
#[test]
fn a_call_that_is_not_taken_goes_the_long_way() {
    is_not_taken::<false>();
}

/// The system call returns what the function has returned, not the argument that was in its register before.
#[test]
fn a_call_on_that_is_not_taken_is_made_again() {
    is_not_taken::<true>();
}

fn is_not_taken<const CALLS_ON: bool>() {
    let calling = |main| {
        scenario(&[
            function("main", None, main),
            keeper(),
            function("twice", Some(Isa::AArch64), |body| {
                body.enter(1);
                let (result, argument) = (body.result(), body.argument());
                body.program.asm.op(Op::Add, result, argument, argument);
                body.leave();
            }),
        ])
    };
    let (alone, shared) = (calling(main::<true, false, CALLS_ON>), calling(main::<true, true, CALLS_ON>));
    let is_the_call = |message: [u64; 6]| (message[2], message[5]) == (address_of(CALLED), ARGUMENT);
    all_withdraw::<CALLS_ON>([(&alone, 2), (&shared, 1)], 6, [1, 0], is_the_call);
}

/// A function that has called back is to go on, when its core runs something else for ever.
#[test]
fn a_function_that_is_not_let_go_on_goes_on_the_long_way() {
    // The first call back goes the long way, as its core does not know the function; the last one returns when the core is kept.
    let calling = |main| {
        scenario(&[
            function("main", None, main),
            keeper(),
            function("sum", Some(Isa::AArch64), sum_of_calls_back::<CALLED_BACK>),
            function("keeps_at_last", Some(Isa::X86_64), |body| {
                let [number, last, ..] = body.program.asm.roles.saved;
                let (argument, result) = (body.argument(), body.result());
                let is_not_last = body.program.asm.label();
                body.enter(1);
                body.program.asm.mov(number, argument);
                body.program.asm.li(last, 1);
                body.program.asm.branch(Op::Bne, number, last, is_not_last);
                keep_core(body);
                body.program.asm.bind(is_not_last);
                body.program.asm.op_i(Op::Addi, result, number, 30);
                body.leave();
            }),
        ])
    };
    let (alone, shared) = (calling(main::<false, false, false>), calling(main::<false, true, false>));
    let is_the_last_result = |message: [u64; 6]| message[0] & RESUMES != 0 && message[5] == 31;
    // 2 * (33 + 32 + 31)
    all_withdraw::<false>([(&alone, 1), (&shared, 1)], 192, [1, ARGUMENT], is_the_last_result);
}
