//! Trying what may fail: for guests that do what no program should.

use core::cell::UnsafeCell;

use crate::{interrupts, isa};

/// Instructions that are tried at most, all of 32 bits.
pub const WORDS_MAX: usize = 15;

/// They are in the middle of memory that holds nothing, so that most branches meet an instruction that is none; their stack is there, too.
const AROUND: usize = 1 << 19;

#[repr(C, align(64))]
struct Code(UnsafeCell<[u32; 2 * AROUND]>);

// SAFETY: one core alone writes and runs it.
unsafe impl Sync for Code {}

static CODE: Code = Code(UnsafeCell::new([0; 2 * AROUND]));

/// Runs some instructions with `arguments` in the registers for arguments (a0 to a7, x0 to x7); afterwards the first two are what these
/// registers are then. The result is the exception that has ended them, as `scause` or `ESR_EL1` has it; `None`: they have come to their end.
/// If they take longer than `limit` by the clock, the timer's interrupt ends them: call [`interrupts::set_up`] once before.
///
/// # Safety
/// The instructions may do anything. So this promises nothing, and neither does anything afterwards, unless they are known to
/// change nothing that Rust relies on. Nobody but the core that boots calls this.
///
/// # Panics
/// They are more than [`WORDS_MAX`].
pub unsafe fn attempt(instructions: &[u32], arguments: &mut [u64; 8], limit: u64) -> Option<u64> {
    assert!(instructions.len() <= WORDS_MAX, "{} instructions", instructions.len());
    // SAFETY: it is long enough, and does not run now.
    let code = unsafe {
        let code = CODE.0.get().cast::<u32>().add(AROUND);
        for (number, instruction) in instructions.iter().chain([&isa::BREAKPOINT]).enumerate() {
            code.add(number).write_volatile(*instruction);
        }
        code
    };
    interrupts::set_alarm(isa::now() + limit);
    // SAFETY: the caller's promise; the entry for exceptions comes back to here.
    let exception = unsafe { isa::attempt(code, arguments) };
    (!isa::is_breakpoint(exception)).then_some(exception)
}
