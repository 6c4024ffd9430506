//! Shared by the guest programs, the counting plugin and the experiments: which system calls are measured, how often, and the marks around them. For the
//! programs, also system calls without a library.
//!
//! The programs use nothing but system calls, so that the same bytes run on Linux and on Motet and cost the same
//! outside the kernel.
#![no_std]

#[cfg(feature = "counted")]
extern crate std;

pub mod cores;
#[cfg(feature = "counted")]
pub mod counted;
pub use motet_layout::{Isa, marks};
#[cfg(feature = "guest")]
pub mod roi;
#[cfg(feature = "guest")]
pub mod system;

/// One measured operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Snake case; metrics begin with it.
    pub name: &'static str,
    /// Executed before anything is counted: caches, allocators and copied pages have settled afterwards.
    pub warm_up: u32,
    /// Batches, which are counted one by one. Rare events such as timer ticks do not affect the median of all.
    pub batches: u32,
    /// Executions in a batch: enough that each has its share of regular extra work. (Every 48th system call on Linux
    /// computes random numbers for the offset of the kernel's stack.)
    pub iterations: u32,
}

/// `getpid()`.
pub const GETPID: Operation = Operation { name: "getpid", warm_up: 1000, batches: 100, iterations: 100 };
/// `read` of one byte from `/dev/null`, which has none.
pub const READ_NULL: Operation = Operation { name: "read_null", warm_up: 1000, batches: 100, iterations: 100 };
/// `clock_gettime` of the monotonic clock: the system call itself, which Linux's libraries avoid (vDSO).
pub const CLOCK_GETTIME: Operation = Operation { name: "clock_gettime", warm_up: 1000, batches: 100, iterations: 100 };
/// One byte to another process and one back, over two pipes.
pub const PIPE_ROUND_TRIP: Operation =
    Operation { name: "pipe_round_trip", warm_up: 200, batches: 100, iterations: 20 };
/// A child that exits at once, and waiting for it.
pub const FORK_EXIT_WAIT: Operation = Operation { name: "fork_exit_wait", warm_up: 50, batches: 60, iterations: 10 };
/// `openat` of `/dev/null`, and `close`.
pub const OPEN_CLOSE: Operation = Operation { name: "open_close", warm_up: 1000, batches: 100, iterations: 50 };
/// `newfstatat` of `/dev/null`.
pub const STAT: Operation = Operation { name: "stat", warm_up: 1000, batches: 100, iterations: 50 };
/// `pread64` of 4 KiB of a file in memory.
pub const READ_PAGE: Operation = Operation { name: "read_page", warm_up: 1000, batches: 100, iterations: 50 };
/// A page of anonymous memory: `mmap`, the first store to it, `munmap`.
pub const MAP_TOUCH_UNMAP: Operation =
    Operation { name: "map_touch_unmap", warm_up: 500, batches: 100, iterations: 20 };
/// A signal that a process sends itself: `kill`, the handler, `rt_sigreturn`.
pub const SIGNAL: Operation = Operation { name: "signal", warm_up: 500, batches: 100, iterations: 20 };
/// A process wakes another that waits for a futex of both, and waits for the answer.
pub const FUTEX_ROUND_TRIP: Operation =
    Operation { name: "futex_round_trip", warm_up: 200, batches: 100, iterations: 20 };
/// One byte to another process and one back, over a pair of stream sockets of the UNIX domain.
pub const SOCKET_ROUND_TRIP: Operation =
    Operation { name: "socket_round_trip", warm_up: 200, batches: 100, iterations: 20 };

/// All operations, in the order in which `calls` executes them. The batches of operation `i` lie between mark `2 * i`
/// and mark `2 * i + 1`.
pub const OPERATIONS: [Operation; 12] = [
    GETPID,
    READ_NULL,
    PIPE_ROUND_TRIP,
    FORK_EXIT_WAIT,
    CLOCK_GETTIME,
    OPEN_CLOSE,
    STAT,
    READ_PAGE,
    MAP_TOUCH_UNMAP,
    SIGNAL,
    FUTEX_ROUND_TRIP,
    SOCKET_ROUND_TRIP,
];
const _: () = assert!(OPERATIONS.len() * 2 <= marks::MEASURED_MAX as usize);

/// `stream` reads and writes this much at a time, in bytes.
pub const CHUNK_SIZE: usize = 64 << 10;
