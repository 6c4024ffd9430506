//! `/dev/service`: the service core's registers (`docs/protocols/service.md`).
//!
//! An open file of it is an owner of the core's objects. Its pages are no memory: a fault gives the process a page of registers. What a
//! thread asks is between it and the core; the kernel only tells the core of ends, and wakes who sleeps for an answer.

use core::fmt::{self, Write};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    CORES_MAX, FILE_SERVICE, FileRecord, InodeRecord, PAGE_SIZE, ServiceCore, ThreadRecord, handshake::then_look,
    sync::Ordering,
};
use motet_protocol::{
    Context, fs,
    lock::lock,
    service::{
        self, ThreadIndex,
        clients::{self, Notification, Refused},
    },
};

use super::hardware;
use crate::{
    call::{Call, SysResult, cost},
    cpu::Cpu,
    description::{self, Parts, kind::Kind},
    futex, mm,
    registers::service::{owner, page},
    turn,
};

/// `ioctl`: a window for a thread to be, of the core that the argument says, or -1.
const ALLOT: u32 = 0x4d50;
/// `ioctl`: the window whose number the argument is, is the calling thread's.
const BIND: u32 = 0x4d51;

/// Opens the device: a new owner.
///
/// # Errors
/// `ENODEV`: the machine has no service core; `ENOSPC`.
pub fn open<M: Machine>(call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Errno> {
    service::of(call.cpu.pool).ok_or(Errno::ENODEV)?;
    let attributes = fs::Attributes {
        mode: fs::TYPE_REGULAR | 0o600,
        uid: call.process.credentials.users[1].get(),
        now_ns: call.cpu.realtime_ns(),
        ..fs::Attributes::default()
    };
    let registers = fs::Held::adopt(call.cpu, fs::new_inode(call.cpu, attributes)?);
    registers.is_device.set(1);
    registers.service.set(1);
    registers.size.store(CORES_MAX as u64 * PAGE_SIZE, Ordering::Relaxed);
    let object = call.cpu.raw(registers.inode());
    let record = description::create(call.cpu, &Parts { kind: FILE_SERVICE, flags, inode: None, object })?;
    // The description has taken over the reference.
    registers.release();
    Ok(record)
}

/// The service core's registers.
#[derive(Clone, Copy)]
pub struct Service(&'static InodeRecord);

impl Kind for Service {
    const CODES: &'static [u32] = &[FILE_SERVICE];

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/service")
    }

    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        _file: &FileRecord,
        (request, argument): (u32, u64),
        _memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        ioctl(call, self.0, request, argument)
    }

    fn map<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        _file: &FileRecord,
        writable_shared: bool,
    ) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
        if !writable_shared {
            return Err(Errno::ENODEV);
        }
        Ok(Some(mm::Mappable { inode: fs::Held::new(call.cpu, self.0), may_write: true }))
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        fs::put(cpu, self.0);
    }
}

/// `ioctl` of the device.
///
/// # Errors
/// `ENOTTY`, `EAGAIN`: no window is free; `EBUSY`, `EINVAL`, and those of [`frame`], [`hardware::make`] and [`hardware::cancel`].
fn ioctl<M: Machine>(call: &Call<M>, registers: &'static InodeRecord, request: u32, argument: u64) -> SysResult {
    let core = service::of(call.cpu.pool).ok_or(Errno::ENODEV)?;
    match request {
        ALLOT => Ok(u64::from(clients::number(core, allot(call, core, registers, argument as i32)?))),
        BIND => {
            bind(call, core, registers, argument as u32)?;
            Ok(0)
        }
        hardware::BECOME => hardware::make(call, core, registers, argument),
        hardware::CANCEL => hardware::cancel(call.cpu, core, registers, argument as u32),
        _ => Err(Errno::ENOTTY.into()),
    }
}

/// A window of a core that the caller names; of its own core, or if that has none, of another one.
fn allot<M: Machine>(
    call: &Call<M>,
    core: &ServiceCore,
    registers: &'static InodeRecord,
    of: i32,
) -> Result<ThreadIndex, Errno> {
    let of_core = |index: u64| {
        let page = page(call.cpu, core, registers, index)?;
        let _guard = lock(call.cpu, &registers.lock);
        Ok(clients::window(core, page))
    };
    if let Ok(of) = u64::try_from(of) {
        return of_core(of)?.ok_or(Errno::EAGAIN);
    }
    if let Some(window) = of_core(u64::from(call.cpu.id.0))? {
        return Ok(window);
    }
    for other in 0..CORES_MAX as u64 {
        call.cpu.spend(cost::OBJECT);
        match of_core(other) {
            Ok(Some(window)) => return Ok(window),
            Ok(None) | Err(Errno::ENXIO) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EAGAIN)
}

fn bind<M: Machine>(
    call: &Call<M>,
    core: &ServiceCore,
    registers: &'static InodeRecord,
    number: u32,
) -> Result<(), Errno> {
    let (thread, owner) = (call.thread, owner(registers));
    if let Some(bound) = ThreadIndex::from_raw(thread.service.get())
        && core.control[bound.client()].owner.get() == thread.service_owner.get()
    {
        return Err(Errno::EBUSY);
    }
    let guard = lock(call.cpu, &registers.lock);
    let window = clients::bind(core, owner.number, number);
    drop(guard);
    let window = window.map_err(|refused| match refused {
        Refused::NoWindow => Errno::EINVAL,
        Refused::HasThread => Errno::EBUSY,
    })?;
    thread.service_owner.set(owner.number);
    thread.service.set(window.raw());
    clients::kernel_thread(core, window).store(call.cpu.raw(thread), Ordering::Release);
    then_look(); // it may have been started, and have lost its turn, before
    thread.attention.store(1, Ordering::Release);
    Ok(())
}

/// A thread ends, or begins another program: its window has no thread any more.
#[inline(always)]
pub fn release_of_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if thread.service.get() != 0 {
        release(cpu, thread);
    }
}

#[cold]
fn release<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let window = ThreadIndex::from_raw(thread.service.get());
    thread.service.set(0);
    let (Some(core), Some(window)) = (service::of(cpu.pool), window) else { return };
    // Unless another process has it already.
    let bound = clients::kernel_thread(core, window);
    _ = bound.compare_exchange(cpu.raw(thread), 0, Ordering::SeqCst, Ordering::Relaxed);
    if clients::ended(core, thread.service_owner.get(), window) {
        cpu.tell_service();
    }
}

/// Islands have died: what they were giving to processes is free. Every core that lives has passed.
pub fn settle<M: Machine>(cpu: &Cpu<M>) {
    if let Some(core) = service::of(cpu.pool) {
        clients::settle_pages(cpu, core);
    }
}

/// A core was rung: wakes threads that slept and have been answered, stops those that have lost their turns, and takes back the memory of
/// devices that are done.
#[inline(always)]
pub fn rung<M: Machine>(cpu: &Cpu<M>) {
    if cpu.pool.header().service.get() != 0 {
        hear(cpu);
    }
}

#[cold]
fn hear<M: Machine>(cpu: &Cpu<M>) {
    let Some(core) = service::of(cpu.pool) else { return };
    let hear = |window, notification| match notification {
        Notification::Answered => futex::wake_shared(cpu, clients::futex(cpu.pool, clients::registers(core, window))),
        Notification::Turn => turn::changed(cpu, core, window),
    };
    if clients::take_notifications(core, hear) {
        hardware::collect(cpu, core);
    }
}
