//! The encodings against constants worked out by hand from the manuals, and the decoder against any bits.

use motet_layout::Isa;
use motet_paging::{Attr, Entry, Format, Stage2};
use proptest::prelude::*;

const RW: Attr = Attr::READ.union(Attr::WRITE);
const RX: Attr = Attr::READ.union(Attr::EXECUTE);

/// Intel SDM vol. 3A, table 4-20 (page-table entry that maps a 4 KiB page) and 4-15 (entry that references a table).
#[test]
fn x86_64_entries() {
    let f = Format::X86_64;
    // P | U/S | A | XD, frame 0x12345.
    assert_eq!(f.leaf(0x1234_5000, Attr::READ), 0x8000_0000_1234_5025);
    // P | R/W | U/S | A | D | XD.
    assert_eq!(f.leaf(0x1234_5000, RW), 0x8000_0000_1234_5067);
    // P | U/S | A.
    assert_eq!(f.leaf(0x1234_5000, RX), 0x0000_0000_1234_5025);
    // Ignored bits 9 (copy on write) and 10 (shared).
    assert_eq!(f.leaf(0x1234_5000, Attr::READ | Attr::COW), 0x8000_0000_1234_5225);
    assert_eq!(f.leaf(0x1234_5000, RW | Attr::SHARED), 0x8000_0000_1234_5467);
    // P | R/W | U/S | A: rights are the leaf's.
    assert_eq!(f.table(0x1234_5000), 0x0000_0000_1234_5027);
    // Not present, frame and software bits kept.
    assert_eq!(f.leaf(0x1234_5000, Attr::COW), 0x0000_0000_1234_5a00);
    // A large page (PS), a supervisor page and a global page are none of ours.
    assert_eq!(f.decode(0x8000_0000_1220_00e7, 1), Entry::Corrupt);
    assert_eq!(f.decode(0x8000_0000_1234_5063, 0), Entry::Corrupt);
    assert_eq!(f.decode(0x8000_0000_1234_5167, 0), Entry::Corrupt);
}

/// Arm ARM DDI 0487, D8.3.1: page descriptor; AP\[2:1\] by table D8-63, UXN/PXN by D8.4.2.
#[test]
fn aarch64_entries() {
    let f = Format::AArch64;
    // UXN | PXN | nG | AF | SH inner | AP 11 (read-only, EL0) | AttrIndx 0 | page.
    assert_eq!(f.leaf(0x4234_5000, Attr::READ), 0x0060_0000_4234_5fc3);
    // AP 01 (read/write, EL0).
    assert_eq!(f.leaf(0x4234_5000, RW), 0x0060_0000_4234_5f43);
    // UXN clear.
    assert_eq!(f.leaf(0x4234_5000, RX), 0x0020_0000_4234_5fc3);
    // Software bits 55 (copy on write) and 56 (shared).
    assert_eq!(f.leaf(0x4234_5000, Attr::READ | Attr::COW), 0x00e0_0000_4234_5fc3);
    assert_eq!(f.leaf(0x4234_5000, RW | Attr::SHARED), 0x0160_0000_4234_5f43);
    assert_eq!(f.table(0x4234_5000), 0x0000_0000_4234_5003);
    // Invalid (bit 0 clear): all other bits are software's; 57 says inactive.
    assert_eq!(f.leaf(0x4234_5000, Attr::SHARED), 0x0300_0000_4234_5000);
    // A block descriptor, a page without the access flag, a privileged page.
    assert_eq!(f.decode(0x0060_0000_4220_0f41, 1), Entry::Corrupt);
    assert_eq!(f.decode(0x0060_0000_4234_5b43, 0), Entry::Corrupt);
    assert_eq!(f.decode(0x0060_0000_4234_5f03, 0), Entry::Corrupt);
}

