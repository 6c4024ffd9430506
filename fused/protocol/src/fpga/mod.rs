//! The FPGA that clients share: regions, their monitor and their manager (Ker-ONE, section 4).
//!
//! Kernels report by words of [`FpgaInterface`] that stores have trapped and that clients have gone; clients start jobs by the start flags of their
//! registers. The executor of the FPGA (a thread of the host, or the simulator) calls [`Device::run`], one thread at a time ([`acquire`]). What
//! accelerators compute is behind [`Logic`]: here a region computes one frame after the other, and can be stopped between two.
//!
//! [`monitor`] has the states of regions and the search; [`manager`] executes what the search finds, continued by its interrupt routines. The FPGA checks all
//! that programs or other islands have written: numbers are looked up, and words without a meaning are treated as none.
//!
//! Protocol page: `docs/protocols/fpga.md`.

pub mod clients;
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

/// Becomes the FPGA, unless somebody is. `who` is not 0.
pub fn acquire(fpga: &Fpga, who: u64) -> bool {
    fpga.lock.compare_exchange(0, who, SeqCst, SeqCst).is_ok()
}

/// Becomes the FPGA in place of `holder`, who has died while he was. `false`: somebody else has.
pub fn inherit(fpga: &Fpga, holder: u64, who: u64) -> bool {
    let is_inherited = fpga.lock.compare_exchange(holder, who, SeqCst, SeqCst).is_ok();
    if is_inherited {
        // What it was transferring it does not go on with.
        fpga.transfer.store(0, Release);
    }
    is_inherited
}

/// Lets others be the FPGA.
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
            /// `None`: there cannot be so many.
            pub fn new(index: usize) -> Option<Self> {
                (index < $most).then_some(Self(index as u8))
            }

            /// From a word of the pool: 1 + the index; 0, and what is none: none.
            pub fn from_link(link: u32) -> Option<Self> {
                Self::new((link as usize).checked_sub(1)?)
            }

            /// As a word of the pool.
            pub const fn link(self) -> u32 {
                self.0 as u32 + 1
            }

            /// Where it stands in its table.
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

/// When something happens next without anybody's asking. What it says is old if somebody is the FPGA meanwhile.
pub fn next_ps(fpga: &Fpga) -> Option<u64> {
    monitor::next_event(fpga).map(|(_, at_ps)| at_ps)
}

/// What an accelerator has computed so far, as it and nobody else knows.
pub type State = [u64; FPGA_CONTEXT_WORDS];

/// What an accelerator was told when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Whose it is.
    pub interface: InterfaceId,
    /// Which accelerator.
    pub accelerator: AcceleratorId,
    /// The command register.
    pub command: u32,
    /// Where the data begin in the data section.
    pub data_addr: u32,
    /// How many bytes they are.
    pub data_size: u32,
    /// The registers that mean what the accelerator says.
    pub custom: [u32; FPGA_CUSTOM],
}

/// What has come of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// There are more of them.
    More,
    /// It was the last one; the result.
    Over(u64),
}

/// What accelerators compute, and what becomes of the memory of clients who have gone.
pub trait Logic {
    /// Begins: `state` is all zeroes.
    ///
    /// # Errors
    /// The accelerator does not do this.
    fn begin(&self, job: &Job, state: &mut State) -> Result<(), Fault>;

    /// Computes a frame.
    ///
    /// # Errors
    /// A transfer that is not allowed; or `state` is none that the accelerator has left, which a damaged pool makes so.
    fn frame(&self, job: &Job, state: &mut State) -> Result<Step, Fault>;

    /// Whether nobody has the memory of an interface mapped any more, whose client has gone.
    fn is_unmapped(&self, interface: InterfaceId) -> bool;

    /// Forgets what a client has left in its data section.
    fn forget(&self, interface: InterfaceId);
}

/// The regions that there are.
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

/// Memory of a client, which is all that an accelerator reads and writes for it.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    at: PoolAddr,
    bytes: u64,
    /// The address of its first byte.
    first: u64,
}

impl Section {
    /// Where a transfer of `len` bytes begins: the check of each transfer. Addresses are the client's: offsets in the section for programs,
    /// and physical addresses for guests.
    ///
    /// # Errors
    /// A byte of it is not the client's.
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

/// Whoever is the FPGA.
pub struct Device<'a, L: Logic> {
    pool: Pool,
    fpga: &'a Fpga,
    logic: &'a L,
    /// When that is which is being done.
    now_ps: u64,
    rings: u128,
}

