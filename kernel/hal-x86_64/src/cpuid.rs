//! What the processor has: features by CPUID, and their names as in Linux's `/proc/cpuinfo`.

use core::{arch::x86_64::__cpuid_count, fmt::Write};

use motet_hal::Text;

/// A CPUID feature bit.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    leaf: u32,
    register: Register,
    bit: u32,
}

#[derive(Clone, Copy, Debug)]
enum Register {
    Eax,
    Ebx,
    Ecx,
    Edx,
}

/// 1 GiB pages.
pub const PAGES_1G: Feature = Feature { leaf: 0x8000_0001, register: Register::Edx, bit: 26 };
/// `lzcnt`, which is `bsr` without it.
pub const LZCNT: Feature = Feature { leaf: 0x8000_0001, register: Register::Ecx, bit: 5 };
/// `tzcnt` (BMI1), which is `bsf` without it.
pub const TZCNT: Feature = Feature { leaf: 7, register: Register::Ebx, bit: 3 };
/// Execute-disable.
pub const NX: Feature = Feature { leaf: 0x8000_0001, register: Register::Edx, bit: 20 };
/// `rdfsbase` and company.
pub const FSGSBASE: Feature = Feature { leaf: 7, register: Register::Ebx, bit: 0 };
/// Supervisor-mode execution prevention.
pub const SMEP: Feature = Feature { leaf: 7, register: Register::Ebx, bit: 7 };
/// User-mode instruction prevention.
pub const UMIP: Feature = Feature { leaf: 7, register: Register::Ecx, bit: 2 };
/// XSAVE and XRSTOR.
const XSAVE: Feature = Feature { leaf: 1, register: Register::Ecx, bit: 26 };
/// AVX.
const AVX: Feature = Feature { leaf: 1, register: Register::Ecx, bit: 28 };

/// Offset of AVX state in an XSAVE area.
pub const AVX_OFFSET: u32 = 576;
/// Bytes in it.
const AVX_SIZE: u32 = 256;
/// The leaf that tells of XSAVE, and its subleaf that tells of AVX state.
const XSAVE_LEAF: u32 = 0xd;
const AVX_SUBLEAF: u32 = 2;

impl Feature {
    /// Whether this core has it.
    pub fn present(self) -> bool {
        read(self.leaf, 0, self.register) >> self.bit & 1 == 1
    }
}

/// Whether this core has AVX and stores its state where the user frame has room for it.
pub fn has_avx() -> bool {
    let part = |register| read(XSAVE_LEAF, AVX_SUBLEAF, register);
    XSAVE.present() && AVX.present() && part(Register::Eax) == AVX_SIZE && part(Register::Ebx) == AVX_OFFSET
}

fn read(leaf: u32, subleaf: u32, register: Register) -> u32 {
    #[allow(unused_unsafe, reason = "unsafe up to Rust 1.93")]
    // SAFETY: every x86-64 processor has CPUID.
    let cpuid = |leaf, subleaf| unsafe { __cpuid_count(leaf, subleaf) };
    if cpuid(leaf & 0x8000_0000, 0).eax < leaf {
        return 0;
    }
    let found = cpuid(leaf, subleaf);
    match register {
        Register::Eax => found.eax,
        Register::Ebx => found.ebx,
        Register::Ecx => found.ecx,
        Register::Edx => found.edx,
    }
}

/// Names by bit, `-` where Linux shows none (arch/x86/include/asm/cpufeatures.h, in its order of words).
const WORDS: [(u32, u32, Register, &str); 7] = [
    (
        1,
        0,
        Register::Edx,
        "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 pn clflush - dts acpi mmx fxsr sse \
         sse2 ss ht tm ia64 pbe",
    ),
    (
        0x8000_0001,
        0,
        Register::Edx,
        "- - - - - - - - - - - syscall - - - - - - - mp nx - mmxext - - fxsr_opt pdpe1gb rdtscp - lm 3dnowext 3dnow",
    ),
    (
        1,
        0,
        Register::Ecx,
        "pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr pdcm - pcid dca sse4_1 \
         sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave - avx f16c rdrand hypervisor",
    ),
    (
        0x8000_0001,
        0,
        Register::Ecx,
        "lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a misalignsse 3dnowprefetch osvw ibs xop skinit wdt - lwp \
         fma4 tce - nodeid_msr - tbm topoext perfctr_core perfctr_nb - bpext ptsc perfctr_llc mwaitx",
    ),
    (
        7,
        0,
        Register::Ebx,
        "fsgsbase tsc_adjust sgx bmi1 hle avx2 - smep bmi2 erms invpcid rtm cqm - mpx rdt_a avx512f avx512dq rdseed \
         adx smap avx512ifma - clflushopt clwb intel_pt avx512pf avx512er avx512cd sha_ni avx512bw avx512vl",
    ),
    (
        7,
        0,
        Register::Ecx,
        "- avx512vbmi umip pku ospke waitpkg avx512_vbmi2 - gfni vaes vpclmulqdq avx512_vnni avx512_bitalg tme \
         avx512_vpopcntdq - la57 - - - - - rdpid - bus_lock_detect cldemote - movdiri movdir64b enqcmd sgx_lc",
    ),
    (XSAVE_LEAF, 1, Register::Eax, "xsaveopt xsavec xgetbv1 xsaves"),
];

/// The flags of this core, space-separated. Those that need a state that this kernel does not keep are left out, as Linux does when the
/// state is off.
pub fn flags<const N: usize>() -> Text<N> {
    const NEED_AVX: [&str; 12] =
        ["xsave", "xsaveopt", "xsavec", "xgetbv1", "avx", "avx2", "f16c", "fma", "fma4", "xop", "vaes", "vpclmulqdq"];
    /// Supervisor states, bounds registers and protection keys.
    const OFF: [&str; 3] = ["xsaves", "mpx", "pku"];
    let has_avx = has_avx();
    let mut text = Text::new();
    for (leaf, subleaf, register, names) in WORDS {
        let bits = read(leaf, subleaf, register);
        for (bit, name) in names.split_ascii_whitespace().enumerate() {
            let off = name == "-" || name.starts_with("avx512") || OFF.contains(&name);
            let hidden = off || !has_avx && NEED_AVX.contains(&name);
            if bits >> bit & 1 == 1 && !hidden {
                let separator = if text.as_str().is_empty() { "" } else { " " };
                let _ = write!(text, "{separator}{name}");
            }
        }
    }
    text
}
