//! The kernel half of the page tables, and frames of private memory to build it from.
//!
//! Entry bits: privileged architecture, "Sv48: Page-Based 48-bit Virtual-Memory System". Kernel entries are global, and
//! accessed and dirty from the start: neither Svadu nor Svade is relied upon.

use core::{arch::global_asm, ptr::with_exposed_provenance_mut};

use motet_layout::{DEVICE_VA, KERNEL_ROOT_SLOT, KERNEL_VA, PAGE_SIZE, POOL_VA, PRIVATE_VA};

use crate::platform::PhysRange;

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;

/// A leaf that the kernel can read and write.
pub const READ_WRITE: u64 = VALID | READ | WRITE | GLOBAL | ACCESSED | DIRTY;
/// A leaf that the kernel can only read.
pub const READ_ONLY: u64 = VALID | READ | GLOBAL | ACCESSED;
/// A leaf that the kernel can read and execute.
pub const READ_EXECUTE: u64 = VALID | READ | EXECUTE | GLOBAL | ACCESSED;

const ENTRIES: usize = 512;
const GIB: u64 = 1 << 30;
const GIB_SHIFT: u32 = 30;

/// Link address minus load address of the image.
pub const KERNEL_OFFSET: u64 = 0xffff_ffff_0000_0000;
/// Slots of the root table that the kernel uses: each area of the address map lies in one.
pub const KERNEL_SLOTS: [usize; 4] =
    [root_slot(POOL_VA), root_slot(PRIVATE_VA), root_slot(DEVICE_VA), root_slot(KERNEL_VA)];

/// A page table, for the statics that boot starts with.
#[repr(C, align(4096))]
pub struct Table(pub [u64; ENTRIES]);

/// The second level of the boot tables, under every slot of [`KERNEL_SLOTS`] but the pool's: each gigabyte at its own
/// address, readable, writable and executable; and the image's gigabyte where it is linked.
pub static BOOT_LEVEL_2: Table = boot_level_2();

const fn boot_level_2() -> Table {
    const LEAF: u64 = VALID | READ | WRITE | EXECUTE | ACCESSED | DIRTY;
    let mut table = [0; ENTRIES];
    let mut i = 0;
    while i < ENTRIES {
        table[i] = entry((i as u64) << GIB_SHIFT, LEAF);
        i += 1;
    }
    table[(KERNEL_VA >> GIB_SHIFT) as usize % ENTRIES] = entry(KERNEL_VA.wrapping_sub(KERNEL_OFFSET), LEAF);
    Table(table)
}

/// Index into a root table.
pub const fn root_slot(address: u64) -> usize {
    (address >> 39) as usize % ENTRIES
}

const _: () = {
    let mut i = 0;
    while i < KERNEL_SLOTS.len() {
        assert!(KERNEL_SLOTS[i] >= KERNEL_ROOT_SLOT);
        i += 1;
    }
};

const fn entry(phys: u64, bits: u64) -> u64 {
    phys >> 2 | bits
}

/// Private memory after the image, given out once and for good.
#[derive(Debug)]
pub struct FrameSource {
    next: u64,
    end: u64,
}

impl FrameSource {
    /// Frames from `start` (rounded up to a page) to `end`, both physical.
    pub fn new(start: u64, end: u64) -> Self {
        Self { next: start.next_multiple_of(PAGE_SIZE), end }
    }

    /// Takes `len` bytes (rounded up to pages), zeroed; returns their physical address.
    ///
    /// # Errors
    /// Private memory is too small.
    pub fn take(&mut self, len: u64) -> Result<u64, &'static str> {
        let (phys, len) = (self.next, len.next_multiple_of(PAGE_SIZE));
        if self.end.saturating_sub(phys) < len {
            return Err("private memory is too small for the kernel's tables");
        }
        self.next += len;
        // SAFETY: memory that no one else was given, mapped at PRIVATE_VA by the boot tables.
        unsafe { private(phys).write_bytes(0, len as usize) };
        Ok(phys)
    }
}

