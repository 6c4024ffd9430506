//! How a thread is scheduled: its policy and real-time priority (sched(7)), as one word of its record.
//!
//! Threads of SCHED_FIFO and SCHED_RR come before all others of their core, by priority; the rest share it as [`crate::ready`] says.

use motet_abi::process::{SCHED_BATCH, SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};
use motet_layout::{ThreadRecord, sync::Ordering};

/// The highest real-time priority; the lowest is 1.
pub const PRIORITY_MAX: u32 = 99;
/// Children begin as ordinary threads (`SCHED_RESET_ON_FORK`).
const RESETS: u32 = 1 << 31;
/// Nice values.
const NICE_MIN: i32 = -20;
const NICE_MAX: i32 = 19;
/// Where the policy is.
const POLICY_SHIFT: u32 = 8;

/// Policy, priority, and what children get of them. Zero is what every thread begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Schedule(u32);

impl Schedule {
    /// `None`: there is no such policy, or it has no such priority. Those of SCHED_FIFO and SCHED_RR have 1 to [`PRIORITY_MAX`], others 0.
    pub fn new(policy: u32, priority: u32, resets_on_fork: bool) -> Option<Self> {
        let is_valid = match policy {
            SCHED_FIFO | SCHED_RR => (1..=PRIORITY_MAX).contains(&priority),
            SCHED_OTHER | SCHED_BATCH | SCHED_IDLE => priority == 0,
            _ => false,
        };
        let resets = if resets_on_fork { RESETS } else { 0 };
        is_valid.then_some(Self(priority | policy << POLICY_SHIFT | resets))
    }

    /// `SCHED_*`.
    pub fn policy(self) -> u32 {
        self.0 >> POLICY_SHIFT & 0xff
    }

    /// 1 to [`PRIORITY_MAX`], the most urgent; 0: ordinary.
    #[inline(always)]
    pub fn priority(self) -> u32 {
        self.0 & 0xff
    }

    /// Whether threads of this policy come before all ordinary ones.
    #[inline(always)]
    pub fn is_realtime(self) -> bool {
        self.priority() != 0
    }

    /// Whether children begin as ordinary ones.
    pub fn resets_on_fork(self) -> bool {
        self.0 & RESETS != 0
    }

    /// What orders threads, the most urgent first: below all nice values for real-time ones, above them for SCHED_IDLE, otherwise the nice value.
    #[inline(always)]
    pub fn rank(self, nice: i32) -> i32 {
        if self.0 == 0 { nice } else { self.rank_of_policy(nice) }
    }

    #[cold]
    fn rank_of_policy(self, nice: i32) -> i32 {
        match (self.priority(), self.policy()) {
            (0, SCHED_IDLE) => NICE_MAX + 1,
            (0, _) => nice,
            (priority, _) => NICE_MIN - priority as i32,
        }
    }
}

/// How a thread is scheduled.
#[inline(always)]
pub fn of(thread: &ThreadRecord) -> Schedule {
    Schedule(thread.schedule.load(Ordering::Relaxed))
}

/// Sets how a thread is scheduled.
pub fn set(thread: &ThreadRecord, schedule: Schedule) {
    thread.schedule.store(schedule.0, Ordering::Relaxed);
}
