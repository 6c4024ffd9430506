//! What threads wait for: semaphores, message queues, memory pools. Each knows its state and its line of waiters; who is
//! served when is in [`crate::kernel`].

use crate::{BLOCKS_MAX, Error, MESSAGES_MAX, list::List};

/// A message: 16 bytes, which are copied.
pub type Message = [u64; 2];

/// Numbers of objects, for those who keep them elsewhere.
macro_rules! indices {
    ($id:ident) => {
        impl $id {
            /// Its number.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The object of this number. If there is none, calls refuse it.
            #[must_use]
            pub const fn from_index(index: usize) -> Self {
                Self(if index < 255 { index as u8 } else { 255 })
            }
        }
    };
}

/// A semaphore of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreId(pub(crate) u8);

indices!(SemaphoreId);

/// A message queue of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId(pub(crate) u8);

indices!(QueueId);

/// A memory pool of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub(crate) u8);

indices!(PoolId);

/// A counting semaphore. Threads wait only while it counts 0.
#[derive(Debug)]
pub struct Semaphore {
    pub count: u32,
    pub takers: List,
}

/// A ring of messages. Receivers wait only while it is empty, senders only while it is full.
#[derive(Debug)]
pub struct Queue {
    ring: [Message; MESSAGES_MAX],
    first: usize,
    len: usize,
    capacity: usize,
    pub receivers: List,
    pub senders: List,
}

impl Queue {
    /// # Errors
    /// [`Error::Invalid`]: a capacity of 0, or above [`MESSAGES_MAX`].
    pub fn new(capacity: usize) -> Result<Self, Error> {
        if capacity == 0 || capacity > MESSAGES_MAX {
            return Err(Error::Invalid);
        }
        let ring = [[0; 2]; MESSAGES_MAX];
        Ok(Self { ring, first: 0, len: 0, capacity, receivers: List::EMPTY, senders: List::EMPTY })
    }

    /// Whether there was room.
    pub fn push(&mut self, message: Message) -> bool {
        let has_room = self.len < self.capacity;
        if has_room {
            self.ring[(self.first + self.len) % MESSAGES_MAX] = message;
            self.len += 1;
        }
        has_room
    }

    pub fn pop(&mut self) -> Option<Message> {
        let message = (self.len > 0).then(|| self.ring[self.first])?;
        self.first = (self.first + 1) % MESSAGES_MAX;
        self.len -= 1;
        Some(message)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// Blocks of equal size in memory that belongs to whoever made the pool; the kernel computes with addresses only. Threads
/// wait only while none is free.
#[derive(Debug)]
pub struct Pool {
    start: usize,
    block_len: usize,
    blocks: usize,
    /// Bit N: block N is free.
    free: u64,
    pub takers: List,
}

impl Pool {
    /// # Errors
    /// [`Error::Invalid`]: no block, more than [`BLOCKS_MAX`], blocks without length, or memory beyond the last address.
    pub fn new(start: usize, block_len: usize, blocks: usize) -> Result<Self, Error> {
        let end = block_len.checked_mul(blocks).and_then(|len| start.checked_add(len));
        if block_len == 0 || blocks == 0 || blocks > BLOCKS_MAX || end.is_none() {
            return Err(Error::Invalid);
        }
        Ok(Self { start, block_len, blocks, free: u64::MAX >> (BLOCKS_MAX - blocks), takers: List::EMPTY })
    }

    /// The address of a block that was free.
    pub fn take(&mut self) -> Option<usize> {
        let block = self.free.trailing_zeros() as usize;
        // Clears the lowest bit.
        self.free &= self.free.checked_sub(1)?;
        Some(self.start + block * self.block_len)
    }

    /// # Errors
    /// [`Error::Invalid`]: it is not the address of a block that is in use.
    pub fn check(&self, address: usize) -> Result<(), Error> {
        self.bit(address).filter(|bit| self.free & bit == 0).map(drop).ok_or(Error::Invalid)
    }

    /// Makes a block free that [`Self::check`] has found in use.
    pub fn put(&mut self, address: usize) {
        self.free |= self.bit(address).unwrap_or(0);
    }

    fn bit(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.start)?;
        let block = offset / self.block_len;
        (offset % self.block_len == 0 && block < self.blocks).then_some(1 << block)
    }

    #[cfg(test)]
    pub fn free(&self) -> u32 {
        self.free.count_ones()
    }
}

/// Objects of one kind, made once and for all.
#[derive(Debug)]
pub struct Table<T, const MAX: usize> {
    entries: [Option<T>; MAX],
    used: usize,
}

impl<T, const MAX: usize> Table<T, MAX> {
    pub const fn new() -> Self {
        Self { entries: [const { None }; MAX], used: 0 }
    }

    /// The number of the new object.
    pub fn add(&mut self, object: T) -> Result<u8, Error> {
        *self.entries.get_mut(self.used).ok_or(Error::Full)? = Some(object);
        self.used += 1;
        Ok(self.used as u8 - 1)
    }

    /// An object of another kernel may be none of this one.
    pub fn get(&mut self, number: u8) -> Result<&mut T, Error> {
        self.entries.get_mut(usize::from(number)).and_then(Option::as_mut).ok_or(Error::Invalid)
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }
}
