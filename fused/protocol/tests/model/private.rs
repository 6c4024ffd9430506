//! Memory that an island caches without being told of others' stores: what kernels do so that nobody reads an old copy.
//!
//! The board's cache fetches and evicts whatever it likes, whenever it likes. The frames are the allocator's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{CoreId, Frame, Pool};
use motet_protocol::{Context, memory};
use shuttle::rand::Rng;

use crate::harness::{
    BLOCK_FRAMES, Bells, Core, Objects, as_its_core, explore, fresh_pool, must_be_caught, point, quietly, together,
};

const HOST: u8 = 0;
const BOARD: u8 = 1;
/// What the host and the board write.
const OF_HOST: u64 = 1;
const OF_BOARD: u64 = 2;
/// How often the cache does something by itself.
const WHIMS: usize = 4;

/// The first word of a frame, in memory.
fn word(pool: Pool, frame: Frame) -> &'static AtomicU64 {
    pool.at(frame.addr())
}

/// The board's cache: of frames' first words, a copy, and whether it is modified. All that is done to it is one step.
struct Cache {
    pool: Pool,
    lines: Mutex<BTreeMap<u32, (u64, bool)>>,
}

impl Cache {
    fn step<R>(&self, body: impl FnOnce(&mut BTreeMap<u32, (u64, bool)>) -> R) -> R {
        point();
        quietly(|| body(&mut self.lines.lock().expect("never poisoned")))
    }

    fn load(&self, frame: Frame) -> u64 {
        let memory = || (word(self.pool, frame).load(Ordering::Relaxed), false);
        self.step(|lines| lines.entry(frame.0).or_insert_with(memory).0)
    }

    fn store(&self, frame: Frame, value: u64) {
        self.step(|lines| lines.insert(frame.0, (value, true)));
    }

    fn evict(&self, frame: Frame) {
        self.step(|lines| {
            if let Some((value, true)) = lines.remove(&frame.0) {
                word(self.pool, frame).store(value, Ordering::Relaxed);
            }
        });
    }
}

/// The board's core.
#[derive(Clone)]
struct Board {
    core: Core,
    cache: Arc<Cache>,
    /// What it does instead of [`Cache::evict`], where a kernel has a frame leave its caches.
    flush: fn(&Self, Frame),
}

impl Board {
    fn caches(&self, frame: Frame) -> bool {
        quietly(|| memory::is_private_to(self.pool(), frame, usize::from(BOARD)))
    }

    fn load(&self, frame: Frame) -> u64 {
        if self.caches(frame) { self.cache.load(frame) } else { word(self.pool(), frame).load(Ordering::Relaxed) }
    }

    fn store(&self, frame: Frame, value: u64) {
        if self.caches(frame) {
            self.cache.store(frame, value);
        } else {
            word(self.pool(), frame).store(value, Ordering::Relaxed);
        }
    }
}

impl Context for Board {
    as_its_core!();

    fn common_index(&self) -> usize {
        quietly(|| memory::common_share(self.pool()))
    }

    fn flush_frame(&self, frame: Frame) {
        (self.flush)(self, frame);
    }
}

/// A host, a board whose memory is the last block, and a word by which one hands a frame to the other.
struct Machine {
    host: Core,
    board: Board,
    handed: &'static AtomicU64,
}

impl Machine {
    fn new(flush: fn(&Board, Frame)) -> Self {
        let (pool, objects) = fresh_pool(2);
        quietly(|| {
            let blocks = pool.header().memory.block_count.get();
            (0..blocks - 1).for_each(|block| memory::set_near(pool, block, 1 << HOST));
            memory::set_near(pool, blocks - 1, 1 << BOARD);
            memory::set_private(pool, blocks - 1, 1 << BOARD);
            let frames = (blocks - 2) * BLOCK_FRAMES..blocks * BLOCK_FRAMES;
            frames.for_each(|frame| word(pool, Frame(frame)).store(0, Ordering::Relaxed));
        });
        let bells = Arc::new(Bells::default());
        let cache = Arc::new(Cache { pool, lines: Mutex::default() });
        let board = Board { core: Core::new(pool, BOARD, &bells), cache, flush };
        Self { host: Core::new(pool, HOST, &bells), board, handed: Objects::new(pool, objects).make() }
    }

