//! Calls across instruction sets: the record of what a call has to come back to, and where the thread is meanwhile.

use crate::{Cell32, Cell64, UserFrame, pool_struct};

pool_struct! {
    /// A thread that runs on another ISA than its own, on a machine that calls as Flick does: a frame near the core that runs it.
    pub struct MigrationContext: size 4096, align 64 {
        /// Its registers there while it does not run.
        0 pub frame: UserFrame,
        /// Whose it is: the thread (pool address).
        2048 pub thread: Cell64,
        /// The core that waits for it.
        2056 pub home: Cell32,
        /// 1: it waits for a system call that its home core makes for it; 0: it does not.
        2060 pub waits_for_call: Cell32,
        /// The function that its migration handler is to call.
        2064 pub migrates_to: Cell64,
        /// The top of its stack.
        2072 pub stack: Cell64,
        2080 _pad0: [Cell64; 252],
    }
}

/// In [`CrossingRecord::result`]: the call was made by a system call. No call instruction has been executed, and what lies below the
/// caller's stack pointer may be in use (the red zone).
pub const BY_SYSTEM_CALL: u64 = 1 << 12;

pool_struct! {
    /// A call from one ISA (or island) to another that has not returned: what the caller needs to go on. Written by the
    /// core that makes the call, read by the one that ends it; the thread owns it.
    pub struct CrossingRecord: size 384, align 64 {
        /// The call that this one was made in (pool address), 0: none.
        0 pub outer: Cell64,
        /// [`Isa`](crate::Isa) of the caller.
        8 pub caller_isa: Cell32,
        /// [`Isa`](crate::Isa) of the function called.
        12 pub callee_isa: Cell32,
        /// Core that the caller ran on.
        16 pub caller_core: Cell32,
        /// Core that was chosen for the function.
        20 pub callee_core: Cell32,
        /// The function.
        24 pub function: Cell64,
        /// Where the caller goes on.
        32 pub return_pc: Cell64,
        /// The caller's stack pointer when it goes on.
        40 pub caller_sp: Cell64,
        /// The caller's thread pointer.
        48 pub caller_tls: Cell64,
        /// The stack pointer with which the function returns.
        56 pub callee_sp: Cell64,
        /// [`ThreadRecord::stack_used`](crate::ThreadRecord::stack_used) of the caller's ISA before the call.
        64 pub outer_used: Cell64,
        /// How the function's result is passed (`motet_abi::fat::Signature::result`), and [`BY_SYSTEM_CALL`].
        72 pub result: Cell64,
        /// A caller that called back: which of its core's frames its registers are in, unless that has had others since.
        80 pub frame: Cell64,
        /// 1: `saved` and `saved_float` hold the caller's registers; 0: they are still in the thread's frame.
        88 pub is_saved: Cell32,
        /// 1: the function runs on the caller's own ISA, though it is pinned to another.
        92 pub is_local: Cell32,
        /// Whose it is: the thread (pool address). Otherwise it is free, or what said that it is a record is damaged.
        96 pub owner: Cell64,
        /// Calls that the thread was in before this one.
        104 pub depth: Cell64,
        /// 1 + the kernel that the caller ran in; 0: this one.
        112 pub caller_node: Cell32,
        /// 1 + the kernel that runs the function; 0: this one.
        116 pub callee_node: Cell32,
        120 _pad1: Cell64,
        /// Integer registers that the caller's ISA preserves over calls, in the order of `motet_abi::convention`.
        128 pub saved: [Cell64; 16],
        /// Floating-point registers that it preserves.
        256 pub saved_float: [Cell64; 16],
    }
}
