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
use motet_plugin_api::{Block, Vcpu};

struct State {
    isa: Isa,
    /// An operation is being measured.
    counts: AtomicBool,
    executed: Mutex<Executed>,
}

struct Executed {
    /// By the address of the instruction, since the last mark.
    by_address: HashMap<usize, u64>,
    out: BufWriter<File>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Has translated code count from now on. At each mark that ends a batch, `out` gets a line `MARK COUNT ADDRESS` for
/// every address.
///
/// # Errors
/// It was called before.
pub fn install(isa: Isa, out: File) -> Result<(), String> {
    let executed = Mutex::new(Executed { by_address: HashMap::new(), out: BufWriter::new(out) });
    STATE.set(State { isa, counts: AtomicBool::new(false), executed }).map_err(|_| "loaded twice".into())
}

/// QEMU is translating a block.
pub fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
    for instruction in block.instructions() {
        let mut buffer = [0; 16];
        match marks::decode(state.isa, instruction.bytes(&mut buffer)) {
            Some(mark) if mark < marks::MEASURED_MAX => instruction.call(mark_executed, mark.into()),
            _ => instruction.call(executed, instruction.address() as usize),
        }
    }
}

fn executed(_vcpu: &mut Vcpu, address: usize) {
    let Some(state) = STATE.get().filter(|state| state.counts.load(Ordering::Relaxed)) else { return };
    if let Ok(mut executed) = state.executed.lock() {
        *executed.by_address.entry(address).or_default() += 1;
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
