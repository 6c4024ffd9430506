//! Hints: system calls by which programs say themselves that they will use an extension.

use motet_abi::{
    Errno,
    extension::{Extension, ExtensionSet},
    registers,
};
use motet_hal::Machine;

use super::back;
use crate::ability::{self, of_thread, vectors};
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
    if let Some(core) = handover::move_to_able(cpu, thread) {
        back::ask_for_way(cpu, core);
    }
    Err(Stop::Gone)
}

/// `done(name)`: the caller will not use an extension for a while. It goes back to where it came from, if that core has nothing else to do.
///
/// # Errors
/// `EINVAL`: the caller's ISA has no extension of that name; `EFAULT`.
pub fn done<M: Machine>(call: &Call<M>) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let named = named(call)?;
    let needs = cpu.ability.without(of_thread::<M>(thread), named);
    if needs == of_thread::<M>(thread) {
        return Ok(0);
    }
    thread.moves.stays.set(0);
    thread.promised.set(0);
    if vectors::<M>().is_some_and(|vectors| named.contains(vectors)) {
        // By every calling convention they are the callee's.
        handover::discard_vectors(cpu, thread);
    } else if cpu.machine.are_vectors_open() {
        handover::close_vectors(cpu, thread);
    }
    ability::set_needs(cpu, thread, needs);
    if !needs.is_empty() {
        return Ok(0);
    }
    registers::set_result_of(M::ISA, &thread.frame, 0);
    call::end_call(thread);
    if back::goes_back(cpu, thread) { Err(Stop::Gone) } else { Ok(0) }
}

fn named<M: Machine>(call: &Call<M>) -> Result<ExtensionSet, Stop> {
    let at = call.args[0];
    let word = mm::read_word(call.cpu, mm::space_of(call.cpu, call.process), at & !7)?;
    // What lies behind it is none of its bytes, and no zero.
    let shift = 8 * (at % 8);
    let word = word >> shift | !(u64::MAX >> shift);
    // Mostly it is what this core was told last.
    match call.cpu.ability.named(word) {
        Some(set) => Ok(set),
        None => read(call, word),
    }
}

/// `word`: the name, as far as it lies in its first word.
#[cold]
fn read<M: Machine>(call: &Call<M>, word: u64) -> Result<ExtensionSet, Stop> {
    let mut name = [0; NAME_MAX];
    let len = read_name(call, &mut name)?;
    let extension = Extension::from_name_bytes(M::ISA, &name[..len]).ok_or(Errno::EINVAL)?;
    let set = ExtensionSet::empty(M::ISA).with(extension);
    let bytes = word.to_le_bytes();
    if bytes.get(..len) == Some(&name[..len]) && bytes.get(len) == Some(&0) && 8 * (len + 1) < 64 {
        call.cpu.ability.put_named((1 << (8 * (len + 1))) - 1, word, set);
    }
    Ok(set)
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
