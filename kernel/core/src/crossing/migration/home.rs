//! A thread's home core: the thread leaves for another ISA, and comes back.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, convention::Arguments, migration, registers};
use motet_hal::Machine;
use motet_layout::{
    CoreId, DMA_AWAY, DMA_HOME, Isa, MigrationContext, PoolAddr, SpaceRecord, Stage, THREAD_READY, ThreadRecord,
};
use motet_protocol::{Context, dma, run_queue};

use super::{
    depart,
    descriptor::{self, IS_STACK, Incoming, Outgoing, What},
    is_gone, pinned,
};
use crate::{
    ability,
    call::{self, Call, Stop, SysResult},
    chain::{context_in, forget_context},
    console,
    cpu::Cpu,
    cputime,
    crossing::{
        Fetch,
        cores::island_of,
        report,
        request::{count_call, thread_pointer},
        stack,
        state::Pinned,
    },
    handover, mm,
    tree::process_of,
};

/// Makes a thread that has fetched from another ISA's text continue in the migration handler. `None`: it is no call that Flick could make.
pub fn redirect<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    address: u64,
) -> Option<Fetch> {
    let function = registers::pc(&thread.frame);
    let handler = M::migration_handler(M::ISA)?;
    let pin = pinned(cpu, space, function).filter(|pin| address == function && descriptor::fits(&pin.signature))?;
    M::migration_handler(pin.isa)?;
    // What it has called once is there, and the islands' own words may be far away.
    let slot = &thread.contexts[pin.isa as usize - 1];
    if let Some((core, context)) = context_in(slot.get()).filter(|&(core, _)| is_gone(cpu, core)) {
        let context = cpu.pool.get::<MigrationContext>(PoolAddr(context))?;
        if is_in_call(pin.isa, context) {
            return Some(kill_for(cpu, thread, core, "it is in calls of functions there, and calls another one"));
        }
        forget_context(cpu, thread, slot);
    }
    if slot.get() == 0 {
        cpu.islands_of(pin.isa).next()?;
    }
    thread.migrates_to.set(function);
    registers::set_pc(&thread.frame, handler.start());
    Some(Fetch::Run)
}

/// `migrate()`, of the handler: the thread leaves for the ISA of the function that it has tried to call.
///
/// # Errors
/// `EINVAL`: it has not tried to; `EFAULT`: its arguments cannot be read; `ENOMEM`.
pub fn migrate<M: Machine>(call: &Call<M>) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let space = mm::space_of(cpu, call.process);
    let function = thread.migrates_to.get();
    let pin = pinned(cpu, space, function).ok_or(Errno::EINVAL)?;
    let (target, place) = place_for(cpu, thread, space, &pin)?;
    if is_gone(cpu, target) {
        kill_for(cpu, thread, target, "it was on its way there");
        return Err(Stop::Gone);
    }
    handover::save_ext(cpu, thread);
    let (frame, signature) = (&thread.frame, &pin.signature);
    let read = |address| mm::read_word(cpu, space, address).ok();
    let mut arguments = cpu.crossing.arguments().borrow_mut();
    migration::arguments(M::ISA, frame, signature, read, &mut arguments).ok_or(Errno::EFAULT)?;
    let tls =
        thread_pointer(Some(pin.program), M::ISA, registers::tls_of(M::ISA, frame), pin.isa).ok_or(Errno::EFAULT)?;
    descriptor::write_call(cpu, &Outgoing { thread, space, function, tls, place, signature, arguments: &arguments });
    count_call(Some(pin.program), [cpu.id, target], false);
    leave(call, space, target)
}

/// `migrate_back()`, of the handler: the function that another ISA has called back has returned.
///
/// # Errors
/// `EINVAL`: none has called.
pub fn migrate_back<M: Machine>(call: &Call<M>) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let space = mm::space_of(cpu, call.process);
    handover::save_ext(cpu, thread);
    let (results, kinds, caller) = migration::results(M::ISA, &thread.frame);
    let slot = Isa::from_raw(caller).map(|isa| thread.contexts[isa as usize - 1].get());
    let (target, place) = slot.and_then(context_in).ok_or(Errno::EINVAL)?;
    if is_gone(cpu, target) {
        kill_for(cpu, thread, target, "it returns to a function there");
        return Err(Stop::Gone);
    }
    descriptor::write_return(cpu, thread, space, place, kinds, &results);
    leave(call, space, target)
}

