//! The island's network device, and memory for it.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use motet_hal::Network;
use motet_hal::registers::Registers;
use motet_hal::virtio::{Area, NETWORK_MEMORY_BYTES, NetworkFunction, VirtioNetwork};
use motet_layout::PRIVATE_VA;

use crate::console::log_line;
use crate::cpu::barrier;
use crate::memory::KernelTables;

/// The device, and where memory for connections is.
pub struct Nic {
    pub device: VirtioNetwork<Registers>,
    memory: usize,
}

impl Nic {
    /// Takes memory for a device, which interrupts, and has it work. `None`: it does not, of which a message tells.
    pub fn start(function: NetworkFunction<Registers>, tables: &mut KernelTables) -> Option<Self> {
        let phys = tables.take((size_of::<Area>() + NETWORK_MEMORY_BYTES) as u64, align_of::<Area>() as u64);
        let at = (PRIVATE_VA + phys) as usize;
        // SAFETY: zeroed private memory that was taken for this, aligned, mapped for good; an area consists of atomics.
        let area = unsafe { &*with_exposed_provenance::<Area>(at) };
        match function.start(area, phys, || barrier!("dsb st")) {
            Ok(device) => Some(Self { device, memory: at + size_of::<Area>() }),
            Err(why) => {
                log_line!("no network: {why}");
                None
            }
        }
    }

    /// [`motet_hal::Machine::take_network`].
    pub fn take(&self) -> Option<Network> {
        let address = self.device.take()?;
        let first = with_exposed_provenance_mut::<u8>(self.memory);
        // SAFETY: zeroed private memory behind the area, taken for this; this line is executed once.
        let memory = unsafe { core::slice::from_raw_parts_mut(first, NETWORK_MEMORY_BYTES) };
        Some(Network { address, memory })
    }
}
