//! Lists of threads, sorted by priority; among equals, the one that came first is first.

use motet_layout::{Cell32, ServiceCore};

use super::ThreadIndex;

/// A list of threads.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    core: &'a ServiceCore,
    head: &'a Cell32,
}

impl<'a> Queue<'a> {
    /// The list whose first link is in the word `head`.
    pub fn new(core: &'a ServiceCore, head: &'a Cell32) -> Self {
        Self { core, head }
    }

    fn next_of(&self, thread: ThreadIndex) -> &'a Cell32 {
        &self.core.threads[usize::from(thread.0)].next
    }

    fn priority_of(&self, thread: ThreadIndex) -> u32 {
        self.core.threads[usize::from(thread.0)].priority.get()
    }

    /// The threads of the list. The iteration ends even if damaged words form a ring.
    pub fn iter(self) -> impl Iterator<Item = ThreadIndex> + use<'a> {
        let first = ThreadIndex::from_link(self.head.get());
        core::iter::successors(first, move |thread| ThreadIndex::from_link(self.next_of(*thread).get()))
            .take(self.core.threads.len())
    }

    /// The link to the first thread for which `is_it` is true, or the last link.
    fn link_before(&self, is_it: impl Fn(ThreadIndex) -> bool) -> &'a Cell32 {
        let mut link = self.head;
        for thread in self.iter() {
            if is_it(thread) {
                break;
            }
            link = self.next_of(thread);
        }
        link
    }

    /// Adds a thread.
    pub fn add(&self, thread: ThreadIndex) {
        let priority = self.priority_of(thread);
        self.link(thread, self.link_before(|other| self.priority_of(other) > priority));
    }

    fn link(&self, thread: ThreadIndex, at: &Cell32) {
        self.next_of(thread).set(at.get());
        at.set(thread.link());
    }

    /// Adds a thread before those of the same priority.
    pub fn add_before_equals(&self, thread: ThreadIndex) {
        let priority = self.priority_of(thread);
        self.link(thread, self.link_before(|other| self.priority_of(other) >= priority));
    }

    /// Takes a thread out, if it is there.
    pub fn remove(&self, thread: ThreadIndex) {
        let link = self.link_before(|other| other == thread);
        if link.get() == thread.link() {
            link.set(self.next_of(thread).get());
            self.next_of(thread).set(0);
        }
    }

    /// Takes the first thread out.
    pub fn take(&self) -> Option<ThreadIndex> {
        let first = ThreadIndex::from_link(self.head.get())?;
        self.head.set(self.next_of(first).get());
        self.next_of(first).set(0);
        Some(first)
    }

    /// Removes all threads, one after the other. It ends as [`Self::iter`] does.
    pub fn drain(self) -> impl Iterator<Item = ThreadIndex> + use<'a> {
        core::iter::from_fn(move || self.take()).take(self.core.threads.len())
    }

    /// Whether there is no thread in it.
    pub fn is_empty(&self) -> bool {
        ThreadIndex::from_link(self.head.get()).is_none()
    }
}
