//! What the model counts, per core. The words lie in the region, so any process can read them while others count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one core, or of several added up. Counts are of lines: an access across two lines is two.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Place of each count among a core's words.
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types)]
        pub(crate) enum Count { $($name,)* }

        /// The names of all counts, in order.
        pub const fn counter_names() -> &'static [&'static str] {
            &[$(stringify!($name),)*]
        }

        impl Counters {
            fn of_words(words: &CounterWords) -> Self {
                Self { $($name: words[Count::$name as usize].load(Relaxed),)* }
            }

            /// All counts, in the order of [`counter_names`].
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$name,)*]
            }

            /// What was counted since an earlier snapshot.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }

            /// The sum, of two cores or two regions of interest.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($name: self.$name.wrapping_add(other.$name),)* }
            }
        }
    };
}

counters! {
    /// Instruction fetches through the caches. (The first five are in the order of `Kind`.)
    fetches,
    /// Loads through the caches.
    loads,
    /// Stores through the caches.
    stores,
    /// Atomic read-modify-writes through the caches.
    atomics,
    /// Page-table entries read by the hardware walker, through the data cache.
    walks,
    /// Instructions executed.
    instructions,
    /// Their time without memory stalls.
    instruction_ps,
    /// Fetches that missed L1I.
    l1i_misses,
    /// Data accesses that missed L1D.
    l1d_misses,
    /// Fetches that missed L2. Without an L2, as many as missed L1.
    l2i_misses,
    /// Data accesses that missed L2.
    l2d_misses,
    /// Fetches that missed the last-level cache.
    l3i_misses,
    /// Data accesses that missed the last-level cache.
    l3d_misses,
    /// Misses that near memory (or private memory) served.
    near_reads,
    /// Misses that far memory served.
    far_reads,
    /// Stores that found the line in L1 or L2, but shared, and had to become its only owner first.
    upgrades,
    /// Modified lines that this core's L1D gave to its L2 to make room.
    l1_write_backs,
    /// Modified lines that this core's accesses moved from an L2, its own or a peer's, to the last level.
    l2_write_backs,
    /// Modified lines that this core's accesses made go to memory, from any last-level cache.
    memory_write_backs,
    /// Other last-level caches whose exclusive line became shared for this core's reads.
    snoop_data,
    /// Other last-level caches that lost a line to this core's writes.
    snoop_invalidates,
    /// Cores under the same last-level cache that handed over an exclusive line for this core's reads.
    peer_data,
    /// Cores under the same last-level cache that lost a line to this core's writes.
    peer_invalidates,
    /// Copies in cores taken back because this core's miss needed their place in the last-level cache.
    back_invalidates,
    /// Lines that others' accesses took away from this core.
    invalidations_received,
    /// Exclusive lines of this core that others' reads made shared.
    downgrades_received,
    /// Fetches around the caches.
    uncached_fetches,
    /// Data reads around the caches.
    uncached_reads,
    /// Data writes around the caches, atomics included.
    uncached_writes,
    /// Atomic read-modify-writes around the caches of memory that is not near. A link need not keep them whole: an error of the
    /// software.
    far_atomics,
    /// Reads that hardware might have answered with old data, because a private cache was not told: an error of the software.
    stale_reads,
    /// Lines of the pool that software had leave its island's private caches.
    flushed_lines,
    /// Accesses to devices: where there is no memory.
    device_accesses,
    /// Accesses that touched more than one line.
    straddles,
    /// Time of accesses that L1 served.
    stall_l1_ps,
    /// Time of accesses that L2 served.
    stall_l2_ps,
    /// Time of accesses that the last-level cache served.
    stall_l3_ps,
    /// Time of accesses that near memory served.
    stall_near_ps,
    /// Time of accesses that far memory served.
    stall_far_ps,
    /// Time that coherence added: snoops, invalidations, ownership, back-invalidations, write-backs.
    stall_coherence_ps,
    /// Time of accesses around the caches.
    stall_uncached_ps,
    /// Time of device accesses.
    stall_device_ps,
    /// Faults, interrupts and system calls: times that the core went from what it ran to a handler of its kernel.
    traps,
    /// Times that it came back from one.
    trap_returns,
    /// Interrupts that it told its interrupt controller to have handled.
    interrupt_ends,
    /// Times that it woke from sleep by anything else than another core's doorbell.
    wakes,
    /// Time of these four. It is no stall.
    trap_ps,
    /// Fetches whose page the first-level TLB for instructions did not have.
    itlb_misses,
    /// Data accesses whose page the first-level TLB for data did not have.
    dtlb_misses,
    /// Walks: misses that no TLB had.
    tlb_walks,
    /// Instructions that drop translations.
    tlb_flushes,
    /// Translations that they dropped, each counted in each TLB that had it.
    tlb_flushed,
    /// Time of looking in the second-level TLB. What walks read is in the times above.
    stall_tlb_ps,
    /// Bytes that crossed links with a bandwidth for this core, in both directions, those beside the data included.
    link_bytes,
    /// Stores that went with the transfer of the store before.
    combined_stores,
    /// Time that reads waited for a link that was in use, and stores for room before it. It is in none of the times above.
    stall_link_ps,
    /// Lines that this core got back after others had had them out of turn: earlier or later than its own accesses say
    /// ([`Core::note_clock`](crate::Core::note_clock)).
    doubtful_exchanges,
    /// Time in which this core used such lines as if nobody else had, or was told too early of what others did. It is in none of the
    /// times above.
    doubtful_ps,
}

