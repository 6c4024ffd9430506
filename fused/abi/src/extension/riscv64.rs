//! RISC-V (unprivileged manual, 20240411): instructions of two and four bytes, and control registers that belong to extensions.

use motet_layout::Isa;

use super::{
    Needed, RiscV64,
    lookup::{Requirement, look_up},
    riscv64_table::{COMPRESSED, VECTORS, WORDS},
};

pub(super) fn needed(bytes: &[u8]) -> Needed {
    let &[low, high, ref rest @ ..] = bytes else {
        return Needed::Short;
    };
    let half = u16::from_le_bytes([low, high]);
    // Chapter 1.5: how long an instruction is.
    if half & 3 != 3 {
        return look_up(COMPRESSED, Isa::RiscV64, half.into(), 2).needed();
    }
    if half & 0x1c == 0x1c {
        return Needed::Unknown;
    }
    let &[third, fourth, ..] = rest else {
        return Needed::Short;
    };
    let word = u32::from_le_bytes([low, high, third, fourth]);
    match word & 0x7f {
        SYSTEM if word >> 12 & 3 != 0 => control_register(word).needed(),
        // There are so many that those of one kind are looked through alone.
        VECTOR => look_up(VECTORS[(word >> 12 & 7) as usize], Isa::RiscV64, word, 4).needed(),
        opcode => look_up(WORDS[opcode as usize >> 2], Isa::RiscV64, word, 4).needed(),
    }
}

const SYSTEM: u32 = 0x73;
const VECTOR: u32 = 0x57;

/// Instructions of Zicsr. Those that write a register that can only be read are illegal everywhere.
fn control_register(word: u32) -> Requirement {
    let mut requirement = Requirement::new(Isa::RiscV64, 4);
    let (register, source) = (word >> 20, word >> 15 & 31);
    let writes = word >> 12 & 3 == 1 || source != 0;
    match register {
        // fflags, frm, fcsr
        0x001..=0x003 => requirement.or(RiscV64::F.bit()),
        // vstart, vxsat, vxrm, vcsr
        0x008..=0x00a | 0x00f => requirement.or(RiscV64::V.bit()),
        // vl, vtype, vlenb
        0xc20..=0xc22 if !writes => requirement.or(RiscV64::V.bit()),
        _ => {}
    }
    requirement
}
