//! What "Fast Thread Migration" says.

/// Cycles that a migration from the accelerator and back adds to a system call (Table 2).
pub const MIGRATION_CYCLES: f64 = 3536.0;
/// Cycles of a system call there (Table 2).
pub const GETPID_AWAY_CYCLES: f64 = 4524.0;
/// Cycles of a system call at home (Table 2).
pub const GETPID_HOME_CYCLES: f64 = 988.0;
/// Time of the product, over that of a pinned thread (section 5.4: 27 % faster).
pub const DGEMM_OVER_PINNED: f64 = 0.73;
/// The same with 14 system calls in it (section 5.4: 34 % longer).
pub const CALLS_OVER_PINNED: f64 = 1.34;
/// The same of 1000 products (section 5.4: almost identical).
pub const REPEATED_OVER_PINNED: f64 = 1.0;
/// Times that a migration is faster than by `sched_setaffinity` (section 5.2).
pub const FASTER_THAN_PINNING: f64 = 2.1;
