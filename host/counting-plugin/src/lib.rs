//! A QEMU plugin that counts the instructions which all cores of a machine execute, and writes the count to a file
//! whenever the guest executes a mark ([`motet_layout::marks`]).
//!
//! `-plugin libmotet_counting_plugin.so,out=FILE`; each line of the file is `MARK COUNT`. Counting is inlined in the translated
//! code, instruction by instruction: counting whole translation blocks would count what comes after a page fault twice. Each repetition of a store that repeats itself on x86-64 (`rep movsq`)
//! counts, in all modes. Otherwise QEMU would decide: with `-icount` it executes every repetition as an instruction, without it all of them as one.
//!
//! `-plugin libmotet_counting_plugin.so,cores=FILE`: the same, and each line is `MARK CORE COUNT`, of what the core that executes the mark has executed.
//!
//! `-plugin libmotet_counting_plugin.so,trace=FILE` records the memory accesses of a machine's one core instead, from its first
//! instruction to its end ([`motet_coherence::trace`]). Instructions are known by their virtual addresses, so this is for
//! programs that run without address translation.
//!
//! `-plugin libmotet_counting_plugin.so,profile=FILE` counts by address while a measured operation is executed ([`profile`]).
//!
//! `-plugin libmotet_counting_plugin.so,masked=FILE` finds the longest runs of kernel instructions without an interrupt ([`masked`]).
#![deny(unsafe_code)]

mod masked;
mod profile;

use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::{Mutex, OnceLock},
};

use motet_coherence::trace;
use motet_layout::{Isa, marks};
use motet_plugin_api::{Access, Block, Direction, Physical, Registration, Scoreboard, Vcpu};

motet_plugin_api::plugin!("motet-counting-plugin", install);

struct State {
    isa: Isa,
    /// Each core's count, not the sum of all.
    is_of_one: bool,
    executed: Scoreboard<u64>,
    out: Mutex<File>,
}

static STATE: OnceLock<State> = OnceLock::new();

type Trace = trace::Writer<BufWriter<File>>;

/// The trace, if one is recorded.
static TRACE: OnceLock<Mutex<Trace>> = OnceLock::new();

const USAGE: &str = "the one argument is out=FILE, cores=FILE, trace=FILE, profile=FILE or masked=FILE";

/// QEMU has loaded the plugin.
///
/// # Errors
/// What is wrong with the arguments.
fn install(qemu: &Registration, isa: &str, arguments: &[String]) -> Result<(), String> {
    let [argument] = arguments else { return Err(USAGE.into()) };
    let (what, path) = argument.split_once('=').ok_or(USAGE)?;
    let file = || File::create(path).map_err(|error| format!("{path}: {error}"));
    match what {
        "trace" => {
            let trace = Trace::new(BufWriter::new(file()?)).map_err(|error| format!("{path}: {error}"))?;
            TRACE.set(Mutex::new(trace)).map_err(|_| "loaded twice")?;
            qemu.on_translation(traced);
            qemu.on_exit(ended);
        }
        "masked" => {
            masked::install(known(isa)?, file()?)?;
            qemu.on_translation(masked::translated);
        }
        "profile" => {
            profile::install(known(isa)?, file()?)?;
            qemu.on_translation(profile::translated);
        }
        "out" | "cores" => {
            let isa = known(isa)?;
            let out = Mutex::new(file()?);
            let state = State { isa, is_of_one: what == "cores", executed: Scoreboard::new(), out };
            STATE.set(state).map_err(|_| "loaded twice")?;
            qemu.on_translation(counted);
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn known(isa: &str) -> Result<Isa, String> {
    Isa::from_name(isa).ok_or_else(|| "unknown instruction set".into())
}

/// QEMU is translating a block whose instructions are counted.
fn counted(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
    for instruction in block.instructions() {
        let mut buffer = [0; 16];
        let bytes = instruction.bytes(&mut buffer);
        if is_repeated_store(state.isa, bytes) {
            instruction.call_on_access(Direction::Store, |mut vcpu, _| repeated(&mut vcpu));
        } else {
            instruction.add(state.executed.word(0), 1);
        }
        if let Some(mark) = marks::decode(state.isa, bytes) {
            instruction.call(mark_executed, mark.into());
        }
    }
}

/// Whether an instruction is a store that repeats itself: `rep movs`, `rep stos`, of any size (Intel SDM, volume 2B, REP).
fn is_repeated_store(isa: Isa, code: &[u8]) -> bool {
    let is_prefix = |byte: &&u8| matches!(**byte, 0x40..=0x4f | 0x66 | 0x67 | 0xf3);
    let repeats = code.iter().take_while(is_prefix).any(|byte| *byte == 0xf3);
    let operation = code.iter().find(|byte| !is_prefix(byte));
    isa == Isa::X86_64 && repeats && matches!(operation, Some(0xa4 | 0xa5 | 0xaa | 0xab))
}

/// A core has stored once more by the same instruction.
fn repeated(vcpu: &mut Vcpu) {
    if let Some(state) = STATE.get() {
        *state.executed.get(vcpu) += 1;
    }
}

/// A core is executing a mark.
fn mark_executed(vcpu: &mut Vcpu, mark: usize) {
    let Some(state) = STATE.get() else { return };
    let count = if state.is_of_one {
        format!("{} {}", vcpu.index(), state.executed.get(vcpu))
    } else {
        state.executed.word(0).sum().to_string()
    };
    // Not buffered: QEMU may be killed as soon as the guest has ended. A full disk shows as missing marks.
    if let Ok(mut out) = state.out.lock() {
        let _ = out.write_all(format!("{mark} {count}\n").as_bytes());
    }
}

/// QEMU is translating a block whose accesses are recorded.
fn traced(block: &Block<'_>) {
    for instruction in block.instructions() {
        instruction.call(executed, instruction.address() as usize);
        instruction.call_on_access(Direction::Load, |_, access| accessed(&access, false));
        instruction.call_on_access(Direction::Store, |_, access| accessed(&access, true));
    }
}

/// The core executes an instruction, and a trace is recorded. A full disk shows as a trace that ends too early.
fn executed(_vcpu: &mut Vcpu, address: usize) {
    if let Some(mut trace) = TRACE.get().and_then(|trace| trace.lock().ok()) {
        let _ = trace.instruction(address as u64);
    }
}

/// The instruction accesses memory.
fn accessed(access: &Access<'_>, store: bool) {
    if let Some(Physical::Memory(address)) = access.physical()
        && let Some(mut trace) = TRACE.get().and_then(|trace| trace.lock().ok())
    {
        trace.access(trace::Access { address, size_log2: access.size().ilog2() as u8, store });
    }
}

/// QEMU ends.
fn ended() {
    if let Some(mut trace) = TRACE.get().and_then(|trace| trace.lock().ok()) {
        let _ = trace.flush();
    }
}
