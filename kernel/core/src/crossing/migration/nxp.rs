//! A core that runs functions for threads whose home is elsewhere: Flick's NxP, and its scheduler.
//!
//! One function runs at a time, until its thread leaves. What it needs a kernel for, it gets at home: a system call is a call of a function in the
//! handler that makes it there, and a signal is attended to at home as well. Missing pages are served here.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_abi::{
    Syscall,
    convention::Arguments,
    fat::Signature,
    migration::{self, Handler},
    own, registers,
};
use motet_hal::{Access, Interrupts, Machine, Trap};
use motet_layout::{
    CoreId, DMA_AWAY, DMA_HOME, Descriptor, Isa, MigrationContext, PoolAddr, SpaceRecord, ThreadRecord,
};
use motet_protocol::{Context, dma, memory::alloc_zeroed_frame};

use super::{
    depart,
    descriptor::{self, IS_STACK, Incoming, Outgoing, What},
    home::come_home,
    is_gone, pinned,
};
use crate::{
    ability, alarm, console,
    cpu::Cpu,
    crossing::{Awake as _, message::CALLED, report, stack},
    death, mm,
    tree::process_of,
};

/// [`MigrationContext::waits_for_call`]: for a system call that its home makes.
const FOR_SYSTEM_CALL: u32 = 1;
/// The same, for its home to attend to signals: all registers stay.
const FOR_SIGNAL: u32 = 2;

/// A function that this core runs.
struct Visit {
    context: &'static MigrationContext,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
}

/// A descriptor that waits for a core, and when it arrives or has arrived.
pub type Arrival = (&'static Descriptor, u64);

/// The descriptor that waits for this core, if there is one (section IV-B: the scheduler polls the engine's status).
#[inline(always)]
pub fn arrival<M: Machine>(cpu: &Cpu<M>) -> Option<Arrival> {
    dma::arrival(cpu.own, DMA_AWAY)
}

/// Whether one does.
pub fn is_called<M: Machine>(cpu: &Cpu<M>) -> bool {
    arrival(cpu).is_some()
}

/// The same, if this core has nothing else to do first: its doorbell, if one was taken, is for that.
pub fn comes_first<M: Machine>(cpu: &Cpu<M>) -> bool {
    let is_reclaimer = cpu.id.index() == 0;
    let is_timer = cpu.due.deferred().contains(Interrupts::TIMER);
    !is_timer && !is_reclaimer && dma::arrival(cpu.own, DMA_HOME).is_none() && is_called(cpu)
}

/// Runs the function that a descriptor is about, until its thread leaves.
pub fn run<M: Machine>(cpu: &Cpu<M>, (descriptor, arrives_ns): Arrival) {
    let mut arguments = cpu.crossing.arguments().borrow_mut();
    let has_come = cpu.wait_until(arrives_ns);
    let incoming = if has_come { descriptor::read(cpu, descriptor, &mut arguments) } else { None };
    dma::clear(cpu.own, DMA_AWAY);
    let Some(incoming) = incoming else {
        return console::kernel_message(cpu, format_args!("a migration descriptor is damaged, and its thread lost"));
    };
    let (thread, space) = (incoming.thread, incoming.space);
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
    then_look();
    let visit = visit(cpu, &incoming, &arguments);
    drop(arguments);
    match visit {
        Ok(visit) => run_visit(cpu, &visit),
        Err(what) => end(cpu, thread, what),
    }
    cpu.own.current_thread.store(0, Ordering::Release);
    cpu.crossing.keep_resident(cpu.raw(space));
}

/// What has come is what the thread goes on with here.
fn visit<M: Machine>(cpu: &Cpu<M>, incoming: &Incoming, arguments: &Arguments) -> Result<Visit, &'static str> {
    let &Incoming { thread, space, sender, place, ref what } = incoming;
    mm::activate(cpu, space).map_err(|_| "there is no memory for its tables")?;
    let is_new = place & IS_STACK != 0;
    let context = match is_new {
        true => make_context(cpu, thread, place & !IS_STACK).ok_or("there is no memory for its context")?,
        false => {
            let context = cpu.pool.get::<MigrationContext>(PoolAddr(place)).ok_or("its context is damaged")?;
            if context.thread.get() != cpu.raw(thread) {
                return Err("its context is not its own");
            }
            context
        }
    };
    let frame = &context.frame;
    context.home.set(u32::from(sender.0));
    let waits_for = context.waits_for_call.get();
    context.waits_for_call.set(0);
    match what {
        What::Call { .. } if waits_for != 0 => return Err("a handler of a signal calls what it has interrupted"),
        What::Call { function, tls, signature } => {
            let sp = if is_new { context.stack.get() } else { registers::sp_of(M::ISA, frame) };
            let handler = M::migration_handler(M::ISA).ok_or("it has no handler")?;
            let words = migration::call(frame, &handler, sp, *tls, *function, signature, arguments);
            let kept = migration::kept(sp, cpu.isa_of(sender).unwrap_or(M::ISA), signature);
            if !stack::push(cpu, space, &words) || !stack::push(cpu, space, &kept) {
                return Err("there is no memory for its stack");
            }
        }
        What::Return { results, .. } if waits_for == FOR_SYSTEM_CALL => {
            registers::set_result_of(M::ISA, frame, results.words[0] as i64);
        }
        What::Return { .. } if waits_for == FOR_SIGNAL => {}
        What::Return { kinds, results } => migration::finish(frame, M::ISA, *kinds, results),
    }
    ability::before_load(cpu);
    cpu.machine.load_ext(frame);
    cpu.handover.hold(cpu.raw(context), CALLED, 0);
    Ok(Visit { context, thread, space })
}

