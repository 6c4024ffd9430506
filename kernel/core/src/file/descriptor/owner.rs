//! Owners of open files: who is told by a signal that a file has become ready (`F_SETOWN`, `F_SETSIG`, `O_ASYNC`).
//!
//! An open file that an owner, or a signal, was named for has a record of that. With `O_ASYNC`, the record stands in the file's queues: those that wake these
//! have the signal sent (`motet_protocol::owner`, `signal::owner`).
//!
//! Locks: the process tree, then the header's `epoll_lock`, then wait queues.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, OWNER_INPUT, OWNER_OUTPUT, OwnerRecord, in_order, sync::Ordering};
use motet_protocol::{
    Context, groups,
    lock::{Guard, lock},
    owner::{self, enter, leave},
    slab,
};

use super::description::OpenFile;
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    permission::Identity,
    signal::{self, owner::Owner},
    tree::{self, lock_tree},
};

/// The calls of `fcntl` about an open file's owner and signal.
pub fn fcntl<M: Machine>(call: &Call<M>, file: &OpenFile<M>, command: u32, argument: u64) -> SysResult {
    match command {
        F_SETOWN => set_number(call, file, argument as i32)?,
        F_GETOWN => return Ok(i64::from(number(call.cpu, file)).cast_unsigned()),
        F_SETOWN_EX => {
            let kind = call.read_user_u32(argument)?;
            let id = call.read_user_u32(argument + 4)?;
            if kind > F_OWNER_PGRP {
                return Err(Errno::EINVAL.into());
            }
            set(call, file, kind, id)?;
        }
        F_GETOWN_EX => {
            let (kind, id) = present(call.cpu, file);
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&kind.to_le_bytes());
            bytes[4..].copy_from_slice(&id.to_le_bytes());
            call.write_user(argument, &bytes)?;
        }
        F_SETSIG => set_signal(call, file, argument)?,
        _ => return Ok(record_of(call.cpu, file).map_or(0, |record| record.signal.get()).into()),
    }
    Ok(0)
}

/// Names the owner by a number: a process, or, negative, a group.
///
/// # Errors
/// `ESRCH`: there is none; `EINVAL`; `ENOMEM`.
pub fn set_number<M: Machine>(call: &Call<M>, file: &OpenFile<M>, number: i32) -> Result<(), Errno> {
    let id = number.checked_abs().ok_or(Errno::EINVAL)?;
    set(call, file, if number < 0 { F_OWNER_PGRP } else { F_OWNER_PID }, id as u32)
}

/// The owner as such a number. A thread's is its id; 0: there is none any more.
pub fn number<M: Machine>(cpu: &Cpu<M>, file: &OpenFile<M>) -> i32 {
    match present(cpu, file) {
        (F_OWNER_PGRP, id) => -(id as i32),
        (_, id) => id as i32,
    }
}

/// What the owner is, and its id; that is 0 if it is there no more.
fn present<M: Machine>(cpu: &Cpu<M>, file: &OpenFile<M>) -> (u32, u32) {
    let _tree = lock_tree(cpu);
    let owner = {
        let _watches = lock_watches(cpu);
        record_of(cpu, file).map_or(Owner::NOBODY, Owner::of)
    };
    (owner.kind.saturating_sub(1), if owner.is_there(cpu) { owner.id } else { 0 })
}

/// Names the owner. The caller's rights, now, decide whether it may be told.
fn set<M: Machine>(call: &Call<M>, file: &OpenFile<M>, kind: u32, id: u32) -> Result<(), Errno> {
    let cpu = call.cpu;
    let _tree = lock_tree(cpu);
    if id != 0 && tree::with_thread(cpu, id).is_none() && groups::any(cpu, id).is_none() {
        return Err(Errno::ESRCH);
    }
    // Of what is no such thing: nobody is told, as on Linux.
    let since_ns = match kind {
        F_OWNER_TID => signal::living_thread(cpu, id).map(|thread| thread.started_ns.get()),
        F_OWNER_PID => tree::lookup(cpu, id).map(|process| process.started_ns.get()),
        _ => Some(cpu.reading_ns()),
    };
    let users = Identity::of(call.process).users;
    let _watches = lock_watches(cpu);
    let record = make_record(cpu, file)?;
    record.kind.set(0);
    in_order();
    record.id.set(id);
    record.since_ns.set(since_ns.unwrap_or(0));
    record.uid.set(users.real.0);
    record.euid.set(users.effective.0);
    in_order();
    record.kind.set(1 + kind);
    Ok(())
}

fn set_signal<M: Machine>(call: &Call<M>, file: &OpenFile<M>, signal: u64) -> Result<(), Errno> {
    if signal > u64::from(motet_abi::signal::NSIG) {
        return Err(Errno::EINVAL);
    }
    let _watches = lock_watches(call.cpu);
    make_record(call.cpu, file)?.signal.set(signal as u32);
    Ok(())
}

/// Whether the owner is told of the file.
pub fn is_on<M: Machine>(file: &OpenFile<M>) -> bool {
    file.flags() & O_ASYNC != 0
}

