//! Epochs of spaces, by which cores know whether what they have cached of one is still true.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, IslandId, SpaceRecord, handshake::then_look};
use motet_protocol::cores::core_record;

use crate::cpu::Cpu;

/// The epoch of the space that this core has active.
#[inline(always)]
pub fn epoch<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) -> u64 {
    if !cpu.islands.are_uncached() {
        return space.epoch.load(Ordering::Acquire);
    }
    // The space may be far away: others tell this core when it changes.
    let changed = &cpu.own.space_changed;
    if cpu.mm.epoch() == 0 || changed.load(Ordering::Acquire) != 0 {
        changed.store(0, Ordering::Release);
        then_look();
        cpu.mm.learn_epoch(space.epoch.load(Ordering::SeqCst));
    }
    cpu.mm.epoch()
}

/// Invalidates what cores have cached of the space, because a VMA was added, removed or changed.
/// The space's lock is held.
pub fn changed<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    space.epoch.store(space.epoch.load(Ordering::Relaxed) + 1, Ordering::Release);
    tell_cores(cpu, space);
}

/// Tells the cores that have a space active that it is not what it was, or that nobody uses it any more.
pub fn tell_cores<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    if !cpu.islands.are_uncached() {
        return;
    }
    // Who makes it active from now on reads what has changed.
    then_look();
    for (island, active) in (0..).map_while(IslandId::from_raw).zip(&space.active) {
        let active = active.load(Ordering::SeqCst);
        for index in (0..CORES_PER_ISLAND_MAX).filter(|index| active >> index & 1 != 0) {
            core_record(cpu, CoreId::new(island, index)).space_changed.store(1, Ordering::Release);
        }
    }
}
