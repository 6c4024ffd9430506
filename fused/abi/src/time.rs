//! Time, resource use and limits.

use crate::wire::wire_struct;

wire_struct! {
    /// `struct timespec`.
    Timespec: 16 {
        /// Seconds.
        0 tv_sec: i64,
        /// Nanoseconds, below 1 000 000 000.
        8 tv_nsec: i64,
    }
}

wire_struct! {
    /// `struct timeval`.
    Timeval: 16 {
        /// Seconds.
        0 tv_sec: i64,
        /// Microseconds, below 1 000 000.
        8 tv_usec: i64,
    }
}

const NS_PER_S: u64 = 1_000_000_000;

impl Timespec {
    /// `utimensat`: the current time.
    pub const UTIME_NOW: i64 = (1 << 30) - 1;
    /// `utimensat`: unchanged.
    pub const UTIME_OMIT: i64 = (1 << 30) - 2;

    /// A time in nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 }
    }

    /// A time in nanoseconds that may be before 1970.
    pub const fn from_signed_ns(ns: i64) -> Self {
        Self { tv_sec: ns.div_euclid(NS_PER_S as i64), tv_nsec: ns.rem_euclid(NS_PER_S as i64) }
    }

    /// Nanoseconds since 1970, or before, saturating.
    pub const fn to_signed_ns(self) -> i64 {
        self.tv_sec.saturating_mul(NS_PER_S as i64).saturating_add(self.tv_nsec)
    }

    /// Nanoseconds, saturating; `None` when the fields are out of range (`EINVAL`).
    pub fn to_ns(self) -> Option<u64> {
        let seconds = u64::try_from(self.tv_sec).ok()?;
        let ns = u64::try_from(self.tv_nsec).ok().filter(|&ns| ns < NS_PER_S)?;
        Some(seconds.saturating_mul(NS_PER_S).saturating_add(ns))
    }
}

impl Timeval {
    /// A time in nanoseconds, rounded down.
    pub const fn from_ns(ns: u64) -> Self {
        Self { tv_sec: (ns / NS_PER_S) as i64, tv_usec: (ns % NS_PER_S / 1000) as i64 }
    }

    /// Nanoseconds, saturating; `None` when the fields are out of range (`EINVAL`).
    pub fn to_ns(self) -> Option<u64> {
        let seconds = u64::try_from(self.tv_sec).ok()?;
        let us = u64::try_from(self.tv_usec).ok().filter(|&us| us < 1_000_000)?;
        Some(seconds.saturating_mul(NS_PER_S).saturating_add(us * 1000))
    }
}

wire_struct! {
    /// `struct itimerval`.
    Itimerval: 32 {
        /// Period; zero: once.
        0 it_interval: Timeval,
        /// Time left; zero: off.
        16 it_value: Timeval,
    }
}

wire_struct! {
    /// `struct itimerspec`.
    Itimerspec: 32 {
        /// Period; zero: once.
        0 it_interval: Timespec,
        /// Time left; zero: off.
        16 it_value: Timespec,
    }
}

wire_struct! {
    /// `struct timezone`.
    Timezone: 8 {
        /// Minutes west of Greenwich.
        0 tz_minuteswest: i32,
        /// Kind of summer time.
        4 tz_dsttime: i32,
    }
}

wire_struct! {
    /// `struct tms`, in [`USER_HZ`] ticks.
    Tms: 32 {
        /// In user mode.
        0 tms_utime: i64,
        /// In the kernel.
        8 tms_stime: i64,
        /// Children, in user mode.
        16 tms_cutime: i64,
        /// Children, in the kernel.
        24 tms_cstime: i64,
    }
}

/// Ticks a second of [`Tms`] and `/proc` (`AT_CLKTCK`).
pub const USER_HZ: u64 = 100;

/// Wall-clock time.
pub const CLOCK_REALTIME: u32 = 0;
/// Time since boot.
pub const CLOCK_MONOTONIC: u32 = 1;
/// Processor time of the process.
pub const CLOCK_PROCESS_CPUTIME_ID: u32 = 2;
/// Processor time of the thread.
pub const CLOCK_THREAD_CPUTIME_ID: u32 = 3;
/// Time since boot, undisciplined.
pub const CLOCK_MONOTONIC_RAW: u32 = 4;
/// Wall-clock time, coarse.
pub const CLOCK_REALTIME_COARSE: u32 = 5;
/// Time since boot, coarse.
pub const CLOCK_MONOTONIC_COARSE: u32 = 6;
/// Time since boot, sleep included.
pub const CLOCK_BOOTTIME: u32 = 7;
/// As `CLOCK_REALTIME`, for timers that wake a sleeping system.
pub const CLOCK_REALTIME_ALARM: u32 = 8;
/// As `CLOCK_BOOTTIME`, for timers that wake a sleeping system.
pub const CLOCK_BOOTTIME_ALARM: u32 = 9;
/// International atomic time.
pub const CLOCK_TAI: u32 = 11;
/// `clock_nanosleep`: the time is a moment, not a duration.
pub const TIMER_ABSTIME: u32 = 1;
/// `setitimer`: real time, SIGALRM.
pub const ITIMER_REAL: u32 = 0;
/// `setitimer`: user time, SIGVTALRM.
pub const ITIMER_VIRTUAL: u32 = 1;
/// `setitimer`: processor time, SIGPROF.
pub const ITIMER_PROF: u32 = 2;

wire_struct! {
    /// `struct rusage`.
    Rusage: 144 {
        /// In user mode.
        0 ru_utime: Timeval,
        /// In the kernel.
        16 ru_stime: Timeval,
        /// Most resident memory, KiB.
        32 ru_maxrss: i64,
        /// Page faults without input/output.
        64 ru_minflt: i64,
        /// Page faults with.
        72 ru_majflt: i64,
        /// Block inputs.
        88 ru_inblock: i64,
        /// Block outputs.
        96 ru_oublock: i64,
        /// Times it gave the core up.
        128 ru_nvcsw: i64,
        /// Times the core was taken.
        136 ru_nivcsw: i64,
    }
}

/// `getrusage`: the process.
pub const RUSAGE_SELF: i32 = 0;
/// `getrusage`: its dead children.
pub const RUSAGE_CHILDREN: i32 = -1;
/// `getrusage`: the thread.
pub const RUSAGE_THREAD: i32 = 1;

wire_struct! {
    /// `struct rlimit`.
    Rlimit: 16 {
        /// In force.
        0 rlim_cur: u64,
        /// Ceiling.
        8 rlim_max: u64,
    }
}

/// No limit.
pub const RLIM_INFINITY: u64 = u64::MAX;
/// Number of resources.
pub const RLIM_NLIMITS: usize = 16;
/// Processor time, seconds.
pub const RLIMIT_CPU: usize = 0;
/// File size.
pub const RLIMIT_FSIZE: usize = 1;
/// Data segment.
pub const RLIMIT_DATA: usize = 2;
/// Stack.
pub const RLIMIT_STACK: usize = 3;
/// Core file.
pub const RLIMIT_CORE: usize = 4;
/// Resident memory.
pub const RLIMIT_RSS: usize = 5;
/// Processes.
pub const RLIMIT_NPROC: usize = 6;
/// Open files.
pub const RLIMIT_NOFILE: usize = 7;
/// Locked memory.
pub const RLIMIT_MEMLOCK: usize = 8;
/// Address space.
pub const RLIMIT_AS: usize = 9;
/// `rlimit`: queued signals.
pub const RLIMIT_SIGPENDING: usize = 11;
/// Resource: bytes of POSIX message queues of a user.
pub const RLIMIT_MSGQUEUE: usize = 12;
