//! What the device tree says about the machine.

use dtoolkit::{
    Node, Property,
    fdt::{Fdt, FdtNode},
    standard::NodeStandard,
};

use crate::hart::{HARTS_MAX, HartId, HartSet};

const MEMORY_RANGES_MAX: usize = 16;
const APLICS_MAX: usize = 8;
/// Interrupts as the harts' own controllers number them.
const MACHINE_SOFTWARE: u32 = 3;
const MACHINE_TIMER: u32 = 7;
const SUPERVISOR_EXTERNAL: u32 = 9;
const MACHINE_EXTERNAL: u32 = 11;
/// In a CLINT, comparators follow the software interrupts' words (SiFive FU540 manual, "Core-Local Interruptor").
const CLINT_TIMER: u64 = 0x4000;

/// A range of physical addresses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
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

    /// Whether `address` lies in it.
    pub const fn contains(self, address: u64) -> bool {
        self.start <= address && address - self.start < self.len
    }

    /// Whether all of `other` lies in it.
    pub const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.len <= self.len && other.start - self.start <= self.len - other.len
    }

    /// Whether any byte lies in both.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// What the firmware needs to know of a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hart {
    /// Address of the word that interrupts it.
    pub software_interrupt: u64,
    /// Address of its timer's comparator.
    pub timer: u64,
    /// It sets accessed and dirty bits itself when it is told to (Svadu), and need not be asked by the supervisor.
    pub updates_tables: bool,
    /// It has vector registers.
    pub has_vectors: bool,
}

/// An interrupt controller of machine level, whose interrupts all go to a child for the supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aplic {
    /// Address of its registers.
    pub start: u64,
    /// Interrupts it has.
    pub sources: u32,
    /// Where it sends messages, if interrupts are messages.
    pub files: Option<MessageFiles>,
}

/// How harts' interrupt files lie in memory (RISC-V AIA specification, "Memory-mapped interrupt files").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageFiles {
    /// Address of the first one of machine level.
    pub machine: u64,
    /// Address of the first one of the supervisor.
    pub supervisor: u64,
    /// Bits of a hart's number in its group.
    pub hart_bits: u32,
    /// Bits of a guest's number, in addresses of the supervisor's files.
    pub guest_bits: u32,
    /// Bits of a group's number.
    pub group_bits: u32,
    /// Lowest bit of a group's number in an address.
    pub group_shift: u32,
}

/// The machine.
#[derive(Debug)]
pub struct Board {
    /// Address of the 16550 serial port.
    pub serial: u64,
    /// Address of the device that ends or restarts the machine.
    pub test: Option<u64>,
    /// Address of the device that says what the firmware is asked for.
    pub configuration: Option<u64>,
    /// Harts that the supervisor has.
    pub harts: HartSet,
    /// Harts that only the firmware has.
    pub hidden: HartSet,
    described: [Option<Hart>; HARTS_MAX],
    memory: [Range; MEMORY_RANGES_MAX],
    aplics: [Option<Aplic>; APLICS_MAX],
}

impl Board {
    /// Reads the description.
    ///
    /// # Errors
    /// What is missing.
    pub fn parse(fdt: Fdt<'_>) -> Result<Self, &'static str> {
        let root = fdt.root();
        let soc = root.child("soc").ok_or("the device tree has no /soc")?;
        let cpus = root.child("cpus").ok_or("the device tree has no /cpus")?;
        let mut board = Self {
            serial: compatible(soc, "ns16550a").and_then(first_reg).ok_or("no ns16550a serial port")?.start,
            test: compatible(soc, "sifive,test1").and_then(first_reg).map(|range| range.start),
            configuration: compatible(root, "qemu,fw-cfg-mmio").and_then(first_reg).map(|range| range.start),
            harts: HartSet::default(),
            hidden: HartSet::default(),
            described: [None; HARTS_MAX],
            memory: [Range::default(); MEMORY_RANGES_MAX],
            aplics: [None; APLICS_MAX],
        };
        let memory = root.children().filter(|node| node.name_without_address() == "memory").filter_map(first_reg);
        board.memory.iter_mut().zip(memory).for_each(|(place, range)| *place = range);
        for cpu in cpus.children().filter(|node| node.name_without_address() == "cpu" && is_enabled(*node)) {
            let Some(id) = hart_id(cpu) else { continue };
            let hart = hart(cpu, soc).ok_or("a hart has no CLINT (QEMU's virt has one without aclint=on)")?;
            board.described[id.index()] = Some(hart);
            board.harts = board.harts.with(id);
        }
        let files = message_files(soc);
        let roots = soc.children().filter(|node| is_root_aplic(*node)).filter_map(|node| {
            let sources = words(node, "riscv,num-sources").next()?;
            Some(Aplic { start: first_reg(node)?.start, sources, files })
        });
        board.aplics.iter_mut().zip(roots).for_each(|(place, aplic)| *place = Some(aplic));
        Ok(board)
    }

    /// Hides the last harts, as many as `count`.
    ///
    /// # Errors
    /// They are not fit for that.
    pub fn hide(&mut self, count: usize) -> Result<(), &'static str> {
        let all = self.harts;
        let number = all.iter().count();
        if count >= number && count > 0 {
            return Err("as many harts are to be hidden as there are: start QEMU with more (-smp)");
        }
        for hart in all.iter().skip(number - count) {
            if !self.hart(hart).is_some_and(|described| described.has_vectors) {
                return Err("a hart that is to be hidden has no vector registers: start QEMU with -cpu rv64,v=true");
            }
            self.harts = self.harts.without(hart);
            self.hidden = self.hidden.with(hart);
        }
        Ok(())
    }

