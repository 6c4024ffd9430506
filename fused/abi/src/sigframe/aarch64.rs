//! AArch64: `arch/arm64/kernel/signal.c` (`struct rt_sigframe`), `uapi/asm/{ucontext,sigcontext}.h`.

use motet_layout::{UserFrame, VECTOR_BYTES_MAX, Vectors};

use super::generic::{CONTEXT, MACHINE, MASK, STACK};
use super::{
    Area, BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_ext, get_reg, read_vectors, set_ext, set_reg,
};
use crate::registers::{pc, set_pc, set_user_status, sp};
use crate::signal::{SIGBUS, SIGSEGV, SigCause, SigStack};
use crate::wire::{Aligned, Wire, put_at, take_at};

/// `sigcontext`: fault address, x0..x30, sp, pc, pstate.
const FAULT: usize = MACHINE;
const REGS: usize = MACHINE + 8;
const SP: usize = MACHINE + 256;
const PC: usize = MACHINE + 264;
const PSTATE: usize = MACHINE + 272;
/// `__reserved[4096]`: a list of records.
const RECORDS: usize = MACHINE + 288;
const RECORDS_SIZE: usize = 4096;
const SIZE: usize = RECORDS + RECORDS_SIZE;
/// Bytes of the frame up to what comes register by register.
const HEAD_MAX: usize = RECORDS + FPSIMD_SIZE + EXTRA_SIZE + END_SIZE + SVE_REGS;

/// `struct fpsimd_context`: header, fpsr, fpcr, v0..v31.
const FPSIMD_MAGIC: u32 = 0x4650_8001;
const FPSIMD_SIZE: usize = 528;
const ESR_MAGIC: u32 = 0x4553_5201;
/// `struct sve_context`: header, vector length, flags; then z0..z31, p0..p15 and FFR.
const SVE_MAGIC: u32 = 0x5356_4501;
const SVE_LENGTH: usize = 8;
const SVE_FLAGS: usize = 10;
const SVE_REGS: usize = 16;
/// Bytes of p0..p15 and FFR at most.
pub(super) const PREDICATES_MAX: usize = 17 * VECTOR_BYTES_MAX / 8 + 8;
/// `struct extra_context`: header, address and size of records that do not fit; what is behind it ends the list there.
const EXTRA_MAGIC: u32 = 0x4558_5401;
const EXTRA_SIZE: usize = 32;
/// Bytes of those records at most (`SIGFRAME_MAXSZ`).
const EXTRA_MAX: usize = 0x1_0000;
/// Behind the last record.
const END_SIZE: usize = 16;
/// In [`UserFrame::ext`]: v0..v31 in words 0..64, FPSR, FPCR.
const EXT_STATUS: usize = 64;

const _: () = assert!(HEAD_MAX + END_SIZE + 16 <= super::SIGFRAME_MAX);

/// Bytes of the record with registers of `length` bytes: 32 of them, and 17 with a bit for each of their bytes.
const fn sve_size(length: usize) -> usize {
    (SVE_REGS + 32 * length + 17 * length / 8).next_multiple_of(16)
}

/// Whether that record comes after an `extra_context` (`__sigframe_alloc`).
const fn needs_extra(length: usize) -> bool {
    FPSIMD_SIZE + sve_size(length) + EXTRA_SIZE + END_SIZE > RECORDS_SIZE
}

/// Bytes of the frame of a thread with registers of `length` bytes, 0: without.
pub(super) const fn size(length: usize) -> usize {
    if needs_extra(length) { RECORDS + FPSIMD_SIZE + EXTRA_SIZE + END_SIZE + sve_size(length) + END_SIZE } else { SIZE }
}

pub(super) fn build(
    frame: &UserFrame,
    vectors: Option<Vectors<'_>>,
    delivery: &Delivery,
    out: &mut SigframeBuffer,
) -> Built {
    let length = vectors.map_or(0, Vectors::register_bytes);
    let record = delivery.base.wrapping_sub(16) & !15;
    let sp_handler = record.wrapping_sub(size(length) as u64);

    out[..CONTEXT].copy_from_slice(&delivery.info.to_bytes());
    delivery.stack.put(&mut out[STACK..]);
    put_at(out, MASK, delivery.mask);
    if let (SIGSEGV | SIGBUS, SigCause::Fault { address }) = (delivery.info.signal, delivery.info.cause) {
        put_at(out, FAULT, address);
    }
    for n in 0..31 {
        put_at(out, REGS + 8 * n, get_reg(frame, n));
    }
    put_at(out, SP, sp(frame));
    put_at(out, PC, pc(frame));
    put_at(out, PSTATE, frame.status.get());
    put_fpsimd(frame, out);
    let mut head = RECORDS + FPSIMD_SIZE;
    let mut end = sp_handler.wrapping_add(head as u64);
    if needs_extra(length) {
        let data = end.wrapping_add((EXTRA_SIZE + END_SIZE) as u64);
        put_extra(data, sve_size(length) + END_SIZE, &mut out[head..]);
        head += EXTRA_SIZE + END_SIZE;
        end = data;
    }
    let mut registers = None;
    if length != 0 {
        put_at(out, head, SVE_MAGIC);
        put_at(out, head + 4, sve_size(length) as u32);
        put_at(out, head + SVE_LENGTH, length as u16);
        head += SVE_REGS;
        registers = Some(end.wrapping_add(SVE_REGS as u64));
        end = end.wrapping_add(sve_size(length) as u64);
    }
    let last = head + END_SIZE;
    // A frame record, for backtraces through the handler.
    [get_reg(frame, 29), get_reg(frame, 30)].put(&mut out[last..]);

    Built {
        sp: sp_handler,
        info: sp_handler,
        context: sp_handler.wrapping_add(CONTEXT as u64),
        frame_pointer: Some(record),
        pieces: [(sp_handler, 0, head), (end, head, last), (record, last, last + 16)],
        vectors: registers,
    }
}