/// Whether an owner can be told of such a file.
pub fn may_tell<M: Machine>(file: &OpenFile<M>) -> bool {
    file.facts().has_signals && file.queues().iter().any(|(queue, _)| queue.is_some())
}

/// Turns `O_ASYNC` on or off, through a descriptor of the file. Of a file that tells nobody, it stays off.
///
/// # Errors
/// `ENOMEM`.
pub fn turn<M: Machine>(call: &Call<M>, file: &OpenFile<M>, fd: i32, on: bool) -> Result<(), Errno> {
    let cpu = call.cpu;
    if on == is_on(file) || on && !may_tell(file) {
        return Ok(());
    }
    let _watches = lock_watches(cpu);
    if on {
        let record = make_record(cpu, file)?;
        record.fd.set(fd as u32);
        if record.is_on.get() == 0 {
            record.is_on.set(1);
            in_order();
            stand(cpu, file, record);
        }
        file.record().flags.fetch_or(O_ASYNC, Ordering::Relaxed);
    } else {
        file.record().flags.fetch_and(!O_ASYNC, Ordering::Relaxed);
        in_order();
        record_of(cpu, file).into_iter().for_each(|record| turn_off(cpu, record));
    }
    Ok(())
}

/// The queues of a file are others from now on: its owner is told by these. The header's `epoll_lock` is held.
pub fn queues_have_changed<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    let record = cpu.object::<OwnerRecord>(file.owner.load(Ordering::Relaxed));
    if let Some(record) = record.filter(|record| record.is_on.get() != 0) {
        leave(cpu, record);
        stand(cpu, &OpenFile::new(cpu, file, false), record);
    }
}

/// Enters the file's queues.
fn stand<M: Machine>(cpu: &Cpu<M>, file: &OpenFile<M>, record: &'static OwnerRecord) {
    record.room.set(file.wanted_room().and_then(|word| cpu.pool.find(word)).map_or(0, |address| address.0));
    for (side, (queue, _)) in [OWNER_INPUT, OWNER_OUTPUT].into_iter().zip(file.queues()) {
        if let Some(queue) = queue {
            enter(cpu, record, side, queue);
        }
    }
}

fn turn_off<M: Machine>(cpu: &Cpu<M>, record: &'static OwnerRecord) {
    leave(cpu, record);
    in_order();
    record.is_on.set(0);
}

/// The file is about to be closed. Its record goes, at the latest when it is taken off the stack of those that are to be told.
#[cold]
#[inline(never)]
pub fn forget<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    let _watches = lock_watches(cpu);
    if let Some(record) = cpu.object::<OwnerRecord>(file.owner.load(Ordering::Relaxed)) {
        turn_off(cpu, record);
        file.owner.store(0, Ordering::Relaxed);
        in_order();
        discard(cpu, record);
    }
}

/// Gives back a record that no file names, and that is in no queue.
fn discard<M: Machine>(cpu: &Cpu<M>, record: &'static OwnerRecord) {
    record.file.set(0);
    if record.in_stack.load(Ordering::SeqCst) == 0 {
        slab::free(cpu, record);
    }
}

/// Repairs records when a core has died with the lock held. A file's own words say which record it has, and whether that is on.
pub fn recover<M: Machine>(cpu: &Cpu<M>) {
    for record in slab::all::<OwnerRecord>(cpu).filter(|record| record.file.get() != 0) {
        let file = cpu.object::<FileRecord>(record.file.get());
        let own = file.filter(|file| file.owner.load(Ordering::Relaxed) == cpu.raw(record));
        let is_on = own.is_some_and(|file| file.flags.load(Ordering::Relaxed) & O_ASYNC != 0);
        match own {
            // It may have been just between two queues.
            Some(file) if is_on => queues_have_changed(cpu, file),
            _ => turn_off(cpu, record),
        }
        if own.is_none() {
            discard(cpu, record);
        }
    }
}

/// Cores have died, which may have had signals to send: all owners that are told are told once more. Every core that lives has passed; this one holds no lock.
pub fn settle<M: Machine>(cpu: &Cpu<M>) {
    let _watches = lock_watches(cpu);
    owner::settle(cpu);
}

fn record_of<M: Machine>(cpu: &Cpu<M>, file: &OpenFile<M>) -> Option<&'static OwnerRecord> {
    cpu.object(file.owner.load(Ordering::Relaxed))
}

/// The file's record, made if there is none.
fn make_record<M: Machine>(cpu: &Cpu<M>, file: &OpenFile<M>) -> Result<&'static OwnerRecord, Errno> {
    if let Some(record) = record_of(cpu, file) {
        return Ok(record);
    }
    let record = slab::alloc::<OwnerRecord>(cpu).ok_or(Errno::ENOMEM)?;
    record.file.set(cpu.raw(file.record()));
    in_order();
    file.owner.store(cpu.raw(record), Ordering::Relaxed);
    Ok(record)
}

fn lock_watches<M: Machine>(cpu: &Cpu<M>) -> Guard<'static> {
    lock(cpu, &cpu.pool.header().epoll_lock)
}
