//! Messages about calls that go wrong.

use core::fmt;

use motet_hal::Machine;
use motet_layout::{ProcessRecord, ThreadRecord};

use super::Fetch;
use crate::{chain::backtrace, console, cpu::Cpu, process::exit, signal};

/// Ends a process whose thread has used a crossing in an impossible way.
pub fn kill<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    what: fmt::Arguments<'_>,
) -> Fetch {
    say_killed(cpu, thread, process, what);
    exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    Fetch::Gone
}

/// Prints why a process ends, and in which calls it is.
pub fn say_killed<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    what: fmt::Arguments<'_>,
) {
    console::kernel_message(cpu, format_args!("process {} is killed: {what}", process.pid.get()));
    backtrace(cpu, thread, process);
}
