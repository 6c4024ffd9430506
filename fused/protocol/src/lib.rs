//! Algorithms over the pool's bytes: what every kernel (and the host) does to shared structures.
//!
//! Everything here is ISA-neutral, allocation-free and safe; it runs in kernels, in the host's fabric, and in tests.
//! An operation takes a [`Context`]: who acts, on which pool, and what to do while it spins.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod bound;
pub mod clock;
pub mod cores;
pub mod direct;
pub mod dma;
pub mod dsm;
pub mod engine;
pub mod format;
pub mod fpga;
pub mod fs;
pub mod gic;
pub mod groups;
pub mod hand;
pub mod handed;
pub mod hotplug;
pub mod ipc;
pub mod leaf;
pub mod lock;
pub mod memory;
pub mod message;
pub mod noncoherent;
pub mod notify;
pub mod orphans;
pub mod owner;
pub mod peer;
pub mod pipe;
mod queue;
pub mod range_tree;
pub mod ranges;
pub mod ready;
pub mod recover;
pub mod rejoin;
pub mod replicas;
pub mod residency;
pub mod ring;
pub mod run_queue;
pub mod schedule;
pub mod service;
pub mod shootdown;
pub mod slab;
pub mod stacked;
pub mod stamp;
pub mod stream;
pub mod threads;
pub mod timer;
pub mod trace;
pub mod treap;
pub mod wait;
pub mod watch;

use motet_layout::{
    CoreId, CoreRecord, Frame, ISLANDS_MAX, InodeRecord, IslandCounters, IslandId, IslandRecord, LockClass, Pool,
    PoolAddr, PoolSafe, ThreadRecord,
};

/// Who acts on the pool.
pub trait Context {
    /// The acting core ([`CoreId::HOST`] for the host): the holder of the locks it takes.
    fn core(&self) -> CoreId;

    /// How often the acting core's island had died when it started ([`rejoin`]); 0 for the host. Part of the words of the locks that it takes.
    #[inline(always)]
    fn life(&self) -> u32 {
        0
    }

    /// The pool.
    fn pool(&self) -> Pool;

    /// Called in every spin loop. A kernel carries out shoot-downs asked of its core here, so that no wait for a lock
    /// can keep another core waiting for this one.
    fn relax(&self);

    /// Carries out shoot-downs, where the actor holds no lock, has no thread in transit, and no reference that is not counted.
    fn pass(&self)
    where
        Self: Sized,
    {
        shootdown::pass(self, || ());
    }

    /// Whether the actor acts for a user who is not the superuser, and so leaves the last memory to that.
    #[inline(always)]
    fn is_limited(&self) -> bool {
        false
    }

    /// Frames of objects that are free wait to go back: the actor calls [`slab::return_retired`] before it runs user code again.
    fn objects_retired(&self) {}

    /// An owner of a file is to be told of it by a signal ([`owner`]): the actor sends it as soon as it holds no lock.
    fn owner_told(&self) {}

    /// Interrupts a core. Orders earlier stores before the interrupt.
    fn ring(&self, target: CoreId);

    /// This core has written what `target` looks at in a loop. For who keeps the time of a simulated machine.
    #[inline(always)]
    fn wrote(&self, _target: CoreId) {}

    /// Starts this core's engine, which transfers what its record says to `target` ([`dma`]), and interrupts that when it has arrived. `false`: there
    /// is no room where it goes to. Without an engine, the core copies itself.
    fn transfer(&self, target: CoreId) -> bool {
        let receiver = &self.pool().header().cores[target.index()];
        let is_taken = dma::transfer(self.core(), self.own_record(), receiver, 1);
        if is_taken {
            self.ring(target);
        }
        is_taken
    }

    /// Waits until what an engine has transferred has arrived. Where the simulator is the engine, it is there earlier.
    #[inline(always)]
    fn await_transfer(&self, _arrives_ns: u64) {}

    /// A thread that waited has been made ready, and `target` is about to get it. For a kernel's trace.
    #[inline(always)]
    fn woke(&self, _thread: &ThreadRecord, _target: CoreId) {}

    /// This core looks for more urgent threads as soon as it has woken those that are due: its own need not be told.
    #[inline(always)]
    fn looks_at_ready(&self) -> bool {
        false
    }

    /// Nobody uses a large file any more: the actor will free it in pieces ([`fs::free_some`]). `false`: it is to be freed now.
    #[inline(always)]
    fn free_later(&self, _inode: &'static InodeRecord) -> bool {
        false
    }

    /// A file goes that names a queue of messages: so does the queue (`ipc::posix::end`). `fs` knows files, and no queues.
    fn end_queue(&self, _inode: &InodeRecord) {}

