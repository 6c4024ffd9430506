//! The FPGA that clients share: regions, their monitor and their manager (Ker-ONE, section 4).
//!
//! - Kernels report two events by words of [`FpgaInterface`]: a store has trapped, or a client has gone.
//! - Clients start jobs by the start flags of their registers.
//! - The *executor* of the FPGA is a thread of the host, or the simulator. It calls [`Device::run`], one thread at a time ([`acquire`]).
//! - [`Logic`] is what accelerators compute. Here a region computes one frame after the other, and can be stopped between two frames.
//!
//! `monitor` has the states of regions and the search for a region. `manager` executes in steps what the search has found; its interrupt
//! routines continue it. The FPGA checks everything that programs or other islands have written: it checks numbers against its tables, and treats
//! words without a meaning as 0.
//!
//! Protocol page: `docs/protocols/fpga.md`.

pub mod clients;
pub mod frames;
pub mod guest;
pub mod history;
mod manager;
mod monitor;
mod words;

use motet_layout::{
    CORES_MAX, CoreId, FPGA_ACCELERATORS, FPGA_CONTEXT_WORDS, FPGA_CUSTOM, FPGA_FREE, FPGA_INTERFACES, FPGA_LEFT,
    FPGA_REGIONS, FPGA_USED, Fpga, FpgaInterface, FpgaRegion, FpgaRegisters, PAGE_SIZE, Pool, PoolAddr,
    handshake::then_look,
    sync::Ordering::{Release, SeqCst},
};

pub use monitor::{Method, Solution};
pub use words::*;

/// The FPGA of a machine, if it has one.
pub fn of(pool: Pool) -> Option<&'static Fpga> {
    let at = pool.header().fpga.get();
    if at == 0 { None } else { pool.get(PoolAddr(at)) }
}

/// Makes `who` (not 0) the FPGA's executor. `false`: there is one already.
pub fn acquire(fpga: &Fpga, who: u64) -> bool {
    fpga.lock.compare_exchange(0, who, SeqCst, SeqCst).is_ok()
}

/// Makes `who` the executor in place of `holder`, which has died. `false`: another one has taken its place already.
pub fn inherit(fpga: &Fpga, holder: u64, who: u64) -> bool {
    let is_inherited = fpga.lock.compare_exchange(holder, who, SeqCst, SeqCst).is_ok();
    if is_inherited {
        // The transfer that the dead executor had begun does not continue.
        fpga.transfer.store(0, Release);
    }
    is_inherited
}

/// The caller is no longer the executor.
pub fn release(fpga: &Fpga) {
    fpga.lock.store(0, Release);
    then_look();
}

