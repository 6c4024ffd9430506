//! The driver with a device made up for it, which keeps the rules or breaks them.

extern crate std;

use core::cell::RefCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{boxed::Box, collections::BTreeMap, vec, vec::Vec};

use super::{
    BUFFERS, CAPABILITY_VENDOR, DEVICE_FEATURE, DEVICE_FEATURE_SELECT, DEVICE_STATUS, FRAME_BYTES_MAX, IDENTITY,
    NetworkFunction, QUEUE_AVAILABLE, QUEUE_DESCRIPTORS, QUEUE_ENABLE, QUEUE_NOTIFY, QUEUE_SELECT, QUEUE_SIZE,
    QUEUE_USED, QUEUE_VECTOR, STATUS_DRIVER_OK, STATUS_FEATURES_OK, VirtioNetwork,
    queue::{Area, Half},
};
use crate::pci::{Bus, Space, Window};

/// Where the device sees the area.
const AREA: u64 = 0x1234_5000;
const WINDOW: u64 = 0x4000_0000;
const ADDRESS: [u8; 6] = [0x52, 0x54, 0, 0x4d, 0x6f, 1];
/// Places in its only BAR: the table of messages, and the structures.
const COMMON: usize = 0x1000;
const CONFIG: usize = 0x2000;
const NOTIFY: usize = 0x3000;
const BAR_BYTES: u32 = 0x4000;

/// A device's registers: configuration space from 0 on, and its BAR from the window on.
struct Device {
    bytes: RefCell<BTreeMap<usize, u8>>,
    /// 64 features, by halves.
    features: [u32; 2],
    /// What it says of each queue's longest length.
    queue_size: u16,
    /// What is written to registers of queues, by queue and register.
    queues: RefCell<BTreeMap<(u16, usize), u32>>,
    rings: RefCell<Vec<u16>>,
}

#[derive(Clone, Copy)]
struct Registers<'a>(&'a Device, usize);

const COMMON_AT: usize = WINDOW as usize + COMMON;
const NOTIFY_AT: usize = WINDOW as usize + NOTIFY;

impl Space for Registers<'_> {
    fn at(self, offset: usize) -> Self {
        Self(self.0, self.1 + offset)
    }

    fn read8(self, offset: usize) -> u8 {
        self.0.bytes.borrow().get(&(self.1 + offset)).copied().unwrap_or(0xff)
    }

    fn read16(self, offset: usize) -> u16 {
        match (self.1 + offset).wrapping_sub(COMMON_AT) {
            register @ (QUEUE_SIZE | QUEUE_VECTOR | QUEUE_NOTIFY) => self.0.queue(register),
            _ => u16::from_le_bytes([self.read8(offset), self.read8(offset + 1)]),
        }
    }

    fn read32(self, offset: usize) -> u32 {
        if (self.1 + offset).wrapping_sub(COMMON_AT) == DEVICE_FEATURE {
            return self
                .0
                .features
                .get(Registers(self.0, COMMON_AT).read32(DEVICE_FEATURE_SELECT) as usize)
                .copied()
                .unwrap_or(0);
        }
        u32::from(self.read16(offset)) | u32::from(self.read16(offset + 2)) << 16
    }

    fn write8(self, offset: usize, value: u8) {
        self.0.write(self.1 + offset, &[value]);
    }

    fn write16(self, offset: usize, value: u16) {
        match (self.1 + offset).checked_sub(COMMON_AT) {
            Some(register @ (QUEUE_SIZE | QUEUE_VECTOR | QUEUE_ENABLE)) => self.0.set_queue(register, value.into()),
            _ if self.1 + offset >= NOTIFY_AT => self.0.rings.borrow_mut().push(value),
            _ => self.0.write(self.1 + offset, &value.to_le_bytes()),
        }
    }

    fn write32(self, offset: usize, value: u32) {
        match (self.1 + offset).checked_sub(COMMON_AT) {
            Some(register @ QUEUE_DESCRIPTORS..0x38) => self.0.set_queue(register, value),
            // The BAR's size, of 32 bits.
            None if self.1 + offset == 0x10 => self.0.write(0x10, &(value & !(BAR_BYTES - 1)).to_le_bytes()),
            None if (0x14..0x28).contains(&(self.1 + offset)) => {}
            _ => self.0.write(self.1 + offset, &value.to_le_bytes()),
        }
    }
}

