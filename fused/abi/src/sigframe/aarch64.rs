//! AArch64: `arch/arm64/kernel/signal.c` (`struct rt_sigframe`), `uapi/asm/{ucontext,sigcontext}.h`.

use motet_layout::{EXT_SVE_LENGTH, EXT_SVE_PREDICATES, EXT_SVE_UPPER, UserFrame};

use super::generic::{CONTEXT, MACHINE, MASK, STACK};
use super::{BadFrame, Built, Delivery, Read, Restored, SigframeBuffer, get_ext, get_reg, set_ext, set_reg};
use crate::registers::{pc, set_pc, set_user_status, sp};
use crate::signal::{SIGBUS, SIGSEGV, SigCause, SigStack};
use crate::wire::{Wire, put_at, take_at};

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

/// `struct fpsimd_context`: header, fpsr, fpcr, v0..v31.
const FPSIMD_MAGIC: u32 = 0x4650_8001;
const FPSIMD_SIZE: usize = 528;
const ESR_MAGIC: u32 = 0x4553_5201;
/// `struct sve_context`: header, vector length, flags; then z0..z31, p0..p15 and FFR.
const SVE_MAGIC: u32 = 0x5356_4501;
const SVE_LENGTH: usize = 8;
const SVE_FLAGS: usize = 10;
const SVE_REGS: usize = 16;
const SVE_SIZE_MAX: usize = sve_size(32);
/// Behind the last record.
const END_SIZE: usize = 16;
/// In [`UserFrame::ext`]: v0..v31 in words 0..64, FPSR, FPCR.
const EXT_STATUS: usize = 64;

const _: () = assert!(RECORDS + FPSIMD_SIZE + SVE_SIZE_MAX + END_SIZE + 16 <= super::SIGFRAME_MAX);

/// Bytes of the record with registers of `length` bytes: 32 of them, and 17 with a bit for each of their bytes.
const fn sve_size(length: usize) -> usize {
    (SVE_REGS + 32 * length + 17 * length / 8).next_multiple_of(16)
}

/// Bytes in a vector register of the saved state; 0: no SVE state.
fn sve_length(frame: &UserFrame) -> usize {
    match frame.ext[EXT_SVE_LENGTH].get() {
        length @ (16 | 32) if frame.ext_valid.get() != 0 => length as usize,
        _ => 0,
    }
}

pub(super) fn build(frame: &UserFrame, delivery: &Delivery, out: &mut SigframeBuffer) -> Built {
    let record = delivery.base.wrapping_sub(16) & !15;
    let sp_handler = record.wrapping_sub(SIZE as u64);

    let sve_length = sve_length(frame);
    let sve = RECORDS + FPSIMD_SIZE;
    let used = sve + if sve_length == 0 { 0 } else { sve_size(sve_length) } + END_SIZE;

    out[..used + 16].fill(0);
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
    put_fpsimd(frame, &mut out[RECORDS..RECORDS + FPSIMD_SIZE]);
    if sve_length != 0 {
        put_sve(frame, sve_length, &mut out[sve..used - END_SIZE]);
    }
    // A frame record, for backtraces through the handler.
    [get_reg(frame, 29), get_reg(frame, 30)].put(&mut out[used..]);

    Built {
        sp: sp_handler,
        info: sp_handler,
        context: sp_handler.wrapping_add(CONTEXT as u64),
        frame_pointer: Some(record),
        pieces: [(sp_handler, 0, used), (record, used, used + 16)],
    }
}

/// The initial state is all zeroes.
fn put_fpsimd(frame: &UserFrame, out: &mut [u8]) {
    put_at(out, 0, FPSIMD_MAGIC);
    put_at(out, 4, FPSIMD_SIZE as u32);
    if frame.ext_valid.get() != 0 {
        put_at(out, 8, frame.ext[EXT_STATUS].get() as u32);
        put_at(out, 12, frame.ext[EXT_STATUS + 1].get() as u32);
        get_ext(frame, 0, &mut out[16..]);
    }
}

fn put_sve(frame: &UserFrame, length: usize, out: &mut [u8]) {
    put_at(out, 0, SVE_MAGIC);
    put_at(out, 4, out.len() as u32);
    put_at(out, SVE_LENGTH, length as u16);
    for n in 0..32 {
        let vector = &mut out[SVE_REGS + n * length..][..length];
        get_ext(frame, 2 * n, &mut vector[..16]);
        get_ext(frame, EXT_SVE_UPPER.start + 2 * n, &mut vector[16..]);
    }
    let mut predicates = [0; 8 * (EXT_SVE_PREDICATES.end - EXT_SVE_PREDICATES.start)];
    get_ext(frame, EXT_SVE_PREDICATES.start, &mut predicates);
    let size = 17 * length / 8;
    out[SVE_REGS + 32 * length..][..size].copy_from_slice(&predicates[..size]);
}

