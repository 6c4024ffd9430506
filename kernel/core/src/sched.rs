//! A core's life: pick a thread, run it until it blocks, exits, moves or has used up its slice.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_abi::{Errno, registers};
use motet_hal::{Access, Interrupts, Machine, Trap};
use motet_layout::{
    CALL_PAUSED, CALL_WAITED, CORE_AWAKE, InodeRecord, PoolAddr, ProcessRecord, STORE_WAITED, THREAD_ENDS,
    THREAD_RUNNING, TIMER_ALARM, TIMER_WAIT, TURN_WAITED, ThreadRecord, WAKE_EVENT, WAKE_NONE, handshake::then_look,
    marks,
};
use motet_protocol::{
    Context, count, far, fs, hand, ready, run_queue, shootdown, timer,
    trace::{End, Kind},
    wait,
};

use crate::{
    alarm, balance,
    call::{BUDGET, Call, Stop, SysResult, cost},
    counters,
    cpu::Cpu,
    crossing::{self, Fetch, make_returned_ready, migration, stop_polling},
    extension, file, handover, hotplug,
    idle::idle,
    lost, mm,
    process::{self, limits},
    realtime::{self, Tick},
    signal::{self, Attention},
    syscall, trace,
    turn::{self, Turn},
    vm,
};

/// Runs threads on this core for ever.
pub fn core_loop<M: Machine>(cpu: &Cpu<M>) -> ! {
    cpu.own.state.store(CORE_AWAKE, Ordering::Release);
    then_look();
    loop {
        if cpu.crossing.migrates && migration::run(cpu) {
            continue;
        }
        if cpu.crossing.woken.get().is_none() && extension::away::go_on(cpu) {
            continue;
        }
        // Who has been woken may have been called, and answers first.
        match cpu.crossing.woken.get().map_or_else(|| run_queue::next(cpu), |_| None) {
            Some(thread) => {
                run_thread(cpu, thread);
                // Thread after thread may end here, without any user code; and one may wait that has taken interrupts.
                if cpu.spend(ENDED) || cpu.deferred.get() != Interrupts::EMPTY {
                    look(cpu);
                }
            }
            None => idle(cpu),
        }
    }
}

/// What a thread costs that runs only to end.
const ENDED: u64 = 5 * cost::OBJECT;

/// Takes interrupts between two threads.
#[cold]
fn look<M: Machine>(cpu: &Cpu<M>) {
    begin_budget(cpu);
    let interrupts = poll(cpu).union(cpu.deferred.replace(Interrupts::EMPTY));
    if interrupts != Interrupts::EMPTY {
        take_interrupts(cpu, interrupts);
    }
    cpu.pass();
}

fn begin_budget<M: Machine>(cpu: &Cpu<M>) {
    cpu.budget.set(BUDGET);
    M::mark::<{ marks::LOOK }>();
}

/// Takes interrupts in the middle of a call. Who keeps a timer's for later sets the timer again.
fn poll<M: Machine>(cpu: &Cpu<M>) -> Interrupts {
    let interrupts = cpu.machine.poll_interrupts();
    let interrupts = if cpu.timed { alarm::with_alarm(cpu, interrupts, cpu.now_ns()) } else { interrupts };
    if interrupts.contains(Interrupts::TIMER) {
        cpu.timer_ns.set(u64::MAX);
    }
    interrupts
}

/// Runs a thread that this core has, until it no longer does.
pub fn run_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    run_thread_from(cpu, thread, None);
}

/// As [`run_thread`]; `first`: what it has stopped at already, on a hidden hart.
pub fn run_thread_from<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, first: Option<Trap>) {
    stop_polling(cpu);
    let core = cpu.own;
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    take_over(cpu, thread);
    if first.is_some() {
        thread.moves.away.store(0, Ordering::Release);
    }
    if thread.in_syscall.get() == THREAD_ENDS {
        thread.charged_at_ns.set(cpu.now_ns());
        return process::exit::go_on(cpu, thread, process);
    }
    if registers::frame_isa(&thread.frame) != M::ISA {
        return lost::end_thread(cpu, thread, process);
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
            if is_illegal && !(cpu.timed && counters::answer(cpu, thread, process, *trap)) {
                signal::exception(cpu, thread, *trap);
            }
            !is_illegal
        });
        run_until_gone(cpu, thread, process, first);
    } else {
        process::exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    }
    core.current_thread.store(0, Ordering::Relaxed);
    file::accel::catch_up(cpu);
    trace::stop(cpu);
}

