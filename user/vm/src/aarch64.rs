//! An AArch64 machine: a part of QEMU's `virt` board, and how Linux's kernels are loaded there.

use alloc::{format, vec::Vec};
use core::ops::Range;

use vm_fdt::{Error, FdtWriter};

use crate::{
    Shares,
    image::{Piece, Plan, Wrong},
    tree::{self, Machine},
};

/// First address of its memory.
pub const MEMORY: u64 = 0x4000_0000;
/// The address to which the load offset in a Linux kernel's header is added. On bare boards the device tree is below.
const IMAGE: u64 = 0x4020_0000;
/// Registers of the serial port.
pub const UART: u64 = 0x0900_0000;
/// Bytes of them.
pub const UART_BYTES: u64 = 0x1000;
/// Its interrupt's id.
pub const UART_INTERRUPT: u32 = 33;
/// Where shared areas are: below memory, where QEMU's board has PCI.
pub const SHARES: Shares = Shares { memory: 0x2000_0000, registers: 0x1fff_0000, interrupt: 64 };
/// The id of the first accelerator's interrupt: one for each of [`board::ACCELERATORS`](crate::board::ACCELERATORS).
pub const ACCELERATOR_INTERRUPT: usize = 80;
/// Most cores: as many as the interrupt controller supports.
pub const CPUS_MAX: u64 = 8;

/// The interrupt controller: its distributor, and the first core's redistributor. The kernel emulates them.
const DISTRIBUTOR: [u64; 2] = [0x0800_0000, 0x1_0000];
const REDISTRIBUTORS: [u64; 2] = [0x080a_0000, 0x2_0000 * CPUS_MAX];
/// Cells of interrupts in device trees (bindings of arm,gic-v3): shared interrupts (from id 32 on) and private ones (from 16 on); level or edge.
const SHARED: u32 = 0;
const OWN: u32 = 1;
const LEVEL_HIGH: u32 = 4;
const EDGE_RISING: u32 = 1;
/// Private interrupts of a core's timers: secure, physical, virtual, hypervisor.
const TIMERS: [u32; 4] = [29, 30, 27, 26];
const CONTROLLER: u32 = 1;
const CLOCK: u32 = 2;

/// Linux's Documentation/arch/arm64/booting.rst: where the header has the offset that it is to be loaded at, and the bytes that it needs.
const LINUX_OFFSET: usize = 8;
const LINUX_SIZE: usize = 16;

/// How to load a Linux kernel.
///
/// # Errors
/// What is wrong with it.
pub fn plan_linux(file: &[u8], memory: &Range<u64>) -> Result<Plan, Wrong> {
    let word = |at: usize| Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let (offset, size) = word(LINUX_OFFSET).zip(word(LINUX_SIZE)).ok_or(Wrong::Unknown)?;
    let size = size.max(file.len() as u64);
    let address = IMAGE.checked_add(offset).ok_or(Wrong::TooLarge(size))?;
    let end = address.checked_add(size).filter(|&end| end <= memory.end).ok_or(Wrong::TooLarge(size))?;
    Ok(Plan { entry: address, pieces: [Piece { address, bytes: 0..file.len() }].into(), end })
}

/// The tree of a machine.
///
/// # Errors
/// Of the library: a string has a zero byte.
pub fn write_tree(machine: &Machine<'_>) -> Result<Vec<u8>, Error> {
    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_u32("interrupt-parent", CONTROLLER)?;
    tree.property_string("compatible", "linux,dummy-virt")?;
    tree.property_string("model", "motet,vm")?;
    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", machine.command_line)?;
    tree.property_string("stdout-path", &format!("/pl011@{UART:x}"))?;
    if let Some(initrd) = &machine.initrd {
        tree.property_u64("linux,initrd-start", initrd.start)?;
        tree.property_u64("linux,initrd-end", initrd.end)?;
    }
    tree.end_node(chosen)?;
    let memory = tree.begin_node(&format!("memory@{MEMORY:x}"))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[MEMORY, machine.memory_bytes])?;
    tree.end_node(memory)?;
    write_cpus(&mut tree, machine.cpus)?;
    write_interrupts(&mut tree)?;
    write_uart(&mut tree)?;
    let devices = tree.begin_node("soc")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "simple-bus")?;
    tree.property_null("ranges")?;
    let id = |first: usize, trigger| move |index| (CONTROLLER, [SHARED, (first + index) as u32 - 32, trigger]);
    tree::write_shares(&mut tree, machine, &SHARES, id(SHARES.interrupt, LEVEL_HIGH))?;
    tree::write_accelerators(&mut tree, machine, id(ACCELERATOR_INTERRUPT, EDGE_RISING))?;
    tree.end_node(devices)?;
    tree.end_node(root)?;
    tree.finish()
}

