//! Registers and memory of the guest, in callbacks that may read registers. QEMU passes them in glib's arrays.

use std::{
    ffi::{CStr, c_void},
    marker::PhantomData,
    ptr::NonNull,
};

use crate::ffi::{self, Array};

/// The guest as a callback sees it that was asked for with [`crate::Instruction::call_with_guest`].
#[derive(Debug)]
pub struct Guest<'a> {
    during_call: PhantomData<&'a ()>,
    /// Stays in the thread.
    own: PhantomData<*mut ()>,
}

/// A register of the virtual CPU of the thread that has found it, and stays in.
#[derive(Clone, Copy, Debug)]
pub struct Register(NonNull<c_void>);

impl Guest<'_> {
    /// # Safety
    /// QEMU is calling back on the thread of a virtual CPU and was told that registers are read; the value does not outlive
    /// the call.
    pub(crate) unsafe fn new() -> Self {
        Self { during_call: PhantomData, own: PhantomData }
    }

    /// The registers of these names, as debuggers name them; `None` for those that QEMU does not know.
    pub fn find<const N: usize>(&self, names: [&CStr; N]) -> [Option<Register>; N] {
        let mut registers = [None; N];
        // SAFETY: on the thread of a virtual CPU, QEMU gives the caller a new array of `len` registers whose names live as
        // long as QEMU.
        unsafe {
            let all = ffi::qemu_plugin_get_registers();
            if all.is_null() {
                return registers;
            }
            for index in 0..(*all).len as usize {
                let register = (*all).data.add(index);
                if let Some(found) = names.iter().position(|&name| name == CStr::from_ptr((*register).name)) {
                    registers[found] = NonNull::new((*register).handle).map(Register);
                }
            }
            ffi::g_array_free(all, 1);
        }
        registers
    }

    /// A register of 64 bits; `None` for one of another size.
    pub fn read(&self, register: Register) -> Option<u64> {
        let bytes = filled(|array| {
            // SAFETY: QEMU gave the handle for this thread's virtual CPU, and registers may be read now. The array is valid.
            unsafe { ffi::qemu_plugin_read_register(register.0.as_ptr(), array) > 0 }
        })?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Bytes at a virtual address, as the program that runs sees them; `None` where it has no memory.
    pub fn memory(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        if len == 0 {
            return Some(Vec::new());
        }
        filled(|array| {
            // SAFETY: a valid array; QEMU looks the address up in the guest's tables.
            unsafe { ffi::qemu_plugin_read_memory_vaddr(address, array, len) }
        })
    }
}

/// What `fill` puts into an array; `None` when it says that it could not.
fn filled(fill: impl FnOnce(*mut Array<u8>) -> bool) -> Option<Vec<u8>> {
    // SAFETY: a new array, which nobody else has and which is given back here; `data` has `len` bytes, or is null when
    // there are none.
    unsafe {
        let array = ffi::g_byte_array_new();
        let done = fill(array) && !(*array).data.is_null();
        let bytes = done.then(|| std::slice::from_raw_parts((*array).data, (*array).len as usize).to_vec());
        ffi::g_byte_array_unref(array);
        bytes
    }
}
