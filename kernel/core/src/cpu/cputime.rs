//! What a core keeps in mind of the time that it has used (`cputime`).

use core::cell::Cell;

/// Since when this core is busy, or idle, as far as nothing has been charged for it, in machine time.
pub struct CputimeCore {
    /// When it woke last, or was last charged.
    busy_since_ns: Cell<u64>,
    /// When it fell asleep last, or was last charged.
    idle_since_ns: Cell<u64>,
}

impl Default for CputimeCore {
    fn default() -> Self {
        Self { busy_since_ns: Cell::new(u64::MAX), idle_since_ns: Cell::new(u64::MAX) }
    }
}

impl CputimeCore {
    /// This core has woken.
    #[inline(always)]
    pub fn woke(&self, now_ns: u64) {
        self.busy_since_ns.set(now_ns);
    }

    /// When it woke last, or was last charged.
    #[inline(always)]
    pub fn busy_since_ns(&self) -> u64 {
        self.busy_since_ns.get()
    }

    /// It is charged for all until now: how long it slept since it was last charged, and how long it has been awake.
    #[inline(always)]
    pub fn charge(&self, now_ns: u64) -> (u64, u64) {
        let busy_since_ns = self.busy_since_ns.replace(now_ns);
        let idle_ns = busy_since_ns.saturating_sub(self.idle_since_ns.replace(now_ns));
        (idle_ns, now_ns.saturating_sub(busy_since_ns))
    }
}
