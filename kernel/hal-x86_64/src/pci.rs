//! The q35 host bridge: where PCI configuration space is mapped.

use motet_hal::registers::Registers;
use motet_layout::DEVICE_VA;
use x86_64::instructions::port::Port;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
/// PCIEXBAR of device 00:00.0, low and high half.
const PCIEXBAR: u32 = 0x60;
const ENABLED: u32 = 1;
/// Where it goes when the firmware has not placed it: behind the largest low memory, as SeaBIOS does.
const DEFAULT: u32 = 0xb000_0000;

/// Physical addresses of the mapped configuration space and of a window for device memory that does not overlap it.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Configuration space of bus 0.
    pub ecam: u64,
    /// 256 MiB below 4 GiB that the host bridge forwards to PCI.
    pub window: u64,
}

/// Finds or places the mapped configuration space.
pub fn place() -> Placement {
    let (mut address, mut data) = (Port::<u32>::new(ADDRESS), Port::<u32>::new(DATA));
    let mut select = |register: u32| {
        // SAFETY: the boot core alone uses the configuration ports.
        unsafe { address.write(0x8000_0000 | register) };
    };
    select(PCIEXBAR);
    // SAFETY: as above.
    let mut base = unsafe { data.read() };
    if base & ENABLED == 0 {
        base = DEFAULT | ENABLED;
        for (register, value) in [(PCIEXBAR + 4, 0), (PCIEXBAR, base)] {
            select(register);
            // SAFETY: nothing else lies at `DEFAULT`: q35 keeps low memory below it.
            unsafe { data.write(value) };
        }
    }
    let ecam = u64::from(base & 0xfc00_0000);
    let window = if ecam & !0x0fff_ffff == 0xe000_0000 { 0xd000_0000 } else { 0xe000_0000 };
    Placement { ecam, window }
}

/// Device registers in the device window.
pub fn registers(phys: u64) -> Registers {
    // SAFETY: the window maps the first 512 GiB uncached for good, but for memory, where no device is.
    unsafe { Registers::new((DEVICE_VA + phys) as usize) }
}
