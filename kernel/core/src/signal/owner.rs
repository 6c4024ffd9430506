//! Signals to the owners of files that have become ready (`O_ASYNC`). `motet_protocol::owner` has those that are to be told; the core that woke the file's
//! queues sends the signals, before its thread returns to its program.

use core::sync::atomic::Ordering;

use motet_abi::{
    file::{F_OWNER_PGRP, F_OWNER_PID, F_OWNER_TID},
    signal::{self as abi, SI_SIGIO, SIGIO, SigCause},
    terminal::{POLLIN, POLLOUT, POLLRDNORM, POLLWRBAND, POLLWRNORM},
};
use motet_hal::Machine;
use motet_layout::{OWNER_INPUT, OwnerRecord, PROCESS_ALIVE, ProcessRecord, ThreadRecord, ones};
use motet_protocol::{groups, lock::lock, owner, slab};

use super::{Origin, send_locked, send_to_thread_locked, timers::living_thread};
use crate::{
    cpu::{Causes, Cpu},
    permission::{self, UserId},
    tree::{self, lock_tree, process_of},
};

/// So many are told at once: anything else that is due comes in between.
const TOLD_AT_ONCE: usize = 16;

/// Who is told of a file, and by which signal.
#[derive(Clone, Copy)]
pub struct Owner {
    /// 1 + `F_OWNER_*`, 0: nobody.
    pub kind: u32,
    /// Of a thread, a process or a group.
    pub id: u32,
    /// When that thread or process was created, or the group was named.
    pub since_ns: u64,
    /// Real and effective user of who has named it.
    pub users: [u32; 2],
    /// The signal, 0: `SIGIO`.
    pub signal: u32,
    /// The descriptor that is told.
    pub fd: u32,
}

impl Owner {
    /// Nobody.
    pub const NOBODY: Self = Self { kind: 0, id: 0, since_ns: 0, users: [0; 2], signal: 0, fd: 0 };

    /// As a file's record says. The header's `epoll_lock` is held.
    pub fn of(record: &OwnerRecord) -> Self {
        Self {
            kind: record.kind.get(),
            id: record.id.get(),
            since_ns: record.since_ns.get(),
            users: [record.uid.get(), record.euid.get()],
            signal: record.signal.get(),
            fd: record.fd.get(),
        }
    }

    fn thread<M: Machine>(&self, cpu: &Cpu<M>) -> Option<&'static ThreadRecord> {
        (self.kind == 1 + F_OWNER_TID).then(|| living_thread(cpu, self.id, self.since_ns))?
    }

    fn process<M: Machine>(&self, cpu: &Cpu<M>) -> Option<&'static ProcessRecord> {
        let is_it = |process: &&ProcessRecord| process.started_ns.get() == self.since_ns;
        (self.kind == 1 + F_OWNER_PID).then(|| tree::lookup(cpu, self.id).filter(is_it))?
    }

    /// Whether its group is the one that was named: a later one with the same id begins with a process of that id, made since.
    fn has_group<M: Machine>(&self, cpu: &Cpu<M>) -> bool {
        self.kind == 1 + F_OWNER_PGRP
            && tree::lookup(cpu, self.id).is_none_or(|leader| leader.started_ns.get() <= self.since_ns)
            && groups::any(cpu, self.id).is_some()
    }

    /// Whether there is still such a thread, process or group. The tree lock is held.
    pub fn is_there<M: Machine>(&self, cpu: &Cpu<M>) -> bool {
        self.thread(cpu).is_some() || self.process(cpu).is_some() || self.has_group(cpu)
    }

    /// Tells it that something has come at a side of the file. The tree lock is held.
    fn tell<M: Machine>(&self, cpu: &Cpu<M>, side: u32) {
        let [real, effective] = self.users.map(UserId);
        let may = |process: &ProcessRecord| permission::may_tell(real, effective, process);
        if let Some(thread) = self.thread(cpu) {
            if may(process_of(cpu, thread)) {
                self.send(side, |signal, origin| send_to_thread_locked(cpu, thread, signal, origin));
            }
        } else if let Some(process) = self.process(cpu) {
            if may(process) {
                self.send(side, |signal, origin| send_locked(cpu, process, signal, origin));
            }
        } else if self.has_group(cpu) {
            groups::for_each(cpu, self.id, |process| {
                if process.state.load(Ordering::Acquire) == PROCESS_ALIVE && may(process) {
                    self.send(side, |signal, origin| send_locked(cpu, process, signal, origin));
                }
            });
        }
    }

    /// As Linux: a signal that was chosen says which file it is about, and if it cannot be queued, `SIGIO` comes instead.
    fn send(&self, side: u32, send: impl Fn(u32, Origin) -> bool) {
        let (code, band) = match side {
            OWNER_INPUT => (abi::POLL_IN, POLLIN | POLLRDNORM),
            _ => (abi::POLL_OUT, POLLOUT | POLLWRNORM | POLLWRBAND),
        };
        let has_codes = [abi::SIGILL, abi::SIGFPE, abi::SIGSEGV, abi::SIGBUS, abi::SIGTRAP, abi::SIGCHLD, abi::SIGSYS];
        let code = if has_codes.contains(&self.signal) { SI_SIGIO } else { code };
        let origin = Origin::new(code, SigCause::File { band: band.into(), fd: self.fd });
        if self.signal == 0 || !send(self.signal, origin) && self.signal >= abi::SIGRTMIN {
            send(SIGIO, Origin::KERNEL);
        }
    }
}

/// Sends the signals that this core is to send, if there are any. No lock is held. Whether there are more.
#[inline(always)]
pub fn tell<M: Machine>(cpu: &Cpu<M>) -> bool {
    cpu.due.take(Causes::OWNERS) && tell_some(cpu)
}

#[cold]
fn tell_some<M: Machine>(cpu: &Cpu<M>) -> bool {
    for _ in 0..TOLD_AT_ONCE {
        let _tree = lock_tree(cpu);
        let Some((owner, sides)) = next(cpu) else { return false };
        ones(sides.into()).for_each(|index| owner.tell(cpu, 1 << index));
    }
    cpu.due.set(Causes::OWNERS);
    true
}

/// Takes the next one of those that are to be told, and of which sides.
fn next<M: Machine>(cpu: &Cpu<M>) -> Option<(Owner, u32)> {
    let _watches = lock(cpu, &cpu.pool.header().epoll_lock);
    let (record, sides) = owner::take(cpu)?;
    let told = if record.is_on.get() == 0 { (Owner::NOBODY, 0) } else { (Owner::of(record), sides) };
    if record.file.get() == 0 {
        slab::free(cpu, record);
    }
    Some(told)
}
