//! Pool memory for hosted machines. The only unsafe code of this crate.
//!
//! References into a pool are `'static`, so regions are never unmapped: a finished machine's region is zeroed and
//! handed to the next machine that asks for one alike.

use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use motet_layout::{Pool, PoolAddr, Windows};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

static FREE: Mutex<Vec<Vec<View>>> = Mutex::new(Vec::new());

/// What a kernel sees: its own pool, and behind it the windows to the other kernels.
#[derive(Clone, Copy)]
struct View {
    own: Pool,
    /// With the windows, and what is behind them.
    all: Pool,
    /// Where the windows end.
    windows_end: u64,
}

/// The zeroed memory of a machine's kernels, until dropped.
pub struct Region(Vec<View>);

/// Of how many kernels, each with a pool of `own_len` bytes, and a window of `window_len` bytes for each pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub kernels: usize,
    pub own_len: u64,
    /// A multiple of the host's page size.
    pub window_len: u64,
    /// Each kernel sees the others' pools, too, behind its windows.
    pub is_common: bool,
}

impl Shape {
    /// Bytes of a kernel's windows.
    pub fn windows_len(self) -> u64 {
        (self.kernels as u64 - 1) * self.window_len
    }

    /// Bytes that a kernel sees behind its pool.
    pub fn behind_len(self) -> u64 {
        self.windows_len() + if self.is_common { (self.kernels as u64 - 1) * self.own_len } else { 0 }
    }

    /// Where the window to another kernel lies in a kernel's view. `None`: it is the same kernel.
    pub fn window(self, kernel: usize, other: usize) -> Option<u64> {
        let place = (0..self.kernels).filter(|&peer| peer != kernel).position(|peer| peer == other)?;
        Some(self.own_len + place as u64 * self.window_len)
    }
}

impl Region {
    /// # Panics
    /// When the host has no address space left.
    pub fn new(shape: Shape) -> Self {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alike = |views: &Vec<View>| {
            let view = views[0];
            let (windows_end, len) = (shape.own_len + shape.windows_len(), shape.own_len + shape.behind_len());
            (views.len(), view.own.len(), view.windows_end, view.all.len())
                == (shape.kernels, shape.own_len, windows_end, len)
        };
        match free.iter().position(is_alike) {
            Some(at) => Self(free.swap_remove(at)),
            None => Self(map(shape)),
        }
    }

    /// A kernel's pool.
    pub fn pool(&self, kernel: usize) -> Pool {
        self.0[kernel].own
    }

    /// A kernel's windows to the others.
    pub fn windows(&self, kernel: usize) -> Windows {
        let view = self.0[kernel];
        Windows::between(view.all, view.own.len(), view.windows_end)
    }
}

/// Maps new memory: each window twice, and each pool once for each kernel that sees it.
fn map(shape: Shape) -> Vec<View> {
    let (read_write, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    let (windows_end, len) = (shape.own_len + shape.windows_len(), shape.own_len + shape.behind_len());
    let map_own = |_| {
        // SAFETY: a fresh anonymous mapping replaces nothing.
        let base = unsafe { mmap_anonymous(null_mut(), len as usize, read_write, flags) };
        let base = base.expect("address space for a pool").cast::<u8>();
        // SAFETY: page-aligned, `len` bytes, of which `own_len` are no more, never unmapped, used only through `Pool`s.
        unsafe { View { own: Pool::new(base, shape.own_len), all: Pool::new(base, len), windows_end } }
    };
    let views: Vec<View> = (0..shape.kernels).map(map_own).collect();
    for (first, second) in (0..shape.kernels).flat_map(|second| (0..second).map(move |first| (first, second))) {
        let places = [(first, second), (second, first)].map(|(kernel, other)| {
            (kernel, shape.window(kernel, other).expect("they are two")) //
        });
        map_common(&views, shape.window_len, &places);
    }
    for own in (0..shape.kernels).filter(|_| shape.is_common) {
        let others = (0..shape.kernels).filter(|&kernel| kernel != own);
        let behind = |kernel: usize| windows_end + (own - usize::from(own > kernel)) as u64 * shape.own_len;
        let places: Vec<_> = std::iter::once((own, 0)).chain(others.map(|kernel| (kernel, behind(kernel)))).collect();
        map_common(&views, shape.own_len, &places);
    }
    views
}

/// Maps new memory of `len` bytes at each of some places of kernels' views.
fn map_common(views: &[View], len: u64, places: &[(usize, u64)]) {
    let memory = memfd_create("motet-common", MemfdFlags::CLOEXEC).expect("a memory file");
    ftruncate(&memory, len).expect("memory for what kernels have in common");
    for &(kernel, at) in places {
        let place = views[kernel].all.bytes(PoolAddr(at), len as usize);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: it replaces a part of a mapping that `map` has made, which nobody has used yet, by as many bytes of a file that is as long.
        unsafe { mmap(place.cast(), len as usize, access, flags, &memory, 0) }
            .expect("what they have in common is mapped");
    }
}

/// Zeroes what a kernel sees.
fn zero(view: View) -> bool {
    let (own_len, windows_len) = (view.own.len() as usize, (view.all.len() - view.own.len()) as usize);
    let base = view.own.bytes(PoolAddr::NULL, own_len);
    let is_common = view.all.len() != view.windows_end;
    let advice = if is_common { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
    // SAFETY: the mapping is ours; a straggler that still looks at it sees zeroes, which are valid in every atomic.
    let own = unsafe { madvise(base.cast(), own_len, advice) };
    if windows_len == 0 {
        return own.is_ok();
    }
    let base = view.all.bytes(PoolAddr(view.own.len()), windows_len);
    // SAFETY: as above; these pages are files', which have zeroes there then.
    let windows = unsafe { madvise(base.cast(), windows_len, Advice::LinuxRemove) };
    own.is_ok() && windows.is_ok()
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.0.iter().all(|&view| zero(view)) {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.0));
        }
    }
}
