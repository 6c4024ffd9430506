//! The machine's islands, as the host has described them: what never changes while a core runs, read once.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{
    CORE_IDLE, CORE_POLLING, CORES_PER_ISLAND_MAX, CoreId, ISLAND_JOINED, ISLANDS_MAX, Isa, IslandId, Pool,
};
use motet_protocol::memory::{caches_privately, common_share, has_farther};

use super::Cpu;

/// What a core knows of the machine's islands.
pub struct Islands {
    count: usize,
    /// Instruction sets, 0 none.
    isas: [u8; ISLANDS_MAX],
    /// A bit each.
    polling: u32,
    poll_ns: u64,
    others: u32,
    are_uncached: bool,
    caches_privately: bool,
    has_isa_alone: bool,
    adapts: bool,
    samples: bool,
    has_peers: bool,
    common: usize,
}

impl Islands {
    /// As a core of island `own` sees them.
    pub fn new(pool: Pool, own: IslandId) -> Self {
        let header = pool.header();
        let (islands, record) = (&header.islands, &header.islands[own.index()]);
        let are_uncached = header.uncached.get() != 0;
        let adapts = header.adapts.get() != 0 && !are_uncached;
        let polls = |index: usize| u32::from(islands[index].poll_ns.get() != 0) << index;
        Self {
            count: (header.island_count.get() as usize).min(ISLANDS_MAX),
            isas: core::array::from_fn(|index| islands[index].isa.get() as u8),
            polling: (0..ISLANDS_MAX).map(polls).sum(),
            poll_ns: record.poll_ns.get(),
            others: !(u32::from(record.core_count.get() <= 1) << own.index()),
            are_uncached,
            caches_privately: are_uncached && caches_privately(pool, own.index()),
            has_isa_alone: islands.iter().filter(|island| island.isa.get() == record.isa.get()).count() == 1,
            adapts,
            samples: adapts && has_farther(pool, own.index()),
            has_peers: header.peers.count.get() > 1,
            common: if are_uncached { common_share(pool) } else { own.index() },
        }
    }

    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether pages follow the islands that use them.
    #[inline(always)]
    pub fn adapts(&self) -> bool {
        self.adapts
    }

    /// Whether this island looks which pages it uses from afar: there is memory that is not near to it.
    #[inline(always)]
    pub fn samples(&self) -> bool {
        self.samples
    }

    /// Whether other kernels have islands of this machine.
    #[inline(always)]
    pub fn has_peers(&self) -> bool {
        self.has_peers
    }

    /// Whether there are islands that do not cache each other's memory.
    #[inline(always)]
    pub fn are_uncached(&self) -> bool {
        self.are_uncached
    }

    /// Whether this core's island has caches that are not told of others' stores.
    #[inline(always)]
    pub fn caches_privately(&self) -> bool {
        self.caches_privately
    }

    /// The share of memory for what islands use together.
    #[inline(always)]
    pub fn common_share(&self) -> usize {
        self.common
    }

    /// Islands that have cores beside this one, a bit each.
    #[inline(always)]
    pub fn with_others(&self) -> u32 {
        self.others
    }

    /// Whether cores of an island look for work before they sleep.
    #[inline(always)]
    pub fn does_poll(&self, island: IslandId) -> bool {
        self.polling >> island.index() & 1 != 0
    }

    /// How long cores of this island look for work before they sleep, in nanoseconds.
    #[inline(always)]
    pub fn poll_ns(&self) -> u64 {
        self.poll_ns
    }

    /// The instruction set of an island.
    #[inline(always)]
    pub fn isa_of(&self, island: IslandId) -> Option<Isa> {
        Isa::from_raw(u32::from(self.isas[island.index()]))
    }

    /// Whether no other island has this one's instruction set, whether it has joined or not.
    #[inline(always)]
    pub fn has_isa_alone(&self) -> bool {
        self.has_isa_alone
    }
}

/// The cores of an instruction set, by the machine's description: of those that do not start the state stays offline.
pub fn cores_of_isa(pool: Pool, isa: Isa) -> [u64; 2] {
    let mut set = [0; 2];
    let islands = &pool.header().islands[..(pool.header().island_count.get() as usize).min(ISLANDS_MAX)];
    for (index, island) in islands.iter().enumerate().filter(|(_, island)| island.isa.get() == isa as u32) {
        let first = index * CORES_PER_ISLAND_MAX;
        let count = (island.core_count.get() as usize).min(CORES_PER_ISLAND_MAX);
        set[first / 64] |= ((1 << count) - 1) << (first % 64);
    }
    set
}

impl<M: Machine> Cpu<M> {
    /// Whether cores of this island look for work before they sleep.
    #[inline(always)]
    pub fn is_polling(&self) -> bool {
        self.islands.poll_ns != 0
    }

    /// In which state this core announces that it is about to sleep.
    #[inline(always)]
    pub fn idle_state(&self) -> u32 {
        if self.is_polling() { CORE_POLLING } else { CORE_IDLE }
    }

    /// Whether another island has this one's instruction set, and caches that are kept coherent with its. (The machine says of all of its links
    /// at once whether they are.)
    pub fn is_coherent_peer(&self, island: IslandId) -> bool {
        let is_peer = self.islands.isas.get(island.index()) == Some(&(M::ISA as u8));
        !self.islands.are_uncached && island != self.id.island() && is_peer
    }

    /// The instruction set of a core.
    pub fn isa_of(&self, core: CoreId) -> Option<Isa> {
        self.islands.isa_of(core.island())
    }

    /// The islands of an ISA that have joined.
    pub fn islands_of(&self, isa: Isa) -> impl Iterator<Item = IslandId> {
        let header = self.pool.header();
        (0..header.island_count.get()).filter_map(IslandId::from_raw).filter(move |island| {
            let record = &header.islands[island.index()];
            record.isa.get() == isa as u32 && record.state.load(Ordering::Acquire) == ISLAND_JOINED
        })
    }
}
