//! Futexes: wait queues by address, in the pool, so that a wake-up is the same act on every island.
//!
//! A futex in shared memory is named by where its word lies in the pool, any other by its space and address (its frame
//! may change by a copy-on-write); the hash of the name chooses one of the queues in the pool, the name is the wait node's key.

use motet_layout::sync::{AtomicU32, Ordering};

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{PoolAddr, ThreadRecord, WAKE_TOLD, WaitQueue};
use motet_protocol::{Context, wait};

use crate::{
    call::{Call, Stop, SysResult, cost, deliverable},
    cpu::Cpu,
    mm::{self, kept},
    permission,
    signal::living_thread,
    time,
    tree::{lock_tree, process_of},
};

const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_REQUEUE: u64 = 3;
const FUTEX_CMP_REQUEUE: u64 = 4;
const FUTEX_WAKE_OP: u64 = 5;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_PRIVATE: u64 = 0x80;
const FUTEX_CLOCK_REALTIME: u64 = 0x100;
const FUTEX_WAITERS: u32 = 0x8000_0000;
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
const FUTEX_TID: u32 = 0x3fff_ffff;
const BITS_ALL: u32 = u32::MAX;
/// Entries of a robust list that are followed (Linux `ROBUST_LIST_LIMIT`).
const ROBUST_LIMIT: usize = 2048;

/// A futex's word in the pool, and its name.
struct Futex {
    word: &'static AtomicU32,
    key: u64,
}

/// `futex(word, operation, value, timeout or value2, word2, value3)`.
pub fn futex<M: Machine>(call: &Call<M>) -> SysResult {
    let [_, operation, value, value2, _, value3] = call.args;
    if operation & FUTEX_CLOCK_REALTIME != 0 && operation & FUTEX_COMMAND != FUTEX_WAIT_BITSET {
        return Err(Errno::ENOSYS.into());
    }
    match operation & FUTEX_COMMAND {
        FUTEX_WAIT => wait(call, value as u32, BITS_ALL, false),
        FUTEX_WAIT_BITSET => wait(call, value as u32, value3 as u32, true),
        FUTEX_WAKE => wake(call, value as u32, BITS_ALL),
        FUTEX_WAKE_BITSET => wake(call, value as u32, value3 as u32),
        FUTEX_REQUEUE => requeue(call, value as u32, value2 as u32, None),
        FUTEX_CMP_REQUEUE => requeue(call, value as u32, value2 as u32, Some(value3 as u32)),
        FUTEX_WAKE_OP => wake_op(call, value as u32, value2 as u32, value3 as u32),
        _ => Err(Errno::ENOSYS.into()),
    }
}

/// Whether a call of `futex` waits for a limited time.
pub fn is_timed_wait<M: Machine>(call: &Call<M>) -> bool {
    call.args[3] != 0 && matches!(call.args[1] & FUTEX_COMMAND, FUTEX_WAIT | FUTEX_WAIT_BITSET)
}

/// `set_robust_list(head, length)`.
pub fn set_robust_list<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[1] != 24 {
        return Err(Errno::EINVAL.into());
    }
    call.thread.robust_list.set(call.args[0]);
    Ok(0)
}

/// `get_robust_list(tid, head, length)`, of whom the caller may look into.
pub fn get_robust_list<M: Machine>(call: &Call<M>) -> SysResult {
    let tid = call.args[0] as u32;
    let head = if tid == 0 {
        call.thread.robust_list.get()
    } else {
        let _tree = lock_tree(call.cpu);
        let thread = living_thread(call.cpu, tid).ok_or(Errno::ESRCH)?;
        permission::may_inspect(call.process, process_of(call.cpu, thread), true)?;
        thread.robust_list.get()
    };
    call.write_user(call.args[2], &24u64.to_le_bytes())?;
    call.write_user(call.args[1], &head.to_le_bytes())?;
    Ok(0)
}

/// Before [`release_of_thread`], in a space that several kernels keep alike: waits until the pages are here that it needs.
///
/// # Errors
/// [`Stop::Page`].
#[inline]
pub fn await_release<M: Machine>(call: &Call<M>) -> Result<(), Stop> {
    match kept::of(call.cpu, mm::space_of(call.cpu, call.process)) {
        Some(kept) if kept.is_damaged.load(Ordering::Acquire) == 0 => await_owed(call),
        Some(_) | None => Ok(()),
    }
}

#[cold]
fn await_owed<M: Machine>(call: &Call<M>) -> Result<(), Stop> {
    if call.thread.clear_child_tid.get() != 0 && shares_memory(call) {
        call.await_pages(call.thread.clear_child_tid.get(), 4)?;
    }
    each_robust(call, |address, _| call.await_pages(address, 4))
}

/// Whether other threads use the caller's memory.
fn shares_memory<M: Machine>(call: &Call<M>) -> bool {
    call.process.thread_count.load(Ordering::Relaxed) > 1
        || mm::space_of(call.cpu, call.process).refs.load(Ordering::Relaxed) > 1
}