/// RISC-V privileged architecture, "Sv32" (entry bits) and "Sv48" (PPN in bits 10..53).
#[test]
fn sv48_entries() {
    let f = Format::Sv48;
    // PPN 0x82345 at bit 10: 0x2_08d1_4000 | U | R | V | A.
    assert_eq!(f.leaf(0x8234_5000, Attr::READ), 0x208d_1400 | 0x53);
    // D | A | U | W | R | V.
    assert_eq!(f.leaf(0x8234_5000, RW), 0x208d_1400 | 0xd7);
    // A | U | X | R | V.
    assert_eq!(f.leaf(0x8234_5000, RX), 0x208d_1400 | 0x5b);
    // RSW bits 8 and 9.
    assert_eq!(f.leaf(0x8234_5000, Attr::READ | Attr::COW), 0x208d_1400 | 0x153);
    assert_eq!(f.leaf(0x8234_5000, RW | Attr::SHARED), 0x208d_1400 | 0x2d7);
    // "For non-leaf PTEs, the D, A, and U bits are reserved [and] must be cleared".
    assert_eq!(f.table(0x8234_5000), 0x208d_1400 | 0x01);
    // V clear: all other bits are software's; U says inactive.
    assert_eq!(f.leaf(0x8234_5000, Attr::COW), 0x208d_1400 | 0x110);
    // W without R is reserved; a superpage; N (Svnapot) and PBMT must be zero here.
    assert_eq!(f.decode(0x208d_1400 | 0xd5, 0), Entry::Corrupt);
    assert_eq!(f.decode(0x208d_1400 | 0xd7, 1), Entry::Corrupt);
    assert_eq!(f.decode(1 << 63 | 0x208d_1400 | 0xd7, 0), Entry::Corrupt);
    assert_eq!(f.decode(1 << 61 | 0x208d_1400 | 0xd7, 0), Entry::Corrupt);
}

/// Arm ARM DDI 0487, D8.3.1 (stage 2 page descriptor), D8.4 (S2AP, XN\[1:0\]), D8.6 (MemAttr, SH).
#[test]
fn aarch64_stage_2_entries() {
    for f in [Stage2::AArch64Bits40, Stage2::AArch64Bits42, Stage2::AArch64Bits48] {
        // XN[1:0] 10 (neither EL1 nor EL0) | AF | SH inner | S2AP 01 (read) | MemAttr 1111 (write-back) | page.
        assert_eq!(f.leaf(0x4234_5000, Attr::READ), 0x0040_0000_4234_577f);
        // S2AP 11.
        assert_eq!(f.leaf(0x4234_5000, RW), 0x0040_0000_4234_57ff);
        // XN 00.
        assert_eq!(f.leaf(0x4234_5000, RX), 0x0000_0000_4234_577f);
        assert_eq!(f.leaf(0x4234_5000, RW | RX), 0x0000_0000_4234_57ff);
        // Software bits 56 (copy on write) and 57 (shared); 58 says inactive where bit 0 is clear.
        assert_eq!(f.leaf(0x4234_5000, Attr::READ | Attr::COW), 0x0140_0000_4234_577f);
        assert_eq!(f.leaf(0x4234_5000, RW | Attr::SHARED), 0x0240_0000_4234_57ff);
        assert_eq!(f.leaf(0x4234_5000, Attr::SHARED), 0x0600_0000_4234_5000);
        // Bits 63 .. 59 of stage 2 tables are RES0.
        assert_eq!(f.table(0x4234_5000), 0x0000_0000_4234_5003);
        // A block, no access flag, S2AP 00 and 10, device memory, XN 01 and 11, outer shareable, contiguous, dirty bit managed.
        assert_eq!(f.decode(0x0040_0000_4220_07fd, 1), Entry::Corrupt);
        for bits in [0x3ff, 0x73f, 0x7bf, 0x7c3, 0x6ff] {
            assert_eq!(f.decode(0x0040_0000_4234_5000 | bits, 0), Entry::Corrupt, "{bits:#x}");
        }
        for upper in [0x0020, 0x0060, 0x0050, 0x0048] {
            assert_eq!(f.decode(upper << 48 | 0x4234_57ff, 0), Entry::Corrupt, "{upper:#x}");
        }
    }
}

/// RISC-V privileged architecture, hypervisor extension, "Two-Stage Address Translation": entries as in Sv39 and Sv48, U set, G clear.
#[test]
fn riscv_g_stage_entries() {
    for f in [Stage2::Sv39x4, Stage2::Sv48x4] {
        assert_eq!(f.leaf(0x8234_5000, Attr::READ), 0x208d_1400 | 0x53);
        assert_eq!(f.leaf(0x8234_5000, RW), 0x208d_1400 | 0xd7);
        assert_eq!(f.leaf(0x8234_5000, RX), 0x208d_1400 | 0x5b);
        assert_eq!(f.leaf(0x8234_5000, RW | RX), 0x208d_1400 | 0xdf);
        assert_eq!(f.leaf(0x8234_5000, Attr::READ | Attr::COW), 0x208d_1400 | 0x153);
        assert_eq!(f.leaf(0x8234_5000, Attr::COW), 0x208d_1400 | 0x110);
        assert_eq!(f.table(0x8234_5000), 0x208d_1400 | 0x01);
        // A supervisor's page, a global one, a write-only one.
        for bits in [0xc7, 0xf7, 0xd5] {
            assert_eq!(f.decode(0x208d_1400 | bits, 0), Entry::Corrupt, "{bits:#x}");
        }
    }
}

