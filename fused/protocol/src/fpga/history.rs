//! The history of regions, for reports: when each region was which accelerator, for which client, in which state. No decision depends on it.

use motet_layout::{FPGA_CHANGES, FPGA_STATES, Fpga};

use super::{AcceleratorId, Device, InterfaceId, Logic, RegionId, RegionState};

/// A change of a region: what it is from a moment on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The moment, in picoseconds.
    pub at_ps: u64,
    /// The region.
    pub region: RegionId,
    /// The new state.
    pub state: RegionState,
    /// The accelerator that it is.
    pub accelerator: Option<AcceleratorId>,
    /// The client that it is connected to, as [`super::clients::Client::owner`].
    pub owner: Option<u32>,
}

impl Change {
    fn decode(at_ps: u64, what: u64) -> Option<Self> {
        let byte = |at: u32| u32::from((what >> (8 * at)) as u8);
        let owner = InterfaceId::from_link(byte(3)).map(|_| (what >> 32) as u32);
        let accelerator = AcceleratorId::from_link(byte(2));
        let state = RegionState::from_raw(byte(1))?;
        Some(Self { at_ps, region: RegionId::new(byte(0) as usize)?, state, accelerator, owner })
    }
}

/// How many of the earliest changes have been overwritten.
pub fn lost(fpga: &Fpga) -> u64 {
    fpga.changes.get().saturating_sub(FPGA_CHANGES as u64)
}

/// The last changes, in the order of happening.
pub fn changes(fpga: &Fpga) -> impl Iterator<Item = Change> {
    (lost(fpga)..fpga.changes.get()).filter_map(|number| {
        let entry = &fpga.history[number as usize % FPGA_CHANGES];
        Change::decode(entry.at_ps.get(), entry.what.get())
    })
}

/// For how long a region was in each state until its last change, by [`RegionState`], in picoseconds; and when that was.
pub fn spent_ps(fpga: &Fpga, region: RegionId) -> ([u64; FPGA_STATES], u64) {
    let region = &fpga.regions[region.index()];
    (core::array::from_fn(|state| region.spent_ps[state].get()), region.changed_ps.get())
}

impl<L: Logic> Device<'_, L> {
    /// Records the regions that have changed.
    pub(super) fn note_changes(&mut self) {
        for at in self.regions() {
            let region = self.region(at);
            let client = InterfaceId::from_link(region.interface.get());
            let owner = client.map_or(0, |client| self.interface(client).owner.get());
            let (state, link) = (self.state(at), client.map_or(0, InterfaceId::link));
            let low = (state as u32) << 8 | (region.accelerator.get() & 0xff) << 16 | link << 24;
            let what = u64::from(owner) << 32 | u64::from(low);
            if region.last_change.get() != what {
                self.note_change(at, what);
            }
        }
    }

    fn note_change(&self, at: RegionId, what: u64) {
        let (fpga, region) = (self.fpga, self.region(at));
        let before = RegionState::from_raw(u32::from((region.last_change.get() >> 8) as u8));
        let spent = &region.spent_ps[before.unwrap_or(RegionState::Idle) as usize];
        spent.set(spent.get().wrapping_add(self.now_ps.saturating_sub(region.changed_ps.get())));
        region.last_change.set(what);
        region.changed_ps.set(self.now_ps);
        let entry = &fpga.history[fpga.changes.get() as usize % FPGA_CHANGES];
        entry.at_ps.set(self.now_ps);
        entry.what.set(what | at.index() as u64);
        fpga.changes.set(fpga.changes.get().wrapping_add(1));
    }
}

const _: () = assert!(RegionState::ALL.len() == FPGA_STATES);
