//! Directories: a list of entries in creation order (for `readdir`) and a hash index (for look-ups: `index`).

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    inotify::{IN_ATTRIB, IN_CREATE, IN_DELETE},
};
use motet_layout::{EntryRecord, InodeRecord, NAME_MAX, PoolAddr, in_order};

use crate::{Context, lock::lock, notify, slab};

use super::index::{bucket, clear, grow, hash, rebuild};
use super::{
    Attributes, Held, LINKS_MAX, TYPE_DIRECTORY, TYPE_MASK, TYPE_SYMLINK, directory_bit, get, is_directory, new_inode,
    put, try_get, write_bytes,
};

/// The inode that `name` (not "." or "..") names in `dir`.
///
/// # Errors
/// `ENOTDIR`, `ENOENT`, `ENAMETOOLONG`.
#[inline]
pub fn lookup<'c, C: Context>(context: &'c C, dir: &'static InodeRecord, name: &[u8]) -> Result<Held<'c, C>, Errno> {
    if !is_directory(dir) {
        return Err(Errno::ENOTDIR);
    }
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let hash = hash(dir, name);
    let _guard = lock(context, &dir.lock);
    let entry = find(context, dir, name, hash).ok_or(Errno::ENOENT)?;
    // The entry's own reference keeps the inode alive while the directory is locked.
    Ok(Held::new(context, entry_inode(context, entry)))
}

/// The entry of that name.
pub fn entry_of(context: &impl Context, dir: &'static InodeRecord, name: &[u8]) -> Option<&'static EntryRecord> {
    let hash = checked_hash(dir, name).ok()?;
    let _guard = lock(context, &dir.lock);
    find(context, dir, name, hash)
}

/// The directory above `dir`; the root's is itself. That of a removed directory is the one it was in.
pub fn parent<'c, C: Context>(context: &'c C, dir: &'static InodeRecord) -> Held<'c, C> {
    let _guard = lock(context, &dir.lock);
    Held::new(context, context.object(dir.parent.load(Ordering::Relaxed)).unwrap_or(dir))
}

/// A directory that may hold a name of a file that is no directory: where it was last linked or moved to.
pub fn directory_hint<'c, C: Context>(context: &'c C, inode: &InodeRecord) -> Option<Held<'c, C>> {
    // The hint is no reference: the directory may have been freed, or become another inode.
    let hint = context.object::<InodeRecord>(inode.parent.load(Ordering::Relaxed)).filter(|hint| try_get(hint))?;
    let held = Held::adopt(context, hint);
    is_directory(&held).then_some(held)
}

/// Makes a file of any type but symbolic link and enters it in `dir`.
///
/// # Errors
/// `ENOTDIR`, `EEXIST`, `ENOENT` (the directory has been removed), `ENAMETOOLONG`, `ENOSPC`.
pub fn create<'c, C: Context>(
    context: &'c C,
    dir: &'static InodeRecord,
    name: &[u8],
    attributes: Attributes,
) -> Result<Held<'c, C>, Errno> {
    create_prepared(context, dir, name, attributes, |_| Ok(()))
}

/// As [`create`]; `prepare` makes the file what it is before anybody finds it.
///
/// # Errors
/// As [`create`]; those of `prepare`.
pub fn create_prepared<'c, C: Context>(
    context: &'c C,
    dir: &'static InodeRecord,
    name: &[u8],
    attributes: Attributes,
    prepare: impl FnOnce(&'static InodeRecord) -> Result<(), Errno>,
) -> Result<Held<'c, C>, Errno> {
    let inode = Held::adopt(context, new_inode(context, attributes)?);
    prepare(inode.inode())?;
    enter(context, dir, name, inode.inode(), attributes.now_ns)?;
    Ok(inode)
}

/// Makes a directory; the type in `attributes.mode` is ignored.
///
/// # Errors
/// As [`create`]; `EMLINK`.
pub fn mkdir<'c, C: Context>(
    context: &'c C,
    dir: &'static InodeRecord,
    name: &[u8],
    attributes: Attributes,
) -> Result<Held<'c, C>, Errno> {
    create(context, dir, name, Attributes { mode: attributes.mode & !TYPE_MASK | TYPE_DIRECTORY, ..attributes })
}

