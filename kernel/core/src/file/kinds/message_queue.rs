//! Queues of messages as open files (mq_overview(7)). `path::message_queues` has the calls that name them.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::O_NONBLOCK,
    ipc::MqAttr,
    signal::{NSIG, SI_MESGQ, SIGEV_NONE, SIGEV_SIGNAL, SigCause},
    wire::Wire,
};
use motet_hal::{Access, Machine, Text};
use motet_layout::{FILE_QUEUE, FileRecord, FilesRecord, IpcMessage, IpcObject, WaitQueue, sync::Ordering};
use motet_protocol::{
    Context,
    fs::Held,
    ipc::{
        self,
        message::{self, Wanted},
        posix::{self, Notice, PRIORITIES, Room},
    },
    wait,
};

use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{Facts, Kind, Queues, Transfer, queues, ready},
    },
    file::descriptor::{description::OpenFile, position::seek_endless, table},
    ipc::{copy_message, free_message, maker},
    signal::{self, Origin},
    time,
    tree::{self, lock_tree},
};

/// Bytes of `struct sigevent` that are looked at.
const EVENT_LEN: usize = 16;

/// A queue of messages that a file names.
#[derive(Clone, Copy)]
pub struct MessageQueue(pub &'static IpcObject);

impl Kind for MessageQueue {
    const CODES: &'static [u32] = &[FILE_QUEUE];
    const FACTS: Facts = Facts { has_offsets: true, ..Facts::ANONYMOUS };

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "mqueue:[{number}]")
    }

    /// Reads what there is to tell of the queue, and no message.
    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let text = {
            let _guard = ipc::lock_all(call.cpu);
            let (bytes, notice) = (self.0.bytes.get(), posix::notice(self.0));
            let Notice { pid, signal, .. } = notice.unwrap_or(Notice { pid: 0, signal: 0, value: 0 });
            let how = if notice.is_some() && signal == 0 { SIGEV_NONE } else { SIGEV_SIGNAL };
            Text::<96>::of(format_args!("QSIZE:{bytes:<10} NOTIFY:{how:<5} SIGNO:{signal:<5} NOTIFY_PID:{pid:<6}\n"))
        };
        let at = how.at().unwrap_or_else(|| file.offset.load(Ordering::Relaxed));
        let left = usize::try_from(at).ok().and_then(|at| text.bytes().get(at..)).unwrap_or(&[]);
        let done = left.len().min(into.remaining() as usize);
        into.write(&left[..done])?;
        if how.at().is_none() {
            file.offset.store(at + done as u64, Ordering::Relaxed);
        }
        Ok(done as u64)
    }

    fn seek<M: Machine>(self, call: &Call<M>, file: &FileRecord, to: (i64, u32)) -> SysResult {
        seek_endless(call, file, to)
    }

    fn readiness<M: Machine>(self, _call: &Call<M>, _file: &FileRecord) -> u16 {
        ready((self.0.count.get() != 0, posix::has_room(self.0)))
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(&self.0.waiters[0]), Some(&self.0.waiters[1]))
    }
}

/// Opens a queue of messages by its file.
///
/// # Errors
/// `ENFILE`; `ENXIO`: the file is none.
pub fn open<M: Machine>(call: &Call<M>, inode: Held<'_, Cpu<M>>, flags: u32) -> Result<&'static FileRecord, Errno> {
    let queue = posix::of(call.cpu, inode.inode()).ok_or(Errno::ENXIO)?;
    let parts = Parts { kind: FILE_QUEUE, flags, inode: Some(inode.inode()), object: call.cpu.raw(queue) };
    let record = description::create(call.cpu, &parts)?;
    // The description has taken over the reference.
    inode.release();
    Ok(record)
}

/// `mq_timedsend(queue, message, length, priority, timeout)`.
///
/// # Errors
/// `EINVAL`; `EBADF`; `EMSGSIZE`: no message of the queue is that long; `EAGAIN`: it is full; `ETIMEDOUT`, `EINTR`, `EFAULT`; `ENOMEM`: the user has too many bytes in messages.
pub fn mq_timedsend<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len, priority, timeout, _] = call.args;
    set_deadline(call, timeout)?;
    if priority as u32 >= PRIORITIES {
        return Err(Errno::EINVAL.into());
    }
    let (file, queue) = queue_of(call, fd)?;
    file.check_writable()?;
    if len > Room::of(queue).bytes {
        return Err(Errno::EMSGSIZE.into());
    }
    // Faults now.
    call.user_runs(address, len, Access::Read, |_, _| Ok(()))?;
    {
        let _guard = ipc::lock_all(call.cpu);
        if !posix::has_room(queue) {
            return wait_in(call, &file, &queue.waiters[1]);
        }
    }
    let maker = maker(call);
    let message = message::make(call.cpu, i64::from(priority as u32), len, (maker.uid, maker.is_privileged))?;
    let sent =
        copy_message(call, message, (address, len), Access::Read).and_then(|()| send(call, &file, queue, message));
    if sent.is_err() {
        free_message(call, message);
    }
    if let Some(notice) = sent? {
        tell(call, notice);
    }
    Ok(0)
}