fn make_context<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    stack: u64,
) -> Option<&'static MigrationContext> {
    let frame = alloc_zeroed_frame(cpu)?;
    let context = cpu.pool.at::<MigrationContext>(frame.addr());
    context.thread.set(cpu.raw(thread));
    context.stack.set(stack);
    registers::init_frame(&context.frame, M::ISA, 0, stack);
    thread.contexts[M::ISA as usize - 1].set(frame.addr().0 | u64::from(cpu.id.0));
    Some(context)
}

/// Runs the function until its thread leaves.
fn run_visit<M: Machine>(cpu: &Cpu<M>, visit: &Visit) {
    alarm::limit_call(cpu);
    loop {
        cpu.pass();
        let trap = cpu.machine.run_user(&visit.context.frame);
        match serve(cpu, visit, trap) {
            Ok(true) => {}
            Ok(false) => return,
            Err(what) => return end(cpu, visit.thread, what),
        }
    }
}

/// Acts on what has stopped the function. `false`: its thread has left.
///
/// # Errors
/// Why its process has to end.
fn serve<M: Machine>(cpu: &Cpu<M>, visit: &Visit, trap: Trap) -> Result<bool, &'static str> {
    let &Visit { context, thread, space } = visit;
    let frame = &context.frame;
    match trap {
        Trap::Syscall => {
            match registers::syscall_number_of(M::ISA, frame) {
                own::MIGRATE => call_home(cpu, visit, context.migrates_to.get())?,
                own::MIGRATE_BACK => return_home(cpu, visit)?,
                number => system_call(cpu, visit, number)?,
            }
            return Ok(false);
        }
        Trap::PageFault { address, access: Access::Execute }
            if address == registers::pc(frame) && pinned(cpu, space, address).is_some() =>
        {
            let handler = M::migration_handler(M::ISA).ok_or("it has no handler")?;
            context.migrates_to.set(address);
            registers::set_pc(frame, handler.start());
        }
        Trap::PageFault { address, access } => {
            mm::serve_fault(cpu, space, address, access)
                .map_err(|_| "a function on another instruction set has touched memory that is not there")?;
        }
        Trap::Interrupt(interrupts) => cpu.interrupted_call(thread, interrupts),
        Trap::IllegalInstruction { .. }
        | Trap::Breakpoint
        | Trap::Arithmetic
        | Trap::Misaligned { .. }
        | Trap::BadAddress { .. }
        | Trap::Guest(_) => return Err("a function on another instruction set has failed"),
    }
    if matches!(trap, Trap::Interrupt(_)) && thread.attention.load(Ordering::SeqCst) != 0 {
        let signature = Signature { words: 0, floats: 0, result: 0 };
        context.waits_for_call.set(FOR_SIGNAL);
        let home = write_call(cpu, visit, Handler::nothing, &signature, &cpu.crossing.arguments().borrow())?;
        send(cpu, thread, home)?;
        return Ok(false);
    }
    // Serving may have taken the space away.
    mm::activate(cpu, space).map_err(|_| "there is no memory for its tables")?;
    Ok(true)
}

