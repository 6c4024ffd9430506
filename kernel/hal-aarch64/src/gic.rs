//! GICv3: SGI 0 between the island's cores, the virtual timer's PPI, one LPI per core for the doorbell's messages, one for the network device's.
//!
//! Programming orders from the GICv3 architecture specification (IHI 0069); the kernel uses group 1 only. 14 interrupt
//! id bits, the fewest with LPIs: QEMU rereads the whole pending table at each acknowledge.

use core::sync::atomic::Ordering;

use motet_hal::Interrupts;
use motet_hal::interrupt::Message;
use motet_hal::pci::FunctionId;
use motet_hal::registers::Registers;
use motet_layout::CORES_PER_ISLAND_MAX;

use crate::cpu::{self, CORES, PerCore, barrier, read_register, write_register};
use crate::machine::device;
use crate::memory::{KernelTables, private_pointer};
use crate::tree::Description;

/// First LPI; LPI `FIRST_LPI + k` wakes core `k`.
const FIRST_LPI: u32 = 8192;
/// The LPI of the network device's messages, for the first core.
const NETWORK_LPI: u32 = FIRST_LPI + CORES_PER_ISLAND_MAX as u32;
const FIRST_SPECIAL: u32 = 1020;
const IPI: u32 = 0;
const PRIORITY: u32 = 0xa0;
/// One less than the number of interrupt id bits.
const ID_BITS: u64 = 13;
/// Inner-cacheable write-back, inner shareable, in the ITS's registers.
const CACHEABLE: u64 = 7 << 59 | 1 << 10;
/// The same in the redistributors' registers.
const TABLE_CACHEABLE: u64 = 7 << 7 | 1 << 10;

const DISTRIBUTOR_ARE_GROUP1: u32 = 1 << 4 | 1 << 1;
const REDISTRIBUTOR_CONTROL: usize = 0x00;
const REDISTRIBUTOR_WRITES_PENDING: u32 = 1 << 3;
const REDISTRIBUTOR_TYPE: usize = 0x08;
const REDISTRIBUTOR_WAKER: usize = 0x14;
const REDISTRIBUTOR_PROPERTIES: usize = 0x70;
const REDISTRIBUTOR_PENDING: usize = 0x78;
/// The second 64 KiB frame: SGIs and PPIs.
const PRIVATE_GROUP: usize = 0x1_0080;
const PRIVATE_ENABLE: usize = 0x1_0100;
const PRIVATE_DISABLE: usize = 0x1_0180;
const PRIVATE_PRIORITY: usize = 0x1_0400;

const ITS_CONTROL: usize = 0x00;
const ITS_TYPE: usize = 0x08;
const ITS_COMMANDS: usize = 0x80;
const ITS_COMMANDS_WRITTEN: usize = 0x88;
const ITS_COMMANDS_READ: usize = 0x90;
const ITS_TABLES: usize = 0x100;
/// GITS_TRANSLATER, where devices write their messages.
const ITS_TRANSLATER: u64 = 0x1_0040;
const COMMAND_SYNC: u64 = 5;
const COMMAND_MAP_DEVICE: u64 = 8;
const COMMAND_MAP_COLLECTION: u64 = 9;
const COMMAND_MAP_INTERRUPT: u64 = 10;
const COMMAND_INVALIDATE: u64 = 12;

fn read64(registers: Registers, offset: usize) -> u64 {
    u64::from(registers.read32(offset)) | u64::from(registers.read32(offset + 4)) << 32
}

fn write64(registers: Registers, offset: usize, value: u64) {
    registers.write32(offset, value as u32);
    registers.write32(offset + 4, (value >> 32) as u32);
}

/// The island's interrupt controller, as far as it is needed after boot.
pub struct Gic {
    timer: u32,
    /// What interrupts a core that runs a guest.
    guests: Option<GuestInterrupts>,
}

/// Interrupts that mean something to guests only; acknowledging one says nothing, as what raises them is off by then.
#[derive(Clone, Copy)]
struct GuestInterrupts {
    timer: u32,
    maintenance: u32,
}

