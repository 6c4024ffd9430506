//! Files: modes, open flags, `stat`, `statx`, `statfs`, directory entries, locks.

use motet_layout::Isa;

use crate::wire::{Wire, wire_struct};

/// Opens for reading only.
pub const O_RDONLY: u32 = 0;
/// Opens for writing only.
pub const O_WRONLY: u32 = 1;
/// Opens for both.
pub const O_RDWR: u32 = 2;
/// The access mode within the flags.
pub const O_ACCMODE: u32 = 3;
/// Creates the file when it does not exist.
pub const O_CREAT: u32 = 0o100;
/// With `O_CREAT`: fails when it exists.
pub const O_EXCL: u32 = 0o200;
/// A terminal does not become the controlling one.
pub const O_NOCTTY: u32 = 0o400;
/// Cuts the file to no bytes.
pub const O_TRUNC: u32 = 0o1000;
/// Every write goes to the end.
pub const O_APPEND: u32 = 0o2000;
/// Never blocks.
pub const O_NONBLOCK: u32 = 0o4000;
/// Writes reach the medium with the metadata needed to read them.
pub const O_DSYNC: u32 = 0o10000;
/// SIGIO when input arrives.
pub const O_ASYNC: u32 = 0o20000;
/// No page cache (neutral value; see [`open_flags`]).
pub const O_DIRECT: u32 = 0o40000;
/// Large files; every open has it on 64-bit ISAs (neutral value).
pub const O_LARGEFILE: u32 = 0o100000;
/// Fails when it is no directory (neutral value).
pub const O_DIRECTORY: u32 = 0o200000;
/// Fails when the last component is a symbolic link (neutral value).
pub const O_NOFOLLOW: u32 = 0o400000;
/// Leaves the access time.
pub const O_NOATIME: u32 = 0o1000000;
/// Closed by `execve`.
pub const O_CLOEXEC: u32 = 0o2000000;
/// Writes reach the medium.
pub const O_SYNC: u32 = 0o4010000;
/// Names a file without opening it.
pub const O_PATH: u32 = 0o10000000;
/// An unnamed file in a directory (includes [`O_DIRECTORY`]).
pub const O_TMPFILE: u32 = 0o20000000 | O_DIRECTORY;

/// AArch64 has these four at other places (`arch/arm64/include/uapi/asm/fcntl.h`): (neutral, AArch64).
const AARCH64_OPEN: [(u32, u32); 4] =
    [(O_DIRECTORY, 0o40000), (O_NOFOLLOW, 0o100000), (O_DIRECT, 0o200000), (O_LARGEFILE, 0o400000)];
const MOVED: u32 = O_DIRECTORY | O_NOFOLLOW | O_DIRECT | O_LARGEFILE;

/// The neutral open flags (the `O_*` of this module) for those an ISA's program passes.
pub fn open_flags(isa: Isa, raw: u32) -> u32 {
    remap(isa, raw, |(neutral, theirs)| (theirs, neutral))
}

/// The open flags an ISA's program expects (`F_GETFL`) for neutral ones.
pub fn open_flags_for(isa: Isa, flags: u32) -> u32 {
    remap(isa, flags, |pair| pair)
}

fn remap(isa: Isa, flags: u32, direction: impl Fn((u32, u32)) -> (u32, u32)) -> u32 {
    match isa {
        Isa::X86_64 | Isa::RiscV64 | Isa::Hosted => flags,
        Isa::AArch64 => AARCH64_OPEN
            .into_iter()
            .map(direction)
            .fold(flags & !MOVED, |result, (from, to)| if flags & from != 0 { result | to } else { result }),
    }
}

/// Type bits of a mode.
pub const S_IFMT: u32 = 0o170000;
/// Socket.
pub const S_IFSOCK: u32 = 0o140000;
/// Symbolic link.
pub const S_IFLNK: u32 = 0o120000;
/// Regular file.
pub const S_IFREG: u32 = 0o100000;
/// Block device.
pub const S_IFBLK: u32 = 0o060000;
/// Directory.
pub const S_IFDIR: u32 = 0o040000;
/// Character device.
pub const S_IFCHR: u32 = 0o020000;
/// Pipe.
pub const S_IFIFO: u32 = 0o010000;
/// Runs as its owner.
pub const S_ISUID: u32 = 0o4000;
/// Runs as its group.
pub const S_ISGID: u32 = 0o2000;
/// Only owners delete from the directory.
pub const S_ISVTX: u32 = 0o1000;

