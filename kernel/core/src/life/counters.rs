//! Hardware counters that programs read themselves. On a timed machine they would show the host's time, so reading them traps, and the kernel
//! answers with simulated time. It does so, too, with what islands of one instruction set have unlike (`motet_abi::visible`): programs see
//! the same everywhere.

use motet_abi::counters::{self, Counter, INSTRUCTION_SIZE_MAX};
use motet_hal::{Machine, Trap};
use motet_layout::{AT_LOAD_HIDE, Isa, ProcessRecord, ThreadRecord, visible_words as words};
use motet_protocol::Context;

use crate::{cpu::Cpu, mm};

const NS_PER_S: u64 = 1_000_000_000;
/// QEMU's `virt`: 10 MHz (`timebase-frequency` in its device tree).
const BOARD_TICK_NS: u64 = 100;

/// Whether reading some of them traps on this core.
pub fn are_hidden<M: Machine>(cpu: &Cpu<M>) -> bool {
    cpu.is_timed() || cpu.own.at_load.get() & AT_LOAD_HIDE != 0
}

/// Emulates the instruction at which a core that [hides](are_hidden) some has stopped, if it reads one: then `true`.
#[cold]
pub fn answer<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    trap: Trap,
) -> bool {
    // An instruction that the core has not got at all is illegal on x86-64, too.
    let is_hidden = match trap {
        Trap::BadAddress { .. } => M::ISA == Isa::X86_64,
        Trap::IllegalInstruction { .. } => M::ISA != Isa::X86_64,
        Trap::Syscall
        | Trap::PageFault { .. }
        | Trap::Breakpoint
        | Trap::Arithmetic
        | Trap::Misaligned { .. }
        | Trap::Interrupt(_)
        | Trap::Guest(_) => false,
    };
    if !is_hidden {
        return false;
    }
    let word = if let Trap::IllegalInstruction { word } = trap { word } else { 0 };
    let mut code = [0; INSTRUCTION_SIZE_MAX];
    let read =
        mm::instruction_at(cpu, thread, process, word, &mut code).and_then(|code| counters::decode(M::ISA, code));
    let Some(read) = read else { return false };
    counters::answer(&thread.frame, read, value(cpu, read.counter));
    true
}

fn value<M: Machine>(cpu: &Cpu<M>, counter: Counter) -> u64 {
    match counter {
        Counter::Frequency => NS_PER_S,
        Counter::CacheType => cpu.island_record().shown[words::CACHE_TYPE].get(),
        Counter::Time => cpu.reading_ns(),
        Counter::BoardTime => cpu.reading_ns() / BOARD_TICK_NS,
        Counter::Cycles => match cpu.island_record().frequency_mhz.get() {
            // A machine without a model: as many as others of its instruction set, which its counter of time has.
            0 => cpu.reading_ns(),
            frequency_mhz => cycles(cpu.reading_ns(), frequency_mhz),
        },
    }
}

/// Cycles in a time; they begin again at 0 when 64 bits are full, as hardware's do.
fn cycles(time_ns: u64, frequency_mhz: u32) -> u64 {
    (u128::from(time_ns) * u128::from(frequency_mhz) / 1000) as u64
}