/// Puts a message into a queue; who is to be told that it has come.
///
/// # Errors
/// There is no room any more, and it is not in the queue.
fn send<M: Machine>(
    call: &Call<M>,
    file: &OpenFile<M>,
    queue: &'static IpcObject,
    message: &'static IpcMessage,
) -> Result<Option<Notice>, Stop> {
    let _guard = ipc::lock_all(call.cpu);
    if !posix::has_room(queue) {
        return Err(wait_in(call, file, &queue.waiters[1]).err().unwrap_or(Stop::Again));
    }
    message::send_by_type(call.cpu, queue, message);
    let code = code_of(call, queue);
    let is_awaited = wait::count(call.cpu, &queue.waiters[0], |thread| thread.scratch[0].get() == code) != 0;
    wait::wake(call.cpu, &queue.waiters[0]);
    if queue.count.get() != 1 || is_awaited {
        return Ok(None);
    }
    let notice = posix::notice(queue);
    queue.notified.set(0);
    Ok(notice)
}

/// `mq_timedreceive(queue, buffer, length, priority, timeout)`.
///
/// # Errors
/// `EINVAL`; `EBADF`; `EMSGSIZE`: the buffer is too short for some message; `EAGAIN`: there is none; `ETIMEDOUT`, `EINTR`; `EFAULT`: as on Linux, the message is lost.
pub fn mq_timedreceive<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, address, len, priority_at, timeout, _] = call.args;
    set_deadline(call, timeout)?;
    let (file, queue) = queue_of(call, fd)?;
    file.check_readable()?;
    let most = Room::of(queue).bytes;
    if len < most {
        return Err(Errno::EMSGSIZE.into());
    }
    call.await_pages(address, most)?;
    let message = {
        let _guard = ipc::lock_all(call.cpu);
        let Some((before, message)) = message::find(call.cpu, queue, Wanted::Any) else {
            call.thread.scratch[0].set(code_of(call, queue));
            return wait_in(call, &file, &queue.waiters[0]);
        };
        message::take(call.cpu, queue, before, message);
        wait::wake(call.cpu, &queue.waiters[1]);
        message
    };
    let len = u64::from(message.len.get()).min(most);
    let priority = message.mtype.get() as u32;
    let told = if priority_at == 0 { Ok(()) } else { call.write_user(priority_at, &priority.to_le_bytes()) };
    let told = told.and_then(|()| copy_message(call, message, (address, len), Access::Write));
    free_message(call, message);
    told.map_err(Stop::unless_waiting)?;
    Ok(len)
}

