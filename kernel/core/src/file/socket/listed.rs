//! What lists of all sockets tell of each (`/proc/PID/net`).

use motet_layout::{SOCKET_LISTENING, SocketRecord, sync::Ordering};
use motet_protocol::Context;

use super::name::Name;
use crate::description::kind::number_of;

/// A list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// `tcp`.
    Tcp,
    /// `tcp6`.
    Tcp6,
    /// `udp`.
    Udp,
    /// `udp6`.
    Udp6,
    /// `unix`.
    Local,
}

/// What is told of a socket.
pub struct Row {
    /// The list that it is in.
    pub list: List,
    /// Its state, as that numbers them. 0: it is not listed, but counts.
    pub state: u32,
    /// Whether others connect to it.
    pub listens: bool,
    /// `SOCK_*`.
    pub kind: u32,
    /// How many keep it, as Linux counts.
    pub refs: u32,
    /// Bytes that wait to be received, or connections to be accepted.
    pub waiting: u32,
    /// Where it is.
    pub own: Name,
    /// Whom it is connected to.
    pub peer: Name,
    /// The user who has made it.
    pub owner: u32,
    /// The number of its open file (`st_ino`), 0: it has none yet.
    pub inode: u64,
    /// What tells it from all others.
    pub number: u64,
}

impl Row {
    /// One of a list, in a state.
    pub fn new(cpu: &impl Context, socket: &'static SocketRecord, list: List, state: u32) -> Self {
        Self {
            list,
            state,
            listens: socket.state.load(Ordering::Acquire) == SOCKET_LISTENING,
            kind: socket.kind.get(),
            refs: 2,
            waiting: 0,
            own: Name::own(socket),
            peer: Name::of_peer(socket),
            owner: socket.owner.get(),
            inode: number_of(socket.file.get()),
            number: cpu.raw(socket) / size_of::<SocketRecord>() as u64,
        }
    }
}
