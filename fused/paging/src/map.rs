//! The map from the pool's frames to an island's physical addresses.

use motet_layout::{PAGE_SIZE, PoolAddr, PoolRange};

/// An island's map between pool offsets and its local physical addresses: up to four linear pieces
/// (`IslandRecord::ranges`; several only where the machine splits its RAM, q35 beyond 2.75 GiB).
///
/// Cheap to copy; a kernel may keep one per island.
#[derive(Clone, Copy)]
pub struct PhysMap<'a> {
    ranges: &'a [PoolRange],
    /// `local - pool` of the first piece.
    delta: u64,
    /// Bytes of the pool when the first piece covers all of it, otherwise 0.
    whole_len: u64,
}

impl<'a> PhysMap<'a> {
    /// The map described by `ranges`, for a pool of `pool_len` bytes.
    #[inline]
    pub fn new(ranges: &'a [PoolRange], pool_len: u64) -> Self {
        let first = &ranges[0];
        let whole = first.pool_offset.get() == 0 && first.len.get() >= pool_len;
        let delta = first.local_phys.get().wrapping_sub(first.pool_offset.get()) & !(PAGE_SIZE - 1);
        Self { ranges, delta, whole_len: if whole { pool_len } else { 0 } }
    }

    /// `local - pool` when one piece covers the whole pool.
    #[inline(always)]
    pub(crate) fn single_delta(&self) -> Option<u64> {
        if self.whole_len != 0 { Some(self.delta) } else { None }
    }

    /// The island's physical address of a byte of the pool.
    ///
    /// # Panics
    /// When the island does not see that byte: its record is corrupt or `addr` is no pool address.
    #[inline(always)]
    pub fn to_local(&self, addr: PoolAddr) -> u64 {
        if addr.0 < self.whole_len { addr.0.wrapping_add(self.delta) } else { self.piecewise_local(addr) }
    }

    /// The pool address of a byte of the island's physical memory, `None` outside of the pool.
    #[inline(always)]
    pub fn to_pool(&self, phys: u64) -> Option<PoolAddr> {
        let offset = phys.wrapping_sub(self.delta);
        if offset < self.whole_len { Some(PoolAddr(offset)) } else { self.piecewise_pool(phys) }
    }

    #[cold]
    fn piecewise_local(&self, addr: PoolAddr) -> u64 {
        self.pieces()
            .find_map(|(pool, local, len)| {
                let within = addr.0.wrapping_sub(pool);
                (within < len).then(|| local.wrapping_add(within))
            })
            .unwrap_or_else(|| panic!("pool address {:#x} is not in the island's memory map", addr.0))
    }

    #[cold]
    fn piecewise_pool(&self, phys: u64) -> Option<PoolAddr> {
        self.pieces().find_map(|(pool, local, len)| {
            let within = phys.wrapping_sub(local);
            (within < len).then(|| PoolAddr(pool.wrapping_add(within)))
        })
    }

    /// (pool offset, local physical address, bytes) of each piece.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.ranges.iter().map(|range| (range.pool_offset.get(), range.local_phys.get(), range.len.get()))
    }
}
