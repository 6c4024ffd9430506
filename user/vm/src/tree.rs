//! The description of a machine for its guest: a flattened device tree (devicetree.org, "Devicetree Specification"; Linux's bindings).

use alloc::{format, vec::Vec};
use core::ops::Range;

use vm_fdt::{Error, FdtWriter};

use crate::{Shares, board, plic};

/// What differs from machine to machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine<'a> {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Cores.
    pub cpus: u64,
    /// The kernel's command line.
    pub command_line: &'a str,
    /// Where the initial ram disk is.
    pub initrd: Option<Range<u64>>,
    /// Areas that it shares with others: their names and bytes.
    pub shares: &'a [(&'a str, u64)],
    /// Accelerators: which of the board's, and where their interfaces are.
    pub accelerators: &'a [(usize, Range<u64>)],
}

/// Extensions of every core: those of RISC-V's base application profile, without those for which a guest would need the kernel.
const EXTENSIONS: &str = "i\0m\0a\0f\0d\0c\0zicsr\0zifencei\0";
/// Bytes of an accelerator's registers.
const PAGE_BYTES: u64 = 4096;
/// Phandle of core `n`'s interrupt controller, less `n`.
const FIRST_CONTROLLER: u32 = 1;

/// Phandle of the interrupt controller of devices.
const CONTROLLER: u32 = FIRST_CONTROLLER + motet_abi::vm::VCPUS_MAX as u32;

/// The tree of a machine.
///
/// # Errors
/// Of the library: a string has a zero byte.
pub fn write(machine: &Machine<'_>) -> Result<Vec<u8>, Error> {
    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "riscv-virtio")?;
    tree.property_string("model", "motet,vm")?;
    write_chosen(&mut tree, machine)?;
    let memory = tree.begin_node(&format!("memory@{:x}", board::MEMORY))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[board::MEMORY, machine.memory_bytes])?;
    tree.end_node(memory)?;
    write_cpus(&mut tree, machine.cpus)?;
    write_devices(&mut tree, machine)?;
    tree.end_node(root)?;
    tree.finish()
}

fn write_chosen(tree: &mut FdtWriter, machine: &Machine<'_>) -> Result<(), Error> {
    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", machine.command_line)?;
    tree.property_string("stdout-path", &format!("/soc/serial@{:x}", board::UART))?;
    if let Some(initrd) = &machine.initrd {
        tree.property_u64("linux,initrd-start", initrd.start)?;
        tree.property_u64("linux,initrd-end", initrd.end)?;
    }
    tree.end_node(chosen)
}

