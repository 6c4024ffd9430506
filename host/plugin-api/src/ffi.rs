//! Declarations of `qemu-plugin.h`.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `enum qemu_plugin_cb_flags`: callbacks read no registers.
pub const NO_REGISTERS: c_int = 0;
/// Callbacks read registers.
pub const READ_REGISTERS: c_int = 1;
/// `enum qemu_plugin_op`: inlined addition.
pub const INLINE_ADD: c_int = 0;

/// `qemu_plugin_u64`: a 64-bit word of each virtual CPU's entry in a scoreboard.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub scoreboard: *mut c_void,
    pub offset: usize,
}

/// `GByteArray` and `GArray`.
#[repr(C)]
pub struct Array<T> {
    pub data: *mut T,
    pub len: c_uint,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
pub struct RegisterDescriptor {
    pub handle: *mut c_void,
    pub name: *const c_char,
    feature: *const c_char,
}

pub type OnTranslation = extern "C" fn(id: u64, block: *mut c_void);
pub type OnExecution = extern "C" fn(vcpu: c_uint, data: *mut c_void);
pub type OnAccess = extern "C" fn(vcpu: c_uint, info: u32, address: u64, data: *mut c_void);
pub type OnVcpu = extern "C" fn(id: u64, vcpu: c_uint);
pub type OnExit = extern "C" fn(id: u64, data: *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslation);
    pub fn qemu_plugin_register_vcpu_idle_cb(id: u64, callback: OnVcpu);
    pub fn qemu_plugin_register_atexit_cb(id: u64, callback: OnExit, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    pub fn qemu_plugin_insn_data(instruction: *const c_void, to: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    pub fn qemu_plugin_insn_haddr(instruction: *const c_void) -> *const c_void;
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        instruction: *mut c_void,
        operation: c_int,
        entry: Entry,
        immediate: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        callback: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        condition: c_int,
        entry: Entry,
        immediate: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut c_void,
        operation: c_int,
        entry: Entry,
        immediate: u64,
    );
    pub fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut c_void;
    pub fn qemu_plugin_scoreboard_find(scoreboard: *mut c_void, vcpu: c_uint) -> *mut c_void;
    pub fn qemu_plugin_u64_sum(entry: Entry) -> u64;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *const c_void;
    pub fn qemu_plugin_hwaddr_is_io(address: *const c_void) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(address: *const c_void) -> u64;
    pub fn qemu_plugin_get_registers() -> *mut Array<RegisterDescriptor>;
    pub fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array<u8>) -> c_int;
    pub fn qemu_plugin_read_memory_vaddr(address: u64, to: *mut Array<u8>, len: usize) -> bool;
    // Of the glib that QEMU is linked with.
    pub fn g_array_free(array: *mut Array<RegisterDescriptor>, with_elements: c_int) -> *mut c_char;
    pub fn g_byte_array_new() -> *mut Array<u8>;
    pub fn g_byte_array_unref(array: *mut Array<u8>);
}
