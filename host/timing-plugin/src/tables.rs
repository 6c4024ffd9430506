//! Page tables as a core's walker reads them, and the instructions that choose them and drop what was read.
//!
//! The plugin sees the tables where they lie: in the pool or in private memory. It knows a root from the instruction that
//! writes the register, or from the register when the core's time begins.

use iced_x86::{Decoder, DecoderOptions, Register as X86};
use motet_coherence::{Flush, Page, Walk};
use motet_layout::Isa;
use motet_plugin_api::Guest;

use crate::operands;

/// Addresses from here on are in the kernel's half.
const UPPER_HALF: u64 = 1 << 63;
/// `CR4.PCIDE` (SDM, volume 3, 2.5).
const PCIDE: u64 = 1 << 17;
/// `HCR_EL2.E2H`.
const HOST: u64 = 1 << 34;
/// MOV to CR3 with this bit drops nothing (SDM, volume 3, 4.10.4.1).
const NO_FLUSH: u64 = 1 << 63;

/// Where a core's tables are.
#[derive(Clone, Copy, Debug)]
pub struct Roots {
    /// Local physical address of the root for the lower half of addresses; 0: not known.
    lower: u64,
    /// The same for the upper half.
    upper: u64,
    /// The address space.
    space: u64,
    /// The same for what a guest takes for physical addresses.
    guest: u64,
    /// The guest's number, of `hgatp`.
    vmid: u64,
    /// The address bits by which that root is indexed: from this one on, so many entries.
    guest_top: (u32, u64),
    /// The core runs a guest, or is about to.
    in_guest: bool,
}

/// The first address space of guests, which no program has; further ones by VMID.
const SPACE_OF_GUESTS: u64 = 1 << 20;
/// `hstatus.SPV`.
const GUEST: u64 = 1 << 7;
/// `HCR_EL2.TGE`.
const PROGRAM: u64 = 1 << 27;
/// Sv39x4.
const RISCV64_GUEST_TOP: (u32, u64) = (30, 2048);

impl Roots {
    /// None.
    pub const UNKNOWN: Self =
        Self { lower: 0, upper: 0, space: 0, guest: 0, vmid: 0, guest_top: RISCV64_GUEST_TOP, in_guest: false };

    /// The address space that an address belongs to.
    pub fn space_of(&self, address: u64) -> u64 {
        if self.is_guests(address) { SPACE_OF_GUESTS + self.vmid } else { self.space }
    }

    /// Guests that run without tables of their own have the lower half.
    fn is_guests(&self, address: u64) -> bool {
        self.in_guest && address < UPPER_HALF
    }

    /// What is written to the register that says it: RISC-V's `hstatus`, AArch64's HCR_EL2.
    pub fn choose_guest(&mut self, isa: Isa, value: u64) {
        self.in_guest = match isa {
            Isa::RiscV64 => value & GUEST != 0,
            Isa::AArch64 => value & PROGRAM == 0,
            Isa::X86_64 | Isa::Hosted => false,
        };
    }

    /// What is written to VTCR_EL2 (Arm ARM, D24.2): T0SZ and SL0, by which the root may be several tables.
    fn set_vtcr(&mut self, value: u64) {
        let bits = 64 - (value & 63) as u32;
        let top = match value >> 6 & 3 {
            2 => 39,
            1 => 30,
            _ => 21,
        };
        self.guest_top = (top, 1 << bits.saturating_sub(top).min(13));
    }