/// Relative to the current directory.
pub const AT_FDCWD: i32 = -100;
/// Acts on a symbolic link itself.
pub const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
/// `unlinkat`: as `rmdir`.
pub const AT_REMOVEDIR: u32 = 0x200;
/// `faccessat2`: by effective ids.
pub const AT_EACCESS: u32 = 0x200;
/// `linkat`: follows a symbolic link.
pub const AT_SYMLINK_FOLLOW: u32 = 0x400;
/// Does not mount automatically.
pub const AT_NO_AUTOMOUNT: u32 = 0x800;
/// An empty path names the descriptor itself.
pub const AT_EMPTY_PATH: u32 = 0x1000;
/// `renameat2`: fails when the target exists.
pub const RENAME_NOREPLACE: u32 = 1;
/// `renameat2`: swaps the two.
pub const RENAME_EXCHANGE: u32 = 2;

/// `access`: exists.
pub const F_OK: u32 = 0;
/// `access`: executable.
pub const X_OK: u32 = 1;
/// `access`: writable.
pub const W_OK: u32 = 2;
/// `access`: readable.
pub const R_OK: u32 = 4;

/// `lseek`: from the start.
pub const SEEK_SET: u32 = 0;
/// `lseek`: from the current position.
pub const SEEK_CUR: u32 = 1;
/// `lseek`: from the end.
pub const SEEK_END: u32 = 2;
/// `lseek`: to the next data.
pub const SEEK_DATA: u32 = 3;
/// `lseek`: to the next hole.
pub const SEEK_HOLE: u32 = 4;

/// `fcntl`: duplicates the descriptor.
pub const F_DUPFD: u32 = 0;
/// `fcntl`: descriptor flags.
pub const F_GETFD: u32 = 1;
/// `fcntl`: sets descriptor flags.
pub const F_SETFD: u32 = 2;
/// `fcntl`: file status flags.
pub const F_GETFL: u32 = 3;
/// `fcntl`: sets file status flags.
pub const F_SETFL: u32 = 4;
/// `fcntl`: tests a lock.
pub const F_GETLK: u32 = 5;
/// `fcntl`: sets a lock.
pub const F_SETLK: u32 = 6;
/// `fcntl`: sets a lock, waits.
pub const F_SETLKW: u32 = 7;
/// `fcntl`: tests a lock of the open file description.
pub const F_OFD_GETLK: u32 = 36;
/// `fcntl`: sets a lock of the open file description.
pub const F_OFD_SETLK: u32 = 37;
/// `fcntl`: sets a lock of the open file description, waits.
pub const F_OFD_SETLKW: u32 = 38;
/// [`Flock::l_type`]: others may read.
pub const F_RDLCK: i16 = 0;
/// [`Flock::l_type`]: for the owner alone.
pub const F_WRLCK: i16 = 1;
/// [`Flock::l_type`]: none.
pub const F_UNLCK: i16 = 2;