/// This core has taken a thread, and says so.
#[inline(always)]
fn take_over<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Relaxed);
}

/// A thread begins to run: when.
#[inline(always)]
fn begin<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> u64 {
    then_look(); // at the attention word: whoever sets it looks whom to nudge afterwards
    count(&cpu.counters().context_switches);
    let started_ns = cpu.now_ns();
    charge_core(cpu, started_ns);
    trace::run(cpu, thread, process);
    started_ns
}

/// Counts the time until now as busy, and the sleep before it as idle.
pub fn charge_core<M: Machine>(cpu: &Cpu<M>, now_ns: u64) {
    let busy_since_ns = cpu.busy_since_ns.replace(now_ns);
    let idle_ns = busy_since_ns.saturating_sub(cpu.idle_since_ns.replace(now_ns));
    cpu.own.idle_ns.set(cpu.own.idle_ns.get() + idle_ns);
    cpu.own.busy_ns.set(cpu.own.busy_ns.get() + now_ns.saturating_sub(busy_since_ns));
}

/// Goes on with a thread that has come to this core by a direct call, at what it stopped at.
pub fn go_on<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    trap: Option<Trap>,
) {
    thread.charged_at_ns.set(cpu.now_ns());
    alarm::program_timer(cpu, thread.charged_at_ns.get());
    run_until_gone(cpu, thread, process, trap);
    cpu.own.current_thread.store(0, Ordering::Release);
}

/// Runs the thread until it no longer belongs to this core. `first`: what it has stopped at already.
fn run_until_gone<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    first: Option<Trap>,
) {
    let (mut thread, mut process, mut first) = (thread, process, first);
    loop {
        let trap = match first.take() {
            Some(trap) => trap,
            None => {
                let mut in_syscall = thread.in_syscall.get() != 0;
                if in_syscall {
                    end_wait(cpu, thread);
                    if thread.in_syscall.get() & (STORE_WAITED | TURN_WAITED) != 0 {
                        turn::waited(thread);
                        in_syscall = thread.in_syscall.get() != 0;
                    }
                }
                // What the thread was woken for may be there: the call ends with it, and not with a signal that came as well.
                let has_come = in_syscall && thread.wake_reason.load(Ordering::Relaxed) == WAKE_EVENT;
                if has_come {
                    thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
                } else if thread.attention.load(Ordering::Relaxed) != 0 {
                    if realtime::gives_way(cpu, thread) {
                        return;
                    }
                    if let Attention::Gone = signal::attend(cpu, thread, process) {
                        return;
                    }
                    match turn::wait(cpu, thread) {
                        None => {}
                        Some(Turn::Again) => continue,
                        Some(Turn::Gone) => return,
                    }
                    in_syscall = thread.in_syscall.get() != 0; // a handler ends the call
                }
                if in_syscall && thread.guest.get() != 0 {
                    match serve_guests(cpu, thread, process) {
                        Some(other) => (thread, process) = other,
                        None => return,
                    }
                    continue;
                }
                if in_syscall {
                    Trap::Syscall
                } else if thread.garbage.get() != 0 {
                    let goes_on = free_garbage(cpu, thread) || pause_outside(cpu, thread).is_some();
                    if !goes_on {
                        return;
                    }
                    continue;
                } else {
                    cpu.pass();
                    cpu.machine.run_user(&thread.frame)
                }
            }
        };
        if serve_trap(cpu, thread, process, trap).is_none() {
            return;
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
        Trap::Interrupt(interrupts) => (!interrupted(cpu, thread, interrupts)).then_some(()),
        Trap::IllegalInstruction { word } => {
            if cpu.timed && counters::answer(cpu, thread, process, trap) {
                return Some(());
            }
            extension::illegal(cpu, thread, process, word)
        }
        trap @ (Trap::Breakpoint | Trap::Arithmetic | Trap::Misaligned { .. } | Trap::BadAddress { .. }) => {
            if !(cpu.timed && counters::answer(cpu, thread, process, trap)) {
                signal::exception(cpu, thread, trap);
            }
            Some(())
        }
        Trap::Guest(trap) => unreachable!("a thread that is no guest stopped as one: {trap:?}"),
    }
}

#[inline(always)]
fn serve_fault<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
    access: Access,
) -> Option<()> {
    if access == Access::Execute {
        match crossing::fetch(cpu, thread, process, address) {
            Fetch::Fault => {}
            Fetch::Run => {
                trace::run(cpu, thread, process);
                return Some(());
            }
            Fetch::Gone => return None,
        }
    }
    let space = mm::space_of(cpu, process);
    if access == Access::Write && mm::serve_store_to_registers(cpu, space, address) {
        return Some(());
    }
    match mm::serve_fault(cpu, space, address, access) {
        Ok(()) => Some(()),
        Err(Errno::EAGAIN) => wait_to_store(cpu, thread, process, address),
        Err(errno) => {
            signal::memory_fault(cpu, thread, address, errno);
            Some(())
        }
    }
}

