//! A thread's stacks: one for each ISA that it has called functions of.

use motet_abi::{Errno, convention::StackWords};
use motet_hal::{Access, Machine};
use motet_layout::{Isa, IslandId, PAGE_SIZE, SpaceRecord, ThreadRecord, VMA_READ, VMA_WRITE};
use motet_protocol::{Context, lock::lock};

use super::chain;
use crate::{
    call::cost,
    cpu::Cpu,
    due,
    mm::{self, Policy, View, VmaSpec},
};

/// Bytes of a stack, as much as Linux gives a program. Its pages come when they are touched.
const STACK_LEN: u64 = 8 << 20;
/// Addresses at either end that nothing may be mapped at.
const GUARD_LEN: u64 = PAGE_SIZE;

/// The end of the free part of the thread's stack for `isa`; 0: it has none.
#[inline(always)]
pub fn top(thread: &ThreadRecord, isa: Isa) -> u64 {
    let index = isa as usize - 1;
    let used = thread.stack_used[index].get();
    if used != 0 { used } else { thread.stack_top[index].get() }
}

/// As [`top`]; a stack is made if there is none, in memory near `island`.
///
/// # Errors
/// `ENOMEM`.
pub fn of<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    isa: Isa,
    island: IslandId,
) -> Result<u64, Errno> {
    if top(thread, isa) == 0 {
        thread.stack_top[isa as usize - 1].set(make(cpu, space, Policy::near(island))?);
    }
    Ok(top(thread, isa))
}

fn make<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, policy: Policy) -> Result<u64, Errno> {
    let _guard = lock(cpu, &space.lock);
    let len = STACK_LEN + 2 * GUARD_LEN;
    let start = mm::find_free(cpu, space, len, space.mmap_top.get()).ok_or(Errno::ENOMEM)?;
    let (bottom, top) = (start + GUARD_LEN, start + GUARD_LEN + STACK_LEN);
    let pieces = [(start, bottom, 0), (bottom, top, VMA_READ | VMA_WRITE), (top, start + len, 0)];
    for (start, end, flags) in pieces {
        let spec = VmaSpec { start, end, flags, inode: None, offset: 0, file_len: 0, policy, view: View::default() };
        if let Err(errno) = mm::insert(cpu, space, &spec) {
            mm::unmap(cpu, space, bottom - GUARD_LEN, start)?;
            return Err(errno);
        }
    }
    Ok(top)
}

/// Frees the stacks for other ISAs of a thread that ends while others of its process stay, and ends the calls that it is in.
pub fn release_stacks<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, space: &'static SpaceRecord) {
    for record in chain(cpu, thread) {
        if record.is_local.get() != 0 {
            mm::end_local_call(cpu, space, record.function.get());
        }
        due::spend_locked(cpu, cost::OBJECT);
    }
    for top in thread.stack_top.iter().map(|top| top.get()).filter(|&top| top != 0) {
        let _guard = lock(cpu, &space.lock);
        // Without memory for splitting, the stack stays until the process ends.
        let _ = mm::unmap(cpu, space, top - STACK_LEN - GUARD_LEN, top + GUARD_LEN);
    }
}

/// Writes what a function's stack begins with; false: there is no memory for it.
#[inline(always)]
pub fn push<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, words: &StackWords) -> bool {
    let mut words = words.words().iter().zip((words.at..).step_by(8));
    // The space is the active one if the function runs here.
    if cpu.mm.active() == cpu.raw(space) {
        return words.all(|(&word, at)| mm::write_word(cpu, space, at, word).is_ok());
    }
    words.all(|(word, at)| {
        mm::with_resolved(cpu, space, at, Access::Write, |addr| cpu.pool.write(addr, &word.to_le_bytes())).is_ok()
    })
}
