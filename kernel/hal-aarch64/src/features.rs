//! Names of the extensions user programs may use, from the identification registers, as Linux lists them.

use crate::cpu::read_register;

/// Extensions in a row, space-separated.
pub struct Features {
    text: [u8; 384],
    len: usize,
}

impl Features {
    /// Reads the identification registers of this core.
    ///
    /// Not listed, because this kernel does not switch their state or enable them: SME, pointer authentication, BTI, MTE. Nor `cpuid` (emulated register reads) and `evtstrm`.
    pub fn detect() -> Self {
        let registers = [
            read_register!("id_aa64pfr0_el1"),
            read_register!("id_aa64isar0_el1"),
            read_register!("id_aa64isar1_el1"),
            read_register!("id_aa64pfr1_el1"),
            read_register!("id_aa64mmfr2_el1"),
            read_register!("S3_0_C0_C4_4"), // ID_AA64ZFR0_EL1, zero without SVE
        ];
        let mut features = Self { text: [0; 384], len: 0 };
        for (name, register, shift, min) in TABLE {
            let field = registers[register] >> shift & 0xf;
            // In PFR0 0xf means that there are no such registers.
            if field >= min && !(register == PFR0 && field == 0xf) {
                features.push(name);
            }
        }
        features
    }

    fn push(&mut self, name: &str) {
        let start = self.len + usize::from(self.len > 0);
        let end = start + name.len();
        if end <= self.text.len() {
            self.text[self.len..start].fill(b' ');
            self.text[start..end].copy_from_slice(name.as_bytes());
            self.len = end;
        }
    }

    /// The list.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.text[..self.len]).unwrap_or("")
    }
}

const PFR0: usize = 0;
const ISAR0: usize = 1;
const ISAR1: usize = 2;
const PFR1: usize = 3;
const MMFR2: usize = 4;
const ZFR0: usize = 5;

/// Name, register, shift and least value of its field (Linux, Documentation/arch/arm64/elf_hwcaps.rst).
const TABLE: [(&str, usize, u32, u64); 42] = [
    ("fp", PFR0, 16, 0),
    ("asimd", PFR0, 20, 0),
    ("aes", ISAR0, 4, 1),
    ("pmull", ISAR0, 4, 2),
    ("sha1", ISAR0, 8, 1),
    ("sha2", ISAR0, 12, 1),
    ("crc32", ISAR0, 16, 1),
    ("atomics", ISAR0, 20, 2),
    ("fphp", PFR0, 16, 1),
    ("asimdhp", PFR0, 20, 1),
    ("asimdrdm", ISAR0, 28, 1),
    ("jscvt", ISAR1, 12, 1),
    ("fcma", ISAR1, 16, 1),
    ("lrcpc", ISAR1, 20, 1),
    ("dcpop", ISAR1, 0, 1),
    ("sha3", ISAR0, 32, 1),
    ("sm3", ISAR0, 36, 1),
    ("sm4", ISAR0, 40, 1),
    ("asimddp", ISAR0, 44, 1),
    ("sha512", ISAR0, 12, 2),
    ("sve", PFR0, 32, 1),
    ("asimdfhm", ISAR0, 48, 1),
    ("dit", PFR0, 48, 1),
    ("uscat", MMFR2, 32, 1),
    ("ilrcpc", ISAR1, 20, 2),
    ("flagm", ISAR0, 52, 1),
    ("ssbs", PFR1, 4, 2),
    ("sb", ISAR1, 36, 1),
    ("dcpodp", ISAR1, 0, 2),
    ("sve2", ZFR0, 0, 1),
    ("sveaes", ZFR0, 4, 1),
    ("svepmull", ZFR0, 4, 2),
    ("svebitperm", ZFR0, 16, 1),
    ("svesha3", ZFR0, 32, 1),
    ("svesm4", ZFR0, 40, 1),
    ("flagm2", ISAR0, 52, 2),
    ("frint", ISAR1, 32, 1),
    ("svei8mm", ZFR0, 44, 1),
    ("svef32mm", ZFR0, 52, 1),
    ("svef64mm", ZFR0, 56, 1),
    ("svebf16", ZFR0, 20, 1),
    ("rng", ISAR0, 60, 1),
];
