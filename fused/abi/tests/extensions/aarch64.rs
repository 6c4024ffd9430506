//! AArch64: the tables are generated from `disarm64`, which has them from GNU binutils; LLVM 19's disassembler judges them.

use std::collections::HashSet;

use disarm64::decoder_full::decode;
use disarm64_defn::{
    InsnFeatureSet as Feature,
    defn::{Insn, InsnOpcode as _},
};
use motet_abi::extension::{
    AArch64::{self, *},
    ExtensionSet,
};
use motet_layout::Isa;

use crate::generate::{self, Encodings};

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
    for low in LOWS {
        for high in 0..1u32 << 22 {
            if let Some(definition) = decode(high << 10 | low).map(|opcode| opcode.definition())
                && !last.is_some_and(|last| std::ptr::eq(last, definition))
            {
                last = Some(definition);
                definitions.insert((definition.mask, definition.opcode, definition.feature_set, definition.mnemonic));
            }
        }
    }
    definitions
}

/// The sets of extensions, each of which is enough. Binutils' names of features are those of its options; hardware's are finer for cryptography.
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
        Feature::COMPNUM => &[&[Fcma]],
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
        Feature::CSSC => &[&[Cssc]],
        Feature::HBC => &[&[Hbc]],
        Feature::GCS => &[&[Gcs]],
        Feature::FAMINMAX => &[&[Faminmax]],
        Feature::LUT => &[&[Lut]],
        Feature::CMPBR => &[&[Cmpbr]],
        Feature::FPRCVT => &[&[Fprcvt]],
        Feature::LSFE => &[&[Lsfe]],
        Feature::SVE => &[&[Sve]],
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
    let mut encodings = Encodings::new();
    for (mask, value, feature, name) in definitions() {
        for extensions in alternatives(feature, name) {
            encodings.entry(set(extensions).bits()).or_default().insert((mask, value));
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
