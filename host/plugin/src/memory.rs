//! The shared memory: the pool's header and the clocks, mapped for the rest of QEMU's life.

use std::{
    os::fd::{BorrowedFd, RawFd},
    sync::atomic::AtomicU64,
};

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

/// The words of the cache model.
///
/// # Errors
/// The descriptor cannot be mapped.
pub fn words(fd: RawFd, count: usize) -> Result<&'static [AtomicU64], String> {
    let base = map(fd, count * size_of::<AtomicU64>())?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), count) })
}

/// Where QEMU has the island's memory in its own address space: instructions are known by these addresses only.
#[derive(Clone, Copy, Debug)]
pub struct HostMap {
    pool: (usize, usize),
    pool_local: u64,
    private: (usize, usize),
    private_local: u64,
}

impl HostMap {
    /// Finds the mapping of the pool and the one that holds `code`, an address in private memory.
    pub fn find(code: usize, pool: (u64, usize), private: (u64, usize)) -> Self {
        let mut map = Self { pool: (0, 0), pool_local: pool.0, private: (0, private.1), private_local: private.0 };
        let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for line in text.lines() {
            let Some((start, end)) = line.split_whitespace().next().and_then(|range| range.split_once('-')) else {
                continue;
            };
            let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)) else {
                continue;
            };
            if line.contains("memfd:motet-pool") && end - start >= pool.1 {
                map.pool = (start, pool.1);
            } else if (start..end).contains(&code) && end - start == private.1 {
                map.private.0 = start;
            }
        }
        map
    }

    /// The island's physical address of a byte of QEMU's memory.
    #[inline]
    pub fn local(&self, host: usize) -> u64 {
        let in_pool = host.wrapping_sub(self.pool.0);
        if in_pool < self.pool.1 {
            return self.pool_local + in_pool as u64;
        }
        self.private_local + (host.wrapping_sub(self.private.0) % self.private.1.max(1)) as u64
    }
}
