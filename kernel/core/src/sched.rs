//! A core's life: pick a thread, run it until it blocks, exits, moves or has used up its slice.

use core::{
    cell::Cell,
    sync::atomic::{Ordering, fence},
};

use motet_abi::registers;
use motet_hal::{Access, Interrupts, Machine, Trap};
use motet_layout::{
    CALL_PAUSED, CALL_WAITED, CORE_AWAKE, CoreId, InodeRecord, PoolAddr, ProcessRecord, THREAD_ENDS, THREAD_READY,
    THREAD_RUNNING, TIMER_ALARM, TIMER_WAIT, ThreadRecord, TimerNode, WAKE_EVENT, WAKE_NONE, WAKE_TIMEOUT, marks,
};
use motet_protocol::{
    Context,
    cores::core_record,
    count, far, fs, ready, run_queue, shootdown, timer,
    trace::{End, Kind},
    wait,
};

use crate::{
    balance,
    call::{BUDGET, Call, Stop, cost},
    counters,
    cpu::Cpu,
    crossing::{self, Fetch, make_returned_ready, migration, stop_polling},
    extension, file,
    idle::idle,
    lost, mm,
    process::{self, limits},
    signal::{self, Attention},
    syscall, time, trace,
};

/// Longest time a thread runs while another waits for its core.
const SLICE_NS: u64 = 10_000_000;

/// Runs threads on this core for ever.
pub fn core_loop<M: Machine>(cpu: &Cpu<M>) -> ! {
    cpu.own.state.store(CORE_AWAKE, Ordering::SeqCst);
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
    let interrupts = if cpu.timed { with_alarm(cpu, interrupts, cpu.now_ns()) } else { interrupts };
    if interrupts.contains(Interrupts::TIMER) {
        cpu.timer_ns.set(u64::MAX);
    }
    interrupts
}

/// Hands a thread that this core has set up (new, or moved by exec or affinity) to `target`.
pub fn start_on<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    carry(cpu, thread, target);
    if target == cpu.id { run_queue::append(cpu, thread) } else { run_queue::push(cpu, thread, target) }
}

/// As [`start_on`], to another core, on which the thread counts already (`run_queue::reserve`).
pub fn start_reserved<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    carry(cpu, thread, target);
    run_queue::push_reserved(cpu, thread, target);
}

/// A thread that this core has is about to be handed to `target`.
fn carry<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    // First that it is on its way: should this core die, it is found by that.
    thread.state.store(run_queue::carried_by(cpu.id), Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::Release);
    trace::start(cpu, thread, target);
    if target.island() != cpu.island() {
        count(&cpu.counters().foreign_wakeups);
        count(&cpu.pool.header().islands[target.island().index()].counters.arrivals);
    }
}

/// Stores the extended registers of the thread that runs here.
pub fn save_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    extension::writes(cpu, thread, || cpu.machine.save_ext(&thread.frame));
}

/// The thread's saved extended registers were changed: load them before it runs.
pub fn reload_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    cpu.machine.load_ext(&thread.frame);
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
    thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    core.current_thread.store(cpu.raw(thread), Ordering::Relaxed);
    if first.is_some() {
        thread.moves.away.store(0, Ordering::SeqCst);
    }
    if thread.in_syscall.get() == THREAD_ENDS {
        thread.charged_at_ns.set(cpu.now_ns());
        return process::exit::go_on(cpu, thread, process);
    }
    if registers::frame_isa(&thread.frame) != M::ISA {
        return lost::end_thread(cpu, thread, process);
    }
    // Then look at the attention word: whoever sets it looks whom to nudge afterwards.
    fence(Ordering::SeqCst);
    count(&cpu.counters().context_switches);
    let started_ns = cpu.now_ns();
    charge_core(cpu, started_ns);
    trace::run(cpu, thread, process);
    if mm::activate(cpu, mm::space_of(cpu, process)).is_ok() {
        take_ext(cpu, thread);
        extension::take(cpu, thread);
        program_timer(cpu, started_ns);
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
    trace::stop(cpu);
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
    program_timer(cpu, thread.charged_at_ns.get());
    run_until_gone(cpu, thread, process, trap);
    cpu.own.current_thread.store(0, Ordering::SeqCst);
}

