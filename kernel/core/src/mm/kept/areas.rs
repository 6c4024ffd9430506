//! Ranges of a space that several kernels keep alike. Home knows them. A remote asks for the one that an address is in when it first faults there, and
//! forgets those that home has changed.

use core::ops::Range;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    KEPT_ABSENT, KeptRecord, PAGE_SIZE, PoolAddr, SpaceRecord, USER_END, VMA_EXECUTE, VMA_READ, VMA_SHARED, VMA_STORE,
    VMA_WRITE, sync::Ordering,
};
use motet_paging::Attr;
use motet_protocol::{
    Context, fs,
    lock::lock,
    peer::{
        Malformed,
        bodies::{Fields, VmaInfoRequest, VmaInfoResponse, VmaOpRequest},
    },
    residency,
};

use super::{NAMES, await_page, damage, is_alike, is_remote, name, put_site, remotes_of, site, space_of_peer, tell};
use crate::{
    call::{Stop, cost},
    cpu::{AwaitedPage, Cpu},
    due,
    mm::{
        entry,
        vma::{self, VmaSpec},
    },
    peers,
};

/// What of a range's flags a remote is told.
const TOLD: u32 = VMA_READ | VMA_WRITE | VMA_EXECUTE;

/// A remote has faulted where it knows no range: asks home. The space's lock is held.
///
/// # Errors
/// [`Stop::Page`]: home is being asked; `EFAULT`: there is none, or home cannot be asked.
pub fn ask<M: Machine>(
    cpu: &Cpu<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    address: u64,
    access: Access,
) -> Stop {
    let page = address & !(PAGE_SIZE - 1);
    if take_absent(kept, page) {
        return Errno::EFAULT.into();
    }
    peers::hold_no_longer(cpu);
    let slot = slot(kept, page);
    let asked = slot.get();
    if asked == 0 || asked & KEPT_ABSENT != 0 {
        let home = kept.home.get();
        let pid = kept.pids[home as usize].load(Ordering::Relaxed).into();
        if peers::post(cpu, home, &VmaInfoRequest { pid, address: page.into(), rest: [0; 4] }).is_err() {
            return Errno::EFAULT.into();
        }
        slot.set(page);
    }
    // Or for another page that home was asked about in this place: this one's turn comes then.
    let awaited = if slot.get() == page { address } else { slot.get() };
    await_page(cpu, (space, kept), address, access);
    if awaited != address {
        let other = AwaitedPage { space, address, access, file: cpu.pool.addr_of(kept), index: super::index(awaited) };
        cpu.mm.await_page(other);
    }
    Stop::Page
}

fn slot(kept: &KeptRecord, page: u64) -> &motet_layout::Cell64 {
    &kept.asked[(page / PAGE_SIZE) as usize % kept.asked.len()]
}

/// Whether home has said that there is nothing at `page`; who asks again asks home.
pub fn take_absent(kept: &KeptRecord, page: u64) -> bool {
    let is_absent = slot(kept, page).get() == page | KEPT_ABSENT;
    if is_absent {
        slot(kept, page).set(0);
    }
    is_absent
}

/// Home has said that there is nothing at `page`.
pub fn set_absent(kept: &KeptRecord, page: u64) {
    let slot = slot(kept, page);
    // If home is being asked about another page in this place, who wants this one asks again.
    if slot.get() == 0 || slot.get() & KEPT_ABSENT != 0 {
        slot.set(page | KEPT_ABSENT);
    }
}

