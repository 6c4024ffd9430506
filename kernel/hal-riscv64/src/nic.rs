//! The island's network device, and memory for it.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use motet_hal::{
    Network,
    registers::Registers,
    virtio::{Area, NETWORK_MEMORY_BYTES, NetworkFunction, VirtioNetwork},
};
use motet_layout::PRIVATE_VA;

use crate::{console::log_line, machine::order_before_devices, memory::FrameSource};

/// The device, and where memory for connections is.
#[derive(Debug)]
pub struct Nic {
    pub device: VirtioNetwork<Registers>,
    memory: usize,
}

impl Nic {
    /// Takes memory for a device, which interrupts, and has it work. `None`: it does not, of which a message tells.
    pub fn start(function: NetworkFunction<Registers>, mut frames: FrameSource) -> Option<Self> {
        let started = frames.take((size_of::<Area>() + NETWORK_MEMORY_BYTES) as u64).and_then(|phys| {
            let at = (PRIVATE_VA + phys) as usize;
            // SAFETY: zeroed private memory that was taken for this, at a page, mapped for good; an area consists of atomics.
            let area = unsafe { &*with_exposed_provenance::<Area>(at) };
            let device = function.start(area, phys, order_before_devices)?;
            Ok(Self { device, memory: at + size_of::<Area>() })
        });
        started.inspect_err(|why| log_line!("no network: {why}")).ok()
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
