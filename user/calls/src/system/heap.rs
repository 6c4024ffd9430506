//! Memory for programs that allocate a little and then run: nothing is freed.

use core::{
    alloc::{GlobalAlloc, Layout},
    ptr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::zeroed;

/// Bytes that are requested from the kernel at once.
const PIECE: usize = 256 << 10;

struct Heap {
    busy: AtomicBool,
    at: AtomicUsize,
    end: AtomicUsize,
}

#[global_allocator]
static HEAP: Heap = Heap { busy: AtomicBool::new(false), at: AtomicUsize::new(0), end: AtomicUsize::new(0) };

// SAFETY: each allocation is a part of its own of memory that is this program's alone and stays, large and aligned enough.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        while self.busy.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        let mut start = self.at.load(Ordering::Relaxed).next_multiple_of(layout.align());
        if start.saturating_add(layout.size()) > self.end.load(Ordering::Relaxed) {
            let bytes = (layout.size() + layout.align()).max(PIECE);
            let piece: &'static mut [u64] = zeroed(bytes.div_ceil(8));
            let first = piece.as_mut_ptr().expose_provenance();
            self.end.store(first + bytes / 8 * 8, Ordering::Relaxed);
            start = first.next_multiple_of(layout.align());
        }
        self.at.store(start + layout.size(), Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
        ptr::with_exposed_provenance_mut(start)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
