//! QEMU's plugin interface, version 4 (QEMU 9.2 and later): what this plugin needs of it.
//!
//! Facts are from QEMU's documentation ("QEMU TCG Plugins").

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    marker::PhantomData,
};

use crate::VcpuTime;

/// Read by QEMU before it calls anything.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

const INLINE_ADD: c_int = 0;
const NO_REGISTERS: c_int = 0;
const READ_REGISTERS: c_int = 1;
const CONDITION_GE: c_int = 7;
const MEMORY_READ_AND_WRITE: c_int = 3;

/// The beginning of `qemu_info_t`.
#[repr(C)]
struct Info {
    target_name: *const c_char,
}

/// `qemu_plugin_u64`: a 64-bit word of one virtual CPU's entry in a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    scoreboard: *mut c_void,
    offset: usize,
}

type OnTranslation = extern "C" fn(id: u64, block: *mut c_void);
type OnExecution = extern "C" fn(vcpu: c_uint, data: *mut c_void);
type OnAccess = extern "C" fn(vcpu: c_uint, info: u32, address: u64, data: *mut c_void);
type OnVcpu = extern "C" fn(id: u64, vcpu: c_uint);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslation);
    fn qemu_plugin_register_vcpu_idle_cb(id: u64, callback: OnVcpu);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(instruction: *const c_void, to: *mut c_void, len: usize) -> usize;
    fn qemu_plugin_insn_haddr(instruction: *const c_void) -> *const c_void;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        callback: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cb(block: *mut c_void, callback: OnExecution, flags: c_int, data: *mut c_void);
    fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut c_void,
        callback: OnExecution,
        flags: c_int,
        condition: c_int,
        entry: Entry,
        immediate: u64,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut c_void,
        operation: c_int,
        entry: Entry,
        immediate: u64,
    );
    fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut c_void;
    fn qemu_plugin_scoreboard_find(scoreboard: *mut c_void, vcpu: c_uint) -> *mut c_void;
    fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *const c_void;
    fn qemu_plugin_hwaddr_is_io(address: *const c_void) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(address: *const c_void) -> u64;
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
        eprintln!("motet-plugin: {what}");
        return -1;
    }
    // SAFETY: the callbacks have the types that QEMU calls them with.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu_plugin_register_vcpu_idle_cb(id, on_idle);
    }
    0
}

extern "C" fn on_translation(_id: u64, block: *mut c_void) {
    crate::translated(&Block { handle: block, during_translation: PhantomData });
}

extern "C" fn on_idle(_id: u64, vcpu: c_uint) {
    crate::fell_asleep(Vcpu(vcpu));
}

extern "C" fn on_boundary(vcpu: c_uint, _data: *mut c_void) {
    crate::boundary(Vcpu(vcpu));
}

extern "C" fn on_mark(vcpu: c_uint, data: *mut c_void) {
    let data = data as usize;
    crate::mark_executed(Vcpu(vcpu), data as u8, (data >> 8) as u64);
}

extern "C" fn on_fetch(vcpu: c_uint, data: *mut c_void) {
    crate::fetched(Vcpu(vcpu), data as usize);
}

extern "C" fn on_access(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: QEMU calls this during the access, which is when these functions may be used; the handle that
    // `qemu_plugin_get_hwaddr` returns is valid until this thread's next call, or null.
    let access = unsafe {
        let found = qemu_plugin_get_hwaddr(info, address);
        if found.is_null() {
            return;
        }
        Access {
            physical: qemu_plugin_hwaddr_phys_addr(found),
            device: qemu_plugin_hwaddr_is_io(found),
            store: qemu_plugin_mem_is_store(info),
            atomic: data as usize == 1,
            size: 1 << qemu_plugin_mem_size_shift(info),
        }
    };
    crate::accessed(Vcpu(vcpu), access);
}

/// A memory access.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The island's physical address.
    pub physical: u64,
    /// To a device register.
    pub device: bool,
    /// A store, or the store of an atomic.
    pub store: bool,
    /// By an instruction that reads and writes at once.
    pub atomic: bool,
    /// Bytes.
    pub size: u32,
}

/// A virtual CPU, named by the thread that runs it.
#[derive(Clone, Copy, Debug)]
pub struct Vcpu(pub c_uint);