/// Runs the thread until it no longer belongs to this core. `first`: what it has stopped at already.
fn run_until_gone<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    first: Option<Trap>,
) {
    let mut first = first;
    loop {
        let trap = match first.take() {
            Some(trap) => trap,
            None => {
                let mut in_syscall = thread.in_syscall.get() != 0;
                if in_syscall {
                    wait::finish(cpu, thread);
                    timer::disarm(cpu, &thread.timer);
                }
                // What the thread was woken for may be there: the call ends with it, and not with a signal that came as well.
                let has_come = in_syscall && thread.wake_reason.load(Ordering::Relaxed) == WAKE_EVENT;
                if has_come {
                    thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
                } else if thread.attention.load(Ordering::Relaxed) != 0 {
                    if let Attention::Gone = signal::attend(cpu, thread, process) {
                        return;
                    }
                    in_syscall = thread.in_syscall.get() != 0; // a handler ends the call
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
    if let Err(errno) = mm::serve_fault(cpu, mm::space_of(cpu, process), address, access) {
        signal::memory_fault(cpu, thread, address, errno);
    }
    Some(())
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
    let result = match syscall::dispatch(&call, registers::syscall_number_of(M::ISA, &thread.frame)) {
        Ok(value) => value as i64,
        Err(Stop::Error(errno)) => errno.result(),
        Err(Stop::Block) => return block(cpu, thread),
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
    }
}

/// Blocks the thread, which has prepared to wait. `None`: it is blocked, and may already run elsewhere.
fn block<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    thread.in_syscall.set(CALL_WAITED);
    save_ext(cpu, thread);
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
    cpu.own.current_thread.store(0, Ordering::SeqCst);
    if wait::commit(thread) {
        cpu.tracer.will_end(End::Blocked);
        return None;
    }
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::SeqCst);
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
        if interrupts.contains(Interrupts::TIMER) && run_queue::has_ready(cpu.own) {
            set_timer(cpu, now_ns);
        } else {
            program_timer(cpu, now_ns);
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
            set_timer(cpu, now_ns);
        }
    }
    cpu.relax();
    let has_expired = Cell::new(true);
    while has_expired.take() {
        timer::expire_first(cpu, now_ns, |node| {
            let is_wait = node.kind.get() != TIMER_ALARM;
            has_expired.set(is_wait);
            is_wait && expire_wait(cpu, node)
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
        set_timer(cpu, cpu.now_ns());
    }
    let is_asked = shootdown::is_asked(cpu);
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
    let interrupts = take_interrupts(cpu, interrupts);
    if interrupts.contains(Interrupts::TIMER) {
        limits::check_cpu_time(cpu, thread);
    }
    if extension::away::has_come(cpu) {
        if interrupts.contains(Interrupts::TIMER) && cpu.own.first_come.get() == 0 {
            yield_core(cpu, thread);
        } else {
            make_way(cpu, thread);
        }
        return true;
    }
    if interrupts.contains(Interrupts::TIMER) {
        if extension::end_slice(cpu, thread) {
            return true;
        }
        if run_queue::has_ready(cpu.own) && cpu.own.first_come.get() == 0 {
            if !balance::share(cpu, thread) {
                yield_core(cpu, thread);
            }
            return true;
        }
    } else if extension::gives_way(cpu, thread) {
        return true;
    }
    program_timer(cpu, cpu.now_ns());
    false
}

/// An interrupt while a called function ran.
pub fn interrupted_call<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    take_interrupts(cpu, interrupts);
    set_timer(cpu, timer::next_deadline_ns(cpu));
}

/// Acts on interrupts that were taken while user code ran; says which there were.
fn take_interrupts<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) -> Interrupts {
    if cpu.timed && interrupts.contains(Interrupts::DOORBELL) {
        // Rung for while awake: it wakes nobody.
        let core = cpu.own;
        core.rung_at_ns.store(0, Ordering::Relaxed);
        core.written_at_ns.store(0, Ordering::Relaxed);
    }
    let now_ns = cpu.now_ns();
    cpu.steer_clock(now_ns);
    let interrupts = with_alarm(cpu, interrupts, now_ns);
    handle_interrupts(cpu, interrupts);
    make_returned_ready(cpu);
    interrupts
}

/// Puts the running thread behind all others that wait for this core. The caller leaves it alone afterwards.
pub fn yield_core<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    save_ext(cpu, thread);
    charge(cpu, thread);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    cpu.tracer.will_end(End::Yielded);
    run_queue::append_last(cpu, thread);
}

/// As [`yield_core`], but the thread keeps its turn.
fn make_way<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    save_ext(cpu, thread);
    charge(cpu, thread);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    cpu.tracer.will_end(End::Yielded);
    run_queue::append(cpu, thread);
}