    /// RISC-V: Sv39x4 only.
    fn walk_guest(&self, isa: Isa, address: u64, read: impl Fn(u64) -> Option<u64>) -> Walk {
        let mut walk = Walk::default();
        let mut table = self.guest;
        let (top, root_entries) = self.guest_top;
        for (depth, shift) in (12..=top).rev().step_by(9).enumerate() {
            let entries = if depth == 0 { root_entries } else { 512 };
            let at = table + (address >> shift) % entries * 8;
            let Some(entry) = read(at).filter(|_| table != 0) else { break };
            (walk.entries[depth], walk.count) = (at, depth + 1);
            match decode(isa, entry, shift) {
                Decoded::Nothing => break,
                Decoded::Table(next) => table = next,
                Decoded::Page { .. } => {
                    walk.page = Some(Page { shift, global: false });
                    break;
                }
            }
        }
        walk
    }

    /// Those of the core that calls.
    pub fn of(isa: Isa, guest: &Guest<'_>) -> Self {
        let mut roots = Self::UNKNOWN;
        match isa {
            Isa::X86_64 => roots.set_cr3(named(guest, "cr3"), named(guest, "cr4") & PCIDE != 0),
            Isa::AArch64 => {
                // EL1's names in a kernel that is in EL2 (Arm ARM, HCR_EL2.E2H); debuggers have no such names.
                let is_host = named(guest, "HCR_EL2") & HOST != 0;
                let [lower, upper] = if is_host { ["TTBR0_EL2", "TTBR1_EL2"] } else { ["TTBR0_EL1", "TTBR1_EL1"] };
                roots.set_ttbr0(named(guest, lower));
                roots.upper = aarch64_table(named(guest, upper));
                roots.set_vtcr(named(guest, "VTCR_EL2"));
            }
            Isa::RiscV64 => roots.set_satp(named(guest, "satp")),
            Isa::Hosted => {}
        }
        roots
    }

    fn set_cr3(&mut self, value: u64, has_spaces: bool) {
        let table = x86_64_table(value);
        (self.lower, self.upper, self.space) = (table, table, if has_spaces { value & 0xfff } else { 0 });
    }

    fn set_ttbr0(&mut self, value: u64) {
        (self.lower, self.space) = (aarch64_table(value), value >> 48);
    }

    /// Sv39x4 only.
    fn set_hgatp(&mut self, value: u64) {
        (self.guest, self.vmid) = ((value & ((1 << 44) - 1)) << 12, value >> 44 & 0x3fff);
    }

    /// Sv48 only: other modes have no tables that are known.
    fn set_satp(&mut self, value: u64) {
        let table = if value >> 60 == 9 { (value & ((1 << 44) - 1)) << 12 } else { 0 };
        (self.lower, self.upper, self.space) = (table, table, value >> 44 & 0xffff);
    }

    /// What a walk reads for an address. `read`: a word at a local physical address.
    pub fn walk(&self, isa: Isa, address: u64, read: impl Fn(u64) -> Option<u64>) -> Walk {
        if self.is_guests(address) {
            return self.walk_guest(isa, address, read);
        }
        let mut walk = Walk::default();
        let mut table = if address >= UPPER_HALF { self.upper } else { self.lower };
        for (depth, entry_at) in walk.entries.iter_mut().enumerate() {
            let shift = 39 - 9 * depth as u32;
            let at = table + (address >> shift & 511) * 8;
            let Some(entry) = read(at).filter(|_| table != 0) else { break };
            (*entry_at, walk.count) = (at, depth + 1);
            match decode(isa, entry, shift) {
                Decoded::Nothing => break,
                Decoded::Table(next) => table = next,
                Decoded::Page { global } => {
                    walk.page = Some(Page { shift, global });
                    break;
                }
            }
        }
        walk
    }
}

fn named(guest: &Guest<'_>, name: &str) -> u64 {
    operands::named(guest, name).unwrap_or(0)
}

fn x86_64_table(entry: u64) -> u64 {
    entry & 0x000f_ffff_ffff_f000
}

fn aarch64_table(entry: u64) -> u64 {
    entry & 0x0000_ffff_ffff_f000
}

/// What an entry says. The formats of `fused/paging` have no large pages, which kernels map themselves with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decoded {
    Nothing,
    Table(u64),
    Page { global: bool },
}

