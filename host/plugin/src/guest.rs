//! Registers and memory of the guest, in callbacks that may read registers. QEMU passes them in glib's arrays.

use std::{
    cell::OnceCell,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
};

use motet_layout::Isa;

/// `GByteArray` and `GArray`.
#[repr(C)]
struct Array<T> {
    data: *mut T,
    len: c_uint,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
struct Register {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

unsafe extern "C" {
    fn qemu_plugin_get_registers() -> *mut Array<Register>;
    fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array<u8>) -> c_int;
    fn qemu_plugin_read_memory_vaddr(address: u64, to: *mut Array<u8>, len: usize) -> bool;
    // Of the glib that QEMU is linked with.
    fn g_array_free(array: *mut Array<Register>, with_elements: c_int) -> *mut c_char;
    fn g_byte_array_new() -> *mut Array<u8>;
    fn g_byte_array_unref(array: *mut Array<u8>);
}

thread_local! {
    /// Handles of the argument registers of this thread's virtual CPU; null: QEMU does not know them.
    static ARGUMENTS: OnceCell<[*mut c_void; 2]> = const { OnceCell::new() };
}

/// The first two argument registers of the ISA's C calling convention; `None` when QEMU does not know them.
pub fn argument_registers(isa: Isa) -> Option<[u64; 2]> {
    let names = match isa {
        Isa::X86_64 => [c"rdi", c"rsi"],
        Isa::AArch64 => [c"x0", c"x1"],
        Isa::RiscV64 | Isa::Hosted => [c"a0", c"a1"],
    };
    let handles = ARGUMENTS.with(|known| *known.get_or_init(|| find(names)));
    Some([read(handles[0])?, read(handles[1])?])
}

fn find(names: [&CStr; 2]) -> [*mut c_void; 2] {
    let mut handles = [std::ptr::null_mut(); 2];
    // SAFETY: QEMU calls the plugin on the thread of a virtual CPU, and gives the caller a new array of `len` registers
    // whose names live as long as QEMU.
    unsafe {
        let registers = qemu_plugin_get_registers();
        if registers.is_null() {
            return handles;
        }
        for index in 0..(*registers).len as usize {
            let register = (*registers).data.add(index);
            if let Some(found) = names.iter().position(|&name| name == CStr::from_ptr((*register).name)) {
                handles[found] = (*register).handle;
            }
        }
        g_array_free(registers, 1);
    }
    handles
}

fn read(handle: *mut c_void) -> Option<u64> {
    // Handles of the first registers are small numbers, but not 0.
    if handle.is_null() {
        return None;
    }
    let bytes = filled(|array| {
        // SAFETY: a handle that QEMU gave for this thread's virtual CPU, and a valid array.
        unsafe { qemu_plugin_read_register(handle, array) > 0 }
    })?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Bytes at a virtual address, as the program that runs sees them; `None` where it has no memory.
pub fn memory(address: u64, len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    filled(|array| {
        // SAFETY: a valid array; QEMU looks the address up in the guest's tables.
        unsafe { qemu_plugin_read_memory_vaddr(address, array, len) }
    })
}

/// What `fill` puts into an array; `None` when it says that it could not.
fn filled(fill: impl FnOnce(*mut Array<u8>) -> bool) -> Option<Vec<u8>> {
    // SAFETY: a new array, which nobody else has and which is given back here; `data` has `len` bytes, or is null when
    // there are none.
    unsafe {
        let array = g_byte_array_new();
        let done = fill(array) && !(*array).data.is_null();
        let bytes = done.then(|| std::slice::from_raw_parts((*array).data, (*array).len as usize).to_vec());
        g_byte_array_unref(array);
        bytes
    }
}
