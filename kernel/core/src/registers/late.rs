//! Pages that arrive late: those of `/dev/late`, which are memory once somebody has written them. What is written and read there is
//! `kinds::late`'s.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{InodeRecord, LATE_ARRIVES, LATE_PAGES, SpaceRecord, handshake::then_look, sync::Ordering};

use crate::cpu::{AwaitedPage, Cpu};

/// Whether page `index` of such a file has arrived, for a fault on the page at `address`, whose space is locked. If it comes later, the core has
/// noted who waits for it.
///
/// # Errors
/// `ENXIO`: it never does.
pub fn has_arrived<M: Machine>(
    cpu: &Cpu<M>,
    (space, address, access): (&'static SpaceRecord, u64, Access),
    file: &'static InodeRecord,
    index: u64,
) -> Result<bool, Errno> {
    let page = 1u64.checked_shl(index as u32).filter(|_| index < LATE_PAGES).ok_or(Errno::ENXIO)?;
    let is_there = || file.late_arrived.load(Ordering::Acquire) & page != 0;
    if is_there() {
        return Ok(true);
    }
    file.late_wanted.fetch_or(page, Ordering::Relaxed);
    then_look(); // at the end, and at the page once more: who ends looks at what is wanted afterwards
    if file.late.load(Ordering::Acquire) != LATE_ARRIVES && !is_there() {
        return Err(Errno::ENXIO);
    }
    if is_there() {
        return Ok(true);
    }
    cpu.mm.await_page(AwaitedPage { space, address, access, file: cpu.pool.addr_of(file), index });
    Ok(false)
}
