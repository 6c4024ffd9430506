//! What a path can name: the list of all file systems, the one match over it, and the working, root and program references that processes keep.
//!
//! Who adds a file system writes its file, in which a type implements [`FileSystem`], and adds a row here. All that calls ask of a node goes through this
//! match, so no other code asks which file system a node is of.

use core::fmt;

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::{S_IFDIR, S_IFLNK, S_IFMT, Stat, Statfs},
};
use motet_hal::Machine;
use motet_layout::{Cell64, InodeRecord, ProcessRecord};
use motet_protocol::{
    Context,
    fs::{self, Held, Replace},
};

use super::{
    file_system::{FileSystem, Root},
    records::Records,
    text::PathText,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    file::{descriptor::description::OpenFile, kinds::metadata::Times, proc::ProcNode},
    permission::FileRights,
    tree,
};

/// The list of all file systems, which a macro gets before what else it is given.
macro_rules! file_systems {
    ($then:ident $($rest:tt)*) => {
        $then! {
            [
                /// A file of the ramfs.
                Ramfs(Held<'c, Cpu<M>>),
                /// A file of procfs or sysfs.
                Proc(ProcNode),
                /// An open file without a name (a pipe behind `/proc/self/fd/0`, or a descriptor with an empty path).
                Open(OpenFile<'c, M>),
            ]
            $($rest)*
        }
    };
}

macro_rules! declare {
    ([$($(#[$doc:meta])* $name:ident($type:ty),)+]) => {
        /// What a path names.
        pub enum Node<'c, M: Machine> {
            $($(#[$doc])* $name($type),)+
        }

        impl<M: Machine> Clone for Node<'_, M> {
            fn clone(&self) -> Self {
                match self {
                    $(Self::$name(node) => Self::$name(Clone::clone(node)),)+
                }
            }
        }

        $(impl<'c, M: Machine> From<$type> for Node<'c, M> {
            #[inline(always)]
            fn from(node: $type) -> Self {
                Self::$name(node)
            }
        })+
    };
}

/// Calls a method of a node's file system.
macro_rules! of_node {
    ($self:expr, $($call:tt)+) => { file_systems!(match_node $self, $($call)+) };
}
macro_rules! match_node {
    ([$($(#[$doc:meta])* $name:ident($type:ty),)+] $self:expr, $node:ident => $method:ident $arguments:tt) => {
        match $self {
            $(Node::$name($node) => FileSystem::<'c, M>::$method $arguments,)+
        }
    };
}

/// Calls a method of two nodes' file system, if they are of the same one.
macro_rules! of_two {
    ($both:expr, $($call:tt)+) => { file_systems!(match_two $both, $($call)+) };
}
macro_rules! match_two {
    (
        [$($(#[$doc:meta])* $name:ident($type:ty),)+]
        $both:expr, ($one:ident, $other:ident) => $method:ident $arguments:tt, $otherwise:expr
    ) => {
        match $both {
            $((Node::$name($one), Node::$name($other)) => FileSystem::<'c, M>::$method $arguments,)+
            _ => $otherwise,
        }
    };
}

/// Asks all file systems in turn for a node.
macro_rules! first {
    ([$($(#[$doc:meta])* $name:ident($type:ty),)+] $method:ident $arguments:tt) => {
        None::<Node<'c, M>>
            $(.or_else(|| <$type as FileSystem<'c, M>>::$method $arguments.map(Node::$name)))+
    };
}

macro_rules! all_roots {
    ([$($(#[$doc:meta])* $name:ident($type:ty),)+]) => {
        [$(<$type as FileSystem<'c, M>>::ROOTS),+].into_iter().flatten()
    };
}

/// A constant of a node's file system.
macro_rules! constant {
    ([$($(#[$doc:meta])* $name:ident($type:ty),)+] $self:expr, $constant:ident) => {
        match $self {
            $(Node::$name(_) => <$type as FileSystem<'c, M>>::$constant,)+
        }
    };
}

file_systems!(declare);

impl<'c, M: Machine> Node<'c, M> {
    /// The node of an inode, which the caller knows to be alive.
    pub fn of_inode(cpu: &'c Cpu<M>, inode: &'static InodeRecord) -> Self {
        Held::new(cpu, inode).into()
    }

    /// The node that an open file was opened from, or the file itself when it has none.
    pub fn of_file(cpu: &'c Cpu<M>, file: OpenFile<'c, M>) -> Self {
        Self::opened_from(cpu, &file).unwrap_or(Self::Open(file))
    }

    /// The node that an open file was opened from.
    pub fn opened_from(cpu: &'c Cpu<M>, file: &OpenFile<'c, M>) -> Option<Self> {
        file_systems!(first of_file(cpu, file))
    }

    /// The root of the file system that covers no directory.
    pub fn file_system_root(cpu: &'c Cpu<M>) -> Self {
        let root = cpu.object::<InodeRecord>(cpu.pool.header().root_inode.get());
        Self::of_inode(cpu, root.expect("the host made a root directory"))
    }

    /// The root by which a directory is covered ([`InodeRecord::mount`]).
    pub fn covering(cpu: &'c Cpu<M>, mount: u32) -> Option<Self> {
        file_systems!(first root(cpu, mount))
    }

    /// The roots of all file systems.
    pub fn roots() -> impl Iterator<Item = &'static Root> {
        file_systems!(all_roots)
    }

    /// [`FileSystem::mode`].
    #[inline]
    pub fn mode(&self) -> u32 {
        of_node!(self, node => mode(node))
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode() & S_IFMT == S_IFDIR
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode() & S_IFMT == S_IFLNK
    }

    /// [`FileSystem::mount`].
    pub fn mount(&self) -> u32 {
        of_node!(self, node => mount(node))
    }

    /// [`FileSystem::covered_by`].
    #[inline]
    pub fn covered_by(&self) -> u32 {
        of_node!(self, node => covered_by(node))
    }

    /// Whether both are the same file.
    #[inline]
    pub fn same(&self, other: &Self) -> bool {
        of_two!((self, other), (one, other) => same(one, other), false)
    }

    /// [`FileSystem::as_inode`].
    pub fn as_inode(&self) -> Option<&'static InodeRecord> {
        of_node!(self, node => as_inode(node))
    }

    /// Fails with `EACCES` unless the caller may do all of `mask` (`R_OK`, `W_OK`, `X_OK`).
    #[inline]
    pub fn check(&self, call: &Call<M>, mask: u32) -> Result<(), Errno> {
        self.check_for(call, &FileRights::of(call.process), mask)
    }

    /// As [`Self::check`], by other rights than those that the caller acts by.
    #[inline]
    pub fn check_for(&self, call: &Call<M>, rights: &FileRights, mask: u32) -> Result<(), Errno> {
        of_node!(self, node => check(node, call, rights, mask))
    }

    /// [`FileSystem::lookup`]: whatever covers what is found.
    #[inline(always)]
    pub fn lookup_within(&self, call: &Call<'c, M>, name: &[u8]) -> Result<Option<Self>, Stop> {
        of_node!(self, node => lookup(node, call, name))
    }

    /// [`FileSystem::parent`].
    pub fn parent_within(&self, cpu: &'c Cpu<M>) -> Option<Self> {
        of_node!(self, node => parent(node, cpu))
    }

    /// [`FileSystem::prepend_path`].
    pub fn prepend_path(&self, call: &Call<'c, M>, root: &Self, text: &mut PathText) -> Result<bool, Errno> {
        of_node!(self, node => prepend_path(node, call, root, text))
    }

    /// [`FileSystem::write_name`].
    pub fn write_name(&self, into: &mut impl fmt::Write) -> Option<fmt::Result> {
        of_node!(self, node => write_name(node, into))
    }

    /// [`FileSystem::check_follow`], of a link in this directory; of another file system's links anyone may follow.
    pub fn check_follow(&self, link: &Self, rights: &FileRights) -> Result<(), Errno> {
        of_two!((self, link), (one, other) => check_follow(one, other, rights), Ok(()))
    }

    /// [`FileSystem::follow`].
    pub fn follow(&self, call: &Call<'c, M>) -> Result<Option<Self>, Stop> {
        of_node!(self, node => follow(node, call))
    }

    /// [`FileSystem::link_room`].
    pub fn link_room(&self) -> usize {
        of_node!(self, node => link_room(node))
    }

    /// [`FileSystem::link_text`].
    pub fn link_text(&self, call: &Call<M>, into: &mut [u8]) -> Result<usize, Stop> {
        of_node!(self, node => link_text(node, call, into))
    }

    /// [`FileSystem::begin_list`].
    pub fn begin_list(&self, call: &Call<M>, flags: u32) -> Result<(), Errno> {
        of_node!(self, node => begin_list(node, call, flags))
    }

    /// [`FileSystem::list`].
    pub fn list(&self, call: &Call<M>, records: &mut Records) -> Result<(), Stop> {
        of_node!(self, node => list(node, call, records))
    }

    /// [`FileSystem::stat`].
    #[inline]
    pub fn stat(&self, call: &Call<M>) -> Result<Stat, Stop> {
        of_node!(self, node => stat(node, call))
    }

    /// [`FileSystem::statfs`].
    pub fn statfs(&self, call: &Call<M>, into: &mut Statfs) -> Result<(), Stop> {
        of_node!(self, node => statfs(node, call, into))
    }

    /// [`FileSystem::check_open`].
    pub fn check_open(&self, call: &Call<M>, rights: &FileRights, flags: u32) -> Result<(), Errno> {
        of_node!(self, node => check_open(node, call, rights, flags))
    }

    /// [`FileSystem::clear`].
    pub fn clear(&self, call: &Call<M>) -> Result<(), Stop> {
        of_node!(self, node => clear(node, call))
    }

    /// [`FileSystem::open`].
    pub fn open(self, call: &Call<M>, flags: u32) -> SysResult {
        of_node!(self, node => open(node, call, flags))
    }

    /// [`FileSystem::executable`].
    pub fn executable(self, call: &Call<M>) -> Result<Held<'c, Cpu<M>>, Stop> {
        of_node!(self, node => executable(node, call))
    }

    /// [`FileSystem::NEW_NAMES`].
    pub fn new_names(&self) -> Result<(), Errno> {
        file_systems!(constant self, NEW_NAMES)
    }

    /// [`FileSystem::create`].
    pub fn create(&self, call: &Call<'c, M>, name: &[u8], mode: u32, device: u32) -> Result<Self, Stop> {
        of_node!(self, node => create(node, call, name, mode, device))
    }

    /// [`FileSystem::create_unnamed`].
    pub fn create_unnamed(&self, call: &Call<'c, M>, mode: u32, may_be_named: bool) -> Result<Self, Stop> {
        of_node!(self, node => create_unnamed(node, call, mode, may_be_named))
    }

    /// [`FileSystem::mkdir`].
    pub fn mkdir(&self, call: &Call<M>, name: &[u8], mode: u32) -> Result<(), Stop> {
        of_node!(self, node => mkdir(node, call, name, mode))
    }

    /// [`FileSystem::symlink`].
    pub fn symlink(&self, call: &Call<M>, name: &[u8], target: &[u8]) -> Result<(), Stop> {
        of_node!(self, node => symlink(node, call, name, target))
    }

    /// [`FileSystem::link`], in this directory; `EXDEV` for a file of another file system.
    pub fn link(&self, node: &Self, call: &Call<M>, name: &[u8]) -> Result<(), Stop> {
        of_two!((self, node), (one, other) => link(one, other, call, name), Err(Errno::EXDEV.into()))
    }

    /// [`FileSystem::check_removal`].
    pub fn check_removal(&self, call: &Call<M>) -> Result<(), Errno> {
        of_node!(self, node => check_removal(node, call))
    }

    /// [`FileSystem::remove`].
    pub fn remove(&self, call: &Call<M>, name: &[u8], directory: bool) -> Result<(), Stop> {
        of_node!(self, node => remove(node, call, name, directory))
    }

    /// [`FileSystem::rename`], to another directory; `EXDEV` for one of another file system.
    pub fn rename(
        &self,
        to: &Self,
        call: &Call<M>,
        (old_name, new_name): (&[u8], &[u8]),
        replace: Replace,
    ) -> Result<(), Stop> {
        of_two!(
            (self, to),
            (from, to) => rename(from, to, call, old_name, new_name, replace),
            Err(Errno::EXDEV.into())
        )
    }

    /// [`FileSystem::set_mode`].
    pub fn set_mode(&self, call: &Call<M>, mode: u32) -> Result<(), Stop> {
        of_node!(self, node => set_mode(node, call, mode))
    }

    /// [`FileSystem::set_owner`].
    pub fn set_owner(&self, call: &Call<M>, uid: u32, gid: u32) -> Result<(), Stop> {
        of_node!(self, node => set_owner(node, call, uid, gid))
    }

    /// [`FileSystem::set_times`].
    pub fn set_times(&self, call: &Call<M>, times: Times) -> Result<(), Stop> {
        of_node!(self, node => set_times(node, call, times))
    }

    /// [`FileSystem::truncate`].
    pub fn truncate(&self, call: &Call<M>, len: u64) -> Result<(), Stop> {
        of_node!(self, node => truncate(node, call, len))
    }

    fn of_reference(cpu: &'c Cpu<M>, words: [u64; 2]) -> Option<Self> {
        file_systems!(first of_reference(cpu, words))
    }

    fn into_reference(self, cpu: &Cpu<M>) -> [u64; 2] {
        of_node!(self, node => into_reference(node, cpu))
    }
}

/// The node in a process's reference; the file system's root when it is not set.
///
/// Only the process's own threads change its references, and they hold the process-tree lock if they are several; the
/// caller is the only thread of the process or holds that lock.
pub fn load<'c, M: Machine>(cpu: &'c Cpu<M>, cells: &[Cell64; 2]) -> Node<'c, M> {
    let words = cells.each_ref().map(Cell64::get);
    Node::of_reference(cpu, words).unwrap_or_else(|| Node::file_system_root(cpu))
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
    let words = node.map_or([0; 2], |node| node.into_reference(cpu));
    let before = {
        let _tree = tree::lock_tree(cpu);
        let before = cells[0].get();
        set(cells, words);
        before
    };
    if let Some(before) = cpu.object::<InodeRecord>(before) {
        fs::put(cpu, before);
    }
}

/// Copies a reference of a process to a new one, which nobody else knows yet.
pub fn inherit<M: Machine>(from: &Node<M>, to: &'static [Cell64; 2], cpu: &Cpu<M>) {
    set(to, from.clone().into_reference(cpu));
}

fn set(cells: &[Cell64; 2], words: [u64; 2]) {
    for (cell, word) in cells.iter().zip(words) {
        cell.set(word);
    }
}

/// The directory that an open file is, from which paths can start.
///
/// # Errors
/// `ENOTDIR`.
pub fn directory_of<'c, M: Machine>(cpu: &'c Cpu<M>, file: OpenFile<'c, M>) -> Result<Node<'c, M>, Errno> {
    let node = Node::of_file(cpu, file);
    if node.is_directory() { Ok(node) } else { Err(Errno::ENOTDIR) }
}
