//! Where cores change between programs and their kernel.
//!
//! QEMU's interface (version 4) does not report traps. But a core reaches a handler's first instruction in no other way, and
//! a kernel names these instructions to its core when it starts, by writing the registers that hold its vectors. Handlers end
//! with instructions of their own.

use std::{collections::BTreeSet, sync::PoisonError};

use iced_x86::{Decoder, DecoderOptions, Register as X86};
use motet_coherence::TrapEvent;
use motet_layout::Isa;
use motet_plugin_api::{Guest, Instruction, Vcpu};

use crate::{PLUGIN, Plugin, operands};

/// Physical address of the end-of-interrupt register of x86-64's local APIC (SDM, volume 3, "Local APIC register address map").
pub const LOCAL_APIC_END_OF_INTERRUPT: u64 = 0xfee0_00b0;
/// `IA32_LSTAR`: where `syscall` goes.
const LSTAR: u64 = 0xc000_0082;
/// Bytes of a gate of the interrupt-descriptor table, and of AArch64's vectors.
const GATE_SIZE: usize = 16;
const VECTORS_SIZE: u64 = 0x800;
const VECTOR_SIZE: u64 = 0x80;

/// The handlers' first instructions that an island's kernel has named to its cores so far.
#[derive(Debug, Default)]
pub struct Handlers {
    /// Of traps.
    traps: BTreeSet<u64>,
    /// Of x86-64's `syscall`.
    syscalls: BTreeSet<u64>,
}

impl Handlers {
    /// What has happened when a core executes the instruction at an address.
    pub fn entry(&self, address: u64) -> Option<TrapEvent> {
        let syscall = self.syscalls.contains(&address).then_some(TrapEvent::SyscallEntry);
        syscall.or_else(|| self.traps.contains(&address).then_some(TrapEvent::Entry))
    }
}

/// Which part of a change an instruction of a kernel is.
pub fn event(isa: Isa, code: &[u8]) -> Option<TrapEvent> {
    let word = code.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    match isa {
        // IRET with any operand size; SYSRET (SDM, volume 2).
        Isa::X86_64 => match code {
            [0xcf] | [0x40..=0x4f, 0xcf] => Some(TrapEvent::Exit),
            [0x0f, 0x07] | [0x40..=0x4f, 0x0f, 0x07] => Some(TrapEvent::SyscallExit),
            _ => None,
        },
        // ERET; MSR to ICC_EOIR1_EL1 (Arm ARM, C6.2; GICv3 specification, 12.2).
        Isa::AArch64 if word == 0xd69f_03e0 => Some(TrapEvent::Exit),
        Isa::AArch64 => (word & !31 == 0xd518_cc20).then_some(TrapEvent::EndOfInterrupt),
        // SRET, MRET (privileged specification); CSR instructions on stopei, which claim (AIA specification, 3.10).
        Isa::RiscV64 if matches!(word, 0x1020_0073 | 0x3020_0073) => Some(TrapEvent::Exit),
        Isa::RiscV64 => {
            (word & 0x7f == 0x73 && word >> 12 & 7 != 0 && word >> 20 == 0x15c).then_some(TrapEvent::EndOfInterrupt)
        }
        Isa::Hosted => None,
    }
}

/// Whether an instruction may name handlers: LIDT and WRMSR; MSR to VBAR_EL1; CSRRW to stvec or mtvec.
fn names_handlers(isa: Isa, code: &[u8]) -> bool {
    let word = code.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    match isa {
        Isa::X86_64 => operands::is_lidt(code) || code == [0x0f, 0x30],
        Isa::AArch64 => word & !31 == 0xd518_c000,
        Isa::RiscV64 => matches!(word & 0xfff0_707f, 0x1050_1073 | 0x3050_1073),
        Isa::Hosted => false,
    }
}

/// Lets translated code charge what an instruction of a kernel is part of, and learn handlers from it.
pub fn report(plugin: &Plugin, instruction: &Instruction<'_>, code: &[u8]) {
    let handlers = plugin.handlers.lock().unwrap_or_else(PoisonError::into_inner);
    for event in handlers.entry(instruction.address()).into_iter().chain(event(plugin.isa, code)) {
        plugin.charge_inline(instruction, event);
    }
    if names_handlers(plugin.isa, code) {
        instruction.call_with_guest(handlers_named, operands::site(instruction.address(), code));
    }
}

/// A kernel is about to execute an instruction that may name handlers.
fn handlers_named(_vcpu: &mut Vcpu, guest: &Guest<'_>, site: usize) {
    let Some(plugin) = PLUGIN.get() else { return };
    let (address, code) = operands::at(site);
    let mut handlers = plugin.handlers.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = match plugin.isa {
        Isa::X86_64 if operands::is_lidt(&code) => learn_gates(&mut handlers, guest, address, &code),
        Isa::X86_64 => learn_syscall(&mut handlers, guest),
        Isa::AArch64 => operands::register(plugin.isa, guest, &code).map(|base| {
            handlers.traps.extend((0..VECTORS_SIZE / VECTOR_SIZE).map(|vector| base + vector * VECTOR_SIZE));
        }),
        // Direct mode: one handler for all.
        Isa::RiscV64 => operands::register(plugin.isa, guest, &code).map(|base| {
            handlers.traps.insert(base & !3);
        }),
        Isa::Hosted => None,
    };
}

