//! A call that a thread is about to make.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, convention, fat::Signature, registers};
use motet_hal::Machine;
use motet_layout::{BY_SYSTEM_CALL, CoreId, CrossingRecord, FatProgram, Isa, SpaceRecord, ThreadRecord, is_canonical};
use motet_protocol::Context;

use super::{records::nest, stack, state::Pinned};
use crate::{cpu::Cpu, handover, mm, tree::process_of};

/// A call that is to be made.
pub struct Request {
    /// Where it begins.
    pub function: u64,
    /// What it takes and gives.
    pub signature: Signature,
    /// The ISA that it is to run on.
    pub isa: Isa,
    /// The first argument word.
    pub first: u64,
    /// Where the caller goes on.
    pub pc: u64,
    /// The caller's stack pointer then.
    pub sp: u64,
    /// Where the function's stack begins; 0: the thread has none for it.
    pub stack: u64,
    /// The program that the function belongs to.
    pub program: Option<&'static FatProgram>,
    /// It is pinned to another ISA, but is to run on the caller's.
    pub is_local: bool,
    /// Made by a system call: the caller has executed no call.
    pub by_system_call: bool,
}

/// A call with all that it takes to make it.
#[derive(Clone, Copy)]
pub struct Ready<'a> {
    /// Whose it is.
    pub thread: &'static ThreadRecord,
    /// The thread's.
    pub space: &'static SpaceRecord,
    /// Where it is recorded.
    pub record: &'static CrossingRecord,
    /// The core that is to run the function.
    pub target: CoreId,
    /// What is called.
    pub request: &'a Request,
}

impl Ready<'_> {
    /// Writes what the caller needs to go on into the record: [`Request::record`].
    #[inline(always)]
    pub fn record<M: Machine>(&self, cpu: &Cpu<M>) {
        self.request.record(cpu, self.thread, self.record, self.target);
    }

    /// Records that the thread is in the call from now on: [`Request::begin`].
    #[inline(always)]
    pub fn begin<M: Machine>(&self, cpu: &Cpu<M>) {
        self.request.begin(cpu, self.thread, self.record);
    }
}

impl Request {
    /// The call of a function that the thread has fetched from. Stores the thread's extended registers.
    ///
    /// # Errors
    /// `EFAULT`: the return address cannot be read, or what lies below the caller on its stack not written.
    #[inline(always)]
    pub fn of<M: Machine>(
        cpu: &Cpu<M>,
        thread: &'static ThreadRecord,
        space: &'static SpaceRecord,
        function: u64,
        pin: &Pinned,
    ) -> Result<Self, Errno> {
        let (frame, signature) = (&thread.frame, pin.signature);
        if signature.floats != 0 {
            handover::save_ext(cpu, thread);
        } else {
            handover::save_kept_ext(cpu, thread);
        }
        let read = |address| mm::read_word(cpu, space, address).ok();
        let (pc, sp) = convention::return_point(M::ISA, frame, read).ok_or(Errno::EFAULT)?;
        let first = convention::word_in_register(M::ISA, frame, 0);
        let (isa, program) = (pin.isa, Some(pin.program));
        let stack = if pin.one_stack { below_caller(cpu, thread, space, sp)? } else { stack::top(thread, isa) };
        Ok(Self { function, signature, isa, first, pc, sp, stack, program, is_local: false, by_system_call: false })
    }

    /// The function's thread pointer, as [`thread_pointer`].
    #[inline(always)]
    pub fn tls<M: Machine>(&self, thread: &ThreadRecord) -> Option<u64> {
        thread_pointer(self.program, M::ISA, registers::tls_of(M::ISA, &thread.frame), self.isa)
    }

    /// Writes what the caller needs to go on into the record.
    #[inline(always)]
    pub fn record<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        thread: &'static ThreadRecord,
        record: &CrossingRecord,
        target: CoreId,
    ) {
        nest(cpu, thread, record);
        record.caller_isa.set(M::ISA as u32);
        record.callee_isa.set(self.isa as u32);
        record.caller_core.set(u32::from(cpu.id.0));
        record.callee_core.set(u32::from(target.0));
        record.function.set(self.function);
        record.return_pc.set(self.pc);
        record.caller_sp.set(self.sp);
        record.caller_tls.set(registers::tls_of(M::ISA, &thread.frame));
        record.outer_used.set(thread.stack_used[M::ISA as usize - 1].get());
        let how = if self.by_system_call { BY_SYSTEM_CALL } else { 0 };
        record.result.set(u64::from(self.signature.result) | how);
        record.is_saved.set(0);
        record.is_local.set(self.is_local.into());
    }

    /// Records that the thread is in the call from now on.
    #[inline(always)]
    pub fn begin<M: Machine>(&self, cpu: &Cpu<M>, thread: &ThreadRecord, record: &'static CrossingRecord) {
        thread.crossing.set(cpu.raw(record));
        thread.spare_crossing.set(0);
        thread.stack_used[M::ISA as usize - 1].set(self.sp);
    }

    /// Counts the call.
    #[inline(always)]
    pub fn count<M: Machine>(&self, cpu: &Cpu<M>, target: CoreId) {
        count_call(self.program, [cpu.id, target], self.is_local);
    }
}

/// Where a function's stack begins in a program with one stack: below the caller's frames, and below what the caller keeps in registers, as a
/// collector of garbage looks for pointers there. A function of the caller's ISA would store it itself.
///
/// # Errors
/// `EFAULT`: the stack cannot be written.
#[cold]
#[inline(never)]
pub fn below_caller<M: Machine>(
    cpu: &Cpu<M>,
    thread: &ThreadRecord,
    space: &'static SpaceRecord,
    sp: u64,
) -> Result<u64, Errno> {
    let kept = convention::kept_on_stack(M::ISA, &thread.frame, sp);
    if stack::push(cpu, space, &kept) { Ok(kept.at) } else { Err(Errno::EFAULT) }
}

/// The pointer of `isa` to the block that the thread pointer `tls` of `from` points to: those of all ISAs point to the same one.
/// `None`: to none, because it is not canonical. No ISA's calls carry such a one, although not all of them would mind it.
#[inline(always)]
pub fn thread_pointer(program: Option<&FatProgram>, from: Isa, tls: u64, isa: Isa) -> Option<u64> {
    let pointer = match program {
        Some(program) if tls != 0 => {
            let bias = |isa: Isa| program.thread_pointer_bias[isa as usize - 1].get();
            tls.wrapping_sub(bias(from)).wrapping_add(bias(isa))
        }
        Some(_) | None => tls,
    };
    is_canonical(pointer).then_some(pointer)
}

/// Takes a call that has not been made after all out of the count.
pub fn uncount_call<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &CrossingRecord) {
    let program = cpu.object::<FatProgram>(mm::space_of(cpu, process_of(cpu, thread)).fat.get());
    let callee = CoreId::from_raw(record.callee_core.get());
    if let (Some(program), Some(callee)) = (program, callee) {
        program.calls[cpu.island().index() * 8 + callee.island().index()].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a call from one core to another.
#[inline(always)]
pub fn count_call(program: Option<&FatProgram>, cores: [CoreId; 2], is_local: bool) {
    if let Some(program) = program {
        let pair = cores[0].island().index() * 8 + cores[1].island().index();
        let count = if is_local { &program.local_calls } else { &program.calls[pair] };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
