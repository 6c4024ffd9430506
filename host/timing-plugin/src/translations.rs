//! Which instructions make a core drop address translations.
//!
//! Kernels execute them wherever a page's translation changes or an address space is switched, because real cores need
//! them to; so what the plugin remembers of translations ([`crate::pages`]) is as good as a TLB.

use motet_layout::Isa;

/// Whether an instruction switches tables or drops translations.
pub fn are_dropped_by(isa: Isa, bytes: &[u8]) -> bool {
    let word = bytes.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    match isa {
        Isa::X86_64 => x86_64(bytes),
        // TLBI: SYS with CRn 8. MSR to SCTLR_EL1, TTBR0_EL1, TTBR1_EL1, TCR_EL1; VTTBR_EL2, VTCR_EL2, of guests (Arm ARM, C5.3, C5.5).
        Isa::AArch64 => {
            word & 0xfff8_f000 == 0xd508_8000
                || matches!(
                    word & !31,
                    0xd518_1000 | 0xd518_2000 | 0xd518_2020 | 0xd518_2040 | 0xd51c_2100 | 0xd51c_2140
                )
        }
        // SFENCE.VMA, SINVAL.VMA; CSR instructions that write satp (privileged specification, "Supervisor instructions").
        Isa::RiscV64 => {
            let (function, source) = (word >> 12 & 7, word >> 15 & 31);
            let writes = function == 1 || function != 0 && source != 0;
            // HFENCE.VVMA and HFENCE.GVMA; hgatp, the tables of guests ("H" extension).
            matches!(word & 0xfe00_7fff, 0x1200_0073 | 0x1600_0073 | 0x2200_0073 | 0x6200_0073)
                || (word & 0x7f == 0x73 && writes && matches!(word >> 20, 0x180 | 0x680))
        }
        Isa::Hosted => false,
    }
}

/// Whether an instruction says where the next return from the kernel goes: into a guest, or to a program. RISC-V: CSRRW to `hstatus`; AArch64: MSR to
/// HCR_EL2.
pub fn chooses_guest(isa: Isa, bytes: &[u8]) -> bool {
    let word = bytes.first_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    match isa {
        Isa::RiscV64 => word & 0xfff0_707f == 0x6000_1073,
        Isa::AArch64 => word & !31 == 0xd51c_1100,
        Isa::X86_64 | Isa::Hosted => false,
    }
}

/// MOV to a control register, INVLPG, INVPCID (SDM, volume 2).
fn x86_64(bytes: &[u8]) -> bool {
    let prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3);
    let prefixes = bytes.iter().take_while(|byte| prefix(byte)).count();
    match &bytes[prefixes..] {
        [0x0f, 0x22, ..] | [0x0f, 0x38, 0x82, ..] => true,
        [0x0f, 0x01, modrm, ..] => modrm >> 6 != 3 && modrm >> 3 & 7 == 7,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_invalidations_are_found_on_every_isa() {
        let x86: [&[u8]; 5] = [
            &[0x0f, 0x22, 0xd8],             // mov cr3, rax
            &[0x41, 0x0f, 0x22, 0xd8],       // mov cr3, r8
            &[0x0f, 0x01, 0x3f],             // invlpg [rdi]
            &[0x41, 0x0f, 0x01, 0x38],       // invlpg [r8]
            &[0x66, 0x0f, 0x38, 0x82, 0x06], // invpcid rax, [rsi]
        ];
        assert!(x86.iter().all(|bytes| are_dropped_by(Isa::X86_64, bytes)));
        // msr ttbr0_el1, x0; msr ttbr1_el1, x3; tlbi aside1, xzr; tlbi vae1, x0; tlbi vmalle1; msr sctlr_el1, x0
        // and of guests: msr vttbr_el2, x9; msr vtcr_el2, x0; tlbi vmalls12e1
        for word in [
            0xd518_2000_u32,
            0xd518_2023,
            0xd508_875f,
            0xd508_8720,
            0xd508_871f,
            0xd518_1000,
            0xd51c_2109,
            0xd51c_2140,
            0xd50c_87df,
        ] {
            assert!(are_dropped_by(Isa::AArch64, &word.to_le_bytes()), "{word:#x}");
        }
        // sfence.vma; sfence.vma zero, a0; sfence.vma a0, zero; csrw satp, a0; csrrw a0, satp, a1; csrw hgatp, a0; hfence.gvma; hfence.vvma
        for word in
            [0x1200_0073_u32, 0x12a0_0073, 0x1205_0073, 0x1805_1073, 0x1805_9573, 0x6805_1073, 0x6200_0073, 0x2200_0073]
        {
            assert!(are_dropped_by(Isa::RiscV64, &word.to_le_bytes()), "{word:#x}");
        }
    }

    #[test]
    fn what_chooses_a_guest_is_found() {
        // csrrw s11, hstatus, s11; msr hcr_el2, x8; and csrr a0, hstatus; mrs x8, hcr_el2; msr hstr_el2, x8
        for (isa, word, wanted) in [
            (Isa::RiscV64, 0x600d_9df3_u32, true),
            (Isa::AArch64, 0xd51c_1108, true),
            (Isa::RiscV64, 0x6000_2573, false),
            (Isa::AArch64, 0xd53c_1108, false),
            (Isa::AArch64, 0xd51c_1168, false),
        ] {
            assert_eq!(chooses_guest(isa, &word.to_le_bytes()), wanted, "{word:#x}");
        }
    }

    #[test]
    fn others_are_not() {
        // mov rax, cr3; swapgs; lgdt [rax]; nop; an empty one
        let x86: [&[u8]; 5] = [&[0x0f, 0x20, 0xd8], &[0x0f, 0x01, 0xf8], &[0x0f, 0x01, 0x10], &[0x90], &[]];
        assert!(!x86.iter().any(|bytes| are_dropped_by(Isa::X86_64, bytes)));
        // msr tpidr_el1, x0; dc civac, x0; mrs x0, ttbr0_el1; nop
        for word in [0xd518_d080_u32, 0xd50b_7e20, 0xd538_2000, 0xd503_201f] {
            assert!(!are_dropped_by(Isa::AArch64, &word.to_le_bytes()), "{word:#x}");
        }
        // csrr a0, satp; csrr a0, sstatus; ecall; sret; addi
        for word in [0x1800_2573_u32, 0x1000_2573, 0x0000_0073, 0x1020_0073, 0x0000_0013] {
            assert!(!are_dropped_by(Isa::RiscV64, &word.to_le_bytes()), "{word:#x}");
        }
    }
}