/// Makes a symbolic link to `target` (less than a page).
///
/// # Errors
/// As [`create`]; `ENAMETOOLONG` when the target is a page long or more, `ENOENT` when it is empty.
pub fn symlink<'c, C: Context>(
    context: &'c C,
    dir: &'static InodeRecord,
    name: &[u8],
    target: &[u8],
    attributes: Attributes,
) -> Result<Held<'c, C>, Errno> {
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    if target.len() >= motet_layout::PAGE_SIZE as usize {
        return Err(Errno::ENAMETOOLONG);
    }
    let inode = Held::adopt(context, new_inode(context, Attributes { mode: TYPE_SYMLINK | 0o777, ..attributes })?);
    write_bytes(context, inode.inode(), 0, target)?;
    enter(context, dir, name, inode.inode(), attributes.now_ns)?;
    Ok(inode)
}

/// Gives an inode one more name.
///
/// # Errors
/// As [`create`]; `EPERM` for a directory, `ENOENT` for a file whose last name has been removed (but one that was made to be named later
/// may be), `EMLINK`.
pub fn link(
    context: &impl Context,
    dir: &'static InodeRecord,
    name: &[u8],
    inode: &'static InodeRecord,
    now_ns: u64,
) -> Result<(), Errno> {
    if is_directory(inode) {
        return Err(Errno::EPERM);
    }
    match inode.links.load(Ordering::Relaxed) {
        0 if inode.may_be_named.load(Ordering::Relaxed) == 0 => return Err(Errno::ENOENT),
        LINKS_MAX.. => return Err(Errno::EMLINK),
        _ => {}
    }
    enter(context, dir, name, inode, now_ns)?;
    inode.may_be_named.store(0, Ordering::Relaxed);
    Ok(())
}

/// Lets a file that never gets a name be called as if it had had one in the root directory (a memfd): a first part and a second one.
///
/// # Errors
/// `ENAMETOOLONG`, `ENOSPC`.
pub fn name_once(
    context: &impl Context,
    inode: &'static InodeRecord,
    first: &[u8],
    second: &[u8],
) -> Result<(), Errno> {
    let mut name = [0; NAME_MAX];
    let len = first.len() + second.len();
    let room = name.get_mut(..len).ok_or(Errno::ENAMETOOLONG)?;
    room[..first.len()].copy_from_slice(first);
    room[first.len()..].copy_from_slice(second);
    let entry = slab::alloc::<EntryRecord>(context).ok_or(Errno::ENOSPC)?;
    set_name(context, entry, room, 0);
    inode.parent.store(context.pool().header().root_inode.get(), Ordering::Relaxed);
    inode.last_entry.store(context.raw(entry), Ordering::Release);
    Ok(())
}

/// Enters an inode in a directory under a new name.
fn enter(
    context: &impl Context,
    dir: &'static InodeRecord,
    name: &[u8],
    inode: &'static InodeRecord,
    now_ns: u64,
) -> Result<(), Errno> {
    check_name(name)?;
    if !is_directory(dir) {
        return Err(Errno::ENOTDIR);
    }
    let hash = hash(dir, name);
    let _guard = lock(context, &dir.lock);
    if find(context, dir, name, hash).is_some() {
        return Err(Errno::EEXIST);
    }
    // A removed directory takes no new entries.
    if dir.links.load(Ordering::Relaxed) == 0 {
        return Err(Errno::ENOENT);
    }
    if is_directory(inode) && dir.links.load(Ordering::Relaxed) >= LINKS_MAX {
        return Err(Errno::EMLINK);
    }
    let entry = slab::alloc::<EntryRecord>(context).ok_or(Errno::ENOSPC)?;
    set_name(context, entry, name, hash);
    entry.inode.set(context.raw(inode));
    inode.parent.store(context.raw(dir), Ordering::Relaxed);
    inode.entry.store(context.raw(entry), Ordering::Relaxed);
    get(inode);
    if is_directory(inode) {
        get(dir);
        inode.links.store(2, Ordering::Relaxed);
        dir.links.fetch_add(1, Ordering::Relaxed);
    } else {
        inode.links.fetch_add(1, Ordering::Relaxed);
    }
    insert(context, dir, entry);
    inode.changed_ns.set(now_ns);
    touch(dir, now_ns);
    if notify::is_any(context) {
        notify::send(context, inode, IN_ATTRIB, (b"", 0), false); // it has one more
        notify::send(context, dir, IN_CREATE | directory_bit(inode), (name, 0), false);
    }
    Ok(())
}

