//! System V IPC: segments of shared memory, semaphores, messages (`linux/ipc.h`, `shm.h`, `sem.h`, `msg.h`, and `asm/*buf.h`).

use motet_layout::Isa;

use crate::wire::{Wire, wire_struct};

/// `key`: a new object, which has no key.
pub const IPC_PRIVATE: u32 = 0;
/// `*get`: makes what there is not.
pub const IPC_CREAT: u32 = 0o1000;
/// `*get`: fails if there is one.
pub const IPC_EXCL: u32 = 0o2000;
/// Does not wait.
pub const IPC_NOWAIT: u32 = 0o4000;
/// `*ctl`: removes it.
pub const IPC_RMID: u32 = 0;
/// `*ctl`: changes owner, mode, and a queue's size.
pub const IPC_SET: u32 = 1;
/// `*ctl`: tells all about it.
pub const IPC_STAT: u32 = 2;
/// `*ctl`: tells limits.
pub const IPC_INFO: u32 = 3;
/// Read permission of the owner, his group, and others.
pub const S_IRUGO: u32 = 0o444;
/// Write permission.
pub const S_IWUGO: u32 = 0o222;
/// Permission to execute.
pub const S_IXUGO: u32 = 0o111;
/// All permissions.
pub const S_IRWXUGO: u32 = 0o777;

/// `shmget`: of huge pages.
pub const SHM_HUGETLB: u32 = 0o4000;
/// `shmget`: nobody promises that there is memory for all of it.
pub const SHM_NORESERVE: u32 = 0o10000;
/// `shmat`: for reading only.
pub const SHM_RDONLY: u32 = 0o10000;
/// `shmat`: at the next lower page.
pub const SHM_RND: u32 = 0o20000;
/// `shmat`: in place of what is there.
pub const SHM_REMAP: u32 = 0o40000;
/// `shmat`: can be executed.
pub const SHM_EXEC: u32 = 0o100000;
/// `shmctl`: its pages stay in memory.
pub const SHM_LOCK: u32 = 11;
/// `shmctl`: they need not.
pub const SHM_UNLOCK: u32 = 12;
/// `shmctl`: as `IPC_STAT`, by place.
pub const SHM_STAT: u32 = 13;
/// `shmctl`: tells what there is.
pub const SHM_INFO: u32 = 14;
/// `shmctl`: as `SHM_STAT`, whatever the permissions.
pub const SHM_STAT_ANY: u32 = 15;

/// An operation that is undone when the process ends.
pub const SEM_UNDO: u32 = 0x1000;
/// `semctl`: who has changed it last.
pub const GETPID: u32 = 11;
/// `semctl`: its value.
pub const GETVAL: u32 = 12;
/// `semctl`: all values.
pub const GETALL: u32 = 13;
/// `semctl`: how many wait for it to be greater.
pub const GETNCNT: u32 = 14;
/// `semctl`: how many wait for it to be 0.
pub const GETZCNT: u32 = 15;
/// `semctl`: sets it.
pub const SETVAL: u32 = 16;
/// `semctl`: sets all.
pub const SETALL: u32 = 17;
/// `semctl`: as `IPC_STAT`, by place.
pub const SEM_STAT: u32 = 18;
/// `semctl`: tells what there is.
pub const SEM_INFO: u32 = 19;
/// `semctl`: as `SEM_STAT`, whatever the permissions.
pub const SEM_STAT_ANY: u32 = 20;

/// `msgctl`: as `IPC_STAT`, by place.
pub const MSG_STAT: u32 = 11;
/// `msgctl`: tells what there is.
pub const MSG_INFO: u32 = 12;
/// `msgctl`: as `MSG_STAT`, whatever the permissions.
pub const MSG_STAT_ANY: u32 = 13;
/// `msgrcv`: a message that is too long is cut.
pub const MSG_NOERROR: u32 = 0o10000;
/// `msgrcv`: of any other type.
pub const MSG_EXCEPT: u32 = 0o20000;
/// `msgrcv`: leaves it in the queue.
pub const MSG_COPY: u32 = 0o40000;

wire_struct! {
    /// `struct ipc64_perm`.
    IpcPerm: 48 {
        /// The key.
        0 key: u32,
        /// Owner.
        4 uid: u32,
        /// The owner's group.
        8 gid: u32,
        /// Maker.
        12 cuid: u32,
        /// The maker's group.
        16 cgid: u32,
        /// Permissions.
        20 mode: u32,
        /// The sequence number in its id.
        24 seq: u16,
    }
}

wire_struct! {
    /// `struct mq_attr`: a POSIX message queue (`linux/mqueue.h`).
    MqAttr: 64 {
        /// `O_NONBLOCK`, or 0.
        0 mq_flags: i64,
        /// Messages that it has room for.
        8 mq_maxmsg: i64,
        /// Bytes of a message at most.
        16 mq_msgsize: i64,
        /// Messages in it.
        24 mq_curmsgs: i64,
    }
}

wire_struct! {
    /// `struct shmid64_ds`.
    ShmidDs: 112 {
        /// Whose it is.
        0 shm_perm: IpcPerm,
        /// Bytes.
        48 shm_segsz: u64,
        /// Seconds since 1970 when it was attached last.
        56 shm_atime: u64,
        /// Detached.
        64 shm_dtime: u64,
        /// Changed.
        72 shm_ctime: u64,
        /// Who has made it.
        80 shm_cpid: u32,
        /// Who has attached or detached it last.
        84 shm_lpid: u32,
        /// How often it is attached.
        88 shm_nattch: u64,
    }
}

