//! Processes that wait for each other's byte-range locks (`F_SETLKW`): the one that would close the ring is told (`EDEADLK`).
//!
//! A thread that is about to wait notes the owner of a lock that stands in its way. What is noted holds as long as the thread is in the file's
//! queue: whoever changes the file's locks wakes that queue, which takes the threads out of it. So it need not be taken back, only to be made
//! anew. As on Linux, locks of open files are not looked at, because nobody says who would give them up.

use motet_abi::{Errno, Syscall, file::F_SETLKW, registers};
use motet_hal::Machine;
use motet_layout::{ThreadRecord, sync::Ordering};
use motet_protocol::threads;

use crate::{
    call::Call,
    cpu::Cpu,
    tree::{lock_tree, process_of},
};

/// Owners that are looked at, as on Linux: who waits in a longer row is not told.
const OWNERS_MAX: usize = 10;

/// The thread begins to set a lock, or tries again: it waits for nobody.
pub fn begin(thread: &ThreadRecord) {
    thread.lock_awaited.set(0);
}

/// The caller, of `owner`, may have to wait for a lock of `holder`. Once it is in the queue, it looks whether that one waits for it.
///
/// # Errors
/// `EDEADLK`.
pub fn check<M: Machine>(call: &Call<M>, owner: u64, holder: u64) -> Result<(), Errno> {
    if call.thread.wait_count.get() == 0 {
        return Ok(());
    }
    // Of two that note and look at the same time, the second one sees what the first one has noted.
    let _tree = lock_tree(call.cpu);
    call.thread.lock_awaited.set(holder);
    let mut row = core::iter::successors(Some(holder), |&holder| awaited_by(call.cpu, holder)).take(OWNERS_MAX);
    // The holder may have given its lock up since, and wait for the caller only then: it has taken the caller out of the queue before.
    let is_told = row.any(|holder| holder == owner) && call.thread.nodes[0].queue.load(Ordering::SeqCst) != 0;
    if is_told { Err(Errno::EDEADLK) } else { Ok(()) }
}

/// For whose lock a thread waits whose process has the descriptor table `owner`.
fn awaited_by<M: Machine>(cpu: &Cpu<M>, owner: u64) -> Option<u64> {
    threads::all(cpu)
        .filter(|thread| thread.lock_awaited.get() != 0 && thread.nodes[0].queue.load(Ordering::SeqCst) != 0)
        .filter(|thread| process_of(cpu, thread).files.load(Ordering::Relaxed) == owner)
        .find(|thread| sets_lock(thread))
        .map(|thread| thread.lock_awaited.get())
}

/// Whether a thread's last call, in which it is if it waits, is one that waits for a lock.
fn sets_lock(thread: &ThreadRecord) -> bool {
    let isa = registers::frame_isa(&thread.frame);
    Syscall::decode(isa, registers::syscall_number(&thread.frame)) == Some(Syscall::Fcntl)
        && registers::syscall_args(&thread.frame)[1] as u32 == F_SETLKW
}
