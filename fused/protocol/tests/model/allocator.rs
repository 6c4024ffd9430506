//! The block allocator: no frame is given twice, all come back, blocks move between islands.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use motet_layout::sync::Ordering;
use motet_layout::{DISTANCES, Frame, Pool};
use motet_protocol::{Context, memory};

use crate::harness::{BLOCK_FRAMES, Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};

pub const BLOCKS: u64 = 3;

/// Frames that are in use; ghost state, no scheduling points.
#[derive(Default)]
pub struct InUse(Mutex<BTreeSet<u32>>);

impl InUse {
    pub fn add(&self, frame: Frame) {
        assert!(self.0.lock().expect("never poisoned").insert(frame.0), "frame {:#x} was given twice", frame.0);
    }

    pub fn remove(&self, frame: Frame) {
        assert!(self.0.lock().expect("never poisoned").remove(&frame.0), "frame {:#x} was not in use", frame.0);
    }
}

/// Checks the tables against each other when nothing is in use.
pub fn check_all_free(pool: Pool) {
    quietly(|| {
        let state = &pool.header().memory;
        let mut frames = state.free_blocks.load(Ordering::Relaxed) * BLOCK_FRAMES;
        for (index, share) in state.islands.iter().enumerate() {
            let (free, owned) = (share.free_frames.load(Ordering::Relaxed), share.owned_frames.load(Ordering::Relaxed));
            assert_eq!(free, owned, "island {index} misses frames");
            frames += free;
            let listed: u32 = (0..DISTANCES).map(|distance| check_list(pool, index, distance)).sum();
            assert_eq!(listed, owned, "island {index}'s lists of blocks");
        }
        assert_eq!(u64::from(frames), BLOCKS * u64::from(BLOCK_FRAMES), "frames were lost");
    });
}

/// Checks one of an island's lists when nothing is in use; frames in it.
fn check_list(pool: Pool, island: usize, distance: usize) -> u32 {
    let share = &pool.header().memory.islands[island];
    let mut at = share.first[distance].get();
    let mut listed = 0;
    while at != 0 {
        let block = memory::block(pool, at - 1);
        assert_eq!(block.owner.load(Ordering::Relaxed), island as u32 + 1, "block {} is in a foreign list", at - 1);
        assert_eq!(memory::distance(block.near.get(), island), distance, "block {} is in the wrong list", at - 1);
        assert_eq!(block.free.get(), BLOCK_FRAMES);
        listed += BLOCK_FRAMES;
        at = block.next.get();
    }
    assert_eq!((share.free_by_distance[distance].get(), share.owned_by_distance[distance].get()), (listed, listed));
    listed
}

/// Three islands that do something with memory and give free blocks back: afterwards all is free.
pub fn three_islands(iterations: usize, does: impl Fn(u8, &Core, &InUse) + Clone + Send + Sync + 'static) {
    explore(iterations, move || {
        let (pool, _) = fresh_pool(BLOCKS);
        let bells = Arc::new(Bells::default());
        let in_use = Arc::new(InUse::default());
        let actor = |island: u8| -> Box<dyn FnOnce() + Send> {
            let (core, in_use, does) = (Core::new(pool, island, &bells), in_use.clone(), does.clone());
            Box::new(move || does(island, &core, &in_use))
        };
        together((0..3).map(actor).collect());
        check_all_free(pool);
    });
}

/// Each of three islands allocates, frees, and gives blocks back.
#[test]
fn frames_are_given_once_and_come_back() {
    three_islands(300, |_, core, in_use| {
        for _ in 0..2 {
            let frames: Vec<Frame> = (0..3).map_while(|_| memory::alloc_frame(core)).collect();
            frames.iter().for_each(|&frame| in_use.add(frame));
            for frame in frames {
                in_use.remove(frame);
                memory::release_frame(core, frame);
            }
            memory::return_free_blocks(core);
        }
    });
}

