//! `/dev/accel/NAME`: accelerators of the FPGA (`docs/protocols/fpga.md`).
//!
//! An open file of one is a client: an interface, whose page of registers and data section are what can be mapped. Registers are mapped
//! writably only while they are connected; a store to them is a request otherwise, and waits. What is read from the file are signals.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    accel::{BYTES, SET_DEADLINE, SET_PRIORITY, SET_SIGNALS},
};
use motet_hal::Machine;
use motet_layout::{
    FILE_ACCEL, FileRecord, FpgaInterface, Frame, InodeRecord, PAGE_SIZE, SpaceRecord, ThreadRecord, VmaRecord,
    WaitQueue,
};
use motet_protocol::{
    Context,
    fpga::{self, AcceleratorId, InterfaceId, clients, guest},
    fs,
    lock::lock,
    memory::share_frame,
    schedule, wait,
};

use super::{
    attributes,
    cursor::Cursor,
    description::{self, Parts},
    event,
};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    mm, vm,
};

/// The least urgent priority that a client says: those of nice are 0 to 39.
const PRIORITY_MAX: u64 = 39;
/// To the FPGA, so many more are above that: real-time priorities.
const REALTIME: u32 = schedule::PRIORITY_MAX;
/// [`schedule::Schedule::rank`] of the most urgent thread that there can be.
const FIRST_RANK: i32 = -20 - REALTIME as i32;

/// Opens an accelerator: a new client.
///
/// # Errors
/// `ENODEV`: the machine has no FPGA; `ENXIO`: it has no such accelerator; `ENOSPC`: all interfaces are in use.
pub fn open<M: Machine>(call: &Call<M>, flags: u32, minor: u32) -> Result<&'static FileRecord, Errno> {
    let cpu = call.cpu;
    let fpga = fpga::of(cpu.pool).ok_or(Errno::ENODEV)?;
    let accelerator = AcceleratorId::new(minor as usize).filter(|_| minor < fpga.accelerator_count.get());
    let accelerator = accelerator.ok_or(Errno::ENXIO)?;
    let user = call.process.credentials.users[1].get();
    let attributes = fs::Attributes {
        mode: fs::TYPE_REGULAR | 0o600,
        uid: user,
        now_ns: cpu.realtime_ns(),
        ..fs::Attributes::default()
    };
    let pages = fs::Held::adopt(cpu, fs::new_inode(cpu, attributes)?);
    let client = clients::Client {
        owner: call.process.pid.get(),
        user,
        accelerator,
        core: cpu.id.0,
        priority: urgency(call.thread),
        inode: cpu.pool.addr_of(pages.inode()),
    };
    let interface = clients::open(fpga, &client).or_else(|| {
        // Clients that have gone may have let go of the last page since the FPGA has looked; in runs that are not timed it looks later.
        clients::look(fpga);
        cpu.tell_service();
        clients::open(fpga, &client)
    });
    let interface = interface.ok_or(Errno::ENOSPC)?;
    pages.fpga.set(interface.link());
    pages.size.store(PAGE_SIZE + fpga.data_bytes.get(), Ordering::Relaxed);
    let object = cpu.raw(pages.inode());
    let record = description::create(cpu, &Parts { kind: FILE_ACCEL, flags, inode: None, object })?;
    // The description has taken over the reference.
    pages.release();
    cpu.tell_service();
    Ok(record)
}

/// How urgent a thread is to the FPGA, as it is to its core: 0 to 98 for the real-time priorities 99 to 1, and after them the nice values.
pub fn urgency(thread: &ThreadRecord) -> u32 {
    (schedule::of(thread).rank(thread.nice.get().cast_signed()) - FIRST_RANK).max(0) as u32
}

/// Whether a file's pages are an interface.
#[inline(always)]
pub fn is_interface(inode: &InodeRecord) -> bool {
    inode.fpga.get() != 0
}

/// The interface that a file's pages are, if they are one.
pub fn interface_of<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord) -> Option<&'static FpgaInterface> {
    let id = InterfaceId::from_link(pages.fpga.get())?;
    Some(&fpga::of(cpu.pool)?.interfaces[id.index()])
}

/// The interface whose registers a page of a VMA is, if it is that.
#[inline(always)]
pub fn registers_at<M: Machine>(cpu: &Cpu<M>, vma: &VmaRecord, page: u64) -> Option<InterfaceId> {
    // First what costs no look at the file: this is asked at each fault.
    if vma.offset.get() + (page - vma.start.get()) != 0 {
        return None;
    }
    InterfaceId::from_link(cpu.object::<InodeRecord>(vma.inode.get())?.fpga.get())
}

