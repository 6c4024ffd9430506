//! Floating-point and vector registers.
//!
//! Format of [`UserFrame::ext`] (byte offsets): f0..f31 0..256, fcsr 256. Vector registers are in the thread's area
//! ([`motet_layout::VectorArea`]), which has control words vstart, vtype, vl, vcsr.
//!
//! sstatus.FS and VS tell whether user code wrote these registers since the last load or store, so a thread that did not
//! costs nothing to save. Vector registers are closed (VS off) until the kernel opens them for the thread that runs. Floating-point
//! registers are off where they hold neither the running thread's values nor its guest's: these are loaded when they are used.

use core::{
    arch::asm,
    mem::offset_of,
    ptr::from_ref,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use motet_hal::Machine;
use motet_layout::{Cell64, GuestSystem, UserFrame, VECTORS_RISCV64, Vectors};

use crate::{
    csr::{STATUS_FS, STATUS_FS_INITIAL, STATUS_VS, STATUS_VS_INITIAL, read_csr},
    guest,
    machine::TheMachine,
    per_core::PerCore,
};

const EXT: usize = offset_of!(UserFrame, ext);
const FCSR: usize = EXT + 256;
const WORDS: usize = 264 / 8;
/// Offsets of control words.
const VSTART: usize = 0;
const VTYPE: usize = 8;
const VL: usize = 16;
const VCSR: usize = 24;

/// A user frame, as far as `load` reads it, in its initial state: all registers 0.
static INITIAL: InitialFrame = InitialFrame([0; EXT / 8 + WORDS]);

#[repr(C, align(64))]
struct InitialFrame([u64; EXT / 8 + WORDS]);

/// Floating-point registers that are set aside: a user frame, as far as `store_float_at` and `load_float` use it.
#[repr(C, align(64))]
pub struct Aside([AtomicU64; EXT / 8 + WORDS]);

impl Aside {
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; EXT / 8 + WORDS])
    }
}

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

/// Stores the registers into `frame`, unless its words are already equal to them. Vector registers that are closed are stored already. Whether any were stored.
pub fn save(machine: &TheMachine, frame: &'static UserFrame) -> bool {
    let core = PerCore::this();
    let status = read_csr!("sstatus");
    let is_fresh = frame.ext_valid.get() != 1;
    let is_other =
        is_fresh || core.ext_frame.load(Relaxed) != from_ref(frame).addr() || status & STATUS_FS == STATUS_FS;
    // Where they are withheld, the frame has them.
    let mut has_stored = is_fresh;
    if is_other && status & STATUS_FS != 0 {
        has_stored = true;
        store_float(frame);
        core.ext_frame.store(from_ref(frame).addr(), Relaxed);
    }
    if is_fresh {
        frame.vector_bytes.set(0);
        frame.ext_valid.set(1);
    }
    if status & STATUS_VS != 0 {
        has_stored |= save_vectors(machine, frame, status & STATUS_VS == STATUS_VS);
    }
    clean();
    has_stored
}

/// Vector registers are open: stores them, unless the area's words are already equal to them. Whether it has.
#[cold]
fn save_vectors(machine: &TheMachine, frame: &'static UserFrame, is_dirty: bool) -> bool {
    let core = PerCore::this();
    if !is_dirty && core.vector_frame.load(Relaxed) == from_ref(frame).addr() {
        return false;
    }
    // A frame without an area is not that of the thread that they are open for, which has ended.
    let area = area(machine, frame);
    if let Some(vectors) = area {
        store_vector(vectors);
        frame.vector_bytes.set(vectors.register_bytes() as u32);
        core.vector_frame.store(from_ref(frame).addr(), Relaxed);
    }
    area.is_some()
}

/// The area of a frame, if it is one for registers of this core's length.
fn area(machine: &TheMachine, frame: &'static UserFrame) -> Option<Vectors<'static>> {
    let bytes = PerCore::this().vector_bytes.load(Relaxed) as usize;
    Vectors::of(machine.pool(), frame).filter(|area| area.format() == VECTORS_RISCV64 && area.register_bytes() == bytes)
}

/// Loads the registers from `frame`, or gives them their initial values; closes the vector registers.
pub fn load(frame: &'static UserFrame) {
    PerCore::this().vector_frame.store(0, Relaxed);
    fill(frame, STATUS_VS);
}

/// The registers are those of `frame`, but it may have discarded its vector registers' values elsewhere: then these are closed.
pub fn keep(frame: &'static UserFrame) {
    let core = PerCore::this();
    if core.vector_frame.load(Relaxed) == from_ref(frame).addr() && frame.vector_bytes.get() == 0 {
        core.vector_frame.store(0, Relaxed);
        set_vectors(false);
    }
}

/// Fills the floating-point registers from `frame`, or with their initial values. Other bits of `sstatus` are cleared, too.
fn fill(frame: &'static UserFrame, clears: u64) {
    let valid = frame.ext_valid.get() == 1;
    set_float(Float::Held);
    load_float(if valid { from_ref(frame).cast() } else { from_ref(&INITIAL).cast() });
    PerCore::this().ext_frame.store(if valid { from_ref(frame).addr() } else { 0 }, Relaxed);
    let dirty_not_initial = STATUS_FS & !STATUS_FS_INITIAL;
    // SAFETY: leaves the unit on; what else is cleared is the vector unit's, which the kernel does not use, either.
    unsafe { asm!("csrc sstatus, {}", in(reg) dirty_not_initial | clears, options(nomem, nostack)) };
}

/// Who has the floating-point registers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Float {
    /// Whoever runs.
    Held,
    /// Another one: instructions that use them are illegal.
    Withheld,
}

