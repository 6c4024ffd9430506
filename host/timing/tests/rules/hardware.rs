//! Devices that are threads: time goes to their next step when all sleep, and they go first before whoever asks later.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

use motet_layout::{
    HARDWARE_DONE, HARDWARE_TAKEN, ISLAND_JOINED, PAGE_SIZE, Pool, PoolAddr, SERVICE_USED, ServiceCore,
    sync::Ordering::SeqCst,
};
use motet_protocol::service::{ThreadIndex, hardware};
use motet_timing::Timing;

use crate::world::{Handle, Side, World};

const US: u64 = 1_000_000;
const AT: PoolAddr = PoolAddr(16 << 20);
const START_PS: u64 = 5 * US;
const OPERATION_PS: u64 = 2 * US;

/// A machine with two cores and a device. The device may use no memory, so it ends with its first step.
struct Rig {
    world: World,
    core: &'static ServiceCore,
    timing: Timing<Handle>,
}

impl Rig {
    fn new() -> Self {
        let world = World::started(&[2], Side::InTurns);
        world.header.islands[0].state.store(ISLAND_JOINED, SeqCst);
        let pool = pool(24 << 20);
        pool.header().service.set(AT.0);
        let core = pool.at::<ServiceCore>(AT);
        core.clients.set(1);
        core.operation_ps.set(OPERATION_PS);
        core.control[0].owner.set(7);
        core.control[0].state.store(SERVICE_USED, SeqCst);
        core.control[0].windows.store(1, SeqCst);
        let timing = Timing::new(world.region, world.header, world.bells.clone()).unwrap().with_pool(pool);
        Self { world, core, timing }
    }

    /// A core's kernel makes the device a thread; it rings the other core when it is done.
    fn begin(&self, now_ps: u64) {
        let device = &self.core.hardware[0];
        device.state.store(HARDWARE_TAKEN, SeqCst);
        device.start_ps.set(START_PS);
        device.thread.set(ThreadIndex::new(0, 0).unwrap().raw());
        device.owner.set(7);
        device.core.set(1);
        device.table.set(u64::MAX);
        hardware::begin(self.core, device);
        self.timing.control_service(self.core, 0, now_ps);
    }

    fn is_done(&self) -> bool {
        self.core.hardware[0].state.load(SeqCst) == HARDWARE_DONE
    }

    fn sleep(&self, now_ps: u64) {
        self.timing.sleep(1, now_ps);
        self.timing.sleep(0, now_ps);
    }
}

pub fn pool(len: u64) -> Pool {
    let layout = Layout::from_size_align(len as usize, PAGE_SIZE as usize).unwrap();
    // SAFETY: the layout is not empty; the memory is never freed.
    unsafe {
        let base = alloc_zeroed(layout);
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Pool::new(base, len)
    }
}

#[test]
fn when_all_cores_sleep_time_goes_to_a_devices_step() {
    let rig = Rig::new();
    rig.begin(10 * US);
    assert!(!rig.is_done());
    rig.sleep(11 * US);
    assert!(rig.is_done());
    assert_eq!(rig.world.bells.rung(), [1]);
    // Its last request takes an operation.
    assert_eq!(rig.world.record(1).rung_at_ns.load(SeqCst), (10 * US + START_PS + OPERATION_PS) / 1000);
    assert_eq!(rig.world.region.now_ps.load(SeqCst), 10 * US + START_PS);
}

#[test]
fn an_alarm_before_that_comes_first() {
    let rig = Rig::new();
    rig.begin(10 * US);
    rig.world.record(0).alarm_ns.store(14_000, SeqCst);
    rig.sleep(11 * US);
    assert!(!rig.is_done());
    assert_eq!((rig.world.bells.rung(), rig.world.region.now_ps.load(SeqCst)), (vec![0], 14 * US));
}

#[test]
fn who_asks_later_finds_the_step_made_and_who_asks_earlier_does_not() {
    let rig = Rig::new();
    rig.begin(10 * US);
    rig.timing.run_hardware(rig.core, 0, 10 * US + START_PS - 1);
    assert!(!rig.is_done());
    rig.timing.run_hardware(rig.core, 0, 30 * US);
    assert!(rig.is_done());
    // At its own time, not at that of who asks.
    assert_eq!(rig.world.record(1).rung_at_ns.load(SeqCst), (10 * US + START_PS + OPERATION_PS) / 1000);
}
