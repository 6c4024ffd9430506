//! Per-core state: each core's block holds its descriptor tables, its trap stack, its emergency stack and its kernel
//! stack, and is found by masking the stack pointer.

use core::{
    arch::asm,
    mem::offset_of,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use motet_hal::Interrupts;
use motet_layout::CoreId;
use x86_64::{
    PrivilegeLevel, VirtAddr,
    instructions::{
        segmentation::{CS, SS, Segment},
        tables::{lgdt, load_tss},
    },
    registers::{
        control::{Cr0, Cr0Flags, Cr4, Cr4Flags},
        model_specific::{LStar, Msr, SFMask},
        rflags::RFlags,
    },
    structures::{DescriptorTablePointer, gdt::SegmentSelector, tss::TaskStateSegment},
};

use crate::{cpuid, extended, interrupt_table, trap};

/// Where core blocks are mapped: block of core `k` at `CORE_BLOCKS + (k << CORE_BLOCK_SHIFT)`. Within the last 2 GiB so
/// that instructions can name it absolutely.
pub const CORE_BLOCKS: u64 = 0xffff_ffff_c000_0000;
/// log2 of a block's size.
pub const CORE_BLOCK_SHIFT: u32 = 17;
/// Bytes in a block.
pub const CORE_BLOCK_SIZE: u64 = 1 << CORE_BLOCK_SHIFT;
/// The mapped pieces of a block, (start, end): the [`Core`], the emergency stack, the kernel stack of 64 KiB. What lies
/// between is not mapped: guards.
pub const CORE_BLOCK_PIECES: [(u64, u64); 3] =
    [(0, 0x1000), (0x2000, EMERGENCY_TOP), (CORE_BLOCK_SIZE - 0x1_0000, CORE_BLOCK_SIZE)];
const EMERGENCY_TOP: u64 = 0x4000;
/// First stack pointer of core 0: below the block's end, so that it still identifies the block.
pub const STACK_TOP: u64 = CORE_BLOCKS + CORE_BLOCK_SIZE - 64;

// Selectors as on Linux, whose user-mode values programs can see.
const KERNEL_CS: u16 = 0x10;
const KERNEL_SS: u16 = 0x18;
/// User data selector.
pub const USER_SS: u16 = 0x2b;
/// User code selector.
pub const USER_CS: u16 = 0x33;
const TSS_SELECTOR: u16 = 0x40;

/// One core's private data.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Core {
    id: CoreId,
    /// Stack pointer at the last entry into user mode.
    pub(crate) kernel_rsp: AtomicU64,
    /// Address of the [`motet_layout::UserFrame`] in user mode.
    pub(crate) frame: AtomicU64,
    /// One register, during system-call entry.
    pub(crate) scratch: AtomicU64,
    /// What [`motet_hal::Machine::set_timer`] asked for.
    pub(crate) deadline_ns: AtomicU64,
    /// Interrupts acknowledged in kernel mode and not yet reported. Touched by this core only.
    pub(crate) pending: AtomicU32,
    /// The core runs Rust.
    pub(crate) started: AtomicBool,
    /// Bytes in an AVX register; 0: there is none, or it is withheld. This and what follows is touched by this core only.
    pub(crate) vector_bytes: AtomicU32,
    /// User code may use AVX.
    pub(crate) vectors_open: AtomicBool,
    /// It may as long as this core runs.
    pub(crate) vectors_stay_open: AtomicBool,
    gdt: [u64; 10],
    tss: TaskStateSegment,
    /// Where the processor puts what it saves at a trap from user mode. Its end is `TRAP_TOP` in `trap.s`.
    pub(crate) trap_stack: TrapStack,
}

#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct TrapStack([u64; 64]);

const _: () = assert!(size_of::<Core>() == 4096);
/// Offset of the trap stack's end: `TRAP_TOP` in `trap.s`.
pub(crate) const TRAP_TOP: usize = offset_of!(Core, trap_stack) + size_of::<TrapStack>();

