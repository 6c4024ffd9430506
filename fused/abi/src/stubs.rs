//! The page of instructions that the kernel maps into programs: *stubs* that make system calls of the kernel's own. Each ISA has its
//! own ones, at addresses of their own, so the page is the same on all islands.
//!
//! | from, in bytes | each ISA has | what |
//! |---|---|---|
//! | 0 | 64 | the end of signal handlers ([`sigframe::return_code`](crate::sigframe::return_code)) |
//! | 0x200 | 64 | the end of functions that another ISA has called ([`gate`](crate::gate)) |
//! | 0x400 | 512 | Flick's handler ([`migration`](crate::migration)) |

use motet_layout::Isa;

/// Where it is mapped.
pub const PAGE: u64 = 0x7fff_bfff_f000;
/// The part with ends of functions, and that with Flick's handlers.
const GATES: u64 = PAGE + 0x200;
const HANDLERS: u64 = PAGE + 0x400;

/// Where handlers without a restorer of their own return to.
pub const fn signal_return(isa: Isa) -> u64 {
    PAGE + 64 * isa as u64
}

/// Where functions that another ISA has called return to.
pub const fn gate(isa: Isa) -> u64 {
    GATES + GATE_LEN * isa as u64
}

/// Longest [`gate`]: a cache line.
pub const GATE_LEN: u64 = 64;

/// Flick's handler.
pub const fn handler(isa: Isa) -> u64 {
    HANDLERS + HANDLER_LEN * isa as u64
}

/// Longest [`handler`].
pub const HANDLER_LEN: u64 = 512;