/// Removes a name of a file that is not a directory, if `may_remove`, which is asked with the directory locked, lets it.
///
/// # Errors
/// `ENOTDIR`, `ENOENT`, `EISDIR`, `ENAMETOOLONG`; those of `may_remove`.
pub fn unlink(
    context: &impl Context,
    dir: &'static InodeRecord,
    name: &[u8],
    now_ns: u64,
    may_remove: impl FnOnce(&InodeRecord) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let hash = checked_hash(dir, name)?;
    let guard = lock(context, &dir.lock);
    let entry = find(context, dir, name, hash).ok_or(Errno::ENOENT)?;
    let inode = entry_inode(context, entry);
    may_remove(inode)?;
    if is_directory(inode) {
        return Err(Errno::EISDIR);
    }
    remove(context, dir, entry);
    inode.links.fetch_sub(1, Ordering::Relaxed);
    inode.changed_ns.set(now_ns);
    if notify::is_any(context) {
        notify::send(context, inode, IN_ATTRIB, (b"", 0), false);
        tell_of_removal(context, dir, name, inode);
    }
    forget_name(context, inode, entry);
    touch(dir, now_ns);
    drop(guard);
    put(context, inode);
    Ok(())
}

/// Removes an empty directory, if `may_remove`, which is asked with the directory it is in locked, lets it.
///
/// # Errors
/// `ENOTDIR`, `ENOENT`, `ENOTEMPTY`, `EBUSY` (something is mounted there), `ENAMETOOLONG`; those of `may_remove`.
pub fn rmdir(
    context: &impl Context,
    dir: &'static InodeRecord,
    name: &[u8],
    now_ns: u64,
    may_remove: impl FnOnce(&InodeRecord) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let hash = checked_hash(dir, name)?;
    let renames = lock(context, &context.pool().header().rename_lock);
    let guard = lock(context, &dir.lock);
    let entry = find(context, dir, name, hash).ok_or(Errno::ENOENT)?;
    let inode = entry_inode(context, entry);
    may_remove(inode)?;
    retire_directory(context, inode)?;
    remove(context, dir, entry);
    if notify::is_any(context) {
        tell_of_removal(context, dir, name, inode);
    }
    forget_name(context, inode, entry);
    dir.links.fetch_sub(1, Ordering::Relaxed);
    touch(dir, now_ns);
    drop(guard);
    drop(renames);
    put(context, inode);
    Ok(())
}

/// A name of an inode was removed from a directory, which is locked. If nobody else has the inode, that is gone, and this is told first, as on Linux.
#[cold]
fn tell_of_removal(context: &impl Context, dir: &InodeRecord, name: &[u8], inode: &InodeRecord) {
    // A name's reference is left: nobody can get one from it any more.
    if inode.links.load(Ordering::Relaxed) == 0 && inode.refs.load(Ordering::Acquire) == 1 {
        notify::gone(context, inode);
    }
    notify::send(context, dir, IN_DELETE | directory_bit(inode), (name, 0), false);
}

