//! Islands that do one thing wrongly, each of which is found.

use std::ops::Range;

use motet_layout::sync::Ordering;
use motet_layout::{Frame, IslandId, PAGE_SIZE};
use motet_paging::{Attr, Leaf, Mapped, OutOfFrames, Table, Withdrawal};
use motet_protocol::memory::{alloc_zeroed_frame_on, release_frame, share_frame};
use motet_protocol::residency::{self, Home, Kind, Part};
use motet_protocol::shootdown::{self, shoot_down};

use super::spec::{CODE, FILE, PAGES, PRIVATE, Space, World};
use super::{EXECUTE, Island, READ, Step, WRITE, model};
use crate::harness::{explore, must_be_caught, quietly, together};

/// What an island does wrongly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    None,
    /// Takes a page back, and no other core is told.
    NoShootDown,
    /// Releases a frame first, and tells the others then.
    FreedBefore,
    /// Fills its own table first, and the home's then.
    HomeLast,
    /// Looks what the home has before it has the lock.
    LookWithoutLock,
    /// Executes what it has not synchronised its fetches with.
    NotSynchronised,
    /// Forgets to count a page.
    NotCounted,
    /// Gives a child pages, and lets other islands store to them.
    ForkAtHomeAlone,
    /// Protects a page in the home's table alone.
    ProtectAtHomeAlone,
    /// Replaces a page by its copy in the home's table alone.
    CopyAtHomeAlone,
    /// Makes code executable without a word that it is new.
    OldCode,
    /// Copies a page to another place while others store to it.
    NotFrozen,
    /// Takes the rights to such a page away in the home's table alone.
    FrozenAtHomeAlone,
    /// Does not look whether a device has got it meanwhile.
    NotLookedAgain,
    /// Allows stores to a page that has replicas.
    StoresBesideReplica,
    /// Unlinks tables that show replicas.
    ReplicaUnlinked,
    /// Uses a root as another island has made it.
    RootNotPrepared,
}

/// A withdrawal that keeps nothing and tells nobody.
struct Hasty(Frame);

impl Withdrawal for Hasty {
    fn home(&self) -> Frame {
        self.0
    }
    fn narrowed(&mut self) {}
    fn take_table(&mut self, _table: Frame, _holds_pages: bool) {}
    fn take_range(&mut self, _range: Range<u64>) {}
    fn take_page(&mut self, _page: Mapped) {}
}

