//! Frames that are replicas of pages ([`crate::residency`]): each is the one leaf's that shows it.

use motet_layout::{Frame, Pool, REPLICA_FRAME, SpaceRecord, in_order, sync::Ordering};

use crate::{
    Context,
    memory::{frame_record, release_frame},
};

/// Whether a frame is a replica.
#[inline]
pub fn is_replica(pool: Pool, frame: Frame) -> bool {
    frame_record(pool, frame).synced.load(Ordering::Relaxed) & REPLICA_FRAME != 0
}

/// A frame, of which the caller has the only reference, becomes a replica of a page of a space. The space's lock is held.
pub(crate) fn begin(context: &impl Context, space: &SpaceRecord, frame: Frame) {
    frame_record(context.pool(), frame).synced.store(REPLICA_FRAME, Ordering::Relaxed);
    space.replicas.set(space.replicas.get() + 1);
}

/// A replica is released, which no core uses any more. The space's lock is held, or nobody uses the space.
pub(crate) fn end(context: &impl Context, space: &SpaceRecord, replica: Frame) {
    // First the mark: should this core die here, a frame is lost.
    frame_record(context.pool(), replica).synced.store(0, Ordering::Relaxed);
    in_order();
    release_frame(context, replica);
    space.replicas.set(space.replicas.get().saturating_sub(1));
}