/// Marks an empty directory as removed. The lock of the directory it is in is held, and the rename lock.
pub(super) fn retire_directory(context: &impl Context, inode: &'static InodeRecord) -> Result<(), Errno> {
    if !is_directory(inode) {
        return Err(Errno::ENOTDIR);
    }
    if inode.mount.get() != 0 {
        return Err(Errno::EBUSY);
    }
    let _guard = lock(context, &inode.lock);
    if inode.entry_count.get() != 0 {
        return Err(Errno::ENOTEMPTY);
    }
    inode.links.store(0, Ordering::Relaxed);
    Ok(())
}

/// Calls `each` with the entries whose position is at least `from`, in ascending order, until it returns `false`.
/// Positions start at 2; "." and ".." are the caller's. The directory is locked meanwhile, so `each` must not touch
/// user memory.
pub fn readdir(
    context: &impl Context,
    dir: &'static InodeRecord,
    from: u64,
    each: impl FnMut(&'static EntryRecord, &'static InodeRecord) -> bool,
) {
    readdir_after(context, dir, from, 0, each);
}

/// As [`readdir`]. `last` is the pool address of the entry whose position is `from` - 1, if it is known (0: it is not): if it is still there,
/// nothing before it is looked at.
pub fn readdir_after(
    context: &impl Context,
    dir: &'static InodeRecord,
    from: u64,
    last: u64,
    mut each: impl FnMut(&'static EntryRecord, &'static InodeRecord) -> bool,
) {
    let _guard = lock(context, &dir.lock);
    // Entries' memory is never used for anything else, so what is there now tells.
    let is_known = |last: &&EntryRecord| last.dir.get() == context.raw(dir) && last.position.get() + 1 == from;
    let mut at: Option<&EntryRecord> = match context.object(last).filter(is_known) {
        Some(last) => context.object(last.next.get()),
        None => context.object(dir.entries[0].get()),
    };
    while let Some(entry) = at {
        if entry.position.get() >= from && !each(entry, entry_inode(context, entry)) {
            return;
        }
        at = context.object(entry.next.get());
    }
}

/// Copies an entry's name; the part of `into` that holds it.
pub fn entry_name<'b>(context: &impl Context, entry: &'static EntryRecord, into: &'b mut [u8; NAME_MAX]) -> &'b [u8] {
    let len = (entry.name_len.get() as usize).min(NAME_MAX);
    context.pool().read(context.pool().addr_of(&entry.name), &mut into[..len]);
    &into[..len]
}

/// Refuses names that no entry can have.
pub(super) fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" => Err(Errno::ENOENT),
        b"." | b".." => Err(Errno::EEXIST),
        _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

fn checked_hash(dir: &InodeRecord, name: &[u8]) -> Result<u32, Errno> {
    if !is_directory(dir) {
        return Err(Errno::ENOTDIR);
    }
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok(hash(dir, name))
}

/// The entry of that name. The directory's lock is held.
pub(super) fn find(context: &impl Context, dir: &InodeRecord, name: &[u8], hash: u32) -> Option<&'static EntryRecord> {
    let mut at = context.object::<EntryRecord>(bucket(context, dir, hash).get());
    while let Some(entry) = at {
        if entry.hash.get() == hash
            && entry.name_len.get() as usize == name.len()
            && name.iter().zip(&entry.name).all(|(&byte, cell)| byte == cell.load(Ordering::Relaxed))
        {
            return Some(entry);
        }
        at = context.object(entry.bucket_next.get());
    }
    None
}

/// Links an entry, whose name and inode are set, into a directory. The directory's lock is held.
pub(super) fn insert(context: &impl Context, dir: &'static InodeRecord, entry: &'static EntryRecord) {
    let raw = context.raw(entry);
    let position = dir.next_entry.get();
    dir.next_entry.set(position + 1);
    entry.position.set(u64::from(position));
    entry.dir.set(context.raw(dir));
    let bucket = bucket(context, dir, entry.hash.get());
    entry.bucket_next.set(bucket.get());
    bucket.set(raw);
    let [first, last] = &dir.entries;
    entry.next.set(0);
    entry.prev.set(last.get());
    in_order();
    match context.object::<EntryRecord>(last.get()) {
        Some(last) => last.next.set(raw),
        None => first.set(raw),
    }
    last.set(raw);
    dir.entry_count.set(dir.entry_count.get() + 1);
    grow(context, dir);
}

