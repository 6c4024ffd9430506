//! From the first Rust code to the kernel's entry point, on every core.

use core::cell::UnsafeCell;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use motet_hal::boot::{BootArgs, Refusal, check_pool};
use motet_hal::interrupt::InterruptSource;
use motet_hal::ivshmem::Ivshmem;
use motet_hal::pci::{Bus, Window};
use motet_hal::pool_map::{Piece, PoolMap};
use motet_hal::virtio::NetworkFunction;
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, Isa, IslandRecord, PAGE_SIZE, POOL_VA, Pool, PoolHeader, Windows};

use crate::console::{self, Message, log_line};
use crate::cpu::{self, CORES, PerCore, barrier};
use crate::features::Features;
use crate::gic::{Gic, TranslationService};
use crate::guest;
use crate::machine::{AArch64, Clock, device};
use crate::memory::{KernelTables, private_pointer};
use crate::nic::Nic;
use crate::tree::{self, Description, Range};

/// Where QEMU puts the device tree when it starts an ELF file: the start of `virt`'s RAM.
const RAM_START: u64 = 0x4000_0000;
const DEVICE_TREE_MAGIC: u64 = 0xd00d_feed;
/// Most bytes of device tree that are looked at (QEMU pads its own to 1 MiB).
const DEVICE_TREE_LEN_MAX: u64 = 2 << 20;

/// Physical address of the kernel half; read by other cores before their MMU is on.
pub static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// The machine, once boot has put it together.
struct TheMachine(UnsafeCell<Option<AArch64>>);
// SAFETY: written once, by the boot core, before any other core is started.
unsafe impl Sync for TheMachine {}
static MACHINE: TheMachine = TheMachine(UnsafeCell::new(None));

/// The machine; none before boot has put it together.
pub fn machine() -> Option<&'static AArch64> {
    // SAFETY: the boot core writes it while no reference exists; other cores start later.
    unsafe { (*MACHINE.0.get()).as_ref() }
}

unsafe extern "C" {
    fn motet_run_core(core: *const PerCore) -> !;
}
unsafe extern "Rust" {
    safe fn motet_main(machine: &'static AArch64) -> !; // made by `entry!`
}

/// The boot core, in the high half, on the boot stack. Physical addresses of device tree (0: unknown) and image.
#[unsafe(no_mangle)]
extern "C" fn motet_boot_main(device_tree: u64, image: u64) -> ! {
    let built = boot(device_tree, image).unwrap_or_else(|reason| refuse(format_args!("{reason}")));
    // SAFETY: this is the only core, and no reference exists: `machine` gave none.
    unsafe { *MACHINE.0.get() = Some(built) };
    // SAFETY: the PerCore of core 0 has its stack.
    unsafe { motet_run_core(&raw const CORES[0]) }
}

/// Every core, on its own stack.
#[unsafe(no_mangle)]
extern "C" fn motet_core_main() -> ! {
    cpu::init_user_mode();
    let Some(machine) = machine() else { panic!("a core runs before the machine is known") };
    machine.gic.init_core();
    if let Some(format) = machine.guests {
        guest::init(format);
    }
    motet_main(machine)
}

/// Says why this kernel does not join, and stops.
fn refuse(reason: core::fmt::Arguments) -> ! {
    console::write(Message::of(format_args!("motet: refused: {reason}\n")).bytes());
    crate::machine::stop_core()
}

fn boot(device_tree: u64, image: u64) -> Result<AArch64, &'static str> {
    let (blob, blob_range) = find_device_tree(device_tree)?;
    let description = tree::describe(blob)?;
    cpu::call_psci_by_smc(description.psci_smc);
    if description.console != 0 {
        console::init(description.console);
    }
    let args = BootArgs::parse(description.command_line)?;
    let private = *description.memory.iter().find(|ram| ram.covers(image, 1)).ok_or("the image is not in RAM")?;
    if !private.covers(blob_range.start, blob_range.len) {
        return Err("the device tree is not in private memory (start the ELF file, or give the island more of it)");
    }
    let mut tables = KernelTables::new(image, private, blob_range);
    tables.map_island(private, &description);
    KERNEL_ROOT.store(tables.root(), Ordering::Relaxed);
    clean_for_uncached_reads(&raw const KERNEL_ROOT as u64);

    let pool_ram = |start, len| description.memory.iter().any(|ram| *ram != private && ram.covers(start, len));
    let pool_map = map_pool(&mut tables, args, pool_ram)?;
    // SAFETY: `map_pool` mapped the header at POOL_VA and checked that it is a pool of this layout.
    let header = unsafe { Pool::new(pool_base(), size_of::<PoolHeader>() as u64) }.header();
    let record = &header.islands[args.island.index()];
    let cores = count_cores(record, &description)?;
    for (index, core) in CORES.iter().enumerate().take(cores) {
        let (stack_top, fault_stack) = tables.map_stacks(index);
        core.stack_top.store(stack_top, Ordering::Relaxed);
        core.fault_stack.store(fault_stack, Ordering::Relaxed);
        core.id.store(u64::from(CoreId::new(args.island, index).0), Ordering::Relaxed);
        core.affinity.store(description.cores[index], Ordering::Relaxed);
    }
    let gic = Gic::init(&description, cores, &mut tables)?;
    let (doorbell, network) = find_devices(&description, cores, &mut tables);
    Ok(AArch64 {
        gic,
        doorbell,
        network,
        cores,
        // SAFETY: all of the pool is mapped at POOL_VA, for good, and only used through this type.
        pool: unsafe { Pool::new(pool_base(), header.pool_len.get()) },
        // SAFETY: so is what lies behind it.
        windows: unsafe { Windows::new(pool_base(), header.pool_len.get(), windows_end(header), mapped_len(header)) },
        pool_map,
        clock: Clock::detect(),
        command_line: description.command_line,
        features: Features::detect(),
        guests: if cpu::is_hypervisor() { guest::format() } else { None },
    })
}

