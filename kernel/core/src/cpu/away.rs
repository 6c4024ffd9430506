//! What a core keeps in mind of threads on hidden harts (`extension::away`).

use core::cell::Cell;

use motet_abi::hidden::PLACES_MAX;
use motet_layout::ThreadRecord;

/// A place of a thread on a hidden hart.
#[derive(Clone, Copy, Default)]
pub enum Place {
    /// Nobody has it.
    #[default]
    Free,
    /// It has been there since then.
    Away(&'static ThreadRecord, u64),
    /// It is home. The place is its own until it goes on, as its registers are still there.
    Home(&'static ThreadRecord),
}

/// What a core keeps in mind of threads that it has sent to hidden harts, and of those that wait until there is room.
#[derive(Default)]
pub struct AwayCore {
    /// Places of hidden harts, by number.
    pub places: [Cell<Place>; PLACES_MAX],
    /// Places whose threads are away, a bit each.
    pub away: Cell<u64>,
    /// Threads that wait for room, in their order, linked as ready threads are.
    pub first: Cell<Option<&'static ThreadRecord>>,
    /// The last of them.
    pub last: Cell<Option<&'static ThreadRecord>>,
    /// One that waited, and is wanted here.
    pub wanted: Cell<Option<&'static ThreadRecord>>,
    /// Threads that are home, and the one that is wanted: this is looked at whenever the core changes its thread.
    pub come: Cell<u32>,
}

impl AwayCore {
    /// A thread that waited goes on here.
    pub fn set_wanted(&self, thread: &'static ThreadRecord) {
        self.wanted.set(Some(thread));
        self.come.set(self.come.get() + 1);
    }
}
