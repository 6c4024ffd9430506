//! Watches of inodes (inotify(7)): who is told when something happens to a file, on whatever islands both are.
//!
//! A watch is in a list of its inode, and in a tree of the open file that has made it. It has no reference to the inode: whoever frees that ends its watches
//! ([`gone`]). All is under one lock, the header's `notify.lock`, which comes after those of inodes, so changes of a directory are told in their order. The
//! header counts watches: where there are none, a look at that word is all that a file's reader or writer does ([`is_any`]).

mod recover;
mod told;

use motet_abi::{
    Errno,
    inotify::{IN_ALL_EVENTS, IN_DELETE_SELF, IN_EXCL_UNLINK, IN_IGNORED, IN_ISDIR, IN_MOVE_SELF, IN_ONESHOT},
};
use motet_layout::{
    Cell64, CoreId, InodeRecord, InodeWatch, InotifyRecord, NotifyState, PAGE_SIZE, TreeLinks, in_order, sync::Ordering,
};

pub use recover::recover;
pub use told::{EVENT_MAX, Taken, first_len, has_told, take};

use crate::{
    Context,
    cores::is_dead,
    lock::{Guard, lock},
    slab,
    treap::{Tree, TreeNode},
    wait,
};
use told::{Event, forget_all, tell};

/// Events that wait to be read by one open file (`/proc/sys/fs/inotify/max_queued_events`).
pub const EVENTS_MAX: u32 = 16384;
/// Open files of a user (`max_user_instances`).
pub const INSTANCES_MAX: u32 = 128;
/// What a look at one of a list costs, in instructions.
const LOOKED: u64 = 10;
/// What telling one event costs.
const TOLD: u64 = 100;

/// Watches that a user may have (`max_user_watches`): as on Linux, a hundredth of the memory, within bounds.
pub fn watches_max(context: &impl Context) -> u32 {
    (context.pool().len() / 100 / size_of::<InodeWatch>() as u64).clamp(8192, 1 << 20) as u32
}

/// Frames of events that wait to be read by a user's open files.
fn frames_max(context: &impl Context) -> u32 {
    (context.pool().len() / PAGE_SIZE / 64).max(16) as u32
}

/// All there is, but for how many watches there are.
pub fn state(context: &impl Context) -> &'static NotifyState {
    &context.pool().header().notify
}

fn lock_all(context: &impl Context) -> Guard<'static> {
    lock(context, &state(context).lock)
}

/// Whether anything is watched.
#[inline(always)]
pub fn is_any(context: &impl Context) -> bool {
    context.pool().header().inode_watches.load(Ordering::Relaxed) != 0
}

/// Whether an inode is watched.
#[inline]
pub fn is_watched(inode: &InodeRecord) -> bool {
    inode.watches.load(Ordering::Relaxed) != 0
}

impl TreeNode for InodeWatch {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    /// The latest first, as Linux shows them.
    fn is_before(&self, other: &Self) -> bool {
        self.number.get() > other.number.get()
    }
}

fn watches_of<'a, C: Context>(context: &'a C, instance: &'a InotifyRecord) -> Tree<'a, C, InodeWatch> {
    Tree::new(context, &instance.watches)
}

/// All open files that watch.
pub fn instances<C: Context>(context: &C) -> impl Iterator<Item = &'static InotifyRecord> + use<'_, C> {
    let first = context.object::<InotifyRecord>(state(context).instances.get());
    core::iter::successors(first, |instance| context.object(instance.next.get()))
}

/// What a user's open files have together.
fn sum_of_user(context: &impl Context, uid: u32, of: impl Fn(&InotifyRecord) -> u32) -> u32 {
    let mut sum = 0_u32;
    for instance in instances(context) {
        context.spend_locked(LOOKED);
        sum = sum.saturating_add(if instance.uid.get() == uid { of(instance) } else { 0 });
    }
    sum
}

/// What a new open file is to have: no watches, and nothing to be read. Once that has it, [`made`] is called.
///
/// # Errors
/// `EMFILE`: the user has too many; `ENOMEM`.
pub fn make(context: &impl Context, uid: u32) -> Result<&'static InotifyRecord, Errno> {
    let _guard = lock_all(context);
    if sum_of_user(context, uid, |_| 1) >= INSTANCES_MAX {
        return Err(Errno::EMFILE);
    }
    let instance = slab::alloc::<InotifyRecord>(context).ok_or(Errno::ENOMEM)?;
    instance.uid.set(uid);
    instance.maker.store(u32::from(context.core().0) + 1, Ordering::Relaxed);
    in_order();
    instance.is_used.set(1);
    list(context, instance);
    Ok(instance)
}

/// An open file has it.
pub fn made(instance: &InotifyRecord) {
    instance.maker.store(0, Ordering::Release);
}

