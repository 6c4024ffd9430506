//! Pages that another kernel reads in place (`by-reference` in the machine file): a message says where they are, and they are kept until that kernel has taken it. It copies them before.

use motet_hal::Machine;
use motet_layout::{Frame, LENT_MAX, LentRecord, PAGE_SIZE, Peers, PoolAddr};
use motet_protocol::{
    Context,
    lock::lock,
    memory::{alloc_frame_on, release_frame, share_frame},
    ring::{Ring, Slot, Unsent},
};

use super::{of, others};
use crate::cpu::Cpu;

/// Whether pages are read in place.
pub fn is_on<M: Machine>(cpu: &Cpu<M>) -> bool {
    of(cpu).by_reference.get() != 0
}

/// This kernel boots: makes room for what is lent.
pub(super) fn begin<M: Machine>(cpu: &Cpu<M>) {
    let record = of(cpu);
    for node in others(record).filter(|_| is_on(cpu)) {
        if let Some(frame) = alloc_frame_on(cpu, cpu.memory_index()) {
            cpu.pool.zero_frame(frame);
            record.lent[node as usize].set(frame.addr().0);
        }
    }
}

/// Sends a message that names these pages, and keeps them. The lock of outgoing messages is held.
///
/// # Errors
/// As [`Ring::send`]; [`Unsent::Full`] also where no more can be lent.
pub(super) fn send<M: Machine>(
    cpu: &Cpu<M>,
    (ring, node): (Ring, u32),
    pages: &[Frame],
    write: impl FnOnce(Slot),
) -> Result<(), Unsent> {
    let lent = lent_to(cpu, of(cpu), node).ok_or(Unsent::Full)?;
    collect_from(cpu, lent, |number| ring.was_taken(number));
    if lent.count.get() as usize + pages.len() > LENT_MAX {
        return Err(Unsent::Full);
    }
    // Before the receiver can say that it has them.
    pages.iter().for_each(|&page| share_frame(cpu, page));
    let sent = ring.send_numbered(write);
    let Ok(number) = sent else {
        pages.iter().for_each(|&page| release_frame(cpu, page));
        return sent.map(drop);
    };
    for &page in pages {
        let place = (lent.first.get() + lent.count.get()) as usize % LENT_MAX;
        lent.numbers[place].set(number);
        lent.frames[place].set(page.0);
        lent.count.set(lent.count.get() + 1);
    }
    Ok(())
}

/// Pages go back that others have read, or `node`, which has died, will not.
pub(super) fn collect<M: Machine>(cpu: &Cpu<M>, dead: Option<u32>) {
    let record = of(cpu);
    for node in others(record).filter(|_| is_on(cpu)) {
        let is_dead = dead == Some(node);
        let Some(lent) = lent_to(cpu, record, node).filter(|lent| lent.count.get() != 0) else { continue };
        let Some(ring) = Ring::to(cpu.machine.windows(), record, node) else { continue };
        let _guard = lock(cpu, &record.outgoing_lock);
        collect_from(cpu, lent, |number| is_dead || ring.was_taken(number));
    }
}

fn lent_to<M: Machine>(cpu: &Cpu<M>, record: &Peers, node: u32) -> Option<&'static LentRecord> {
    cpu.object(record.lent.get(node as usize)?.get())
}

/// The first ones go back, as long as this is so of their messages.
fn collect_from<M: Machine>(cpu: &Cpu<M>, lent: &LentRecord, is_over: impl Fn(u64) -> bool) {
    while lent.count.get() != 0 {
        let place = lent.first.get() as usize % LENT_MAX;
        if !is_over(lent.numbers[place].get()) {
            return;
        }
        release_frame(cpu, Frame(lent.frames[place].get()));
        lent.first.set((place as u32 + 1) % LENT_MAX as u32);
        lent.count.set(lent.count.get() - 1);
    }
}

/// Copies a page of another kernel's memory into a frame. `false`: this kernel may read none there.
pub fn read_in_place<M: Machine>(cpu: &Cpu<M>, node: u32, page: Frame, into: Frame) -> bool {
    let (record, len) = (of(cpu), cpu.pool.len());
    if !is_on(cpu) || page.is_none() || page.addr().0 + PAGE_SIZE > len {
        return false;
    }
    let place = others(record).position(|other| other == node).map_or(u64::MAX, |place| place as u64);
    let at = len + record.windows_len.get() + place.saturating_mul(len).min(u64::MAX / 2) + page.addr().0;
    cpu.machine.windows().copy_of_other(PoolAddr(at), cpu.pool, into.addr(), PAGE_SIZE as usize)
}
