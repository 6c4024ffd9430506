//! What AArch64 guests ask of their firmware: the Power State Coordination Interface, version 1.0 (Arm DEN 0022), by HVC or SMC. Sections are
//! those of its version D.

use motet_layout::sync::Ordering;

use motet_abi::vm::{Exit, reason};
use motet_hal::Machine;
use motet_layout::{VCPU_STARTED, VCPU_STOPPED, VcpuRecord, aarch64_guest::AFFINITY};

use super::{
    begin,
    running::{Next, Running},
    vcpu,
};

/// Functions' ids (5.1); those with [`WIDE`] take arguments of 64 bits, and some have both.
const VERSION: u32 = 0x8400_0000;
const CPU_SUSPEND: u32 = 0x8400_0001;
const CPU_OFF: u32 = 0x8400_0002;
const CPU_ON: u32 = 0x8400_0003;
const AFFINITY_INFO: u32 = 0x8400_0004;
const MIGRATE_INFO_TYPE: u32 = 0x8400_0006;
const SYSTEM_OFF: u32 = 0x8400_0008;
const SYSTEM_RESET: u32 = 0x8400_0009;
const FEATURES: u32 = 0x8400_000a;
const WIDE: u32 = 1 << 30;
/// The SMC Calling Convention's version (Arm DEN 0028, 7.2).
const CONVENTION_VERSION: u32 = 0x8000_0000;

/// 5.2.2: errors.
const NOT_SUPPORTED: i64 = -1;
const INVALID_PARAMETERS: i64 = -2;
const ALREADY_ON: i64 = -4;
const ON_PENDING: i64 = -5;
const INVALID_ADDRESS: i64 = -9;

/// Answers of AFFINITY_INFO (5.7.2).
const IS_ON: i64 = 0;
const IS_OFF: i64 = 1;
const IS_STARTING: i64 = 2;

/// What a call answers.
enum Answer {
    Value(i64),
    /// It is answered later, or never.
    Later(Next),
}

/// Gives a core the state that it has before it begins.
pub fn reset(vcpu: &VcpuRecord) {
    vcpu.system.words[AFFINITY].set(vcpu.index.get().into());
}

/// Serves a call.
pub fn call<M: Machine>(running: &Running<M>) -> Next {
    let registers = &running.vcpu.frame.regs;
    let [function, a, b, c] = core::array::from_fn(|index| registers[index].get());
    // 5.2.1: arguments of 32 bits are in the lower halves.
    let is_wide = function as u32 & WIDE != 0;
    let argument = |value: u64| if is_wide { value } else { value & 0xffff_ffff };
    match serve(running, function as u32, [a, b, c].map(argument)) {
        Answer::Value(value) => {
            registers[0].set(value.cast_unsigned());
            Next::Run
        }
        Answer::Later(next) => next,
    }
}

fn serve<M: Machine>(running: &Running<M>, function: u32, [first, second, third]: [u64; 3]) -> Answer {
    let exit = |reason| Answer::Later(Next::Exit(Exit { reason, ..Exit::default() }));
    match function {
        VERSION => Answer::Value(1 << 16),
        CONVENTION_VERSION => Answer::Value(1 << 16 | 1),
        FEATURES => Answer::Value(if is_there(first as u32) { 0 } else { NOT_SUPPORTED }),
        // A suspension that keeps everything is a wait.
        _ if function & !WIDE == CPU_SUSPEND => {
            running.vcpu.frame.regs[0].set(0);
            Answer::Later(Next::Wait)
        }
        CPU_OFF => {
            running.vcpu.state.store(VCPU_STOPPED, Ordering::Release);
            Answer::Later(Next::Stopped)
        }
        _ if function & !WIDE == CPU_ON => Answer::Value(start(running, first, [second, third, 0])),
        _ if function & !WIDE == AFFINITY_INFO => Answer::Value(affinity_info(running, first, second)),
        // 5.9: there is no trusted system to be moved.
        MIGRATE_INFO_TYPE => Answer::Value(2),
        SYSTEM_OFF => exit(reason::SHUTDOWN),
        SYSTEM_RESET => exit(reason::RESET),
        _ => Answer::Value(NOT_SUPPORTED),
    }
}

fn is_there(function: u32) -> bool {
    matches!(
        function,
        VERSION | CONVENTION_VERSION | FEATURES | CPU_OFF | MIGRATE_INFO_TYPE | SYSTEM_OFF | SYSTEM_RESET
    ) || matches!(function & !WIDE, CPU_SUSPEND | CPU_ON | AFFINITY_INFO)
}

/// 5.6.
fn start<M: Machine>(running: &Running<M>, affinity: u64, start: [u64; 3]) -> i64 {
    match vcpu(running.cpu, running.vm, affinity) {
        None => INVALID_PARAMETERS,
        Some(_) if start[0] % 4 != 0 => INVALID_ADDRESS,
        Some(target) if begin(running.cpu, target, start) => 0,
        Some(target) if target.state.load(Ordering::SeqCst) == VCPU_STARTED => ALREADY_ON,
        Some(_) => ON_PENDING,
    }
}

/// 5.7. Cores have affinities of the lowest level alone.
fn affinity_info<M: Machine>(running: &Running<M>, affinity: u64, level: u64) -> i64 {
    if level != 0 {
        return INVALID_PARAMETERS;
    }
    match vcpu(running.cpu, running.vm, affinity).map(|target| target.state.load(Ordering::SeqCst)) {
        None => INVALID_PARAMETERS,
        Some(VCPU_STARTED) => IS_ON,
        Some(VCPU_STOPPED) => IS_OFF,
        Some(_) => IS_STARTING,
    }
}
