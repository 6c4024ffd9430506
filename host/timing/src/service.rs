//! The service core of a timed machine (`motet_protocol::service`): whoever stores a request executes the operation, on state that all
//! QEMUs share, and the operation takes its time.

use std::time::{Duration, Instant};

use motet_layout::{CORES_PER_ISLAND_MAX, ISLAND_BURIED, ISLAND_LOST, ServiceCore, sync::Ordering::SeqCst};
use motet_protocol::service::{self, Device, ThreadIndex, clients};

use crate::{Bells, Timing};

/// How long a core waits before it asks whether who executes an operation has died. One takes microseconds.
const PATIENCE: Duration = Duration::from_millis(100);

impl<B: Bells> Timing<B> {
    /// A core has stored to a thread's registers; what it asks for reaches the service core at `asked_ps`.
    pub fn serve_service(&self, service: &ServiceCore, core: usize, thread: ThreadIndex, asked_ps: u64) {
        if service::has_request(service, thread) {
            self.note_exchange(asked_ps);
            self.be_service(service, core, |service| {
                let done_ps = service::book(service, asked_ps);
                let mut device = Device::new(service, done_ps);
                device.control();
                device.serve(thread);
                device
            });
        }
    }

    /// A core's kernel says that it has told the service core something.
    pub fn control_service(&self, service: &ServiceCore, core: usize, now_ps: u64) {
        self.be_service(service, core, |service| {
            let mut device = Device::new(service, now_ps);
            device.control();
            device
        });
    }

    fn be_service<'s>(
        &self,
        service: &'s ServiceCore,
        core: usize,
        execute: impl FnOnce(&'s ServiceCore) -> Device<'s>,
    ) {
        self.acquire_service(service, core);
        let device = execute(service);
        let (rings, at_ps) = (device.rings(), device.now_ps());
        service::release(service);
        for target in rings.map(|target| clients::alive(self.header(), target)) {
            self.note_ring_of(core, target.index(), at_ps);
            self.bells().ring(target.index());
        }
    }

    fn acquire_service(&self, service: &ServiceCore, core: usize) {
        let who = core as u64 + 1;
        let mut since = Instant::now();
        while !service::acquire(service, who) {
            std::hint::spin_loop();
            if since.elapsed() < PATIENCE {
                continue;
            }
            since = Instant::now();
            let holder = service.lock.load(SeqCst);
            if self.has_died(holder) && service::inherit(service, holder, who) {
                return;
            }
        }
    }

    /// Whether the island of the core that executes an operation has died meanwhile.
    fn has_died(&self, holder: u64) -> bool {
        let island = holder.checked_sub(1).map(|core| core as usize / CORES_PER_ISLAND_MAX);
        let record = island.and_then(|island| self.header().islands.get(island));
        record.is_some_and(|record| matches!(record.state.load(SeqCst), ISLAND_LOST | ISLAND_BURIED))
    }
}
