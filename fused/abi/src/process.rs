//! Processes and memory: clone, wait, mmap, futex, scheduling, prctl.

use motet_layout::Isa;

use crate::wire::wire_struct;

/// `personality`: programs are not placed at random.
pub const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;
/// `clone`: the signal to the parent at exit, within the flags.
pub const CSIGNAL: u64 = 0xff;
/// `clone`: one address space.
pub const CLONE_VM: u64 = 0x100;
/// `clone`: one current directory and umask.
pub const CLONE_FS: u64 = 0x200;
/// `clone`: one file table.
pub const CLONE_FILES: u64 = 0x400;
/// `clone`: one table of signal handlers.
pub const CLONE_SIGHAND: u64 = 0x800;
/// `clone`: returns a pidfd.
pub const CLONE_PIDFD: u64 = 0x1000;
/// `clone`: the parent waits until the child execs or exits.
pub const CLONE_VFORK: u64 = 0x4000;
/// `clone`: the caller's parent becomes the child's.
pub const CLONE_PARENT: u64 = 0x8000;
/// `clone`: a thread of the same process.
pub const CLONE_THREAD: u64 = 0x1_0000;
/// `clone`: undo lists of System V semaphores are shared.
pub const CLONE_SYSVSEM: u64 = 0x4_0000;
/// `clone`: sets the child's thread pointer.
pub const CLONE_SETTLS: u64 = 0x8_0000;
/// `clone`: stores the child's id in the parent.
pub const CLONE_PARENT_SETTID: u64 = 0x10_0000;
/// `clone`: clears the child's id at exit and wakes a futex.
pub const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
/// `clone`: ignored.
pub const CLONE_DETACHED: u64 = 0x40_0000;
/// `clone`: stores the child's id in the child.
pub const CLONE_CHILD_SETTID: u64 = 0x100_0000;
/// `clone3`: handlers are reset in the child.
pub const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

/// The arguments of `clone` by meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CloneArgs {
    /// `CLONE_*`, without [`CSIGNAL`].
    pub flags: u64,
    /// Signal to the parent at exit; 0: none.
    pub exit_signal: u32,
    /// Stack pointer of the child; 0: the parent's.
    pub stack: u64,
    /// Where the parent's copy of the id goes.
    pub parent_tid: u64,
    /// Where the child's copy of the id goes.
    pub child_tid: u64,
    /// Thread pointer of the child.
    pub tls: u64,
    /// Where the child's descriptor goes (`CLONE_PIDFD`).
    pub pidfd: u64,
}

/// The arguments of a `clone` call: x86-64 has child_tid before tls, the others (`CONFIG_CLONE_BACKWARDS`) behind.
pub const fn clone_args(isa: Isa, args: [u64; 6]) -> CloneArgs {
    let [flags, stack, parent_tid, fourth, fifth, _] = args;
    let (child_tid, tls) = match isa {
        Isa::X86_64 => (fourth, fifth),
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => (fifth, fourth),
    };
    let exit_signal = (flags & CSIGNAL) as u32;
    // Of the two, `clone` has one.
    CloneArgs { flags: flags & !CSIGNAL, exit_signal, stack, parent_tid, child_tid, tls, pidfd: parent_tid }
}

wire_struct! {
    /// `struct clone_args` of `clone3`, version 2.
    Clone3: 88 {
        /// `CLONE_*`.
        0 flags: u64,
        /// Where the pidfd goes.
        8 pidfd: u64,
        /// Where the child's copy of the id goes.
        16 child_tid: u64,
        /// Where the parent's copy of the id goes.
        24 parent_tid: u64,
        /// Signal to the parent at exit.
        32 exit_signal: u64,
        /// Lowest byte of the child's stack.
        40 stack: u64,
        /// Its bytes.
        48 stack_size: u64,
        /// Thread pointer of the child.
        56 tls: u64,
        /// Ids to take.
        64 set_tid: u64,
        /// How many.
        72 set_tid_size: u64,
        /// Control group.
        80 cgroup: u64,
    }
}

