//! What the protocol does with a page here: rights are entries of the space's table, the page is a frame.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{Frame, KeptRecord, PAGE_SIZE, SpaceRecord, VMA_EXECUTE, VmaRecord, sync::Ordering};
use motet_paging::{Attr, Leaf};
use motet_protocol::{
    dsm::{Effects, Message, Outcome, Rights},
    memory::{release_frame, share_frame},
    peer::bodies::{
        PAGE_GRANTED, PAGE_IN_PLACE, PAGE_RETRY, PageInvalidateRequest, PageInvalidateResponse, PageRequest,
        PageResponse, PageResponseShort, SeveralResult,
    },
    residency::{self, Home, Kind, Part},
};

use super::{
    areas, await_page, damage, is_alike, put_site,
    several::{Several, most},
    site,
};
use crate::{
    call::Stop,
    cpu::Cpu,
    mm::vma::{self, attr_of},
    peers,
};

/// A page of a space whose lock is held.
pub struct Here<'a, M: Machine> {
    pub cpu: &'a Cpu<M>,
    pub space: &'static SpaceRecord,
    pub kept: &'static KeptRecord,
    /// What it is in; `None`: it has been unmapped.
    pub vma: Option<&'static VmaRecord>,
    pub page: u64,
    /// The page that has come, with a reference.
    pub arrived: Option<Frame>,
    /// The page that was here until now, with a reference.
    pub gone: Option<Frame>,
    /// Threads that wait for it are to be woken.
    pub wakes: bool,
    /// A message could not be sent.
    pub failed: Option<Errno>,
    /// Answers go into one message, with those about other pages.
    pub several: Option<&'a mut Several>,
    /// A thread of this kernel has faulted: with the page, others are asked for.
    pub looks_ahead: bool,
}

impl<'a, M: Machine> Here<'a, M> {
    pub fn new(
        cpu: &'a Cpu<M>,
        (space, kept): (&'static SpaceRecord, &'static KeptRecord),
        vma: Option<&'static VmaRecord>,
        page: u64,
    ) -> Self {
        Self {
            cpu,
            space,
            kept,
            vma,
            page,
            arrived: None,
            gone: None,
            wakes: false,
            failed: None,
            several: None,
            looks_ahead: false,
        }
    }

    fn home(&self) -> Home {
        Home::of(self.cpu, self.space)
    }

    /// Enters the page that has come, or widens what is there.
    fn give(&mut self, rights: Rights) {
        // In no range that is known now, it is kept, and of no use until one is.
        let (allowed, flags) = self.vma.map_or((Attr::NONE, 0), |vma| (attr_of(vma), vma.flags.get()));
        let allowed = Kind::Owned.allowing(allowed);
        let attr = if rights == Rights::Write { allowed } else { allowed.without(Attr::WRITE) };
        let executes = flags & VMA_EXECUTE != 0;
        let home = self.home();
        let given = match (self.arrived.take(), home.leaf(self.page)) {
            (Some(frame), None) => residency::insert(self.cpu, self.space, &home, self.page, (frame, attr), executes),
            (Some(frame), Some(_)) => {
                release_frame(self.cpu, frame);
                Ok(())
            }
            // Other kinds are the ordinary fault's.
            (None, Some(leaf)) if Kind::of(leaf.attr) == Kind::Owned && rights == Rights::Write => {
                residency::fill(self.cpu, self.space, &home, self.page, Leaf { frame: leaf.frame, attr }, executes)
            }
            (None, _) => Ok(()),
        };
        if given.is_err() {
            self.failed = Some(Errno::ENOMEM);
        }
    }

    /// Takes the page out of the table; it stays until it has been sent.
    fn take_away(&mut self) {
        let Some(leaf) = self.home().leaf(self.page) else { return };
        let frame = leaf.frame.named();
        share_frame(self.cpu, frame);
        if let Some(before) = self.gone.replace(frame) {
            release_frame(self.cpu, before);
        }
        residency::drop_pages(self.cpu, self.space, self.page..self.page + PAGE_SIZE);
    }

    fn narrow(&self) {
        let has_write = self.home().leaf(self.page).is_some_and(|leaf| leaf.attr.contains(Attr::WRITE));
        if let Some(vma) = self.vma.filter(|_| has_write) {
            let access = attr_of(vma).without(Attr::WRITE);
            let part = Part { range: self.page..self.page + PAGE_SIZE, access };
            residency::protect(self.cpu, self.space, core::iter::once(part), false);
        }
    }

    /// The page is here, and may be used: if its entry says less, because what its range allows had changed, says so.
    fn restore(&self, rights: Rights) -> Result<(), Errno> {
        let home = self.home();
        let Some(leaf) = home.leaf(self.page).filter(|leaf| !leaf.attr.contains(Attr::READ)) else { return Ok(()) };
        let Some(vma) = self.vma else { return Ok(()) };
        let allowed = Kind::of(leaf.attr).allowing(attr_of(vma));
        let attr = if rights == Rights::Write { allowed } else { allowed.without(Attr::WRITE) };
        let filled = residency::fill(self.cpu, self.space, &home, self.page, Leaf { frame: leaf.frame, attr }, false);
        filled.map_err(|_| Errno::ENOMEM)
    }

    fn frame(&self) -> Option<Frame> {
        // One that has come for another kernel alone is in no table.
        self.arrived.or_else(|| self.home().leaf(self.page).map(|leaf| leaf.frame.named())).or(self.gone)
    }

