//! What the kernel implements; `docs/syscalls.md` is generated from this list.

use crate::Syscall;

/// The system calls the kernel answers with more than `ENOSYS`.
pub const IMPLEMENTED: &[Syscall] = &[];
