//! The longest runs of kernel instructions during which a core takes no interrupt.
//!
//! A kernel of Motet runs with interrupts masked. It takes them when it returns to user code, when it sleeps, and where it
//! looks for them in the middle of a long system call, which it marks ([`marks::LOOK`]). A run is what lies between two
//! such moments. Firmware runs on behalf of the kernel, so its instructions count. What a core executes before its first
//! user code is booting, and does not.

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    sync::{Mutex, OnceLock},
};

use motet_layout::{Isa, USER_END, marks};
use motet_plugin_api::{Block, Condition, Direction, Scoreboard, Vcpu, Word};

use crate::is_repeated_store;

/// From so many instructions on, a run remembers where it has been.
const TRAIL_FROM: u64 = 5_000;
/// Steps of a trail, evenly spaced in the first part of it.
const TRAIL_EVERY: u64 = 2_500;
const TRAIL_MAX: usize = 16;
/// Runs from this long on are told, each that is the longest of those which came the same way.
const TOLD_FROM: u64 = 10_000;
/// Where OpenSBI lies on RISC-V, and kernels before they translate addresses: below the addresses that kernels use later, and
/// far from those that programs are linked to.
const RISCV64_LOW: std::ops::Range<u64> = 0x8000_0000..0x8100_0000;
const AARCH64_LOW: std::ops::Range<u64> = 0x4000_0000..0x4100_0000;

struct State {
    isa: Isa,
    runs: Scoreboard<Run>,
    told: Mutex<Told>,
}

struct Told {
    /// The longest run so far, by the first step of its trail.
    longest: HashMap<u64, u64>,
    out: File,
}

/// A core's run, as words.
type Run = [u64; TRAIL + TRAIL_MAX];
/// Instructions of the kernel since the last moment when an interrupt would have been taken.
const INSTRUCTIONS: usize = 0;
/// 1 once the core has come from its kernel's addresses to user code. (Firmware that runs before the kernel looks like that.)
const HAS_BOOTED: usize = 1;
/// 1 once a run of the core was told.
const HAS_TOLD: usize = 2;
/// How many steps of its trail are known.
const TRAIL_LEN: usize = 3;
/// Where the kernel was, from [`TRAIL_FROM`] instructions on.
const TRAIL: usize = 4;

static STATE: OnceLock<State> = OnceLock::new();

/// Has translated code count from now on; `out` gets a line `INSTRUCTIONS ADDRESS...` for the first run, and for each of
/// [`TOLD_FROM`] instructions that is longer than all before with the same first address.
///
/// # Errors
/// It was called before.
pub fn install(isa: Isa, out: File) -> Result<(), String> {
    let told = Mutex::new(Told { longest: HashMap::new(), out });
    STATE.set(State { isa, runs: Scoreboard::new(), told }).map_err(|_| "loaded twice".into())
}

/// QEMU is translating a block.
pub fn translated(block: &Block<'_>) {
    let Some(state) = STATE.get() else { return };
    let count = word(state, INSTRUCTIONS);
    let Some(address) = block.instructions().next().map(|first| first.address()) else { return };
    if is_user(state.isa, address) {
        block.call_if(count, Condition::NotEqual, 0, ended, 1);
        return;
    }
    block.call_if(count, Condition::AtLeast, TRAIL_FROM, passed, address as usize);
    for instruction in block.instructions() {
        let mut buffer = [0; 16];
        let code = instruction.bytes(&mut buffer);
        if is_repeated_store(state.isa, code) {
            instruction.call_on_access(Direction::Store, |mut vcpu, _| repeated(&mut vcpu));
        } else {
            instruction.add(count, 1);
        }
        if waits(state.isa, code) || marks::decode(state.isa, code) == Some(marks::LOOK) {
            instruction.call(ended, 0);
        }
    }
}

fn word(state: &State, index: usize) -> Word<'_> {
    state.runs.word(index * size_of::<u64>())
}

fn is_user(isa: Isa, address: u64) -> bool {
    let is_low = match isa {
        Isa::RiscV64 => RISCV64_LOW.contains(&address),
        Isa::AArch64 => AARCH64_LOW.contains(&address),
        Isa::X86_64 | Isa::Hosted => false,
    };
    address < USER_END && !is_low
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

/// The kernel has stored once more by the same instruction.
fn repeated(vcpu: &mut Vcpu) {
    if let Some(state) = STATE.get() {
        state.runs.get(vcpu)[INSTRUCTIONS] += 1;
    }
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
fn ended(vcpu: &mut Vcpu, by_user_code: usize) {
    let Some(state) = STATE.get() else { return };
    let run = state.runs.get(vcpu);
    if run[HAS_BOOTED] != 0 && (run[INSTRUCTIONS] >= TOLD_FROM || run[HAS_TOLD] == 0) {
        run[HAS_TOLD] = 1;
        tell(state, run);
    }
    run[HAS_BOOTED] |= by_user_code as u64;
    run[INSTRUCTIONS] = 0;
    run[TRAIL_LEN] = 0;
}

#[cold]
fn tell(state: &State, run: &Run) {
    let Ok(mut told) = state.told.lock() else { return };
    let trail = &run[TRAIL..TRAIL + run[TRAIL_LEN] as usize];
    let longest = told.longest.entry(trail.first().copied().unwrap_or_default()).or_default();
    if run[INSTRUCTIONS] <= *longest {
        return;
    }
    *longest = run[INSTRUCTIONS];
    let trail: String = trail.iter().map(|address| format!(" {address:x}")).collect();
    // Not buffered: QEMU may be killed as soon as the guest has ended.
    let _ = told.out.write_all(format!("{}{trail}\n", run[INSTRUCTIONS]).as_bytes());
}
