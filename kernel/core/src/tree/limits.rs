//! What processes are limited to (getrlimit(2)).

use motet_layout::ProcessRecord;

/// What processes are limited in (`RLIMIT_*`, in order), and in which unit: the words of `/proc/PID/limits`.
pub const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

/// Bytes that the stack of a process may have, unless that is changed (`RLIMIT_STACK`).
pub const STACK_DEFAULT: u64 = 8 << 20;

/// What a process is limited to: the soft limit of a resource (`RLIMIT_*`).
#[inline(always)]
pub fn limit_of(process: &ProcessRecord, resource: usize) -> u64 {
    process.limits[2 * resource].get()
}

/// The hard limit of a resource, up to which a process may raise the soft one.
pub fn hard_limit_of(process: &ProcessRecord, resource: usize) -> u64 {
    process.limits[2 * resource + 1].get()
}