/// A store to registers of the FPGA's that are not connected: it is executed again when they may be. `None`: the thread no longer belongs to this core.
#[cold]
fn wait_to_store<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
) -> Option<()> {
    match file::accel::ask(cpu, thread, mm::space_of(cpu, process), address) {
        Ok(true) => block(cpu, thread, STORE_WAITED),
        Ok(false) => Some(()),
        Err(errno) => {
            signal::memory_fault(cpu, thread, address, errno);
            Some(())
        }
    }
}

/// Dispatches the system call the thread is in. `None`: the thread no longer belongs to this core.
#[inline]
fn serve_syscall<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<()> {
    // A thread that runs here has this island's registers.
    debug_assert!(registers::frame_isa(&thread.frame) == M::ISA);
    let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
    count(&cpu.counters().syscalls);
    if thread.in_syscall.get() == 0 {
        cpu.budget.set(BUDGET); // user code ran
    }
    let result = syscall::dispatch(&call, registers::syscall_number_of(M::ISA, &thread.frame));
    assert!(!cfg!(motet_model) || hand::is_empty(cpu), "a system call has left a reference in hand");
    conclude(cpu, thread, process, result)
}

/// Goes on with the system call that makes the thread a core of a virtual machine; then with other such threads, as long as these are next
/// here: so guests follow each other without what programs need. Returns the one that something else is to be done for; `None`: no thread
/// belongs to this core any more.
#[inline(never)]
fn serve_guests<M: Machine>(
    cpu: &Cpu<M>,
    mut thread: &'static ThreadRecord,
    mut process: &'static ProcessRecord,
) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    loop {
        let call = Call { cpu, thread, process, args: registers::syscall_args_of(M::ISA, &thread.frame), isa: M::ISA };
        if conclude(cpu, thread, process, vm::go_on(&call)).is_some() {
            break;
        }
        (thread, process) = next_guest(cpu)?;
        if thread.attention.load(Ordering::Relaxed) != 0 {
            break;
        }
        end_wait(cpu, thread);
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    // Guests run whatever address space is active.
    if mm::activate(cpu, mm::space_of(cpu, process)).is_err() {
        process::exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
        return None;
    }
    Some((thread, process))
}