impl Device {
    fn new() -> Self {
        let device = Self {
            bytes: RefCell::default(),
            features: [1 << 5 | 1 << 15, 1],
            queue_size: 256,
            queues: RefCell::default(),
            rings: RefCell::default(),
        };
        device.write(0, &[0; 256]);
        device.write(0, &[IDENTITY.vendor.to_le_bytes(), IDENTITY.device.to_le_bytes()].concat());
        device.write(6, &[0x10]);
        // Messages, and the three structures, one after the other: kind, place, length.
        device.write(0x34, &[0x40]);
        device.write(0x40, &[0x11, 0x50, 0, 0]);
        device.write(0x44, &[0; 8]);
        for (at, kind, place, len) in [(0x50, 1, COMMON, 0x38u32), (0x70, 4, CONFIG, 6), (0x90, 2, NOTIFY, 8)] {
            let next = if kind == 2 { 0 } else { at as u8 + 0x20 };
            device.write(at, &[CAPABILITY_VENDOR, next, 20, kind, 0, 0, 0, 0]);
            device.write(at + 8, &(place as u32).to_le_bytes());
            device.write(at + 12, &len.to_le_bytes());
            device.write(at + 16, &4u32.to_le_bytes());
        }
        device.write(COMMON_AT, &[0; 0x38]);
        device.write(WINDOW as usize + CONFIG, &ADDRESS);
        device
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.borrow_mut().extend((at..).zip(bytes.iter().copied()));
    }

    fn queue(&self, register: usize) -> u16 {
        let queue = Registers(self, COMMON_AT).read16(QUEUE_SELECT);
        match register {
            QUEUE_NOTIFY => queue,
            QUEUE_SIZE => self.queue_size,
            _ => self.queues.borrow().get(&(queue, register)).copied().unwrap_or(0) as u16,
        }
    }

    fn set_queue(&self, register: usize, value: u32) {
        let queue = Registers(self, COMMON_AT).read16(QUEUE_SELECT);
        self.queues.borrow_mut().insert((queue, register), value);
    }

    fn status(&self) -> u8 {
        Registers(self, COMMON_AT).read8(DEVICE_STATUS)
    }

    fn find(&self) -> Option<NetworkFunction<Registers<'_>>> {
        let map = |phys| Registers(self, phys as usize);
        NetworkFunction::find(Bus::new(Registers(self, 0)), &mut Window { next: WINDOW }, map)
    }

    fn start(&self) -> (VirtioNetwork<Registers<'_>>, &'static Area) {
        let area: &'static Area = Box::leak(Box::new(Area::new()));
        (self.find().unwrap().start(area, AREA, || {}).unwrap(), area)
    }

    /// Where a queue's parts are, as the device was told.
    fn places(&self, queue: u16) -> [u64; 3] {
        let queues = self.queues.borrow();
        [QUEUE_DESCRIPTORS, QUEUE_AVAILABLE, QUEUE_USED]
            .map(|register| u64::from(queues[&(queue, register)]) | u64::from(queues[&(queue, register + 4)]) << 32)
    }
}

/// The buffers that a queue's device was given, as their numbers, from the `from`th on.
fn given(half: &Half, from: u16) -> Vec<u16> {
    let count = half.available.index.load(Acquire).wrapping_sub(from);
    (0..count).map(|next| half.available.ring[usize::from(from.wrapping_add(next)) % BUFFERS].load(Relaxed)).collect()
}

/// The device is done with a buffer.
fn give_back(half: &Half, buffer: u32, bytes: u32) {
    let index = half.used.index.load(Relaxed);
    let entry = &half.used.ring[usize::from(index) % BUFFERS];
    entry.number.store(buffer, Relaxed);
    entry.bytes.store(bytes, Relaxed);
    half.used.index.store(index.wrapping_add(1), Release);
}

