//! What a core keeps in mind of its timer (`alarm`).

use core::cell::Cell;

/// When this core's timer is to interrupt.
pub struct AlarmCore {
    /// In machine time; `u64::MAX`: it is not set, or has gone off.
    at_ns: Cell<u64>,
    /// The offset of the clock when it was set.
    offset_ns: Cell<u64>,
}

impl Default for AlarmCore {
    fn default() -> Self {
        Self { at_ns: Cell::new(u64::MAX), offset_ns: Cell::default() }
    }
}

impl AlarmCore {
    /// When it interrupts, in machine time; `u64::MAX`: not at all.
    #[inline(always)]
    pub fn at_ns(&self) -> u64 {
        self.at_ns.get()
    }

    /// Whether it is set, and has not gone off as far as this core knows.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.at_ns.get() != u64::MAX
    }

    /// Whether it was set when the island's clock had this offset.
    #[inline(always)]
    pub fn is_right(&self, offset_ns: u64) -> bool {
        self.offset_ns.get() == offset_ns
    }

    /// It has been set.
    #[inline(always)]
    pub fn set(&self, at_ns: u64) {
        self.at_ns.set(at_ns);
    }

    /// It has been set, by a clock with this offset.
    #[inline(always)]
    pub fn set_by(&self, at_ns: u64, offset_ns: u64) {
        self.at_ns.set(at_ns);
        self.offset_ns.set(offset_ns);
    }

    /// It has gone off, or is to be set whatever it is set to.
    #[inline(always)]
    pub fn clear(&self) {
        self.at_ns.set(u64::MAX);
    }
}
