//! x86-64: `arch/x86/include/asm/sigframe.h`, `uapi/asm/{ucontext,sigcontext}.h`.

use motet_layout::UserFrame;

use super::{BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_ext, get_reg, set_ext, set_reg};
use crate::registers::{pc, set_call_args, set_pc, set_user_status, sp};
use crate::signal::SigStack;
use crate::wire::{Wire, put_at, take_at};

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
/// Linux's user selectors.
const USER_SEGMENTS: [u16; 4] = [0x33, 0, 0, 0x2b];

pub(super) fn build(frame: &UserFrame, delivery: &Delivery, out: &mut SigframeBuffer) -> Built {
    let fpstate = delivery.base.wrapping_sub(FXSAVE_SIZE as u64) & !63;
    // As after a call: the stack pointer plus 8 is a multiple of 16.
    let sp = (fpstate.wrapping_sub(SIZE as u64) & !15).wrapping_sub(8);
    let gap = fpstate.wrapping_sub(sp) as usize;

    out[..gap + FXSAVE_SIZE].fill(0);
    put_at(out, 0, delivery.restorer);
    put_at(out, CONTEXT, UC_FLAGS);
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

    Built {
        sp,
        info: sp.wrapping_add(INFO as u64),
        context: sp.wrapping_add(CONTEXT as u64),
        frame_pointer: None,
        pieces: [(sp, 0, gap + FXSAVE_SIZE), (0, 0, 0)],
    }
}

fn put_fxsave(frame: &UserFrame, out: &mut [u8]) {
    if frame.ext_valid.get() != 0 {
        get_ext(frame, 0, out);
        out[464..].fill(0); // software-reserved: no XSAVE state follows
    } else {
        put_at(out, 0, 0x37fu16); // FCW
        put_at(out, 24, 0x1f80u32); // MXCSR
        put_at(out, 28, 0xffffu32); // MXCSR_MASK
    }
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
    let mut fxsave = [0; FXSAVE_SIZE];
    read(fpstate, &mut fxsave)?;
    // Reserved MXCSR bits would fault in the kernel's FXRSTOR.
    let mxcsr: u32 = take_at(&fxsave, 24);
    put_at(&mut fxsave, 24, mxcsr & 0xffff);
    set_ext(frame, 0, &fxsave);
    frame.ext_valid.set(1);
    Ok(())
}