    /// The service core is to look at what kernels say of its clients. Without a simulator, the host is rung.
    fn tell_service(&self) {}

    /// A piece of long work was done under locks, which has cost about so many instructions. A kernel looks now and then what
    /// else is due on its core, as far as that takes no lock but those below wait queues.
    #[inline(always)]
    fn spend_locked(&self, _cost: u64) {}

    /// Repairs what a lock protects that a dead core held and this one has taken over. `false`: it cannot be repaired.
    fn recover(&self, class: LockClass, lock: PoolAddr) -> bool
    where
        Self: Sized,
    {
        recover::recover(self, class, lock)
    }

    /// Fills a frame with zeroes.
    #[inline(always)]
    fn zero_frame(&self, frame: Frame) {
        self.pool().zero_frame(frame);
    }

    /// The acting core's record.
    #[inline(always)]
    fn own_record(&self) -> &'static CoreRecord {
        &self.pool().header().cores[self.core().index()]
    }

    /// Whether there are islands that do not cache each other's memory (`PoolHeader::uncached`).
    #[inline(always)]
    fn is_uncached(&self) -> bool {
        self.pool().header().uncached.get() != 0
    }

    /// How many islands the machine has. A kernel knows it without a look.
    #[inline(always)]
    fn island_count(&self) -> usize {
        (self.pool().header().island_count.get() as usize).min(ISLANDS_MAX)
    }

    /// Islands whose cores may call this one, a bit each. A kernel knows when its own has no others.
    #[inline(always)]
    fn callers(&self) -> u32 {
        u32::MAX
    }

    /// Whether the cores of an island look for what is stored for them before they sleep. A kernel knows it without a look.
    #[inline(always)]
    fn polls(&self, island: IslandId) -> bool {
        self.pool().header().islands[island.index()].poll_ns.get() != 0
    }

    /// Index of the actor's share of memory: its island, or [`ISLANDS_MAX`] for the host.
    #[inline(always)]
    fn memory_index(&self) -> usize {
        self.core().index() / motet_layout::CORES_PER_ISLAND_MAX
    }

    /// Index of the share of memory for what islands use together: the actor's own, unless there are islands that do not cache
    /// each other's memory ([`memory::common_share`]).
    #[inline(always)]
    fn common_index(&self) -> usize {
        self.memory_index()
    }

    /// Has a frame leave the caches of the actor's island, modified lines to memory, if these are not told of others' stores.
    #[inline(always)]
    fn flush_frame(&self, _frame: Frame) {}

    /// The blocks (by number) that frames for files must be of; `None`: any.
    #[inline(always)]
    fn blocks(&self) -> Option<core::ops::Range<u32>> {
        None
    }

    /// The actor's island record; the host counts on island 0's.
    #[inline(always)]
    fn island_record(&self) -> &'static IslandRecord {
        &self.pool().header().islands[self.memory_index() % ISLANDS_MAX]
    }

    /// Counters of the actor's island.
    #[inline(always)]
    fn counters(&self) -> &'static IslandCounters {
        &self.island_record().counters
    }

    /// The object at a raw address word, `None` for 0. A word that names no object is another island's mistake: it is none either, so that lists
    /// end there, and that [is said](Self::damaged).
    #[inline(always)]
    #[track_caller]
    fn object<T: PoolSafe>(&self, raw: u64) -> Option<&'static T> {
        let object = self.pool().get(PoolAddr(raw));
        if object.is_none() && raw != 0 {
            self.damaged(raw);
        }
        object
    }

    /// A word that should have been 0 or named an object does not. Where protocols are explored, nobody may write such a word.
    #[cold]
    #[track_caller]
    fn damaged(&self, raw: u64) {
        #[cfg(motet_model)]
        panic!("{raw:#x} names no object");
        #[cfg(not(motet_model))]
        let _ = raw;
    }

    /// The raw address word of an object in the pool.
    #[inline(always)]
    fn raw<T: PoolSafe>(&self, object: &'static T) -> u64 {
        self.pool().addr_of(object).0
    }
}

/// Adds to a statistics counter.
#[inline(always)]
pub fn add(counter: &motet_layout::sync::AtomicU64, n: usize) {
    if n != 0 {
        counter.fetch_add(n as u64, motet_layout::sync::Ordering::Relaxed);
    }
}

/// Adds one to a statistics counter.
#[inline(always)]
pub fn count(counter: &motet_layout::sync::AtomicU64) {
    counter.fetch_add(1, motet_layout::sync::Ordering::Relaxed);
}
