//! What the device tree says about the machine.

use dtoolkit::{
    Node, Property,
    fdt::{Fdt, FdtNode},
    standard::NodeStandard,
};
use motet_layout::CORES_PER_ISLAND_MAX;

/// Most memory nodes looked at.
const MEMORY_RANGES_MAX: usize = 8;
/// Interrupt number of the supervisor external interrupt, which marks the S-mode IMSICs (there are M-mode ones, too).
const SUPERVISOR_EXTERNAL: u32 = 9;
/// Bytes in an IMSIC interrupt file.
const IMSIC_FILE_LEN: u64 = 4096;

/// A range of physical addresses.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PhysRange {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

impl PhysRange {
    /// First address past it.
    pub const fn end(self) -> u64 {
        self.start + self.len
    }

    /// Whether all of `other` lies in this range.
    pub const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.len <= self.len && other.start - self.start <= self.len - other.len
    }

    /// Whether any byte of `other` lies in this range.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// A hart that an operating system may use.
#[derive(Clone, Copy, Debug)]
pub struct Hart {
    /// Hart id.
    pub id: u64,
    /// Physical address of its S-mode IMSIC interrupt file.
    pub imsic: u64,
    /// `riscv,isa`.
    pub isa: &'static str,
}

impl Hart {
    const NONE: Self = Self { id: 0, imsic: 0, isa: "" };

    /// Whether the ISA string has this multi-letter extension.
    pub fn has(&self, extension: &str) -> bool {
        self.isa.split('_').skip(1).any(|word| word == extension)
    }

    /// Whether the ISA string has the vector extension.
    pub fn has_vector(&self) -> bool {
        self.has_letter('v')
    }

    /// Whether the ISA string has this extension of one letter.
    pub fn has_letter(&self, extension: char) -> bool {
        self.isa
            .split('_')
            .next()
            .and_then(|base| base.strip_prefix("rv64"))
            .is_some_and(|base| base.contains(extension))
    }
}

/// The machine's description.
#[derive(Debug)]
pub struct Platform {
    /// `/chosen/bootargs`.
    pub command_line: &'static str,
    /// Memory, private and pool.
    memory: [PhysRange; MEMORY_RANGES_MAX],
    memory_count: usize,
    /// Harts by core index: the boot hart first.
    harts: [Hart; CORES_PER_ISLAND_MAX],
    hart_count: usize,
    /// Bytes that `cbo.zero` zeroes on the boot hart; 0: it has none.
    pub zeroed_block: u64,
    /// Ticks of the `time` register in a second.
    pub timebase_hz: u64,
    /// Physical address of the 16550 serial port.
    pub serial: u64,
    /// Physical addresses of PCI's configuration space and of a 32-bit memory window.
    pub pci: Option<(u64, u64)>,
}

impl Platform {
    /// Reads the description; `boot_hart` becomes core 0.
    ///
    /// # Errors
    /// What is missing.
    pub fn parse(fdt: Fdt<'static>, boot_hart: u64) -> Result<Self, &'static str> {
        let root = fdt.root();
        let soc = root.child("soc").ok_or("device tree has no /soc")?;
        let cpus = root.child("cpus").ok_or("device tree has no /cpus")?;
        let mut platform = Self {
            command_line: root.child("chosen").and_then(|chosen| text(chosen, "bootargs")).unwrap_or(""),
            memory: Default::default(),
            memory_count: 0,
            harts: [Hart::NONE; CORES_PER_ISLAND_MAX],
            hart_count: 0,
            zeroed_block: 0,
            timebase_hz: words(cpus, "timebase-frequency").next().ok_or("no timebase-frequency")?.into(),
            serial: compatible(soc, "ns16550a").and_then(first_reg).ok_or("no ns16550a serial port")?.start,
            pci: compatible(soc, "pci-host-ecam-generic").and_then(pci),
        };
        platform.find_memory(root);
        platform.find_harts(cpus, soc, boot_hart)?;
        Ok(platform)
    }

    /// Memory, private and pool.
    pub fn memory(&self) -> &[PhysRange] {
        &self.memory[..self.memory_count]
    }

    /// Harts by core index.
    pub fn harts(&self) -> &[Hart] {
        &self.harts[..self.hart_count]
    }

    /// Whether all of `range` is memory. Ranges of the description that touch each other are not joined.
    pub fn is_memory(&self, range: PhysRange) -> bool {
        self.memory().iter().any(|memory| memory.covers(range))
    }

    fn find_memory(&mut self, root: FdtNode<'static>) {
        let nodes = root.children().filter(|node| node.name_without_address() == "memory");
        for range in nodes.filter_map(first_reg).take(MEMORY_RANGES_MAX) {
            self.memory[self.memory_count] = range;
            self.memory_count += 1;
        }
    }

    fn find_harts(
        &mut self,
        cpus: FdtNode<'static>,
        soc: FdtNode<'static>,
        boot_hart: u64,
    ) -> Result<(), &'static str> {
        let imsics = soc
            .children()
            .find(|node| {
                is_compatible(*node, "riscv,imsics")
                    && words(*node, "interrupts-extended").nth(1) == Some(SUPERVISOR_EXTERNAL)
            })
            .ok_or("no S-mode IMSIC (the machine needs aia=aplic-imsic)")?;
        let found = |hart: &Hart| hart.id == boot_hart;
        let harts = || cpus.children().filter_map(|cpu| hart(cpu, imsics));
        let boot = harts().find(found).ok_or("the boot hart is not in the device tree")?;
        let others = harts().filter(|hart| !found(hart));
        for hart in core::iter::once(boot).chain(others).take(CORES_PER_ISLAND_MAX) {
            self.harts[self.hart_count] = hart;
            self.hart_count += 1;
        }
        if boot.has("zicboz") {
            let block = cpus.children().find_map(|cpu| words(cpu, "riscv,cboz-block-size").next());
            self.zeroed_block = block.unwrap_or(0).into();
        }
        Ok(())
    }
}

