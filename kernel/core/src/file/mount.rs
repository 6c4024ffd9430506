//! Mounts: which file system's root covers which directory.
//!
//! The pool has two words for each, which whoever mounts sets together (`motet_protocol::fs::mount`): a directory says by what it is covered
//! ([`InodeRecord::mount`]), and the header says which directory that is (`PoolHeader::mounts`). Look-ups cross down here, and ways up cross up.

use motet_hal::Machine;
use motet_layout::{InodeRecord, MOUNT_NONE};
use motet_protocol::Context;

use super::{file_system::Root, node::Node};
use crate::cpu::Cpu;

/// The root that covers a node, or the node itself.
#[inline]
pub fn cross_down<'c, M: Machine>(cpu: &'c Cpu<M>, node: Node<'c, M>) -> Node<'c, M> {
    match node.covered_by() {
        MOUNT_NONE => node,
        mount => Node::covering(cpu, mount).unwrap_or(node),
    }
}

/// The directory that the root of a node's file system covers.
pub fn cross_up<'c, M: Machine>(cpu: &'c Cpu<M>, node: &Node<'c, M>) -> Option<Node<'c, M>> {
    covered(cpu, node.mount())
}

/// Whether it is a root that covers a directory.
pub fn is_mounted<'c, M: Machine>(cpu: &'c Cpu<M>, node: &Node<'c, M>) -> bool {
    node.mount() != MOUNT_NONE && node.parent_within(cpu).is_none()
}

/// All that is mounted, in the order of numbers: the root, and what it covers (`None`: it is what covers nothing, `/`).
pub fn all<'c, M: Machine>(cpu: &'c Cpu<M>) -> impl Iterator<Item = (&'static Root, Option<Node<'c, M>>)> {
    let known = Node::<'c, M>::roots().map(move |root| (root, covered(cpu, root.mount)));
    known.filter(|(root, covered)| root.mount == MOUNT_NONE || covered.is_some())
}

fn covered<M: Machine>(cpu: &Cpu<M>, mount: u32) -> Option<Node<'_, M>> {
    // The root of the ramfs covers nothing.
    let place = cpu.pool.header().mounts.get(mount as usize).filter(|_| mount != MOUNT_NONE)?;
    cpu.object::<InodeRecord>(place.get()).map(|inode| Node::of_inode(cpu, inode))
}