impl Island {
    fn table_of(&self, space: &Space, island: IslandId) -> Table<'static> {
        residency::table(self, space.record, island).expect("it has been made")
    }

    fn home_table(&self, space: &Space) -> Table<'static> {
        self.table_of(space, IslandId(space.record.home.get() as u8))
    }

    fn map(&self, space: &Space, island: IslandId, page: u64, leaf: Leaf) -> Result<(), OutOfFrames> {
        let mut allocate = || quietly(|| alloc_zeroed_frame_on(self, island.index()));
        self.table_of(space, island).map(page, leaf.frame, leaf.attr, &mut allocate).map(|_| ())
    }

    pub(super) fn fill(
        &self,
        space: &Space,
        home: &Home,
        page: u64,
        leaf: Leaf,
        executes: bool,
    ) -> Result<(), OutOfFrames> {
        match self.bug {
            Bug::HomeLast if self.id() != home.island() => {
                self.map(space, self.id(), page, leaf)?;
                self.map(space, home.island(), page, leaf)
            }
            Bug::StoresBesideReplica if self.id() == home.island() => self.map(space, home.island(), page, leaf),
            Bug::NotSynchronised => {
                let without = Leaf { frame: leaf.frame, attr: leaf.attr.without(EXECUTE) };
                residency::fill(self, space.record, home, page, without, false)?;
                self.map(space, self.id(), page, leaf)
            }
            _ => residency::fill(self, space.record, home, page, leaf, executes),
        }
    }

    pub(super) fn insert(
        &self,
        space: &Space,
        home: &Home,
        page: u64,
        (frame, attr): (Frame, Attr),
        executes: bool,
    ) -> Result<(), OutOfFrames> {
        if !matches!(self.bug, Bug::NotCounted | Bug::HomeLast) {
            return residency::insert(self, space.record, home, page, (frame, attr), executes);
        }
        let filled = self.fill(space, home, page, Leaf { frame: frame.into(), attr }, executes);
        if filled.is_err() && home.leaf(page).is_none() {
            release_frame(self, frame);
        } else if self.bug != Bug::NotCounted {
            space.record.resident.fetch_add(1, Ordering::Relaxed);
        }
        filled
    }

    pub(super) fn break_copy(
        &self,
        space: &Space,
        home: &Home,
        page: u64,
        (copy, attr): (Frame, Attr),
        executes: bool,
    ) -> Result<(), OutOfFrames> {
        if self.bug != Bug::CopyAtHomeAlone {
            return residency::break_copy(self, space.record, home, page, (copy, attr), executes);
        }
        let table = self.home_table(space);
        let flush = || self.cached.borrow_mut().clear();
        shootdown::edit(self, space.record, &table, flush, |stale| {
            table.replace(page, copy, attr.without(EXECUTE), stale);
        });
        residency::fill(self, space.record, home, page, Leaf { frame: copy.into(), attr }, executes)
    }

    pub(super) fn freeze(&self, space: &Space, page: u64) {
        match self.bug {
            Bug::NotFrozen => {}
            Bug::FrozenAtHomeAlone => {
                let table = self.home_table(space);
                let flush = || self.cached.borrow_mut().clear();
                shootdown::edit(self, space.record, &table, flush, |stale| {
                    table.narrow(page..page + PAGE_SIZE, stale, |_, leaf| leaf.attr.without(Attr::ALL_ACCESS));
                });
            }
            _ => residency::freeze(self, space.record, page),
        }
    }

    pub(super) fn reprotect(&self, space: &Space, part: Part, is_new_code: bool) {
        match self.bug {
            Bug::ProtectAtHomeAlone => {
                let table = self.home_table(space);
                let flush = || self.cached.borrow_mut().clear();
                shootdown::edit(self, space.record, &table, flush, |stale| {
                    table.narrow(part.range, stale, |_, leaf| {
                        Kind::of(leaf.attr).allowing(part.access.without(EXECUTE))
                    });
                });
            }
            Bug::OldCode => residency::protect(self, space.record, std::iter::once(part), false),
            _ => residency::protect(self, space.record, std::iter::once(part), is_new_code),
        }
    }

    pub(super) fn drop_range(&self, space: &Space, range: Range<u64>) {
        if !matches!(self.bug, Bug::NoShootDown | Bug::FreedBefore) {
            return residency::drop_pages(self, space.record, range);
        }
        let home = self.home_table(space);
        let mut hasty = Hasty(home.root);
        for table in (0..3).map(IslandId).filter_map(|island| residency::table(self, space.record, island)) {
            if table.root != home.root {
                table.forget(range.clone(), &mut hasty, |_| true);
            }
        }
        home.withdraw(range.clone(), &mut hasty);
        home.sweep(range, |leaf| {
            release_frame(self, leaf.frame.named());
            space.record.resident.fetch_sub(1, Ordering::Relaxed);
        });
        self.cached.borrow_mut().clear();
        if self.bug == Bug::FreedBefore {
            shoot_down(self, space.record, || ());
        }
    }

    pub(super) fn copy(&self, parent: &Space, child: &Space) -> Result<(), OutOfFrames> {
        if self.bug != Bug::ForkAtHomeAlone {
            return residency::copy(self, parent.record, child.record, |copying| {
                (0..PAGES.len()).try_for_each(|page| copying.range(PAGES[page]..PAGES[page] + PAGE_SIZE, page == FILE))
            });
        }
        let (from, flush) = (self.home_table(parent), || self.cached.borrow_mut().clear());
        shootdown::edit(self, parent.record, &from, flush, |stale| {
            for page in [PRIVATE, CODE] {
                from.narrow(PAGES[page]..PAGES[page] + PAGE_SIZE, stale, |at, leaf| {
                    let attr = Kind::CopyOnWrite.allowing(leaf.attr);
                    share_frame(self, leaf.frame.named());
                    let given = Leaf { frame: leaf.frame, attr: attr.without(EXECUTE) };
                    self.map(child, self.id(), at, given).expect("there are frames");
                    child.record.resident.fetch_add(1, Ordering::Relaxed);
                    attr
                });
            }
        });
        Ok(())
    }
}

/// Two islands that read a page, one of which is taken away now and then.
const DROPS: [Step; 4] = [Step::Load(PRIVATE), Step::Store(PRIVATE), Step::Load(PRIVATE), Step::Drop(PRIVATE)];
const CODES: [Step; 3] = [Step::Compile, Step::Fetch, Step::Fetch];
const FORKS: [Step; 3] = [Step::Store(PRIVATE), Step::Store(PRIVATE), Step::Fork];
const COPIES: [Step; 4] = [Step::Store(PRIVATE), Step::Load(PRIVATE), Step::Load(PRIVATE), Step::Fork];
const MOVES: [Step; 4] = [Step::Store(PRIVATE), Step::Load(PRIVATE), Step::Store(PRIVATE), Step::Relocate(PRIVATE)];
const PROTECTS: [Step; 3] = [Step::Store(PRIVATE), Step::Store(PRIVATE), Step::Protect(PRIVATE)];

