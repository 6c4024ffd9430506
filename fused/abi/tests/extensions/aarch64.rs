//! AArch64: the tables are generated from `disarm64`, which has them from GNU binutils; LLVM 19's disassembler judges them.

use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;

use disarm64::decoder_full::decode;
use disarm64_defn::{
    InsnFeatureSet as Feature,
    defn::{Insn, InsnOpcode as _},
};
use motet_abi::extension::{
    AArch64::{self, *},
    ALTERNATIVES_MAX, Extension, ExtensionSet, Needed, Requirement, needed,
};
use motet_layout::Isa;

use crate::generate::{self, Encoding, Encodings};

const ISA: Isa = Isa::AArch64;

/// Values of bits 0 to 9 by which every definition is found: registers, conditions, and what else is there.
const LOWS: [u32; 29] = [
    0, 0x3ff, 0x1f, 0x3e0, 0x155, 0x2aa, 0x10, 0x200, 0x210, 0xf, 0x1ef, 0x8, 0x108, 0x4, 0x84, 0x104, 0x2, 0x1, 0x18,
    0x218, 0x318, 0x338, 0x11, 0x20, 0x40, 0x80, 0x100, 0x14, 0x12,
];

/// The definitions that the decoder has: mask, value, feature, name. It does not list them, so it is asked.
fn definitions() -> HashSet<(u32, u32, Feature, &'static str)> {
    let mut definitions = HashSet::new();
    let mut last: Option<&'static Insn> = None;
    let mut ask = |word| {
        if let Some(definition) = decode(word).map(|opcode| opcode.definition())
            && !last.is_some_and(|last| std::ptr::eq(last, definition))
        {
            last = Some(definition);
            definitions.insert((definition.mask, definition.opcode, definition.feature_set, definition.mnemonic));
        }
    };
    for low in LOWS {
        (0..1 << 22).for_each(|high| ask(high << 10 | low));
    }
    // SME's instructions differ in more of these bits.
    for high in [0xa000_0000u32, 0xc000_0000] {
        (0..1 << 25).for_each(|low| ask(high | low));
    }
    definitions
}

/// The sets of extensions, each of which is enough. Binutils' names of features are those of its options; hardware's are finer for cryptography.
#[expect(clippy::wildcard_enum_match_arm, reason = "other features are none of the extensions")]
fn alternatives(feature: Feature, name: &str) -> &'static [&'static [AArch64]] {
    match feature {
        Feature::AES if name.starts_with("pmull") => &[&[Pmull]],
        Feature::AES => &[&[Aes]],
        Feature::SHA2 if name.starts_with("sha1") => &[&[Sha1]],
        Feature::SHA2 => &[&[Sha2]],
        Feature::SHA3 if name.starts_with("sha512") => &[&[Sha512]],
        Feature::SHA3 => &[&[Sha3]],
        Feature::SM4 if name.starts_with("sm3") => &[&[Sm3]],
        Feature::SM4 => &[&[Sm4]],
        Feature::CRC => &[&[Crc32]],
        Feature::LSE => &[&[Atomics]],
        Feature::LSE128 => &[&[Lse128]],
        Feature::FP_F16 => &[&[Fphp]],
        Feature::SIMD_F16 => &[&[Asimdhp]],
        Feature::FP_16_V8_2A => &[&[Asimdfhm]],
        Feature::RDMA => &[&[Asimdrdm]],
        Feature::JSCVT => &[&[Jscvt]],
        Feature::RCPC => &[&[Lrcpc]],
        Feature::RCPC2 => &[&[Ilrcpc]],
        Feature::RCPC3 => &[&[Lrcpc3]],
        Feature::DOTPROD => &[&[Asimddp]],
        Feature::FLAGM => &[&[Flagm]],
        Feature::FLAGMANIP => &[&[Flagm2]],
        Feature::FRINTTS => &[&[Frint]],
        Feature::SB => &[&[Sb]],
        // Only kernels may.
        Feature::PAUTH if name.starts_with("eret") => &[],
        Feature::PAUTH => &[&[Paca]],
        Feature::I8MM => &[&[I8mm]],
        Feature::BFLOAT16 => &[&[Bf16]],
        Feature::MEMTAG if ["ldgm", "stgm", "stzgm"].contains(&name) => &[],
        Feature::MEMTAG => &[&[Mte]],
        Feature::MOPS | Feature::MOPS_GO => &[&[Mops]],
        Feature::MOPS_MEMTAG => &[&[Mops, Mte]],
        Feature::LS64 => &[&[Ls64]],
        Feature::WFXT => &[&[Wfxt]],
        Feature::COMPNUM => &[&[Fcma]],
        Feature::CSSC => &[&[Cssc]],
        Feature::HBC => &[&[Hbc]],
        Feature::GCS => &[&[Gcs]],
        Feature::FAMINMAX => &[&[Faminmax]],
        Feature::LUT => &[&[Lut]],
        Feature::CMPBR => &[&[Cmpbr]],
        Feature::FPRCVT => &[&[Fprcvt]],
        Feature::LSFE => &[&[Lsfe]],
        // The latter two: SME has them as well by now.
        Feature::SVE | Feature::SVE_SME2P2 | Feature::SVE_SSVE_FEXPA => &[&[Sve]],
        Feature::SVE2 => &[&[Sve2]],
        Feature::SVE2AES if name.starts_with("pmull") => &[&[Svepmull]],
        Feature::SVE2AES => &[&[Sveaes]],
        Feature::SVE2BITPERM => &[&[Svebitperm]],
        Feature::SVE2SHA3 => &[&[Svesha3]],
        Feature::SVE2SM4 => &[&[Svesm4]],
        Feature::I8MM_SVE => &[&[Svei8mm]],
        Feature::F32MM_SVE => &[&[Svef32mm]],
        Feature::F64MM_SVE => &[&[Svef64mm]],
        Feature::BFLOAT16_SVE => &[&[Svebf16]],
        Feature::SVE_B16B16_SVE2 => &[&[Sveb16b16]],
        Feature::SVE2P1 => &[&[Sve2p1]],
        Feature::SVE2P1_SME => &[&[Sve2p1], &[Sme]],
        Feature::SVE2P1_SME2 => &[&[Sve2p1], &[Sme2]],
        Feature::SVE2P1_SME2P1 => &[&[Sve2p1], &[Sme2p1]],
        Feature::SME => &[&[Sme]],
        Feature::SME_F64F64 => &[&[Smef64f64]],
        Feature::SME_I16I64 => &[&[Smei16i64]],
        Feature::SME2 => &[&[Sme2]],
        Feature::SME2_F64F64 => &[&[Sme2, Smef64f64]],
        Feature::SME2_I16I64 => &[&[Sme2, Smei16i64]],
        Feature::SME2P1 => &[&[Sme2p1]],
        _ => &[],
    }
}

