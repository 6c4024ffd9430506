//! Runs of frames against a set of what is in use: whatever is taken and given back, a run is given exactly if there is one.

mod files_support;

use std::collections::BTreeSet;

use files_support::Actor;
use motet_layout::{BLOCK_RESERVED, CORES_PER_ISLAND_MAX, Frame, sync::Ordering};
use motet_protocol::{
    Context,
    memory::{self, NoRun, alloc_frame, alloc_run, block, frame_refs, release_frame},
};
use proptest::prelude::*;

const POOL_LEN: u64 = 32 << 20;
/// Several words of the bitmap.
const BLOCK_FRAMES: u32 = 256;

#[derive(Clone, Debug)]
enum Operation {
    /// So many frames, aligned to two to the power of this.
    Run(u32, u32),
    /// So many single frames.
    Frames(u32),
    /// Frees every n-th frame that is in use, from one on.
    Free(usize, usize),
    Trim,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (1..300u32, 0..10u32).prop_map(|(count, shift)| Operation::Run(count, shift)),
        6 => (1..130u32, 0..7u32).prop_map(|(count, shift)| Operation::Run(count, shift)),
        4 => (1..2500u32).prop_map(Operation::Frames),
        4 => (1..7usize, 0..7usize).prop_map(|(nth, from)| Operation::Free(nth, from)),
        1 => Just(Operation::Trim),
    ]
}

/// The pool's blocks: frames in each, and which there are for anybody.
fn blocks(actor: &Actor) -> (u32, Vec<u32>) {
    let memory = &actor.pool().header().memory;
    let is_open = |index: &u32| block(actor.pool(), *index).owner.load(Ordering::Relaxed) != BLOCK_RESERVED;
    (memory.block_frames.get(), (0..memory.block_count.get()).filter(is_open).collect())
}

/// Whether any block has such a run, by the set.
fn has_run(used: &BTreeSet<u32>, (block_frames, open): &(u32, Vec<u32>), count: u32, alignment: u32) -> bool {
    open.iter().any(|index| {
        let (first, end) = (index * block_frames, (index + 1) * block_frames);
        (first..=end.saturating_sub(count))
            .step_by(alignment as usize)
            .any(|at| used.range(at..at + count).next().is_none())
    })
}

fn run(actor: &Actor, used: &mut BTreeSet<u32>, count: u32, alignment: u32) {
    let all = blocks(actor);
    let free = all.0 as usize * all.1.len() - used.len();
    match alloc_run(actor, count, alignment) {
        Ok(first) => {
            assert_eq!(first.0 % alignment, 0);
            assert_eq!(first.0 / all.0, (first.0 + count - 1) / all.0, "it crosses blocks");
            for frame in first.0..first.0 + count {
                assert!(used.insert(frame), "frame {frame:#x} was given twice");
                assert_eq!(frame_refs(actor.pool(), Frame(frame)), 1);
            }
        }
        Err(NoRun::Impossible) => assert!(count.max(alignment) > all.0),
        Err(NoRun::Exhausted) => assert!(free < count as usize),
        Err(NoRun::Fragmented) => assert!(free >= count as usize && !has_run(used, &all, count, alignment)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_run_is_given_exactly_if_there_is_one(operations in proptest::collection::vec(operation(), 1..60)) {
        let host = Actor::with_blocks(POOL_LEN, BLOCK_FRAMES);
        let free_at_first = memory::usage(host.pool()).0;
        let mut used = BTreeSet::new();
        for (n, operation) in operations.into_iter().enumerate() {
            // Islands take turns.
            let actor = host.on_core((n % 3 * CORES_PER_ISLAND_MAX) as u8);
            match operation {
                Operation::Run(count, shift) => run(&actor, &mut used, count, 1 << shift),
                Operation::Frames(count) => used.extend((0..count).map_while(|_| alloc_frame(&actor)).map(|frame| frame.0)),
                Operation::Free(nth, from) => {
                    let freed: Vec<u32> = used.iter().copied().skip(from).step_by(nth).collect();
                    for frame in freed {
                        used.remove(&frame);
                        release_frame(&actor, Frame(frame));
                    }
                }
                Operation::Trim => _ = memory::return_free_blocks(&actor),
            }
            prop_assert_eq!(memory::usage(actor.pool()).0, free_at_first - used.len() as u64 * 4096);
        }
        used.iter().for_each(|&frame| release_frame(&host, Frame(frame)));
        prop_assert_eq!(memory::usage(host.pool()).0, free_at_first);
    }
}

#[test]
fn what_no_block_has_is_impossible() {
    let actor = Actor::with_blocks(POOL_LEN, BLOCK_FRAMES);
    let (block_frames, _) = blocks(&actor);
    for (count, alignment) in [(0, 1), (1, 0), (1, 3), (block_frames + 1, 1), (1, 2 * block_frames), (u32::MAX, 1)] {
        assert_eq!(alloc_run(&actor, count, alignment), Err(NoRun::Impossible), "{count} {alignment}");
    }
    assert!(alloc_run(&actor, block_frames, block_frames).is_ok());
}

#[test]
fn fragmented_memory_has_no_run_until_frames_come_back() {
    let actor = Actor::with_blocks(POOL_LEN, BLOCK_FRAMES);
    let frames: Vec<Frame> = std::iter::from_fn(|| alloc_frame(&actor)).collect();
    assert_eq!(alloc_run(&actor, 2, 1), Err(NoRun::Exhausted));
    frames.iter().filter(|frame| frame.0 % 2 == 0).for_each(|&frame| release_frame(&actor, frame));
    assert_eq!(alloc_run(&actor, 2, 1), Err(NoRun::Fragmented));
    let freed = |rest| frames.iter().copied().find(|frame| frame.0 % 8 == rest).expect("there are many");
    release_frame(&actor, freed(3));
    assert_eq!(alloc_run(&actor, 2, 4), Err(NoRun::Fragmented), "frames 2 and 3 of eight are free");
    assert_eq!(alloc_run(&actor, 3, 1), Ok(Frame(freed(3).0 - 1)));
    release_frame(&actor, freed(1));
    assert_eq!(alloc_run(&actor, 2, 4), Ok(Frame(freed(1).0 - 1)));
}