/// Smallest size `clone3` may pass.
pub const CLONE_ARGS_SIZE_VER0: usize = 64;

impl Clone3 {
    /// The same request as `clone` makes it.
    pub fn args(&self) -> CloneArgs {
        CloneArgs {
            flags: self.flags,
            exit_signal: self.exit_signal as u32,
            stack: if self.stack == 0 { 0 } else { self.stack.wrapping_add(self.stack_size) },
            parent_tid: self.parent_tid,
            child_tid: self.child_tid,
            tls: self.tls,
            pidfd: self.pidfd,
        }
    }
}

/// How a process ended or stopped: what `wait4` stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitStatus {
    /// `exit` with this code (8 bits).
    Exited(u8),
    /// Killed by a signal; whether a core was dumped.
    Signaled(u8, bool),
    /// Stopped by a signal.
    Stopped(u8),
    /// Continued.
    Continued,
}

impl WaitStatus {
    /// As `wait4` stores it.
    pub const fn encode(self) -> u32 {
        match self {
            Self::Exited(code) => (code as u32) << 8,
            Self::Signaled(signal, core) => signal as u32 & 0x7f | (core as u32) << 7,
            Self::Stopped(signal) => (signal as u32) << 8 | 0x7f,
            Self::Continued => 0xffff,
        }
    }

    /// The status of an encoded value.
    pub const fn decode(raw: u32) -> Self {
        match raw & 0x7f {
            _ if raw == 0xffff => Self::Continued,
            0 => Self::Exited((raw >> 8) as u8),
            0x7f => Self::Stopped((raw >> 8) as u8),
            signal => Self::Signaled(signal as u8, raw & 0x80 != 0),
        }
    }

    /// `si_code` of SIGCHLD and `waitid` (`CLD_*`).
    pub const fn cld_code(self) -> i32 {
        match self {
            Self::Exited(_) => 1,
            Self::Signaled(_, false) => 2,
            Self::Signaled(_, true) => 3,
            Self::Stopped(_) => 5,
            Self::Continued => 6,
        }
    }

    /// `si_status` of SIGCHLD and `waitid`.
    pub const fn si_status(self) -> i32 {
        match self {
            Self::Exited(code) => code as i32,
            Self::Signaled(signal, _) | Self::Stopped(signal) => signal as i32,
            Self::Continued => crate::signal::SIGCONT as i32,
        }
    }

    /// The exit code a shell would give (`128 + signal` for a killed process).
    pub const fn shell_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal, _) | Self::Stopped(signal) => 128 + signal,
            Self::Continued => 0,
        }
    }
}

/// `wait4`: does not wait.
pub const WNOHANG: u32 = 1;
/// `wait4`: stopped children, too.
pub const WUNTRACED: u32 = 2;
/// `waitid`: stopped children.
pub const WSTOPPED: u32 = 2;
/// `waitid`: dead children.
pub const WEXITED: u32 = 4;
/// Continued children, too.
pub const WCONTINUED: u32 = 8;
/// `waitid`: leaves the child as it is.
pub const WNOWAIT: u32 = 0x100_0000;
/// Children of this thread only, not of the others of its process.
pub const __WNOTHREAD: u32 = 0x2000_0000;
/// Any kind of child.
pub const __WALL: u32 = 0x4000_0000;
/// Children whose end is not told by SIGCHLD.
pub const __WCLONE: u32 = 0x8000_0000;
/// `waitid`: any child.
pub const P_ALL: u32 = 0;
/// `waitid`: a process.
pub const P_PID: u32 = 1;
/// `waitid`: a process group.
pub const P_PGID: u32 = 2;
/// `pidfd_send_signal`: to the thread.
pub const PIDFD_SIGNAL_THREAD: u32 = 1;
/// `pidfd_send_signal`: to the process, which is the default.
pub const PIDFD_SIGNAL_THREAD_GROUP: u32 = 2;
/// `pidfd_send_signal`: to the process's group, which it leads.
pub const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 4;
/// `waitid`: what a pidfd stands for.
pub const P_PIDFD: u32 = 3;

