//! Sockets, and what is sent through them.

use crate::{
    AtomicByte, Cell32, Cell64, SocketLock, TreeLinks, WaitQueue,
    sync::{AtomicU32, AtomicU64},
};

/// Longest name in an address of a socket.
pub const SOCKET_NAME_MAX: usize = 108;
/// [`SocketRecord::state`]: neither listens nor is connected.
pub const SOCKET_NEW: u32 = 0;
/// [`SocketRecord::state`]: others connect to it.
pub const SOCKET_LISTENING: u32 = 1;
/// [`SocketRecord::state`]: has a peer: for good, unless it is one of datagrams.
pub const SOCKET_CONNECTED: u32 = 2;

pool_struct! {
    /// A socket. What is said of paths is so of `AF_UNIX`.
    pub struct SocketRecord: size 512, align 64 {
        /// Guards what is pending, the change to listening, and the peer of one of datagrams; what is bound is under the header's `socket_lock`.
        0 pub lock: SocketLock,
        /// `SOCKET_*`.
        8 pub state: AtomicU32,
        /// Bit 0: it reads no more, bit 1: it writes no more. Others are its family's.
        12 pub shut: AtomicU32,
        /// The [`PipeRecord`](crate::PipeRecord) that it reads from (pool address), with a reference. Of one of datagrams always, otherwise once it is connected.
        16 pub incoming: AtomicU64,
        /// Connected: the [`PipeRecord`](crate::PipeRecord) that it writes to (pool address), with a reference.
        24 pub outgoing: AtomicU64,
        /// Listening: first and last socket that was connected to it and has not been accepted (pool addresses).
        32 pub pending: [Cell64; 2],
        /// Next of those that wait to be accepted (pool address).
        48 pub next: Cell64,
        /// How many wait to be accepted.
        56 pub pending_count: Cell32,
        /// How many may wait before others wait to connect.
        60 pub backlog: Cell32,
        /// Threads waiting to accept.
        64 pub acceptors: WaitQueue,
        /// Which socket is to accept it (pool address).
        96 pub listener: Cell64,
        /// The inode of its name, with a reference (pool address), 0: the name is abstract. Of a gateway's socket: the [`WatchRecord`](crate::WatchRecord) that rings
        /// the gateway's core.
        104 pub inode: Cell64,
        /// 1: it is bound. Set before it is in the tree of those, cleared when it is out.
        112 pub is_bound: Cell32,
        /// Process, user and group of whom it is connected to; listening: of whom listens.
        116 pub peer: [Cell32; 3],
        /// Its name: a path, or what begins with a zero; of `AF_INET` and `AF_INET6`: its port and its address, most significant byte first.
        128 pub name: [AtomicByte; 108],
        /// Bytes of the name, 0: none.
        236 pub name_len: Cell32,
        /// The name of whom it is connected to.
        240 pub peer_name: [AtomicByte; 108],
        /// Bytes of that name, 0: none.
        348 pub peer_name_len: Cell32,
        /// 1 + the core that has accepted it and not given it a file yet, or 0.
        352 pub acceptor: AtomicU32,
        /// Options that are on: a bit each, by the option's number.
        356 pub options: AtomicU32,
        /// Among those that are bound, by name.
        360 pub links: TreeLinks,
        /// Nanoseconds after which receiving (and accepting) and sending (and connecting) wait no longer, 0: they wait however long it takes.
        384 pub timeouts_ns: [Cell64; 2],
        /// `AF_*`.
        400 pub family: Cell32,
        /// `SOCK_*`.
        404 pub kind: Cell32,
        /// The open file that has it (pool address), 0: none yet.
        408 pub file: Cell64,
        /// How often its open file is in packets that wait. This and the next: under the header's `rights_lock`.
        416 pub in_flight: Cell32,
        /// 1: somebody can still receive from it. This and [`work`](Self::work): while it is found out which sockets only packets name.
        420 pub is_reached: Cell32,
        /// `SO_SNDBUF` and `SO_RCVBUF`, in bytes.
        424 pub buffers: [Cell32; 2],
        /// What `SO_ERROR` says, once, 0: nothing.
        432 pub error: AtomicU32,
        /// The protocol of its family.
        436 pub protocol: Cell32,
        /// The first [`PacketRecord`] with sockets of those that wait for somebody to have this one (pool address).
        440 pub work: Cell64,
        /// Values of options that are its family's own, as that counts them.
        448 pub settings: [Cell32; 13],
        /// 1: somebody found no room to send something. Whose owner is told by a signal when there is room: [`OwnerRecord::room`](crate::OwnerRecord::room).
        500 pub wanted_room: AtomicU32,
        /// `SO_LINGER`: seconds.
        504 pub linger_s: Cell32,
        /// The user who has made it.
        508 pub owner: Cell32,
    }
}

