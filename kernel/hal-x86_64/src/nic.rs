//! The island's network device, and memory for it.

use core::{
    fmt::Write,
    ptr::{with_exposed_provenance, with_exposed_provenance_mut},
    sync::atomic::{Ordering::SeqCst, compiler_fence},
};

use motet_hal::{
    Network,
    interrupt::InterruptSource,
    pci::{Bus, Window},
    registers::Registers,
    virtio::{Area, NETWORK_MEMORY_BYTES, NetworkFunction, VirtioNetwork},
};
use motet_layout::PRIVATE_VA;

use crate::{apic, paging::KernelMap, pci, serial};

/// The device, and where memory for connections is.
#[derive(Debug)]
pub struct Nic {
    pub device: VirtioNetwork<Registers>,
    memory: usize,
}

impl Nic {
    /// Finds the device, and takes memory for it. `None`: there is none, or it does not work, of which a message tells.
    pub fn find(bus: Bus<Registers>, window: &mut Window, map: &KernelMap) -> Option<Self> {
        let function = NetworkFunction::find(bus, window, pci::registers)?;
        function.source().interrupt_cores(1, |_| apic::NETWORK_MESSAGE);
        Self::start(function, map).map_err(|why| writeln!(serial::Console, "motet: no network: {why}")).ok()
    }

    fn start(function: NetworkFunction<Registers>, map: &KernelMap) -> Result<Self, &'static str> {
        let phys = map.take((size_of::<Area>() + NETWORK_MEMORY_BYTES) as u64)?;
        let at = (PRIVATE_VA + phys) as usize;
        // SAFETY: zeroed private memory that was taken for this, at a page, mapped for good; an area consists of atomics.
        let area = unsafe { &*with_exposed_provenance::<Area>(at) };
        // The processor does not reorder stores.
        let device = function.start(area, phys, || compiler_fence(SeqCst))?;
        Ok(Self { device, memory: at + size_of::<Area>() })
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
