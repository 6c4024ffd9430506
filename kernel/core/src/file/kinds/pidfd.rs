//! Descriptors of processes (`pidfd_open`).
//!
//! The open file says which process it is of by id and time of creation: a later process with the same id is another one. So nothing need be done about it when
//! the process ends, but for waking those that wait: all are in one queue of the machine, which the end of each process wakes. There are few of them.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_NONBLOCK, O_RDWR, PID_FS_MAGIC},
    terminal::POLLHUP,
};
use motet_hal::Machine;
use motet_layout::{
    FILE_PIDFD, FileRecord, FilesRecord, PROCESS_ALIVE, PROCESS_ZOMBIE, ProcessRecord, ThreadRecord, sync::Ordering,
};
use motet_protocol::{Context, hand, threads};

use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    description::{
        self, Parts,
        kind::{Facts, INPUT, Kind, Queues},
    },
    file::descriptor::table,
    permission,
    tree::{self, lock_tree},
};

/// `pidfd_open(pid, flags)`.
///
/// # Errors
/// `EINVAL`; `ESRCH`; `ENOENT`: the id is that of a thread which is not its process's first one; `ENFILE`, `EMFILE`.
pub fn pidfd_open<M: Machine>(call: &Call<M>) -> SysResult {
    let (pid, flags) = (call.args[0] as i32, call.args[1] as u32);
    if flags & !O_NONBLOCK != 0 || pid <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let started_ns = {
        let _tree = lock_tree(call.cpu);
        let process = tree::with_thread(call.cpu, pid as u32).ok_or(Errno::ESRCH)?;
        (process.pid.get() == pid as u32).then(|| process.started_ns.get()).ok_or(Errno::ENOENT)?
    };
    Ok(open(call, pid as u32, started_ns, flags)?)
}

/// `pidfd_getfd(pidfd, fd, flags)`: a descriptor of the open file that a descriptor of the process is of.
///
/// # Errors
/// `EINVAL`, `EBADF`; `ESRCH`: the process has ended; `EPERM`: the caller may not control it; `EMFILE`.
pub fn pidfd_getfd<M: Machine>(call: &Call<M>) -> SysResult {
    let [pidfd, fd, flags, ..] = call.args;
    if flags as u32 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (pidfd, _) = of_descriptor(call, pidfd as i32)?;
    let files = {
        let _tree = lock_tree(call.cpu);
        let process = pidfd.process(call.cpu).ok_or(Errno::ESRCH)?;
        if process.state.load(Ordering::Acquire) != PROCESS_ALIVE {
            return Err(Errno::ESRCH.into());
        }
        permission::may_control(call.process, process)?;
        // A process that ends gives its table up under the tree lock.
        let files = call.cpu.object::<FilesRecord>(process.files.load(Ordering::Relaxed)).ok_or(Errno::ESRCH)?;
        hand::take(call.cpu, files);
        files
    };
    let file = table::get_from(call.cpu, files, fd as i32).map(|file| file.release());
    table::release(call.cpu, files);
    Ok(table::install(call, file?, true, 0)?)
}

/// A descriptor of the process with that id that was created then, which is closed by `execve`.
///
/// # Errors
/// `ENFILE`, `EMFILE`.
pub fn open<M: Machine>(call: &Call<M>, pid: u32, started_ns: u64, flags: u32) -> Result<u64, Errno> {
    let parts = Parts { kind: FILE_PIDFD, flags: O_RDWR | O_CLOEXEC | flags, inode: None, object: pid.into() };
    let record = description::create_prepared(call.cpu, &parts, |record| {
        record.of_kind[0].set(started_ns);
        description::remember_maker(call.cpu, record);
    })?;
    table::install(call, record, true, 0)
}

/// The process that a descriptor is of, and whether calls do not wait.
///
/// # Errors
/// `EBADF`, also of a descriptor of something else.
pub fn of_descriptor<M: Machine>(call: &Call<M>, fd: i32) -> Result<(Pidfd, bool), Errno> {
    let file = table::get(call, fd)?;
    let pidfd = file.as_kind::<Pidfd>().ok_or(Errno::EBADF)?;
    Ok((pidfd, file.nonblocking()))
}

/// A descriptor of a process.
#[derive(Clone, Copy)]
pub struct Pidfd {
    /// The process's id.
    pub pid: u32,
    /// When it was created.
    pub started_ns: u64,
}

impl Pidfd {
    /// The process, alive or not, unless it was reaped. The tree lock is held.
    pub fn process<M: Machine>(self, cpu: &Cpu<M>) -> Option<&'static ProcessRecord> {
        tree::lookup(cpu, self.pid).filter(|process| process.started_ns.get() == self.started_ns)
    }

    /// The process's state, without the tree lock, which comes before those of interest lists; `None`: it was reaped. A process that lives is in the table
    /// of threads all the time.
    fn state<M: Machine>(self, cpu: &Cpu<M>) -> Option<u32> {
        let first: &ThreadRecord = threads::lookup(cpu, self.pid)?;
        let process = cpu.object::<ProcessRecord>(first.process.load(Ordering::Relaxed))?;
        // One that is being made has its descriptor before it is in the tree, and its id there.
        let is_same = [0, self.pid].contains(&process.pid.get()) && process.started_ns.get() == self.started_ns;
        is_same.then(|| process.state.load(Ordering::Acquire))
    }
}

impl Kind for Pidfd {
    const CODES: &'static [u32] = &[FILE_PIDFD];
    const FACTS: Facts = Facts { mode: 0o700, file_system: PID_FS_MAGIC, ..Facts::ANONYMOUS };

    fn of<M: Machine>(_cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        Some(Self { pid: file.object.get() as u32, started_ns: file.of_kind[0].get() })
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "anon_inode:[pidfd]")
    }

    fn write_info<M: Machine>(self, cpu: &Cpu<M>, into: &mut impl Write) -> fmt::Result {
        let pid = if self.state(cpu).is_some() { i64::from(self.pid) } else { -1 };
        write!(into, "Pid:\t{pid}\nNSpid:\t{pid}\n")
    }

    /// Readable once the process has ended, and hung up once it was reaped.
    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        match self.state(call.cpu) {
            Some(PROCESS_ZOMBIE) => INPUT,
            Some(_) => 0,
            None => INPUT | POLLHUP,
        }
    }

    fn queues<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        [(Some(&cpu.pool.header().process_waiters), u16::MAX), (None, 0)]
    }
}
