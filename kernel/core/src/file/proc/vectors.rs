//! `/proc/PID/vectors`: what a thread has in its vector registers.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_protocol::Context as _;

use super::{Text, with_thread};
use crate::{
    ability::{Room, Seen, Values},
    call::{Call, Stop, SysResult},
    cursor::Cursor,
    handover, permission,
};

/// What a look costs at most, in instructions: the longest registers are copied.
const LOOK_COST: u64 = 3_000;
/// Looks at a thread whose core is writing its values, before something else is done.
const LOOKS: usize = 16;

/// Reads from `position` on. All that one call reads is of one moment.
///
/// # Errors
/// `EACCES`: the caller may not look into the process; `ENOMEM`: there is no room to copy the values; `EFAULT`.
pub fn read<M: Machine>(call: &Call<M>, id: u32, position: u64, into: &mut Cursor<M>) -> SysResult {
    let cpu = call.cpu;
    let mut room = None;
    for _ in 0..LOOKS {
        let seen = with_thread(cpu, id, |thread, process| {
            permission::may_inspect(call.process, process, false).map_err(|_| Errno::EACCES)?;
            let own = core::ptr::eq(thread, call.thread);
            if own {
                handover::save_ext(cpu, thread);
            }
            Ok::<_, Errno>(Values::of(thread, own, room.as_ref(), cpu))
        });
        // Without a thread there is nothing to read.
        let Some(seen) = seen else { return Ok(0) };
        match seen? {
            Seen::Values(values) => {
                let mut text = Text::new(into, position);
                // An error means that the buffer is full or bad; `finish` knows which.
                let _ = values.write(room.as_ref(), &mut text);
                return text.finish();
            }
            Seen::Needs(format, bytes) => room = Some(Room::new(cpu, format, bytes).ok_or(Errno::ENOMEM)?),
            Seen::Changing => cpu.relax(),
        }
        call.serve_due(LOOK_COST);
    }
    Err(Stop::Again)
}