/// The hart that `cpu` describes, if it is usable.
fn hart(cpu: FdtNode<'static>, imsics: FdtNode<'static>) -> Option<Hart> {
    if cpu.name_without_address() != "cpu" || text(cpu, "status").is_some_and(|status| status != "okay") {
        return None;
    }
    let controller = words(cpu.child("interrupt-controller")?, "phandle").next()?;
    Some(Hart {
        id: words(cpu, "reg").next()?.into(),
        imsic: imsic_file(imsics, controller)?,
        isa: text(cpu, "riscv,isa")?,
    })
}

/// Physical address of the interrupt file that interrupts `controller`: files fill the node's `reg` ranges in the order
/// of `interrupts-extended` (binding "riscv,imsics"; harts of different sockets are in different ranges).
fn imsic_file(imsics: FdtNode<'static>, controller: u32) -> Option<u64> {
    let stride = IMSIC_FILE_LEN << words(imsics, "riscv,guest-index-bits").next().unwrap_or(0);
    let index = words(imsics, "interrupts-extended").step_by(2).position(|phandle| phandle == controller)?;
    let mut offset = index as u64 * stride;
    for range in regs(imsics) {
        if offset < range.len {
            return Some(range.start + offset);
        }
        offset -= range.len;
    }
    None
}

/// Configuration space and the 32-bit memory window of a PCI host ("ranges": flags and bus address 3 cells, physical
/// address 2, size 2; space code 2 in bits 24 and 25 is 32-bit memory).
fn pci(host: FdtNode<'static>) -> Option<(u64, u64)> {
    let mut cells = words(host, "ranges");
    loop {
        let range: [u32; 7] = core::array::from_fn(|_| cells.next().unwrap_or(0));
        match range[0] >> 24 & 3 {
            0 => return None,
            2 => return Some((first_reg(host)?.start, u64::from(range[3]) << 32 | u64::from(range[4]))),
            _ => {}
        }
    }
}

fn compatible(parent: FdtNode<'static>, name: &str) -> Option<FdtNode<'static>> {
    parent.children().find(|node| is_compatible(*node, name))
}

fn is_compatible(node: FdtNode<'static>, name: &str) -> bool {
    NodeStandard::is_compatible(&node, name)
}

fn first_reg(node: FdtNode<'static>) -> Option<PhysRange> {
    regs(node).next()
}

fn regs(node: FdtNode<'static>) -> impl Iterator<Item = PhysRange> {
    let regs = node.reg().ok().flatten().into_iter().flatten();
    regs.filter_map(|reg| Some(PhysRange { start: reg.address().ok()?, len: reg.size().ok()? }))
}

fn words(node: FdtNode<'static>, property: &str) -> impl Iterator<Item = u32> + use<> {
    let value: &'static [u8] = node.property(property).and_then(|p| p.value_as().ok()).unwrap_or(&[]);
    value.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

fn text(node: FdtNode<'static>, property: &str) -> Option<&'static str> {
    node.property(property)?.value_as().ok()
}
