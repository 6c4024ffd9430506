//! Queues of buffers between a kernel and a device ("split virtqueues", 2.7).
//!
//! Buffer k is described by descriptor k, for good. What the device writes is only ever compared with what the kernel remembers on its side.

use core::mem::offset_of;
use core::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use motet_layout::handshake::then_look;

use crate::network::FRAME_BYTES_MAX;

/// Buffers of a queue: one bit each in a word.
pub(super) const BUFFERS: usize = 64;
/// The header in front of each frame (5.1.6), always zero.
const HEADER_BYTES: usize = 12;
/// Where it begins in a buffer, so that the frame begins at a word.
const HEADER_AT: usize = 4;
const FRAME_AT: usize = (HEADER_AT + HEADER_BYTES) / 8;
/// 64-bit words of a buffer.
const WORDS: usize = 256;

const _: () = assert!(8 * FRAME_AT + FRAME_BYTES_MAX <= 8 * WORDS);

const DEVICE_WRITES: u16 = 2;
/// In a ring of available buffers: the device need not interrupt. In one of used buffers: it need not be told.
const QUIET: u16 = 1;

#[repr(C, align(16))]
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) phys: AtomicU64,
    pub(super) bytes: AtomicU32,
    pub(super) flags: AtomicU16,
    pub(super) next: AtomicU16,
}

#[repr(C)]
#[derive(Debug)]
pub(super) struct Available {
    pub(super) flags: AtomicU16,
    pub(super) index: AtomicU16,
    pub(super) ring: [AtomicU16; BUFFERS],
    pub(super) unused: AtomicU16,
}

#[repr(C)]
#[derive(Debug)]
pub(super) struct UsedBuffer {
    pub(super) number: AtomicU32,
    pub(super) bytes: AtomicU32,
}

#[repr(C, align(4))]
#[derive(Debug)]
pub(super) struct Used {
    pub(super) flags: AtomicU16,
    pub(super) index: AtomicU16,
    pub(super) ring: [UsedBuffer; BUFFERS],
    pub(super) unused: AtomicU16,
}

#[repr(C)]
#[derive(Debug)]
pub(super) struct Half {
    pub(super) descriptors: [Descriptor; BUFFERS],
    pub(super) available: Available,
    pub(super) used: Used,
    pub(super) buffers: [[AtomicU64; WORDS]; BUFFERS],
}

/// Memory that the kernel and a network device read and write, at first zero. All ISAs of kernels are little-endian, as the device is.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Area {
    pub(super) receive: Half,
    pub(super) transmit: Half,
}

impl Half {
    const fn new() -> Self {
        const fn zero() -> AtomicU16 {
            AtomicU16::new(0)
        }
        Self {
            descriptors: [const {
                Descriptor { phys: AtomicU64::new(0), bytes: AtomicU32::new(0), flags: zero(), next: zero() }
            }; BUFFERS],
            available: Available { flags: zero(), index: zero(), ring: [const { zero() }; BUFFERS], unused: zero() },
            used: Used {
                flags: zero(),
                index: zero(),
                ring: [const { UsedBuffer { number: AtomicU32::new(0), bytes: AtomicU32::new(0) } }; BUFFERS],
                unused: zero(),
            },
            buffers: [const { [const { AtomicU64::new(0) }; WORDS] }; BUFFERS],
        }
    }
}

impl Area {
    /// An area of zeros.
    #[expect(clippy::new_without_default, reason = "it is large")]
    pub const fn new() -> Self {
        Self { receive: Half::new(), transmit: Half::new() }
    }
}

/// Which of a network device's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Receive,
    Transmit,
}

/// The kernel's side of a queue. One core uses it at a time.
#[derive(Debug)]
pub(super) struct Queue {
    side: Side,
    area: &'static Area,
    /// Which buffers the device has, a bit each.
    lent: AtomicU64,
    /// How often a buffer was given to the device.
    given: AtomicU16,
    /// How often one was taken back.
    taken: AtomicU16,
    /// The device has broken the rules, and is not used any more.
    is_broken: AtomicBool,
}