/// `fcntl`: sets the receiver of SIGIO, a process or, negative, a group.
pub const F_SETOWN: u32 = 8;
/// `fcntl`: the receiver of SIGIO.
pub const F_GETOWN: u32 = 9;
/// `fcntl`: sets another signal than SIGIO.
pub const F_SETSIG: u32 = 10;
/// `fcntl`: that signal.
pub const F_GETSIG: u32 = 11;
/// `fcntl`: sets the receiver, a [`FileOwner`].
pub const F_SETOWN_EX: u32 = 15;
/// `fcntl`: the receiver as a [`FileOwner`].
pub const F_GETOWN_EX: u32 = 16;
/// [`FileOwner::kind`]: a thread.
pub const F_OWNER_TID: u32 = 0;
/// [`FileOwner::kind`]: a process.
pub const F_OWNER_PID: u32 = 1;
/// [`FileOwner::kind`]: a process group.
pub const F_OWNER_PGRP: u32 = 2;
/// `fcntl`: duplicates the descriptor, closed by `execve`.
pub const F_DUPFD_CLOEXEC: u32 = 1030;
/// `fcntl`: sets a pipe's capacity.
pub const F_SETPIPE_SZ: u32 = 1031;
/// `fcntl`: a pipe's capacity.
pub const F_GETPIPE_SZ: u32 = 1032;
/// `fcntl`: adds seals.
pub const F_ADD_SEALS: u32 = 1033;
/// `fcntl`: the seals.
pub const F_GET_SEALS: u32 = 1034;
/// `statx`: how fresh what it says must be.
pub const AT_STATX_SYNC_TYPE: u32 = 0x6000;
/// `statx`: never to be asked for.
pub const STATX_RESERVED: u32 = 0x8000_0000;
/// Seal: no further seals.
pub const F_SEAL_SEAL: u32 = 1;
/// Seal: not shorter.
pub const F_SEAL_SHRINK: u32 = 2;
/// Seal: not longer.
pub const F_SEAL_GROW: u32 = 4;
/// Seal: not written.
pub const F_SEAL_WRITE: u32 = 8;
/// Seal: not written but by mappings that were there before.
pub const F_SEAL_FUTURE_WRITE: u32 = 16;
/// Seal: executable or not, for ever.
pub const F_SEAL_EXEC: u32 = 32;
/// Descriptor flag: closed by `execve`.
pub const FD_CLOEXEC: u32 = 1;
/// `close_range`: sets close-on-exec instead.
pub const CLOSE_RANGE_CLOEXEC: u32 = 4;
/// `close_range`: from a descriptor table of the caller's own.
pub const CLOSE_RANGE_UNSHARE: u32 = 2;
/// `flock`: shared.
pub const LOCK_SH: u32 = 1;
/// `flock`: exclusive.
pub const LOCK_EX: u32 = 2;
/// `flock`: does not wait.
pub const LOCK_NB: u32 = 4;
/// `flock`: unlocks.
pub const LOCK_UN: u32 = 8;
/// Longest path, its NUL included.
pub const PATH_MAX: usize = 4096;
/// Longest file name.
pub const NAME_MAX: usize = 255;
/// Most entries of a `readv` / `writev` vector.
pub const IOV_MAX: usize = 1024;

/// A device number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Kind of device (12 bits).
    pub major: u32,
    /// Which one (20 bits).
    pub minor: u32,
}

impl Device {
    /// As in `st_dev`, `st_rdev` and `mknod` (`new_encode_dev`).
    pub const fn encode(self) -> u32 {
        self.minor & 0xff | (self.major & 0xfff) << 8 | (self.minor & !0xff) << 12
    }

    /// The device of an encoded number.
    pub const fn decode(raw: u32) -> Self {
        Self { major: raw >> 8 & 0xfff, minor: raw & 0xff | raw >> 12 & 0xf_ff00 }
    }
}

/// What `stat` says about a file, independently of any ISA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// File system.
    pub device: Device,
    /// Number within it.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// For devices: which.
    pub special: Device,
    /// Bytes.
    pub size: u64,
    /// Bytes that transfers best come in.
    pub block_size: u32,
    /// 512-byte units on the medium.
    pub blocks: u64,
    /// Last read.
    pub accessed: Timespec,
    /// Last written.
    pub modified: Timespec,
    /// Last changed, metadata included.
    pub changed: Timespec,
    /// Made (`statx` only).
    pub created: Timespec,
}

pub use crate::time::Timespec;

wire_struct! {
    /// `struct stat` of x86-64 (`arch/x86/include/uapi/asm/stat.h`).
    StatX86_64: 144 {
        /// File system.
        0 st_dev: u64,
        /// Number.
        8 st_ino: u64,
        /// Names.
        16 st_nlink: u64,
        /// Mode.
        24 st_mode: u32,
        /// Owner.
        28 st_uid: u32,
        /// Group.
        32 st_gid: u32,
        /// Which device.
        40 st_rdev: u64,
        /// Bytes.
        48 st_size: i64,
        /// Transfer unit.
        56 st_blksize: i64,
        /// 512-byte units.
        64 st_blocks: i64,
        /// Last read.
        72 st_atime: Timespec,
        /// Last written.
        88 st_mtime: Timespec,
        /// Last changed.
        104 st_ctime: Timespec,
    }
}

wire_struct! {
    /// `struct stat` of AArch64 and RISC-V (`asm-generic/stat.h`).
    StatGeneric: 128 {
        /// File system.
        0 st_dev: u64,
        /// Number.
        8 st_ino: u64,
        /// Mode.
        16 st_mode: u32,
        /// Names.
        20 st_nlink: u32,
        /// Owner.
        24 st_uid: u32,
        /// Group.
        28 st_gid: u32,
        /// Which device.
        32 st_rdev: u64,
        /// Bytes.
        48 st_size: i64,
        /// Transfer unit.
        56 st_blksize: i32,
        /// 512-byte units.
        64 st_blocks: i64,
        /// Last read.
        72 st_atime: Timespec,
        /// Last written.
        88 st_mtime: Timespec,
        /// Last changed.
        104 st_ctime: Timespec,
    }
}

