//! Files as programs see them: descriptors, paths, transfers, and the lists of all kinds of files ([`kind`]) and of all file systems ([`node`]).
//!
//! The ramfs itself is `motet_protocol::fs`. Locks, outermost first: process tree → open file (its position) →
//! address space → directory or inode → pipe, terminal, stream → wait queue. Nothing here touches user memory while it
//! holds the lock of an inode, pipe or terminal.

mod descriptor;
mod fcntl;
pub mod hands;
mod kind;
mod kinds;
mod path;
mod proc;
mod readiness;
pub mod socket;
mod transfer;

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{CONSOLE_TERMINAL, FILES_CLOEXEC, InodeRecord, ProcessRecord, ThreadRecord};
use motet_protocol::{
    Context,
    fs::{self, Held},
    hand::{self, Holder},
};

use crate::{
    call::{Call, SysResult},
    console::{streams, tty},
    cpu::Cpu,
    tree, vm,
};
use descriptor::description;
use kinds::{device, ends, pipe::Pipe};
use path::node::{self, Node};
use transfer::rw;

pub use descriptor::{
    close::{close, close_range},
    lock::flock,
    owner,
    table::{self, unshare as unshare_descriptors},
};
pub use fcntl::{dup, dup2, dup3, fcntl, ioctl, lseek};
pub use kinds::{
    ends::{pipe, pipe2},
    event::{eventfd, eventfd2},
    inotify::{inotify_init, inotify_init1},
    message_queue::{mq_getsetattr, mq_notify, mq_timedreceive, mq_timedsend},
    pidfd::{self, pidfd_getfd, pidfd_open},
    signal_fd::{signalfd, signalfd4},
    timer::{timerfd_create, timerfd_gettime, timerfd_settime},
};
pub use path::{
    attributes::{
        chmod, chown, fallocate, fchmod, fchmodat, fchmodat2, fchown, fchownat, ftruncate, futimesat, lchown, truncate,
        umask, utime, utimensat, utimes,
    },
    dir::{chdir, chroot, fchdir, getcwd, getdents64},
    lookup::Path,
    message_queues::{mq_open, mq_unlink},
    names::{
        link, linkat, mkdir, mkdirat, mknod, mknodat, readlink, readlinkat, rename, renameat, renameat2, rmdir,
        symlink, symlinkat, unlink, unlinkat,
    },
    open::{creat, inode_for_mmap, memfd_create, open, open_executable, openat, openat2},
    stat::{access, faccessat, faccessat2, fstat, fstatfs, lstat, newfstatat, stat, statfs, statx},
    watches::{inotify_add_watch, inotify_rm_watch},
};
pub use readiness::{
    epoll::{self, epoll_create, epoll_create1, epoll_ctl, epoll_pwait, epoll_pwait2, epoll_wait},
    poll::{poll, ppoll, pselect6, select, wait_interrupted},
};
pub use socket::{
    accept, accept4, bind, connect, getpeername, getsockname, getsockopt, listen, messages_done, recvfrom, recvmmsg,
    recvmsg, sendmmsg, sendmsg, sendto, setsockopt, shutdown, socket, socketpair,
};
pub use transfer::{
    rw::{pread64, preadv, preadv2, pwrite64, pwritev, pwritev2, read, readv, write, writev},
    splice::{copy_file_range, sendfile, splice, tee},
};

/// Undoes what the call in progress has begun, because it ends early: by a signal, or because the thread ends.
pub fn call_ended<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    ends::open_interrupted(cpu, thread);
    rw::transfer_ended(cpu, thread);
    guest_left(cpu, thread);
}

/// Drops the machine's file, at the end of the call in which the thread was a core of a virtual machine.
pub fn guest_left<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if let Some(file) = vm::let_go(cpu, thread) {
        description::put(cpu, file);
    }
}

/// What `sync_file_range` may be told.
const SYNC_FILE_RANGE_FLAGS: u32 = 7;
/// The last advice of `posix_fadvise`.
const POSIX_FADV_NOREUSE: u32 = 5;

