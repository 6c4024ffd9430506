//! The island's kernel half: its page tables, built once at boot from private memory.

use core::arch::global_asm;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use motet_layout::{DEVICE_VA, KERNEL_VA, PAGE_SIZE, POOL_VA, PRIVATE_VA};

use crate::tree::{Description, Range};

const VALID: u64 = 1;
const TABLE_OR_PAGE: u64 = 2;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// Accessed, inner shareable, write-back (index 0 of MAIR_EL1).
const NORMAL: u64 = 1 << 10 | 3 << 8;
const READ_ONLY: u64 = 1 << 7;
const EL0_NO_EXECUTE: u64 = 1 << 54;
const NO_EXECUTE: u64 = 3 << 53;

/// Kernel code.
pub const CODE: u64 = NORMAL | READ_ONLY | EL0_NO_EXECUTE;
/// Constants.
pub const CONSTANTS: u64 = NORMAL | READ_ONLY | NO_EXECUTE;
/// Data.
pub const DATA: u64 = NORMAL | NO_EXECUTE;
/// Device registers: nGnRE (index 1 of MAIR_EL1).
const DEVICE: u64 = 1 << 10 | 1 << 2 | NO_EXECUTE;

/// MAIR_EL1: 0 normal write-back, 1 device nGnRE.
pub const MEMORY_ATTRIBUTES: u64 = 0x04ff;
/// TCR_EL1 without the physical address size: 48-bit halves, 4 KiB granules, write-back inner shareable walks, the top
/// byte of user addresses ignored (as on Linux).
pub const TRANSLATION_CONTROL: u64 =
    1 << 37 | 2 << 30 | 3 << 28 | 1 << 26 | 1 << 24 | 16 << 16 | 3 << 12 | 1 << 10 | 1 << 8 | 16;
/// SCTLR_EL1: MMU, caches, SP alignment checks; EL0 may use DC ZVA, cache maintenance, CTR_EL0, WFI and WFE; exceptions
/// set PAN; plus what is RES1 without later extensions.
pub const SYSTEM_CONTROL: u64 = 1 << 29
    | 1 << 28
    | 1 << 26
    | 1 << 22
    | 1 << 20
    | 1 << 18
    | 1 << 16
    | 1 << 15
    | 1 << 14
    | 1 << 12
    | 1 << 11
    | 1 << 8
    | 1 << 7
    | 1 << 4
    | 1 << 3
    | 1 << 2
    | 1;

/// Bytes of a core's stack, and of the unmapped guard below it.
const STACK_LEN: u64 = 64 << 10;
/// Bytes of a core's stack for kernel exceptions.
const FAULT_STACK_LEN: u64 = 8 << 10;
/// Stacks: in the last GiB, which nothing is linked into.
const STACKS_VA: u64 = KERNEL_VA + (1 << 30);

unsafe extern "C" {
    static motet_image_start: u8;
    static motet_text_end: u8;
    static motet_rodata_end: u8;
    static motet_image_end: u8;
    static motet_empty_root: u8;
    fn motet_replace_kernel_root(root: u64, itself: u64);
}

/// Virtual address of a symbol of boot.s or the linker script.
macro_rules! symbol {
    ($name:ident) => {
        &raw const $name as u64
    };
}

/// Physical address of something inside the kernel image. Valid once [`KernelTables::new`] has run.
pub fn image_phys(address: u64) -> u64 {
    address - KERNEL_VA + IMAGE_PHYS.load(Ordering::Relaxed)
}

/// Physical address of the table that maps nothing.
pub fn empty_root() -> u64 {
    image_phys(symbol!(motet_empty_root))
}

static IMAGE_PHYS: AtomicU64 = AtomicU64::new(0);

/// The kernel half while it is being built, and the private memory that is still free.
pub struct KernelTables {
    root: u64,
    free: Range,
}

impl KernelTables {
    /// An empty kernel half. `private` is the RAM that holds the image; memory is taken from behind the image, up to
    /// `device_tree` if that lies there.
    pub fn new(image: u64, private: Range, device_tree: Range) -> Self {
        IMAGE_PHYS.store(image, Ordering::Relaxed);
        let start = image_phys(symbol!(motet_image_end));
        // The boot map of private memory ends with the image's GiB.
        let mut end = private.end().min((image | ((1 << 30) - 1)) + 1);
        if device_tree.start >= start {
            end = end.min(device_tree.start & !(PAGE_SIZE - 1));
        }
        let mut tables = Self { root: 0, free: Range { start, len: end.saturating_sub(start) } };
        tables.root = tables.take(PAGE_SIZE, PAGE_SIZE);
        tables
    }

    /// Takes zeroed private memory, for good. Returns its physical address.
    ///
    /// # Panics
    /// When there is none left.
    pub fn take(&mut self, len: u64, align: u64) -> u64 {
        let start = self.free.start.next_multiple_of(align);
        assert!(self.free.covers(start, len), "private memory exhausted while booting");
        self.free = Range { start: start + len, len: self.free.end() - start - len };
        // SAFETY: unused private memory, mapped at PRIVATE_VA by the boot tables and by these.
        unsafe { core::ptr::write_bytes(private_pointer(start).cast::<u8>(), 0, len as usize) };
        start
    }

