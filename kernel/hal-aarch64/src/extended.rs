//! Floating-point and SVE registers.
//!
//! Format of [`UserFrame::ext`] (words): q0..q31 0.., FPSR, FPCR 64, 65. SVE state is in the thread's area
//! ([`motet_layout::VectorArea`]): z0..z31, of which q0..q31 are the lower parts (when both are stored, those in the frame count), p0..p15
//! and FFR. Registers are as long as the core's can be.
//!
//! SVE is closed (CPACR_EL1.ZEN traps user mode) until the kernel opens it for the thread that runs. One thing is odd: floating-point and
//! Advanced SIMD instructions make the upper bits of the z registers that they write 0, which is seen only while SVE is open. So it is
//! open as long as an upper bit is set: neither [`load`] nor [`close_vectors`] closes it then, and the thread stays on cores whose
//! registers are as long. That ends soon, because a system call drops all SVE state, as on Linux (Documentation/arch/arm64/sve.rst).

use core::{
    arch::{asm, global_asm},
    sync::atomic::Ordering::Relaxed,
};

use motet_hal::Machine;
use motet_layout::{Cell64, UserFrame, VECTORS_AARCH64, Vectors, is_vector_length};

use crate::{
    cpu::{self, PerCore, barrier, read_register, write_register},
    machine::AArch64,
};

/// CPACR_EL1: floating point is open; SVE is open for the kernel.
const CLOSED: u64 = 3 << 20 | 1 << 16;
/// SVE is open for user mode as well.
const OPEN: u64 = 3 << 20 | 3 << 16;
/// ZCR_EL1.LEN: registers as long as they can be.
const LENGTH_LIMIT: u64 = 0xf;

/// Where the instructions find the registers: z0..z31 in groups of 8, p0..p15 and FFR.
#[repr(C)]
struct Places {
    groups: [*const Cell64; 4],
    predicates: *const Cell64,
}

global_asm!(
    ".arch_extension sve",
    // x0: Places.
    "motet_store_sve:",
    "ldr x1, [x0, #0]",
    ".irp n, 0,1,2,3,4,5,6,7",
    "str z\\n, [x1, #\\n-0, mul vl]",
    ".endr",
    "ldr x1, [x0, #8]",
    ".irp n, 8,9,10,11,12,13,14,15",
    "str z\\n, [x1, #\\n-8, mul vl]",
    ".endr",
    "ldr x1, [x0, #16]",
    ".irp n, 16,17,18,19,20,21,22,23",
    "str z\\n, [x1, #\\n-16, mul vl]",
    ".endr",
    "ldr x1, [x0, #24]",
    ".irp n, 24,25,26,27,28,29,30,31",
    "str z\\n, [x1, #\\n-24, mul vl]",
    ".endr",
    "ldr x1, [x0, #32]",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "str p\\n, [x1, #\\n, mul vl]",
    ".endr",
    "rdffr p0.b",
    "str p0, [x1, #16, mul vl]",
    "ldr p0, [x1]",
    "ret",
    "motet_load_sve:",
    "ldr x1, [x0, #32]",
    "ldr p0, [x1, #16, mul vl]",
    "wrffr p0.b",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "ldr p\\n, [x1, #\\n, mul vl]",
    ".endr",
    "ldr x1, [x0, #0]",
    ".irp n, 0,1,2,3,4,5,6,7",
    "ldr z\\n, [x1, #\\n-0, mul vl]",
    ".endr",
    "ldr x1, [x0, #8]",
    ".irp n, 8,9,10,11,12,13,14,15",
    "ldr z\\n, [x1, #\\n-8, mul vl]",
    ".endr",
    "ldr x1, [x0, #16]",
    ".irp n, 16,17,18,19,20,21,22,23",
    "ldr z\\n, [x1, #\\n-16, mul vl]",
    ".endr",
    "ldr x1, [x0, #24]",
    ".irp n, 24,25,26,27,28,29,30,31",
    "ldr z\\n, [x1, #\\n-24, mul vl]",
    ".endr",
    "ret",
    // Upper bits and predicates become 0: writing a vector clears what is beyond it.
    "motet_clear_sve:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "mov v\\n\\().16b, v\\n\\().16b",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "pfalse p\\n\\().b",
    ".endr",
    "wrffr p0.b",
    "ret",
    ".arch_extension nosve",
);

unsafe extern "C" {
    fn motet_store_sve(places: *const Places);
    fn motet_load_sve(places: *const Places);
    fn motet_clear_sve();
}

/// Opens floating point on this core, readies SVE if there is any, closed, and gives all registers their initial values.
pub fn init() {
    write_register!("cpacr_el1", CLOSED);
    barrier!("isb");
    if has_sve() {
        write_register!("S3_0_C1_C2_0", LENGTH_LIMIT); // ZCR_EL1
        barrier!("isb");
        let bytes: u64;
        // SAFETY: reads the vector length.
        unsafe {
            asm!(".arch_extension sve", "rdvl {}, #1", ".arch_extension nosve", out(reg) bytes, options(nomem, nostack))
        };
        // Every length of the architecture is one that areas are laid out for.
        let has_areas = is_vector_length(bytes as usize);
        PerCore::this().vector_bytes.store(if has_areas { bytes as u32 } else { 0 }, Relaxed);
    }
    cpu::load_ext(None);
}

