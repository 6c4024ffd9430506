//! Other cores: they run a function each, on a stack of their own, with interrupts masked.

use core::cell::UnsafeCell;

use crate::isa;

/// Cores that a guest knows at most.
pub const MAX: usize = 16;
const STACK_LEN: usize = 8192;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_LEN]>);

// SAFETY: the core that it is given to is the only one to use it; before that it belongs to `start`.
unsafe impl Sync for Stack {}

static STACKS: [Stack; MAX] = [const { Stack(UnsafeCell::new([0; STACK_LEN])) }; MAX];

/// Starts the core with this id in the device tree, the `number`th from 1 on. There it runs `function(number)`, which may use
/// nothing that is [`crate::Masked`].
///
/// # Errors
/// What the firmware answers: the SBI's or PSCI's number.
///
/// # Panics
/// The number is 0, that of the core that boots, or there are not so many.
pub fn start(id: u64, number: usize, function: fn(usize) -> !) -> Result<(), i64> {
    assert!(number != 0, "core 0 runs");
    let end = STACKS[number].0.get().addr() + STACK_LEN;
    // SAFETY: nobody runs there before the core does, which has room for this.
    let stack = unsafe { isa::prepare_core(end, function, number) };
    isa::start_core(id, stack)
}
