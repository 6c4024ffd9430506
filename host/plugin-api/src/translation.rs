//! Blocks and instructions while QEMU translates them, and accesses while they happen.

use std::{
    ffi::{c_int, c_uint, c_void},
    marker::PhantomData,
};

use crate::{
    Guest, Vcpu, Word,
    ffi::{self, INLINE_ADD, NO_REGISTERS, READ_REGISTERS},
    function,
};

pub(crate) extern "C" fn on_translation<F: Fn(&Block<'_>) + Copy>(_id: u64, block: *mut c_void) {
    function::<F>()(&Block { handle: block, during_translation: PhantomData });
}

extern "C" fn on_execution<F: Fn(&mut Vcpu, usize) + Copy>(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: QEMU calls this from the virtual CPU's thread, outside of other callbacks.
    function::<F>()(&mut unsafe { Vcpu::new(vcpu) }, data.addr());
}

extern "C" fn on_execution_with_guest<F: Fn(&mut Vcpu, &Guest<'_>, usize) + Copy>(vcpu: c_uint, data: *mut c_void) {
    // SAFETY: QEMU calls this from the virtual CPU's thread, outside of other callbacks, and was told that it reads registers.
    let (mut vcpu, guest) = unsafe { (Vcpu::new(vcpu), Guest::new()) };
    function::<F>()(&mut vcpu, &guest, data.addr());
}

extern "C" fn on_access<F: Fn(Vcpu, Access<'_>) + Copy>(vcpu: c_uint, info: u32, address: u64, _data: *mut c_void) {
    // SAFETY: QEMU calls this from the virtual CPU's thread, outside of other callbacks.
    function::<F>()(unsafe { Vcpu::new(vcpu) }, Access { address, info, during_access: PhantomData });
}

/// When translated code calls: compared with the word as it is then, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `QEMU_PLUGIN_COND_NE`.
    NotEqual = 3,
    /// `QEMU_PLUGIN_COND_GE`.
    AtLeast = 7,
}

/// Which accesses are meant: `enum qemu_plugin_mem_rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Loads.
    Load = 1,
    /// Stores.
    Store = 2,
}

/// A block that is being translated.
#[derive(Debug)]
pub struct Block<'a> {
    handle: *mut c_void,
    during_translation: PhantomData<&'a ()>,
}

impl Block<'_> {
    /// Its instructions.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = Instruction<'_>> {
        // SAFETY: the handle is valid during translation, which outlives `self`; the index is in range.
        let count = unsafe { ffi::qemu_plugin_tb_n_insns(self.handle) };
        (0..count).map(|index| Instruction {
            // SAFETY: as above.
            handle: unsafe { ffi::qemu_plugin_tb_get_insn(self.handle, index) },
            during_translation: PhantomData,
        })
    }

    /// Lets translated code add to a word when it enters this block. Additions and calls happen in the order in which they
    /// are asked for.
    pub fn add(&self, word: Word<'_>, amount: u64) {
        // SAFETY: the handle is valid during translation; scoreboards are never freed, and the word is in the element.
        unsafe {
            ffi::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(self.handle, INLINE_ADD, word.entry, amount);
        }
    }

    /// Lets translated code call a function, with `data`, when it enters this block and a word is as `condition` and
    /// `value` say.
    pub fn call_if<F: Fn(&mut Vcpu, usize) + Copy>(
        &self,
        word: Word<'_>,
        condition: Condition,
        value: u64,
        _callback: F,
        data: usize,
    ) {
        // SAFETY: as above; `data` is a number and never dereferenced.
        unsafe {
            ffi::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                self.handle,
                on_execution::<F>,
                NO_REGISTERS,
                condition as c_int,
                word.entry,
                value,
                std::ptr::without_provenance_mut(data),
            );
        }
    }
}

/// An instruction of a block that is being translated.
#[derive(Debug)]
pub struct Instruction<'a> {
    handle: *mut c_void,
    during_translation: PhantomData<&'a ()>,
}

