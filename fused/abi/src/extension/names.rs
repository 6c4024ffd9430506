//! The extensions: numbers, names, and what implies what.

use motet_layout::Isa;

/// One ISA's extensions: variant, number, name, and those that every core with it has.
macro_rules! extensions {
    ($(#[$doc:meta])* $isa:ident { $($number:literal $variant:ident $name:literal $(=> $($implied:ident)+)?),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $isa {
            $(#[doc = concat!("`", $name, "`")] $variant = $number,)*
        }

        impl $isa {
            /// Every one, in order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// What it is called.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it implies by itself, as bits.
            const fn implied(self) -> u64 {
                match self {
                    $(Self::$variant => 0 $($(| Self::$implied.bit())+)?,)*
                }
            }

            /// By number: it and all that it implies, by itself or by what it implies, as bits. A table, because every placement of a
            /// thread asks.
            const CLOSED: [u64; Self::ALL.len()] = {
                let mut closed = [0; Self::ALL.len()];
                let mut at = 0;
                while at < closed.len() {
                    closed[at] = Self::close(Self::ALL[at].bit());
                    at += 1;
                }
                closed
            };

            const fn close(bits: u64) -> u64 {
                let (mut closed, mut at) = (bits, 0);
                while at < Self::ALL.len() {
                    if bits >> at & 1 != 0 {
                        closed |= Self::ALL[at].implied();
                    }
                    at += 1;
                }
                if closed == bits { bits } else { Self::close(closed) }
            }

            /// Its bit in a set.
            pub(super) const fn bit(self) -> u64 {
                1 << self as u8
            }
        }

        const _: () = {
            let mut at = 0;
            while at < $isa::ALL.len() {
                assert!(at < 64 && $isa::ALL[at] as usize == at, "numbers go up by one");
                at += 1;
            }
        };

        impl From<$isa> for Extension {
            fn from(extension: $isa) -> Self {
                Self::$isa(extension)
            }
        }
    };
}

extensions! {
    /// Extensions of x86-64 that have instructions for programs, beyond the baseline (SSE2). Numbers are stored; they never change.
    X86_64 {
        0 Sse3 "pni",
        1 Ssse3 "ssse3" => Sse3,
        2 Sse41 "sse4_1" => Ssse3,
        3 Sse42 "sse4_2" => Sse41,
        4 Sse4a "sse4a" => Sse3,
        5 Popcnt "popcnt",
        6 Abm "abm",
        7 Movbe "movbe",
        8 Aes "aes",
        9 Pclmulqdq "pclmulqdq",
        10 ShaNi "sha_ni",
        11 Gfni "gfni",
        12 Rdrand "rdrand",
        13 Rdseed "rdseed",
        14 Adx "adx",
        15 Bmi1 "bmi1",
        16 Bmi2 "bmi2",
        17 Fsgsbase "fsgsbase",
        18 Cx16 "cx16",
        19 Clflushopt "clflushopt",
        20 Clwb "clwb",
        21 Movdiri "movdiri",
        22 Movdir64b "movdir64b",
        23 Serialize "serialize",
        24 Waitpkg "waitpkg",
        25 Rdpid "rdpid",
        26 Rdtscp "rdtscp",
        27 Avx "avx" => Sse42,
        28 F16c "f16c" => Avx,
        29 Fma "fma" => Avx,
        30 Fma4 "fma4" => Avx,
        31 Xop "xop" => Avx,
        32 Avx2 "avx2" => Avx,
        33 Vaes "vaes" => Avx Aes,
        34 Vpclmulqdq "vpclmulqdq" => Avx Pclmulqdq,
        35 AvxVnni "avx_vnni" => Avx2,
        36 AvxIfma "avx_ifma" => Avx2,
        37 AvxVnniInt8 "avx_vnni_int8" => Avx2,
        38 AvxVnniInt16 "avx_vnni_int16" => Avx2,
        39 AvxNeConvert "avx_ne_convert" => Avx2,
        40 Sha512 "sha512" => Avx2,
        41 Sm3 "sm3" => Avx,
        42 Sm4 "sm4" => Avx2,
        43 Avx512f "avx512f" => Avx2 F16c Fma,
        44 Avx512cd "avx512cd" => Avx512f,
        45 Avx512dq "avx512dq" => Avx512f,
        46 Avx512bw "avx512bw" => Avx512f,
        47 Avx512vl "avx512vl" => Avx512f,
        48 Avx512ifma "avx512ifma" => Avx512f,
        49 Avx512vbmi "avx512vbmi" => Avx512f,
        50 Avx512Vbmi2 "avx512_vbmi2" => Avx512vl,
        51 Avx512Vnni "avx512_vnni" => Avx512vl,
        52 Avx512Bitalg "avx512_bitalg" => Avx512vl,
        53 Avx512Vpopcntdq "avx512_vpopcntdq" => Avx512f,
        54 Avx512Bf16 "avx512_bf16" => Avx512vl,
        55 Avx512Fp16 "avx512_fp16" => Avx512bw,
        56 Avx512Vp2intersect "avx512_vp2intersect" => Avx512vl,
        57 AmxTile "amx_tile",
        58 AmxInt8 "amx_int8" => AmxTile,
        59 AmxBf16 "amx_bf16" => AmxTile,
        60 AmxFp16 "amx_fp16" => AmxTile,
    }
}

extensions! {
    /// Extensions of AArch64 beyond Armv8.0 with floating point and Advanced SIMD. Numbers are stored; they never change.
    AArch64 {
        0 Aes "aes",
        1 Pmull "pmull" => Aes,
        2 Sha1 "sha1",
        3 Sha2 "sha2" => Sha1,
        4 Crc32 "crc32",
        5 Atomics "atomics",
        6 Fphp "fphp" => Asimdhp,
        7 Asimdhp "asimdhp" => Fphp,
        8 Asimdrdm "asimdrdm",
        9 Jscvt "jscvt",
        10 Fcma "fcma",
        11 Lrcpc "lrcpc",
        12 Dcpop "dcpop",
        13 Sha3 "sha3" => Sha2 Sha1,
        14 Sm3 "sm3",
        15 Sm4 "sm4" => Sm3,
        16 Asimddp "asimddp",
        17 Sha512 "sha512" => Sha2 Sha1,
        18 Sve "sve" => Fphp Asimdhp,
        19 Asimdfhm "asimdfhm" => Asimdhp,
        20 Ilrcpc "ilrcpc" => Lrcpc,
        21 Flagm "flagm",
        22 Flagm2 "flagm2" => Flagm,
        23 Frint "frint",
        24 Sb "sb",
        25 Paca "paca",
        26 I8mm "i8mm",
        27 Bf16 "bf16",
        28 Sve2 "sve2" => Sve,
        29 Sveaes "sveaes" => Sve2 Aes,
        30 Svepmull "svepmull" => Sveaes Pmull,
        31 Svebitperm "svebitperm" => Sve2,
        32 Svesha3 "svesha3" => Sve2 Sha3,
        33 Svesm4 "svesm4" => Sve2 Sm4,
        34 Svei8mm "svei8mm" => Sve I8mm,
        35 Svef32mm "svef32mm" => Sve,
        36 Svef64mm "svef64mm" => Sve,
        37 Svebf16 "svebf16" => Sve Bf16,
        38 Sve2p1 "sve2p1" => Sve2,
        39 Sveb16b16 "sveb16b16" => Sve2,
        40 Mte "mte",
        41 Ls64 "ls64",
        42 Mops "mops",
        43 Cssc "cssc",
        44 Lrcpc3 "lrcpc3" => Ilrcpc,
        45 Lse128 "lse128" => Atomics,
        46 Rng "rng",
        47 Wfxt "wfxt",
        48 Sme "sme",
        49 Sme2 "sme2" => Sme,
        50 Sme2p1 "sme2p1" => Sme2,
        51 Smef64f64 "smef64f64" => Sme,
        52 Smei16i64 "smei16i64" => Sme,
        53 Dcpodp "dcpodp" => Dcpop,
        54 Hbc "hbc",
        55 Gcs "gcs",
        56 Faminmax "faminmax",
        57 Lut "lut",
        58 Cmpbr "cmpbr",
        59 Fprcvt "fprcvt",
        60 Lsfe "lsfe",
    }
}

extensions! {
    /// Extensions of RISC-V beyond RV64IMAC with Zicsr. Numbers are stored; they never change.
    RiscV64 {
        0 F "f",
        1 D "d" => F,
        2 V "v" => D,
        3 Zba "zba",
        4 Zbb "zbb",
        5 Zbc "zbc" => Zbkc,
        6 Zbs "zbs",
        7 Zbkb "zbkb",
        8 Zbkc "zbkc",
        9 Zbkx "zbkx",
        10 Zknd "zknd",
        11 Zkne "zkne",
        12 Zknh "zknh",
        13 Zksed "zksed",
        14 Zksh "zksh",
        15 Zfhmin "zfhmin" => F,
        16 Zfh "zfh" => Zfhmin,
        17 Zfa "zfa" => F,
        18 Zfbfmin "zfbfmin" => F,
        19 Zicond "zicond",
        20 Zacas "zacas",
        21 Zabha "zabha",
        22 Zawrs "zawrs",
        23 Zcb "zcb",
        24 Zcmop "zcmop",
        25 Zimop "zimop",
        26 Zicbom "zicbom",
        27 Zicboz "zicboz",
        28 Zvbb "zvbb" => Zvkb,
        29 Zvkb "zvkb" => V,
        30 Zvbc "zvbc" => V,
        31 Zvkg "zvkg" => V,
        32 Zvkned "zvkned" => V,
        33 Zvknha "zvknha" => V,
        34 Zvknhb "zvknhb" => V Zvknha,
        35 Zvksed "zvksed" => V,
        36 Zvksh "zvksh" => V,
        37 Zvfbfmin "zvfbfmin" => V,
        38 Zvfbfwma "zvfbfwma" => Zvfbfmin Zfbfmin,
        39 Custom0 "custom-0",
        40 Custom1 "custom-1",
        41 Custom2 "custom-2",
        42 Custom3 "custom-3",
        43 Zvl128b "zvl128b" => V,
        44 Zvl256b "zvl256b" => Zvl128b,
        45 Zvl512b "zvl512b" => Zvl256b,
        46 Zvl1024b "zvl1024b" => Zvl512b,
    }
}

/// An extension of an ISA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Extension {
    /// One of x86-64's.
    X86_64(X86_64),
    /// One of AArch64's.
    AArch64(AArch64),
    /// One of RISC-V's.
    RiscV64(RiscV64),
}

