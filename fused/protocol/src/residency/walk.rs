//! Remote walk: any kernel reads any island's page table of a space. Readers need no lock. What they find stays valid until their core
//! serves a shoot-down, if the core has the space active, and otherwise as long as the space's lock is held.

use motet_layout::{PoolAddr, SpaceRecord, sync::Ordering};
use motet_paging::{Leaf, Table};

use super::{Home, Mmu, table};

/// The byte of the pool that programs on the actor's island read at an address. `None`: they would fault.
#[inline(always)]
pub fn readable(context: &impl Mmu, space: &SpaceRecord, address: u64) -> Option<PoolAddr> {
    match table(context, space, context.core().island()) {
        Some(own) => own.readable(address),
        None => by_home(context, space, |home| home.readable(address)),
    }
}

/// The byte of the pool that programs on the actor's island write at an address. `None`: they would fault.
#[inline(always)]
pub fn writable(context: &impl Mmu, space: &SpaceRecord, address: u64) -> Option<PoolAddr> {
    match table(context, space, context.core().island()) {
        Some(own) => own.writable(address),
        None => by_home(context, space, |home| home.writable(address)),
    }
}

/// The page that programs on the actor's island have at an address.
#[inline(always)]
pub fn find(context: &impl Mmu, space: &SpaceRecord, address: u64) -> Option<Leaf> {
    table(context, space, context.core().island())?.lookup(address)
}

/// A space that another island is to run first is filled through its home's table: nobody translates by it yet.
#[cold]
#[inline(never)]
fn by_home(
    context: &impl Mmu,
    space: &SpaceRecord,
    walk: impl FnOnce(&Table<'static>) -> Option<PoolAddr>,
) -> Option<PoolAddr> {
    if space.unprepared.load(Ordering::Relaxed) == 0 { None } else { walk(&Home::of(context, space).table) }
}
