//! Extended state: x87 and SSE registers, and on cores with AVX the upper halves of its registers.
//!
//! [`UserFrame::ext`] is an XSAVE area in standard format (SDM, volume 1, 13.4): an FXSAVE image, a header of 64 bytes, of which bit 2 of
//! the first word tells whether the thread has AVX state, and then this.
//!
//! CR4.OSXSAVE opens and closes AVX. XCR0 has AVX from boot on. So whatever needs the AVX state, XSAVE, XRSTOR and XGETBV too, traps while
//! it is closed, and finds all of it when it is open: a program never sees an XCR0 that changes, nor saves half of its registers. A
//! program that asks CPUID (bit OSXSAVE) is told no while AVX is closed, and does without. It is told yes where every core has AVX: there
//! AVX stays open ([`keep_open`]).
//!
//! XINUSE does not tell of use: VZEROUPPER clears it, and QEMU does not track it.

use core::{arch::asm, sync::atomic::Ordering::Relaxed};

use motet_layout::{EXT_AVX, EXT_XSTATE_BV, UserFrame, XSTATE_AVX};
use x86_64::registers::{
    control::{Cr4, Cr4Flags},
    xcontrol::{XCr0, XCr0Flags},
};

use crate::{core_block::Core, cpuid};

/// Word of the image that holds MXCSR (low half) and its mask.
const MXCSR_WORD: usize = 3;
/// MXCSR bits that exist; others make FXRSTOR fault.
const MXCSR_VALID: u64 = 0xffff;
/// Bytes in an AVX register.
const REGISTER_BYTES: u32 = 32;

const _: () = assert!(EXT_XSTATE_BV == 64 && EXT_AVX.start * 8 == cpuid::AVX_OFFSET as usize);

#[repr(C, align(16))]
struct Image([u64; 64]);

/// All registers 0, exceptions masked, 64-bit precision: what a program starts with (System V ABI, 3.4.1).
static INITIAL: Image = {
    let mut words = [0; 64];
    words[0] = 0x037f; // FCW
    words[MXCSR_WORD] = 0x1f80;
    Image(words)
};

/// Finds out whether this core has AVX, and readies it, closed.
pub fn init(core: &Core) {
    if !cpuid::has_avx() {
        return;
    }
    set_gate(true);
    // SAFETY: the core has these, and the kernel itself uses none of them.
    unsafe { XCr0::write(XCr0Flags::X87 | XCr0Flags::SSE | XCr0Flags::AVX) };
    set_gate(false);
    core.vector_bytes.store(REGISTER_BYTES, Relaxed);
}

/// Stores this core's state. The upper halves are stored already if AVX is closed.
pub fn save(frame: &'static UserFrame) {
    // SAFETY: the image is 512 bytes, 16-aligned, inside the frame, which consists of atomics.
    unsafe { asm!("fxsave64 [{}]", in(reg) frame.ext.as_ptr(), options(nostack, preserves_flags)) };
    if frame.ext_valid.get() != 1 {
        frame.ext[EXT_XSTATE_BV].set(0);
        frame.ext_valid.set(1);
    }
    if are_vectors_open() {
        // SAFETY: with this mask it stores MXCSR, the bit in the header, and 256 bytes at 576 (compared when AVX was found); the frame and
        // so the area is 64-aligned.
        unsafe {
            asm!("xsave64 [{}]", in(reg) frame.ext.as_ptr(), in("eax") XSTATE_AVX as u32, in("edx") 0,
                options(nostack, preserves_flags));
        }
    }
}

/// Stores what C functions preserve: the control words of x87 and SSE (System V ABI, 3.2.3).
pub fn save_kept(frame: &'static UserFrame) {
    if frame.ext_valid.get() == 0 {
        return save(frame);
    }
    // SAFETY: the first two bytes of the image, and four of its fourth word (SDM, FXSAVE), inside the frame.
    unsafe {
        asm!("fnstcw [{at}]", "stmxcsr [{at} + 24]", at = in(reg) frame.ext.as_ptr(), options(nostack, preserves_flags))
    };
}