/// `mmap`: readable.
pub const PROT_READ: u32 = 1;
/// `mmap`: writable.
pub const PROT_WRITE: u32 = 2;
/// `mmap`: executable.
pub const PROT_EXEC: u32 = 4;
/// `mprotect`: down to the start of a growing mapping.
pub const PROT_GROWSDOWN: u32 = 0x100_0000;
/// `mmap`: stores are seen by all.
pub const MAP_SHARED: u32 = 1;
/// `mmap`: stores are seen by the process only.
pub const MAP_PRIVATE: u32 = 2;
/// `mmap`: shared, unknown flags refused.
pub const MAP_SHARED_VALIDATE: u32 = 3;
/// `mmap`: the sharing within the flags.
pub const MAP_TYPE: u32 = 15;
/// `mmap`: exactly there.
pub const MAP_FIXED: u32 = 0x10;
/// `mmap`: no file.
pub const MAP_ANONYMOUS: u32 = 0x20;
/// `mmap`: below 2 GiB (x86-64 only).
pub const MAP_32BIT: u32 = 0x40;
/// `mmap`: grows downwards.
pub const MAP_GROWSDOWN: u32 = 0x100;
/// `mmap`: ignored.
pub const MAP_DENYWRITE: u32 = 0x800;
/// `mmap`: locked in memory.
pub const MAP_LOCKED: u32 = 0x2000;
/// `mmap`: reserves no swap.
pub const MAP_NORESERVE: u32 = 0x4000;
/// `mmap`: filled at once.
pub const MAP_POPULATE: u32 = 0x8000;
/// `mmap`: a hint.
pub const MAP_STACK: u32 = 0x2_0000;
/// `mmap`: huge pages.
pub const MAP_HUGETLB: u32 = 0x4_0000;
/// `mmap`: exactly there, unless something is.
pub const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;
/// `mremap`: may move.
pub const MREMAP_MAYMOVE: u32 = 1;
/// `mremap`: exactly there.
pub const MREMAP_FIXED: u32 = 2;
/// `mremap`: leaves the old mapping, empty.
pub const MREMAP_DONTUNMAP: u32 = 4;
/// `madvise`: content is not needed.
pub const MADV_DONTNEED: u32 = 4;
/// `madvise`: content may be dropped.
pub const MADV_FREE: u32 = 8;

/// `futex`: the operation within the argument.
pub const FUTEX_CMD_MASK: u32 = 0x7f;
/// `futex`: not shared between processes.
pub const FUTEX_PRIVATE_FLAG: u32 = 128;
/// `futex`: the time is wall-clock time.
pub const FUTEX_CLOCK_REALTIME: u32 = 256;
/// `futex`: sleeps while the word has a value.
pub const FUTEX_WAIT: u32 = 0;
/// `futex`: wakes.
pub const FUTEX_WAKE: u32 = 1;
/// `futex`: wakes some, moves the others.
pub const FUTEX_REQUEUE: u32 = 3;
/// `futex`: the same, if the word has a value.
pub const FUTEX_CMP_REQUEUE: u32 = 4;
/// `futex`: stores, wakes, and wakes others by the old value.
pub const FUTEX_WAKE_OP: u32 = 5;
/// `futex`: locks with priority inheritance.
pub const FUTEX_LOCK_PI: u32 = 6;
/// `futex`: unlocks.
pub const FUTEX_UNLOCK_PI: u32 = 7;
/// `futex`: tries to lock.
pub const FUTEX_TRYLOCK_PI: u32 = 8;
/// `futex`: waits until a moment, for some bits.
pub const FUTEX_WAIT_BITSET: u32 = 9;
/// `futex`: wakes those with some bits.
pub const FUTEX_WAKE_BITSET: u32 = 10;
/// `futex`: all bits.
pub const FUTEX_BITSET_MATCH_ANY: u32 = u32::MAX;
/// Robust lists: somebody waits.
pub const FUTEX_WAITERS: u32 = 0x8000_0000;
/// Robust lists: the holder died.
pub const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
/// Robust lists: the holder.
pub const FUTEX_TID_MASK: u32 = 0x3fff_ffff;

