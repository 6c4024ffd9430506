//! Extensions of an ISA that only some of its cores have: threads go where their instructions are.
//!
//! A thread starts anywhere. When it meets an instruction that its core lacks, the trap says which extension has it
//! ([`motet_abi::extension`]); from then on the thread *needs* that one, and runs on cores that have it: system calls, page faults and
//! signals are served there. When it has not used what it needed for a while, it needs it no longer, and goes back.
//!
//! Vector registers are closed at the end of each slice in which they were open, so their next use is seen. Those that every core of an
//! ISA has need not be, and may stay open ([`motet_hal::Machine::keep_vectors_open`]).
//!
//! Protocol page, with the states of a thread: `docs/protocols/extensions.md`.

pub mod away;
mod back;
mod hint;
mod illegal;

pub use back::{end_slice, gives_way};
pub use hint::{done, need};
pub use illegal::{got_values, illegal, take};
