//! QEMU's plugin interface, version 4 (QEMU 9.2 and later): what Motet's plugins need of it, without `unsafe` for them.
//!
//! Callbacks are functions, not values: each is compiled into the C function that QEMU calls, so a call from translated
//! code is one call and what it does is inlined. In a callback the executing virtual CPU is a [`Vcpu`], of which there is
//! one at a time per CPU; whoever has it may use what belongs to that CPU ([`PerVcpu`], [`Scoreboard`]).
//!
//! Facts are from QEMU's documentation ("QEMU TCG Plugins", `qemu-plugin.h`).

mod ffi;
mod guest;
mod per_vcpu;
mod translation;

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    marker::PhantomData,
};

pub use guest::{Guest, Register};
pub use per_vcpu::{PerVcpu, Scoreboard, VCPUS_MAX, Word, Words};
pub use translation::{Access, Block, Condition, Direction, Instruction, Physical, Sizes};

/// Version of the interface.
pub const VERSION: c_int = 4;

/// A virtual CPU, in a callback that its own thread makes.
#[derive(Debug)]
pub struct Vcpu {
    pub(crate) index: c_uint,
    /// Stays in the thread.
    own: PhantomData<*mut ()>,
}

impl Vcpu {
    /// QEMU's number of it.
    #[inline(always)]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// # Safety
    /// QEMU is calling back for this CPU from its thread, and there is no other value for it.
    #[inline(always)]
    unsafe fn new(index: c_uint) -> Self {
        Self { index, own: PhantomData }
    }
}

/// The one value of a function's type. `F` has no state, so knowing its type is enough to call it.
#[inline(always)]
fn function<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "a callback is a function without state") };
    // SAFETY: a type of size 0 has no bytes to initialise. Values of it exist: every caller's caller was given one, and it
    // may be copied.
    unsafe { std::mem::transmute_copy(&()) }
}

/// What a plugin asks for when it is loaded.
#[derive(Debug)]
pub struct Registration {
    id: u64,
}

impl Registration {
    /// Has a function called for each block that QEMU translates.
    pub fn on_translation<F: Fn(&Block<'_>) + Copy>(&self, _callback: F) {
        // SAFETY: the trampoline has the type that QEMU calls it with.
        unsafe { ffi::qemu_plugin_register_vcpu_tb_trans_cb(self.id, translation::on_translation::<F>) };
    }

    /// Has a function called when a virtual CPU has nothing to do. QEMU's big lock is held: it must not wait.
    pub fn on_idle<F: Fn(&mut Vcpu) + Copy>(&self, _callback: F) {
        extern "C" fn on_idle<F: Fn(&mut Vcpu) + Copy>(_id: u64, vcpu: c_uint) {
            // SAFETY: QEMU calls this from the virtual CPU's thread, outside of other callbacks.
            function::<F>()(&mut unsafe { Vcpu::new(vcpu) });
        }
        // SAFETY: the trampoline has the type that QEMU calls it with.
        unsafe { ffi::qemu_plugin_register_vcpu_idle_cb(self.id, on_idle::<F>) };
    }

    /// Has a function called when QEMU ends.
    pub fn on_exit<F: Fn() + Copy>(&self, _callback: F) {
        extern "C" fn on_exit<F: Fn() + Copy>(_id: u64, _data: *mut c_void) {
            function::<F>()();
        }
        // SAFETY: as above; the data is not used.
        unsafe { ffi::qemu_plugin_register_atexit_cb(self.id, on_exit::<F>, std::ptr::null_mut()) };
    }
}

/// What [`plugin!`] exports. `start` gets the instruction set's name and the plugin's arguments, and says what is wrong
/// with them.
///
/// # Safety
/// QEMU has called `qemu_plugin_install` with these arguments.
#[doc(hidden)]
pub unsafe fn install(
    name: &str,
    id: u64,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
    start: fn(&Registration, &str, &[String]) -> Result<(), String>,
) -> c_int {
    // SAFETY: QEMU passes terminated strings that live until this function returns.
    let text = |string: *const c_char| unsafe { CStr::from_ptr(string).to_string_lossy().into_owned() };
    // SAFETY: `info` is valid here, and `argv` has `argc` entries.
    let (isa, arguments) = unsafe {
        let arguments: Vec<String> = (0..argc as usize).map(|index| text(*argv.add(index))).collect();
        (text((*info).target_name), arguments)
    };
    match start(&Registration { id }, &isa, &arguments) {
        Ok(()) => 0,
        Err(what) => {
            eprintln!("{name}: {what}");
            -1
        }
    }
}

/// The beginning of `qemu_info_t`.
#[doc(hidden)]
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    target_name: *const c_char,
}

/// Exports what QEMU looks for in a plugin: `plugin!("name in messages", start)`, where `start` is a
/// `fn(&Registration, isa: &str, arguments: &[String]) -> Result<(), String>`.
#[macro_export]
macro_rules! plugin {
    ($name:literal, $start:path) => {
        /// Read by QEMU before it calls anything.
        #[allow(unsafe_code, non_upper_case_globals)]
        #[unsafe(no_mangle)]
        pub static qemu_plugin_version: ::std::ffi::c_int = $crate::VERSION;

        /// Called by QEMU once.
        ///
        /// # Safety
        /// Only QEMU calls it, with what its documentation says.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn qemu_plugin_install(
            id: u64,
            info: *const $crate::Info,
            argc: ::std::ffi::c_int,
            argv: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: these are QEMU's arguments.
            unsafe { $crate::install($name, id, info, argc, argv, $start) }
        }
    };
}
