//! Memory that this process and all islands' QEMUs map, for the rest of the process's life.

use std::{os::fd::OwnedFd, sync::atomic::AtomicU64};

use motet_error::{Context, Result};
use motet_timing::ClockRegion;
use rustix::{
    fs::MemfdFlags,
    mm::{self, MapFlags, ProtFlags},
};

/// Clocks that nobody has set up yet.
pub(super) fn clocks() -> Result<(OwnedFd, &'static ClockRegion)> {
    let (memory, base) = map("motet-clocks", size_of::<ClockRegion>())?;
    // SAFETY: page-aligned, of that size, never unmapped, and made of atomics only.
    Ok((memory, unsafe { &*base.cast::<ClockRegion>() }))
}

/// So many words of zeros.
pub(super) fn words(name: &str, count: usize) -> Result<(OwnedFd, &'static [AtomicU64])> {
    let (memory, base) = map(name, count * size_of::<AtomicU64>())?;
    // SAFETY: as above.
    Ok((memory, unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), count) }))
}

fn map(name: &str, size: usize) -> Result<(OwnedFd, *mut u8)> {
    let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).host("a memory file")?;
    rustix::fs::ftruncate(&memory, size as u64).host("memory for a timed run")?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh shared mapping at an address the system chooses; nothing else refers to it.
    let base = unsafe { mm::mmap(std::ptr::null_mut(), size, protection, MapFlags::SHARED, &memory, 0) }
        .host("address space for a timed run")?;
    Ok((memory, base.cast()))
}
