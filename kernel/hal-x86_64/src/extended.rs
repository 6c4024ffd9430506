//! Extended state: x87 and SSE registers, as an FXSAVE image.

use core::arch::asm;

use motet_layout::UserFrame;

/// Word of the image that holds MXCSR (low half) and its mask.
const MXCSR_WORD: usize = 3;
/// MXCSR bits that exist; others make FXRSTOR fault.
const MXCSR_VALID: u64 = 0xffff;

#[repr(C, align(16))]
struct Image([u64; 64]);

/// All registers 0, exceptions masked, 64-bit precision: what a program starts with (System V ABI, 3.4.1).
static INITIAL: Image = {
    let mut words = [0; 64];
    words[0] = 0x037f; // FCW
    words[MXCSR_WORD] = 0x1f80;
    Image(words)
};

/// Stores this core's state.
pub fn save(frame: &'static UserFrame) {
    // SAFETY: the image is 512 bytes, 16-aligned, inside the frame, which consists of atomics.
    unsafe { asm!("fxsave64 [{}]", in(reg) frame.ext.as_ptr(), options(nostack, preserves_flags)) };
    frame.ext_valid.set(1);
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

/// Loads this core's state.
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
}
