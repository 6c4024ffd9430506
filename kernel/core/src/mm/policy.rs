//! Near which islands threads and ranges want their memory (NUMA policies), and masks of islands in user memory.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{ISLANDS_MAX, IslandId, PAGE_SIZE, ThreadRecord, sync::Ordering};
use motet_protocol::Context;

use crate::{
    call::{Call, Stop},
    cpu::Cpu,
};

// linux/mempolicy.h
const MPOL_DEFAULT: u32 = 0;
const MPOL_PREFERRED: u32 = 1;
const MPOL_BIND: u32 = 2;
const MPOL_LOCAL: u32 = 4;
const MPOL_PREFERRED_MANY: u32 = 5;
const MPOL_F_STATIC_NODES: u64 = 1 << 15;
/// Longest node mask, in bits.
const MASK_BITS_MAX: u64 = PAGE_SIZE * 8;

/// Where new frames come from: `MPOL_*` in the lowest byte, and a bit for each island above [`NODES_SHIFT`]. The memory of the first one is taken as long as it
/// has any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy(pub u32);

const MODE: u32 = 0xff;
const NODES_SHIFT: u32 = 16;
const _: () = assert!(ISLANDS_MAX <= 16);

impl Policy {
    /// As the thread's, or near the island that first touches a page.
    pub const DEFAULT: Self = Self(0);

    /// As a program says it.
    ///
    /// # Errors
    /// `EINVAL`: an unknown mode, or one that is not for these nodes.
    pub fn new(mode: u64, nodes: Nodes) -> Result<Self, Errno> {
        let mode = u32::try_from(mode & !MPOL_F_STATIC_NODES).map_err(|_| Errno::EINVAL)?;
        match (mode, nodes.is_empty()) {
            (MPOL_DEFAULT | MPOL_LOCAL | MPOL_PREFERRED, true)
            | (MPOL_PREFERRED | MPOL_BIND | MPOL_PREFERRED_MANY, false) => Ok(Self(mode | nodes.0 << NODES_SHIFT)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Near an island.
    pub fn near(island: IslandId) -> Self {
        Self(MPOL_PREFERRED | 1 << island.index() << NODES_SHIFT)
    }

    /// A thread's.
    pub fn of_thread(thread: &ThreadRecord) -> Self {
        Self(thread.memory_policy.get())
    }

    /// That of the thread that runs on this core, if any does.
    pub fn of_current<M: Machine>(cpu: &Cpu<M>) -> Self {
        let thread = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed));
        thread.map_or(Self::DEFAULT, Self::of_thread)
    }

    /// This one, or another one if it says nothing.
    pub fn or(self, other: Self) -> Self {
        if self == Self::DEFAULT { other } else { self }
    }

    /// The island (an index) that it names first.
    pub fn island(self) -> Option<usize> {
        let nodes = self.0 >> NODES_SHIFT;
        (nodes != 0).then(|| nodes.trailing_zeros() as usize)
    }

    /// `MPOL_*`.
    pub fn mode(self) -> u32 {
        self.0 & MODE
    }

    /// All islands that it names.
    pub fn nodes(self) -> Nodes {
        Nodes(self.0 >> NODES_SHIFT)
    }
}

/// Where an element of an array in user memory is.
pub fn element(array: u64, index: u64, size: u64) -> Result<u64, Errno> {
    index.checked_mul(size).and_then(|offset| array.checked_add(offset)).ok_or(Errno::EFAULT)
}

/// Islands that a program names as nodes: a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nodes(pub u32);

impl Nodes {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The island (an index) of `new` to which goes what lies near this one: the third of these to the third of those, and again from the first on when those are fewer. `None`: it
    /// stays, since it is none of these, or already one of those, which are more or fewer.
    pub fn successor(self, new: Self, island: usize) -> Option<usize> {
        let is_of = |nodes: Self| nodes.0 >> island & 1 != 0;
        if !is_of(self) || self.0.count_ones() != new.0.count_ones() && is_of(new) {
            return None;
        }
        let place = (self.0 & ((1 << island) - 1)).count_ones() % new.0.count_ones().max(1);
        let to = (0..ISLANDS_MAX).filter(|to| new.0 >> to & 1 != 0).nth(place as usize)?;
        (to != island).then_some(to)
    }
}

/// The nodes of a mask in user memory. As in Linux, `max_node` is one more than the bits that count.
pub fn nodes_of<M: Machine>(call: &Call<M>, mask: u64, max_node: u64) -> Result<Nodes, Stop> {
    let bits = max_node.saturating_sub(1);
    if bits > MASK_BITS_MAX {
        return Err(Errno::EINVAL.into());
    }
    if mask == 0 || bits == 0 {
        return Ok(Nodes(0));
    }
    let islands = call.cpu.pool.header().island_count.get();
    let mut nodes = Nodes(0);
    for word in 0..bits.div_ceil(64) {
        let counting = (bits - word * 64).min(64);
        let set = call.read_user_u64(element(mask, word, 8)?)? & (u64::MAX >> (64 - counting));
        // Nodes that do not exist are an error wherever they stand.
        if set != 0 && (word > 0 || set >> islands != 0) {
            return Err(Errno::EINVAL.into());
        }
        nodes.0 |= set as u32;
    }
    Ok(nodes)
}

/// Writes a mask of so many bits, in whole words; those behind the islands are 0.
pub fn write_nodes<M: Machine>(call: &Call<M>, at: u64, max_node: u64, nodes: Nodes) -> Result<(), Stop> {
    let words = max_node.saturating_sub(1).min(MASK_BITS_MAX).div_ceil(64);
    for word in 0..words {
        let bits = if word == 0 { u64::from(nodes.0) } else { 0 };
        call.write_user(element(at, word, 8)?, &bits.to_le_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_from_the_first_island_to_the_first_and_so_on() {
        let target = |old, new, island| Nodes(old).successor(Nodes(new), island);
        assert_eq!([0, 1, 2].map(|island| target(0b111, 0b110, island)), [Some(1), None, None]);
        assert_eq!([0, 1, 2].map(|island| target(0b011, 0b110, island)), [Some(1), Some(2), None]);
        assert_eq!([0, 1, 2].map(|island| target(0b111, 0b1000, island)), [Some(3); 3]);
        assert_eq!([0, 1].map(|island| target(0b01, 0b01, island)), [None, None]);
        assert_eq!([0, 1].map(|island| target(0b11, 0b11, island)), [None, None]);
    }
}
