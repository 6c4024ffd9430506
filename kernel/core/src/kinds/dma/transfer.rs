//! The memory of a transfer: looked up in a program's space, cut into pieces that are contiguous in the pool, and kept.
//!
//! Bytes are looked up in steps that cross no page border, neither of the source nor of the destination. Each step has a reference to its two
//! frames; steps that are contiguous in the pool form one piece. Freeing a transfer makes the same steps again.
//!
//! No engine snoops private caches, so lines of these frames are first flushed from this island's, as a driver's `dma_sync` does.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{DMA_PIECES, DmaList, PAGE_SIZE, PoolAddr, SpaceRecord};
use motet_protocol::{
    Context,
    memory::{alloc_common_zeroed_frame, release_frame, share_frame},
};

use super::Asked;
use crate::{
    call::{Call, cost},
    cpu::Cpu,
    due, mm,
};

/// What finding a step costs: two pages, each with its space's lock.
const STEP: u64 = 2 * cost::PAGE;
/// What letting go of a frame costs.
const LET_GO: u64 = cost::FRAME / 2;

/// The pieces of a transfer, with references to all its frames.
///
/// # Errors
/// `EFAULT` when the program may not read or write a byte; `ENOMEM`. Nothing is kept then.
pub fn build<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    asked: &Asked,
) -> Result<&'static DmaList, Errno> {
    let first = new_list(call.cpu)?;
    let (mut last, mut done) = (first, 0);
    while done < asked.bytes {
        match step(call, space, asked, done, &mut last) {
            Ok(len) => done += len,
            Err(errno) => {
                free(call.cpu, first);
                return Err(errno);
            }
        }
        call.serve_due(STEP);
    }
    Ok(first)
}

/// Finds the bytes from `done` on, up to the next page border; how many those are.
fn step<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    asked: &Asked,
    done: u64,
    last: &mut &'static DmaList,
) -> Result<u64, Errno> {
    let cpu = call.cpu;
    let source = keep(cpu, space, asked.source + done, Access::Read)?;
    let destination = match keep(cpu, space, asked.destination + done, Access::Write) {
        Ok(destination) => destination,
        Err(errno) => {
            release_frame(cpu, source.frame());
            return Err(errno);
        }
    };
    for at in [source, destination] {
        if done == 0 || at.0 % PAGE_SIZE == 0 {
            cpu.flush_frame(at.frame());
        }
    }
    let len = step_len(source.0, destination.0, asked.bytes - done);
    add(cpu, last, source.0, destination.0, len).inspect_err(|_| {
        release_frame(cpu, source.frame());
        release_frame(cpu, destination.frame());
    })?;
    Ok(len)
}

/// Bytes until the next page border of either side.
fn step_len(source: u64, destination: u64, most: u64) -> u64 {
    most.min(PAGE_SIZE - source % PAGE_SIZE).min(PAGE_SIZE - destination % PAGE_SIZE)
}

/// Where a byte lies, with a reference to its frame.
fn keep<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
) -> Result<PoolAddr, Errno> {
    let mut found = PoolAddr::NULL;
    mm::with_resolved(cpu, space, address, access, |addr| {
        share_frame(cpu, addr.frame());
        found = addr;
    })?;
    Ok(found)
}

/// Adds a step to the last piece if it follows that, and otherwise a piece.
fn add<M: Machine>(
    cpu: &Cpu<M>,
    last: &mut &'static DmaList,
    source: u64,
    destination: u64,
    len: u64,
) -> Result<(), Errno> {
    let count = last.count.get() as usize;
    if let Some(piece) = count.checked_sub(1).map(|index| &last.pieces[index]) {
        let bytes = piece.bytes.get();
        if piece.source.get() + bytes == source && piece.destination.get() + bytes == destination {
            piece.bytes.set(bytes + len);
            return Ok(());
        }
    }
    if count == DMA_PIECES {
        let next = new_list(cpu)?;
        last.next.set(cpu.raw(next));
        *last = next;
    }
    let index = last.count.get();
    let piece = &last.pieces[index as usize];
    piece.source.set(source);
    piece.destination.set(destination);
    piece.bytes.set(len);
    last.count.set(index + 1);
    Ok(())
}

/// Where nobody caches it privately: the engine reads it, and in the end whoever takes the completion.
fn new_list<M: Machine>(cpu: &Cpu<M>) -> Result<&'static DmaList, Errno> {
    let frame = alloc_common_zeroed_frame(cpu).ok_or(Errno::ENOMEM)?;
    Ok(cpu.pool.at(frame.addr()))
}

/// Drops a transfer's references to its memory, and frees its lists.
pub fn free<M: Machine>(cpu: &Cpu<M>, first: &'static DmaList) {
    let mut next = Some(first);
    while let Some(list) = next {
        for piece in &list.pieces[..list.count.get() as usize] {
            let (mut source, mut destination, mut left) =
                (piece.source.get(), piece.destination.get(), piece.bytes.get());
            while left > 0 {
                let len = step_len(source, destination, left);
                release_frame(cpu, PoolAddr(source).frame());
                release_frame(cpu, PoolAddr(destination).frame());
                due::spend_locked(cpu, 2 * LET_GO);
                (source, destination, left) = (source + len, destination + len, left - len);
            }
        }
        next = cpu.object(list.next.get());
        release_frame(cpu, PoolAddr(cpu.raw(list)).frame());
    }
}
