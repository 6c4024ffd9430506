//! Page faults: from user code and from the kernel's own use of user memory. What a fault enters is `entry`'s; stores to registers of the FPGA have a short way.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{Fpga, PAGE_SIZE, SpaceRecord, ThreadRecord, VMA_EXECUTE, VMA_READ, VMA_WRITE, sync::AtomicU64};
use motet_protocol::{
    Context, count,
    fpga::{self as device, InterfaceId, clients},
    lock::lock,
    residency,
};

use super::{entry, kept, vma};
use crate::{call::Stop, cpu::Cpu, registers::fpga};

/// Makes the page at `address` usable for `access` on this island.
///
/// # Errors
/// `EFAULT` when the space does not allow it; `ENXIO` beyond the last page of the file that is mapped there, `ENOSPC` when there is no
/// room for a page of it; `ENOMEM`; [`Stop::Page`]: it comes later, and nothing has changed.
pub fn serve<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64, access: Access) -> Result<(), Stop> {
    let _guard = lock(cpu, &space.lock);
    count(&cpu.counters().page_faults);
    let kept = kept::of(cpu, space);
    let vma = vma::find(cpu, space, address);
    if let Some(kept) = kept.filter(|kept| vma.is_none() && kept::is_remote(cpu, kept)) {
        return Err(kept::ask(cpu, (space, kept), address, access));
    }
    let vma = vma
        .or_else(|| entry::find_or_grow(cpu, space, address))
        .filter(|vma| vma.flags.get() & needed(access) != 0)
        .ok_or(Errno::EFAULT)?;
    if let Some(kept) = kept {
        kept::prepare(cpu, (space, kept), vma, address, access)?;
    }
    entry::enter(cpu, space, vma, address, access)
}

/// What has come of a store that may be one to registers of the FPGA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToRegisters {
    /// It is possible now.
    Possible,
    /// It is a request, and this core looks what becomes of it.
    Asked(InterfaceId),
    /// It is another fault, or has to be looked at for longer.
    Unknown,
}

/// As [`serve`] for a store to registers of the FPGA which this core has mapped, if they are connected or can be connected at once. This is all that
/// an allocation without reconfiguration needs, so it has to be short. `asks`: the thread, if the store is to be a request otherwise.
#[inline]
pub fn serve_store_to_registers<M: Machine>(
    cpu: &Cpu<M>,
    asks: Option<&ThreadRecord>,
    space: &SpaceRecord,
    address: u64,
) -> ToRegisters {
    match device::of(cpu.pool) {
        Some(device) => store_to_registers::<M, false>(cpu, device, asks, space, address),
        None => ToRegisters::Unknown,
    }
}

/// As [`serve_store_to_registers`], in a machine with that FPGA. `QUICK`: for the way that is served while registers stay in the core, which has all of this code in its own, in one
/// piece.
#[inline(always)]
pub fn store_to_registers<M: Machine, const QUICK: bool>(
    cpu: &Cpu<M>,
    device: &Fpga,
    asks: Option<&ThreadRecord>,
    space: &SpaceRecord,
    address: u64,
) -> ToRegisters {
    let _guard = lock(cpu, &space.lock);
    let page = address & !(PAGE_SIZE - 1);
    let Some((id, entry)) = fpga::granted(cpu, space, page).or_else(|| grant_again(cpu, space, page)) else {
        return ToRegisters::Unknown;
    };
    let mut asked = ToRegisters::Unknown;
    let is_possible = residency::allow_stores(cpu, page, entry, || {
        if clients::may_write(device, id) {
            return true;
        }
        asked = ask(cpu, device, asks, id);
        false
    });
    if is_possible { ToRegisters::Possible } else { asked }
}

/// The store is to be a request of a thread's.
#[inline(never)]
fn ask<M: Machine>(cpu: &Cpu<M>, device: &Fpga, asks: Option<&ThreadRecord>, id: InterfaceId) -> ToRegisters {
    match asks {
        Some(thread) if fpga::ask_and_look(cpu, device, thread, id) => ToRegisters::Asked(id),
        Some(_) | None => ToRegisters::Unknown,
    }
}

/// No grant is known, since VMAs of registers have changed, or pages were unmapped: looks whether they may be mapped writably.
#[inline(never)]
fn grant_again<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64) -> Option<(InterfaceId, &'static AtomicU64)> {
    let (entry, frame) = residency::entry_of(cpu, space, page)?;
    let has = fpga::interface_of_frame(cpu, frame)?;
    let vma = vma::find(cpu, space, page).filter(|vma| vma.flags.get() & VMA_WRITE != 0)?;
    let id = fpga::registers_at(cpu, vma, page).filter(|id| *id == has)?;
    fpga::grant(cpu, space, page, id, entry);
    Some((id, entry))
}

/// Whether this error of [`serve`] means that a mapped file does not have the page, which is a `SIGBUS`.
pub fn lacks_page(errno: Errno) -> bool {
    matches!(errno, Errno::ENXIO | Errno::ENOSPC)
}

fn needed(access: Access) -> u32 {
    match access {
        Access::Read => VMA_READ | VMA_WRITE | VMA_EXECUTE,
        Access::Write => VMA_WRITE,
        Access::Execute => VMA_EXECUTE,
    }
}
