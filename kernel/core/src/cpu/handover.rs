//! What a core keeps in mind of extended registers (`handover`, and `crossing` where it lends them).

use core::cell::Cell;

/// Whose extended registers this core holds.
#[derive(Default)]
pub struct HandoverCore {
    /// Whoever has them (pool address), and the thread's id, or another number that says what for; zeros: nobody.
    owner: Cell<(u64, u32)>,
}

impl HandoverCore {
    /// Whether this core holds those of `owner` (pool address) as `id`.
    #[inline(always)]
    pub fn holds(&self, owner: u64, id: u32) -> bool {
        self.owner.get() == (owner, id)
    }

    /// This core holds those of `owner` (pool address) as `id` from now on.
    #[inline(always)]
    pub fn hold(&self, owner: u64, id: u32) {
        self.owner.set((owner, id));
    }

    /// What it holds is nobody's any more.
    #[inline(always)]
    pub fn forget(&self) {
        self.owner.set((0, 0));
    }
}
