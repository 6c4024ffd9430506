//! x86-64: `arch/x86/include/asm/sigframe.h`, `uapi/asm/{ucontext,sigcontext}.h`.

use motet_layout::{EXT_AVX, EXT_XSTATE_BV, UserFrame, XSTATE_AVX};

use super::{BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_ext, get_reg, set_ext, set_reg};
use crate::registers::{pc, set_call_args, set_pc, set_user_status, sp};
use crate::signal::SigStack;
use crate::wire::{Aligned, Wire, put_at, take_at};

/// Offsets in the frame: return address, `ucontext` (with `sigcontext` and the mask), `siginfo`.
const CONTEXT: usize = 8;
const STACK: usize = CONTEXT + 16;
const MACHINE: usize = CONTEXT + 40;
const MASK: usize = CONTEXT + 296;
const INFO: usize = CONTEXT + 304;
const SIZE: usize = INFO + 128;

/// Registers at the beginning of `sigcontext` by hardware number: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
const PC: usize = MACHINE + 128;
const FLAGS: usize = MACHINE + 136;
/// cs, gs, fs, ss.
const SEGMENTS: usize = MACHINE + 144;
const OLD_MASK: usize = MACHINE + 168;
const FPSTATE: usize = MACHINE + 184;
const FXSAVE_SIZE: usize = 512;
/// `UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`.
const UC_FLAGS: u64 = 6;
/// `UC_FP_XSTATE`: the floating-point state is an XSAVE area.
const UC_XSTATE: u64 = 1;

/// `struct _fpx_sw_bytes` in the part of the FXSAVE image that is software's: magic, size with the second magic, components, size.
const SOFTWARE: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
/// Behind the area.
const MAGIC2: u32 = 0x4650_5845;
/// The XSAVE area: XSTATE_BV, which begins the header, AVX state, and the size of all of it.
const XSTATE_BV: usize = 8 * EXT_XSTATE_BV;
const AVX: core::ops::Range<usize> = 8 * EXT_AVX.start..8 * EXT_AVX.end;
const XSAVE_SIZE: usize = AVX.end;
/// Bytes of the largest floating-point state.
pub(super) const EXTENDED_SIZE: usize = XSAVE_SIZE + 4;
/// x87, SSE and AVX state in XSTATE_BV.
const X87: u64 = 1;
const SSE: u64 = 2;
const COMPONENTS: u64 = X87 | SSE | XSTATE_AVX;
/// Linux's user selectors.
const USER_SEGMENTS: [u16; 4] = [0x33, 0, 0, 0x2b];

/// With what aligning takes.
const _: () = assert!(SIZE + 16 + 8 + 64 + EXTENDED_SIZE <= super::SIGFRAME_MAX);

pub(super) fn build(frame: &UserFrame, delivery: &Delivery, out: &mut SigframeBuffer) -> Built {
    let has_avx = frame.ext_valid.get() != 0 && frame.ext[EXT_XSTATE_BV].get() & XSTATE_AVX != 0;
    let ext_size = if has_avx { EXTENDED_SIZE } else { FXSAVE_SIZE };
    let fpstate = delivery.base.wrapping_sub(ext_size as u64) & !63;
    // As after a call: the stack pointer plus 8 is a multiple of 16.
    let sp = (fpstate.wrapping_sub(SIZE as u64) & !15).wrapping_sub(8);
    let gap = fpstate.wrapping_sub(sp) as usize;

    put_at(out, 0, delivery.restorer);
    put_at(out, CONTEXT, UC_FLAGS | if has_avx { UC_XSTATE } else { 0 });
    delivery.stack.put(&mut out[STACK..]);
    for (n, reg) in ORDER.into_iter().enumerate() {
        put_at(out, MACHINE + 8 * n, get_reg(frame, reg));
    }
    put_at(out, PC, pc(frame));
    put_at(out, FLAGS, frame.status.get());
    USER_SEGMENTS.put(&mut out[SEGMENTS..]);
    put_at(out, OLD_MASK, delivery.mask);
    put_at(out, FPSTATE, fpstate);
    put_at(out, MASK, delivery.mask);
    out[INFO..INFO + 128].copy_from_slice(&delivery.info.to_bytes());
    put_fxsave(frame, &mut out[gap..gap + FXSAVE_SIZE]);
    if has_avx {
        put_avx(frame, &mut out[gap..gap + EXTENDED_SIZE]);
    }

    Built {
        sp,
        info: sp.wrapping_add(INFO as u64),
        context: sp.wrapping_add(CONTEXT as u64),
        frame_pointer: None,
        pieces: [(sp, 0, gap + ext_size), (0, 0, 0), (0, 0, 0)],
        vectors: None,
    }
}

