//! The FPGA: its events happen at their time, also when all sleep; its manager takes the time of whose kernel asks; its interrupts arrive as doorbells do.

use motet_accelerators::Kind;
use motet_layout::{Fpga, FpgaInterface, ISLAND_JOINED, Pool, PoolAddr, sync::Ordering::SeqCst};
use motet_protocol::fpga::{AcceleratorId, InterfaceId, Status, clients, registers, signature};
use motet_timing::Timing;

use crate::{
    hardware::pool,
    world::{Handle, Side, World},
};

const US: u64 = 1_000_000;
const AT: PoolAddr = PoolAddr(16 << 20);
const REGISTERS: PoolAddr = PoolAddr(20 << 20);
const DATA: PoolAddr = PoolAddr(21 << 20);
const SEARCH_PS: u64 = 3 * US;
const LOAD_PS: u64 = 50 * US;
const PORT_PS: u64 = US;
const FRAME_PS: u64 = 20 * US;
const EXPIRE_PS: u64 = 1000 * US;
const DOORBELL_NS: u64 = 2000;

/// A machine with two cores and a region that QAM-16 fits into. The client's core is the second one.
struct Rig {
    world: World,
    fpga: &'static Fpga,
    timing: Timing<Handle>,
    pool: Pool,
    client: InterfaceId,
}

impl Rig {
    fn new() -> Self {
        let world = World::started(&[2], Side::InTurns);
        world.header.islands[0].state.store(ISLAND_JOINED, SeqCst);
        world.header.islands[0].doorbell_ns[0].set(DOORBELL_NS as u32);
        let pool = pool(24 << 20);
        pool.header().fpga.set(AT.0);
        let fpga = pool.at::<Fpga>(AT);
        fpga.region_count.set(1);
        fpga.accelerator_count.set(1);
        fpga.interface_count.set(1);
        fpga.port_kib_ps.set(LOAD_PS);
        fpga.expire_ps.set(EXPIRE_PS);
        fpga.data_bytes.set(16 << 10);
        fpga.registers.set(REGISTERS.0);
        fpga.data.set(DATA.0);
        fpga.manager_search_ps.set(SEARCH_PS);
        fpga.manager_port_ps.set(PORT_PS);
        let accelerator = &fpga.accelerators[0];
        accelerator.kind.set(Kind::Qam16 as u32);
        accelerator.frame_ps.set(FRAME_PS);
        accelerator.bitstreams[0].bytes.set(1024);
        accelerator.bitstreams[0].signature.set(signature(0, 0, 0, 1024));
        let timing = Timing::new(world.region, world.header, world.bells.clone()).unwrap().with_pool(pool);
        let accelerator = AcceleratorId::new(0).unwrap();
        let client = clients::Client { owner: 1, user: 0, accelerator, core: 1, priority: 0, inode: PoolAddr::NULL };
        let client = clients::open(fpga, &client).unwrap();
        Self { world, fpga, timing, pool, client }
    }

    fn interface(&self) -> &'static FpgaInterface {
        &self.fpga.interfaces[self.client.index()]
    }

    /// The first core's kernel tells that a store has trapped: how long the manager takes.
    fn ask(&self, now_ps: u64) -> u64 {
        clients::ask(self.fpga, self.interface(), 0);
        self.timing.control_fpga(0, now_ps)
    }

    fn sleep(&self, now_ps: u64) {
        self.timing.sleep(1, now_ps);
        self.timing.sleep(0, now_ps);
    }

    fn is_connected(&self) -> bool {
        self.interface().connected.load(SeqCst) != 0
    }

    fn rung_at_ns(&self) -> u64 {
        self.world.record(1).rung_at_ns.load(SeqCst)
    }
}

/// When a region is ready for who has asked at `asked_ps`.
const fn ready_ps(asked_ps: u64) -> u64 {
    asked_ps + SEARCH_PS + LOAD_PS + PORT_PS
}

#[test]
fn when_all_cores_sleep_time_goes_to_what_regions_do() {
    let rig = Rig::new();
    assert_eq!(rig.ask(10 * US), SEARCH_PS, "the core that asks waits for the manager");
    assert!(!rig.is_connected() && rig.world.bells.rung().is_empty());
    rig.sleep(14 * US);
    assert!(rig.is_connected());
    assert_eq!(rig.world.bells.rung(), [1]);
    assert_eq!(rig.rung_at_ns(), ready_ps(10 * US) / 1000 + DOORBELL_NS);
    assert_eq!(rig.world.region.now_ps.load(SeqCst), ready_ps(10 * US) - PORT_PS);
}

#[test]
fn an_alarm_before_that_comes_first() {
    let rig = Rig::new();
    rig.ask(10 * US);
    rig.world.record(0).alarm_ns.store(20_000, SeqCst);
    rig.sleep(14 * US);
    assert!(!rig.is_connected());
    assert_eq!((rig.world.bells.rung(), rig.world.region.now_ps.load(SeqCst)), (vec![0], 20 * US));
}

#[test]
fn frames_end_at_their_time_and_not_when_somebody_looks() {
    let rig = Rig::new();
    rig.ask(10 * US);
    let ready_ps = ready_ps(10 * US);
    rig.timing.run_fpga(0, ready_ps - PORT_PS - 1);
    assert!(!rig.is_connected());
    rig.timing.run_fpga(0, ready_ps);
    assert!(rig.is_connected());
    let registers = registers(rig.pool, rig.fpga, rig.client).unwrap();
    registers.data_size.store(100, SeqCst);
    registers.custom[0].store(4096, SeqCst);
    registers.interrupt_control.store(1, SeqCst);
    registers.start.store(1, SeqCst);
    let started_ps = ready_ps + 5 * US;
    rig.world.record(1).rung_at_ns.store(0, SeqCst);
    rig.timing.start_fpga(0, started_ps);
    assert_eq!(registers.status.load(SeqCst), Status::Running.word());
    rig.timing.run_fpga(0, started_ps + FRAME_PS - 1);
    assert_eq!((registers.over.load(SeqCst), rig.rung_at_ns()), (0, 0));
    rig.timing.run_fpga(0, started_ps + 100 * FRAME_PS);
    assert_eq!((registers.over.load(SeqCst), registers.result.load(SeqCst)), (1, 200 * 4));
    assert_eq!(rig.rung_at_ns(), (started_ps + FRAME_PS) / 1000 + DOORBELL_NS);
}

#[test]
fn in_turns_a_core_that_is_interrupted_for_what_it_does_itself_is_so_at_once() {
    let rig = Rig::new();
    rig.interface().core.set(0);
    rig.ask(10 * US);
    assert!(rig.world.bells.settled().is_empty());
    rig.timing.run_fpga(0, 100 * US);
    assert_eq!((rig.world.bells.rung(), rig.world.bells.settled()), (vec![0], vec![0]));
}

#[test]
fn in_turns_a_core_that_wakes_is_not_rung_a_second_time() {
    let rig = Rig::new();
    rig.ask(10 * US);
    rig.timing.sleep(1, 14 * US);
    rig.world.record(1).rung_at_ns.store(14_000, SeqCst);
    rig.timing.run_fpga(0, ready_ps(10 * US));
    assert!(rig.is_connected() && rig.world.bells.rung().is_empty());
    assert_eq!((rig.rung_at_ns(), rig.world.record(1).rings_received.load(SeqCst)), (14_000, 1));
}
