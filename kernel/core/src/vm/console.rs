//! A virtual machine's console, as the host sees it (`motet vm console`): it is the file of the machine.
//!
//! The kernel keeps the last bytes that the monitor has written to the file, for the host to show. The monitor reads from the file what the host has typed.
//! Beside that, the monitor has its own standard input and output. The host uses a machine's record as long as `is_attached` says so: the record of
//! a machine that has ended stays until then, so that its last output is not lost.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Frame, HostStream, PAGE_SIZE, VmRecord, sync::Ordering};
use motet_protocol::{
    Context,
    lock::lock,
    memory::{alloc_common_frame, release_frame},
    stream, wait,
};

use crate::{
    call::{Call, Stop, SysResult, cost},
    console::streams,
    cpu::Cpu,
    cursor::Cursor,
};

/// Most bytes that are moved at once.
const PIECE: usize = 512;

fn streams(vm: &'static VmRecord) -> [&'static HostStream; 2] {
    [&vm.console_out, &vm.console_in]
}

/// A new machine's console: a frame for each direction.
///
/// # Errors
/// `ENFILE`: memory is exhausted.
pub fn begin<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) -> Result<(), Errno> {
    for stream in streams(vm) {
        let frame = alloc_common_frame(cpu).ok_or(Errno::ENFILE)?;
        stream.data.set(frame.addr().0);
        stream.capacity.set(PAGE_SIZE);
    }
    Ok(())
}

/// Gives back what [`begin`] has taken.
pub fn end<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    for stream in streams(vm) {
        if stream.capacity.get() != 0 {
            release_frame(cpu, Frame((stream.data.get() / PAGE_SIZE) as u32));
        }
    }
}

/// Reads what the host has typed.
pub fn read<M: Machine>(call: &Call<M>, vm: &'static VmRecord, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
    streams::read_stream(call, &vm.console_in, nonblocking, into)
}

/// Writes bytes for the host to show. The monitor never waits for that.
pub fn write<M: Machine>(call: &Call<M>, vm: &'static VmRecord, from: &mut Cursor<M>) -> SysResult {
    from.resume(call.thread.progress.get())?;
    let mut bytes = [0; PIECE];
    while from.remaining() > 0 {
        let len = match from.read(&mut bytes) {
            Ok(len) => len,
            Err(_) if from.done() > 0 => break,
            Err(stop) => return Err(stop),
        };
        streams::ring_host_if(call.cpu, stream::record(call.cpu, &vm.console_out, &bytes[..len]));
        if from.remaining() > 0 && call.pauses(cost::PAGE + cost::bytes(len as u64)) {
            call.thread.progress.set(from.done());
            return Err(Stop::Again);
        }
    }
    Ok(from.done())
}

/// [`VmRecord::has_ended`]: it is in the list, and nobody but its end and the host uses it; and nobody but the host.
const ENDS: u32 = 1;
const HAS_ENDED: u32 = 2;

/// Removes a machine that ends from the list. `true`: the host uses its console, so its record [stays](leave).
pub fn stays<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) -> bool {
    let _guard = lock(cpu, &cpu.pool.header().vms_lock);
    let stays = vm.is_attached.load(Ordering::Acquire) != 0;
    if stays {
        vm.has_ended.store(ENDS, Ordering::Release);
    } else {
        super::strike_off(cpu, vm);
    }
    stays
}

/// Leaves the record of a machine that has ended to the host, which takes the last output and then rings ([stays]).
pub fn leave<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    {
        let _guard = lock(cpu, &cpu.pool.header().vms_lock);
        vm.has_ended.store(HAS_ENDED, Ordering::Release);
    }
    cpu.machine.ring_host();
    // It may have done so before.
    host_rang(cpu);
}

/// Serves a ring of the host: something was typed, or the host has left the console of a machine that has ended.
pub fn host_rang<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    let mut left = 0;
    {
        let _guard = lock(cpu, &header.vms_lock);
        let mut at = cpu.object::<VmRecord>(header.vms.get());
        while let Some(vm) = at {
            at = cpu.object(vm.next.get());
            if vm.has_ended.load(Ordering::Relaxed) == 0 {
                if wait::has_any([&vm.console_in.waiters]) && stream::readable(&vm.console_in) {
                    wait::wake(cpu, &vm.console_in.waiters);
                }
            } else if vm.has_ended.load(Ordering::Relaxed) == HAS_ENDED && vm.is_attached.load(Ordering::Acquire) == 0 {
                super::strike_off(cpu, vm);
                vm.next.set(left);
                left = cpu.raw(vm);
            }
        }
    }
    while let Some(vm) = cpu.object::<VmRecord>(left) {
        left = vm.next.get();
        super::free(cpu, vm);
    }
}
