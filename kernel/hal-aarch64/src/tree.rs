//! What the device tree says about the machine.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use motet_layout::CORES_PER_ISLAND_MAX;

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

impl Range {
    /// First address past it.
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// Whether `len` bytes at `start` lie within.
    pub const fn covers(self, start: u64, len: u64) -> bool {
        start >= self.start && start <= self.end() && len <= self.end() - start
    }
}

/// Most memory nodes looked at.
pub const MEMORY_NODES_MAX: usize = 8;

/// The machine, as far as the kernel uses it. Addresses are physical.
#[derive(Clone, Copy, Debug, Default)]
pub struct Description {
    /// The kernel's command line.
    pub command_line: &'static str,
    /// RAM, one entry per NUMA node; unused entries are empty.
    pub memory: [Range; MEMORY_NODES_MAX],
    /// Affinity (MPIDR_EL1) of each core.
    pub cores: [u64; CORES_PER_ISLAND_MAX],
    /// Entries used in `cores`.
    pub core_count: usize,
    /// PL011.
    pub console: u64,
    /// GICv3 distributor.
    pub distributor: u64,
    /// GICv3 redistributors.
    pub redistributors: Range,
    /// GICv3 interrupt translation service.
    pub translation_service: Option<u64>,
    /// Configuration space of PCI bus 0 and up.
    pub pci_config: Option<u64>,
    /// Where 32-bit PCI memory BARs can be placed.
    pub pci_window: u64,
    /// Interrupt id of the virtual timer.
    pub timer_interrupt: u32,
    /// That of the virtual timer of EL2.
    pub hypervisor_timer_interrupt: Option<u32>,
    /// Interrupt id of the interrupt controller's own, which list registers ask for.
    pub maintenance_interrupt: Option<u32>,
    /// PSCI is called with SMC rather than HVC.
    pub psci_smc: bool,
}

/// Reads the device tree.
///
/// # Errors
/// What is missing.
pub fn describe(blob: &'static [u8]) -> Result<Description, &'static str> {
    let tree = Fdt::new(blob).map_err(|_| "the device tree is malformed")?;
    let mut machine = Description::default();
    let mut memory_nodes = 0;
    for node in tree.root().children() {
        if text(node, "device_type") == Some("memory") && memory_nodes < MEMORY_NODES_MAX {
            machine.memory[memory_nodes] = reg(node, 0).ok_or("a memory node has no address")?;
            memory_nodes += 1;
        } else if compatible(node, "arm,pl011") {
            machine.console = reg(node, 0).ok_or("the console has no address")?.start;
        } else if compatible(node, "arm,gic-v3") {
            machine.distributor = reg(node, 0).ok_or("the distributor has no address")?.start;
            machine.redistributors = reg(node, 1).ok_or("the redistributors have no address")?;
            let service = node.children().find(|child| compatible(*child, "arm,gic-v3-its"));
            machine.translation_service = service.and_then(|node| reg(node, 0)).map(|range| range.start);
            machine.maintenance_interrupt = private_interrupt(node, 0);
        } else if compatible(node, "pci-host-ecam-generic") {
            machine.pci_config = reg(node, 0).map(|range| range.start);
            machine.pci_window = pci_window(node).unwrap_or(0);
        } else if compatible(node, "arm,armv8-timer") {
            machine.timer_interrupt = private_interrupt(node, 2).ok_or("the timer has no virtual interrupt")?;
            machine.hypervisor_timer_interrupt = private_interrupt(node, 4);
        } else if compatible(node, "arm,psci-0.2") {
            machine.psci_smc = text(node, "method") == Some("smc");
        }
    }
    let chosen = tree.find_node("/chosen").ok_or("the device tree has no /chosen")?;
    machine.command_line = text(chosen, "bootargs").ok_or("no command line")?;
    for cpu in tree.find_node("/cpus").ok_or("no cores")?.children() {
        if text(cpu, "device_type") == Some("cpu") && machine.core_count < CORES_PER_ISLAND_MAX {
            machine.cores[machine.core_count] = reg(cpu, 0).ok_or("a core has no affinity")?.start;
            machine.core_count += 1;
        }
    }
    if machine.distributor == 0 || machine.timer_interrupt == 0 {
        return Err("the machine has no GICv3 or no timer (QEMU: -machine virt,gic-version=3)");
    }
    Ok(machine)
}

fn text(node: FdtNode<'static>, name: &str) -> Option<&'static str> {
    node.property(name)?.value_as::<&'static str>().ok()
}

fn compatible(node: FdtNode<'static>, with: &str) -> bool {
    node.compatible().is_some_and(|mut names| names.any(|name| name == with))
}

fn reg(node: FdtNode<'static>, index: usize) -> Option<Range> {
    let entry = node.reg().ok()??.nth(index)?;
    Some(Range { start: entry.address().ok()?, len: entry.size().unwrap_or(0) })
}

/// The parent's address of the first 32-bit memory window.
fn pci_window(node: FdtNode<'static>) -> Option<u64> {
    let mut ranges = node.property("ranges")?.as_prop_encoded_array([1, 2, 2, 2]).ok()?;
    let window = ranges.find(|[kind, ..]| kind.to_u32() >> 24 & 3 == 2)?;
    window[2].to_u64()
}

/// Interrupt id of a node's interrupt: PPI numbers begin at id 16.
fn private_interrupt(node: FdtNode<'static>, index: usize) -> Option<u32> {
    let [_kind, number, _flags] = node.property("interrupts")?.as_prop_encoded_array([1, 1, 1]).ok()?.nth(index)?;
    Some(number.to_u32() + 16)
}

/// Cells as integers.
trait ToInteger {
    fn to_u32(&self) -> u32;
    fn to_u64(&self) -> Option<u64>;
}

impl<T: dtoolkit::ToCellInt + Copy> ToInteger for T {
    fn to_u32(&self) -> u32 {
        self.to_int().unwrap_or(0)
    }

    fn to_u64(&self) -> Option<u64> {
        self.to_int().ok()
    }
}