/// The frame of registers, with a reference added for the caller.
///
/// # Errors
/// `ENXIO`: there is no FPGA.
pub fn registers_frame<M: Machine>(cpu: &Cpu<M>, id: InterfaceId) -> Result<Frame, Errno> {
    let frame = clients::registers_frame(fpga::of(cpu.pool).ok_or(Errno::ENXIO)?, id);
    share_frame(cpu, frame);
    Ok(frame)
}

/// Whether registers may be mapped writably now. The space's lock is held until they are.
#[inline]
pub fn may_write<M: Machine>(cpu: &Cpu<M>, id: InterfaceId) -> bool {
    fpga::of(cpu.pool).is_some_and(|fpga| clients::may_write(fpga, id))
}

/// From now on, as long as a space's VMAs are what they are, [`may_store`] knows that it may have these registers mapped writably at a page.
pub fn grant<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64, id: InterfaceId) {
    if let Some(fpga) = fpga::of(cpu.pool) {
        let interface = &fpga.interfaces[id.index()];
        // Other spaces may have it mapped, too: whoever finds the page of one does not find the epoch of another.
        interface.granted_epoch.store(0, Ordering::Relaxed);
        interface.granted_at.store(page, Ordering::Release);
        interface.granted_epoch.store(space.epoch.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// Whether a frame is that of registers which a space may have mapped writably at a page, as is known, and now. The space's lock is held until
/// they are.
#[inline]
pub fn may_store<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64, frame: Frame) -> bool {
    let Some(fpga) = fpga::of(cpu.pool) else { return false };
    let Some(id) = clients::of_registers(fpga, frame) else { return false };
    let interface = &fpga.interfaces[id.index()];
    let epoch = space.epoch.load(Ordering::Relaxed);
    let is_epoch = || interface.granted_epoch.load(Ordering::Acquire) == epoch;
    let is_granted = is_epoch() && interface.granted_at.load(Ordering::Acquire) == page && is_epoch();
    is_granted && may_write(cpu, id)
}

/// The frame of a page of a data section, with a reference added for the caller. Page 0 of the file is the registers.
///
/// # Errors
/// `ENXIO`: it is not that long.
pub fn data_frame<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord, index: u64) -> Result<Frame, Errno> {
    let fpga = fpga::of(cpu.pool).ok_or(Errno::ENXIO)?;
    let id = InterfaceId::from_link(pages.fpga.get()).ok_or(Errno::ENXIO)?;
    let frame = index.checked_sub(1).and_then(|page| clients::data_frame(fpga, id, page)).ok_or(Errno::ENXIO)?;
    share_frame(cpu, frame);
    Ok(frame)
}

/// A store to registers that are not connected: a request. `true`: the thread is prepared to wait.
///
/// # Errors
/// `ENXIO`: the region could not be made ready, which is a `SIGBUS`.
pub fn ask<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    address: u64,
) -> Result<bool, Errno> {
    let Some(fpga) = fpga::of(cpu.pool) else { return Ok(false) };
    let guard = lock(cpu, &space.lock);
    let page = address & !(PAGE_SIZE - 1);
    let mut vmas = mm::vmas_within(cpu, space, page..page + PAGE_SIZE);
    let Some(id) = vmas.next().and_then(|vma| registers_at(cpu, vma, page)) else { return Ok(false) };
    let interface = &fpga.interfaces[id.index()];
    let is_refused = interface.refused.swap(0, Ordering::SeqCst) != 0;
    if is_refused {
        return Err(Errno::ENXIO);
    }
    wait::prepare(thread);
    wait::enqueue(cpu, thread, &interface.waiters, 0, u32::MAX);
    clients::ask(fpga, interface, urgency(thread));
    drop(guard);
    cpu.tell_service();
    let has_come = interface.connected.load(Ordering::SeqCst) != 0 || interface.refused.load(Ordering::SeqCst) != 0;
    if has_come {
        wait::finish(cpu, thread);
    }
    Ok(!has_come)
}

/// Whether there are signals that the client has not read.
pub fn is_told<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord) -> bool {
    interface_of(cpu, pages).is_some_and(|interface| interface.told.load(Ordering::SeqCst) != 0)
}

/// Threads that wait for signals.
pub fn waiters<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord) -> Option<&'static WaitQueue> {
    interface_of(cpu, pages).map(|interface| &interface.readers)
}

/// Reads the signals that have come since the last read: 8 bytes. Waits for one.
pub fn read<M: Machine>(call: &Call<M>, pages: &InodeRecord, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
    let interface = interface_of(call.cpu, pages).ok_or(Errno::ENODEV)?;
    event::read_count(call, &interface.readers, nonblocking, into, || {
        u64::from(interface.told.swap(0, Ordering::SeqCst))
    })
}