fn write_cpus(tree: &mut FdtWriter, count: u64) -> Result<(), Error> {
    let firmware = tree.begin_node("psci")?;
    tree.property_string_list("compatible", ["arm,psci-1.0", "arm,psci-0.2"].map(Into::into).into())?;
    tree.property_string("method", "hvc")?;
    tree.end_node(firmware)?;
    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    for number in 0..count as u32 {
        let cpu = tree.begin_node(&format!("cpu@{number:x}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_u32("reg", number)?;
        tree.property_string("compatible", "arm,armv8")?;
        tree.property_string("enable-method", "psci")?;
        tree.end_node(cpu)?;
    }
    tree.end_node(cpus)
}

fn write_interrupts(tree: &mut FdtWriter) -> Result<(), Error> {
    let controller = tree.begin_node(&format!("intc@{:x}", DISTRIBUTOR[0]))?;
    tree.property_string("compatible", "arm,gic-v3")?;
    tree.property_null("interrupt-controller")?;
    tree.property_u32("#interrupt-cells", 3)?;
    tree.property_array_u64("reg", &[DISTRIBUTOR, REDISTRIBUTORS].concat())?;
    tree.property_phandle(CONTROLLER)?;
    tree.end_node(controller)?;
    let timer = tree.begin_node("timer")?;
    tree.property_string("compatible", "arm,armv8-timer")?;
    let interrupts = TIMERS.map(|id| [OWN, id - 16, LEVEL_HIGH]);
    tree.property_array_u32("interrupts", interrupts.as_flattened())?;
    tree.property_null("always-on")?;
    tree.end_node(timer)
}

fn write_uart(tree: &mut FdtWriter) -> Result<(), Error> {
    let clock = tree.begin_node("apb-pclk")?;
    tree.property_string("compatible", "fixed-clock")?;
    tree.property_u32("#clock-cells", 0)?;
    tree.property_u32("clock-frequency", 24_000_000)?;
    tree.property_phandle(CLOCK)?;
    tree.end_node(clock)?;
    let uart = tree.begin_node(&format!("pl011@{UART:x}"))?;
    tree.property_string_list("compatible", ["arm,pl011", "arm,primecell"].map(Into::into).into())?;
    tree.property_array_u64("reg", &[UART, UART_BYTES])?;
    tree.property_array_u32("interrupts", &[SHARED, UART_INTERRUPT - 32, LEVEL_HIGH])?;
    tree.property_array_u32("clocks", &[CLOCK, CLOCK])?;
    tree.property_string_list("clock-names", ["uartclk", "apb_pclk"].map(Into::into).into())?;
    tree.end_node(uart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::{Node as _, Property as _, fdt::Fdt};

    #[test]
    fn the_tree_says_what_the_machine_has() {
        let initrd = Some(0x4100_0000..0x4100_1234);
        let machine = Machine {
            memory_bytes: 128 << 20,
            cpus: 3,
            command_line: "console=ttyAMA0",
            initrd,
            shares: &[("a", 4096), ("b", 8192)],
            accelerators: &[(6, 0x1e00_0000..0x1e10_1000)],
        };
        let bytes = write_tree(&machine).unwrap();
        let tree = Fdt::new(&bytes).unwrap();
        let value = |node: &str, name: &str| {
            let node = tree.find_node(node).unwrap_or_else(|| panic!("no {node}"));
            node.property(name).unwrap_or_else(|| panic!("no {name}")).value().to_vec()
        };
        assert_eq!(value("/chosen", "bootargs"), b"console=ttyAMA0\0");
        assert_eq!(value("/chosen", "linux,initrd-start"), 0x4100_0000u64.to_be_bytes());
        assert_eq!(value("/memory@40000000", "reg"), [MEMORY.to_be_bytes(), (128u64 << 20).to_be_bytes()].concat());
        assert_eq!(value("/cpus/cpu@2", "enable-method"), b"psci\0");
        assert!(tree.find_node("/cpus/cpu@3").is_none());
        assert_eq!(value("/psci", "method"), b"hvc\0");
        assert_eq!(value("/pl011@9000000", "compatible"), b"arm,pl011\0arm,primecell\0");
        let areas = [0x2100_0000_u64, 8192, 0x1fff_1000, 4096].map(u64::to_be_bytes);
        assert_eq!(value("/soc/share@21000000", "reg"), areas.concat());
        assert_eq!(value("/soc/share@21000000", "interrupts"), [0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 4], "id 65");
        assert_eq!(value("/soc/share@21000000", "interrupt-parent"), value("/intc@8000000", "phandle"));
        assert_eq!(value("/soc/accelerator@1e000000", "motet,function"), b"fir\0");
        assert_eq!(value("/soc/accelerator@1e000000", "interrupts"), [0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 1], "id 86");
        assert_eq!(value("/timer", "interrupts")[24..36], [0, 0, 0, 1, 0, 0, 0, 11, 0, 0, 0, 4], "the virtual timer");
    }

    #[test]
    fn a_linux_kernel_goes_where_it_says() {
        let mut file = alloc::vec![0; 0x100];
        file[8..16].copy_from_slice(&0x8_0000u64.to_le_bytes());
        file[16..24].copy_from_slice(&0x10_0000u64.to_le_bytes());
        let memory = MEMORY..IMAGE + 0x18_0000;
        let plan = plan_linux(&file, &memory).unwrap();
        assert_eq!((plan.entry, plan.end), (IMAGE + 0x8_0000, memory.end));
        assert_eq!(plan_linux(&file, &(MEMORY..memory.end - 1)), Err(Wrong::TooLarge(0x10_0000)));
        file[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(plan_linux(&file, &memory), Err(Wrong::TooLarge(0x10_0000)));
    }
}
