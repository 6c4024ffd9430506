//! System calls that change address spaces.

use core::{ops::Range, sync::atomic::Ordering};

use motet_abi::{
    Errno,
    file::{F_SEAL_FUTURE_WRITE, F_SEAL_WRITE},
};
use motet_hal::Machine;
use motet_layout::{
    InodeRecord, PAGE_SIZE, SpaceRecord, USER_END, VMA_EXECUTE, VMA_HEAP, VMA_NEVER_WRITE, VMA_NO_RESERVE, VMA_READ,
    VMA_SHARED, VMA_STACK, VMA_STORE, VMA_VIEW, VMA_WRITE,
};
use motet_protocol::{Context, fs, lock::lock, residency};

use super::{
    View, VmaSpec, bring, kept, limits, pieces,
    policy::Policy,
    range::{LEN_MAX, LOWEST, fixed_range, page_range, unmap_locked},
    recall, space_of, view, vma,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    tree,
};

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_TYPE: u64 = 0xf;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
/// Grows towards lower addresses.
const MAP_GROWSDOWN: u64 = 0x100;
/// Nobody promises that there is memory for all of it.
const MAP_NORESERVE: u64 = 0x4000;
const MAP_LOCKED: u64 = 0x2000;
/// Its pages come at once, unless that would wait.
const MAP_POPULATE: u64 = 0x8000;
const MAP_NONBLOCK: u64 = 0x1_0000;
const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_SHARED_VALIDATE: u64 = 3;
/// Flags that `MAP_SHARED_VALIDATE` lets pass, beside the type (Linux `LEGACY_MAP_MASK`).
const MAP_KNOWN: u64 = 0x7c17_f970;
const PROT_SEM: u64 = 8;
const PROT_GROWSDOWN: u64 = 0x100_0000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// `brk(address)`: moves the end of the heap; returns where it is.
pub fn brk<M: Machine>(call: &Call<M>) -> SysResult {
    if let Some(result) = bring::brought(call) {
        return result;
    }
    let space = space_of(call.cpu, call.process);
    let new = call.args[0];
    if pieces::done(call).is_some() {
        return shrink_heap(call, space, new, call.thread.scratch[0].get());
    }
    let guard = lock(call.cpu, &space.lock);
    let (start, old) = (space.brk[0].get(), space.brk[1].get());
    if new < start || new > USER_END - LEN_MAX / 4 {
        return Ok(old);
    }
    let (old_end, new_end) = (old.next_multiple_of(PAGE_SIZE), new.next_multiple_of(PAGE_SIZE));
    let mut comes_at_once = false;
    if new_end > old_end {
        let Ok(locks) = limits::locks_of_new(call, space, new_end - old_end, false) else { return Ok(old) };
        let free = vma::first_ending_after(call.cpu, space, old_end).is_none_or(|vma| vma.start.get() >= new_end)
            && limits::check(call, space, new_end - old_end, VMA_READ | VMA_WRITE | VMA_HEAP).is_ok();
        let spec = VmaSpec::anonymous(old_end, new_end, VMA_READ | VMA_WRITE | VMA_HEAP | locks);
        if !free || vma::insert(call.cpu, space, &spec).is_err() {
            return Ok(old);
        }
        comes_at_once = bring::come_at_once(space, locks);
    }
    space.brk[1].set(new);
    drop(guard);
    if comes_at_once {
        return bring::bring_new(call, new, old_end, new_end);
    }
    if new_end < old_end {
        call.thread.scratch[0].set(old);
        return shrink_heap(call, space, new, old);
    }
    Ok(new)
}

fn shrink_heap<M: Machine>(call: &Call<M>, space: &'static SpaceRecord, new: u64, old: u64) -> SysResult {
    let (start, end) = (new.next_multiple_of(PAGE_SIZE), old.next_multiple_of(PAGE_SIZE));
    match pieces::unmap(call, space, start, end) {
        Err(Stop::Error(_)) => {
            space.brk[1].set(old);
            Ok(old)
        }
        done => done.map(|()| new),
    }
}

