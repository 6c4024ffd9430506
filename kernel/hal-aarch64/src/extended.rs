//! Floating-point and SVE registers.
//!
//! Format of [`UserFrame::ext`] (words): q0..q31 0.., FPSR, FPCR 64, 65; then, if the vector length at [`EXT_SVE_LENGTH`] is not 0, SVE
//! state: bits 128 to 255 of z0..z31 at [`EXT_SVE_UPPER`], and p0..p15 and FFR, without gaps, at [`EXT_SVE_PREDICATES`]. ZCR_EL1.LEN
//! limits registers to 256 bits, and every implementation has that length or 128 bits.
//!
//! SVE is closed (CPACR_EL1.ZEN traps user mode) until the kernel opens it for the thread that runs. One thing is odd: floating-point and
//! Advanced SIMD instructions make the upper bits of the z registers that they write 0, which is seen only while SVE is open. So it is
//! open as long as an upper bit is set: neither [`load`] nor [`close_vectors`] closes it then. That ends soon, because a system call
//! drops all SVE state, as on Linux (Documentation/arch/arm64/sve.rst).

use core::{
    arch::{asm, global_asm},
    sync::atomic::Ordering::Relaxed,
};

use motet_layout::{EXT_SVE_LENGTH, EXT_SVE_PREDICATES, EXT_SVE_UPPER, UserFrame};

use crate::cpu::{self, PerCore, barrier, read_register, write_register};

/// CPACR_EL1: floating point is open; SVE is open for the kernel.
const CLOSED: u64 = 3 << 20 | 1 << 16;
/// SVE is open for user mode as well.
const OPEN: u64 = 3 << 20 | 3 << 16;
/// ZCR_EL1.LEN: registers of 256 bits at most.
const LENGTH_LIMIT: u64 = 1;
/// Bytes in such a register.
const LENGTH_MAX: u64 = 32;

/// Words of p0..p15 and FFR, without gaps.
const PREDICATE_WORDS: usize = (17 * LENGTH_MAX as usize / 8).div_ceil(8);

/// What the instructions store: z0..z31 without gaps, and p0..p15, FFR without gaps.
#[repr(C, align(16))]
struct Registers {
    vectors: [u64; 128],
    predicates: [u64; PREDICATE_WORDS],
}

const _: () = assert!(core::mem::offset_of!(Registers, predicates) == 32 * LENGTH_MAX as usize);
const _: () = assert!(EXT_SVE_PREDICATES.end - EXT_SVE_PREDICATES.start == PREDICATE_WORDS);

global_asm!(
    ".arch_extension sve",
    // x0: Registers.
    "motet_store_sve:",
    "add x1, x0, #1024",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "str z\\n, [x0, #\\n, mul vl]",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "str p\\n, [x1, #\\n, mul vl]",
    ".endr",
    "rdffr p0.b",
    "str p0, [x1, #16, mul vl]",
    "ldr p0, [x1]",
    "ret",
    "motet_load_sve:",
    "add x1, x0, #1024",
    "ldr p0, [x1, #16, mul vl]",
    "wrffr p0.b",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "ldr p\\n, [x1, #\\n, mul vl]",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ldr z\\n, [x0, #\\n, mul vl]",
    ".endr",
    "ret",
    ".arch_extension nosve",
);

unsafe extern "C" {
    fn motet_store_sve(registers: *mut Registers);
    fn motet_load_sve(registers: *const Registers);
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
        PerCore::this().vector_bytes.store(bytes.min(LENGTH_MAX) as u32, Relaxed);
    }
    cpu::load_ext(None);
}

/// Whether this core has SVE.
pub fn has_sve() -> bool {
    let field = read_register!("id_aa64pfr0_el1") >> 32 & 0xf;
    field != 0
}

/// Stores this core's state. That of SVE is stored already if it is closed.
pub fn save(frame: &'static UserFrame) {
    cpu::save_ext(frame);
    if frame.ext_valid.get() != 1 {
        frame.ext[EXT_SVE_LENGTH].set(0);
        frame.ext_valid.set(1);
    }
    if are_vectors_open() {
        store_sve(frame);
    }
}

/// Loads this core's state, that of SVE too if the thread's upper bits are set; otherwise closes SVE.
pub fn load(frame: &'static UserFrame) {
    cpu::load_ext((frame.ext_valid.get() == 1).then_some(frame));
    if has_upper_bits(frame) {
        open_vectors(frame);
    } else {
        close();
    }
}

/// Lets user code use SVE, whose registers beyond q0..q31 get their values from `frame`, or become 0.
pub fn open_vectors(frame: &'static UserFrame) {
    write_register!("cpacr_el1", OPEN);
    PerCore::this().vectors_open.store(true, Relaxed);
    load_sve(has_sve_state(frame).then_some(frame));
}

/// User code may not use SVE until it is opened again, unless an upper bit is set; its state is in `frame`.
pub fn close_vectors(frame: &'static UserFrame) {
    save(frame);
    if !has_upper_bits(frame) {
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
    if frame.ext_valid.get() == 1 {
        frame.ext[EXT_SVE_LENGTH].set(0);
    }
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

/// Whether the frame has SVE state of this core's length. Registers of another length cannot be loaded: whoever moves threads leaves
/// those where they are that have some.
fn has_sve_state(frame: &UserFrame) -> bool {
    let bytes = PerCore::this().vector_bytes.load(Relaxed);
    bytes != 0 && frame.ext_valid.get() == 1 && frame.ext[EXT_SVE_LENGTH].get() == bytes.into()
}

fn has_upper_bits(frame: &UserFrame) -> bool {
    has_sve_state(frame) && frame.ext[EXT_SVE_UPPER].iter().any(|word| word.get() != 0)
}

fn store_sve(frame: &'static UserFrame) {
    let registers = read_sve();
    let bytes = PerCore::this().vector_bytes.load(Relaxed);
    frame.ext[EXT_SVE_LENGTH].set(bytes.into());
    for (n, upper) in frame.ext[EXT_SVE_UPPER].chunks_exact(2).enumerate() {
        for (word, to) in upper.iter().enumerate() {
            to.set(if bytes == LENGTH_MAX as u32 { registers.vectors[4 * n + 2 + word] } else { 0 });
        }
    }
    for (to, from) in frame.ext[EXT_SVE_PREDICATES].iter().zip(registers.predicates) {
        to.set(from);
    }
}

/// From `frame`, or zeroes. The lower 128 bits stay as they are.
fn load_sve(frame: Option<&'static UserFrame>) {
    let mut registers = read_sve();
    let word = |index: usize| frame.map_or(0, |frame| frame.ext[index].get());
    if PerCore::this().vector_bytes.load(Relaxed) == LENGTH_MAX as u32 {
        for (n, vector) in registers.vectors.chunks_exact_mut(4).enumerate() {
            vector[2] = word(EXT_SVE_UPPER.start + 2 * n);
            vector[3] = word(EXT_SVE_UPPER.start + 2 * n + 1);
        }
    }
    for (n, to) in registers.predicates.iter_mut().enumerate() {
        *to = word(EXT_SVE_PREDICATES.start + n);
    }
    // SAFETY: reads 32 vectors of at most 32 bytes and 17 predicates of at most 4; changes registers that the kernel, built without them,
    // does not use. The kernel may always use SVE on a core that has it.
    unsafe { motet_load_sve(&raw const registers) };
}

fn read_sve() -> Registers {
    let mut registers = Registers { vectors: [0; 128], predicates: [0; PREDICATE_WORDS] };
    // SAFETY: as in `load_sve`, but for writing.
    unsafe { motet_store_sve(&raw mut registers) };
    registers
}