fn set(extensions: &[AArch64]) -> ExtensionSet {
    extensions.iter().fold(ExtensionSet::empty(ISA), |set, &extension| set.with(extension.into()))
}

/// Encodings among system registers and barriers, which binutils decodes as operands of general instructions.
const SYSTEM: [(u32, u32, AArch64); 10] = [
    (0xffff_ffff, 0xd503_30ff, Sb),
    (0xffff_ffff, 0xd500_401f, Flagm),  // cfinv
    (0xffff_fc1f, 0x3a00_080d, Flagm),  // setf8
    (0xffff_fc1f, 0x3a00_480d, Flagm),  // setf16
    (0xffff_ffff, 0xd500_403f, Flagm2), // xaflag
    (0xffff_ffff, 0xd500_405f, Flagm2), // axflag
    (0xffff_ffe0, 0xd53b_2400, Rng),    // mrs x, rndr
    (0xffff_ffe0, 0xd53b_2420, Rng),    // mrs x, rndrrs
    (0xffff_ffe0, 0xd50b_7c20, Dcpop),  // dc cvap
    (0xffff_ffe0, 0xd50b_7d20, Dcpodp), // dc cvadp
];

fn encodings() -> Encodings {
    let definitions = definitions();
    // SVE's masks leave out the size, and one size, reserved at first, has become another extension's.
    let later: Vec<Encoding> = definitions
        .iter()
        .filter(|(_, _, feature, _)| *feature == Feature::SVE_B16B16_SVE2)
        .map(|&(mask, value, ..)| (mask, value))
        .collect();
    let mut encodings = Encodings::new();
    for (mask, value, feature, name) in definitions {
        let mut parts = vec![(mask, value)];
        if feature == Feature::COMPNUM {
            // Binutils' mask leaves out the size: of half-precision numbers it is 1.
            let size = |size: u32| (mask | 0x00c0_0000, value & !0x00c0_0000 | size << 22);
            encodings.entry(set(&[Fcma, Asimdhp]).bits()).or_default().insert(size(1));
            parts = vec![size(2), size(3)];
        }
        if feature != Feature::SVE_B16B16_SVE2 {
            for &narrow in &later {
                parts = parts.into_iter().flat_map(|wide| generate::without(wide, narrow)).collect();
            }
        }
        for extensions in alternatives(feature, name) {
            encodings.entry(set(extensions).bits()).or_default().extend(&parts);
        }
    }
    for (mask, value, extension) in SYSTEM {
        encodings.entry(set(&[extension]).bits()).or_default().insert((mask, value));
    }
    encodings
}

#[test]
fn tables_are_up_to_date() {
    let expected = format!(
        "//! Generated by tests/extensions from the crate disarm64. Do not edit.\n\n\
         use super::{{AArch64, lookup::Group}};\n\npub(super) const WORDS: &[Group] = {};\n",
        generate::groups(ISA, &encodings())
    );
    generate::check("src/extension/aarch64_table.rs", &expected);
}

