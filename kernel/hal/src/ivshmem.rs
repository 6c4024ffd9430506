//! The doorbell device, QEMU's `ivshmem-doorbell` (PCI 1af4:1110): a [PCI function](crate::pci) that rings others of its kind.
//!
//! Facts that were measured: a ring while MSI-X is disabled is lost (publish "joined" only after
//! [`enable`](InterruptSource::enable)); rings that were not yet taken merge into one.

use crate::{
    interrupt::InterruptSource,
    pci::{Bus, FunctionId, Identity, Msix, Window},
    registers::Registers,
};

const IDENTITY: Identity = Identity { vendor: 0x1af4, device: 0x1110 };
const REG_IV_POSITION: usize = 8;
const REG_DOORBELL: usize = 12;

/// The doorbell device of this island, its BARs placed and memory decoding on.
#[derive(Debug)]
pub struct Ivshmem {
    regs: Registers,
    msix: Msix<Registers>,
    /// Which function it is.
    pub id: FunctionId,
}

impl Ivshmem {
    /// Finds the device and places its BARs in `window`. `map` turns a physical address into registers.
    pub fn find(bus: Bus<Registers>, window: &mut Window, map: impl Fn(u64) -> Registers) -> Option<Self> {
        let function = bus.find(IDENTITY)?;
        let bars = function.switch_on(window);
        let msix = function.msix(&bars, &map)?;
        Some(Self { regs: map(bars[0]), msix, id: function.id() })
    }

    /// What it interrupts this island's cores with.
    pub fn source(&self) -> &impl InterruptSource {
        &self.msix
    }

    /// This island's id among the doorbell peers.
    pub fn peer(&self) -> u32 {
        self.regs.read32(REG_IV_POSITION)
    }

    /// Rings `vector` of `peer`. The caller has ordered its stores before.
    #[inline]
    pub fn ring(&self, peer: u32, vector: usize) {
        self.regs.write32(REG_DOORBELL, peer << 16 | vector as u32);
    }
}
