//! The service core of machines that are not timed: one thread of the host, which polls all registers in turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use motet_error::Result;
use motet_layout::{
    CoreId, HARDWARE_FREE, PAGE_SHIFT, Pool, PoolAddr, SERVICE_FREE, SERVICE_HARDWARE, SERVICE_WINDOWS, ServiceCore,
};
use motet_protocol::{
    Context as _,
    memory::frame_record,
    service::{self, Device, ThreadIndex, clients, hardware},
};

use crate::{
    Doorbells, HostPool,
    device_thread::{self, DeviceThread},
};
use motet_machine::{HardwareSpec, ServiceSpec};

/// Who executes operations here: not 0.
const HOST: u64 = u64::MAX;
/// For how long it looks at the registers without a pause after something was asked.
const AWAKE: Duration = Duration::from_micros(50);
/// Pauses between its looks when nothing is asked, at first and at most: a host has fewer cores than its machines.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(500)];

/// Pieces of a device's computation between two looks: a fraction of a millisecond.
const PIECES: u64 = 512;

/// Bytes of the service core's registers and tables.
pub const LEN: u64 = size_of::<ServiceCore>() as u64;

/// Makes a service core and its devices at a place in the pool of a machine with so many islands.
pub fn lay_out(pool: Pool, spec: &ServiceSpec, hardware: &[HardwareSpec], islands: usize, at: PoolAddr) {
    let Some(core) = pool.get::<ServiceCore>(at) else { return };
    core.mutexes.set(spec.mutexes);
    core.barriers.set(spec.barriers);
    core.clients.set(spec.clients);
    core.ports.set(spec.ports);
    core.islands.set((1 << islands) - 1);
    core.operation_ps.set(spec.operation_ns * 1000);
    for (spec, device) in hardware.iter().zip(&core.hardware) {
        device.does.set(spec.does);
        device.element_ps.set(spec.element_ns * 1000);
        device.memory_ps.set(spec.memory_ns * 1000);
        device.start_ps.set(spec.start_ns * 1000);
        device.state.store(HARDWARE_FREE, Ordering::Relaxed);
    }
    for page in 0..core.pages.len() {
        // Its own reference: registers are no memory that could become free.
        frame_record(pool, clients::frame(pool, core, page)).refs.store(1, Ordering::Relaxed);
    }
    debug_assert_eq!(at.0 >> PAGE_SHIFT << PAGE_SHIFT, at.0);
    pool.header().service.set(at.0);
}

/// Starts the thread, if the machine has a service core.
///
/// # Errors
/// The host refuses a thread.
pub fn start(pool: &HostPool, bells: &Arc<Doorbells>) -> Result<Option<DeviceThread>> {
    let ring = device_thread::ring(pool, bells);
    let pool = pool.pool();
    let Some(core) = service::of(pool) else { return Ok(None) };
    DeviceThread::start("service", move |stop| serve_until(pool, core, stop, ring)).map(Some)
}

fn serve_until(pool: Pool, core: &'static ServiceCore, stop: &AtomicBool, ring: impl Fn(CoreId)) {
    let (mut asked, mut pause) = (Instant::now(), PAUSES[0]);
    while !stop.load(Ordering::SeqCst) {
        match look(pool, core, &ring) {
            Looked::Served => (asked, pause) = (Instant::now(), PAUSES[0]),
            Looked::Idle if asked.elapsed() < AWAKE => std::hint::spin_loop(),
            Looked::Idle => {
                std::thread::park_timeout(pause);
                pause = (pause * 2).min(PAUSES[1]);
            }
            Looked::Unused => std::thread::park(),
        }
    }
}

/// What a look at all registers has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looked {
    /// Something was asked.
    Served,
    /// Nothing was.
    Idle,
    /// There is nobody who could ask.
    Unused,
}

/// Looks at all registers once, and lets devices go on.
fn look(pool: Pool, core: &'static ServiceCore, ring: impl Fn(CoreId)) -> Looked {
    if !service::acquire(core, HOST) {
        return Looked::Idle; // nobody else is the core; a damaged word
    }
    let mut device = Device::new(core, 0);
    device.control();
    let mut looked = Looked::Unused;
    for (number, client) in core.control.iter().enumerate() {
        if client.state.load(Ordering::SeqCst) == SERVICE_FREE {
            continue;
        }
        let windows = client.windows.load(Ordering::SeqCst);
        for window in (0..SERVICE_WINDOWS).filter(|window| windows >> window & 1 != 0) {
            let is_served = ThreadIndex::new(number, window).is_some_and(|thread| device.serve(thread));
            looked = if is_served || looked == Looked::Served { Looked::Served } else { Looked::Idle };
        }
        looked = if looked == Looked::Unused { Looked::Idle } else { looked };
    }
    for index in (0..SERVICE_HARDWARE).filter(|_| hardware::is_any_busy(core)) {
        if device.run_hardware(pool, index, PIECES) {
            looked = Looked::Served;
        }
    }
    let rings = device.rings();
    service::release(core);
    rings.for_each(ring);
    looked
}
