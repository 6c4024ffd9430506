//! Runs of frames beside single ones: nothing is given twice, all comes back.

use std::sync::Arc;

use motet_layout::Frame;
use motet_protocol::memory::{self, NoRun};

use crate::allocator::three_islands;
use crate::harness::{BLOCK_FRAMES, Bells, Core, explore, fresh_pool, quietly, together};

fn frames(first: Frame, count: u32) -> impl Iterator<Item = Frame> {
    (first.0..first.0 + count).map(Frame)
}

/// Three islands that want runs, two at a time, and single frames in between; there is a block for each, which one alone fills with its
/// runs, so that they also take of each other's.
#[test]
fn runs_are_given_once_and_come_back() {
    three_islands(200, |island, core, in_use| {
        let (count, alignment) = [(4, 4), (40, 1), (33, 32)][usize::from(island)];
        let runs: Vec<Frame> = (0..2).filter_map(|_| memory::alloc_run(core, count, alignment).ok()).collect();
        let single = memory::alloc_frame(core);
        for &first in &runs {
            assert_eq!(first.0 % alignment, 0);
            frames(first, count).for_each(|frame| in_use.add(frame));
        }
        single.iter().for_each(|&frame| in_use.add(frame));
        for frame in runs.into_iter().flat_map(|first| frames(first, count)).chain(single) {
            in_use.remove(frame);
            memory::release_frame(core, frame);
        }
        memory::return_free_blocks(core);
    });
}

/// The last block, or another island's frames, or none: what is left decides, in any order, and an error takes nothing.
#[test]
fn two_islands_that_want_the_last_run_get_it_once() {
    explore(200, || {
        let (pool, _) = fresh_pool(2);
        let bells = Arc::new(Bells::default());
        // A third one has used a frame of the other block.
        quietly(|| memory::alloc_frame(&Core::new(pool, 2, &bells))).expect("memory is left");
        let got = Arc::new(std::sync::Mutex::new(Vec::new()));
        let actor = |island: u8| -> Box<dyn FnOnce() + Send> {
            let (core, got) = (Core::new(pool, island, &bells), got.clone());
            Box::new(move || {
                let run = memory::alloc_run(&core, BLOCK_FRAMES, BLOCK_FRAMES);
                got.lock().expect("never poisoned").push((core, run));
            })
        };
        together(vec![actor(0), actor(1)]);
        quietly(|| {
            let got = got.lock().expect("never poisoned");
            let given: Vec<_> = got.iter().filter_map(|(core, run)| Some((core, (*run).ok()?))).collect();
            assert_eq!(given.len(), 1, "{:?}", got.iter().map(|(_, run)| run).collect::<Vec<_>>());
            assert!(got.iter().all(|(_, run)| matches!(run, Ok(_) | Err(NoRun::Exhausted))));
            let (core, first) = given[0];
            frames(first, BLOCK_FRAMES).for_each(|frame| memory::release_frame(core, frame));
        });
    });
}