    /// A hart of the supervisor's, or a hidden one.
    pub fn hart(&self, id: HartId) -> Option<&Hart> {
        self.described[id.index()].as_ref()
    }

    /// Interrupt controllers of machine level.
    pub fn aplics(&self) -> impl Iterator<Item = &Aplic> {
        self.aplics.iter().flatten()
    }

    /// Whether all of `range` is memory that the supervisor may use. Ranges of the description that touch count as one.
    pub fn is_open(&self, range: Range) -> bool {
        let Some(end) = range.start.checked_add(range.len) else { return false };
        let mut at = range.start;
        while at < end {
            let Some(memory) = self.memory.iter().find(|memory| memory.contains(at)) else { return false };
            at = memory.end();
        }
        !range.overlaps(crate::FIRMWARE)
    }

    /// Memory around `address`, all of which the supervisor may use; none if it may not use that address.
    pub fn open_around(&self, address: u64) -> Range {
        let around = self.memory.iter().find(|memory| memory.contains(address));
        match around.copied() {
            Some(memory) if !memory.overlaps(crate::FIRMWARE) => memory,
            Some(memory) if address >= crate::FIRMWARE.end() => {
                Range { start: crate::FIRMWARE.end(), len: memory.end() - crate::FIRMWARE.end() }
            }
            Some(_) | None => Range::default(),
        }
    }

    /// End of the memory that `address` lies in.
    pub fn memory_end(&self, address: u64) -> Option<u64> {
        self.memory.iter().find(|memory| memory.contains(address)).map(|memory| memory.end())
    }
}

/// The hart that a node describes.
pub fn hart_id(cpu: FdtNode<'_>) -> Option<HartId> {
    words(cpu, "reg").next().and_then(|id| HartId::new(id as usize))
}

/// Whether an interrupt controller is of machine level, where others are its children.
pub fn is_root_aplic(node: FdtNode<'_>) -> bool {
    node.is_compatible("riscv,aplic") && node.property("riscv,children").is_some()
}

/// Whether interrupt files are of machine level.
pub fn is_machine_imsic(node: FdtNode<'_>) -> bool {
    node.is_compatible("riscv,imsics") && words(node, "interrupts-extended").nth(1) == Some(MACHINE_EXTERNAL)
}

fn is_enabled(node: FdtNode<'_>) -> bool {
    node.property("status").is_none_or(|status| status.value_as::<&str>().is_ok_and(|status| status == "okay"))
}

/// The hart that `cpu` describes. CLINTs have a word and a comparator for each of the harts that they name, in that order;
/// where there are several sockets, each has a CLINT.
fn hart(cpu: FdtNode<'_>, soc: FdtNode<'_>) -> Option<Hart> {
    let controller = words(cpu.child("interrupt-controller")?, "phandle").next()?;
    let place = |interrupt: u32| {
        soc.children().filter(|node| node.is_compatible("riscv,clint0")).find_map(|clint| {
            let mut named = pairs(clint, "interrupts-extended").filter(|(_, number)| *number == interrupt);
            Some((first_reg(clint)?.start, named.position(|(phandle, _)| phandle == controller)? as u64))
        })
    };
    let (software, timer) = (place(MACHINE_SOFTWARE)?, place(MACHINE_TIMER)?);
    let extensions = cpu.property("riscv,isa-extensions");
    let has = |extension: &str| {
        let listed = extensions.as_ref().and_then(|property| property.value_as::<&[u8]>().ok()).unwrap_or(&[]);
        listed.split(|byte| *byte == 0).any(|name| name == extension.as_bytes())
    };
    Some(Hart {
        software_interrupt: software.0 + 4 * software.1,
        timer: timer.0 + CLINT_TIMER + 8 * timer.1,
        updates_tables: has("svadu") && !has("svade"),
        has_vectors: has("v"),
    })
}

fn message_files(soc: FdtNode<'_>) -> Option<MessageFiles> {
    let files = |interrupt: u32| {
        soc.children().find(|node| {
            node.is_compatible("riscv,imsics") && words(*node, "interrupts-extended").nth(1) == Some(interrupt)
        })
    };
    let (machine, supervisor) = (files(MACHINE_EXTERNAL)?, files(SUPERVISOR_EXTERNAL)?);
    let number = |name: &str| words(supervisor, name).next();
    // By default, as many bits as number all harts (binding "riscv,imsics").
    let harts = pairs(supervisor, "interrupts-extended").count() as u32;
    Some(MessageFiles {
        machine: first_reg(machine)?.start,
        supervisor: first_reg(supervisor)?.start,
        hart_bits: number("riscv,hart-index-bits").unwrap_or(harts.next_power_of_two().ilog2()),
        guest_bits: number("riscv,guest-index-bits").unwrap_or(0),
        group_bits: number("riscv,group-index-bits").unwrap_or(0),
        group_shift: number("riscv,group-index-shift").unwrap_or(24),
    })
}