/// Gives the first process its descriptors 0, 1 and 2, its directories, and the terminal if there is one.
///
/// # Errors
/// `ENOMEM`.
pub fn open_first<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Result<(), Errno> {
    let files = table::create(cpu)?;
    let place = Holder::word(cpu, &process.files);
    hand::give(cpu, files, place, || process.files.store(cpu.raw(files), Ordering::Release));
    node::store(cpu, &process.cwd, Some(Node::file_system_root(cpu)));
    node::store(cpu, &process.root, Some(Node::file_system_root(cpu)));
    let terminal = cpu.pool.header().interactive.get() == CONSOLE_TERMINAL;
    if terminal {
        tty::start(cpu, process);
    }
    for (fd, host) in [device::HOST_IN, device::HOST_OUT, device::HOST_ERR].into_iter().enumerate() {
        let device = if terminal { device::CONSOLE } else { host };
        let record = device::describe(cpu, device, device_inode(cpu, device).map(Held::release), O_RDWR)?;
        let slot = &files.inline[fd];
        hand::give(cpu, record, Holder::word(cpu, slot), || slot.store(cpu.raw(record), Ordering::Release));
        table::came_into_use(files, fd as u32);
        files.high.set(fd as u32 + 1);
        files.low_free.set(fd as u32 + 1);
    }
    Ok(())
}

/// Gives a process no descriptors, and the root as its directory: a part of another kernel's, which makes its calls about files there.
///
/// # Errors
/// `ENOMEM`.
pub fn open_none<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Result<(), Errno> {
    let files = table::create(cpu)?;
    hand::give(cpu, files, Holder::word(cpu, &process.files), || {
        process.files.store(cpu.raw(files), Ordering::Release)
    });
    node::store(cpu, &process.cwd, Some(Node::file_system_root(cpu)));
    node::store(cpu, &process.root, Some(Node::file_system_root(cpu)));
    Ok(())
}

/// The path of the calling process's program.
///
/// # Errors
/// `ENAMETOOLONG`; `ENOENT`: it was removed.
pub fn executable_path<'a, M: Machine>(call: &Call<M>, into: &'a mut [u8; PATH_MAX]) -> Result<&'a [u8], Errno> {
    path::absolute::path_of(call, &node::of_process(call, |process| &process.exe), into)
}

/// The inode in `/dev` of a device that the first process has open, if the host made one.
fn device_inode<M: Machine>(cpu: &Cpu<M>, device: Device) -> Option<Held<'_, Cpu<M>>> {
    let path: &[&[u8]] = match device {
        device::CONSOLE => &[b"dev", b"console"],
        device::HOST_IN => &[b"dev", b"host", b"stdin"],
        device::HOST_OUT => &[b"dev", b"host", b"stdout"],
        device::HOST_ERR => &[b"dev", b"host", b"stderr"],
        _ => return None,
    };
    let root = cpu.object::<InodeRecord>(cpu.pool.header().root_inode.get())?;
    let mut at = Held::new(cpu, root);
    for name in path {
        at = fs::lookup(cpu, at.inode(), name).ok()?;
    }
    Some(at)
}

/// Gives a child its parent's descriptors (the same table when `share`), directories and program.
///
/// # Errors
/// `ENOMEM`: the child has got nothing.
pub fn files_for_child<M: Machine>(
    cpu: &Cpu<M>,
    parent: &'static ProcessRecord,
    child: &'static ProcessRecord,
    share: bool,
) -> Result<(), Errno> {
    let files = table::of(cpu, parent);
    let files = if share {
        hand::take(cpu, files);
        files
    } else {
        table::fork(cpu, files).ok_or(Errno::ENOMEM)?
    };
    let place = Holder::word(cpu, &child.files);
    hand::give(cpu, files, place, || child.files.store(cpu.raw(files), Ordering::Release));
    let several = parent.thread_count.load(Ordering::Relaxed) > 1;
    let _tree = several.then(|| tree::lock_tree(cpu));
    for (from, to) in [(&parent.cwd, &child.cwd), (&parent.root, &child.root), (&parent.exe, &child.exe)] {
        if from[0].get() != 0 || from[1].get() != 0 {
            node::inherit(&node::load(cpu, from), to, cpu);
        }
    }
    Ok(())
}