fn write_cpus(tree: &mut FdtWriter, count: u64) -> Result<(), Error> {
    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    tree.property_u32("timebase-frequency", board::TIMEBASE_HZ)?;
    for number in 0..count as u32 {
        let cpu = tree.begin_node(&format!("cpu@{number:x}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_u32("reg", number)?;
        tree.property_string("status", "okay")?;
        tree.property_string("compatible", "riscv")?;
        tree.property_string("riscv,isa", "rv64imafdc_zicsr_zifencei")?;
        tree.property_string("riscv,isa-base", "rv64i")?;
        tree.property("riscv,isa-extensions", EXTENSIONS.as_bytes())?;
        tree.property_string("mmu-type", "riscv,sv48")?;
        let controller = tree.begin_node("interrupt-controller")?;
        tree.property_u32("#interrupt-cells", 1)?;
        tree.property_null("interrupt-controller")?;
        tree.property_string("compatible", "riscv,cpu-intc")?;
        tree.property_phandle(FIRST_CONTROLLER + number)?;
        tree.end_node(controller)?;
        tree.end_node(cpu)?;
    }
    tree.end_node(cpus)
}

fn write_devices(tree: &mut FdtWriter, machine: &Machine<'_>) -> Result<(), Error> {
    let devices = tree.begin_node("soc")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "simple-bus")?;
    tree.property_null("ranges")?;
    write_controller(tree, machine.cpus)?;
    let uart = tree.begin_node(&format!("serial@{:x}", board::UART))?;
    tree.property_string("compatible", "ns16550a")?;
    tree.property_array_u64("reg", &[board::UART, board::UART_BYTES])?;
    tree.property_u32("clock-frequency", 3_686_400)?;
    tree.property_u32("interrupts", board::UART_SOURCE as u32)?;
    tree.property_u32("interrupt-parent", CONTROLLER)?;
    tree.end_node(uart)?;
    let source = |first: usize| move |index| (CONTROLLER, [(first + index) as u32]);
    write_shares(tree, machine, &board::SHARES, source(board::SHARES.interrupt))?;
    write_accelerators(tree, machine, source(board::ACCELERATOR_SOURCE))?;
    tree.end_node(devices)
}

/// Writes a node for each area: its memory, then its registers. `interrupt`: the controller, and the cells of an area's interrupt.
pub fn write_shares<const CELLS: usize>(
    tree: &mut FdtWriter,
    machine: &Machine<'_>,
    places: &Shares,
    interrupt: impl Fn(usize) -> (u32, [u32; CELLS]),
) -> Result<(), Error> {
    for (index, (name, bytes)) in machine.shares.iter().enumerate() {
        let (memory, registers) = (places.memory_of(index), places.registers_of(index));
        let (controller, cells) = interrupt(index);
        let share = tree.begin_node(&format!("share@{memory:x}"))?;
        tree.property_string("compatible", "motet,share")?;
        tree.property_string("label", name)?;
        tree.property_array_u64("reg", &[memory, *bytes, registers, Shares::REGISTER_BYTES])?;
        tree.property_array_u32("interrupts", &cells)?;
        tree.property_u32("interrupt-parent", controller)?;
        tree.end_node(share)?;
    }
    Ok(())
}

/// Writes a node for each accelerator. `interrupt`: as for areas.
pub fn write_accelerators<const CELLS: usize>(
    tree: &mut FdtWriter,
    machine: &Machine<'_>,
    interrupt: impl Fn(usize) -> (u32, [u32; CELLS]),
) -> Result<(), Error> {
    for &(index, ref range) in machine.accelerators {
        let accelerator = tree.begin_node(&format!("accelerator@{:x}", range.start))?;
        tree.property_string("compatible", "motet,accelerator")?;
        tree.property_string("motet,function", board::ACCELERATORS[index])?;
        let data = range.start + PAGE_BYTES;
        tree.property_array_u64("reg", &[range.start, PAGE_BYTES, data, range.end - data])?;
        let (controller, cells) = interrupt(index);
        tree.property_array_u32("interrupts", &cells)?;
        tree.property_u32("interrupt-parent", controller)?;
        tree.end_node(accelerator)?;
    }
    Ok(())
}

/// Writes the interrupt controller. As on QEMU's board, each core has a context for M-mode and one for S-mode, so the numbers are the same. These
/// machines have no M-mode.
fn write_controller(tree: &mut FdtWriter, cpus: u64) -> Result<(), Error> {
    const EXTERNAL_OF_MACHINE: u32 = 11;
    const EXTERNAL: u32 = 9;
    let controller = tree.begin_node(&format!("interrupt-controller@{:x}", board::PLIC))?;
    tree.property_string_list("compatible", ["sifive,plic-1.0.0", "riscv,plic0"].map(Into::into).into())?;
    tree.property_array_u64("reg", &[board::PLIC, board::PLIC_BYTES])?;
    tree.property_null("interrupt-controller")?;
    tree.property_u32("#interrupt-cells", 1)?;
    tree.property_u32("#address-cells", 0)?;
    tree.property_u32("riscv,ndev", plic::SOURCES as u32 - 1)?;
    let contexts = (0..cpus as u32).flat_map(|core| {
        let core = FIRST_CONTROLLER + core;
        [core, EXTERNAL_OF_MACHINE, core, EXTERNAL]
    });
    tree.property_array_u32("interrupts-extended", &contexts.collect::<Vec<_>>())?;
    tree.property_phandle(CONTROLLER)?;
    tree.end_node(controller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::{Node as _, Property as _, fdt::Fdt};

    #[test]
    fn the_tree_says_what_the_machine_has() {
        let initrd = Some(0x8100_0000..0x8100_1234);
        let machine = Machine {
            memory_bytes: 128 << 20,
            cpus: 3,
            command_line: "console=ttyS0",
            initrd,
            shares: &[("a", 4096), ("b", 8192)],
            accelerators: &[(6, 0x1e00_0000..0x1e10_1000)],
        };
        let bytes = write(&machine).unwrap();
        let tree = Fdt::new(&bytes).unwrap();
        let text = |node: &str, name: &str| {
            let node = tree.find_node(node).unwrap_or_else(|| panic!("no {node}"));
            node.property(name).unwrap_or_else(|| panic!("no {name}")).value().to_vec()
        };
        assert_eq!(text("/chosen", "bootargs"), b"console=ttyS0\0");
        assert_eq!(text("/chosen", "linux,initrd-end"), 0x8100_1234u64.to_be_bytes());
        assert_eq!(
            text("/memory@80000000", "reg"),
            [board::MEMORY.to_be_bytes(), (128u64 << 20).to_be_bytes()].concat()
        );
        assert_eq!(text("/cpus/cpu@2", "reg"), [0, 0, 0, 2]);
        assert!(tree.find_node("/cpus/cpu@3").is_none());
        assert_eq!(text("/soc/serial@10000000", "compatible"), b"ns16550a\0");
        assert_eq!(
            text("/soc/serial@10000000", "interrupt-parent"),
            text("/soc/interrupt-controller@c000000", "phandle")
        );
        assert_eq!(text("/soc/share@61000000", "label"), b"b\0");
        let areas = [0x6100_0000_u64, 8192, 0x5fff_1000, 4096].map(u64::to_be_bytes);
        assert_eq!(text("/soc/share@61000000", "reg"), areas.concat());
        let contexts = text("/soc/interrupt-controller@c000000", "interrupts-extended");
        assert_eq!(contexts[contexts.len() - 8..], [0, 0, 0, 3, 0, 0, 0, 9]);
        assert_eq!(text("/soc/accelerator@1e000000", "motet,function"), b"fir\0");
        assert_eq!(text("/soc/accelerator@1e000000", "interrupts"), [0, 0, 0, 54]);
        let ranges = [0x1e00_0000u64, 0x1000, 0x1e00_1000, 0x10_0000].map(u64::to_be_bytes);
        assert_eq!(text("/soc/accelerator@1e000000", "reg"), ranges.concat());
    }

    #[test]
    fn a_zero_byte_in_the_command_line_is_refused() {
        assert!(
            write(&Machine {
                memory_bytes: 1 << 20,
                cpus: 1,
                command_line: "a\0b",
                initrd: None,
                shares: &[],
                accelerators: &[]
            })
            .is_err()
        );
    }
}
