//! `wait4` and `waitid`.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::{WCONTINUED, WEXITED, WNOHANG, WNOWAIT, WUNTRACED, WaitStatus},
    signal::SIGCHLD,
};
use motet_hal::Machine;
use motet_layout::{PROCESS_ZOMBIE, ProcessRecord};

use super::{children, exit::reap, lock_tree, lookup, parent_of};
use crate::call::{Call, Stop, SysResult};

const STOP_REPORTED: u32 = 1 << 31;

/// Which children are waited for.
#[derive(Clone, Copy)]
enum Which {
    Any,
    Pid(u32),
    Group(u32),
}

/// A child's news.
struct News {
    pid: u32,
    status: u32,
    times_ns: [u64; 2],
    uid: u32,
}

/// `wait4(pid, status, options, rusage)`.
pub fn wait4<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, status_at, options, rusage_at, ..] = call.args;
    let options = options as u32;
    let which = match pid as i32 {
        -1 => Which::Any,
        0 => Which::Group(call.process.pgid.load(Ordering::Relaxed)),
        pid if pid > 0 => Which::Pid(pid as u32),
        group => Which::Group(group.unsigned_abs()),
    };
    if options & !(WNOHANG | WUNTRACED | WCONTINUED | 0xe000_0000) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let Some(news) = wait_for(call, which, options | WEXITED)? else { return Ok(0) };
    if status_at != 0 {
        call.write_user(status_at, &news.status.to_le_bytes())?;
    }
    if rusage_at != 0 {
        write_rusage(call, rusage_at, news.times_ns)?;
    }
    Ok(u64::from(news.pid))
}

/// `waitid(kind, id, info, options, rusage)`.
pub fn waitid<M: Machine>(call: &Call<M>) -> SysResult {
    let [kind, id, info_at, options, rusage_at, _] = call.args;
    let options = options as u32;
    let which = match kind {
        0 => Which::Any,
        1 => Which::Pid(id as u32),
        2 if id == 0 => Which::Group(call.process.pgid.load(Ordering::Relaxed)),
        2 => Which::Group(id as u32),
        _ => return Err(Errno::EINVAL.into()),
    };
    if options & (WEXITED | WUNTRACED | WCONTINUED) == 0 {
        return Err(Errno::EINVAL.into());
    }
    let news = wait_for(call, which, options)?;
    if rusage_at != 0 {
        write_rusage(call, rusage_at, news.as_ref().map_or([0; 2], |news| news.times_ns))?;
    }
    if info_at != 0 {
        let mut info = [0u8; 128];
        if let Some(news) = &news {
            let ended = WaitStatus::decode(news.status);
            let (code, status) = (ended.cld_code() as u32, ended.si_status() as u32);
            for (offset, word) in [(0, SIGCHLD), (8, code), (16, news.pid), (20, news.uid), (24, status)] {
                info[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        call.write_user(info_at, &info)?;
    }
    Ok(0)
}

fn wait_for<M: Machine>(call: &Call<M>, which: Which, options: u32) -> Result<Option<News>, Stop> {
    if options & WNOHANG != 0 {
        return look(call, which, options);
    }
    call.wait_for(&call.process.child_waiters, || look(call, which, options)).map(Some)
}

/// A child with news; `None`: none has any yet.
fn look<M: Machine>(call: &Call<M>, which: Which, options: u32) -> Result<Option<News>, Stop> {
    let cpu = call.cpu;
    let _tree = lock_tree(cpu);
    let mut any = false;
    let news = |child: &'static ProcessRecord| {
        any = true;
        status_of(child, options).map(|status| (child, status))
    };
    let is_own =
        |child: &&ProcessRecord| parent_of(cpu, child).is_some_and(|parent| core::ptr::eq(parent, call.process));
    let found = match which {
        Which::Any => children(cpu, call.process).find_map(news),
        Which::Pid(pid) => lookup(cpu, pid).filter(is_own).and_then(news),
        Which::Group(group) => {
            let in_group = |child: &&ProcessRecord| child.pgid.load(Ordering::Relaxed) == group;
            children(cpu, call.process).filter(in_group).find_map(news)
        }
    };
    let Some((child, status)) = found else {
        return if any { Ok(None) } else { Err(Errno::ECHILD.into()) };
    };
    let news = News {
        pid: child.pid.get(),
        status,
        times_ns: [child.times_ns[0].get(), child.times_ns[1].get()],
        uid: child.credentials.users[0].get(),
    };
    if options & WNOWAIT == 0 {
        if child.state.load(Ordering::Acquire) == PROCESS_ZOMBIE {
            reap(cpu, child);
        } else if WaitStatus::decode(status) == WaitStatus::Continued {
            child.continued.store(0, Ordering::Relaxed);
        } else {
            child.stopped.fetch_or(STOP_REPORTED, Ordering::Relaxed);
        }
    }
    Ok(Some(news))
}

fn status_of(child: &ProcessRecord, options: u32) -> Option<u32> {
    if child.state.load(Ordering::Acquire) == PROCESS_ZOMBIE {
        return (options & WEXITED != 0).then(|| child.exit_status.load(Ordering::Relaxed));
    }
    let stopped = child.stopped.load(Ordering::Relaxed);
    if options & WUNTRACED != 0 && stopped != 0 && stopped & STOP_REPORTED == 0 {
        return Some(WaitStatus::Stopped((stopped - 1) as u8).encode());
    }
    if options & WCONTINUED != 0 && child.continued.load(Ordering::Relaxed) != 0 {
        return Some(WaitStatus::Continued.encode());
    }
    None
}

/// Linux `struct rusage`, of which times are kept.
pub fn write_rusage<M: Machine>(call: &Call<M>, address: u64, times_ns: [u64; 2]) -> Result<(), Errno> {
    let mut usage = [0u8; 144];
    for (index, ns) in times_ns.into_iter().enumerate() {
        usage[16 * index..16 * index + 8].copy_from_slice(&(ns / 1_000_000_000).to_le_bytes());
        usage[16 * index + 8..16 * index + 16].copy_from_slice(&(ns % 1_000_000_000 / 1000).to_le_bytes());
    }
    call.write_user(address, &usage)
}
