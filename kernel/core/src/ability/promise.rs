//! Vector registers that a program was told of, because it keeps to cores that have them. On x86-64 a program sees whether they are open (CPUID,
//! XGETBV), and asks once: so they stay open for it, and all that it can ask says the same.

use motet_abi::extension::ExtensionSet;
use motet_hal::Machine;
use motet_layout::{Isa, ThreadRecord};
use motet_protocol::{
    cores::{all_cores, core_record},
    run_queue::allowed,
};

use super::place::{affinity, set_needs_of};
use super::vectors_of;
use crate::cpu::Cpu;

/// A thread begins a program of an ISA. If its affinity has only cores with vector registers, which others of the ISA lack, the program is
/// [told](super::hwcap) that there are some: it needs them from now on, and finds them open.
pub fn promise<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, isa: Isa) {
    thread.promised.set(0);
    let Some(vectors) = vectors_of(isa).filter(|_| isa == Isa::X86_64) else { return };
    let needs = ExtensionSet::empty(isa).with(vectors);
    let of_isa = || all_cores(cpu).filter(|&core| cpu.isa_of(core) == Some(isa));
    let has = |core| needs.is_subset(ExtensionSet::from_bits(isa, core_record(cpu, core).capabilities.get()));
    let mut bound = of_isa().filter(|&core| allowed(affinity(thread), core)).peekable();
    if bound.peek().is_none() || !bound.all(has) || of_isa().all(has) {
        return;
    }
    let (mut able, mut only) = ([u64::MAX; 2], [0; 2]);
    for core in of_isa() {
        let words = if has(core) { &mut only } else { &mut able };
        words[core.index() / 64] ^= 1 << (core.index() % 64);
    }
    set_needs_of(thread, needs, isa, able, only);
    thread.moves.unused_slices.set(0);
    thread.moves.stays.set(1);
    thread.promised.set(1);
}

/// The registers of the thread that runs here were loaded anew: opens what it was promised.
#[inline(always)]
pub fn keep_promise<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if thread.promised.get() != 0 {
        keep_open(cpu, thread);
    }
}

#[cold]
fn keep_open<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let is_here = thread.needs_isa.get() == M::ISA as u32 && cpu.own.vector_bytes.get() != 0;
    if is_here && !cpu.machine.are_vectors_open() {
        cpu.machine.open_vectors(&thread.frame);
        thread.moves.uses_vectors.set(1);
    }
}
