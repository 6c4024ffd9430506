//! What RISC-V guests ask for: the Supervisor Binary Interface, version 2.0, and the time since the machine was made. Chapters are those of its
//! specification.

use motet_layout::sync::Ordering;

use motet_abi::vm::{Exit, reason};
use motet_hal::{GuestInterrupts, Machine, SystemRegister};
use motet_layout::{VCPU_STARTED, VCPU_STOPPED, VcpuRecord, handshake::then_look};
use motet_protocol::{Context, cores::is_dead};

use super::{
    begin, raise,
    running::{AWAITS_CALL, Next, Running},
    vcpu, vcpus, where_in_guest,
};

/// General registers.
const A0: usize = 10;
const A1: usize = 11;
const A6: usize = 16;
const A7: usize = 17;

/// Nanoseconds of a tick: guests' time has 10 MHz, as on QEMU's `virt` board.
const TICK_NS: u64 = 100;
/// Counters in unprivileged code, by their numbers.
const CYCLE: u16 = 0xc00;
const TIME: u16 = 0xc01;
const INSTRET: u16 = 0xc02;

/// Chapter 3, "Binary Encoding": errors.
const NOT_SUPPORTED: i64 = -2;
const INVALID_PARAMETER: i64 = -3;
const ALREADY_AVAILABLE: i64 = -6;

/// What a call answers.
enum Answer {
    /// Success, with a value.
    Value(u64),
    Error(i64),
    /// Of a legacy call, which has one result.
    Legacy(u64),
    /// It is answered later, or never.
    Later(Next),
}