/// `mq_notify(queue, event)`.
///
/// # Errors
/// `EINVAL`, also for `SIGEV_THREAD`, whose C libraries want to be told through a socket; `EBADF`; `EBUSY`: a process is told already; `EFAULT`.
pub fn mq_notify<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, event_at, ..] = call.args;
    let mut notice = None;
    if event_at != 0 {
        let mut bytes = [0; EVENT_LEN];
        call.read_user(event_at, &mut bytes)?;
        let (value, signal, how) = (u64::take(&bytes), u32::take(&bytes[8..]), u32::take(&bytes[12..]));
        let signal = match how {
            SIGEV_NONE => 0,
            SIGEV_SIGNAL if signal <= NSIG => signal,
            _ => return Err(Errno::EINVAL.into()),
        };
        notice = Some(Notice { pid: call.process.pid.get(), signal, value });
    }
    let (_file, queue) = queue_of(call, fd)?;
    let files = call.process.files.load(Ordering::Relaxed);
    if let Some(table) = call.cpu.object::<FilesRecord>(files).filter(|_| notice.is_some()) {
        // From now on, whoever closes a descriptor looks.
        table.has_notices.store(1, Ordering::Relaxed);
    }
    let _guard = ipc::lock_all(call.cpu);
    match notice {
        None => posix::forget_notice(queue, files),
        Some(notice) => posix::notify(queue, files, notice)?,
    }
    Ok(0)
}

/// `mq_getsetattr(queue, new, old)`.
///
/// # Errors
/// `EINVAL`: another flag than `O_NONBLOCK`; `EBADF`, `EFAULT`.
pub fn mq_getsetattr<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, new_at, old_at, ..] = call.args;
    let mut new = None;
    if new_at != 0 {
        let mut bytes = [0; MqAttr::SIZE];
        call.read_user(new_at, &mut bytes)?;
        let flags = MqAttr::take(&bytes).mq_flags;
        if flags & !i64::from(O_NONBLOCK) != 0 {
            return Err(Errno::EINVAL.into());
        }
        new = Some(flags as u32);
    }
    let (file, queue) = queue_of(call, fd)?;
    let Room { count, bytes } = Room::of(queue);
    let old = MqAttr {
        mq_flags: i64::from(file.flags() & O_NONBLOCK),
        mq_maxmsg: count.cast_signed(),
        mq_msgsize: bytes.cast_signed(),
        mq_curmsgs: queue.count.get().cast_signed(),
    };
    if let Some(flags) = new {
        let changed = &file.record().flags;
        changed.fetch_and(!O_NONBLOCK, Ordering::Relaxed);
        changed.fetch_or(flags, Ordering::Relaxed);
    }
    if old_at != 0 {
        call.write_user(old_at, &old.to_bytes())?;
    }
    Ok(0)
}

/// The queue behind a descriptor.
fn queue_of<'c, M: Machine>(call: &Call<'c, M>, fd: u64) -> Result<(OpenFile<'c, M>, &'static IpcObject), Errno> {
    let file = table::get_opened(call, fd as i32)?;
    let MessageQueue(queue) = file.as_kind().ok_or(Errno::EBADF)?;
    Ok((file, queue))
}

/// Remembers until when a call waits, at its beginning.
fn set_deadline<M: Machine>(call: &Call<M>, timeout: u64) -> Result<(), Stop> {
    if timeout != 0 && call.thread.deadline_ns.get() == 0 {
        call.thread.deadline_ns.set(time::deadline_of(call, timeout, true, true)?);
    }
    Ok(())
}

/// By what a thread that waits for a message is told from one that polls.
fn code_of<M: Machine>(call: &Call<M>, queue: &'static IpcObject) -> u64 {
    call.cpu.raw(queue) | 1
}

/// The caller waits for a message, or for room. The lock is held, so it has missed nothing.
fn wait_in<M: Machine>(call: &Call<M>, file: &OpenFile<M>, waiters: &'static WaitQueue) -> SysResult {
    if file.nonblocking() {
        return Err(Errno::EAGAIN.into());
    }
    if call.timed_out() {
        return Err(Errno::ETIMEDOUT.into());
    }
    wait::prepare(call.thread);
    wait::enqueue(call.cpu, call.thread, waiters, 0, u32::MAX);
    Err(Stop::Block)
}

/// Tells a process that a message has come.
fn tell<M: Machine>(call: &Call<M>, notice: Notice) {
    if notice.signal == 0 {
        return;
    }
    let (pid, uid) = (call.process.pid.get(), call.process.credentials.users[0].get());
    let origin = Origin::new(SI_MESGQ, SigCause::Queued { pid, uid, value: notice.value });
    let _tree = lock_tree(call.cpu);
    if let Some(process) = tree::lookup(call.cpu, notice.pid) {
        signal::send_locked(call.cpu, process, notice.signal, origin);
    }
}
