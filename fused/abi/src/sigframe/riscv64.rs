//! RISC-V: `arch/riscv/kernel/signal.c` (`struct rt_sigframe`), `uapi/asm/{ucontext,sigcontext,ptrace}.h`.

use motet_layout::{UserFrame, Vectors};

use super::generic::{CONTEXT, MACHINE, MASK, STACK};
use super::{
    Area, BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_ext, get_reg, read_vectors, set_ext, set_reg,
};
use crate::registers::{pc, set_pc, sp};
use crate::signal::SigStack;
use crate::wire::{Aligned, Wire, put_at, take_at};

/// `sigcontext`: pc, x1..x31; then f0..f31, fcsr; then a list of records in the unused tail of the quad-precision state.
const FLOATS: usize = MACHINE + 256;
const FCSR: usize = FLOATS + 256;
const RECORDS: usize = FLOATS + 520;
/// `struct rt_sigframe` without records.
const SIZE: usize = MACHINE + 784;

/// Record with vector state: `struct __riscv_ctx_hdr`, then `struct __sc_riscv_v_state`: vstart, vl, vtype, vcsr, vlenb, address of the
/// registers; then v0..v31.
const VECTOR_MAGIC: u32 = 0x5346_5457;
const VECTOR_REGS: usize = 8 + 48;
/// The header that ends the list.
const END_SIZE: usize = 8;

/// In [`UserFrame::ext`]: f0..f31, fcsr.
const EXT_FCSR: usize = 32;
/// In [`Vectors::control`]: the order of the record is another one.
const VSTART: usize = 0;
const VTYPE: usize = 1;
const VL: usize = 2;
const VCSR: usize = 3;
const RECORD_ORDER: [usize; 4] = [VSTART, VL, VTYPE, VCSR];

const _: () = assert!(SIZE + VECTOR_REGS <= super::SIGFRAME_MAX && SIZE >= RECORDS + END_SIZE);

/// Bytes of the frame of a thread with registers of `vlenb` bytes, 0: without.
pub(super) const fn size(vlenb: usize) -> usize {
    if vlenb == 0 { SIZE } else { SIZE + VECTOR_REGS + 32 * vlenb }
}

pub(super) fn build(
    frame: &UserFrame,
    vectors: Option<Vectors<'_>>,
    delivery: &Delivery,
    out: &mut SigframeBuffer,
) -> Built {
    let size = size(vectors.map_or(0, Vectors::register_bytes));
    let sp = delivery.base.wrapping_sub(size as u64) & !15;

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
    let built = Built {
        sp,
        info: sp,
        context: sp.wrapping_add(CONTEXT as u64),
        frame_pointer: None,
        // The list ends with a zero header, which is there already.
        pieces: [(sp, 0, SIZE), (0, 0, 0), (0, 0, 0)],
        vectors: None,
    };
    let Some(vectors) = vectors else { return built };
    let head = RECORDS + VECTOR_REGS;
    let registers = sp.wrapping_add(head as u64);
    put_vectors(vectors, registers, &mut out[RECORDS..head]);
    let end = registers.wrapping_add((size - SIZE - VECTOR_REGS) as u64);
    Built { pieces: [(sp, 0, head), (end, head, head + END_SIZE), (0, 0, 0)], vectors: Some(registers), ..built }
}

/// The record but for the registers.
fn put_vectors(vectors: Vectors<'_>, registers: u64, out: &mut [u8]) {
    let vlenb = vectors.register_bytes();
    put_at(out, 0, VECTOR_MAGIC);
    put_at(out, 4, (VECTOR_REGS + 32 * vlenb) as u32);
    for (n, word) in RECORD_ORDER.into_iter().enumerate() {
        put_at(out, 8 + 8 * n, vectors.control()[word].get());
    }
    put_at(out, 40, vlenb as u64);
    put_at(out, 48, registers);
}

pub(super) fn enter(frame: &UserFrame, args: [u64; 3], restorer: u64) {
    args.into_iter().enumerate().for_each(|(n, value)| set_reg(frame, 10 + n, value));
    set_reg(frame, 1, restorer);
}

pub(super) fn restore(frame: &UserFrame, read: Read<'_>, area: Area<'_, '_>) -> Result<Restored, BadFrame> {
    let base = sp(frame);
    let mut bytes = Aligned::<{ RECORDS + 8 }>::zeroed();
    read(base, &mut bytes)?;
    set_pc(frame, take_at(&bytes, MACHINE));
    for n in 1..32 {
        set_reg(frame, n, take_at(&bytes, MACHINE + 8 * n));
    }
    set_ext(frame, 0, &bytes[FLOATS..FCSR]);
    frame.ext[EXT_FCSR].set(u64::from(take_at::<u32>(&bytes, FCSR) & 0xff)); // rounding mode and flags
    match <[u32; 2]>::take(&bytes[RECORDS..]) {
        // No vector state came: it becomes initial.
        [0, 0] => frame.vector_bytes.set(0),
        [VECTOR_MAGIC, size] => {
            let length = restore_vectors(base.wrapping_add(RECORDS as u64), size as usize, read, area)?;
            frame.vector_bytes.set(length);
        }
        _ => return Err(BadFrame),
    }
    frame.ext_valid.set(1);
    Ok(Restored { mask: take_at(&bytes, MASK), stack: SigStack::take(&bytes[STACK..]) })
}

/// Returns the bytes in a register.
fn restore_vectors(address: u64, size: usize, read: Read<'_>, area: Area<'_, '_>) -> Result<u32, BadFrame> {
    let mut record = Aligned::<VECTOR_REGS>::zeroed();
    read(address, &mut record)?;
    let vlenb = usize::try_from(take_at::<u64>(&record, 40)).map_err(|_| BadFrame)?;
    if size.checked_sub(VECTOR_REGS) != vlenb.checked_mul(32) {
        return Err(BadFrame);
    }
    let vectors = area(vlenb).ok_or(BadFrame)?;
    for (n, word) in RECORD_ORDER.into_iter().enumerate() {
        vectors.control()[word].set(take_at(&record, 8 + 8 * n));
    }
    read_vectors(vectors, take_at(&record, 48), read)?;
    Ok(vlenb as u32)
}
