//! What people see of the machine: terminals, the host's streams, and the kernel's own lines there.

pub mod pty;
pub mod streams;
pub mod tty;

use core::fmt;

use motet_hal::Machine;
use motet_layout::{CONSOLE_TERMINAL, HostStream, sync::Ordering};
use motet_protocol::stream::{self, Part, Side};

use crate::cpu::Cpu;
use streams::ring_host_if;
use tty::terminal::Terminal;

/// Whether there may be anything to do for a ring of the host's. What it rings for, it says first.
#[inline(always)]
pub fn may_host_have_rung<M: Machine>(cpu: &Cpu<M>) -> bool {
    let header = cpu.pool.header();
    header.interactive.get() == CONSOLE_TERMINAL
        || header.vms_asked.load(Ordering::Relaxed) != 0
        || header.died.load(Ordering::Relaxed) != 0
        || streams::may_wake(header)
}

/// Says a line to the user: on the terminal, or on the command's standard error. Lines that find no room are dropped, and so are those that come too fast
/// ([`Cpu::say`]).
pub fn kernel_message<M: Machine>(cpu: &Cpu<M>, message: fmt::Arguments<'_>) {
    cpu.say(message, |line| {
        let header = cpu.pool.header();
        if header.interactive.get() == CONSOLE_TERMINAL {
            tty::put(cpu, Terminal::console(cpu), line);
        } else {
            ring_host_if(cpu, stream::produce_bytes(cpu, Side::Machine, &header.console_err, Part::Whole, line));
        }
    });
}

/// The run is over: the host is told that no more output comes.
pub fn flush_host_streams<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    let close = |output: &HostStream| stream::close(output);
    if close(&header.console_out) | close(&header.console_err) {
        cpu.machine.ring_host();
    }
}