    /// Whether a message is an answer that goes into one message with others.
    fn joins_several(&mut self, to: u32, message: Message) -> bool {
        if self.several.as_ref().is_none_or(|several| several.node != to) {
            return false;
        }
        let frame = self.frame();
        let Some(several) = &mut self.several else { return false };
        match (message, frame) {
            (Message::Data { .. }, Some(frame)) => {
                share_frame(self.cpu, frame);
                several.note(self.page, SeveralResult::Came, frame);
            }
            (Message::Short, _) => several.note(self.page, SeveralResult::Granted, Frame::NONE),
            (Message::Retry, _) => several.note(self.page, SeveralResult::Retry, Frame::NONE),
            _ => return false,
        }
        true
    }

    /// Keeps what is known of the page, and gives back frames that nobody has.
    pub fn finish(mut self, word: u64) -> Result<bool, Errno> {
        for frame in [self.arrived.take(), self.gone.take()].into_iter().flatten() {
            release_frame(self.cpu, frame);
        }
        let kept = put_site(self.cpu, self.kept, self.page, word);
        self.failed.map_or(kept, Err).map(|()| self.wakes)
    }
}

impl<M: Machine> Effects for Here<'_, M> {
    fn protect(&mut self, rights: Rights) {
        match rights {
            Rights::None => self.take_away(),
            Rights::Read if self.arrived.is_none() => self.narrow(),
            Rights::Read | Rights::Write => self.give(rights),
        }
    }

    fn send(&mut self, to: u32, message: Message) {
        if self.joins_several(to, message) {
            return;
        }
        let (cpu, address) = (self.cpu, self.page.into());
        let pid = self.kept.pids[to as usize].load(Ordering::Acquire).into();
        let short = |result: u32| PageResponseShort::of(pid, address, result);
        let sent = match message {
            Message::Request { write } => {
                let wishes = if self.looks_ahead { wish(self, to, write) } else { 0 };
                let (write, change) = (u32::from(write).into(), self.kept.change.get().into());
                peers::post(cpu, to, &PageRequest { pid, address, write, change, wishes: wishes.into(), rest: [0; 24] })
            }
            // The request says so of the page that is asked for.
            Message::Wish { .. } => Ok(()),
            Message::Data { write } if peers::reads_in_place(cpu) => {
                let frame = self.frame().ok_or(Errno::ENXIO);
                frame.and_then(|frame| peers::post_lent(cpu, to, &short(PAGE_IN_PLACE).at(frame, write), &[frame]))
            }
            Message::Data { write } => {
                let body = PageResponse { pid, address, write: u32::from(write).into(), rest: [0; 8] };
                self.frame().ok_or(Errno::ENXIO).and_then(|frame| peers::post_pages(cpu, to, &body, &[frame]))
            }
            Message::Short => peers::post(cpu, to, &short(PAGE_GRANTED)),
            Message::Retry => peers::post(cpu, to, &short(PAGE_RETRY)),
            Message::Invalidate => peers::post(cpu, to, &PageInvalidateRequest { pid, address, rest: [0; 8] }),
            Message::Invalidated => {
                peers::of(cpu).pages_invalidated.fetch_add(1, Ordering::Relaxed);
                peers::post(cpu, to, &PageInvalidateResponse { pid, address })
            }
        };
        match sent {
            // A kernel that has died is told nothing. What it owes counts as answered when this one lets go of it (`lost`).
            Ok(()) | Err(Errno::EIO) => {}
            Err(errno) => self.failed = Some(errno),
        }
    }

    fn install(&mut self) {
        // It is entered with its rights.
        peers::of(self.cpu).pages_copied.fetch_add(1, Ordering::Relaxed);
    }

    fn wake(&mut self) {
        self.wakes = true;
    }
}

/// Kernel `from` is asked for a page: the pages behind it that it may have for this kernel, too, are wished for. A bit for each.
fn wish<M: Machine>(asked: &Here<'_, M>, from: u32, write: bool) -> u32 {
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

/// Before a fault on a page is served as usual: whether this kernel has the page so that it may. The space's lock is held.
///
/// # Errors
/// [`Stop::Page`]: it comes later; `EFAULT`: home has none; `ENXIO`: the kernel has died that had it; `ENOMEM`.
pub fn prepare<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    vma: &'static VmaRecord,
    address: u64,
    access: Access,
) -> Result<(), Stop> {
    if !is_alike(vma) {
        return Ok(());
    }
    let page = address & !(PAGE_SIZE - 1);
    let mut site = site(cpu, kept, page);
    let write = access == Access::Write;
    if site.allows(write) {
        Here::new(cpu, (space, kept), Some(vma), page).restore(site.rights())?;
        return Ok(());
    }
    if areas::take_absent(kept, page) {
        return Err(Errno::EFAULT.into());
    }
    peers::hold_no_longer(cpu);
    let mut here = Here::new(cpu, (space, kept), Some(vma), page);
    here.looks_ahead = true;
    let outcome = site.fault(write, &mut here);
    if let Err(errno) = here.finish(site.word()) {
        damage(cpu, kept);
        return Err(errno.into());
    }
    match outcome {
        // As of a file that no longer has the page.
        Outcome::Lost => Err(Errno::ENXIO.into()),
        Outcome::Done => Ok(()),
        Outcome::Wait | Outcome::Again => {
            await_page(cpu, (space, kept), address, access);
            Err(Stop::Page)
        }
    }
}

/// Home: a page of a range that allows no access comes home nevertheless. Nobody can wait for it as one waits for a page. The space's lock is held.
///
/// # Errors
/// [`Stop::Again`]: it comes later; `ENOMEM`.
pub fn begin_recall<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    page: u64,
) -> Result<(), Stop> {
    let Some(vma) = vma::find(cpu, space, page) else { return Ok(()) };
    match prepare(cpu, (space, kept), vma, page, Access::Write) {
        Err(Stop::Page) => {
            cpu.mm.take_awaited();
            Err(Stop::Again)
        }
        Err(Stop::Error(Errno::ENXIO)) => Ok(()), // it is lost
        result => result,
    }
}
