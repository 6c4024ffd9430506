//! Pages that are wished for beside one that is asked for (`prefetch` in the machine file): the next ones of its range. The request names them, and one message has the
//! answers about all of them. To the protocol each is a page by itself ([`Message::Wish`]).

use motet_hal::Machine;
use motet_layout::{Frame, KeptRecord, PAGE_SIZE, PAGES_MAX, PoolAddr, SpaceRecord, VmaRecord, sync::Ordering};
use motet_protocol::{
    dsm::Message,
    lock::lock,
    peer::{
        Malformed,
        bodies::{PAGE_NONE, PageRequest, PageResponseShort, PagesResponse, SeveralResult},
    },
};

use super::{
    answer::{self, Woken},
    damage, is_remote, name,
    page::Here,
    several::{Several, most},
    site, tell,
};
use crate::{cpu::Cpu, mm::vma};

/// A kernel wants a page, and may wish for others behind it.
///
/// # Errors
/// It wants what cannot be.
pub fn wanted<M: Machine>(cpu: &Cpu<M>, node: u32, body: &PageRequest) -> Result<Option<Woken>, Malformed> {
    let page = answer::page_at(body.address.get())?;
    let Some(of) = super::space_of_peer(cpu, node, body.pid.get())? else { return Ok(None) };
    let _guard = lock(cpu, &of.0.lock);
    let vma = vma::find(cpu, of.0, page);
    if body.wishes.get() == 0 {
        answer::wanted(cpu, of, vma, (node, page), body)
    } else {
        several_wanted(cpu, of, vma, (node, page), body)
    }
}

/// A kernel wants a page, and wishes for others behind it. The space's lock is held.
fn several_wanted<M: Machine>(
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
