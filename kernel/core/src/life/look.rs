//! Polling for the FPGA. A store to registers of the FPGA that are not connected is a request. If nothing else is ready on its core, the core polls
//! ("looks") until the request is decided, instead of sleeping until an interrupt (docs/protocols/fpga.md).

use core::sync::atomic::Ordering;

use motet_hal::{Interrupts, Machine};
use motet_layout::ThreadRecord;
use motet_protocol::{
    Context,
    fpga::{self as device, InterfaceId, clients},
    run_queue, shootdown, wait,
};

use crate::{cpu::Cpu, fpga, hotplug};

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

/// Polls the status register until a request that `registers::fpga::ask_and_look` has made is decided. Interrupts that come meanwhile wait in
/// [`Cpu::due`].
pub fn look<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, id: InterfaceId) -> Looked {
    cpu.tell_service();
    let Some(device) = device::of(cpu.pool) else { return Looked::Long };
    let interface = &device.interfaces[id.index()];
    let registers = device::registers(cpu.pool, device, id);
    let until_ns = cpu.now_ns() + LOOK_NS;
    let looked = loop {
        // The FPGA says it by this register, and kernels know what it means by the interface's record.
        let _status = registers.map(|registers| registers.status.load(Ordering::Acquire));
        if clients::is_decided(interface) {
            break Looked::Decided;
        }
        if is_due(cpu, thread) {
            break Looked::Due;
        }
        if cpu.now_ns() >= until_ns {
            break Looked::Long;
        }
        cpu.machine.relax();
    };
    clients::look_no_longer(interface);
    wait::wake(cpu, &interface.waiters);
    if interface.readers.head.load(Ordering::Relaxed) != 0 {
        fpga::serve(cpu);
    }
    looked
}

/// Whether this core has something else to do than to look.
fn is_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    let interrupts = cpu.machine.poll_interrupts();
    if interrupts != Interrupts::EMPTY {
        cpu.due.defer(interrupts);
    }
    cpu.due.has_deferred()
        || thread.attention.load(Ordering::Relaxed) != 0
        || run_queue::has_ready(cpu.own)
        || shootdown::is_asked(cpu)
        || hotplug::is_asked(cpu)
}
