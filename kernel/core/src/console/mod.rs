//! What people see of the machine: the terminal, the host's streams, and the kernel's own lines there.

pub mod streams;
pub mod tty;

use core::fmt;

use motet_hal::Machine;
use motet_layout::{CONSOLE_TERMINAL, HostStream, sync::Ordering};
use motet_protocol::stream::{self, Part, Side};

use crate::cpu::Cpu;
use streams::ring_host_if;

/// Whether there may be anything to do for a ring of the host's. What it rings for, it says first.
#[inline(always)]
pub fn may_host_have_rung<M: Machine>(cpu: &Cpu<M>) -> bool {
    let header = cpu.pool.header();
    header.interactive.get() == CONSOLE_TERMINAL
        || header.vms_asked.load(Ordering::Relaxed) != 0
        || header.died.load(Ordering::Relaxed) != 0
        || streams::may_wake(header)
}

/// Says a line to the user: on the terminal, or on the command's standard error.
pub fn kernel_message<M: Machine>(cpu: &Cpu<M>, message: fmt::Arguments<'_>) {
    struct Output<'a, M: Machine>(&'a Cpu<M>);
    impl<M: Machine> fmt::Write for Output<'_, M> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let header = self.0.pool.header();
            if header.interactive.get() == CONSOLE_TERMINAL {
                tty::put(self.0, text.as_bytes());
            } else {
                let moved =
                    stream::produce_bytes(self.0, Side::Machine, &header.console_err, Part::Fitting, text.as_bytes());
                ring_host_if(self.0, moved);
            }
            Ok(())
        }
    }
    // Output that finds no room is dropped; nothing here fails.
    let _ = fmt::write(&mut Output(cpu), format_args!("motet: {message}\n"));
}

/// The run is over: the host is told that no more output comes.
pub fn flush_host_streams<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    let close = |output: &HostStream| stream::close(output);
    if close(&header.console_out) | close(&header.console_err) {
        cpu.machine.ring_host();
    }
}