wire_struct! {
    /// `struct robust_list_head`.
    RobustListHead: 24 {
        /// First entry.
        0 list: u64,
        /// From an entry to its futex word.
        8 futex_offset: i64,
        /// The entry being locked or unlocked.
        16 list_op_pending: u64,
    }
}

/// `sched_*`: the ordinary policy.
pub const SCHED_OTHER: u32 = 0;
/// `sched_*`: first in, first out.
pub const SCHED_FIFO: u32 = 1;
/// `sched_*`: round robin.
pub const SCHED_RR: u32 = 2;
/// `sched_*`: for work that nobody waits for.
pub const SCHED_BATCH: u32 = 3;
/// `sched_*`: when nothing else runs.
pub const SCHED_IDLE: u32 = 5;
/// `sched_*`: by deadlines.
pub const SCHED_DEADLINE: u32 = 6;
/// With a policy: children begin as ordinary threads.
pub const SCHED_RESET_ON_FORK: u32 = 0x4000_0000;
/// `sched_setattr`: the same.
pub const SCHED_FLAG_RESET_ON_FORK: u64 = 0x1;
/// `sched_setattr`: the policy stays.
pub const SCHED_FLAG_KEEP_POLICY: u64 = 0x8;
/// `sched_setattr`: priority and nice value stay.
pub const SCHED_FLAG_KEEP_PARAMS: u64 = 0x10;

/// `arch_prctl` (x86-64): sets the GS base.
pub const ARCH_SET_GS: u64 = 0x1001;
/// `arch_prctl` (x86-64): sets the FS base.
pub const ARCH_SET_FS: u64 = 0x1002;
/// `arch_prctl` (x86-64): the FS base.
pub const ARCH_GET_FS: u64 = 0x1003;
/// `arch_prctl` (x86-64): the GS base.
pub const ARCH_GET_GS: u64 = 0x1004;
/// `prctl`: signal at the parent's death.
pub const PR_SET_PDEATHSIG: u32 = 1;
/// `prctl`: that signal.
pub const PR_GET_PDEATHSIG: u32 = 2;
/// `prctl`: whether cores are dumped.
pub const PR_GET_DUMPABLE: u32 = 3;
/// `prctl`: sets it.
pub const PR_SET_DUMPABLE: u32 = 4;
/// `prctl`: names the thread.
pub const PR_SET_NAME: u32 = 15;
/// `prctl`: its name.
pub const PR_GET_NAME: u32 = 16;
/// `prctl`: becomes the parent of orphans.
pub const PR_SET_CHILD_SUBREAPER: u32 = 36;
/// `prctl`: gives up gaining privileges.
pub const PR_SET_NO_NEW_PRIVS: u32 = 38;
/// `prctl`: whether it did.
pub const PR_GET_NO_NEW_PRIVS: u32 = 39;
/// `prctl`: names an anonymous mapping.
pub const PR_SET_VMA: u32 = 0x5356_4d41;
/// `getrandom`: does not wait.
pub const GRND_NONBLOCK: u32 = 1;
/// `getrandom`: the random pool.
pub const GRND_RANDOM: u32 = 2;
/// `memfd_create`: closed by `execve`.
pub const MFD_CLOEXEC: u32 = 1;
/// `memfd_create`: seals may be added.
pub const MFD_ALLOW_SEALING: u32 = 2;
/// `memfd_create`: not executable, and sealed so.
pub const MFD_NOEXEC_SEAL: u32 = 8;
/// `memfd_create`: executable.
pub const MFD_EXEC: u32 = 16;
/// `membarrier`: what is supported.
pub const MEMBARRIER_CMD_QUERY: u32 = 0;
/// `membarrier`: all threads of all processes.
pub const MEMBARRIER_CMD_GLOBAL: u32 = 1;
/// `membarrier`: all threads of the process.
pub const MEMBARRIER_CMD_PRIVATE_EXPEDITED: u32 = 8;
/// `membarrier`: says it will.
pub const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: u32 = 16;
