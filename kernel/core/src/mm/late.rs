//! Pages that arrive late: those of `/dev/late`, which are memory once somebody has written them. What is written and read there is
//! `kinds::late`'s.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{InodeRecord, LATE_ARRIVES, LATE_PAGES, SpaceRecord, handshake::then_look, sync::Ordering};

use crate::{
    call::Stop,
    cpu::{AwaitedPage, Cpu},
};

/// Whether page `index` of such a file has arrived, for a fault on the page at `address`, whose space is locked.
///
/// # Errors
/// [`Stop::Page`]: it comes later; `ENXIO`: it never does.
pub fn check_arrived<M: Machine>(
    cpu: &Cpu<M>,
    (space, address, access): (&'static SpaceRecord, u64, Access),
    file: &'static InodeRecord,
    index: u64,
) -> Result<(), Stop> {
    let page = 1u64.checked_shl(index as u32).filter(|_| index < LATE_PAGES).ok_or(Errno::ENXIO)?;
    let has_arrived = || file.late_arrived.load(Ordering::Acquire) & page != 0;
    if has_arrived() {
        return Ok(());
    }
    file.late_wanted.fetch_or(page, Ordering::Relaxed);
    then_look(); // at the end, and at the page once more: who ends looks at what is wanted afterwards
    if file.late.load(Ordering::Acquire) != LATE_ARRIVES && !has_arrived() {
        return Err(Errno::ENXIO.into());
    }
    if has_arrived() {
        return Ok(());
    }
    cpu.mm.await_page(AwaitedPage { space, address, access, file: cpu.pool.addr_of(file), index });
    Err(Stop::Page)
}
