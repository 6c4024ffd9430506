//! Queues of messages (msgget(2), msgop(2), msgctl(2)).

use motet_abi::{
    Errno,
    ipc::{
        IPC_INFO, IPC_NOWAIT, IPC_RMID, IPC_SET, IPC_STAT, MSG_COPY, MSG_EXCEPT, MSG_INFO, MSG_NOERROR, MSG_STAT,
        MSG_STAT_ANY, Msginfo, MsqidDs, S_IRUGO, S_IWUGO,
    },
    wire::Wire,
};
use motet_hal::{Access, Machine};
use motet_layout::IpcMessage;
use motet_protocol::{
    ipc::{
        self, Kind,
        message::{self, LEN_MAX, QUEUE_MAX, Wanted},
    },
    wait,
};

use super::{Told, find_own, find_told, find_usable, get, maker, now_s, perm_of, set_perm, wait_in};
use crate::{
    call::{Call, Stop, SysResult},
    due,
    permission::{self, Capability},
};

/// Bytes before a message's text: its type.
const TYPE_SIZE: u64 = 8;
/// As Linux's (`MSGPOOL` in KiB, `MSGSSZ`, `MSGSEG`).
const POOL_KIB: u32 = (Kind::Queue.most() as u64 * QUEUE_MAX / 1024) as u32;
const SEGMENT: u32 = 16;
const SEGMENTS: u16 = 0xffff;
/// What a look at a queue costs.
const LOOKED: u64 = 30;

/// `msgget(key, flags)`.
pub fn msgget<M: Machine>(call: &Call<M>) -> SysResult {
    let [key, flags, ..] = call.args;
    get(
        call,
        Kind::Queue,
        (key as u32, flags as u32),
        |_| Ok(()),
        |key, mode| {
            ipc::make(call.cpu, Kind::Queue, (key, mode), &maker(call), 0, |queue| {
                queue.size.set(QUEUE_MAX);
                Ok(())
            })
        },
    )
}

/// `msgsnd(id, message, length, flags)`.
pub fn msgsnd<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, address, len, flags, ..] = call.args;
    let mtype = call.read_user_u64(address)?.cast_signed();
    if len > LEN_MAX || (id as i32) < 0 || mtype < 1 {
        return Err(Errno::EINVAL.into());
    }
    let text = address.wrapping_add(TYPE_SIZE);
    // Faults now.
    call.user_runs(text, len, Access::Read, |_, _| Ok(()))?;
    if let Some(waits) = wait_for_room(call, id, len, flags as u32)? {
        return waits;
    }
    let maker = maker(call);
    let message = message::make(call.cpu, mtype, len, (maker.uid, maker.is_privileged))?;
    let sent =
        copy_message(call, message, (text, len), Access::Read).and_then(|()| send(call, id, message, flags as u32));
    match sent {
        Ok(None) => Ok(0),
        Ok(Some(waits)) => {
            free_message(call, message);
            waits
        }
        Err(stop) => {
            free_message(call, message);
            Err(stop)
        }
    }
}

/// Looks whether there is room; if not, waits.
fn wait_for_room<M: Machine>(call: &Call<M>, id: u64, len: u64, flags: u32) -> Result<Option<SysResult>, Stop> {
    let (_guard, queue) = find_usable(call, Kind::Queue, id, S_IWUGO)?;
    if message::has_room(queue, len) {
        return Ok(None);
    }
    if flags & IPC_NOWAIT != 0 {
        return Err(Errno::EAGAIN.into());
    }
    Ok(Some(wait_in(call, &queue.waiters[1], u32::MAX)))
}

/// Puts a message into a queue; or waits, as there is no room any more.
fn send<M: Machine>(
    call: &Call<M>,
    id: u64,
    message: &'static IpcMessage,
    flags: u32,
) -> Result<Option<SysResult>, Stop> {
    let (_guard, queue) = find_usable(call, Kind::Queue, id, S_IWUGO)?;
    if !message::has_room(queue, u64::from(message.len.get())) {
        if flags & IPC_NOWAIT != 0 {
            return Err(Errno::EAGAIN.into());
        }
        return Ok(Some(wait_in(call, &queue.waiters[1], u32::MAX)));
    }
    message::send(call.cpu, queue, message);
    queue.times_s[0].set(now_s(call.cpu));
    queue.pids[0].set(call.process.pid.get());
    wait::wake(call.cpu, &queue.waiters[0]);
    Ok(None)
}

/// Frees a message that is in no queue. The lock is not held.
pub fn free_message<M: Machine>(call: &Call<M>, message: &'static IpcMessage) {
    let _guard = ipc::lock_all(call.cpu);
    message::free(call.cpu, message);
}

/// Copies the first `len` bytes of a message from user memory (to read), or to it.
pub fn copy_message<M: Machine>(
    call: &Call<M>,
    message: &'static IpcMessage,
    (address, len): (u64, u64),
    access: Access,
) -> Result<(), Stop> {
    let pool = call.cpu.pool;
    let mut done = 0;
    call.user_runs(address, len, access, |run, here| {
        let end = done + here as u64;
        let mut at = run;
        while done < end {
            let (own, piece) = message::run(call.cpu, message, done, end - done).ok_or(Errno::EFAULT)?;
            match access {
                Access::Read => pool.copy(at, own, piece),
                Access::Write | Access::Execute => pool.copy(own, at, piece),
            }
            at = at.add(piece as u64);
            done += piece.max(1) as u64;
        }
        Ok(())
    })
}

