//! Bound sockets, by protocol and what names them: the inode of a path, or a name that is none (unix(7)), or a port and an address (ip(7)).
//!
//! They are a search tree, under the header's `socket_lock`. A socket says itself that it is bound, from before it is in the tree until it is out.

use core::{
    cmp::Ordering::{self as Order, Less},
    ops::ControlFlow,
};

use motet_layout::{AtomicByte, SocketRecord, TreeLinks, in_order, sync::Ordering};

use crate::{
    Context, slab,
    treap::{Tree, TreeNode},
};

impl TreeNode for SocketRecord {
    fn links(&self) -> &TreeLinks {
        &self.links
    }

    fn is_before(&self, other: &Self) -> bool {
        compare(self, other.protocol.get(), other.inode.get(), name(other).iter().map(byte)) == Less
    }
}

/// Enters a socket whose protocol, name and inode are set. It is behind others that have the same.
pub fn enter(context: &impl Context, socket: &'static SocketRecord) {
    in_order();
    // First: `recover` goes by it.
    socket.is_bound.set(1);
    in_order();
    tree(context).insert(socket);
}

/// Takes a socket out, which is bound.
pub fn leave(context: &impl Context, socket: &'static SocketRecord) {
    tree(context).remove(socket);
    in_order();
    socket.is_bound.set(0);
}

/// The socket of a protocol whose name has that inode (pool address); `inode` is 0: whose name this is.
pub fn find(context: &impl Context, protocol: u32, inode: u64, name: &[u8]) -> Option<&'static SocketRecord> {
    let order = |socket: &SocketRecord| compare(socket, protocol, inode, name.iter().copied());
    tree(context).first_from(|socket| order(socket) == Less).filter(|socket| order(socket).is_eq())
}

/// Shows the sockets of a protocol from that name on, in their order, until `each` has enough.
pub fn look_from(
    context: &impl Context,
    protocol: u32,
    name: &[u8],
    each: impl FnMut(&'static SocketRecord) -> ControlFlow<()>,
) {
    let tree = tree(context);
    let first = tree.first_from(|socket| compare(socket, protocol, 0, name.iter().copied()) == Less);
    let _ = tree.from(first).take_while(|socket| socket.protocol.get() == protocol).try_for_each(each);
}

/// Repairs the tree, whose lock a dead core held and this one has now. Which sockets are bound they say themselves.
pub(crate) fn recover(context: &impl Context) {
    context.pool().header().bound_sockets.set(0);
    let tree = tree(context);
    slab::all::<SocketRecord>(context)
        .filter(|socket| socket.is_bound.get() != 0)
        .for_each(|socket| tree.insert(socket));
}

fn tree<C: Context>(context: &C) -> Tree<'_, C, SocketRecord> {
    Tree::new(context, &context.pool().header().bound_sockets)
}

/// A socket's place relative to that of a name. Names with an inode are that inode, others are compared by length and bytes.
fn compare(socket: &SocketRecord, protocol: u32, inode: u64, bytes: impl ExactSizeIterator<Item = u8>) -> Order {
    let own = name(socket);
    socket.protocol.get().cmp(&protocol).then(socket.inode.get().cmp(&inode)).then_with(|| match inode {
        0 => own.len().cmp(&bytes.len()).then_with(|| own.iter().map(byte).cmp(bytes)),
        _ => Order::Equal,
    })
}

fn name(socket: &SocketRecord) -> &[AtomicByte] {
    &socket.name[..(socket.name_len.get() as usize).min(socket.name.len())]
}

fn byte(cell: &AtomicByte) -> u8 {
    cell.load(Ordering::Relaxed)
}