/// The bytes of a buffer, header and frame.
fn bytes(half: &Half, buffer: usize) -> Vec<u8> {
    let words = half.buffers[buffer].iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
    words.skip(4).take(half.descriptors[buffer].bytes.load(Relaxed) as usize).collect()
}

fn fill(half: &Half, buffer: usize, frame: &[u8]) {
    let all = [&[0; 16], frame, &[0; 8]].concat();
    for (word, eight) in half.buffers[buffer].iter().zip(all.chunks_exact(8)) {
        word.store(u64::from_le_bytes(eight.try_into().unwrap()), Relaxed);
    }
}

#[test]
fn a_device_is_found_and_started() {
    let device = Device::new();
    let (network, area) = device.start();
    assert_eq!(device.status() & STATUS_DRIVER_OK, STATUS_DRIVER_OK);
    assert_eq!((network.take(), network.take()), (Some(ADDRESS), None));
    assert_eq!(given(&area.receive, 0), (0..BUFFERS as u16).collect::<Vec<_>>());
    assert_eq!(*device.rings.borrow(), [0]);
    let [[descriptors, available, used], [other, ..]] = [0, 1].map(|queue| device.places(queue));
    assert!(descriptors == AREA && descriptors < available && available < used && used < other);
    assert!(descriptors.is_multiple_of(16) && used.is_multiple_of(4));
    let first = area.receive.descriptors[0].phys.load(Relaxed);
    assert!(first > used && first < other && area.receive.descriptors[1].phys.load(Relaxed) == first + 2048);
}

#[test]
fn what_makes_no_sense_is_no_device() {
    let change = |at, bytes: &[u8]| {
        let device = Device::new();
        device.write(at, bytes);
        device.find().is_some()
    };
    assert!(change(0x30, &[0]));
    assert!(!change(2, &[0]), "another device");
    assert!(!change(0x40, &[0x12]), "no messages");
    assert!(!change(0x54, &[6]), "a BAR that there is not");
    assert!(!change(0x54, &[1]), "a BAR of no memory");
    assert!(!change(0x58, &[1]), "a place that is not aligned");
    assert!(!change(0x58, &[0, 0, 0, 0xff]), "a place behind the BAR");
    assert!(!change(0x5c, &[8]), "too short a structure");
    assert!(!change(0x9c, &[0xff, 0xff, 0xff, 0xff]), "too long a structure");
    assert!(!change(0x53, &[9]), "no common structure");
}

#[test]
fn a_device_that_lacks_something_is_not_started() {
    let area: &'static Area = Box::leak(Box::new(Area::new()));
    let why = |change: &dyn Fn(&mut Device)| {
        let mut device = Device::new();
        change(&mut device);
        device.find().unwrap().start(area, AREA, || {}).err()
    };
    assert_eq!(why(&|device| device.features[1] = 0), Some("the network device is a legacy device, or has no address"));
    assert_eq!(why(&|device| device.features[0] = 0), Some("the network device is a legacy device, or has no address"));
    assert_eq!(why(&|device| device.queue_size = 63), Some("a queue of the network device is too short"));
    assert_eq!(
        why(&|device| device.write(0x90 + 16, &[0xff, 0xff])),
        Some("a notification register of the network device is out of place")
    );
    assert_eq!(STATUS_FEATURES_OK, 8);
}