fn put_extra(data: u64, size: usize, out: &mut [u8]) {
    put_at(out, 0, EXTRA_MAGIC);
    put_at(out, 4, EXTRA_SIZE as u32);
    put_at(out, 8, data);
    put_at(out, 16, size as u32);
}

/// The initial state is all zeroes.
fn put_fpsimd(frame: &UserFrame, out: &mut SigframeBuffer) {
    put_at(out, RECORDS, FPSIMD_MAGIC);
    put_at(out, RECORDS + 4, FPSIMD_SIZE as u32);
    if frame.ext_valid.get() != 0 {
        put_at(out, RECORDS + 8, frame.ext[EXT_STATUS].get() as u32);
        put_at(out, RECORDS + 12, frame.ext[EXT_STATUS + 1].get() as u32);
        get_ext(frame, 0, &mut out[RECORDS + 16..RECORDS + FPSIMD_SIZE]);
    }
}

pub(super) fn enter(frame: &UserFrame, args: [u64; 3], restorer: u64, frame_pointer: Option<u64>) {
    args.into_iter().enumerate().for_each(|(n, value)| set_reg(frame, n, value));
    set_reg(frame, 29, frame_pointer.unwrap_or(0));
    set_reg(frame, 30, restorer);
}

pub(super) fn restore(frame: &UserFrame, read: Read<'_>, area: Area<'_, '_>) -> Result<Restored, BadFrame> {
    let base = sp(frame);
    if base % 16 != 0 {
        return Err(BadFrame);
    }
    let mut bytes = Aligned::<RECORDS>::zeroed();
    read(base, &mut bytes)?;
    for n in 0..31 {
        set_reg(frame, n, take_at(&bytes, REGS + 8 * n));
    }
    set_reg(frame, 31, take_at(&bytes, SP));
    set_pc(frame, take_at(&bytes, PC));
    set_user_status(frame, take_at(&bytes, PSTATE));
    restore_records(frame, base.wrapping_add(RECORDS as u64), read, area)?;
    Ok(Restored { mask: take_at(&bytes, MASK), stack: SigStack::take(&bytes[STACK..]) })
}

fn restore_records(frame: &UserFrame, list: u64, read: Read<'_>, area: Area<'_, '_>) -> Result<(), BadFrame> {
    frame.vector_bytes.set(0);
    let (mut list, mut size_left, mut is_extra) = (list, RECORDS_SIZE, false);
    while size_left >= 8 {
        let mut head = [0; 8];
        read(list, &mut head)?;
        let [magic, size] = <[u32; 2]>::take(&head);
        let size = size as usize;
        if magic == 0 && size == 0 {
            return Ok(());
        }
        if size == 0 || size % 16 != 0 || size > size_left {
            return Err(BadFrame);
        }
        let behind = list.wrapping_add(size as u64);
        match magic {
            FPSIMD_MAGIC if size == FPSIMD_SIZE => restore_fpsimd(frame, list, read)?,
            SVE_MAGIC => restore_sve(frame, list, size, read, area)?,
            ESR_MAGIC => {}
            // The list goes on right behind this record and the end that follows it (`parse_user_sigframe`).
            EXTRA_MAGIC if size == EXTRA_SIZE && !is_extra => {
                let mut record = [0; EXTRA_SIZE];
                read(list, &mut record)?;
                let data = behind.wrapping_add(END_SIZE as u64);
                if take_at::<u64>(&record, 8) != data {
                    return Err(BadFrame);
                }
                (list, size_left, is_extra) = (data, (take_at::<u32>(&record, 16) as usize).min(EXTRA_MAX), true);
                continue;
            }
            _ => return Err(BadFrame),
        }
        (list, size_left) = (behind, size_left - size);
    }
    Err(BadFrame)
}

fn restore_fpsimd(frame: &UserFrame, address: u64, read: Read<'_>) -> Result<(), BadFrame> {
    let mut record = Aligned::<FPSIMD_SIZE>::zeroed();
    read(address, &mut record)?;
    set_ext(frame, 0, &record[16..]);
    frame.ext[EXT_STATUS].set(take_at::<u32>(&record, 8).into());
    frame.ext[EXT_STATUS + 1].set(take_at::<u32>(&record, 12).into());
    frame.ext_valid.set(1);
    Ok(())
}

/// The lower halves of the vectors come with the record of floating-point state.
fn restore_sve(
    frame: &UserFrame,
    address: u64,
    size: usize,
    read: Read<'_>,
    area: Area<'_, '_>,
) -> Result<(), BadFrame> {
    if size == SVE_REGS {
        return Ok(()); // no state
    }
    let mut head = [0; SVE_REGS];
    read(address, &mut head)?;
    let (length, flags) = (take_at::<u16>(&head, SVE_LENGTH).into(), take_at::<u16>(&head, SVE_FLAGS));
    if size != sve_size(length) || flags != 0 {
        return Err(BadFrame);
    }
    let vectors = area(length).ok_or(BadFrame)?;
    read_vectors(vectors, address.wrapping_add(SVE_REGS as u64), read)?;
    frame.vector_bytes.set(length as u32);
    Ok(())
}