wire_struct! {
    /// `struct statx_timestamp`.
    StatxTimestamp: 16 {
        /// Seconds.
        0 tv_sec: i64,
        /// Nanoseconds.
        8 tv_nsec: u32,
    }
}

wire_struct! {
    /// `struct statx` (`linux/stat.h`), the same on all ISAs.
    Statx: 256 {
        /// Fields that are valid.
        0 stx_mask: u32,
        /// Transfer unit.
        4 stx_blksize: u32,
        /// Attribute flags.
        8 stx_attributes: u64,
        /// Names.
        16 stx_nlink: u32,
        /// Owner.
        20 stx_uid: u32,
        /// Group.
        24 stx_gid: u32,
        /// Mode.
        28 stx_mode: u16,
        /// Number.
        32 stx_ino: u64,
        /// Bytes.
        40 stx_size: u64,
        /// 512-byte units.
        48 stx_blocks: u64,
        /// Attribute flags that the file system knows.
        56 stx_attributes_mask: u64,
        /// Last read.
        64 stx_atime: StatxTimestamp,
        /// Made.
        80 stx_btime: StatxTimestamp,
        /// Last changed.
        96 stx_ctime: StatxTimestamp,
        /// Last written.
        112 stx_mtime: StatxTimestamp,
        /// Which device, major.
        128 stx_rdev_major: u32,
        /// Which device, minor.
        132 stx_rdev_minor: u32,
        /// File system, major.
        136 stx_dev_major: u32,
        /// File system, minor.
        140 stx_dev_minor: u32,
        /// Mount.
        144 stx_mnt_id: u64,
    }
}

/// `stx_mask`: everything `stat` has.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// `stx_mask`: the time of creation.
pub const STATX_BTIME: u32 = 0x800;

/// Bytes of `struct stat` on an ISA.
pub const fn stat_size(isa: Isa) -> usize {
    match isa {
        Isa::X86_64 => StatX86_64::SIZE,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => StatGeneric::SIZE,
    }
}

impl Stat {
    /// As `struct stat` of an ISA: the buffer and how much of it is used.
    pub fn encode(&self, isa: Isa) -> ([u8; 144], usize) {
        let mut out = [0; 144];
        match isa {
            Isa::X86_64 => self.x86_64().put(&mut out),
            Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => self.generic().put(&mut out),
        }
        (out, stat_size(isa))
    }

    fn x86_64(&self) -> StatX86_64 {
        StatX86_64 {
            st_dev: self.device.encode().into(),
            st_ino: self.inode,
            st_nlink: self.links.into(),
            st_mode: self.mode,
            st_uid: self.uid,
            st_gid: self.gid,
            st_rdev: self.special.encode().into(),
            st_size: self.size as i64,
            st_blksize: self.block_size.into(),
            st_blocks: self.blocks as i64,
            st_atime: self.accessed,
            st_mtime: self.modified,
            st_ctime: self.changed,
        }
    }

    fn generic(&self) -> StatGeneric {
        StatGeneric {
            st_dev: self.device.encode().into(),
            st_ino: self.inode,
            st_mode: self.mode,
            st_nlink: self.links,
            st_uid: self.uid,
            st_gid: self.gid,
            st_rdev: self.special.encode().into(),
            st_size: self.size as i64,
            st_blksize: self.block_size as i32,
            st_blocks: self.blocks as i64,
            st_atime: self.accessed,
            st_mtime: self.modified,
            st_ctime: self.changed,
        }
    }

    /// As `struct statx`.
    pub fn statx(&self) -> Statx {
        let timestamp = |t: Timespec| StatxTimestamp { tv_sec: t.tv_sec, tv_nsec: t.tv_nsec as u32 };
        Statx {
            stx_mask: STATX_BASIC_STATS | STATX_BTIME,
            stx_blksize: self.block_size,
            stx_nlink: self.links,
            stx_uid: self.uid,
            stx_gid: self.gid,
            stx_mode: self.mode as u16,
            stx_ino: self.inode,
            stx_size: self.size,
            stx_blocks: self.blocks,
            stx_atime: timestamp(self.accessed),
            stx_btime: timestamp(self.created),
            stx_ctime: timestamp(self.changed),
            stx_mtime: timestamp(self.modified),
            stx_rdev_major: self.special.major,
            stx_rdev_minor: self.special.minor,
            stx_dev_major: self.device.major,
            stx_dev_minor: self.device.minor,
            ..Statx::default()
        }
    }
}