/// `mmap(address, length, protection, flags, fd, offset)`.
pub fn mmap<'c, M: Machine>(
    call: &Call<'c, M>,
    file_at: impl FnOnce(i32, bool) -> Result<Option<Mappable<'c, M>>, Errno>,
) -> SysResult {
    if let Some(result) = bring::brought(call) {
        return result;
    }
    let [address, len, protection, flags, fd, offset] = call.args;
    let kind = flags & MAP_TYPE;
    check_mapping_flags(flags)?;
    if len == 0 || kind != MAP_SHARED && kind != MAP_PRIVATE && kind != 3 || offset % PAGE_SIZE != 0 {
        return Err(Errno::EINVAL.into());
    }
    let len = len.checked_next_multiple_of(PAGE_SIZE).filter(|&len| len <= LEN_MAX).ok_or(Errno::ENOMEM)?;
    offset.checked_add(len).ok_or(Errno::EOVERFLOW)?;
    let shared = if kind == MAP_PRIVATE { 0 } else { VMA_SHARED };
    let inode = if flags & MAP_ANONYMOUS != 0 {
        None
    } else {
        file_at(fd as i32, shared != 0 && protection & PROT_WRITE != 0)?
    };
    let read_only = inode.as_ref().is_some_and(|file| !file.may_write);
    let mut never_write = if shared != 0 && read_only { VMA_NEVER_WRITE } else { 0 };
    let no_reserve = if flags & MAP_NORESERVE != 0 { VMA_NO_RESERVE } else { 0 };
    let space = space_of(call.cpu, call.process);
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED {
        let (start, end) = fixed_range(address, len)?;
        pieces::make_replaceable(call, space, start, end)?;
    }
    let (inode, offset) = match inode.map(|file| file.inode) {
        // Pages that nobody touches before a fork must be shared after it, too: they belong to a file without a name.
        None if shared != 0 => {
            limits::check_commit(call.cpu, len, VMA_WRITE | no_reserve)?;
            (Some(nameless_file(call.cpu, len)?), 0)
        }
        inode => (inode, offset),
    };
    let guard = lock(call.cpu, &space.lock);
    if space.vma_count.get() > vma::COUNT_MAX {
        return Err(Errno::ENOMEM.into());
    }
    if let Some(inode) = &inode
        && shared != 0
        && is_sealed(inode)
    {
        if protection & PROT_WRITE != 0 {
            return Err(Errno::EPERM.into());
        }
        never_write = VMA_NEVER_WRITE;
    }
    let grows = if flags & MAP_GROWSDOWN != 0 { VMA_STACK } else { 0 };
    let locks = limits::locks_of_new(call, space, len, flags & MAP_LOCKED != 0)?;
    let flags_of_vma = vma_flags(protection) | shared | never_write | grows | no_reserve | locks;
    limits::check(call, space, len, flags_of_vma)?;
    let start = choose_address(call.cpu, space, address, len, flags)?;
    let spec = VmaSpec {
        start,
        end: start + len,
        flags: flags_of_vma,
        inode: inode.as_ref().map(|held| held.inode()),
        offset,
        file_len: if inode.is_some() { len } else { 0 },
        policy: Policy::DEFAULT,
        view: View::default(),
    };
    vma::insert(call.cpu, space, &spec)?;
    let come_at_once = bring::come_at_once(space, locks) || flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE;
    drop(guard);
    if come_at_once { bring::bring_new(call, start, start, start + len) } else { Ok(start) }
}

/// A file to be mapped.
pub struct Mappable<'c, M: Machine> {
    /// Its inode.
    pub inode: fs::Held<'c, Cpu<M>>,
    /// Whether it was opened for writing, too: otherwise a shared mapping of it can never be made writable.
    pub may_write: bool,
}

/// Whether no mapping made now may write to the file.
pub fn is_sealed(inode: &InodeRecord) -> bool {
    inode.seals.load(Ordering::SeqCst) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0
}

fn nameless_file<M: Machine>(cpu: &Cpu<M>, len: u64) -> Result<fs::Held<'_, Cpu<M>>, Errno> {
    let attributes =
        fs::Attributes { mode: fs::TYPE_REGULAR | 0o600, now_ns: cpu.realtime_ns(), ..fs::Attributes::default() };
    let file = fs::Held::adopt(cpu, fs::new_inode(cpu, attributes)?);
    fs::truncate(cpu, file.inode(), len)?;
    Ok(file)
}