fn compatible<'a>(parent: FdtNode<'a>, name: &str) -> Option<FdtNode<'a>> {
    parent.children().find(|node| node.is_compatible(name))
}

fn first_reg(node: FdtNode<'_>) -> Option<Range> {
    let reg = node.reg().ok().flatten()?.next()?;
    Some(Range { start: reg.address().ok()?, len: reg.size().ok()? })
}

fn pairs<'a>(node: FdtNode<'a>, property: &str) -> impl Iterator<Item = (u32, u32)> + use<'a> {
    words(node, property).step_by(2).zip(words(node, property).skip(1).step_by(2))
}

/// The numbers in a property.
fn words<'a>(node: FdtNode<'a>, property: &str) -> impl Iterator<Item = u32> + use<'a> {
    let value: &'a [u8] = node.property(property).and_then(|property| property.value_as().ok()).unwrap_or(&[]);
    value.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FIRMWARE;

    fn board(tree: &[u8]) -> Board {
        Board::parse(Fdt::new(tree).unwrap()).unwrap()
    }

    /// What QEMU 10.0 says of `-machine virt,aia=aplic-imsic`, with three harts and 128 MiB in two nodes.
    fn sockets() -> Board {
        board(include_bytes!("../testdata/virt-aia-sockets.dtb"))
    }

    fn hart(software_interrupt: u64, timer: u64) -> Option<Hart> {
        Some(Hart { software_interrupt, timer, updates_tables: true, has_vectors: false })
    }

    #[test]
    fn each_sockets_harts_have_their_place_in_its_clint() {
        let board = sockets();
        assert_eq!(board.harts, HartSet(0b111));
        let found = [0, 1, 2, 3].map(|id| board.hart(HartId::new(id).unwrap()).copied());
        // The first CLINT names hart 0 before hart 1.
        let wanted = [hart(0x200_0000, 0x200_4000), hart(0x200_0004, 0x200_4008), hart(0x201_0000, 0x201_4000), None];
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_last_harts_are_hidden_if_they_have_vectors() {
        let mut board = board(include_bytes!("../testdata/virt-vectors.dtb"));
        assert_eq!((board.configuration, board.hide(0), board.hidden.0), (Some(0x1010_0000), Ok(()), 0));
        assert!(board.hide(3).unwrap_err().contains("-smp"));
        assert_eq!((board.hide(2), board.harts.0, board.hidden.0), (Ok(()), 1, 0b110));
        assert!(board.hart(HartId::new(2).unwrap()).is_some_and(|hart| hart.has_vectors));
        assert!(sockets().hide(1).unwrap_err().contains("v=true"));
    }

    #[test]
    fn each_sockets_interrupt_controller_sends_messages_to_all() {
        let files = Some(MessageFiles {
            machine: 0x2400_0000,
            supervisor: 0x2800_0000,
            hart_bits: 1,
            guest_bits: 0,
            group_bits: 1,
            group_shift: 24,
        });
        let of = |start| Aplic { start, sources: 96, files };
        assert!(sockets().aplics().eq(&[of(0xc00_0000), of(0xc00_8000)]));
    }

    #[test]
    fn a_board_without_messages_has_ports_and_a_clint() {
        let board = board(include_bytes!("../testdata/virt-plic.dtb"));
        assert_eq!((board.serial, board.test, board.aplics().count()), (0x1000_0000, Some(0x10_0000), 0));
        assert_eq!(board.hart(HartId::new(1).unwrap()).copied(), hart(0x200_0004, 0x200_4008));
    }

    #[test]
    fn memory_is_open_but_for_the_firmware() {
        let board = sockets();
        let is_open = |start, len| board.is_open(Range { start, len });
        assert!(is_open(FIRMWARE.end(), 1) && is_open(0x83ff_ffff, 2), "over the border of two nodes");
        assert!(is_open(0x87ff_ffff, 1) && !is_open(0x87ff_ffff, 2) && !is_open(0x8800_0000, 1));
        assert!(!is_open(FIRMWARE.start, 1) && !is_open(FIRMWARE.end() - 1, 2));
        assert!(!is_open(0x1000_0000, 1), "a device");
        assert!(!is_open(u64::MAX, 1) && !is_open(u64::MAX - 1, 1) && !is_open(0x8020_0000, u64::MAX));
        assert_eq!(board.memory_end(0x8400_0000), Some(0x8800_0000));
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut tree = include_bytes!("../testdata/virt-plic.dtb").to_vec();
        let at = tree.windows(13).position(|window| window == b"sifive,clint0").unwrap();
        // The second name of that device, too.
        tree[at..at + 28].fill(b'x');
        assert!(Board::parse(Fdt::new(&tree).unwrap()).unwrap_err().contains("CLINT"));
    }
}