wire_struct! {
    /// `struct statfs` (`asm-generic/statfs.h`), the same on our ISAs.
    Statfs: 120 {
        /// Magic number of the file system.
        0 f_type: i64,
        /// Bytes in a block.
        8 f_bsize: i64,
        /// Blocks.
        16 f_blocks: u64,
        /// Free blocks.
        24 f_bfree: u64,
        /// Free blocks for users.
        32 f_bavail: u64,
        /// Inodes.
        40 f_files: u64,
        /// Free inodes.
        48 f_ffree: u64,
        /// Identity.
        56 f_fsid: [i32; 2],
        /// Longest name.
        64 f_namelen: i64,
        /// Fragment size.
        72 f_frsize: i64,
        /// Mount flags.
        80 f_flags: i64,
    }
}

/// [`Statfs::f_type`] of tmpfs.
pub const TMPFS_MAGIC: i64 = 0x0102_1994;
/// [`Statfs::f_type`] of procfs.
pub const PROC_SUPER_MAGIC: i64 = 0x9fa0;
/// [`Statfs::f_type`] of sysfs.
pub const SYSFS_MAGIC: i64 = 0x6265_6572;
/// [`Statfs::f_type`] of pipes.
pub const PIPEFS_MAGIC: i64 = 0x5049_5045;
/// [`Statfs::f_type`] of descriptors of processes.
pub const PID_FS_MAGIC: i64 = 0x5049_4446;
/// `openat2`: stays in the file system where it begins.
pub const RESOLVE_NO_XDEV: u32 = 1;
/// `openat2`: follows no link of procfs that leads somewhere without a path.
pub const RESOLVE_NO_MAGICLINKS: u32 = 2;
/// `openat2`: follows no symbolic link.
pub const RESOLVE_NO_SYMLINKS: u32 = 4;
/// `openat2`: leads nowhere but below where it begins.
pub const RESOLVE_BENEATH: u32 = 8;
/// `openat2`: takes where it begins for the root.
pub const RESOLVE_IN_ROOT: u32 = 0x10;
/// `openat2`: does not wait.
pub const RESOLVE_CACHED: u32 = 0x20;
/// Magic number of the file system of sockets.
pub const SOCKFS_MAGIC: i64 = 0x534f_434b;
/// Magic number of the file system of what has neither a name nor a type.
pub const ANON_INODE_FS_MAGIC: i64 = 0x0904_1934;

wire_struct! {
    /// `struct flock` for `fcntl`.
    Flock: 32 {
        /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
        0 l_type: i16,
        /// `SEEK_*`.
        2 l_whence: i16,
        /// First byte.
        8 l_start: i64,
        /// Bytes; 0: to the end; negative: before `l_start`.
        16 l_len: i64,
        /// Holder.
        24 l_pid: i32,
    }
}

wire_struct! {
    /// `struct iovec`.
    Iovec: 16 {
        /// Address.
        0 iov_base: u64,
        /// Bytes.
        8 iov_len: u64,
    }
}

/// Bytes before the name in a directory entry.
const DIRENT_HEADER: usize = 19;
/// Bytes of the longest [`dirent64`] record.
pub const DIRENT_MAX: usize = (DIRENT_HEADER + NAME_MAX + 1 + 7) & !7;

/// `d_type` of a mode.
pub const fn dirent_type(mode: u32) -> u8 {
    (mode >> 12 & 15) as u8
}

/// Writes a `struct linux_dirent64` and returns its length (a multiple of 8), or `None` when `out` is too short.
/// `next` is what `lseek` would take to go on behind this entry. Names longer than [`NAME_MAX`] are cut.
pub fn dirent64(out: &mut [u8], inode: u64, next: i64, mode: u32, name: &[u8]) -> Option<usize> {
    let name = &name[..name.len().min(NAME_MAX)];
    let len = (DIRENT_HEADER + name.len() + 1 + 7) & !7;
    let out = out.get_mut(..len)?;
    out.fill(0);
    inode.put(&mut out[0..]);
    next.put(&mut out[8..]);
    (len as u16).put(&mut out[16..]);
    out[18] = dirent_type(mode);
    out[DIRENT_HEADER..DIRENT_HEADER + name.len()].copy_from_slice(name);
    Some(len)
}
