//! PCI functions: finding one by what it is, placing its memory, and its messages (MSI-X).
//!
//! No firmware has assigned resources when a kernel starts this way, so whoever uses a function places its BARs. Offsets and bits: PCI
//! Local Bus Specification 3.0, chapter 6. Configuration space may hold anything: what makes no sense is not found.

use crate::{
    interrupt::{InterruptSource, Message},
    registers::Registers,
};

const COMMAND: usize = 0x04;
/// Memory decoding, bus master, no INTx.
const COMMAND_ON: u16 = 0x406;
const STATUS: usize = 0x06;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const HEADER_TYPE: usize = 0x0e;
const BARS: usize = 0x10;
/// BARs of an ordinary function; a bridge has two.
const BARS_MAX: usize = 6;
const CAPABILITIES: usize = 0x34;
const CAPABILITY_MSIX: u8 = 0x11;
/// Capabilities begin behind the header, at multiples of four, and there is room for so many.
const HEADER_LEN: usize = 0x40;
const CAPABILITIES_MAX: usize = 48;
const BAR_IO: u32 = 1;
const BAR_WIDE: u32 = 4;
const BAR_TYPE: u32 = 6;
const MSIX_ENABLED: u16 = 0x8000;
const MSIX_MASKED: u16 = 0x4000;
/// Functions of a bus: 32 devices of 8.
const FUNCTIONS: u32 = 256;
const FUNCTIONS_OF_DEVICE: usize = 8;
/// In the type of function 0's header.
const SEVERAL_FUNCTIONS: u8 = 0x80;

/// Registers of a function's configuration space or memory.
pub trait Space: Copy {
    /// The space from `offset` bytes on.
    fn at(self, offset: usize) -> Self;
    /// Reads 8 bits at `offset`.
    fn read8(self, offset: usize) -> u8;
    /// Reads 16 bits at `offset`.
    fn read16(self, offset: usize) -> u16;
    /// Reads 32 bits at `offset`.
    fn read32(self, offset: usize) -> u32;
    /// Writes 8 bits at `offset`.
    fn write8(self, offset: usize, value: u8);
    /// Writes 16 bits at `offset`.
    fn write16(self, offset: usize, value: u16);
    /// Writes 32 bits at `offset`.
    fn write32(self, offset: usize, value: u32);
}

impl Space for Registers {
    fn at(self, offset: usize) -> Self {
        Self::at(self, offset)
    }

    fn read8(self, offset: usize) -> u8 {
        Self::read8(self, offset)
    }

    fn read16(self, offset: usize) -> u16 {
        Self::read16(self, offset)
    }

    fn read32(self, offset: usize) -> u32 {
        Self::read32(self, offset)
    }

    fn write8(self, offset: usize, value: u8) {
        Self::write8(self, offset, value);
    }

    fn write16(self, offset: usize, value: u16) {
        Self::write16(self, offset, value);
    }

    fn write32(self, offset: usize, value: u32) {
        Self::write32(self, offset, value);
    }
}

/// What a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Who made it.
    pub vendor: u16,
    /// Which of theirs it is.
    pub device: u16,
}

/// Which function of a bus: five bits of device, three of function. Interrupt controllers know a function by its bus, too, which is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FunctionId(u8);

impl FunctionId {
    /// As interrupt controllers see it (ITS device id).
    pub const fn requester(self) -> u32 {
        self.0 as u32
    }
}

/// The part of the 32-bit physical address space that goes to PCI, as far as nothing is placed there yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First free address.
    pub next: u64,
}

/// Bus 0, whose functions' configuration spaces lie one after the other, 4 KiB each (ECAM).
#[derive(Clone, Copy, Debug)]
pub struct Bus<S> {
    ecam: S,
}

impl<S: Space> Bus<S> {
    /// The bus whose configuration space is `ecam`.
    pub const fn new(ecam: S) -> Self {
        Self { ecam }
    }

    /// The first function that is `identity`.
    pub fn find(self, identity: Identity) -> Option<Function<S>> {
        self.functions().find(|function| function.identity() == identity)
    }

    /// Every function there is. A device has a function 0, which says whether it has others (3.2.2.3.4); reading where nothing is takes time.
    pub fn functions(self) -> impl Iterator<Item = Function<S>> {
        let function = move |id| Function { config: self.ecam.at((id as usize) << 12), id: FunctionId(id as u8) };
        let is_there = |function: &Function<S>| function.identity().vendor != 0xffff;
        let devices = (0..FUNCTIONS).step_by(FUNCTIONS_OF_DEVICE).filter(move |&first| is_there(&function(first)));
        devices.flat_map(move |first| {
            let has_others = function(first).config.read8(HEADER_TYPE) & SEVERAL_FUNCTIONS != 0;
            let count = if has_others { FUNCTIONS_OF_DEVICE } else { 1 };
            (first..FUNCTIONS).take(count).map(function).filter(is_there)
        })
    }
}

