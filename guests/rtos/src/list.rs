//! Lines of threads: doubly linked by thread numbers, so that a thread leaves from anywhere in constant time.

use crate::{THREADS_MAX, ThreadId};

#[derive(Clone, Copy, Debug)]
struct Link {
    before: Option<ThreadId>,
    after: Option<ThreadId>,
}

/// The links of all threads for lists of one kind; a thread is in one list of a kind at most.
#[derive(Debug)]
pub struct Links([Link; THREADS_MAX]);

impl Links {
    pub const fn new() -> Self {
        Self([Link { before: None, after: None }; THREADS_MAX])
    }
}

/// The two ends of a line.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: Option<ThreadId>,
    last: Option<ThreadId>,
}

impl List {
    pub const EMPTY: Self = Self { first: None, last: None };

    pub const fn first(self) -> Option<ThreadId> {
        self.first
    }

    pub fn push(&mut self, links: &mut Links, thread: ThreadId) {
        self.insert(links, thread, None);
    }

    /// Puts a thread before the first one of which `is_behind` holds.
    pub fn insert_before(&mut self, links: &mut Links, thread: ThreadId, is_behind: impl Fn(ThreadId) -> bool) {
        let mut place = self.first;
        while let Some(other) = place
            && !is_behind(other)
        {
            place = links.0[other.index()].after;
        }
        self.insert(links, thread, place);
    }

    /// Puts a thread before `after`, or at the end.
    fn insert(&mut self, links: &mut Links, thread: ThreadId, after: Option<ThreadId>) {
        let before = match after {
            Some(after) => links.0[after.index()].before.replace(thread),
            None => self.last.replace(thread),
        };
        match before {
            Some(before) => links.0[before.index()].after = Some(thread),
            None => self.first = Some(thread),
        }
        links.0[thread.index()] = Link { before, after };
    }

    /// Takes a thread out that is in this list.
    pub fn remove(&mut self, links: &mut Links, thread: ThreadId) {
        let Link { before, after } = links.0[thread.index()];
        match before {
            Some(before) => links.0[before.index()].after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => links.0[after.index()].before = before,
            None => self.last = before,
        }
    }

    /// The threads from first to last.
    #[cfg(test)]
    pub fn iter(self, links: &Links) -> impl Iterator<Item = ThreadId> {
        core::iter::successors(self.first, |thread| links.0[thread.index()].after)
    }
}
