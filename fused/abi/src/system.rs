//! The machine as programs see it: `uname`, `sysinfo`, ISA capabilities.

use motet_layout::Isa;

use crate::wire::wire_struct;

/// Bytes of one field of `struct new_utsname`, its NUL included.
pub const UTS_FIELD: usize = 65;
/// Bytes of `struct new_utsname`.
pub const UTSNAME_SIZE: usize = 6 * UTS_FIELD;

/// `machine` in `uname`: what the ISA's Linux says.
pub const fn machine_name(isa: Isa) -> &'static str {
    isa.name()
}

/// `struct new_utsname`: system name, node, release, version, machine of `isa`, domain. Long texts are cut.
pub fn utsname(isa: Isa, node: &str, release: &str, version: &str) -> [u8; UTSNAME_SIZE] {
    let mut out = [0; UTSNAME_SIZE];
    let texts = ["Linux", node, release, version, machine_name(isa), "(none)"];
    for (field, text) in out.chunks_exact_mut(UTS_FIELD).zip(texts) {
        let len = text.len().min(UTS_FIELD - 1);
        field[..len].copy_from_slice(&text.as_bytes()[..len]);
    }
    out
}

wire_struct! {
    /// `struct sysinfo`.
    Sysinfo: 112 {
        /// Seconds since boot.
        0 uptime: i64,
        /// Load averages of 1, 5 and 15 minutes, times 65536.
        8 loads: [u64; 3],
        /// Memory, in `mem_unit`s.
        32 totalram: u64,
        /// Free.
        40 freeram: u64,
        /// Shared.
        48 sharedram: u64,
        /// Buffers.
        56 bufferram: u64,
        /// Swap.
        64 totalswap: u64,
        /// Free swap.
        72 freeswap: u64,
        /// Processes.
        80 procs: u16,
        /// High memory.
        88 totalhigh: u64,
        /// Free high memory.
        96 freehigh: u64,
        /// Bytes in a unit.
        104 mem_unit: u32,
    }
}

/// Feature names of `/proc/cpuinfo` in the order of the bits of AT_HWCAP: x86-64, where it is CPUID.1:EDX.
const HWCAP_X86_64: [&str; 32] = [
    "fpu", "vme", "de", "pse", "tsc", "msr", "pae", "mce", "cx8", "apic", "", "sep", "mtrr", "pge", "mca", "cmov",
    "pat", "pse36", "pn", "clflush", "", "dts", "acpi", "mmx", "fxsr", "sse", "sse2", "ss", "ht", "tm", "ia64", "pbe",
];

/// AArch64 (`arch/arm64/include/uapi/asm/hwcap.h`).
const HWCAP_AARCH64: [&str; 32] = [
    "fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp", "asimdhp", "cpuid",
    "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop", "sha3", "sm3", "sm4", "asimddp", "sha512", "sve", "asimdfhm", "dit",
    "uscat", "ilrcpc", "flagm", "ssbs", "sb", "paca", "pacg",
];

/// AArch64, AT_HWCAP2.
const HWCAP2_AARCH64: [&str; 20] = [
    "dcpodp",
    "sve2",
    "sveaes",
    "svepmull",
    "svebitperm",
    "svesha3",
    "svesm4",
    "flagm2",
    "frint",
    "svei8mm",
    "svef32mm",
    "svef64mm",
    "svebf16",
    "i8mm",
    "bf16",
    "dgh",
    "rng",
    "bti",
    "mte",
    "ecv",
];

/// AT_HWCAP and AT_HWCAP2 for cores with `extensions` (`IslandRecord::extensions`: the names in `/proc/cpuinfo`, space-
/// separated; on RISC-V an ISA string such as `rv64imafdc_zba`).
///
/// The HAL leaves out what it does not enable for user code, so this says nothing that is not true.
pub fn hwcap(isa: Isa, extensions: &str) -> (u64, u64) {
    let bits = |names: &[&str]| {
        let words = extensions.split_ascii_whitespace();
        words.filter_map(|word| names.iter().position(|&name| name == word)).fold(0, |bits, bit| bits | 1 << bit)
    };
    match isa {
        Isa::X86_64 => (bits(&HWCAP_X86_64), bits(&["ring3mwait", "fsgsbase"])),
        Isa::AArch64 => (bits(&HWCAP_AARCH64), bits(&HWCAP2_AARCH64)),
        Isa::RiscV64 => (single_letters(extensions, "imafdcv"), 0),
        Isa::Hosted => (0, 0),
    }
}

/// RISC-V: bit n for the single-letter extension n of the alphabet, among `known`.
fn single_letters(isa: &str, known: &str) -> u64 {
    let letters = riscv_words(isa).next().unwrap_or("");
    letters.bytes().filter(|b| known.as_bytes().contains(b)).fold(0, |bits, b| bits | 1 << (b - b'a'))
}

/// The words of a RISC-V ISA string behind `rv64`: single letters first, then `z...` names.
fn riscv_words(isa: &str) -> impl Iterator<Item = &str> {
    let isa = isa.trim();
    isa.strip_prefix("rv64").unwrap_or(isa).split(|c: char| c == '_' || c.is_ascii_whitespace())
}

/// `RISCV_HWPROBE_KEY_*` bits of `IMA_EXT_0` that name a multi-letter extension (`asm/hwprobe.h`).
const HWPROBE_EXT_0: [(&str, u32); 12] = [
    ("zba", 3),
    ("zbb", 4),
    ("zbs", 5),
    ("zicboz", 6),
    ("zbc", 7),
    ("zbkb", 8),
    ("zbkc", 9),
    ("zbkx", 10),
    ("zfh", 27),
    ("zfhmin", 28),
    ("zfa", 32),
    ("zacas", 34),
];

const HWPROBE_ZICBOZ: u64 = 1 << 6;

wire_struct! {
    /// `struct riscv_hwprobe`: a question and its answer.
    RiscvHwprobe: 16 {
        /// What is asked; becomes -1 when unknown.
        0 key: i64,
        /// The answer.
        8 value: u64,
    }
}

/// What `riscv_hwprobe` says of cores with the ISA string `extensions`: bits of `RISCV_HWPROBE_KEY_IMA_EXT_0`, and [`HWPROBE_IMA`].
pub fn riscv_extensions(extensions: &str) -> u64 {
    let letters = single_letters(extensions, "imafdcv");
    let has = |letter: u8| letters >> (letter - b'a') & 1;
    let single = has(b'f') & has(b'd') | has(b'c') << 1 | has(b'v') << 2;
    let ima = (has(b'i') & has(b'm') & has(b'a')) * HWPROBE_IMA;
    let known = |word| HWPROBE_EXT_0.iter().find(|&&(name, _)| name == word);
    riscv_words(extensions).filter_map(known).fold(single | ima, |bits, &(_, bit)| bits | 1 << bit)
}

/// In [`riscv_extensions`]: I, M and A.
pub const HWPROBE_IMA: u64 = 1 << 63;

/// The answer to a `riscv_hwprobe` key for cores with these [`riscv_extensions`]; `None`: unknown key.
pub const fn riscv_hwprobe(key: i64, extensions: u64) -> Option<u64> {
    match key {
        0..=2 => Some(0), // vendor, architecture, implementation: unknown
        3 => Some((extensions & HWPROBE_IMA != 0) as u64),
        4 => Some(extensions & !HWPROBE_IMA),
        5 => Some(0), // speed of misaligned accesses: unknown
        6 => Some(if extensions & HWPROBE_ZICBOZ != 0 { 64 } else { 0 }),
        7 => Some((1 << 47) - 1), // highest user address
        _ => None,
    }
}
