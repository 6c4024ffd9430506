//! Pages of a space that several kernels keep alike come home.

use motet_hal::{Access, Machine};
use motet_layout::PAGE_SIZE;
use motet_protocol::lock::lock;

use super::{fault, kept, space_of};
use crate::call::{Call, Stop, cost};

/// Brings the pages of a range home, of which a call is going to change more than their contents.
///
/// # Errors
/// [`Stop::Page`]: one comes later; [`Stop::Again`]: something else is due.
pub fn recall<M: Machine>(call: &Call<M>, start: u64, end: u64) -> Result<(), Stop> {
    let cpu = call.cpu;
    let space = space_of(cpu, call.process);
    let Some(kept) = kept::of(cpu, space).filter(|kept| !kept::is_guest(cpu, kept)) else { return Ok(()) };
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
            match fault::serve(cpu, space, page, Access::Write) {
                // What may not be written is at least here.
                Err(Stop::Error(_)) => match fault::serve(cpu, space, page, Access::Read) {
                    Err(Stop::Error(_)) | Ok(()) => {}
                    Err(stop) => return Err(stop),
                },
                Ok(()) => {}
                Err(stop) => return Err(stop),
            }
        }
        call.serve_due(cost::PAGE);
        at = page + PAGE_SIZE;
    }
}
