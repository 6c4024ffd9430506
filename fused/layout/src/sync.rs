//! The atomics that pool structures are made of.
//!
//! Ordinarily these are `core`'s, re-exported. Under `--cfg motet_model` they are wrappers of the same size, alignment
//! and meaning that first call a hook: a model checker ([shuttle], in `fused/protocol/tests`) or the deterministic
//! scheduler of hosted islands decides there who acts next. So models run the very code and the very bytes that kernels
//! run. What they explore are sequentially consistent interleavings; whether the orderings written down are strong
//! enough for weaker machines is the litmus tests' business (`motet_hal::conformance`).
//!
//! [shuttle]: https://docs.rs/shuttle

pub use core::sync::atomic::Ordering;

#[cfg(not(motet_model))]
pub use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

#[cfg(motet_model)]
pub use model::*;

#[cfg(motet_model)]
mod model {
    extern crate std;

    use core::cell::Cell;
    use core::sync::atomic::{self, Ordering};
    use std::sync::OnceLock;

    std::thread_local! {
        static CHANGES: Cell<bool> = const { Cell::new(false) };
    }

    static HOOK: OnceLock<fn()> = OnceLock::new();

    /// Sets what is called before every atomic operation. The first call counts.
    pub fn set_hook(hook: fn()) {
        // Every test of a binary sets the same hook.
        let _ = HOOK.set(hook);
    }

    /// Whether the operation that the hook is called before may change a word; else it only looks.
    pub fn changes() -> bool {
        CHANGES.get()
    }

    fn before_operation(changes: bool) {
        if let Some(hook) = HOOK.get() {
            CHANGES.set(changes);
            hook();
        }
    }

    /// A fence. Interleavings are sequentially consistent here, so it only lets others act.
    pub fn fence(order: Ordering) {
        before_operation(false);
        atomic::fence(order);
    }

    macro_rules! atomics {
        ($($name:ident $value:ty;)*) => { $(
            #[doc = concat!("`core`'s `", stringify!($name), "`, with a scheduling point before every operation.")]
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub struct $name(atomic::$name);

            #[allow(missing_docs)] // as in `core`
            impl $name {
                pub const fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }
                /// Without scheduling points: of what only this core uses.
                pub const fn unseen(&self) -> &atomic::$name {
                    &self.0
                }
                pub fn load(&self, order: Ordering) -> $value {
                    before_operation(false);
                    self.0.load(order)
                }
                pub fn store(&self, value: $value, order: Ordering) {
                    before_operation(true);
                    self.0.store(value, order);
                }
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.swap(value, order)
                }
                pub fn compare_exchange(
                    &self, current: $value, new: $value, success: Ordering, failure: Ordering,
                ) -> Result<$value, $value> {
                    before_operation(true);
                    self.0.compare_exchange(current, new, success, failure)
                }
                pub fn compare_exchange_weak(
                    &self, current: $value, new: $value, success: Ordering, failure: Ordering,
                ) -> Result<$value, $value> {
                    before_operation(true);
                    self.0.compare_exchange(current, new, success, failure)
                }
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_add(value, order)
                }
                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_sub(value, order)
                }
                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_and(value, order)
                }
                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_or(value, order)
                }
                pub fn fetch_xor(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_xor(value, order)
                }
                pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_max(value, order)
                }
                pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                    before_operation(true);
                    self.0.fetch_min(value, order)
                }
                pub fn fetch_update(
                    &self, success: Ordering, failure: Ordering, update: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    before_operation(true);
                    self.0.fetch_update(success, failure, update)
                }
            }
        )* };
    }
    atomics! {
        AtomicU8 u8;
        AtomicU16 u16;
        AtomicU32 u32;
        AtomicU64 u64;
        AtomicI64 i64;
    }
}
