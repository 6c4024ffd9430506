//! Pages of a space that several kernels keep alike come home.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{KeptRecord, PAGE_SIZE, SpaceRecord};
use motet_protocol::lock::lock;

use super::{fault, kept, space_of};
use crate::call::{BUDGET, Call, Stop, cost};

/// Brings the pages of a range home, of which a call is going to change more than their contents.
///
/// # Errors
/// [`Stop::Page`], [`Stop::Again`]: one comes later; `ENOMEM`.
pub fn recall<M: Machine>(call: &Call<M>, start: u64, end: u64) -> Result<(), Stop> {
    let cpu = call.cpu;
    let space = space_of(cpu, call.process);
    let Some(kept) = kept::of(cpu, space).filter(|kept| !kept::is_remote(cpu, kept)) else { return Ok(()) };
    let mut at = start;
    loop {
        let page = {
            let _guard = lock(cpu, &space.lock);
            kept::next_known(cpu, kept, at, end)
        };
        let Some(page) = page else { return Ok(()) };
        let is_elsewhere = {
            let _guard = lock(cpu, &space.lock);
            kept::is_elsewhere(cpu, kept, page)
        };
        if is_elsewhere {
            bring(call, (space, kept), page)?;
        }
        call.serve_due(cost::PAGE);
        at = page + PAGE_SIZE;
    }
}

/// Brings a page home, as far as its range allows: to be written, or at least read. Of a range that allows no access, too.
fn bring<M: Machine>(
    call: &Call<M>,
    (space, kept): (&'static SpaceRecord, &'static KeptRecord),
    page: u64,
) -> Result<(), Stop> {
    let cpu = call.cpu;
    for access in [Access::Write, Access::Read] {
        match fault::serve(cpu, space, page, access) {
            Err(Stop::Error(Errno::EFAULT)) => {}
            // It is lost, or its file is cut: the call finds out.
            Err(Stop::Error(errno)) if fault::lacks_page(errno) => return Ok(()),
            result => return result,
        }
    }
    let begun = {
        let _guard = lock(cpu, &space.lock);
        kept::begin_recall(cpu, (space, kept), page)
    };
    if begun == Err(Stop::Again) { Err(later(call)) } else { begun }
}

/// What a call waits for comes by a message: it looks for that, and goes on.
pub fn later<M: Machine>(call: &Call<M>) -> Stop {
    let _is_due = call.pauses(BUDGET);
    Stop::Again
}
