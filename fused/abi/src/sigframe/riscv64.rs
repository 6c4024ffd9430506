//! RISC-V: `arch/riscv/kernel/signal.c` (`struct rt_sigframe`), `uapi/asm/{ucontext,sigcontext,ptrace}.h`.

use motet_layout::{EXT_VLENB, UserFrame};

use super::generic::{CONTEXT, MACHINE, MASK, STACK};
use super::{BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_ext, get_reg, set_ext, set_reg};
use crate::registers::{pc, set_pc, sp};
use crate::signal::SigStack;
use crate::wire::{Wire, put_at, take_at};

/// `sigcontext`: pc, x1..x31; then f0..f31, fcsr; then a list of records in the unused tail of the quad-precision state.
const FLOATS: usize = MACHINE + 256;
const FCSR: usize = FLOATS + 256;
const RECORDS: usize = FLOATS + 520;
/// `struct rt_sigframe` without records.
const SIZE: usize = MACHINE + 784;

/// Record with vector state: header, vstart, vl, vtype, vcsr, vlenb, address of the registers; then v0..v31.
const VECTOR_MAGIC: u32 = 0x5346_5457;
const VECTOR_REGS: usize = 8 + 48;
const VLENB_MAX: usize = 32;
/// Bytes of the largest vector record.
pub(super) const VECTOR_MAX: usize = VECTOR_REGS + 32 * VLENB_MAX;

/// In [`UserFrame::ext`]: f0..f31, fcsr, vstart, vtype, vl, vcsr, vlenb, 2 unused, v0... (`hal-riscv64`).
const EXT_FCSR: usize = 32;
const EXT_VSTART: usize = 33;
const EXT_VTYPE: usize = 34;
const EXT_VL: usize = 35;
const EXT_VCSR: usize = 36;
const EXT_VECTORS: usize = 40;

const _: () = assert!(RECORDS + VECTOR_MAX + 8 <= super::SIGFRAME_MAX && SIZE >= RECORDS + 8);

/// Bytes in a vector register of the saved state; 0: no vectors.
fn vlenb(frame: &UserFrame) -> usize {
    let vlenb = frame.ext[EXT_VLENB].get() as usize;
    if frame.ext_valid.get() != 0 && vlenb <= VLENB_MAX { vlenb } else { 0 }
}

pub(super) fn build(frame: &UserFrame, delivery: &Delivery, out: &mut SigframeBuffer) -> Built {
    let vlenb = vlenb(frame);
    let record = if vlenb == 0 { 0 } else { VECTOR_REGS + 32 * vlenb };
    let size = SIZE + record;
    let sp = delivery.base.wrapping_sub(size as u64) & !15;

    out[..size].fill(0);
    out[..CONTEXT].copy_from_slice(&delivery.info.to_bytes());
    delivery.stack.put(&mut out[STACK..]);
    put_at(out, MASK, delivery.mask);
    put_at(out, MACHINE, pc(frame));
    for n in 1..32 {
        put_at(out, MACHINE + 8 * n, get_reg(frame, n));
    }
    if frame.ext_valid.get() != 0 {
        get_ext(frame, 0, &mut out[FLOATS..FCSR]);
        put_at(out, FCSR, frame.ext[EXT_FCSR].get() as u32);
    }
    if record != 0 {
        put_vectors(frame, vlenb, sp.wrapping_add(RECORDS as u64), &mut out[RECORDS..RECORDS + record]);
    }
    // The list ends with a zero header, which is there already.

    Built {
        sp,
        info: sp,
        context: sp.wrapping_add(CONTEXT as u64),
        frame_pointer: None,
        pieces: [(sp, 0, size), (0, 0, 0)],
    }
}

fn put_vectors(frame: &UserFrame, vlenb: usize, address: u64, out: &mut [u8]) {
    put_at(out, 0, VECTOR_MAGIC);
    put_at(out, 4, out.len() as u32);
    for (n, word) in [EXT_VSTART, EXT_VL, EXT_VTYPE, EXT_VCSR, EXT_VLENB].into_iter().enumerate() {
        put_at(out, 8 + 8 * n, frame.ext[word].get());
    }
    put_at(out, 48, address.wrapping_add(VECTOR_REGS as u64));
    get_ext(frame, EXT_VECTORS, &mut out[VECTOR_REGS..VECTOR_REGS + 32 * vlenb]);
}

pub(super) fn enter(frame: &UserFrame, args: [u64; 3], restorer: u64) {
    args.into_iter().enumerate().for_each(|(n, value)| set_reg(frame, 10 + n, value));
    set_reg(frame, 1, restorer);
}

pub(super) fn restore(frame: &UserFrame, read: Read<'_>) -> Result<Restored, BadFrame> {
    let base = sp(frame);
    let mut bytes = [0; RECORDS + 8];
    read(base, &mut bytes)?;
    set_pc(frame, take_at(&bytes, MACHINE));
    for n in 1..32 {
        set_reg(frame, n, take_at(&bytes, MACHINE + 8 * n));
    }
    set_ext(frame, 0, &bytes[FLOATS..FCSR]);
    frame.ext[EXT_FCSR].set(u64::from(take_at::<u32>(&bytes, FCSR) & 0xff)); // rounding mode and flags
    match <[u32; 2]>::take(&bytes[RECORDS..]) {
        [0, 0] => {
            // No vector state came: it becomes initial, unless there is none.
            (EXT_VSTART..=EXT_VCSR).for_each(|word| frame.ext[word].set(0));
            frame.ext[EXT_VECTORS..].iter().for_each(|word| word.set(0));
        }
        [VECTOR_MAGIC, size] => restore_vectors(frame, base.wrapping_add(RECORDS as u64), size as usize, read)?,
        _ => return Err(BadFrame),
    }
    frame.ext_valid.set(1);
    Ok(Restored { mask: take_at(&bytes, MASK), stack: SigStack::take(&bytes[STACK..]) })
}

fn restore_vectors(frame: &UserFrame, address: u64, size: usize, read: Read<'_>) -> Result<(), BadFrame> {
    let vlenb = vlenb(frame);
    let mut record = [0; VECTOR_MAX];
    if vlenb == 0 || size != VECTOR_REGS + 32 * vlenb {
        return Err(BadFrame);
    }
    read(address, &mut record[..size])?;
    for (n, word) in [EXT_VSTART, EXT_VL, EXT_VTYPE, EXT_VCSR].into_iter().enumerate() {
        frame.ext[word].set(take_at(&record, 8 + 8 * n));
    }
    set_ext(frame, EXT_VECTORS, &record[VECTOR_REGS..size]);
    Ok(())
}