pub(super) fn enter(frame: &UserFrame, args: [u64; 3], restorer: u64, frame_pointer: Option<u64>) {
    args.into_iter().enumerate().for_each(|(n, value)| set_reg(frame, n, value));
    set_reg(frame, 29, frame_pointer.unwrap_or(0));
    set_reg(frame, 30, restorer);
}

pub(super) fn restore(frame: &UserFrame, read: Read<'_>) -> Result<Restored, BadFrame> {
    let base = sp(frame);
    if base % 16 != 0 {
        return Err(BadFrame);
    }
    let mut bytes = [0; RECORDS];
    read(base, &mut bytes)?;
    for n in 0..31 {
        set_reg(frame, n, take_at(&bytes, REGS + 8 * n));
    }
    set_reg(frame, 31, take_at(&bytes, SP));
    set_pc(frame, take_at(&bytes, PC));
    set_user_status(frame, take_at(&bytes, PSTATE));
    restore_records(frame, base.wrapping_add(RECORDS as u64), read)?;
    Ok(Restored { mask: take_at(&bytes, MASK), stack: SigStack::take(&bytes[STACK..]) })
}

fn restore_records(frame: &UserFrame, list: u64, read: Read<'_>) -> Result<(), BadFrame> {
    frame.ext[EXT_SVE_LENGTH].set(0);
    let mut at = 0;
    while at + 8 <= RECORDS_SIZE {
        let mut head = [0; 8];
        read(list.wrapping_add(at as u64), &mut head)?;
        let [magic, size] = <[u32; 2]>::take(&head);
        let size = size as usize;
        match magic {
            0 if size == 0 => return Ok(()),
            FPSIMD_MAGIC if size == FPSIMD_SIZE && at + size <= RECORDS_SIZE => {
                let mut record = [0; FPSIMD_SIZE];
                read(list.wrapping_add(at as u64), &mut record)?;
                set_ext(frame, 0, &record[16..]);
                frame.ext[EXT_STATUS].set(take_at::<u32>(&record, 8).into());
                frame.ext[EXT_STATUS + 1].set(take_at::<u32>(&record, 12).into());
                frame.ext_valid.set(1);
            }
            SVE_MAGIC if at + size <= RECORDS_SIZE => restore_sve(frame, list.wrapping_add(at as u64), size, read)?,
            ESR_MAGIC => {}
            _ => return Err(BadFrame),
        }
        if size == 0 || size % 16 != 0 {
            return Err(BadFrame);
        }
        at += size;
    }
    Err(BadFrame)
}

/// The lower halves of the vectors come with the record of floating-point state.
fn restore_sve(frame: &UserFrame, address: u64, size: usize, read: Read<'_>) -> Result<(), BadFrame> {
    if size == SVE_REGS {
        return Ok(()); // no state
    }
    if size > SVE_SIZE_MAX {
        return Err(BadFrame);
    }
    let mut record = [0; SVE_SIZE_MAX];
    read(address, &mut record[..size])?;
    let (length, flags) = (take_at::<u16>(&record, SVE_LENGTH).into(), take_at::<u16>(&record, SVE_FLAGS));
    if !matches!(length, 16 | 32) || size != sve_size(length) || flags != 0 {
        return Err(BadFrame);
    }
    frame.ext[EXT_SVE_LENGTH].set(length as u64);
    frame.ext[EXT_SVE_UPPER].iter().chain(&frame.ext[EXT_SVE_PREDICATES]).for_each(|word| word.set(0));
    for n in 0..32 {
        set_ext(frame, EXT_SVE_UPPER.start + 2 * n, &record[SVE_REGS + n * length..][16..length]);
    }
    let mut predicates = [0; 8 * (EXT_SVE_PREDICATES.end - EXT_SVE_PREDICATES.start)];
    let used = 17 * length / 8;
    predicates[..used].copy_from_slice(&record[SVE_REGS + 32 * length..][..used]);
    set_ext(frame, EXT_SVE_PREDICATES.start, &predicates);
    Ok(())
}
