//! A QEMU plugin that counts the instructions which all cores of a machine execute, and writes the count to a file
//! whenever the guest executes a mark ([`motet_calls::marks`]).
//!
//! `-plugin libmotet_count.so,out=FILE`; each line of the file is `MARK COUNT`. Counting is inlined in the translated
//! code, instruction by instruction: counting whole translation blocks would count what comes after a page fault twice.
#![deny(unsafe_code)]

use std::{
    fs::File,
    io::Write,
    sync::{Mutex, OnceLock},
};

use motet_qemu_plugin::{Block, Registration, Scoreboard, Vcpu};

motet_qemu_plugin::plugin!("motet-count", install);

struct State {
    isa: String,
    executed: Scoreboard<u64>,
    out: Mutex<File>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// QEMU has loaded the plugin.
///
/// # Errors
/// What is wrong with the arguments.
fn install(qemu: &Registration, isa: &str, arguments: &[String]) -> Result<(), String> {
    let path = match arguments {
        [only] => only.strip_prefix("out="),
        _ => None,
    };
    let path = path.ok_or("the one argument is out=FILE")?;
    let out = Mutex::new(File::create(path).map_err(|error| format!("{path}: {error}"))?);
    STATE.set(State { isa: isa.into(), executed: Scoreboard::new(), out }).map_err(|_| "loaded twice")?;
    qemu.on_translation(translated);
    Ok(())
}

/// QEMU is translating a block.
fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
    for instruction in block.instructions() {
        instruction.add(state.executed.word(0), 1);
        let mut buffer = [0; 16];
        if let Some(mark) = motet_calls::marks::decode(&state.isa, instruction.bytes(&mut buffer)) {
            instruction.call(mark_executed, mark.into());
        }
    }
}

/// A core is executing a mark.
fn mark_executed(_vcpu: &mut Vcpu, mark: usize) {
    let Some(state) = STATE.get() else { return };
    let count = state.executed.word(0).sum();
    // Not buffered: QEMU may be killed as soon as the guest has ended. A full disk shows as missing marks.
    if let Ok(mut out) = state.out.lock() {
        let _ = out.write_all(format!("{mark} {count}\n").as_bytes());
    }
}
