//! Descriptors and open files: `lseek`, `dup`, `fcntl`, `ioctl`.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*, terminal::*};
use motet_hal::Machine;
use motet_layout::{InodeRecord, PAGE_SHIFT, PAGE_SIZE, PIPE_CAPACITY};
use motet_protocol::{fs, hand, lock::lock, pipe};

use super::{
    description::{Anonymous, Kind, OpenFile},
    device,
    open::STATUS_FLAGS,
    range_lock, seals, socket, table,
};
use crate::{
    call::{Call, SysResult, cost},
    console::tty,
    due,
    kinds::{accel, service},
    permission::FileRights,
    vm,
};

/// `lseek(fd, offset, whence)`.
pub fn lseek<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, offset, whence, ..] = call.args;
    let file = table::get_opened(call, fd as i32)?;
    let offset = offset as i64;
    let inode = match file.kind() {
        Kind::Pipe(_) | Kind::Anonymous(_) => return Err(Errno::ESPIPE.into()),
        Kind::Device(device) if matches!(device.major, 5 | 240) => return Err(Errno::ESPIPE.into()),
        // As on Linux, they have one position.
        Kind::Device(device::NULL | device::ZERO) => return Ok(0),
        Kind::Inode(inode) => Some(inode),
        Kind::Device(_) | Kind::Proc(_) => None,
    };
    let shared = hand::count(file.record()) > 1;
    let _guard = shared.then(|| lock(call.cpu, &file.record().lock));
    let size = inode.map_or(0, |inode| inode.size.load(Ordering::Relaxed));
    let target = match whence as u32 {
        SEEK_SET => Some(offset),
        SEEK_CUR => (file.offset.load(Ordering::Relaxed) as i64).checked_add(offset),
        SEEK_END => (size as i64).checked_add(offset),
        SEEK_DATA | SEEK_HOLE => {
            let inode = inode.ok_or(Errno::EINVAL)?;
            Some(next_region(call, inode, offset, size, whence as u32 == SEEK_HOLE)?)
        }
        _ => None,
    };
    let target = target.filter(|&target| target >= 0).ok_or(Errno::EINVAL)?;
    file.offset.store(target as u64, Ordering::Relaxed);
    Ok(target as u64)
}

/// The first offset from `offset` on that lies in a hole (or not in one). The end of the file is a hole.
fn next_region<M: Machine>(
    call: &Call<M>,
    inode: &'static InodeRecord,
    offset: i64,
    size: u64,
    hole: bool,
) -> Result<i64, Errno> {
    if fs::is_directory(inode) {
        return Err(Errno::EINVAL);
    }
    let mut at = u64::try_from(offset).ok().filter(|&at| at < size).ok_or(Errno::ENXIO)?;
    while at < size {
        let absent = fs::absent_pages(call.cpu, inode, at >> PAGE_SHIFT);
        if (absent == 0) != hole {
            return Ok(at as i64);
        }
        at = (at & !(PAGE_SIZE - 1)).saturating_add(absent.max(1).saturating_mul(PAGE_SIZE));
        due::spend_locked(call.cpu, cost::OBJECT);
    }
    if hole { Ok(size as i64) } else { Err(Errno::ENXIO) }
}

/// `dup(fd)`.
pub fn dup<M: Machine>(call: &Call<M>) -> SysResult {
    duplicate(call, 0, false)
}

/// `dup2(from, to)`.
pub fn dup2<M: Machine>(call: &Call<M>) -> SysResult {
    let [from, to, ..] = call.args;
    if from as i32 == to as i32 {
        table::get(call, from as i32)?;
        return Ok(u64::from(to as u32));
    }
    duplicate_to(call, false)
}

/// `dup3(from, to, flags)`.
pub fn dup3<M: Machine>(call: &Call<M>) -> SysResult {
    let [from, to, flags, ..] = call.args;
    if flags as u32 & !O_CLOEXEC != 0 || from as i32 == to as i32 {
        return Err(Errno::EINVAL.into());
    }
    duplicate_to(call, flags as u32 & O_CLOEXEC != 0)
}

fn duplicate<M: Machine>(call: &Call<M>, least: u32, close_on_exec: bool) -> SysResult {
    let record = table::get(call, call.args[0] as i32)?.release();
    Ok(table::install(call, record, close_on_exec, least)?)
}

fn duplicate_to<M: Machine>(call: &Call<M>, close_on_exec: bool) -> SysResult {
    let record = table::get(call, call.args[0] as i32)?.release();
    let to = call.args[1] as u32;
    table::replace(call, record, close_on_exec, to)?;
    Ok(u64::from(to))
}

