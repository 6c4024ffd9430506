//! Floating-point and vector registers.
//!
//! Format of [`UserFrame::ext`] (byte offsets): f0..f31 0..256, fcsr 256, vstart 264, vtype 272, vl 280, vcsr 288,
//! vlenb 296 (0: the thread has no vector state), v0..v31 320.. one after another. Vector registers of more than 256 bits do
//! not fit: on such cores vectors stay off.
//!
//! sstatus.FS and VS tell whether user code wrote these registers since the last load or store, so a thread that did not
//! costs nothing to save. Vector registers are closed (VS off) until the kernel opens them for the thread that runs.

use core::{arch::asm, mem::offset_of, ptr::from_ref, sync::atomic::Ordering::Relaxed};

use motet_layout::UserFrame;

use crate::{
    csr::{STATUS_FS, STATUS_FS_INITIAL, STATUS_VS, STATUS_VS_INITIAL, read_csr},
    per_core::PerCore,
};

/// Largest `vlenb` (bytes in a vector register) that fits the frame.
pub const VECTOR_LEN_MAX: u64 = 32;

const EXT: usize = offset_of!(UserFrame, ext);
const FCSR: usize = EXT + 256;
const VSTART: usize = EXT + 264;
const VTYPE: usize = EXT + 272;
const VL: usize = EXT + 280;
const VCSR: usize = EXT + 288;
const VLENB_WORD: usize = motet_layout::EXT_VLENB;
const VECTORS: usize = EXT + 320;
const WORDS: usize = (320 + 32 * VECTOR_LEN_MAX as usize) / 8;

const _: () = assert!(WORDS <= 192);

/// A user frame, as far as `load` reads it, in its initial state: all registers 0.
static INITIAL: InitialFrame = InitialFrame([0; EXT / 8 + WORDS]);

#[repr(C, align(64))]
struct InitialFrame([u64; EXT / 8 + WORDS]);

/// Expands `$instruction` for f0..f31 with its offset in the frame.
macro_rules! for_each_float {
    ($instruction:literal) => {
        concat!(
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n",
            $instruction,
            " f\\n, {EXT}+8*\\n({frame})\n.endr"
        )
    };
}

/// Stores the registers into `frame`, unless its words are already equal to them. Vector registers that are closed are stored already.
pub fn save(frame: &'static UserFrame) {
    let core = PerCore::this();
    let status = read_csr!("sstatus");
    let is_fresh = frame.ext_valid.get() != 1;
    if is_fresh || core.ext_frame.load(Relaxed) != from_ref(frame).addr() || status & STATUS_FS == STATUS_FS {
        store_float(frame);
        core.ext_frame.store(from_ref(frame).addr(), Relaxed);
    }
    if is_fresh {
        frame.ext[VLENB_WORD].set(0);
        frame.ext_valid.set(1);
    }
    let are_elsewhere = status & STATUS_VS != 0 && core.vector_frame.load(Relaxed) != from_ref(frame).addr();
    if status & STATUS_VS == STATUS_VS || are_elsewhere {
        frame.ext[VLENB_WORD].set(core.vector_bytes.load(Relaxed));
        store_vector(frame);
        core.vector_frame.store(from_ref(frame).addr(), Relaxed);
    }
    clean();
}

/// Loads the registers from `frame`, or gives them their initial values; closes the vector registers.
pub fn load(frame: &'static UserFrame) {
    let core = PerCore::this();
    let valid = frame.ext_valid.get() == 1;
    load_float(if valid { from_ref(frame).cast() } else { from_ref(&INITIAL).cast() });
    core.ext_frame.store(if valid { from_ref(frame).addr() } else { 0 }, Relaxed);
    core.vector_frame.store(0, Relaxed);
    clean();
    set_vectors(false);
}

/// Lets user code use the vector registers, which get their values from `frame`, or their initial ones.
pub fn open_vectors(frame: &'static UserFrame) {
    let core = PerCore::this();
    set_vectors(true);
    if core.vector_frame.load(Relaxed) == from_ref(frame).addr() {
        return;
    }
    // Registers of another length cannot be loaded: whoever moves threads leaves those where they are that have some.
    let is_there = frame.ext_valid.get() == 1 && frame.ext[VLENB_WORD].get() == core.vector_bytes.load(Relaxed);
    load_vector(if is_there { from_ref(frame).cast() } else { from_ref(&INITIAL).cast() });
    core.vector_frame.store(if is_there { from_ref(frame).addr() } else { 0 }, Relaxed);
    clean();
}

/// User code may not use the vector registers until they are opened again; their values are in `frame`.
pub fn close_vectors(frame: &'static UserFrame) {
    save(frame);
    set_vectors(false);
}

/// Whether user code may use the vector registers.
pub fn are_vectors_open() -> bool {
    read_csr!("sstatus") & STATUS_VS != 0
}

/// Whether user code has written vector registers since they were loaded or stored last.
pub fn are_vectors_modified() -> bool {
    read_csr!("sstatus") & STATUS_VS == STATUS_VS
}

