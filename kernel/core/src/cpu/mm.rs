//! What a core keeps in mind of address spaces (`mm`).

use core::cell::Cell;

use motet_layout::{PAGE_SIZE, PoolAddr};
use motet_paging::{Format, PhysMap};

use super::AwaitedPage;

/// How a core translates addresses, and which address space's it translates.
pub struct MmCore {
    map: PhysMap<'static>,
    format: Format,
    /// While set, this core serves no shoot-down.
    pinned: Cell<bool>,
    /// Pool address, 0 none.
    active: Cell<u64>,
    /// The epoch of the active address space, as long as `CoreRecord::space_changed` is 0; 0: not known.
    epoch: Cell<u64>,
    readable: Translation,
    writable: Translation,
    /// The page that a fault has found to come later, when that has returned `Stop::Page`.
    awaited: Cell<Option<AwaitedPage>>,
}

impl MmCore {
    /// Of a core that has no address space active, on an island with this map of the pool and this page-table format.
    pub fn new(map: PhysMap<'static>, format: Format) -> Self {
        Self {
            map,
            format,
            pinned: Cell::new(false),
            active: Cell::new(0),
            epoch: Cell::new(0),
            readable: Translation::default(),
            writable: Translation::default(),
            awaited: Cell::new(None),
        }
    }

    /// The island's map of the pool.
    #[inline(always)]
    pub fn map(&self) -> PhysMap<'static> {
        self.map
    }

    /// The island's page-table format.
    #[inline(always)]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Runs `use_memory` with user memory that has been resolved kept in place: this core serves no shoot-down meanwhile. `use_memory` takes no
    /// address-space lock, and waits for no lock whose holder shoots down.
    #[inline(always)]
    pub fn with_pinned<R>(&self, use_memory: impl FnOnce() -> R) -> R {
        let outer = self.pinned.replace(true);
        let result = use_memory();
        self.pinned.set(outer);
        result
    }

    /// Whether this core is in [`with_pinned`](Self::with_pinned).
    #[inline(always)]
    pub fn is_pinned(&self) -> bool {
        self.pinned.get()
    }

    /// The address space whose table this core uses (pool address, 0 none).
    #[inline(always)]
    pub fn active(&self) -> u64 {
        self.active.get()
    }

    /// This core uses the table of another address space from now on (pool address, 0 none), of whose epoch it knows nothing. Returns the former one.
    #[inline(always)]
    pub fn change(&self, space: u64) -> u64 {
        self.epoch.set(0);
        self.active.replace(space)
    }

    /// The epoch of the active address space, as this core has learned it; 0: it has not.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// This core has learned the epoch of the active address space.
    #[inline(always)]
    pub fn learn_epoch(&self, epoch: u64) {
        self.epoch.set(epoch);
    }

    /// The page that the kernel has read last in the active address space.
    #[inline(always)]
    pub fn readable(&self) -> &Translation {
        &self.readable
    }

    /// The page that it has written last.
    #[inline(always)]
    pub fn writable(&self) -> &Translation {
        &self.writable
    }

    /// A fault has found that its page comes later.
    pub fn await_page(&self, page: AwaitedPage) {
        self.awaited.set(Some(page));
    }

    /// The page that a fault has found to come later, if nobody has taken it since.
    pub fn take_awaited(&self) -> Option<AwaitedPage> {
        self.awaited.take()
    }

    /// Whether there is such a page.
    pub fn awaits_page(&self) -> bool {
        let awaited = self.awaited.take();
        self.awaited.set(awaited);
        awaited.is_some()
    }

    /// Drops both translations, as the core's own translations are dropped.
    #[inline(always)]
    pub fn drop_translations(&self) {
        self.readable.page.set(0);
        self.writable.page.set(0);
    }
}

/// Where a page of the active address space lies, for the words that the kernel reads or writes there most: a TLB of one entry, as true as the
/// core's own, because it is dropped with that.
#[derive(Default)]
pub struct Translation {
    /// Its address; 0, where nothing is mapped: none.
    page: Cell<u64>,
    addr: Cell<u64>,
}

impl Translation {
    /// Where the byte at `address` lies, if that is known.
    #[inline(always)]
    pub fn get(&self, address: u64) -> Option<PoolAddr> {
        let page = address & !(PAGE_SIZE - 1);
        (self.page.get() == page && page != 0).then(|| PoolAddr(self.addr.get() + address % PAGE_SIZE))
    }

    /// The byte at `address` lies at `addr`.
    pub fn put(&self, address: u64, addr: PoolAddr) {
        self.page.set(address & !(PAGE_SIZE - 1));
        self.addr.set(addr.0 - address % PAGE_SIZE);
    }
}
