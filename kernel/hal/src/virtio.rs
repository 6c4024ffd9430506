//! A network device: `virtio-net-pci` without its legacy part (PCI 1af4:1041).
//!
//! Written after "Virtual I/O Device (VIRTIO) Version 1.2", of which chapters are named. Nothing optional is negotiated, so that a frame is one buffer
//! with an empty header. The device may hold or claim anything: indices, numbers and lengths are checked, and a device that breaks the
//! rules of its queues is not used any more.

mod queue;
#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicBool, Ordering::AcqRel};

use crate::{
    interrupt::InterruptSource,
    network::FRAME_BYTES_MAX,
    pci::{Bus, Function, FunctionId, Identity, Msix, Space, Window},
};
use queue::{BUFFERS, Queue, Side};

pub use queue::Area;

/// What a kernel gets with its network device for buffers of connections, in bytes.
pub const NETWORK_MEMORY_BYTES: usize = 12 << 20;

const IDENTITY: Identity = Identity { vendor: 0x1af4, device: 0x1041 };

// Structures of the device in its BARs (4.1.4).
const CAPABILITY_VENDOR: u8 = 9;
const STRUCTURE_COMMON: u8 = 1;
const STRUCTURE_NOTIFY: u8 = 2;
const STRUCTURE_DEVICE: u8 = 4;

// Registers of the common structure (4.1.4.3).
const DEVICE_FEATURE_SELECT: usize = 0x00;
const DEVICE_FEATURE: usize = 0x04;
const DRIVER_FEATURE_SELECT: usize = 0x08;
const DRIVER_FEATURE: usize = 0x0c;
const CONFIG_VECTOR: usize = 0x10;
const DEVICE_STATUS: usize = 0x14;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_SIZE: usize = 0x18;
const QUEUE_VECTOR: usize = 0x1a;
const QUEUE_ENABLE: usize = 0x1c;
const QUEUE_NOTIFY: usize = 0x1e;
const QUEUE_DESCRIPTORS: usize = 0x20;
const QUEUE_AVAILABLE: usize = 0x28;
const QUEUE_USED: usize = 0x30;
const COMMON_LEN: u32 = 0x38;

const STATUS_ACKNOWLEDGE: u8 = 1;
const STATUS_DRIVER: u8 = 2;
const STATUS_DRIVER_OK: u8 = 4;
const STATUS_FEATURES_OK: u8 = 8;

/// Which features are wanted, of the first and of the second 32: the device has an address (5.1.3), and is no legacy device (6).
const FEATURES: [u32; 2] = [1 << 5, 1];
const VECTOR: u16 = 0;
const NO_VECTOR: u16 = 0xffff;
/// Reads of the status until a reset is over.
const RESET_READS_MAX: u32 = 1_000_000;

/// A network device, found and switched on.
#[derive(Debug)]
pub struct NetworkFunction<S> {
    common: S,
    notify: S,
    notify_len: u64,
    /// Bytes from one queue's notification register to the next one's.
    notify_step: u32,
    config: S,
    msix: Msix<S>,
    /// Which function it is.
    pub id: FunctionId,
}

impl<S: Space> NetworkFunction<S> {
    /// Finds the device and places its BARs in `window`. `map` turns a physical address into registers. `None`: there is none that makes sense.
    pub fn find(bus: Bus<S>, window: &mut Window, map: impl Fn(u64) -> S) -> Option<Self> {
        let function = bus.find(IDENTITY)?;
        let bars = function.switch_on(window);
        let msix = function.msix(&bars, &map)?;
        let structure = |kind, len| structure(&function, &bars, window.next, kind, len);
        let (common, notify, config) = (
            structure(STRUCTURE_COMMON, COMMON_LEN)?,
            structure(STRUCTURE_NOTIFY, 2)?,
            structure(STRUCTURE_DEVICE, 6)?,
        );
        Some(Self {
            common: map(common.phys),
            notify: map(notify.phys),
            notify_len: notify.len,
            notify_step: notify.capability.read32(16),
            config: map(config.phys),
            msix,
            id: function.id(),
        })
    }

    /// What it interrupts the island's first core with: its vector 0.
    pub fn source(&self) -> &impl InterruptSource {
        &self.msix
    }

    /// Has the device work with the queues in `area`, which are zeroed and lie at `phys` for the device. `order` orders stores to memory before
    /// a store to a device's register. Interrupts have been let through.
    ///
    /// # Errors
    /// What the device lacks.
    pub fn start(self, area: &'static Area, phys: u64, order: fn()) -> Result<VirtioNetwork<S>, &'static str> {
        self.reset()?;
        self.common.write16(CONFIG_VECTOR, NO_VECTOR);
        let queues = [Queue::new(Side::Receive, area), Queue::new(Side::Transmit, area)];
        let receive_bell = self.set_up(&queues[0], 0, phys)?;
        let transmit_bell = self.set_up(&queues[1], 1, phys)?;
        let mut address = [0; 6];
        for (offset, byte) in address.iter_mut().enumerate() {
            *byte = self.config.read8(offset);
        }
        self.add_status(STATUS_DRIVER_OK);
        let [receive, transmit] = queues;
        let device = VirtioNetwork {
            address,
            receive,
            transmit,
            bells: [receive_bell, transmit_bell],
            order,
            is_taken: AtomicBool::new(false),
        };
        for buffer in 0..BUFFERS {
            device.receive.give(buffer, FRAME_BYTES_MAX);
        }
        device.ring(0);
        Ok(device)
    }

    /// Resets the device and agrees on features (3.1.1).
    fn reset(&self) -> Result<(), &'static str> {
        self.common.write8(DEVICE_STATUS, 0);
        let is_reset = (0..RESET_READS_MAX).any(|_| self.common.read8(DEVICE_STATUS) == 0);
        if !is_reset {
            return Err("the network device does not reset");
        }
        self.add_status(STATUS_ACKNOWLEDGE);
        self.add_status(STATUS_DRIVER);
        for (half, wanted) in (0..).zip(FEATURES) {
            self.common.write32(DEVICE_FEATURE_SELECT, half);
            if self.common.read32(DEVICE_FEATURE) & wanted != wanted {
                return Err("the network device is a legacy device, or has no address");
            }
            self.common.write32(DRIVER_FEATURE_SELECT, half);
            self.common.write32(DRIVER_FEATURE, wanted);
        }
        self.add_status(STATUS_FEATURES_OK);
        let is_agreed = self.common.read8(DEVICE_STATUS) & STATUS_FEATURES_OK != 0;
        if is_agreed { Ok(()) } else { Err("the network device wants other features") }
    }

