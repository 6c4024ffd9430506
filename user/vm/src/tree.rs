//! What a machine tells its guest of itself: a flattened device tree (devicetree.org, "Devicetree Specification"; Linux's bindings).

use alloc::{format, vec::Vec};

use vm_fdt::{Error, FdtWriter};

use crate::board;

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
    pub initrd: Option<core::ops::Range<u64>>,
}

/// What every core has: what the base of RISC-V's application profiles has, less what a guest would need the kernel for.
const EXTENSIONS: &str = "i\0m\0a\0f\0d\0c\0zicsr\0zifencei\0";
/// Phandle of core `n`'s interrupt controller, less `n`.
const FIRST_CONTROLLER: u32 = 1;

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
    write_devices(&mut tree)?;
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

fn write_devices(tree: &mut FdtWriter) -> Result<(), Error> {
    let devices = tree.begin_node("soc")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "simple-bus")?;
    tree.property_null("ranges")?;
    let uart = tree.begin_node(&format!("serial@{:x}", board::UART))?;
    tree.property_string("compatible", "ns16550a")?;
    tree.property_array_u64("reg", &[board::UART, board::UART_BYTES])?;
    tree.property_u32("clock-frequency", 3_686_400)?;
    tree.end_node(uart)?;
    tree.end_node(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::{Node as _, Property as _, fdt::Fdt};

    #[test]
    fn the_tree_says_what_the_machine_has() {
        let initrd = Some(0x8100_0000..0x8100_1234);
        let machine = Machine { memory_bytes: 128 << 20, cpus: 3, command_line: "console=ttyS0", initrd };
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
    }

    #[test]
    fn a_zero_byte_in_the_command_line_is_refused() {
        assert!(write(&Machine { memory_bytes: 1 << 20, cpus: 1, command_line: "a\0b", initrd: None }).is_err());
    }
}
