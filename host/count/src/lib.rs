//! A QEMU plugin that counts the instructions which all cores of a machine execute, and writes the count to a file
//! whenever the guest executes a mark ([`motet_layout::marks`]).
//!
//! `-plugin libmotet_count.so,out=FILE`; each line of the file is `MARK COUNT`. Counting is inlined in the translated
//! code, instruction by instruction: counting whole translation blocks would count what comes after a page fault twice.
//!
//! `-plugin libmotet_count.so,trace=FILE` records the memory accesses of a machine's one core instead, from its first
//! instruction to its end ([`motet_coherence::trace`]). Instructions are known by their virtual addresses, so this is for
//! programs that run without address translation.
#![deny(unsafe_code)]

#[allow(unsafe_code)] // QEMU's interface
mod qemu;

use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::{Mutex, OnceLock},
};

use motet_coherence::trace;
use motet_layout::{Isa, marks};
use qemu::{Block, Counter};

struct State {
    isa: Isa,
    executed: Counter,
    out: Mutex<File>,
}

static STATE: OnceLock<State> = OnceLock::new();

type Trace = trace::Writer<BufWriter<File>>;

/// The trace, if one is recorded.
static TRACE: OnceLock<Mutex<Trace>> = OnceLock::new();

const USAGE: &str = "the one argument is out=FILE or trace=FILE";

/// QEMU has loaded the plugin.
///
/// # Errors
/// What is wrong with the arguments.
fn install(isa: &str, arguments: &[String]) -> Result<(), String> {
    let [argument] = arguments else { return Err(USAGE.into()) };
    let (what, path) = argument.split_once('=').ok_or(USAGE)?;
    let file = || File::create(path).map_err(|error| format!("{path}: {error}"));
    if what == "trace" {
        let trace = Trace::new(BufWriter::new(file()?)).map_err(|error| format!("{path}: {error}"))?;
        return TRACE.set(Mutex::new(trace)).map_err(|_| "loaded twice".into());
    }
    if what != "out" {
        return Err(USAGE.into());
    }
    let isa = Isa::from_name(isa).ok_or("unknown instruction set")?;
    let out = Mutex::new(file()?);
    STATE.set(State { isa, executed: Counter::new(), out }).map_err(|_| "loaded twice".into())
}

/// QEMU is translating a block.
fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else {
        return block.instructions().for_each(|instruction| instruction.report_all());
    };
    for instruction in block.instructions() {
        instruction.add_one_when_executed(&state.executed);
        let mut buffer = [0; 16];
        if let Some(mark) = marks::decode(state.isa, instruction.bytes(&mut buffer)) {
            instruction.report_when_executed(mark);
        }
    }
}

/// A core is executing a mark.
fn mark_executed(mark: u8) {
    let Some(state) = STATE.get() else { return };
    let count = state.executed.sum();
    // Not buffered: QEMU may be killed as soon as the guest has ended. A full disk shows as missing marks.
    if let Ok(mut out) = state.out.lock() {
        let _ = out.write_all(format!("{mark} {count}\n").as_bytes());
    }
}

/// The core executes an instruction, and a trace is recorded. A full disk shows as a trace that ends too early.
fn executed(address: u64) {
    if let Some(mut trace) = TRACE.get().and_then(|trace| trace.lock().ok()) {
        let _ = trace.instruction(address);
    }
}

/// The instruction accesses memory.
fn accessed(access: trace::Access) {
    if let Some(mut trace) = TRACE.get().and_then(|trace| trace.lock().ok()) {
        trace.access(access);
    }
}

/// QEMU ends.
fn ended() {
    if let Some(mut trace) = TRACE.get().and_then(|trace| trace.lock().ok()) {
        let _ = trace.flush();
    }
}