/// Home: a remote asks for a range. The tree lock is held.
///
/// # Errors
/// It is no remote of that process.
pub fn area_wanted<M: Machine>(cpu: &Cpu<M>, node: u32, body: &VmaInfoRequest) -> Result<(), Malformed> {
    let address = body.address.get();
    let Some((space, kept)) = space_of_peer(cpu, node, body.pid.get())? else { return Ok(()) };
    if is_remote(cpu, kept) {
        return Err(Malformed::Unasked);
    }
    let guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, address).or_else(|| entry::find_or_grow(cpu, space, address));
    let vma = vma.filter(|vma| is_alike(vma));
    if vma.is_some_and(|vma| vma.flags.get() & VMA_SHARED != 0) {
        cpu.log(format_args!(
            "a thread in kernel {node} uses memory at {address:#x} that processes share: it stays here"
        ));
    }
    let vma = vma.filter(|vma| vma.flags.get() & VMA_SHARED == 0);
    let (start, end) = vma.map_or((0, 0), |vma| (vma.start.get(), vma.end.get()));
    let flags = vma.map_or(0, |vma| vma.flags.get() & TOLD);
    let pid = kept.pids[node as usize].load(Ordering::Acquire).into();
    let rest = [0; VmaInfoResponse::REST_LEN];
    let told = VmaInfoResponse {
        pid,
        address: address.into(),
        start: start.into(),
        end: end.into(),
        flags: flags.into(),
        rest,
    };
    tell(cpu, kept, node, &told);
    drop(guard);
    Ok(())
}

/// A remote: home has said which range an address is in. The tree lock is held. `wake` is told what threads wait at for it.
///
/// # Errors
/// It says what cannot be.
pub fn area_came<M: Machine>(
    cpu: &Cpu<M>,
    node: u32,
    body: &VmaInfoResponse,
    wake: impl FnOnce(PoolAddr),
) -> Result<(), Malformed> {
    let (page, range) = (body.address.get(), body.start.get()..body.end.get());
    let Some((space, kept)) = space_of_peer(cpu, node, body.pid.get())? else { return Ok(()) };
    let guard = lock(cpu, &space.lock);
    if kept.home.get() != node || slot(kept, page).get() != page {
        return Ok(()); // it has changed since
    }
    slot(kept, page).set(0);
    let is_aligned = range.start % PAGE_SIZE == 0 && range.end % PAGE_SIZE == 0;
    let is_none = range == (0..0);
    let is_range = is_aligned && range.contains(&page) && range.end <= USER_END;
    let known = if is_range { learn(cpu, space, page, range, body.flags.get() & TOLD) } else { Err(Errno::EFAULT) };
    if known.is_err() {
        set_absent(kept, page);
    }
    drop(guard);
    // Whatever it says, who waits for it goes on.
    wake(name(cpu, kept, page));
    if is_range || is_none { Ok(()) } else { Err(Malformed::Unasked) }
}

/// A remote knows a range from now on in which a page is, as far as it has no views of its own there: home may have put something else in their place.
fn learn<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    page: u64,
    Range { mut start, mut end }: Range<u64>,
    flags: u32,
) -> Result<(), Errno> {
    for own in vma::within(cpu, space, start..end).filter(|vma| !is_alike(vma)) {
        if own.end.get() <= page {
            start = start.max(own.end.get());
        } else if own.start.get() > page {
            end = end.min(own.start.get());
        } else {
            return Err(Errno::EFAULT);
        }
    }
    // What it knew there is older; pages stay.
    vma::unmap(cpu, space, start, end)?;
    vma::insert(cpu, space, &VmaSpec::anonymous(start, end, flags))
}

/// Home has changed a range: remotes forget what they know of it. `drops`: what its pages were is gone. The space's lock is held.
pub fn forget_elsewhere<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64, drops: bool) {
    let Some(kept) = super::of(cpu, space).filter(|kept| !is_remote(cpu, kept) && start < end) else { return };
    if kept.is_ending.load(Ordering::Acquire) != 0 {
        return; // they are told that
    }
    if drops {
        forget_words(cpu, kept, start, end);
    }
    let change = kept.change.get().wrapping_add(1);
    kept.change.set(change);
    for (node, pid) in remotes_of(kept) {
        kept.told[node as usize].set(change);
        let told = VmaOpRequest {
            pid: pid.into(),
            start: start.into(),
            end: end.into(),
            drops: u32::from(drops).into(),
            change: change.into(),
            ..Fields::zeroed()
        };
        tell(cpu, kept, node, &told);
    }
}

