//! The shared memory: the pool's header and the clocks, mapped for the rest of QEMU's life.

use std::{
    ops::Range,
    os::fd::{BorrowedFd, RawFd},
    sync::atomic::AtomicU64,
};

use motet_layout::{FINGERPRINT, POOL_MAGIC, POOL_VERSION, Pool, PoolHeader};
use motet_timing::ClockRegion;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Maps the first `len` bytes of an inherited memory file.
fn map(fd: RawFd, len: usize) -> Result<*mut u8, String> {
    map_at(fd, 0, len)
}

/// Maps bytes of an inherited memory file, from a page on.
fn map_at(fd: RawFd, start: u64, len: usize) -> Result<*mut u8, String> {
    // SAFETY: the fabric started this process with the descriptor open; nobody closes it.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: a fresh shared mapping at an address the system chooses; nothing else refers to it.
    unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, start) }
        .map(<*mut _>::cast)
        .map_err(|error| format!("cannot map descriptor {fd}: {error}"))
}

/// The header of the pool that begins there in the machine's memory.
///
/// # Errors
/// There is no pool, or one with other layouts than this plugin was built for.
pub fn header(fd: RawFd, start: u64) -> Result<&'static PoolHeader, String> {
    // SAFETY: page-aligned, never unmapped, and made of atomics only.
    let header = unsafe { &*map_at(fd, start, size_of::<PoolHeader>())?.cast::<PoolHeader>() };
    if header.magic.get() != POOL_MAGIC {
        return Err(format!("descriptor {fd} is no pool"));
    }
    let (version, fingerprint) = (header.version.get(), header.fingerprint.get());
    if (version, fingerprint) != (POOL_VERSION, FINGERPRINT) {
        return Err(format!(
            "the machine's pool has format {version} with layouts {fingerprint:016x}, and this plugin was built for format \
             {POOL_VERSION} with layouts {FINGERPRINT:016x}: build `motet` and the plugin from the same sources (./motet build)"
        ));
    }
    Ok(header)
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

/// The machine's memory as the plugin sees it, to read page tables.
///
/// # Errors
/// The descriptor cannot be mapped.
pub fn pool_words(fd: RawFd, size: u64) -> Result<&'static [AtomicU64], String> {
    words(fd, size as usize / size_of::<AtomicU64>())
}

/// The pool of the island's kernel, which begins there in the machine's memory, for the transfer engine.
///
/// # Errors
/// The descriptor cannot be mapped.
pub fn pool(fd: RawFd, start: u64, size: u64) -> Result<Pool, String> {
    let base = map_at(fd, start, size as usize)?;
    // SAFETY: page-aligned, so many bytes, never unmapped, and used as a pool only.
    Ok(unsafe { Pool::new(base, size) })
}

// SAFETY: see there: words only.
unsafe impl motet_plugin_api::Words for crate::VcpuTime {}

/// A piece of the island's memory: where it is for the guest, how long it is, and where QEMU has it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    local: u64,
    len: usize,
    host: Option<usize>,
}

impl Piece {
    fn local(&self, host: usize) -> Option<u64> {
        let offset = host.checked_sub(self.host?)?;
        (offset < self.len).then(|| self.local + offset as u64)
    }
}

/// Where QEMU has the island's memory in its own address space: instructions are known by these addresses only.
#[derive(Debug)]
pub struct HostMap {
    pool: Piece,
    private: Piece,
    /// Mappings that are neither: firmware in read-only memory.
    others: Vec<Range<usize>>,
}

impl HostMap {
    /// Of a pool and a private memory: local address and bytes each.
    pub fn new(pool: (u64, usize), private: (u64, usize)) -> Self {
        let piece = |(local, len)| Piece { local, len, host: None };
        Self { pool: piece(pool), private: piece(private), others: Vec::new() }
    }

    /// The island's physical address of a byte of code in QEMU's memory; `None` where neither pool nor private memory is.
    pub fn local(&mut self, host: usize) -> Option<u64> {
        if let Some(local) = self.known(host) {
            return Some(local);
        }
        if !self.others.iter().any(|other| other.contains(&host)) {
            self.look(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default(), host);
        }
        self.known(host)
    }

    /// A word of private memory, at the island's physical address.
    pub fn private_word(&self, local: u64) -> Option<u64> {
        let offset = local.checked_sub(self.private.local)? as usize / size_of::<AtomicU64>();
        let host = self.private.host.filter(|_| offset < self.private.len / size_of::<AtomicU64>())?;
        let word = std::ptr::with_exposed_provenance::<AtomicU64>(host + offset * size_of::<AtomicU64>());
        // SAFETY: QEMU maps so many bytes there, page-aligned, for as long as it runs.
        Some(unsafe { (*word).load(std::sync::atomic::Ordering::Relaxed) })
    }

    fn known(&self, host: usize) -> Option<u64> {
        self.pool.local(host).or_else(|| self.private.local(host))
    }

    /// Looks in `/proc/self/maps` (proc(5)) for the mapping that holds `code`: the pool has a name, private memory its length.
    fn look(&mut self, maps: &str, code: usize) {
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let number = |text| usize::from_str_radix(text, 16).ok();
            let range = words.next().and_then(|range| range.split_once('-'));
            let Some((start, end)) = range.and_then(|(start, end)| Some((number(start)?, number(end)?))) else {
                continue;
            };
            if !(start..end).contains(&code) {
                continue;
            }
            if line.contains("memfd:motet-pool") {
                self.pool.host = start.checked_sub(words.nth(1).and_then(number).unwrap_or(0));
            } else if end - start == self.private.len {
                self.private.host = Some(start);
            } else {
                self.others.push(start..end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_the_pool_and_in_private_memory_and_firmware_is_in_neither() {
        let maps = "10000000-10200000 rw-s 00000000 00:01 7 /memfd:motet-pool (deleted)\n\
                    20000000-20100000 rw-p 00000000 00:00 0\n\
                    30000000-30020000 r--p 00000000 00:00 0 /usr/share/qemu/qboot.rom\n";
        let mut map = HostMap::new((0x8000_0000, 0x20_0000), (0x4000_0000, 0x10_0000));
        for code in [0x3000_0040, 0x1000_0080, 0x2000_0100] {
            map.look(maps, code);
        }
        assert_eq!(map.known(0x1000_0080), Some(0x8000_0080));
        assert_eq!(map.known(0x2000_0100), Some(0x4000_0100));
        assert_eq!((map.known(0x3000_0040), map.known(0x2010_0000)), (None, None));
        assert_eq!((map.others.len(), map.others[0].clone()), (1, 0x3000_0000..0x3002_0000));
    }
}
