//! The shared memory: the pool's header and the clocks, mapped for the rest of QEMU's life.

use std::os::fd::{BorrowedFd, RawFd};

use motet_layout::{POOL_MAGIC, PoolHeader};
use motet_timing::ClockRegion;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Maps the first `len` bytes of an inherited memory file.
fn map(fd: RawFd, len: usize) -> Result<*mut u8, String> {
    // SAFETY: the fabric started this process with the descriptor open; nobody closes it.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: a fresh shared mapping at an address the system chooses; nothing else refers to it.
    unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0) }
        .map(<*mut _>::cast)
        .map_err(|error| format!("cannot map descriptor {fd}: {error}"))
}

/// The pool's header.
///
/// # Errors
/// The descriptor is no pool.
pub fn header(fd: RawFd) -> Result<&'static PoolHeader, String> {
    // SAFETY: page-aligned, never unmapped, and made of atomics only.
    let header = unsafe { &*map(fd, size_of::<PoolHeader>())?.cast::<PoolHeader>() };
    if header.magic.get() == POOL_MAGIC { Ok(header) } else { Err(format!("descriptor {fd} is no pool")) }
}

/// The clocks.
///
/// # Errors
/// The descriptor cannot be mapped.
pub fn clocks(fd: RawFd) -> Result<&'static ClockRegion, String> {
    // SAFETY: as above.
    Ok(unsafe { &*map(fd, size_of::<ClockRegion>())?.cast::<ClockRegion>() })
}

/// An inherited eventfd.
pub fn event(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the fabric started this process with the descriptor open; nobody closes it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
