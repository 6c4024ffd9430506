//! What other kernels send, and who acts on it.

use motet_hal::Machine;
use motet_layout::{Frame, PAGE_SIZE, PAGES_MAX};
use motet_protocol::{
    Context,
    memory::{alloc_frame_on, release_frame},
    peer::{
        HEADER_LEN, Header, Malformed, MessageKind,
        bodies::{
            FutexRequest, PAGE_IN_PLACE, PageResponse, PageResponseShort, PagesResponse, SeveralResult, SyscallForward,
            VmaOpRequest,
        },
    },
    ring::Slot,
};

use crate::{
    away,
    cpu::Cpu,
    futex,
    mm::kept::{self, Woken},
    peers::{self, Acts, body},
    process::remote,
    tree::lock_tree,
};

/// Takes what other kernels have sent.
pub fn take<M: Machine>(cpu: &Cpu<M>) {
    peers::take_messages(cpu, &Life);
    if cpu.id.index() == 0 {
        away::end_damaged(cpu);
        peers::watch(cpu, |node| away::lost(cpu, node, |word| futex::wake_shared(cpu, word)));
    }
}

struct Life;

impl<M: Machine> Acts<M> for Life {
    fn act(&self, cpu: &Cpu<M>, node: u32, header: Header, slot: Slot) -> Result<(), Malformed> {
        use MessageKind as K;
        let kind = header.kind;
        match kind {
            // `peers` takes these.
            K::NodeInfo | K::Probe => Err(Malformed::Unasked),
            K::TaskMigrate => remote::arrive(cpu, node, &body(slot)),
            K::PageRequest => go_on(cpu, in_tree(cpu, || kept::wanted(cpu, node, &body(slot)))),
            K::PageResponse => go_on(cpu, page_came(cpu, node, slot)),
            K::PageResponseShort => go_on(cpu, short_came(cpu, node, slot)),
            K::PageInvalidateRequest => go_on(cpu, in_tree(cpu, || kept::invalidate(cpu, node, &body(slot)))),
            K::PageInvalidateResponse => go_on(cpu, in_tree(cpu, || kept::invalidated(cpu, node, &body(slot)))),
            K::PagesResponse => act_on_pages(cpu, node, header.pages, slot),
            K::VmaInfoResponse => {
                in_tree(cpu, || kept::area_came(cpu, node, &body(slot), |word| futex::wake_shared(cpu, word)))
            }
            K::VmaInfoRequest => in_tree(cpu, || kept::area_wanted(cpu, node, &body(slot))),
            K::VmaOpRequest => in_tree(cpu, || act_on_ranges(cpu, node, &body(slot))),
            K::TaskPairing => in_tree(cpu, || away::paired(cpu, node, &body(slot))),
            K::TaskMigrateBack => in_tree(cpu, || away::came_back(cpu, node, &body(slot))),
            K::TaskExitOrigin => remote::ended_at_home(cpu, node, &body(slot)),
            K::TaskExitRemote => in_tree(cpu, || away::ended_away(cpu, node, &body(slot))),
            K::SyscallForward => in_tree(cpu, || away::wanted(cpu, node, &body::<SyscallForward>(slot).into())),
            K::FutexRequest => in_tree(cpu, || away::wanted(cpu, node, &body::<FutexRequest>(slot).into())),
            K::SyscallReply | K::FutexResponse | K::VmaOpResponse => {
                in_tree(cpu, || away::result_came(cpu, node, &body(slot)))
            }
        }
    }
}

/// Home has changed ranges, or a remote's thread changes some at home.
fn act_on_ranges<M: Machine>(cpu: &Cpu<M>, node: u32, body: &VmaOpRequest) -> Result<(), Malformed> {
    match body.tid.get() {
        0 => kept::forget(cpu, node, body, |word| futex::wake_shared(cpu, word)),
        _ => away::wanted(cpu, node, &(*body).into()),
    }
}

fn in_tree<M: Machine, R>(cpu: &Cpu<M>, act: impl FnOnce() -> R) -> R {
    let _tree = lock_tree(cpu);
    act()
}