/// `fcntl(fd, command, argument)`.
pub fn fcntl<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, command, argument, ..] = call.args;
    let fd = fd as i32;
    let file = table::get(call, fd)?;
    let of_the_descriptor = matches!(command as u32, F_DUPFD | F_DUPFD_CLOEXEC | F_GETFD | F_SETFD | F_GETFL);
    if file.flags() & O_PATH != 0 && !of_the_descriptor {
        return Err(Errno::EBADF.into());
    }
    match command as u32 {
        F_DUPFD => return duplicate(call, u32::try_from(argument as i32).map_err(|_| Errno::EINVAL)?, false),
        F_DUPFD_CLOEXEC => return duplicate(call, u32::try_from(argument as i32).map_err(|_| Errno::EINVAL)?, true),
        F_GETFD => return Ok(u64::from(table::closes_on_exec(call, fd)?)),
        F_SETFD => table::set_close_on_exec(call, fd, argument as u32 & FD_CLOEXEC != 0)?,
        F_GETFL => return Ok(u64::from(open_flags_for(call.isa, file.flags() | O_LARGEFILE))),
        F_SETFL => {
            let flags = open_flags(call.isa, argument as u32);
            let hides_reads = flags & !file.flags() & O_NOATIME != 0;
            if hides_reads && file.inode().is_some_and(|inode| !FileRights::of(call.process).owns(inode)) {
                return Err(Errno::EPERM.into());
            }
            set_status(&file, flags)?;
        }
        command @ (F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW) => {
            return range_lock::fcntl(call, fd, &file, command, argument);
        }
        // Nobody is told by a signal.
        F_GETOWN => {}
        F_GETPIPE_SZ | F_SETPIPE_SZ => {
            let Kind::Pipe(_) = file.kind() else { return Err(Errno::EBADF.into()) };
            if command as u32 == F_SETPIPE_SZ && argument > PIPE_CAPACITY as u64 {
                return Err(Errno::EPERM.into());
            }
            return Ok(PIPE_CAPACITY as u64);
        }
        F_ADD_SEALS => seals::add(call, &file, argument as u32)?,
        F_GET_SEALS => return Ok(u64::from(seals::of(&file)?)),
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0)
}

/// `O_ASYNC`, which files in memory ignore on Linux, too, is refused where it would mean signals, and `O_DIRECT` where it would
/// mean packets.
fn set_status<M: Machine>(file: &OpenFile<M>, flags: u32) -> Result<(), Errno> {
    match file.kind() {
        Kind::Pipe(_) if flags & (O_ASYNC | O_DIRECT) != 0 => return Err(Errno::EINVAL),
        Kind::Anonymous(Anonymous::Socket(_)) if flags & O_ASYNC != 0 => return Err(Errno::EINVAL),
        Kind::Inode(_) | Kind::Pipe(_) | Kind::Device(_) | Kind::Proc(_) | Kind::Anonymous(_) => {}
    }
    let kept = file.flags() & !STATUS_FLAGS;
    file.record().flags.store(kept | flags & STATUS_FLAGS, Ordering::Relaxed);
    Ok(())
}

/// `ioctl(fd, request, argument)`.
pub fn ioctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, request, argument, ..] = call.args;
    let fd = fd as i32;
    let file = table::get_opened(call, fd)?;
    match request as u32 {
        FIOCLEX => table::set_close_on_exec(call, fd, true)?,
        FIONCLEX => table::set_close_on_exec(call, fd, false)?,
        FIONBIO => {
            let flags = file.flags();
            let set = if call.read_user_u32(argument)? != 0 { flags | O_NONBLOCK } else { flags & !O_NONBLOCK };
            file.record().flags.store(set, Ordering::Relaxed);
        }
        request => {
            if let Kind::Device(device::TTY | device::CONSOLE) = file.kind() {
                return tty::ioctl::serve(call, request, argument);
            }
            if let Kind::Anonymous(Anonymous::Service(registers)) = file.kind() {
                return service::ioctl(call, registers, request, argument);
            }
            if let Kind::Anonymous(Anonymous::Accel(pages)) = file.kind() {
                return accel::ioctl(call, pages, request, argument);
            }
            if let Kind::Anonymous(Anonymous::Vm(machine)) = file.kind() {
                return vm::ioctl(call, machine, (request, argument), |fd, range| {
                    seals::memory_of_guest(call, fd, range)
                });
            }
            if request != FIONREAD {
                return Err(Errno::ENOTTY.into());
            }
            call.write_user(argument, &(bytes_ready(call, &file)? as u32).to_le_bytes())?;
        }
    }
    Ok(0)
}

/// Bytes that a read would return.
fn bytes_ready<M: Machine>(call: &Call<M>, file: &OpenFile<M>) -> Result<u64, Errno> {
    match file.kind() {
        Kind::Pipe(ends) => Ok(pipe::used(ends) as u64),
        Kind::Device(device::NULL | device::ZERO) => Err(Errno::ENOTTY),
        Kind::Device(device) => Ok(device::bytes_ready(call.cpu, device) as u64),
        Kind::Inode(inode) if !fs::is_directory(inode) => {
            Ok(inode.size.load(Ordering::Relaxed).saturating_sub(file.offset.load(Ordering::Relaxed)))
        }
        Kind::Anonymous(Anonymous::Socket(socket)) => Ok(socket::bytes_ready(call.cpu, socket)),
        Kind::Inode(_) | Kind::Proc(_) | Kind::Anonymous(_) => Err(Errno::ENOTTY),
    }
}
