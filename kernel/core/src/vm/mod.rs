//! `/dev/vm`: virtual machines (`docs/vms.md`).
//!
//! An open file of it is a virtual machine. The process that has opened the file is its monitor: it gives memory and models devices. A core of the
//! machine ([`VcpuRecord`]) runs while a thread of the monitor is in the system call `RUN`. So whatever happens to a thread (it is killed, stopped, moved,
//! made nicer) happens to the core, and the scheduler need not know guests. Between two dispatches of that call, all of a guest's state is in the pool.

mod accelerators;
mod console;
mod guest_time;
mod held;
mod memory;
mod psci;
mod quick;
mod run;
mod running;
mod sbi;
mod show;
mod stores;
mod tables;
mod vgic;

use core::fmt::{self, Write};

use motet_layout::sync::Ordering;

use motet_abi::{Errno, registers, vm as abi};
use motet_hal::{GuestInterrupts, Machine};
use motet_layout::{
    Cell64, CoreId, FILE_VM, FileRecord, InodeRecord, Isa, VCPU_START, VCPU_STARTING, VCPU_STOPPED, VCPUS_MAX,
    VcpuRecord, VmRecord, handshake::then_look, in_order,
};
use motet_protocol::{Context, lock::lock, slab, wait};

use crate::{
    call::{Call, Stop, SysResult},
    console::streams,
    cpu::Cpu,
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{INPUT, Kind, OUTPUT, Queues, Transfer, if_so, queues},
    },
    signal::{self, Origin},
    tree,
};

pub use accelerators::{fetch as fetch_page, protect as protect_registers};
pub use held::{Held, Then};
pub use quick::is_timer_alone;
pub use run::{go_on, let_go, may_go_on};
pub use show::show;

/// Opens `/dev/vm`: a new virtual machine.
///
/// # Errors
/// `ENODEV`: this core runs no guests, or not in timed machines; `ENFILE`.
pub fn open<M: Machine>(call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Errno> {
    let cpu = call.cpu;
    // Where islands do not cache each other's memory, nobody drops what they have of a guest's pages.
    if cpu.machine.guest_format().is_none() || cpu.islands.are_uncached() {
        return Err(Errno::ENODEV);
    }
    // The cores' counters know nothing of simulated time.
    if cpu.is_timed() && !cpu.machine.hides_guest_time() {
        return Err(Errno::ENODEV);
    }
    let vm = slab::alloc::<VmRecord>(cpu).ok_or(Errno::ENFILE)?;
    vm.isa.set(M::ISA as u32);
    vm.pid.set(call.process.pid.get());
    vm.user.set(call.process.credentials.users[1].get());
    vm.started_ns.set(cpu.reading_ns());
    let record = console::begin(cpu, vm)
        .and_then(|()| description::create(cpu, &Parts { kind: FILE_VM, flags, inode: None, object: cpu.raw(vm) }));
    let record = record.inspect_err(|_| free(cpu, vm))?;
    vm.file.set(cpu.raw(record));
    enlist(cpu, vm);
    Ok(record)
}

/// A virtual machine.
#[derive(Clone, Copy)]
pub struct Vm(&'static VmRecord);

impl Kind for Vm {
    const CODES: &'static [u32] = &[FILE_VM];

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/vm")
    }

    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        console::read(call, self.0, how.nonblocking(), into)
    }

    #[inline(never)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        _how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        console::write(call, self.0, from)
    }

    fn readiness<M: Machine>(self, _call: &Call<M>, _file: &FileRecord) -> u16 {
        if_so(streams::readable(&self.0.console_in), INPUT) | OUTPUT
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(&self.0.console_in.waiters), None)
    }

    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        _file: &FileRecord,
        request: (u32, u64),
        memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        ioctl(call, self.0, request, memory)
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        close(cpu, self.0);
    }
}

/// Ends a virtual machine whose file is closed. So no thread is in a call that uses it, though some may still wait to learn of its end.
fn close<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    let stays = console::stays(cpu, vm);
    // Nodes of threads that still wait must not stay linked in memory that becomes another's.
    vcpus(cpu, vm).for_each(|vcpu| {
        wait::wake(cpu, &vcpu.waiters);
    });
    wait::wake(cpu, &vm.console_in.waiters);
    memory::end(cpu, vm);
    vcpus(cpu, vm).for_each(|vcpu| slab::free(cpu, vcpu));
    if stays {
        console::leave(cpu, vm);
    } else {
        free(cpu, vm);
    }
}

fn free<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    console::end(cpu, vm);
    slab::free(cpu, vm);
}

