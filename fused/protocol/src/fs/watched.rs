//! What happens to a file is told to those who watch it, and to those who watch the directory that has its name (`notify`).
//!
//! An open file does not know its name: names change. The entry by which it was opened, or else the one that named the inode last, says what it is called
//! now; an entry that was removed last, what it was called.

use motet_abi::inotify::{IN_ACCESS, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE, IN_MODIFY, IN_OPEN};
use motet_layout::{EntryRecord, InodeRecord, NAME_MAX, sync::Ordering};

use super::{Held, directory::entry_name, directory_bit, directory_hint, is_directory, try_get};
use crate::{Context, lock::lock, notify};

/// What happens by an open file.
const BY_OPEN_FILE: u32 = IN_ACCESS | IN_MODIFY | IN_OPEN | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE;

/// Something has happened to a file (`IN_*`). `opened`: the entry by which it was opened (pool address), 0: it is not known. The caller has a reference, and
/// no lock of an inode.
#[inline(always)]
pub fn happened(context: &impl Context, inode: &'static InodeRecord, opened: u64, event: u32) {
    if notify::is_any(context) {
        tell(context, inode, opened, event);
    }
}

#[cold]
#[inline(never)]
fn tell(context: &impl Context, inode: &'static InodeRecord, opened: u64, event: u32) {
    let event = event | directory_bit(inode);
    let mut name = [0; NAME_MAX];
    let place = place(context, inode, if is_directory(inode) { 0 } else { opened }, &mut name);
    let is_removed = event & BY_OPEN_FILE != 0
        && place.as_ref().map_or(inode.links.load(Ordering::Relaxed) == 0, |place| place.is_removed);
    if let Some(place) = place {
        notify::send(context, &place.dir, event, (&name[..place.len], 0), is_removed);
    }
    notify::send(context, inode, event, (b"", 0), is_removed);
}

/// Where a file has its name.
struct Place<'c, C: Context> {
    dir: Held<'c, C>,
    len: usize,
    is_removed: bool,
}

/// Where a file has a name, or had it last, if that directory is watched.
fn place<'c, C: Context>(
    context: &'c C,
    inode: &'static InodeRecord,
    opened: u64,
    name: &mut [u8; NAME_MAX],
) -> Option<Place<'c, C>> {
    let names = |entry: &&'static EntryRecord| entry.inode.get() == context.raw(inode) && entry.dir.get() != 0;
    let known = [opened, inode.entry.load(Ordering::Relaxed)];
    let Some(entry) = known.into_iter().find_map(|entry| context.object(entry).filter(names)) else {
        return removed(context, inode, name);
    };
    let dir = context.object::<InodeRecord>(entry.dir.get()).filter(|dir| notify::is_watched(dir) && try_get(dir))?;
    let dir = Held::adopt(context, dir);
    let len = {
        let _guard = lock(context, &dir.lock);
        let is_here = names(&entry) && entry.dir.get() == context.raw(dir.inode());
        is_here.then(|| entry_name(context, entry, name).len())
    };
    Some(Place { len: len?, dir, is_removed: false })
}

/// Where a file had its last name.
fn removed<'c, C: Context>(
    context: &'c C,
    inode: &'static InodeRecord,
    name: &mut [u8; NAME_MAX],
) -> Option<Place<'c, C>> {
    if inode.links.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let entry = context.object::<EntryRecord>(inode.last_entry.load(Ordering::Acquire))?;
    // The directory may have gone, too: then the hint is of another one, or of none.
    let dir = directory_hint(context, inode).filter(|dir| dir.number.get() == entry.left.get())?;
    Some(Place { len: entry_name(context, entry, name).len(), dir, is_removed: true })
}
