//! What kernels' privileged instructions work on. A callback gets only a number with it, so instructions have some.

use std::sync::{Mutex, PoisonError};

use iced_x86::{Instruction, Register as X86};
use motet_layout::Isa;
use motet_plugin_api::{Guest, Register};

/// Instructions that callbacks ask about: their addresses and bytes. There are a few tens in a kernel.
static SITES: Mutex<Vec<(u64, Vec<u8>)>> = Mutex::new(Vec::new());

/// Names of RISC-V's integer registers for debuggers.
const RISCV: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2",
    "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// The number of an instruction at a virtual address.
pub fn site(address: u64, code: &[u8]) -> usize {
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = sites.iter().position(|(at, bytes)| *at == address && bytes == code);
    known.unwrap_or_else(|| {
        sites.push((address, code.to_vec()));
        sites.len() - 1
    })
}

/// The instruction that has a number.
pub fn at(site: usize) -> (u64, Vec<u8>) {
    SITES.lock().unwrap_or_else(PoisonError::into_inner).get(site).cloned().unwrap_or_default()
}

/// Whether an x86-64 instruction is LIDT.
pub fn is_lidt(code: &[u8]) -> bool {
    group_7(code) == Some(3)
}

/// The number in group 7 (0F 01) of an x86-64 instruction that has an operand in memory (SDM, volume 2, table A-6).
pub fn group_7(code: &[u8]) -> Option<u8> {
    let prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3);
    let prefixes = code.iter().take_while(|byte| prefix(byte)).count();
    match code[prefixes..] {
        [0x0f, 0x01, modrm, ..] if modrm >> 6 != 3 => Some(modrm >> 3 & 7),
        _ => None,
    }
}

/// The general register that an AArch64 MSR or SYS (Rt), or a RISC-V CSR instruction (rs1), reads.
pub fn register(isa: Isa, guest: &Guest<'_>, code: &[u8]) -> Option<u64> {
    let word = u32::from_le_bytes(*code.first_chunk()?);
    match isa {
        Isa::AArch64 => numbered(isa, guest, word & 31),
        Isa::RiscV64 => numbered(isa, guest, word >> 15 & 31),
        Isa::X86_64 | Isa::Hosted => None,
    }
}

/// A general register of AArch64 (31: zero) or RISC-V by number.
pub fn numbered(isa: Isa, guest: &Guest<'_>, number: u32) -> Option<u64> {
    match (isa, number) {
        (Isa::AArch64, 31) | (Isa::RiscV64, 0) => Some(0),
        (Isa::AArch64, _) => named(guest, &format!("x{number}")),
        (Isa::RiscV64, _) => named(guest, RISCV[number as usize]),
        (Isa::X86_64 | Isa::Hosted, _) => None,
    }
}

/// A general register of x86-64.
pub fn x86_register(guest: &Guest<'_>, register: X86) -> Option<u64> {
    named(guest, &format!("{:?}", register.full_register()).to_lowercase())
}

/// The address of an x86-64 instruction's operand in memory.
pub fn memory(instruction: &Instruction, guest: &Guest<'_>) -> Option<u64> {
    let operand =
        (0..instruction.op_count()).find(|&operand| instruction.op_kind(operand) == iced_x86::OpKind::Memory)?;
    instruction.virtual_address(operand, 0, |register, _, _| {
        // Bases of segments: kernels use none.
        if register.is_segment_register() { Some(0) } else { x86_register(guest, register) }
    })
}

/// A register by the name that debuggers have for it.
pub fn named(guest: &Guest<'_>, name: &str) -> Option<u64> {
    thread_local! {
        /// The registers of this thread's virtual CPU that were asked for.
        static KNOWN: std::cell::RefCell<Vec<(String, Option<Register>)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let known = KNOWN.with_borrow(|known| known.iter().find(|(other, _)| other == name).map(|(_, found)| *found));
    let register = known.unwrap_or_else(|| {
        let [found] = std::ffi::CString::new(name).map_or([None], |name| guest.find([name.as_c_str()]));
        KNOWN.with_borrow_mut(|known| known.push((name.to_owned(), found)));
        found
    });
    guest.read(register?)
}