/// An entry that spans `1 << shift` bytes (SDM, volume 3, 4.5.4; Arm ARM, D8.3; privileged specification, "Sv48").
fn decode(isa: Isa, entry: u64, shift: u32) -> Decoded {
    let large = matches!(shift, 21 | 30);
    match isa {
        _ if entry & 1 == 0 => Decoded::Nothing,
        Isa::X86_64 if shift == 12 || large && entry >> 7 & 1 != 0 => Decoded::Page { global: entry >> 8 & 1 != 0 },
        Isa::X86_64 => Decoded::Table(x86_64_table(entry)),
        Isa::AArch64 if shift == 12 || large && entry & 2 == 0 => Decoded::Page { global: entry >> 11 & 1 == 0 },
        Isa::AArch64 => Decoded::Table(aarch64_table(entry)),
        Isa::RiscV64 if entry & 0b1110 != 0 => Decoded::Page { global: entry >> 5 & 1 != 0 },
        Isa::RiscV64 if shift == 12 => Decoded::Nothing,
        Isa::RiscV64 => Decoded::Table((entry << 2) & 0x00ff_ffff_ffff_f000),
        Isa::Hosted => Decoded::Nothing,
    }
}

/// What an instruction that switches tables or drops translations ([`crate::translations`]) is about to drop; it changes `roots`.
pub fn changed(isa: Isa, roots: &mut Roots, guest: &Guest<'_>, address: u64, code: &[u8]) -> Option<Flush> {
    match isa {
        Isa::X86_64 => x86_64_changed(roots, guest, address, code),
        Isa::AArch64 => {
            let word = u32::from_le_bytes(*code.first_chunk()?);
            aarch64_changed(roots, word, operands::register(isa, guest, code)?)
        }
        Isa::RiscV64 => {
            let word = u32::from_le_bytes(*code.first_chunk()?);
            let [first, second] = [word >> 15 & 31, word >> 20 & 31];
            let value = |number| operands::numbered(isa, guest, number);
            if word >> 12 & 7 != 0 {
                // Whatever it was: CSR instructions with a register replace it in Motet's kernel.
                match word >> 20 {
                    0x680 => roots.set_hgatp(value(first)?),
                    _ => roots.set_satp(value(first)?),
                }
                return None;
            }
            match word >> 25 {
                HFENCE_VVMA => return Some(Flush::Space(SPACE_OF_GUESTS + roots.vmid)),
                HFENCE_GVMA => {
                    let [address, vmid] = [value(first)?, value(second)?];
                    return Some(guest_flush((first != 0).then_some(address), (second != 0).then_some(vmid)));
                }
                _ => {}
            }
            let [address, space] = [value(first)?, value(second)?];
            Some(riscv64_flush((first != 0).then_some(address), (second != 0).then_some(space)))
        }
        Isa::Hosted => None,
    }
}

fn x86_64_changed(roots: &mut Roots, guest: &Guest<'_>, address: u64, code: &[u8]) -> Option<Flush> {
    let decoded = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    if operands::group_7(code) == Some(7) {
        return Some(Flush::Address { address: operands::memory(&decoded, guest)?, space: roots.space, global: true });
    }
    let has_spaces = named(guest, "cr4") & PCIDE != 0;
    let (to, from) = (decoded.op0_register(), decoded.op1_register());
    // INVPCID's register comes first, as the one that MOV writes to does.
    let operand = operands::x86_register(guest, if to.is_cr() { from } else { to })?;
    if to == X86::CR3 {
        roots.set_cr3(operand, has_spaces);
        let drops = !has_spaces || operand & NO_FLUSH == 0;
        return drops.then_some(if has_spaces { Flush::Space(roots.space) } else { Flush::NotGlobal });
    }
    if to.is_cr() {
        // Paging is turned on or off, or global pages are (SDM, volume 3, 4.10.4.1).
        return matches!(to, X86::CR0 | X86::CR4).then_some(Flush::All);
    }
    let descriptor = guest.memory(operands::memory(&decoded, guest)?, 16)?;
    let [space, address] = [0, 8].map(|at| descriptor[at..at + 8].try_into().map_or(0, u64::from_le_bytes));
    invpcid(operand, space & 0xfff, address)
}

