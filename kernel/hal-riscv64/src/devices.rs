//! The PCI devices: the ivshmem doorbell, whose vector k interrupts core k, and the network device, if there is one.

use motet_hal::{
    interrupt::{InterruptSource, Message},
    ivshmem::Ivshmem,
    pci::{Bus, Window},
    registers::Registers,
    virtio::NetworkFunction,
};
use motet_layout::DEVICE_VA;

use crate::{
    console::log_line,
    interrupts::{DOORBELL_IDENTITY, NETWORK_IDENTITY},
    memory::FrameSource,
    nic::Nic,
    platform::Platform,
};

/// Finds the devices, aims their messages, and lets interrupts through. `None`: the machine has no such device.
pub fn find(platform: &Platform, core_count: usize, frames: FrameSource) -> (Option<Ivshmem>, Option<Nic>) {
    let message = |core: usize, data| Message { address: platform.harts()[core].imsic, data };
    let found = platform.pci.map(|(config, window)| {
        let (bus, mut window) = (Bus::new(registers(config)), Window { next: window });
        let doorbell = Ivshmem::find(bus, &mut window, registers);
        (doorbell, NetworkFunction::find(bus, &mut window, registers))
    });
    let (doorbell, function) = found.unwrap_or_default();
    if let Some(doorbell) = &doorbell {
        let cores = core_count.min(platform.harts().len());
        doorbell.source().interrupt_cores(cores, |core| message(core, DOORBELL_IDENTITY));
    } else {
        log_line!("no doorbell device: other islands and the host cannot be rung");
    }
    let network = function.and_then(|function| {
        function.source().interrupt_cores(1, |core| message(core, NETWORK_IDENTITY));
        Nic::start(function, frames)
    });
    (doorbell, network)
}

fn registers(phys: u64) -> Registers {
    // SAFETY: device registers below 512 GiB are mapped at DEVICE_VA for good.
    unsafe { Registers::new((DEVICE_VA + phys) as usize) }
}
