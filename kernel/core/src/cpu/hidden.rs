//! What a core keeps in mind of threads on hidden harts (`extension::hidden`).

use core::cell::Cell;

use motet_abi::hidden::PLACES_MAX;
use motet_layout::{ThreadRecord, ones};

/// A place of a thread on a hidden hart.
#[derive(Clone, Copy, Default)]
pub enum HartPlace {
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
pub struct HiddenCore {
    /// Places of hidden harts, by number.
    places: [Cell<HartPlace>; PLACES_MAX],
    /// Places whose threads are away, a bit each.
    away: Cell<u64>,
    /// Threads that wait for room, in their order, linked as ready threads are.
    first: Cell<Option<&'static ThreadRecord>>,
    /// The last of them.
    last: Cell<Option<&'static ThreadRecord>>,
    /// One that waited, and is wanted here.
    wanted: Cell<Option<&'static ThreadRecord>>,
    /// Threads that are home, and the one that is wanted.
    come: Cell<u32>,
}

impl HiddenCore {
    /// All places, with their numbers.
    pub fn places(&self) -> impl Iterator<Item = (usize, HartPlace)> {
        self.places.iter().map(Cell::get).enumerate()
    }

    /// Whether any thread is away.
    pub fn is_any_away(&self) -> bool {
        self.away.get() != 0
    }

    /// Those that are away, of the places in `mask`: the place's number, the thread, and since when.
    pub fn away(&self, mask: u64) -> impl Iterator<Item = (usize, &'static ThreadRecord, u64)> {
        ones(self.away.get() & mask).filter_map(|index| match self.places[index].get() {
            HartPlace::Away(thread, since_ns) => Some((index, thread, since_ns)),
            HartPlace::Free | HartPlace::Home(_) => None,
        })
    }

    /// The thread is away at a place from now on.
    pub fn go(&self, place: usize, thread: &'static ThreadRecord, now_ns: u64) {
        self.places[place].set(HartPlace::Away(thread, now_ns));
        self.away.set(self.away.get() | 1 << place);
    }

    /// The thread that was away at a place is home.
    pub fn come_home(&self, place: usize, thread: &'static ThreadRecord) {
        self.places[place].set(HartPlace::Home(thread));
        self.away.set(self.away.get() & !(1 << place));
        self.come.set(self.come.get() + 1);
    }

    /// The thread that is home leaves its place.
    pub fn free(&self, place: usize) {
        self.places[place].set(HartPlace::Free);
    }

    /// Whether a thread is home, or wanted here, that has not gone on. The core looks at [`Causes::COME`](super::Causes::COME) instead.
    pub fn has_come(&self) -> bool {
        self.come.get() != 0
    }

    /// One of those has gone on.
    pub fn went_on(&self) {
        self.come.set(self.come.get() - 1);
    }

    /// All of them have.
    pub fn all_went_on(&self) {
        self.come.set(0);
    }

    /// The first thread that waits for room.
    #[inline(always)]
    pub fn first_waiting(&self) -> Option<&'static ThreadRecord> {
        self.first.get()
    }

    /// Whether any thread waits for room.
    #[inline(always)]
    pub fn is_any_waiting(&self) -> bool {
        self.first.get().is_some()
    }

    /// A thread waits for room from now on: behind the one that is returned, to which the caller links it; `None`: it is the first.
    pub fn wait(&self, thread: &'static ThreadRecord) -> Option<&'static ThreadRecord> {
        let before = self.last.replace(Some(thread));
        if before.is_none() {
            self.first.set(Some(thread));
        }
        before
    }

    /// The first thread waits no longer, but those from `next` on.
    pub fn wait_no_longer(&self, next: Option<&'static ThreadRecord>) {
        self.first.set(next);
        if next.is_none() {
            self.last.set(None);
        }
    }

    /// The first of the threads that wait, none of which this core keeps in mind any more.
    pub fn take_waiting(&self) -> Option<&'static ThreadRecord> {
        self.last.set(None);
        self.first.take()
    }

    /// Whether one that waited is wanted here. There is room for one.
    pub fn has_wanted(&self) -> bool {
        self.wanted.get().is_some()
    }

    /// A thread that waited goes on here.
    pub fn set_wanted(&self, thread: &'static ThreadRecord) {
        self.wanted.set(Some(thread));
        self.come.set(self.come.get() + 1);
    }

    /// The thread that waited and goes on here.
    pub fn take_wanted(&self) -> Option<&'static ThreadRecord> {
        self.wanted.take()
    }
}
