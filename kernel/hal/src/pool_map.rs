//! Where an island's cores see the pool: a piecewise linear map from its offsets to local physical addresses.
//!
//! A copy of what the island's record says, checked once: what becomes of the record later moves nothing.

use motet_layout::PoolRange;

/// The longest maps; the record has room for as many.
const PIECES_MAX: usize = 4;

/// A piece of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Its first byte's offset in the pool.
    pub pool_offset: u64,
    /// Where the island has it: a local physical address.
    pub phys: u64,
    /// Bytes.
    pub len: u64,
}

/// The map of an island.
#[derive(Clone, Copy, Debug)]
pub struct PoolMap {
    /// Unused ones have length 0.
    pieces: [Piece; PIECES_MAX],
}

impl PoolMap {
    /// Reads the map from the ranges in the island's record, of a pool of `pool_len` bytes, which the command line says begins at `pool_phys`. Pieces are multiples of `align`
    /// bytes; `is_ram` says whether a range of local physical addresses is memory, and the pool's.
    ///
    /// # Errors
    /// The pieces do not make up the pool in order, are not aligned, are not memory, or begin elsewhere.
    pub fn read(
        ranges: &[PoolRange; PIECES_MAX],
        pool_len: u64,
        pool_phys: u64,
        align: u64,
        is_ram: impl Fn(u64, u64) -> bool,
    ) -> Result<Self, &'static str> {
        let pieces = ranges.each_ref().map(|range| Piece {
            pool_offset: range.pool_offset.get(),
            phys: range.local_phys.get(),
            len: range.len.get(),
        });
        let map = Self { pieces };
        let mut covered = 0;
        for Piece { pool_offset, phys, len } in map.pieces() {
            if pool_offset != covered || !(phys | len).is_multiple_of(align) {
                return Err("the island's ranges of the pool have holes, or are not aligned");
            }
            if phys.checked_add(len).is_none() || !is_ram(phys, len) {
                return Err("a range of the pool is not RAM of this machine");
            }
            covered += len;
        }
        if covered != pool_len {
            return Err("the island's ranges do not add up to the pool");
        }
        if pieces[0].phys != pool_phys {
            return Err("the island's ranges of the pool begin elsewhere than the command line says");
        }
        Ok(map)
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.pieces.iter().copied().take_while(|piece| piece.len != 0)
    }

    /// Local physical address of a pool offset.
    ///
    /// # Panics
    /// When the offset is outside of the pool: the pool is corrupt.
    #[inline]
    pub fn local_phys(&self, offset: u64) -> u64 {
        match self.pieces.iter().find(|piece| offset.wrapping_sub(piece.pool_offset) < piece.len) {
            Some(piece) => offset - piece.pool_offset + piece.phys,
            None => panic!("pool offset {offset:#x} is outside of this island's ranges"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_layout::Cell64;

    const ALIGN: u64 = 0x1000;

    /// The map of a pool of 5 pages from these pieces: offset, address, length; there is RAM from 0x10000 on.
    fn read(pieces: &[[u64; 3]], pool_phys: u64) -> Result<PoolMap, &'static str> {
        let ranges = core::array::from_fn(|index| {
            let [pool_offset, local_phys, len] = pieces.get(index).copied().unwrap_or_default().map(Cell64::new);
            PoolRange { pool_offset, local_phys, len }
        });
        PoolMap::read(&ranges, 5 * ALIGN, pool_phys, ALIGN, |phys, _| phys >= 0x10000)
    }

    #[test]
    fn offsets_are_found_in_their_pieces() {
        let map = read(&[[0, 0x40000, 0x2000], [0x2000, 0x10000, 0x3000]], 0x40000).unwrap();
        assert_eq!(map.pieces().count(), 2);
        let offsets = [0, 0x1fff, 0x2000, 0x4fff];
        assert_eq!(offsets.map(|offset| map.local_phys(offset)), [0x40000, 0x41fff, 0x10000, 0x12fff]);
    }

    #[test]
    #[should_panic(expected = "outside of this island's ranges")]
    fn what_is_outside_of_the_pool_has_no_address() {
        read(&[[0, 0x40000, 0x5000]], 0x40000).unwrap().local_phys(0x5000);
    }

    #[test]
    fn maps_that_are_not_of_this_pool_or_machine_are_refused() {
        let refused: [(&[[u64; 3]], &str); 7] = [
            (&[[0, 0x40000, 0x2000], [0x3000, 0x10000, 0x3000]], "holes"),
            (&[[0x1000, 0x40000, 0x5000]], "holes"),
            (&[[0, 0x40800, 0x5000]], "aligned"),
            (&[[0, 0x1000, 0x5000]], "not RAM"),
            (&[[0, 0x40000, 0x1000], [0x1000, 0u64.wrapping_sub(0x1000), 0x4000]], "not RAM"),
            (&[[0, 0x40000, 0x4000]], "do not add up"),
            (&[[0, 0x50000, 0x5000]], "elsewhere"),
        ];
        for (pieces, why) in refused {
            let reason = read(pieces, 0x40000).unwrap_err();
            assert!(reason.contains(why), "{pieces:x?}: {reason}");
        }
    }
}
