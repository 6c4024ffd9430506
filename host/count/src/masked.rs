//! The longest runs of kernel instructions during which a core takes no interrupt.
//!
//! A kernel of Motet runs with interrupts masked. It takes them when it returns to user code, when it sleeps, and where it
//! looks for them in the middle of a long system call, which it marks ([`marks::LOOK`]). A run is what lies between two
//! such moments. Firmware runs on behalf of the kernel, so its instructions count. What a core executes before its first
//! user code is booting, and does not.

use std::{
    fs::File,
    io::Write,
    sync::{Mutex, OnceLock},
};

use motet_layout::{Isa, USER_END, marks};
use motet_qemu_plugin::{Block, Condition, Scoreboard, Vcpu, Word};

/// From so many instructions on, a run remembers where it has been.
const TRAIL_FROM: u64 = 5_000;
/// Steps of a trail, evenly spaced in the first part of it.
const TRAIL_EVERY: u64 = 2_500;
const TRAIL_MAX: usize = 16;
/// Where OpenSBI lies: below the addresses that kernels use, and far from those that programs are linked to.
const FIRMWARE: std::ops::Range<u64> = 0x8000_0000..0x8020_0000;

struct State {
    isa: Isa,
    runs: Scoreboard<Run>,
    out: Mutex<File>,
}

/// A core's run, as words.
type Run = [u64; TRAIL + TRAIL_MAX];
/// Instructions of the kernel since the last moment when an interrupt would have been taken.
const INSTRUCTIONS: usize = 0;
/// 1 once the core has executed user code.
const HAS_BOOTED: usize = 1;
/// The most instructions so far.
const MOST: usize = 2;
/// How many steps of its trail are known.
const TRAIL_LEN: usize = 3;
/// Where the kernel was, from [`TRAIL_FROM`] instructions on.
const TRAIL: usize = 4;

static STATE: OnceLock<State> = OnceLock::new();

/// Has translated code count from now on; `out` gets a line `INSTRUCTIONS ADDRESS...` for each run that is longer than all
/// of its core before.
///
/// # Errors
/// It was called before.
pub fn install(isa: Isa, out: File) -> Result<(), String> {
    STATE.set(State { isa, runs: Scoreboard::new(), out: Mutex::new(out) }).map_err(|_| "loaded twice".into())
}

/// QEMU is translating a block.
pub fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
    let count = word(state, INSTRUCTIONS);
    let Some(address) = block.instructions().next().map(|first| first.address()) else { return };
    if is_user(state.isa, address) {
        block.call_if(word(state, HAS_BOOTED), Condition::NotEqual, 1, began, 0);
        block.call_if(count, Condition::NotEqual, 0, ended, 0);
        return;
    }
    block.call_if(count, Condition::AtLeast, TRAIL_FROM, passed, address as usize);
    for instruction in block.instructions() {
        instruction.add(count, 1);
        let mut buffer = [0; 16];
        let code = instruction.bytes(&mut buffer);
        if waits(state.isa, code) || marks::decode(state.isa, code) == Some(marks::LOOK) {
            instruction.call(ended, 0);
        }
    }
}

fn word(state: &State, index: usize) -> Word<'_> {
    state.runs.word(index * size_of::<u64>())
}

fn is_user(isa: Isa, address: u64) -> bool {
    address < USER_END && !(isa == Isa::RiscV64 && FIRMWARE.contains(&address))
}

/// Whether an instruction sleeps until an interrupt comes: `hlt`, `wfi`.
fn waits(isa: Isa, code: &[u8]) -> bool {
    match isa {
        Isa::X86_64 => code == [0xf4],
        Isa::AArch64 => code == 0xd503_207f_u32.to_le_bytes(),
        Isa::RiscV64 => code == 0x1050_0073_u32.to_le_bytes(),
        Isa::Hosted => false,
    }
}

/// A core executes its first user code.
fn began(vcpu: &mut Vcpu, _: usize) {
    let Some(state) = STATE.get() else { return };
    let run = state.runs.get(vcpu);
    run[HAS_BOOTED] = 1;
    run[INSTRUCTIONS] = 0;
    run[TRAIL_LEN] = 0;
}

/// A run has become long.
fn passed(vcpu: &mut Vcpu, address: usize) {
    let Some(state) = STATE.get() else { return };
    let run = state.runs.get(vcpu);
    let len = run[TRAIL_LEN] as usize;
    if len < TRAIL_MAX && run[INSTRUCTIONS] >= TRAIL_FROM + TRAIL_EVERY * len as u64 {
        run[TRAIL + len] = address as u64;
        run[TRAIL_LEN] += 1;
    }
}

/// A run has ended.
fn ended(vcpu: &mut Vcpu, _: usize) {
    let Some(state) = STATE.get() else { return };
    let run = state.runs.get(vcpu);
    if run[HAS_BOOTED] != 0 && run[INSTRUCTIONS] > run[MOST] {
        run[MOST] = run[INSTRUCTIONS];
        let trail = &run[TRAIL..TRAIL + run[TRAIL_LEN] as usize];
        let trail: String = trail.iter().map(|address| format!(" {address:x}")).collect();
        // Not buffered: QEMU may be killed as soon as the guest has ended.
        if let Ok(mut out) = state.out.lock() {
            let _ = out.write_all(format!("{}{trail}\n", run[MOST]).as_bytes());
        }
    }
    run[INSTRUCTIONS] = 0;
    run[TRAIL_LEN] = 0;
}
