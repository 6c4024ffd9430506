//! What is known of pending signals: who sent them, and the word that came along.
//!
//! That a signal is pending is a bit of a set. Beside each set (a thread's and a process's) is a list of what is known,
//! guarded by the process-tree lock: of an ordinary signal at most one entry, of a real-time signal one each time that it
//! was sent, and it stays pending until all have been taken. An entry is in the list before its bit is set.

use motet_layout::sync::{AtomicU64, Ordering};

use motet_abi::signal::{SI_USER, SigCause, SigInfo, bit};
use motet_hal::Machine;
use motet_layout::{Cell64, ProcessRecord, QueuedSignal, ThreadRecord};
use motet_protocol::{Context, slab};

use crate::{cpu::Cpu, process::lock_tree};

/// Most entries of a list: who sends more fails.
const QUEUED_MAX: usize = 1024;
/// The first real-time signal.
const SIGRTMIN: u32 = 32;

/// Who sent a signal, and how.
#[derive(Clone, Copy)]
pub struct Origin {
    /// `si_code`.
    pub code: i32,
    /// The sender's pid; 0: the kernel.
    pub pid: u32,
    /// The word sent along.
    pub value: u64,
}

impl Origin {
    /// Sent by the kernel, or by `kill`.
    pub const fn sent_by(pid: u32) -> Self {
        Self { code: SI_USER, pid, value: 0 }
    }

    /// What a handler is told.
    pub fn info(&self, signal: u32) -> SigInfo {
        let Self { code, pid, value } = *self;
        SigInfo { signal, code, cause: SigCause::Queued { pid, uid: 0, value } }
    }
}

/// A set of pending signals and what is known of them.
#[derive(Clone, Copy)]
pub struct Pending<'a> {
    /// Bit signal-1.
    pub set: &'a AtomicU64,
    queue: &'a Cell64,
}

impl<'a> Pending<'a> {
    /// Those sent to a thread.
    pub fn of_thread(thread: &'a ThreadRecord) -> Self {
        Self { set: &thread.pending, queue: &thread.signal_queue }
    }

    /// Those sent to a process.
    pub fn of_process(process: &'a ProcessRecord) -> Self {
        Self { set: &process.pending, queue: &process.signal_queue }
    }

    /// Makes a signal pending. The tree lock is held. `false`: there is no room to keep what is known of it; it is pending
    /// nevertheless.
    pub fn add<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, origin: Origin) -> bool {
        let is_new = signal >= SIGRTMIN || self.set.load(Ordering::SeqCst) & bit(signal) == 0;
        // Of what the kernel sends nothing is known.
        let is_known = origin.pid != 0 || origin.code != SI_USER;
        let kept = !is_new || !is_known || self.push(cpu, signal, origin).is_some();
        self.set.fetch_or(bit(signal), Ordering::SeqCst);
        kept
    }

    fn push<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, origin: Origin) -> Option<()> {
        let mut slot = self.queue;
        let mut len = 0;
        while let Some(entry) = cpu.object::<QueuedSignal>(slot.get()) {
            slot = &entry.next;
            len += 1;
        }
        let entry = (len < QUEUED_MAX).then(|| slab::alloc::<QueuedSignal>(cpu)).flatten()?;
        entry.signal.set(signal);
        entry.code.set(origin.code.cast_unsigned());
        entry.pid.set(origin.pid);
        entry.value.set(origin.value);
        slot.set(cpu.raw(entry));
        Some(())
    }

    /// What is known of a signal whose bit the caller has just cleared; sets the bit again if it was sent more often. Takes
    /// the tree lock unless `is_locked`.
    pub fn take<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, is_locked: bool) -> Origin {
        let mut found = None;
        if self.queue.get() != 0 {
            let _tree = (!is_locked).then(|| lock_tree(cpu));
            self.remove(cpu, |entry| {
                let matches = entry.signal.get() == signal;
                if matches && found.is_some() {
                    self.set.fetch_or(bit(signal), Ordering::SeqCst);
                }
                let taken = matches && found.is_none();
                if taken {
                    let (code, pid, value) = (entry.code.get().cast_signed(), entry.pid.get(), entry.value.get());
                    found = Some(Origin { code, pid, value });
                }
                taken
            });
        }
        found.unwrap_or(Origin::sent_by(0))
    }

    /// The signals of `signals` are no longer pending. The tree lock is held.
    pub fn discard<M: Machine>(&self, cpu: &Cpu<M>, signals: u64) {
        self.set.fetch_and(!signals, Ordering::SeqCst);
        self.remove(cpu, |entry| bit(entry.signal.get()) & signals != 0);
    }

    /// Frees the entries for which `unwanted` says so.
    fn remove<M: Machine>(&self, cpu: &Cpu<M>, mut unwanted: impl FnMut(&QueuedSignal) -> bool) {
        let mut slot = self.queue;
        while let Some(entry) = cpu.object::<QueuedSignal>(slot.get()) {
            if unwanted(entry) {
                slot.set(entry.next.get());
                slab::free(cpu, entry);
            } else {
                slot = &entry.next;
            }
        }
    }
}
