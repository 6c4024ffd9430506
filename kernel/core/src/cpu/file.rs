//! What a core keeps in mind of files (`file`).

use core::cell::Cell;

/// What a core does with files.
#[derive(Default)]
pub struct FileCore {
    /// It frees packets that nobody receives any more.
    frees_packets: Cell<bool>,
}

impl FileCore {
    /// It begins to free packets. `false`: it does already, and what frees more goes on later.
    pub fn begins_to_free_packets(&self) -> bool {
        !self.frees_packets.replace(true)
    }

    /// Whether it frees packets.
    pub fn frees_packets(&self) -> bool {
        self.frees_packets.get()
    }

    /// It has freed them.
    pub fn has_freed_packets(&self) {
        self.frees_packets.set(false);
    }
}
