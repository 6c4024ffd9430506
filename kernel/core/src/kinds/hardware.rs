//! Devices that are threads: `ioctl`s of `/dev/service` (`docs/protocols/hardware-threads.md`).
//!
//! The thread that makes a device a thread says which memory the device may use. The kernel looks it up page by page, keeps a reference to each frame until the device is
//! done, and writes the device's table. So a device reaches only memory that its process could reach when it created the thread, and no frame is freed under
//! it, whatever happens to the mapping or the process.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    Frame, HARDWARE_LEAF_PAGES, HARDWARE_LEAVES, HARDWARE_REGIONS, HARDWARE_WRITES, HardwareLeaf, HardwareTable,
    InodeRecord, PAGE_SHIFT, PAGE_SIZE, PoolAddr, ServiceCore, ServiceHardware, SpaceRecord,
};
use motet_protocol::{
    Context,
    lock::lock,
    memory::{alloc_common_zeroed_frame, release_frame, share_frame},
    service::{ThreadIndex, clients, hardware},
};

use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    due, mm,
};

/// `ioctl`: a device becomes a thread, as the [`Asked`] at the argument says.
pub const BECOME: u32 = 0x4d52;
/// `ioctl`: the thread whose number the argument is, and which is a device, ends.
pub const CANCEL: u32 = 0x4d53;

/// Bytes of a request without its regions, and of a region.
const ASKED_LEN: usize = 24;
const REGION_LEN: usize = 24;
/// What letting go of a frame costs.
const LET_GO: u64 = cost::FRAME / 2;

/// What a program asks for: what the device is to do, the number of the thread that it becomes, and the address of that one's argument.
struct Asked {
    does: u32,
    number: u32,
    argument: u64,
    count: usize,
    regions: [Region; HARDWARE_REGIONS],
}

#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    bytes: u64,
    flags: u64,
}

impl Region {
    /// Pages that it touches.
    ///
    /// # Errors
    /// `EINVAL`: it is empty, its flags are unknown, or its end is beyond all addresses.
    fn pages(&self) -> Result<u64, Errno> {
        let last = self.bytes.checked_sub(1).and_then(|len| self.start.checked_add(len)).ok_or(Errno::EINVAL)?;
        if self.flags & !HARDWARE_WRITES != 0 {
            return Err(Errno::EINVAL);
        }
        Ok((last >> PAGE_SHIFT) - (self.start >> PAGE_SHIFT) + 1)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

impl Asked {
    fn read<M: Machine>(call: &Call<M>, address: u64) -> Result<Self, Stop> {
        let mut head = [0; ASKED_LEN];
        call.read_user(address, &mut head)?;
        let (what, count) = (word(&head, 0), word(&head, 16) as usize);
        let mut regions = [Region::default(); HARDWARE_REGIONS];
        for (number, region) in regions.get_mut(..count).ok_or(Errno::EINVAL)?.iter_mut().enumerate() {
            let mut bytes = [0; REGION_LEN];
            call.read_user(address + (ASKED_LEN + number * REGION_LEN) as u64, &mut bytes)?;
            *region = Region { start: word(&bytes, 0), bytes: word(&bytes, 8), flags: word(&bytes, 16) };
        }
        Ok(Self { does: what as u32, number: (what >> 32) as u32, argument: word(&head, 8), count, regions })
    }

    fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }
}

/// Makes a device a thread.
///
/// # Errors
/// `ENODEV`: the machine has none that does this; `EBUSY`: all of those are threads; `EINVAL`: there is no such window, or the regions are
/// wrong; `E2BIG`: they are too large; `EFAULT`: the program may not read or write a region; `ENOMEM`.
pub fn make<M: Machine>(call: &Call<M>, core: &ServiceCore, registers: &InodeRecord, address: u64) -> SysResult {
    let cpu = call.cpu;
    let asked = Asked::read(call, address)?;
    let owner = registers.number.get() as u32;
    let thread = clients::named(core, owner, asked.number).ok_or(Errno::EINVAL)?;
    collect(cpu, core);
    let claimed = hardware::claim(core, asked.does);
    let device = claimed.map_err(|exists| if exists { Errno::EBUSY } else { Errno::ENODEV })?;
    device.thread.set(thread.raw());
    device.owner.set(owner);
    device.core.set(u32::from(cpu.id.0));
    device.argument.set(asked.argument);
    let begun = begin(call, core, device, &asked);
    if begun.is_err() {
        hardware::give_back(device);
    }
    begun?;
    cpu.tell_service();
    Ok(0)
}

/// Gives a device its memory, and lets it begin: not if the space has been copied meanwhile, whose frames may be a child's.
fn begin<M: Machine>(call: &Call<M>, core: &ServiceCore, device: &ServiceHardware, asked: &Asked) -> Result<(), Errno> {
    let space = mm::space_of(call.cpu, call.process);
    loop {
        let forks = space.forks.get();
        let table = build(call, space, asked.regions())?;
        device.table.set(call.cpu.raw(table));
        let guard = lock(call.cpu, &space.lock);
        if space.forks.get() == forks {
            hardware::begin(core, device);
            return Ok(());
        }
        drop(guard);
        free(call.cpu, table);
    }
}

/// Ends a thread that is a device.
///
/// # Errors
/// `ESRCH`: no device is that thread of the process.
pub fn cancel<M: Machine>(cpu: &Cpu<M>, core: &ServiceCore, registers: &InodeRecord, number: u32) -> SysResult {
    let owner = registers.number.get() as u32;
    let thread: ThreadIndex = clients::named(core, owner, number).ok_or(Errno::ESRCH)?;
    if !hardware::stop(core, owner, thread) {
        return Err(Errno::ESRCH.into());
    }
    cpu.tell_service();
    Ok(0)
}

/// The table of regions, with references to all their frames.
fn build<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    regions: &[Region],
) -> Result<&'static HardwareTable, Errno> {
    let mut pages = 0;
    for region in regions {
        pages += region.pages()?;
        if pages > (HARDWARE_LEAVES * HARDWARE_LEAF_PAGES) as u64 {
            return Err(Errno::E2BIG);
        }
    }
    let table = call.cpu.pool.at::<HardwareTable>(new_page(call.cpu)?.addr());
    table.space.set(call.cpu.raw(space));
    let filled = fill(call, space, table, regions);
    if filled.is_err() {
        free(call.cpu, table);
    }
    filled.map(|()| table)
}

