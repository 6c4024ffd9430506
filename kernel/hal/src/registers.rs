//! Device registers.

use core::ptr::with_exposed_provenance_mut;

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

    /// Reads 16 bits at `offset`.
    pub fn read16(self, offset: usize) -> u16 {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u16>(self.0 + offset).read_volatile() }
    }

    /// Writes 16 bits at `offset`.
    pub fn write16(self, offset: usize, value: u16) {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u16>(self.0 + offset).write_volatile(value) }
    }

    /// Reads 8 bits at `offset`.
    pub fn read8(self, offset: usize) -> u8 {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u8>(self.0 + offset).read_volatile() }
    }

    /// Writes 8 bits at `offset`.
    pub fn write8(self, offset: usize, value: u8) {
        // SAFETY: as above.
        unsafe { with_exposed_provenance_mut::<u8>(self.0 + offset).write_volatile(value) }
    }
}

/// Reads a byte at a kernel address where nothing is to be mapped. If that is so, the core faults, and the kernel says where and stops: this shows it.
pub fn touch(address: usize) -> u8 {
    // SAFETY: a read of one byte changes nothing of memory, and no register of a device lies where the caller looks (`conformance::stray`).
    unsafe { with_exposed_provenance_mut::<u8>(address).read_volatile() }
}