/// What a dying thread owes: marks the robust futexes it holds, clears its thread-id word and wakes who waits for it.
pub fn release_of_thread<M: Machine>(call: &Call<M>) {
    // What is wrong with the list ends it.
    let _is_whole = each_robust(call, |address, pending| {
        mark_owner_died(call, address, pending);
        Ok(())
    });
    let clear = call.thread.clear_child_tid.get();
    // As on Linux, nobody is told of the end of the last thread that uses the memory.
    if clear != 0
        && shares_memory(call)
        && call.write_user(clear, &0u32.to_le_bytes()).is_ok()
        && let Ok(futex) = find(call, clear, false)
    {
        wait::wake_matching(call.cpu, queue(call.cpu, futex.key), 1, futex.key, BITS_ALL);
    }
}

fn wait<M: Machine>(call: &Call<M>, expected: u32, bits: u32, absolute: bool) -> SysResult {
    if bits == 0 {
        return Err(Errno::EINVAL.into());
    }
    if call.timed_out() {
        return Err(Errno::ETIMEDOUT.into());
    }
    let looks_again = &call.thread.scratch[0];
    if call.has_waited() && looks_again.get() == 0 {
        if call.thread.wake_reason.load(Ordering::Relaxed) != WAKE_TOLD {
            if call.is_interrupted() {
                // By a signal, and by no waker: the call does not block.
                wait::prepare(call.thread);
                return Err(Stop::Block);
            }
            looks_again.set(u64::from(deliverable(call.thread, call.process) != 0));
        }
        if looks_again.get() == 0 {
            // Woken: by a waker of this futex, or for no reason, which the ABI allows.
            return Ok(0);
        }
        // By a signal whose handler has to wait until the thread is home: the call waits on, unless the word has changed meanwhile.
    }
    if call.args[3] != 0 && call.thread.deadline_ns.get() == 0 {
        let realtime = call.args[1] & FUTEX_CLOCK_REALTIME != 0;
        call.thread.deadline_ns.set(time::deadline_of(call, call.args[3], absolute, realtime)?);
    }
    let futex = find(call, call.args[0], is_private(call))?;
    // Pinned, so that the word is still the one found: a copy-on-write meanwhile would have to wait for this core.
    let word = call.cpu.mm.with_pinned(|| {
        wait::prepare(call.thread);
        wait::enqueue(call.cpu, call.thread, queue(call.cpu, futex.key), futex.key, bits);
        futex.word.load(Ordering::SeqCst)
    });
    looks_again.set(0);
    if word != expected {
        wait::finish(call.cpu, call.thread);
        return Err(Errno::EAGAIN.into());
    }
    Err(Stop::Block)
}

fn wake<M: Machine>(call: &Call<M>, limit: u32, bits: u32) -> SysResult {
    if bits == 0 {
        return Err(Errno::EINVAL.into());
    }
    let futex = find(call, call.args[0], is_private(call))?;
    Ok(u64::from(wait::wake_matching(call.cpu, queue(call.cpu, futex.key), limit.max(1), futex.key, bits)))
}

fn requeue<M: Machine>(call: &Call<M>, wake: u32, move_limit: u32, expected: Option<u32>) -> SysResult {
    if wake.cast_signed() < 0 || move_limit.cast_signed() < 0 {
        return Err(Errno::EINVAL.into());
    }
    let private = is_private(call);
    let to = find(call, call.args[4], private)?;
    let from = find(call, call.args[0], private)?; // last: its word is looked at
    if expected.is_some_and(|expected| from.word.load(Ordering::SeqCst) != expected) {
        return Err(Errno::EAGAIN.into());
    }
    let (from_queue, to_queue) = (queue(call.cpu, from.key), queue(call.cpu, to.key));
    let woken = wait::wake_matching(call.cpu, from_queue, wake, from.key, BITS_ALL);
    let moved = wait::requeue(call.cpu, from_queue, from.key, to_queue, to.key, move_limit);
    Ok(u64::from(woken + moved))
}

/// Changes the second word, wakes waiters of the first, and of the second if its old value compares.
fn wake_op<M: Machine>(call: &Call<M>, wake: u32, wake2: u32, encoded: u32) -> SysResult {
    let private = is_private(call);
    let first = find(call, call.args[0], private)?;
    let second = find_writable(call, call.args[4], private)?; // last: its word is changed
    let sign_extended = |bits: u32| ((bits << 20) as i32 >> 20) as u32;
    let mut operand = sign_extended(encoded >> 12);
    if encoded >> 31 != 0 {
        operand = 1u32.wrapping_shl(operand);
    }
    let operation = encoded >> 28 & 7;
    let change = |old: u32| match operation {
        0 => Some(operand),
        1 => Some(old.wrapping_add(operand)),
        2 => Some(old | operand),
        3 => Some(old & !operand),
        4 => Some(old ^ operand),
        _ => None,
    };
    let old = second.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).map_err(|_| Errno::ENOSYS)?;
    let (old, against) = (old as i32, sign_extended(encoded) as i32);
    let holds = match encoded >> 24 & 15 {
        0 => old == against,
        1 => old != against,
        2 => old < against,
        3 => old <= against,
        4 => old > against,
        5 => old >= against,
        _ => return Err(Errno::ENOSYS.into()),
    };
    let mut woken = wait::wake_matching(call.cpu, queue(call.cpu, first.key), wake, first.key, BITS_ALL);
    if holds {
        woken += wait::wake_matching(call.cpu, queue(call.cpu, second.key), wake2, second.key, BITS_ALL);
    }
    Ok(u64::from(woken))
}

