//! The firmware's extension of the SBI for harts that only the firmware has: its numbers, and the layout of a thread's context
//! (docs/firmware.md, "Calls for supervisors"). Kernels and the firmware share them.

/// The extension's number, of those for experiments: "MOT".
pub const EXTENSION: usize = 0x084d_4f54;

/// Answers what there is: one of the numbers below.
pub const DESCRIBE: usize = 0;
/// 1: the supervisor sees to vector instructions itself; 0: the firmware does.
pub const TAKE_OVER: usize = 1;
/// Sends a thread: address of its context, `satp`. Answers its place.
pub const MIGRATE: usize = 2;
/// Calls the thread of a place home.
pub const CALL_HOME: usize = 3;
/// Writes the context of a place's thread and frees the place, if it is home: answers 1; 0: it is not.
pub const COLLECT: usize = 4;
/// Answers the places of this hart whose threads are home, a bit each.
pub const AT_HOME: usize = 5;
/// Answers how many threads wait for a hidden hart.
pub const WAITING: usize = 6;

/// Hidden harts that are not lost.
pub const HIDDEN_HARTS: usize = 0;
/// Bytes of a vector register.
pub const VECTOR_BYTES: usize = 1;
/// Bytes of a context.
pub const CONTEXT_BYTES: usize = 2;
/// Places for threads.
pub const PLACES: usize = 3;

/// Places that supervisors send threads from.
pub const PLACES_MAX: usize = 16;

/// The first word of a context: "MOTCTX" and the version of its layout.
pub const FORMAT: u64 = 0x4d4f_5443_5458_0001;
/// Words before the vector registers.
pub const HEADER_WORDS: usize = 80;
/// Bytes of the whole context.
pub const SIZE: usize = 1;
/// `pc`.
pub const COUNTER: usize = 2;
/// `x1` to `x31`.
pub const REGISTERS: usize = 3;
/// `f0` to `f31`, and `fcsr`.
pub const FLOATS: usize = 34;
/// Bytes of a vector register; 0: the thread has no vector state.
pub const VECTOR_LEN: usize = 67;
/// `vstart`, `vl`, `vtype`, `vcsr`.
pub const VECTOR_CONTROL: usize = 68;
/// Why the thread came home, as in `scause`.
pub const CAUSE: usize = 72;
/// `stval`.
pub const VALUE: usize = 73;

/// The cause of threads that have been called home. No hardware has it.
pub const CALLED_HOME: u64 = 1 << 32;
/// The cause of threads whose hidden hart the firmware has lost.
pub const LOST: u64 = 1 << 32 | 1;

/// Words of a context on harts with vector registers of `vector_len` bytes.
pub const fn context_words(vector_len: usize) -> usize {
    HEADER_WORDS + 4 * vector_len
}