/// Takes the thread that is next on this core, if that is in the middle of running a guest, and this core has nothing else to do first.
#[inline(always)]
fn next_guest<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, &'static ProcessRecord)> {
    let is_due = cpu.deferred.get() != Interrupts::EMPTY
        || cpu.crossing.migrates
        || cpu.crossing.woken.get().is_some()
        || extension::away::has_come(cpu)
        || hotplug::is_asked(cpu)
        || cpu.budget.get() == 0;
    if is_due || !run_queue::first(cpu).is_some_and(vm::may_go_on) {
        return None;
    }
    cpu.own.current_thread.store(0, Ordering::Relaxed);
    file::accel::catch_up(cpu);
    trace::stop(cpu);
    let thread = run_queue::next(cpu)?;
    let process = process::process_of(cpu, thread);
    take_over(cpu, thread);
    let started_ns = begin(cpu, thread, process);
    if !mm::may_stay_active(cpu) {
        mm::deactivate(cpu);
    }
    handover::take_ext(cpu, thread);
    alarm::program_timer(cpu, started_ns);
    thread.charged_at_ns.set(started_ns);
    Some((thread, process))
}

/// The thread no longer waits, if it did.
#[inline(always)]
fn end_wait<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
}

/// A dispatch of a system call is over. `None`: the thread no longer belongs to this core.
#[inline(always)]
fn conclude<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    result: SysResult,
) -> Option<()> {
    let result = match result {
        Ok(value) => value as i64,
        Err(Stop::Error(errno)) => errno.result(),
        Err(Stop::Block) => {
            turn::sleeps(cpu, thread);
            return block(cpu, thread, CALL_WAITED);
        }
        Err(Stop::Again) => return pause(cpu, thread),
        Err(Stop::Replaced) => {
            end_call(thread);
            trace::run(cpu, thread, process);
            return Some(());
        }
        Err(Stop::Gone) => return None,
    };
    registers::set_result_of(M::ISA, &thread.frame, result);
    end_call(thread);
    Some(())
}

/// Forgets what the finished system call kept.
#[inline]
pub fn end_call(thread: &ThreadRecord) {
    if thread.in_syscall.get() != 0 || thread.progress.get() != 0 || thread.deadline_ns.get() != 0 {
        thread.in_syscall.set(0);
        thread.progress.set(0);
        thread.deadline_ns.set(0);
        for word in &thread.scratch {
            word.set(0);
        }
        if thread.looks_at_turn.get() != 0 {
            turn::call_ended(thread);
        }
    }
}

/// Blocks the thread, which has prepared to wait. `None`: it is blocked, and may already run elsewhere.
pub fn block<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, in_syscall: u32) -> Option<()> {
    thread.in_syscall.set(in_syscall);
    handover::save_ext(cpu, thread);
    charge(cpu, thread);
    if thread.deadline_ns.get() != 0 {
        thread.timer.kind.set(TIMER_WAIT);
        thread.timer.owner.set(cpu.raw(thread));
        timer::arm(cpu, &thread.timer, thread.deadline_ns.get());
    }
    // A signal sent before the thread prepared did not wake it; one sent after does.
    if thread.attention.load(Ordering::SeqCst) != 0 {
        return Some(());
    }
    cpu.own.current_thread.store(0, Ordering::Release);
    if wait::commit(thread) {
        cpu.tracer.will_end(End::Blocked);
        return None;
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
    then_look(); // at the attention word
    Some(())
}

/// Lets what is due be done before the call goes on. `None`: the thread has given up the core.
#[cold]
fn pause<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    let in_syscall = thread.in_syscall.get();
    if in_syscall & CALL_WAITED == 0 {
        // What has ended an earlier call's wait is not about this one.
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
    }
    thread.in_syscall.set(in_syscall | CALL_PAUSED);
    pause_outside(cpu, thread)
}

/// As [`pause`], where the thread is in no call.
fn pause_outside<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    let interrupts = cpu.deferred.replace(Interrupts::EMPTY);
    let is_gone = interrupts != Interrupts::EMPTY && interrupted(cpu, thread, interrupts);
    (!is_gone).then(|| cpu.pass())
}

