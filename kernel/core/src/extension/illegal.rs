//! Instructions that are illegal on this core: the thread gets the registers, moves to a core that has the instruction, or gets SIGILL.

use core::fmt;

use motet_abi::{
    extension::{self, ExtensionSet, LONGEST_BYTES, Needed, Requirement},
    registers,
};
use motet_hal::{Machine, Trap};
use motet_layout::{ProcessRecord, ThreadRecord};

use super::{back, hidden};
use crate::{
    ability::{self, of_thread, uses_vectors, vectors},
    call, console,
    cpu::Cpu,
    handover,
    mm::instruction_at,
    process::exit,
    signal,
    tree::process_of,
};

/// Acts on an illegal instruction of the running thread: opens the vector registers, moves the thread to a core that has the
/// instruction, or sends SIGILL. `word`: see [`Trap::IllegalInstruction`]. `None`: the thread no longer belongs to this core.
#[cold]
pub fn illegal<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    word: u32,
) -> Option<()> {
    if cpu.machine.get_ext(&thread.frame) {
        return Some(());
    }
    let Some(required) = instruction(cpu, thread, process, word) else {
        signal::exception(cpu, thread, Trap::IllegalInstruction { word: 0 });
        return Some(());
    };
    if let Some(has) = required.alternatives().find(|&set| ability::is_able(cpu, thread, set)) {
        if !uses_vectors::<M>(has) || cpu.machine.are_vectors_open() {
            // The extension is there, and does not have this instruction in this form; or it is there by the machine's description alone.
            if !has.intersection(ExtensionSet::from_bits(M::ISA, cpu.own.claimed.get())).is_empty() {
                let why =
                    format_args!("which this machine's description gives core {}, and the core refuses it", cpu.id.0);
                say(cpu, thread, process, required, why);
            }
            signal::exception(cpu, thread, Trap::IllegalInstruction { word: 0 });
            return Some(());
        }
        return open(cpu, thread, process, has);
    }
    let before = of_thread::<M>(thread);
    if !required.alternatives().any(|set| ability::try_needs(cpu, thread, before.union(set))) {
        return hide(cpu, thread, process, &required);
    }
    if before.is_empty() {
        ability::keep_way(cpu, thread, process, word);
    }
    leave(cpu, thread);
    None
}

/// The running thread has come to an instruction for which the last one went that did ([`illegal`]): it goes, too, if it can go at once. `true`: it has, and no
/// longer belongs to this core.
#[inline(never)]
pub fn goes_again<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    word: u32,
) -> bool {
    let goes = word != 0 && ability::needs_again(cpu, thread, process, word);
    if goes {
        leave(cpu, thread);
    }
    goes
}

/// The running thread leaves for a core that has what it needs.
#[inline(always)]
fn leave<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    back::leaves(cpu, thread);
    if let Some(core) = handover::move_to_able(cpu, thread) {
        back::ask_for_way(cpu, core);
    }
}

/// The running thread has got values for its vector registers by a call, which ends: if it cannot run without these and this core has none as
/// long, it moves to a core that has, or gets SIGILL. `true`: it no longer belongs to this core.
#[inline(always)]
pub fn got_values<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> bool {
    !ability::fits(cpu, thread) && cpu.machine.must_have_vectors(&thread.frame) && takes_values(cpu, thread, process)
}

#[cold]
fn takes_values<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> bool {
    let Some(vectors) = vectors::<M>() else { return false };
    let needs = of_thread::<M>(thread).with(vectors);
    if !ability::try_needs(cpu, thread, needs) {
        refuse(cpu, thread, process, needs, lack(cpu, [needs].into_iter()));
        return false;
    }
    call::end_call(thread);
    leave(cpu, thread);
    true
}

/// A thread begins to run on this core: opens the vector registers if it will most likely use them soon.
#[inline(always)]
pub fn take<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    // A core without vector registers has nothing to open, nor does a thread without values in them mind.
    let has_some =
        || cpu.own.vector_bytes.get() | registers::vector_bytes(&thread.frame) | thread.moves.on_way.get() != 0;
    if thread.needs.get() != 0 || thread.moves.uses_vectors.get() != 0 && has_some() {
        begin(cpu, thread);
    }
}

#[cold]
fn begin<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let moves = &thread.moves;
    if moves.on_way.get() != 0 {
        moves.on_way.set(0);
        let on_way_ns = cpu.now_ns().saturating_sub(moves.moved_at_ns.get());
        moves.moving_ns.set(moves.moving_ns.get() + on_way_ns);
    }
    if !ability::fits(cpu, thread) && cpu.machine.must_have_vectors(&thread.frame) {
        return has_lost_values(cpu, thread);
    }
    let may_use_them = uses_vectors::<M>(of_thread::<M>(thread)) || ability::has_common_vectors(cpu.own);
    let used_them = may_use_them && moves.unused_slices.get() == 0;
    let can_open = cpu.own.vector_bytes.get() != 0 && !cpu.machine.are_vectors_open();
    // Values of this length are in an area for it.
    let has_values = registers::vector_bytes(&thread.frame) == cpu.own.vector_bytes.get();
    let has_length = || ability::has_length(cpu, thread);
    if used_them
        && can_open
        && has_length()
        && (has_values || ability::fits(cpu, thread) && ability::is_area_ready(cpu, thread))
    {
        // Not as a use: if it does not use them, it is not to seem so.
        cpu.machine.open_vectors(&thread.frame);
        moves.uses_vectors.set(1);
    }
}