/// Serves a ring of the host: wakes readers of consoles, and ends, as by SIGKILL, machines that the host has marked.
#[cold]
pub fn host_rang<M: Machine>(cpu: &Cpu<M>) {
    cpu.pool.header().vms_asked.swap(0, Ordering::Acquire);
    console::host_rang(cpu);
    while let Some(pid) = next_to_end(cpu) {
        let _tree = tree::lock_tree(cpu);
        if let Some(process) = tree::lookup(cpu, pid) {
            signal::send_locked(cpu, process, signal::SIGKILL, Origin::KERNEL);
        }
    }
}

fn next_to_end<M: Machine>(cpu: &Cpu<M>) -> Option<u32> {
    let header = cpu.pool.header();
    let _guard = lock(cpu, &header.vms_lock);
    let mut at = cpu.object::<VmRecord>(header.vms.get());
    while let Some(vm) = at {
        if vm.has_ended.load(Ordering::Relaxed) == 0 && vm.is_to_end.swap(0, Ordering::Acquire) != 0 {
            return Some(vm.pid.get());
        }
        at = cpu.object(vm.next.get());
    }
    None
}

fn enlist<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    let header = cpu.pool.header();
    let _guard = lock(cpu, &header.vms_lock);
    header.last_vm.set(header.last_vm.get().wrapping_add(1));
    vm.id.set(header.last_vm.get());
    vm.next.set(header.vms.get());
    in_order();
    if let Some(next) = cpu.object::<VmRecord>(vm.next.get()) {
        next.prev.set(cpu.raw(vm));
    }
    header.vms.set(cpu.raw(vm));
}

/// The list's lock is held.
fn strike_off<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    let header = cpu.pool.header();
    let link = |raw: u64, of: fn(&VmRecord) -> &Cell64, to: u64| {
        if let Some(neighbour) = cpu.object::<VmRecord>(raw) {
            of(neighbour).set(to);
        }
    };
    if header.vms.get() == cpu.raw(vm) {
        header.vms.set(vm.next.get());
    }
    link(vm.next.get(), |vm| &vm.prev, vm.prev.get());
    link(vm.prev.get(), |vm| &vm.next, vm.next.get());
}

/// Repairs the list of virtual machines, when a core has died with its lock held: the forward links say which machines there are.
pub fn recover<M: Machine>(cpu: &Cpu<M>) {
    let mut previous = 0;
    let mut at = cpu.object::<VmRecord>(cpu.pool.header().vms.get());
    while let Some(vm) = at {
        vm.prev.set(previous);
        previous = cpu.raw(vm);
        at = cpu.object(vm.next.get());
    }
}

/// `ioctl` of a virtual machine. `file_at` finds the file behind a descriptor that is to be memory, with a reference; `range`: offset and bytes.
///
/// # Errors
/// `ENODEV`: the caller is of another ISA than the machine; `ENOTTY`; `EINVAL`: there is no such core, or it is not stopped, or no such line; `EFAULT`; `ENOSPC`: it has all cores that it can have; `ENOMEM`; those of
/// [`memory::add`] and [`run::run`].
fn ioctl<M: Machine>(
    call: &Call<M>,
    vm: &'static VmRecord,
    (request, argument): (u32, u64),
    file_at: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
) -> SysResult {
    if vm.isa.get() != M::ISA as u32 {
        return Err(Errno::ENODEV.into());
    }
    match request {
        abi::MEMORY => {
            let [start, bytes, fd, offset] = read_words(call, argument)?;
            memory::add(call, vm, (start, bytes), offset, || file_at(fd as i32, (offset, bytes)))?;
            Ok(0)
        }
        abi::VCPU => Ok(make_vcpu(call, vm)?),
        abi::START => {
            let [index, start @ ..] = read_words::<_, 4>(call, argument)?;
            let vcpu = vcpu(call.cpu, vm, index).ok_or(Errno::EINVAL)?;
            if begin(call.cpu, vcpu, start) { Ok(0) } else { Err(Errno::EINVAL.into()) }
        }
        abi::RUN => run::run(call, vm, argument),
        abi::LINE => {
            let (index, is_high) = (argument & u64::from(u32::MAX), argument & abi::LINE_HIGH != 0);
            set_line(call.cpu, vm, index, is_high).then_some(0).ok_or(Errno::EINVAL.into())
        }
        _ => Err(Errno::ENOTTY.into()),
    }
}

fn read_words<M: Machine, const N: usize>(call: &Call<M>, address: u64) -> Result<[u64; N], Stop> {
    let mut words = [0; N];
    for (at, word) in (address..).step_by(8).zip(&mut words) {
        *word = call.read_user_u64(at)?;
    }
    Ok(words)
}