/// What dead cores were making open files of.
pub fn unfinished<C: Context>(context: &C) -> impl Iterator<Item = &'static InotifyRecord> + use<'_, C> {
    let maker = |instance: &InotifyRecord| CoreId::from_raw(instance.maker.load(Ordering::Acquire).checked_sub(1)?);
    slab::all::<InotifyRecord>(context).filter(move |instance| {
        instance.is_used.get() != 0 && maker(instance).is_some_and(|core| is_dead(context, core))
    })
}

fn list(context: &impl Context, instance: &'static InotifyRecord) {
    let first = &state(context).instances;
    instance.prev.set(0);
    instance.next.set(first.get());
    if let Some(next) = context.object::<InotifyRecord>(first.get()) {
        next.prev.set(context.raw(instance));
    }
    first.set(context.raw(instance));
}

/// What becomes of a watch that there is already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// It is for what is asked for now.
    Replace,
    /// It is also for that.
    Add,
    /// The call fails.
    Refuse,
}

/// Watches an inode, to which the caller has a reference, for some events and with some flags; returns the watch's number.
///
/// # Errors
/// `EEXIST`; `ENOSPC`: the user has too many; `ENOMEM`.
pub fn add(
    context: &impl Context,
    instance: &'static InotifyRecord,
    inode: &'static InodeRecord,
    mask: u32,
    again: Again,
) -> Result<u32, Errno> {
    let _guard = lock_all(context);
    // So that none is nothing.
    let mask = mask & (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT) | IN_IGNORED;
    let own = |watch: &&'static InodeWatch| watch.instance.get() == context.raw(instance);
    if let Some(watch) = of_inode(context, inode).find(own) {
        match again {
            Again::Refuse => return Err(Errno::EEXIST),
            Again::Replace => watch.mask.set(mask),
            Again::Add => watch.mask.set(watch.mask.get() | mask),
        }
        return Ok(watch.number.get());
    }
    if sum_of_user(context, instance.uid.get(), |one| one.watch_count.get()) >= watches_max(context) {
        return Err(Errno::ENOSPC);
    }
    let watch = slab::alloc::<InodeWatch>(context).ok_or(Errno::ENOMEM)?;
    let number = next_number(context, instance);
    instance.last_number.set(number);
    watch.number.set(number);
    watch.inode.set(context.raw(inode));
    watch.instance.set(context.raw(instance));
    in_order();
    watch.mask.set(mask); // from now on it is one
    in_order();
    link(context, watch, inode, instance);
    Ok(number)
}

/// A number that no watch of an open file has. They are given in turn.
fn next_number(context: &impl Context, instance: &InotifyRecord) -> u32 {
    let mut number = instance.last_number.get();
    loop {
        number = if number < i32::MAX as u32 { number + 1 } else { 1 };
        if find(context, instance, number).is_none() {
            return number;
        }
        context.spend_locked(LOOKED);
    }
}