/// A block that is being translated.
pub struct Block<'a> {
    handle: *mut c_void,
    during_translation: PhantomData<&'a ()>,
}

impl Block<'_> {
    /// Its instructions.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = Instruction<'_>> {
        // SAFETY: the handle is valid during translation, which outlives `self`; the index is in range.
        let count = unsafe { qemu_plugin_tb_n_insns(self.handle) };
        (0..count).map(|index| Instruction {
            // SAFETY: as above.
            handle: unsafe { qemu_plugin_tb_get_insn(self.handle, index) },
            during_translation: PhantomData,
        })
    }

    /// Lets translated code call [`crate::boundary`] when the executing core's budget is used up, and then add this
    /// block's time and instructions.
    pub fn add_time(&self, times: &Times, limit_ps: u64, block_ps: u64, instructions: u64) {
        let count = Entry { scoreboard: times.0, offset: std::mem::offset_of!(VcpuTime, instructions) };
        let entry = Entry { scoreboard: times.0, offset: std::mem::offset_of!(VcpuTime, since_ps) };
        // SAFETY: the handle is valid during translation; scoreboards are never freed, and the offset is in the element.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cond_cb(
                self.handle,
                on_boundary,
                NO_REGISTERS,
                CONDITION_GE,
                entry,
                limit_ps,
                std::ptr::null_mut(),
            );
            qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(self.handle, INLINE_ADD, entry, block_ps);
            qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(self.handle, INLINE_ADD, count, instructions);
        }
    }

    /// Lets translated code call [`crate::fetched`].
    pub fn report_fetch(&self, data: usize) {
        // SAFETY: the handle is valid during translation; `data` is a number and never dereferenced.
        unsafe { qemu_plugin_register_vcpu_tb_exec_cb(self.handle, on_fetch, NO_REGISTERS, data as *mut c_void) };
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

    /// Where it lies in QEMU's memory (0: in none), and its length.
    pub fn place(&self) -> (usize, usize) {
        // SAFETY: the handle is valid during translation.
        unsafe { (qemu_plugin_insn_haddr(self.handle).addr(), qemu_plugin_insn_size(self.handle)) }
    }

    /// Lets translated code call [`crate::mark_executed`], where registers can be read. `ahead`: instructions from this
    /// one to the end of its block.
    pub fn report_mark(&self, mark: u8, ahead: usize) {
        let data = (usize::from(mark) | ahead << 8) as *mut c_void;
        // SAFETY: the handle is valid during translation; `data` is a number and never dereferenced.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.handle, on_mark, READ_REGISTERS, data) };
    }

    /// Lets translated code call [`crate::accessed`] for each access of this instruction.
    pub fn report_accesses(&self, atomic: bool) {
        let data = usize::from(atomic) as *mut c_void;
        // SAFETY: as above.
        unsafe {
            qemu_plugin_register_vcpu_mem_cb(self.handle, on_access, NO_REGISTERS, MEMORY_READ_AND_WRITE, data);
        }
    }
}

/// The words that translated code adds time to: one [`VcpuTime`] for each virtual CPU.
#[derive(Debug)]
pub struct Times(*mut c_void);

// SAFETY: QEMU's scoreboards are made to be used from all threads of virtual CPUs, each in its own element.
unsafe impl Send for Times {}
// SAFETY: as above.
unsafe impl Sync for Times {}

impl Times {
    /// All zero. Lives as long as QEMU.
    pub fn new() -> Self {
        // SAFETY: no precondition.
        Self(unsafe { qemu_plugin_scoreboard_new(size_of::<VcpuTime>()) })
    }

    /// Reads the words of a virtual CPU, lets `change` change them, and writes them back.
    #[inline]
    pub fn update<R>(&self, vcpu: Vcpu, change: impl FnOnce(&mut VcpuTime) -> R) -> R {
        // SAFETY: the element exists while its virtual CPU runs; only the CPU's own thread touches it, and that thread is
        // here and not in translated code.
        unsafe {
            let words = qemu_plugin_scoreboard_find(self.0, vcpu.0).cast::<VcpuTime>();
            let mut copy = words.read();
            let result = change(&mut copy);
            words.write(copy);
            result
        }
    }
}