/// A thread that cannot run without its values in vector registers has come to a core that does not take them: those that do are taken out. SIGILL.
#[cold]
fn has_lost_values<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let Some(vectors) = vectors::<M>() else { return };
    let needs = of_thread::<M>(thread).with(vectors);
    refuse(cpu, thread, process_of(cpu, thread), needs, lack(cpu, [needs].into_iter()));
}

/// No core has the instruction: a hidden hart may.
#[cold]
fn hide<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    required: &Requirement,
) -> Option<()> {
    let bytes = cpu.machine.hidden_vector_bytes();
    let live_bytes = registers::vector_bytes(&thread.frame) as usize;
    let is_for_them = required.alternatives().any(uses_vectors::<M>) && cpu.machine.hidden_harts() != 0;
    if is_for_them && (live_bytes == 0 || live_bytes == bytes) {
        if ability::for_registers(cpu, thread, bytes).is_none() {
            return kill(cpu, thread, process, bytes);
        }
        if let Ok(stays) = hidden::leave(cpu, thread) {
            return stays;
        }
    }
    refuse(cpu, thread, process, required, lack(cpu, required.alternatives()));
    Some(())
}

/// There is no memory for what an instruction needs.
#[cold]
fn kill<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    bytes: usize,
) -> Option<()> {
    let pid = process.pid.get();
    let what = "there is no memory left for its vector registers";
    console::kernel_message(cpu, format_args!("process {pid} is killed: {what} of {bytes} bytes each"));
    exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
    None
}

/// Opens the vector registers of this core, which has an extension that uses them.
fn open<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    has: ExtensionSet,
) -> Option<()> {
    if !ability::has_length(cpu, thread) {
        // Another thread of the process has just used longer or shorter ones first: this one stops once more, and goes to a core with such.
        return Some(());
    }
    if ability::open(cpu, thread).is_none() {
        return kill(cpu, thread, process, cpu.own.vector_bytes.get() as usize);
    }
    if cpu.own.scarce.get() != 0 {
        // Its registers are to be where they are, as long as it uses them. They are open: so it stays with its length.
        ability::set_needs(cpu, thread, of_thread::<M>(thread).union(has));
    }
    Some(())
}

/// What could run the instruction that the thread has stopped at.
fn instruction<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    word: u32,
) -> Option<Requirement> {
    // 0: the core does not tell, and the bytes are read.
    if word != 0
        && let Some(required) = cpu.ability.decoded(word)
    {
        return Some(required);
    }
    let required = decode(cpu, thread, process, word)?;
    if word != 0 {
        cpu.ability.put_decoded(word, required);
    }
    Some(required)
}

#[inline(never)]
fn decode<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    word: u32,
) -> Option<Requirement> {
    let mut code = [0; LONGEST_BYTES];
    let code = instruction_at(cpu, thread, process, word, &mut code)?;
    match extension::needed(M::ISA, code) {
        Needed::Extensions(required) => Some(required),
        Needed::Unknown | Needed::Short => None,
    }
}

/// Why there is no core for a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// None has what it needs.
    Core,
    /// Those that have are taken out.
    InUse,
}

fn lack<M: Machine>(cpu: &Cpu<M>, mut sets: impl Iterator<Item = ExtensionSet>) -> Lack {
    if sets.any(|set| ability::is_somewhere(cpu, set)) { Lack::InUse } else { Lack::Core }
}

/// No core that has what the instruction needs can run the thread: SIGILL, and the user is told why.
#[cold]
fn refuse<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    required: impl fmt::Display,
    lack: Lack,
) {
    let has_some = lack != Lack::Core;
    let why = match lack {
        Lack::Core => "no core of the machine has it",
        Lack::InUse => "all cores with it are taken out",
    };
    let live_bytes = ability::length_of(cpu, thread);
    let length = format_args!(" and with registers of {live_bytes} bytes, as many as its process has used");
    let length = if has_some && live_bytes != 0 { length } else { format_args!("") };
    say(cpu, thread, process, required, format_args!("and {why}{length}"));
    signal::exception(cpu, thread, Trap::IllegalInstruction { word: 0 });
}

/// Says why a process gets SIGILL, unless the program has a handler for it.
#[cold]
fn say<M: Machine>(
    cpu: &Cpu<M>,
    thread: &ThreadRecord,
    process: &ProcessRecord,
    required: impl fmt::Display,
    why: fmt::Arguments<'_>,
) {
    if signal::is_handled(cpu, process, signal::SIGILL) {
        return;
    }
    let (pid, pc, isa) = (process.pid.get(), registers::pc(&thread.frame), M::ISA.name());
    let what = format_args!("the instruction at {pc:#x} needs the {isa} extension {required}, {why}");
    console::kernel_message(cpu, format_args!("process {pid} is ended by SIGILL: {what}"));
}