fn is_private<M: Machine>(call: &Call<M>) -> bool {
    call.args[1] & FUTEX_PRIVATE != 0
}

/// Resolves the futex at `address`, whose word is only looked at. Its page is made writable if it may be, as its waiters and
/// wakers will write to it.
fn find<M: Machine>(call: &Call<M>, address: u64, private: bool) -> Result<Futex, Stop> {
    match find_writable(call, address, private) {
        Err(Stop::Error(_)) => find_for(call, address, private, Access::Read),
        found => found,
    }
}

/// Wakes who waits for a word of shared memory, which has changed.
pub fn wake_shared<M: Machine>(cpu: &Cpu<M>, word: PoolAddr) {
    wait::wake_matching(cpu, queue(cpu, word.0), u32::MAX, word.0, BITS_ALL);
}

/// The running thread, which prepares to wait, waits for [`wake_shared`] of a word.
pub fn enqueue_shared<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, word: PoolAddr) {
    wait::enqueue(cpu, thread, queue(cpu, word.0), word.0, BITS_ALL);
}

/// Resolves the futex at `address`, whose word is going to be changed.
fn find_writable<M: Machine>(call: &Call<M>, address: u64, private: bool) -> Result<Futex, Stop> {
    find_for(call, address, private, Access::Write)
}

fn find_for<M: Machine>(call: &Call<M>, address: u64, private: bool, access: Access) -> Result<Futex, Stop> {
    if address % 4 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let space = mm::space_of(call.cpu, call.process);
    let addr = mm::resolve(call.cpu, space, address, access)?;
    // The frame names a futex only in shared memory: elsewhere a fork and a store give the page another one.
    let by_address = private || !mm::is_shared(call.cpu, space, address);
    let key = if by_address { private_key(call.cpu.raw(space), address) } else { addr.0 };
    Ok(Futex { word: call.cpu.pool.at(addr), key })
}

/// The name of a private futex. 76 bits are mixed into 63: two futexes share a name with negligible probability.
fn private_key(space: u64, address: u64) -> u64 {
    (space.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ address.rotate_left(17)).wrapping_mul(0xd6e8_feb8_6659_fd93) | 1 << 63
}

fn queue<M: Machine>(cpu: &Cpu<M>, key: u64) -> &'static WaitQueue {
    let header = cpu.pool.header();
    let hash = (key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let index = hash & u64::from(header.futexes_len.get() - 1);
    cpu.pool.at(PoolAddr(header.futexes.get() + index * size_of::<WaitQueue>() as u64))
}

/// Calls `act` with each futex of the thread's list (Linux `robust_list_head`: first entry, offset from an entry to its futex word, entry being taken), and whether it is the last of
/// these.
///
/// # Errors
/// [`Stop::Page`]; what `act` fails with.
fn each_robust<M: Machine>(call: &Call<M>, mut act: impl FnMut(u64, bool) -> Result<(), Stop>) -> Result<(), Stop> {
    let head = call.thread.robust_list.get();
    if head == 0 {
        return Ok(());
    }
    let word = |at: u64| match call.read_user_u64(at) {
        Err(Stop::Page) => Err(Stop::Page),
        word => Ok(word.ok()),
    };
    let (Some(mut entry), Some(offset), Some(pending)) = (word(head)?, word(head + 8)?, word(head + 16)?) else {
        return Ok(());
    };
    for _ in 0..ROBUST_LIMIT {
        if entry & !1 == head {
            break;
        }
        call.serve_due(3 * cost::PAGE);
        let next = word(entry & !1)?;
        if entry != pending {
            act((entry & !1).wrapping_add(offset), false)?;
        }
        match next {
            Some(next) => entry = next,
            None => return Ok(()),
        }
    }
    if pending != 0 { act((pending & !1).wrapping_add(offset), true) } else { Ok(()) }
}

/// `pending`: the thread was about to take the futex, or to give it back.
fn mark_owner_died<M: Machine>(call: &Call<M>, address: u64, pending: bool) {
    let Ok(futex) = find_writable(call, address, false) else { return };
    let tid = call.thread.tid.get();
    let mark = |old: u32| (old & FUTEX_TID == tid).then_some(old & FUTEX_WAITERS | FUTEX_OWNER_DIED);
    let wakes = match futex.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, mark) {
        Ok(old) => old & FUTEX_WAITERS != 0,
        // It has given it back, and not woken anybody yet (as Linux).
        Err(old) => pending && old == 0,
    };
    if wakes {
        wait::wake_matching(call.cpu, queue(call.cpu, futex.key), 1, futex.key, BITS_ALL);
    }
}