/// `ioctl` of an interface.
///
/// # Errors
/// `ENOTTY`; `EINVAL`; `EPERM`: a more urgent priority than the thread's nice gives, for who is not the superuser.
pub fn ioctl<M: Machine>(call: &Call<M>, pages: &InodeRecord, request: u32, argument: u64) -> SysResult {
    let interface = interface_of(call.cpu, pages).ok_or(Errno::ENODEV)?;
    match request {
        SET_PRIORITY if argument > PRIORITY_MAX => Err(Errno::EINVAL.into()),
        SET_PRIORITY => {
            let is_superuser = call.process.credentials.users[1].get() == 0;
            let priority = REALTIME + argument as u32;
            if priority < urgency(call.thread) && !is_superuser {
                return Err(Errno::EPERM.into());
            }
            interface.is_said.store(1, Ordering::Release);
            interface.priority.store(priority, Ordering::Release);
            Ok(0)
        }
        SET_DEADLINE => {
            let deadline_ps = argument.checked_mul(1_000_000).ok_or(Errno::EINVAL)?;
            interface.deadline_ps.store(deadline_ps, Ordering::Release);
            Ok(0)
        }
        SET_SIGNALS => {
            interface.hears.store(argument as u32, Ordering::Release);
            Ok(0)
        }
        BYTES => Ok(pages.size.load(Ordering::Relaxed)),
        _ => Err(Errno::ENOTTY.into()),
    }
}

/// A core was rung: does what the FPGA wants, and wakes its clients.
#[inline(always)]
pub fn rung<M: Machine>(cpu: &Cpu<M>) {
    if cpu.pool.header().fpga.get() != 0 {
        serve_by_urgency(cpu);
    }
}

/// What is to be done for less urgent clients than the thread that runs waits until that leaves the core, or its slice ends: as Ker-ONE's
/// services, it has its caller's priority (section 3.3.2).
#[cold]
fn serve_by_urgency<M: Machine>(cpu: &Cpu<M>) {
    let Some(fpga) = fpga::of(cpu.pool) else { return };
    let running = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed));
    if running.is_some_and(|thread| clients::is_answered_less_urgently_than(fpga, urgency(thread))) {
        cpu.fpga_later.set(true);
    } else {
        serve(cpu);
    }
}

/// Does what has waited for a more urgent thread.
#[inline(always)]
pub fn catch_up<M: Machine>(cpu: &Cpu<M>) {
    if cpu.fpga_later.replace(false) {
        serve(cpu);
    }
}

#[cold]
fn serve<M: Machine>(cpu: &Cpu<M>) {
    if fpga::of(cpu.pool).is_some_and(clients::is_answered) {
        take_answered(cpu);
    }
}

/// A core has died: it may have begun to do what the FPGA wants of kernels. All of that is done (again).
pub fn settle<M: Machine>(cpu: &Cpu<M>) {
    take_answered(cpu);
}

fn take_answered<M: Machine>(cpu: &Cpu<M>) {
    let Some(fpga) = fpga::of(cpu.pool) else { return };
    let guard = lock(cpu, &fpga.kernel_lock);
    let tell = |id: InterfaceId, signals: u32| {
        let interface = &fpga.interfaces[id.index()];
        wait::wake(cpu, &interface.waiters);
        let heard = signals & interface.hears.load(Ordering::Acquire);
        if heard != 0 {
            interface.told.fetch_or(heard, Ordering::SeqCst);
            wait::wake(cpu, &interface.readers);
        }
    };
    let fetch = |interface: &FpgaInterface, page: u64| match cpu.object(interface.guest.load(Ordering::Relaxed)) {
        Some(vm) => vm::fetch_page(cpu, vm, page),
        None => guest::Answer::Outside,
    };
    let has_revoked = clients::take_answered(fpga, |_, interface| protect(cpu, interface), fetch, tell);
    drop(guard);
    if has_revoked {
        cpu.tell_service();
    }
}

/// Makes an interface's registers read-only in all address spaces, and for its guest. Whoever stores to them traps.
fn protect<M: Machine>(cpu: &Cpu<M>, interface: &FpgaInterface) {
    if let Some(guest) = cpu.object(interface.guest.load(Ordering::Relaxed)) {
        vm::protect_registers(cpu, guest, interface);
    }
    if let Some(inode) = cpu.object::<InodeRecord>(interface.inode.get()) {
        attributes::protect_pages(cpu, inode, &(0..1));
    }
}
