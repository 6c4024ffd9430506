//! The registers of the service core (`docs/protocols/service.md`), which QEMU takes for memory.

use std::ops::Range;

use motet_coherence::Kind;
use motet_layout::{Pool, SERVICE_WINDOW_BYTES, ServiceCore};
use motet_machine::ServiceSpec;
use motet_protocol::service::{self, ThreadIndex, hardware};

use crate::Plugin;

/// The machine's service core.
#[derive(Clone)]
pub struct Service {
    pub core: &'static ServiceCore,
    /// Where the island has the registers.
    registers: Range<u64>,
    store_ps: u64,
    request_ps: u64,
    answer_ps: u64,
}

/// Where a window has its request.
const REQUEST: u64 = 0;
/// Where it has its answer.
const ANSWER: Range<u64> = 8..16;

impl Service {
    /// `pool_local`: where the island has the pool.
    pub fn new(pool: Pool, pool_local: u64, spec: &ServiceSpec) -> Option<Self> {
        let core = service::of(pool)?;
        let start = pool_local + pool.addr_of(&core.pages).0;
        Some(Self {
            core,
            registers: start..start + size_of_val(&core.pages) as u64,
            store_ps: spec.store_ns * 1000,
            request_ps: spec.request_ns * 1000,
            answer_ps: spec.answer_ns * 1000,
        })
    }

    /// Whether an address of the island's memory is a register.
    pub fn has(&self, physical: u64) -> bool {
        self.registers.contains(&physical)
    }

    /// A core has accessed a register at `now_ps`: what that costs it, in picoseconds.
    pub fn access(&self, plugin: &Plugin, core: usize, kind: Kind, physical: u64, now_ps: u64) -> u64 {
        let offset = physical - self.registers.start;
        let (Some(thread), register) = (ThreadIndex::at(offset), offset % SERVICE_WINDOW_BYTES) else { return 0 };
        if hardware::is_any_busy(self.core) {
            // What a device does before this core's access.
            plugin.timing.run_hardware(self.core, core, now_ps + self.request_ps);
        }
        if kind.is_write() && register == REQUEST {
            plugin.timing.serve_service(self.core, core, thread, now_ps + self.request_ps);
        }
        if kind == Kind::Store {
            return self.store_ps;
        }
        let asked_ps = now_ps + self.request_ps;
        // The answer is loaded when it is there.
        let ready_ps = if ANSWER.contains(&register) { service::answered_ps(self.core, thread) } else { 0 };
        asked_ps.max(ready_ps) + self.answer_ps - now_ps
    }
}
