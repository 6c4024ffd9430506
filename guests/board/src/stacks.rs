//! Stacks to switch between: what a kernel of threads needs of an instruction set. Each runs a function that never returns.

use core::cell::UnsafeCell;

use crate::{Mask, Masked, isa};

/// Stacks, that of the start included, which is number 0.
pub const COUNT: usize = 32;
/// Bytes of each. An interrupt takes place on the stack of what it interrupts.
const LEN: usize = 8192;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; LEN]>);

// SAFETY: who runs on a stack is the only one to use it; before that it belongs to `prepare`.
unsafe impl Sync for Stack {}

static STACKS: [Stack; COUNT] = [const { Stack(UnsafeCell::new([0; LEN])) }; COUNT];

struct Table {
    /// The stack pointers of those that do not run; 0: not prepared.
    pointers: [usize; COUNT],
    running: usize,
}

static TABLE: Masked<Table> = Masked::new(Table { pointers: [0; COUNT], running: 0 });

/// Makes a stack ready to run `function(argument)`, with interrupts enabled, when it is switched to first.
///
/// # Panics
/// The stack is there already, or is the first.
pub fn prepare(mask: &Mask, stack: usize, function: fn(usize) -> !, argument: usize) {
    TABLE.with(mask, |table| {
        assert!(stack != 0 && table.pointers[stack] == 0, "stack {stack} is in use");
        let end = STACKS[stack].0.get().addr() + LEN;
        // SAFETY: nobody runs on it or has run there; what is written fits it.
        table.pointers[stack] = unsafe { isa::prepare_stack(end, function, argument) };
    });
}

/// Runs what has left `stack`, or begins what it was prepared for; comes back when somebody switches to this one.
///
/// # Panics
/// It is not prepared.
pub fn switch(mask: &Mask, stack: usize) {
    let pointers = TABLE.with(mask, |table| {
        (table.running != stack).then(|| {
            let from = &raw mut table.pointers[table.running];
            table.running = stack;
            let to = table.pointers[stack];
            assert!(to != 0, "stack {stack} is not prepared");
            (from, to)
        })
    });
    if let Some((from, to)) = pointers {
        // SAFETY: interrupts are masked, so nobody else touches the table; the stack pointer is as `prepare` or the last switch has left it.
        unsafe { isa::switch_stacks(from, to) };
    }
}