/// Takes an entry out of a directory. The directory's lock is held.
pub(super) fn remove(context: &impl Context, dir: &InodeRecord, entry: &'static EntryRecord) {
    let raw = context.raw(entry);
    entry.left.set(dir.number.get());
    entry.dir.set(0);
    let mut link = bucket(context, dir, entry.hash.get());
    while link.get() != raw {
        link = &context.pool().at::<EntryRecord>(PoolAddr(link.get())).bucket_next;
    }
    link.set(entry.bucket_next.get());
    let [first, last] = &dir.entries;
    match context.object::<EntryRecord>(entry.prev.get()) {
        Some(prev) => prev.next.set(entry.next.get()),
        None => first.set(entry.next.get()),
    }
    match context.object::<EntryRecord>(entry.next.get()) {
        Some(next) => next.prev.set(entry.prev.get()),
        None => last.set(entry.prev.get()),
    }
    dir.entry_count.set(dir.entry_count.get() - 1);
    if dir.entry_count.get() == 0 {
        clear(context, dir);
    }
}

pub(super) fn set_name(context: &impl Context, entry: &'static EntryRecord, name: &[u8], hash: u32) {
    context.pool().write(context.pool().addr_of(&entry.name), name);
    entry.name_len.set(name.len() as u32);
    entry.hash.set(hash);
}

pub(super) fn entry_inode(context: &impl Context, entry: &EntryRecord) -> &'static InodeRecord {
    context.pool().at(PoolAddr(entry.inode.get()))
}

pub(super) fn touch(dir: &InodeRecord, now_ns: u64) {
    dir.modified_ns.set(now_ns);
    dir.changed_ns.set(now_ns);
}

/// An entry of an inode has been removed. If it was the last one, and somebody has the inode, that keeps it as long as it is there. The directory's
/// lock is held, and a reference of the caller's.
pub(super) fn forget_name(context: &impl Context, inode: &InodeRecord, entry: &'static EntryRecord) {
    let is_kept = inode.links.load(Ordering::Relaxed) == 0 && inode.refs.load(Ordering::Acquire) > 1;
    let keep = || inode.last_entry.compare_exchange(0, context.raw(entry), Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if !is_kept || !keep() {
        slab::free(context, entry);
    }
}

/// The last name of an inode that has none any more; `None`: it is not known. Returns its bytes.
pub fn last_name<'b>(context: &impl Context, inode: &InodeRecord, into: &'b mut [u8; NAME_MAX]) -> Option<&'b [u8]> {
    let entry = context.object::<EntryRecord>(inode.last_entry.load(Ordering::Acquire));
    entry.filter(|_| inode.links.load(Ordering::Relaxed) == 0).map(|entry| entry_name(context, entry, into))
}

/// Repairs a directory whose lock a dead core held and this one has now. What is linked forward in the list is in it, also what was being
/// removed; what was not yet is lost.
pub(super) fn recover(context: &impl Context, dir: &'static InodeRecord) {
    let [first, last] = &dir.entries;
    let list = || {
        let from = context.object::<EntryRecord>(first.get());
        core::iter::successors(from, |entry| context.object(entry.next.get()))
    };
    let (mut count, mut directories, mut before) = (0, 0, 0);
    for entry in list() {
        entry.prev.set(before);
        entry.dir.set(context.raw(dir));
        before = context.raw(entry);
        count += 1;
        directories += u32::from(is_directory(entry_inode(context, entry)));
        dir.next_entry.set(dir.next_entry.get().max(entry.position.get() as u32 + 1));
    }
    last.set(before);
    dir.entry_count.set(count);
    if dir.links.load(Ordering::Relaxed) != 0 {
        dir.links.store(2 + directories, Ordering::Relaxed);
    }
    rebuild(context, dir, list());
}