/// INVPCID (SDM, volume 2).
fn invpcid(kind: u64, space: u64, address: u64) -> Option<Flush> {
    match kind {
        0 => Some(Flush::Address { address, space, global: false }),
        1 => Some(Flush::Space(space)),
        2 => Some(Flush::All),
        3 => Some(Flush::NotGlobal),
        _ => None,
    }
}

/// MSR to a register of tables, or TLBI (Arm ARM, C5.5; D8.16 for what the operand holds).
fn aarch64_changed(roots: &mut Roots, word: u32, operand: u64) -> Option<Flush> {
    match word & !31 {
        0xd518_2000 => roots.set_ttbr0(operand),
        0xd518_2020 => roots.upper = aarch64_table(operand),
        0xd518_1000 | 0xd518_2040 => {}
        0xd51c_2100 => roots.guest = aarch64_table(operand) & !1,
        0xd51c_2140 => roots.set_vtcr(operand),
        // TLBI of both stages, and of the second one.
        _ if matches!(word & 0xffff_ff00, 0xd50c_8700 | 0xd50c_8400 | 0xd50c_8000) => {
            return Some(Flush::Space(SPACE_OF_GUESTS));
        }
        _ => {
            // Bits 55 to 12 of the address.
            let address = ((operand << 20) as i64 >> 8) as u64 & !0xfff;
            let space = operand >> 48;
            return Some(match word >> 5 & 7 {
                1 | 5 => Flush::Address { address, space, global: true },
                2 => Flush::Space(space),
                3 | 7 => Flush::Everywhere(address),
                _ => Flush::All,
            });
        }
    }
    None
}

/// The upper bits of these instructions ("H" extension).
const HFENCE_VVMA: u32 = 0x11;
const HFENCE_GVMA: u32 = 0x31;

/// HFENCE.GVMA of a guest's physical address, shifted right by 2, or all; of one guest, or of all, for which more is dropped than must be. Guests' addresses are
/// taken for physical ones ([`Roots`]).
fn guest_flush(address: Option<u64>, vmid: Option<u64>) -> Flush {
    let space = vmid.map(|vmid| SPACE_OF_GUESTS + (vmid & 0x3fff));
    match (address, space) {
        (Some(address), Some(space)) => Flush::Address { address: address << 2, space, global: false },
        (None, Some(space)) => Flush::Space(space),
        (_, None) => Flush::NotGlobal,
    }
}

