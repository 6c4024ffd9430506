//! From QEMU to the kernel's `main`: the boot core, then the secondary cores.

use core::{
    arch::{asm, global_asm},
    cell::UnsafeCell,
    fmt,
    fmt::Write,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use motet_hal::{
    boot::{BootArgs, Refusal, check_pool},
    interrupt::InterruptSource,
    ivshmem::Ivshmem,
    pci::{Bus, Window},
    pool_map::{Piece, PoolMap},
    registers::Registers,
};
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, Isa, POOL_VA, PRIVATE_VA, Pool, Windows};

use crate::{
    TheMachine, apic,
    clock::Clock,
    core_block::{CORE_BLOCK_SHIFT, Core, STACK_TOP},
    cpuid, interrupt_table,
    nic::Nic,
    paging::{KernelMap, Kind, LARGE},
    pci, serial,
    start_info::Start,
};

/// Where secondary cores start: a page below 1 MiB that neither firmware nor kernel needs any more.
const TRAMPOLINE_PHYS: u64 = 0x8000;
/// How long a core may take from its start signal to Rust code. Host load counts.
const START_LIMIT_NS: u64 = 2_000_000_000;

/// Cores that were started or are being started, bit per index.
static STARTED: AtomicU32 = AtomicU32::new(1);

/// Local physical address of the kernel's root table, for secondary cores.
static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

global_asm!(
    include_str!("boot.s"),
    private_slot = const (PRIVATE_VA >> 39 & 511),
    core_block_shift = const CORE_BLOCK_SHIFT,
    stack_top = const STACK_TOP as i64,
    trampoline_phys = const TRAMPOLINE_PHYS,
    kernel_root = sym KERNEL_ROOT,
    boot = sym boot,
    secondary = sym secondary,
);

unsafe extern "C" {
    static motet_trampoline: u8;
    static motet_trampoline_end: u8;
}

unsafe extern "Rust" {
    /// Made by [`entry!`](crate::entry).
    safe fn motet_main(machine: &'static TheMachine) -> !;
}

/// What the first half of booting leaves to the second, which runs on another stack.
struct Facts {
    start: Start,
    map: KernelMap,
}

struct Handover(UnsafeCell<Option<Facts>>);

// SAFETY: the boot core alone touches it, before any other core starts.
unsafe impl Sync for Handover {}

static HANDOVER: Handover = Handover(UnsafeCell::new(None));

/// Why this kernel does not come up.
enum Failure {
    /// It may not join the pool.
    Refusal(Refusal),
    /// The machine is not what it needs.
    Machine(&'static str),
}

impl From<&'static str> for Failure {
    fn from(reason: &'static str) -> Self {
        Self::Machine(reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refusal(refusal) => refusal.fmt(f),
            Self::Machine(reason) => f.write_str(reason),
        }
    }
}

fn refuse(reason: &Failure) -> ! {
    let _ = writeln!(serial::Console, "motet: refused: {reason}");
    halt()
}

/// Stops this core for good. Interrupts are masked.
pub fn halt() -> ! {
    loop {
        x86_64::instructions::hlt();
    }
}

/// First half, on the boot stack and the boot page tables: the kernel's own page tables.
extern "C" fn boot(start_info: u64) -> ! {
    serial::init();
    let facts = match prepare(start_info) {
        Ok(facts) => facts,
        Err(reason) => refuse(&reason),
    };
    let root = facts.map.root();
    KERNEL_ROOT.store(root, Relaxed);
    // SAFETY: see `Handover`.
    unsafe { *HANDOVER.0.get() = Some(facts) };
    // SAFETY: the new tables map the kernel where it runs, and the stack of core 0.
    unsafe {
        asm!(
            "mov cr3, {root}",
            "mov rsp, {stack}",
            "xor ebp, ebp",
            "call {next}",
            "ud2",
            root = in(reg) root,
            stack = in(reg) STACK_TOP,
            next = sym boot_high,
            options(noreturn),
        )
    }
}

fn prepare(start_info: u64) -> Result<Facts, Failure> {
    let needed = [
        (cpuid::NX, "the processor lacks NX"),
        (cpuid::PAGES_1G, "the processor lacks 1 GiB pages (-cpu ...,+pdpe1gb)"),
        (cpuid::FSGSBASE, "the processor lacks FSGSBASE (-cpu ...,+fsgsbase)"),
    ];
    if let Some((_, reason)) = needed.into_iter().find(|(feature, _)| !feature.present()) {
        return Err(reason.into());
    }
    // SAFETY: still on the boot tables; `start_info` came from the firmware.
    let start = unsafe { Start::read(start_info) }?;
    let args = BootArgs::parse(start.command_line.as_str())?;
    if args.pool_phys % LARGE != 0 {
        return Err("the pool's physical address is not a multiple of 2 MiB".into());
    }
    if !start.is_ram(args.pool_phys, LARGE) {
        return Err("the pool's address is not RAM in the machine's memory map".into());
    }
    let low = start.ram().find(|ram| ram.end > crate::paging::image_end() && ram.start < ram.end);
    let private_end = low.map_or(0, |ram| ram.end).min(args.pool_phys);
    let map = KernelMap::new(private_end)?;
    // Devices lie below 4 GiB; private memory lies beside some of them in the first gigabyte.
    map.map_image_and_devices(|giga| {
        giga != 0 && start.ram().any(|ram| ram.start < giga + (1 << 30) && giga < ram.end)
    })?;
    // What lies beside the pool may be another kernel's.
    for ram in start.ram().filter(|ram| !(ram.start..ram.end).contains(&args.pool_phys)) {
        let (first, end) = (ram.start & !(LARGE - 1), ram.end.next_multiple_of(LARGE).min(args.pool_phys));
        if first < end {
            map.map(PRIVATE_VA + first, first, end - first, Kind::Data)?;
        }
    }
    map.map_core_block(0)?;
    map.map(POOL_VA, args.pool_phys, LARGE, Kind::Data)?;
    Ok(Facts { start, map })
}

/// Second half, on core 0's stack and the kernel's tables.
extern "C" fn boot_high() -> ! {
    // SAFETY: see `Handover`.
    let Some(facts) = (unsafe { (*HANDOVER.0.get()).take() }) else { halt() };
    match bring_up(facts) {
        Ok(machine) => motet_main(machine),
        Err(reason) => refuse(&reason),
    }
}

fn bring_up(facts: Facts) -> Result<&'static TheMachine, Failure> {
    let Facts { start, map } = facts;
    let args = BootArgs::parse(start.command_line.as_str())?;
    let pool_base = core::ptr::with_exposed_provenance_mut(POOL_VA as usize);
    // SAFETY: `prepare` mapped this much, for good.
    let head = unsafe { Pool::new(pool_base, LARGE) };
    check_pool(head).map_err(Failure::Refusal)?;
    let header = head.header();
    let record = &header.islands[args.island.index()];
    if record.isa.get() != Isa::X86_64 as u32 {
        return Err("this island is not an x86-64 one in the pool's table".into());
    }
    let is_ram = |phys, len| start.is_ram(phys, len);
    let pool_len = header.pool_len.get();
    let windows_end = pool_len.saturating_add(header.peers.windows_len.get());
    let mapped_len = windows_end.saturating_add(header.peers.others_len(pool_len));
    let ranges = PoolMap::read(&record.ranges, mapped_len, args.pool_phys, LARGE, is_ram)?;
    for Piece { pool_offset, phys, len } in ranges.pieces() {
        map.map(POOL_VA + pool_offset, phys, len, Kind::Data)?;
    }
    // SAFETY: all of the pool is mapped now, and what is behind it, for good.
    let (pool, windows) =
        unsafe { (Pool::new(pool_base, pool_len), Windows::new(pool_base, pool_len, windows_end, mapped_len)) };

    // SAFETY: the block of core 0 is mapped and this core runs on its stack; other cores do not run yet.
    unsafe {
        interrupt_table::build();
        Core::create(CoreId::new(args.island, 0)).install();
    }
    mask_legacy_interrupts();
    apic::init();
    if apic::id() != 0 {
        return Err("the boot core's APIC id is not 0".into());
    }
    let clock = Clock::calibrate()?;
    let cores = (record.core_count.get() as usize).clamp(1, CORES_PER_ISLAND_MAX);
    let placement = pci::place();
    let (bus, mut window) = (Bus::new(pci::registers(placement.ecam)), Window { next: placement.window });
    let doorbell = find_doorbell(bus, &mut window, cores);
    if doorbell.is_none() {
        serial::write(b"motet: no doorbell device: other islands and the host cannot be rung\n");
    }
    Ok(TheMachine::set(TheMachine {
        pool,
        windows,
        ranges,
        island: args.island,
        cores,
        clock,
        doorbell,
        network: Nic::find(bus, &mut window, &map),
        map,
        extensions: cpuid::flags(),
        command_line: start.command_line.clone(),
    }))
}

