//! When the transfers of an island's engine end (`motet_protocol::engine`).

use motet_layout::{Pool, PoolAddr};
use motet_protocol::engine;

use crate::{Bells, PS_PER_NS, Timing};

impl<B: Bells> Timing<B> {
    /// A core has started its island's engine, which does at once all that is in its ring: one transfer after the other, the first when the
    /// one before has ended. `pool`: its kernel's. A transfer of so many bytes takes `transfer_ps`; `moved` is told of every piece, as by [`engine::serve`].
    pub fn serve_engine(
        &self,
        pool: Pool,
        core: usize,
        now_ps: u64,
        transfer_ps: impl Fn(u64) -> u64,
        mut moved: impl FnMut(PoolAddr, PoolAddr, u64),
    ) {
        let Some(engine) = pool.header().dma.get(self.records.number(core).island().index()) else { return };
        self.note_exchange(now_ps);
        let mut ends_ps = now_ps.max(engine.busy_until_ps.get());
        let mut next_end_ns = |bytes| {
            ends_ps = ends_ps.saturating_add(transfer_ps(bytes));
            ends_ps.div_ceil(PS_PER_NS)
        };
        while engine::serve(pool, engine, &mut moved, &mut next_end_ns).is_some() {}
        engine.busy_until_ps.set(ends_ps);
    }
}
