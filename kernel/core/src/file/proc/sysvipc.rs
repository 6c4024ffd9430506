//! `/proc/sysvipc`: lists of segments, sets of semaphores and queues of messages.

use core::fmt::{Result, Write};

use motet_hal::Machine;
use motet_protocol::ipc::Kind;

use super::{Entry as E, text::Text};
use crate::{call::cost, cpu::Cpu, ipc};

/// A line for each object.
pub fn show<M: Machine>(cpu: &Cpu<M>, entry: E, out: &mut Text<M>) -> Result {
    let kind = match entry {
        E::SysvShm => Kind::Segment,
        E::SysvSem => Kind::Set,
        _ => Kind::Queue,
    };
    // What a line is of: 1 + the place where its object is looked for; 0: the title.
    let mut key = out.begin_lines();
    if key == 0 {
        out.write_str(ipc::title(kind))?;
        key = 1;
    }
    while out.begin_line(key)
        && let Some(row) = ipc::next(cpu, kind, key as u32 - 1)
    {
        out.looked(cost::OBJECT);
        row.write(out)?;
        key = u64::from(row.place) + 2;
    }
    Ok(())
}
