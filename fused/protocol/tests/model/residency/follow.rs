//! Pages that follow who uses them: samples, which show who that is, and replicas.

use motet_layout::PAGE_SIZE;
use motet_paging::{Attr, Leaf, OutOfFrames};
use motet_protocol::lock::lock;
use motet_protocol::memory::{alloc_zeroed_frame, frame_refs, release_frame};
use motet_protocol::residency::{self, Home, Kind};

use super::spec::{CODE, PAGES, PRIVATE, Space};
use super::twins::Bug;
use super::{EXECUTE, Island, READ, Step, WRITE, model};
use crate::harness::{explore, must_be_caught, quietly};

impl Island {
    /// Takes the rights to a page away, to learn who uses it next.
    pub(super) fn sample(&self, space: &Space, page: usize) {
        let _guard = lock(self, &space.record.lock);
        if Home::of(self, space.record).leaf(PAGES[page]).is_some() {
            self.freeze(space, PAGES[page]);
        }
    }

    /// Reads a page by a copy of its own, unless this island is the home, or others have the page.
    pub(super) fn replicate(&self, space: &Space, page: usize) {
        let (record, address) = (space.record, PAGES[page]);
        let _guard = lock(self, &record.lock);
        let home = Home::of(self, record);
        let alone = |leaf: &Leaf| frame_refs(self.world.pool, leaf.frame.named()) == 1;
        let Some(leaf) = home.leaf(address).filter(alone) else { return };
        if home.island() == self.id() || residency::reads_replica(self, record, address) {
            return;
        }
        let Some(copy) = quietly(|| alloc_zeroed_frame(self)) else { return };
        self.freeze(space, address);
        if !alone(&leaf) {
            return release_frame(self, copy); // whoever uses it next gets its rights again
        }
        self.world.pool.copy(leaf.frame.addr(), copy.addr(), PAGE_SIZE as usize);
        let _ = residency::replicate(self, record, &home, address, leaf, copy);
    }

    /// A fault on a page that the home has, which is not one of the first store: enters it in the own table.
    pub(super) fn enter_resident(
        &self,
        space: &Space,
        home: &Home,
        (page, leaf): (usize, Leaf),
        need: Attr,
        access: Attr,
    ) -> Result<(), OutOfFrames> {
        if need == READ && residency::reads_replica(self, space.record, PAGES[page]) {
            self.cached.borrow_mut().remove(&PAGES[page]);
            return Ok(());
        }
        let executes = access.contains(EXECUTE);
        // A sampled page gets back what makes no difference to who stores to it.
        let thawed = Kind::of(leaf.attr).allowing(access.without(WRITE));
        let attr = if leaf.attr.is_active() { leaf.attr } else { thawed };
        let attr = if executes { attr.union(EXECUTE) } else { attr };
        self.fill(space, home, PAGES[page], Leaf { frame: leaf.frame, attr }, executes)
    }
}

const READS: [Step; 6] = [
    Step::Load(PRIVATE),
    Step::Load(PRIVATE),
    Step::Store(PRIVATE),
    Step::Replicate(PRIVATE),
    Step::Replicate(PRIVATE),
    Step::Sample(PRIVATE),
];

const EVERYTHING: [Step; 14] = [
    Step::Load(PRIVATE),
    Step::Load(PRIVATE),
    Step::Store(PRIVATE),
    Step::Replicate(PRIVATE),
    Step::Replicate(PRIVATE),
    Step::Sample(PRIVATE),
    Step::Relocate(PRIVATE),
    Step::Fork,
    Step::Drop(PRIVATE),
    Step::Remap(PRIVATE),
    Step::Protect(PRIVATE),
    Step::Replicate(CODE),
    Step::Compile,
    Step::Remap(CODE),
];

#[test]
fn replicas_are_as_the_page_is() {
    explore(600, model((3, 6, 0), &READS, Bug::None));
}

#[test]
fn replicas_are_as_the_page_is_whatever_becomes_of_it() {
    explore(600, model((3, 6, 0), &EVERYTHING, Bug::None));
    explore(400, model((2, 6, 12), &EVERYTHING, Bug::None));
}

#[test]
fn stores_beside_a_replica_are_caught() {
    must_be_caught(4000, model((3, 6, 0), &READS, Bug::StoresBesideReplica));
}

#[test]
fn a_replica_of_a_page_that_others_store_to_meanwhile_is_caught() {
    must_be_caught(4000, model((3, 6, 0), &READS, Bug::NotFrozen));
}

#[test]
fn a_replica_that_an_unlinked_table_shows_is_caught() {
    must_be_caught(4000, model((2, 6, 0), &EVERYTHING, Bug::ReplicaUnlinked));
}
