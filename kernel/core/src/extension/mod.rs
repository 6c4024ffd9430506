//! Extensions of an ISA that only some of its cores have: threads go where their instructions are.
//!
//! A thread starts on any core. When it executes an instruction that its core lacks, the kernel decodes which extension has the instruction
//! ([`motet_abi::extension`]). From then on the thread *needs* that extension, and runs on cores that have it; its system calls, page faults and
//! signals are served there. When it has not used the extension for a while, it does not need it any more, and goes back.
//!
//! Vector registers are closed at the end of each slice in which they were open, so that the next use traps. Registers that every core of an
//! ISA has may stay open ([`motet_hal::Machine::keep_vectors_open`]).
//!
//! Protocol page, with the states of a thread: `docs/protocols/extensions.md`.

mod back;
pub mod hidden;
mod hint;
mod illegal;

pub use back::{end_slice, gives_way};
pub use hint::{done, need};
pub use illegal::{goes_again, got_values, illegal, take};
