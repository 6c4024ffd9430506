//! The doorbell device, QEMU's `ivshmem-doorbell` (PCI 1af4:1110): finding it, placing its BARs, MSI-X, ringing.
//!
//! No firmware has assigned resources when a kernel starts this way, so the driver places the BARs itself. Facts that
//! were measured: a ring while MSI-X is disabled is lost (publish "joined" only after [`Ivshmem::enable`]); rings that
//! were not yet taken merge into one.

use core::ptr::with_exposed_provenance_mut;

const VENDOR_DEVICE: u32 = 0x1110_1af4;
const COMMAND: usize = 0x04;
const CAPABILITIES: usize = 0x34;
const CAPABILITY_MSIX: u8 = 0x11;
const REG_IV_POSITION: usize = 8;
const REG_DOORBELL: usize = 12;

/// Device registers at a virtual address.
#[derive(Clone, Copy, Debug)]
pub struct Registers(usize);

impl Registers {
    /// Registers at `address`.
    ///
    /// # Safety
    /// The address is that of device registers, mapped uncached, for good.
    pub const unsafe fn new(address: usize) -> Self {
        Self(address)
    }

    /// Registers `offset` bytes further.
    pub const fn at(self, offset: usize) -> Self {
        Self(self.0 + offset)
    }

    /// Reads 32 bits at `offset`.
    pub fn read32(self, offset: usize) -> u32 {
        // SAFETY: `new` guarantees device registers here.
        unsafe { with_exposed_provenance_mut::<u32>(self.0 + offset).read_volatile() }
    }

    /// Writes 32 bits at `offset`.
    pub fn write32(self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u32>(self.0 + offset).write_volatile(value) }
    }

    fn read16(self, offset: usize) -> u16 {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u16>(self.0 + offset).read_volatile() }
    }

    fn write16(self, offset: usize, value: u16) {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u16>(self.0 + offset).write_volatile(value) }
    }

    fn read8(self, offset: usize) -> u8 {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u8>(self.0 + offset).read_volatile() }
    }
}

/// The doorbell device of this island, its BARs placed and memory decoding on.
#[derive(Debug)]
pub struct Ivshmem {
    config: Registers,
    regs: Registers,
    table: Registers,
    msix: usize,
    /// Bus/device/function, as the interrupt controller sees the device (ITS device id).
    pub bdf: u32,
}

impl Ivshmem {
    /// Finds the device on bus 0 and places its BARs from `window` (a 32-bit physical address in the PCI memory window,
    /// 1 MiB-aligned). `map` turns a physical address into registers.
    pub fn find(ecam: Registers, window: u64, map: impl Fn(u64) -> Registers) -> Option<Self> {
        let bdf = (0..256).find(|bdf| ecam.at(bdf << 12).read32(0) == VENDOR_DEVICE)?;
        let config = ecam.at(bdf << 12);
        config.write16(COMMAND, 0);
        let (regs_phys, next) = place_bar(config, 0, window);
        let (msix_phys, next) = place_bar(config, 1, next);
        place_bar(config, 2, next);
        config.write16(COMMAND, 0x406); // memory decoding, bus master, no INTx
        let msix = find_capability(config, CAPABILITY_MSIX)?;
        let table_offset = config.read32(msix + 4);
        if table_offset & 7 != 1 {
            return None;
        }
        Some(Self {
            config,
            regs: map(regs_phys),
            table: map(msix_phys).at((table_offset & !7) as usize),
            msix,
            bdf: bdf as u32,
        })
    }

    /// This island's id among the doorbell peers.
    pub fn peer(&self) -> u32 {
        self.regs.read32(REG_IV_POSITION)
    }

    /// Number of MSI-X vectors the device has.
    pub fn vectors(&self) -> usize {
        (self.config.read16(self.msix + 2) & 0x7ff) as usize + 1
    }

    /// Sets the message that `vector` sends. Call before [`enable`](Self::enable).
    pub fn set_vector(&self, vector: usize, address: u64, data: u32) {
        self.config.write16(self.msix + 2, self.config.read16(self.msix + 2) | 0xc000); // enabled, all masked
        let entry = self.table.at(16 * vector);
        entry.write32(0, address as u32);
        entry.write32(4, (address >> 32) as u32);
        entry.write32(8, data);
        entry.write32(12, 0);
    }

    /// Lets interrupts through. Rings before this moment are lost.
    pub fn enable(&self) {
        self.config.write16(self.msix + 2, (self.config.read16(self.msix + 2) & !0x4000) | 0x8000);
    }

    /// Rings `vector` of `peer`. The caller has ordered its stores before.
    #[inline]
    pub fn ring(&self, peer: u32, vector: usize) {
        self.regs.write32(REG_DOORBELL, peer << 16 | vector as u32);
    }
}

/// Places a BAR at the next multiple of its size from `at`; returns its address and the end.
fn place_bar(config: Registers, index: usize, at: u64) -> (u64, u64) {
    let reg = 0x10 + 4 * index;
    let wide = config.read32(reg) & 6 == 4;
    config.write32(reg, u32::MAX);
    let mut mask = u64::from(config.read32(reg) & !15) | 0xffff_ffff << 32;
    if wide {
        config.write32(reg + 4, u32::MAX);
        mask = mask & 0xffff_ffff | u64::from(config.read32(reg + 4)) << 32;
    }
    let size = (!mask).wrapping_add(1).max(4096);
    let base = at.next_multiple_of(size);
    config.write32(reg, base as u32);
    if wide {
        config.write32(reg + 4, (base >> 32) as u32);
    }
    (base, base + size)
}

fn find_capability(config: Registers, id: u8) -> Option<usize> {
    let mut at = config.read8(CAPABILITIES) as usize;
    for _ in 0..48 {
        if at == 0 {
            return None;
        }
        if config.read8(at) == id {
            return Some(at);
        }
        at = config.read8(at + 1) as usize;
    }
    None
}