/// Bytes of the pool and of the windows behind it.
fn windows_end(header: &PoolHeader) -> u64 {
    header.pool_len.get().saturating_add(header.peers.windows_len.get())
}

/// With other kernels' memory behind these, if there is some.
fn mapped_len(header: &PoolHeader) -> u64 {
    windows_end(header).saturating_add(header.peers.others_len(header.pool_len.get()))
}

fn pool_base() -> *mut u8 {
    with_exposed_provenance_mut(POOL_VA as usize)
}

/// The device tree: its bytes, and where they are.
fn find_device_tree(given: u64) -> Result<(&'static [u8], Range), &'static str> {
    let start = if given == 0 { RAM_START } else { given };
    // SAFETY: QEMU put it into the image's GiB, which the boot tables map, aligned to at least 8 bytes.
    let words = u64::from_be(unsafe { private_pointer(start).read_volatile() });
    let (magic, len) = (words >> 32, words & 0xffff_ffff);
    if magic != DEVICE_TREE_MAGIC || len > DEVICE_TREE_LEN_MAX {
        return Err("no device tree");
    }
    // SAFETY: as above; nothing writes to it, because private memory is only taken outside of it.
    let blob = unsafe { core::slice::from_raw_parts(private_pointer(start).cast::<u8>(), len as usize) };
    Ok((blob, Range { start, len }))
}

/// Checks the pool's header and maps all of the pool. `is_ram` says whether a range is RAM of another node.
fn map_pool(
    tables: &mut KernelTables,
    args: BootArgs,
    is_ram: impl Fn(u64, u64) -> bool,
) -> Result<PoolMap, &'static str> {
    let header_len = size_of::<PoolHeader>() as u64;
    if !is_ram(args.pool_phys, header_len) || args.pool_phys % PAGE_SIZE != 0 {
        return Err("the pool's address is not that of a memory node apart from private memory");
    }
    tables.map_pool(0, args.pool_phys, header_len);
    // SAFETY: just mapped, for good, and RAM.
    let pool = unsafe { Pool::new(pool_base(), header_len) };
    if let Err(reason) = check_pool(pool) {
        refuse_pool(reason);
    }
    let (header, record) = (pool.header(), &pool.header().islands[args.island.index()]);
    let pool_map = PoolMap::read(&record.ranges, mapped_len(header), args.pool_phys, PAGE_SIZE, is_ram)?;
    for Piece { pool_offset, phys, len } in pool_map.pieces() {
        tables.map_pool(pool_offset, phys, len);
    }
    Ok(pool_map)
}

fn refuse_pool(reason: Refusal) -> ! {
    refuse(format_args!("{reason}"))
}

fn count_cores(record: &IslandRecord, description: &Description) -> Result<usize, &'static str> {
    if Isa::from_raw(record.isa.get()) != Some(Isa::AArch64) {
        return Err("the pool describes this island as one of another ISA");
    }
    let cores = record.core_count.get() as usize;
    if cores == 0 || cores > description.core_count.min(CORES_PER_ISLAND_MAX) {
        return Err("the pool gives this island more cores than the machine has, or none");
    }
    Ok(cores)
}

/// Finds the doorbell device and routes its message `k` to core `k`, and the network device, if there is one.
fn find_devices(description: &Description, cores: usize, tables: &mut KernelTables) -> (Option<Ivshmem>, Option<Nic>) {
    let (Some(config), Some(service)) = (description.pci_config, description.translation_service) else {
        log_line!("no PCI or no ITS: no doorbells");
        return (None, None);
    };
    let (bus, mut window) = (Bus::new(device(config)), Window { next: description.pci_window });
    let mut service = TranslationService::init(service, tables);
    let doorbell = Ivshmem::find(bus, &mut window, device);
    if let Some(doorbell) = &doorbell {
        let source = doorbell.source();
        service.route(doorbell.id, cores.min(source.vectors()), description, tables);
        source.interrupt_cores(cores, |core| service.message(core));
    } else {
        log_line!("no doorbell device");
    }
    let network = NetworkFunction::find(bus, &mut window, device).and_then(|function| {
        service.route_network(function.id, description, tables);
        function.source().interrupt_cores(1, |_| service.message(0));
        Nic::start(function, tables)
    });
    (doorbell, network)
}

/// Makes a word visible to cores whose caches are off.
fn clean_for_uncached_reads(address: u64) {
    // SAFETY: cache maintenance.
    unsafe { core::arch::asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)) };
    barrier!("dsb sy");
}