/// The core's budget is used up in a call that cannot pause: does what is due, but for running other threads, which the timer then
/// asks for as soon as the call has ended.
#[cold]
pub fn serve_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if !is_anything_due(cpu, thread) {
        return;
    }
    if cpu.deferred.get() != Interrupts::EMPTY {
        let interrupts = take_interrupts(cpu, cpu.deferred.replace(Interrupts::EMPTY));
        let now_ns = cpu.now_ns();
        realtime::look_later(cpu, thread);
        if interrupts.contains(Interrupts::TIMER) && run_queue::has_ready(cpu.own) {
            alarm::set_timer(cpu, now_ns);
        } else {
            alarm::program_timer(cpu, now_ns);
        }
    }
    cpu.pass();
}

/// A piece of work is done under locks that cannot be given up before the rest is done; it has cost this much (`call::cost`).
/// Once the core's budget is used up it looks what is due, as far as that can be done now ([`serve_locked`]). No lock
/// is held that comes after wait queues in the order of locks (docs/protocols/lock.md).
#[inline(always)]
pub fn spend_locked<M: Machine>(cpu: &Cpu<M>, cost: u64) {
    if cpu.spend(cost) {
        serve_locked(cpu);
    }
}

/// Serves shoot-downs and wakes threads whose time has come. Other interrupts, and what wants the process tree (alarms), come
/// when the locks are free: the timer asks for that. Other threads of this core wait until then, too.
#[cold]
fn serve_locked<M: Machine>(cpu: &Cpu<M>) {
    begin_budget(cpu);
    let now_ns = cpu.now_ns();
    // Those that were taken before wait still, and the timer with them.
    if cpu.deferred.get() == Interrupts::EMPTY {
        let interrupts = poll(cpu);
        if interrupts != Interrupts::EMPTY {
            cpu.deferred.set(interrupts);
            alarm::set_timer(cpu, now_ns);
        }
    }
    cpu.relax();
    let has_expired = Cell::new(true);
    while has_expired.take() {
        timer::expire_first(cpu, now_ns, |node| {
            let is_wait = node.kind.get() != TIMER_ALARM;
            has_expired.set(is_wait);
            is_wait && alarm::expire_wait(cpu, node)
        });
    }
}

/// Frees large files that nobody uses any more because of what the thread has done. `false`: something else is due before all are.
#[cold]
pub fn free_garbage<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    while let Some(inode) = cpu.object::<InodeRecord>(thread.garbage.get()) {
        let next = inode.parent.load(Ordering::Relaxed);
        if fs::free_some(cpu, inode, BUDGET) {
            thread.garbage.set(next);
        }
        if cpu.spend(BUDGET) && is_anything_due(cpu, thread) {
            return false;
        }
    }
    true
}

/// The core's budget is used up: looks whether anything else is due than the call that the thread is in.
#[cold]
pub fn is_anything_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    begin_budget(cpu);
    let interrupts = poll(cpu);
    cpu.deferred.set(cpu.deferred.get().union(interrupts));
    if interrupts.contains(Interrupts::TIMER) {
        // A call may end now instead of pausing (a short read), and its thread then runs on: the slice ends nevertheless.
        alarm::set_timer(cpu, cpu.now_ns());
    }
    let is_asked = shootdown::is_asked(cpu);
    realtime::look_later(cpu, thread);
    is_asked || cpu.deferred.get() != Interrupts::EMPTY || thread.attention.load(Ordering::Relaxed) != 0
}

/// Charges the time since the thread was last charged; returns the time.
pub fn charge<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> u64 {
    let now = cpu.now_ns();
    let ran_ns = now.saturating_sub(thread.charged_at_ns.get());
    thread.user_ns.set(thread.user_ns.get() + ran_ns);
    thread.charged_at_ns.set(now);
    ready::charge(cpu.own, ran_ns);
    now
}

