//! How long a process's vector registers are: all of its threads have the same length.

use motet_layout::sync::Ordering;

use motet_abi::{
    extension::{Extension, ExtensionSet, RiscV64},
    registers,
};
use motet_hal::Machine;
use motet_layout::{Isa, ProcessRecord, ThreadRecord};

use crate::{cpu::Cpu, tree::process_of};

/// RISC-V's extensions that say how long vector registers are at least, in bytes.
pub(super) const LENGTHS: [(u32, RiscV64); 4] =
    [(16, RiscV64::Zvl128b), (32, RiscV64::Zvl256b), (64, RiscV64::Zvl512b), (128, RiscV64::Zvl1024b)];

/// Those that a core has whose registers have so many bytes.
pub fn with_lengths<M: Machine>(vector_bytes: u32) -> ExtensionSet {
    let mut set = ExtensionSet::empty(M::ISA);
    if M::ISA == Isa::RiscV64 {
        for (_, extension) in LENGTHS.into_iter().filter(|&(bytes, _)| vector_bytes >= bytes) {
            set = set.with(Extension::RiscV64(extension));
        }
    }
    set
}

/// Bytes in the vector registers of a thread: as many as its process has used first, or its values have; 0: neither. A program may keep
/// their length in memory, so it is the same for all of its threads for good.
pub fn length_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> u32 {
    length_in_process::<M>(process_of(cpu, thread), thread)
}

/// The same, of a thread of this process.
#[inline(always)]
pub fn length_in_process<M: Machine>(process: &ProcessRecord, thread: &ThreadRecord) -> u32 {
    match kept_length::<M>(process) {
        0 => registers::vector_bytes(&thread.frame),
        bytes => bytes,
    }
}

/// A length is a multiple of this ([`ProcessRecord::vector_lengths`]).
const LENGTH_UNIT: u32 = 8;

/// Bytes in the vector registers that a process has used of this ISA; 0: it has used none.
pub fn kept_length<M: Machine>(process: &ProcessRecord) -> u32 {
    length_in(M::ISA, process.vector_lengths.load(Ordering::Relaxed))
}

const fn length_in(isa: Isa, lengths: u32) -> u32 {
    (lengths >> length_shift(isa) & 0xff) * LENGTH_UNIT
}

const fn length_shift(isa: Isa) -> u32 {
    8 * (isa as u32 - 1)
}

/// Whether the vector registers of this core are as long as those of the thread's process, which are as long as these from now on if it has
/// not used any.
pub fn has_length<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    keep_length(process_of(cpu, thread), M::ISA, cpu.own.vector_bytes.get()) == cpu.own.vector_bytes.get()
}

/// How long the vector registers of a process are: so many bytes from now on, if it has not used any.
pub(super) fn keep_length(process: &ProcessRecord, isa: Isa, bytes: u32) -> u32 {
    loop {
        // Before the look at it: what others set in between makes the exchange fail.
        let lengths = process.vector_lengths.load(Ordering::Relaxed);
        let kept = length_in(isa, lengths);
        if kept != 0 || bytes == 0 {
            return kept;
        }
        let with = lengths | (bytes / LENGTH_UNIT) << length_shift(isa);
        let _ = process.vector_lengths.compare_exchange(lengths, with, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A process has vector registers of these lengths from now on; 0: as long as they are where it uses some first.
pub(super) fn begin_lengths(process: &ProcessRecord, of_isas: [(Isa, u32); 2]) {
    let lengths = of_isas.into_iter().fold(0, |all, (isa, bytes)| all | (bytes / LENGTH_UNIT) << length_shift(isa));
    process.vector_lengths.store(lengths, Ordering::Relaxed);
}

/// A process with one thread has vector registers of another length from now on.
pub(super) fn replace_length(process: &ProcessRecord, isa: Isa, bytes: u32) {
    let lengths = process.vector_lengths.load(Ordering::Relaxed) & !(0xff << length_shift(isa));
    process.vector_lengths.store(lengths | (bytes / LENGTH_UNIT) << length_shift(isa), Ordering::Relaxed);
}