macro_rules! index {
    ($(#[$meta:meta])* $name:ident, $most:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub struct $name(u8);

        impl $name {
            /// `None`: the index is outside of the table.
            pub fn new(index: usize) -> Option<Self> {
                (index < $most).then_some(Self(index as u8))
            }

            /// From a word of the pool, which is 1 + the index. `None`: the word is 0 or no index.
            pub fn from_link(link: u32) -> Option<Self> {
                Self::new((link as usize).checked_sub(1)?)
            }

            /// As a word of the pool.
            pub const fn link(self) -> u32 {
                self.0 as u32 + 1
            }

            /// Its index in its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A region.
    RegionId, FPGA_REGIONS
);
index!(
    /// An interface.
    InterfaceId, FPGA_INTERFACES
);
index!(
    /// An accelerator.
    AcceleratorId, FPGA_ACCELERATORS
);

/// The time of the next event that needs no request: a frame or a reconfiguration ends, or a reservation expires. The answer may be out of date
/// if an executor runs at the same time.
pub fn next_ps(fpga: &Fpga) -> Option<u64> {
    monitor::next_event(fpga).map(|(_, at_ps)| at_ps)
}

/// An accelerator's intermediate state. Only the accelerator knows its format.
pub type State = [u64; FPGA_CONTEXT_WORDS];

/// The registers of a job as they were when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The interface whose client has started it.
    pub interface: InterfaceId,
    /// Which accelerator.
    pub accelerator: AcceleratorId,
    /// The command register.
    pub command: u32,
    /// Where the data begin in the data section.
    pub data_addr: u32,
    /// How many bytes they are.
    pub data_size: u32,
    /// The custom registers; the accelerator defines their meaning.
    pub custom: [u32; FPGA_CUSTOM],
}

/// The result of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The job has more frames.
    More,
    /// It was the job's last frame; the job's result.
    Over(u64),
}

/// What accelerators compute, and what happens to the memory of clients that have gone.
pub trait Logic {
    /// Begins a job. `state` is all zeroes.
    ///
    /// # Errors
    /// The accelerator does not support such a job.
    fn begin(&self, job: &Job, state: &mut State) -> Result<(), Fault>;

    /// Computes a frame.
    ///
    /// # Errors
    /// A transfer is not allowed, or the pool is damaged: `state` is not one that the accelerator has stored.
    fn frame(&self, job: &Job, state: &mut State) -> Result<Step, Fault>;

    /// Whether no mapping of an interface's memory is left after its client has gone.
    fn is_unmapped(&self, interface: InterfaceId) -> bool;

    /// Clears the data section of a client that has gone.
    fn forget(&self, interface: InterfaceId);
}

/// The machine's regions.
pub fn regions(fpga: &Fpga) -> impl Iterator<Item = RegionId> + use<> {
    (0..(fpga.region_count.get() as usize).min(FPGA_REGIONS)).filter_map(RegionId::new)
}

fn state_of(region: &FpgaRegion) -> RegionState {
    RegionState::from_raw(region.state.get()).unwrap_or(RegionState::Idle)
}

/// The data section of an interface.
pub fn section(fpga: &Fpga, interface: InterfaceId) -> Section {
    let bytes = fpga.data_bytes.get();
    let at = PoolAddr(fpga.data.get()).add(interface.index() as u64 * bytes);
    Section { at, bytes, first: fpga.interfaces[interface.index()].data_base.get() }
}

/// A client's data section. An accelerator that works for a program reads and writes nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    at: PoolAddr,
    bytes: u64,
    /// The address of its first byte.
    first: u64,
}

impl Section {
    /// Checks a transfer of `len` bytes, and returns where it begins in the pool. `address` is the client's: an offset in the section for programs,
    /// a guest-physical address for guests.
    ///
    /// # Errors
    /// A byte of the transfer is outside of the section.
    pub fn transfer(&self, address: u64, len: u64) -> Result<PoolAddr, Fault> {
        let offset = address.checked_sub(self.first).ok_or(Fault::Address)?;
        let end = offset.checked_add(len).ok_or(Fault::Address)?;
        if end <= self.bytes { Ok(self.at.add(offset)) } else { Err(Fault::Address) }
    }

    /// The address of its first byte.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The registers of an interface; `None`: the FPGA's record is damaged.
pub fn registers(pool: Pool, fpga: &Fpga, interface: InterfaceId) -> Option<&'static FpgaRegisters> {
    pool.get(PoolAddr(fpga.registers.get()).add(interface.index() as u64 * PAGE_SIZE))
}

/// The FPGA's executor at work.
pub struct Device<'a, L: Logic> {
    pool: Pool,
    fpga: &'a Fpga,
    logic: &'a L,
    /// The time of the event that is being handled.
    now_ps: u64,
    rings: u128,
}

const _: () = assert!(CORES_MAX <= u128::BITS as usize && FPGA_INTERFACES <= u64::BITS as usize);

impl<'a, L: Logic> Device<'a, L> {
    /// The FPGA `fpga` of a pool.
    pub fn new(pool: Pool, fpga: &'a Fpga, logic: &'a L) -> Self {
        Self { pool, fpga, logic, now_ps: 0, rings: 0 }
    }

