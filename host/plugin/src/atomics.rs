//! Which instructions read and write memory at once.

use motet_layout::Isa;

/// Whether an instruction is an atomic read-modify-write.
pub fn is_atomic(isa: Isa, bytes: &[u8]) -> bool {
    let word = bytes.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    match isa {
        Isa::X86_64 => is_locked(bytes),
        // Atomic memory operations and SWP; CAS, CASP (Arm ARM, C4.1.66).
        Isa::AArch64 => {
            word & 0x3b20_0c00 == 0x3820_0000 || word & 0x3fa0_7c00 == 0x08a0_7c00 || word & 0xbfa0_7c00 == 0x0820_7c00
        }
        // AMO, but neither LR nor SC (unprivileged specification, "A" extension).
        Isa::RiscV64 => word & 0x7f == 0x2f && !matches!(word >> 27, 2 | 3),
        Isa::Hosted => false,
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
