//! Pages of user memory that come later.

use motet_hal::Access;
use motet_layout::{PoolAddr, SpaceRecord};

/// A page that a fault has found to come later: what was faulted on, and which page of a file comes there.
#[derive(Clone, Copy)]
pub struct AwaitedPage {
    /// Where the fault was.
    pub space: &'static SpaceRecord,
    /// The page's address.
    pub address: u64,
    /// What it was for.
    pub access: Access,
    /// The file (inode pool address), which is only a name here: it may be gone.
    pub file: PoolAddr,
    /// The page's number in it.
    pub index: u64,
}

// Names of a file's pages, and of its wishes, are addresses within its record: nobody else's.
const _: () = assert!(motet_layout::LATE_PAGES < size_of::<motet_layout::InodeRecord>() as u64);

impl AwaitedPage {
    /// What threads wait at for a page of a file: a name among futexes', where no program has one.
    pub fn arrival(file: PoolAddr, index: u64) -> PoolAddr {
        file.add(index)
    }

    /// What who gives a file's pages waits at: that one is wanted.
    pub fn wish(file: PoolAddr) -> PoolAddr {
        file.add(motet_layout::LATE_PAGES)
    }
}