fn put_fxsave(frame: &UserFrame, out: &mut [u8]) {
    if frame.ext_valid.get() != 0 {
        get_ext(frame, 0, out);
        out[SOFTWARE..].fill(0); // no XSAVE state follows
    } else {
        put_at(out, 0, 0x37fu16); // FCW
        put_at(out, 24, 0x1f80u32); // MXCSR
        put_at(out, 28, 0xffffu32); // MXCSR_MASK
    }
}

/// What makes the FXSAVE image in `out` an XSAVE area with AVX state.
fn put_avx(frame: &UserFrame, out: &mut [u8]) {
    put_at(out, SOFTWARE, MAGIC1);
    put_at(out, SOFTWARE + 4, EXTENDED_SIZE as u32);
    put_at(out, SOFTWARE + 8, COMPONENTS);
    put_at(out, SOFTWARE + 16, XSAVE_SIZE as u32);
    put_at(out, XSTATE_BV, COMPONENTS);
    get_ext(frame, EXT_AVX.start, &mut out[AVX]);
    put_at(out, XSAVE_SIZE, MAGIC2);
}

pub(super) fn enter(frame: &UserFrame, [signal, info, context]: [u64; 3]) {
    set_call_args(frame, [signal, info, context, 0, 0, 0]);
    set_reg(frame, 0, 0); // rax: no vector registers are used for variable arguments
    set_user_status(frame, frame.status.get() & !0x1_0500); // DF, TF, RF
    frame.ext_valid.set(0);
}

pub(super) fn restore(frame: &UserFrame, read: Read<'_>) -> Result<Restored, BadFrame> {
    let base = sp(frame).wrapping_sub(8); // the handler's return popped the return address
    let mut bytes = [0; INFO];
    read(base, &mut bytes)?;
    for (n, reg) in ORDER.into_iter().enumerate() {
        set_reg(frame, reg, take_at(&bytes, MACHINE + 8 * n));
    }
    set_pc(frame, take_at(&bytes, PC));
    set_user_status(frame, take_at(&bytes, FLAGS));
    restore_ext(frame, take_at(&bytes, FPSTATE), read)?;
    Ok(Restored { mask: take_at(&bytes, MASK), stack: SigStack::take(&bytes[STACK..]) })
}

fn restore_ext(frame: &UserFrame, fpstate: u64, read: Read<'_>) -> Result<(), BadFrame> {
    if fpstate == 0 {
        frame.ext_valid.set(0);
        return Ok(());
    }
    let mut area = Aligned::<XSAVE_SIZE>::zeroed();
    read(fpstate, &mut area[..FXSAVE_SIZE])?;
    let mut has = X87 | SSE;
    if has_xsave_area(&area, fpstate, read)? {
        read(fpstate.wrapping_add(FXSAVE_SIZE as u64), &mut area[FXSAVE_SIZE..])?;
        has = take_at::<u64>(&area, SOFTWARE + 8) & take_at::<u64>(&area, XSTATE_BV);
        let other_words = <[u64; 7]>::take(&area[XSTATE_BV + 8..]);
        if take_at::<u64>(&area, XSTATE_BV) & !COMPONENTS != 0 || other_words != [0; 7] {
            return Err(BadFrame); // XRSTOR would refuse it
        }
    }
    if has & X87 == 0 {
        area[..24].fill(0);
        area[32..160].fill(0);
        put_at(&mut area, 0, 0x37fu16);
    }
    if has & SSE == 0 {
        area[160..416].fill(0);
    }
    // Reserved MXCSR bits would fault in the kernel's FXRSTOR.
    let mxcsr: u32 = take_at(&area, 24);
    put_at(&mut area, 24, mxcsr & 0xffff);
    set_ext(frame, 0, &area[..FXSAVE_SIZE]);
    frame.ext[EXT_XSTATE_BV..EXT_AVX.start].iter().for_each(|word| word.set(0));
    if has & XSTATE_AVX != 0 {
        frame.ext[EXT_XSTATE_BV].set(XSTATE_AVX);
        set_ext(frame, EXT_AVX.start, &area[AVX]);
    }
    frame.ext_valid.set(1);
    Ok(())
}

/// Whether more follows the FXSAVE image at `fpstate`. Frames that programs made may lack it, as on Linux.
fn has_xsave_area(fxsave: &[u8], fpstate: u64, read: Read<'_>) -> Result<bool, BadFrame> {
    let sizes = [4, 16].map(|at| take_at::<u32>(fxsave, SOFTWARE + at) as usize);
    if take_at::<u32>(fxsave, SOFTWARE) != MAGIC1 || sizes != [EXTENDED_SIZE, XSAVE_SIZE] {
        return Ok(false);
    }
    let mut magic = [0; 4];
    read(fpstate.wrapping_add(XSAVE_SIZE as u64), &mut magic)?;
    Ok(u32::take(&magic) == MAGIC2)
}
