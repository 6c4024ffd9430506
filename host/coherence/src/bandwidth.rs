//! Links that carry so many bytes in a second: who waits for whom, and stores that become one transfer.
//!
//! Each `[[model.access]]` with a bandwidth has a queue for each direction: requests and store data go towards memory, read data
//! comes back. A core's own transfers go one after the other, each for its link time, exactly. What the cores of an island
//! share they count: time is cut in windows, and a direction knows how much of each the link is in use. A transfer takes its
//! link time from the window of its moment, and where that is full from the next ones. So cores whose clocks differ, as they do by
//! up to a quantum, may come in any order, and a window has room for two quanta of each: who comes first cannot take it all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::{Config, QueueConfig, Segment};
use crate::core::{Core, Kind};
use crate::counters::Count;
use crate::{LINE_SIZE, Picoseconds};

/// Windows that a direction remembers; a core that is farther behind another one is not delayed by it.
const WINDOWS: u64 = 1024;
/// Windows that a transfer looks at for room. Posted stores fill at most 16 for each core, reads less than two.
const AHEAD_MAX: u64 = WINDOWS / 2;
/// A window's word: its number, cut, above so many bits of picoseconds in use.
const USED_BITS: u32 = 32;
/// By how much a number may be larger to be that of a later window. Otherwise it is one of long ago.
const LATER_MAX: u64 = 1 << 20;
/// Bytes of an access of which nobody says how many they are.
pub(crate) const WORD_BYTES: u64 = 8;

/// One direction of a link.
struct Direction<'a> {
    windows: &'a [AtomicU64],
    /// By number of a core in its island: when the last of its own transfers is through.
    through: &'a [AtomicU64],
}

impl<'a> Direction<'a> {
    fn words(config: &QueueConfig) -> usize {
        WINDOWS as usize + config.cores.next_multiple_of(8)
    }

    /// Takes its words from the front of `rest`.
    fn take(config: &QueueConfig, rest: &mut &'a [AtomicU64]) -> Self {
        let (words, after) = rest.split_at(Self::words(config));
        *rest = after;
        let (windows, through) = words.split_at(WINDOWS as usize);
        Self { windows, through }
    }

    /// A transfer of a core at `now_ps`, for `link_ps`: how much later it is through than on a link that nobody uses.
    fn delay(&self, window_ps: u64, core: usize, now_ps: u64, link_ps: u64) -> u64 {
        let begin_ps = now_ps.max(self.through[core].load(Relaxed));
        let through_ps = (begin_ps + link_ps).max(self.last(window_ps, begin_ps, link_ps));
        self.through[core].store(through_ps, Relaxed);
        through_ps - link_ps - now_ps
    }

    /// Takes link time from the first windows that have some: when the last of it ends, as if it were the window's first.
    fn last(&self, window_ps: u64, begin_ps: u64, link_ps: u64) -> u64 {
        let first = begin_ps / window_ps;
        let mut left = link_ps;
        for window in first..first + AHEAD_MAX {
            let taken = self.fill(window, window_ps, left);
            left -= taken;
            if left == 0 {
                return if window == first { begin_ps } else { window * window_ps + taken };
            }
        }
        (first + AHEAD_MAX) * window_ps
    }

    /// Takes up to `wanted_ps` from a window: how much. Of a window that is forgotten, all that is wanted.
    fn fill(&self, window: u64, window_ps: u64, wanted_ps: u64) -> u64 {
        const NUMBERS: u64 = u64::MAX >> USED_BITS;
        let slot = &self.windows[(window % WINDOWS) as usize];
        let number = window & NUMBERS;
        let mut word = slot.load(Relaxed);
        loop {
            let later = (word >> USED_BITS).wrapping_sub(number) & NUMBERS;
            if (1..=LATER_MAX).contains(&later) {
                return wanted_ps;
            }
            let used = if later == 0 { word & NUMBERS } else { 0 };
            let taken = wanted_ps.min(window_ps - used);
            let new = number << USED_BITS | (used + taken);
            match slot.compare_exchange_weak(word, new, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(other) => word = other,
            }
        }
    }
}

/// A link, as one `[[model.access]]` uses it.
pub(crate) struct Queue<'a> {
    config: QueueConfig,
    /// Requests and store data.
    towards: Direction<'a>,
    /// Read data.
    back: Direction<'a>,
}

impl<'a> Queue<'a> {
    /// Words of the region for all links.
    pub(crate) fn words(config: &Config) -> usize {
        config.queues.iter().map(|queue| 2 * Direction::words(queue)).sum()
    }

    /// Takes its words from the front of `rest`.
    pub(crate) fn take(config: &QueueConfig, rest: &mut &'a [AtomicU64]) -> Self {
        Self { config: *config, towards: Direction::take(config, rest), back: Direction::take(config, rest) }
    }

    /// Nothing has been carried.
    pub(crate) fn reset(&self) {
        for Direction { windows, through } in [&self.towards, &self.back] {
            windows.iter().chain(*through).for_each(|word| word.store(0, Relaxed));
        }
    }
}

/// What a core has in the region for its own transfers; only its thread writes it.
pub(crate) struct Sender<'a> {
    /// Its time, as far as the model knows it.
    now_ps: &'a AtomicU64,
    /// Stores that are to become one transfer: their first byte's local address, one past their last one's or 0, and the queue.
    start: &'a AtomicU64,
    end: &'a AtomicU64,
    queue: &'a AtomicU64,
}

