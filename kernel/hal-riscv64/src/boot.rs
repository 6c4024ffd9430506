//! From the firmware to the kernel's entry point.
//!
//! The firmware enters `_start` on one hart (any) with translation off: `a0` is its id, `a1` points to the device tree.
//! Translation is turned on by a fault: `stvec` holds the high address of the next instruction, so no identity mapping
//! ever exists. Boot tables (every gigabyte readable, writable and executable) serve until the real ones are built.

use core::{
    arch::{asm, global_asm},
    fmt::Display,
    ptr::{from_ref, with_exposed_provenance_mut},
    slice,
    sync::atomic::Ordering::Relaxed,
};

use dtoolkit::fdt::Fdt;
use motet_hal::{
    Machine,
    boot::{BootArgs, check_pool},
    pool_map::{Piece, PoolMap},
};
use motet_layout::{DEVICE_VA, Isa, KERNEL_VA, PAGE_SIZE, POOL_VA, PRIVATE_VA, Pool, PoolHeader, Windows};

use crate::{
    console::{self, log_line},
    csr::{self, STATUS_FS, STATUS_FS_INITIAL, STATUS_VS, read_csr, write_csr},
    interrupts::Clock,
    machine::{Parts, TheMachine},
    memory::{
        BOOT_LEVEL_2, FrameSource, KERNEL_OFFSET, READ_EXECUTE, READ_ONLY, READ_WRITE, Table, Tables, private,
        root_slot,
    },
    panic,
    per_core::{KERNEL_SATP, PER_CORE, STACK},
    platform::{PhysRange, Platform},
    sbi,
};

/// Stacks lie above the image, one window per core: guard, stack for exceptions in the kernel, guard, kernel stack.
const STACKS_VA: u64 = KERNEL_VA + 0x2000_0000;
const STACK_WINDOW: u64 = 0x2_0000;
const STACK_LEN: u64 = 64 << 10;
const TRAP_STACK_LEN: u64 = 16 << 10;
const TRAP_STACK_TOP: u64 = 0x8000;

const BOOT_STACK_LEN: usize = 32 << 10;
/// More than any device tree of `virt`.
const DEVICE_TREE_LEN_MAX: u64 = 1 << 20;

#[repr(C, align(16))]
struct BootStack([u8; BOOT_STACK_LEN]);

/// Where boot runs until the real stacks are mapped.
static mut BOOT_STACK: BootStack = BootStack([0; BOOT_STACK_LEN]);
/// Root of the boot tables, filled in by `_start`.
static mut BOOT_ROOT: Table = Table([0; 512]);

unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __bss_end: u8;
    static motet_secondary_start: u8;
}

