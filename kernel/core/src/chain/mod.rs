//! The calls across instruction sets that a thread is in. Each has a record with what its caller needs to go on; the records of a thread form a
//! stack. Here are also the stacks of its functions. `crossing` makes the calls.

mod migrated;
mod report;
pub mod stack;
mod symbols;

pub use migrated::{context_in, forget_context, thread_in};
pub use report::{Snapshot, backtrace};

use motet_abi::{Errno, fat::Signature};
use motet_hal::Machine;
use motet_layout::{CrossingRecord, Isa, PoolAddr, ThreadRecord};
use motet_protocol::{Context, slab};

use crate::{
    cpu::{Cpu, cost},
    due,
};

/// Notes in the record of a new call in which call of the thread it is made.
#[inline(always)]
pub fn nest<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &CrossingRecord) {
    let outer = thread.crossing.get();
    record.outer.set(outer);
    // Without one around it, any depth will do.
    if let Some(outer) = record_at(cpu, thread, outer) {
        record.depth.set(outer.depth.get().wrapping_add(1));
    }
}

/// The record that the thread has kept from its last call.
#[inline(always)]
pub fn spare_record<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static CrossingRecord> {
    record_at(cpu, thread, thread.spare_crossing.get())
}

pub fn new_record<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static CrossingRecord> {
    let record = slab::alloc::<CrossingRecord>(cpu)?;
    record.owner.set(cpu.raw(thread));
    Some(record)
}

/// A thread's record; `None`: there is none, or what says where it is, or whose it is, is damaged.
#[inline(always)]
pub fn record_at<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, raw: u64) -> Option<&'static CrossingRecord> {
    let record = cpu.pool.get::<CrossingRecord>(PoolAddr(raw))?;
    (record.owner.get() == cpu.raw(thread)).then_some(record)
}

/// The record of the call that a thread is in.
pub fn innermost<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static CrossingRecord> {
    record_at(cpu, thread, thread.crossing.get())
}

/// Ends the thread's last call, which was made on `isa`.
#[inline(always)]
pub fn end<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &'static CrossingRecord, isa: Isa) {
    thread.crossing.set(record.outer.get());
    thread.stack_used[isa as usize - 1].set(record.outer_used.get());
    keep_record(cpu, thread, record);
}

/// A record that is not needed any more: kept for the thread's next call, if it has none yet.
#[inline(always)]
fn keep_record<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &'static CrossingRecord) {
    if thread.spare_crossing.get() == 0 {
        thread.spare_crossing.set(cpu.raw(record));
    } else {
        free_record(cpu, record);
    }
}

fn free_record<M: Machine>(cpu: &Cpu<M>, record: &'static CrossingRecord) {
    record.owner.set(0);
    slab::free(cpu, record);
}

/// The calls that a thread is in, the last one first.
pub fn chain<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> impl Iterator<Item = &'static CrossingRecord> {
    core::iter::successors(innermost(cpu, thread), move |record| outer_of(cpu, thread, record))
}

/// The call that a call was made in. It is less deep, so that a damaged chain has an end.
pub fn outer_of<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &CrossingRecord,
) -> Option<&'static CrossingRecord> {
    record_at(cpu, thread, record.outer.get()).filter(|outer| outer.depth.get() < record.depth.get())
}

pub fn signature_of(record: &CrossingRecord) -> Signature {
    signature_of_result(record.result.get())
}

/// As [`signature_of`], of what the record says about results.
pub fn signature_of_result(result: u64) -> Signature {
    Signature { words: 0, floats: 0, result: result as u32 & 0xfff }
}

/// Frees the record that the thread keeps for its next call.
pub fn free_spare<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if let Some(spare) = spare_record(cpu, thread) {
        free_record(cpu, spare);
    }
    thread.spare_crossing.set(0);
}

/// Gives a forked thread copies of the records of its parent's calls.
///
/// # Errors
/// `ENOMEM`; the child then has the calls copied so far.
pub fn copy_chain<M: Machine>(
    cpu: &Cpu<M>,
    parent: &'static ThreadRecord,
    child: &'static ThreadRecord,
) -> Result<(), Errno> {
    for (to, from) in child.stack_top.iter().zip(&parent.stack_top) {
        to.set(from.get());
    }
    for (to, from) in child.stack_used.iter().zip(&parent.stack_used) {
        to.set(from.get());
    }
    let mut slot = &child.crossing;
    for from in chain(cpu, parent) {
        let to = slab::alloc::<CrossingRecord>(cpu).ok_or(Errno::ENOMEM)?;
        cpu.pool.copy(cpu.pool.addr_of(from), cpu.pool.addr_of(to), size_of::<CrossingRecord>());
        to.outer.set(0);
        to.owner.set(cpu.raw(child));
        slot.set(cpu.raw(to));
        slot = &to.outer;
        due::spend_locked(cpu, cost::OBJECT);
    }
    Ok(())
}

/// Frees all records of a thread that ends, or executes another program.
pub fn forget<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    while let Some(record) = innermost(cpu, thread) {
        thread.crossing.set(outer_of(cpu, thread, record).map_or(0, |outer| cpu.raw(outer)));
        free_record(cpu, record);
        due::spend_locked(cpu, cost::OBJECT);
    }
    thread.crossing.set(0);
    free_spare(cpu, thread);
    if cpu.crossing.migrates() {
        migrated::forget(cpu, thread);
    }
    for slot in thread.stack_used.iter().chain(&thread.stack_top) {
        slot.set(0);
    }
}
