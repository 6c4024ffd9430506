//! Messages from one kernel to another through a ring of slots, for kernels that share nothing else (`docs/protocols/messages.md`).
//!
//! Senders are the cores of one kernel, the receiver is one core of the other. A sender claims the next slot, writes it, and says that it is there; the receiver
//! takes messages in the order in which they were claimed. A slot's *turn* says whose it is: twice how often a message was taken from it, and 1 more while it
//! has one. Turns and slots are all that both kernels write. Neither believes the other's: whatever stands there, every function here ends.

use motet_layout::{
    Frame, MessageRing, PAGE_SIZE, Peers, Pool, PoolAddr, RING_SLOTS_AT, Windows,
    handshake::then_look,
    sync::{AtomicU64, Ordering},
};

/// One direction of the window between two kernels, as one of them sees it.
#[derive(Clone, Copy)]
pub struct Ring {
    windows: Windows,
    record: &'static MessageRing,
    at: PoolAddr,
    slots: u64,
    slot_len: u64,
    /// The number of the next message, to send or to take. This kernel's own.
    next: &'static AtomicU64,
}

/// Why a message cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsent {
    /// All slots have messages that have not been taken.
    Full,
    /// The other kernel has written what cannot be.
    Broken,
}

/// Bytes of a ring with its slots.
pub const fn ring_len(slots: u32, slot_len: u32) -> u64 {
    RING_SLOTS_AT + slots as u64 * slot_len as u64
}

/// Bytes of the window between two kernels: a ring each way.
pub const fn window_len(slots: u32, slot_len: u32) -> u64 {
    2 * ring_len(slots, slot_len)
}

impl Ring {
    /// The ring in which this kernel sends to another one. `None`: there is no such kernel.
    pub fn to(windows: Windows, peers: &'static Peers, node: u32) -> Option<Self> {
        Self::of(windows, peers, node, peers.node.get() > node, peers.begun.get(node as usize)?)
    }

    /// The ring in which another kernel sends to this one. `None`: there is no such kernel.
    pub fn from_node(windows: Windows, peers: &'static Peers, node: u32) -> Option<Self> {
        Self::of(windows, peers, node, peers.node.get() < node, peers.done.get(node as usize)?)
    }

    fn of(windows: Windows, peers: &Peers, node: u32, is_second: bool, next: &'static AtomicU64) -> Option<Self> {
        let window = peers.windows.get(node as usize)?.get();
        let (slots, slot_len) = (peers.slots.get(), peers.slot_len.get());
        let offset = if is_second { ring_len(slots, slot_len) } else { 0 };
        Self::new(windows, PoolAddr(window + offset), (slots, slot_len), next)
    }

    /// A ring at an address, of so many slots (a power of two from 2 on) of so many bytes. `None`: it is not in the windows.
    pub fn new(
        windows: Windows,
        at: PoolAddr,
        (slots, slot_len): (u32, u32),
        next: &'static AtomicU64,
    ) -> Option<Self> {
        let record = windows.ring(at)?;
        Some(Self { windows, record, at, slots: slots.into(), slot_len: slot_len.into(), next })
    }

    /// Sends a message, of which `write` writes the parts: at which byte of the slot, and what. The caller rings the receiver's kernel then.
    ///
    /// # Errors
    /// Nothing is written.
    pub fn send(self, write: impl FnOnce(Slot)) -> Result<(), Unsent> {
        self.send_numbered(write).map(drop)
    }

    /// As [`send`](Self::send); returns the message's number.
    ///
    /// # Errors
    /// Nothing is written.
    pub fn send_numbered(self, write: impl FnOnce(Slot)) -> Result<u64, Unsent> {
        let number = self.claim()?;
        write(self.slot(number));
        // The receiver reads the slot after this word.
        self.turn(number).store(self.free_turn(number) + 1, Ordering::Release);
        Ok(number)
    }

    /// Whether a message that this kernel has sent was taken, as far as the receiver says so.
    pub fn was_taken(self, number: u64) -> bool {
        let turn = self.turn(number).load(Ordering::Acquire);
        turn.wrapping_sub(self.free_turn(number).wrapping_add(1)).cast_signed() > 0
    }