    /// Runs both sides while the cache does what it likes, and pushes all out of it in the end.
    fn run(
        self,
        host: impl FnOnce(&Core, &AtomicU64) + Send + 'static,
        board: impl FnOnce(&Board, &AtomicU64) + Send + 'static,
    ) {
        let Self { host: core, board: actor, handed } = self;
        let cache = actor.cache.clone();
        let whims = move || {
            let frames = u64::from(cache.pool.header().memory.block_count.get() * BLOCK_FRAMES);
            for _ in 0..WHIMS {
                // The allocator gives the first frames of the block.
                let frame = Frame(frames as u32 - BLOCK_FRAMES + shuttle::rand::thread_rng().gen_range(0..2));
                if shuttle::rand::thread_rng().gen_range(0..2) == 0 {
                    cache.evict(frame)
                } else {
                    _ = cache.load(frame)
                }
            }
        };
        together(vec![Box::new(move || host(&core, handed)), Box::new(move || board(&actor, handed)), Box::new(whims)]);
    }
}

fn hand(handed: &AtomicU64, frame: Frame) {
    handed.store(u64::from(frame.0), Ordering::Release);
}

fn wait_for(context: &impl Context, handed: &AtomicU64) -> Frame {
    loop {
        match handed.load(Ordering::Acquire) {
            0 => context.relax(),
            frame => return Frame(frame as u32),
        }
    }
}

/// What the board is done with, another island may use: nothing of the board's goes there later.
fn reuse(flush: fn(&Board, Frame)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let machine = Machine::new(flush);
        let cache = machine.board.cache.clone();
        machine.run(
            |host, handed| {
                let released = wait_for(host, handed);
                let frame = memory::alloc_frame_on(host, usize::from(BOARD)).expect("memory is left");
                assert_eq!(frame, released, "the model is to use the same frame again");
                word(host.pool(), frame).store(OF_HOST, Ordering::Relaxed);
            },
            |board, handed| {
                let frame = memory::alloc_frame(board).expect("memory is left");
                assert!(board.caches(frame), "the model is about such frames");
                board.store(frame, OF_BOARD);
                memory::release_frame(board, frame);
                hand(handed, frame);
            },
        );
        quietly(|| {
            let frames: Vec<u32> = cache.lines.lock().expect("never poisoned").keys().copied().collect();
            frames.iter().for_each(|&frame| cache.evict(Frame(frame)));
            let blocks = cache.pool.header().memory.block_count.get();
            assert_eq!(word(cache.pool, Frame((blocks - 1) * BLOCK_FRAMES)).load(Ordering::Relaxed), OF_HOST);
        });
    }
}

#[test]
fn a_frame_that_was_freed_is_the_next_users_alone() {
    explore(400, reuse(|board, frame| board.cache.evict(frame)));
}

#[test]
fn freeing_what_is_still_in_a_private_cache_is_caught() {
    must_be_caught(400, reuse(|_, _| ()));
}

/// What the host has filled, the board maps and reads; `map`: what it does with the frame that it finds.
fn filled(map: fn(&Board, &AtomicU64) -> Frame) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        Machine::new(|board, frame| board.cache.evict(frame)).run(
            |host, handed| {
                let frame = memory::alloc_frame_on(host, usize::from(BOARD)).expect("memory is left");
                word(host.pool(), frame).store(OF_HOST, Ordering::Relaxed);
                hand(handed, frame);
            },
            move |board, handed| {
                let frame = map(board, handed);
                assert!(board.caches(frame), "the model is about such frames");
                assert_eq!(board.load(frame), OF_HOST, "the board reads an old copy");
            },
        );
    }
}

#[test]
fn who_maps_what_another_island_filled_reads_what_that_wrote() {
    explore(
        400,
        filled(|board, handed| {
            let frame = wait_for(board, handed);
            board.flush_frame(frame);
            frame
        }),
    );
}

#[test]
fn mapping_without_a_flush_is_caught() {
    must_be_caught(400, filled(|board, handed| wait_for(board, handed)));
}

#[test]
fn a_flush_before_the_frame_is_known_to_be_filled_is_caught() {
    must_be_caught(
        400,
        filled(|board, handed| {
            let blocks = quietly(|| board.pool().header().memory.block_count.get());
            board.flush_frame(Frame((blocks - 1) * BLOCK_FRAMES));
            wait_for(board, handed)
        }),
    );
}

/// What both use, the board makes where nobody caches it privately: no flush is needed, on either side.
fn common(alloc: fn(&Board) -> Option<Frame>) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        Machine::new(|board, frame| board.cache.evict(frame)).run(
            |host, handed| {
                let frame = wait_for(host, handed);
                assert_eq!(word(host.pool(), frame).load(Ordering::Relaxed), OF_BOARD, "the host reads an old value");
            },
            move |board, handed| {
                let frame = alloc(board).expect("memory is left");
                board.store(frame, OF_BOARD);
                hand(handed, frame);
            },
        );
    }
}

#[test]
fn structures_of_all_islands_lie_where_nobody_caches_them_privately() {
    explore(400, common(|board| memory::alloc_common_frame(board)));
}

#[test]
fn structures_in_private_memory_are_caught() {
    must_be_caught(400, common(|board| memory::alloc_frame(board)));
}
