//! A core without a thread to run: it polls, sleeps, and is called or woken.

use core::sync::atomic::Ordering;

use motet_hal::{Interrupts, Machine};
use motet_layout::CORE_POLLING;
use motet_protocol::{memory, noncoherent, run_queue, run_queue::Wake, timer, trace::Kind};

use super::{go_on, interrupt::handle_interrupts, removed, run_thread};
use crate::{
    alarm::{set_timer, set_timer_at, set_timer_by, set_timer_exactly, with_alarm},
    cpu::{Causes, Cpu},
    cputime::charge_core,
    crossing, extension, fpga, hotplug, mm, peers, trace,
};

/// Waits until this core has something to do, and executes calls that other cores give it directly.
pub fn idle<M: Machine>(cpu: &Cpu<M>) {
    fpga::catch_up(cpu);
    debug_assert!(!cpu.handover.is_given(), "it was an earlier thread that was given to an idle core");
    if !cpu.is_due(Causes::WOKEN) {
        if cpu.crossing.resident() != cpu.mm.active() {
            mm::deactivate(cpu);
        }
        if peers::are_there(cpu) {
            // Nobody here is about to use a page that has come.
            peers::hold_no_longer(cpu);
        }
        handle_interrupts(cpu, Interrupts::EMPTY);
        if peers::are_there(cpu) && cpu.due.has_deferred() {
            // There are more messages, or some of this kernel's wait for room.
            cpu.pass();
            return;
        }
        if hotplug::is_asked(cpu) {
            return removed::stay_out(cpu);
        }
        if extension::hidden::has_come(cpu) {
            return;
        }
        if cpu.own.away.load(Ordering::Relaxed) != 0 {
            // Who has asked for a shoot-down waits for this core, though it sleeps.
            cpu.pass();
        }
        if cpu.crossing.migrates() && (crossing::migration::is_called(cpu) || run_queue::has_ready(cpu.own)) {
            return; // the doorbell that has just been taken was for that
        }
        // Time that nobody waits for: memory this island no longer needs goes back to all. Flick's scheduler does nothing but poll (section
        // IV-B): what keeps its part goes back when it no longer does.
        if !is_awaiting_migrations(cpu) {
            if !mm::return_slabs(cpu) {
                return;
            }
            memory::trim(cpu);
        }
        set_timer(cpu, timer::next_deadline_ns(cpu).min(extension::hidden::deadline_ns(cpu)));
        run_queue::announce_idle(cpu, cpu.idle_state());
    }
    loop {
        let wake = cpu.take_woken().unwrap_or_else(|| awake(cpu));
        cpu.pass();
        if is_awaiting_migrations(cpu) && crossing::migration::comes_first(cpu) {
            break;
        }
        // A call or a return goes first: what else a doorbell was for can wait until this core has answered, or is
        // interrupted, which a slice's end does at the latest.
        if cpu.due.deferred().contains(Interrupts::TIMER) {
            handle_interrupts(cpu, Interrupts::EMPTY);
        }
        let is_noncoherent = wake == Wake::CalledNoncoherent;
        if is_noncoherent && crossing::called_from_noncoherent(cpu) || wake == Wake::Called && crossing::called(cpu) {
            handle_deferred(cpu);
            let deadline_ns = timer::next_deadline_ns(cpu);
            // The end of polling comes soon, and would interrupt many calls.
            if cpu.is_polling() {
                set_timer(cpu, deadline_ns)
            } else {
                set_timer_by(cpu, deadline_ns)
            }
            // The call's doorbell may have been that of a result, too.
            if crossing::has_outcome(cpu) {
                cpu.has_woken(end_idle(cpu));
            }
            continue;
        }
        if let Some((thread, trap)) = crossing::take_left(cpu) {
            go_on(cpu, thread, trap);
        }
        // Nothing runs while a call may wait for an answer: the next sleep would forget it.
        let first = if cpu.is_due(Causes::WOKEN) { None } else { crossing::first_returned(cpu) };
        match first {
            Some(thread) => run_thread(cpu, thread),
            None => handle_interrupts(cpu, Interrupts::EMPTY),
        }
        break;
    }
    if !mm::may_stay_active(cpu) {
        mm::deactivate(cpu);
    }
}

