//! The ivshmem doorbell: vector k interrupts core k.

use motet_hal::{
    interrupt::{InterruptSource, Message},
    ivshmem::Ivshmem,
    pci::{Bus, Window},
    registers::Registers,
};
use motet_layout::DEVICE_VA;

use crate::{console::log_line, interrupts::DOORBELL_IDENTITY, platform::Platform};

/// Finds the device, aims its first `core_count` vectors, and lets interrupts through. `None`: the machine has none.
pub fn find(platform: &Platform, core_count: usize) -> Option<Ivshmem> {
    let found = platform.pci.and_then(|(config, window)| {
        Ivshmem::find(Bus::new(registers(config)), &mut Window { next: window }, registers)
    });
    let Some(doorbell) = found else {
        log_line!("no doorbell device: other islands and the host cannot be rung");
        return None;
    };
    let message = |core: usize| Message { address: platform.harts()[core].imsic, data: DOORBELL_IDENTITY };
    doorbell.source().interrupt_cores(core_count.min(platform.harts().len()), message);
    Some(doorbell)
}

fn registers(phys: u64) -> Registers {
    // SAFETY: device registers below 512 GiB are mapped at DEVICE_VA for good.
    unsafe { Registers::new((DEVICE_VA + phys) as usize) }
}
