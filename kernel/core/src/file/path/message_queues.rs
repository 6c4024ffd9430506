//! Names of queues of messages (mq_overview(7)): files in `/dev/mqueue` of the machine, wherever a process has its root.

use motet_abi::{
    Errno,
    file::{O_ACCMODE, O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_WRONLY, R_OK, S_IFREG, W_OK, X_OK, open_flags},
    ipc::MqAttr,
    time::RLIMIT_MSGQUEUE,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{InodeRecord, NAME_MAX, sync::Ordering};
use motet_protocol::{
    Context,
    fs::{self, Held},
    ipc::posix::{self, BYTES_MAX, COUNT_MAX, Room},
};

use super::ramfs::attributes_of_new;
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    file::{descriptor::table, kinds::message_queue},
    ipc::maker,
    permission::{self, Capability, FileRights},
    tree::limit_of,
};

/// What `stat` says that such a file has: as much as is read from it.
const SIZE: u64 = 80;

/// `mq_open(name, flags, mode, attributes)`; C libraries leave out the name's slash.
///
/// # Errors
/// `EINVAL`: the queue is to have no room, or more than the caller may have; `EACCES`: the caller may not use it so, or the name has a slash; `ENOENT`, `EEXIST`, `ENAMETOOLONG`,
/// `EFAULT`; `EMFILE`: the user would have more bytes in queues than `RLIMIT_MSGQUEUE`, or too many descriptors; `ENOSPC`: too many queues; `ENFILE`, `ENOMEM`; `ENOSYS`: the root has no
/// `/dev/mqueue`.
pub fn mq_open<M: Machine>(call: &Call<M>) -> SysResult {
    let [name_at, flags, mode, attributes_at, ..] = call.args;
    let flags = open_flags(call.isa, flags as u32);
    let mut wanted = None;
    if attributes_at != 0 {
        let mut bytes = [0; MqAttr::SIZE];
        call.read_user(attributes_at, &mut bytes)?;
        wanted = Some(MqAttr::take(&bytes));
    }
    let mut room = [0; NAME_MAX + 1];
    let name = read_name(call, name_at, &mut room)?;
    let dir = directory(call.cpu)?;
    let inode = match fs::lookup(call.cpu, dir.inode(), name) {
        Ok(_) if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => return Err(Errno::EEXIST.into()),
        Ok(found) => found,
        Err(Errno::ENOENT) if flags & O_CREAT != 0 => {
            match create(call, dir.inode(), name, mode as u32, wanted.as_ref()) {
                // Someone else has just made it.
                Err(Errno::EEXIST) if flags & O_EXCL == 0 => fs::lookup(call.cpu, dir.inode(), name)?,
                made => return Ok(install(call, made?, flags)?),
            }
        }
        Err(errno) => return Err(errno.into()),
    };
    let mask = match flags & O_ACCMODE {
        O_ACCMODE => return Err(Errno::EINVAL.into()),
        O_RDONLY => R_OK,
        O_WRONLY => W_OK,
        _ => R_OK | W_OK,
    };
    FileRights::of(call.process).check(inode.inode(), mask)?;
    Ok(install(call, inode, flags)?)
}

/// `mq_unlink(name)`. Who has the queue open goes on to use it.
///
/// # Errors
/// `ENOENT`, `EACCES`, `ENAMETOOLONG`, `EFAULT`; `EPERM`: it is another user's.
pub fn mq_unlink<M: Machine>(call: &Call<M>) -> SysResult {
    let mut room = [0; NAME_MAX + 1];
    let name = read_name(call, call.args[0], &mut room)?;
    let dir = directory(call.cpu)?;
    let rights = FileRights::of(call.process);
    rights.check(dir.inode(), W_OK | X_OK)?;
    fs::unlink(call.cpu, dir.inode(), name, call.cpu.realtime_ns(), |inode| rights.may_remove(dir.inode(), inode))?;
    Ok(0)
}

/// Reads a name.
fn read_name<'a, M: Machine>(call: &Call<M>, at: u64, room: &'a mut [u8]) -> Result<&'a [u8], Stop> {
    let len = call.read_string(at, room)?;
    let name = &room[..len];
    match name {
        [] => Err(Errno::ENOENT.into()),
        b"." | b".." => Err(Errno::EACCES.into()),
        _ if name.contains(&b'/') => Err(Errno::EACCES.into()),
        _ => Ok(name),
    }
}

/// The directory of all queues.
fn directory<M: Machine>(cpu: &Cpu<M>) -> Result<Held<'_, Cpu<M>>, Errno> {
    let root = cpu.object::<InodeRecord>(cpu.pool.header().root_inode.get()).ok_or(Errno::ENOSYS)?;
    let found = fs::lookup(cpu, root, b"dev").and_then(|dev| fs::lookup(cpu, dev.inode(), b"mqueue"));
    found.ok().filter(|dir| fs::is_directory(dir.inode())).ok_or(Errno::ENOSYS)
}

/// Makes a queue of that name.
fn create<'c, M: Machine>(
    call: &Call<'c, M>,
    dir: &'static InodeRecord,
    name: &[u8],
    mode: u32,
    wanted: Option<&MqAttr>,
) -> Result<Held<'c, Cpu<M>>, Errno> {
    FileRights::of(call.process).check(dir, W_OK | X_OK)?;
    let is_privileged = permission::has(call.process, Capability::Limits);
    let room = wanted.map_or(Ok(Room::DEFAULT), |wanted| {
        let positive = |value: i64, most: u64| u64::try_from(value).ok().filter(|value| (1..=most).contains(value));
        let count = positive(wanted.mq_maxmsg, COUNT_MAX[usize::from(is_privileged)]);
        let bytes = positive(wanted.mq_msgsize, BYTES_MAX);
        count.zip(bytes).map(|(count, bytes)| Room { count, bytes }).ok_or(Errno::EINVAL)
    })?;
    let attributes = attributes_of_new(call, dir, S_IFREG | mode & 0o7777);
    let limit = limit_of(call.process, RLIMIT_MSGQUEUE);
    fs::create_prepared(call.cpu, dir, name, attributes, |inode| {
        inode.size.store(SIZE, Ordering::Relaxed);
        posix::make(call.cpu, inode, room, &maker(call), limit)
    })
}

/// A descriptor of a queue, which `execve` closes.
fn install<M: Machine>(call: &Call<M>, inode: Held<'_, Cpu<M>>, flags: u32) -> Result<u64, Errno> {
    let record = message_queue::open(call, inode, flags & (O_ACCMODE | O_NONBLOCK))?;
    table::install(call, record, true, 0)
}