    /// Handles all events up to a time, in the order of their times, and then what kernels and clients have asked for since. Returns the time of the
    /// next event, as [`next_ps`].
    pub fn run(&mut self, now_ps: u64) -> Option<u64> {
        while self.pass(now_ps).is_some() {}
        self.hear(now_ps);
        next_ps(self.fpga)
    }

    /// Handles the next event, if its time is `until_ps` or earlier. Returns when that is done, the manager's work included.
    pub fn pass(&mut self, until_ps: u64) -> Option<u64> {
        let (region, at_ps) = monitor::next_event(self.fpga).filter(|(_, at_ps)| *at_ps <= until_ps)?;
        self.now_ps = at_ps;
        self.collect_takings();
        self.happens(region);
        self.settle();
        Some(self.now_ps)
    }

    /// Handles what kernels and clients have asked for. Returns when the manager has finished that.
    pub fn hear(&mut self, now_ps: u64) -> u64 {
        self.now_ps = now_ps;
        self.collect_takings();
        self.hear_kernels();
        self.settle();
        self.now_ps
    }

    /// The cores that must be interrupted, because their kernels have work for the FPGA.
    pub fn rings(&self) -> impl Iterator<Item = CoreId> + use<L> {
        let rings = self.rings;
        (0..CORES_MAX as u32).filter(move |core| rings >> core & 1 != 0).filter_map(CoreId::from_raw)
    }

    /// Makes all steps that follow from an event, until there are none left.
    fn settle(&mut self) {
        // Without a further event, a region can go through each state once at most.
        for _ in 0..RegionState::ALL.len() * FPGA_REGIONS {
            let mut changes = self.begin_started();
            changes |= self.end_switches();
            changes |= self.use_port();
            changes |= self.search_list();
            if !changes {
                break;
            }
        }
        self.free_interfaces();
        self.note_changes();
        self.offer_regions();
    }

    /// Reads what kernels have reported about interfaces: stores have trapped, clients have gone.
    fn hear_kernels(&mut self) {
        self.fpga.attention.store(0, Release);
        then_look();
        for id in self.interfaces() {
            let interface = self.interface(id);
            match interface.state.load(SeqCst) {
                FPGA_LEFT => self.client_left(id),
                FPGA_USED => self.hear_request(id),
                _ => {}
            }
        }
    }

    /// A store to an interface's registers has trapped: makes a request, unless the interface has one.
    fn hear_request(&mut self, id: InterfaceId) {
        let interface = self.interface(id);
        if interface.asked.load(SeqCst) == 0 {
            return;
        }
        if interface.refused.load(SeqCst) != 0 {
            return; // It may have been asked before the refusal, by the same store. The kernel that takes the refusal knows.
        }
        let is_connected = interface.connected.load(SeqCst) != 0;
        if !is_connected && interface.region.get() != 0 {
            return; // It is being disconnected. It asks for a region after that.
        }
        interface.asked.store(0, Release);
        then_look();
        if is_connected {
            // It was connected at the moment when its client trapped. The client gets the signal once more.
            self.signal(id, SIGNAL_READY);
        } else if interface.request.get() == 0 {
            self.request(id);
        }
    }

    /// Frees the interfaces of clients that have gone, once no region works for them and none of their pages is mapped.
    fn free_interfaces(&mut self) {
        for id in self.interfaces() {
            let interface = self.interface(id);
            let has_left = interface.state.load(SeqCst) == FPGA_LEFT;
            if has_left && !self.is_in_a_region(id) && self.logic.is_unmapped(id) {
                self.logic.forget(id);
                self.forget_registers(id);
                interface.state.store(FPGA_FREE, Release);
            }
        }
    }

    fn forget_registers(&self, id: InterfaceId) {
        let interface = self.interface(id);
        let words = [&interface.asked, &interface.connected, &interface.writable, &interface.revoke];
        for word in words.into_iter().chain([&interface.signals, &interface.refused]) {
            word.store(0, Release);
        }
        interface.deadline_ps.store(0, Release);
        interface.data_base.set(0);
        interface.wants.store(0, Release);
        interface.looks.store(0, Release);
        for word in [&interface.region, &interface.request, &interface.begun, &interface.is_late] {
            word.set(0);
        }
        interface.context.iter().for_each(|word| word.set(0));
        if let Some(at) = registers(self.pool, self.fpga, id) {
            self.pool.zero(self.pool.addr_of(at), size_of::<FpgaRegisters>());
        }
    }

