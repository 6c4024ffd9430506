//! What a core keeps in mind of its own life (`life`).

use core::cell::Cell;

use motet_layout::IslandId;

/// Who follows a thread that leaves the core, before the general way looks who does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Follower {
    /// Nobody in particular.
    #[default]
    Any,
    /// One that an idle core hands over, most likely soon: the last one was handed to that.
    Handed,
    /// The first of the ready ones, as nothing else is due.
    First,
}

/// What a core's life is doing, and whose calls over links it takes first when it wakes.
#[derive(Default)]
pub struct LifeCore {
    follower: Cell<Follower>,
    looks_at_ready: Cell<bool>,
    /// The island whose call was taken last.
    served: Cell<usize>,
    serves_next: Cell<usize>,
}

impl LifeCore {
    /// The thread that runs leaves the core: who follows.
    #[inline(always)]
    pub fn set_follower(&self, follower: Follower) {
        self.follower.set(follower);
    }

    /// Whether anybody in particular does.
    #[inline(always)]
    pub fn has_follower(&self) -> bool {
        self.follower.get() != Follower::Any
    }

    /// Who does; for the thread after that one, nobody is said to.
    #[inline(always)]
    pub fn take_follower(&self) -> Follower {
        self.follower.take()
    }

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
