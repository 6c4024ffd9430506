//! What the islands share while they run the suite.

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{CoreId, Frame, PAGE_SIZE, Pool, PoolAddr, PoolSafe};

/// Bytes at the end of the pool that the suite uses; zero when it starts.
pub const SCRATCH_LEN: u64 = 8 << 20;

const MAILBOXES_AT: u64 = 8192;
const MAILBOX_LEN: u64 = 64;
const FRAMES_AT: u64 = 64 << 10;
/// Words of a test's own, per [`Area`].
const AREA_WORDS: u64 = 64;

/// Words of the suite itself.
#[derive(Clone, Copy)]
pub enum Word {
    NextFrame,
    Passed,
    Failed,
    Finished,
    Arrived,
    Generation,
}

/// Words of the tests: each has [`AREA_WORDS`], so that none has to clear what another left.
#[derive(Clone, Copy)]
pub enum Area {
    Greeting = 1,
    Atomics,
    AtomicPairs,
    Lock,
    PingPong,
    RemoteTable,
    RemoteCode,
    MessagePassing,
    StoreBuffering,
}

/// The scratch part of the pool.
#[derive(Clone, Copy)]
pub struct Scratch {
    pool: Pool,
    base: PoolAddr,
}

/// A core's mailbox: core 0 of its island writes a request and rings, the core answers.
pub struct Mailbox {
    /// Sequence number << 8 | command.
    pub request: &'static AtomicU64,
    pub argument: [&'static AtomicU64; 2],
    pub reply: &'static AtomicU64,
    /// The last request carried out.
    pub done: &'static AtomicU64,
    /// Something to notice while user code runs.
    pub signal: &'static AtomicU64,
    /// The last signal noticed.
    pub noticed: &'static AtomicU64,
}

impl Scratch {
    pub fn new(pool: Pool) -> Self {
        Self { pool, base: PoolAddr(pool.len() - SCRATCH_LEN) }
    }

    pub fn word(&self, word: Word) -> &'static AtomicU64 {
        self.at(word as u64 * 64) // a cache line each
    }

    /// Word `index` of an area.
    pub fn shared(&self, area: Area, index: usize) -> &'static AtomicU64 {
        assert!((index as u64) < AREA_WORDS);
        self.at((area as u64 * AREA_WORDS + index as u64) * 8)
    }

    /// The object at a byte offset into an area.
    pub fn object<T: PoolSafe>(&self, area: Area, offset: u64) -> &'static T {
        self.pool.at(self.base.add(area as u64 * AREA_WORDS * 8 + offset))
    }

    /// A zeroed frame that nobody else has.
    ///
    /// # Panics
    /// When the scratch part is used up.
    pub fn frame(&self) -> Frame {
        let index = self.word(Word::NextFrame).fetch_add(1, Ordering::Relaxed);
        assert!(FRAMES_AT + (index + 1) * PAGE_SIZE <= SCRATCH_LEN, "the conformance suite ran out of frames");
        self.base.add(FRAMES_AT + index * PAGE_SIZE).frame()
    }

    /// As many zeroed frames in a row, the first one's number a multiple of that power of two.
    ///
    /// # Panics
    /// When the scratch part is used up.
    pub fn frames(&self, count: u32) -> Frame {
        let index = self.word(Word::NextFrame).fetch_add(u64::from(2 * count - 1), Ordering::Relaxed);
        assert!(
            FRAMES_AT + (index + u64::from(2 * count)) * PAGE_SIZE <= SCRATCH_LEN,
            "the conformance suite ran out of frames"
        );
        Frame(self.base.add(FRAMES_AT + index * PAGE_SIZE).frame().0.next_multiple_of(count))
    }

    pub fn mailbox(&self, core: CoreId) -> Mailbox {
        let at = MAILBOXES_AT + core.index() as u64 * MAILBOX_LEN;
        let word = |index: u64| self.at(at + index * 8);
        Mailbox {
            request: word(0),
            argument: [word(1), word(2)],
            reply: word(3),
            done: word(4),
            signal: word(5),
            noticed: word(6),
        }
    }

    fn at(&self, offset: u64) -> &'static AtomicU64 {
        self.pool.at(self.base.add(offset))
    }
}
