//! Where the instructions of measured operations are: between a measured program's marks, counts by address.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufWriter, Write},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use motet_layout::{Isa, marks};
use motet_plugin_api::{Block, Direction, Vcpu};

use crate::is_repeated_store;

struct State {
    isa: Isa,
    /// An operation is being measured.
    counts: AtomicBool,
    executed: Mutex<Executed>,
}

struct Executed {
    /// By the address of the instruction, since the last mark.
    by_address: HashMap<usize, u64>,
    /// The address of the last one that counts by its stores. (The machine has one core.)
    repeating: usize,
    out: BufWriter<File>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Has translated code count from now on. At each mark that ends a batch, `out` gets a line `MARK COUNT ADDRESS` for
/// every address.
///
/// # Errors
/// It was called before.
pub fn install(isa: Isa, out: File) -> Result<(), String> {
    let executed = Mutex::new(Executed { by_address: HashMap::new(), repeating: 0, out: BufWriter::new(out) });
    STATE.set(State { isa, counts: AtomicBool::new(false), executed }).map_err(|_| "loaded twice".into())
}

/// QEMU is translating a block.
pub fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
    for instruction in block.instructions() {
        let mut buffer = [0; 16];
        let code = instruction.bytes(&mut buffer);
        let address = instruction.address() as usize;
        match marks::decode(state.isa, code) {
            Some(mark) if mark < marks::MEASURED_MAX => instruction.call(mark_executed, mark.into()),
            _ if is_repeated_store(state.isa, code) => {
                instruction.call(repeats, address);
                instruction.call_on_access(Direction::Store, |_, _| repeated());
            }
            _ => instruction.call(executed, address),
        }
    }
}

fn executed(_vcpu: &mut Vcpu, address: usize) {
    change(|executed| *executed.by_address.entry(address).or_default() += 1);
}

/// An instruction begins that counts by its stores.
fn repeats(_vcpu: &mut Vcpu, address: usize) {
    change(|executed| executed.repeating = address);
}

/// It has stored once more.
fn repeated() {
    change(|executed| *executed.by_address.entry(executed.repeating).or_default() += 1);
}

/// Changes what was executed, in the middle of a batch.
fn change(change: impl FnOnce(&mut Executed)) {
    let Some(state) = STATE.get().filter(|state| state.counts.load(Ordering::Relaxed)) else { return };
    if let Ok(mut executed) = state.executed.lock() {
        change(&mut executed);
    }
}

/// Even marks begin a batch, odd ones end it.
fn mark_executed(_vcpu: &mut Vcpu, mark: usize) {
    let Some(state) = STATE.get() else { return };
    let Ok(mut executed) = state.executed.lock() else { return };
    let begins = mark % 2 == 0;
    state.counts.store(begins, Ordering::Relaxed);
    let by_address = std::mem::take(&mut executed.by_address);
    if begins {
        return;
    }
    for (address, count) in by_address {
        let _ = writeln!(executed.out, "{mark} {count} {address:x}");
    }
    // QEMU may be killed as soon as the guest has ended.
    let _ = executed.out.flush();
}
