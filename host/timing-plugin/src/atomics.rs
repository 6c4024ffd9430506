//! How instructions reach memory, where what QEMU reports of them is not what a core does.

use motet_layout::Isa;

/// What an instruction's loads and stores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// As QEMU reports them.
    AsReported,
    /// An atomic read-modify-write: QEMU reports a load and a store, a core has the line exclusively once.
    Atomic,
    /// A store-conditional. QEMU makes a compare-and-swap of it and reports a load and a store, or nothing when it fails at
    /// once; a core stores.
    StoreConditional,
}

/// What an instruction's accesses are.
pub fn accesses(isa: Isa, bytes: &[u8]) -> Accesses {
    let word = bytes.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    let (atomic, conditional) = match isa {
        Isa::X86_64 => (is_locked(bytes), false),
        // Atomic memory operations and SWP, but not LDAPR; CAS; CASP. STXR, STLXR, STXP, STLXP (Arm ARM, C4.1, loads and
        // stores).
        Isa::AArch64 => (
            (word & 0x3b20_0c00 == 0x3820_0000 && word & 0x3fff_fc00 != 0x38bf_c000)
                || word & 0x3fa0_7c00 == 0x08a0_7c00
                || word & 0xbfa0_7c00 == 0x0820_7c00,
            word & 0x3fc0_0000 == 0x0800_0000,
        ),
        // AMO, but neither LR nor SC; SC (unprivileged specification, "A" extension).
        Isa::RiscV64 if word & 0x7f == 0x2f => (!matches!(word >> 27, 2 | 3), word >> 27 == 3),
        Isa::RiscV64 | Isa::Hosted => (false, false),
    };
    match (atomic, conditional) {
        (true, _) => Accesses::Atomic,
        (false, true) => Accesses::StoreConditional,
        (false, false) => Accesses::AsReported,
    }
}

/// A LOCK prefix, or XCHG, which locks by itself.
fn is_locked(bytes: &[u8]) -> bool {
    for &byte in bytes {
        match byte {
            0xf0 | 0x86 | 0x87 => return true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3 => {}
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::Accesses::{AsReported, Atomic, StoreConditional};
    use super::*;

    #[test]
    fn atomics_are_known_by_their_encodings() {
        let x86: [(&[u8], Accesses); 5] = [
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f], Atomic), // lock cmpxchg [rdi], rcx
            (&[0x48, 0x87, 0x07], Atomic),             // xchg [rdi], rax
            (&[0x66, 0xf0, 0x0f, 0xc1, 0x07], Atomic), // lock xadd [rdi], ax
            (&[0x48, 0x0f, 0xb1, 0x0f], AsReported),   // cmpxchg [rdi], rcx
            (&[0x48, 0x01, 0x07], AsReported),         // add [rdi], rax
        ];
        x86.iter().for_each(|(bytes, kind)| assert_eq!(accesses(Isa::X86_64, bytes), *kind, "{bytes:x?}"));
        let arm = [
            (0xf821_0002_u32, Atomic),       // ldadd x1, x2, [x0]
            (0xb8e1_8002, Atomic),           // swpal w1, w2, [x0]
            (0xc8a1_7c02, Atomic),           // cas x1, x2, [x0]
            (0x4820_7c82, Atomic),           // casp x0, x1, x2, x3, [x4]
            (0xc803_7c01, StoreConditional), // stxr w3, x1, [x0]
            (0x8803_fc01, StoreConditional), // stlxr w3, w1, [x0]
            (0xc823_0801, StoreConditional), // stxp w3, x1, x2, [x0]
            (0xc85f_7c01, AsReported),       // ldxr x1, [x0]
            (0xc89f_fc01, AsReported),       // stlr x1, [x0]
            (0xc8df_fc01, AsReported),       // ldar x1, [x0]
            (0xf8bf_c001, AsReported),       // ldapr x1, [x0]
            (0xf900_0001, AsReported),       // str x1, [x0]
            (0xf821_6802, AsReported),       // str x2, [x0, x1]
        ];
        arm.iter().for_each(|(word, kind)| assert_eq!(accesses(Isa::AArch64, &word.to_le_bytes()), *kind, "{word:#x}"));
        let riscv = [
            (0x00b5_302f_u32, Atomic),       // amoadd.d zero, a1, (a0)
            (0x08b5_262f, Atomic),           // amoswap.w a2, a1, (a0)
            (0x18b5_362f, StoreConditional), // sc.d a2, a1, (a0)
            (0x1005_362f, AsReported),       // lr.d a2, (a0)
            (0x0005_3603, AsReported),       // ld a2, 0(a0)
        ];
        riscv
            .iter()
            .for_each(|(word, kind)| assert_eq!(accesses(Isa::RiscV64, &word.to_le_bytes()), *kind, "{word:#x}"));
    }
}
