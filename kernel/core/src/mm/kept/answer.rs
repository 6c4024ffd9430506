//! Messages about pages. The tree lock keeps the space from going away meanwhile.
//!
//! Each function returns who is to be woken, if anybody is.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    Frame, KeptRecord, PAGE_SIZE, PoolAddr, SpaceRecord, USER_END, VMA_EXECUTE, VMA_READ, VMA_SHARED, VMA_WRITE,
    VmaRecord, sync::Ordering,
};
use motet_paging::Attr;
use motet_protocol::{
    dsm::{Message, Received, Rights, Site},
    lock::lock,
    peer::{
        Malformed,
        bodies::{
            PAGE_GRANTED, PAGE_NONE, PAGE_RETRY, PageInvalidateRequest, PageInvalidateResponse, PageRequest,
            PageResponse, PageResponseShort,
        },
    },
    residency::Home,
};

use super::{areas, damage, is_alike, name, page::Here, site, tell};
use crate::{
    cpu::Cpu,
    mm::{entry, vma},
};

/// Threads that look again, because of a message.
pub struct Woken {
    /// What they wait at.
    pub word: PoolAddr,
    /// One of them had asked for the page, which is here now.
    pub has_page: bool,
}

type Answered = Result<Option<Woken>, Malformed>;

/// Checks a page's address.
pub(super) fn page_at(address: u64) -> Result<u64, Malformed> {
    if address % PAGE_SIZE == 0 && address < USER_END { Ok(address) } else { Err(Malformed::Unasked) }
}

/// A kernel wants a page. The space's lock is held.
///
/// # Errors
/// It wants what cannot be.
pub(super) fn wanted<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    vma: Option<&'static VmaRecord>,
    (node, page): (u32, u64),
    body: &PageRequest,
) -> Answered {
    let write = body.write.get() != 0;
    let mut site = site(cpu, kept, page);
    if !super::is_remote(cpu, kept) && body.change.get() != kept.told[node as usize].get() {
        // It does not know yet that ranges have changed, and would not know what this answers: it asks again.
        let pid = kept.pids[node as usize].load(Ordering::Acquire).into();
        tell(cpu, kept, node, &PageResponseShort::of(pid, page.into(), PAGE_RETRY));
        return Ok(None);
    }
    if !super::is_remote(cpu, kept)
        && let Err(_none) = bring(cpu, space, vma, (page, write), &site)
    {
        let pid = kept.pids[node as usize].load(Ordering::Acquire).into();
        tell(cpu, kept, node, &PageResponseShort::of(pid, page.into(), PAGE_NONE));
        return Ok(None);
    }
    receive(cpu, (space, kept), vma, (node, page), Message::Request { write }, None, &mut site)
}

/// Home: makes a page that it has ready to be sent. What is shared with a file, or with a forked process, becomes the space's own if it can be written.
pub(super) fn bring<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    vma: Option<&'static VmaRecord>,
    (page, write): (u64, bool),
    site: &Site,
) -> Result<(), Errno> {
    let allows = |vma: &VmaRecord| {
        let flags = vma.flags.get();
        flags & VMA_SHARED == 0 && flags & if write { VMA_WRITE } else { VMA_READ | VMA_WRITE | VMA_EXECUTE } != 0
    };
    let vma = vma.filter(|vma| is_alike(vma) && allows(vma)).ok_or(Errno::EFAULT)?;
    if site.is_lost() {
        return Err(Errno::ENXIO);
    }
    if site.rights() != Rights::Write {
        return Ok(()); // it is there, or another kernel's
    }
    let may_write = vma.flags.get() & VMA_WRITE != 0;
    let is_ready = |attr: Attr| !may_write || attr.contains(Attr::WRITE);
    if Home::of(cpu, space).leaf(page).is_some_and(|leaf| is_ready(leaf.attr)) {
        return Ok(());
    }
    let access = if may_write { Access::Write } else { Access::Read };
    entry::enter(cpu, space, vma, page, access).map_err(crate::call::Stop::unless_waiting)
}