/// Where the kernel sees a byte of private memory.
pub fn private(phys: u64) -> *mut u8 {
    with_exposed_provenance_mut((PRIVATE_VA + phys) as usize)
}

/// A tree of page tables under construction.
#[derive(Debug)]
pub struct Tables {
    frames: FrameSource,
    /// Physical address of the root table.
    pub root: u64,
}

impl Tables {
    /// An empty tree.
    ///
    /// # Errors
    /// Private memory is too small.
    pub fn new(mut frames: FrameSource) -> Result<Self, &'static str> {
        let root = frames.take(PAGE_SIZE)?;
        Ok(Self { frames, root })
    }

    /// Maps `phys` at `virt` with the largest pages that fit. All page-aligned.
    ///
    /// # Errors
    /// Private memory is too small.
    pub fn map(&mut self, virt: u64, phys: PhysRange, bits: u64) -> Result<(), &'static str> {
        let mut done = 0;
        while done < phys.len {
            let (virt, from) = (virt + done, phys.start + done);
            let fits = |level: &u32| {
                let size = PAGE_SIZE << (9 * level);
                (virt | from) % size == 0 && phys.len - done >= size
            };
            let level = (1..=2).rev().find(fits).unwrap_or(0);
            self.set(virt, level, entry(from, bits))?;
            done += PAGE_SIZE << (9 * level);
        }
        Ok(())
    }

    /// Maps `len` bytes of fresh memory at `virt`.
    ///
    /// # Errors
    /// Private memory is too small.
    pub fn map_fresh(&mut self, virt: u64, len: u64) -> Result<(), &'static str> {
        let start = self.frames.take(len)?;
        self.map(virt, PhysRange { start, len }, READ_WRITE)
    }

    /// Maps the devices' gigabytes of the first 512 GiB at [`DEVICE_VA`]: those without memory. That they are uncached
    /// is a property of the physical addresses on RISC-V.
    ///
    /// # Errors
    /// Private memory is too small.
    pub fn map_devices(&mut self, memory: &[PhysRange]) -> Result<(), &'static str> {
        for start in (0..ENTRIES as u64).map(|i| i * GIB) {
            let gigabyte = PhysRange { start, len: GIB };
            if !memory.iter().any(|range| range.overlaps(gigabyte)) {
                self.map(DEVICE_VA + start, gigabyte, READ_WRITE)?;
            }
        }
        Ok(())
    }

    /// Private memory that is free still.
    pub fn into_frames(self) -> FrameSource {
        self.frames
    }

    /// The root table's entries for [`KERNEL_SLOTS`].
    pub fn kernel_entries(&self) -> [u64; KERNEL_SLOTS.len()] {
        // SAFETY: the root is a table of ours.
        KERNEL_SLOTS.map(|slot| unsafe { table(self.root).add(slot).read() })
    }

    fn set(&mut self, virt: u64, level: u32, value: u64) -> Result<(), &'static str> {
        let mut at = self.root;
        for level in (level + 1..=3).rev() {
            // SAFETY: `at` is a table of ours and the index is below 512.
            let slot = unsafe { table(at).add(index(virt, level)) };
            // SAFETY: as above.
            at = match unsafe { slot.read() } {
                0 => {
                    let fresh = self.frames.take(PAGE_SIZE)?;
                    // SAFETY: as above.
                    unsafe { slot.write(entry(fresh, VALID)) };
                    fresh
                }
                found => found >> 10 << 12,
            };
        }
        // SAFETY: as above.
        unsafe { table(at).add(index(virt, level)).write(value) };
        Ok(())
    }
}

fn table(phys: u64) -> *mut u64 {
    private(phys).cast()
}

fn index(virt: u64, level: u32) -> usize {
    (virt >> (12 + 9 * level)) as usize % ENTRIES
}

// Where the compiler calls them by name.
global_asm!(include_str!("bytes.s"));
