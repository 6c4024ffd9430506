//! For tests alone: dying with a chosen lock, and leaving a repair out.

extern crate std;

use core::cell::Cell;

use motet_layout::{CoreRecord, LockClass, PoolAddr};

use super::order;
use crate::Context;

std::thread_local! {
    static UNREPAIRED: Cell<Option<LockClass>> = const { Cell::new(None) };
}

/// From now on this thread repairs nothing that a lock of that class protects; `None`: everything.
pub fn leave_unrepaired(class: Option<LockClass>) {
    UNREPAIRED.set(class);
}

/// Whether a core has a lock of a class.
pub fn holds(record: &CoreRecord, class: LockClass) -> bool {
    order::held(record, class) != 0
}

/// Repairs what a lock protects, unless that is left out.
pub(super) fn repair(context: &impl Context, class: LockClass, lock: PoolAddr) -> bool {
    UNREPAIRED.get() == Some(class) || context.recover(class, lock)
}
