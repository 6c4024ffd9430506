//! Pool memory for hosted machines. The only unsafe code of this crate.
//!
//! References into a pool are `'static`, so regions are never unmapped: a finished machine's region is zeroed and
//! handed to the next machine that asks for that length.

use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use motet_layout::Pool;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

static FREE: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// A zeroed pool of `len` bytes, until dropped.
pub struct Region(Pool);

impl Region {
    /// # Panics
    /// When the host has no address space left.
    pub fn new(len: u64) -> Self {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = free.iter().position(|pool| pool.len() == len) {
            return Self(free.swap_remove(at));
        }
        let (read_write, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a fresh anonymous mapping replaces nothing.
        let base = unsafe { mmap_anonymous(null_mut(), len as usize, read_write, flags) };
        let base = base.expect("address space for a pool").cast::<u8>();
        // SAFETY: page-aligned, `len` bytes, never unmapped, used only through `Pool`.
        Self(unsafe { Pool::new(base, len) })
    }

    pub fn pool(&self) -> Pool {
        self.0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let base = self.0.bytes(motet_layout::PoolAddr::NULL, self.0.len() as usize);
        // SAFETY: the mapping is ours; a straggler that still looks at it sees zeroes, which are valid in every atomic.
        let zeroed = unsafe { madvise(base.cast(), self.0.len() as usize, Advice::LinuxDontNeed) };
        if zeroed.is_ok() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
        }
    }
}