/// What LLVM says of a sample of all words: from bit 2 on, the configurations under which it decodes one; bit 1: an extension is needed
/// and enough.
struct Judge {
    configurations: Vec<ExtensionSet>,
    said: Vec<u64>,
}

impl Judge {
    fn read() -> Self {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&include_bytes!("aarch64-llvm.gz")[..]).read_to_string(&mut text).unwrap();
        let mut judge = Self { configurations: Vec::new(), said: Vec::new() };
        for line in text.lines() {
            match line.split_once(' ').unwrap() {
                ("extensions", names) => {
                    let extensions = names.split('+').map(|name| Extension::from_name(ISA, name).unwrap());
                    let set = extensions.fold(ExtensionSet::empty(ISA), ExtensionSet::with);
                    judge.configurations.push(set.closure());
                }
                (said, times) => {
                    let said = u64::from_str_radix(said, 16).unwrap();
                    judge.said.extend(std::iter::repeat_n(said, times.parse().unwrap()));
                }
            }
        }
        judge
    }

    /// What LLVM has against a requirement.
    fn objection(&self, requirement: &Requirement, said: u64) -> Option<Objection> {
        let of_sme = |set: &ExtensionSet| set.contains(Sme.into());
        let needs_sme = requirement.alternatives().any(|set| !set.intersection(sme()).is_empty());
        let mut fewer = false;
        for (index, set) in self.configurations.iter().enumerate() {
            // SME runs SVE's instructions, too, but only in a mode that SME's own instructions enter.
            if of_sme(set) && !needs_sme {
                continue;
            }
            match (requirement.runs_with(*set), said >> (index + 2) & 1 == 1) {
                (false, true) => return Some(Objection::RunsOnMore),
                (true, false) => fewer = true,
                _ => {}
            }
        }
        match (said, fewer) {
            (0, _) => Some(Objection::Illegal),
            (_, true) => Some(Objection::NeedsMore),
            (_, false) => None,
        }
    }
}

fn sme() -> ExtensionSet {
    set(&[Sme, Sme2, Sme2p1, Smef64f64, Smei16i64])
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Objection {
    /// The table knows none.
    NeedsNone,
    /// No extension has it.
    Illegal,
    /// Not all that the table names run it.
    NeedsMore,
    /// Others run it, too.
    RunsOnMore,
}

/// Where LLVM 19 and the tables may differ.
fn is_excused(objection: Objection, requirement: &str) -> bool {
    match objection {
        Objection::Illegal => {
            // It does not know these.
            ["cmpbr", "fprcvt", "lsfe"].contains(&requirement)
                // Sizes, immediates and equal registers that are reserved: binutils looks at them after it has found an
                // instruction, so its masks do not have them. A core with the extension refuses them.
                || [
                    "asimddp", "asimdfhm", "asimdhp fcma", "fcma", "sve2p1 or sme2p1", "asimdhp", "asimdrdm", "atomics", "faminmax", "fphp", "frint", "lrcpc3", "ls64",
                    "lse128", "mops", "mte", "mte mops", "paca", "sme", "sme2", "sve", "sve2", "sve2p1", "sve2p1 or sme",
                    "sve2p1 or sme2", "svef64mm",
                ]
                .contains(&requirement)
        }
        // Sums of 64 bits need an extension of SME's as well, which binutils has not in its masks.
        Objection::NeedsMore => requirement == "sme2",
        Objection::RunsOnMore | Objection::NeedsNone => false,
    }
}

#[test]
fn llvm_agrees_on_a_sample_of_all_words() {
    let judge = Judge::read();
    assert_eq!(judge.said.len(), 1 << 20);
    let mut differences = BTreeMap::<_, (u32, u32)>::new();
    let [mut claimed, mut refused] = [0; 2];
    for (index, &said) in judge.said.iter().enumerate() {
        let word = (index as u32).wrapping_mul(0x9e37_79b1);
        let (objection, requirement) = match needed(ISA, &word.to_le_bytes()) {
            Needed::Extensions(requirement) => {
                assert!(requirement.alternatives().count() < ALTERNATIVES_MAX, "{word:08x}");
                (judge.objection(&requirement, said), requirement.to_string())
            }
            Needed::Unknown | Needed::Short => {
                // 2: several that LLVM was not asked about together. The instructions are MTE's for kernels: stzgm, stgm, ldgm.
                let known = said > 2 && word & 0xff3f_fc00 != 0xd920_0000;
                (known.then_some(Objection::NeedsNone), String::new())
            }
        };
        claimed += u32::from(!requirement.is_empty());
        refused += u32::from(objection == Some(Objection::Illegal));
        if let Some(objection) = objection.filter(|&objection| !is_excused(objection, &requirement)) {
            differences.entry((objection, requirement)).or_insert((word, 0)).1 += 1;
        }
    }
    assert!(differences.is_empty(), "objection, requirement, first word, how many: {differences:x?}");
    assert!(claimed > 80_000 && refused * 3 < claimed, "{refused} of {claimed} refused");
}
