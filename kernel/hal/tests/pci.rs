//! Finding PCI functions, placing their memory and setting their messages, in configuration spaces made up for it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use motet_hal::{
    interrupt::{InterruptSource, Message},
    pci::{Bus, Identity, Space, Window},
};
use proptest::prelude::*;

const DOORBELL: Identity = Identity { vendor: 0x1af4, device: 0x1110 };
const WINDOW: u64 = 0x4000_0000;

/// A machine's bytes: configuration space from 0 on, and what is at physical addresses from `MEMORY` on.
#[derive(Default)]
struct Machine {
    bytes: RefCell<BTreeMap<usize, u8>>,
    /// Bits that stay as they are, whatever is written: address of the register, and which.
    fixed: BTreeMap<usize, u32>,
}

const MEMORY: usize = 1 << 40;

#[derive(Clone, Copy)]
struct Registers<'a>(&'a Machine, usize);

impl Space for Registers<'_> {
    fn at(self, offset: usize) -> Self {
        Self(self.0, self.1 + offset)
    }

    /// Where nothing is, ones.
    fn read8(self, offset: usize) -> u8 {
        self.0.bytes.borrow().get(&(self.1 + offset)).copied().unwrap_or(0xff)
    }

    fn read16(self, offset: usize) -> u16 {
        u16::from_le_bytes([self.read8(offset), self.read8(offset + 1)])
    }

    fn read32(self, offset: usize) -> u32 {
        u32::from(self.read16(offset)) | u32::from(self.read16(offset + 2)) << 16
    }

    fn write8(self, offset: usize, value: u8) {
        self.0.write(self.1 + offset, &[value]);
    }

    fn write16(self, offset: usize, value: u16) {
        self.0.write(self.1 + offset, &value.to_le_bytes());
    }

    fn write32(self, offset: usize, value: u32) {
        let fixed = self.0.fixed.get(&(self.1 + offset)).copied().unwrap_or(0);
        let kept = if fixed == 0 { 0 } else { self.read32(offset) & fixed };
        self.0.write(self.1 + offset, &(value & !fixed | kept).to_le_bytes());
    }
}

impl Machine {
    fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.borrow_mut().extend((at..).zip(bytes.iter().copied()));
    }

    /// A function with an empty header, no BARs, and no capabilities.
    fn add(&mut self, id: usize, identity: Identity) -> usize {
        let config = id << 12;
        self.write(config, &[0; 256]);
        self.write(config, &identity.vendor.to_le_bytes());
        self.write(config + 2, &identity.device.to_le_bytes());
        for bar in 0..6 {
            self.fixed.insert(config + 0x10 + 4 * bar, u32::MAX);
        }
        config
    }

    /// A BAR of so many bytes, with these low bits.
    fn add_bar(&mut self, config: usize, index: usize, size: u64, low: u32) {
        let reg = config + 0x10 + 4 * index;
        self.write(reg, &low.to_le_bytes());
        self.fixed.insert(reg, !((size.wrapping_neg() as u32) & !15));
        if low & 6 == 4 {
            self.fixed.insert(reg + 4, !((size.wrapping_neg() >> 32) as u32));
        }
    }

    /// A list of capabilities: their places and kinds.
    fn add_capabilities(&self, config: usize, list: &[(u8, u8)]) {
        self.write(config + 6, &0x10u16.to_le_bytes());
        let mut link = config + 0x34;
        for &(at, kind) in list {
            self.write(link, &[at]);
            self.write(config + usize::from(at), &[kind, 0]);
            link = config + usize::from(at) + 1;
        }
    }

    /// The function that QEMU makes of its doorbell: registers, table of messages, shared memory.
    fn with_doorbell(id: usize, vectors: u16, table: u32) -> Self {
        let mut machine = Self::default();
        machine.add(0, Identity { vendor: 0x1b36, device: 0x0008 });
        let config = machine.add(id, DOORBELL);
        machine.add_bar(config, 0, 256, 0);
        machine.add_bar(config, 1, 4096, 0);
        machine.add_bar(config, 2, 1 << 20, 0xc);
        machine.add_capabilities(config, &[(0x40, 0x05), (0x50, 0x11)]);
        machine.write(config + 0x52, &(vectors - 1).to_le_bytes());
        machine.write(config + 0x54, &table.to_le_bytes());
        machine
    }

    fn bus(&self) -> Bus<Registers<'_>> {
        Bus::new(Registers(self, 0))
    }

    fn memory<'a>(&'a self) -> impl Fn(u64) -> Registers<'a> + 'a {
        move |phys| Registers(self, MEMORY + phys as usize)
    }

    fn word(&self, at: usize) -> u32 {
        Registers(self, at).read32(0)
    }
}

#[test]
fn functions_are_found_by_what_they_are() {
    let machine = Machine::with_doorbell(3 << 3, 4, 1);
    assert_eq!(machine.bus().functions().count(), 2);
    assert_eq!(machine.bus().find(DOORBELL).unwrap().id().requester(), 0x18);
    assert!(machine.bus().find(Identity { device: 0x1111, ..DOORBELL }).is_none());
    assert!(machine.bus().find(Identity { vendor: 0xffff, device: 0xffff }).is_none(), "where nothing is");
}

