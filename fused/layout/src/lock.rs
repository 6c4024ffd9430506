//! Words that are locks, and the class of each, which says what it protects (`docs/protocols/lock.md`).

use crate::{PoolSafe, sync::AtomicU64};

macro_rules! classes {
    ($($(#[$meta:meta])* $class:ident $lock:ident;)*) => {
        /// What a lock protects. A core that holds a lock takes only locks of later classes, or of the same class, in an order that the
        /// class has.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u32)]
        pub enum LockClass { $($(#[$meta])* $class),* }

        impl LockClass {
            /// All classes, outermost first.
            pub const ALL: &[Self] = &[$(Self::$class),*];

            /// Whether a core may hold several of this class, in an order that the class has.
            pub const fn may_nest(self) -> bool {
                matches!(self, Self::Inode | Self::Interests | Self::Waiters | Self::Timers)
            }
        }

        $($(#[$meta])* pub type $lock = Lock<{ LockClass::$class as u32 }>;)*
    };
}

classes! {
    /// What kernels and the FPGA share.
    Fpga FpgaLock;
    /// The process tree: parents, children, groups, sessions, the threads of processes, signals that are known to be pending.
    Tree TreeLock;
    /// The list of virtual machines.
    Guests GuestsLock;
    /// Numbers of threads.
    Ids IdsLock;
    /// A descriptor table.
    Descriptors DescriptorsLock;
    /// An open file's position.
    File FileLock;
    /// An address space.
    Space SpaceLock;
    /// System V IPC.
    Ipc IpcLock;
    /// Renames between directories.
    Rename RenameLock;
    /// A file, or a directory; a directory before what is in it.
    Inode InodeLock;
    /// Watches of inodes, and what was told of them.
    Notify NotifyLock;
    /// Which files interest lists watch.
    Watches WatchesLock;
    /// An interest list; one before another that it watches.
    Interests InterestsLock;
    /// Which sockets are bound.
    Bound BoundLock;
    /// A socket.
    Socket SocketLock;
    /// Open files in packets that wait.
    Rights RightsLock;
    /// Which pseudo-terminals there are.
    Ptys PtysLock;
    /// A terminal.
    Terminal TerminalLock;
    /// A stream of bytes between the machine and the host.
    Stream StreamLock;
    /// A pipe.
    Pipe PipeLock;
    /// An event counter.
    Event EventLock;
    /// A timer that is a file.
    Clock ClockLock;
    /// An open file of transfers.
    Transfers TransfersLock;
    /// A transfer engine's ring.
    Engine EngineLock;
    /// The interrupt controller of a virtual machine.
    Interrupts InterruptsLock;
    /// Threads that wait.
    Waiters WaitersLock;
    /// A core's deadlines.
    Timers TimersLock;
    /// Messages to other kernels that wait for room.
    Messages MessagesLock;
    /// Free objects of a kind.
    Slab SlabLock;
    /// An island's free frames.
    Frames FramesLock;
    /// The machine's free blocks of frames.
    Blocks BlocksLock;
}

/// A lock of a [`LockClass`] (by its number): 0 when free, otherwise 1 + the holder's core index.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Lock<const CLASS: u32>(AtomicU64);

impl<const CLASS: u32> PoolSafe for Lock<CLASS> {}

impl<const CLASS: u32> Lock<CLASS> {
    /// The lock's class, which says what it protects.
    pub const fn class(&self) -> LockClass {
        LockClass::ALL[CLASS as usize]
    }

    /// Its word.
    #[inline(always)]
    pub const fn word(&self) -> &AtomicU64 {
        &self.0
    }
}

/// Orders the caller's earlier stores before its later ones, for a core that finds the caller's core dead in between and repairs what its
/// locks protected. It costs nothing: all stores of a core before the instruction at which it died have been done, in whatever order, and
/// none behind it; so only the compiler must keep the order.
#[inline(always)]
pub fn in_order() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::AcqRel);
}
