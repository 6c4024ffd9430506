//! Threads that are ready, by priority.

use crate::{
    PRIORITIES, Priority, ThreadId,
    list::{Links, List},
};

#[derive(Debug)]
pub struct Ready {
    lists: [List; PRIORITIES],
    /// Bit N: the list of priority N has a thread.
    occupied: u32,
}

impl Ready {
    pub const fn new() -> Self {
        Self { lists: [List::EMPTY; PRIORITIES], occupied: 0 }
    }

    /// The first thread of the most urgent priority; the idle thread is always ready.
    pub fn first(&self) -> ThreadId {
        // Without any bit it is the list behind the last one.
        self.lists.get(self.occupied.trailing_zeros() as usize).and_then(|list| list.first()).unwrap_or(ThreadId::IDLE)
    }

    pub fn push(&mut self, links: &mut Links, thread: ThreadId, priority: Priority) {
        self.lists[priority.index()].push(links, thread);
        self.occupied |= 1 << priority.index();
    }

    pub fn remove(&mut self, links: &mut Links, thread: ThreadId, priority: Priority) {
        let list = &mut self.lists[priority.index()];
        list.remove(links, thread);
        if list.first().is_none() {
            self.occupied &= !(1 << priority.index());
        }
    }

    #[cfg(test)]
    pub fn list(&self, priority: usize) -> List {
        self.lists[priority]
    }
}