#[test]
fn frames_are_sent_in_order_until_there_is_no_room() {
    let device = Device::new();
    let (network, area) = device.start();
    let half = &area.transmit;
    let frame = |seed: usize| (0..14 + seed * 23 % 1501).map(|at| (at * seed) as u8).collect::<Vec<_>>();
    let mut seen = 0u16;
    for round in 0..5_000 {
        assert!(network.send(&frame(round)));
        let [buffer] = given(half, seen).try_into().unwrap();
        seen = seen.wrapping_add(1);
        assert_eq!(bytes(half, buffer.into()), [vec![0; 12], frame(round)].concat());
        assert_eq!(half.descriptors[usize::from(buffer)].flags.load(Relaxed), 0);
        give_back(half, buffer.into(), 0);
    }
    let full: Vec<_> = (0..BUFFERS).map(|_| network.send(&[7; 60])).collect();
    assert!(full.iter().all(|&sent| sent));
    assert_eq!(half.available.flags.load(Relaxed), 1, "no interrupts");
    assert!(!network.send(&[7; 60]) && !network.send(&[7; 60]));
    assert_eq!(half.available.flags.load(Relaxed), 0, "interrupts");
    let buffers = given(half, seen);
    give_back(half, buffers[5].into(), 0);
    assert!(network.send(&[8; 60]) && !network.send(&[8; 60]));
    assert_eq!(given(half, seen.wrapping_add(64)), [buffers[5]]);
}

#[test]
fn the_device_is_not_told_if_it_does_not_want_to_be() {
    let device = Device::new();
    let (network, area) = device.start();
    area.transmit.used.flags.store(1, Relaxed);
    assert!(network.send(&[1; 60]));
    assert_eq!(*device.rings.borrow(), [0]);
    area.transmit.used.flags.store(0, Relaxed);
    assert!(network.send(&[1; 60]));
    assert_eq!(*device.rings.borrow(), [0, 1]);
}

#[test]
fn frames_are_received_in_order_and_buffers_go_back() {
    let device = Device::new();
    let (network, area) = device.start();
    let half = &area.receive;
    let (mut buffer, mut seen) = ([0; FRAME_BYTES_MAX], 0u16);
    assert_eq!(network.receive(&mut buffer), None);
    for round in 0..5_000usize {
        let frame: Vec<u8> = (0..1 + round * 37 % FRAME_BYTES_MAX).map(|at| (at + round) as u8).collect();
        let number = given(half, seen)[0];
        seen = seen.wrapping_add(1);
        fill(half, number.into(), &frame);
        give_back(half, number.into(), 12 + frame.len() as u32);
        assert_eq!(network.receive(&mut buffer), Some(frame.len()));
        assert_eq!(buffer[..frame.len()], frame);
        assert_eq!(network.receive(&mut buffer), None);
        assert_eq!(given(half, seen).len(), BUFFERS);
    }
}

#[test]
fn frames_of_impossible_lengths_are_dropped() {
    let device = Device::new();
    let (network, area) = device.start();
    let mut buffer = [0; FRAME_BYTES_MAX];
    for (number, bytes) in [0, 11, 12, 12 + 1515, u32::MAX].into_iter().enumerate() {
        give_back(&area.receive, number as u32, bytes);
    }
    assert_eq!(network.receive(&mut buffer), None);
    give_back(&area.receive, 9, 12 + 1514);
    assert_eq!(network.receive(&mut buffer[..100]), None, "a buffer that is too short");
    give_back(&area.receive, 8, 12 + 1514);
    assert_eq!(network.receive(&mut buffer), Some(1514));
    assert_eq!(given(&area.receive, 7).len(), BUFFERS);
}

#[test]
fn a_device_that_breaks_the_rules_is_not_used_any_more() {
    type Breaks<'a> = &'a dyn Fn(&Half);
    let breaks: [(&str, Breaks); 4] = [
        ("a number that there is not", &|half| give_back(half, 64, 100)),
        ("a large number", &|half| give_back(half, 0x1_0003, 100)),
        ("the same buffer twice", &|half| (0..2).for_each(|_| give_back(half, 3, 100))),
        ("more than it has", &|half| half.used.index.store(65, Release)),
    ];
    for (what, breaks) in breaks {
        let device = Device::new();
        let (network, area) = device.start();
        let mut buffer = [0; FRAME_BYTES_MAX];
        for half in [&area.receive, &area.transmit] {
            assert!((0..10).all(|_| network.send(&[1; 60])));
            breaks(half);
        }
        for _ in 0..100 {
            network.receive(&mut buffer);
            network.send(&[1; 60]);
        }
        assert_eq!((network.receive(&mut buffer), network.send(&[1; 60])), (None, false), "{what}");
    }
}