impl Core {
    /// The core that executes the call.
    #[inline(always)]
    pub fn current() -> &'static Self {
        let rsp: usize;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, rsp", out(reg) rsp, options(pure, nomem, nostack, preserves_flags)) };
        let block = rsp & !(CORE_BLOCK_SIZE as usize - 1);
        // SAFETY: every stack of a core lies in its block, which starts with its initialised `Core` and stays mapped.
        unsafe { &*core::ptr::with_exposed_provenance(block) }
    }

    /// The core's id.
    #[inline(always)]
    pub fn id(&self) -> CoreId {
        self.id
    }

    /// Builds a core's private data in its block.
    ///
    /// # Safety
    /// The block of `id.index_in_island()` is mapped and nobody uses it yet.
    pub unsafe fn create(id: CoreId) -> &'static Self {
        let block = CORE_BLOCKS + ((id.index_in_island() as u64) << CORE_BLOCK_SHIFT);
        let at = core::ptr::with_exposed_provenance_mut::<Self>(block as usize);
        let mut tss = TaskStateSegment::new();
        tss.privilege_stack_table[0] = VirtAddr::new(block + TRAP_TOP as u64);
        tss.interrupt_stack_table[0] = VirtAddr::new(block + EMERGENCY_TOP);
        let gdt = descriptors(block + offset_of!(Self, tss) as u64);
        // SAFETY: mapped and unused, by the caller.
        unsafe {
            at.write(Self {
                id,
                kernel_rsp: AtomicU64::new(0),
                frame: AtomicU64::new(0),
                scratch: AtomicU64::new(0),
                deadline_ns: AtomicU64::new(u64::MAX),
                pending: AtomicU32::new(0),
                started: AtomicBool::new(false),
                vector_bytes: AtomicU32::new(0),
                vectors_open: AtomicBool::new(false),
                vectors_stay_open: AtomicBool::new(false),
                gdt,
                tss,
                trap_stack: TrapStack([0; 64]),
            });
            &*at
        }
    }

    /// Loads this core's descriptor tables and control registers.
    ///
    /// # Safety
    /// Called once by each core, for its own data, with the kernel's page tables and the interrupt table ready.
    pub unsafe fn install(&'static self) {
        let gdt = DescriptorTablePointer {
            limit: (size_of_val(&self.gdt) - 1) as u16,
            base: VirtAddr::from_ptr(self.gdt.as_ptr()),
        };
        // SAFETY: the tables live as long as the kernel and describe flat kernel segments.
        unsafe {
            lgdt(&gdt);
            CS::set_reg(SegmentSelector(KERNEL_CS));
            SS::set_reg(SegmentSelector(KERNEL_SS));
            load_tss(SegmentSelector(TSS_SELECTOR));
            interrupt_table::load();
        }
        // SAFETY: what the kernel's tables and code need (NX and system calls are on since boot).
        unsafe {
            let coprocessor = Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR;
            Cr0::write((Cr0::read() - Cr0Flags::EMULATE_COPROCESSOR - Cr0Flags::TASK_SWITCHED) | coprocessor);
            Cr4::write(control_flags());
            self.install_syscall_gate();
        }
        // SAFETY: initialises the FPU, which the kernel does not use.
        unsafe { asm!("fninit", options(nomem, nostack)) };
        extended::init(self);
    }

    /// # Safety
    /// The kernel's text is mapped.
    unsafe fn install_syscall_gate(&self) {
        const IA32_STAR: u32 = 0xc000_0081;
        let star = u64::from(USER_SS - 8) << 48 | u64::from(KERNEL_CS) << 32;
        let entry = trap::syscall_entry(self.id.index_in_island());
        // Interrupts stay masked, string instructions go up, no single step, no alignment checks.
        let cleared = RFlags::INTERRUPT_FLAG
            | RFlags::DIRECTION_FLAG
            | RFlags::TRAP_FLAG
            | RFlags::NESTED_TASK
            | RFlags::ALIGNMENT_CHECK
            | RFlags::RESUME_FLAG;
        // SAFETY: the entry is this core's; the selectors are those of `descriptors`.
        unsafe {
            Msr::new(IA32_STAR).write(star);
            LStar::write(entry);
            SFMask::write(cleared);
        }
    }

    /// Remembers interrupts that arrived in kernel mode.
    pub fn add_pending(&self, interrupts: Interrupts) {
        self.pending.store(self.pending.load(Relaxed) | interrupts.0, Relaxed);
    }

    /// Takes what [`add_pending`](Self::add_pending) remembered.
    pub fn take_pending(&self) -> Interrupts {
        let pending = Interrupts(self.pending.load(Relaxed));
        self.pending.store(0, Relaxed);
        pending
    }
}

fn descriptors(tss: u64) -> [u64; 10] {
    const CODE: u64 = 0x00af_9b00_0000_ffff;
    const DATA: u64 = 0x00cf_9300_0000_ffff;
    const USER: u64 = (PrivilegeLevel::Ring3 as u64) << 45;
    let tss_low = (size_of::<TaskStateSegment>() as u64 - 1)
        | (tss & 0xff_ffff) << 16
        | 0x89 << 40 // present, available TSS
        | (tss >> 24 & 0xff) << 56;
    // 0x20 would be 32-bit user code: there is none.
    [0, 0, CODE, DATA, 0, DATA | USER, CODE | USER, 0, tss_low, tss >> 32]
}

/// `rdtsc` and `rdtscp` fault in user mode.
pub fn hide_counters() {
    if Cr4::read().contains(Cr4Flags::TIMESTAMP_DISABLE) {
        return;
    }
    // SAFETY: kernel mode goes on reading it.
    unsafe { Cr4::update(|flags| flags.insert(Cr4Flags::TIMESTAMP_DISABLE)) };
}

fn control_flags() -> Cr4Flags {
    let always = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION
        | Cr4Flags::PAGE_GLOBAL
        | Cr4Flags::OSFXSR
        | Cr4Flags::OSXMMEXCPT_ENABLE
        | Cr4Flags::MACHINE_CHECK_EXCEPTION
        | Cr4Flags::FSGSBASE;
    let optional = [
        (cpuid::SMEP, Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION),
        (cpuid::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),
    ];
    optional.into_iter().filter(|(feature, _)| feature.present()).fold(always, |flags, (_, flag)| flags | flag)
}
