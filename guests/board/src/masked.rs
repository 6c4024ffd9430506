//! What is used with interrupts masked only, and therefore by one at a time, as there is one core.

use core::cell::{Cell, UnsafeCell};

use crate::isa;

/// Interrupts are masked for as long as this is borrowed.
#[derive(Debug)]
pub struct Mask(());

impl Mask {
    /// # Panics
    /// Another core than the one that boots.
    pub(crate) fn new() -> Self {
        assert!(isa::is_first_core(), "another core uses what belongs to the first one");
        Self(())
    }
}

/// Does something with interrupts masked; afterwards they are as they were.
pub fn masked<T>(action: impl FnOnce(&Mask) -> T) -> T {
    let before = isa::mask();
    let result = action(&Mask::new());
    isa::unmask(before);
    result
}

/// A value for who has interrupts masked.
#[derive(Debug)]
pub struct Masked<T> {
    value: UnsafeCell<T>,
    is_borrowed: Cell<bool>,
}

// SAFETY: it is reached with interrupts masked only, on the core that boots, so nobody else does meanwhile.
unsafe impl<T: Send> Sync for Masked<T> {}

impl<T> Masked<T> {
    /// A static's.
    pub const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), is_borrowed: Cell::new(false) }
    }

    /// Does something with the value. It must not switch stacks, or borrow the same value again: that panics.
    pub fn with<R>(&self, _: &Mask, action: impl FnOnce(&mut T) -> R) -> R {
        assert!(!self.is_borrowed.replace(true), "a value is borrowed twice");
        // SAFETY: nobody else has it, as was just asked.
        let result = action(unsafe { &mut *self.value.get() });
        self.is_borrowed.set(false);
        result
    }
}
