//! Entering handlers and coming back from them.

use core::sync::atomic::Ordering;

use motet_abi::{
    registers, sigframe,
    signal::{self as abi, SS_DISABLE, SigInfo, SigStack},
    stubs,
};
use motet_hal::Machine;
use motet_layout::{ProcessRecord, SignalAction, ThreadRecord, Vectors};

use crate::{
    ability,
    call::{Call, Stop, SysResult},
    chain::chain,
    cpu::Cpu,
    extension, handover, mm, peers, signal,
};

/// Lets the thread enter the handler of a signal when it next runs.
///
/// # Errors
/// The stack cannot be written; [`Stop::Page`]: not yet, and nothing but the stack has changed.
pub fn deliver<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    action: &SignalAction,
    info: &SigInfo,
) -> Result<(), Stop> {
    let isa = registers::frame_isa(&thread.frame);
    let flags = action.flags.get();
    // A handler set on one ISA may run on another, whose return code is elsewhere.
    let has_trampoline = !sigframe_takes_restorer(isa) || mm::space_of(cpu, process).fat.get() != 0;
    let own_restorer = flags & abi::SA_RESTORER != 0 && !has_trampoline;
    let stack = alternate_stack(thread);
    let mask = if thread.restore_mask.get() != 0 {
        thread.saved_mask.get()
    } else {
        thread.signal_mask.load(Ordering::Relaxed)
    };
    let delivery = sigframe::Delivery {
        info: *info,
        handler: action.handler.get(),
        restorer: if own_restorer { action.restorer.get() } else { stubs::signal_return(isa) },
        mask,
        stack,
        base: stack.base(&thread.frame, if is_in_use(cpu, thread, &stack) { flags & !abi::SA_ONSTACK } else { flags }),
    };
    handover::save_ext(cpu, thread);
    let mut buffer = sigframe::SigframeBuffer::zeroed();
    let vectors = Vectors::of(cpu.pool, &thread.frame);
    let built = sigframe::build(&thread.frame, vectors, &delivery, &mut buffer);
    let call = Call { cpu, thread, process, args: [0; 6], isa };
    for (address, range) in built.pieces() {
        call.write_user(address, &buffer[range])?;
    }
    built.write_vectors(&thread.frame, vectors, |address, bytes| call.write_user(address, bytes))?;
    sigframe::enter(&thread.frame, &delivery, &built);
    handover::reload_ext(cpu, thread);
    thread.restore_mask.set(0);
    if stack.ss_flags & abi::SS_AUTODISARM != 0 {
        // The frame has it, from which the handler's return brings it back.
        set_alternate_stack(thread, &SigStack::NONE);
    }
    let own = if flags & abi::SA_NODEFER == 0 { abi::bit(info.signal) } else { 0 };
    let more = (action.mask.get() | own) & !abi::UNBLOCKABLE;
    let before = thread.signal_mask.fetch_or(more, Ordering::SeqCst);
    signal::mask_has_changed(cpu, thread, process, before);
    thread.fault_code.set(0);
    if flags & abi::SA_RESETHAND != 0 {
        action.handler.set(abi::SIG_DFL);
        if peers::are_there(cpu) {
            signal::hold_no_longer(cpu, process, info.signal);
        }
    }
    Ok(())
}

/// `rt_sigreturn()`.
pub fn rt_sigreturn<M: Machine>(call: &Call<M>) -> SysResult {
    let thread = call.thread;
    handover::save_ext(call.cpu, thread);
    let (pc, sp) = (registers::pc(&thread.frame), registers::sp_of(M::ISA, &thread.frame));
    let number = registers::syscall_number_of(M::ISA, &thread.frame);
    let mut comes_later = false;
    let read = |address, into: &mut [u8]| match call.read_user(address, into) {
        Ok(()) => true,
        Err(stop) => {
            comes_later |= matches!(stop, Stop::Page);
            false
        }
    };
    let area = |bytes| ability::for_registers(call.cpu, thread, bytes);
    let restored = ability::writes(call.cpu, thread, || sigframe::restore(&thread.frame, read, area));
    match restored {
        Err(sigframe::BadFrame) if comes_later => {
            // The call is made anew. It needs these registers; all others it takes from the stack.
            registers::set_pc(&thread.frame, pc);
            registers::set_sp_of(M::ISA, &thread.frame, sp);
            registers::set_syscall_number(M::ISA, &thread.frame, number);
            handover::reload_ext(call.cpu, thread);
            return Err(Stop::Page);
        }
        Ok(restored) => {
            let before = thread.signal_mask.swap(restored.mask, Ordering::AcqRel);
            set_alternate_stack(thread, &restored.stack);
            thread.attention.store(1, Ordering::Release);
            signal::mask_has_changed(call.cpu, thread, call.process, before);
        }
        Err(sigframe::BadFrame) => signal::force(call.cpu, thread, abi::SIGSEGV),
    }
    handover::reload_ext(call.cpu, thread);
    Err(if extension::got_values(call.cpu, thread, call.process) { Stop::Gone } else { Stop::Replaced })
}

/// The thread's alternate stack.
pub fn alternate_stack(thread: &ThreadRecord) -> SigStack {
    let [sp, size, flags] = &thread.altstack;
    if size.get() == 0 {
        return SigStack::NONE;
    }
    SigStack { ss_sp: sp.get(), ss_flags: flags.get() as u32, ss_size: size.get() }
}

/// Whether a thread is on its alternate stack: itself, or by a handler that has called the function of another instruction set that it is in. That has a stack of its own, and the handler's
/// frames are still where they were.
pub fn is_in_use<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, stack: &SigStack) -> bool {
    let is_on = |sp| stack.contains(sp);
    stack.ss_flags & SS_DISABLE == 0
        && (is_on(registers::sp(&thread.frame)) || chain(cpu, thread).any(|call| is_on(call.caller_sp.get())))
}

/// Sets or takes away the alternate stack.
pub fn set_alternate_stack(thread: &ThreadRecord, stack: &SigStack) {
    let enabled = stack.ss_flags & SS_DISABLE == 0;
    let [sp, size, flags] = &thread.altstack;
    sp.set(if enabled { stack.ss_sp } else { 0 });
    size.set(if enabled { stack.ss_size } else { 0 });
    flags.set(if enabled { u64::from(stack.ss_flags & !abi::SS_ONSTACK) } else { 0 });
}

/// RISC-V handlers always return through the kernel's trampoline.
fn sigframe_takes_restorer(isa: motet_layout::Isa) -> bool {
    abi::SigAction::size(isa) == 32
}
