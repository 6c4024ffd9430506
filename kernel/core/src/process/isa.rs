//! System calls that only one instruction set has.

use motet_abi::{Errno, registers, system};
use motet_hal::Machine;
use motet_layout::{Isa, USER_END};
use motet_protocol::run_queue;

use super::cores::read_core_set;
use crate::{
    ability,
    call::{Call, SysResult},
    mm,
};

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
/// Where a frame has the base address of GS.
const GS_BASE: usize = 17;

/// `arch_prctl(operation, address)` of x86-64.
pub fn arch_prctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [operation, address, ..] = call.args;
    if call.isa != Isa::X86_64 {
        return Err(Errno::ENOSYS.into());
    }
    match operation {
        ARCH_SET_FS | ARCH_SET_GS if address >= USER_END => Err(Errno::EPERM.into()),
        ARCH_SET_FS => {
            registers::set_tls(&call.thread.frame, address);
            Ok(0)
        }
        ARCH_SET_GS => {
            call.thread.frame.regs[GS_BASE].set(address);
            Ok(0)
        }
        ARCH_GET_FS => {
            call.write_user(address, &registers::tls(&call.thread.frame).to_le_bytes())?;
            Ok(0)
        }
        ARCH_GET_GS => {
            call.write_user(address, &call.thread.frame.regs[GS_BASE].get().to_le_bytes())?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `riscv_flush_icache(start, end, flags)`: makes the caller's code visible to its own fetches.
pub fn riscv_flush_icache<M: Machine>(call: &Call<M>) -> SysResult {
    let [start, end, ..] = call.args;
    if end < start {
        return Err(Errno::EINVAL.into());
    }
    mm::sync(call, mm::space_of(call.cpu, call.process), start, end)?;
    Ok(0)
}

/// `riscv_hwprobe(pairs, count, cpu_count, cpus, flags)`: what all of the cores in a set have; an empty set: all on which the caller
/// may run.
///
/// # Errors
/// `EINVAL`: flags, or a set without a core of the ISA; `EFAULT`; `ENOSYS` on other ISAs.
pub fn riscv_hwprobe<M: Machine>(call: &Call<M>) -> SysResult {
    let [pairs, count, set_len, set_at, flags, _] = call.args;
    if call.isa != Isa::RiscV64 {
        return Err(Errno::ENOSYS.into());
    }
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let cores = if set_at == 0 { run_queue::cores_of(call.thread) } else { read_core_set(call, set_len, set_at)? };
    let Some(extensions) = ability::hwprobe(call.cpu, cores) else { return Err(Errno::EINVAL.into()) };
    for index in 0..count.min(64) {
        let at = pairs.wrapping_add(16 * index);
        let key = call.read_user_u64(at)? as i64;
        let (key, value) = match system::riscv_hwprobe(key, extensions) {
            Some(value) => (key, value),
            None => (-1, 0),
        };
        call.write_user(at, &key.to_le_bytes())?;
        call.write_user(at + 8, &value.to_le_bytes())?;
    }
    Ok(0)
}