fn set_float(float: Float) {
    // SAFETY: the kernel itself does not use the unit.
    unsafe {
        match float {
            Float::Held => asm!("csrs sstatus, {}", in(reg) STATUS_FS_INITIAL, options(nomem, nostack)),
            Float::Withheld => asm!("csrc sstatus, {}", in(reg) STATUS_FS, options(nomem, nostack)),
        }
    }
}

fn holds(frame: &'static UserFrame) -> bool {
    PerCore::this().ext_frame.load(Relaxed) == from_ref(frame).addr()
}

/// [`motet_hal::Machine::lend_ext`]: a guest that has none of its values loaded meets an illegal instruction first.
pub fn lend(guest: &'static UserFrame, system: &'static GuestSystem) {
    let is_loaded = holds(guest) && guest::ran_here_last(system);
    set_float(if is_loaded { Float::Held } else { Float::Withheld });
    guest::delegate_illegal(is_loaded);
}

/// A guest has met an illegal instruction. Whether that was because its registers were not loaded: they are now.
pub fn give(guest: &'static UserFrame) -> bool {
    if read_csr!("sstatus") & STATUS_FS != 0 {
        return false;
    }
    fill(guest, 0);
    guest::delegate_illegal(true);
    true
}

/// [`motet_hal::Machine::take_back_ext`].
pub fn take_back(guest: &'static UserFrame, frame: &'static UserFrame) {
    if read_csr!("sstatus") & STATUS_FS == STATUS_FS {
        store_float(guest);
        guest.ext_valid.set(1);
        PerCore::this().ext_frame.store(from_ref(guest).addr(), Relaxed);
        clean();
    }
    set_float(if holds(frame) { Float::Held } else { Float::Withheld });
}

/// [`motet_hal::Machine::set_ext_aside`]. Guests have no vectors: those registers stay where they are.
pub fn set_aside() {
    let (core, status) = (PerCore::this(), read_csr!("sstatus") & (STATUS_FS | STATUS_VS));
    core.aside_status.store(status, Relaxed);
    if status & STATUS_FS != 0 {
        store_float_at(from_ref(&core.aside).cast());
        // No guest takes them for its own.
        core.aside_frame.store(core.ext_frame.swap(0, Relaxed), Relaxed);
        set_float(Float::Withheld);
    }
}

/// [`motet_hal::Machine::bring_ext_back`].
pub fn bring_back() {
    let core = PerCore::this();
    let status = core.aside_status.load(Relaxed);
    if status & STATUS_FS != 0 {
        set_float(Float::Held);
        load_float(from_ref(&core.aside).cast());
        core.ext_frame.store(core.aside_frame.load(Relaxed), Relaxed);
    }
    // SAFETY: the kernel itself uses neither unit.
    unsafe {
        asm!("csrc sstatus, {}", in(reg) STATUS_FS | STATUS_VS, options(nomem, nostack));
        asm!("csrs sstatus, {}", in(reg) status, options(nomem, nostack));
    }
}

/// [`motet_hal::Machine::withhold_ext`].
pub fn withhold(frame: &'static UserFrame) {
    if holds(frame) {
        // They were: the thread may have been elsewhere since.
        PerCore::this().ext_frame.store(0, Relaxed);
    }
    // SAFETY: the kernel itself uses neither unit.
    unsafe { asm!("csrc sstatus, {}", in(reg) STATUS_FS | STATUS_VS, options(nomem, nostack)) };
}

/// [`motet_hal::Machine::get_ext`].
pub fn get(frame: &'static UserFrame) -> bool {
    let is_withheld = read_csr!("sstatus") & STATUS_FS == 0;
    if is_withheld {
        fill(frame, 0);
    }
    is_withheld
}

/// Lets user code use the vector registers, which get their values from `frame`'s area, or their initial ones.
pub fn open_vectors(machine: &TheMachine, frame: &'static UserFrame) {
    let core = PerCore::this();
    set_vectors(true);
    // Registers of another length cannot be loaded: whoever moves threads leaves those where they are that have some.
    let is_live = frame.ext_valid.get() == 1 && frame.vector_bytes.get() != 0;
    // What another core has discarded is not to be seen here again.
    if is_live && core.vector_frame.load(Relaxed) == from_ref(frame).addr() {
        return;
    }
    match if is_live { area(machine, frame) } else { None } {
        Some(vectors) => {
            load_vector(vectors);
            core.vector_frame.store(from_ref(frame).addr(), Relaxed);
        }
        None => {
            clear_vector();
            core.vector_frame.store(0, Relaxed);
        }
    }
    clean_vectors();
}