#[test]
fn a_missing_shoot_down_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &DROPS, Bug::NoShootDown));
}

#[test]
fn a_frame_that_is_freed_before_others_are_told_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &DROPS, Bug::FreedBefore));
}

/// It shows where there is no memory for the home's table.
#[test]
fn filling_the_homes_table_last_is_caught() {
    must_be_caught(4000, model((2, 4, 5), &DROPS, Bug::HomeLast));
}

#[test]
fn a_look_at_the_home_without_the_lock_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &DROPS, Bug::LookWithoutLock));
}

#[test]
fn a_page_that_is_not_counted_is_caught() {
    must_be_caught(100, model((2, 3, 0), &DROPS, Bug::NotCounted));
}

#[test]
fn executing_without_synchronisation_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &CODES, Bug::NotSynchronised));
}

#[test]
fn code_that_nobody_calls_new_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &CODES, Bug::OldCode));
}

#[test]
fn a_fork_that_leaves_other_islands_their_stores_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &FORKS, Bug::ForkAtHomeAlone));
}

#[test]
fn a_copy_that_other_islands_do_not_get_is_caught() {
    must_be_caught(4000, model((3, 5, 0), &COPIES, Bug::CopyAtHomeAlone));
}

#[test]
fn moving_a_page_while_others_store_to_it_is_caught() {
    must_be_caught(4000, model((2, 6, 0), &MOVES, Bug::NotFrozen));
}

#[test]
fn moving_a_page_that_only_the_home_may_not_store_to_is_caught() {
    must_be_caught(4000, model((3, 6, 0), &MOVES, Bug::FrozenAtHomeAlone));
}

const LENDS: [Step; 4] = [Step::Store(PRIVATE), Step::Lend(PRIVATE), Step::Lend(PRIVATE), Step::Relocate(PRIVATE)];

#[test]
fn pages_that_devices_have_stay() {
    explore(500, model((3, 6, 0), &LENDS, Bug::None));
}

#[test]
fn moving_a_page_that_a_device_has_just_got_is_caught() {
    must_be_caught(4000, model((2, 6, 0), &LENDS, Bug::NotLookedAgain));
}

#[test]
fn protection_at_home_alone_is_caught() {
    must_be_caught(4000, model((2, 5, 0), &PROTECTS, Bug::ProtectAtHomeAlone));
}

/// Island 0 makes a space for island 1, fills it through island 1's table, and lets it go there.
fn made_for_another(bug: Bug) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = World::new(0);
        let (maker, user, space) =
            (Island::new(&world, 0, bug), Island::new(&world, 1, bug), world.children[1].clone());
        let sent = std::sync::Arc::new(shuttle::sync::atomic::AtomicBool::new(false));
        let arrived = sent.clone();
        let made = space.clone();
        together(vec![
            Box::new(move || {
                made.record.home.set(1);
                let root = residency::make_root(&maker, made.record, IslandId(1), true);
                assert!(root.is_some() && made.record.roots[0].load(Ordering::Relaxed) == 0);
                while residency::writable(&maker, made.record, PAGES[PRIVATE]).is_none() {
                    assert!(maker.fault(&made, PRIVATE, WRITE), "there is memory");
                }
                let at = residency::writable(&maker, made.record, PAGES[PRIVATE]).expect("it is there now");
                maker.word(at).store(7, Ordering::Relaxed);
                made.spec(|spec| spec.pages[PRIVATE].content = 7);
                sent.store(true, Ordering::SeqCst);
            }),
            Box::new(move || {
                while !arrived.load(std::sync::atomic::Ordering::SeqCst) {
                    shuttle::thread::yield_now();
                }
                assert!(user.activate(&space), "its root is there");
                assert!(user.translate(&space, PRIVATE, READ).is_some(), "there is memory");
                user.load(&space, PRIVATE);
                user.store(&space, PRIVATE);
                user.load(&space, PRIVATE);
            }),
        ]);
        world.judge(&Island::new(&world, 0, Bug::None));
    }
}

#[test]
fn a_space_is_made_with_its_final_home() {
    explore(200, made_for_another(Bug::None));
}

#[test]
fn a_root_that_its_island_has_not_prepared_is_caught() {
    must_be_caught(10, made_for_another(Bug::RootNotPrepared));
}