/// Puts a thread that ends, and that something else is more urgent than, back among the ready ones.
pub fn put_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let interrupts = take_interrupts(cpu, cpu.deferred.replace(Interrupts::EMPTY));
    reprogram_timer(cpu);
    charge(cpu, thread);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    if interrupts.contains(Interrupts::TIMER) {
        run_queue::append_last(cpu, thread);
    } else {
        run_queue::append(cpu, thread);
    }
}

/// Moves the running thread, whose call has ended, to another core of its ISA. The caller leaves it alone afterwards.
pub fn leave_for<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    end_call(thread);
    move_to(cpu, thread, target);
}

/// Moves the running thread to another core of its ISA. The caller leaves it alone afterwards.
pub fn move_to<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    part_with(cpu, thread);
    start_on(cpu, thread, target);
}

/// As [`move_to`], where the thread counts already (`run_queue::reserve`).
pub fn move_to_reserved<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    part_with(cpu, thread);
    start_reserved(cpu, thread, target);
}

/// This core is about to hand the thread that runs here to another core of its ISA, from which it may come back soon: its address space
/// stays active while this core sleeps.
fn part_with<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    save_ext(cpu, thread);
    charge(cpu, thread);
    cpu.crossing.resident.set(cpu.active_space.get());
    cpu.own.current_thread.store(0, Ordering::SeqCst);
}

/// Moves the running thread to the core that has what it needs and least to do; which one. The caller leaves it alone afterwards.
pub fn move_to_able<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> CoreId {
    part_with(cpu, thread);
    // Chosen last: what is seen of the others' loads is to be true still when the thread comes.
    match extension::reserve_least_loaded(cpu, thread) {
        Some(target) if target != cpu.id => {
            start_reserved(cpu, thread, target);
            target
        }
        none => {
            // Those that there were have died since: here it finds out.
            none.into_iter().for_each(|own| run_queue::unreserve(cpu, own));
            start_on(cpu, thread, cpu.id);
            cpu.id
        }
    }
}

/// Gives the running thread, whose frame is that of another ISA now, to a core of that ISA. The caller leaves it alone
/// afterwards.
pub fn hand_to<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    thread.ext_core.set(0);
    cpu.ext_owner.set((0, 0));
    charge(cpu, thread);
    cpu.own.current_thread.store(0, Ordering::SeqCst);
    start_on(cpu, thread, target);
}

/// Timed machines have no timer interrupt: the simulator rings the core when its time comes.
pub fn with_alarm<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts, now_ns: u64) -> Interrupts {
    let timer_ns = cpu.timer_ns.get();
    let due = cpu.timed && timer_ns != u64::MAX && now_ns >= timer_ns;
    if due { interrupts.union(Interrupts::TIMER) } else { interrupts }
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
    expire_timers(cpu);
}

