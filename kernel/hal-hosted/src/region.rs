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
    /// With the windows.
    all: Pool,
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
}

impl Shape {
    /// Bytes of a kernel's windows.
    pub fn windows_len(self) -> u64 {
        (self.kernels as u64 - 1) * self.window_len
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
            let len = shape.own_len + shape.windows_len();
            (views.len(), view.own.len(), view.all.len()) == (shape.kernels, shape.own_len, len)
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
        Windows::within(self.0[kernel].all, self.0[kernel].own.len())
    }
}

/// Maps new memory: each window twice.
fn map(shape: Shape) -> Vec<View> {
    let (read_write, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    let len = shape.own_len + shape.windows_len();
    let map_own = |_| {
        // SAFETY: a fresh anonymous mapping replaces nothing.
        let base = unsafe { mmap_anonymous(null_mut(), len as usize, read_write, flags) };
        let base = base.expect("address space for a pool").cast::<u8>();
        // SAFETY: page-aligned, `len` bytes, of which `own_len` are no more, never unmapped, used only through `Pool`s.
        unsafe { View { own: Pool::new(base, shape.own_len), all: Pool::new(base, len) } }
    };
    let views: Vec<View> = (0..shape.kernels).map(map_own).collect();
    for (first, second) in (0..shape.kernels).flat_map(|second| (0..second).map(move |first| (first, second))) {
        let memory = memfd_create("motet-window", MemfdFlags::CLOEXEC).expect("a memory file");
        ftruncate(&memory, shape.window_len).expect("memory for a window");
        for (kernel, other) in [(first, second), (second, first)] {
            let at = shape.window(kernel, other).expect("they are two");
            let place = views[kernel].all.bytes(PoolAddr(at), shape.window_len as usize);
            let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
            // SAFETY: it replaces a part of the mapping made above, which nobody has used yet, by as many bytes of a file that is as long.
            let mapped = unsafe { mmap(place.cast(), shape.window_len as usize, read_write, flags, &memory, 0) };
            mapped.expect("a window is mapped");
        }
    }
    views
}

/// Zeroes what a kernel sees.
fn zero(view: View) -> bool {
    let (own_len, windows_len) = (view.own.len() as usize, (view.all.len() - view.own.len()) as usize);
    let base = view.own.bytes(PoolAddr::NULL, own_len);
    // SAFETY: the mapping is ours; a straggler that still looks at it sees zeroes, which are valid in every atomic.
    let own = unsafe { madvise(base.cast(), own_len, Advice::LinuxDontNeed) };
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
