//! Descriptors and open files: `lseek`, `dup`, `fcntl`, `ioctl`.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*, terminal::*};
use motet_hal::Machine;
use motet_layout::PIPE_CAPACITY;

use super::{
    descriptor::{description::OpenFile, owner, range_calls, table},
    kinds::{pipe::Pipe, seals},
    path::open::STATUS_FLAGS,
    socket::Socket,
};
use crate::{
    call::{Call, SysResult},
    permission::FileRights,
};

/// `lseek(fd, offset, whence)`.
pub fn lseek<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, offset, whence, ..] = call.args;
    let file = table::get_opened(call, fd as i32)?;
    file.seek(call, (offset as i64, whence as u32))
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
            set_status(call, &file, fd, flags)?;
        }
        command @ (F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW) => {
            return range_calls::fcntl(call, fd, &file, command, argument);
        }
        F_SETOWN | F_SETOWN_EX | F_GETOWN | F_GETOWN_EX | F_SETSIG | F_GETSIG => {
            return owner::fcntl(call, &file, command as u32, argument);
        }
        F_GETPIPE_SZ | F_SETPIPE_SZ => {
            file.as_kind::<Pipe>().ok_or(Errno::EBADF)?;
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

/// `O_DIRECT` is refused where it would mean packets.
fn set_status<M: Machine>(call: &Call<M>, file: &OpenFile<M>, fd: i32, flags: u32) -> Result<(), Errno> {
    if flags & file.facts().refused_flags != 0 {
        return Err(Errno::EINVAL);
    }
    owner::turn(call, file, fd, flags & O_ASYNC != 0)?;
    set_flags(file, STATUS_FLAGS & !O_ASYNC, flags);
    Ok(())
}

/// Sets those of an open file's flags that are in `which` as `flags` says. What sets others at the same time is not undone.
fn set_flags<M: Machine>(file: &OpenFile<M>, which: u32, flags: u32) {
    file.record().flags.fetch_or(flags & which, Ordering::Relaxed);
    file.record().flags.fetch_and(flags | !which, Ordering::Relaxed);
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
            let set = if call.read_user_u32(argument)? != 0 { O_NONBLOCK } else { 0 };
            set_flags(&file, O_NONBLOCK, set);
        }
        FIOASYNC => {
            let on = call.read_user_u32(argument)? != 0;
            if on != owner::is_on(&file) && !owner::may_tell(&file) {
                return Err(Errno::ENOTTY.into());
            }
            owner::turn(call, &file, fd, on)?;
        }
        FIOSETOWN | SIOCSPGRP if file.as_kind::<Socket>().is_some() => {
            owner::set_number(call, &file, call.read_user_u32(argument)?.cast_signed())?;
        }
        FIOGETOWN | SIOCGPGRP if file.as_kind::<Socket>().is_some() => {
            call.write_user(argument, &owner::number(call.cpu, &file).to_le_bytes())?;
        }
        request => {
            let memory = |fd, range| seals::memory_of_guest(call, fd, range);
            return file.ioctl(call, (request, argument), memory);
        }
    }
    Ok(0)
}