/// Whether this core polls for functions that it is to run by Flick's protocol.
fn is_awaiting_migrations<M: Machine>(cpu: &Cpu<M>) -> bool {
    cpu.crossing.migrates() && cpu.is_polling()
}

/// Announces that this core is about to sleep, sleeps, and returns why it is awake again. The caller has to serve shoot-downs then.
#[inline(always)]
pub fn doze<M: Machine>(cpu: &Cpu<M>) -> Wake {
    debug_assert!(!cpu.is_due(Causes::WOKEN), "a call that this core was given is forgotten");
    trace::stop(cpu);
    handle_deferred(cpu);
    run_queue::announce_idle(cpu, cpu.idle_state());
    awake(cpu)
}

/// This core has announced that it is about to sleep: sleeps, and says why it is awake again. Interrupts wait in
/// [`Cpu::due`].
#[inline(always)]
fn awake<M: Machine>(cpu: &Cpu<M>) -> Wake {
    let interrupts = sleep(cpu);
    cpu.due.defer(interrupts);
    end_idle(cpu)
}

/// This core is awake: why.
#[inline(always)]
fn end_idle<M: Machine>(cpu: &Cpu<M>) -> Wake {
    if !cpu.crossing.reach().is_noncoherent() {
        return run_queue::end_idle(cpu);
    }
    match run_queue::end_idle_noncoherent(cpu, cpu.life.serves_next()) {
        Some(caller) => {
            cpu.life.has_served(caller.island());
            Wake::CalledNoncoherent
        }
        None => Wake::Look,
    }
}

/// Acts on interrupts that had to wait, if there were any.
#[inline(always)]
fn handle_deferred<M: Machine>(cpu: &Cpu<M>) {
    if cpu.due.has_deferred() {
        handle_interrupts(cpu, Interrupts::EMPTY);
    }
}

/// This core has announced that it is about to sleep: polls and sleeps until there is something to do. It reads the clock once before and
/// once after each wait: over links that costs as much as a look.
#[inline(always)]
fn sleep<M: Machine>(cpu: &Cpu<M>) -> Interrupts {
    let before_ns = cpu.now_ns();
    let mut now_ns = before_ns;
    charge_core(cpu, before_ns);
    let mut interrupts = Interrupts::EMPTY;
    let is_noncoherent = cpu.crossing.reach().is_noncoherent();
    if is_noncoherent && cpu.is_polling() {
        crossing::look_again(cpu);
    }
    // Who polls looks for calls there, as it may see one before it has arrived.
    let has_no_work =
        if is_noncoherent && cpu.is_polling() { run_queue::has_no_thread(cpu) } else { run_queue::is_quiet(cpu) };
    // Who has been asked to leave since it looked, or to pass, or has signals to send, does not sleep: the doorbell may have been taken.
    let quiet = has_no_work
        && mm::may_stay_active(cpu)
        && !cpu.is_due(Causes::LEAVES.union(Causes::SHOOTDOWN).union(Causes::OWNERS));
    let gives_up_ns = if is_noncoherent { before_sleep(cpu, before_ns, quiet) } else { u64::MAX };
    if quiet {
        let found_at_ns = if cpu.is_polling() { poll(cpu, before_ns, gives_up_ns, &mut interrupts) } else { None };
        // No closure: that would be a function of its own on the way of every call.
        now_ns = match found_at_ns {
            Some(found_at_ns) => found_at_ns,
            None => {
                trace::about_core(cpu, Kind::Sleep, cpu.id);
                interrupts = interrupts.union(wait_for_interrupt(cpu));
                trace::about_core(cpu, Kind::Awake, cpu.id);
                cpu.now_ns()
            }
        };
    }
    cpu.steer_clock(now_ns);
    cpu.cputime.woke(now_ns);
    with_alarm(cpu, interrupts, now_ns)
}