impl Queue {
    pub(super) const fn new(side: Side, area: &'static Area) -> Self {
        Self {
            side,
            area,
            lent: AtomicU64::new(0),
            given: AtomicU16::new(0),
            taken: AtomicU16::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    const fn half(&self) -> &'static Half {
        match self.side {
            Side::Receive => &self.area.receive,
            Side::Transmit => &self.area.transmit,
        }
    }

    const fn offset(&self) -> usize {
        match self.side {
            Side::Receive => offset_of!(Area, receive),
            Side::Transmit => offset_of!(Area, transmit),
        }
    }

    /// Where the device finds its descriptors and rings, if the area is at `phys`.
    pub(super) fn places(&self, phys: u64) -> [u64; 3] {
        [offset_of!(Half, descriptors), offset_of!(Half, available), offset_of!(Half, used)]
            .map(|offset| phys + (self.offset() + offset) as u64)
    }

    /// Fills the descriptors, before the device sees them.
    pub(super) fn describe_buffers(&self, phys: u64) {
        let half = self.half();
        let first = phys + (self.offset() + offset_of!(Half, buffers) + HEADER_AT) as u64;
        for (descriptor, at) in half.descriptors.iter().zip((first..).step_by(8 * WORDS)) {
            descriptor.phys.store(at, Relaxed);
            descriptor.flags.store(if self.side == Side::Receive { DEVICE_WRITES } else { 0 }, Relaxed);
        }
        self.let_interrupt(self.side == Side::Receive);
    }

    /// Whether the device interrupts when it gives a buffer back.
    pub(super) fn let_interrupt(&self, interrupts: bool) {
        let (flags, wanted) = (&self.half().available.flags, if interrupts { 0 } else { QUIET });
        if flags.load(Relaxed) != wanted {
            flags.store(wanted, Relaxed);
            then_look();
        }
    }

    /// Whether the device is to be told of a buffer that it was given.
    pub(super) fn wants_ring(&self) -> bool {
        then_look();
        self.half().used.flags.load(Relaxed) & QUIET == 0
    }

    /// A buffer that the device has not.
    pub(super) fn free(&self) -> Option<usize> {
        let buffer = self.lent.load(Relaxed).trailing_ones() as usize;
        (buffer < BUFFERS && !self.is_broken.load(Relaxed)).then_some(buffer)
    }

    /// Gives the device a buffer that it has not, with a frame of so many bytes, or room for them.
    pub(super) fn give(&self, buffer: usize, frame_bytes: usize) {
        let (half, given) = (self.half(), self.given.load(Relaxed));
        self.lent.store(self.lent.load(Relaxed) | 1 << buffer, Relaxed);
        half.descriptors[buffer].bytes.store((HEADER_BYTES + frame_bytes) as u32, Relaxed);
        half.available.ring[usize::from(given) % BUFFERS].store(buffer as u16, Relaxed);
        self.given.store(given.wrapping_add(1), Relaxed);
        half.available.index.store(given.wrapping_add(1), Release);
    }

    /// Takes the buffer back that the device has finished first, with the bytes of the frame in it if that is one of a possible length.
    pub(super) fn take_back(&self) -> Option<(usize, Option<usize>)> {
        let (used, taken) = (&self.half().used, self.taken.load(Relaxed));
        let waiting = used.index.load(Acquire).wrapping_sub(taken);
        if waiting == 0 || self.is_broken.load(Relaxed) {
            return None;
        }
        let entry = &used.ring[usize::from(taken) % BUFFERS];
        let (buffer, bytes) = (entry.number.load(Relaxed) as usize, entry.bytes.load(Relaxed) as usize);
        let lent = self.lent.load(Relaxed);
        if usize::from(waiting) > BUFFERS || buffer >= BUFFERS || lent & 1 << buffer == 0 {
            self.is_broken.store(true, Relaxed);
            return None;
        }
        self.taken.store(taken.wrapping_add(1), Relaxed);
        self.lent.store(lent & !(1 << buffer), Relaxed);
        Some((buffer, bytes.checked_sub(HEADER_BYTES).filter(|len| (1..=FRAME_BYTES_MAX).contains(len))))
    }

    /// Copies a frame into a buffer that the device has not.
    pub(super) fn write(&self, buffer: usize, frame: &[u8]) {
        for (word, bytes) in self.half().buffers[buffer][FRAME_AT..].iter().zip(frame.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
    }

    /// Copies a frame out of such a buffer.
    pub(super) fn read(&self, buffer: usize, frame: &mut [u8]) {
        for (word, bytes) in self.half().buffers[buffer][FRAME_AT..].iter().zip(frame.chunks_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
        }
    }
}