unsafe extern "Rust" {
    /// Defined by [`entry!`](crate::entry).
    safe fn motet_main(machine: &'static TheMachine) -> !;
}

global_asm!(
    ".pushsection .boot, \"ax\"",
    ".globl _start",
    "_start:",
    "csrw sie, zero",
    // Kernels are compiled with M, A and C: without one of them, this is an illegal instruction.
    ".option push",
    ".option arch, +m, +a",
    ".option norvc",
    "lla t0, 6f",
    "csrw stvec, t0",
    "mul t0, t0, t0",
    "lla t0, __bss_start",
    "amoor.w zero, zero, (t0)",
    ".option rvc",
    "c.nop",
    "c.nop",
    ".option pop",
    // The firmware enters on whichever hart won its lottery. That one lets hart 0 boot, entered here in the same way, and
    // stops itself (SBI, hart state management), so that core 0 is the same hart in every run. If there is no hart 0: on.
    "beqz a0, 4f",
    "mv s0, a0",
    "mv s1, a1",
    "li a0, 0",
    "mv a2, a1",
    "lla a1, _start",
    "li a6, 0",
    "li a7, {hart_state}",
    "ecall",
    "bnez a0, 5f",
    "li a6, 1",
    "ecall",
    "5: mv a0, s0",
    "mv a1, s1",
    "4:",
    "lla t0, __bss_start",
    "lla t1, __bss_end",
    "1: sd zero, (t0)",
    "addi t0, t0, 8",
    "bltu t0, t1, 1b",
    // The second level under the slots of private memory, devices and the image.
    "lla t0, {level_2}",
    "srli t0, t0, 2",
    "ori t0, t0, 1",
    "lla t1, {root}",
    "li t2, 2048",
    "add t2, t1, t2",
    "sd t0, {private}-2048(t2)",
    "sd t0, {device}-2048(t2)",
    "sd t0, {kernel}-2048(t2)",
    "srli t1, t1, 12",
    "li t0, {satp_mode}",
    "or t0, t0, t1",
    "li t2, {offset}",
    "lla t1, 2f",
    "add t1, t1, t2",
    "csrw stvec, t1",
    "sfence.vma",
    "csrw satp, t0",
    // The fetch of this has faulted, unless harts do not know the mode: then nothing has been written.
    "lla s0, 13f",
    "j 7f",
    ".balign 4",
    "2: lla sp, {stack}+{stack_len}",
    "lla tp, {per_core}",
    "csrw sscratch, tp",
    "lla t0, motet_trap",
    "csrw stvec, t0",
    "tail {boot}",
    // Says why this kernel does not start, by the firmware's console (SBI, "Console Putchar"), which the host reads. s0: the text.
    ".option push",
    ".option norvc",
    ".balign 4",
    "6: lla s0, 12f",
    "7: lbu a0, (s0)",
    "beqz a0, 8f",
    "li a7, 1",
    "ecall",
    "addi s0, s0, 1",
    "j 7b",
    "8: wfi",
    "j 8b",
    "12: .asciz \"motet: refused: its harts lack M, A or C, with which kernels are compiled\\n\"",
    "13: .asciz \"motet: refused: its harts lack Sv48, page tables of four levels\\n\"",
    ".option pop",
    // A core that `start_core` started: a1 is the physical address of its PerCore.
    ".balign 4",
    ".globl motet_secondary_start",
    "motet_secondary_start:",
    "csrw sie, zero",
    "ld t0, {KERNEL_SATP}(a1)",
    "li t2, {offset}",
    "add tp, a1, t2",
    "lla t1, 3f",
    "add t1, t1, t2",
    "csrw stvec, t1",
    "sfence.vma",
    "csrw satp, t0",
    ".balign 4",
    "3: ld sp, {STACK}(tp)",
    "csrw sscratch, tp",
    "lla t0, motet_trap",
    "csrw stvec, t0",
    "tail {secondary}",
    ".popsection",
    hart_state = const sbi::EXTENSION_HART_STATE,
    level_2 = sym BOOT_LEVEL_2,
    root = sym BOOT_ROOT,
    private = const 8 * root_slot(PRIVATE_VA),
    device = const 8 * root_slot(DEVICE_VA),
    kernel = const 8 * root_slot(KERNEL_VA),
    satp_mode = const csr::satp(0),
    offset = const KERNEL_OFFSET,
    stack = sym BOOT_STACK,
    stack_len = const BOOT_STACK_LEN,
    per_core = sym PER_CORE,
    boot = sym boot,
    secondary = sym secondary,
    KERNEL_SATP = const KERNEL_SATP,
    STACK = const STACK,
);

/// First Rust code, on the boot hart and the boot stack.
extern "C" fn boot(hart: u64, device_tree_phys: u64) -> ! {
    // Its lower half, for exceptions during boot.
    PER_CORE[0].trap_stack.store((&raw const BOOT_STACK).addr() as u64 + BOOT_STACK_LEN as u64 / 2, Relaxed);
    let parts = prepare(hart, device_tree_phys).unwrap_or_else(|reason| panic::refuse(format_args!("{reason}")));
    // SAFETY: the new tables map all that the boot tables did and that is still used; `finish` never returns.
    unsafe {
        asm!(
            "csrw satp, {satp}",
            "sfence.vma",
            "mv sp, {stack}",
            "tail {finish}",
            satp = in(reg) parts.kernel_satp,
            stack = in(reg) STACKS_VA + STACK_WINDOW,
            finish = sym finish,
            in("a0") &raw const parts,
            options(noreturn)
        )
    }
}

/// Boot's second half, on core 0's own stack. `parts` still lies on the boot stack, which is part of the image.
extern "C" fn finish(parts: *const Parts) -> ! {
    // SAFETY: `boot` passes a valid value and never looks at it again.
    let machine = TheMachine::install(unsafe { parts.read() });
    for (core, window) in PER_CORE.iter().zip((STACKS_VA..).step_by(STACK_WINDOW as usize)) {
        core.trap_stack.store(window + TRAP_STACK_TOP, Relaxed);
        core.stack.store(window + STACK_WINDOW, Relaxed);
    }
    machine.init_core();
    let (firmware, version) = sbi::implementation();
    log_line!(
        "riscv64 island {}: {} harts, firmware {firmware} version {version:#x}, boot hart {}",
        machine.island().0,
        machine.platform.harts().len(),
        machine.platform.harts()[0].id
    );
    motet_main(machine)
}

/// First Rust code of the other cores.
extern "C" fn secondary() -> ! {
    match TheMachine::get() {
        Some(machine) => {
            machine.init_core();
            motet_main(machine)
        }
        None => panic::park(),
    }
}

/// Physical address of the entry point of [`sbi::hart_start`].
pub fn secondary_entry_phys() -> u64 {
    image_phys(&raw const motet_secondary_start)
}

/// Physical address of a static.
pub fn phys_of<T>(object: &'static T) -> u64 {
    image_phys(from_ref(object))
}

/// Turns on what user code may use: floating point, counters, cache-block zeroing. Vectors are off.
pub fn init_user_mode(zicboz: bool) {
    const SIE: u64 = 1 << 1;
    const SPIE: u64 = 1 << 5;
    const SPP: u64 = 1 << 8;
    const SUM: u64 = 1 << 18;
    const CYCLE_TIME_INSTRET: u64 = 7;
    const CACHE_BLOCK_ZERO: u64 = 1 << 7;
    let status = read_csr!("sstatus") & !(SIE | SPIE | SPP | SUM | STATUS_FS | STATUS_VS) | STATUS_FS_INITIAL;
    // SAFETY: S-mode interrupts stay off; the kernel uses neither unit and no user address.
    unsafe {
        write_csr!("sstatus", status);
        write_csr!("scounteren", CYCLE_TIME_INSTRET);
        if zicboz {
            write_csr!("0x10a", CACHE_BLOCK_ZERO); // senvcfg
        }
    }
}

/// Reads the machine's description, checks the pool, builds the kernel's tables.
fn prepare(hart: u64, device_tree_phys: u64) -> Result<Parts, &'static str> {
    let (platform, frames) = read_device_tree(hart, device_tree_phys)?;
    console::set_port(platform.serial);
    if !platform.harts().iter().all(|hart| hart.has_letter('f') && hart.has_letter('d')) {
        return Err("its harts lack F and D, the floating-point registers of programs");
    }
    let args = BootArgs::parse(platform.command_line)?;
    let header_range = PhysRange { start: args.pool_phys, len: size_of::<PoolHeader>() as u64 };
    if !args.pool_phys.is_multiple_of(PAGE_SIZE) || !platform.is_memory(header_range) {
        return Err("the pool's address is not memory of this machine");
    }
    // SAFETY: memory that the boot tables map here, until `kernel_tables` are used.
    let header_only = unsafe { Pool::new(private(args.pool_phys), header_range.len) };
    check_pool(header_only).unwrap_or_else(|reason| refuse_display(&reason));
    let record = &header_only.header().islands[args.island.index()];
    let (pool_len, peers) = (header_only.header().pool_len.get(), &header_only.header().peers);
    let core_count = record.core_count.get() as usize;
    if record.isa.get() != Isa::RiscV64 as u32 {
        return Err("the island table has another ISA for this island");
    }
    if core_count == 0 {
        return Err("the island table gives this island no cores");
    }
    if core_count > platform.harts().len() {
        return Err("the machine has fewer harts than the island has cores");
    }
    let is_ram = |start, len| platform.is_memory(PhysRange { start, len });
    let windows_end = pool_len.saturating_add(peers.windows_len.get());
    let mapped_len = windows_end.saturating_add(peers.others_len(pool_len));
    let pool_map = PoolMap::read(&record.ranges, mapped_len, args.pool_phys, PAGE_SIZE, is_ram)?;
    let tables = kernel_tables(&platform, &pool_map, frames)?;
    PER_CORE[0].set_core(args.island, 0);
    let sstc = platform.harts().iter().all(|hart| hart.has("sstc"));
    Ok(Parts {
        clock: Clock::new(platform.timebase_hz, sstc)?,
        platform,
        island: args.island,
        core_count,
        // SAFETY: `kernel_tables` maps exactly this, for good; Rust sees it through `Pool` only.
        pool: unsafe { Pool::new(with_exposed_provenance_mut(POOL_VA as usize), pool_len) },
        // SAFETY: as above, with what is behind it.
        windows: unsafe {
            Windows::new(with_exposed_provenance_mut(POOL_VA as usize), pool_len, windows_end, mapped_len)
        },
        pool_map,
        kernel_entries: tables.kernel_entries(),
        kernel_satp: csr::satp(tables.root),
        frames: tables.into_frames(),
    })
}

