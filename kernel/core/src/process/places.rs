//! Where the parts of a new program's address space begin: at random, so that who has found an address in one process knows none of another one (Linux's
//! `randomize_va_space`; `personality` turns it off for a process and what it starts).
//!
//! ```text
//! program  heap ...                            ... mappings | interpreter      stack
//! +------+ +----->                             <-----------+ +---------+  <---------+
//!   24 bits  13 bits                              16 bits      16 bits      14 bits     of what is in this GiB and the one below it
//!   of 64 KiB  of pages                           of pages     of pages     of pages    and 12 bits of GiB for these three together
//! ```
//!
//! The three at the end stay in the same two GiB, so that a program needs no more page tables than without (but for that of the
//! page of stubs, which has its place).

use motet_abi::{Errno, process::ADDR_NO_RANDOMIZE, time::RLIMIT_STACK};
use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, ProcessRecord, USER_END};

use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    permission::Identity,
    random::{self, Placed},
    tree::limit_of,
};

/// Where position-independent programs are loaded, at least.
const PROGRAM: u64 = 0x5555_5555_0000;
/// Programs' segments may want to be aligned to this.
const PROGRAM_UNIT: u64 = 64 << 10;
/// Where interpreters are loaded, at least.
const INTERPRETER: u64 = 0x7fff_c000_0000;
/// Mappings go below this, the stack above.
const MAPPINGS_TOP: u64 = 0x7fff_b000_0000;
/// Room between an interpreter and the end of addresses that a stack has whatever is chosen.
const STACK_ROOM: u64 = 512 << 20;
/// What the stack may grow to at most, of all addresses (Linux `mmap_base`: five sixths).
const STACK_ROOM_MAX: u64 = USER_END / 6 * 5;
/// A stack does not come closer to a mapping.
const STACK_GUARD: u64 = 1 << 20;
/// What is placed lower is so by multiples of this, so that it needs no more tables of pages.
const GIB: u64 = 1 << 30;

/// Addresses of a new program's parts.
pub struct Places {
    /// What is added to the addresses of a program that is position-independent.
    pub program_bias: u64,
    /// Room between the program and its heap.
    pub before_heap: u64,
    /// The same as `program_bias` for its interpreter.
    pub interpreter_bias: u64,
    /// Mappings go below this.
    pub mappings_top: u64,
    /// The stack ends here.
    pub stack_top: u64,
}

impl Places {
    /// Chooses them for a program that a process executes. Who gets another identity by that has not chosen for it (`personality`).
    pub fn choose<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, identity: Identity) -> Self {
        let lower_by = lower_by(limit_of(process, RLIMIT_STACK));
        let mut chance = Chance([0; 2]);
        let is_off = process.personality.get() & ADDR_NO_RANDOMIZE != 0 && !identity.is_secure();
        let what = if is_off { Placed::AsEver } else { random::placed(cpu) };
        if what != Placed::AsEver {
            chance.0 = random::words(cpu);
        }
        let far = chance.bits(0, 12) * GIB;
        Self {
            stack_top: USER_END - far - chance.bits(0, 14) * PAGE_SIZE,
            interpreter_bias: INTERPRETER - far - lower_by + chance.bits(0, 16) * PAGE_SIZE,
            mappings_top: MAPPINGS_TOP - far - lower_by - chance.bits(0, 16) * PAGE_SIZE,
            program_bias: PROGRAM + chance.bits(1, 24) * PROGRAM_UNIT,
            before_heap: if what == Placed::AtRandom { chance.bits(1, 13) * PAGE_SIZE } else { 0 },
        }
    }
}

/// Random bits that are not used yet.
struct Chance([u64; 2]);

impl Chance {
    /// So many of a word.
    fn bits(&mut self, word: usize, count: u32) -> u64 {
        let bits = self.0[word] & ((1 << count) - 1);
        self.0[word] >>= count;
        bits
    }
}

/// By how much mappings begin lower than usually, so that the stack can grow to this limit. What is mapped stays where it is if the limit is raised
/// later.
fn lower_by(stack_max: u64) -> u64 {
    let room = stack_max.saturating_add(STACK_GUARD).min(STACK_ROOM_MAX);
    room.saturating_sub(STACK_ROOM).next_multiple_of(GIB)
}

/// `personality(persona)`: whether the programs that this process executes are placed at random. There is nothing else to choose.
///
/// # Errors
/// `EINVAL`: another execution domain or flag.
pub fn personality<M: Machine>(call: &Call<M>) -> SysResult {
    /// Only asks.
    const ASK: u32 = u32::MAX;
    let before = call.process.personality.get();
    match call.args[0] as u32 {
        ASK => {}
        persona if persona & !ADDR_NO_RANDOMIZE == 0 => call.process.personality.set(persona),
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(before.into())
}