/// The function calls one of another ISA: home calls it.
fn call_home<M: Machine>(cpu: &Cpu<M>, visit: &Visit, function: u64) -> Result<(), &'static str> {
    let &Visit { context, thread, space } = visit;
    let pin = pinned(cpu, space, function).filter(|pin| descriptor::fits(&pin.signature));
    let pin = pin.ok_or("it calls a function that migration cannot reach")?;
    cpu.machine.save_ext(&context.frame);
    let read = |address| mm::read_word(cpu, space, address).ok();
    let home = {
        let mut arguments = cpu.crossing.arguments().borrow_mut();
        migration::arguments(M::ISA, &context.frame, &pin.signature, read, &mut arguments)
            .ok_or("its arguments cannot be read")?;
        write_call(cpu, visit, |_| function, &pin.signature, &arguments)?
    };
    send(cpu, thread, home)
}

/// The function makes a system call: home makes it.
fn system_call<M: Machine>(cpu: &Cpu<M>, visit: &Visit, number: u64) -> Result<(), &'static str> {
    let call = Syscall::decode(M::ISA, number);
    let home = home_of(cpu, visit).ok_or("its home is damaged")?;
    let number = call.and_then(|call| call.number(home.1)).map_or(number, u64::from);
    let mut arguments = cpu.crossing.arguments().borrow_mut();
    arguments.words[0] = number;
    arguments.words[1..7].copy_from_slice(&registers::syscall_args_of(M::ISA, &visit.context.frame));
    visit.context.waits_for_call.set(FOR_SYSTEM_CALL);
    cpu.machine.save_ext(&visit.context.frame);
    let home = write_call(cpu, visit, Handler::system_call, &migration::SYSTEM_CALL, &arguments)?;
    drop(arguments);
    send(cpu, visit.thread, home)
}

fn home_of<M: Machine>(cpu: &Cpu<M>, visit: &Visit) -> Option<(CoreId, Isa)> {
    let home = CoreId::from_raw(visit.context.home.get())?;
    Some((home, cpu.isa_of(home)?))
}

/// Writes a call of a function at home (by its handler), and says where that is.
fn write_call<M: Machine>(
    cpu: &Cpu<M>,
    visit: &Visit,
    function: impl FnOnce(&Handler) -> u64,
    signature: &Signature,
    arguments: &Arguments,
) -> Result<CoreId, &'static str> {
    let &Visit { context, thread, space } = visit;
    let (home, isa) = home_of(cpu, visit).ok_or("its home is damaged")?;
    if context.waits_for_call.get() == FOR_SIGNAL {
        cpu.machine.save_ext(&context.frame);
    }
    let handler = M::migration_handler(isa).ok_or("its home has no handler")?;
    let (function, tls) = (function(&handler), registers::tls_of(M::ISA, &context.frame));
    descriptor::write_call(
        cpu,
        &Outgoing { thread, space, function, tls, place: cpu.raw(context), signature, arguments },
    );
    Ok(home)
}

/// The function has returned.
fn return_home<M: Machine>(cpu: &Cpu<M>, visit: &Visit) -> Result<(), &'static str> {
    let &Visit { context, thread, space } = visit;
    cpu.machine.save_ext(&context.frame);
    let (results, kinds, _) = migration::results(M::ISA, &context.frame);
    descriptor::write_return(cpu, thread, space, cpu.raw(context), kinds, &results);
    let (home, _) = home_of(cpu, visit).ok_or("its home is damaged")?;
    send(cpu, thread, home)
}

/// The thread is not this core's any more. Its home reads what comes there before long, and so does this core meanwhile: it may be the home of others that
/// wait for the same, and the one that reclaims islands.
///
/// # Errors
/// Its home has died, and it is this core's.
fn send<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, home: CoreId) -> Result<(), &'static str> {
    loop {
        if is_gone(cpu, home) {
            return Err("the island that it has come from, and goes back to, has died");
        }
        if depart(cpu, thread, home, DMA_HOME) {
            return Ok(());
        }
        come_home(cpu);
        if cpu.id.index() == 0 {
            death::reclaim(cpu);
        }
        cpu.pass();
        cpu.relax();
    }
}

/// Ends the process: its thread, which is this core's now, with it.
fn end<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, what: &'static str) {
    report::kill(cpu, thread, process_of(cpu, thread), format_args!("{what}"));
}