#[inline(never)]
fn act_on<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) {
    if interrupts.contains(Interrupts::TIMER) {
        cpu.timer_ns.set(u64::MAX);
    }
    if interrupts.contains(Interrupts::DOORBELL) {
        count(&cpu.counters().doorbells_taken);
        trace::about_core(cpu, Kind::Rung, cpu.id);
        if cpu.id.index() == 0 {
            file::host_rang(cpu);
            lost::bury(cpu);
        }
        if cpu.crossing.migrates || !cpu.timed || cpu.uncached {
            act_on_engines(cpu);
        }
        file::service::rung(cpu);
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

#[inline(always)]
fn expire_timers<M: Machine>(cpu: &Cpu<M>) {
    if timer::next_deadline_ns(cpu) != u64::MAX {
        expire_all(cpu);
    }
}

#[inline(never)]
fn expire_all<M: Machine>(cpu: &Cpu<M>) {
    // One moment for all, so that a short interval armed again does not keep the core here.
    let now_ns = cpu.now_ns();
    while let Some(node) = timer::expire_first(cpu, now_ns, |node| expire_wait(cpu, node)) {
        if node.kind.get() == TIMER_ALARM {
            time::alarm_expired(cpu);
        }
    }
}

/// The timer of a wait wakes its thread. `false`: it is no such timer, and stays armed.
fn expire_wait<M: Machine>(cpu: &Cpu<M>, node: &'static TimerNode) -> bool {
    match node.kind.get() {
        TIMER_WAIT => {
            if let Some(thread) = cpu.pool.get::<ThreadRecord>(PoolAddr(node.owner.get())) {
                wait::wake_thread(cpu, thread, WAKE_TIMEOUT);
            }
            true
        }
        TIMER_ALARM => false,
        other => {
            cpu.log(format_args!("a timer of unknown kind {other} is dropped: its record is damaged"));
            true
        }
    }
}

/// Sets the timer for the earliest deadline or the end of the slice.
fn program_timer<M: Machine>(cpu: &Cpu<M>, now_ns: u64) {
    // A thread may become ready without a doorbell while this one runs, so the slice is always limited.
    let deadline_ns = timer::next_deadline_ns(cpu).min(now_ns + SLICE_NS);
    set_timer_at(cpu, deadline_ns.min(crossing::gives_up_at(cpu, now_ns)), || now_ns);
}

/// This core goes on with a thread after a sleep that has ended just now: sets the timer as for a thread that begins to run.
pub fn begin_slice<M: Machine>(cpu: &Cpu<M>) {
    set_timer_exactly(cpu, timer::next_deadline_ns(cpu).min(cpu.busy_since_ns.get() + SLICE_NS));
}

/// A timer was armed on this core while a thread runs: lets its deadline interrupt.
pub fn reprogram_timer<M: Machine>(cpu: &Cpu<M>) {
    program_timer(cpu, cpu.now_ns());
}

pub fn set_timer<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    set_timer_at(cpu, deadline_ns, || cpu.now_ns());
}

/// As [`set_timer`], where the caller may know the time already.
#[inline(always)]
pub fn set_timer_at<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64, now_ns: impl FnOnce() -> u64) {
    let programmed = cpu.timer_ns.get();
    let offset_ns = cpu.clock.offset_ns();
    // The clock may have been moved since.
    let is_right = cpu.timer_offset_ns.get() == offset_ns;
    // An interrupt that comes too early is harmless; reprogramming costs more.
    if is_right && programmed <= deadline_ns && deadline_ns != u64::MAX && programmed > now_ns() {
        return;
    }
    if programmed != deadline_ns || !is_right {
        if cpu.timed {
            return set_alarm(cpu, deadline_ns);
        }
        cpu.timer_ns.set(deadline_ns);
        cpu.timer_offset_ns.set(offset_ns);
        let local = if deadline_ns == u64::MAX { u64::MAX } else { deadline_ns.wrapping_sub(offset_ns) };
        cpu.machine.set_timer(local);
    }
}

/// As [`set_timer`], but not earlier: an early alarm would end a sleep.
#[inline(always)]
pub fn set_timer_exactly<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    if cpu.timed {
        return set_alarm(cpu, deadline_ns);
    }
    cpu.timer_ns.set(u64::MAX);
    set_timer(cpu, deadline_ns);
}

/// Timed machines: sets when the simulator rings this core.
fn set_alarm<M: Machine>(cpu: &Cpu<M>, deadline_ns: u64) {
    cpu.timer_ns.set(deadline_ns);
    cpu.own.alarm_ns.store(deadline_ns, Ordering::Relaxed);
}

/// Loads the thread's extended registers unless this core still holds them.
fn take_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let owner = (cpu.raw(thread), thread.tid.get());
    let here = u32::from(cpu.id.0) + 1;
    if cpu.ext_owner.get() != owner || thread.ext_core.get() != here {
        extension::before_load(cpu);
        cpu.machine.load_ext(&thread.frame);
        cpu.ext_owner.set(owner);
        thread.ext_core.set(here);
    }
}

/// Makes the core that runs `thread` look at its attention word soon.
pub fn nudge<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let Some(core) = CoreId::from_raw(thread.core.load(Ordering::Relaxed)) else { return };
    let record = core_record(cpu, core);
    if core == cpu.id {
        extension::away::call_home(cpu, thread);
        return;
    }
    let called = record.current_thread.load(Ordering::SeqCst) != cpu.raw(thread);
    let is_away = thread.moves.away.load(Ordering::SeqCst) != 0;
    if called && !is_away && !crossing::mark_called(cpu, core, thread) {
        return;
    }
    count(&cpu.counters().doorbells_rung);
    cpu.ring(core);
}

/// `sched_yield()`.
pub fn sched_yield<M: Machine>(call: &Call<M>) -> Result<u64, Stop> {
    if run_queue::has_ready(call.cpu.own) {
        registers::set_result(&call.thread.frame, 0);
        end_call(call.thread);
        yield_core(call.cpu, call.thread);
        return Err(Stop::Gone);
    }
    Ok(0)
}
