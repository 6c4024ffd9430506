//! Processes that call the same core.

use std::ops::Range;

use motet_hal_hosted::{Config, Driver, Failure, Faults, isa::Op, run_seeds};
use motet_layout::{CALLS_BY_DMA, CALLS_BY_STORES, Isa};
use motet_tests_hosted::{
    Ended, ROUGH, Scenario, boot,
    fat::{Body, address_of},
    is_long, three_islands,
};

use super::{STEPS_MAX, env, function, no_kernel_fails, scenario};

pub const CHILDREN: u64 = 5;

/// Where islands do not cache each other's memory, a core that has answered is soon called by somebody else, who writes over its
/// message.
#[test]
fn results_reach_who_called_while_others_call_the_same_core() {
    all_are_right(0..100, true);
}

/// A core that waits for the end of its call may be called itself meanwhile, while another of its threads comes back.
#[test]
fn a_core_that_is_called_while_a_thread_comes_back_answers() {
    all_are_right(0..400, false);
}

/// Others, who have been answered by the same core or are about to call it, go on.
#[test]
fn a_damaged_message_ends_whose_call_it_is() {
    const SEEDS: u64 = 600;
    // A third of them, another one each day, where what is slow by nature is not asked for.
    let (first, seeds) = if is_long() { (0, SEEDS) } else { (env("MOTET_TEST_SEED", 0) % 3 * (SEEDS / 3), SEEDS / 3) };
    let (first, seeds) = (env("MOTET_FIRST", first), env("MOTET_SEEDS", seeds));
    let wanted = seeds / 30;
    let mut ends = 0;
    // About one seed in 25 damages what is checked and not yet used; which ones depends on every step of the kernels.
    for seed in first..first + 4 * seeds {
        if seed >= first + seeds && ends >= wanted {
            break;
        }
        match crowded(seed, true, Faults { damage: Some(200 + seed * 37 % 400), ..ROUGH }) {
            Ok(ended) if ended.errors.contains("the message of its call is damaged") => {
                ends += 1;
                let others = "right\n".repeat(CHILDREN as usize - 1);
                assert_eq!((ended.status, ended.output), (0, others), "seed {seed}: {}", ended.errors);
            }
            // What the message says may be wrong and yet possible.
            Ok(_) => {}
            Err(failure) => no_kernel_fails(seed, &failure),
        }
    }
    assert!(ends >= wanted, "{ends} ended");
}

/// Processes that call the same core again and again, and say whether what they are told is right.
pub fn crowd(calls_back: bool) -> Scenario {
    scenario(&[
        function("main", None, if calls_back { main::<2> } else { main::<1> }),
        function("twice", Some(Isa::AArch64), |body| {
            body.enter(1);
            let (result, argument) = (body.result(), body.argument());
            body.program.asm.op(Op::Add, result, argument, argument);
            body.leave();
        }),
        function("twice_by_calling_back", Some(Isa::AArch64), |body| {
            body.enter(1);
            let (result, argument) = (body.result(), body.argument());
            // In a register that calls preserve, whatever else the core runs meanwhile; no other function here uses it.
            let [.., kept] = body.program.asm.roles.saved;
            body.program.asm.mov(kept, argument);
            body.call(address_of(3));
            // Again, before it comes back for good.
            body.program.asm.mov(argument, result);
            body.call(address_of(3));
            body.program.asm.op(Op::Add, result, result, kept);
            body.leave();
        }),
        function("once", Some(Isa::X86_64), |body| {
            body.enter(1);
            let (result, argument) = (body.result(), body.argument());
            body.program.asm.mov(result, argument);
            body.leave();
        }),
    ])
}

/// Forks processes that call the function of this index, and waits for them.
fn main<const FUNCTION: usize>(body: &mut Body<'_>) {
    let [number, pid, zero, ..] = body.program.asm.roles.saved;
    body.program.asm.li(zero, 0);
    body.program.asm.li(number, CHILDREN);
    let fork = body.program.asm.here();
    let child = body.program.fork(pid);
    body.program.asm.op_i(Op::Addi, number, number, -1);
    body.program.asm.branch(Op::Bne, number, zero, fork);
    body.program.asm.li(number, CHILDREN);
    let wait = body.program.asm.here();
    body.program.wait();
    body.program.asm.op_i(Op::Addi, number, number, -1);
    body.program.asm.branch(Op::Bne, number, zero, wait);
    body.program.exit(0);
    body.program.asm.bind(child);
    ask_again_and_again(body, address_of(FUNCTION), number, pid);
}

/// Calls a function that doubles `number`, several times, and says whether it always does.
fn ask_again_and_again(body: &mut Body<'_>, function: u64, number: u8, rounds: u8) {
    let (argument, result, scratch) = (body.argument(), body.result(), body.scratch());
    let wrong = body.program.asm.label();
    body.program.asm.li(rounds, 6);
    let again = body.program.asm.here();
    body.program.asm.mov(argument, number);
    body.call(function);
    body.program.asm.op(Op::Add, scratch, number, number);
    body.program.asm.branch(Op::Bne, result, scratch, wrong);
    body.program.asm.op_i(Op::Addi, rounds, rounds, -1);
    body.program.asm.li(scratch, 0);
    body.program.asm.branch(Op::Bne, rounds, scratch, again);
    body.program.print(1, "right\n");
    body.program.exit(0);
    body.program.asm.bind(wrong);
    body.program.print(1, "wrong\n");
    body.program.exit(1);
}

fn all_are_right(seeds: Range<u64>, uncached: bool) {
    run_seeds(seeds, |seed| {
        let faults = if seed % 4 < 2 { Faults::default() } else { ROUGH };
        crowded(seed, uncached, faults).map(|ended| {
            let expected = "right\n".repeat(CHILDREN as usize);
            assert_eq!((ended.status, ended.output), (0, expected), "errors: {}", ended.errors);
        })
    });
}

/// They run, where islands do not cache each other's memory or where they do. Under every other seed the function that they call calls
/// back.
fn crowded(seed: u64, uncached: bool, faults: Faults) -> Result<Ended, Failure> {
    let mut config = Config::new(Driver::Seeded(seed), three_islands([3, 1, 2]));
    config.uncached = uncached;
    config.calls_by = if seed % 8 < 4 { CALLS_BY_STORES } else { CALLS_BY_DMA };
    config.faults = faults;
    config.steps_max = STEPS_MAX;
    boot(config, &crowd(seed % 2 == 1))
}
