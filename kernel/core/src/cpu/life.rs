//! What a core keeps in mind of its own life (`life`).

use core::cell::Cell;

use motet_layout::IslandId;

/// What a core's life is doing, and whose calls over links it takes first when it wakes.
#[derive(Default)]
pub struct LifeCore {
    looks_at_ready: Cell<bool>,
    /// The island whose call was taken last.
    served: Cell<usize>,
    serves_next: Cell<usize>,
}

impl LifeCore {
    /// This core has been interrupted, and looks at its ready threads next: whoever becomes ready in `act` is seen then.
    #[inline(always)]
    pub fn before_ready<R>(&self, act: impl FnOnce() -> R) -> R {
        self.looks_at_ready.set(true);
        let result = act();
        self.looks_at_ready.set(false);
        result
    }

    /// Whether it looks at its ready threads next.
    #[inline(always)]
    pub fn looks_at_ready(&self) -> bool {
        self.looks_at_ready.get()
    }

    /// This core has taken a call of `island`.
    #[inline(always)]
    pub fn has_served(&self, island: IslandId) {
        self.served.set(island.index());
    }

    /// The island whose call it takes first when it wakes.
    #[inline(always)]
    pub fn serves_next(&self) -> usize {
        self.serves_next.get()
    }

    /// When it wakes, it begins with the island that it has served last.
    #[inline(always)]
    pub fn serve_same_next(&self) {
        self.serves_next.set(self.served.get());
    }

    /// When it wakes, it begins with the island after that.
    #[inline(always)]
    pub fn serve_other_next(&self) {
        self.serves_next.set(self.served.get() + 1);
    }
}
