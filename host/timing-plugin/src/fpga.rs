//! The registers of the FPGA's interfaces (`docs/protocols/fpga.md`), which QEMU takes for memory.

use std::{mem::offset_of, ops::Range};

use motet_coherence::Kind;
use motet_layout::{Fpga, FpgaRegisters, PAGE_SIZE, Pool};
use motet_protocol::fpga::{self, clients};

use crate::Plugin;

/// Where the island has them.
#[derive(Clone)]
pub struct Registers(Range<u64>, &'static Fpga);

impl Registers {
    /// `pool_local`: where the island has the pool. `None`: the machine has no FPGA.
    pub fn of(pool: Pool, pool_local: u64) -> Option<Self> {
        let fpga = fpga::of(pool)?;
        let start = pool_local + fpga.registers.get();
        Some(Self(start..start + u64::from(fpga.interface_count.get()) * PAGE_SIZE, fpga))
    }

    /// Whether an address of the island's memory is a register.
    pub fn has(&self, physical: u64) -> bool {
        self.0.contains(&physical)
    }

    /// A core has accessed a register, which was there at `there_ps`. What it waits besides, in picoseconds.
    pub fn access(&self, plugin: &Plugin, core: usize, kind: Kind, physical: u64, there_ps: u64) -> u64 {
        let register = (physical - self.0.start) % PAGE_SIZE;
        // What the FPGA does before.
        plugin.timing.run_fpga(core, there_ps);
        // A store of 64 bits to the register before it is one to it, too. The first store after a kernel has taken a region connects that.
        let begins = register < offset_of!(FpgaRegisters, over) as u64;
        if kind.is_write() && (begins || clients::has_takings(self.1)) {
            plugin.timing.start_fpga(core, there_ps);
        }
        if kind.is_write() { 0 } else { plugin.timing.managed_ps(there_ps) }
    }
}