fn refuse_display(reason: &dyn Display) -> ! {
    panic::refuse(format_args!("{reason}"))
}

/// Copies the device tree to private memory after the image (QEMU puts it at the end of memory, which may be the pool)
/// and reads it.
fn read_device_tree(hart: u64, phys: u64) -> Result<(Platform, FrameSource), &'static str> {
    const INVALID: &str = "the firmware passed no valid device tree";
    // SAFETY: the boot tables map all memory, and the firmware passes a device tree; its magic and length are checked
    // before the rest is read.
    let original = unsafe {
        let header = private(phys).cast::<[u8; 8]>().read_unaligned();
        let [magic @ .., _, _, _, _] = header;
        let len = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        if magic != [0xd0, 0x0d, 0xfe, 0xed] || u64::from(len) > DEVICE_TREE_LEN_MAX {
            return Err(INVALID);
        }
        slice::from_raw_parts(private(phys), len as usize)
    };
    let image_end = image_phys(&raw const __bss_end);
    let first = Platform::parse(Fdt::new(original).map_err(|_| INVALID)?, hart)?;
    let image = PhysRange { start: image_end - 1, len: 1 };
    let home = first.memory().iter().find(|range| range.covers(image)).ok_or("the kernel is not in memory")?;
    // Memory before the original only: it is read while frames are taken.
    let end = if phys >= image_end { home.end().min(phys) } else { home.end() };
    let mut frames = FrameSource::new(image_end, end);
    let copy = private(frames.take(original.len() as u64)?);
    // SAFETY: fresh frames of sufficient length, never given out again.
    let copy = unsafe {
        copy.copy_from_nonoverlapping(original.as_ptr(), original.len());
        slice::from_raw_parts(copy, original.len())
    };
    Ok((Platform::parse(Fdt::new(copy).map_err(|_| INVALID)?, hart)?, frames))
}