/// A function of bus 0.
#[derive(Clone, Copy, Debug)]
pub struct Function<S> {
    config: S,
    id: FunctionId,
}

impl<S: Space> Function<S> {
    /// What it is.
    pub fn identity(&self) -> Identity {
        let word = self.config.read32(0);
        Identity { vendor: word as u16, device: (word >> 16) as u16 }
    }

    /// Which it is.
    pub const fn id(&self) -> FunctionId {
        self.id
    }

    /// Places the memory of all its BARs at the beginning of `window`, each at a multiple of its size and of a page, takes that off the
    /// window, and switches the function on: it decodes memory, may be bus master, and raises no INTx. Answers the physical addresses, 0
    /// for BARs that there are not.
    pub fn switch_on(&self, window: &mut Window) -> [u64; BARS_MAX] {
        self.config.write16(COMMAND, 0);
        let mut placed = [0; BARS_MAX];
        let count = if self.config.read8(HEADER_TYPE) & 0x7f == 0 { BARS_MAX } else { 0 };
        let mut index = 0;
        while index < count {
            let Some((size, is_wide)) = self.measure_bar(index) else {
                index += 1;
                continue;
            };
            let base = window.next.next_multiple_of(size);
            self.write_bar(index, is_wide, base);
            (placed[index], window.next) = (base, base + size);
            index += if is_wide { 2 } else { 1 };
        }
        self.config.write16(COMMAND, COMMAND_ON);
        placed
    }

    /// Bytes of a BAR (at least a page) and whether it takes two registers; `None`: no memory, or more than there is room for below
    /// 4 GiB. Decoding is off.
    fn measure_bar(&self, index: usize) -> Option<(u64, bool)> {
        let reg = BARS + 4 * index;
        let first = self.config.read32(reg);
        let is_wide = first & BAR_TYPE == BAR_WIDE && index + 1 < BARS_MAX;
        if first & BAR_IO != 0 {
            return None;
        }
        self.config.write32(reg, u32::MAX);
        let mut mask = u64::from(self.config.read32(reg) & !15) | 0xffff_ffff << 32;
        if is_wide {
            self.config.write32(reg + 4, u32::MAX);
            mask = mask & 0xffff_ffff | u64::from(self.config.read32(reg + 4)) << 32;
        }
        let size = (!mask).wrapping_add(1);
        let is_there = size.is_power_of_two() && size < 1 << 32;
        if !is_there {
            self.write_bar(index, is_wide, 0);
        }
        is_there.then_some((size.max(4096), is_wide))
    }

    fn write_bar(&self, index: usize, is_wide: bool, base: u64) {
        let reg = BARS + 4 * index;
        self.config.write32(reg, base as u32);
        if is_wide {
            self.config.write32(reg + 4, (base >> 32) as u32);
        }
    }

    /// Its capabilities of this kind: configuration space from their beginnings on.
    pub fn capabilities(&self, kind: u8) -> impl Iterator<Item = S> {
        let config = self.config;
        let link = move |at: usize| Some(config.read8(at) as usize & !3).filter(|&at| at >= HEADER_LEN);
        let has_some = config.read16(STATUS) & STATUS_CAPABILITIES != 0;
        let first = if has_some { link(CAPABILITIES) } else { None };
        let all = core::iter::successors(first, move |&at| link(at + 1)).take(CAPABILITIES_MAX);
        all.filter(move |&at| config.read8(at) == kind).map(move |at| config.at(at))
    }

    /// Its messages, if it has any; its BARs are at `bars`, and `map` turns a physical address into registers.
    pub fn msix(&self, bars: &[u64; BARS_MAX], map: impl Fn(u64) -> S) -> Option<Msix<S>> {
        let capability = self.capabilities(CAPABILITY_MSIX).next()?;
        let table = capability.read32(4);
        let bar = bars.get(table as usize & 7).copied().filter(|&bar| bar != 0)?;
        Some(Msix { control: capability.at(2), table: map(bar).at(table as usize & !7) })
    }
}

/// Messages of a PCI function (MSI-X, PCI Local Bus Specification 3.0, 6.8.2).
#[derive(Clone, Copy, Debug)]
pub struct Msix<S> {
    /// From its control register on.
    control: S,
    table: S,
}

impl<S: Space> InterruptSource for Msix<S> {
    fn vectors(&self) -> usize {
        usize::from(self.control.read16(0) & 0x7ff) + 1
    }

    fn aim(&self, vector: usize, message: Message) {
        self.control.write16(0, self.control.read16(0) | MSIX_ENABLED | MSIX_MASKED);
        let entry = self.table.at(16 * vector);
        entry.write32(0, message.address as u32);
        entry.write32(4, (message.address >> 32) as u32);
        entry.write32(8, message.data);
        entry.write32(12, 0);
    }

    fn enable(&self) {
        self.control.write16(0, self.control.read16(0) & !MSIX_MASKED | MSIX_ENABLED);
    }
}