/// A remote: home has changed a range. The tree lock is held. `wake` is told what threads wait at.
///
/// # Errors
/// It is none of that kernel's.
pub fn forget<M: Machine>(
    cpu: &Cpu<M>,
    node: u32,
    body: &VmaOpRequest,
    wake: impl Fn(PoolAddr),
) -> Result<(), Malformed> {
    let (start, end) = (body.start.get(), body.end.get());
    let Some((space, kept)) = space_of_peer(cpu, node, body.pid.get())? else { return Ok(()) };
    if kept.home.get() != node || start % PAGE_SIZE != 0 || end % PAGE_SIZE != 0 || start >= end || end > USER_END {
        return Err(Malformed::Unasked);
    }
    let guard = lock(cpu, &space.lock);
    kept.change.set(body.change.get());
    if vma::within(cpu, space, start..end).any(|vma| vma.flags.get() & VMA_STORE != 0) {
        return Err(Malformed::Unasked);
    }
    // Without memory for splitting a range, all of it stays known: home refuses what it does not allow. Views are this kernel's own.
    let alike = || vma::within(cpu, space, start..end).find(|vma| is_alike(vma));
    while let Some(vma) = alike() {
        let (first, last) = (vma.start.get().max(start), vma.end.get().min(end));
        if vma::unmap(cpu, space, first, last).is_err() {
            break;
        }
    }
    if body.drops.get() != 0 {
        residency::unmap(cpu, space, start..end);
        forget_words(cpu, kept, start, end);
    } else {
        let part = residency::Part { range: start..end, access: Attr::NONE };
        residency::protect(cpu, space, core::iter::once(part), true);
    }
    kept.asked.iter().for_each(|slot| slot.set(0));
    drop(guard);
    // Whoever waits looks again; it is not worth to know for which page.
    (0..NAMES).for_each(|index| wake(AwaitedPage::arrival(cpu.pool.addr_of(kept), index)));
    Ok(())
}

/// Forgets what is known of the pages of a range.
fn forget_words<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord, start: u64, end: u64) {
    let mut at = start;
    while let Some(page) = next_known(cpu, kept, at, end) {
        if put_site(cpu, kept, page, 0).is_err() {
            damage(cpu, kept);
        }
        at = page + PAGE_SIZE;
    }
}

/// The first page of a range of which something is known.
pub fn next_known<M: Machine>(cpu: &Cpu<M>, kept: &KeptRecord, start: u64, end: u64) -> Option<u64> {
    let pages = cpu.object(kept.pages.get())?;
    let mut at = start;
    while at < end {
        let absent = fs::absent_pages(cpu, pages, at / PAGE_SIZE * super::WORD_LEN / PAGE_SIZE);
        if absent != 0 {
            let per_page = PAGE_SIZE / super::WORD_LEN;
            let first = at / PAGE_SIZE / per_page;
            at = first.saturating_add(absent).saturating_mul(per_page).saturating_mul(PAGE_SIZE);
        } else if site(cpu, kept, at).word() != 0 {
            return Some(at);
        } else {
            at += PAGE_SIZE;
        }
        due::spend_locked(cpu, cost::PAGE);
    }
    None
}

/// Where the pages of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This kernel has all of them.
    Home,
    /// Another one has one of them.
    Away,
    /// One of them is lost with a kernel that has died, and no other one is away.
    Lost,
}

/// Where the pages of a range of a space are. The space's lock is held.
pub fn place<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> Place {
    let Some(kept) = super::of(cpu, space).filter(|kept| !is_remote(cpu, kept)) else { return Place::Home };
    let (mut at, mut place) = (start, Place::Home);
    while let Some(page) = next_known(cpu, kept, at, end) {
        let site = site(cpu, kept, page);
        if site.is_lost() {
            place = Place::Lost;
        } else if site.is_lacking() {
            return Place::Away;
        }
        at = page + PAGE_SIZE;
    }
    place
}

/// Whether another kernel has a page of a space of this one.
pub fn has_left<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> bool {
    let Some(kept) = super::of(cpu, space) else { return false };
    let mut at = 0;
    while let Some(page) = next_known(cpu, kept, at, USER_END) {
        if site(cpu, kept, page).is_lacking() {
            return true;
        }
        at = page + PAGE_SIZE;
    }
    false
}
