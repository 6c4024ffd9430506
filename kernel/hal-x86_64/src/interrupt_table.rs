//! The interrupt descriptor table, one for all cores.

use core::cell::UnsafeCell;

use x86_64::{VirtAddr, instructions::tables::lidt, structures::DescriptorTablePointer};

use crate::trap::{STUB_SIZE, VECTORS};

#[repr(C, align(16))]
struct Table(UnsafeCell<[[u64; 2]; VECTORS]>);

// SAFETY: written once by the boot core before other cores start, then only read (by the processor).
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([[0; 2]; VECTORS]));

unsafe extern "C" {
    static motet_trap_stubs: u8;
}

/// Fills the table.
///
/// # Safety
/// Called once, by the boot core, before any core loads the table.
pub unsafe fn build() {
    let stubs = (&raw const motet_trap_stubs).addr() as u64;
    // SAFETY: nobody else uses the table yet, by the caller.
    let table = unsafe { &mut *TABLE.0.get() };
    for (vector, gate) in (0u64..).zip(table) {
        let stack = if matches!(vector, 2 | 8 | 18) { 1 } else { 0 }; // the emergency stack
        let user = if matches!(vector, 3 | 4) { 3 << 45 } else { 0 }; // `int3`, `into`
        let stub = stubs + vector * STUB_SIZE;
        let present_interrupt_gate = 0x8e << 40;
        *gate = [
            stub & 0xffff | 0x10 << 16 | stack << 32 | present_interrupt_gate | user | (stub >> 16 & 0xffff) << 48,
            stub >> 32,
        ];
    }
}

/// Makes this core use the table.
///
/// # Safety
/// [`build`] has been called; this core's task-state segment is loaded before anything can trap.
pub unsafe fn load() {
    let pointer =
        DescriptorTablePointer { limit: (size_of::<Table>() - 1) as u16, base: VirtAddr::from_ptr(TABLE.0.get()) };
    // SAFETY: the table is complete and static.
    unsafe { lidt(&pointer) };
}