    fn add_status(&self, status: u8) {
        self.common.write8(DEVICE_STATUS, self.common.read8(DEVICE_STATUS) | status);
    }

    /// Tells the device where a queue is; its notification register.
    fn set_up(&self, queue: &Queue, number: u16, phys: u64) -> Result<S, &'static str> {
        let common = self.common;
        common.write16(QUEUE_SELECT, number);
        if usize::from(common.read16(QUEUE_SIZE)) < BUFFERS {
            return Err("a queue of the network device is too short");
        }
        common.write16(QUEUE_SIZE, BUFFERS as u16);
        common.write16(QUEUE_VECTOR, VECTOR);
        if common.read16(QUEUE_VECTOR) != VECTOR {
            return Err("the network device has no interrupt for a queue");
        }
        let bell = u64::from(common.read16(QUEUE_NOTIFY)) * u64::from(self.notify_step);
        if bell + 2 > self.notify_len {
            return Err("a notification register of the network device is out of place");
        }
        let places = queue.places(phys);
        for (register, place) in [QUEUE_DESCRIPTORS, QUEUE_AVAILABLE, QUEUE_USED].into_iter().zip(places) {
            common.write32(register, place as u32);
            common.write32(register + 4, (place >> 32) as u32);
        }
        queue.describe_buffers(phys);
        common.write16(QUEUE_ENABLE, 1);
        Ok(self.notify.at(bell as usize))
    }
}

/// Where a structure of a device lies, and the capability that says so.
struct Structure<S> {
    phys: u64,
    len: u64,
    capability: S,
}

/// The device's first structure of this kind. All its BARs lie below `end`, and so do all of the structure's bytes, at least `len`.
fn structure<S: Space>(function: &Function<S>, bars: &[u64], end: u64, kind: u8, len: u32) -> Option<Structure<S>> {
    let capability = function.capabilities(CAPABILITY_VENDOR).find(|at| at.read8(3) == kind)?;
    let bar = bars.get(usize::from(capability.read8(4))).copied().filter(|&bar| bar != 0)?;
    let (offset, has) = (capability.read32(8), capability.read32(12));
    let phys = bar + u64::from(offset);
    let fits = has >= len && offset.is_multiple_of(4) && phys + u64::from(has) <= end;
    fits.then_some(Structure { phys, len: has.into(), capability })
}

/// A network device that works. One core uses it, after [`take`](Self::take).
#[derive(Debug)]
pub struct VirtioNetwork<S> {
    address: [u8; 6],
    receive: Queue,
    transmit: Queue,
    /// The queues' notification registers.
    bells: [S; 2],
    order: fn(),
    is_taken: AtomicBool,
}

impl<S: Space> VirtioNetwork<S> {
    /// The device's Ethernet address, for the one who asks first.
    pub fn take(&self) -> Option<[u8; 6]> {
        (!self.is_taken.swap(true, AcqRel)).then_some(self.address)
    }

    /// [`crate::Machine::send_frame`].
    ///
    /// # Panics
    /// The frame is longer than any.
    pub fn send(&self, frame: &[u8]) -> bool {
        assert!(frame.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", frame.len());
        let Some(buffer) = self.buffer_to_send() else { return false };
        self.transmit.write(buffer, frame);
        self.transmit.give(buffer, frame.len());
        self.ring(1);
        true
    }

    /// A buffer that the device has not. It interrupts only while there is none.
    fn buffer_to_send(&self) -> Option<usize> {
        let take_back_all = || while self.transmit.take_back().is_some() {};
        take_back_all();
        if self.transmit.free().is_none() {
            self.transmit.let_interrupt(true);
            take_back_all();
        }
        let buffer = self.transmit.free()?;
        self.transmit.let_interrupt(false);
        Some(buffer)
    }

    /// [`crate::Machine::receive_frame`].
    pub fn receive(&self, frame: &mut [u8]) -> Option<usize> {
        for _ in 0..BUFFERS {
            let (buffer, len) = self.receive.take_back()?;
            let len = len.filter(|&len| len <= frame.len());
            if let Some(len) = len {
                self.receive.read(buffer, &mut frame[..len]);
            }
            self.receive.give(buffer, FRAME_BYTES_MAX);
            self.ring(0);
            if len.is_some() {
                return len;
            }
        }
        None
    }

    /// Tells the device that a queue has another buffer, if it wants to know.
    fn ring(&self, queue: usize) {
        let of = [&self.receive, &self.transmit][queue];
        if of.wants_ring() {
            (self.order)();
            self.bells[queue].write16(0, queue as u16);
        }
    }
}
