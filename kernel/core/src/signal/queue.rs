//! What is known of pending signals: who sent them, and the word that came along.
//!
//! That a signal is pending is a bit of a set. Beside each set (a thread's and a process's) is what is known, guarded by the
//! process-tree lock: of an ordinary signal at most one entry, of a real-time signal one each time that it was sent, and it
//! stays pending until all have been taken. An entry is in its list before its bit is set.
//!
//! There is a list for each number, oldest first, and the first entries of all of them are a list, which is as long as there
//! are numbers at most. So adding and taking one take the same time beside few and beside many. The links forward are the
//! truth, should a core die; the rest is made anew ([`Pending::repair`]).

use motet_layout::sync::{AtomicU64, Ordering};

use motet_abi::{
    process::WaitStatus,
    signal::{SI_KERNEL, SI_TIMER, SI_USER, SIGRTMIN, SigCause, SigFields, SigInfo, bit},
    time::USER_HZ,
};
use motet_hal::Machine;
use motet_layout::{
    Cell32, Cell64, POSIX_PENDING, PosixTimerRecord, ProcessRecord, QueuedSignal, ThreadRecord, in_order,
};
use motet_protocol::{Context, slab};

use super::timers;
use crate::{
    cpu::Cpu,
    tree::{self, lock_tree},
};

/// Most entries of a list: who sends more fails.
const QUEUED_MAX: u64 = 1024;

/// Why a signal was sent: what a handler is told beside its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// `si_code`.
    pub code: i32,
    /// What else `siginfo_t` says.
    pub fields: SigFields,
}

impl Origin {
    /// The kernel sent it, and there is no more to say.
    pub const KERNEL: Self = Self { code: SI_KERNEL, fields: [0; 4] };

    /// For the reason `cause`.
    pub fn new(code: i32, cause: SigCause) -> Self {
        Self { code, fields: cause.fields() }
    }

    /// A process sent it, or did what makes the kernel send it (`SI_USER`, `SI_TKILL`).
    pub fn sent_by(code: i32, process: &ProcessRecord) -> Self {
        Self::new(code, SigCause::Sender { pid: process.pid.get(), uid: process.credentials.users[0].get() })
    }

    /// What became of a child: `status`, as `wait4` reports it, after `times_ns` in user mode and in the kernel.
    pub fn child(child: &ProcessRecord, status: WaitStatus, times_ns: [u64; 2]) -> Self {
        let [user_time, system_time] = times_ns.map(|ns| (ns / (1_000_000_000 / USER_HZ)).cast_signed());
        let (pid, uid) = (child.pid.get(), child.credentials.users[0].get());
        Self::new(status.cld_code(), SigCause::Child { pid, uid, status: status.si_status(), user_time, system_time })
    }

    /// What a handler is told.
    pub fn info(&self, signal: u32) -> SigInfo {
        SigInfo { signal, code: self.code, cause: SigCause::Fields(self.fields) }
    }
}

/// A set of pending signals and what is known of them.
#[derive(Clone, Copy)]
pub struct Pending<'a> {
    /// Bit signal-1.
    pub set: &'a AtomicU64,
    queue: &'a Cell64,
    /// Entries.
    count: &'a Cell32,
    owner: Owner<'a>,
}

/// Whose signals are pending.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Thread(&'a ThreadRecord),
    Process(&'a ProcessRecord),
}

impl<'a> Pending<'a> {
    /// Those sent to a thread.
    pub fn of_thread(thread: &'a ThreadRecord) -> Self {
        Self {
            set: &thread.pending,
            queue: &thread.signal_queue,
            count: &thread.signal_count,
            owner: Owner::Thread(thread),
        }
    }

    /// Those sent to a process.
    pub fn of_process(process: &'a ProcessRecord) -> Self {
        Self {
            set: &process.pending,
            queue: &process.signal_queue,
            count: &process.signal_count,
            owner: Owner::Process(process),
        }
    }