wire_struct! {
    /// `struct shminfo64`.
    ShmInfo64: 72 {
        /// Bytes of a segment.
        0 shmmax: u64,
        /// At least.
        8 shmmin: u64,
        /// Segments.
        16 shmmni: u64,
        /// Segments of a process.
        24 shmseg: u64,
        /// Pages of all.
        32 shmall: u64,
    }
}

wire_struct! {
    /// `struct shm_info`.
    ShmInfo: 48 {
        /// Segments.
        0 used_ids: u32,
        /// Pages.
        8 shm_tot: u64,
        /// Of these, in memory.
        16 shm_rss: u64,
        /// In swap.
        24 shm_swp: u64,
    }
}

/// `struct semid64_ds`, of all instruction sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SemidDs {
    /// Whose it is.
    pub perm: IpcPerm,
    /// Seconds since 1970 when it was operated on last.
    pub otime: u64,
    /// Changed.
    pub ctime: u64,
    /// Semaphores.
    pub nsems: u64,
}

wire_struct! {
    /// `struct semid64_ds` of x86-64, whose times have room for two words.
    SemidX86_64: 104 {
        /// Whose it is.
        0 sem_perm: IpcPerm,
        /// Seconds since 1970 when it was operated on last.
        48 sem_otime: u64,
        /// Changed.
        64 sem_ctime: u64,
        /// Semaphores.
        80 sem_nsems: u64,
    }
}

wire_struct! {
    /// `struct semid64_ds` of the others (`asm-generic/sembuf.h`).
    SemidGeneric: 88 {
        /// Whose it is.
        0 sem_perm: IpcPerm,
        /// Seconds since 1970 when it was operated on last.
        48 sem_otime: u64,
        /// Changed.
        56 sem_ctime: u64,
        /// Semaphores.
        64 sem_nsems: u64,
    }
}

impl SemidDs {
    /// Its bytes on an instruction set, and how many they are.
    pub fn encode(&self, isa: Isa) -> ([u8; SemidX86_64::SIZE], usize) {
        let mut out = [0; SemidX86_64::SIZE];
        let Self { perm: sem_perm, otime: sem_otime, ctime: sem_ctime, nsems: sem_nsems } = *self;
        match isa {
            Isa::X86_64 => {
                SemidX86_64 { sem_perm, sem_otime, sem_ctime, sem_nsems }.put(&mut out);
                (out, SemidX86_64::SIZE)
            }
            Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => {
                SemidGeneric { sem_perm, sem_otime, sem_ctime, sem_nsems }.put(&mut out);
                (out, SemidGeneric::SIZE)
            }
        }
    }
}

wire_struct! {
    /// `struct sembuf`.
    Sembuf: 6 {
        /// Which semaphore.
        0 sem_num: u16,
        /// What is added; 0: it is to be 0.
        2 sem_op: i16,
        /// `IPC_NOWAIT`, `SEM_UNDO`.
        4 sem_flg: u16,
    }
}

wire_struct! {
    /// `struct seminfo`.
    Seminfo: 40 {
        /// As `semmns`.
        0 semmap: u32,
        /// Sets.
        4 semmni: u32,
        /// Semaphores.
        8 semmns: u32,
        /// As `semmns`.
        12 semmnu: u32,
        /// Semaphores of a set.
        16 semmsl: u32,
        /// Operations at once.
        20 semopm: u32,
        /// As `semopm`.
        24 semume: u32,
        /// Bytes of a record of undoing, or how many sets there are.
        28 semusz: u32,
        /// The highest value.
        32 semvmx: u32,
        /// The greatest adjustment, or how many semaphores there are.
        36 semaem: u32,
    }
}

wire_struct! {
    /// `struct msqid64_ds`.
    MsqidDs: 120 {
        /// Whose it is.
        0 msg_perm: IpcPerm,
        /// Seconds since 1970 when it was sent to last.
        48 msg_stime: u64,
        /// Received from.
        56 msg_rtime: u64,
        /// Changed.
        64 msg_ctime: u64,
        /// Bytes in it.
        72 msg_cbytes: u64,
        /// Messages in it.
        80 msg_qnum: u64,
        /// Bytes that it may have.
        88 msg_qbytes: u64,
        /// Who has sent last.
        96 msg_lspid: u32,
        /// Who has received last.
        100 msg_lrpid: u32,
    }
}

wire_struct! {
    /// `struct msginfo`.
    Msginfo: 32 {
        /// KiB of all messages, or how many queues there are.
        0 msgpool: u32,
        /// As `msgmnb`, or how many messages there are.
        4 msgmap: u32,
        /// Bytes of a message.
        8 msgmax: u32,
        /// Bytes of a queue.
        12 msgmnb: u32,
        /// Queues.
        16 msgmni: u32,
        /// Bytes of a segment of a message.
        20 msgssz: u32,
        /// As `msgmnb`, or how many bytes there are.
        24 msgtql: u32,
        /// As many as there can be.
        28 msgseg: u16,
    }
}