/// `msgrcv(id, message, length, type, flags)`.
pub fn msgrcv<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, address, most, mtype, flags, ..] = call.args;
    let flags = flags as u32;
    if (id as i32) < 0 || most > i64::MAX as u64 {
        return Err(Errno::EINVAL.into());
    }
    if flags & MSG_COPY != 0 && (flags & MSG_EXCEPT != 0 || flags & IPC_NOWAIT == 0) {
        return Err(Errno::EINVAL.into());
    }
    call.await_pages(address, TYPE_SIZE + most.min(LEN_MAX))?;
    let wanted = Wanted::of(mtype.cast_signed(), flags & MSG_EXCEPT != 0);
    let fits = |message: &IpcMessage| {
        let is_short = u64::from(message.len.get()) <= most;
        match flags & MSG_NOERROR != 0 {
            _ if is_short => Ok(()),
            false => Err(Errno::E2BIG),
            // As on Linux, no copy is cut.
            true if flags & MSG_COPY != 0 => Err(Errno::EINVAL),
            true => Ok(()),
        }
    };
    let message = if flags & MSG_COPY != 0 {
        let maker = maker(call);
        let (_guard, queue) = find_usable(call, Kind::Queue, id, S_IRUGO)?;
        let copy = message::copy_nth(call.cpu, queue, mtype, (maker.uid, maker.is_privileged), fits)?;
        copy.ok_or(Errno::ENOMSG)?
    } else {
        let (_guard, queue) = find_usable(call, Kind::Queue, id, S_IRUGO)?;
        match message::find(call.cpu, queue, wanted) {
            None if flags & IPC_NOWAIT != 0 => return Err(Errno::ENOMSG.into()),
            None => return wait_in(call, &queue.waiters[0], u32::MAX),
            Some((before, message)) => {
                fits(message)?;
                message::take(call.cpu, queue, before, message);
                queue.times_s[1].set(now_s(call.cpu));
                queue.pids[1].set(call.process.pid.get());
                wait::wake(call.cpu, &queue.waiters[1]);
                message
            }
        }
    };
    let len = u64::from(message.len.get()).min(most);
    // As on Linux, who cannot take it has lost it.
    let told = call
        .write_user(address, &message.mtype.get().to_le_bytes())
        .and_then(|()| copy_message(call, message, (address.wrapping_add(TYPE_SIZE), len), Access::Write));
    free_message(call, message);
    told.map_err(Stop::unless_waiting)?;
    Ok(len)
}

/// `msgctl(id, command, buffer)`.
pub fn msgctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, command, ..] = call.args;
    if (id as i32) < 0 || (command as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    match command as u32 {
        IPC_STAT => tell(call, Told::ById),
        MSG_STAT => tell(call, Told::ByPlace),
        MSG_STAT_ANY => tell(call, Told::Any),
        command @ (IPC_INFO | MSG_INFO) => tell_limits(call, command == MSG_INFO),
        IPC_SET => set(call),
        IPC_RMID => {
            let (_guard, queue) = find_own(call, Kind::Queue, id)?;
            ipc::remove(call.cpu, queue);
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

fn tell<M: Machine>(call: &Call<M>, how: Told) -> SysResult {
    let (guard, queue, result) = find_told(call, Kind::Queue, call.args[0], how)?;
    let told = MsqidDs {
        msg_perm: perm_of(queue),
        msg_stime: queue.times_s[0].get(),
        msg_rtime: queue.times_s[1].get(),
        msg_ctime: queue.changed_s.get(),
        msg_cbytes: queue.bytes.get(),
        msg_qnum: queue.count.get(),
        msg_qbytes: queue.size.get(),
        msg_lspid: queue.pids[0].get(),
        msg_lrpid: queue.pids[1].get(),
    };
    drop(guard);
    call.write_user(call.args[2], &told.to_bytes())?;
    Ok(result)
}

fn tell_limits<M: Machine>(call: &Call<M>, tells_usage: bool) -> SysResult {
    let cpu = call.cpu;
    let (count, [messages, bytes], highest) = {
        let _guard = ipc::lock_all(cpu);
        let table = ipc::table(cpu, Kind::Queue);
        let mut sums = [0, 0];
        for queue in (0..table.high.get()).filter_map(|place| ipc::at(cpu, Kind::Queue, place)) {
            due::spend_locked(cpu, LOOKED);
            sums = [sums[0] + queue.count.get(), sums[1] + queue.bytes.get()];
        }
        (table.count.get(), sums.map(|sum| sum as u32), ipc::highest(cpu, Kind::Queue))
    };
    let told = Msginfo {
        msgpool: if tells_usage { count } else { POOL_KIB },
        msgmap: if tells_usage { messages } else { QUEUE_MAX as u32 },
        msgmax: LEN_MAX as u32,
        msgmnb: QUEUE_MAX as u32,
        msgmni: Kind::Queue.most(),
        msgssz: SEGMENT,
        msgtql: if tells_usage { bytes } else { QUEUE_MAX as u32 },
        msgseg: SEGMENTS,
    };
    call.write_user(call.args[2], &told.to_bytes())?;
    Ok(u64::from(highest))
}

fn set<M: Machine>(call: &Call<M>) -> SysResult {
    let mut bytes = [0; MsqidDs::SIZE];
    call.read_user(call.args[2], &mut bytes)?;
    let wanted = MsqidDs::take(&bytes);
    let (_guard, queue) = find_own(call, Kind::Queue, call.args[0])?;
    if wanted.msg_qbytes > QUEUE_MAX && !permission::has(call.process, Capability::Limits) {
        return Err(Errno::EPERM.into());
    }
    set_perm(queue, &wanted.msg_perm, now_s(call.cpu))?;
    queue.size.set(wanted.msg_qbytes);
    // Who may not any more, and for whom there is room now.
    for waiters in &queue.waiters {
        wait::wake(call.cpu, waiters);
    }
    Ok(0)
}
