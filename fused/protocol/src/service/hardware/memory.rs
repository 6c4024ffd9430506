//! The memory of a device that is a thread: the pages that the kernel has found and keeps for it, and no others.
//!
//! The device looks up every access in its table, as an IOMMU does, and checks each table entry when it uses it.

use motet_layout::{
    HARDWARE_LEAF_PAGES, HARDWARE_WRITES, HardwareLeaf, HardwareRegion, HardwareTable, PAGE_SHIFT, PAGE_SIZE, Pool,
    PoolAddr,
};

use super::Ends;

/// What a device may read and write.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    pool: Pool,
    table: &'a HardwareTable,
}

impl<'a> Memory<'a> {
    pub fn new(pool: Pool, table: &'a HardwareTable) -> Self {
        Self { pool, table }
    }

    /// A word at an address of the process.
    ///
    /// # Errors
    /// The device may not read it, or it is not aligned.
    pub fn load<const N: usize>(self, address: u64) -> Result<[u8; N], Ends> {
        let mut bytes = [0; N];
        self.pool.read(self.find(address, N as u64, false)?, &mut bytes);
        Ok(bytes)
    }

    /// Stores a word.
    ///
    /// # Errors
    /// The device may not write it, or it is not aligned.
    pub fn store<const N: usize>(self, address: u64, bytes: [u8; N]) -> Result<(), Ends> {
        self.pool.write(self.find(address, N as u64, true)?, &bytes);
        Ok(())
    }

    /// Where a word lies. An aligned one crosses no page border.
    fn find(self, address: u64, bytes: u64, writes: bool) -> Result<PoolAddr, Ends> {
        let has = |region: &&HardwareRegion| {
            let offset = address.wrapping_sub(region.start.get());
            let may = !writes || region.flags.get() & HARDWARE_WRITES != 0;
            may && offset < region.bytes.get() && region.bytes.get() - offset >= bytes
        };
        if !address.is_multiple_of(bytes) {
            return Err(Ends::Invalid);
        }
        let region = self.table.regions.iter().find(has).ok_or(Ends::Fault)?;
        let page =
            region.first.get().wrapping_add((address >> PAGE_SHIFT).wrapping_sub(region.start.get() >> PAGE_SHIFT));
        let leaf = usize::try_from(page / HARDWARE_LEAF_PAGES as u64).ok().and_then(|leaf| self.table.leaves.get(leaf));
        let leaf = leaf.map(|leaf| leaf.get()).filter(|&leaf| leaf != 0).ok_or(Ends::Fault)?;
        let leaf = self.pool.get::<HardwareLeaf>(PoolAddr(leaf)).ok_or(Ends::Fault)?;
        let frame = leaf.pages[page as usize % HARDWARE_LEAF_PAGES].get();
        let is_one = frame != 0
            && frame % PAGE_SIZE == 0
            && frame.checked_add(PAGE_SIZE).is_some_and(|end| end <= self.pool.len());
        is_one.then(|| PoolAddr(frame + address % PAGE_SIZE)).ok_or(Ends::Fault)
    }
}
