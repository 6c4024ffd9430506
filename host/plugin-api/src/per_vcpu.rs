//! What each virtual CPU has of its own.

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    marker::PhantomData,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

use crate::{
    Vcpu,
    ffi::{self, Entry},
};

/// Virtual CPUs that can have something.
pub const VCPUS_MAX: usize = 64;

/// For each virtual CPU, once it is given one, a value beside the CPU's element of a scoreboard. In a `static`, so that
/// finding one's own costs no call.
#[derive(Debug)]
pub struct PerVcpu<T, W>([UnsafeCell<Option<Own<T, W>>>; VCPUS_MAX]);

#[derive(Debug)]
struct Own<T, W> {
    value: Box<T>,
    /// Where QEMU has the element.
    element: *mut W,
}

// SAFETY: `get` gives a CPU's value only to its own thread, which may so take it out; the values are never shared. Neither are
// the elements, which are words.
unsafe impl<T: Send, W: Words> Sync for PerVcpu<T, W> {}

impl<T, W: Words> PerVcpu<T, W> {
    /// Without values.
    #[allow(clippy::new_without_default)] // it is for statics
    pub const fn new() -> Self {
        Self([const { UnsafeCell::new(None) }; VCPUS_MAX])
    }

    /// A virtual CPU's own value and element, if it was given a value.
    #[inline(always)]
    pub fn get<'a>(&'a self, vcpu: &'a mut Vcpu) -> Option<(&'a mut T, &'a mut W)> {
        let own = self.0.get(vcpu.index())?;
        // SAFETY: `vcpu` is the only value for its CPU and is borrowed as long as the references live. The element exists while
        // its virtual CPU runs, in memory of QEMU's that is not in `self`; only the CPU's own thread touches it, and that thread
        // is here and not in translated code.
        unsafe {
            let own = (*own.get()).as_mut()?;
            Some((&mut own.value, &mut *own.element))
        }
    }

    /// Gives a virtual CPU a value: only once all virtual CPUs exist, because QEMU moves the elements when it makes more room.
    /// Virtual CPUs above [`VCPUS_MAX`] get none.
    pub fn put(&self, vcpu: &mut Vcpu, value: T, scoreboard: &Scoreboard<W>) {
        let element = scoreboard.remember(vcpu);
        if let Some(own) = self.0.get(vcpu.index()) {
            // SAFETY: as in `get`.
            unsafe { *own.get() = Some(Own { value: Box::new(value), element }) };
        }
    }
}

/// Types that consist of 64-bit words, any of which may have any value.
///
/// # Safety
/// `repr(C)` or `repr(transparent)`, and all fields are `u64`, arrays of it, or such types.
pub unsafe trait Words: Copy + 'static {}

// SAFETY: a word.
unsafe impl Words for u64 {}

// SAFETY: words, one after the other.
unsafe impl<const N: usize> Words for [u64; N] {}

/// A `T` for each virtual CPU, all zero at first, that translated code can add to and compare with.
#[derive(Debug)]
pub struct Scoreboard<T> {
    handle: *mut c_void,
    /// Where QEMU has the elements. Null: not remembered.
    known: [AtomicPtr<T>; VCPUS_MAX],
}

// SAFETY: QEMU's scoreboards are made to be used from all threads of virtual CPUs, each in its own element.
unsafe impl<T: Words> Send for Scoreboard<T> {}
// SAFETY: as above.
unsafe impl<T: Words> Sync for Scoreboard<T> {}

impl<T: Words> Scoreboard<T> {
    /// Lives as long as QEMU.
    #[allow(clippy::new_without_default)] // it asks QEMU
    pub fn new() -> Self {
        // SAFETY: no precondition.
        let handle = unsafe { ffi::qemu_plugin_scoreboard_new(size_of::<T>()) };
        Self { handle, known: [const { AtomicPtr::new(null_mut()) }; VCPUS_MAX] }
    }

    /// The word at a byte offset in the element, for translated code.
    ///
    /// # Panics
    /// When no word begins there.
    pub fn word(&self, offset: usize) -> Word<'_> {
        assert!(offset % size_of::<u64>() == 0 && offset < size_of::<T>(), "no word of the element");
        Word { entry: Entry { scoreboard: self.handle, offset }, scoreboard: PhantomData }
    }

    /// A virtual CPU's own element.
    #[inline(always)]
    pub fn get<'a>(&'a self, vcpu: &'a mut Vcpu) -> &'a mut T {
        let known = self.known.get(vcpu.index()).map_or(null_mut(), |known| known.load(Relaxed));
        // SAFETY: the element exists while its virtual CPU runs; only the CPU's own thread touches it, and that thread is
        // here, with the only `vcpu` there is, and not in translated code. QEMU zeroes elements.
        unsafe { &mut *if known.is_null() { self.find(vcpu) } else { known } }
    }

    /// Looks where QEMU has a virtual CPU's element, and remembers it, as of [`PerVcpu::put`].
    fn remember(&self, vcpu: &mut Vcpu) -> *mut T {
        let found = self.find(vcpu);
        if let Some(known) = self.known.get(vcpu.index()) {
            known.store(found, Relaxed);
        }
        found
    }

    #[cold]
    fn find(&self, vcpu: &mut Vcpu) -> *mut T {
        // SAFETY: the scoreboard is never freed, and the virtual CPU exists.
        unsafe { ffi::qemu_plugin_scoreboard_find(self.handle, vcpu.index) }.cast()
    }
}

/// A word in each element of a [`Scoreboard`].
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    pub(crate) entry: Entry,
    scoreboard: PhantomData<&'a ()>,
}

impl Word<'_> {
    /// The sum over all virtual CPUs. Exact for the calling one; another one's may be some instructions old.
    pub fn sum(&self) -> u64 {
        // SAFETY: the scoreboard exists and has a word there.
        unsafe { ffi::qemu_plugin_u64_sum(self.entry) }
    }
}
