//! What is done with a fault on a page for which another one is being served: Popcorn's 64 rules (`kernel/popcorn/fh_action.c` of its public sources), as facts.

/// Where the two meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the page's home.
    Home,
    /// At another kernel.
    Remote,
}

/// A fault, or the request of another kernel that had one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// To write.
    pub write: bool,
    /// Of another kernel.
    pub is_remote: bool,
}

/// What is done with the second one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It waits, and has the result of the first one.
    Follow,
    /// It is tried again when the first one is done.
    WaitAndRetry,
    /// It is tried again: at once, or by the kernel that has asked.
    Retry,
}

impl Action {
    /// Whether it waits for the first one.
    pub const fn waits(self) -> bool {
        !matches!(self, Self::Retry)
    }
}

use Action::{Follow, Retry, WaitAndRetry as Wait};

/// By place, the first fault's kernel, whether the first one has lost its copy meanwhile, and whether it writes: a row; by whether the second one writes, and its kernel: a column.
/// `None`: that cannot be.
const ACTIONS: [[Option<Action>; 4]; 16] = {
    const NEVER: [Option<Action>; 4] = [None; 4];
    // Columns: own to read, other's to read, own to write, other's to write.
    [
        // At home, an own thread is served.
        [Some(Follow), Some(Wait), Some(Wait), Some(Retry)],
        [Some(Follow), Some(Retry), Some(Follow), Some(Retry)],
        // ... and only remote copies are taken away.
        NEVER,
        NEVER,
        // At home, another kernel is served.
        [Some(Follow), Some(Wait), Some(Wait), Some(Wait)],
        [Some(Wait), Some(Retry), Some(Wait), Some(Retry)],
        NEVER,
        NEVER,
        // At another kernel, an own thread is served.
        [Some(Follow), None, Some(Wait), None],
        [Some(Follow), Some(Wait), Some(Follow), Some(Wait)],
        [Some(Follow), None, Some(Wait), None],
        [Some(Follow), None, Some(Follow), None],
        // At another kernel, the home is served.
        [None, None, Some(Wait), None],
        [Some(Wait), None, Some(Wait), None],
        NEVER,
        NEVER,
    ]
};

/// What is done with `new` while `current` is served; `invalidated`: who is served has lost its copy meanwhile. `None`: that cannot be.
pub fn action(place: Place, current: Fault, invalidated: bool, new: Fault) -> Option<Action> {
    let row = usize::from(place == Place::Remote) << 3
        | usize::from(current.is_remote) << 2
        | usize::from(invalidated) << 1
        | usize::from(current.write);
    ACTIONS[row][usize::from(new.write) << 1 | usize::from(new.is_remote)]
}
