//! An FPGA in ordinary memory, with accelerators that count, and how kernels and clients use it.

pub mod spec;

use std::cell::RefCell;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{FPGA_FREE, Fpga, FpgaInterface, FpgaRegisters, PoolAddr};
use motet_protocol::Context;
use motet_protocol::fpga::{
    AcceleratorId, Device, Fault, InterfaceId, Job, Logic, Policy, RegionId, RegionState, State, Step, clients, guest,
    registers, signature,
};

use crate::files_support::Actor;

/// Where the FPGA lies: behind what the pool is formatted with.
const AT: PoolAddr = PoolAddr(16 << 20);
const REGISTERS: PoolAddr = PoolAddr(17 << 20);
const DATA: PoolAddr = PoolAddr(18 << 20);
const KEY: u64 = 4711;

pub const INTERFACES: usize = 6;
pub const EXPIRE: u64 = 50;
/// What the accelerators take for a frame.
pub const FRAME: [u64; 3] = [7, 5, 11];
/// Areas of the regions.
pub const AREAS: [u32; 3] = [10, 30, 60];
/// Which accelerator fits into which region.
pub const FITS: [[bool; 3]; 3] = [[true, true, false], [false, true, true], [false, false, true]];
/// Most frames of a job.
pub const FRAMES_MAX: u32 = 6;
/// A data address from which the second frame goes out of the section.
pub const OUTSIDE: u32 = 1 << 20;

/// What it takes to load a region.
pub fn load_time(region: usize) -> u64 {
    u64::from(AREAS[region])
}

/// The result of a job of so many frames.
pub fn result_of(accelerator: usize, frames: u32) -> u64 {
    (1..=u64::from(frames)).fold(accelerator as u64, |hash, frame| hash.wrapping_mul(31).wrapping_add(frame))
}

/// Accelerators that count up to the size of their data.
#[derive(Default)]
pub struct Counting {
    pub forgotten: RefCell<Vec<InterfaceId>>,
    pub mapped: RefCell<Vec<InterfaceId>>,
}

impl Logic for Counting {
    fn begin(&self, job: &Job, state: &mut State) -> Result<(), Fault> {
        state[1] = job.accelerator.index() as u64;
        if (1..=FRAMES_MAX).contains(&job.data_size) { Ok(()) } else { Err(Fault::Size) }
    }

    fn frame(&self, job: &Job, state: &mut State) -> Result<Step, Fault> {
        state[0] += 1;
        if job.data_addr >= OUTSIDE && state[0] == 2 {
            return Err(Fault::Address);
        }
        state[1] = state[1].wrapping_mul(31).wrapping_add(state[0]);
        Ok(if state[0] >= u64::from(job.data_size) { Step::Over(state[1]) } else { Step::More })
    }

    fn is_unmapped(&self, interface: InterfaceId) -> bool {
        !self.mapped.borrow().contains(&interface)
    }

    fn forget(&self, interface: InterfaceId) {
        self.forgotten.borrow_mut().push(interface);
    }
}

thread_local! {
    static ACTOR: Actor = Actor::new(32 << 20);
}

pub struct Machine {
    pub fpga: &'static Fpga,
    pub logic: Counting,
    pub now: u64,
}

impl Machine {
    /// An FPGA of three regions that nobody uses. A test's thread has one at a time.
    pub fn new(policy: Policy) -> Self {
        let pool = ACTOR.with(|actor| actor.pool());
        pool.zero(AT, size_of::<Fpga>());
        pool.zero(REGISTERS, INTERFACES * 4096);
        let fpga = pool.at::<Fpga>(AT);
        fpga.region_count.set(AREAS.len() as u32);
        fpga.accelerator_count.set(FITS.len() as u32);
        fpga.interface_count.set(INTERFACES as u32);
        fpga.policy.set(policy as u32);
        fpga.port_kib_ps.set(1024);
        fpga.expire_ps.set(EXPIRE);
        fpga.data_bytes.set(8192);
        fpga.registers.set(REGISTERS.0);
        fpga.data.set(DATA.0);
        fpga.key.set(KEY);
        for (region, area) in AREAS.iter().enumerate() {
            fpga.regions[region].area.set(*area);
        }
        for (number, accelerator) in fpga.accelerators.iter().enumerate().take(FITS.len()) {
            accelerator.frame_ps.set(FRAME[number]);
            for region in (0..AREAS.len()).filter(|region| FITS[number][*region]) {
                let (bitstream, bytes) = (&accelerator.bitstreams[region], load_time(region));
                bitstream.bytes.set(bytes);
                bitstream.region.set(region as u32);
                bitstream.accelerator.set(number as u32);
                bitstream.signature.set(signature(KEY, number as u32, region as u32, bytes));
            }
        }
        Self { fpga, logic: Counting::default(), now: 0 }
    }