/// Ends the thread's process: an island that it needs has died.
fn kill_for<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, core: CoreId, why: &str) -> Fetch {
    let what = format_args!("island {} has died: {why}", core.island().index());
    report::kill(cpu, thread, process_of(cpu, thread), what)
}

/// The core that runs the thread's functions of an ISA, and word 4 of the descriptor. A thread's first call of an ISA chooses the core, and makes the stack
/// (listing 1, lines 3 and 4).
fn place_for<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    pin: &Pinned,
) -> Result<(CoreId, u64), Errno> {
    if let Some(found) = context_in(thread.contexts[pin.isa as usize - 1].get()) {
        return Ok(found);
    }
    let core = island_of(cpu, thread, pin.isa).ok_or(Errno::EINVAL)?;
    let top = stack::of(cpu, thread, space, pin.isa, core.island())?;
    Ok((core, top | IS_STACK))
}

/// Deschedules the thread, and then starts the transfer of its descriptor (section IV-D). If there is no room for that, the thread tries again
/// after others.
fn leave<M: Machine>(call: &Call<M>, space: &'static SpaceRecord, target: CoreId) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    call::end_call(thread);
    cputime::charge(cpu, thread);
    cpu.own.current_thread.store(0, Ordering::Release);
    cpu.crossing.keep_resident(cpu.raw(space));
    if !depart(cpu, thread, target, DMA_AWAY) {
        thread.stage.set(Stage::CALL_PAUSED);
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        run_queue::append_last(cpu, thread);
    }
    Err(Stop::Gone)
}

/// Makes a thread ready that has come home, after the engine has rung.
pub fn come_home<M: Machine>(cpu: &Cpu<M>) {
    let Some((descriptor, arrives_ns)) = dma::arrival(cpu.own, DMA_HOME) else { return };
    let mut arguments = cpu.crossing.arguments().borrow_mut();
    let has_come = cpu.wait_until(arrives_ns);
    let incoming = if has_come { descriptor::read(cpu, descriptor, &mut arguments) } else { None };
    let incoming = incoming.filter(|incoming| {
        let is_here = incoming.thread.core.load(Ordering::Relaxed) == u32::from(cpu.id.0);
        is_here && registers::frame_isa(&incoming.thread.frame) == M::ISA
    });
    let Some(incoming) = incoming else {
        console::kernel_message(cpu, format_args!("a migration descriptor is damaged, and its thread lost"));
        return dma::clear(cpu.own, DMA_HOME);
    };
    dma::clear(cpu.own, DMA_HOME);
    let thread = incoming.thread;
    take(cpu, &incoming, &arguments);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    run_queue::append(cpu, thread);
}

/// What has come is what the thread's handler goes on with.
fn take<M: Machine>(cpu: &Cpu<M>, incoming: &Incoming, arguments: &Arguments) {
    let &Incoming { thread, space, sender, place, ref what } = incoming;
    let Some(isa) = cpu.isa_of(sender) else { return };
    thread.contexts[isa as usize - 1].set(place | u64::from(sender.0));
    match what {
        What::Call { function, tls, signature } => {
            let Some(handler) = M::migration_handler(M::ISA) else { return };
            let program = cpu.object(space.fat.get());
            // A system call, or a signal, is no call of the program's.
            if !handler.has(*function) {
                count_call(program, [sender, cpu.id], false);
            }
            let tls = thread_pointer(program, isa, *tls, M::ISA).unwrap_or(0);
            let sp = registers::sp(&thread.frame);
            let words = migration::call(&thread.frame, &handler, sp, tls, *function, signature, arguments);
            // Should there be no memory for it, the function faults where it looks for it.
            stack::push(cpu, space, &words);
            stack::push(cpu, space, &migration::kept(sp, isa, signature));
            if signature.floats != 0 {
                ability::change_ext(thread);
            }
        }
        What::Return { kinds, results } => {
            migration::finish(&thread.frame, M::ISA, *kinds, results);
            if kinds >> 8 != 0 {
                ability::change_ext(thread);
            }
        }
    }
}

/// Whether a function of the context waits for one that it has called. Otherwise all handlers have taken from the stack what they put there.
fn is_in_call(isa: Isa, context: &MigrationContext) -> bool {
    registers::sp_of(isa, &context.frame) != context.stack.get()
}
