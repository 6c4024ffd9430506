//! Access to the pool's bytes. The only unsafe code of this crate; everything above it is safe.

use crate::sync::AtomicU64;

use crate::{Frame, MessageRing, PAGE_SIZE, PoolAddr, PoolHeader, PoolSafe};

/// A mapped pool: where this kernel (or the host, or a test) sees the shared memory. Copy it freely.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    base: *mut u8,
    len: u64,
}

// SAFETY: all typed access is to atomics; byte access is to memory that stays mapped for the life of every user.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// The pool mapped at `base`.
    ///
    /// # Safety
    /// `base` is page-aligned and `len` bytes from it are mapped, readable and writable for as long as any copy of the
    /// result (or a reference obtained from it) is used, and are not accessed as Rust objects in any other way.
    pub const unsafe fn new(base: *mut u8, len: u64) -> Self {
        Self { base, len }
    }

    /// Bytes in the pool.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Whether the pool has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The header.
    #[inline(always)]
    pub fn header(self) -> &'static PoolHeader {
        // SAFETY: `new` guarantees the mapping; every constructor's caller provides at least a header's length, and
        // `PoolHeader` consists of atomics only.
        unsafe { &*self.base.cast::<PoolHeader>() }
    }

    /// The object at `addr`, or `None` when the address is null, misaligned or outside of the pool.
    #[inline(always)]
    pub fn get<T: PoolSafe>(self, addr: PoolAddr) -> Option<&'static T> {
        if !self.holds::<T>(addr) {
            return None;
        }
        // SAFETY: in bounds and aligned; `T: PoolSafe` is made of atomics, for which any bytes are valid and shared
        // mutation is allowed; the mapping outlives all users (`new`).
        Some(unsafe { &*self.base.add(addr.0 as usize).cast::<T>() })
    }

    /// Whether a `T` can lie at `addr`. This is on the path of every access to the pool: one comparison refuses
    /// addresses outside of it and null, which wraps around.
    #[inline(always)]
    fn holds<T: PoolSafe>(self, addr: PoolAddr) -> bool {
        // A pool has at least a header's length (see `header`), so the subtraction does not wrap but for what is longer.
        if const { size_of::<T>() >= size_of::<PoolHeader>() } && size_of::<T>() as u64 > self.len {
            return false;
        }
        addr.0.wrapping_sub(1) < self.len.wrapping_sub(size_of::<T>() as u64) && addr.0 % align_of::<T>() as u64 == 0
    }

    /// The object at `addr`, which this kernel itself established as valid.
    ///
    /// # Panics
    /// When the address is null, misaligned or outside of the pool: the pool is corrupt.
    #[inline(always)]
    #[track_caller]
    pub fn at<T: PoolSafe>(self, addr: PoolAddr) -> &'static T {
        if !self.holds::<T>(addr) {
            corrupt(addr);
        }
        // SAFETY: as in `get`.
        unsafe { &*self.base.add(addr.0 as usize).cast::<T>() }
    }

    /// The page of words at `addr`, `None` when misaligned or outside of the pool. For page-table walks: one comparison
    /// when the compiler sees the alignment. Unlike [`get`](Self::get) it takes address zero for a page.
    #[inline(always)]
    pub fn page_words(self, addr: PoolAddr) -> Option<&'static [AtomicU64; 512]> {
        // A pool has at least a header's length (see `header`), which is more than a page.
        if addr.0 > self.len.wrapping_sub(PAGE_SIZE) || addr.0 % 8 != 0 {
            return None;
        }
        // SAFETY: in bounds and aligned; atomics; the mapping outlives all users (`new`).
        Some(unsafe { &*self.base.add(addr.0 as usize).cast::<[AtomicU64; 512]>() })
    }

    /// The pool address of an object that lies in the pool.
    #[inline(always)]
    pub fn addr_of<T: PoolSafe>(self, object: &'static T) -> PoolAddr {
        PoolAddr(core::ptr::from_ref(object).addr() as u64 - self.base.addr() as u64)
    }

    /// The same of an object that may lie elsewhere: `None`, if it does.
    pub fn find<T: PoolSafe>(self, object: &T) -> Option<PoolAddr> {
        let offset = (core::ptr::from_ref(object).addr() as u64).wrapping_sub(self.base.addr() as u64);
        self.holds::<T>(PoolAddr(offset)).then_some(PoolAddr(offset))
    }

    /// Copies bytes out of the pool. The bytes may be changing: what arrives is some mixture of old and new.
    ///
    /// # Panics
    /// When the range leaves the pool.
    #[inline]
    pub fn read(self, addr: PoolAddr, into: &mut [u8]) {
        let from = self.bytes(addr, into.len());
        // SAFETY: `bytes` checked the range; `into` is private memory and so does not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes into the pool.
    ///
    /// # Panics
    /// When the range leaves the pool.
    #[inline]
    pub fn write(self, addr: PoolAddr, from: &[u8]) {
        let into = self.bytes(addr, from.len());
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) }
    }

    /// Copies `len` bytes within the pool; the ranges may overlap.
    ///
    /// # Panics
    /// When a range leaves the pool.
    #[inline]
    pub fn copy(self, from: PoolAddr, to: PoolAddr, len: usize) {
        let (from, to) = (self.bytes(from, len), self.bytes(to, len));
        // SAFETY: `bytes` checked both ranges.
        unsafe { core::ptr::copy(from, to, len) }
    }

    /// Sets `len` bytes to zero.
    ///
    /// # Panics
    /// When the range leaves the pool.
    #[inline]
    pub fn zero(self, addr: PoolAddr, len: usize) {
        let into = self.bytes(addr, len);
        // SAFETY: `bytes` checked the range.
        unsafe { core::ptr::write_bytes(into, 0, len) }
    }

    /// Sets a frame to zero.
    #[inline]
    pub fn zero_frame(self, frame: Frame) {
        self.zero(frame.addr(), PAGE_SIZE as usize);
    }

    /// The bytes at `addr` as a raw pointer, for a HAL (stores of its own register frames, instruction-cache
    /// synchronisation).
    ///
    /// # Panics
    /// When the range leaves the pool.
    #[inline(always)]
    #[track_caller]
    pub fn bytes(self, addr: PoolAddr, len: usize) -> *mut u8 {
        match addr.0.checked_add(len as u64) {
            // SAFETY: within the mapping.
            Some(end) if end <= self.len => unsafe { self.base.add(addr.0 as usize) },
            _ => corrupt(addr),
        }
    }
}

