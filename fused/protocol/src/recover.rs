//! Repair of locks that an island has died with: what they protect is derived from what is written.
//!
//! A core that waits for such a lock takes it over ([`crate::lock`]) and calls this module, with whatever other locks it holds. So a repair takes only locks
//! that come later in the order. It reads only what the lock protects, single words that are true at any time, and what only the dead core
//! could change. If the repairer dies, too, the repair can begin again.
//!
//! This works because the code under the lock writes in such an order that after each store either the old state or the new one can be derived:
//! one word is the truth, and everything else follows from it. Between such stores stands [`in_order`](motet_layout::in_order). Memory that is
//! neither in use nor free at that moment (a frame just taken, an object just given back) is lost; that is bounded by what a core holds at a time.
//!
//! Protocol page: `docs/protocols/lock.md`, with the table of all classes.

use core::mem::offset_of;

use motet_layout::{
    CORES_MAX, CoreId, CoreRecord, InodeRecord, IslandMemory, LockClass, MemoryState, PipeRecord, PoolAddr, PoolHeader,
    PosixTimerRecord, SlabCache, WaitQueue,
};

use crate::{Context, bound, fs, ipc, memory, notify, pipe, queue, slab, timer};

/// Repairs what a lock protects that a dead core held and this one has taken over. `false`: there is no repair for it.
pub fn recover(context: &impl Context, class: LockClass, lock: PoolAddr) -> bool {
    let pool = context.pool();
    let header = pool.header();
    match class {
        LockClass::Inode => match pool.get(object(lock, offset_of!(InodeRecord, lock))) {
            Some(inode) => fs::recover(context, inode),
            None => return false,
        },
        LockClass::Pipe => match pool.get::<PipeRecord>(object(lock, offset_of!(PipeRecord, lock))) {
            Some(pipe) => pipe::recover(context, pipe),
            None => return false,
        },
        LockClass::Waiters => match pool.get::<WaitQueue>(object(lock, offset_of!(WaitQueue, lock))) {
            Some(queue) => queue::recover(context, queue),
            None => return false,
        },
        LockClass::Timers => {
            let offset = object(lock, offset_of!(CoreRecord, timer_lock)).0 - offset_of!(PoolHeader, cores) as u64;
            match CoreId::from_raw((offset / size_of::<CoreRecord>() as u64).min(CORES_MAX as u64) as u32) {
                // One that is free says that it is on no core.
                Some(core) => {
                    timer::recover(context, core, || slab::all::<PosixTimerRecord>(context).map(|timer| &timer.node))
                }
                None => return false,
            }
        }
        LockClass::Slab => match pool.get::<SlabCache>(object(lock, offset_of!(SlabCache, lock))) {
            Some(cache) => slab::recover(context, cache),
            None => return false,
        },
        LockClass::Frames => {
            let first = offset_of!(PoolHeader, memory) + offset_of!(MemoryState, islands);
            let offset = object(lock, offset_of!(IslandMemory, lock)).0 - first as u64;
            memory::recover_share(context, offset as usize / size_of::<IslandMemory>());
        }
        LockClass::Ipc => ipc::recover(context),
        LockClass::Notify => notify::recover(context),
        LockClass::Bound => bound::recover(context),
        LockClass::Blocks => memory::recover_blocks(context, &header.memory),
        // Single words, each true at any time.
        LockClass::Ids
        | LockClass::File
        | LockClass::Rename
        | LockClass::Stream
        | LockClass::Event
        | LockClass::Clock
        | LockClass::Fpga
        | LockClass::Engine
        | LockClass::Interrupts
        | LockClass::Messages => {}
        // The kernel's own.
        LockClass::Tree
        | LockClass::Guests
        | LockClass::Descriptors
        | LockClass::Space
        | LockClass::Watches
        | LockClass::Interests
        | LockClass::Socket
        | LockClass::Rights
        | LockClass::Ptys
        | LockClass::Terminal
        | LockClass::Transfers => return false,
    }
    true
}

/// The object with a lock at that offset.
pub fn object(lock: PoolAddr, offset: usize) -> PoolAddr {
    PoolAddr(lock.0.wrapping_sub(offset as u64))
}