impl<'a> Sender<'a> {
    pub(crate) fn new([now_ps, start, end, queue]: &'a [AtomicU64; 4]) -> Self {
        Self { now_ps, start, end, queue }
    }

    /// Nothing is on its way, and time begins.
    pub(crate) fn reset(&self) {
        [self.now_ps, self.start, self.end, self.queue].into_iter().for_each(|word| word.store(0, Relaxed));
    }

    fn advance(&self, by_ps: u64) {
        self.now_ps.store(self.now_ps.load(Relaxed) + by_ps, Relaxed);
    }
}

impl Core<'_> {
    /// Says what time the core's clock shows, for links with a bandwidth. Until it is said again, the model adds only what accesses
    /// over links take.
    #[inline]
    pub fn set_now(&mut self, now_ps: u64) {
        self.state.sender.now_ps.store(now_ps, Relaxed);
    }

    /// [`Core::access`] when the core's clock shows `now_ps`. On a link with a bandwidth, `size` counts, too; other ways of
    /// reporting an access around the caches take it for one of eight bytes.
    pub fn access_at(&mut self, now_ps: u64, kind: Kind, address: u64, size: u32) -> Picoseconds {
        self.set_now(now_ps);
        self.bytes = u64::from(size.max(1));
        let cost = self.access(kind, address, size);
        self.bytes = WORD_BYTES;
        cost
    }

    /// Whether data at a local address is reached around the caches over a link with a bandwidth, so that [`Core::access_at`] is
    /// to be told of accesses.
    pub fn is_over_link(&self, address: u64) -> bool {
        self.segment_at(address).is_some_and(|segment| segment.is_uncached_over_link())
    }

    /// An access around the caches, at a local address: how long the core waits on top of the latency, which is passed on.
    pub(crate) fn wait_uncached(&self, kind: Kind, segment: &Segment, local: u64, latency_ps: u64) -> u64 {
        let bytes = if kind == Kind::Fetch { LINE_SIZE } else { self.bytes };
        let wait_ps = match segment.queue {
            None => self.send_combined(),
            Some(number) if kind == Kind::Store => self.post(number, local, bytes),
            Some(number) => {
                let request = if kind == Kind::Atomic { bytes } else { 0 };
                self.send_combined() + self.read(number, request, bytes)
            }
        };
        self.state.sender.advance(latency_ps);
        wait_ps
    }

    /// A miss that memory beyond a link serves: how long the core waits for its line on top of the latency.
    #[inline(never)]
    pub(crate) fn wait_for_line(&self, queue: usize, latency_ps: u64) -> u64 {
        let wait_ps = self.read(queue, 0, LINE_SIZE);
        self.state.sender.advance(latency_ps);
        wait_ps
    }

    /// A request with so many bytes of data goes, and so many come back.
    fn read(&self, number: usize, request: u64, reply: u64) -> u64 {
        let Queue { config, towards, back } = &self.model.queues[number];
        let (core, now_ps) = (self.number_in_island(), self.state.sender.now_ps.load(Relaxed));
        let [request, reply] = [request, reply].map(|data| data + config.packet_bytes);
        let there_ps = towards.delay(config.window_ps, core, now_ps, config.link_ps(request));
        let back_ps = back.delay(config.window_ps, core, now_ps + there_ps, config.link_ps(reply));
        self.waited(request + reply, there_ps + back_ps)
    }

    /// A store of bytes within a line. It waits for room among those that are posted.
    fn post(&self, number: usize, local: u64, bytes: u64) -> u64 {
        let sender = &self.state.sender;
        if !self.model.queues[number].config.combine {
            return self.send_combined() + self.send(number, bytes);
        }
        let mut wait_ps = 0;
        // Those that end with a line have been sent, so it is the same line, and the same queue.
        if sender.end.load(Relaxed) == local && local != 0 {
            self.count(Count::combined_stores, 1);
        } else {
            wait_ps = self.send_combined();
            sender.start.store(local, Relaxed);
            sender.queue.store(number as u64, Relaxed);
        }
        sender.end.store(local + bytes, Relaxed);
        if (local + bytes).is_multiple_of(LINE_SIZE) {
            wait_ps += self.send_combined();
        }
        wait_ps
    }

    /// Sends the stores that wait to become one transfer.
    pub(crate) fn send_combined(&self) -> u64 {
        let Sender { start, end, queue, .. } = &self.state.sender;
        let end_address = end.load(Relaxed);
        if end_address == 0 {
            return 0;
        }
        end.store(0, Relaxed);
        self.send(queue.load(Relaxed) as usize, end_address - start.load(Relaxed))
    }

    /// Sends data to be stored.
    fn send(&self, number: usize, bytes: u64) -> u64 {
        let Queue { config, towards, .. } = &self.model.queues[number];
        let bytes = bytes + config.packet_bytes;
        let (core, now_ps) = (self.number_in_island(), self.state.sender.now_ps.load(Relaxed));
        let delay_ps = towards.delay(config.window_ps, core, now_ps, config.link_ps(bytes));
        self.waited(bytes, delay_ps.saturating_sub(config.posted_ps))
    }

    fn number_in_island(&self) -> usize {
        self.number - self.model.config.islands[self.state.island].first_core
    }

    /// Books a transfer.
    fn waited(&self, bytes: u64, wait_ps: u64) -> u64 {
        self.count(Count::link_bytes, bytes);
        self.count(Count::stall_link_ps, wait_ps);
        self.state.sender.advance(wait_ps);
        wait_ps
    }
}