/// SFENCE.VMA, SINVAL.VMA with these operands (privileged specification, "Supervisor instructions").
fn riscv64_flush(address: Option<u64>, space: Option<u64>) -> Flush {
    match (address, space) {
        (None, None) => Flush::All,
        (Some(address), None) => Flush::Everywhere(address),
        (None, Some(space)) => Flush::Space(space & 0xffff),
        (Some(address), Some(space)) => Flush::Address { address, space: space & 0xffff, global: false },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A table of each level from 0x1000 on; `last` maps a page.
    fn memory(table: impl Fn(u64) -> u64, last: u64, depth: u64, address: u64) -> BTreeMap<u64, u64> {
        let at = |level: u64| 0x1000 * (level + 1) + (address >> (39 - 9 * level) & 511) * 8;
        (0..=depth).map(|level| (at(level), if level == depth { last } else { table(0x1000 * (level + 2)) })).collect()
    }

    #[test]
    fn walks_read_the_tables_of_each_isa_down_to_pages_of_each_size() {
        type Case = (Isa, fn(u64) -> u64, [u64; 2], bool);
        let cases: [Case; 3] = [
            (Isa::X86_64, |next| next | 0x27, [0x8000_0181, 0x8000_0101], true),
            (Isa::AArch64, |next| next | 3, [0x8000_0f41, 0x8000_0743], false),
            (Isa::RiscV64, |next| next >> 2 | 1, [0x2000_0007, 0x2000_0027], false),
        ];
        let address = 0x1234_5678_9abc_u64;
        for (isa, table, [large, small], large_is_global) in cases {
            let roots = Roots { lower: 0x1000, ..Roots::UNKNOWN };
            for (depth, last, global) in [(3, small, true), (2, large, large_is_global), (1, large, large_is_global)] {
                let memory = memory(table, last, depth, address);
                let walk = roots.walk(isa, address, |at| memory.get(&at).copied());
                let wanted: Vec<u64> = memory.keys().copied().collect();
                assert_eq!(walk.entries[..walk.count], wanted[..], "{isa:?}, {depth}");
                let shift = 39 - 9 * depth as u32;
                assert_eq!(walk.page, Some(Page { shift, global }), "{isa:?}, {depth}");
            }
            // Nothing is there; no root; memory that cannot be read.
            let empty = memory(table, 0, 2, address);
            let walk = roots.walk(isa, address, |at| empty.get(&at).copied());
            assert_eq!((walk.count, walk.page), (3, None));
            assert_eq!(roots.walk(isa, address | UPPER_HALF, |_| Some(u64::MAX)), Walk::default());
            assert_eq!(roots.walk(isa, address, |_| None), Walk::default());
        }
    }

    #[test]
    fn operands_say_what_is_dropped() {
        let mut roots = Roots::UNKNOWN;
        let tlbi = |word: u32, operand: u64| aarch64_changed(&mut Roots { ..Roots::UNKNOWN }, word, operand);
        let page = Flush::Address { address: 0xffff_8000_0000_1000, space: 5, global: true };
        assert_eq!(tlbi(0xd508_8720, 5 << 48 | 0xff8_0000_0001), Some(page));
        assert_eq!(tlbi(0xd508_8740, 7 << 48), Some(Flush::Space(7)));
        assert_eq!(tlbi(0xd508_871f, 0), Some(Flush::All));
        assert_eq!(tlbi(0xd508_8760, 0x12), Some(Flush::Everywhere(0x12000)));
        assert_eq!(aarch64_changed(&mut roots, 0xd518_2003, 9 << 48 | 0x8000_1000), None);
        assert_eq!((roots.lower, roots.space), (0x8000_1000, 9));
        assert_eq!(riscv64_flush(None, None), Flush::All);
        assert_eq!(riscv64_flush(None, Some(0)), Flush::Space(0));
        assert_eq!(riscv64_flush(Some(0x1000), None), Flush::Everywhere(0x1000));
        let page = Flush::Address { address: 0x1000, space: 2, global: false };
        assert_eq!(riscv64_flush(Some(0x1000), Some(2)), page);
        assert_eq!(invpcid(0, 3, 0x1000), Some(Flush::Address { address: 0x1000, space: 3, global: false }));
        assert_eq!(
            [1, 2, 3].map(|kind| invpcid(kind, 3, 0)),
            [Some(Flush::Space(3)), Some(Flush::All), Some(Flush::NotGlobal)]
        );
        roots.set_satp(9 << 60 | 4 << 44 | 0x80001);
        assert_eq!((roots.lower, roots.upper, roots.space), (0x8000_1000, 0x8000_1000, 4));
        roots.set_cr3(0x5003, true);
        assert_eq!((roots.lower, roots.space), (0x5000, 3));
    }

    #[test]
    fn guests_walk_their_machines_tables() {
        let address = 0x8020_3abc_u64;
        let [root, second, third] = [0x10000_u64, 0x20000, 0x30000];
        let wanted = [root + 2 * 8, second + 8, third + 3 * 8];
        let values = [second >> 2 | 1, third >> 2 | 1, 0x2000_00df];
        let memory: BTreeMap<u64, u64> = wanted.into_iter().zip(values).collect();
        let mut roots = Roots { lower: 0x1000, upper: 0x1000, space: 7, ..Roots::UNKNOWN };
        roots.set_hgatp(8 << 60 | 3 << 44 | root >> 12);
        let walk = |roots: &Roots, address| roots.walk(Isa::RiscV64, address, |at| memory.get(&at).copied());
        assert_eq!((walk(&roots, address).count, roots.space_of(address)), (0, 7), "a program's address");
        roots.choose_guest(Isa::RiscV64, 0x2_0020_0080);
        let found = walk(&roots, address);
        assert_eq!((found.count, found.page), (3, Some(Page { shift: 12, global: false })));
        assert_eq!(found.entries[..3], wanted);
        assert_eq!(roots.space_of(address), SPACE_OF_GUESTS + 3);
        assert_eq!(guest_flush(None, Some(3)), Flush::Space(roots.space_of(address)), "its own translations");
        let page = Flush::Address { address: 0x8020_1000, space: roots.space_of(address), global: false };
        assert_eq!(guest_flush(Some(0x8020_1000 >> 2), Some(3)), page);
        assert_eq!(guest_flush(Some(0x8020_1000 >> 2), None), Flush::NotGlobal);
        assert_eq!(guest_flush(None, None), Flush::NotGlobal);
        // The kernel, on its way to a guest.
        assert_eq!((walk(&roots, address | UPPER_HALF).count, roots.space_of(address | UPPER_HALF)), (0, 7));
        roots.choose_guest(Isa::RiscV64, 0x2_0000_0000);
        assert_eq!(roots.space_of(address), 7);
    }

    #[test]
    fn guests_of_aarch64_walk_tables_of_the_size_that_their_machine_has() {
        let address = 0x4_4020_3abc_u64;
        for (control, top) in [(24 | 1 << 6, 30), (22 | 1 << 6, 30), (16 | 2 << 6, 39)] {
            let mut roots = Roots::UNKNOWN;
            assert_eq!(aarch64_changed(&mut roots, 0xd51c_2140, control), None);
            assert_eq!(aarch64_changed(&mut roots, 0xd51c_2109, 0x10001), None, "common not private");
            roots.choose_guest(Isa::AArch64, 1 << 34 | 1);
            let shifts: Vec<u32> = [39, 30, 21, 12].into_iter().filter(|&shift| shift <= top).collect();
            let at = |(depth, shift): (usize, u32)| {
                let entries = if depth == 0 { 1 << 13 } else { 512 };
                0x10000 + depth as u64 * 0x10000 + (address >> shift) % entries * 8
            };
            let wanted: Vec<u64> = shifts.iter().copied().enumerate().map(at).collect();
            let entry = |depth: usize| {
                if depth + 1 == wanted.len() { 0x8000_0743 } else { 0x10003 + (depth as u64 + 1) * 0x10000 }
            };
            let memory: BTreeMap<u64, u64> = wanted.iter().enumerate().map(|(depth, at)| (*at, entry(depth))).collect();
            let walk = roots.walk(Isa::AArch64, address, |at| memory.get(&at).copied());
            assert_eq!(walk.entries[..walk.count], wanted, "{control:#x}");
            assert_eq!(
                (walk.page, roots.space_of(address)),
                (Some(Page { shift: 12, global: false }), SPACE_OF_GUESTS)
            );
            assert_eq!(aarch64_changed(&mut roots, 0xd50c_87df, 0), Some(Flush::Space(SPACE_OF_GUESTS)));
            roots.choose_guest(Isa::AArch64, 1 << 34 | 1 << 27 | 1);
            assert_eq!(roots.space_of(address), 0);
        }
    }
}