/// Enters a watch in the list of its inode and in the tree of its open file, and counts it.
fn link(
    context: &impl Context,
    watch: &'static InodeWatch,
    inode: &'static InodeRecord,
    instance: &'static InotifyRecord,
) {
    let first = inode.watches.load(Ordering::Relaxed);
    watch.prev.set(0);
    watch.next.set(first);
    if let Some(next) = context.object::<InodeWatch>(first) {
        next.prev.set(context.raw(watch));
    }
    inode.watches.store(context.raw(watch), Ordering::Relaxed);
    watches_of(context, instance).insert(watch);
    instance.watch_count.set(instance.watch_count.get() + 1);
    let all = &context.pool().header().inode_watches;
    all.store(all.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Ends a watch.
fn end(context: &impl Context, watch: &'static InodeWatch) {
    watch.mask.set(0);
    in_order();
    let next = context.object::<InodeWatch>(watch.next.get());
    if let Some(next) = next {
        next.prev.set(watch.prev.get());
    }
    match context.object::<InodeWatch>(watch.prev.get()) {
        Some(prev) => prev.next.set(watch.next.get()),
        None => {
            if let Some(inode) = context.object::<InodeRecord>(watch.inode.get()) {
                inode.watches.store(watch.next.get(), Ordering::Relaxed);
            }
        }
    }
    if let Some(instance) = context.object::<InotifyRecord>(watch.instance.get()) {
        watches_of(context, instance).remove(watch);
        instance.watch_count.set(instance.watch_count.get().saturating_sub(1));
    }
    let all = &context.pool().header().inode_watches;
    all.store(all.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    slab::free(context, watch);
}

/// The watches of an inode.
fn of_inode<'c, C: Context>(
    context: &'c C,
    inode: &InodeRecord,
) -> impl Iterator<Item = &'static InodeWatch> + use<'c, C> {
    let first = context.object::<InodeWatch>(inode.watches.load(Ordering::Relaxed));
    core::iter::successors(first, |watch| context.object(watch.next.get()))
}

fn find(context: &impl Context, instance: &InotifyRecord, number: u32) -> Option<&'static InodeWatch> {
    let found = watches_of(context, instance).first_from(|watch| watch.number.get() > number);
    found.filter(|watch| watch.number.get() == number)
}

/// Ends the watch with a number, which is told.
///
/// # Errors
/// `EINVAL`: there is none.
pub fn remove(context: &impl Context, instance: &'static InotifyRecord, number: u32) -> Result<(), Errno> {
    let _guard = lock_all(context);
    let watch = find(context, instance, number).ok_or(Errno::EINVAL)?;
    ignore(context, watch);
    Ok(())
}

/// Ends a watch, and tells that.
fn ignore(context: &impl Context, watch: &'static InodeWatch) {
    tell_watch(context, watch, IN_IGNORED, 0, b"");
    end(context, watch);
}

fn tell_watch(context: &impl Context, watch: &InodeWatch, mask: u32, cookie: u32, name: &[u8]) {
    if let Some(instance) = context.object::<InotifyRecord>(watch.instance.get()) {
        tell(context, instance, &Event { number: watch.number.get(), mask, cookie, name });
        context.spend_locked(TOLD + name.len() as u64);
    }
}

/// The watch with the highest number up to one, for who shows all: its number, its inode's, and what it is for.
pub fn up_to(context: &impl Context, instance: &InotifyRecord, number: u32) -> Option<(u32, u64, u32)> {
    let _guard = lock_all(context);
    let watch = watches_of(context, instance).first_from(|watch| watch.number.get() > number)?;
    let inode = context.object::<InodeRecord>(watch.inode.get())?;
    Some((watch.number.get(), inode.number.get(), watch.mask.get() & !IN_IGNORED))
}

/// Tells those who watch an inode what has happened to it, or to one that a name in it names. `cookie`: of two events that belong together. `is_removed`: it
/// has happened by an open file whose name was removed.
#[cold]
pub fn send(context: &impl Context, inode: &InodeRecord, mask: u32, (name, cookie): (&[u8], u32), is_removed: bool) {
    if !is_watched(inode) {
        return;
    }
    // As on Linux, it is not said of itself that it is a directory.
    let told = if mask & (IN_DELETE_SELF | IN_MOVE_SELF) != 0 { mask & !IN_ISDIR } else { mask };
    let _guard = lock_all(context);
    let mut next = of_inode(context, inode).next();
    while let Some(watch) = next {
        next = context.object(watch.next.get());
        context.spend_locked(LOOKED);
        let wanted = watch.mask.get();
        if wanted & mask & IN_ALL_EVENTS == 0 || is_removed && wanted & IN_EXCL_UNLINK != 0 {
            continue;
        }
        tell_watch(context, watch, told, cookie, name);
        if wanted & IN_ONESHOT != 0 {
            ignore(context, watch);
        }
    }
}

/// A number that two events have which belong together.
pub fn new_cookie(context: &impl Context) -> u32 {
    let _guard = lock_all(context);
    let cookie = &state(context).cookie;
    cookie.set(cookie.get().wrapping_add(1).max(1));
    cookie.get()
}

/// An inode has no name and no user any more: its watches are told so, and end. Nobody else has a reference to it.
#[cold]
pub fn gone(context: &impl Context, inode: &InodeRecord) {
    send(context, inode, IN_DELETE_SELF, (b"", 0), false);
    let _guard = lock_all(context);
    while let Some(watch) = of_inode(context, inode).next() {
        ignore(context, watch);
    }
}

/// An open file ends: one of its watches ends. `false`: it has none any more.
fn end_one(context: &impl Context, instance: &'static InotifyRecord) -> bool {
    let _guard = lock_all(context);
    let first = watches_of(context, instance).first();
    if let Some(watch) = first {
        end(context, watch);
    }
    first.is_some()
}

/// An open file ends: its watches and what it was told go, and those who wait are woken. It may be done once more after it was done in part.
pub fn close(context: &impl Context, instance: &'static InotifyRecord) {
    while end_one(context, instance) {
        context.spend_locked(TOLD);
    }
    {
        let _guard = lock_all(context);
        if instance.is_used.get() != 0 {
            forget_all(context, instance);
            unlist(context, instance);
        }
    }
    // Nodes of threads that still wait must not stay linked in memory that becomes another one.
    wait::wake(context, &instance.waiters);
}

fn unlist(context: &impl Context, instance: &InotifyRecord) {
    instance.is_used.set(0);
    in_order();
    let link: &Cell64 = match context.object::<InotifyRecord>(instance.prev.get()) {
        Some(prev) => &prev.next,
        None => &state(context).instances,
    };
    link.set(instance.next.get());
    if let Some(next) = context.object::<InotifyRecord>(instance.next.get()) {
        next.prev.set(instance.prev.get());
    }
}