/// A page has come, in `frame`, whose reference is taken over.
///
/// # Errors
/// It is none that can come.
pub fn came<M: Machine>(cpu: &Cpu<M>, node: u32, body: &PageResponse, frame: Frame) -> Answered {
    let write = body.write.get() != 0;
    answer(cpu, node, (body.pid.get(), body.address.get()), Message::Data { write }, Some(frame))
}

/// A page was copied that the sender had where it has said, to `frame`, whose reference is taken over.
///
/// # Errors
/// It is none that can come.
pub fn read_in_place<M: Machine>(cpu: &Cpu<M>, node: u32, body: &PageResponseShort, frame: Frame) -> Answered {
    let write = body.write.get() != 0;
    answer(cpu, node, (body.pid.get(), body.address.get()), Message::Data { write }, Some(frame))
}

/// What was wanted has come without the page, or does not come.
///
/// # Errors
/// It says what cannot be.
pub fn short_came<M: Machine>(cpu: &Cpu<M>, node: u32, body: &PageResponseShort) -> Answered {
    let about = (body.pid.get(), body.address.get());
    match body.result.get() {
        PAGE_GRANTED => answer(cpu, node, about, Message::Short, None),
        PAGE_RETRY => answer(cpu, node, about, Message::Retry, None),
        PAGE_NONE => {
            if let Some((space, kept)) = super::space_of_peer(cpu, node, about.0)?
                && kept.home.get() == node
            {
                let _guard = lock(cpu, &space.lock);
                areas::set_absent(kept, page_at(about.1)?);
            }
            answer(cpu, node, about, Message::Retry, None)
        }
        _ => Err(Malformed::Unasked),
    }
}

/// A copy is to be dropped.
///
/// # Errors
/// None of that kernel's can be here.
pub fn invalidate<M: Machine>(cpu: &Cpu<M>, node: u32, body: &PageInvalidateRequest) -> Answered {
    answer(cpu, node, (body.pid.get(), body.address.get()), Message::Invalidate, None)
}

/// A copy was dropped.
///
/// # Errors
/// None of this process can have been there.
pub fn invalidated<M: Machine>(cpu: &Cpu<M>, node: u32, body: &PageInvalidateResponse) -> Answered {
    answer(cpu, node, (body.pid.get(), body.address.get()), Message::Invalidated, None)
}

/// A kernel has said something of a page.
pub(super) fn answer<M: Machine>(
    cpu: &Cpu<M>,
    node: u32,
    (pid, address): (u32, u64),
    message: Message,
    frame: Option<Frame>,
) -> Answered {
    let found = page_at(address).and_then(|page| Ok((page, super::space_of_peer(cpu, node, pid)?)));
    let Ok((page, Some((space, kept)))) = found else {
        if let Some(frame) = frame {
            motet_protocol::memory::release_frame(cpu, frame);
        }
        return found.map(|_| None);
    };
    let _guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, page);
    let mut site = site(cpu, kept, page);
    receive(cpu, (space, kept), vma, (node, page), message, frame, &mut site)
}

/// What the protocol does about a message. One that nobody awaits any more, because the range has been unmapped meanwhile, changes nothing.
fn receive<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    vma: Option<&'static VmaRecord>,
    (node, page): (u32, u64),
    message: Message,
    frame: Option<Frame>,
    site: &mut Site,
) -> Answered {
    let mut here = Here::new(cpu, (space, kept), vma, page);
    here.arrived = frame;
    let received = site.receive(node, message, &mut here);
    let has_page = received == Received::Given;
    match here.finish(site.word()) {
        Ok(false) if received != Received::Ignored => return Ok(None),
        Ok(_) => {}
        Err(_) => damage(cpu, kept),
    }
    Ok(Some(Woken { word: name(cpu, kept, page), has_page }))
}