impl Extension {
    /// The ISA that it extends.
    pub const fn isa(self) -> Isa {
        match self {
            Self::X86_64(_) => Isa::X86_64,
            Self::AArch64(_) => Isa::AArch64,
            Self::RiscV64(_) => Isa::RiscV64,
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64(extension) => extension.name(),
            Self::AArch64(extension) => extension.name(),
            Self::RiscV64(extension) => extension.name(),
        }
    }

    /// Its number among its ISA's, below 64.
    pub const fn number(self) -> u8 {
        match self {
            Self::X86_64(extension) => extension as u8,
            Self::AArch64(extension) => extension as u8,
            Self::RiscV64(extension) => extension as u8,
        }
    }

    /// Its ISA's extension with a number.
    pub fn from_number(isa: Isa, number: u8) -> Option<Self> {
        let at = usize::from(number);
        match isa {
            Isa::X86_64 => X86_64::ALL.get(at).map(|&extension| extension.into()),
            Isa::AArch64 => AArch64::ALL.get(at).map(|&extension| extension.into()),
            Isa::RiscV64 => RiscV64::ALL.get(at).map(|&extension| extension.into()),
            Isa::Hosted => None,
        }
    }

    /// Every extension of an ISA, in order of its number.
    pub fn all(isa: Isa) -> impl Iterator<Item = Self> {
        (0..64).map_while(move |number| Self::from_number(isa, number))
    }

    /// An ISA's extension with a name.
    pub fn from_name(isa: Isa, name: &str) -> Option<Self> {
        Self::from_name_bytes(isa, name.as_bytes())
    }

    /// As [`from_name`](Self::from_name), of a name that may not be text: no such extension, then.
    pub fn from_name_bytes(isa: Isa, name: &[u8]) -> Option<Self> {
        Self::all(isa).find(|extension| extension.name().as_bytes() == name)
    }

    /// Whether vendors say what it is: no processor's own description names it.
    pub const fn is_vendors(self) -> bool {
        use RiscV64::{Custom0, Custom1, Custom2, Custom3};
        matches!(self, Self::RiscV64(Custom0 | Custom1 | Custom2 | Custom3))
    }

    /// By number, an ISA's extensions with all that they imply, as bits.
    pub(super) const fn closed(isa: Isa) -> &'static [u64] {
        match isa {
            Isa::X86_64 => &X86_64::CLOSED,
            Isa::AArch64 => &AArch64::CLOSED,
            Isa::RiscV64 => &RiscV64::CLOSED,
            Isa::Hosted => &[],
        }
    }
}
