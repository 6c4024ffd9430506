//! Messages from one kernel to another through a ring of slots, for kernels that share nothing else (`docs/protocols/messages.md`).
//!
//! Senders are the cores of one kernel, the receiver is one core at a time of the other. A sender claims the next slot, writes it, and says
//! that it is there; the receiver takes messages in the order in which they were claimed. A slot's *turn* says whose it is: twice how often a message was taken from
//! it, and 1 more while it has one.

use motet_layout::{MessageRing, Peers, Pool, PoolAddr, RING_SLOTS_AT, handshake::then_look, sync::Ordering};

/// One direction of the window between two kernels.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pool: Pool,
    at: PoolAddr,
    slots: u64,
    slot_len: u64,
}

/// All slots have messages that have not been taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

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
    pub fn to(pool: Pool, peers: &Peers, node: u32) -> Option<Self> {
        Self::of(pool, peers, node, peers.node.get() > node)
    }

    /// The ring in which another kernel sends to this one. `None`: there is no such kernel.
    pub fn from(pool: Pool, peers: &Peers, node: u32) -> Option<Self> {
        Self::of(pool, peers, node, peers.node.get() < node)
    }

    fn of(pool: Pool, peers: &Peers, node: u32, is_second: bool) -> Option<Self> {
        let window = peers.windows.get(node as usize)?.get();
        let (slots, slot_len) = (peers.slots.get(), peers.slot_len.get());
        let offset = if is_second { ring_len(slots, slot_len) } else { 0 };
        (window != 0).then(|| Self::new(pool, PoolAddr(window + offset), slots, slot_len))
    }

    /// A ring at an address; `slots` is a power of two.
    pub const fn new(pool: Pool, at: PoolAddr, slots: u32, slot_len: u32) -> Self {
        Self { pool, at, slots: slots as u64, slot_len: slot_len as u64 }
    }

    /// Bytes of the longest message.
    pub const fn message_len_max(self) -> usize {
        self.slot_len as usize
    }

    /// Sends a message, which `write` writes to the slot. The caller rings the receiver's kernel then, or asks [`is_asleep`](Self::is_asleep).
    ///
    /// # Errors
    /// There is no room: nothing is written.
    pub fn send(self, write: impl FnOnce(PoolAddr)) -> Result<(), Full> {
        let number = self.claim()?;
        write(self.slot(number));
        // The receiver reads the slot after this word.
        self.turn(number).store(self.free_turn(number) + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the next message, which `read` reads in its slot. `None`: it is not there yet. One core at a time.
    pub fn take<R>(self, read: impl FnOnce(PoolAddr) -> R) -> Option<R> {
        let record = self.record();
        let number = record.head.load(Ordering::Relaxed);
        if !self.is_there(number) {
            return None;
        }
        let result = read(self.slot(number));
        record.head.store(number.wrapping_add(1), Ordering::Relaxed);
        // A sender writes the slot after this word.
        self.turn(number).store(self.free_turn(number).wrapping_add(2), Ordering::Release);
        Some(result)
    }

    /// After a message was taken: whether a sender waits for room, and is to be rung.
    pub fn is_awaited(self) -> bool {
        then_look();
        let waiting = &self.record().waiting;
        waiting.load(Ordering::Relaxed) != 0 && waiting.swap(0, Ordering::AcqRel) != 0
    }

    /// A sender found the ring full: `true`: it may sleep until it is rung; `false`: there is room now.
    pub fn wait_for_room(self) -> bool {
        self.record().waiting.store(1, Ordering::Relaxed);
        then_look();
        self.is_full()
    }

    /// After a message was sent: whether the receiver does not look by itself, and is to be rung.
    pub fn is_asleep(self) -> bool {
        then_look();
        let asleep = &self.record().asleep;
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::AcqRel) != 0
    }

    /// The receiver has found nothing: `true`: it looks again when it is rung; `false`: a message is there now.
    pub fn wait_for_message(self) -> bool {
        let record = self.record();
        record.asleep.store(1, Ordering::Relaxed);
        then_look();
        !self.is_there(record.head.load(Ordering::Relaxed))
    }

    /// Whether no message can be sent now.
    pub fn is_full(self) -> bool {
        let number = self.record().tail.load(Ordering::Relaxed);
        self.is_taken_later(number)
    }

    /// The number of the next message, which is the caller's to write.
    fn claim(self) -> Result<u64, Full> {
        let tail = &self.record().tail;
        loop {
            let number = tail.load(Ordering::Relaxed);
            if self.turn(number).load(Ordering::Acquire) == self.free_turn(number) {
                let next = number.wrapping_add(1);
                if tail.compare_exchange_weak(number, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Ok(number);
                }
            } else if self.is_taken_later(number) && tail.load(Ordering::Relaxed) == number {
                return Err(Full);
            }
        }
    }

    /// Whether the slot's message of the round before has not been taken.
    fn is_taken_later(self, number: u64) -> bool {
        let turn = self.turn(number).load(Ordering::Acquire);
        turn.wrapping_sub(self.free_turn(number)).cast_signed() < 0
    }

    fn is_there(self, number: u64) -> bool {
        self.turn(number).load(Ordering::Acquire) == self.free_turn(number) + 1
    }

    /// The turn of a message's slot when it is free for that.
    fn free_turn(self, number: u64) -> u64 {
        number / self.slots * 2
    }

    fn turn(self, number: u64) -> &'static motet_layout::sync::AtomicU64 {
        &self.record().turns[(number % self.slots) as usize]
    }

    fn slot(self, number: u64) -> PoolAddr {
        self.at.add(RING_SLOTS_AT + number % self.slots * self.slot_len)
    }

    fn record(self) -> &'static MessageRing {
        self.pool.at(self.at)
    }
}
