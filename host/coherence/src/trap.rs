//! Changes between programs and their kernel, and what they take: whoever drives a core says when there is one.

use crate::Picoseconds;
use crate::config::Traps;
use crate::core::Core;
use crate::counters::Count;

/// What a core does when it changes between programs and its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapEvent {
    /// A fault or an interrupt begins a handler.
    Entry = 0,
    /// A handler ends.
    Exit = 1,
    /// An instruction for system calls that has an entry of its own.
    SyscallEntry = 2,
    /// The instruction that goes with it.
    SyscallExit = 3,
    /// The interrupt controller is told that an interrupt has been handled.
    EndOfInterrupt = 4,
    /// The core wakes, and not by another core's doorbell.
    Wake = 5,
}

impl TrapEvent {
    /// Number of these.
    pub const COUNT: usize = 6;
    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Entry, Self::Exit, Self::SyscallEntry, Self::SyscallExit, Self::EndOfInterrupt, Self::Wake];

    /// What one costs.
    pub const fn cost(self, traps: &Traps) -> Picoseconds {
        Picoseconds(match self {
            Self::Entry => traps.entry_ps,
            Self::Exit => traps.exit_ps,
            Self::SyscallEntry => traps.syscall_entry_ps,
            Self::SyscallExit => traps.syscall_exit_ps,
            Self::EndOfInterrupt => traps.end_of_interrupt_ps,
            Self::Wake => traps.wake_ps,
        })
    }

    const fn count(self) -> Count {
        match self {
            Self::Entry | Self::SyscallEntry => Count::traps,
            Self::Exit | Self::SyscallExit => Count::trap_returns,
            Self::EndOfInterrupt => Count::interrupt_ends,
            Self::Wake => Count::wakes,
        }
    }
}

impl Core<'_> {
    /// What traps and the like took, so many times each.
    pub fn trapped(&mut self, event: TrapEvent, times: u64) -> Picoseconds {
        let Picoseconds(one) = event.cost(&self.timing.traps);
        self.count(event.count(), times);
        self.count(Count::trap_ps, times * one);
        Picoseconds(times * one)
    }
}
