//! Cores as programs see them: which ones a thread may run on, and on which one it does.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, registers};
use motet_hal::Machine;
use motet_layout::{CORES_MAX, CoreId};
use motet_protocol::run_queue;

use super::ids::thread_named;
use crate::{
    ability,
    call::{Call, Stop, SysResult},
    handover, permission,
    tree::{lock_tree, process_of},
};

/// `sched_getaffinity(tid, size, mask)`.
pub fn sched_getaffinity<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, size, at, ..] = call.args;
    let len = (CORES_MAX / 8) as u64;
    if size < len || size % 8 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let _tree = lock_tree(call.cpu);
    let thread = thread_named(call, tid)?;
    let mut bytes = [0; CORES_MAX / 8];
    for core in (0..CORES_MAX as u32).filter_map(CoreId::from_raw) {
        if run_queue::is_online(call.cpu, core) && run_queue::allowed(ability::affinity(thread), core) {
            bytes[core.index() / 8] |= 1 << (core.index() % 8);
        }
    }
    call.write_user(at, &bytes)?;
    Ok(len)
}

/// `sched_setaffinity(tid, size, mask)`: moves the caller at once if it must; another thread, when it is placed next.
///
/// # Errors
/// `EINVAL`: no core of the thread's instruction set; `EFAULT`, `ESRCH`, `EPERM`.
pub fn sched_setaffinity<M: Machine>(call: &Call<M>) -> SysResult {
    let [tid, size, at, ..] = call.args;
    let mask = read_core_set(call, size, at)?;
    let target = {
        let _tree = lock_tree(call.cpu);
        let thread = thread_named(call, tid)?;
        permission::may_change(call.process, process_of(call.cpu, thread))?;
        let last = CoreId::from_raw(thread.core.load(Ordering::Relaxed)).unwrap_or(call.cpu.id);
        // A core of another instruction set cannot run its code. Without any core that has what it needs, the affinity holds from when it
        // needs that no more.
        let target = ability::core_for(call.cpu, thread, last, mask).ok_or(Errno::EINVAL)?;
        thread.affinity[0].store(mask[0], Ordering::Relaxed);
        thread.affinity[1].store(mask[1], Ordering::Relaxed);
        (core::ptr::eq(thread, call.thread) && !run_queue::allowed(run_queue::cores_within(mask, thread), call.cpu.id))
            .then_some(target)
    };
    match target {
        None => Ok(0),
        Some(target) => {
            registers::set_result(&call.thread.frame, 0);
            handover::leave_for(call.cpu, call.thread, target);
            Err(Stop::Gone)
        }
    }
}

/// `getcpu(cpu, node)`: the node is the island.
pub fn getcpu<M: Machine>(call: &Call<M>) -> SysResult {
    for (at, value) in [(call.args[0], u32::from(call.cpu.id.0)), (call.args[1], u32::from(call.cpu.island().0))] {
        if at != 0 {
            call.write_user(at, &value.to_le_bytes())?;
        }
    }
    Ok(0)
}

/// A set of cores in user memory, `len` bytes of it.
pub fn read_core_set<M: Machine>(call: &Call<M>, len: u64, at: u64) -> Result<[u64; 2], Stop> {
    let mut bytes = [0; CORES_MAX / 8];
    let len = (len as usize).min(bytes.len());
    call.read_user(at, &mut bytes[..len])?;
    Ok([0, 1].map(|n: usize| u64::from_le_bytes(core::array::from_fn(|byte| bytes[8 * n + byte]))))
}
