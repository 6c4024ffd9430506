//! One core of the kernel: what every operation is given to act with.

use motet_hal::Machine;
use motet_layout::{CoreId, Pool};
use motet_protocol::{Context, shootdown};

/// A core of this island, running the kernel. Lives on the core's stack.
pub struct Cpu<M: Machine> {
    /// The machine under this island.
    pub machine: &'static M,
    /// The pool.
    pub pool: Pool,
    /// This core.
    pub id: CoreId,
    /// Machine clock minus [`Machine::counter_ns`], in nanoseconds (wrapping).
    pub clock_offset_ns: u64,
}

impl<M: Machine> Cpu<M> {
    /// Nanoseconds on the machine's clock, the same on all islands.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.machine.counter_ns().wrapping_add(self.clock_offset_ns)
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub fn realtime_ns(&self) -> u64 {
        self.now_ns() + self.pool.header().realtime_at_zero_ns.get()
    }

    /// Writes a line to the island's diagnostic console.
    pub fn log(&self, line: core::fmt::Arguments<'_>) {
        struct Console<'a, M: Machine>(&'a M);
        impl<M: Machine> core::fmt::Write for Console<'_, M> {
            fn write_str(&mut self, text: &str) -> core::fmt::Result {
                self.0.log(text.as_bytes());
                Ok(())
            }
        }
        // Writing to the console cannot fail.
        let _ = core::fmt::write(&mut Console(self.machine), format_args!("motet: {line}\n"));
    }
}

impl<M: Machine> Context for Cpu<M> {
    #[inline(always)]
    fn core(&self) -> CoreId {
        self.id
    }

    #[inline(always)]
    fn pool(&self) -> Pool {
        self.pool
    }

    fn relax(&self) {
        shootdown::serve(self, || self.machine.flush_user());
        self.machine.relax();
    }

    fn ring(&self, target: CoreId) {
        self.machine.ring(target);
    }
}