type Call<M> = fn(&Running<'_, M>, u64, [u64; 6]) -> Answer;

/// The extensions that there are, by their ids.
fn extension<M: Machine>(id: u64) -> Option<Call<M>> {
    let found: Call<M> = match id {
        0x00 => |running, _, [ticks, ..]| {
            set_timer(running, ticks);
            Answer::Legacy(0)
        },
        0x01 => |running, _, [byte, ..]| {
            legacy(running, Exit { reason: reason::CONSOLE_PUT, value: byte & 0xff, ..Exit::default() })
        },
        0x02 => |running, _, _| legacy(running, Exit { reason: reason::CONSOLE_GET, ..Exit::default() }),
        0x08 => |_, _, _| Answer::Later(Next::Exit(Exit { reason: reason::SHUTDOWN, ..Exit::default() })),
        0x10 => base,
        0x5449_4d45 => time,
        0x0073_5049 => ipi,
        0x5246_4e43 => fences,
        0x0048_534d => harts,
        0x5352_5354 => reset,
        0x4442_434e => console,
        _ => return None,
    };
    Some(found)
}

/// Serves a call.
pub fn call<M: Machine>(running: &Running<M>) -> Next {
    let registers = &running.vcpu.frame.regs;
    let args = core::array::from_fn(|index| registers[A0 + index].get());
    let answer = match extension::<M>(registers[A7].get()) {
        Some(extension) => extension(running, registers[A6].get(), args),
        None => Answer::Error(NOT_SUPPORTED),
    };
    match answer {
        Answer::Value(value) => give(running, 0, value),
        Answer::Error(error) => give(running, error, 0),
        Answer::Legacy(value) => running.vcpu.frame.regs[A0].set(value),
        Answer::Later(next) => return next,
    }
    Next::Run
}

/// Serves a call about the timer, or one that asks which extensions there are; `false`: it is another call.
pub fn call_quickly<M: Machine>(running: &Running<M>) -> bool {
    let registers = &running.vcpu.frame.regs;
    match (registers[A7].get(), registers[A6].get()) {
        (0x5449_4d45, 0) => {
            set_timer(running, registers[A0].get());
            give(running, 0, 0);
            true
        }
        (0x00, _) => {
            set_timer(running, registers[A0].get());
            registers[A0].set(0);
            true
        }
        _ => false,
    }
}

fn give<M: Machine>(running: &Running<M>, error: i64, value: u64) {
    running.vcpu.frame.regs[A0].set(error.cast_unsigned());
    running.vcpu.frame.regs[A1].set(value);
}

/// What the monitor's answer is to.
const OF_CALL: u32 = 0;
const OF_LEGACY_CALL: u32 = 1;

/// Takes the monitor's answer to a call.
pub fn take_answer<M: Machine>(running: &Running<M>, kind: u32, value: u64) {
    match kind {
        OF_LEGACY_CALL => running.vcpu.frame.regs[A0].set(value),
        _ if value == u64::MAX => give(running, INVALID_PARAMETER, 0),
        _ => give(running, 0, value),
    }
}

fn legacy<M: Machine>(running: &Running<M>, exit: Exit) -> Answer {
    running.vcpu.awaits.set(AWAITS_CALL + OF_LEGACY_CALL);
    Answer::Later(Next::Exit(exit))
}

fn ask<M: Machine>(running: &Running<M>, exit: Exit) -> Answer {
    running.vcpu.awaits.set(AWAITS_CALL + OF_CALL);
    Answer::Later(Next::Exit(exit))
}

/// Chapter 4, "Base Extension".
fn base<M: Machine>(_: &Running<M>, function: u64, [id, ..]: [u64; 6]) -> Answer {
    const VERSION: u64 = 2 << 24;
    /// "MT": nobody has registered it.
    const IMPLEMENTATION: u64 = 0x4d54;
    match function {
        0 => Answer::Value(VERSION),
        1 => Answer::Value(IMPLEMENTATION),
        3 => Answer::Value(u64::from(extension::<M>(id).is_some())),
        // The implementation's version; the vendor, architecture and implementation of the hart.
        2 | 4 | 5 | 6 => Answer::Value(0),
        _ => Answer::Error(NOT_SUPPORTED),
    }
}

/// Chapter 6, "Timer Extension".
fn time<M: Machine>(running: &Running<M>, function: u64, [ticks, ..]: [u64; 6]) -> Answer {
    if function != 0 {
        return Answer::Error(NOT_SUPPORTED);
    }
    set_timer(running, ticks);
    Answer::Value(0)
}

fn set_timer<M: Machine>(running: &Running<M>, ticks: u64) {
    let deadline_ns = ticks.saturating_mul(TICK_NS).saturating_add(running.vm.started_ns.get()).max(1);
    running.vcpu.timer_ns.set(if deadline_ns == u64::MAX { 0 } else { deadline_ns });
}

/// Cores that a call names: `mask` from number `base` on, all if that is -1. `None`: one of them does not exist.
fn named<M: Machine>(running: &Running<M>, mask: u64, base: u64) -> Option<impl Iterator<Item = &'static VcpuRecord>> {
    let count = u64::from(running.vm.vcpu_count.load(Ordering::Acquire));
    let mask = match base {
        u64::MAX => u64::MAX,
        _ if mask == 0 => 0,
        base if base >= count || u64::from(mask.ilog2()) + base >= count => return None,
        base => mask << base,
    };
    Some(vcpus(running.cpu, running.vm).filter(move |vcpu| mask >> vcpu.index.get() & 1 != 0))
}

/// Chapter 7, "IPI Extension".
fn ipi<M: Machine>(running: &Running<M>, function: u64, [mask, base, ..]: [u64; 6]) -> Answer {
    match named(running, mask, base) {
        _ if function != 0 => Answer::Error(NOT_SUPPORTED),
        None => Answer::Error(INVALID_PARAMETER),
        Some(targets) => {
            targets.for_each(|target| raise(running.cpu, target, GuestInterrupts::SOFTWARE));
            Answer::Value(0)
        }
    }
}

/// Chapter 8, "RFENCE Extension". Each drops everything that its targets have translated, and what they have fetched.
fn fences<M: Machine>(running: &Running<M>, function: u64, [mask, base, ..]: [u64; 6]) -> Answer {
    match named(running, mask, base) {
        // Fences of guests' own guests are not there.
        _ if function > 2 => Answer::Error(NOT_SUPPORTED),
        None => Answer::Error(INVALID_PARAMETER),
        Some(targets) => {
            targets.for_each(|target| fence(running, target));
            Answer::Value(0)
        }
    }
}