    /// Maps `len` bytes (whole pages) with the largest blocks that fit. Mapping something again is harmless.
    pub fn map(&mut self, mut address: u64, mut phys: u64, mut len: u64, attributes: u64) {
        while len > 0 {
            let step = self.map_one(address, phys, len, attributes);
            address += step;
            phys += step;
            len = len.saturating_sub(step);
        }
    }

    fn map_one(&mut self, address: u64, phys: u64, len: u64, attributes: u64) -> u64 {
        let mut table = self.root;
        for shift in [39, 30, 21] {
            let slot = entry(table, address, shift);
            // SAFETY: `entry` gives an entry of a table of this kernel half, which nobody else writes.
            let old = unsafe { slot.read_volatile() };
            let size = 1 << shift;
            let is_table = old & (VALID | TABLE_OR_PAGE) == VALID | TABLE_OR_PAGE;
            if shift < 39 && !is_table && (address | phys) % size == 0 && len >= size {
                // SAFETY: as above.
                unsafe { slot.write_volatile(phys | attributes | VALID) };
                return size;
            }
            if !is_table {
                let next = self.take(PAGE_SIZE, PAGE_SIZE);
                // SAFETY: as above.
                unsafe { slot.write_volatile(next | VALID | TABLE_OR_PAGE) };
                table = next;
            } else {
                table = old & ADDRESS;
            }
        }
        // SAFETY: as above.
        unsafe { entry(table, address, 12).write_volatile(phys | attributes | VALID | TABLE_OR_PAGE) };
        PAGE_SIZE
    }

    /// Maps the image, private memory and devices, and makes this the kernel half of this core.
    pub fn map_island(&mut self, private: Range, machine: &Description) {
        let sections = [
            (symbol!(motet_image_start), symbol!(motet_text_end), CODE),
            (symbol!(motet_text_end), symbol!(motet_rodata_end), CONSTANTS),
            (symbol!(motet_rodata_end), symbol!(motet_image_end), DATA),
        ];
        for (start, end, attributes) in sections {
            self.map(start, image_phys(start), end - start, attributes);
        }
        self.map(PRIVATE_VA + private.start, private.start, private.len, DATA);
        for giga in (0..512u64).map(|index| index << 30) {
            // RAM must not be mapped as a device at the same time.
            if machine.memory.iter().all(|ram| ram.len == 0 || ram.end() <= giga || ram.start >= giga + (1 << 30)) {
                self.map(DEVICE_VA + giga, giga, 1 << 30, DEVICE);
            }
        }
        let replace = image_phys(motet_replace_kernel_root as *const () as u64);
        // SAFETY: the new tables map everything that is in use at the same addresses; TTBR0 holds the identity map.
        unsafe { motet_replace_kernel_root(self.root, replace) };
    }

    /// Maps a piece of the pool.
    pub fn map_pool(&mut self, pool_offset: u64, phys: u64, len: u64) {
        self.map(POOL_VA + pool_offset, phys, len.next_multiple_of(PAGE_SIZE), DATA);
        crate::cpu::barrier!("dsb ishst"; "isb");
    }

    /// Makes the stacks of core `index`. Returns the ends of its stack and of its fault stack.
    pub fn map_stacks(&mut self, index: usize) -> (u64, u64) {
        let top = STACKS_VA + (index as u64 + 1) * 2 * STACK_LEN;
        let phys = self.take(STACK_LEN, PAGE_SIZE);
        self.map(top - STACK_LEN, phys, STACK_LEN, DATA);
        let fault_stack = PRIVATE_VA + self.take(FAULT_STACK_LEN, PAGE_SIZE) + FAULT_STACK_LEN;
        crate::cpu::barrier!("dsb ishst"; "isb");
        (top, fault_stack)
    }

    /// Physical address of the root.
    pub const fn root(&self) -> u64 {
        self.root
    }
}

/// Where private memory at `phys` is mapped.
pub fn private_pointer(phys: u64) -> *mut u64 {
    with_exposed_provenance_mut((PRIVATE_VA + phys) as usize)
}

fn entry(table: u64, address: u64, shift: u32) -> *mut u64 {
    private_pointer(table + 8 * (address >> shift & 511))
}

// Where the compiler calls them by name.
global_asm!(include_str!("bytes.s"));

global_asm!(
    include_str!("boot.s"),
    private_slot = const PRIVATE_VA >> 39 & 511,
    device_slot = const DEVICE_VA >> 39 & 511,
    mair = const MEMORY_ATTRIBUTES,
    tcr = const TRANSLATION_CONTROL,
    sctlr = const SYSTEM_CONTROL,
    host = const crate::guest::HOST,
    cores = sym crate::cpu::CORES,
    core_size = const size_of::<crate::cpu::PerCore>(),
    stack_top = const core::mem::offset_of!(crate::cpu::PerCore, stack_top),
    fault_stack = const core::mem::offset_of!(crate::cpu::PerCore, fault_stack),
    kernel_root = sym crate::boot::KERNEL_ROOT,
);
