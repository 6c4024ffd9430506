//! Polling for the FPGA. A store to registers of the FPGA that are not connected is a request. If nothing else is ready on its core, the core polls
//! ("looks") until the request is decided, instead of sleeping until an interrupt (docs/protocols/fpga.md).

use core::sync::atomic::Ordering;

use motet_hal::{Interrupts, Machine};
use motet_layout::{FpgaInterface, ThreadRecord};
use motet_protocol::{
    Context,
    fpga::{self as device, InterfaceId, clients},
    wait,
};

use crate::cpu::{Causes, Cpu};

/// How long a core looks by itself: longer than the longest reconfiguration of Ker-ONE's Table 5.
const LOOK_NS: u64 = 2_000_000;

/// What has come of looking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    /// The store is possible, or an error.
    Decided,
    /// Something else is to be done first.
    Due,
    /// It has been long: the thread is to sleep.
    Long,
}

/// Polls the status register until a request that [`ask_and_look`](super::fpga::ask_and_look) has made is decided. Interrupts that come meanwhile wait
/// in [`Cpu::due`]. `due_ns`: from then on something else is to be done of which no interrupt tells; `u64::MAX`: there is nothing.
pub fn look<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, id: InterfaceId, due_ns: u64) -> Looked {
    cpu.tell_service();
    let Some(device) = device::of(cpu.pool) else { return Looked::Long };
    let interface = &device.interfaces[id.index()];
    let registers = device::registers(cpu.pool, device, id);
    let until_ns = if cpu.fpga.take_looked_long() { 0 } else { cpu.now_ns() + LOOK_NS };
    let looked = loop {
        // The FPGA says it by this register, and kernels know what it means by the interface's record.
        let _status = registers.map(|registers| registers.status.load(Ordering::Acquire));
        if clients::is_decided(interface) {
            break Looked::Decided;
        }
        let now_ns = cpu.now_ns();
        if is_due(cpu, thread) || now_ns >= due_ns {
            break Looked::Due;
        }
        if now_ns >= until_ns {
            break Looked::Long;
        }
        cpu.machine.relax();
    };
    clients::look_no_longer(interface);
    wait::wake(cpu, &interface.waiters);
    looked
}

/// Whether there are signals that a guest, the client, hears. Nobody was rung for those that came while this core looked: it is as if this core were now.
pub fn take_signals<M: Machine>(cpu: &Cpu<M>, interface: &FpgaInterface) -> bool {
    let has_signals = interface.signals.load(Ordering::SeqCst) & interface.hears.load(Ordering::Acquire) != 0;
    if has_signals {
        cpu.due.set(Causes::FPGA);
        cpu.due.defer(Interrupts::DOORBELL);
    }
    has_signals
}

/// Whether this core has something else to do than to look.
fn is_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    let interrupts = cpu.machine.poll_interrupts();
    if interrupts != Interrupts::EMPTY {
        cpu.due.defer(interrupts);
    }
    // What is to be told of the FPGA comes after the look, and the budget is that of work. Of a more urgent thread an interrupt tells, or the attention word; one
    // that came home goes on at the end of the slice.
    const NOT_NOW: Causes =
        Causes::LASTING.union(Causes::FPGA).union(Causes::BUDGET).union(Causes::MOVED).union(Causes::COME);
    thread.attention.load(Ordering::Relaxed) != 0 || cpu.is_due(Causes::ALL.without(NOT_NOW))
}