/// Over links: until when this core waits for what it has asked for. Whose calls it takes first when it wakes: if somebody asks already,
/// each island comes in turn; otherwise, most likely, the last one.
#[inline(always)]
fn before_sleep<M: Machine>(cpu: &Cpu<M>, now_ns: u64, quiet: bool) -> u64 {
    let gives_up_ns = cpu.crossing.gives_up_at(now_ns);
    if quiet && gives_up_ns != u64::MAX && !cpu.is_polling() {
        set_timer_exactly(cpu, gives_up_ns.min(timer::next_deadline_ns(cpu)));
    }
    if quiet {
        cpu.life.serve_same_next();
    } else {
        cpu.life.serve_other_next();
    }
    gives_up_ns
}

pub fn wait_for_interrupt<M: Machine>(cpu: &Cpu<M>) -> Interrupts {
    let interrupts = cpu.machine.wait_for_interrupt();
    if cpu.is_timed() {
        cpu.machine.note_wake();
    }
    interrupts
}

/// Looks for work from `now_ns`, which is the time, for as long as this core polls, or until `gives_up_ns`. Returns the time after the last
/// wait; `None`: there was no work, and this core is to sleep.
///
/// On a timed machine it sleeps meanwhile, and whoever writes what it would look at says so (`Context::wrote`): so it goes
/// on at exactly the time when that was written, and not when the simulation happens to let it look.
fn poll<M: Machine>(cpu: &Cpu<M>, mut now_ns: u64, gives_up_ns: u64, interrupts: &mut Interrupts) -> Option<u64> {
    let until_ns = (now_ns + cpu.islands.poll_ns()).min(gives_up_ns).min(timer::next_deadline_ns(cpu));
    let state = &cpu.own.state;
    let is_noncoherent = cpu.crossing.reach().is_noncoherent();
    while state.load(Ordering::Acquire) == CORE_POLLING && !crossing::has_outcome(cpu) {
        if is_noncoherent && noncoherent::is_asked(cpu) {
            cpu.life.serve_other_next();
            break;
        }
        if now_ns >= until_ns {
            if interrupts.contains(Interrupts::DOORBELL) {
                // It came in the last wait, and may be of what is not looked at here (a descriptor of Flick's protocol): no other one would end
                // a sleep.
                return Some(now_ns);
            }
            let deadline_ns = timer::next_deadline_ns(cpu);
            if cpu.is_timed() && now_ns >= deadline_ns {
                // The alarm has rung already, in this loop: no other one would end a sleep.
                *interrupts = interrupts.union(Interrupts::TIMER);
                return Some(now_ns);
            }
            if cpu.crossing.migrates() {
                memory::trim(cpu);
            }
            if is_noncoherent {
                // It still waits for somebody to take its call: the scheduler sees to that.
                if now_ns >= cpu.crossing.gives_up_at(now_ns) {
                    *interrupts = interrupts.union(Interrupts::TIMER);
                    return Some(now_ns);
                }
                crossing::look_no_longer(cpu);
            }
            set_timer_at(cpu, deadline_ns, || now_ns);
            let may_sleep = crossing::stop_polling_calls(cpu) && run_queue::poll_to_sleep(cpu);
            return if may_sleep { None } else { Some(now_ns) };
        }
        if !cpu.is_timed() {
            cpu.machine.relax();
            now_ns = cpu.now_ns();
            continue;
        }
        if is_noncoherent {
            set_timer_exactly(cpu, until_ns);
        } else {
            set_timer_at(cpu, until_ns, || now_ns);
        }
        *interrupts = interrupts.union(wait_for_interrupt(cpu));
        now_ns = cpu.now_ns();
        if now_ns < until_ns {
            return Some(now_ns); // Without looking: who looks for what was written is about to write there, too.
        }
    }
    if cpu.is_timed() && cpu.own.written_at_ns.load(Ordering::Acquire) != 0 {
        // It was there at the first look, which came before it has arrived: on to that time.
        *interrupts = interrupts.union(wait_for_interrupt(cpu));
        now_ns = cpu.now_ns();
    }
    Some(now_ns)
}