fn fill<M: Machine>(
    call: &Call<M>,
    space: &'static SpaceRecord,
    table: &HardwareTable,
    regions: &[Region],
) -> Result<(), Errno> {
    for (region, record) in regions.iter().zip(&table.regions) {
        record.start.set(region.start);
        record.bytes.set(region.bytes);
        record.first.set(table.pages.get());
        record.flags.set(region.flags);
        let access = if region.flags & HARDWARE_WRITES != 0 { Access::Write } else { Access::Read };
        let first = region.start >> PAGE_SHIFT << PAGE_SHIFT;
        for page in 0..region.pages()? {
            add(call.cpu, space, table, first + page * PAGE_SIZE, access)?;
            call.serve_due(cost::PAGE);
        }
    }
    Ok(())
}

/// Adds a page of the program to a table, with a reference. No device snoops private caches: what this island's have of it leaves them.
fn add<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    table: &HardwareTable,
    address: u64,
    access: Access,
) -> Result<(), Errno> {
    let page = table.pages.get() as usize;
    let slot = &table.leaves[page / HARDWARE_LEAF_PAGES];
    if slot.get() == 0 {
        slot.set(new_page(cpu)?.addr().0);
    }
    let leaf = cpu.pool.at::<HardwareLeaf>(PoolAddr(slot.get()));
    let mut found = PoolAddr::NULL;
    mm::with_resolved(cpu, space, address, access, |addr| {
        share_frame(cpu, addr.frame());
        found = addr;
    })?;
    cpu.flush_frame(found.frame());
    leaf.pages[page % HARDWARE_LEAF_PAGES].set(found.frame().addr().0);
    table.pages.set(page as u64 + 1);
    Ok(())
}

/// Where nobody caches it privately: the device reads it, and whoever takes it back.
fn new_page<M: Machine>(cpu: &Cpu<M>) -> Result<Frame, Errno> {
    alloc_common_zeroed_frame(cpu).ok_or(Errno::ENOMEM)
}

/// Lets go of a device's memory, and of its table.
fn free<M: Machine>(cpu: &Cpu<M>, table: &'static HardwareTable) {
    for page in 0..(table.pages.get() as usize).min(HARDWARE_LEAVES * HARDWARE_LEAF_PAGES) {
        let leaf = cpu.pool.at::<HardwareLeaf>(PoolAddr(table.leaves[page / HARDWARE_LEAF_PAGES].get()));
        release_frame(cpu, PoolAddr(leaf.pages[page % HARDWARE_LEAF_PAGES].get()).frame());
        due::spend_locked(cpu, LET_GO);
    }
    for leaf in table.leaves.iter().filter(|leaf| leaf.get() != 0) {
        release_frame(cpu, PoolAddr(leaf.get()).frame());
    }
    release_frame(cpu, PoolAddr(cpu.raw(table)).frame());
}

/// Lets go of the memory of devices that are done.
pub fn collect<M: Machine>(cpu: &Cpu<M>, core: &ServiceCore) {
    hardware::take_done(core, |device| {
        if let Some(table) = cpu.object::<HardwareTable>(device.table.get()) {
            free(cpu, table);
        }
    });
}
