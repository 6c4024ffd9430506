//! Address spaces that several kernels keep alike (`docs/protocols/messages.md`): a process of one kernel has threads in others. Each of these kernels has a space for it
//! with tables and frames of its own. Which of them may read or write a page is the protocol's ([`motet_protocol::dsm`]); what is known of a page is a word, in a file without
//! a name that the space has for it.
//!
//! | file | |
//! |---|---|
//! | `page` | what the protocol does with a page here |
//! | `several` | one message with answers about several pages |
//! | `answer` | messages about pages |
//! | `ahead` | messages about a page and those behind it that are wished for |
//! | `areas` | ranges: remotes ask home, home tells remotes |
//! | `lost` | a kernel has died |
//!
//! Views and stores are each kernel's own. What processes share (`MAP_SHARED`) stays at home.

mod ahead;
mod answer;
mod areas;
mod lost;
mod page;
mod several;

pub use ahead::{several_came, wanted};
pub use answer::{Woken, came, invalidate, invalidated, read_in_place, short_came};
pub(super) use areas::{Place, ask, forget_elsewhere, has_left, next_known, place};
pub use areas::{area_came, area_wanted, forget};
pub use lost::lose;
pub(super) use page::{begin_recall, prepare};

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    CoreId, InodeRecord, KeptRecord, LATE_PAGES, PAGE_SIZE, PoolAddr, ProcessRecord, SpaceRecord, USER_END, VMA_STORE,
    VMA_VIEW, VmaRecord, sync::Ordering,
};
use motet_protocol::{
    Context,
    dsm::Site,
    fs,
    peer::{
        Malformed,
        bodies::{Body, TaskExitOrigin},
    },
    slab, threads,
};

use crate::{
    cpu::{AwaitedPage, Cpu},
    peers,
    tree::lock_tree,
};

/// Names of a space's pages, that threads wait at. Behind them is that of wishes ([`AwaitedPage::wish`]): a thread that waits for a page wakes those who wait at it, and would wake itself
/// again and again if it were one of these.
const NAMES: u64 = LATE_PAGES;
const _: () = assert!(NAMES < size_of::<KeptRecord>() as u64);

/// Bytes of what is known of a page.
const WORD_LEN: u64 = 8;

/// What this kernel knows of a space that several keep alike; `None`: it has the space alone.
#[inline(always)]
pub fn of<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> Option<&'static KeptRecord> {
    match space.kept.load(Ordering::Acquire) {
        0 => None,
        raw => cpu.object(raw),
    }
}

/// From now on other kernels keep the space alike, whose process began at kernel `home`.
///
/// # Errors
/// `ENOMEM`.
pub fn begin<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, home: u32) -> Result<&'static KeptRecord, Errno> {
    let attributes = fs::Attributes { mode: fs::TYPE_REGULAR | 0o600, ..fs::Attributes::default() };
    let pages = fs::Held::adopt(cpu, fs::new_inode(cpu, attributes).map_err(|_| Errno::ENOMEM)?);
    fs::truncate(cpu, pages.inode(), USER_END / PAGE_SIZE * WORD_LEN)?;
    let kept = slab::alloc::<KeptRecord>(cpu).ok_or(Errno::ENOMEM)?;
    // From now on any page may be elsewhere.
    space.has_late.store(1, Ordering::Relaxed);
    kept.home.set(home);
    kept.pages.set(cpu.raw(pages.release()));
    if let Err(found) = space.kept.compare_exchange(0, cpu.raw(kept), Ordering::AcqRel, Ordering::Acquire) {
        discard(cpu, kept);
        return cpu.object(found).ok_or(Errno::ENOMEM);
    }
    peers::begin_space(cpu);
    if home != peers::own_node(cpu) {
        let _tree = lock_tree(cpu);
        let first = &peers::of(cpu).remotes;
        kept.next.set(first.get());
        first.set(cpu.raw(kept));
    }
    Ok(kept)
}

/// The space has no user any more: the others are told, if it is this kernel's. Whether several kernels have kept it alike.
pub(super) fn end<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> bool {
    let Some(kept) = of(cpu, space) else { return false };
    space.kept.store(0, Ordering::Release);
    peers::end_space(cpu);
    if is_remote(cpu, kept) {
        let _tree = lock_tree(cpu);
        unlink(cpu, kept);
    } else {
        tell_end(cpu, kept);
    }
    discard(cpu, kept);
    true
}

/// A space of which nobody is left is about to be unmapped piece by piece: of these, other kernels are told nothing any more.
pub(super) fn begin_end<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    if let Some(kept) = of(cpu, space).filter(|kept| !is_remote(cpu, kept)) {
        tell_end(cpu, kept);
    }
}

/// Home: tells the other kernels, once, that the process has ended.
fn tell_end<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord) {
    if kept.is_ending.swap(1, Ordering::AcqRel) == 0 {
        for (node, pid) in remotes_of(kept) {
            let _is_told = peers::post(cpu, node, &TaskExitOrigin { pid: pid.into(), tid: 0.into(), rest: [0; 4] });
        }
    }
}

fn discard<M: Machine>(cpu: &Cpu<M>, kept: &'static KeptRecord) {
    if let Some(pages) = cpu.object::<InodeRecord>(kept.pages.get()) {
        fs::put(cpu, pages);
    }
    slab::free(cpu, kept);
}

/// Takes a remote's record out of the list. The tree lock is held.
fn unlink<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord) {
    let mut slot = &peers::of(cpu).remotes;
    while let Some(found) = cpu.object::<KeptRecord>(slot.get()) {
        if core::ptr::eq(found, kept) {
            slot.set(kept.next.get());
            return;
        }
        slot = &found.next;
    }
}

