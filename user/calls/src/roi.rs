//! Regions of interest, for programs without a C library; C programs use `user/include/motet.h`, which says what they are.

use crate::{marks, system};

/// A region begins.
#[inline(always)]
pub fn begin(name: &[u8]) {
    touch(name);
    system::mark_with::<{ marks::ROI_BEGIN }>(name);
}

/// A region ends.
#[inline(always)]
pub fn end(name: &[u8]) {
    touch(name);
    system::mark_with::<{ marks::ROI_END }>(name);
}

/// Loads the first and last byte of a name. That brings its pages into memory, which the simulator cannot do.
#[inline(always)]
fn touch(name: &[u8]) {
    let name = &name[..name.len().min(marks::ROI_NAME_MAX)];
    for byte in name.first().into_iter().chain(name.last()) {
        // SAFETY: a reference. Volatile, because a compiler that knows the byte would not read it.
        unsafe { core::ptr::from_ref(byte).read_volatile() };
    }
}
