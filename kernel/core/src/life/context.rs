//! What lower rooms, and the algorithms of `motet_protocol`, ask of a core: this file implements their traits. These are the only calls that go
//! up in the order of the kernel's layers; each goes by a trait that the caller declares.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{
    CoreId, CoreRecord, Frame, InodeRecord, IslandCounters, IslandId, LockClass, Pool, PoolAddr, ProcessRecord,
    ThreadRecord, UserFrame,
};
use motet_protocol::{Context, dma, ipc, run_queue::Wake, trace::Kind};

use super::{idle, interrupt, nested};
use crate::{
    call::Call,
    cpu::{Causes, Cpu},
    crossing::Awake,
    due::{self, Below, Nesting},
    permission::{self, Capability},
    recover, syscall, trace,
    tree::process_of,
};

impl<M: Machine> Context for Cpu<M> {
    #[inline(always)]
    fn core(&self) -> CoreId {
        self.id
    }

    #[inline(always)]
    fn life(&self) -> u32 {
        self.island_life
    }

    #[inline(always)]
    fn pool(&self) -> Pool {
        self.pool
    }

    #[inline(always)]
    fn is_uncached(&self) -> bool {
        self.islands.are_uncached()
    }

    #[inline(always)]
    fn common_index(&self) -> usize {
        self.islands.common_share()
    }

    #[inline(always)]
    fn flush_frame(&self, frame: Frame) {
        if self.islands.caches_privately() {
            self.flush_private(frame);
        }
    }

    #[inline(always)]
    fn island_count(&self) -> usize {
        self.islands.count()
    }

    #[inline(always)]
    fn callers(&self) -> u32 {
        self.islands.with_others()
    }

    #[inline(always)]
    fn polls(&self, island: IslandId) -> bool {
        self.islands.does_poll(island)
    }

    #[cold]
    fn recover(&self, class: LockClass, lock: PoolAddr) -> bool {
        recover::recover(self, class, lock)
    }

    #[cold]
    #[track_caller]
    fn damaged(&self, raw: u64) {
        self.say_damaged(raw);
    }

    #[inline(always)]
    fn spend_locked(&self, cost: u64) {
        due::spend_locked(self, cost);
    }

    #[inline(always)]
    fn own_record(&self) -> &'static CoreRecord {
        self.own
    }

    #[inline(always)]
    fn counters(&self) -> &'static IslandCounters {
        self.counted
    }

    #[inline(always)]
    fn zero_frame(&self, frame: Frame) {
        self.machine.zero_frame(frame);
    }

    fn end_queue(&self, inode: &InodeRecord) {
        ipc::posix::end(self, inode);
    }

    fn free_later(&self, inode: &'static InodeRecord) -> bool {
        let Some(thread) = self.object::<ThreadRecord>(self.own.current_thread.load(Ordering::Relaxed)) else {
            return false;
        };
        if thread.garbage.get() == crate::cpu::REMOTE {
            return false;
        }
        inode.parent.store(thread.garbage.get(), Ordering::Relaxed);
        thread.garbage.set(self.raw(inode));
        true
    }

    fn relax(&self) {
        if !self.mm.is_pinned() {
            self.serve_shootdowns();
        }
        self.machine.relax();
    }

    fn pass(&self) {
        Self::pass(self);
    }

    /// Threads that end are not: they give back more than they take.
    #[cold]
    fn is_limited(&self) -> bool {
        let current = self.object::<ThreadRecord>(self.own.current_thread.load(Ordering::Relaxed));
        current.is_some_and(|thread| {
            let ends = thread.stage.get().ends() || thread.kill.load(Ordering::Relaxed) != 0;
            // One that has just ended, and is still noted here, may be another one already.
            let process = self.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed));
            !ends && process.is_some_and(|process| !permission::has(process, Capability::Limits))
        })
    }

    #[cold]
    fn objects_retired(&self) {
        if let Some(thread) = self.object::<ThreadRecord>(self.own.current_thread.load(Ordering::Relaxed)) {
            thread.attention.store(1, Ordering::Release);
        }
    }

    #[cold]
    fn owner_told(&self) {
        self.due.set(Causes::OWNERS);
        if let Some(thread) = self.object::<ThreadRecord>(self.own.current_thread.load(Ordering::Relaxed)) {
            thread.attention.store(1, Ordering::Release);
        }
    }

    fn ring(&self, target: CoreId) {
        if self.is_timed() {
            self.own.ring_target.set(u32::from(target.0));
            self.machine.note_ring();
        }
        trace::about_core(self, Kind::Ring, target);
        self.machine.ring(target);
    }

    fn wrote(&self, target: CoreId) {
        if self.is_timed() {
            self.own.ring_target.set(u32::from(target.0));
            self.machine.note_write();
        }
    }

    fn tell_service(&self) {
        if self.is_timed() {
            self.machine.start_engine();
        } else {
            self.machine.ring_host();
        }
    }

    fn transfer(&self, target: CoreId) -> bool {
        if self.is_timed() {
            self.own.ring_target.set(u32::from(target.0));
            self.machine.start_transfer();
            return self.own.dma_taken.get() != 0;
        }
        let receiver = &self.pool.header().cores[target.index()];
        let is_taken = dma::transfer(self.id, self.own, receiver, self.now_ns());
        if is_taken {
            self.machine.ring(target);
        }
        is_taken
    }

    #[cold]
    #[inline(never)]
    fn await_transfer(&self, arrives_ns: u64) {
        // Where the time is damaged, nothing is lost by going on.
        self.wait_until(arrives_ns);
    }

    #[inline(always)]
    fn looks_at_ready(&self) -> bool {
        self.life.looks_at_ready()
    }

    #[inline(always)]
    fn woke(&self, thread: &ThreadRecord, target: CoreId) {
        trace::hand_over(self, Kind::Wake, thread, target);
    }
}

impl<M: Machine> Nesting for Cpu<M> {
    #[inline(always)]
    fn run_urgent(&self, below: Below, now_ns: u64) -> bool {
        nested::run(self, below, now_ns)
    }
}

impl<M: Machine> Awake for Cpu<M> {
    #[inline(always)]
    fn doze(&self) -> Wake {
        idle::doze(self)
    }

    #[inline(always)]
    fn handle_interrupts(&self, interrupts: Interrupts) {
        interrupt::handle_interrupts(self, interrupts);
    }

    fn interrupted_call(&self, thread: &'static ThreadRecord, interrupts: Interrupts) {
        interrupt::interrupted_call(self, thread, interrupts);
    }

    fn serve_elsewhere(&self, thread: &'static ThreadRecord, frame: &UserFrame) -> Option<i64> {
        let (process, args) = (process_of(self, thread), registers::syscall_args(frame));
        syscall::serve_elsewhere(
            &Call { cpu: self, thread, process, args, isa: M::ISA },
            registers::syscall_number(frame),
        )
    }
}