    /// A client for an accelerator.
    pub fn open(&self, accelerator: usize, priority: u32) -> Option<usize> {
        let accelerator = AcceleratorId::new(accelerator).unwrap();
        let client = clients::Client { owner: 7, user: 0, accelerator, core: 0, priority, inode: PoolAddr::NULL };
        clients::open(self.fpga, &client).map(InterfaceId::index)
    }

    pub fn interface(&self, at: usize) -> &'static FpgaInterface {
        &self.fpga.interfaces[at]
    }

    pub fn registers(&self, at: usize) -> &'static FpgaRegisters {
        let pool = ACTOR.with(|actor| actor.pool());
        registers(pool, self.fpga, InterfaceId::new(at).unwrap()).unwrap()
    }

    /// The FPGA does what is to be done, now.
    pub fn run(&self) -> Option<u64> {
        let pool = ACTOR.with(|actor| actor.pool());
        Device::new(pool, self.fpga, &self.logic).run(self.now)
    }

    /// A client stores to its registers: that it is to begin, if they are writable, and otherwise it traps, which is a request.
    pub fn store(&self, at: usize, frames: u32, data_addr: u32) -> bool {
        let interface = self.interface(at);
        // Its mapping is as it is until a kernel has taken it away.
        let id = InterfaceId::new(at).unwrap();
        if interface.writable.load(SeqCst) == 0 && !clients::may_write(self.fpga, id) {
            clients::take_refusal(self.fpga, interface, || {});
            clients::ask(self.fpga, interface, interface.priority.load(SeqCst));
            return false;
        }
        let registers = self.registers(at);
        registers.data_size.store(frames, SeqCst);
        registers.data_addr.store(data_addr, SeqCst);
        registers.start.store(1, SeqCst);
        true
    }

    /// A kernel does what the FPGA wants.
    pub fn answer(&self) {
        clients::take_answered(self.fpga, |_, _| {}, |_, _| guest::Answer::Outside, |_, _| {});
    }

    pub fn leave(&self, at: usize) {
        clients::leave(self.fpga, InterfaceId::new(at).unwrap());
    }

    pub fn state(&self, region: usize) -> RegionState {
        RegionState::from_raw(self.fpga.regions[region].state.get()).expect("a state")
    }

    /// The client of a region.
    pub fn client(&self, region: usize) -> Option<usize> {
        InterfaceId::from_link(self.fpga.regions[region].interface.get()).map(InterfaceId::index)
    }

    pub fn status(&self, at: usize) -> u32 {
        self.registers(at).status.load(SeqCst)
    }

    pub fn is_free(&self, at: usize) -> bool {
        self.interface(at).state.load(SeqCst) == FPGA_FREE
    }

    /// Time passes until nothing happens any more by itself; kernels answer.
    pub fn drain(&mut self) {
        for _ in 0..1000 {
            self.answer();
            match self.run() {
                Some(next) => self.now = self.now.max(next),
                None if self.fpga.attention.load(SeqCst) == 0 && !clients::is_answered(self.fpga) => return,
                None => {}
            }
        }
        panic!("the FPGA does not come to rest");
    }

    /// What must be so at any time.
    pub fn check(&self) {
        for at in 0..INTERFACES {
            let link = at as u32 + 1;
            let (interface, regions) = (self.interface(at), &self.fpga.regions);
            let having = regions.iter().filter(|region| region.interface.get() == link).count();
            assert!(having <= 1, "interface {at} is connected to two regions");
            let wanting = regions.iter().filter(|region| region.successor.get() == link).count();
            assert!(wanting <= 1, "two regions are made ready for interface {at}");
            if interface.connected.load(SeqCst) != 0 {
                let region = RegionId::from_link(interface.region.get()).expect("connected to a region");
                assert_eq!(self.client(region.index()), Some(at), "connected to a region that is another's");
                let is = self.fpga.regions[region.index()].accelerator.get();
                assert_eq!(is, interface.accelerator.get() + 1, "connected to another accelerator");
                assert_eq!(interface.request.get(), 0, "connected, and it waits");
            }
        }
        for region in 0..AREAS.len() {
            let record = &self.fpga.regions[region];
            if matches!(self.state(region), RegionState::Busy | RegionState::Hold) {
                assert_ne!(record.interface.get(), 0, "region {region} computes for nobody");
                assert_eq!(record.successor.get(), 0, "region {region} has a successor that it does not know of");
            }
        }
    }
}

/// Words of the FPGA's record that say where registers and data are.
pub const PLACES: std::ops::Range<u64> = {
    let first = std::mem::offset_of!(Fpga, registers) as u64 / 8;
    assert!(std::mem::offset_of!(Fpga, data) as u64 / 8 == first + 1);
    first..first + 2
};

/// Stores anything into a word of the FPGA's record.
pub fn damage(machine: &Machine, word: u64, value: u32) {
    let pool = ACTOR.with(|actor| actor.pool());
    let at = pool.addr_of(machine.fpga).add(8 * word);
    pool.at::<motet_layout::Cell32>(at).set(value);
}