/// An island under pressure takes the last block while another gives one back; frames are freed by strangers.
#[test]
fn blocks_move_under_pressure() {
    explore(60, || {
        let (pool, _) = fresh_pool(BLOCKS);
        let bells = Arc::new(Bells::default());
        let in_use = Arc::new(InUse::default());
        let (first, second) = (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells));
        // Island 0 owns two blocks, the upper one all free but for some frames that island 1 will drop.
        let held: Vec<Frame> = quietly(|| (0..50).filter_map(|_| memory::alloc_frame(&first)).collect());
        assert_eq!(held.len(), 50);
        let stranger = {
            let (in_use, held) = (in_use.clone(), held.clone());
            move || {
                for &frame in &held[2..] {
                    memory::release_frame(&second, frame);
                }
                let frame = memory::alloc_frame(&second).expect("memory is left");
                in_use.add(frame);
                in_use.remove(frame);
                memory::release_frame(&second, frame);
            }
        };
        let core = first.clone();
        let owner = move || {
            for _ in 0..3 {
                memory::return_free_blocks(&core);
                let frame = memory::alloc_frame(&core).expect("memory is left");
                in_use.add(frame);
                in_use.remove(frame);
                memory::release_frame(&core, frame);
            }
        };
        together(vec![Box::new(stranger), Box::new(owner)]);
        quietly(|| held[..2].iter().for_each(|&frame| memory::release_frame(&first, frame)));
        check_all_free(pool);
    });
}

/// Says that the last three blocks, which are all that is free, are near to islands 0, 1 and none.
fn place_blocks(pool: Pool) -> [u32; 3] {
    let count = pool.header().memory.block_count.get();
    let blocks = [count - 3, count - 2, count - 1];
    blocks.into_iter().zip([0b01, 0b10, 0]).for_each(|(block, near)| memory::set_near(pool, block, near));
    blocks
}

/// Islands whose own memory is full take each other's and give it back, in all orders.
#[test]
fn near_and_far_blocks_move_under_pressure() {
    explore(60, || {
        let (pool, _) = fresh_pool(BLOCKS);
        quietly(|| place_blocks(pool));
        let bells = Arc::new(Bells::default());
        let in_use = Arc::new(InUse::default());
        let cores = [Core::new(pool, 0, &bells), Core::new(pool, 1, &bells)];
        let frames = BLOCK_FRAMES as usize - 1;
        let held = cores
            .clone()
            .map(|core| quietly(|| (0..frames).filter_map(|_| memory::alloc_frame(&core)).collect::<Vec<Frame>>()));
        let actor = |core: Core| -> Box<dyn FnOnce() + Send> {
            let in_use = in_use.clone();
            Box::new(move || {
                let frames: Vec<Frame> = (0..3).map_while(|_| memory::alloc_frame(&core)).collect();
                frames.iter().for_each(|&frame| in_use.add(frame));
                for frame in frames {
                    in_use.remove(frame);
                    memory::release_frame(&core, frame);
                }
                memory::return_free_blocks(&core);
            })
        };
        together(cores.iter().cloned().map(actor).collect());
        quietly(|| held.iter().flatten().for_each(|&frame| memory::release_frame(&cores[0], frame)));
        check_all_free(pool);
    });
}

/// An island fills its own memory, then memory of nobody, then others'; what is freed near is used again first.
#[test]
fn memory_near_the_island_is_taken_first() {
    let (pool, _) = fresh_pool(BLOCKS);
    quietly(|| {
        let [near, far, neutral] = place_blocks(pool);
        let core = Core::new(pool, 0, &Arc::new(Bells::default()));
        let block_of = |frame: Frame| frame.0 / BLOCK_FRAMES;
        let frames: Vec<Frame> = std::iter::from_fn(|| memory::alloc_frame(&core)).collect();
        let order: Vec<u32> = frames.iter().map(|&frame| block_of(frame)).collect();
        let want = [near, neutral, far].map(|block| vec![block; BLOCK_FRAMES as usize]).concat();
        assert_eq!(order, want);
        for &frame in [&frames[100], &frames[5], &frames[150]] {
            memory::release_frame(&core, frame);
        }
        let again: Vec<u32> = std::iter::from_fn(|| memory::alloc_frame(&core)).map(block_of).collect();
        assert_eq!(again, [near, neutral, far]);
        // Other islands' memory goes back first; with it gone, too little is free to return more.
        frames[30..].iter().for_each(|&frame| memory::release_frame(&core, frame));
        assert_eq!(memory::return_free_blocks(&core), 1);
        let owners = [near, neutral, far].map(|block| memory::block(pool, block).owner.load(Ordering::Relaxed));
        assert_eq!(owners, [1, 1, 0]);
    });
}

