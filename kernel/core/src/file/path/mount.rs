//! Mounts: which file system's root covers which directory.
//!
//! The pool has two words for each, which whoever mounts sets together (`motet_protocol::fs::mount`): a directory says by what it is covered
//! ([`InodeRecord::mount`]), and the header says which directory that is (`PoolHeader::mounts`). Look-ups cross down here, and ways up cross up.

use motet_hal::Machine;
use motet_layout::{InodeRecord, MOUNT_NONE};
use motet_protocol::Context;

use super::{file_system::Root, node::Node};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
};

impl<'c, M: Machine> Node<'c, M> {
    /// What `name` names in this directory ([`Node::lookup_within`]); where a root covers what is found, that root.
    #[inline]
    pub fn lookup(&self, call: &Call<'c, M>, name: &[u8]) -> Result<Option<Self>, Stop> {
        let found = self.lookup_within(call, name)?;
        Ok(found.map(|node| cross_down(call.cpu, node)))
    }

    /// The directory above; the root's is itself.
    pub fn parent(&self, cpu: &'c Cpu<M>) -> Self {
        self.parent_within(cpu).unwrap_or_else(|| self.above_root(cpu))
    }

    /// The directory above the root of a file system, which this is.
    #[cold]
    fn above_root(&self, cpu: &'c Cpu<M>) -> Self {
        match cross_up(cpu, self) {
            Some(covered) => covered.parent(cpu),
            None => self.clone(),
        }
    }
}

/// The root that covers a node, or the node itself.
#[inline]
fn cross_down<'c, M: Machine>(cpu: &'c Cpu<M>, node: Node<'c, M>) -> Node<'c, M> {
    if node.covered_by() == MOUNT_NONE { node } else { to_covering(cpu, node) }
}

#[cold]
fn to_covering<'c, M: Machine>(cpu: &'c Cpu<M>, node: Node<'c, M>) -> Node<'c, M> {
    Node::covering(cpu, node.covered_by()).unwrap_or(node)
}

/// The directory that the root of a node's file system covers.
pub fn cross_up<'c, M: Machine>(cpu: &'c Cpu<M>, node: &Node<'c, M>) -> Option<Node<'c, M>> {
    covered(cpu, node.mount())
}

/// Whether it is a root that covers a directory.
pub fn is_mounted<'c, M: Machine>(cpu: &'c Cpu<M>, node: &Node<'c, M>) -> bool {
    node.mount() != MOUNT_NONE && node.parent_within(cpu).is_none()
}

/// All that is mounted, in the order of numbers.
pub fn all<'c, M: Machine>(cpu: &'c Cpu<M>) -> impl Iterator<Item = &'static Root> {
    Node::<'c, M>::roots().filter(move |root| root.mount == MOUNT_NONE || covered(cpu, root.mount).is_some())
}

/// The directory that a root covers; `None`: it covers none, as the root above all does, or is not mounted.
pub fn covered<M: Machine>(cpu: &Cpu<M>, mount: u32) -> Option<Node<'_, M>> {
    let place = cpu.pool.header().mounts.get(mount as usize).filter(|_| mount != MOUNT_NONE)?;
    cpu.object::<InodeRecord>(place.get()).map(|inode| Node::of_inode(cpu, inode))
}
