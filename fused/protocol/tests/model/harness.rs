//! Pools, cores and schedules for models.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use motet_layout::{
    CORE_AWAKE, CORE_IDLE, CoreId, DMA_NONE, ISLANDS_MAX, IslandId, PAGE_SIZE, Pool, PoolAddr, PoolSafe,
    THREAD_RUNNING, ThreadRecord,
};
use motet_protocol::{Context, dma, memory, run_queue};
use shuttle::sync::{Condvar, Mutex};

/// Bytes of a model's pool: the least there can be.
const POOL_LEN: u64 = memory::POOL_LEN_MIN;
/// Frames in a block: the least there can be.
pub const BLOCK_FRAMES: u32 = 64;
/// Bytes at the beginning that a run may dirty: header, tables, and objects of the model.
const DIRTY_LEN: usize = 5 << 18;
/// Room for objects of a model.
const OBJECTS_LEN: u64 = 128 << 10;

std::thread_local! {
    static POOL: Cell<Option<Pool>> = const { Cell::new(None) };
    /// Whether atomic operations are scheduling points: not while a model is set up or judged.
    static EXPLORES: Cell<bool> = const { Cell::new(false) };
    /// The actor that is to die, and before which of its next operations on the pool.
    static DOOMED: Cell<Option<(shuttle::thread::ThreadId, u32)>> = const { Cell::new(None) };
}

/// What an actor that dies unwinds with.
struct Death;

fn before_operation() {
    if EXPLORES.get() {
        if let Some((actor, left)) = DOOMED.get()
            && actor == shuttle::thread::current().id()
        {
            DOOMED.set(left.checked_sub(1).map(|left| (actor, left)));
            if left == 0 {
                std::panic::resume_unwind(Box::new(Death));
            }
        }
        // Any operation on one of shuttle's own atomics is a scheduling point.
        shuttle::sync::atomic::AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
    }
}

/// A scheduling point: before a step that is no operation on the pool.
pub fn point() {
    before_operation();
}

/// Does as much as `operations` operations on the pool, and nothing more. What `act` has on its stack must do nothing when it is dropped.
pub fn dies_after(operations: u32, act: impl FnOnce()) {
    DOOMED.set(Some((shuttle::thread::current().id(), operations)));
    let ended = catch_unwind(AssertUnwindSafe(act));
    DOOMED.set(None);
    if let Err(payload) = ended.map_err(|payload| payload.downcast::<Death>()) {
        payload.map(drop).unwrap_or_else(|payload| std::panic::resume_unwind(payload));
    }
}

/// What somebody sleeps on until it is rung.
#[derive(Default)]
pub struct Bell(Mutex<bool>, Condvar);

impl Bell {
    pub fn ring(&self) {
        *self.0.lock().expect("no panic while it was held") = true;
        self.1.notify_all();
    }

    pub fn sleep(&self) {
        let mut rung = self.0.lock().expect("no panic while it was held");
        while !*rung {
            rung = self.1.wait(rung).expect("no panic while it was held");
        }
        *rung = false;
    }
}

/// Runs `body` without scheduling points: set-up and ghost code.
pub fn quietly<R>(body: impl FnOnce() -> R) -> R {
    let before = EXPLORES.replace(false);
    let result = body();
    EXPLORES.set(before);
    result
}

/// Times as many schedules in `./motet test long`.
const ITERATIONS_LONG: usize = 10;

/// Explores a model: many random schedules and many with few preemptions at random places.
pub fn explore(iterations: usize, model: impl Fn() + Clone + Send + Sync + 'static) {
    let iterations = if std::env::var_os("MOTET_LONG").is_some() { ITERATIONS_LONG * iterations } else { iterations };
    motet_layout::sync::set_hook(before_operation);
    let run = move || {
        EXPLORES.set(true);
        model();
        EXPLORES.set(false);
    };
    shuttle::check_random(run.clone(), iterations);
    shuttle::check_pct(run, iterations, 3);
}

/// Explores a model that is broken on purpose.
///
/// # Panics
/// When no schedule shows that it is broken.
pub fn must_be_caught(iterations: usize, model: impl Fn() + Clone + Send + Sync + 'static) {
    let caught = catch_unwind(AssertUnwindSafe(|| explore(iterations, model))).is_err();
    EXPLORES.set(false);
    assert!(caught, "a broken variant passed {iterations} schedules: the model cannot fail");
}

/// The pool of this test's thread, laid out anew, with `free_blocks` blocks that nobody owns. Returns where a model's
/// own objects may lie.
pub fn fresh_pool(free_blocks: u64) -> (Pool, PoolAddr) {
    quietly(|| {
        let pool = POOL.get().unwrap_or_else(map_pool);
        POOL.set(Some(pool));
        pool.zero(PoolAddr::NULL, DIRTY_LEN);
        let header = pool.header();
        header.pool_len.set(POOL_LEN);
        header.island_count.set(3);
        let block_len = u64::from(BLOCK_FRAMES) * 4096;
        // Whatever is not to be free is "extra".
        let tables = memory::format(pool, BLOCK_FRAMES, OBJECTS_LEN).expect("a model's pool fits");
        pool.zero(PoolAddr::NULL, DIRTY_LEN);
        header.pool_len.set(POOL_LEN);
        header.island_count.set(3);
        let extra = POOL_LEN - free_blocks * block_len - tables.0;
        let objects = memory::format(pool, BLOCK_FRAMES, extra).expect("a model's pool fits");
        for island in &header.islands[..3] {
            island.core_count.set(1);
        }
        (pool, objects)
    })
}