/// The island under pressure leaves others' memory alone until nothing else is left; and finds what comes back.
#[test]
fn far_memory_is_not_hoarded() {
    let (pool, _) = fresh_pool(BLOCKS);
    quietly(|| {
        let [near, far, neutral] = place_blocks(pool);
        let bells = Arc::new(Bells::default());
        let (first, second) = (Core::new(pool, 0, &bells), Core::new(pool, 1, &bells));
        let owner = |block: u32| memory::block(pool, block).owner.load(Ordering::Relaxed);
        let on_request = memory::alloc_frame_on(&second, 0).expect("memory is left");
        assert_eq!((on_request.0 / BLOCK_FRAMES, owner(near)), (near, 1));
        let held: Vec<Frame> = (0..BLOCK_FRAMES * 2 - 1).filter_map(|_| memory::alloc_frame(&first)).collect();
        assert_eq!((held.len() as u32, owner(near), owner(neutral), owner(far)), (BLOCK_FRAMES * 2 - 1, 1, 1, 0));
        let theirs = memory::alloc_frame(&second).expect("memory is left");
        assert_eq!((theirs.0 / BLOCK_FRAMES, owner(far)), (far, 2));
        held.iter().for_each(|&frame| memory::release_frame(&second, frame));
        memory::release_frame(&second, on_request);
        assert_eq!(memory::return_free_blocks(&first), 1);
        assert_eq!((owner(near), owner(neutral)), (1, 0), "the nearest block is kept");
        memory::release_frame(&first, theirs);
        check_all_free(pool);
    });
}

/// Two islands share a frame; whoever drops it last frees it, once.
#[test]
fn the_last_reference_frees() {
    explore(1500, || {
        let (pool, base) = fresh_pool(BLOCKS);
        let _ = Objects::new(pool, base);
        let bells = Arc::new(Bells::default());
        let cores: Vec<Core> = (0..3).map(|island| Core::new(pool, island, &bells)).collect();
        let frame = quietly(|| {
            let frame = memory::alloc_frame(&cores[0]).expect("memory is left");
            (1..3).for_each(|_| memory::share_frame(&cores[0], frame));
            frame
        });
        let drop_one =
            |core: Core| -> Box<dyn FnOnce() + Send> { Box::new(move || memory::release_frame(&core, frame)) };
        together(cores.into_iter().map(drop_one).collect());
        check_all_free(pool);
    });
}

/// A reference count that is read, then written.
#[test]
fn counting_without_atomicity_is_caught() {
    must_be_caught(1500, || {
        let (pool, _) = fresh_pool(BLOCKS);
        let bells = Arc::new(Bells::default());
        let cores: Vec<Core> = (0..2).map(|island| Core::new(pool, island, &bells)).collect();
        let frame = quietly(|| {
            let frame = memory::alloc_frame(&cores[0]).expect("memory is left");
            memory::share_frame(&cores[0], frame);
            frame
        });
        let drop_one = |core: Core| -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                let refs = &memory::frame_record(core.pool(), frame).refs;
                let before = refs.load(Ordering::Acquire);
                if before == 1 {
                    memory::release_frame(&core, frame);
                } else {
                    refs.store(before - 1, Ordering::Release);
                }
            })
        };
        together(cores.into_iter().map(drop_one).collect());
        check_all_free(pool);
    });
}