/// The gates of the interrupt-descriptor table that LIDT is about to load (SDM, volume 3, 7.14.1).
fn learn_gates(handlers: &mut Handlers, guest: &Guest<'_>, address: u64, code: &[u8]) -> Option<()> {
    let decoded = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    let pointer = guest.memory(operands::memory(&decoded, guest)?, 10)?;
    let limit = u16::from_le_bytes(*pointer.first_chunk()?);
    let base = u64::from_le_bytes(*pointer.last_chunk()?);
    for gate in guest.memory(base, usize::from(limit) + 1)?.chunks_exact(GATE_SIZE) {
        let [low, high] = [0, 8].map(|at| u64::from_le_bytes(gate[at..at + 8].try_into().unwrap_or_default()));
        let offset = low & 0xffff | low >> 32 & 0xffff_0000 | high << 32;
        if low >> 47 & 1 != 0 {
            handlers.traps.insert(offset);
        }
    }
    Some(())
}

/// Where `syscall` goes from now on, if that is what WRMSR is about to write.
fn learn_syscall(handlers: &mut Handlers, guest: &Guest<'_>) -> Option<()> {
    let [index, low, high] = [X86::RCX, X86::RAX, X86::RDX].map(|register| operands::x86_register(guest, register));
    if index? & 0xffff_ffff == LSTAR {
        handlers.syscalls.insert(high? << 32 | low? & 0xffff_ffff);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_handlers_and_of_interrupts_are_known_by_their_encodings() {
        let x86: [(&[u8], Option<TrapEvent>); 6] = [
            (&[0x48, 0xcf], Some(TrapEvent::Exit)),              // iretq
            (&[0xcf], Some(TrapEvent::Exit)),                    // iretd
            (&[0x48, 0x0f, 0x07], Some(TrapEvent::SyscallExit)), // sysretq
            (&[0x0f, 0x05], None),                               // syscall
            (&[0x89, 0xcf], None),                               // mov edi, ecx
            (&[0xc3], None),                                     // ret
        ];
        x86.iter().for_each(|(code, wanted)| assert_eq!(event(Isa::X86_64, code), *wanted, "{code:x?}"));
        let words = [
            (Isa::AArch64, 0xd69f_03e0_u32, Some(TrapEvent::Exit)), // eret
            (Isa::AArch64, 0xd518_cc23, Some(TrapEvent::EndOfInterrupt)), // msr icc_eoir1_el1, x3
            (Isa::AArch64, 0xd538_cc03, None),                      // mrs x3, icc_iar1_el1
            (Isa::AArch64, 0xd65f_03c0, None),                      // ret
            (Isa::RiscV64, 0x1020_0073, Some(TrapEvent::Exit)),     // sret
            (Isa::RiscV64, 0x3020_0073, Some(TrapEvent::Exit)),     // mret
            (Isa::RiscV64, 0x15c0_1573, Some(TrapEvent::EndOfInterrupt)), // csrrw a0, stopei, zero
            (Isa::RiscV64, 0x1005_1073, None),                      // csrw sstatus, a0
            (Isa::RiscV64, 0x0000_0073, None),                      // ecall
        ];
        words.iter().for_each(|(isa, word, wanted)| assert_eq!(event(*isa, &word.to_le_bytes()), *wanted, "{word:#x}"));
    }

    #[test]
    fn registers_of_vectors_are_known() {
        // lidt [rdi]; lidt [rsp+8]; wrmsr; and sidt [rdi], lgdt [rdi], rdmsr
        let x86: [(&[u8], bool); 6] = [
            (&[0x0f, 0x01, 0x1f], true),
            (&[0x0f, 0x01, 0x5c, 0x24, 0x08], true),
            (&[0x0f, 0x30], true),
            (&[0x0f, 0x01, 0x0f], false),
            (&[0x0f, 0x01, 0x17], false),
            (&[0x0f, 0x32], false),
        ];
        x86.iter().for_each(|(code, wanted)| assert_eq!(names_handlers(Isa::X86_64, code), *wanted, "{code:x?}"));
        for (isa, word, wanted) in [
            (Isa::AArch64, 0xd518_c001_u32, true), // msr vbar_el1, x1
            (Isa::AArch64, 0xd518_c021, false),
            (Isa::RiscV64, 0x1052_9073, true), // csrw stvec, t0
            (Isa::RiscV64, 0x3052_9073, true), // csrw mtvec, t0
            (Isa::RiscV64, 0x1002_9073, false),
        ] {
            assert_eq!(names_handlers(isa, &word.to_le_bytes()), wanted, "{word:#x}");
        }
    }
}