/// Refuses what mappings cannot be here: a program that asks for it must not believe that it got it.
///
/// # Errors
/// `EOPNOTSUPP`, `ENOMEM`, `EINVAL`: as Linux without that feature says.
fn check_mapping_flags(flags: u64) -> Result<(), Errno> {
    let kind = flags & MAP_TYPE;
    if kind == MAP_SHARED_VALIDATE && flags & !(MAP_KNOWN | MAP_TYPE) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & MAP_HUGETLB != 0 {
        // There are no huge pages, and no file system of such.
        return Err(if flags & MAP_ANONYMOUS != 0 { Errno::ENOMEM } else { Errno::EINVAL });
    }
    if flags & MAP_GROWSDOWN != 0 && (kind != MAP_PRIVATE || flags & MAP_ANONYMOUS == 0) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `munmap(address, length)`.
pub fn munmap<M: Machine>(call: &Call<M>) -> SysResult {
    let (start, end) = page_range(call.args[0], call.args[1], Errno::EINVAL)?;
    if start == end {
        return Err(Errno::EINVAL.into());
    }
    let space = space_of(call.cpu, call.process);
    if pieces::done(call).is_none() {
        let _guard = lock(call.cpu, &space.lock);
        view::check_no_store(call.cpu, space, start, end)?;
        vma::may_cut(call.cpu, space, start, end)?;
    }
    pieces::unmap(call, space, start, end)?;
    Ok(0)
}

/// `mprotect(address, length, protection)`.
pub fn mprotect<M: Machine>(call: &Call<M>) -> SysResult {
    let [address, len, protection, ..] = call.args;
    let (mut start, end) = page_range(address, len, Errno::ENOMEM)?;
    if protection & !(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_SEM | PROT_GROWSDOWN) != 0 {
        return Err(Errno::EINVAL.into());
    }
    recall(call, start, end)?;
    let space = space_of(call.cpu, call.process);
    let flags = vma_flags(protection);
    let begins = pieces::done(call).is_none();
    if begins || protection & PROT_GROWSDOWN != 0 {
        let _guard = lock(call.cpu, &space.lock);
        if protection & PROT_GROWSDOWN != 0 {
            // Down to where what grows begins now.
            let vma = vma::find(call.cpu, space, start).ok_or(Errno::ENOMEM)?;
            if vma.flags.get() & VMA_STACK == 0 {
                return Err(Errno::EINVAL.into());
            }
            start = vma.start.get();
        }
        if begins {
            limits::check_protection(call, space, start..end, flags)?;
            view::check_protection(call.cpu, space, start, end, flags)?;
        }
    }
    pieces::protect(call, space, start, end, flags)?;
    Ok(0)
}

/// Unmaps pages that a file no longer has from all spaces that map it, if any may have them mapped. `is_cut`: it has become shorter.
pub fn forget_pages<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, pages: Option<Range<u64>>, is_cut: bool) {
    let Some(pages) = pages else { return };
    let _tree = tree::lock_tree(cpu);
    tree::for_each(cpu, |process| {
        if let Some(space) = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed)) {
            forget_file_pages(cpu, space, inode, &pages, is_cut);
        }
    });
}

/// Unmaps pages that a file no longer has from a space's mappings: [`residency::forget_file`].
fn forget_file_pages<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    inode: &'static InodeRecord,
    pages: &Range<u64>,
    is_cut: bool,
) {
    let _guard = lock(cpu, &space.lock);
    let mappings = || vma::within(cpu, space, 0..u64::MAX);
    residency::forget_file(cpu, space, mappings(), inode, pages, is_cut);
    if is_cut && kept::of(cpu, space).is_some() {
        // Nor have other kernels them, which may have changed theirs.
        let is_alike = |flags: u32| flags & (VMA_SHARED | VMA_VIEW | VMA_STORE) == 0;
        residency::mapped(mappings(), cpu.raw(inode), pages, is_alike)
            .for_each(|range| kept::forget_elsewhere(cpu, space, range.start, range.end, true));
    }
}

/// Makes pages of a file read-only where a space shares it.
pub fn protect_file_pages<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    inode: &'static InodeRecord,
    pages: &Range<u64>,
) {
    let _guard = lock(cpu, &space.lock);
    residency::write_protect_file(cpu, space, vma::within(cpu, space, 0..u64::MAX), inode, pages);
}

fn choose_address<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    len: u64,
    flags: u64,
) -> Result<u64, Errno> {
    let exact = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
    if exact {
        let (start, end) = fixed_range(address, len)?;
        if flags & MAP_FIXED_NOREPLACE == 0 {
            view::check_no_store(cpu, space, start, end)?;
            unmap_locked(cpu, space, start, end)?;
        } else if vma::first_ending_after(cpu, space, start).is_some_and(|vma| vma.start.get() < end) {
            return Err(Errno::EEXIST);
        }
        return Ok(start);
    }
    let hint = address & !(PAGE_SIZE - 1);
    if hint >= LOWEST
        && hint.checked_add(len).is_some_and(|end| end <= USER_END)
        && vma::first_ending_after(cpu, space, hint).is_none_or(|vma| vma.start.get() >= hint + len)
    {
        return Ok(hint);
    }
    vma::find_free(cpu, space, len, space.mmap_top.get()).ok_or(Errno::ENOMEM)
}

/// `VMA_*` of Linux `PROT_*`.
pub fn vma_flags(protection: u64) -> u32 {
    let mut flags = 0;
    for (prot, flag) in [(PROT_READ, VMA_READ), (PROT_WRITE, VMA_WRITE), (PROT_EXEC, VMA_EXECUTE)] {
        if protection & prot != 0 {
            flags |= flag;
        }
    }
    flags
}

/// `membarrier(command, ...)`: the query says that nothing is offered.
pub fn membarrier<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[0] as u32 == 0 && call.args[1] as u32 == 0 { Ok(0) } else { Err(Errno::EINVAL.into()) }
}
