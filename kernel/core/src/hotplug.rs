//! Hot removal: requests to take cores, and hidden harts, out of use at run time, and to bring them back. `life::removed` has what the core does then.
//!
//! Protocol page: `docs/protocols/hotplug.md`.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{CoreId, ISLAND_JOINED, IslandId, ones};
use motet_protocol::{Context, hotplug, wait};

use crate::{
    alarm,
    call::{Call, SysResult},
    cpu::Cpu,
    tree,
};

/// Takes a core out of use, or brings it back; waits until that is done.
///
/// # Errors
/// `EBUSY`: it is the last one of its island; `EOPNOTSUPP`: machines with links that are not coherent, and those that call as Flick does, look
/// for calls on cores that they do not ask; `EIO`: its island has died; `EINTR`: a signal came first (it is done nevertheless).
pub fn set_online<M: Machine>(call: &Call<M>, core: CoreId, online: bool) -> SysResult {
    let cpu = call.cpu;
    if cpu.islands.are_uncached() || cpu.crossing.migrates() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if !call.has_waited() {
        let _tree = tree::lock_tree(cpu);
        let is_alive = cpu.pool.header().islands[core.island().index()].state.load(Ordering::Acquire) == ISLAND_JOINED;
        match online {
            true if !is_alive => return Err(Errno::EIO.into()),
            true => hotplug::ask_back(cpu, core),
            false if is_alive => hotplug::ask_to_leave(cpu, core).map_err(|_| Errno::EBUSY)?,
            false => return Ok(0),
        }
        if core == cpu.id {
            // If the caller's core has other threads, the next one is interrupted.
            alarm::set_timer(cpu, cpu.now_ns());
        } else {
            cpu.ring(core);
        }
    }
    call.wait_for(&cpu.pool.header().core_waiters, || Ok(hotplug::is_done(cpu, core).then_some(0)))
}

/// Takes a hidden hart of an island out of use, or has it back; waits until that is done. Its thread comes home, and goes to another one.
///
/// # Errors
/// `EBUSY`: it is the last one of its island; `EIO`: the island has died, or the firmware has lost the hart; `EINTR`.
pub fn set_hidden_online<M: Machine>(call: &Call<M>, island: IslandId, number: usize, online: bool) -> SysResult {
    let cpu = call.cpu;
    let record = &cpu.pool.header().islands[island.index()];
    let bit = 1 << number;
    let wanted = if online { 0 } else { bit };
    if !call.has_waited() {
        let _tree = tree::lock_tree(cpu);
        if record.state.load(Ordering::Acquire) != ISLAND_JOINED {
            return Err(Errno::EIO.into());
        }
        let leave = record.hidden_leave.load(Ordering::Relaxed) & !bit | wanted;
        if u64::from(leave) == (1 << record.hidden_harts.get()) - 1 {
            return Err(Errno::EBUSY.into());
        }
        record.hidden_leave.store(leave, Ordering::Release);
    }
    let first = CoreId::new(island, 0);
    if first == cpu.id {
        see_to_hidden_harts(cpu);
    } else if !call.has_waited() {
        cpu.ring(first);
    }
    call.wait_for(&cpu.pool.header().core_waiters, || {
        let (leave, out) = (record.hidden_leave.load(Ordering::SeqCst), record.hidden_out.load(Ordering::SeqCst));
        match (leave ^ out) & bit {
            0 if leave & bit == wanted => Ok(Some(0)),
            0 => Err(Errno::EIO.into()),
            _ => Ok(None),
        }
    })
}

/// The first core of an island was rung: the firmware takes hidden harts out of use, or has them back, as somebody may have asked.
#[cold]
pub fn see_to_hidden_harts<M: Machine>(cpu: &Cpu<M>) {
    let record = cpu.island_record();
    let out = record.hidden_out.load(Ordering::Relaxed);
    let leave = record.hidden_leave.load(Ordering::SeqCst);
    if leave == out {
        return;
    }
    for number in ones(u64::from(leave ^ out)) {
        if cpu.machine.employ_hidden(number, leave >> number & 1 == 0) {
            record.hidden_out.fetch_xor(1 << number, Ordering::SeqCst);
        } else {
            record.hidden_leave.fetch_xor(1 << number, Ordering::SeqCst);
        }
    }
    wait::wake(cpu, &cpu.pool.header().core_waiters);
}

/// Whether this core has been asked to leave.
#[inline(always)]
pub fn is_asked<M: Machine>(cpu: &Cpu<M>) -> bool {
    hotplug::is_asked(cpu)
}
