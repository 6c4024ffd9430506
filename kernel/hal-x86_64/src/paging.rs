//! The kernel half of the address space: built once from private memory, shared by all of this island's cores.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_layout::{DEVICE_VA, KERNEL_VA, PAGE_SIZE, POOL_VA, PRIVATE_VA};

use crate::core_block::{CORE_BLOCK_PIECES, CORE_BLOCK_SIZE, CORE_BLOCKS};

/// Slots of the root table that the kernel uses.
pub const KERNEL_SLOTS: [usize; 4] = [slot(POOL_VA, 3), slot(PRIVATE_VA, 3), slot(DEVICE_VA, 3), slot(KERNEL_VA, 3)];

/// Bytes of a large page.
pub const LARGE: u64 = 2 << 20;
const HUGE: u64 = 1 << 30;
/// Bytes of the device window.
const DEVICE_LEN: u64 = 512 << 30;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const UNCACHED: u64 = 3 << 3; // PWT and PCD
const ACCESSED_DIRTY: u64 = 3 << 5;
const PAGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NX: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// What a kernel mapping allows.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Instructions.
    Text,
    /// Constants.
    ReadOnly,
    /// Memory.
    Data,
    /// Device registers.
    Device,
}

impl Kind {
    const fn bits(self) -> u64 {
        PRESENT
            | GLOBAL
            | ACCESSED_DIRTY
            | match self {
                Self::Text => 0,
                Self::ReadOnly => NX,
                Self::Data => NX | WRITABLE,
                Self::Device => NX | WRITABLE | UNCACHED,
            }
    }
}

const fn slot(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * level) & 511) as usize
}

/// The kernel's page tables and the private memory they are made of.
///
/// Used by the boot core only (cores are started by it).
#[derive(Debug)]
pub struct KernelMap {
    root: u64,
    /// Next free private page, local physical address.
    free: AtomicU64,
    /// End of the private memory that pages come from.
    end: u64,
}

unsafe extern "C" {
    static motet_text_start: u8;
    static motet_text_end: u8;
    static motet_rodata_end: u8;
    static motet_image_end: u8;
}

/// First physical address behind the kernel image.
pub fn image_end() -> u64 {
    (&raw const motet_image_end).addr() as u64 - KERNEL_VA
}

impl KernelMap {
    /// An empty map whose tables come from private memory up to `end` (local physical, in the first GiB, all of which
    /// is mapped at `PRIVATE_VA`).
    ///
    /// # Errors
    /// Not enough private memory.
    pub fn new(end: u64) -> Result<Self, &'static str> {
        let mut map = Self { root: 0, free: AtomicU64::new(image_end()), end: end.min(HUGE) };
        map.root = map.page()?;
        Ok(map)
    }

    /// Local physical address of the root table.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// The root's entry in `slot`.
    pub fn root_entry(&self, slot: usize) -> u64 {
        entry(self.root, slot).load(Relaxed)
    }

    /// Maps the kernel image and the device window, in which the gigabytes are left out that have memory.
    ///
    /// # Errors
    /// Not enough private memory.
    pub fn map_image_and_devices(&self, is_memory: impl Fn(u64) -> bool) -> Result<(), &'static str> {
        let text = (&raw const motet_text_start).addr() as u64;
        let text_end = (&raw const motet_text_end).addr() as u64;
        let rodata_end = (&raw const motet_rodata_end).addr() as u64;
        let end = KERNEL_VA + image_end();
        let pieces =
            [(text, text_end, Kind::Text), (text_end, rodata_end, Kind::ReadOnly), (rodata_end, end, Kind::Data)];
        for (start, end, kind) in pieces {
            self.map(start, start - KERNEL_VA, end - start, kind)?;
        }
        for giga in (0..DEVICE_LEN).step_by(HUGE as usize).filter(|&giga| !is_memory(giga)) {
            self.map(DEVICE_VA + giga, giga, HUGE, Kind::Device)?;
        }
        Ok(())
    }

    /// Maps the block of core `index` to fresh memory.
    ///
    /// # Errors
    /// Not enough private memory.
    pub fn map_core_block(&self, index: usize) -> Result<(), &'static str> {
        let block = CORE_BLOCKS + index as u64 * CORE_BLOCK_SIZE;
        for (start, end) in CORE_BLOCK_PIECES {
            for page in (start..end).step_by(PAGE_SIZE as usize) {
                let phys = self.page()?;
                self.map(block + page, phys, PAGE_SIZE, Kind::Data)?;
            }
        }
        Ok(())
    }

    /// Maps `len` bytes at `va` to `phys`, all page-aligned, in pages as large as the alignment allows. What was there
    /// must be unmapped or the same.
    ///
    /// # Errors
    /// Not enough private memory.
    pub fn map(&self, va: u64, phys: u64, len: u64, kind: Kind) -> Result<(), &'static str> {
        let mut done = 0;
        while done < len {
            let (va, phys, left) = (va + done, phys + done, len - done);
            let fits = |size: u64| (va | phys) % size == 0 && left >= size;
            let (level, size) = if fits(HUGE) {
                (2, HUGE)
            } else if fits(LARGE) {
                (1, LARGE)
            } else {
                (0, PAGE_SIZE)
            };
            let table = self.table(va, level)?;
            entry(table, slot(va, level)).store(phys | kind.bits() | if level > 0 { PAGE } else { 0 }, Relaxed);
            done += size;
        }
        Ok(())
    }

    /// The table of `level` that translates `va`.
    fn table(&self, va: u64, level: u32) -> Result<u64, &'static str> {
        let mut table = self.root;
        for above in (level + 1..=3).rev() {
            let slot = entry(table, slot(va, above));
            if slot.load(Relaxed) & PRESENT == 0 {
                slot.store(self.page()? | PRESENT | WRITABLE | ACCESSED_DIRTY, Relaxed);
            }
            table = slot.load(Relaxed) & ADDRESS;
        }
        Ok(table)
    }

    /// The local physical address of so many zeroed bytes (whole pages) of private memory, taken for good.
    ///
    /// # Errors
    /// Not enough private memory.
    pub fn take(&self, len: u64) -> Result<u64, &'static str> {
        let first = self.page()?;
        // Pages are taken in order.
        (PAGE_SIZE..len).step_by(PAGE_SIZE as usize).try_for_each(|_| self.page().map(drop))?;
        Ok(first)
    }

    /// A zeroed page of private memory.
    fn page(&self) -> Result<u64, &'static str> {
        let phys = self.free.load(Relaxed);
        if phys + PAGE_SIZE > self.end {
            return Err("not enough private memory for the kernel's page tables and stacks");
        }
        self.free.store(phys + PAGE_SIZE, Relaxed);
        (0..512).for_each(|index| entry(phys, index).store(0, Relaxed));
        Ok(phys)
    }
}

fn entry(table: u64, index: usize) -> &'static AtomicU64 {
    let address = (PRIVATE_VA + table) as usize + 8 * index;
    // SAFETY: `table` is a page that `KernelMap::page` gave out: private memory in the first GiB, which the boot tables
    // and the kernel's own map at PRIVATE_VA, and which is accessed only as table entries, or before it got its use.
    unsafe { &*core::ptr::with_exposed_provenance(address) }
}