/// What is counted once where several counts would go up together, in words behind theirs.
#[derive(Clone, Copy)]
pub(crate) enum Together {
    /// Lines that L1I and L1D lost, or the right to write them, because this core's misses needed their place in another cache or
    /// because other cores wanted them: in none of the counts.
    LostLines,
    /// Data accesses of a core that has its directory to itself that near memory served: a miss of each level, and a read.
    DataFromNear,
    /// The same from far memory.
    DataFromFar,
    /// Those that L3 served: a miss of L1 and of L2.
    DataFromL3,
    /// Modified lines that left L2 where it is the last level: written back by it, and to memory.
    WriteBacks,
    /// Lines that this core asked for again soon after others had taken them: in none of the counts.
    LinesBack,
}

const TOGETHER: usize = Together::LinesBack as usize + 1;
/// Words of a core's counters in the region, whole lines.
pub(crate) const COUNTER_WORDS: usize = (counter_names().len() + TOGETHER).next_multiple_of(8);
/// A core's counters in the region.
pub(crate) type CounterWords = [AtomicU64; COUNTER_WORDS];

/// Adds to a word that only this thread writes.
#[inline(always)]
pub(crate) fn bump(words: &CounterWords, count: Count, by: u64) {
    add(&words[count as usize], by);
}

/// Adds one to a word that other threads may write, too, if `racing`.
pub(crate) fn bump_shared(words: &CounterWords, count: Count, racing: bool) {
    add_shared(&words[count as usize], racing);
}

fn add_shared(word: &AtomicU64, racing: bool) {
    if racing {
        word.fetch_add(1, Relaxed);
    } else {
        add(word, 1);
    }
}

#[inline(always)]
fn add(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Together {
    /// The word that has it.
    #[inline(always)]
    pub(crate) fn word(self, words: &CounterWords) -> &AtomicU64 {
        &words[counter_names().len() + self as usize]
    }

    /// Counts one, of what other threads count as well if `racing`.
    pub(crate) fn count_shared(self, words: &CounterWords, racing: bool) {
        add_shared(self.word(words), racing);
    }

    /// Counts one; only this thread writes the word.
    #[inline(always)]
    pub(crate) fn count(self, words: &CounterWords) {
        add(self.word(words), 1);
    }
}

/// Misses of both L1s.
pub(crate) fn l1_misses(words: &CounterWords) -> u64 {
    let [near, far] = [Together::DataFromNear, Together::DataFromFar];
    let together = [near, far, Together::DataFromL3].map(|count| count.word(words));
    let apart = [Count::l1i_misses, Count::l1d_misses].map(|count| &words[count as usize]);
    together.iter().chain(&apart).fold(0, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

impl Counters {
    pub(crate) fn load(words: &CounterWords) -> Self {
        let together = |count: Together| count.word(words).load(Relaxed);
        let data = [Together::DataFromNear, Together::DataFromFar].map(together);
        let write_backs = together(Together::WriteBacks);
        let mut counters = Self::of_words(words);
        for misses in [&mut counters.l1d_misses, &mut counters.l2d_misses, &mut counters.l3d_misses] {
            *misses += data[0] + data[1];
        }
        for misses in [&mut counters.l1d_misses, &mut counters.l2d_misses] {
            *misses += together(Together::DataFromL3);
        }
        counters.near_reads += data[0];
        counters.far_reads += data[1];
        counters.l2_write_backs += write_backs;
        counters.memory_write_backs += write_backs;
        counters
    }

    /// Data accesses through the caches.
    pub fn data_accesses(&self) -> u64 {
        self.loads + self.stores + self.atomics + self.walks
    }

    /// Time of all memory accesses.
    pub fn stall_ps(&self) -> u64 {
        self.stall_l1_ps
            + self.stall_l2_ps
            + self.stall_l3_ps
            + self.stall_near_ps
            + self.stall_far_ps
            + self.stall_coherence_ps
            + self.stall_uncached_ps
            + self.stall_device_ps
            + self.stall_tlb_ps
            + self.stall_link_ps
    }

    /// Share of accesses that hit, from 0 to 1, in L1I, L1D, L2 and L3; of none, 1.
    pub fn hit_rates(&self) -> [f64; 4] {
        let rate = |accesses: u64, misses: u64| 1.0 - misses as f64 / accesses.max(1) as f64;
        let (l1, l2) = (self.l1i_misses + self.l1d_misses, self.l2i_misses + self.l2d_misses);
        [
            rate(self.fetches, self.l1i_misses),
            rate(self.data_accesses(), self.l1d_misses),
            rate(l1, l2),
            rate(l2, self.l3i_misses + self.l3d_misses),
        ]
    }
}
