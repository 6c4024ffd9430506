//! Which length of vector registers a program gets: the one that it was made for, or that it asks for (`PR_SVE_SET_VL`).

use motet_abi::extension::{Extension, ExtensionSet, RiscV64};
use motet_hal::Machine;
use motet_layout::{CoreId, Isa, ProcessRecord, ThreadRecord};
use motet_protocol::{
    cores::{all_cores, core_record, cores_in},
    run_queue::allowed,
};

use super::{
    area,
    length::{LENGTHS, begin_lengths, keep_length, kept_length, replace_length},
    of_thread,
    place::{affinity, set_needs},
    values::writes,
};
use crate::{cpu::Cpu, tree::process_of};

/// `PR_SVE_SET_VL`, `PR_SVE_GET_VL`: the length in bytes, of what they take and return.
const PR_SVE_VL_LEN_MASK: u64 = 0xffff;
/// A flag of these: programs that it executes have the length, too.
const PR_SVE_VL_INHERIT: u64 = 1 << 17;
/// A flag of `PR_SVE_SET_VL`: for the program that it executes next.
const PR_SVE_SET_VL_ONEXEC: u64 = 1 << 18;

/// A process begins a program. RISC-V's vector registers have so many bytes then, and SVE's as many as [`choose_length`] was told; 0: as many
/// as they have where it uses some first.
pub fn begin(process: &ProcessRecord, riscv_bytes: u32) {
    let next = process.next_length.get();
    if u64::from(next) & PR_SVE_VL_INHERIT == 0 {
        process.next_length.set(0);
    }
    let sve_bytes = next & PR_SVE_VL_LEN_MASK as u32;
    let both = [(Isa::RiscV64, riscv_bytes), (Isa::AArch64, sve_bytes)];
    begin_lengths(process, both);
}

/// Bytes in the vector registers that a program gets which was made for at least `least` of them, as it says: as many as the shortest such
/// have, of the cores in the thread's affinity if it can be; 0: any will do, or there are none, which it will notice.
///
/// # Errors
/// All cores of the ISA that have some have shorter ones: the program would compute something wrong.
pub fn for_program<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, isa: Isa, least: u32) -> Result<u32, ()> {
    let of_isa = || all_cores(cpu).filter(|&core| cpu.isa_of(core) == Some(isa));
    let length = |core: CoreId| core_record(cpu, core).vector_bytes.get();
    let shortest = of_isa().map(length).filter(|&bytes| bytes != 0).min().unwrap_or(0);
    let hidden = if isa == M::ISA && shortest == 0 { cpu.machine.hidden_vector_bytes() as u32 } else { 0 };
    if hidden != 0 && hidden < least {
        return Err(());
    }
    if shortest == 0 || shortest >= least {
        return Ok(0);
    }
    let rank = |&core: &CoreId| (!allowed(affinity(thread), core), length(core));
    of_isa().filter(|&core| length(core) >= least).min_by_key(rank).map(length).ok_or(())
}

/// A process whose thread says that it needs these extensions has vector registers that are long enough from now on, unless it has used
/// shorter ones.
pub fn need_length<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, needs: ExtensionSet) {
    let is_needed = |&(_, extension): &(u32, RiscV64)| needs.contains(Extension::RiscV64(extension));
    if M::ISA != Isa::RiscV64 {
        return;
    }
    if let Some((least, _)) = LENGTHS.into_iter().rfind(is_needed)
        && let Ok(bytes) = for_program(cpu, thread, M::ISA, least)
    {
        keep_length(process_of(cpu, thread), M::ISA, bytes);
    }
}

/// Bytes in the vector registers of the calling process, which are so long from now on if it has not used any. `None`: no core of this ISA
/// has some.
fn vector_length<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> Option<u32> {
    let of = |core| core_record(cpu, core).vector_bytes.get();
    let here = (cpu.own.vector_bytes.get() != 0).then_some(cpu.own.vector_bytes.get());
    let bytes = here.or_else(|| cores_in(cpu.ability.peers()).map(of).filter(|&bytes| bytes != 0).min())?;
    Some(keep_length(process, M::ISA, bytes))
}

/// What `PR_SVE_GET_VL` says: the length, and whether programs that it executes have it, too. `None`: there is none.
pub fn told_length<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> Option<u64> {
    let bytes = vector_length(cpu, process)?;
    Some(u64::from(bytes) | u64::from(process.next_length.get()) & PR_SVE_VL_INHERIT)
}

/// What SVE's length is to be, as `PR_SVE_SET_VL` says it: at most so many bytes, and [flags](PR_SVE_VL_INHERIT). The longest that there is
/// is chosen. Other threads than the caller keep a length, so if there are some (`is_alone`), what the process has used is all that there is.
/// Returns what `PR_SVE_GET_VL` says then. `None`: there is none so short, or this is no such length, or no such flag.
pub fn choose_length<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    argument: u64,
    is_alone: bool,
) -> Option<u64> {
    const LENGTH_MAX: u64 = 8192;
    let (most, flags) = (argument & PR_SVE_VL_LEN_MASK, argument & !PR_SVE_VL_LEN_MASK);
    let is_length = most % 16 == 0 && (16..=LENGTH_MAX).contains(&most);
    if !is_length || flags & !(PR_SVE_VL_INHERIT | PR_SVE_SET_VL_ONEXEC) != 0 {
        return None;
    }
    let process = process_of(cpu, thread);
    let (kept, is_later) = (kept_length::<M>(process), flags & PR_SVE_SET_VL_ONEXEC != 0);
    let lengths = cores_in(cpu.ability.peers()).map(|core| core_record(cpu, core).vector_bytes.get());
    let there = lengths.filter(|&bytes| bytes != 0 && (is_later || is_alone || kept == 0 || bytes == kept));
    let bytes = there.filter(|&bytes| u64::from(bytes) <= most).max()?;
    if !is_later && bytes != kept && keep_length(process, M::ISA, bytes) != bytes {
        if !is_alone {
            // Another thread has just been first.
            return None;
        }
        change_length(cpu, thread, process, bytes);
    }
    let for_next = if flags == 0 { 0 } else { u64::from(bytes) };
    process.next_length.set((for_next | flags & PR_SVE_VL_INHERIT) as u32);
    Some(u64::from(bytes) | flags & PR_SVE_VL_INHERIT)
}

/// The only thread of a process has registers of another length from now on, without values.
#[cold]
fn change_length<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &ProcessRecord, bytes: u32) {
    if cpu.machine.are_vectors_open() {
        let _ = writes(cpu, thread, || cpu.machine.close_vectors(&thread.frame));
    }
    area::release(cpu, thread);
    replace_length(process, M::ISA, bytes);
    set_needs(cpu, thread, of_thread::<M>(thread));
}

/// Bytes in the longest vector registers that a program of this ISA may get.
pub fn longest_vectors<M: Machine>(cpu: &Cpu<M>, isa: Isa) -> u32 {
    let of_isa = all_cores(cpu).filter(|&core| cpu.isa_of(core) == Some(isa));
    let hidden = if isa == M::ISA { cpu.machine.hidden_vector_bytes() as u32 } else { 0 };
    of_isa.map(|core| core_record(cpu, core).vector_bytes.get()).fold(hidden, u32::max)
}