/// The two 8259s stay silent; interrupts come through the local APIC only.
fn mask_legacy_interrupts() {
    for port in [0x21, 0xa1] {
        // SAFETY: masks interrupts.
        unsafe { x86_64::instructions::port::PortWriteOnly::<u8>::new(port).write(0xff) };
    }
}

fn find_doorbell(bus: Bus<Registers>, window: &mut Window, cores: usize) -> Option<Ivshmem> {
    let doorbell = Ivshmem::find(bus, window, pci::registers)?;
    doorbell.source().interrupt_cores(cores, apic::doorbell_message);
    Some(doorbell)
}

/// Starts core `index`; returns when it runs Rust.
pub fn start_core(machine: &'static TheMachine, index: usize) -> Result<(), &'static str> {
    if index == 0 || index >= CORES_PER_ISLAND_MAX {
        return Err("no such core");
    }
    if STARTED.fetch_or(1 << index, Relaxed) & 1 << index != 0 {
        return Err("the core was started before");
    }
    machine.map.map_core_block(index)?;
    // SAFETY: just mapped, and the core does not run yet.
    let core = unsafe { Core::create(CoreId::new(machine.island, index)) };
    copy_trampoline();
    apic::start_core(index, (TRAMPOLINE_PHYS >> 12) as u8);
    let limit = machine.clock.now_ns() + START_LIMIT_NS;
    while !core.started.load(Acquire) {
        if machine.clock.now_ns() > limit {
            return Err("the core did not start");
        }
        core::hint::spin_loop();
    }
    Ok(())
}

fn copy_trampoline() {
    let from = &raw const motet_trampoline;
    let len = (&raw const motet_trampoline_end).addr() - from.addr();
    // The original is linked at its physical address.
    let from = core::ptr::with_exposed_provenance::<u8>(PRIVATE_VA as usize + from.addr());
    let to = core::ptr::with_exposed_provenance_mut::<u8>((PRIVATE_VA + TRAMPOLINE_PHYS) as usize);
    // SAFETY: both are private memory, mapped at PRIVATE_VA; nothing else uses the destination.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
}

/// A secondary core, on its own stack and the kernel's tables.
extern "C" fn secondary(_index: u64) -> ! {
    let core = Core::current();
    // SAFETY: once per core; the boot core built the tables.
    unsafe { core.install() };
    apic::init();
    core.started.store(true, Release);
    motet_main(crate::machine())
}
