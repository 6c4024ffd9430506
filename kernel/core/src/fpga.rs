//! The kernel's work for the FPGA (`docs/protocols/fpga.md`): making registers read-only, finding pages of guests, and signalling clients. `kinds::accel`
//! has what clients do.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{FpgaInterface, InodeRecord, SpaceRecord, ThreadRecord};
use motet_protocol::{
    Context,
    fpga::{self, InterfaceId, clients, guest},
    lock::lock,
    wait,
};

use crate::{
    cpu::{Causes, Cpu},
    mm,
    registers::fpga::urgency,
    tree, vm,
};

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
        cpu.due.set(Causes::FPGA);
    } else {
        serve(cpu);
    }
}

/// Does what has waited for a more urgent thread.
#[inline(always)]
pub fn catch_up<M: Machine>(cpu: &Cpu<M>) {
    if cpu.due.take(Causes::FPGA) {
        serve(cpu);
    }
}

/// Does what the FPGA wants, whoever runs here.
#[cold]
pub fn serve<M: Machine>(cpu: &Cpu<M>) {
    if fpga::of(cpu.pool).is_some_and(clients::is_answered) {
        take_answered(cpu);
    }
}

/// A core has died: it may have begun to do what the FPGA wants of kernels. All of that is done (again).
pub fn settle<M: Machine>(cpu: &Cpu<M>) {
    if let Some(fpga) = fpga::of(cpu.pool) {
        clients::forget_lookers(fpga, |interface| {
            wait::wake(cpu, &interface.waiters);
        });
        clients::answer_again(fpga);
    }
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
        let _tree = tree::lock_tree(cpu);
        tree::for_each(cpu, |process| {
            if let Some(space) = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed)) {
                mm::protect_file_pages(cpu, space, inode, &(0..1));
            }
        });
    }
}
