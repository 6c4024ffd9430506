//! What a core keeps in mind of extended registers (`handover`, and `crossing` where it lends them).

use core::cell::Cell;

/// Whose extended registers this core holds.
#[derive(Default)]
pub struct HandoverCore {
    /// Whoever has them (pool address), and the thread's id, or another number that says what for; zeros: nobody.
    owner: Cell<(u64, u32)>,
    /// Of a thread's: their number ([`ThreadRecord::ext_version`](motet_layout::ThreadRecord::ext_version)).
    version: Cell<u64>,
    /// The last thread that ran here has gone to an idle core.
    has_given: Cell<bool>,
}

impl HandoverCore {
    /// Whether this core holds those of `owner` (pool address) as `id`.
    #[inline(always)]
    pub fn holds(&self, owner: u64, id: u32) -> bool {
        self.owner.get() == (owner, id)
    }

    /// Whether this core holds a thread's of this number.
    #[inline(always)]
    pub fn holds_version(&self, owner: u64, id: u32, version: u64) -> bool {
        self.holds(owner, id) && self.version.get() == version
    }

    /// This core holds those of `owner` (pool address) as `id` from now on; of a thread, those of this number.
    #[inline(always)]
    pub fn hold(&self, owner: u64, id: u32, version: u64) {
        self.owner.set((owner, id));
        self.version.set(version);
    }

    /// Those of the thread that runs here have this number from now on: if this core holds any, it is that thread's.
    #[inline(always)]
    pub fn has_stored(&self, version: u64) {
        self.version.set(version);
    }

    /// The thread that ran here has gone to an idle core, or has not.
    #[inline(always)]
    pub fn has_given(&self, has: bool) {
        self.has_given.set(has);
    }

    /// Whether it has.
    #[inline(always)]
    pub fn is_given(&self) -> bool {
        self.has_given.get()
    }

    /// What it holds is nobody's any more.
    #[inline(always)]
    pub fn forget(&self) {
        self.owner.set((0, 0));
    }
}