/// Closes the descriptors of a process that ends, and drops its directories and program. `false`: `is_due` says that other
/// work is due, and some are left.
pub fn release_files<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, is_due: impl Fn() -> bool) -> bool {
    if let Some(files) = cpu.object(process.files.load(Ordering::Relaxed))
        && !table::close_all(cpu, files, is_due)
    {
        return false;
    }
    if let Some(files) = cpu.object(process.files.load(Ordering::Relaxed)) {
        {
            // procfs looks at other processes' tables under this lock.
            let _tree = tree::lock_tree(cpu);
            hand::fetch(cpu, files, Holder::word(cpu, &process.files), || process.files.store(0, Ordering::Release));
        }
        table::release(cpu, files);
    }
    for cells in [&process.cwd, &process.root, &process.exe] {
        node::store(cpu, cells, None);
    }
    true
}

/// Closes the descriptors that are marked close-on-exec.
pub fn close_on_exec<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    table::close_all_matching(cpu, table::of(cpu, process), |word| word & FILES_CLOEXEC != 0);
}

/// Gives a process a descriptor table of its own, if it shares it with another process.
///
/// # Errors
/// `ENOMEM`.
pub fn unshare_files<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Result<(), Errno> {
    if hand::count(table::of(cpu, process)) > 1 { table::fork_own(cpu, process) } else { Ok(()) }
}

/// Remembers the program of a process (`/proc/<pid>/exe`).
pub fn set_executable<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, inode: &'static InodeRecord) {
    node::store(cpu, &process.exe, Some(Node::of_inode(cpu, inode)));
}

/// Serves a ring of the host: there is input, or room for output. Called on the core that the host rings.
#[inline(always)]
pub fn host_rang<M: Machine>(cpu: &Cpu<M>) {
    tty::input_arrived(cpu);
    if cpu.pool.header().vms_asked.load(Ordering::Relaxed) != 0 {
        vm::host_rang(cpu);
    }
    streams::host_rang(cpu);
}

/// `sync()`, and others that have nothing to do: the pool is the medium.
pub fn sync<M: Machine>(_call: &Call<M>) -> SysResult {
    Ok(0)
}

/// `fsync(fd)`: of a file or directory, which need nothing more.
pub fn fsync<M: Machine>(call: &Call<M>) -> SysResult {
    table::get_opened(call, call.args[0] as i32)?.of_ramfs().ok_or(Errno::EINVAL)?;
    Ok(0)
}

/// `fdatasync(fd)`.
pub fn fdatasync<M: Machine>(call: &Call<M>) -> SysResult {
    fsync(call)
}

/// `syncfs(fd)`.
pub fn syncfs<M: Machine>(call: &Call<M>) -> SysResult {
    table::get_opened(call, call.args[0] as i32)?;
    Ok(0)
}

/// `sync_file_range(fd, offset, length, flags)`: there is nothing to write.
pub fn sync_file_range<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, offset, len, flags, ..] = call.args;
    let file = table::get_opened(call, fd as i32)?;
    let is_range = offset.checked_add(len).is_some_and(|end| end <= i64::MAX as u64) && offset <= i64::MAX as u64;
    if flags as u32 & !SYNC_FILE_RANGE_FLAGS != 0 || !is_range {
        return Err(Errno::EINVAL.into());
    }
    file.of_ramfs().ok_or(Errno::ESPIPE)?;
    Ok(0)
}

/// `fadvise64(fd, offset, length, advice)`: everything is in memory, whatever the advice.
pub fn fadvise64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, _, len, advice, ..] = call.args;
    let file = table::get_opened(call, fd as i32)?;
    if file.as_kind::<Pipe>().is_some() {
        return Err(Errno::ESPIPE.into());
    }
    if len > i64::MAX as u64 || advice as u32 > POSIX_FADV_NOREUSE { Err(Errno::EINVAL.into()) } else { Ok(0) }
}

/// `readahead(fd, offset, count)`: everything is in memory.
pub fn readahead<M: Machine>(call: &Call<M>) -> SysResult {
    let file = table::get_opened(call, call.args[0] as i32)?;
    file.check_readable()?;
    file.regular().ok_or(Errno::EINVAL)?;
    Ok(0)
}

/// `mount(...)`: the file system's shape is fixed.
pub fn mount<M: Machine>(_call: &Call<M>) -> SysResult {
    Err(Errno::EPERM.into())
}

/// `umount2(...)`.
pub fn umount2<M: Machine>(_call: &Call<M>) -> SysResult {
    Err(Errno::EPERM.into())
}
