//! procfs and sysfs as file systems.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, MOUNT_PROC, MOUNT_SYS, PAGE_SIZE};

use super::{
    super::{
        descriptor::description::OpenFile,
        path::{
            file_system::{FileSystem, Root},
            node::Node,
            records::Records,
            text::PathText,
        },
    },
    LINK_MAX, ProcNode, ROOT, SYSFS_ROOT, check, check_inspected, follow, is_of_process, is_of_sysfs, link_text, list,
    lookup, mode, numbered_name, open, owner, parent, tree, writable,
};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    permission::FileRights,
};

const DEVICE: Device = Device { major: 0, minor: 3 };

/// A file of procfs or sysfs.
impl<'c, M: Machine> FileSystem<'c, M> for ProcNode {
    const ROOTS: &'static [Root] = &[
        Root { mount: MOUNT_PROC, name: "proc", device: DEVICE, magic: PROC_SUPER_MAGIC },
        Root { mount: MOUNT_SYS, name: "sysfs", device: DEVICE, magic: SYSFS_MAGIC },
    ];

    fn root(_cpu: &'c Cpu<M>, mount: u32) -> Option<Self> {
        match mount {
            MOUNT_PROC => Some(ROOT),
            MOUNT_SYS => Some(SYSFS_ROOT),
            _ => None,
        }
    }

    fn of_file(_cpu: &'c Cpu<M>, file: &OpenFile<'c, M>) -> Option<Self> {
        file.as_kind()
    }

    fn of_reference(_cpu: &'c Cpu<M>, [_, raw]: [u64; 2]) -> Option<Self> {
        (raw != 0).then(|| Self::from_raw(raw))
    }

    fn into_reference(self, _cpu: &Cpu<M>) -> [u64; 2] {
        [0, self.raw()]
    }

    fn mode(&self) -> u32 {
        mode(*self)
    }

    fn mount(&self) -> u32 {
        if is_of_sysfs(*self) { MOUNT_SYS } else { MOUNT_PROC }
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn check(&self, call: &Call<M>, rights: &FileRights, mask: u32) -> Result<(), Errno> {
        check(call, *self, rights, mask)
    }

    fn lookup(&self, call: &Call<'c, M>, name: &[u8]) -> Result<Option<Node<'c, M>>, Stop> {
        Ok(lookup(call, *self, name).map(Node::from))
    }

    fn parent(&self, _cpu: &'c Cpu<M>) -> Option<Node<'c, M>> {
        parent(*self).map(Node::from)
    }

    fn prepend_path(&self, _call: &Call<'c, M>, root: &Node<'c, M>, text: &mut PathText) -> Result<bool, Errno> {
        let mut at = *self;
        while !root.same(&at.into()) {
            let Some(above) = parent(at) else { return Ok(false) };
            let mut digits = [0; 14];
            text.prepend_name(name_of(at, &mut digits))?;
            at = above;
        }
        Ok(true)
    }

    fn follow(&self, call: &Call<'c, M>) -> Result<Option<Node<'c, M>>, Stop> {
        Ok(follow(call, *self)?)
    }

    /// Where it leads without a path, the text is not what a walk follows.
    fn link_room(&self) -> usize {
        LINK_MAX
    }

    fn link_text(&self, call: &Call<M>, into: &mut [u8]) -> Result<usize, Stop> {
        Ok(link_text(call, *self, into)?)
    }

    fn list(&self, call: &Call<M>, records: &mut Records) -> Result<(), Stop> {
        list(call, *self, records);
        Ok(())
    }

    fn stat(&self, call: &Call<M>) -> Result<Stat, Stop> {
        let boot = Timespec::from_ns(call.cpu.pool.header().realtime_at_zero_ns.get());
        let mode = mode(*self);
        let (uid, gid) = owner(call.cpu, *self);
        Ok(Stat {
            uid,
            gid,
            device: DEVICE,
            inode: self.number(),
            mode,
            links: if mode & S_IFMT == S_IFDIR { 2 } else { 1 },
            block_size: PAGE_SIZE as u32,
            accessed: boot,
            modified: boot,
            changed: boot,
            created: boot,
            ..Stat::default()
        })
    }

    fn check_open(&self, call: &Call<M>, _rights: &FileRights, _flags: u32) -> Result<(), Errno> {
        check_inspected(call, *self)
    }

    fn describe(self, call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Stop> {
        if flags & O_ACCMODE != O_RDONLY && !writable(self) {
            return Err(Errno::EACCES.into());
        }
        Ok(open(call.cpu, self, flags)?)
    }

    fn check_removal(&self, call: &Call<M>) -> Result<(), Errno> {
        // As on Linux, whoever asks.
        if !is_of_process(*self) {
            check(call, *self, &FileRights::of(call.process), W_OK | X_OK)?;
        }
        Err(Errno::EPERM)
    }
}

/// The name of a node in the directory above it.
fn name_of(node: ProcNode, digits: &mut [u8; 14]) -> &[u8] {
    match tree::TABLE.iter().find(|row| row.2 == node.entry) {
        Some(row) => row.1.as_bytes(),
        None => numbered_name(node, node.place(), digits),
    }
}