#[test]
fn functions_behind_the_first_are_looked_for_if_it_says_so() {
    let mut machine = Machine::with_doorbell(8, 4, 1);
    let other = Identity { vendor: 0x1af4, device: 0x1041 };
    machine.add(10, other);
    machine.add(19, other);
    assert_eq!(machine.bus().functions().count(), 2);
    machine.write((8 << 12) + 0xe, &[0x80]);
    assert_eq!(machine.bus().find(other).unwrap().id().requester(), 10);
    assert_eq!(machine.bus().functions().count(), 3, "device 2 has no function 0");
}

#[test]
fn memory_is_placed_at_multiples_of_its_size_and_the_function_is_on() {
    let machine = Machine::with_doorbell(8, 4, 1);
    let mut window = Window { next: WINDOW + 0x10 };
    let bars = machine.bus().find(DOORBELL).unwrap().switch_on(&mut window);
    assert_eq!(bars, [WINDOW + 0x1000, WINDOW + 0x2000, WINDOW + 0x10_0000, 0, 0, 0]);
    assert_eq!(window.next, WINDOW + 0x20_0000);
    let config = 8 << 12;
    let words = [0x10, 0x14, 0x18, 0x1c].map(|at| machine.word(config + at));
    assert_eq!(words, [WINDOW as u32 + 0x1000, WINDOW as u32 + 0x2000, WINDOW as u32 + 0x10_000c, 0]);
    assert_eq!(machine.word(config + 4) & 0xffff, 0x406, "memory, bus master, no INTx");
}

#[test]
fn two_functions_share_a_window() {
    let mut machine = Machine::with_doorbell(8, 4, 1);
    let other = Identity { vendor: 0x1af4, device: 0x1042 };
    let config = machine.add(16, other);
    machine.add_bar(config, 0, 32, 1);
    machine.add_bar(config, 4, 1 << 14, 4);
    let mut window = Window { next: WINDOW };
    let first = machine.bus().find(DOORBELL).unwrap().switch_on(&mut window);
    let second = machine.bus().find(other).unwrap().switch_on(&mut window);
    assert_eq!(first[2] + (1 << 20), second[4]);
    assert_eq!(second[..4], [0; 4], "ports are not placed");
}

#[test]
fn messages_are_masked_while_they_are_set_and_go_where_they_are_aimed() {
    let machine = Machine::with_doorbell(8, 4, 0x800 | 1);
    let function = machine.bus().find(DOORBELL).unwrap();
    let bars = function.switch_on(&mut Window { next: WINDOW });
    let source = function.msix(&bars, machine.memory()).unwrap();
    assert_eq!(source.vectors(), 4);
    let message = |core: usize| Message { address: 0x1_0000_2000 + (core as u64) << 4, data: 7 + core as u32 };
    source.aim(3, message(9));
    assert_eq!(machine.word((8 << 12) + 0x50) >> 16 & 0xc000, 0xc000);
    source.interrupt_cores(2, message);
    assert_eq!(machine.word((8 << 12) + 0x50) >> 16 & 0xc000, 0x8000);
    let entry =
        |vector: usize| [0, 4, 8, 12].map(|at| machine.word(MEMORY + bars[1] as usize + 0x800 + 16 * vector + at));
    for (vector, core) in [(0, 0), (1, 1), (3, 9)] {
        let Message { address, data } = message(core);
        assert_eq!(entry(vector), [address as u32, (address >> 32) as u32, data, 0]);
    }
    assert_eq!(entry(2), [u32::MAX; 4], "there are two cores");
    source.interrupt_cores(64, message);
    assert_eq!(entry(4), [u32::MAX; 4], "there are four vectors");
}

#[test]
fn a_function_without_messages_has_none() {
    let bars = [0x1000; 6];
    // No list; a list without it; one that does not end; one that leads into the header.
    for list in [&[][..], &[(0x40, 5), (0x48, 9)], &[(0x40, 5), (0x48, 9), (0x40, 5)], &[(0x40, 5), (0x10, 0x11)]] {
        let mut machine = Machine::default();
        let config = machine.add(8, DOORBELL);
        if !list.is_empty() {
            machine.add_capabilities(config, list);
        }
        let function = machine.bus().find(DOORBELL).unwrap();
        assert!(function.msix(&bars, machine.memory()).is_none(), "{list:?}");
    }
    // A table in a BAR that there is not, or that has not been placed.
    for table in [7, 6, 3] {
        let machine = Machine::with_doorbell(8, 4, table);
        let function = machine.bus().find(DOORBELL).unwrap();
        let bars = function.switch_on(&mut Window { next: WINDOW });
        assert!(function.msix(&bars, machine.memory()).is_none(), "{table}");
    }
}

proptest! {
    /// Whatever is in a configuration space: an answer, and nothing outside of the window.
    #[test]
    fn any_space_gives_an_answer(bytes in proptest::collection::vec(any::<u8>(), 256), fixed in any::<[u32; 6]>()) {
        let mut machine = Machine::default();
        let config = machine.add(8, DOORBELL);
        machine.write(config + 4, &bytes[4..]);
        for (bar, fixed) in fixed.into_iter().enumerate() {
            machine.fixed.insert(config + 0x10 + 4 * bar, fixed);
        }
        let function = machine.bus().find(DOORBELL).unwrap();
        let mut window = Window { next: WINDOW };
        let bars = function.switch_on(&mut window);
        prop_assert!(bars.iter().all(|&bar| bar == 0 || (WINDOW..window.next).contains(&bar)));
        let _ = function.msix(&bars, machine.memory()).map(|source| source.vectors());
    }
}
