//! QEMU's plugin interface, version 4 (QEMU 9.2 and later): what this plugin needs of it.
//!
//! Facts are from QEMU's documentation ("QEMU TCG Plugins").

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    marker::PhantomData,
};

/// Read by QEMU before it calls anything.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

const INLINE_ADD: c_int = 0;
const NO_REGISTERS: c_int = 0;
const MEMORY_READ_AND_WRITE: c_int = 3;

/// The beginning of `qemu_info_t`.
#[repr(C)]
struct Info {
    target_name: *const c_char,
}

/// `qemu_plugin_u64`: one 64-bit entry for each core.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    scoreboard: *mut c_void,
    offset: usize,
}

type OnTranslation = extern "C" fn(id: u64, block: *mut c_void);
type OnExecution = extern "C" fn(core: c_uint, data: *mut c_void);
type OnAccess = extern "C" fn(core: c_uint, info: u32, address: u64, data: *mut c_void);
type OnEnd = extern "C" fn(id: u64, data: *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslation);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_register_atexit_cb(id: u64, callback: OnEnd, data: *mut c_void);
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        callback: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *const c_void;
    fn qemu_plugin_hwaddr_is_io(address: *const c_void) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(address: *const c_void) -> u64;
    fn qemu_plugin_insn_data(instruction: *const c_void, to: *mut c_void, len: usize) -> usize;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        instruction: *mut c_void,
        operation: c_int,
        entry: Entry,
        immediate: u64,
    );
    fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut c_void;
    fn qemu_plugin_u64_sum(entry: Entry) -> u64;
}

/// Called by QEMU once.
///
/// # Safety
/// Only QEMU calls it, with what its documentation says.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(id: u64, info: *const Info, argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: QEMU passes terminated strings that live until this function returns.
    let text = |string: *const c_char| unsafe { CStr::from_ptr(string).to_string_lossy().into_owned() };
    // SAFETY: `info` is valid here, and `argv` has `argc` entries.
    let (isa, arguments) = unsafe {
        let arguments: Vec<String> = (0..argc as usize).map(|index| text(*argv.add(index))).collect();
        (text((*info).target_name), arguments)
    };
    if let Err(what) = crate::install(&isa, &arguments) {
        eprintln!("motet-count: {what}");
        return -1;
    }
    // SAFETY: the callbacks have the types that QEMU calls them with.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu_plugin_register_atexit_cb(id, on_end, std::ptr::null_mut());
    }
    0
}

extern "C" fn on_translation(_id: u64, block: *mut c_void) {
    crate::translated(&Block { handle: block, during_translation: PhantomData });
}

extern "C" fn on_end(_id: u64, _data: *mut c_void) {
    crate::ended();
}

extern "C" fn on_instruction(_core: c_uint, data: *mut c_void) {
    crate::executed(data.addr() as u64);
}

extern "C" fn on_access(_core: c_uint, info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: QEMU calls this during the access, which is when these functions may be used; the handle that
    // `qemu_plugin_get_hwaddr` returns is valid until this thread's next call, or null.
    let access = unsafe {
        let found = qemu_plugin_get_hwaddr(info, address);
        if found.is_null() || qemu_plugin_hwaddr_is_io(found) {
            return;
        }
        motet_coherence::trace::Access {
            address: qemu_plugin_hwaddr_phys_addr(found),
            size_log2: qemu_plugin_mem_size_shift(info) as u8,
            store: qemu_plugin_mem_is_store(info),
        }
    };
    crate::accessed(access);
}

extern "C" fn on_mark(_core: c_uint, data: *mut c_void) {
    crate::mark_executed(data as usize as u8);
}

/// A block that is being translated.
pub struct Block<'a> {
    handle: *mut c_void,
    during_translation: PhantomData<&'a ()>,
}

impl Block<'_> {
    /// Its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'_>> {
        // SAFETY: the handle is valid during translation, which outlives `self`; the index is in range.
        let count = unsafe { qemu_plugin_tb_n_insns(self.handle) };
        (0..count).map(|index| Instruction {
            // SAFETY: as above.
            handle: unsafe { qemu_plugin_tb_get_insn(self.handle, index) },
            during_translation: PhantomData,
        })
    }
}

/// An instruction of a block that is being translated.
pub struct Instruction<'a> {
    handle: *mut c_void,
    during_translation: PhantomData<&'a ()>,
}

impl Instruction<'_> {
    /// Its bytes.
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; 16]) -> &'b [u8] {
        // SAFETY: QEMU writes at most as many bytes as the buffer has, and tells how many.
        let len = unsafe { qemu_plugin_insn_data(self.handle, buffer.as_mut_ptr().cast(), buffer.len()) };
        &buffer[..len.min(16)]
    }

    /// Lets translated code add 1 to the executing core's count.
    pub fn add_one_when_executed(&self, counter: &Counter) {
        // SAFETY: the handle is valid during translation; scoreboards are never freed.
        unsafe { qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(self.handle, INLINE_ADD, counter.0, 1) };
    }

    /// Lets translated code call [`crate::mark_executed`].
    pub fn report_when_executed(&self, mark: u8) {
        let data = usize::from(mark) as *mut c_void;
        // SAFETY: the handle is valid during translation; `data` is a number and never dereferenced.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.handle, on_mark, NO_REGISTERS, data) };
    }
}

impl Instruction<'_> {
    /// Lets translated code call [`crate::executed`], and [`crate::accessed`] for each access of this instruction.
    pub fn report_all(&self) {
        // SAFETY: the handle is valid during translation; the data is a number and never dereferenced.
        unsafe {
            let address = std::ptr::without_provenance_mut(qemu_plugin_insn_vaddr(self.handle) as usize);
            qemu_plugin_register_vcpu_insn_exec_cb(self.handle, on_instruction, NO_REGISTERS, address);
            let nothing = std::ptr::null_mut();
            qemu_plugin_register_vcpu_mem_cb(self.handle, on_access, NO_REGISTERS, MEMORY_READ_AND_WRITE, nothing);
        }
    }
}

/// A count for each core.
pub struct Counter(Entry);

// SAFETY: QEMU's scoreboards are made to be used from all threads of cores.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

impl Counter {
    /// All zero. Lives as long as QEMU.
    pub fn new() -> Self {
        // SAFETY: no precondition.
        Self(Entry { scoreboard: unsafe { qemu_plugin_scoreboard_new(size_of::<u64>()) }, offset: 0 })
    }

    /// The sum over all cores. Exact for the calling core; another one's may be some instructions old.
    pub fn sum(&self) -> u64 {
        // SAFETY: the scoreboard exists and has 64-bit elements.
        unsafe { qemu_plugin_u64_sum(self.0) }
    }
}