/// The space here of a process that is another kernel's. The tree lock is held.
pub fn remote<M: Machine>(cpu: &Cpu<M>, home: u32, pid: u32) -> Option<&'static KeptRecord> {
    remotes(cpu, home).find(|kept| kept.pids[home as usize].load(Ordering::Relaxed) == pid)
}

/// The spaces here of processes that are another kernel's. The tree lock is held.
pub fn remotes<M: Machine>(cpu: &Cpu<M>, home: u32) -> impl Iterator<Item = &'static KeptRecord> {
    let first = cpu.object::<KeptRecord>(peers::of(cpu).remotes.get());
    core::iter::successors(first, |kept| cpu.object(kept.next.get())).filter(move |kept| kept.home.get() == home)
}

/// Whether a space is that of another kernel's process.
pub fn is_remote<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord) -> bool {
    kept.home.get() != peers::own_node(cpu)
}

/// Kernels that have a part of a process of this one, with its ids there.
fn remotes_of(kept: &KeptRecord) -> impl Iterator<Item = (u32, u32)> {
    let home = kept.home.get();
    let pids = (0..).zip(&kept.pids).map(|(node, pid)| (node, pid.load(Ordering::Acquire)));
    pids.filter(move |&(node, pid)| node != home && pid != 0)
}

/// Sends a message about a space to another kernel.
fn tell<M: Machine, B: Body>(cpu: &Cpu<M>, kept: &KeptRecord, node: u32, body: &B) {
    if peers::post(cpu, node, body) == Err(Errno::ENOMEM) {
        damage(cpu, kept);
    }
}

/// A message about a space is lost, for want of memory. Threads may wait for it in any kernel: the process ends ([`is_damaged`]).
fn damage<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord) {
    kept.is_damaged.store(1, Ordering::Release);
    peers::of(cpu).has_damaged.store(1, Ordering::Release);
    cpu.ring(CoreId::new(cpu.island(), 0));
}

/// There is no memory for a page that kernel `node` has sent. The tree lock is held.
///
/// # Errors
/// The process has nothing to do with that kernel.
pub fn lack_memory<M: Machine>(cpu: &Cpu<M>, node: u32, pid: u32) -> Result<(), Malformed> {
    if let Some((_, kept)) = space_of_peer(cpu, node, pid)? {
        damage(cpu, kept);
    }
    Ok(())
}

/// Whether a space has lost a message, so that its process is to end.
pub fn is_damaged<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> bool {
    of(cpu, space).is_some_and(|kept| kept.is_damaged.load(Ordering::Acquire) != 0)
}

/// Whether kernels keep what a range contains alike.
fn is_alike(vma: &VmaRecord) -> bool {
    vma.flags.get() & (VMA_VIEW | VMA_STORE) == 0
}

/// The space of the process with that id, which has something to do with kernel `node`. The tree lock is held. `None`: it has none any more.
///
/// # Errors
/// It has nothing to do with that kernel.
fn space_of_peer<M: Machine>(
    cpu: &Cpu<M>,
    node: u32,
    pid: u32,
) -> Result<Option<(&'static SpaceRecord, &'static KeptRecord)>, Malformed> {
    let Some(thread) = threads::lookup(cpu, pid) else { return Ok(None) };
    let process = cpu.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed));
    let space = process.and_then(|process| cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed)));
    let Some((space, kept)) = space.and_then(|space| Some((space, of(cpu, space)?))) else { return Ok(None) };
    let is_part = kept.home.get() == node || !is_remote(cpu, kept) && has_part(kept, node);
    if is_part { Ok(Some((space, kept))) } else { Err(Malformed::Unasked) }
}

fn has_part(kept: &KeptRecord, node: u32) -> bool {
    kept.pids[node as usize].load(Ordering::Acquire) != 0
}

/// What is known of the page at `page`.
fn site<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord, page: u64) -> Site {
    let pages = cpu.object::<InodeRecord>(kept.pages.get());
    let word = pages.and_then(|pages| fs::word(cpu, pages, page / PAGE_SIZE * WORD_LEN));
    let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
    Site::from_word(peers::own_node(cpu), kept.home.get(), word)
}

/// Whether another kernel has a page, or is about to. The space's lock is held.
pub(super) fn is_elsewhere<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord, page: u64) -> bool {
    site(cpu, kept, page).is_elsewhere()
}

/// Keeps what is known of a page.
///
/// # Errors
/// `ENOMEM`.
fn put_site<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord, page: u64, word: u64) -> Result<(), Errno> {
    let pages = cpu.object::<InodeRecord>(kept.pages.get()).ok_or(Errno::ENOMEM)?;
    let place = fs::word_or_allocate(cpu, pages, page / PAGE_SIZE * WORD_LEN).map_err(|_| Errno::ENOMEM)?;
    place.store(word, Ordering::Relaxed);
    Ok(())
}

/// What threads wait at for a page.
fn name<M: Machine>(cpu: &Cpu<M>, kept: &'static KeptRecord, page: u64) -> PoolAddr {
    AwaitedPage::arrival(cpu.pool.addr_of(kept), index(page))
}

fn index(page: u64) -> u64 {
    page / PAGE_SIZE % NAMES
}

/// The page comes later: this core notes which.
fn await_page<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    address: u64,
    access: Access,
) {
    let file = cpu.pool.addr_of(kept);
    cpu.mm.await_page(AwaitedPage { space, address, access, file, index: index(address) });
}
