//! What QEMU's firmware tells a PVH kernel (Xen's `hvm_start_info`, public/arch-x86/hvm/start_info.h).

use core::fmt::Write;

use motet_layout::PRIVATE_VA;

use motet_hal::Text;

const MAGIC: u32 = 0x336e_c578;
/// Start information and what it points to lie below this: what the boot page tables map.
const REACHABLE: u64 = 1 << 30;
const ENTRIES_MAX: usize = 32;
const RAM: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    module_count: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MapEntry {
    address: u64,
    len: u64,
    kind: u32,
    reserved: u32,
}

/// A range of RAM, local physical addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ram {
    /// First byte.
    pub start: u64,
    /// First byte behind it.
    pub end: u64,
}

/// The start information, copied: the original's memory is reused.
#[derive(Clone, Debug)]
pub struct Start {
    /// The kernel's command line.
    pub command_line: Text<512>,
    ram: [Ram; ENTRIES_MAX],
}

impl Start {
    /// Copies the start information at physical address `at`.
    ///
    /// # Safety
    /// The boot page tables are active, and `at` is what the firmware passed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub unsafe fn read(at: u64) -> Result<Self, &'static str> {
        // SAFETY: the caller's; plain integers at an address that is checked to be mapped.
        let info: StartInfo = unsafe { read(at) }.ok_or("PVH start information is out of reach")?;
        if info.magic != MAGIC || info.version == 0 {
            return Err("no PVH start information with a memory map");
        }
        let mut start = Self { command_line: Text::new(), ram: [Ram::default(); ENTRIES_MAX] };
        for offset in 0..512 {
            // SAFETY: as above.
            match unsafe { read::<u8>(info.command_line + offset) } {
                None | Some(0) => break,
                Some(byte) => {
                    let _ = start.command_line.write_char(char::from(byte));
                }
            }
        }
        let mut count = 0;
        for index in 0..u64::from(info.memory_map_entries).min(256) {
            // SAFETY: as above.
            let entry: MapEntry = unsafe { read(info.memory_map + index * size_of::<MapEntry>() as u64) }
                .ok_or("the memory map is out of reach")?;
            if entry.kind == RAM && count < ENTRIES_MAX {
                start.ram[count] = Ram { start: entry.address, end: entry.address.saturating_add(entry.len) };
                count += 1;
            }
        }
        Ok(start)
    }

    /// The machine's RAM.
    pub fn ram(&self) -> impl Iterator<Item = Ram> + '_ {
        self.ram.iter().copied().filter(|ram| ram.end > ram.start)
    }

    /// Whether all of `len` bytes at `phys` are RAM.
    pub fn is_ram(&self, phys: u64, len: u64) -> bool {
        let Some(end) = phys.checked_add(len) else { return false };
        let mut at = phys;
        while at < end {
            match self.ram().find(|ram| (ram.start..ram.end).contains(&at)) {
                Some(ram) => at = ram.end,
                None => return false,
            }
        }
        true
    }
}

/// # Safety
/// The boot page tables are active; any bytes are a valid `T`.
unsafe fn read<T: Copy>(phys: u64) -> Option<T> {
    let reachable = phys != 0 && phys.checked_add(size_of::<T>() as u64)? <= REACHABLE;
    let address = core::ptr::with_exposed_provenance::<T>((PRIVATE_VA + phys) as usize);
    // SAFETY: within the mapped first GiB.
    reachable.then(|| unsafe { address.read_unaligned() })
}