/// Whether this core has SVE.
pub fn has_sve() -> bool {
    let field = read_register!("id_aa64pfr0_el1") >> 32 & 0xf;
    field != 0
}

/// Stores this core's state. That of SVE is stored already if it is closed.
pub fn save(machine: &AArch64, frame: &'static UserFrame) {
    cpu::save_ext(frame);
    if frame.ext_valid.get() != 1 {
        frame.vector_bytes.set(0);
        frame.ext_valid.set(1);
    }
    if are_vectors_open() {
        store_sve(machine, frame);
    }
}

/// Loads this core's state, that of SVE too if the thread's upper bits are set; otherwise closes SVE.
pub fn load(machine: &AArch64, frame: &'static UserFrame) {
    cpu::load_ext((frame.ext_valid.get() == 1).then_some(frame));
    if live_area(machine, frame).is_some_and(are_upper_bits_set) {
        open_vectors(machine, frame);
    } else {
        close();
    }
}

/// Lets user code use SVE, whose registers beyond q0..q31 get their values from `frame`'s area, or become 0.
pub fn open_vectors(machine: &AArch64, frame: &'static UserFrame) {
    write_register!("cpacr_el1", OPEN);
    PerCore::this().vectors_open.store(true, Relaxed);
    match live_area(machine, frame) {
        Some(vectors) => {
            // The lower parts are in the core's registers, and may have changed since the frame was stored.
            cpu::save_ext(frame);
            load_sve(frame, vectors);
        }
        // SAFETY: changes registers only that the kernel does not use. It may always use SVE on a core that has it.
        None => unsafe { motet_clear_sve() },
    }
}

/// User code may not use SVE until it is opened again, unless an upper bit is set; its state is in `frame`'s area.
pub fn close_vectors(machine: &AArch64, frame: &'static UserFrame) {
    save(machine, frame);
    if !live_area(machine, frame).is_some_and(are_upper_bits_set) {
        close();
    }
}

/// Whether user code may use SVE.
pub fn are_vectors_open() -> bool {
    PerCore::this().vectors_open.load(Relaxed)
}

/// A system call: SVE state is dropped and SVE closed.
#[cold]
pub fn drop_vectors(frame: &'static UserFrame) {
    frame.vector_bytes.set(0);
    close();
}

/// From now on this core has no SVE.
pub fn withhold() {
    PerCore::this().vector_bytes.store(0, Relaxed);
    close();
}

fn close() {
    let core = PerCore::this();
    if core.vectors_open.load(Relaxed) {
        write_register!("cpacr_el1", CLOSED);
        core.vectors_open.store(false, Relaxed);
    }
}

/// The area of a frame, if it is one for registers of this core's length.
fn area(machine: &AArch64, frame: &'static UserFrame) -> Option<Vectors<'static>> {
    let bytes = PerCore::this().vector_bytes.load(Relaxed) as usize;
    Vectors::of(machine.pool(), frame).filter(|area| area.format() == VECTORS_AARCH64 && area.register_bytes() == bytes)
}

/// The same, if it holds state. Registers of another length cannot be loaded: whoever moves threads leaves those where they are that have
/// some.
fn live_area(machine: &AArch64, frame: &'static UserFrame) -> Option<Vectors<'static>> {
    let is_live = frame.ext_valid.get() == 1 && frame.vector_bytes.get() != 0;
    if is_live { area(machine, frame) } else { None }
}

/// Whether a bit of z0 to z31 beyond the lower 128 is set in the frame's area, whatever its length.
pub fn has_upper_bits(machine: &AArch64, frame: &'static UserFrame) -> bool {
    let is_live = frame.ext_valid.get() == 1 && frame.vector_bytes.get() != 0;
    let is_it = |area: &Vectors<'_>| {
        area.format() == VECTORS_AARCH64 && area.register_bytes() == frame.vector_bytes.get() as usize
    };
    is_live && Vectors::of(machine.pool(), frame).filter(is_it).is_some_and(are_upper_bits_set)
}

#[cold]
fn are_upper_bits_set(vectors: Vectors<'_>) -> bool {
    (0..32).any(|n| vectors.register(n).iter().skip(2).any(|word| word.get() != 0))
}

fn places(vectors: Vectors<'_>) -> Places {
    Places { groups: vectors.groups().map(<[_]>::as_ptr), predicates: vectors.predicates().as_ptr() }
}

#[cold]
fn store_sve(machine: &AArch64, frame: &'static UserFrame) {
    // A frame without an area is not that of the thread that they are open for, which has ended.
    let Some(vectors) = area(machine, frame) else { return };
    // SAFETY: writes atomics only, which no one else accesses while their thread is on this core: 8 registers of this core's length at each
    // address and 17 predicates, for which the area has room (`area`). The kernel may always use SVE on a core that has it.
    unsafe { motet_store_sve(&places(vectors)) };
    frame.vector_bytes.set(vectors.register_bytes() as u32);
}

/// The lower 128 bits come from the frame.
fn load_sve(frame: &UserFrame, vectors: Vectors<'_>) {
    for n in 0..32 {
        for (to, from) in vectors.register(n).iter().zip(&frame.ext[2 * n..2 * n + 2]) {
            to.set(from.get());
        }
    }
    // SAFETY: as in `store_sve`; changes registers that the kernel, built without them, does not use.
    unsafe { motet_load_sve(&places(vectors)) };
}