/// Sees to it that a core drops its translations before it executes another instruction.
fn fence<M: Machine>(running: &Running<M>, target: &'static VcpuRecord) {
    let cpu = running.cpu;
    target.fence.store(1, Ordering::Release);
    then_look(); // where it is
    if core::ptr::eq(target, running.vcpu) {
        return;
    }
    let Some(core) = where_in_guest(target) else { return };
    cpu.ring(core);
    // A core that waits here is not in its guest.
    while where_in_guest(target) == Some(core) && target.fence.load(Ordering::SeqCst) != 0 && !is_dead(cpu, core) {
        cpu.relax();
    }
}

/// Chapter 9, "Hart State Management Extension".
fn harts<M: Machine>(running: &Running<M>, function: u64, [hart, address, opaque, ..]: [u64; 6]) -> Answer {
    let target = || vcpu(running.cpu, running.vm, hart);
    match function {
        0 => match target() {
            None => Answer::Error(INVALID_PARAMETER),
            Some(target) if begin(running.cpu, target, [address, hart, opaque]) => Answer::Value(0),
            Some(_) => Answer::Error(ALREADY_AVAILABLE),
        },
        1 => {
            running.vcpu.state.store(VCPU_STOPPED, Ordering::Release);
            Answer::Later(Next::Stopped)
        }
        2 => match target().map(|target| target.state.load(Ordering::SeqCst)) {
            None => Answer::Error(INVALID_PARAMETER),
            Some(VCPU_STARTED) => Answer::Value(0),
            Some(VCPU_STOPPED) => Answer::Value(1),
            // Start pending.
            Some(_) => Answer::Value(2),
        },
        // A suspension that keeps everything is a wait.
        3 if hart == 0 => {
            give(running, 0, 0);
            Answer::Later(Next::Wait)
        }
        _ => Answer::Error(NOT_SUPPORTED),
    }
}

/// Chapter 10, "System Reset Extension".
fn reset<M: Machine>(_: &Running<M>, function: u64, [kind, why, ..]: [u64; 6]) -> Answer {
    if function != 0 {
        return Answer::Error(NOT_SUPPORTED);
    }
    let reason = match kind {
        0 => reason::SHUTDOWN,
        1 | 2 => reason::RESET,
        _ => return Answer::Error(INVALID_PARAMETER),
    };
    Answer::Later(Next::Exit(Exit { reason, value: why, ..Exit::default() }))
}

/// Chapter 12, "Debug Console Extension".
fn console<M: Machine>(running: &Running<M>, function: u64, [first, low, high, ..]: [u64; 6]) -> Answer {
    match function {
        0 | 1 if high != 0 => Answer::Error(INVALID_PARAMETER),
        0 => ask(running, Exit { reason: reason::CONSOLE_WRITE, address: low, bytes: first, ..Exit::default() }),
        1 => ask(running, Exit { reason: reason::CONSOLE_READ, address: low, bytes: first, ..Exit::default() }),
        2 => ask(running, Exit { reason: reason::CONSOLE_PUT, value: first & 0xff, ..Exit::default() }),
        _ => Answer::Error(NOT_SUPPORTED),
    }
}

/// Lets a guest read the time without a trap, before it runs, where that cannot go back: where all its cores are of one island, whose counter
/// they share. Islands' counters are microseconds apart. In timed machines there is none but the simulated time.
pub fn show_time<M: Machine>(running: &Running<M>) {
    let cpu = running.cpu;
    if !cpu.is_timed() && cpu.islands.has_isa_alone() {
        let offset_ns = cpu.clock.offset_ns().wrapping_sub(running.vm.started_ns.get());
        cpu.machine.set_guest_clock(&running.vcpu.system, offset_ns);
    }
}

/// Reads a counter that only the machine has: the time that all islands agree on. `false`: there is no such register.
pub fn register<M: Machine>(running: &Running<M>, access: SystemRegister) -> bool {
    let now_ns = running.cpu.reading_ns();
    let value = match access.number {
        _ if access.is_write => return false,
        TIME => now_ns.saturating_sub(running.vm.started_ns.get()) / TICK_NS,
        // Timed machines hide what the host's take.
        CYCLE | INSTRET => now_ns,
        _ => return false,
    };
    motet_hal::set_register(&running.vcpu.frame, access.register, value);
    true
}