/// Loads this core's state; closes AVX, or loads the upper halves too where it stays open.
pub fn load(frame: &'static UserFrame) {
    let image = match frame.ext_valid.get() {
        0 => (&raw const INITIAL).cast(),
        _ => {
            frame.ext[MXCSR_WORD].set(frame.ext[MXCSR_WORD].get() & MXCSR_VALID);
            frame.ext.as_ptr()
        }
    };
    // SAFETY: a readable 16-aligned image of 512 bytes whose MXCSR is valid.
    unsafe { asm!("fxrstor64 [{}]", in(reg) image, options(nostack, preserves_flags)) };
    let core = Core::current();
    if core.vectors_open.load(Relaxed) {
        if core.vectors_stay_open.load(Relaxed) {
            load_upper_halves(frame);
        } else {
            close(core);
        }
    }
}

/// Lets user code use AVX, whose upper halves get their values from `frame`, or become 0.
pub fn open_vectors(frame: &'static UserFrame) {
    open(Core::current());
    load_upper_halves(frame);
}

/// User code may not use AVX until it is opened again; its state is in `frame`.
pub fn close_vectors(frame: &'static UserFrame) {
    save(frame);
    let core = Core::current();
    if !core.vectors_stay_open.load(Relaxed) {
        close(core);
    }
}

/// Whether user code may use AVX.
pub fn are_vectors_open() -> bool {
    Core::current().vectors_open.load(Relaxed)
}

/// AVX is open from now on, if this core has it.
pub fn keep_open() {
    let core = Core::current();
    if core.vector_bytes.load(Relaxed) != 0 && !core.vectors_stay_open.load(Relaxed) {
        core.vectors_stay_open.store(true, Relaxed);
        open(core);
        clear_upper_halves();
    }
}

/// From now on this core has no AVX.
pub fn withhold() {
    let core = Core::current();
    core.vector_bytes.store(0, Relaxed);
    core.vectors_stay_open.store(false, Relaxed);
    close(core);
}

fn open(core: &Core) {
    set_gate(true);
    core.vectors_open.store(true, Relaxed);
}

fn close(core: &Core) {
    if core.vectors_open.load(Relaxed) {
        set_gate(false);
        core.vectors_open.store(false, Relaxed);
    }
}

fn set_gate(open: bool) {
    // SAFETY: concerns instructions that the kernel uses only here, where it is open.
    unsafe { Cr4::update(|flags| flags.set(Cr4Flags::OSXSAVE, open)) };
}

/// AVX is open. x87 and SSE registers stay as they are, MXCSR too.
fn load_upper_halves(frame: &'static UserFrame) {
    if frame.ext_valid.get() != 1 || frame.ext[EXT_XSTATE_BV].get() & XSTATE_AVX == 0 {
        return clear_upper_halves();
    }
    // What else a header may say, XRSTOR would refuse.
    frame.ext[EXT_XSTATE_BV].set(XSTATE_AVX);
    frame.ext[EXT_XSTATE_BV + 1..EXT_AVX.start].iter().for_each(|word| word.set(0));
    // SAFETY: a 64-aligned area of 832 bytes with a valid header. With this mask XRSTOR loads MXCSR too, which is stored there first.
    unsafe {
        asm!("stmxcsr [{at} + 24]", "xrstor64 [{at}]", at = in(reg) frame.ext.as_ptr(), in("eax") XSTATE_AVX as u32, in("edx") 0,
            options(nostack, preserves_flags));
    }
}

/// AVX is open.
fn clear_upper_halves() {
    // SAFETY: changes registers only that the kernel does not use.
    unsafe { asm!("vzeroupper", options(nomem, nostack, preserves_flags)) };
}
