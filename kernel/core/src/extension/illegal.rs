//! An instruction that is illegal on this core.

use motet_abi::{
    extension::{self, LONGEST_BYTES, Needed, Requirement},
    registers,
};
use motet_hal::{Machine, Trap};
use motet_layout::{ProcessRecord, ThreadRecord};

use super::{away, back, of_thread, place, uses_vectors};
use crate::{call::instruction_at, cpu::Cpu, file, sched, signal};

/// Acts on an illegal instruction of the running thread: opens the vector registers, moves the thread to a core that has the
/// instruction, or sends SIGILL. `None`: the thread no longer belongs to this core.
#[cold]
pub fn illegal<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Option<()> {
    let Some(required) = instruction(cpu, thread, process) else {
        signal::exception(cpu, thread, Trap::IllegalInstruction);
        return Some(());
    };
    if let Some(has) = required.alternatives().find(|&set| place::is_able(cpu, thread, set)) {
        if uses_vectors::<M>(has) && !cpu.machine.are_vectors_open() {
            if cpu.own.scarce.get() != 0 {
                // Its registers are to be where they are, as long as it uses them.
                place::set_needs(cpu, thread, of_thread::<M>(thread).union(has));
            }
            place::open(cpu, thread);
        } else {
            // The extension is there, and does not have this instruction in this form.
            signal::exception(cpu, thread, Trap::IllegalInstruction);
        }
        return Some(());
    }
    let before = of_thread::<M>(thread);
    let target = required.alternatives().find_map(|set| {
        let needs = before.union(set);
        Some((needs, place::best_core(cpu, thread, needs)?))
    });
    let Some((needs, core)) = target else {
        if required.alternatives().any(uses_vectors::<M>)
            && cpu.machine.hidden_harts() != 0
            && let Ok(stays) = away::leave(cpu, thread)
        {
            return stays;
        }
        refuse(cpu, thread, process, &required);
        return Some(());
    };
    place::set_needs(cpu, thread, needs);
    back::leaves(cpu, thread);
    sched::move_to(cpu, thread, core);
    back::ask_for_way(cpu, core);
    None
}

/// What could run the instruction that the thread has stopped at.
fn instruction<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<Requirement> {
    let mut code = [0; LONGEST_BYTES];
    let code = instruction_at(cpu, thread, process, &mut code)?;
    match extension::needed(M::ISA, code) {
        Needed::Extensions(required) => Some(required),
        Needed::Unknown | Needed::Short => None,
    }
}

/// No core has the instruction: SIGILL, and the user is told why, unless the program has a handler for it.
#[cold]
fn refuse<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    required: &Requirement,
) {
    if !signal::is_handled(cpu, process, signal::SIGILL) {
        let pid = process.pid.get();
        let isa = M::ISA.name();
        let has_some = required.alternatives().any(|set| place::is_somewhere(cpu, set));
        let why =
            if has_some { "its affinity lets it run on no core with it" } else { "no core of the machine has it" };
        file::kernel_message(
            cpu,
            format_args!(
                "process {pid} is ended by SIGILL: the instruction at {:#x} needs the {isa} extension {required}, and {why}",
                registers::pc(&thread.frame)
            ),
        );
    }
    signal::exception(cpu, thread, Trap::IllegalInstruction);
}