/// A message about a page was acted on: wakes who waits for it.
fn go_on<M: Machine>(cpu: &Cpu<M>, answered: Result<Option<Woken>, Malformed>) -> Result<(), Malformed> {
    if let Some(woken) = answered? {
        futex::wake_shared(cpu, woken.word);
        if woken.has_page {
            peers::hold(cpu);
        }
    }
    Ok(())
}

fn page_came<M: Machine>(cpu: &Cpu<M>, node: u32, slot: Slot) -> Result<Option<Woken>, Malformed> {
    let said: PageResponse = body(slot);
    match copied(cpu, Source::Message(slot, HEADER_LEN + size_of::<PageResponse>()))? {
        Some(frame) => in_tree(cpu, || kept::came(cpu, node, &said, frame)),
        None => lack_memory(cpu, node, said.pid.get()).map(|()| None),
    }
}

fn short_came<M: Machine>(cpu: &Cpu<M>, node: u32, slot: Slot) -> Result<Option<Woken>, Malformed> {
    let said: PageResponseShort = body(slot);
    if said.result.get() != PAGE_IN_PLACE {
        return in_tree(cpu, || kept::short_came(cpu, node, &said));
    }
    match copied(cpu, Source::InPlace(node, Frame(said.frame.get())))? {
        Some(frame) => in_tree(cpu, || kept::read_in_place(cpu, node, &said, frame)),
        None => lack_memory(cpu, node, said.pid.get()).map(|()| None),
    }
}

/// Where a page is that has come.
enum Source {
    /// In a message, from some byte on.
    Message(Slot, usize),
    /// In the memory of the kernel that has sent the message.
    InPlace(u32, Frame),
}

/// A new frame with what has come. `None`: there is no memory for it.
///
/// # Errors
/// None can have come from there.
fn copied<M: Machine>(cpu: &Cpu<M>, source: Source) -> Result<Option<Frame>, Malformed> {
    let Some(frame) = alloc_frame_on(cpu, cpu.memory_index()) else { return Ok(None) };
    match source {
        Source::Message(slot, offset) => slot.read_page(offset, cpu.pool, frame),
        Source::InPlace(node, page) if peers::read_in_place(cpu, node, page, frame) => {}
        Source::InPlace(..) => {
            release_frame(cpu, frame);
            return Err(Malformed::Unasked);
        }
    }
    Ok(Some(frame))
}

fn lack_memory<M: Machine>(cpu: &Cpu<M>, node: u32, pid: u32) -> Result<(), Malformed> {
    in_tree(cpu, || kept::lack_memory(cpu, node, pid))
}

/// Several pages have come: `pages` of them by the message's length.
fn act_on_pages<M: Machine>(cpu: &Cpu<M>, node: u32, pages: u32, slot: Slot) -> Result<(), Malformed> {
    let said: PagesResponse = body(slot);
    let results = said.results();
    let came = results.iter().filter(|&&result| result == SeveralResult::Came).count();
    let is_in_place = pages == 0;
    if came > PAGES_MAX
        || !is_in_place && (came != pages as usize || came > peers::pages_max(cpu, MessageKind::PagesResponse))
    {
        return Err(Malformed::Len(u64::from(pages)));
    }
    let mut frames = [Frame::NONE; PAGES_MAX];
    for number in 0..came {
        let offset = HEADER_LEN + size_of::<PagesResponse>() + number * PAGE_SIZE as usize;
        let place = Frame(said.frames[number].get());
        let source = if is_in_place { Source::InPlace(node, place) } else { Source::Message(slot, offset) };
        let copied = copied(cpu, source);
        if let Ok(Some(frame)) = copied {
            frames[number] = frame;
            continue;
        }
        frames.iter().filter(|frame| !frame.is_none()).for_each(|&frame| release_frame(cpu, frame));
        return copied.and_then(|_| lack_memory(cpu, node, said.pid.get()));
    }
    let wake = |word| futex::wake_shared(cpu, word);
    if in_tree(cpu, || kept::several_came(cpu, node, &said, &frames[..came], wake))? {
        peers::hold(cpu);
    }
    Ok(())
}
