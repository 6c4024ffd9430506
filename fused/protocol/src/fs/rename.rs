//! Renaming: the one operation that changes two directories.
//!
//! The machine's rename lock serialises all of them (and directory removal), so parents cannot change while loops are
//! looked for, and the order in which several directories are locked cannot lead to a deadlock: everyone else holds one.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    inotify::{IN_ATTRIB, IN_MOVE_SELF, IN_MOVED_FROM, IN_MOVED_TO},
};
use motet_layout::{EntryRecord, InodeRecord};

use crate::{
    Context,
    lock::{Guard, lock},
    notify,
};

use super::{
    directory::{check_name, entry_inode, find, forget_name, insert, remove, retire_directory, set_name, touch},
    directory_bit, get,
    index::hash,
    is_directory, put,
};

/// What to do when the new name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// It is replaced.
    Allow,
    /// The call fails (`RENAME_NOREPLACE`).
    Refuse,
    /// The two change places; both must exist (`RENAME_EXCHANGE`).
    Exchange,
}

/// Moves the entry `old_name` of `old_dir` to `new_name` in `new_dir`, if `may_move`, which is asked with both locked, lets
/// each inode that is named go from the first directory to the second (the same: it is replaced).
///
/// # Errors
/// As `renameat2`: `ENOENT`, `EEXIST`, `ENOTDIR`, `EISDIR`, `ENOTEMPTY`, `EBUSY`, `EINVAL` (a directory would come to lie
/// in itself), `ENAMETOOLONG`; those of `may_move`.
pub fn rename(
    context: &impl Context,
    (old_dir, old_name): (&'static InodeRecord, &[u8]),
    (new_dir, new_name): (&'static InodeRecord, &[u8]),
    replace: Replace,
    now_ns: u64,
    may_move: impl Fn(&InodeRecord, &InodeRecord, &InodeRecord) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if !is_directory(old_dir) || !is_directory(new_dir) {
        return Err(Errno::ENOTDIR);
    }
    check_name(old_name)?;
    check_name(new_name)?;
    let renames = lock(context, &context.pool().header().rename_lock);
    let guards = lock_pair(context, old_dir, new_dir);
    let old_entry = find(context, old_dir, old_name, hash(old_dir, old_name)).ok_or(Errno::ENOENT)?;
    let new_entry = find(context, new_dir, new_name, hash(new_dir, new_name));
    let source = entry_inode(context, old_entry);
    let target = new_entry.map(|entry| entry_inode(context, entry));
    check(context, (old_dir, source), (new_dir, target), replace)?;
    if target.is_some_and(|target| core::ptr::eq(target, source)) {
        return Ok(());
    }
    may_move(old_dir, new_dir, source)?;
    if let Some(target) = target {
        may_move(new_dir, if replace == Replace::Exchange { old_dir } else { new_dir }, target)?;
    }
    let dropped = match (new_entry, target) {
        (Some(new_entry), Some(target)) if replace == Replace::Exchange => {
            new_entry.inode.set(context.raw(source));
            old_entry.inode.set(context.raw(target));
            set_parent(context, target, new_dir, old_dir);
            source.entry.store(context.raw(new_entry), Ordering::Relaxed);
            target.entry.store(context.raw(old_entry), Ordering::Relaxed);
            target.changed_ns.set(now_ns);
            None
        }
        (Some(new_entry), Some(target)) => {
            displace(context, new_dir, target, now_ns)?;
            new_entry.inode.set(context.raw(source));
            source.entry.store(context.raw(new_entry), Ordering::Relaxed);
            remove(context, old_dir, old_entry);
            old_entry.left.set(new_dir.number.get());
            set_name(context, old_entry, new_name, hash(new_dir, new_name));
            forget_name(context, target, old_entry);
            Some(target)
        }
        _ => {
            move_entry(context, old_dir, new_dir, old_entry, new_name);
            None
        }
    };
    set_parent(context, source, old_dir, new_dir);
    source.changed_ns.set(now_ns);
    touch(old_dir, now_ns);
    touch(new_dir, now_ns);
    if notify::is_any(context) {
        tell_of_move(context, (old_dir, old_name), (new_dir, new_name), source, dropped);
        if let Some(target) = target.filter(|_| replace == Replace::Exchange) {
            tell_of_move(context, (new_dir, new_name), (old_dir, old_name), target, None);
        }
    }
    drop(guards);
    drop(renames);
    if let Some(dropped) = dropped {
        put(context, dropped);
    }
    Ok(())
}

/// A name was moved, in place of what is dropped.
#[cold]
fn tell_of_move(
    context: &impl Context,
    (from, old_name): (&InodeRecord, &[u8]),
    (to, new_name): (&InodeRecord, &[u8]),
    inode: &InodeRecord,
    dropped: Option<&InodeRecord>,
) {
    let cookie = notify::new_cookie(context);
    notify::send(context, from, IN_MOVED_FROM | directory_bit(inode), (old_name, cookie), false);
    notify::send(context, to, IN_MOVED_TO | directory_bit(inode), (new_name, cookie), false);
    if let Some(dropped) = dropped {
        notify::send(context, dropped, IN_ATTRIB | directory_bit(dropped), (b"", 0), false);
    }
    notify::send(context, inode, IN_MOVE_SELF, (b"", 0), false);
}

/// What makes a rename impossible, apart from a full target directory.
fn check(
    context: &impl Context,
    (old_dir, source): (&'static InodeRecord, &'static InodeRecord),
    (new_dir, target): (&'static InodeRecord, Option<&'static InodeRecord>),
    replace: Replace,
) -> Result<(), Errno> {
    if new_dir.links.load(Ordering::Relaxed) == 0 {
        return Err(Errno::ENOENT);
    }
    if replace == Replace::Refuse && target.is_some() {
        return Err(Errno::EEXIST);
    }
    if is_directory(source) && lies_in(context, new_dir, source) {
        return Err(Errno::EINVAL);
    }
    if source.mount.get() != 0 {
        return Err(Errno::EBUSY);
    }
    let Some(target) = target else {
        return if replace == Replace::Exchange { Err(Errno::ENOENT) } else { Ok(()) };
    };
    if is_directory(target) && lies_in(context, old_dir, target) {
        return Err(if replace == Replace::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    if target.mount.get() != 0 {
        return Err(Errno::EBUSY);
    }
    match (replace, is_directory(source), is_directory(target)) {
        (Replace::Allow, true, false) => Err(Errno::ENOTDIR),
        (Replace::Allow, false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Takes a name away from what is being replaced.
fn displace(
    context: &impl Context,
    dir: &'static InodeRecord,
    target: &'static InodeRecord,
    now_ns: u64,
) -> Result<(), Errno> {
    if is_directory(target) {
        retire_directory(context, target)?;
        dir.links.fetch_sub(1, Ordering::Relaxed);
    } else {
        target.links.fetch_sub(1, Ordering::Relaxed);
        target.changed_ns.set(now_ns);
    }
    Ok(())
}

fn move_entry(
    context: &impl Context,
    old_dir: &'static InodeRecord,
    new_dir: &'static InodeRecord,
    entry: &'static EntryRecord,
    name: &[u8],
) {
    remove(context, old_dir, entry);
    set_name(context, entry, name, hash(new_dir, name));
    insert(context, new_dir, entry);
}

/// Lets a moved directory refer to its new parent, and corrects both parents' link counts.
fn set_parent(
    context: &impl Context,
    inode: &'static InodeRecord,
    from: &'static InodeRecord,
    to: &'static InodeRecord,
) {
    if !is_directory(inode) {
        inode.parent.store(context.raw(to), Ordering::Relaxed);
        return;
    }
    if core::ptr::eq(from, to) {
        return;
    }
    let _guard = lock(context, &inode.lock);
    get(to);
    inode.parent.store(context.raw(to), Ordering::Relaxed);
    to.links.fetch_add(1, Ordering::Relaxed);
    from.links.fetch_sub(1, Ordering::Relaxed);
    // Never the last one: the caller of `rename` holds a reference to both directories.
    from.refs.fetch_sub(1, Ordering::AcqRel);
}

/// Whether `dir` is `ancestor` or lies in it. The rename lock keeps parents as they are.
fn lies_in(context: &impl Context, dir: &'static InodeRecord, ancestor: &'static InodeRecord) -> bool {
    let mut at = dir;
    loop {
        if core::ptr::eq(at, ancestor) {
            return true;
        }
        match context.object::<InodeRecord>(at.parent.load(Ordering::Relaxed)) {
            Some(parent) if !core::ptr::eq(parent, at) => at = parent,
            _ => return false,
        }
    }
}

/// Locks two directories, which may be the same.
fn lock_pair<'a>(
    context: &impl Context,
    one: &'a InodeRecord,
    other: &'a InodeRecord,
) -> (Guard<'a>, Option<Guard<'a>>) {
    if core::ptr::eq(one, other) {
        return (lock(context, &one.lock), None);
    }
    let (first, second) = if core::ptr::from_ref(one) < other { (one, other) } else { (other, one) };
    (lock(context, &first.lock), Some(lock(context, &second.lock)))
}
