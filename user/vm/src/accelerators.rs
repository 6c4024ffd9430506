//! Accelerators of the FPGA for a virtual machine: their interfaces are pieces of the machine's memory (docs/protocols/fpga.md).
//!
//! If an accelerator's INT_CTRL asks for interrupts, the kernel sends a signal when a job is over, even if the registers are not connected any more. A
//! thread of the monitor waits for the signal, and pulses the interrupt line. So there is one interrupt for each job, and taking it acknowledges it.

use core::{
    ops::Range,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use alloc::{format, string::String};

use motet_abi::accel;
use motet_calls::system::{self, Failure, machine};
use motet_vm::{aarch64, board};

use crate::{interrupts, monitor::IS_AARCH64, with_path};

const ENOENT: Failure = -2;
const ENOSPC: Failure = -28;

/// The first accelerator's interrupt.
const FIRST_INTERRUPT: usize = if IS_AARCH64 { aarch64::ACCELERATOR_INTERRUPT } else { board::ACCELERATOR_SOURCE };

/// The open files, by accelerator.
static DEVICES: [AtomicI32; board::ACCELERATORS.len()] = [const { AtomicI32::new(-1) }; board::ACCELERATORS.len()];

/// Gives a machine an accelerator of the board. `deadline_us`: the time after a request within which the machine wants it; 0: none. Returns where the
/// interface is.
///
/// # Errors
/// The step that has failed.
pub fn add(machine_file: i32, index: usize, deadline_us: u64) -> Result<Range<u64>, String> {
    let name = board::ACCELERATORS[index];
    let cannot = |failure: Failure| match failure {
        ENOENT => format!("this machine has no accelerator {name}"),
        ENOSPC => format!("no interface is left for {name}"),
        _ => format!("the accelerator {name} cannot be used (error {})", -failure),
    };
    let device = with_path(format!("/dev/accel/{name}").as_bytes(), system::open).map_err(cannot)?;
    // The guest sees all other events in the registers.
    machine::command(device, accel::SET_SIGNALS, accel::signal::OVER).map_err(cannot)?;
    machine::command(device, accel::SET_DEADLINE, deadline_us).map_err(cannot)?;
    let bytes = machine::command(device, accel::BYTES, 0).map_err(cannot)? as u64;
    // Of a longer interface, the machine gets the first part.
    let bytes = bytes.min(board::ACCELERATOR_BYTES);
    let start = board::ACCELERATOR + index as u64 * board::ACCELERATOR_BYTES;
    machine::control(machine_file, motet_abi::vm::MEMORY, &mut [start, bytes, device as u64, 0]).map_err(cannot)?;
    DEVICES[index].store(device, Relaxed);
    machine::spawn(watch, index).map_err(|_| format!("there is no thread for the accelerator {name}"))?;
    Ok(start..start + bytes)
}

/// The thread that waits until an accelerator is over.
extern "C" fn watch(index: usize) -> ! {
    let device = DEVICES[index].load(Relaxed);
    loop {
        let mut signals = [0; 8];
        match system::read(device, &mut signals) {
            Ok(8) if u64::from_le_bytes(signals) & accel::signal::OVER != 0 => {
                interrupts::pulse(FIRST_INTERRUPT + index);
            }
            _ => {}
        }
    }
}