fn map_pool() -> Pool {
    let words: &'static mut [u64] = vec![0u64; POOL_LEN as usize / 8 + 512].leak();
    let base = words.as_mut_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(4096));
    // SAFETY: page-aligned, POOL_LEN bytes with room to spare, leaked, used in no other way.
    unsafe { Pool::new(base, POOL_LEN) }
}

/// Hands out zeroed objects of a model.
pub struct Objects {
    pub pool: Pool,
    next: Cell<u64>,
}

impl Objects {
    pub fn new(pool: Pool, base: PoolAddr) -> Self {
        Self { pool, next: Cell::new(base.0) }
    }

    pub fn make<T: PoolSafe>(&self) -> &'static T {
        // As the kernel's slabs do: what is as large as a frame fills one.
        let align = if size_of::<T>() == PAGE_SIZE as usize { PAGE_SIZE } else { 64 };
        let at = self.next.get().next_multiple_of(align);
        self.next.set(at + size_of::<T>() as u64);
        self.pool.at(PoolAddr(at))
    }

    /// A running thread that last ran on `core`, and may run on any.
    pub fn thread(&self, core: CoreId) -> &'static ThreadRecord {
        quietly(|| {
            let thread = self.make::<ThreadRecord>();
            thread.state.store(THREAD_RUNNING, std::sync::atomic::Ordering::Relaxed);
            thread.core.store(u32::from(core.0), std::sync::atomic::Ordering::Relaxed);
            for word in thread.affinity.iter().chain(&thread.able) {
                word.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
            }
            thread
        })
    }
}

/// Doorbells of all cores: pending flags that a sleeping core waits for.
#[derive(Default)]
pub struct Bells {
    pending: [Mutex<bool>; ISLANDS_MAX],
    rung: [Condvar; ISLANDS_MAX],
    /// Rings and announcements of sleep so far, per island (of one core each).
    pub rings: [std::sync::atomic::AtomicU32; ISLANDS_MAX],
    pub announcements: [std::sync::atomic::AtomicU32; ISLANDS_MAX],
}

/// Core 0 of an island.
#[derive(Clone)]
pub struct Core {
    pool: Pool,
    id: CoreId,
    pub bells: Arc<Bells>,
    /// The core's engine, which carries what the core's record says to another core while that goes on.
    pub engine: fn(&Self, CoreId),
}

impl Core {
    /// The only core of an island, awake.
    pub fn new(pool: Pool, island: u8, bells: &Arc<Bells>) -> Self {
        let id = CoreId::new(IslandId(island), 0);
        quietly(|| {
            let record = &pool.header().cores[id.index()];
            record.state.store(CORE_AWAKE, std::sync::atomic::Ordering::Relaxed);
            record.dma_place.set(DMA_NONE);
        });
        Self { pool, id, bells: bells.clone(), engine: carry }
    }

    fn island(&self) -> usize {
        self.id.island().index()
    }

    /// Counts that this core is about to say that it will sleep.
    pub fn announce(&self) {
        self.bells.announcements[self.island()].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// `wait_for_interrupt`.
    pub fn sleep(&self) {
        let mut pending = self.bells.pending[self.island()].lock().expect("no panic while it was held");
        while !*pending {
            pending = self.bells.rung[self.island()].wait(pending).expect("no panic while it was held");
        }
        *pending = false;
    }

    /// A ring that came before has been taken, for something else.
    pub fn forget_ring(&self) {
        *self.bells.pending[self.island()].lock().expect("no panic while it was held") = false;
    }

    /// The next thread for this core; sleeps as a kernel does while there is none.
    pub fn next_thread(&self) -> &'static ThreadRecord {
        loop {
            if let Some(thread) = run_queue::next(self) {
                return thread;
            }
            self.announce();
            if run_queue::begin_idle(self, CORE_IDLE) {
                self.sleep();
            }
            run_queue::end_idle(self);
        }
    }
}

impl Context for Core {
    fn core(&self) -> CoreId {
        self.id
    }

    fn pool(&self) -> Pool {
        self.pool
    }

    fn relax(&self) {
        shuttle::thread::yield_now();
    }

    fn transfer(&self, target: CoreId) -> bool {
        let engine = self.clone();
        shuttle::thread::spawn(move || (engine.engine)(&engine, target));
        true
    }

    fn await_transfer(&self, _arrives_ns: u64) {
        while self.own_record().dma_place.get() != DMA_NONE {
            self.relax();
        }
    }

    fn ring(&self, target: CoreId) {
        let island = target.island().index();
        self.bells.rings[island].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        *self.bells.pending[island].lock().expect("no panic while it was held") = true;
        self.bells.rung[island].notify_all();
    }
}

/// What a model's own kind of core has of its field `core`.
macro_rules! as_its_core {
    () => {
        fn core(&self) -> CoreId {
            self.core.core()
        }

        fn pool(&self) -> Pool {
            self.core.pool()
        }

        fn relax(&self) {
            self.core.relax();
        }

        fn ring(&self, target: CoreId) {
            self.core.ring(target);
        }
    };
}
pub(crate) use as_its_core;

/// What an engine does.
fn carry(engine: &Core, target: CoreId) {
    let receiver = &engine.pool.header().cores[target.index()];
    assert!(dma::transfer(engine.id, engine.own_record(), receiver, 1), "there is nothing to transfer, or no room");
    engine.ring(target);
}

/// Runs all actors to their end.
pub fn together(actors: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = actors.into_iter().map(shuttle::thread::spawn).collect();
    for thread in threads {
        thread.join().expect("an actor panicked");
    }
}
