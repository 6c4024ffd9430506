//! Hints: system calls by which programs say themselves that they will use an extension.

use motet_abi::{
    Errno,
    extension::{Extension, ExtensionSet},
    registers,
};
use motet_hal::Machine;

use super::back;
use crate::ability::{self, of_thread, writes};
use crate::{
    call::{self, Call, Stop, SysResult},
    handover, mm,
};

/// Longest name of an extension, with its terminating zero.
const NAME_MAX: usize = 32;

/// `need(name)`: the caller is about to use an extension, and goes to a core that has it now rather than at the first instruction. It stays
/// there until it says [`done`], whether it uses it or not.
///
/// # Errors
/// `EINVAL`: the caller's ISA has no extension of that name; `ENODEV`: no core has it on which the caller may run; `EFAULT`.
pub fn need<M: Machine>(call: &Call<M>) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let needs = of_thread::<M>(thread).union(named(call)?);
    ability::need_length(cpu, thread, needs);
    if !ability::try_needs(cpu, thread, needs) {
        return Err(Errno::ENODEV.into());
    }
    thread.moves.stays.set(1);
    if ability::is_able(cpu, thread, needs) {
        return Ok(0);
    }
    back::leaves(cpu, thread);
    registers::set_result(&thread.frame, 0);
    call::end_call(thread);
    let core = handover::move_to_able(cpu, thread);
    back::ask_for_way(cpu, core);
    Err(Stop::Gone)
}

/// `done(name)`: the caller will not use an extension for a while. It goes back to where it came from, if that core has nothing else to do.
///
/// # Errors
/// `EINVAL`: the caller's ISA has no extension of that name; `EFAULT`.
pub fn done<M: Machine>(call: &Call<M>) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let needs = of_thread::<M>(thread).without(named(call)?);
    if needs == of_thread::<M>(thread) {
        return Ok(0);
    }
    thread.moves.stays.set(0);
    thread.promised.set(0);
    if cpu.machine.are_vectors_open() {
        writes(cpu, thread, || cpu.machine.close_vectors(&thread.frame));
    }
    ability::set_needs(cpu, thread, needs);
    if !needs.is_empty() {
        return Ok(0);
    }
    registers::set_result(&thread.frame, 0);
    call::end_call(thread);
    if back::goes_back(cpu, thread) { Err(Stop::Gone) } else { Ok(0) }
}

fn named<M: Machine>(call: &Call<M>) -> Result<ExtensionSet, Stop> {
    let mut name = [0; NAME_MAX];
    let len = read_name(call, &mut name)?;
    let name = &name[..len];
    // Mostly it is what the caller needs already.
    let needed = of_thread::<M>(call.thread).iter().find(|needed| needed.name().as_bytes() == name);
    let extension = needed.or_else(|| Extension::from_name_bytes(M::ISA, name)).ok_or(Errno::EINVAL)?;
    Ok(ExtensionSet::empty(M::ISA).with(extension))
}

/// Reads the name by words, as most names fit one, and the core mostly knows where it lies.
fn read_name<M: Machine>(call: &Call<M>, name: &mut [u8; NAME_MAX]) -> Result<usize, Stop> {
    let space = mm::space_of(call.cpu, call.process);
    let (mut at, mut len) = (call.args[0], 0);
    loop {
        let word = mm::read_word(call.cpu, space, at & !7)?.to_le_bytes();
        for &byte in &word[(at % 8) as usize..] {
            if byte == 0 {
                return Ok(len);
            }
            *name.get_mut(len).ok_or(Errno::EINVAL)? = byte;
            len += 1;
        }
        at = (at & !7).checked_add(8).ok_or(Errno::EFAULT)?;
    }
}