/// Builds the kernel half: image, stacks, private memory, devices, pool.
fn kernel_tables(platform: &Platform, pool_map: &PoolMap, frames: FrameSource) -> Result<Tables, &'static str> {
    let mut tables = Tables::new(frames)?;
    let marks = [&raw const __text_start, &raw const __text_end, &raw const __rodata_end, &raw const __bss_end];
    for (section, bits) in marks.windows(2).zip([READ_EXECUTE, READ_ONLY, READ_WRITE]) {
        let (start, end) = (image_phys(section[0]), image_phys(section[1]));
        tables.map(start + KERNEL_OFFSET, PhysRange { start, len: end - start }, bits)?;
    }
    for window in (STACKS_VA..).step_by(STACK_WINDOW as usize).take(platform.harts().len()) {
        tables.map_fresh(window + TRAP_STACK_TOP - TRAP_STACK_LEN, TRAP_STACK_LEN)?;
        tables.map_fresh(window + STACK_WINDOW - STACK_LEN, STACK_LEN)?;
    }
    let pool = |piece: Piece| PhysRange { start: piece.phys, len: piece.len };
    let is_private = |memory: &&PhysRange| !pool_map.pieces().any(|piece| memory.overlaps(pool(piece)));
    for memory in platform.memory().iter().filter(is_private) {
        tables.map(PRIVATE_VA + memory.start, *memory, READ_WRITE)?;
    }
    tables.map_devices(platform.memory())?;
    for piece in pool_map.pieces() {
        tables.map(POOL_VA + piece.pool_offset, pool(piece), READ_WRITE)?;
    }
    Ok(tables)
}

fn image_phys<T>(at: *const T) -> u64 {
    (at.addr() as u64).wrapping_sub(KERNEL_OFFSET)
}