/// Memory behind a kernel's own pool that another kernel writes, too: windows for messages. No object of a kernel lies there, and no [`Pool`] reaches it. Where pages are read in
/// place, other kernels' memory lies behind them, of which bytes can be copied, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    all: Pool,
    start: u64,
    end: u64,
}

impl Windows {
    /// Windows from `start` on, behind the pool at `base`, to `end`; `len` bytes with what is behind them.
    ///
    /// # Safety
    /// As [`Pool::new`], of all.
    pub const unsafe fn new(base: *mut u8, start: u64, end: u64, len: u64) -> Self {
        // SAFETY: the caller's.
        Self { all: unsafe { Pool::new(base, len) }, start, end }
    }

    /// The part of a pool from `start` on: for tests; `start` at its end: no windows.
    pub const fn within(pool: Pool, start: u64) -> Self {
        Self::between(pool, start, pool.len)
    }

    /// The part of a pool from `start` to `end`; behind it is other kernels' memory.
    pub const fn between(pool: Pool, start: u64, end: u64) -> Self {
        Self { all: pool, start, end }
    }

    /// The ring at `at`. `None`: it is not in a window.
    #[inline]
    pub fn ring(self, at: PoolAddr) -> Option<&'static MessageRing> {
        self.all.get(at).filter(|_| self.has(at, size_of::<MessageRing>()))
    }

    /// Copies bytes out of a window; they may be changing.
    ///
    /// # Panics
    /// When the range is not in the windows.
    #[inline]
    pub fn read(self, at: PoolAddr, into: &mut [u8]) {
        self.check(at, into.len());
        self.all.read(at, into);
    }

    /// Copies bytes into a window.
    ///
    /// # Panics
    /// When the range is not in the windows.
    #[inline]
    pub fn write(self, at: PoolAddr, from: &[u8]) {
        self.check(at, from.len());
        self.all.write(at, from);
    }

    /// Copies bytes of a window to `to` in a pool that is not in the windows.
    ///
    /// # Panics
    /// When a range is not where it is to be.
    #[inline]
    pub fn copy_to(self, at: PoolAddr, pool: Pool, to: PoolAddr, len: usize) {
        self.check(at, len);
        let (from, into) = (self.all.bytes(at, len), pool.bytes(to, len));
        // SAFETY: `bytes` checked both ranges, which may even overlap.
        unsafe { core::ptr::copy(from, into, len) }
    }

    /// Copies bytes at `from` in a pool to a window.
    ///
    /// # Panics
    /// When a range is not where it is to be.
    #[inline]
    pub fn copy_from(self, at: PoolAddr, pool: Pool, from: PoolAddr, len: usize) {
        self.check(at, len);
        let (from, into) = (pool.bytes(from, len), self.all.bytes(at, len));
        // SAFETY: as in `copy_to`.
        unsafe { core::ptr::copy(from, into, len) }
    }

    /// Copies bytes of another kernel's memory to `to` in a pool; they may be changing. `false`: none is there.
    ///
    /// # Panics
    /// When the range in the pool is not there.
    #[inline]
    pub fn copy_of_other(self, at: PoolAddr, pool: Pool, to: PoolAddr, len: usize) -> bool {
        let is_there = at.0 >= self.end && at.0.checked_add(len as u64).is_some_and(|end| end <= self.all.len);
        if is_there {
            let (from, into) = (self.all.bytes(at, len), pool.bytes(to, len));
            // SAFETY: as in `copy_to`.
            unsafe { core::ptr::copy(from, into, len) }
        }
        is_there
    }

    fn has(self, at: PoolAddr, len: usize) -> bool {
        at.0 >= self.start && at.0.checked_add(len as u64).is_some_and(|end| end <= self.end)
    }

    #[track_caller]
    fn check(self, at: PoolAddr, len: usize) {
        if !self.has(at, len) {
            corrupt(at);
        }
    }
}

#[cold]
#[track_caller]
fn corrupt(addr: PoolAddr) -> ! {
    panic!("pool address {:#x} is outside of the pool or misaligned: shared structures are corrupt", addr.0)
}