const _: () = assert!(CORES_MAX <= u128::BITS as usize && FPGA_INTERFACES <= u64::BITS as usize);

impl<'a, L: Logic> Device<'a, L> {
    /// The FPGA `fpga` of a pool.
    pub fn new(pool: Pool, fpga: &'a Fpga, logic: &'a L) -> Self {
        Self { pool, fpga, logic, now_ps: 0, rings: 0 }
    }

    /// Does all that is to be done up to a time, in its order, and then what kernels and clients have asked for since. Returns when there is
    /// something to be done next without anybody's asking.
    pub fn run(&mut self, now_ps: u64) -> Option<u64> {
        while self.pass(now_ps).is_some() {}
        self.hear(now_ps);
        next_ps(self.fpga)
    }

    /// Does what is to be done first, if that is at a time or before. When it is done, the manager's work included.
    pub fn pass(&mut self, until_ps: u64) -> Option<u64> {
        let (region, at_ps) = monitor::next_event(self.fpga).filter(|(_, at_ps)| *at_ps <= until_ps)?;
        self.now_ps = at_ps;
        self.collect_takings();
        self.happens(region);
        self.settle();
        Some(self.now_ps)
    }

    /// Does what kernels and clients have asked for. When the manager is through with that.
    pub fn hear(&mut self, now_ps: u64) -> u64 {
        self.now_ps = now_ps;
        self.collect_takings();
        self.hear_kernels();
        self.settle();
        self.now_ps
    }

    /// The cores that are to be rung, because kernels have something to do.
    pub fn rings(&self) -> impl Iterator<Item = CoreId> + use<L> {
        let rings = self.rings;
        (0..CORES_MAX as u32).filter(move |core| rings >> core & 1 != 0).filter_map(CoreId::from_raw)
    }

    /// What follows from what has happened, until nothing does.
    fn settle(&mut self) {
        // Each region goes through no more states than there are before something must happen.
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

    /// What kernels have said of interfaces: stores have trapped, clients have gone.
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

    /// A store has trapped: a request, unless there is one.
    fn hear_request(&mut self, id: InterfaceId) {
        let interface = self.interface(id);
        if interface.asked.load(SeqCst) == 0 {
            return;
        }
        let is_connected = interface.connected.load(SeqCst) != 0;
        if !is_connected && interface.region.get() != 0 {
            return; // It is being disconnected. It asks for a region after that.
        }
        interface.asked.store(0, Release);
        then_look();
        if is_connected {
            // It was connected while its client trapped, which hears of it once more.
            self.signal(id, SIGNAL_READY);
        } else if interface.request.get() == 0 {
            self.request(id);
        }
    }

    /// Makes interfaces free whose clients have gone, when no region and no mapping is left.
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
        interface.granted_epoch.store(0, Release);
        interface.looks.store(0, Release);
        for word in [&interface.region, &interface.request, &interface.begun, &interface.is_late] {
            word.set(0);
        }
        interface.context.iter().for_each(|word| word.set(0));
        if let Some(at) = registers(self.pool, self.fpga, id) {
            self.pool.zero(self.pool.addr_of(at), size_of::<FpgaRegisters>());
        }
    }

    /// Tells a client something, by its kernel. A core that looks at its registers is not interrupted: what is not there, it takes with the next interrupt.
    fn signal(&mut self, id: InterfaceId, signal: u32) {
        self.interface(id).signals.fetch_or(signal, SeqCst);
        then_look();
        if self.interface(id).looks.load(SeqCst) == 0 {
            self.ring(id);
        } else {
            self.note_answer(id);
        }
    }

    /// The same, when nobody is disturbed by that any more ([`revoke_now`](Self::revoke_now)), or with an interrupt that comes before.
    fn signal_late(&mut self, id: InterfaceId, signal: u32) {
        self.interface(id).signals.fetch_or(signal, SeqCst);
        self.interface(id).is_late.set(1);
        self.note_answer(id);
    }

    fn ring(&mut self, id: InterfaceId) {
        self.note_answer(id);
        self.rings |= 1u128.checked_shl(self.interface(id).core.get()).unwrap_or(1);
    }

    /// There is something for kernels to do about a client.
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

    /// The accelerator that an interface is for; damaged words name the first one.
    fn accelerator_of(&self, id: InterfaceId) -> AcceleratorId {
        AcceleratorId::new(self.interface(id).accelerator.get() as usize).unwrap_or(AcceleratorId(0))
    }

    /// A region's client, if that has not gone.
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
