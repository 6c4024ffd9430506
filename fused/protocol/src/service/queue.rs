//! Lists of threads, the most urgent one first, and of those that are as urgent the one that came first.

use motet_layout::{Cell32, ServiceCore};

use super::ThreadIndex;

/// A list.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    core: &'a ServiceCore,
    head: &'a Cell32,
}

impl<'a> Queue<'a> {
    /// The list that begins with a word.
    pub fn new(core: &'a ServiceCore, head: &'a Cell32) -> Self {
        Self { core, head }
    }

    fn next_of(&self, thread: ThreadIndex) -> &'a Cell32 {
        &self.core.threads[usize::from(thread.0)].next
    }

    fn priority_of(&self, thread: ThreadIndex) -> u32 {
        self.core.threads[usize::from(thread.0)].priority.get()
    }

    /// Its threads. A list that damaged words have made a ring ends, too.
    pub fn iter(self) -> impl Iterator<Item = ThreadIndex> + use<'a> {
        let first = ThreadIndex::from_link(self.head.get());
        core::iter::successors(first, move |thread| ThreadIndex::from_link(self.next_of(*thread).get()))
            .take(self.core.threads.len())
    }

    /// The word that names the first thread for which `is_it` says so, or the last word.
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

    /// Adds a thread before those that are as urgent.
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

    /// Takes one after the other out, and ends as [`Self::iter`] does.
    pub fn drain(self) -> impl Iterator<Item = ThreadIndex> + use<'a> {
        core::iter::from_fn(move || self.take()).take(self.core.threads.len())
    }

    /// Whether there is no thread in it.
    pub fn is_empty(&self) -> bool {
        ThreadIndex::from_link(self.head.get()).is_none()
    }
}
