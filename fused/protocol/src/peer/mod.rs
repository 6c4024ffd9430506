//! What kernels say to each other that share nothing else: kinds of messages and their bytes (`docs/protocols/messages.md`).
//!
//! Headers, and lengths of messages, are those of Popcorn's kernels (`include/popcorn/pcn_kmsg.h` of its public sources), so that messages and bytes can be counted
//! beside theirs; what is in the bodies is ours. Fields are packed and little-endian.

pub mod bodies;

use core::cmp::Ordering::{Equal, Greater, Less};

use motet_layout::{CoreId, Isa, IslandId, MESSAGE_KINDS_MAX, PAGE_SIZE, PAGES_MAX};

use bodies::NodeInfoBody;

/// Bytes of a message's header: the sender's node and a priority, the kind, the length.
pub const HEADER_LEN: usize = 10;
/// Bits of the first byte that are the sender's node.
const NODE_MASK: u8 = 0x3f;

/// In which order kernel `own` of `count` looks at the others' rings: behind the one that it has taken messages from last, so that none keeps it from the others.
pub fn in_turn(own: u32, count: u32, last: u32) -> impl Iterator<Item = u32> {
    (1..=count).map(move |step| (last % count + step) % count).filter(move |&node| node != own)
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $word:literal, $len:literal;)*) => {
        /// What a message is about.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum MessageKind { $($(#[$doc])* $name = $code,)* }

        impl MessageKind {
            /// All, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Bytes of such a message, its header included.
            pub const fn message_len(self) -> usize {
                match self { $(Self::$name => $len,)* }
            }
        }
    };
}

kinds! {
    /// Who a kernel is: all to all, once.
    NodeInfo = 0, "node_info", 22;
    /// A thread calls a function of the receiver's, or one that was called back has returned.
    TaskMigrate = 1, "task_migrate", 1470;
    /// A thread's other half is about to run.
    TaskPairing = 2, "task_pairing", 22;
    /// A function has returned, or calls one of home's.
    TaskMigrateBack = 3, "task_migrate_back", 858;
    /// A process, or a thread that is away, has ended at home.
    TaskExitOrigin = 4, "task_exit_origin", 22;
    /// A thread has ended while it was away.
    TaskExitRemote = 5, "task_exit_remote", 22;
    /// Home is asked for the range of an address.
    VmaInfoRequest = 6, "vma_info_request", 26;
    /// It says which one.
    VmaInfoResponse = 7, "vma_info_response", 570;
    /// Home has changed ranges; or a thread that is away changes some.
    VmaOpRequest = 8, "vma_op_request", 578;
    /// A page is wanted.
    PageRequest = 9, "remote_page_request", 58;
    /// A page.
    PageResponse = 10, "remote_page_response", 4130;
    /// What was wanted, without the page.
    PageResponseShort = 11, "remote_page_response_short", 34;
    /// A copy is to be dropped.
    PageInvalidateRequest = 12, "page_invalidate_request", 30;
    /// It has been.
    PageInvalidateResponse = 13, "page_invalidate_response", 22;
    /// A system call that is made at home.
    SyscallForward = 14, "syscall_forward", 66;
    /// Its result.
    SyscallReply = 15, "syscall_reply", 26;
    /// A thread that is away waits at a futex, or wakes who does.
    FutexRequest = 16, "futex_request", 66;
    /// Its result.
    FutexResponse = 17, "futex_response", 22;
    /// The result of a thread that is away and changes ranges.
    VmaOpResponse = 18, "vma_op_response", 50;
    /// Several pages, which follow it, unless they are read in place: its length says how many.
    PagesResponse = 19, "remote_pages_response", 98;
    /// A number, to be followed by the next one. Tests alone send it.
    Probe = 31, "probe", 18;
}

impl MessageKind {
    /// The kind with this code.
    pub fn from_raw(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|&kind| kind as u8 == code)
    }
}

const _: () = {
    let mut at = 0;
    while at < MessageKind::ALL.len() {
        let kind = MessageKind::ALL[at];
        assert!((kind as usize) < MESSAGE_KINDS_MAX && kind.message_len() >= HEADER_LEN);
        at += 1;
    }
};

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The sender is another one than the one whose ring it is.
    Sender(u8),
    /// There is no such kind.
    Kind(u8),
    /// A message of this kind has another length.
    Len(u64),
    /// There is no such instruction set.
    Isa(u32),
    /// The sender's kernel was made from another source.
    Fingerprint(u64),
    /// It is one that comes once, and has come.
    Again,
    /// There is no memory for what has come.
    NoMemory,
    /// It says what cannot be: a process or thread that has nothing to do with the sender, or an answer that nobody has asked for.
    Unasked,
    /// A probe whose number is not the next one.
    Order(u64),
}