/// Bytes in a vector register. The core has vectors and they are on.
fn read_vlenb() -> u64 {
    let vlenb;
    // SAFETY: reading it has no side effect; the caller knows that it exists.
    unsafe { asm!("csrr {}, 0xc22", out(reg) vlenb, options(nomem, nostack)) };
    vlenb
}

/// Finds out how long the vector registers of this core are, which has some.
pub fn vector_bytes() -> u64 {
    set_vectors(true);
    let bytes = read_vlenb();
    set_vectors(false);
    bytes
}

/// Turns the vector unit on (its registers are as those that were loaded or stored last) or off.
fn set_vectors(on: bool) {
    // SAFETY: the kernel itself does not use the unit.
    unsafe {
        if on {
            asm!("csrs sstatus, {}", in(reg) STATUS_VS_INITIAL, options(nomem, nostack));
        } else {
            asm!("csrc sstatus, {}", in(reg) STATUS_VS, options(nomem, nostack));
        }
    }
}

/// From now on the registers equal the words of the frames that they belong to: both fields leave Dirty, for Initial
/// (the difference between Initial and Clean means nothing here).
fn clean() {
    let dirty_not_initial = (STATUS_FS & !STATUS_FS_INITIAL) | (STATUS_VS & !STATUS_VS_INITIAL);
    // SAFETY: leaves both units on (a unit that is off has neither bit set); the kernel itself uses neither.
    unsafe { asm!("csrc sstatus, {}", in(reg) dirty_not_initial, options(nomem, nostack)) };
}

fn store_float(frame: &'static UserFrame) {
    // SAFETY: stores to the frame's atomics only, which no one else accesses while its thread is on this core.
    unsafe {
        asm!(
            ".option push", ".option arch, +d",
            for_each_float!("fsd"),
            "frcsr {t}",
            "sd {t}, {FCSR}({frame})",
            ".option pop",
            frame = in(reg) from_ref(frame), t = out(reg) _, EXT = const EXT, FCSR = const FCSR,
            options(nostack)
        );
    }
}

fn load_float(frame: *const u8) {
    // SAFETY: changes registers only that the kernel, built without floating point, does not use.
    unsafe {
        asm!(
            ".option push", ".option arch, +d",
            for_each_float!("fld"),
            "ld {t}, {FCSR}({frame})",
            "fscsr {t}",
            ".option pop",
            frame = in(reg) frame, t = out(reg) _, EXT = const EXT, FCSR = const FCSR,
            options(nostack)
        );
    }
}

fn store_vector(frame: &'static UserFrame) {
    // SAFETY: as in `store_float`; 8 registers of at most 32 bytes at a time stay within `ext` (asserted above).
    unsafe {
        asm!(
            ".option push", ".option arch, +v",
            "csrr {t}, vstart", "sd {t}, {VSTART}({frame})",
            "csrr {t}, vtype", "sd {t}, {VTYPE}({frame})",
            "csrr {t}, vl", "sd {t}, {VL}({frame})",
            "csrr {t}, vcsr", "sd {t}, {VCSR}({frame})",
            "csrw vstart, zero",
            "csrr {t}, vlenb", "slli {t}, {t}, 3",
            "addi {at}, {frame}, {VECTORS}",
            "vs8r.v v0, ({at})", "add {at}, {at}, {t}",
            "vs8r.v v8, ({at})", "add {at}, {at}, {t}",
            "vs8r.v v16, ({at})", "add {at}, {at}, {t}",
            "vs8r.v v24, ({at})",
            // The state stays loaded, vstart too.
            "ld {t}, {VSTART}({frame})", "csrw vstart, {t}",
            ".option pop",
            frame = in(reg) frame, t = out(reg) _, at = out(reg) _,
            VSTART = const VSTART, VTYPE = const VTYPE, VL = const VL, VCSR = const VCSR, VECTORS = const VECTORS,
            options(nostack)
        );
    }
}

fn load_vector(frame: *const u8) {
    // SAFETY: as in `load_float`. `vsetvl` accepts any value: an unsupported vtype sets its vill bit.
    unsafe {
        asm!(
            ".option push", ".option arch, +v",
            "csrw vstart, zero",
            "csrr {t}, vlenb", "slli {t}, {t}, 3",
            "addi {at}, {frame}, {VECTORS}",
            "vl8re8.v v0, ({at})", "add {at}, {at}, {t}",
            "vl8re8.v v8, ({at})", "add {at}, {at}, {t}",
            "vl8re8.v v16, ({at})", "add {at}, {at}, {t}",
            "vl8re8.v v24, ({at})",
            "ld {t}, {VL}({frame})", "ld {at}, {VTYPE}({frame})", "vsetvl zero, {t}, {at}",
            "ld {t}, {VCSR}({frame})", "csrw vcsr, {t}",
            "ld {t}, {VSTART}({frame})", "csrw vstart, {t}",
            ".option pop",
            frame = in(reg) frame, t = out(reg) _, at = out(reg) _,
            VSTART = const VSTART, VTYPE = const VTYPE, VL = const VL, VCSR = const VCSR, VECTORS = const VECTORS,
            options(nostack)
        );
    }
}