/// Bytes of a packet that lie in its record.
pub const PACKET_INLINE: usize = 360;
/// Frames of a packet.
pub const PACKET_FRAMES: usize = 52;
/// Most bytes that a packet may have.
pub const PACKET_MAX: usize = PACKET_INLINE + PACKET_FRAMES * crate::PAGE_SIZE as usize;
/// Most open files that a packet may have (Linux `SCM_MAX_FD`).
pub const RIGHTS_MAX: usize = 253;

/// [`PacketRecord::flags`]: it says who has sent it.
pub const PACKET_HAS_CREDENTIALS: u32 = 1;
/// [`PacketRecord::flags`]: some of its files are sockets.
pub const PACKET_HAS_SOCKETS: u32 = 8;
/// [`PacketRecord::flags`]: these are counted as in flight. Under the header's `rights_lock`.
pub const PACKET_IN_FLIGHT: u32 = 2;
/// [`PacketRecord::flags`]: nobody receives it any more; it is among those to be freed. Under the header's `rights_lock`.
pub const PACKET_DROPPED: u32 = 4;

pool_struct! {
    /// A packet in a socket's queue, or what goes with bytes of a stream: open files, or who has sent them.
    pub struct PacketRecord: size 768, align 64 {
        /// The next one in its queue, or of those to be freed (pool address).
        0 pub next: Cell64,
        /// The queue, a [`PipeRecord`](crate::PipeRecord), that it is in or about to enter (pool address), 0: none.
        8 pub queue: Cell64,
        /// Previous and next of those that are in flight with sockets (pool addresses).
        16 pub flight: [Cell64; 2],
        /// The user whose files these are counted for (pool address of a [`UserRecord`](crate::UserRecord)), 0: nobody.
        32 pub user: Cell64,
        /// 1 + the core that has it in hand, 0: it is in its queue, or to be freed.
        40 pub holder: AtomicU32,
        /// `PACKET_*`.
        44 pub flags: AtomicU32,
        /// Its bytes; of a stream: those that it goes with.
        48 pub len: Cell32,
        /// In a stream: where these begin, as the pipe counts.
        52 pub at: Cell32,
        /// In a stream, of files: bytes that one call receives with them at most.
        56 pub reach: Cell32,
        /// Open files.
        60 pub rights_count: Cell32,
        /// The frame with them: pool addresses, each with a reference.
        64 pub rights: Cell32,
        /// Process, user and group of whom has sent it.
        68 pub credentials: [Cell32; 3],
        /// Bytes of the sender's name, 0: none.
        80 pub name_len: Cell32,
        /// The sender's name.
        84 pub name: [AtomicByte; 108],
        /// Frames with those bytes that do not lie here.
        192 pub frames: [Cell32; 52],
        /// Next of those that wait for the same socket, or are to be looked at (pool address), while it is found out which sockets only packets name.
        400 pub work: Cell64,
        /// The first bytes.
        408 pub bytes: [Cell64; 45],
    }
}
