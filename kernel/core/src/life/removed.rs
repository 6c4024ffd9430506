//! This core is out of use (hot removal): it gives its threads away, and sleeps until it is asked back.
//!
//! A core that has been asked to leave does so between two threads, or when an interrupt stops a thread: it holds no lock there. Until it comes back it
//! sleeps here and serves interrupts (its island's devices, input), but runs no user code.
//!
//! Protocol page: `docs/protocols/hotplug.md`.

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::{Interrupts, Machine};
use motet_layout::{ProcessRecord, ThreadRecord};
use motet_protocol::{
    Context,
    cores::cores_in,
    hotplug, ready,
    run_queue::{self, Reserved},
    threads, timer,
    trace::Kind,
    wait,
};

use super::interrupt::take_interrupts;
use crate::{
    ability, alarm, call::cost, console, cpu::Cpu, cputime::charge_core, crossing, due, extension, handover, mm, trace,
    tree,
};

/// After so many threads that were given away the core looks whether anybody waits for it.
const GIVEN_AT_ONCE: u32 = 32;

/// Gives the interrupted thread to another core, because this core has been asked to leave, and stays out until it is asked back.
#[cold]
pub fn leave_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    handover::make_way(cpu, thread);
    cpu.own.current_thread.store(0, Ordering::Release);
    stay_out(cpu);
}

/// Gives away all threads that this core has, and sleeps until the core is asked back. It holds no lock and runs no thread.
#[cold]
pub fn stay_out<M: Machine>(cpu: &Cpu<M>) {
    trace::stop(cpu);
    // Who has results for its threads rings it from now on.
    crossing::stop_polling(cpu);
    cpu.crossing.keep_resident(0);
    mm::deactivate(cpu);
    hotplug::leave(cpu);
    give_all(cpu);
    widen_masks(cpu);
    wait::wake(cpu, &cpu.pool.header().core_waiters);
    let mut interrupts = Interrupts::EMPTY;
    loop {
        take_interrupts(cpu, interrupts.union(cpu.due.take_deferred()));
        give_all(cpu);
        cpu.pass();
        if !hotplug::is_asked(cpu) {
            break;
        }
        interrupts = sleep(cpu);
    }
    hotplug::come_back(cpu);
    cpu.pass();
    wait::wake(cpu, &cpu.pool.header().core_waiters);
}

/// Sleeps until it is rung, unless there is something to give away.
fn sleep<M: Machine>(cpu: &Cpu<M>) -> Interrupts {
    charge_core(cpu, cpu.now_ns());
    alarm::set_timer(cpu, timer::next_deadline_ns(cpu));
    let mut interrupts = Interrupts::EMPTY;
    if hotplug::may_sleep(cpu) {
        trace::about_core(cpu, Kind::Sleep, cpu.id);
        interrupts = cpu.machine.wait_for_interrupt();
        if cpu.is_timed() {
            cpu.machine.note_wake();
        }
        trace::about_core(cpu, Kind::Awake, cpu.id);
    }
    let now_ns = cpu.now_ns();
    cpu.steer_clock(now_ns);
    cpu.cputime.woke(now_ns);
    alarm::with_alarm(cpu, interrupts, now_ns)
}

/// Gives threads and timers of this core, which is out, to others, unless it is asked back: should the others of its island have left meanwhile, there may be
/// nobody else to take them.
fn give_all<M: Machine>(cpu: &Cpu<M>) {
    extension::hidden::take_all_home(cpu);
    crossing::make_returned_ready(cpu);
    let mut given = 0_u32;
    while hotplug::is_asked(cpu) && run_queue::has_ready(cpu.own) {
        run_queue::collect(cpu);
        if let Some(thread) = ready::take(cpu, cpu.own) {
            give(cpu, thread);
        }
        given += 1;
        if given % GIVEN_AT_ONCE == 0 {
            cpu.pass();
        }
    }
    if hotplug::is_asked(cpu) && timer::next_deadline_ns(cpu) != u64::MAX {
        let target = run_queue::least_loaded(cpu, cpu.island(), [u64::MAX; 2]);
        timer::move_all(cpu, target);
        // It may sleep until a later deadline.
        cpu.ring(target);
    }
}

/// Gives a thread that is ready here, and whose registers are stored, to another core.
fn give<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.displaced.set(thread.displaced.get() + 1);
    let target = choose(cpu, thread);
    if target.core() == cpu.id {
        // The last other one has been asked back, or this one would not have been asked to leave, and is not back yet.
        cpu.relax();
    }
    handover::start_reserved(cpu, thread, target);
}

/// The core that a thread of this one, which is out, goes to: one that it may run on and that has what it needs; else, one that it may run on, where it
/// learns what is missing when it needs that; else any, and its mask is widened.
fn choose<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Reserved {
    let near = || run_queue::count_on(cpu, run_queue::least_loaded(cpu, cpu.island(), run_queue::cores_of(thread)));
    if registers::frame_isa(&thread.frame) != M::ISA {
        return near(); // of an island that has died: it ends where it runs
    }
    if let Some(able) = ability::reserve_least_loaded(cpu, thread) {
        return able;
    }
    if is_nowhere(cpu, thread) {
        let _tree = tree::lock_tree(cpu);
        widen_mask(cpu, thread);
    }
    ability::need_nothing(cpu, thread);
    ability::reserve_least_loaded(cpu, thread).unwrap_or_else(near)
}

/// Widens the masks of all threads that may run on no core that is in use, those that wait as well.
fn widen_masks<M: Machine>(cpu: &Cpu<M>) {
    let _tree = tree::lock_tree(cpu);
    for thread in threads::all(cpu) {
        widen_mask(cpu, thread);
        due::spend_locked(cpu, cost::OBJECT);
    }
}

/// Whether a thread's mask has no core that is in use.
fn is_nowhere<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    !cores_in(ability::affinity(thread)).any(|core| run_queue::is_online(cpu, core))
}

/// Lets a thread run on all cores if it may run on none that is in use. As Linux, it says so. The tree lock is held, under which masks change.
fn widen_mask<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if !is_nowhere(cpu, thread) {
        return;
    }
    for word in &thread.affinity {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    let process: &ProcessRecord = tree::process_of(cpu, thread);
    let (pid, tid, core) = (process.pid.get(), thread.tid.get(), cpu.id.index());
    let why = format_args!("cpu{core}, the last one of its affinity mask, is taken out");
    console::kernel_message(cpu, format_args!("thread {tid} of process {pid} may run on all cores now: {why}"));
}
