//! A core's life: pick a thread, run it until it blocks, exits, moves or has used up its slice.
//!
//! | file | |
//! |---|---|
//! | `resume` | what a thread goes on with |
//! | `call` | system calls begin, wait, and end |
//! | `block` | threads wait, off the core |
//! | `fault` | page faults |
//! | `stores` | stores to registers of the FPGA, in short |
//! | `page` | waits for pages that come later |
//! | `next` | what runs next |
//! | `guests` | from guest to guest; those of equal threads take turns |
//! | `stacked` | a guest runs above another one, and the two take turns |
//! | `nested` | a guest runs above a system call |
//! | `scarce` | memory is used up |
//! | `messages` | what other kernels send |
//! | `interrupt` | interrupts, and how each is served |
//! | `preempt` | a thread that was interrupted gives up the core |
//! | `idle` | nothing to run |
//! | `handed` | from thread to thread, where one goes to an idle core and comes back |
//! | `removed` | out of use |
//! | `counters` | counters that programs read themselves |
//! | `context` | traits by which `motet_protocol` and lower rooms call up |
//! | `boot` | joining the machine |

mod block;
pub mod boot;
mod call;
mod context;
mod counters;
mod fault;
mod guests;
mod handed;
mod idle;
mod interrupt;
mod messages;
mod nested;
mod next;
mod page;
mod preempt;
mod removed;
mod resume;
mod scarce;
mod stacked;
mod stores;

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine, Trap};
use motet_layout::{CORE_AWAKE, PoolAddr, ProcessRecord, THREAD_RUNNING, ThreadRecord, handshake::then_look, marks};
use motet_protocol::{Context, count, slab};

use crate::{
    alarm,
    call::cost,
    cpu::{Causes, Cpu},
    cputime::charge_core,
    crossing::{migration, stop_polling},
    death,
    due::{self, Below, free_garbage},
    extension, fpga, handover, mm, process, signal, trace,
    tree::process_of,
};
use block::block;
use call::{pause_outside, serve_remote_syscall, serve_syscall};
use fault::serve_fault;
use guests::serve_guests;
use idle::idle;
use interrupt::look;
use next::{Next, Running, next};
use preempt::interrupted;
use resume::{Resume, resume, runs_program};

/// Runs threads on this core for ever.
pub fn core_loop<M: Machine>(cpu: &Cpu<M>) -> ! {
    cpu.own.state.store(CORE_AWAKE, Ordering::Release);
    then_look();
    let serve = |frame, address| cpu.stacked.occupied(|| stores::serve_quickly(cpu, frame, address));
    cpu.machine.serve_stores(serve, || run_threads(cpu))
}

fn run_threads<M: Machine>(cpu: &Cpu<M>) -> ! {
    loop {
        match next(cpu, Running::Nobody) {
            Next::Function(arrival) => migration::run(cpu, arrival),
            Next::Thread(thread, Some(trap)) => run_thread_from(cpu, thread, Some(trap)),
            Next::Thread(thread, None) | Next::Guest(thread) | Next::Urgent(thread) => {
                run_thread(cpu, thread);
                // Thread after thread may end here, without any user code; and one may wait that has taken interrupts. A core that goes from program to program
                // is idle, and looks otherwise, only now and then.
                if cpu.spend(ENDED) || cpu.is_due(Causes::INTERRUPTS.union(Causes::OWNERS)) || slab::has_retired(cpu) {
                    look(cpu);
                }
            }
            Next::First | Next::Nothing | Next::Undecided => idle(cpu),
        }
    }
}

/// What a thread costs that runs only to end.
const ENDED: u64 = 5 * cost::OBJECT;

/// Runs a thread that belongs to this core, until it no longer does.
pub fn run_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    run_thread_from(cpu, thread, None);
}

/// As [`run_thread`]; `first`: what it has stopped at already, on a hidden hart.
fn run_thread_from<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, first: Option<Trap>) {
    stop_polling(cpu);
    let core = cpu.own;
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    take_over(cpu, thread);
    if first.is_some() {
        thread.moves.away.store(0, Ordering::Release);
    }
    if thread.stage.get().ends() {
        thread.charged_at_ns.set(cpu.now_ns());
        return process::exit::go_on(cpu, thread, process);
    }
    if registers::frame_isa(&thread.frame) != M::ISA {
        return death::end_thread(cpu, thread, process);
    }
    let started_ns = begin(cpu, thread, process);
    if mm::activate(cpu, mm::space_of(cpu, process)).is_ok() {
        handover::take_ext(cpu, thread);
        extension::take(cpu, thread);
        alarm::program_timer(cpu, started_ns);
        thread.charged_at_ns.set(started_ns);
        let first = first.filter(|trap| {
            // Hidden harts do not have it, either, unless it reads a counter.
            let is_illegal = matches!(trap, Trap::IllegalInstruction { .. });
            if is_illegal && !(counters::are_hidden(cpu) && counters::answer(cpu, thread, process, *trap)) {
                signal::exception(cpu, thread, *trap);
            }
            !is_illegal
        });
        run_until_gone(cpu, thread, process, first);
    } else {
        process::exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    }
    core.current_thread.store(0, Ordering::Relaxed);
    fpga::catch_up(cpu);
    trace::stop(cpu);
}

/// Records that this core has taken the thread.
#[inline(always)]
pub fn take_over<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Relaxed);
}

