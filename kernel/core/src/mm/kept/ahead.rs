//! Pages that are wished for beside one that is asked for (`prefetch` in the machine file): the next ones of its range. The request names them, and one message has the
//! answers about all of them. To the protocol each is a page by itself ([`Message::Wish`]).

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Frame, KeptRecord, PAGE_SIZE, PAGES_MAX, PoolAddr, SpaceRecord, VmaRecord, sync::Ordering};
use motet_protocol::{
    dsm::Message,
    memory::release_frame,
    peer::{
        Malformed, MessageKind,
        bodies::{PAGE_NONE, PageRequest, PageResponseShort, PagesResponse, SeveralResult},
    },
};

use super::{
    answer::{self, Woken},
    damage, is_remote, name,
    page::Here,
    put_site, site, tell,
};
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
    fn new(node: u32, page: u64) -> Self {
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
    fn send<M: Machine>(self, cpu: &Cpu<M>, kept: &KeptRecord, write: bool) {
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

/// How many pages may be wished for beside one that is asked for: their answers go in one message.
fn most<M: Machine>(cpu: &Cpu<M>) -> u32 {
    (peers::pages_max(cpu, MessageKind::PagesResponse) as u32).saturating_sub(1)
}

/// Kernel `from` is asked for a page: the pages behind it that it may have for this kernel, too, are wished for. A bit for each. The space's lock is held.
pub fn wish<M: Machine>(asked: &Here<'_, M>, from: u32, write: bool) -> u32 {
    let (cpu, space, kept) = (asked.cpu, asked.space, asked.kept);
    let Some(vma) = asked.vma else { return 0 };
    let count = peers::of(cpu).prefetch.get().min(most(cpu));
    let pages = (1..=count).map(|number| (number, asked.page + u64::from(number) * PAGE_SIZE));
    let wished = pages.take_while(|&(_, page)| page < vma.end.get()).filter(|&(_, page)| {
        let mut site = site(cpu, kept, page);
        let mut here = Here::new(cpu, (space, kept), Some(vma), page);
        site.wish(from, write, &mut here) && put_site(cpu, kept, page, site.word()).is_ok()
    });
    wished.fold(0, |wishes, (number, _)| wishes | 1 << number)
}

/// A kernel wants a page, and wishes for others behind it. The space's lock is held.
///
/// # Errors
/// It wants what cannot be.
pub fn wanted<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    vma: Option<&'static VmaRecord>,
    (node, first): (u32, u64),
    body: &PageRequest,
) -> Result<Option<Woken>, Malformed> {
    let (wishes, write) = (body.wishes.get() | 1, body.write.get() != 0);
    if wishes >= 2 << most(cpu) {
        return Err(Malformed::Unasked);
    }
    let mut several = Several::new(node, first);
    let mut wakes = false;
    let is_home = !is_remote(cpu, kept);
    // It does not know yet that ranges have changed: it asks again.
    let is_late = is_home && body.change.get() != kept.told[node as usize].get();
    let numbers = (0..PAGES_MAX as u32).filter(|&number| wishes & 1 << number != 0);
    for page in numbers.map(|number| first + u64::from(number) * PAGE_SIZE) {
        let is_asked = page == first;
        let mut site = site(cpu, kept, page);
        let is_in_range = vma.is_some_and(|vma| page < vma.end.get());
        let is_there = |site| is_in_range && answer::bring(cpu, space, vma, (page, write), site).is_ok();
        if is_late || is_home && !is_there(&site) {
            if is_asked && !is_late {
                let pid = kept.pids[node as usize].load(Ordering::Acquire).into();
                tell(cpu, kept, node, &PageResponseShort::of(pid, page.into(), PAGE_NONE));
            } else {
                several.note(page, SeveralResult::Retry, Frame::NONE);
            }
            continue;
        }
        let mut here = Here::new(cpu, (space, kept), vma, page);
        here.several = Some(&mut several);
        let message = if is_asked { Message::Request { write } } else { Message::Wish { write } };
        site.receive(node, message, &mut here);
        match here.finish(site.word()) {
            Ok(woken) => wakes |= woken && is_asked,
            Err(_) => damage(cpu, kept),
        }
    }
    several.send(cpu, kept, write);
    Ok(wakes.then(|| Woken { word: name(cpu, kept, first), has_page: false }))
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

/// What was wanted of several pages has come, or does not come. References to `frames` are taken over. The tree lock is held. `wake` is told what threads wait at.
/// `true`: a thread of this kernel had asked for the first one, which is here now.
///
/// # Errors
/// It says what cannot be.
pub fn several_came<M: Machine>(
    cpu: &Cpu<M>,
    node: u32,
    body: &PagesResponse,
    frames: &[Frame],
    wake: impl Fn(PoolAddr),
) -> Result<bool, Malformed> {
    let (pid, first, write) = (body.pid.get(), body.address.get(), body.write.get() != 0);
    let (mut frames, mut has_page, mut failed) = (frames.iter().copied(), false, None);
    for (number, result) in (0..).zip(body.results()) {
        let (message, frame) = match result {
            SeveralResult::Nothing => continue,
            SeveralResult::Retry => (Message::Retry, None),
            SeveralResult::Granted => (Message::Short, None),
            SeveralResult::Came => (Message::Data { write }, frames.next()),
        };
        // One that cannot be keeps no frame of the others.
        match answer::answer(cpu, node, (pid, first.wrapping_add(number * PAGE_SIZE)), message, frame) {
            Ok(Some(woken)) => {
                wake(woken.word);
                has_page |= woken.has_page && number == 0;
            }
            Ok(None) => {}
            Err(why) => failed = Some(why),
        }
    }
    failed.map_or(Ok(has_page), Err)
}
