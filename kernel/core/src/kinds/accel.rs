//! `/dev/accel/NAME`: accelerators of the FPGA (`docs/protocols/fpga.md`).
//!
//! An open file of one is a client: an interface, whose page of registers and data section can be mapped. Registers are mapped
//! writably only while they are connected; otherwise a store to them is a request, and waits. Reads return signals.

use core::{
    fmt::{self, Write},
    sync::atomic::Ordering,
};

use motet_abi::{
    Errno,
    accel::{BYTES, SET_DEADLINE, SET_PRIORITY, SET_SIGNALS},
    file::O_NONBLOCK,
};
use motet_hal::Machine;
use motet_layout::{FILE_ACCEL, FileRecord, InodeRecord, PAGE_SIZE, SpaceRecord, ThreadRecord};
use motet_protocol::{
    Context,
    fpga::{self, AcceleratorId, InterfaceId, clients},
    fs,
    lock::lock,
    wait,
};

use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::{Cursor, read_count},
    description::{
        self, Parts,
        kind::{INPUT, Kind, Queues, Transfer, if_so, queues},
    },
    mm,
    registers::fpga::{REALTIME, interface_of, registers_at, take_refusal, urgency},
};

/// The least urgent priority that a client says: those of nice are 0 to 39.
const PRIORITY_MAX: u64 = 39;

/// So often an opening looks whether the FPGA has freed an interface.
const LOOK_NS: u64 = 200_000;
/// So long it looks at most: pages of a client that has gone may stay mapped for ever.
const LOOK_NS_MAX: u64 = 200_000_000;

/// Opens an accelerator: a new client. Waits for interfaces of clients that have gone, which the FPGA frees soon.
///
/// # Errors
/// `ENODEV`: the machine has no FPGA; `ENXIO`: it has no such accelerator; `ENOSPC`: all interfaces are in use.
pub fn open<M: Machine>(call: &Call<M>, flags: u32, minor: u32) -> Result<&'static FileRecord, Stop> {
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
    let mut is_one_leaving = false;
    let interface = clients::open(fpga, &client).or_else(|| {
        // Clients that have gone may have let go of the last page since the FPGA has looked; in runs that are not timed it looks later.
        clients::look(fpga);
        cpu.tell_service();
        // First look, then try: what the FPGA frees in between is found.
        is_one_leaving = clients::is_one_leaving(fpga);
        clients::open(fpga, &client)
    });
    let interface = interface.ok_or_else(|| wait_for_interface(call, is_one_leaving, flags))?;
    pages.is_device.set(1);
    pages.fpga.set(interface.link());
    pages.size.store(PAGE_SIZE + fpga.data_bytes.get(), Ordering::Relaxed);
    let object = cpu.raw(pages.inode());
    let record = description::create(cpu, &Parts { kind: FILE_ACCEL, flags, inode: None, object })?;
    // The description has taken over the reference.
    pages.release();
    cpu.tell_service();
    Ok(record)
}

/// An interface of the FPGA: registers and data.
#[derive(Clone, Copy)]
pub struct Accel(&'static InodeRecord);

impl Kind for Accel {
    const CODES: &'static [u32] = &[FILE_ACCEL];

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/accel")
    }

    /// Reads the signals that have come since the last read: 8 bytes. Waits for one.
    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let interface = interface_of(call.cpu, self.0).ok_or(Errno::ENODEV)?;
        let take = || u64::from(interface.told.swap(0, Ordering::SeqCst));
        read_count(call, &interface.readers, how.nonblocking(), into, take)
    }

    /// Whether there are signals that the client has not read.
    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        let interface = interface_of(call.cpu, self.0);
        if_so(interface.is_some_and(|interface| interface.told.load(Ordering::SeqCst) != 0), INPUT)
    }

    fn queues<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(interface_of(cpu, self.0).map(|interface| &interface.readers), None)
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

    /// An interface is as long as it is, and as it begins.
    fn memory(self, offset: u64) -> Option<&'static InodeRecord> {
        (offset == 0).then_some(self.0)
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        fs::put(cpu, self.0);
    }
}

/// All interfaces are in use. Unless none of them is about to be freed, the thread waits until it is to look again.
fn wait_for_interface<M: Machine>(call: &Call<M>, is_one_leaving: bool, flags: u32) -> Stop {
    let (thread, now_ns) = (call.thread, call.cpu.reading_ns());
    let until_ns = &thread.scratch[0];
    let is_late = until_ns.get() != 0 && now_ns >= until_ns.get();
    if flags & O_NONBLOCK != 0 || !is_one_leaving || is_late {
        return Errno::ENOSPC.into();
    }
    if until_ns.get() == 0 {
        until_ns.set(now_ns + LOOK_NS_MAX);
    }
    thread.deadline_ns.set(now_ns + LOOK_NS);
    wait::prepare(thread);
    Stop::Block
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
    if take_refusal(cpu, fpga, interface) {
        return Err(Errno::ENXIO);
    }
    wait::prepare(thread);
    wait::enqueue(cpu, thread, &interface.waiters, 0, u32::MAX);
    clients::ask(fpga, interface, urgency(thread));
    drop(guard);
    cpu.tell_service();
    let has_come = clients::is_decided(interface);
    if has_come {
        wait::finish(cpu, thread);
    }
    Ok(!has_come)
}

/// Whether a thread waits for signals of an interface.
#[inline]
pub fn has_readers<M: Machine>(cpu: &Cpu<M>, id: InterfaceId) -> bool {
    fpga::of(cpu.pool).is_some_and(|fpga| fpga.interfaces[id.index()].readers.head.load(Ordering::Relaxed) != 0)
}

/// `ioctl` of an interface.
///
/// # Errors
/// `ENOTTY`; `EINVAL`; `EPERM`: a more urgent priority than the thread's nice gives, for who is not the superuser.
fn ioctl<M: Machine>(call: &Call<M>, pages: &InodeRecord, request: u32, argument: u64) -> SysResult {
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
