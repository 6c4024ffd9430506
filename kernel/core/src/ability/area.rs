//! The areas of threads that have vector registers whose length differs from core to core: who has one, and until when.
//!
//! A thread gets an area when it first uses such registers, or when it is made by a thread whose registers have values, or when it returns
//! from a signal handler whose frame has some. It keeps it until it ends or executes another program.

use motet_abi::{Errno, registers};
use motet_hal::Machine;
use motet_layout::{Frame, PoolAddr, ThreadRecord, VECTOR_FRAMES_MAX, Vectors, is_vector_length, vector_frames};
use motet_protocol::{
    cores::{all_cores, core_record},
    memory::{alloc_common_zeroed_frame, release_frame},
};

use super::{length::kept_length, version::change_ext};
use crate::{
    cpu::Cpu,
    tree::{self, process_of},
};

/// Whether the thread has the area that it needs before this core's vector registers can be opened for it.
pub fn is_ready<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    cpu.machine.vector_format() == 0 || has::<M>(cpu, thread, cpu.own.vector_bytes.get()).is_some()
}

/// Gives the thread the area that [`is_ready`] asks for. `None`: memory is exhausted.
pub fn make_ready<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<()> {
    if is_ready(cpu, thread) { Some(()) } else { allocate(cpu, thread, cpu.own.vector_bytes.get()).map(drop) }
}

/// The thread's area, made if there is none, for registers of so many bytes. `None`: no core has such, or memory is exhausted.
pub fn for_registers<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, bytes: usize) -> Option<Vectors<'static>> {
    if cpu.machine.vector_format() == 0 || !is_vector_length(bytes) {
        return None;
    }
    let bytes = bytes as u32;
    let kept = kept_length::<M>(process_of(cpu, thread));
    if kept != 0 && kept != bytes {
        return None;
    }
    has(cpu, thread, bytes).or_else(|| {
        let has_length = |core| cpu.isa_of(core) == Some(M::ISA) && core_record(cpu, core).vector_bytes.get() == bytes;
        if bytes as usize == cpu.machine.hidden_vector_bytes() || { all_cores(cpu) }.any(has_length) {
            allocate(cpu, thread, bytes)
        } else {
            None
        }
    })
}

/// Gives a new thread an area, if its maker's vector registers have values, and copies these.
///
/// # Errors
/// `ENOMEM`.
pub fn copy<M: Machine>(cpu: &Cpu<M>, parent: &ThreadRecord, thread: &ThreadRecord) -> Result<(), Errno> {
    let bytes = registers::vector_bytes(&parent.frame);
    if cpu.machine.vector_format() == 0 {
        // They are in the frame, and copied with it.
        thread.frame.vector_bytes.set(parent.frame.vector_bytes.get());
        return Ok(());
    }
    if bytes == 0 {
        return Ok(());
    }
    let Some(from) = has(cpu, parent, bytes) else { return Ok(()) };
    allocate(cpu, thread, bytes).ok_or(Errno::ENOMEM)?.copy_from(from);
    thread.frame.vector_bytes.set(bytes);
    Ok(())
}

/// Drops the values of the thread's vector registers, and its area. No lock is held.
pub fn release<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    let address = PoolAddr(thread.frame.vectors.get());
    if address.0 != 0 {
        // Who looks at it from elsewhere has the tree lock.
        let _tree = tree::lock_tree(cpu);
        thread.frame.vectors.set(0);
    }
    thread.frame.vector_bytes.set(0);
    change_ext(thread);
    free(cpu, address);
}

/// Frees the frames of an area, if there is one at this address.
pub fn free<M: Machine>(cpu: &Cpu<M>, address: PoolAddr) {
    if let Some(area) = Vectors::at(cpu.pool, address) {
        // The first frame says where the others are.
        let mut frames = [None; VECTOR_FRAMES_MAX];
        area.frames(address).zip(&mut frames).for_each(|(frame, slot)| *slot = Some(frame));
        frames.into_iter().flatten().for_each(|frame| release_frame(cpu, frame));
    }
}

fn has<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, bytes: u32) -> Option<Vectors<'static>> {
    let is_it =
        |area: &Vectors<'_>| area.format() == cpu.machine.vector_format() && area.register_bytes() == bytes as usize;
    Vectors::of(cpu.pool, &thread.frame).filter(is_it)
}

/// Gives the thread an area instead of the one that it has.
#[cold]
fn allocate<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, bytes: u32) -> Option<Vectors<'static>> {
    release(cpu, thread);
    let address = make(cpu, cpu.machine.vector_format(), bytes)?;
    thread.frame.vectors.set(address.0);
    Vectors::at(cpu.pool, address)
}

/// A new area. `None`: memory is exhausted.
pub fn make<M: Machine>(cpu: &Cpu<M>, format: u32, bytes: u32) -> Option<PoolAddr> {
    let mut frames = [Frame::NONE; VECTOR_FRAMES_MAX];
    let frames = &mut frames[..vector_frames(format, bytes as usize)];
    for index in 0..frames.len() {
        let Some(frame) = alloc_common_zeroed_frame(cpu) else {
            frames[..index].iter().for_each(|&frame| release_frame(cpu, frame));
            return None;
        };
        frames[index] = frame;
    }
    Some(Vectors::lay_out(cpu.pool, frames, format, bytes))
}
