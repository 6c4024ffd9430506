//! Replacement policies, as arithmetic on the words of a set's head.

use crate::config::{Geometry, Replacement};

/// The most ways that [`Order::Packed`] has room for.
pub(crate) const PACKED_WAYS: usize = 16;

/// How a set remembers which lines were used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// LRU of up to 16 ways: one word of way numbers of four bits, the way used last in the lowest. Above the ways that exist,
    /// it may have any numbers.
    Packed,
    /// LRU of more ways: the way used last, a clock, and a stamp of it per line.
    Stamps,
    /// Tree PLRU: the way used last, and the tree's bits.
    Tree,
    /// The way used last, and a generator.
    Random,
    /// The way used last: what never evicts needs no policy.
    None,
}

/// A 1 in each way number of [`Order::Packed`].
const NIBBLES: u64 = 0x1111_1111_1111_1111;
/// Ways 0 to 15, as if 0 had been used last.
const IDENTITY: u64 = 0xfedc_ba98_7654_3210;

impl Order {
    pub(crate) const fn of(geometry: &Geometry) -> Self {
        match geometry.replacement {
            _ if !geometry.real => Self::None,
            Replacement::Lru if geometry.ways <= PACKED_WAYS => Self::Packed,
            Replacement::Lru => Self::Stamps,
            Replacement::TreePlru => Self::Tree,
            Replacement::Random => Self::Random,
        }
    }

    /// The two words of an empty set.
    pub(crate) fn start(self, seed: u64) -> (u64, u64) {
        match self {
            Self::Packed => (IDENTITY, 0),
            Self::Stamps | Self::Tree | Self::None => (0, 0),
            Self::Random => (0, mix(seed) | 1),
        }
    }
}

/// Moves a way's number to the front of an order.
#[inline(always)]
pub(crate) const fn to_front(order: u64, way: u64) -> u64 {
    let differs = order ^ way * NIBBLES;
    // The lowest bit set is the top one of the lowest number that is `way`.
    let found = differs.wrapping_sub(NIBBLES) & !differs & NIBBLES << 3;
    let shift = found.trailing_zeros() & 0x3c;
    let moved = u64::MAX >> (60 - shift);
    order & !moved | order << 4 & moved | way
}

/// The first way in an order.
#[inline(always)]
pub(crate) const fn first_of(order: u64) -> u64 {
    order & 15
}

/// Where in an order the last of so many ways is.
pub(crate) const fn last_place(ways: usize) -> u32 {
    4 * (ways as u32 - 1) % u64::BITS
}

/// The last way in an order; `last`: [`last_place`].
#[inline(always)]
pub(crate) const fn last_of(order: u64, last: u32) -> usize {
    (order >> last & 15) as usize
}

/// Moves the last way to the front of an order; `last`: [`last_place`].
#[inline(always)]
pub(crate) const fn last_to_front(order: u64, last: u32) -> u64 {
    order << 4 | last_of(order, last) as u64
}

/// Turns the bits on the path to `way` away from it. Node `n` has children `2n + 1` and `2n + 2`; a set bit means right.
pub(crate) fn point_away(mut bits: u64, way: usize, ways: usize) -> u64 {
    let (mut node, mut low, mut size) = (0, 0, ways);
    while size > 1 {
        size /= 2;
        let right = way >= low + size;
        bits = if right { bits & !(1 << node) } else { bits | 1 << node };
        low += if right { size } else { 0 };
        node = 2 * node + 1 + usize::from(right);
    }
    bits
}

/// The way that the bits point at.
pub(crate) fn follow(bits: u64, ways: usize) -> usize {
    let (mut node, mut low, mut size) = (0, 0, ways);
    while size > 1 {
        size /= 2;
        let right = bits >> node & 1 == 1;
        low += if right { size } else { 0 };
        node = 2 * node + 1 + usize::from(right);
    }
    low
}

/// SplitMix64's finaliser on a stepped state (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_used_comes_to_the_front_and_the_others_keep_their_order() {
        let mut order = IDENTITY;
        let mut list: Vec<u64> = (0..16).collect();
        for step in 0..10_000_u64 {
            let way = mix(step) % 16;
            list.retain(|&other| other != way);
            list.insert(0, way);
            order = to_front(order, way);
            assert!(list.iter().enumerate().all(|(place, &way)| order >> (4 * place) & 15 == way), "{order:x}");
            for ways in 1..=16 {
                let last = last_place(ways);
                assert_eq!(last_of(order, last) as u64, list[ways - 1]);
                let moved = to_front(order, list[ways - 1]);
                assert_eq!((last_to_front(order, last) ^ moved) << (60 - last), 0, "{ways} ways");
                // Whatever comes after them does not matter.
                let in_use = u64::MAX >> (60 - last);
                let other = order & in_use | mix(step) & !in_use;
                assert_eq!((to_front(other, list[ways - 1]) ^ moved) & in_use, 0, "{ways} ways");
            }
        }
    }
}
