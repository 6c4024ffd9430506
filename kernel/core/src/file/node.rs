//! What a path can name, and the working, root and program references that processes keep.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{Cell64, InodeRecord, ProcessRecord};
use motet_protocol::{
    Context,
    fs::{self, Held},
};

use super::{
    description::OpenFile,
    proc::{self, ProcNode},
};
use crate::{call::Call, cpu::Cpu, permission::FileRights, tree};

/// What a path names.
pub enum Node<'c, M: Machine> {
    /// An inode of the ramfs.
    Inode(Held<'c, Cpu<M>>),
    /// A file of procfs.
    Proc(ProcNode),
    /// An open file without a name (a pipe behind `/proc/self/fd/0`, or a descriptor with an empty path).
    Open(OpenFile<'c, M>),
}

impl<'c, M: Machine> Node<'c, M> {
    /// The node of an inode, which the caller knows to be alive.
    pub fn of_inode(cpu: &'c Cpu<M>, inode: &'static InodeRecord) -> Self {
        Self::Inode(Held::new(cpu, inode))
    }

    /// The node an open file was opened from, or the file itself when it has none.
    pub fn of_file(cpu: &'c Cpu<M>, file: OpenFile<'c, M>) -> Self {
        if let Some(inode) = file.inode() {
            return Self::of_inode(cpu, inode);
        }
        match file.as_kind() {
            Some(node) => Self::Proc(node),
            None => Self::Open(file),
        }
    }

    /// The root of the file system.
    pub fn file_system_root(cpu: &'c Cpu<M>) -> Self {
        let root = cpu.object::<InodeRecord>(cpu.pool.header().root_inode.get());
        Self::of_inode(cpu, root.expect("the host made a root directory"))
    }

    /// Type and permissions.
    pub fn mode(&self) -> u32 {
        match self {
            Self::Inode(inode) => inode.mode.get(),
            Self::Proc(node) => proc::mode(*node),
            Self::Open(file) => file.facts().mode,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode() & S_IFMT == S_IFDIR
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode() & S_IFMT == S_IFLNK
    }

    /// A number of the file system that it is in.
    pub fn file_system(&self) -> u32 {
        match self {
            Self::Inode(_) => 0,
            Self::Proc(node) if proc::is_of_sysfs(*node) => 1,
            Self::Proc(_) => 2,
            Self::Open(_) => 3,
        }
    }

    /// Whether both are the same file.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inode(one), Self::Inode(other)) => core::ptr::eq(one.inode(), other.inode()),
            (Self::Proc(one), Self::Proc(other)) => one == other,
            _ => false,
        }
    }

    /// The inode.
    ///
    /// # Errors
    /// `otherwise`, when it is none of the ramfs.
    pub fn inode_or(&self, otherwise: Errno) -> Result<&'static InodeRecord, Errno> {
        match self {
            Self::Inode(inode) => Ok(inode.inode()),
            Self::Proc(_) | Self::Open(_) => Err(otherwise),
        }
    }

    /// Fails with `EACCES` unless the caller may do all of `mask` (`R_OK`, `W_OK`, `X_OK`).
    #[inline]
    pub fn check(&self, call: &Call<M>, mask: u32) -> Result<(), Errno> {
        self.check_for(call, &FileRights::of(call.process), mask)
    }

    /// As [`Self::check`], by other rights than those that the caller acts by.
    #[inline]
    pub fn check_for(&self, call: &Call<M>, rights: &FileRights, mask: u32) -> Result<(), Errno> {
        match self {
            Self::Inode(inode) => rights.check(inode, mask),
            Self::Proc(node) => proc::check(call, *node, rights, mask),
            // Whoever has it open may use it.
            Self::Open(_) => Ok(()),
        }
    }
}

impl<M: Machine> Clone for Node<'_, M> {
    fn clone(&self) -> Self {
        match self {
            Self::Inode(inode) => Self::Inode(inode.clone()),
            Self::Proc(node) => Self::Proc(*node),
            Self::Open(file) => Self::Open(file.clone()),
        }
    }
}

/// The node in a process's reference; the file system's root when it is not set.
///
/// Only the process's own threads change its references, and they hold the process-tree lock if they are several; the
/// caller is the only thread of the process or holds that lock.
pub fn load<'c, M: Machine>(cpu: &'c Cpu<M>, cells: &[Cell64; 2]) -> Node<'c, M> {
    match (cpu.object::<InodeRecord>(cells[0].get()), cells[1].get()) {
        (Some(inode), _) => Node::of_inode(cpu, inode),
        (None, 0) => Node::file_system_root(cpu),
        (None, raw) => Node::Proc(ProcNode::from_raw(raw)),
    }
}

/// The node in one of the calling process's references.
pub fn of_process<'c, M: Machine>(
    call: &Call<'c, M>,
    cells: impl Fn(&'static ProcessRecord) -> &'static [Cell64; 2],
) -> Node<'c, M> {
    let several = call.process.thread_count.load(Ordering::Relaxed) > 1;
    let _tree = several.then(|| tree::lock_tree(call.cpu));
    load(call.cpu, cells(call.process))
}

/// Replaces a reference of a process. `None` clears it.
pub fn store<M: Machine>(cpu: &Cpu<M>, cells: &'static [Cell64; 2], node: Option<Node<M>>) {
    let (inode, raw) = match node {
        Some(Node::Inode(inode)) => (cpu.raw(inode.release()), 0),
        Some(Node::Proc(node)) => (0, node.raw()),
        Some(Node::Open(_)) | None => (0, 0),
    };
    let before = {
        let _tree = tree::lock_tree(cpu);
        let before = cells[0].get();
        cells[0].set(inode);
        cells[1].set(raw);
        before
    };
    if let Some(before) = cpu.object::<InodeRecord>(before) {
        fs::put(cpu, before);
    }
}

/// Copies a reference of a process to a new one, which nobody else knows yet.
pub fn inherit<M: Machine>(from: &Node<M>, to: &'static [Cell64; 2], cpu: &Cpu<M>) {
    match from {
        Node::Inode(inode) => to[0].set(cpu.raw(inode.clone().release())),
        Node::Proc(node) => to[1].set(node.raw()),
        Node::Open(_) => {}
    }
}

/// Whether a description is a directory that paths can start from, and which.
pub fn directory_of<'c, M: Machine>(cpu: &'c Cpu<M>, file: OpenFile<'c, M>) -> Result<Node<'c, M>, Errno> {
    if file.of_ramfs().is_none() && file.as_kind::<ProcNode>().is_none() {
        return Err(Errno::ENOTDIR);
    }
    let node = Node::of_file(cpu, file);
    if node.is_directory() { Ok(node) } else { Err(Errno::ENOTDIR) }
}
