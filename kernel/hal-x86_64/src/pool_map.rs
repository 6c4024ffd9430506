//! Where this island's cores see the pool.

use motet_layout::IslandRecord;

use crate::paging::LARGE;

const PIECES_MAX: usize = 4;

/// The piecewise linear map from pool offsets to local physical addresses.
#[derive(Clone, Copy, Debug)]
pub struct PoolMap {
    /// Offset, local physical address, length; unused ones have length 0.
    pieces: [(u64, u64, u64); PIECES_MAX],
}

impl PoolMap {
    /// Reads the map from the island's record.
    ///
    /// # Errors
    /// When the pieces do not make up `pool_len` bytes in order, or do not start at `pool_phys`.
    pub fn read(record: &IslandRecord, pool_len: u64, pool_phys: u64) -> Result<Self, &'static str> {
        let pieces = [0, 1, 2, 3].map(|index: usize| {
            let range = &record.ranges[index];
            (range.pool_offset.get(), range.local_phys.get(), range.len.get())
        });
        let map = Self { pieces };
        let mut expected = 0;
        for (offset, phys, len) in map.pieces() {
            if offset != expected || (phys | len) % LARGE != 0 || phys.checked_add(len).is_none() {
                return Err("the island's pool ranges have holes or are not multiples of 2 MiB");
            }
            expected += len;
        }
        if expected != pool_len {
            return Err("the island's pool ranges do not make up the pool");
        }
        if pieces[0].1 != pool_phys {
            return Err("the island's pool ranges and the command line disagree about the pool's address");
        }
        Ok(map)
    }

    /// The pieces: offset, local physical address, length in bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.pieces.iter().copied().take_while(|piece| piece.2 != 0)
    }

    /// Local physical address of a pool offset.
    ///
    /// # Panics
    /// When the offset is outside of the pool: the pool is corrupt.
    #[inline]
    pub fn local_phys(&self, offset: u64) -> u64 {
        match self.pieces.iter().find(|(start, _, len)| offset.wrapping_sub(*start) < *len) {
            Some((start, phys, _)) => offset - start + phys,
            None => panic!("pool offset {offset:#x} is outside of this island's ranges"),
        }
    }
}