impl Gic {
    /// Programs the distributor, and the redistributors of the first `cores` cores.
    ///
    /// # Errors
    /// When a core has no redistributor.
    pub fn init(machine: &Description, cores: usize, memory: &mut KernelTables) -> Result<Self, &'static str> {
        device(machine.distributor).write32(0, DISTRIBUTOR_ARE_GROUP1);
        let properties = memory.take(8192, 4096);
        for lpi in (0..cores).chain([(NETWORK_LPI - FIRST_LPI) as usize]) {
            // SAFETY: the configuration byte of an LPI, in memory taken for it; the GIC reads it later.
            unsafe { private_pointer(properties).cast::<u8>().add(lpi).write_volatile(PRIORITY as u8 | 1) };
        }
        // In EL2, the virtual timer's registers are those of EL2's own, by the same names; the virtual timer is guests'.
        let (timer, guests) =
            match (cpu::is_hypervisor(), machine.hypervisor_timer_interrupt, machine.maintenance_interrupt) {
                (false, ..) => (machine.timer_interrupt, None),
                (true, Some(timer), Some(maintenance)) => {
                    (timer, Some(GuestInterrupts { timer: machine.timer_interrupt, maintenance }))
                }
                (true, ..) => return Err("the machine has no virtual timer for EL2 or no maintenance interrupt"),
            };
        let enabled = guests.map_or(0, |guests| 1 << guests.timer | 1 << guests.maintenance) | 1 << IPI | 1 << timer;
        for (core, affinity) in CORES.iter().zip(&machine.cores[..cores]) {
            let phys = redistributor(machine, *affinity).ok_or("a core has no redistributor")?;
            core.redistributor.store(phys, Ordering::Relaxed);
            init_redistributor(device(phys), enabled, properties, memory.take(65536, 65536));
        }
        Ok(Self { timer, guests })
    }

    /// Whether the timer of guests interrupts this core.
    pub fn let_guest_timer_interrupt(&self, interrupts: bool) {
        let Some(guests) = self.guests else { return };
        let core = PerCore::this();
        if core.is_guest_timer_off.load(Ordering::Relaxed) != interrupts {
            return;
        }
        core.is_guest_timer_off.store(!interrupts, Ordering::Relaxed);
        let registers = device(core.redistributor.load(Ordering::Relaxed));
        registers.write32(if interrupts { PRIVATE_ENABLE } else { PRIVATE_DISABLE }, 1 << guests.timer);
        while registers.read32(REDISTRIBUTOR_CONTROL) & REDISTRIBUTOR_WRITES_PENDING != 0 {}
    }

    /// Makes this core take interrupts.
    pub fn init_core(&self) {
        write_register!("S3_0_C12_C12_5", 1); // ICC_SRE_EL1: system registers
        barrier!("isb");
        write_register!("S3_0_C4_C6_0", 0xff); // ICC_PMR_EL1: all priorities
        write_register!("S3_0_C12_C12_4", 0); // ICC_CTLR_EL1: EOI also deactivates
        write_register!("S3_0_C12_C12_7", 1); // ICC_IGRPEN1_EL1
        barrier!("isb");
    }

    /// Makes this core take no more interrupts, so that nothing wakes it. Does nothing on a machine without GICv3.
    pub fn stop_core() {
        if read_register!("id_aa64pfr0_el1") >> 24 & 0xf != 0 {
            write_register!("S3_0_C12_C12_5", 1);
            barrier!("isb");
            write_register!("S3_0_C12_C12_7", 0);
            barrier!("isb");
        }
    }

    /// Acknowledges everything that is pending.
    #[inline(never)]
    pub fn acknowledge(&self) -> Interrupts {
        let mut found = Interrupts::default();
        loop {
            let id = read_register!("S3_0_C12_C12_0") as u32; // ICC_IAR1_EL1
            if id == self.timer {
                write_register!("cntv_ctl_el0", 0); // level-triggered: off until the next deadline is set
                barrier!("isb");
                found = found.union(Interrupts::TIMER);
            } else if (FIRST_SPECIAL..FIRST_LPI).contains(&id) {
                break;
            } else if id == NETWORK_LPI {
                found = found.union(Interrupts::NETWORK);
            } else if id == IPI || id >= FIRST_LPI {
                found = found.union(Interrupts::DOORBELL);
            }
            write_register!("S3_0_C12_C12_1", u64::from(id)); // ICC_EOIR1_EL1
        }
        // What the interrupt announced is read after the acknowledge: a later ring then interrupts again.
        barrier!("dsb sy");
        found
    }

    /// Interrupts a core of this island. The caller has ordered its stores before.
    #[inline]
    pub fn ring(affinity: u64) {
        write_register!("S3_0_C12_C11_5", software_interrupt(affinity)); // ICC_SGI1R_EL1
        barrier!("isb");
    }
}

/// Value of ICC_SGI1R_EL1 for one core.
const fn software_interrupt(affinity: u64) -> u64 {
    let [level0, level1, level2, _, level3, ..] = affinity.to_le_bytes();
    (level3 as u64) << 48
        | (level0 as u64 >> 4) << 44
        | (level2 as u64) << 32
        | (IPI as u64) << 24
        | (level1 as u64) << 16
        | 1 << (level0 & 15)
}

/// Physical address of a core's redistributor.
fn redistributor(machine: &Description, affinity: u64) -> Option<u64> {
    let packed = affinity & 0xff_ffff | affinity >> 8 & 0xff00_0000;
    let mut at = machine.redistributors.start;
    while machine.redistributors.covers(at, 0x2_0000) {
        let kind = read64(device(at), REDISTRIBUTOR_TYPE);
        if kind >> 32 == packed {
            return Some(at);
        }
        let (is_last, has_virtual_lpis) = (kind & 1 << 4 != 0, kind & 1 << 1 != 0);
        if is_last {
            return None;
        }
        at += if has_virtual_lpis { 0x4_0000 } else { 0x2_0000 };
    }
    None
}

