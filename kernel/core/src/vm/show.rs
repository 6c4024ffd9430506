//! `/proc/vms`: the virtual machines.

use core::fmt::{Result, Write};

use motet_layout::sync::Ordering;

use motet_hal::Machine;
use motet_layout::{VM_EXITS, VmRecord};
use motet_protocol::{Context, lock::lock};

use super::tables;
use crate::cpu::Cpu;

/// Names of what is counted, in the order of `Counted`.
const EXITS: [&str; VM_EXITS] = ["INTR", "CALL", "MEM", "DEV", "REG", "WAIT", "TURN", "STORE", "MONITOR", "REFUSED"];

/// What is shown of a machine.
struct Summary {
    id: u32,
    pid: u32,
    user: u32,
    vcpus: u32,
    bytes: u64,
    resident: u32,
    ran_ns: u64,
    exits: [u64; VM_EXITS],
}

/// Writes a line for each machine.
pub fn show<M: Machine>(cpu: &Cpu<M>, out: &mut impl Write) -> Result {
    let [id, pid, user, vcpus, memory, used, time] = ["ID", "PID", "USER", "VCPUS", "MEM_KIB", "USED_KIB", "TIME_MS"];
    write!(out, "{id:>4} {pid:>6} {user:>6} {vcpus:>5} {memory:>9} {used:>9} {time:>9}")?;
    for name in EXITS {
        write!(out, " {name:>9}")?;
    }
    writeln!(out)?;
    let mut after = 0;
    while let Some(vm) = next(cpu, after) {
        after = vm.id;
        let (bytes, used) = (vm.bytes >> 10, u64::from(vm.resident) << 2);
        write!(out, "{:>4} {:>6} {:>6} {:>5} {bytes:>9} {used:>9}", vm.id, vm.pid, vm.user, vm.vcpus)?;
        write!(out, " {:>9}", vm.ran_ns / 1_000_000)?;
        for count in vm.exits {
            write!(out, " {count:>9}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The machine with the lowest number above `after`.
fn next<M: Machine>(cpu: &Cpu<M>, after: u32) -> Option<Summary> {
    let header = cpu.pool.header();
    let _guard = lock(cpu, &header.vms_lock);
    let mut found: Option<&VmRecord> = None;
    let mut at = cpu.object::<VmRecord>(header.vms.get());
    while let Some(vm) = at {
        let is_later = vm.id.get() > after && vm.has_ended.load(Ordering::Relaxed) == 0;
        if is_later && found.is_none_or(|found| vm.id.get() < found.id.get()) {
            found = Some(vm);
        }
        at = cpu.object(vm.next.get());
    }
    found.map(|vm| Summary {
        id: vm.id.get(),
        pid: vm.pid.get(),
        user: vm.user.get(),
        vcpus: vm.vcpu_count.load(Ordering::Relaxed),
        bytes: tables::bytes(vm),
        resident: vm.space.resident.load(Ordering::Relaxed),
        ran_ns: vm.ran_ns.load(Ordering::Relaxed),
        exits: core::array::from_fn(|kind| vm.exits[kind].load(Ordering::Relaxed)),
    })
}
