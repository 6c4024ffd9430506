//! The service core of a timed machine (`motet_protocol::service`): the plugin of the core that stores a request executes the operation, on state that all
//! QEMUs share, and the operation takes its time. Devices that are threads make their due steps before anybody asks for something later, and when the
//! machine's time comes to them.

use std::time::{Duration, Instant};

use motet_layout::{
    CORES_PER_ISLAND_MAX, Pool, ServiceCore, is_dead_state,
    sync::{AtomicU64, Ordering::SeqCst},
};
use motet_protocol::service::{self, Device, ThreadIndex, clients, hardware};

use crate::{Bells, Timing};

/// How long a core waits before it asks whether who executes an operation has died. One takes microseconds.
const PATIENCE: Duration = Duration::from_millis(100);

impl<B: Bells> Timing<B> {
    /// A core has stored to a thread's registers; what it asks for reaches the service core at `asked_ps`.
    pub fn serve_service(&self, service: &ServiceCore, core: usize, thread: ThreadIndex, asked_ps: u64) {
        if service::has_request(service, thread) {
            self.note_exchange(asked_ps);
            self.run_hardware(service, core, asked_ps);
            self.while_it_runs(core, || {
                self.be_service(service, core, |service| {
                    let done_ps = service::book(service, asked_ps);
                    let mut device = Device::new(service, done_ps);
                    device.control();
                    device.serve(thread);
                    device
                });
            });
        }
    }

    /// A core's kernel says that it has told the service core something.
    pub fn control_service(&self, service: &ServiceCore, core: usize, now_ps: u64) {
        self.run_hardware(service, core, now_ps);
        self.while_it_runs(core, || {
            self.be_service(service, core, |service| {
                let mut device = Device::new(service, now_ps);
                device.control();
                device
            });
        });
    }

    /// The service core's devices do what is due until `until_ps`; a core executes that.
    pub fn run_hardware(&self, service: &ServiceCore, core: usize, until_ps: u64) {
        let Some(pool) = self.pool.filter(|_| hardware::is_any_busy(service)) else { return };
        self.while_it_runs(core, || {
            while hardware::next(service, until_ps, until_ps).is_some() {
                self.be_hardware(service, core, pool, until_ps);
            }
        });
    }

    /// A core that runs does something that may ring it: in turns, the interrupt is to come now, and not when the host chooses.
    pub(crate) fn while_it_runs(&self, core: usize, act: impl FnOnce()) {
        let rung = || self.record(core).rings_received.load(SeqCst);
        let before = rung();
        act();
        if self.settings().deterministic && rung() != before {
            self.settle(core);
        }
    }

    fn be_hardware(&self, service: &ServiceCore, core: usize, pool: Pool, until_ps: u64) {
        self.be_service(service, core, |service| {
            // Another core may have been faster.
            let next = hardware::next(service, until_ps, until_ps);
            let mut device = Device::new(service, next.map_or(until_ps, |(_, at_ps)| at_ps));
            if let Some((index, _)) = next {
                device.run_hardware(pool, index, u64::MAX);
            }
            device
        });
    }

    /// The machine's time has come to `until_ps`: what its devices do until then, if it has any. Never waits.
    pub(crate) fn run_devices(&self, core: usize, until_ps: u64) {
        self.pass_fpga(core, until_ps);
        let Some((pool, service)) = self.pool.and_then(|pool| Some((pool, service::of(pool)?))) else { return };
        while hardware::next(service, until_ps, until_ps).is_some() {
            self.be_hardware(service, core, pool, until_ps);
        }
    }

    /// When a device does something next, if that is before `before_ps`.
    pub(crate) fn next_of_devices(&self, now_ps: u64, before_ps: u64) -> Option<u64> {
        let service = self.pool.and_then(service::of);
        let step = service.and_then(|service| hardware::next(service, now_ps, before_ps)).map(|(_, at_ps)| at_ps);
        let of_fpga = self.next_of_fpga().filter(|at_ps| *at_ps < before_ps);
        step.into_iter().chain(of_fpga).min()
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
        for target in rings.map(|target| clients::alive(self.records.first(), target)) {
            self.ring_for(core, target, at_ps);
        }
    }

    fn acquire_service(&self, service: &ServiceCore, core: usize) {
        self.acquire(
            core,
            &service.lock,
            |who| service::acquire(service, who),
            |holder, who| service::inherit(service, holder, who),
        );
    }

    /// A core becomes a device, whose word `lock` says who is that: it waits for others, and inherits from who has died.
    pub(crate) fn acquire(
        &self,
        core: usize,
        lock: &AtomicU64,
        acquires: impl Fn(u64) -> bool,
        inherits: impl Fn(u64, u64) -> bool,
    ) {
        let who = core as u64 + 1;
        let mut since = Instant::now();
        while !acquires(who) {
            std::hint::spin_loop();
            if since.elapsed() < PATIENCE {
                continue;
            }
            since = Instant::now();
            let holder = lock.load(SeqCst);
            if self.has_died(holder) && inherits(holder, who) {
                return;
            }
        }
    }

    /// Whether the island of the core that executes an operation has died meanwhile.
    fn has_died(&self, holder: u64) -> bool {
        let island = holder.checked_sub(1).map(|core| core as usize / CORES_PER_ISLAND_MAX);
        let record = island.and_then(|island| self.records.first().islands.get(island));
        record.is_some_and(|record| is_dead_state(record.state.load(SeqCst)))
    }
}