/// Records that a thread begins to run; returns the time.
#[inline(always)]
pub fn begin<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> u64 {
    then_look(); // at the attention word: whoever sets it looks whom to nudge afterwards
    count(&cpu.counters().context_switches);
    let started_ns = cpu.now_ns();
    charge_core(cpu, started_ns);
    trace::run(cpu, thread, process);
    started_ns
}

/// Goes on with a thread that this core has taken, and that is in the middle of running a guest: that needs no address space. Returns the time.
#[inline(always)]
pub fn begin_guest<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> u64 {
    M::mark::<{ marks::GUEST_NEXT }>();
    trace::stop(cpu);
    take_over(cpu, thread);
    let started_ns = begin(cpu, thread, process);
    if !mm::may_stay_active(cpu) {
        mm::deactivate(cpu);
    }
    handover::take_ext(cpu, thread);
    alarm::program_timer(cpu, started_ns);
    thread.charged_at_ns.set(started_ns);
    started_ns
}

/// Goes on with a thread that has come to this core by a direct call, at what it stopped at.
fn go_on<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, trap: Option<Trap>) {
    let process = process_of(cpu, thread);
    thread.charged_at_ns.set(cpu.now_ns());
    alarm::program_timer(cpu, thread.charged_at_ns.get());
    run_until_gone(cpu, thread, process, trap);
    cpu.own.current_thread.store(0, Ordering::Release);
}

/// Runs the thread until it no longer belongs to this core, and those that come in turn for it. `first`: what it has stopped at already.
fn run_until_gone<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    first: Option<Trap>,
) {
    let (mut thread, mut process, mut first) = (thread, process, first);
    loop {
        let trap = if first.is_none() && runs_program(thread) {
            cpu.pass();
            cpu.machine.run_user(&thread.frame)
        } else {
            match resume(cpu, thread, process, &mut first) {
                Resume::Program => continue,
                Resume::Call => Trap::Syscall,
                Resume::Away => {
                    cpu.pass();
                    let trap = cpu.machine.run_user(&thread.frame);
                    if !matches!(trap, Trap::Syscall) {
                        trap
                    } else if serve_remote_syscall(cpu, thread, process).is_some() {
                        continue;
                    } else {
                        return;
                    }
                }
                Resume::AwayCall if serve_remote_syscall(cpu, thread, process).is_some() => continue,
                Resume::AwayCall => return,
                Resume::Stopped(trap) => trap,
                Resume::Guest => match serve_guests(cpu, thread, process) {
                    Some(other) => {
                        (thread, process) = other;
                        continue;
                    }
                    None => return,
                },
                Resume::Garbage if free_garbage(cpu, thread) || pause_outside(cpu, thread).is_some() => continue,
                Resume::Turn(stage) if block(cpu, thread, stage).is_some() => continue,
                Resume::HandlerPage if page::wait_for_handler(cpu, thread, process).is_some() => continue,
                Resume::Garbage | Resume::Turn(_) | Resume::HandlerPage | Resume::Gone => return,
            }
        };
        if serve_trap(cpu, thread, process, trap).is_none() {
            // If it was handed to an idle core, another one mostly comes soon.
            match handed::next(cpu) {
                Some(other) => (thread, process) = other,
                None => return,
            }
        }
    }
}

/// Acts on what stopped the thread. `None`: it no longer belongs to this core.
#[inline(always)]
fn serve_trap<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    trap: Trap,
) -> Option<()> {
    match trap {
        Trap::Syscall => serve_syscall(cpu, thread, process),
        Trap::PageFault { address, access } => serve_fault(cpu, thread, process, address, access),
        Trap::Interrupt(interrupts) => serve_interrupt(cpu, thread, process, interrupts),
        Trap::IllegalInstruction { word } => {
            if extension::goes_again(cpu, thread, process, word) {
                return None;
            }
            if counters::are_hidden(cpu) && counters::answer(cpu, thread, process, trap) {
                return Some(());
            }
            extension::illegal(cpu, thread, process, word)
        }
        trap @ (Trap::Breakpoint | Trap::Arithmetic | Trap::Misaligned { .. } | Trap::BadAddress { .. }) => {
            if !(counters::are_hidden(cpu) && counters::answer(cpu, thread, process, trap)) {
                signal::exception(cpu, thread, trap);
            }
            Some(())
        }
        Trap::Guest(trap) => unreachable!("a thread that is no guest stopped as one: {trap:?}"),
    }
}

/// Serves an interrupt that came while the thread's program ran. `None`: the thread has given up the core.
#[cold]
#[inline(never)]
fn serve_interrupt<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    interrupts: Interrupts,
) -> Option<()> {
    cpu.due.defer(interrupts);
    cpu.due.renew_budget(); // user code ran
    due::run_urgent(cpu, Below::Nothing, cpu.now_ns());
    if interrupts != Interrupts::EMPTY && !cpu.due.has_deferred() {
        return Some(());
    }
    match next(cpu, Running::Program(thread, process)) {
        Next::Nothing => Some(()),
        Next::First => None,
        // Nobody else is chosen where a program runs.
        Next::Undecided | Next::Thread(..) | Next::Function(_) | Next::Guest(_) | Next::Urgent(_) => {
            (!interrupted(cpu, thread, cpu.due.take_deferred())).then_some(())
        }
    }
}
