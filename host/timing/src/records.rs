//! Where the records of a machine's cores and islands are: in one header, or in one for each island's kernel.

use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, CoreRecord, IslandRecord, PoolHeader, sync::Ordering::SeqCst};
use motet_protocol::peer::bell_of;

use crate::MessageCounts;

/// The records of a machine, by the numbers that cores and islands have in it. A kernel that has a header of its own has other numbers for them: it is island 0,
/// and rings the others by places ([`bell_of`]).
#[derive(Clone)]
pub struct Records {
    headers: Vec<&'static PoolHeader>,
    cores: Vec<&'static CoreRecord>,
}

impl From<&'static PoolHeader> for Records {
    /// Of islands that have one kernel.
    fn from(header: &'static PoolHeader) -> Self {
        Self { headers: vec![header], cores: header.cores.iter().collect() }
    }
}

impl Records {
    /// Of islands that have a kernel each, in their order; at least one.
    pub fn by_island(headers: Vec<&'static PoolHeader>) -> Self {
        let cores = headers.iter().flat_map(|header| &header.cores[..CORES_PER_ISLAND_MAX]).collect();
        Self { headers, cores }
    }

    /// The header of the kernel that runs the machine's command.
    #[inline]
    pub(crate) fn first(&self) -> &'static PoolHeader {
        self.headers[0]
    }

    /// The records of all cores that the headers have room for.
    #[inline]
    pub(crate) fn cores(&self) -> &[&'static CoreRecord] {
        &self.cores
    }

    /// The machine's islands, with their numbers.
    pub(crate) fn islands(&self) -> impl Iterator<Item = (usize, &'static IslandRecord)> {
        let of_kernel = |header: &&'static PoolHeader| header.islands.iter().take(header.island_count.get() as usize);
        self.headers.iter().flat_map(of_kernel).enumerate()
    }

    /// The record of an island, and the number that its kernel has for it.
    pub(crate) fn island(&self, island: usize) -> (&'static IslandRecord, usize) {
        match self.headers[..] {
            [header] => (&header.islands[island], island),
            _ => (&self.headers[island].islands[0], 0),
        }
    }

    /// The number that a core has for its kernel.
    pub(crate) fn number(&self, core: usize) -> CoreId {
        CoreId(if self.headers.len() == 1 { core } else { core % CORES_PER_ISLAND_MAX } as u8)
    }

    /// The core that a core's kernel has this number for; `None`: there is no such core.
    pub fn named(&self, by: usize, number: u32) -> Option<usize> {
        let number = number as usize;
        if self.headers.len() == 1 {
            return (number < self.cores.len()).then_some(number);
        }
        let place = number / CORES_PER_ISLAND_MAX;
        let island = (0..self.headers.len()).find(|&island| self.place(by / CORES_PER_ISLAND_MAX, island) == place)?;
        Some(island * CORES_PER_ISLAND_MAX + number % CORES_PER_ISLAND_MAX)
    }

    /// The machine's command has ended: tells the kernels that do not run it, which trace no more, and notes what all have exchanged so far. A kernel for all
    /// islands has nobody to do so with.
    pub(crate) fn end(&self, counts: &[MessageCounts]) {
        let [first, others @ ..] = &self.headers[..] else { return };
        others.iter().for_each(|header| header.exit.store(first.exit.load(SeqCst), SeqCst));
        let kernels = if others.is_empty() { &[] } else { &self.headers[..] };
        kernels.iter().zip(counts).for_each(|(header, counts)| counts.copy(&header.peers));
    }

    /// How long a doorbell takes from one island to another, in nanoseconds.
    pub(crate) fn doorbell_ns(&self, from: usize, to: usize) -> u32 {
        self.island(from).0.doorbell_ns[self.place(from, to)].get()
    }

    /// How long a store takes to be seen by another island, in nanoseconds.
    pub(crate) fn transit_ns(&self, from: usize, to: usize) -> u32 {
        self.island(from).0.transit_ns[self.place(from, to)].get()
    }

    /// Where an island has another one among those that it rings.
    fn place(&self, from: usize, to: usize) -> usize {
        if self.headers.len() == 1 { to } else { bell_of(from as u32, to as u32).island().index() }
    }
}