fn make_vcpu<M: Machine>(call: &Call<M>, vm: &'static VmRecord) -> Result<u64, Errno> {
    let cpu = call.cpu;
    let _guard = lock(cpu, &vm.space.lock);
    let index = vm.vcpu_count.load(Ordering::Relaxed);
    let cores_max = if M::ISA == Isa::AArch64 { vgic::CORES_MAX } else { VCPUS_MAX };
    let slot = vm.vcpus.get(index as usize).filter(|_| (index as usize) < cores_max).ok_or(Errno::ENOSPC)?;
    let vcpu = slab::alloc::<VcpuRecord>(cpu).ok_or(Errno::ENOMEM)?;
    vcpu.index.set(index);
    vcpu.vm.set(cpu.raw(vm));
    slot.store(cpu.raw(vcpu), Ordering::Relaxed);
    if M::ISA == Isa::AArch64 {
        vgic::set_cores(cpu, vm, index as usize + 1);
    }
    vm.vcpu_count.store(index + 1, Ordering::Release);
    Ok(u64::from(index))
}

/// A core by its number.
fn vcpu<M: Machine>(cpu: &Cpu<M>, vm: &VmRecord, index: u64) -> Option<&'static VcpuRecord> {
    let exists = index < u64::from(vm.vcpu_count.load(Ordering::Acquire)).min(VCPUS_MAX as u64);
    cpu.object(vm.vcpus.get(index as usize).filter(|_| exists)?.load(Ordering::Relaxed))
}

/// All cores of a machine.
fn vcpus<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) -> impl Iterator<Item = &'static VcpuRecord> {
    (0..).map_while(move |index| vcpu(cpu, vm, index))
}

/// Lets a core that is stopped begin. `false`: it is not stopped.
fn begin<M: Machine>(cpu: &Cpu<M>, vcpu: &'static VcpuRecord, start: [u64; 3]) -> bool {
    let claimed = vcpu.state.compare_exchange(VCPU_STOPPED, VCPU_STARTING, Ordering::SeqCst, Ordering::SeqCst);
    if claimed.is_err() {
        return false;
    }
    vcpu.start.iter().zip(start).for_each(|(word, value)| word.set(value));
    vcpu.state.store(VCPU_START, Ordering::Release);
    wait::wake(cpu, &vcpu.waiters);
    true
}

/// Registers as a core has them when it begins.
fn reset<M: Machine>(vcpu: &VcpuRecord) {
    vcpu.system.words.iter().for_each(|word| word.set(0));
    let [pc, first, second] = [0, 1, 2].map(|word: usize| vcpu.start[word].get());
    registers::init_frame(&vcpu.frame, M::ISA, pc, 0);
    registers::set_call_args(&vcpu.frame, [first, second, 0, 0, 0, 0]);
    if M::ISA == Isa::AArch64 {
        psci::reset(vcpu);
    }
    vcpu.raised.store(0, Ordering::Relaxed);
    vcpu.timer_ns.set(0);
    vcpu.awaits.set(0);
}

/// Raises interrupts of a core: it takes them before its next instruction, and no longer waits.
fn raise<M: Machine>(cpu: &Cpu<M>, vcpu: &'static VcpuRecord, interrupts: GuestInterrupts) {
    vcpu.raised.fetch_or(interrupts.0, Ordering::SeqCst);
    disturb(cpu, vcpu);
}

/// A line of a machine goes high or low. `false`: there is none of the number, which is that of [`abi::LINE`].
fn set_line<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, number: u64, is_high: bool) -> bool {
    if M::ISA == Isa::AArch64 {
        return vgic::set_line(cpu, vm, (number >> abi::LINE_INTERRUPT_SHIFT) as u32, is_high);
    }
    let Some(vcpu) = vcpu(cpu, vm, number) else { return false };
    vcpu.lines.store(if is_high { GuestInterrupts::EXTERNAL.0 } else { 0 }, Ordering::Release);
    then_look(); // where it is
    disturb(cpu, vcpu);
    true
}

/// Something that a core looks at before it executes instructions, or when it waits, has changed.
fn disturb<M: Machine>(cpu: &Cpu<M>, vcpu: &'static VcpuRecord) {
    match where_in_guest(vcpu) {
        Some(core) => cpu.ring(core),
        None => {
            wait::wake(cpu, &vcpu.waiters);
        }
    }
}

/// The core of the real machine that executes instructions of this one now.
fn where_in_guest(vcpu: &VcpuRecord) -> Option<CoreId> {
    vcpu.in_guest.load(Ordering::SeqCst).checked_sub(1).and_then(CoreId::from_raw)
}