    /// Sends a client a signal; its kernel delivers it. A core that polls the client's registers is not interrupted: it sees the change there, and takes
    /// the signal with the next interrupt.
    fn signal(&mut self, id: InterfaceId, signal: u32) {
        self.interface(id).signals.fetch_or(signal, SeqCst);
        then_look();
        if self.interface(id).looks.load(SeqCst) == 0 {
            self.ring(id);
        } else {
            self.note_answer(id);
        }
    }

    /// The same, but without an interrupt now. The signal comes with an interrupt that is sent anyway, or at last from
    /// [`revoke_now`](Self::revoke_now), when it delays no allocation.
    fn signal_late(&mut self, id: InterfaceId, signal: u32) {
        self.interface(id).signals.fetch_or(signal, SeqCst);
        self.interface(id).is_late.set(1);
        self.note_answer(id);
    }

    fn ring(&mut self, id: InterfaceId) {
        self.note_answer(id);
        self.rings |= 1u128.checked_shl(self.interface(id).core.get()).unwrap_or(1);
    }

    /// Notes that kernels have work to do for a client.
    fn note_answer(&self, id: InterfaceId) {
        self.fpga.answers.fetch_or(1 << id.index(), SeqCst);
        let urgency = self.interface(id).priority.load(SeqCst).saturating_add(1);
        let is_more = |known: u32| (known == 0 || urgency < known).then_some(urgency);
        let _ = self.fpga.answered.fetch_update(SeqCst, SeqCst, is_more);
    }

    fn set_status(&self, id: InterfaceId, word: u32) {
        if let Some(registers) = registers(self.pool, self.fpga, id) {
            registers.status.store(word, Release);
        }
    }

    /// The regions of the machine.
    fn regions(&self) -> impl Iterator<Item = RegionId> + use<L> {
        regions(self.fpga)
    }

    /// The interfaces of the machine.
    fn interfaces(&self) -> impl Iterator<Item = InterfaceId> + use<L> {
        (0..(self.fpga.interface_count.get() as usize).min(FPGA_INTERFACES)).filter_map(InterfaceId::new)
    }

    fn region(&self, id: RegionId) -> &'a FpgaRegion {
        &self.fpga.regions[id.index()]
    }

    fn interface(&self, id: InterfaceId) -> &'a FpgaInterface {
        &self.fpga.interfaces[id.index()]
    }

    fn state(&self, id: RegionId) -> RegionState {
        state_of(self.region(id))
    }

    fn set_state(&self, id: RegionId, state: RegionState) {
        self.region(id).state.set(state as u32);
    }

    /// The accelerator that an interface is for. If the word is damaged, it is the first one.
    fn accelerator_of(&self, id: InterfaceId) -> AcceleratorId {
        AcceleratorId::new(self.interface(id).accelerator.get() as usize).unwrap_or(AcceleratorId(0))
    }

    /// A region's client, unless the client has gone.
    fn client(&self, id: RegionId) -> Option<InterfaceId> {
        InterfaceId::from_link(self.region(id).interface.get()).filter(|&client| self.is_used(client))
    }

    fn successor(&self, id: RegionId) -> Option<InterfaceId> {
        InterfaceId::from_link(self.region(id).successor.get()).filter(|&client| self.is_used(client))
    }

    fn is_used(&self, id: InterfaceId) -> bool {
        self.interface(id).state.load(SeqCst) == FPGA_USED
    }

    fn is_in_a_region(&self, id: InterfaceId) -> bool {
        let names = |region: RegionId| {
            let region = self.region(region);
            region.interface.get() == id.link() || region.successor.get() == id.link()
        };
        self.regions().any(names)
    }
}