impl Instruction<'_> {
    /// Its bytes.
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; 16]) -> &'b [u8] {
        // SAFETY: QEMU writes at most as many bytes as the buffer has, and tells how many.
        let len = unsafe { ffi::qemu_plugin_insn_data(self.handle, buffer.as_mut_ptr().cast(), buffer.len()) };
        &buffer[..len.min(16)]
    }

    /// Its virtual address.
    pub fn address(&self) -> u64 {
        // SAFETY: the handle is valid during translation.
        unsafe { ffi::qemu_plugin_insn_vaddr(self.handle) }
    }

    /// Where it lies in QEMU's memory; `None` for instructions in no memory.
    pub fn host_address(&self) -> Option<usize> {
        // SAFETY: as above.
        Some(unsafe { ffi::qemu_plugin_insn_haddr(self.handle) }.addr()).filter(|&address| address != 0)
    }

    /// Lets translated code add to a word before this instruction.
    pub fn add(&self, word: Word<'_>, amount: u64) {
        // SAFETY: the handle is valid during translation; scoreboards are never freed, and the word is in the element.
        unsafe {
            ffi::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(self.handle, INLINE_ADD, word.entry, amount);
        }
    }

    /// Lets translated code call a function, with `data`, before this instruction.
    pub fn call<F: Fn(&mut Vcpu, usize) + Copy>(&self, _callback: F, data: usize) {
        let data = std::ptr::without_provenance_mut(data);
        // SAFETY: as above; `data` is a number and never dereferenced.
        unsafe {
            ffi::qemu_plugin_register_vcpu_insn_exec_cb(self.handle, on_execution::<F>, NO_REGISTERS, data);
        }
    }

    /// The same for a function that reads the guest's registers and memory. It costs more: QEMU writes all registers back first.
    pub fn call_with_guest<F: Fn(&mut Vcpu, &Guest<'_>, usize) + Copy>(&self, _callback: F, data: usize) {
        let data = std::ptr::without_provenance_mut(data);
        let callback = on_execution_with_guest::<F>;
        // SAFETY: as above.
        unsafe { ffi::qemu_plugin_register_vcpu_insn_exec_cb(self.handle, callback, READ_REGISTERS, data) };
    }

    /// Lets translated code call a function after each access of this instruction in a direction. What it gets fits into
    /// registers.
    pub fn call_on_access<F: Fn(Vcpu, Access<'_>) + Copy>(&self, direction: Direction, _callback: F) {
        // SAFETY: as above.
        unsafe {
            ffi::qemu_plugin_register_vcpu_mem_cb(
                self.handle,
                on_access::<F>,
                NO_REGISTERS,
                direction as c_int,
                std::ptr::null_mut(),
            );
        }
    }
}

/// A memory access that has just happened. An instruction that reads and writes at once makes two.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Virtual address of its first byte.
    pub address: u64,
    info: u32,
    during_access: PhantomData<&'a ()>,
}

/// Sizes of accesses that QEMU describes by the same word: asking for one is a call. Words, so that it can be in a
/// [`Scoreboard`](crate::Scoreboard): 1 + the description in the upper half, the size in the lower; 0: none known.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Sizes([u64; Sizes::COUNT]);

impl Sizes {
    const COUNT: usize = 64;

    /// None known.
    pub const fn new() -> Self {
        Self([0; Self::COUNT])
    }

    /// Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, 6.4): QEMU does not say which bits differ.
    #[inline(always)]
    fn place(info: u32) -> usize {
        (info.wrapping_mul(0x9e37_79b1) >> 26) as usize % Self::COUNT
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self::new()
    }
}

/// Where an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Physical {
    /// The machine's physical address in memory.
    Memory(u64),
    /// A device's register, at this physical address.
    Device(u64),
}

impl Access<'_> {
    /// Bytes; at most [`Access::SIZE_MAX`].
    #[inline]
    pub fn size(&self) -> u32 {
        // SAFETY: `info` is what QEMU called back with.
        1 << unsafe { ffi::qemu_plugin_mem_size_shift(self.info) }.min(Self::SIZE_MAX.ilog2())
    }

    /// The largest access that QEMU reports as one: its code generator has values of up to 128 bits in memory operations.
    pub const SIZE_MAX: u32 = 16;

    /// The same, if `known` has it: without a call.
    #[inline(always)]
    pub fn known_size(&self, known: &Sizes) -> Option<u32> {
        let entry = known.0[Sizes::place(self.info)];
        (entry >> 32 == u64::from(self.info) + 1).then_some(entry as u32)
    }

    /// The same, for `known` to have it.
    pub fn learn_size(&self, known: &mut Sizes) -> u32 {
        let size = self.size();
        known.0[Sizes::place(self.info)] = (u64::from(self.info) + 1) << 32 | u64::from(size);
        size
    }

    /// Where it went; `None` when QEMU has already forgotten.
    pub fn physical(&self) -> Option<Physical> {
        // SAFETY: QEMU calls back during the access, which is when these functions may be used, and `self` does not live
        // longer; the handle is valid until this thread's next call, or null.
        unsafe {
            let found = ffi::qemu_plugin_get_hwaddr(self.info, self.address);
            if found.is_null() {
                return None;
            }
            let device = ffi::qemu_plugin_hwaddr_is_io(found);
            let address = ffi::qemu_plugin_hwaddr_phys_addr(found);
            Some(if device { Physical::Device(address) } else { Physical::Memory(address) })
        }
    }
}