/// VTCR_EL2.SL0 and T0SZ (D8.2: up to sixteen tables concatenated, aligned to all of them); hgatp's modes: 16 KiB.
#[test]
fn roots_of_guests_are_as_long_as_the_address_space_needs() {
    let roots = Stage2::ALL.map(|f| (f.levels(), f.end().ilog2(), f.root_bytes()));
    assert_eq!(roots, [(3, 40, 8 << 10), (3, 42, 32 << 10), (4, 48, 4 << 10), (3, 41, 16 << 10), (4, 50, 16 << 10)]);
    assert_eq!(Format::ALL.map(|f| (f.levels(), f.end().ilog2(), f.root_bytes())), [(4, 47, 4 << 10); 3]);
}

/// Runs a block for every format of both stages.
macro_rules! for_every_format {
    ($format:ident => $body:block) => {{
        for $format in Format::ALL {
            $body
        }
        for $format in Stage2::ALL {
            $body
        }
    }};
}

#[test]
fn write_and_execute_imply_read() {
    for_every_format!(format => {
        for attr in [Attr::WRITE, Attr::EXECUTE] {
            let decoded = format.decode(format.leaf(0x9000_0000, attr), 0);
            assert_eq!(decoded, Entry::Leaf { phys: 0x9000_0000, attr: attr | Attr::READ }, "{format:?}");
        }
    });
}

#[test]
fn zero_is_empty_and_formats_belong_to_isas() {
    for_every_format!(format => {
        for level in 0..4 {
            assert_eq!(format.decode(0, level), Entry::Empty);
        }
    });
    assert_eq!(Isa::ALL.map(Format::from_isa), [Format::ALL.map(Some).as_slice(), &[None]].concat()[..]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn leaves_survive_encoding(frame in 0u64..1 << 32, bits in 0u8..32) {
        let (phys, attr) = (frame << 12, Attr::from_bits(bits));
        for_every_format!(format => {
            let pte = format.leaf(phys, attr);
            prop_assert_eq!(format.decode(pte, 0), Entry::Leaf { phys, attr: attr.normalised() });
            // An inactive page is not present to hardware, and not empty either.
            prop_assert_eq!(format.is_present(pte), attr.is_active());
            prop_assert_ne!(pte, 0);
        });
    }

    #[test]
    fn tables_survive_encoding(frame in 0u64..1 << 32, level in 1u8..4) {
        for_every_format!(format => {
            let pte = format.table(frame << 12);
            prop_assert_eq!(format.decode(pte, level), Entry::Table(frame << 12));
            // Tables and pages cannot be taken for each other.
            prop_assert_eq!(format.decode(pte, 0), Entry::Corrupt);
            prop_assert_eq!(format.decode(format.leaf(frame << 12, Attr::READ), level), Entry::Corrupt);
        });
    }

    /// Whatever bits are found: an answer, and only what encodes to them.
    #[test]
    fn decoder_is_total(pte: u64, level: u8) {
        for_every_format!(format => {
            match format.decode(pte, level) {
                Entry::Empty => prop_assert_eq!(pte, 0),
                Entry::Table(phys) => prop_assert_eq!(format.table(phys), pte),
                Entry::Leaf { phys, attr } => prop_assert_eq!(format.leaf(phys, attr), pte),
                Entry::Corrupt => {}
            }
        });
    }

    /// Single-bit damage of a good entry is decoded as what it then says, or refused; never a panic.
    #[test]
    fn decoder_survives_flips(frame in 0u64..1 << 32, bits in 0u8..32, flip in 0u32..64, level in 0u8..4) {
        for_every_format!(format => {
            let _ = format.decode(format.leaf(frame << 12, Attr::from_bits(bits)) ^ 1 << flip, level);
            let _ = format.decode(format.table(frame << 12) ^ 1 << flip, level);
        });
    }
}
