//! Data and results anywhere in the machine's memory, also in pages that nobody has touched, and what is beside them.

use motet_guest_board::{
    self as board, Boot,
    accelerator::{self, Accelerator, Job},
};

/// Bytes on both sides of results that are to stay as they are.
const BESIDE: usize = 64;
/// Each job has so much memory: data and then results.
const PLACE: usize = 64 << 10;
/// Where results are in it.
const RESULTS: usize = 16 << 10;

/// `rounds` jobs of 16-QAM with `frames` each, each in memory that was not used before, at any address.
pub fn jobs(boot: &Boot, accelerator: &Accelerator, rounds: u64) {
    let mut random = fastrand::Rng::with_seed(boot.number("seed", 1));
    let frames = boot.number("frames", 1) as usize;
    let (bytes, results) = super::frame(accelerator.function());
    if accelerator.function() != "qam16" || frames * results + RESULTS + 4096 > PLACE {
        board::fail(format_args!("it is for qam16 and two frames"));
    }
    for round in 0..rounds as usize {
        let place = round % (accelerator::SPARE_LEN / PLACE) * PLACE;
        let (data, at) = (place + random.usize(..4096), place + RESULTS + BESIDE + random.usize(..1024) * 4);
        // Every third one's data are zeroes of pages that nobody has touched.
        if round % 3 != 0 {
            (0..frames * bytes).for_each(|byte| Accelerator::write_spare(data + byte, random.u8(..)));
        }
        // As every second one's results.
        let beside = (at - BESIDE..at).chain(at + frames * results..at + frames * results + BESIDE);
        if round % 2 != 0 {
            beside.clone().for_each(|byte| Accelerator::write_spare(byte, 0x5a));
        }
        accelerator.begin(&Job {
            command: 0,
            data: (accelerator::SPARE + data) as u32,
            len: (frames * bytes) as u32,
            results: (accelerator::SPARE + at) as u32,
            interrupts: false,
        });
        super::ended(accelerator);
        let is_same = beside.map(Accelerator::read_spare).all(|byte| byte == if round % 2 != 0 { 0x5a } else { 0 });
        let is_right = super::has_points(
            frames * bytes * 2,
            |byte| Accelerator::read_spare(data + byte),
            |byte| Accelerator::read_spare(at + byte),
        );
        if accelerator.status() != accelerator::DONE || !is_same || !is_right {
            board::fail(format_args!("round {round}: status {:#x}, {is_same}, {is_right}", accelerator.status()));
        }
    }
}
