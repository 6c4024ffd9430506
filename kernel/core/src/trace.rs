//! The core's trace: which thread runs, and who wakes whom. Without rings from the host it is off, and costs one test of a word per event.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{CoreId, ProcessRecord, ThreadRecord, TraceRing, VcpuRecord, VmRecord};
use motet_protocol::{
    Context,
    trace::{End, Event, Kind, put},
};

use crate::cpu::Cpu;

/// `thread` begins to run, perhaps another program than before.
#[inline(always)]
pub fn run<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &ProcessRecord) {
    if let Some(ring) = cpu.tracer.ring() {
        cpu.tracer.begin(cpu.raw(thread), thread.tid.get());
        let name = core::array::from_fn(|index| thread.name[index].load(Ordering::Relaxed));
        write(cpu, ring, Kind::Run, [thread.tid.get(), process.pid.get(), 0], name);
    }
}

/// The thread that ran has left the core.
#[inline(always)]
pub fn stop<M: Machine>(cpu: &Cpu<M>) {
    if let Some(ring) = cpu.tracer.ring()
        && let Some((tid, end)) = cpu.tracer.stop()
    {
        write(cpu, ring, Kind::Stop, [tid, 0, end as u32], [0; 16]);
    }
}

/// `target` is about to get a thread, which is a new one or the one that runs here.
#[inline(always)]
pub fn start<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    if cpu.tracer.ring().is_some() {
        let moves = cpu.tracer.is_running(cpu.raw(thread));
        if moves {
            cpu.tracer.will_end(End::Moved);
        }
        hand_over(cpu, if moves { Kind::Move } else { Kind::Start }, thread, target);
    }
}

/// `target` is about to get a thread.
#[inline(always)]
pub fn hand_over<M: Machine>(cpu: &Cpu<M>, kind: Kind, thread: &ThreadRecord, target: CoreId) {
    if let Some(ring) = cpu.tracer.ring() {
        write(cpu, ring, kind, [thread.tid.get(), 0, u32::from(target.0)], [0; 16]);
    }
}

/// The thread that runs here begins to run a core of a virtual machine ([`Kind::Guest`]), or ceases to ([`Kind::GuestStop`]).
#[inline(always)]
pub fn guest<M: Machine>(cpu: &Cpu<M>, kind: Kind, thread: &ThreadRecord, vm: &VmRecord, vcpu: &VcpuRecord) {
    if let Some(ring) = cpu.tracer.guests() {
        write(cpu, ring, kind, [thread.tid.get(), vm.id.get(), vcpu.index.get()], [0; 16]);
    }
}

/// Something about a core.
#[inline(always)]
pub fn about_core<M: Machine>(cpu: &Cpu<M>, kind: Kind, core: CoreId) {
    if let Some(ring) = cpu.tracer.ring() {
        write(cpu, ring, kind, [0, 0, u32::from(core.0)], [0; 16]);
    }
}

/// Nothing is traced after the command's end: how far the cores still come depends on the host.
#[cold]
fn write<M: Machine>(cpu: &Cpu<M>, ring: &'static TraceRing, kind: Kind, words: [u32; 3], name: [u8; 16]) {
    if cpu.pool.header().exit.load(Ordering::Relaxed) == 0 {
        let [tid, pid, detail] = words;
        put(cpu.pool, ring, &Event { time_ns: cpu.now_ns(), kind, tid, pid, detail, name });
    }
}
