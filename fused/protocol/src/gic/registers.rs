//! Registers of the distributor and the redistributors (Arm IHI 0069, chapter 12).
//!
//! Registers are read and written in 32 bits; priorities in bytes, too, and those of 64 bits whole or in halves. Other sizes, registers
//! that are reserved and those of what there is not read as 0 and forget what is written.

use motet_layout::{Cell32, Cell64, GUEST_GIC_BANKS, GuestGic, GuestGicBank};

use super::{Cores, FIRST_SHARED, change, cores, pending, set};

const CONTROL: u64 = 0x0;
const TYPE: u64 = 0x4;
const REDISTRIBUTOR_TYPE: u64 = 0x8;
const REDISTRIBUTOR_TYPE_HIGH: u64 = 0xc;
const WAKER: u64 = 0x14;
const ROUTES: u64 = 0x6000;
const PERIPHERAL_ID_2: u64 = 0xffe8;
/// The second frame of a redistributor, whose registers have the places of the distributor's.
const PRIVATE: u64 = 0x1_0000;

/// GICD_CTLR: groups; one security state, affinity routing.
const GROUPS: u32 = 3;
const ALWAYS: u32 = 1 << 6 | 1 << 4;
/// GICD_TYPER: 10 bits of ids, no choice among cores (No1N), banks of shared interrupts.
const KIND: u32 = 9 << 19 | 1 << 25 | GUEST_GIC_BANKS as u32;
/// GICR_TYPER.Last.
const LAST: u64 = 1 << 4;
/// GICR_WAKER: ProcessorSleep, ChildrenAsleep.
const SLEEPS: u32 = 1 << 1;
const ASLEEP: u32 = 1 << 2;
/// GICD_PIDR2.ArchRev: version 3.
const VERSION: u32 = 0x3b;
/// IROUTER: Interrupt_Routing_Mode, affinities.
const ROUTE: u64 = 0xff_8000_0000 | 0xff_ffff;

/// What `size_bytes` at an offset of the distributor read as.
pub fn distributor_read(gic: &GuestGic, offset: u64, size_bytes: u8) -> u64 {
    if let Some((bank, register)) = shared(gic, offset) {
        return banked_read(bank, register, size_bytes);
    }
    if let Some((route, half)) = route(gic, offset, size_bytes) {
        return half.map_or(route.get(), |shift| route.get() >> shift & 0xffff_ffff);
    }
    match (offset, size_bytes) {
        (CONTROL, 4) => u64::from(gic.groups.get() & GROUPS | ALWAYS),
        (TYPE, 4) => u64::from(KIND),
        (PERIPHERAL_ID_2, 4) => u64::from(VERSION),
        _ => 0,
    }
}

/// Writes it; the cores for which something has become due.
pub fn distributor_write(gic: &GuestGic, offset: u64, size_bytes: u8, value: u64) -> Cores {
    change(gic, || {
        if let Some((bank, register)) = shared(gic, offset) {
            banked_write(bank, register, size_bytes, value as u32, u32::MAX);
        } else if let Some((route, half)) = route(gic, offset, size_bytes) {
            let whole = match half {
                None => value,
                Some(shift) => route.get() & !(0xffff_ffff << shift) | (value & 0xffff_ffff) << shift,
            };
            route.set(whole & ROUTE);
        } else if (offset, size_bytes) == (CONTROL, 4) {
            gic.groups.set(value as u32 & GROUPS);
        }
    })
}

/// What `size_bytes` at an offset of a core's redistributor read as.
pub fn redistributor_read(gic: &GuestGic, core: usize, offset: u64, size_bytes: u8) -> u64 {
    let Some(bank) = gic.private.get(core).filter(|_| core < cores(gic)) else { return 0 };
    if offset >= PRIVATE {
        let register = private(offset);
        return register.map_or(0, |register| banked_read(bank, register, size_bytes));
    }
    let last = if core + 1 == cores(gic) { LAST } else { 0 };
    let kind = (core as u64) << 32 | (core as u64) << 8 | last;
    match (offset, size_bytes) {
        (REDISTRIBUTOR_TYPE, 8) => kind,
        (REDISTRIBUTOR_TYPE, 4) => kind & 0xffff_ffff,
        (REDISTRIBUTOR_TYPE_HIGH, 4) => kind >> 32,
        (WAKER, 4) if gic.awake.get() >> core & 1 == 0 => u64::from(SLEEPS | ASLEEP),
        (PERIPHERAL_ID_2, 4) => u64::from(VERSION),
        _ => 0,
    }
}

/// Writes it; the cores for which something has become due.
pub fn redistributor_write(gic: &GuestGic, core: usize, offset: u64, size_bytes: u8, value: u64) -> Cores {
    change(gic, || {
        let Some(bank) = gic.private.get(core).filter(|_| core < cores(gic)) else { return };
        if let Some(register) = private(offset) {
            // SGIs stay edges.
            banked_write(bank, register, size_bytes, value as u32, 0xffff_0000);
        } else if (offset, size_bytes) == (WAKER, 4) {
            set(&gic.awake, 1 << core, value as u32 & SLEEPS == 0);
        }
    })
}

