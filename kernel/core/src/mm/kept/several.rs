//! One message with answers about several pages.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Frame, KeptRecord, PAGE_SIZE, PAGES_MAX, sync::Ordering};
use motet_protocol::{
    memory::release_frame,
    peer::{
        MessageKind,
        bodies::{PagesResponse, SeveralResult},
    },
};

use super::damage;
use crate::{cpu::Cpu, peers};

/// Answers to a kernel about pages from one on, that go in one message.
pub struct Several {
    pub node: u32,
    page: u64,
    results: [SeveralResult; PAGES_MAX],
    /// Pages that go with it, in their order, with a reference each.
    frames: [Frame; PAGES_MAX],
    count: usize,
}

impl Several {
    pub fn new(node: u32, page: u64) -> Self {
        let results = [SeveralResult::Nothing; PAGES_MAX];
        Self { node, page, results, frames: [Frame::NONE; PAGES_MAX], count: 0 }
    }

    /// The answer about a page, behind those about earlier ones.
    pub fn note(&mut self, page: u64, result: SeveralResult, frame: Frame) {
        self.results[(page.wrapping_sub(self.page) / PAGE_SIZE) as usize % PAGES_MAX] = result;
        if !frame.is_none() {
            self.frames[self.count % PAGES_MAX] = frame;
            self.count += 1;
        }
    }

    /// Sends what was noted.
    pub fn send<M: Machine>(self, cpu: &Cpu<M>, kept: &KeptRecord, write: bool) {
        let (frames, lends) = (&self.frames[..self.count], peers::reads_in_place(cpu));
        let body = PagesResponse {
            pid: kept.pids[self.node as usize].load(Ordering::Acquire).into(),
            address: self.page.into(),
            write: u32::from(write).into(),
            results: PagesResponse::bits_of(&self.results).into(),
            frames: if lends { self.frames.map(|frame| frame.0.into()) } else { Default::default() },
            rest: [0; 8],
        };
        if self.results.iter().any(|&result| result != SeveralResult::Nothing) {
            tell_with(cpu, kept, self.node, &body, frames);
        }
        frames.iter().for_each(|&frame| release_frame(cpu, frame));
    }
}

fn tell_with<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord, node: u32, body: &PagesResponse, frames: &[Frame]) {
    let sent = if peers::reads_in_place(cpu) {
        peers::post_lent(cpu, node, body, frames)
    } else {
        peers::post_pages(cpu, node, body, frames)
    };
    if sent == Err(Errno::ENOMEM) {
        damage(cpu, kept);
    }
}

/// How many pages may be wished for beside one that is asked for: their answers go in one message.
pub fn most<M: Machine>(cpu: &Cpu<M>) -> u32 {
    (peers::pages_max(cpu, MessageKind::PagesResponse) as u32).saturating_sub(1)
}
