//! Watches of inodes (`linux/inotify.h`).

use crate::wire::wire_struct;

/// It was read.
pub const IN_ACCESS: u32 = 0x1;
/// It was written.
pub const IN_MODIFY: u32 = 0x2;
/// Its attributes changed.
pub const IN_ATTRIB: u32 = 0x4;
/// Who could write it has closed it.
pub const IN_CLOSE_WRITE: u32 = 0x8;
/// Who could not write it has closed it.
pub const IN_CLOSE_NOWRITE: u32 = 0x10;
/// It was opened.
pub const IN_OPEN: u32 = 0x20;
/// A name of the directory was moved away.
pub const IN_MOVED_FROM: u32 = 0x40;
/// A name was moved into the directory.
pub const IN_MOVED_TO: u32 = 0x80;
/// A name was made in the directory.
pub const IN_CREATE: u32 = 0x100;
/// A name was removed from the directory.
pub const IN_DELETE: u32 = 0x200;
/// It is gone.
pub const IN_DELETE_SELF: u32 = 0x400;
/// It has another name.
pub const IN_MOVE_SELF: u32 = 0x800;
/// Its file system was unmounted.
pub const IN_UNMOUNT: u32 = 0x2000;
/// Events were lost.
pub const IN_Q_OVERFLOW: u32 = 0x4000;
/// There is no such watch any more.
pub const IN_IGNORED: u32 = 0x8000;
/// `inotify_add_watch`: of a directory only.
pub const IN_ONLYDIR: u32 = 0x1000000;
/// `inotify_add_watch`: of a symbolic link itself.
pub const IN_DONT_FOLLOW: u32 = 0x2000000;
/// Not of open files whose name was removed.
pub const IN_EXCL_UNLINK: u32 = 0x4000000;
/// `inotify_add_watch`: fails if there is a watch of it.
pub const IN_MASK_CREATE: u32 = 0x10000000;
/// `inotify_add_watch`: adds to what is watched.
pub const IN_MASK_ADD: u32 = 0x20000000;
/// It is a directory.
pub const IN_ISDIR: u32 = 0x40000000;
/// The first event ends the watch.
pub const IN_ONESHOT: u32 = 0x80000000;
/// All that can be asked for.
pub const IN_ALL_EVENTS: u32 = 0xfff;
/// All that `inotify_add_watch` knows.
pub const IN_KNOWN: u32 = IN_ALL_EVENTS
    | IN_UNMOUNT
    | IN_Q_OVERFLOW
    | IN_IGNORED
    | IN_ONLYDIR
    | IN_DONT_FOLLOW
    | IN_EXCL_UNLINK
    | IN_MASK_CREATE
    | IN_MASK_ADD
    | IN_ISDIR
    | IN_ONESHOT;

wire_struct! {
    /// `struct inotify_event`, without its name.
    InotifyEvent: 16 {
        /// The watch.
        0 wd: i32,
        /// What has happened.
        4 mask: u32,
        /// The same in two events that belong together.
        8 cookie: u32,
        /// Bytes of the name, with the zeroes behind it.
        12 len: u32,
    }
}
