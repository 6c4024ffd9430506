//! The gates of `motet_abi::gate` in hosted instructions.

use std::sync::LazyLock;

use motet_abi::{gate::Gate, own::CALL_RETURN};
use motet_layout::Isa;

use crate::asm::Assembler;

/// The gate of an ISA.
pub fn gate(isa: Isa) -> Gate {
    static GATES: LazyLock<[Gate; Isa::ALL.len()]> = LazyLock::new(|| Isa::ALL.map(assembled));
    GATES[isa as usize - 1]
}

fn assembled(isa: Isa) -> Gate {
    let mut asm = Assembler::new(isa, 0);
    if isa == Isa::X86_64 {
        asm.mov(8, 0); // rax is the first result's, and the number's
    }
    asm.syscall(CALL_RETURN, &[]);
    let passed_at = u16::try_from(asm.address()).expect("a gate is short");
    asm.word(0); // no instruction
    Gate { isa, code: asm.finish().leak(), passed_at }
}
