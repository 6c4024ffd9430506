//! Frames of pages: what is in them, and who has them.

use motet_hal::Machine;
use motet_layout::Frame;
use motet_paging::Leaf;
use motet_protocol::{memory::frame_refs, residency::Kind};

use crate::{call::cost, cpu::Cpu, due};

/// Copies the first `len` bytes of a frame. The space's lock is held.
pub fn copy_into<M: Machine>(cpu: &Cpu<M>, from: Frame, to: Frame, len: usize) {
    let piece = cpu.due.piece_bytes();
    for at in (0..len).step_by(piece) {
        let here = (len - at).min(piece);
        cpu.pool.copy(from.addr().add(at as u64), to.addr().add(at as u64), here);
        due::spend_locked(cpu, cost::bytes(here as u64));
    }
}

/// Whether nobody else has the page.
pub fn is_alone<M: Machine>(cpu: &Cpu<M>, leaf: Leaf) -> bool {
    match Kind::of(leaf.attr) {
        Kind::Owned | Kind::CopyOnWrite => frame_refs(cpu.pool, leaf.frame.named()) == 1,
        Kind::Shared | Kind::Borrowed => false,
    }
}
