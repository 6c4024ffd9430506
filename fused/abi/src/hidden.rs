//! The firmware's extension of the SBI for harts that only the firmware has: its numbers, and the layout of a thread's context
//! (docs/firmware.md, "Calls for supervisors"). Kernels and the firmware share them.

/// The extension's number, of those for experiments: "MOT".
pub const EXTENSION: usize = 0x084d_4f54;

/// Answers what there is: one of the numbers below.
pub const DESCRIBE: usize = 0;
/// 1: the supervisor sees to its programs' illegal instructions itself; 0: the firmware sends vector instructions to hidden harts. Whether
/// traps of illegal instructions go past the firmware changes on the calling hart, and on those that start later. The one call that there is without hidden
/// harts.
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

/// Takes a hidden hart out of use (number among all hidden harts, 0), or has it back (number, 1). Answers 1: it is done; 0: the hart has a thread
/// still, which comes home: ask again.
pub const EMPLOY: usize = 7;

/// Hidden harts that are not lost.
pub const HIDDEN_HARTS: usize = 0;
/// Bytes of a vector register.
pub const VECTOR_BYTES: usize = 1;
/// Bytes of a context.
pub const CONTEXT_BYTES: usize = 2;
/// Places for threads.
pub const PLACES: usize = 3;
/// Hidden harts that are in use and not lost.
pub const EMPLOYED: usize = 4;

/// Places that supervisors send threads from.
pub const PLACES_MAX: usize = 16;

/// The first word of a context: "MOTCTX" and the version of its layout.
pub const FORMAT: u64 = 0x4d4f_5443_5458_0002;
/// Bytes of a vector register.
pub const VECTOR_LEN: usize = 1;
/// `pc`.
pub const COUNTER: usize = 2;
/// Why the thread came home, as in `scause`.
pub const CAUSE: usize = 3;
/// `stval`.
pub const VALUE: usize = 4;
/// Address of `x1` to `x31`.
pub const REGISTERS: usize = 5;
/// Address of `f0` to `f31`, and `fcsr`.
pub const FLOATS: usize = 6;
/// Address of `vstart`, `vtype`, `vl`, `vcsr`.
pub const VECTOR_CONTROL: usize = 7;
/// Addresses of `v0`, `v8`, `v16` and `v24`, each with the seven registers behind it.
pub const VECTORS: usize = 8;
/// Address of the stamp of 32 bits that says when vector registers are written, and is odd meanwhile; 0: there is none.
pub const STAMP: usize = 12;
/// Words of a context.
pub const CONTEXT_WORDS: usize = 13;

/// The cause of threads that have been called home. No hardware has it.
pub const CALLED_HOME: u64 = 1 << 32;
/// The cause of threads whose hidden hart the firmware has lost.
pub const LOST: u64 = 1 << 32 | 1;
/// The cause of threads that have been called home because their hidden hart is taken out.
pub const REMOVED: u64 = 1 << 32 | 2;
