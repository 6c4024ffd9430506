//! A QEMU plugin that counts the instructions which all cores of a machine execute, and writes the count to a file
//! whenever the guest executes a mark ([`motet_layout::marks`]).
//!
//! `-plugin libmotet_count.so,out=FILE`; each line of the file is `MARK COUNT`. Counting is inlined in the translated
//! code, instruction by instruction: counting whole translation blocks would count what comes after a page fault twice.
#![deny(unsafe_code)]

#[allow(unsafe_code)] // QEMU's interface
mod qemu;

use std::{
    fs::File,
    io::Write,
    sync::{Mutex, OnceLock},
};

use motet_layout::{Isa, marks};
use qemu::{Block, Counter};

struct State {
    isa: Isa,
    executed: Counter,
    out: Mutex<File>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// QEMU has loaded the plugin.
///
/// # Errors
/// What is wrong with the arguments.
fn install(isa: &str, arguments: &[String]) -> Result<(), String> {
    let isa = Isa::from_name(isa).ok_or("unknown instruction set")?;
    let path = match arguments {
        [only] => only.strip_prefix("out="),
        _ => None,
    };
    let path = path.ok_or("the one argument is out=FILE")?;
    let out = Mutex::new(File::create(path).map_err(|error| format!("{path}: {error}"))?);
    STATE.set(State { isa, executed: Counter::new(), out }).map_err(|_| "loaded twice".into())
}

/// QEMU is translating a block.
fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
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