/// User code may not use the vector registers until they are opened again; their values are in `frame`'s area.
pub fn close_vectors(machine: &TheMachine, frame: &'static UserFrame) -> bool {
    let has_stored = save(machine, frame);
    set_vectors(false);
    has_stored
}

/// As [`close_vectors`]; the next that are opened for `frame` have their initial values.
pub fn discard_vectors(frame: &'static UserFrame) {
    frame.vector_bytes.set(0);
    PerCore::this().vector_frame.store(0, Relaxed);
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

/// As [`clean`], of vector registers alone: the floating-point ones may have been written since they were loaded.
fn clean_vectors() {
    let dirty_not_initial = STATUS_VS & !STATUS_VS_INITIAL;
    // SAFETY: leaves the unit on; the kernel itself does not use it.
    unsafe { asm!("csrc sstatus, {}", in(reg) dirty_not_initial, options(nomem, nostack)) };
}

fn store_float(frame: &'static UserFrame) {
    store_float_at(from_ref(frame).cast());
}

/// `frame`: a user frame, or as much of one as there is of [`Aside`].
fn store_float_at(frame: *const u8) {
    // SAFETY: stores to the frame's atomics only, which no one else accesses while its thread is on this core.
    unsafe {
        asm!(
            ".option push", ".option arch, +d",
            for_each_float!("fsd"),
            "frcsr {t}",
            "sd {t}, {FCSR}({frame})",
            ".option pop",
            frame = in(reg) frame, t = out(reg) _, EXT = const EXT, FCSR = const FCSR,
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

fn store_vector(vectors: Vectors<'_>) {
    let [v0, v8, v16, v24] = vectors.groups().map(<[Cell64]>::as_ptr);
    // SAFETY: stores to atomics only, which no one else accesses while their thread is on this core: 4 control words, and 8 registers of
    // this core's length at each address, for which the area has room (`area`).
    unsafe {
        asm!(
            ".option push", ".option arch, +v",
            "csrr {t}, vstart", "sd {t}, {VSTART}({control})",
            "csrr {u}, vtype", "sd {u}, {VTYPE}({control})",
            "csrr {u}, vl", "sd {u}, {VL}({control})",
            "csrr {u}, vcsr", "sd {u}, {VCSR}({control})",
            "csrw vstart, zero",
            "vs8r.v v0, ({v0})", "vs8r.v v8, ({v8})", "vs8r.v v16, ({v16})", "vs8r.v v24, ({v24})",
            // The state stays loaded, vstart too.
            "csrw vstart, {t}",
            ".option pop",
            control = in(reg) vectors.control().as_ptr(), t = out(reg) _, u = out(reg) _,
            v0 = in(reg) v0, v8 = in(reg) v8, v16 = in(reg) v16, v24 = in(reg) v24,
            VSTART = const VSTART, VTYPE = const VTYPE, VL = const VL, VCSR = const VCSR,
            options(nostack)
        );
    }
}

fn load_vector(vectors: Vectors<'_>) {
    let [v0, v8, v16, v24] = vectors.groups().map(<[Cell64]>::as_ptr);
    // SAFETY: as in `store_vector`, and changes registers only that the kernel does not use. `vsetvl` accepts any value: an unsupported
    // vtype sets its vill bit.
    unsafe {
        asm!(
            ".option push", ".option arch, +v",
            "csrw vstart, zero",
            "vl8re8.v v0, ({v0})", "vl8re8.v v8, ({v8})", "vl8re8.v v16, ({v16})", "vl8re8.v v24, ({v24})",
            "ld {t}, {VL}({control})", "ld {u}, {VTYPE}({control})", "vsetvl zero, {t}, {u}",
            "ld {t}, {VCSR}({control})", "csrw vcsr, {t}",
            "ld {t}, {VSTART}({control})", "csrw vstart, {t}",
            ".option pop",
            control = in(reg) vectors.control().as_ptr(), t = out(reg) _, u = out(reg) _,
            v0 = in(reg) v0, v8 = in(reg) v8, v16 = in(reg) v16, v24 = in(reg) v24,
            VSTART = const VSTART, VTYPE = const VTYPE, VL = const VL, VCSR = const VCSR,
            options(nostack)
        );
    }
}

/// All of them 0, as a program finds them first.
fn clear_vector() {
    // SAFETY: changes registers only that the kernel does not use. An element size of 8 bits in groups of 8 is always there.
    unsafe {
        asm!(
            ".option push", ".option arch, +v",
            "vsetvli {t}, zero, e8, m8, ta, ma",
            "vmv.v.i v0, 0", "vmv.v.i v8, 0", "vmv.v.i v16, 0", "vmv.v.i v24, 0",
            "li {t}, 0", "vsetvl zero, {t}, zero",
            "csrw vcsr, zero", "csrw vstart, zero",
            ".option pop",
            t = out(reg) _,
            options(nomem, nostack)
        );
    }
}