/// Whom kernel `own` rings for kernel `node`: no core of its pool, in which it is island 0 alone, but a place among that island's doorbells.
pub fn bell_of(own: u32, node: u32) -> CoreId {
    let place = match node.cmp(&own) {
        Equal => 0,
        Less => node + 1,
        Greater => node,
    };
    CoreId::new(IslandId::from_raw(place).unwrap_or(IslandId(0)), 0)
}

/// A message's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender.
    pub node: u8,
    /// What it is about.
    pub kind: MessageKind,
    /// Pages that make it longer than others of its kind.
    pub pages: u32,
}

impl Header {
    /// As it stands in a slot.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        (bytes[0], bytes[1]) = (self.node & NODE_MASK, self.kind as u8);
        bytes[2..].copy_from_slice(&self.message_len().to_le_bytes());
        bytes
    }

    /// Bytes of the message, this header included.
    pub const fn message_len(self) -> u64 {
        self.kind.message_len() as u64 + self.pages as u64 * PAGE_SIZE
    }

    /// Reads the header of a message from `node`.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: [u8; HEADER_LEN], node: u8) -> Result<Self, Malformed> {
        let [first, code, len @ ..] = bytes;
        if first & NODE_MASK != node {
            return Err(Malformed::Sender(first & NODE_MASK));
        }
        let kind = MessageKind::from_raw(code).ok_or(Malformed::Kind(code))?;
        let len = u64::from_le_bytes(len);
        let most = if kind == MessageKind::PagesResponse { PAGES_MAX as u64 } else { 0 };
        let pages = len.saturating_sub(kind.message_len() as u64) / PAGE_SIZE;
        let header = Self { node, kind, pages: pages.min(most) as u32 };
        if len == header.message_len() { Ok(header) } else { Err(Malformed::Len(len)) }
    }
}

/// Who a kernel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeInfo {
    /// Its instruction set.
    pub isa: Isa,
    /// Of its layouts ([`motet_layout::FINGERPRINT`]): kernels that exchange registers are made from one source.
    pub fingerprint: u64,
}

impl NodeInfo {
    /// What a message says of it.
    pub fn body(self) -> NodeInfoBody {
        NodeInfoBody { isa: (self.isa as u32).into(), fingerprint: self.fingerprint.into() }
    }

    /// Reads what another kernel says of itself.
    ///
    /// # Errors
    /// It names no instruction set.
    pub fn read(body: &NodeInfoBody) -> Result<Self, Malformed> {
        let isa = body.isa.get();
        let isa = Isa::from_raw(isa).ok_or(Malformed::Isa(isa))?;
        Ok(Self { isa, fingerprint: body.fingerprint.get() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_popcorns() {
        assert_eq!((HEADER_LEN, MessageKind::NodeInfo.message_len()), (10, 22));
        let header = Header { node: 2, kind: MessageKind::NodeInfo, pages: 0 };
        assert_eq!(header.to_bytes(), [2, 0, 22, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Header::read(header.to_bytes(), 2), Ok(header));
    }

    #[test]
    fn each_kernel_has_the_bells_of_the_others_behind_its_own() {
        let places = |own| [0, 1, 2].map(|node: u32| bell_of(own, node).island().index());
        assert_eq!([places(0), places(1), places(2)], [[0, 1, 2], [1, 0, 2], [1, 2, 0]]);
    }

    #[test]
    fn who_was_listened_to_last_comes_last() {
        let order = |own, last| in_turn(own, 4, last).collect::<Vec<_>>();
        assert_eq!([order(0, 0), order(0, 1), order(0, 3)], [[1, 2, 3], [2, 3, 1], [1, 2, 3]]);
        assert_eq!([order(2, 0), order(2, 1), order(2, 3)], [[1, 3, 0], [3, 0, 1], [0, 1, 3]]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let bytes = Header { node: 1, kind: MessageKind::NodeInfo, pages: 0 }.to_bytes();
        assert_eq!(Header::read(bytes, 2), Err(Malformed::Sender(1)));
        let with = |at: usize, byte| {
            let mut changed = bytes;
            changed[at] = byte;
            Header::read(changed, 1)
        };
        assert_eq!(with(1, 77), Err(Malformed::Kind(77)));
        assert_eq!(with(2, 23), Err(Malformed::Len(23)));
        assert_eq!(with(9, 1), Err(Malformed::Len(1 << 56 | 22)));
        let info = NodeInfo { isa: Isa::AArch64, fingerprint: 0x0123_4567_89ab_cdef };
        assert_eq!(NodeInfo::read(&info.body()), Ok(info));
        let nobody = NodeInfoBody { isa: 0x0909_0909.into(), ..info.body() };
        assert_eq!(NodeInfo::read(&nobody), Err(Malformed::Isa(0x0909_0909)));
    }
}