    /// Takes the next message, which `read` reads in its slot. `None`: it is not there yet. By one core at a time.
    pub fn take<R>(self, read: impl FnOnce(Slot) -> R) -> Option<R> {
        let number = self.next.load(Ordering::Relaxed);
        if !self.is_there(number) {
            return None;
        }
        let result = read(self.slot(number));
        self.next.store(number.wrapping_add(1), Ordering::Relaxed);
        // A sender writes the slot after this word.
        self.turn(number).store(self.free_turn(number).wrapping_add(2), Ordering::Release);
        Some(result)
    }

    /// A message was sent: whether its receiver is not about to look, and is to be rung. One sender is told so.
    pub fn take_asleep(self) -> bool {
        then_look();
        let asleep = &self.record.asleep;
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::AcqRel) != 0
    }

    /// The receiver has found nothing, and is not about to look: the next message rings it. `false`: one is there now.
    pub fn fall_asleep(self) -> bool {
        self.record.asleep.store(1, Ordering::Relaxed);
        then_look();
        !self.is_there(self.next.load(Ordering::Relaxed))
    }

    /// The sender wants to know whether the receiver still works, by a number that it has not asked for yet. The caller rings the receiver then.
    pub fn ask(self, number: u64) {
        self.record.asked.store(number, Ordering::Release);
    }

    /// The last number that the receiver has seen, if it says so.
    pub fn answered(self) -> u64 {
        self.record.answered.load(Ordering::Acquire)
    }

    /// The receiver has seen what it was asked.
    #[inline]
    pub fn answer(self) {
        let asked = self.record.asked.load(Ordering::Relaxed);
        if self.record.answered.load(Ordering::Relaxed) != asked {
            self.record.answered.store(asked, Ordering::Release);
        }
    }

    /// Whether a message is there to be taken.
    pub fn has_message(self) -> bool {
        self.is_there(self.next.load(Ordering::Relaxed))
    }

    /// The number of the next message, which is the caller's to write.
    fn claim(self) -> Result<u64, Unsent> {
        loop {
            let number = self.next.load(Ordering::Relaxed);
            let ahead = self.turn(number).load(Ordering::Acquire).wrapping_sub(self.free_turn(number)).cast_signed();
            if ahead == 0 {
                let next = number.wrapping_add(1);
                if self.next.compare_exchange_weak(number, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Ok(number);
                }
            } else if self.next.load(Ordering::Relaxed) == number {
                // No other sender was faster: it is what the receiver has written, or not written.
                return Err(if ahead < 0 { Unsent::Full } else { Unsent::Broken });
            }
        }
    }

    fn is_there(self, number: u64) -> bool {
        self.turn(number).load(Ordering::Acquire) == self.free_turn(number).wrapping_add(1)
    }

    /// The turn of a message's slot when it is free for that.
    fn free_turn(self, number: u64) -> u64 {
        number / self.slots * 2
    }

    fn turn(self, number: u64) -> &'static AtomicU64 {
        &self.record.turns[(number % self.slots) as usize % self.record.turns.len()]
    }

    fn slot(self, number: u64) -> Slot {
        Slot { windows: self.windows, at: self.at.add(RING_SLOTS_AT + number % self.slots * self.slot_len) }
    }
}

/// A slot of a ring, while it is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    windows: Windows,
    at: PoolAddr,
}

impl Slot {
    /// Copies its bytes from `offset` on.
    pub fn read(self, offset: usize, into: &mut [u8]) {
        self.windows.read(self.at.add(offset as u64), into);
    }

    /// Writes bytes from `offset` on.
    pub fn write(self, offset: usize, from: &[u8]) {
        self.windows.write(self.at.add(offset as u64), from);
    }

    /// Copies a page that begins at `offset` into a frame.
    pub fn read_page(self, offset: usize, pool: Pool, into: Frame) {
        self.windows.copy_to(self.at.add(offset as u64), pool, into.addr(), PAGE_SIZE as usize);
    }

    /// Copies a frame into it, from `offset` on.
    pub fn write_page(self, offset: usize, pool: Pool, from: Frame) {
        self.windows.copy_from(self.at.add(offset as u64), pool, from.addr(), PAGE_SIZE as usize);
    }
}