    /// Makes a signal pending, of which at most `limit` may be known. The tree lock is held. `false`: there is no room to keep
    /// what is known of it; it is pending nevertheless, unless it is a real-time signal that was queued.
    pub fn add<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, origin: Origin, limit: u64) -> bool {
        let is_new = signal >= SIGRTMIN || self.set.load(Ordering::SeqCst) & bit(signal) == 0;
        let kept = !is_new || origin == Origin::KERNEL || self.push(cpu, signal, origin, limit).is_some();
        if !kept && signal >= SIGRTMIN && origin.code != SI_USER {
            return false;
        }
        self.set.fetch_or(bit(signal), Ordering::SeqCst);
        kept
    }

    /// A signal that was taken is the next one of its number again. Without memory, it is pending, and what was known of it is not.
    #[cold]
    #[inline(never)]
    pub fn put_back<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, origin: Origin) {
        let _tree = lock_tree(cpu);
        if origin != Origin::KERNEL
            && let Some(entry) = new_entry(cpu, signal, origin)
        {
            let raw = cpu.raw(entry);
            let (slot, first) = self.find(cpu, signal);
            match first {
                Some(first) => {
                    entry.same.set(cpu.raw(first));
                    entry.next.set(first.next.get());
                    entry.last.set(first.last.get());
                }
                None => entry.last.set(raw),
            }
            in_order();
            slot.set(raw);
            self.count.set(self.count.get() + 1);
        }
        self.set.fetch_or(bit(signal), Ordering::SeqCst);
    }

    /// Makes the signal of a timer pending, beside any others of its number. The tree lock is held. `false`: there is no room now.
    pub fn add_of_timer<M: Machine>(&self, cpu: &Cpu<M>, timer: &PosixTimerRecord, origin: Origin) -> bool {
        let signal = timer.signal.get();
        if u64::from(self.count.get()) >= QUEUED_MAX {
            return false;
        }
        let (_, first) = self.find(cpu, signal);
        if first.is_none() && self.set.load(Ordering::SeqCst) & bit(signal) != 0 {
            // One is pending of which nothing is known: it is taken before this one.
            self.push(cpu, signal, Origin::KERNEL, QUEUED_MAX);
        }
        let Some(entry) = new_entry(cpu, signal, origin) else { return false };
        // First: should this core die, the signal's entry is looked for by this word.
        timer.queued.set(cpu.raw(entry));
        timer.state.set(POSIX_PENDING);
        in_order();
        self.link(cpu, signal, entry);
        self.set.fetch_or(bit(signal), Ordering::SeqCst);
        true
    }

    /// The signal of a timer is not pending any more, if it was. The tree lock is held.
    pub fn remove_of_timer<M: Machine>(&self, cpu: &Cpu<M>, timer: &PosixTimerRecord) {
        let (signal, raw) = (timer.signal.get(), timer.queued.get());
        let (slot, Some(first)) = self.find(cpu, signal) else { return };
        if cpu.raw(first) == raw {
            self.unlink_first(cpu, slot, first);
            if first.same.get() == 0 {
                self.set.fetch_and(!bit(signal), Ordering::SeqCst);
            }
            return self.forget(cpu, timer, first);
        }
        let mut before = first;
        while let Some(entry) = cpu.object::<QueuedSignal>(before.same.get()) {
            if cpu.raw(entry) == raw {
                before.same.set(entry.same.get());
                in_order();
                if entry.same.get() == 0 {
                    first.last.set(cpu.raw(before));
                }
                return self.forget(cpu, timer, entry);
            }
            before = entry;
        }
    }

    fn forget<M: Machine>(&self, cpu: &Cpu<M>, timer: &PosixTimerRecord, entry: &'static QueuedSignal) {
        timer.queued.set(0);
        self.count.set(self.count.get() - 1);
        slab::free(cpu, entry);
    }

    /// Whether what is known of a signal is in this list. The tree lock is held.
    pub fn has<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, raw: u64) -> bool {
        let (_, mut at) = self.find(cpu, signal);
        while let Some(entry) = at {
            if cpu.raw(entry) == raw {
                return true;
            }
            at = cpu.object(entry.same.get());
        }
        false
    }

    fn push<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, origin: Origin, limit: u64) -> Option<()> {
        // As on Linux, the limit is for what programs queue: what they are told of others is not lost to it.
        let is_queued = signal >= SIGRTMIN || origin.code < 0;
        let most = if is_queued { limit.min(QUEUED_MAX) } else { QUEUED_MAX };
        let room = u64::from(self.count.get()) < most;
        let entry = room.then(|| new_entry(cpu, signal, origin)).flatten()?;
        self.link(cpu, signal, entry);
        Some(())
    }

    /// Puts an entry behind those of its signal.
    fn link<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, entry: &'static QueuedSignal) {
        let raw = cpu.raw(entry);
        match self.find(cpu, signal) {
            (_, Some(first)) => {
                in_order();
                cpu.object::<QueuedSignal>(first.last.get()).unwrap_or(first).same.set(raw);
                in_order();
                first.last.set(raw);
            }
            (end, None) => {
                entry.last.set(raw);
                in_order();
                end.set(raw);
            }
        }
        self.count.set(self.count.get() + 1);
    }

    /// The first entry of a signal, and the word that names it; without one, the word that would.
    fn find<M: Machine>(&self, cpu: &Cpu<M>, signal: u32) -> (&'a Cell64, Option<&'static QueuedSignal>) {
        let mut slot = self.queue;
        while let Some(first) = cpu.object::<QueuedSignal>(slot.get()) {
            if first.signal.get() == signal {
                return (slot, Some(first));
            }
            slot = &first.next;
        }
        (slot, None)
    }

    /// What is known of a signal whose bit the caller has just cleared; sets the bit again if it was sent more often. Takes
    /// the tree lock unless `is_locked`.
    pub fn take<M: Machine>(&self, cpu: &Cpu<M>, signal: u32, is_locked: bool) -> Origin {
        if self.queue.get() == 0 {
            return Origin::KERNEL;
        }
        let _tree = (!is_locked).then(|| lock_tree(cpu));
        let (slot, Some(first)) = self.find(cpu, signal) else { return Origin::KERNEL };
        if first.same.get() != 0 {
            self.set.fetch_or(bit(signal), Ordering::SeqCst);
        }
        self.unlink_first(cpu, slot, first);
        self.count.set(self.count.get() - 1);
        let mut fields: SigFields = core::array::from_fn(|index| first.fields[index].get());
        let code = first.code.get().cast_signed();
        if code == SI_TIMER
            && let Some(overrun) = timers::taken(cpu, self.process(cpu), fields[0] as u32, cpu.raw(first))
        {
            fields[0] = fields[0] as u32 as u64 | u64::from(overrun) << 32;
        }
        slab::free(cpu, first);
        Origin { code, fields }
    }

    /// Takes the first entry of a signal out, which the word `slot` names.
    fn unlink_first<M: Machine>(&self, cpu: &Cpu<M>, slot: &Cell64, first: &QueuedSignal) {
        match cpu.object::<QueuedSignal>(first.same.get()) {
            Some(second) => {
                second.next.set(first.next.get());
                second.last.set(first.last.get());
                in_order();
                slot.set(cpu.raw(second));
            }
            None => slot.set(first.next.get()),
        }
    }

    /// The process whose signals these are, or of whose thread.
    fn process<M: Machine>(&self, cpu: &Cpu<M>) -> &'a ProcessRecord {
        match self.owner {
            Owner::Thread(thread) => tree::process_of(cpu, thread),
            Owner::Process(process) => process,
        }
    }

    /// The signals of `signals` are no longer pending. The tree lock is held.
    pub fn discard<M: Machine>(&self, cpu: &Cpu<M>, signals: u64) {
        self.set.fetch_and(!signals, Ordering::SeqCst);
        let mut slot = self.queue;
        while let Some(first) = cpu.object::<QueuedSignal>(slot.get()) {
            if bit(first.signal.get()) & signals == 0 {
                slot = &first.next;
                continue;
            }
            slot.set(first.next.get());
            let mut at = Some(first);
            while let Some(entry) = at {
                at = cpu.object(entry.same.get());
                self.count.set(self.count.get() - 1);
                if entry.code.get().cast_signed() == SI_TIMER {
                    timers::dropped(cpu, self.process(cpu), entry.fields[0].get() as u32, cpu.raw(entry));
                }
                slab::free(cpu, entry);
            }
        }
    }

    /// Makes anew what follows from the links forward, when a core has died that was changing a list. The tree lock is held.
    pub fn repair<M: Machine>(&self, cpu: &Cpu<M>) {
        let mut count = 0;
        let mut at = cpu.object::<QueuedSignal>(self.queue.get());
        while let Some(first) = at {
            let mut entry = Some(first);
            while let Some(last) = entry {
                count += 1;
                first.last.set(cpu.raw(last));
                entry = cpu.object(last.same.get());
            }
            at = cpu.object(first.next.get());
        }
        self.count.set(count);
    }
}

#[inline(always)]
fn new_entry<M: Machine>(cpu: &Cpu<M>, signal: u32, origin: Origin) -> Option<&'static QueuedSignal> {
    let entry = slab::alloc::<QueuedSignal>(cpu)?;
    entry.signal.set(signal);
    entry.code.set(origin.code.cast_unsigned());
    for (cell, field) in entry.fields.iter().zip(origin.fields) {
        cell.set(field);
    }
    Some(entry)
}
