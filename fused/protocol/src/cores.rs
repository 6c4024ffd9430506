//! The machine's cores: their records, and which of them have died.

use motet_layout::sync::Ordering;

use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, CoreRecord, ISLANDS_MAX, IslandId, is_dead_state, ones};

use crate::Context;

/// How many cores a machine can have.
pub(crate) const CORES: usize = ISLANDS_MAX * CORES_PER_ISLAND_MAX;

/// The record of a core.
#[inline(always)]
pub fn core_record(context: &impl Context, core: CoreId) -> &'static CoreRecord {
    &context.pool().header().cores[core.index()]
}

/// All cores that a machine can have.
pub(crate) fn cores() -> impl Iterator<Item = CoreId> {
    (0..CORES as u32).filter_map(CoreId::from_raw)
}

/// The machine's cores by ascending id, those that have not started yet as well.
pub fn all_cores(context: &impl Context) -> impl Iterator<Item = CoreId> {
    let islands = (0..context.pool().header().island_count.get()).filter_map(IslandId::from_raw);
    islands.flat_map(move |island| cores_of(context, island))
}

/// The cores in a set, by ascending id.
#[inline(always)]
pub fn cores_in(set: [u64; 2]) -> impl Iterator<Item = CoreId> {
    let [low, high] = set;
    ones(low).chain(ones(high).map(|bit| 64 + bit)).filter_map(|index| CoreId::from_raw(index as u32))
}

/// The cores of an island.
pub fn cores_of<C: Context>(context: &C, island: IslandId) -> impl Iterator<Item = CoreId> + use<C> {
    let count = context.pool().header().islands[island.index()].core_count.get() as usize;
    (0..count.min(CORES_PER_ISLAND_MAX)).map(move |index| CoreId::new(island, index))
}

/// Whether a core's island has died, as far as the host has said ([`crate::orphans`]), and has not joined again ([`crate::rejoin`]).
pub fn is_dead(context: &impl Context, core: CoreId) -> bool {
    core != CoreId::HOST && is_dead_state(state_of(context, core.island()))
}

/// The state of an island.
pub(crate) fn state_of(context: &impl Context, island: IslandId) -> u32 {
    context.pool().header().islands[island.index()].state.load(Ordering::SeqCst)
}
