//! The hosted ISA: `siginfo`, the alternate stack, the mask, the program counter, r0..r15.

use motet_layout::UserFrame;

use super::generic::{CONTEXT, MASK, STACK};
use super::{BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_reg, set_reg};
use crate::registers::{pc, set_pc, sp};
use crate::signal::SigStack;
use crate::wire::{Wire, put_at, take_at};

const PC: usize = CONTEXT + 48;
const REGS: usize = PC + 8;
/// Bytes of the frame.
pub(super) const SIZE: usize = REGS + 16 * 8;
/// The handler finds its return address in r14.
const RETURN: usize = 14;

pub(super) fn build(frame: &UserFrame, delivery: &Delivery, out: &mut SigframeBuffer) -> Built {
    let sp = delivery.base.wrapping_sub(SIZE as u64) & !15;
    out[..CONTEXT].copy_from_slice(&delivery.info.to_bytes());
    delivery.stack.put(&mut out[STACK..]);
    put_at(out, MASK, delivery.mask);
    put_at(out, PC, pc(frame));
    for n in 0..16 {
        put_at(out, REGS + 8 * n, get_reg(frame, n));
    }
    Built {
        sp,
        info: sp,
        context: sp.wrapping_add(CONTEXT as u64),
        frame_pointer: None,
        pieces: [(sp, 0, SIZE), (0, 0, 0), (0, 0, 0)],
        vectors: None,
    }
}

pub(super) fn enter(frame: &UserFrame, args: [u64; 3], restorer: u64) {
    args.into_iter().enumerate().for_each(|(n, value)| set_reg(frame, n, value));
    set_reg(frame, RETURN, restorer);
}

pub(super) fn restore(frame: &UserFrame, read: Read<'_>) -> Result<Restored, BadFrame> {
    let mut bytes = [0; SIZE];
    read(sp(frame), &mut bytes)?;
    set_pc(frame, take_at(&bytes, PC));
    for n in 0..16 {
        set_reg(frame, n, take_at(&bytes, REGS + 8 * n));
    }
    Ok(Restored { mask: take_at(&bytes, MASK), stack: SigStack::take(&bytes[STACK..]) })
}
