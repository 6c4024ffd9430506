//! The ramfs as a file system: its nodes are inodes of the pool, and all that they contain is there (`motet_protocol::fs`).

use motet_abi::{
    Errno,
    file::*,
    inotify::{IN_ACCESS, IN_ATTRIB, IN_MODIFY, IN_OPEN},
};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord, MOUNT_NONE, NAME_MAX, PAGE_SIZE, sync::Ordering};
use motet_protocol::{
    Context,
    fs::{self, Attributes, Held, Replace},
    memory,
};

use super::{
    file_system::{FileSystem, Root},
    node::Node,
    records::{POSITION_DOT, POSITION_DOT_DOT, POSITION_FIRST, Records},
    text::PathText,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    due,
    file::{
        descriptor::{busy, description::OpenFile, table},
        kinds::{
            device,
            ends::open_fifo,
            inode::{self, DEVICE},
            message_queue,
            metadata::{self, Time, Times, accessed, cut, drop_privileges, modified},
        },
    },
    permission::FileRights,
};

const SECTORS_PER_PAGE: u64 = 8;
/// Entries that are looked at for an inode while the directory is locked once, and what one costs (`call::cost`).
const ENTRIES_AT_ONCE: u32 = 128;
const ENTRY_COST: u64 = 20;

/// A file of the ramfs.
impl<'c, M: Machine> FileSystem<'c, M> for Held<'c, Cpu<M>> {
    const ROOTS: &'static [Root] = &[Root { mount: MOUNT_NONE, name: "ramfs", device: DEVICE, magic: TMPFS_MAGIC }];
    const NEW_NAMES: Result<(), Errno> = Ok(());

    #[inline]
    fn of_file(cpu: &'c Cpu<M>, file: &OpenFile<'c, M>) -> Option<Self> {
        file.inode().map(|inode| Self::new(cpu, inode))
    }

    #[inline]
    fn of_reference(cpu: &'c Cpu<M>, [inode, _]: [u64; 2]) -> Option<Self> {
        cpu.object(inode).map(|inode| Self::new(cpu, inode))
    }

    fn into_reference(self, cpu: &Cpu<M>) -> [u64; 2] {
        [cpu.raw(self.release()), 0]
    }

    #[inline(always)]
    fn mode(&self) -> u32 {
        self.inode().mode.get()
    }

    fn mount(&self) -> u32 {
        MOUNT_NONE
    }

    #[inline(always)]
    fn covered_by(&self) -> u32 {
        self.inode().mount.get()
    }

    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        core::ptr::eq(self.inode(), other.inode())
    }

    fn as_inode(&self) -> Option<&'static InodeRecord> {
        Some(self.inode())
    }

    #[inline]
    fn check(&self, _call: &Call<M>, rights: &FileRights, mask: u32) -> Result<(), Errno> {
        rights.check(self, mask)
    }

    #[inline]
    fn lookup(&self, call: &Call<'c, M>, name: &[u8]) -> Result<Option<Node<'c, M>>, Stop> {
        match fs::lookup(call.cpu, self.inode(), name) {
            Ok(inode) => Ok(Some(inode.into())),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn parent(&self, cpu: &'c Cpu<M>) -> Option<Node<'c, M>> {
        let above = fs::parent(cpu, self.inode());
        (!self.same(&above)).then(|| above.into())
    }

    fn prepend_path(&self, call: &Call<'c, M>, root: &Node<'c, M>, text: &mut PathText) -> Result<bool, Errno> {
        prepend_path(call, self, root, text)
    }

    fn check_follow(&self, link: &Self, rights: &FileRights) -> Result<(), Errno> {
        rights.may_follow(self, link)
    }

    fn link_room(&self) -> usize {
        self.inode().size.load(Ordering::Relaxed) as usize
    }

    fn link_text(&self, call: &Call<M>, into: &mut [u8]) -> Result<usize, Stop> {
        let room = into.get_mut(..self.link_room()).ok_or(Errno::ENAMETOOLONG)?;
        accessed(call.cpu, self, 0);
        Ok(fs::read_bytes(call.cpu, self.inode(), 0, room))
    }

    fn begin_list(&self, call: &Call<M>, flags: u32) -> Result<(), Errno> {
        if self.inode().links.load(Ordering::Relaxed) == 0 {
            return Err(Errno::ENOENT);
        }
        accessed(call.cpu, self, flags);
        fs::happened(call.cpu, self.inode(), 0, IN_ACCESS);
        Ok(())
    }

    fn list(&self, call: &Call<M>, records: &mut Records) -> Result<(), Stop> {
        list(call, self.inode(), records);
        Ok(())
    }

    #[inline]
    fn stat(&self, _call: &Call<M>) -> Result<Stat, Stop> {
        Ok(stat(self))
    }

    fn statfs(&self, call: &Call<M>, into: &mut Statfs) -> Result<(), Stop> {
        let pool = call.cpu.pool;
        let ([free, free_for_users], total) = (memory::free_for_files(pool), memory::usage(pool).1);
        into.f_type = TMPFS_MAGIC;
        into.f_blocks = total / PAGE_SIZE;
        (into.f_bfree, into.f_bavail) = (free / PAGE_SIZE, free_for_users / PAGE_SIZE);
        // As many as the free memory could hold.
        into.f_ffree = free / size_of::<InodeRecord>() as u64;
        into.f_files = into.f_ffree + u64::from(pool.header().last_inode.load(Ordering::Relaxed));
        Ok(())
    }

    fn check_open(&self, call: &Call<M>, rights: &FileRights, flags: u32) -> Result<(), Errno> {
        // That a file has been read is its owner's to hide.
        if flags & O_NOATIME != 0 && !rights.owns(self) {
            return Err(Errno::EPERM);
        }
        let changes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0;
        if changes { busy::check_not_executed(call.cpu, self.inode()) } else { Ok(()) }
    }

    fn clear(&self, call: &Call<M>) -> Result<(), Stop> {
        if fs::file_type(self) != fs::TYPE_REGULAR {
            return Ok(());
        }
        FileRights::of(call.process).check(self, W_OK)?;
        drop_privileges(call, self.inode());
        cut(call, self.inode(), 0)?;
        modified(call.cpu, self);
        Ok(())
    }

    fn describe(self, call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Stop> {
        if flags & O_PATH == 0 {
            match fs::file_type(&self) {
                fs::TYPE_CHARACTER => return device::open(call, self, flags),
                fs::TYPE_BLOCK | fs::TYPE_SOCKET => return Err(Errno::ENXIO.into()),
                _ if self.inode().queue.load(Ordering::Relaxed) != 0 => {
                    return Ok(message_queue::open(call, self, flags)?);
                }
                _ => {}
            }
        }
        Ok(inode::open(call, self, flags)?)
    }

    fn open(self, call: &Call<M>, flags: u32) -> SysResult {
        if flags & O_PATH == 0 && fs::file_type(&self) == fs::TYPE_PIPE {
            return open_fifo(call, self.inode(), flags);
        }
        let record = self.describe(call, flags)?;
        Ok(table::install(call, record, flags & O_CLOEXEC != 0, 0)?)
    }

    fn executable(self, call: &Call<M>) -> Result<Self, Stop> {
        if fs::file_type(&self) != fs::TYPE_REGULAR {
            return Err(Errno::EACCES.into());
        }
        busy::check_not_written(call.cpu, self.inode())?;
        accessed(call.cpu, &self, 0);
        for event in [IN_OPEN, IN_ACCESS] {
            fs::happened(call.cpu, self.inode(), 0, event);
        }
        Ok(self)
    }

    fn create(&self, call: &Call<'c, M>, name: &[u8], mode: u32, device: u32) -> Result<Node<'c, M>, Stop> {
        let attributes = Attributes { rdev: device, ..attributes_of_new(call, self, mode) };
        Ok(fs::create(call.cpu, self.inode(), name, attributes)?.into())
    }

    fn create_unnamed(&self, call: &Call<'c, M>, mode: u32, may_be_named: bool) -> Result<Node<'c, M>, Stop> {
        if !fs::is_directory(self) {
            return Err(Errno::ENOTDIR.into());
        }
        FileRights::of(call.process).check(self, W_OK | X_OK)?;
        let inode = fs::new_inode(call.cpu, attributes_of_new(call, self, mode))?;
        inode.may_be_named.store(u32::from(may_be_named), Ordering::Relaxed);
        Ok(Self::adopt(call.cpu, inode).into())
    }

    fn mkdir(&self, call: &Call<M>, name: &[u8], mode: u32) -> Result<(), Stop> {
        fs::mkdir(call.cpu, self.inode(), name, attributes_of_new(call, self, mode))?;
        Ok(())
    }

    fn symlink(&self, call: &Call<M>, name: &[u8], target: &[u8]) -> Result<(), Stop> {
        fs::symlink(call.cpu, self.inode(), name, target, attributes_of_new(call, self, 0))?;
        Ok(())
    }

    fn link(&self, node: &Self, call: &Call<M>, name: &[u8]) -> Result<(), Stop> {
        FileRights::of(call.process).may_link(node)?;
        Ok(fs::link(call.cpu, self.inode(), name, node.inode(), call.cpu.realtime_ns())?)
    }

    fn check_removal(&self, call: &Call<M>) -> Result<(), Errno> {
        FileRights::of(call.process).check(self, W_OK | X_OK)
    }

    fn remove(&self, call: &Call<M>, name: &[u8], directory: bool) -> Result<(), Stop> {
        let (dir, now, rights) = (self.inode(), call.cpu.realtime_ns(), FileRights::of(call.process));
        let may_remove = |inode: &InodeRecord| rights.may_remove(dir, inode);
        if directory {
            fs::rmdir(call.cpu, dir, name, now, may_remove)?;
        } else {
            fs::unlink(call.cpu, dir, name, now, may_remove)?;
        }
        Ok(())
    }

    fn rename(
        &self,
        to: &Self,
        call: &Call<M>,
        old_name: &[u8],
        new_name: &[u8],
        replace: Replace,
    ) -> Result<(), Stop> {
        let rights = FileRights::of(call.process);
        let may_move = |from: &_, to: &_, inode: &_| rights.may_move(from, to, inode);
        let (old, new) = ((self.inode(), old_name), (to.inode(), new_name));
        Ok(fs::rename(call.cpu, old, new, replace, call.cpu.realtime_ns(), may_move)?)
    }

    fn set_mode(&self, call: &Call<M>, mode: u32) -> Result<(), Stop> {
        metadata::set_mode(call, self.inode(), mode)?;
        fs::happened(call.cpu, self.inode(), 0, IN_ATTRIB);
        Ok(())
    }

    fn set_owner(&self, call: &Call<M>, uid: u32, gid: u32) -> Result<(), Stop> {
        metadata::set_owner(call, self.inode(), uid, gid)?;
        if [uid, gid] != [FileRights::UNCHANGED; 2] {
            fs::happened(call.cpu, self.inode(), 0, IN_ATTRIB);
        }
        Ok(())
    }

    fn set_times(&self, call: &Call<M>, times: Times) -> Result<(), Stop> {
        metadata::set_times(call, self.inode(), times)?;
        // As on Linux: who sets one time only pretends to have read or written it.
        let event = match times {
            [Time::Keep, _] => IN_MODIFY,
            [_, Time::Keep] => IN_ACCESS,
            _ => IN_ATTRIB,
        };
        fs::happened(call.cpu, self.inode(), 0, event);
        Ok(())
    }

    fn truncate(&self, call: &Call<M>, len: u64) -> Result<(), Stop> {
        metadata::check_has_length(self)?;
        FileRights::of(call.process).check(self, W_OK)?;
        busy::check_not_executed(call.cpu, self.inode())?;
        metadata::set_length(call, self.inode(), len)
    }
}

/// The attributes with which a new file of the calling process in `dir` starts.
pub fn attributes_of_new<M: Machine>(call: &Call<M>, dir: &InodeRecord, mode: u32) -> Attributes {
    let (uid, gid, mode) = FileRights::of(call.process).of_new_file(dir, mode);
    let mode = mode & !(call.process.umask.get() & 0o777);
    Attributes { mode, uid, gid, rdev: 0, now_ns: call.cpu.realtime_ns() }
}

#[inline]
fn stat(inode: &InodeRecord) -> Stat {
    Stat {
        device: DEVICE,
        inode: inode.number.get(),
        mode: inode.mode.get(),
        links: inode.links.load(Ordering::Relaxed),
        uid: inode.uid.get(),
        gid: inode.gid.get(),
        special: Device::decode(inode.rdev.get()),
        size: inode.size.load(Ordering::Relaxed),
        block_size: PAGE_SIZE as u32,
        blocks: u64::from(inode.page_count.get()) * SECTORS_PER_PAGE,
        accessed: Timespec::from_signed_ns(inode.accessed_ns.get().cast_signed()),
        modified: Timespec::from_signed_ns(inode.modified_ns.get().cast_signed()),
        changed: Timespec::from_signed_ns(inode.changed_ns.get().cast_signed()),
        created: Timespec::from_signed_ns(inode.created_ns.get().cast_signed()),
    }
}

fn list<M: Machine>(call: &Call<M>, dir: &'static InodeRecord, records: &mut Records) {
    let cpu = call.cpu;
    if records.next == POSITION_DOT && !records.push(dir.number.get(), POSITION_DOT_DOT, dir.mode.get(), b".") {
        return;
    }
    if records.next == POSITION_DOT_DOT {
        let above = fs::parent(cpu, dir);
        if !records.push(above.number.get(), POSITION_FIRST, above.mode.get(), b"..") {
            return;
        }
    }
    let mut name = [0; NAME_MAX];
    fs::readdir_after(cpu, dir, records.next, records.last, |entry, inode| {
        due::spend_locked(cpu, cost::OBJECT);
        let name = fs::entry_name(cpu, entry, &mut name);
        let fits = records.push(inode.number.get(), entry.position.get() + 1, inode.mode.get(), name);
        if fits {
            records.last = cpu.raw(entry);
        }
        fits
    });
}

/// [`FileSystem::prepend_path`].
fn prepend_path<'c, M: Machine>(
    call: &Call<'c, M>,
    node: &Held<'c, Cpu<M>>,
    root: &Node<'c, M>,
    text: &mut PathText,
) -> Result<bool, Errno> {
    if text.also_removed && node.links.load(Ordering::Relaxed) == 0 {
        text.prepend(b" (deleted)")?;
    }
    let is_root = |dir: &InodeRecord| root.as_inode().is_some_and(|root| core::ptr::eq(root, dir));
    let mut at = node.clone();
    while !is_root(&at) {
        let above = match fs::is_directory(&at) {
            true => fs::parent(call.cpu, at.inode()),
            false => fs::directory_hint(call.cpu, &at).ok_or(Errno::ENOENT)?,
        };
        if core::ptr::eq(above.inode(), at.inode()) {
            return Ok(false);
        }
        let mut name = [0; NAME_MAX];
        match fs::last_name(call.cpu, at.inode(), &mut name).filter(|_| text.also_removed) {
            Some(last) => text.prepend_name(last)?,
            None => {
                let len = name_in(call, above.inode(), at.inode(), &mut name)?;
                text.prepend_name(&name[..len])?;
            }
        }
        at = above;
    }
    Ok(true)
}

/// The name by which `dir` holds `inode`; returns its length.
fn name_in<M: Machine>(
    call: &Call<M>,
    dir: &'static InodeRecord,
    inode: &'static InodeRecord,
    name: &mut [u8; NAME_MAX],
) -> Result<usize, Errno> {
    let (mut len, mut from, mut last) = (0, 0, 0);
    while len == 0 {
        let mut left = ENTRIES_AT_ONCE;
        fs::readdir_after(call.cpu, dir, from, last, |entry, found| {
            if core::ptr::eq(found, inode) {
                len = fs::entry_name(call.cpu, entry, name).len();
            }
            (from, last) = (entry.position.get() + 1, call.cpu.raw(entry));
            left -= 1;
            len == 0 && left > 0
        });
        if len == 0 && left > 0 {
            return Err(Errno::ENOENT);
        }
        call.serve_due(u64::from(ENTRIES_AT_ONCE) * ENTRY_COST);
    }
    Ok(len)
}