fn init_redistributor(registers: Registers, enabled: u32, properties: u64, pending: u64) {
    registers.write32(REDISTRIBUTOR_WAKER, registers.read32(REDISTRIBUTOR_WAKER) & !2);
    while registers.read32(REDISTRIBUTOR_WAKER) & 4 != 0 {}
    registers.write32(PRIVATE_GROUP, u32::MAX);
    for four in 0..8 {
        registers.write32(PRIVATE_PRIORITY + 4 * four, PRIORITY * 0x0101_0101);
    }
    registers.write32(PRIVATE_ENABLE, enabled);
    write64(registers, REDISTRIBUTOR_PROPERTIES, TABLE_CACHEABLE | properties | ID_BITS);
    write64(registers, REDISTRIBUTOR_PENDING, 1 << 62 | TABLE_CACHEABLE | pending); // bit 62: zeroed
    barrier!("dsb sy");
    registers.write32(REDISTRIBUTOR_CONTROL, registers.read32(REDISTRIBUTOR_CONTROL) | 1); // LPIs on
}

/// The interrupt translation service while it is being programmed.
pub struct TranslationService {
    registers: Registers,
    phys: u64,
    commands: u64,
    written: u64,
}

impl TranslationService {
    /// Gives the service its tables and turns it on.
    pub fn init(phys: u64, memory: &mut KernelTables) -> Self {
        let registers = device(phys);
        for table in 0..8 {
            let offset = ITS_TABLES + 8 * table;
            let kind = read64(registers, offset) >> 56 & 7;
            if kind == 1 || kind == 4 {
                // Devices, collections: one 64 KiB page each.
                write64(registers, offset, 1 << 63 | CACHEABLE | memory.take(65536, 65536) | 2 << 8);
            }
        }
        let commands = memory.take(4096, 65536);
        write64(registers, ITS_COMMANDS, 1 << 63 | CACHEABLE | commands);
        write64(registers, ITS_COMMANDS_WRITTEN, 0);
        registers.write32(ITS_CONTROL, 1);
        Self { registers, phys, commands, written: 0 }
    }

    /// Routes message `k` of a PCI function to core `k`, for the first `messages` cores.
    pub fn route(&mut self, function: FunctionId, messages: usize, machine: &Description, memory: &mut KernelTables) {
        let device_id = self.map_device(function, memory);
        for (message, affinity) in machine.cores[..messages].iter().enumerate() {
            let Some(target) = self.target(machine, *affinity) else { continue };
            let (message, lpi) = (message as u64, u64::from(FIRST_LPI) + message as u64);
            self.command([COMMAND_MAP_COLLECTION, 0, 1 << 63 | target | message]);
            self.command([COMMAND_MAP_INTERRUPT | device_id, lpi << 32 | message, message]);
            self.command([COMMAND_INVALIDATE | device_id, message, 0]);
            self.command([COMMAND_SYNC, 0, target]);
        }
    }

    /// Routes message 0 of the network device to the first core.
    pub fn route_network(&mut self, function: FunctionId, machine: &Description, memory: &mut KernelTables) {
        let Some(target) = self.target(machine, machine.cores[0]) else { return };
        let device_id = self.map_device(function, memory);
        self.command([COMMAND_MAP_COLLECTION, 0, 1 << 63 | target]);
        self.command([COMMAND_MAP_INTERRUPT | device_id, u64::from(NETWORK_LPI) << 32, 0]);
        self.command([COMMAND_INVALIDATE | device_id, 0, 0]);
        self.command([COMMAND_SYNC, 0, target]);
    }

    /// Gives a PCI function a table of messages; its id, as commands have it.
    fn map_device(&mut self, function: FunctionId, memory: &mut KernelTables) -> u64 {
        let device_id = u64::from(function.requester()) << 32;
        let event_bits = 5;
        let translations = memory.take(4096, 4096);
        self.command([COMMAND_MAP_DEVICE | device_id, event_bits - 1, 1 << 63 | translations]);
        device_id
    }

    /// Message `k`.
    pub fn message(&self, k: usize) -> Message {
        Message { address: self.phys + ITS_TRANSLATER, data: k as u32 }
    }

    /// How commands name a redistributor: by address or by processor number (GITS_TYPER.PTA).
    fn target(&self, machine: &Description, affinity: u64) -> Option<u64> {
        let phys = redistributor(machine, affinity)?;
        let by_address = read64(self.registers, ITS_TYPE) & 1 << 19 != 0;
        let number = read64(device(phys), REDISTRIBUTOR_TYPE) >> 8 & 0xffff;
        Some(if by_address { phys } else { number << 16 })
    }

    fn command(&mut self, words: [u64; 3]) {
        for (index, word) in words.into_iter().chain([0]).enumerate() {
            // SAFETY: within the 4 KiB queue that was taken for it.
            unsafe { private_pointer(self.commands + self.written).add(index).write_volatile(word) };
        }
        self.written = (self.written + 32) % 4096;
        barrier!("dsb sy");
        write64(self.registers, ITS_COMMANDS_WRITTEN, self.written);
        while read64(self.registers, ITS_COMMANDS_READ) != self.written {}
    }
}