/// An interrupt while the thread ran. `true`: the thread has given up the core.
fn interrupted<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, interrupts: Interrupts) -> bool {
    cpu.looks_at_ready.set(true);
    let interrupts = take_interrupts(cpu, interrupts);
    cpu.looks_at_ready.set(false);
    if interrupts.contains(Interrupts::TIMER) {
        limits::check_cpu_time(cpu, thread);
    }
    if hotplug::is_asked(cpu) {
        hotplug::leave_thread(cpu, thread);
        return true;
    }
    if extension::away::has_come(cpu) {
        if interrupts.contains(Interrupts::TIMER) && cpu.own.first_come.get() == 0 {
            handover::yield_core(cpu, thread);
        } else {
            handover::make_way(cpu, thread);
        }
        return true;
    }
    if realtime::gives_way(cpu, thread) {
        return true;
    }
    if interrupts.contains(Interrupts::TIMER) {
        if extension::end_slice(cpu, thread) {
            return true;
        }
        if run_queue::has_ready(cpu.own) && cpu.own.first_come.get() == 0 {
            match realtime::end_tick(cpu, thread) {
                Tick::Yields if balance::share(cpu, thread) => {}
                Tick::Yields => handover::yield_core(cpu, thread),
                Tick::GoesOn => return false,
                Tick::Gone => {}
            }
            return true;
        }
    } else if extension::gives_way(cpu, thread) {
        return true;
    }
    alarm::program_timer(cpu, cpu.now_ns());
    false
}

/// An interrupt while a called function ran.
pub fn interrupted_call<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    take_interrupts(cpu, interrupts);
    alarm::set_timer(cpu, timer::next_deadline_ns(cpu));
}

/// Acts on interrupts that were taken while user code ran; says which there were.
pub fn take_interrupts<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) -> Interrupts {
    if cpu.timed && interrupts.contains(Interrupts::DOORBELL) {
        // Rung for while awake: it wakes nobody.
        let core = cpu.own;
        core.rung_at_ns.store(0, Ordering::Relaxed);
        core.written_at_ns.store(0, Ordering::Relaxed);
    }
    let now_ns = cpu.now_ns();
    cpu.steer_clock(now_ns);
    let interrupts = alarm::with_alarm(cpu, interrupts, now_ns);
    handle_interrupts(cpu, interrupts);
    make_returned_ready(cpu);
    interrupts
}

/// Acts on interrupts that were taken, now or before: expired timers, input for the console.
#[inline]
pub fn handle_interrupts<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    let interrupts = interrupts.union(cpu.deferred.replace(Interrupts::EMPTY));
    count(&cpu.counters().heartbeat);
    if interrupts != Interrupts::EMPTY {
        act_on(cpu, interrupts);
    }
    extension::away::look(cpu);
    alarm::expire_timers(cpu);
}

#[inline(never)]
fn act_on<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    if interrupts.contains(Interrupts::TIMER) {
        cpu.timer_ns.set(u64::MAX);
        file::accel::catch_up(cpu);
    }
    if interrupts.contains(Interrupts::DOORBELL) {
        count(&cpu.counters().doorbells_taken);
        trace::about_core(cpu, Kind::Rung, cpu.id);
        if cpu.id.index() == 0 {
            file::host_rang(cpu);
            lost::bury(cpu);
        }
        if cpu.machine.hidden_harts() != 0 && cpu.id.index_in_island() == 0 {
            hotplug::see_to_hidden_harts(cpu);
        }
        if cpu.crossing.migrates || !cpu.timed || cpu.uncached {
            act_on_engines(cpu);
        }
        file::service::rung(cpu);
        file::accel::rung(cpu);
    }
}

/// A doorbell may have been an engine's, or another island's over a link.
#[inline(never)]
fn act_on_engines<M: Machine>(cpu: &Cpu<M>) {
    if cpu.crossing.migrates {
        migration::come_home(cpu);
    }
    if !cpu.timed {
        file::dma::rung(cpu);
    }
    if cpu.uncached {
        far::give_back_withdrawn(cpu);
    }
}

/// `sched_yield()`.
pub fn sched_yield<M: Machine>(call: &Call<M>) -> Result<u64, Stop> {
    if run_queue::has_ready(call.cpu.own) {
        registers::set_result(&call.thread.frame, 0);
        end_call(call.thread);
        handover::yield_core(call.cpu, call.thread);
        return Err(Stop::Gone);
    }
    Ok(0)
}