/// A register that each bank has.
#[derive(Clone, Copy)]
enum Banked {
    Group,
    SetEnabled,
    ClearEnabled,
    SetPending,
    ClearPending,
    SetActive,
    ClearActive,
    /// Of the interrupts from this on.
    Priority(usize),
    /// Of 16 interrupts, from bit 0 or 16 on.
    Configuration(u32),
}

/// The shared bank and its register at an offset of the distributor. Those of the first bank are the redistributors'.
fn shared(gic: &GuestGic, offset: u64) -> Option<(&GuestGicBank, Banked)> {
    let (first, register) = banked(offset)?;
    gic.shared.get(first.checked_sub(1)?).map(|bank| (bank, register))
}

/// The register of a core's own bank at an offset of its redistributor.
fn private(offset: u64) -> Option<Banked> {
    let (bank, register) = banked(offset.checked_sub(PRIVATE)?)?;
    (bank == 0).then_some(register)
}

/// The bank and the register at an offset.
fn banked(offset: u64) -> Option<(usize, Banked)> {
    let bank = (offset as usize & 0x7f) / 4;
    Some(match offset {
        _ if offset < 0x400 && !offset.is_multiple_of(4) => return None,
        0x080..0x100 => (bank, Banked::Group),
        0x100..0x180 => (bank, Banked::SetEnabled),
        0x180..0x200 => (bank, Banked::ClearEnabled),
        0x200..0x280 => (bank, Banked::SetPending),
        0x280..0x300 => (bank, Banked::ClearPending),
        0x300..0x380 => (bank, Banked::SetActive),
        0x380..0x400 => (bank, Banked::ClearActive),
        0x400..0x7f8 => {
            let id = offset as usize - 0x400;
            (id / 32, Banked::Priority(id % 32))
        }
        0xc00..0xd00 if offset.is_multiple_of(4) => {
            let half = (offset as usize - 0xc00) / 4;
            (half / 2, Banked::Configuration(half as u32 % 2 * 16))
        }
        _ => return None,
    })
}

fn banked_read(bank: &GuestGicBank, register: Banked, size_bytes: u8) -> u64 {
    let value = match (register, size_bytes) {
        (Banked::Priority(index), 1) => bank.priority[index / 4].get() >> (8 * (index % 4)) & 0xff,
        (Banked::Priority(index), 4) if index % 4 == 0 => bank.priority[index / 4].get(),
        (Banked::Priority(_), _) | (_, 0..=3 | 5..) => 0,
        (Banked::Group, _) => bank.group.get(),
        (Banked::SetEnabled | Banked::ClearEnabled, _) => bank.enabled.get(),
        (Banked::SetPending | Banked::ClearPending, _) => pending(bank),
        (Banked::SetActive | Banked::ClearActive, _) => bank.active.get(),
        (Banked::Configuration(shift), _) => {
            let edges = bank.edge.get() >> shift;
            (0..16).fold(0, |value, index| value | (edges >> index & 1) << (2 * index + 1))
        }
    };
    u64::from(value)
}

/// `configurable`: interrupts whose trigger can be changed.
fn banked_write(bank: &GuestGicBank, register: Banked, size_bytes: u8, value: u32, configurable: u32) {
    match (register, size_bytes) {
        (Banked::Priority(index), 1) => {
            set_bits(&bank.priority[index / 4], 0xff << (8 * (index % 4)), value << (8 * (index % 4)))
        }
        (Banked::Priority(index), 4) if index % 4 == 0 => bank.priority[index / 4].set(value),
        (Banked::Priority(_), _) | (_, 0..=3 | 5..) => {}
        (Banked::Group, _) => bank.group.set(value),
        (Banked::SetEnabled, _) => set(&bank.enabled, value, true),
        (Banked::ClearEnabled, _) => set(&bank.enabled, value, false),
        (Banked::SetPending, _) => set(&bank.latched, value, true),
        (Banked::ClearPending, _) => set(&bank.latched, value, false),
        (Banked::SetActive, _) => set(&bank.active, value, true),
        (Banked::ClearActive, _) => set(&bank.active, value, false),
        (Banked::Configuration(shift), _) => {
            let edges = (0..16).fold(0, |edges, index| edges | (value >> (2 * index + 1) & 1) << index);
            set_bits(&bank.edge, 0xffff << shift & configurable, edges << shift);
        }
    }
}

fn set_bits(word: &Cell32, mask: u32, bits: u32) {
    word.set(word.get() & !mask | bits & mask);
}

/// The route of a shared interrupt at an offset of the distributor, whole or from a bit on.
fn route(gic: &GuestGic, offset: u64, size_bytes: u8) -> Option<(&Cell64, Option<u32>)> {
    let at = offset.checked_sub(ROUTES + 8 * u64::from(FIRST_SHARED))?;
    let half = match (size_bytes, at % 8) {
        (8, 0) => None,
        (4, 0) => Some(0),
        (4, 4) => Some(32),
        _ => return None,
    };
    gic.routes.get((at / 8) as usize).map(|route| (route, half))
}
