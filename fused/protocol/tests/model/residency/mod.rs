//! Residency: islands whose tables are of three formats fault, copy, fork, protect and unmap pages of one space.
//!
//! The specification is a value for each page: what it contains, what is allowed, whether it is mapped. Each load must find that
//! value, wherever the page is; stores and fetches happen only as long as they are allowed. A frame's content is lost as soon as
//! it has no reference. In the end each frame has as many references as owners, and nothing is left when the spaces are.

mod follow;
mod spec;
mod twins;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::iter::once;

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{CORE_IDLE, CoreId, Frame, IslandId, PAGE_SIZE, Pool, PoolAddr};
use motet_paging::{Attr, Format, Leaf, OutOfFrames, PhysMap};
use motet_protocol::lock::lock;
use motet_protocol::memory::{alloc_zeroed_frame, frame_refs, release_frame, share_frame};
use motet_protocol::residency::{self, Home, Kind, Mmu, Part};
use motet_protocol::{Context, run_queue, shootdown};
use shuttle::rand::Rng;

use crate::harness::{Core, explore, quietly, together};
use spec::{CODE, FILE, PAGES, PRIVATE, Space, World};
use twins::Bug;

/// What is stored in a frame that is freed.
const LOST: u64 = u64::MAX;
/// An access that faults more often than this does not get on.
const FAULTS_MAX: u32 = 50;

const READ: Attr = Attr::READ;
const WRITE: Attr = Attr::WRITE;
const EXECUTE: Attr = Attr::EXECUTE;

/// What an actor does next.
#[derive(Clone, Copy)]
enum Step {
    Load(usize),
    Store(usize),
    /// Writes code, makes it executable, and lets it be written again later.
    Compile,
    Fetch,
    /// Gives pages back to the system; they are zero then.
    Drop(usize),
    /// Takes a page out, and maps a new one.
    Remap(usize),
    /// Makes a page read-only, and then writable again.
    Protect(usize),
    ProtectFile,
    ForgetFile,
    Fork,
    /// Puts a page that the space has alone into another frame.
    Relocate(usize),
    Lend(usize),
    /// Looks who uses a page.
    Sample(usize),
    /// Reads a page by a copy of its own.
    Replicate(usize),
}

/// A core: its MMU's cache of translations, and what it does wrongly.
pub struct Island {
    core: Core,
    world: World,
    bug: Bug,
    cached: RefCell<BTreeMap<u64, Leaf>>,
    active: RefCell<Option<Space>>,
}

impl Context for Island {
    fn core(&self) -> CoreId {
        self.core.core()
    }
    fn pool(&self) -> Pool {
        self.world.pool
    }
    fn relax(&self) {
        self.serve();
        self.core.relax();
    }
    fn ring(&self, target: CoreId) {
        self.core.ring(target);
    }
    /// The last reference is gone.
    fn flush_frame(&self, frame: Frame) {
        quietly(|| self.word(frame.addr()).store(LOST, Ordering::Relaxed));
    }
}

impl Mmu for Island {
    fn own_format(&self) -> Format {
        [Format::X86_64, Format::AArch64, Format::Sv48][self.id().index()]
    }
    fn own_map(&self) -> PhysMap<'static> {
        PhysMap::new(&self.world.pool.header().islands[self.id().index()].ranges, self.world.pool.len())
    }
    fn prepare_root(&self, root: Frame) {
        self.world.ghost(|ghost| ghost.prepared.insert(root.0));
    }
    fn page_table_fence(&self) {}
    fn flush_page(&self, page: u64) {
        self.cached.borrow_mut().remove(&page);
    }
    fn flush_user(&self) {
        self.cached.borrow_mut().clear();
    }
    fn sync_instructions(&self, frame: Frame) {
        let now = quietly(|| self.word(frame.addr()).load(Ordering::Relaxed));
        self.world.ghost(|ghost| ghost.fetched.insert((self.id(), frame.0), now));
    }
}

impl Island {
    fn new(world: &World, island: u8, bug: Bug) -> Self {
        let core = Core::new(world.pool, island, &world.bells);
        Self { core, world: world.clone(), bug, cached: RefCell::default(), active: RefCell::default() }
    }

    fn id(&self) -> IslandId {
        self.core.core().island()
    }

    fn word(&self, at: PoolAddr) -> &'static AtomicU64 {
        self.world.pool.at(at)
    }

    fn serve(&self) {
        shootdown::serve(&self.core, || self.flush_user());
    }

    /// Translates by the tables of a space from now on, as a kernel's `activate` makes it.
    fn activate(&self, space: &Space) -> bool {
        let (record, island) = (space.record, self.id());
        {
            let _guard = lock(self, &record.lock);
            if residency::ensure_root(self, record).is_none() {
                return false;
            }
        }
        if record.unprepared.load(Ordering::Acquire) != 0 && self.bug != Bug::RootNotPrepared {
            residency::prepare(self, record);
        }
        let root = quietly(|| record.roots[island.index()].load(Ordering::Relaxed));
        assert!(self.world.ghost(|ghost| ghost.prepared.contains(&root)), "the root lacks the kernel's half");
        record.active[island.index()].fetch_or(1, Ordering::SeqCst);
        self.flush_user();
        if let Some(old) = self.active.replace(Some(space.clone())) {
            old.record.active[island.index()].fetch_and(!1, Ordering::SeqCst);
        }
        true
    }

    /// Where an access of a program goes: by what the core has cached, or its hardware walks, or after faults. `None`: it is not
    /// allowed, or there is no memory.
    fn translate(&self, space: &Space, page: usize, need: Attr) -> Option<Frame> {
        let address = PAGES[page];
        for _ in 0..FAULTS_MAX {
            self.serve();
            let cached = self.cached.borrow().get(&address).copied();
            let walk = || residency::table(self, space.record, self.id())?.lookup(address);
            let found = cached.or_else(walk);
            if let Some(leaf) = found {
                self.cached.borrow_mut().insert(address, leaf);
                if leaf.attr.contains(need) {
                    return Some(leaf.frame.named());
                }
            }
            if !self.fault(space, page, need) {
                return None;
            }
        }
        panic!("a fault at {address:#x} is served, and comes again");
    }

    /// As a kernel serves a fault. `false`: the access is not allowed, or there is no memory.
    fn fault(&self, space: &Space, page: usize, need: Attr) -> bool {
        let (record, address) = (space.record, PAGES[page]);
        let early = (self.bug == Bug::LookWithoutLock).then(|| Home::of(self, record).leaf(address));
        let _guard = lock(self, &record.lock);
        let access = space.spec(|spec| spec.pages[page].access);
        if !access.contains(need) || residency::ensure_table(self, record).is_err() {
            return false;
        }
        let home = Home::of(self, record);
        let served = match early.unwrap_or_else(|| home.leaf(address)) {
            None => self.first_use(space, &home, page, access),
            Some(leaf) if need == WRITE && !leaf.attr.contains(WRITE) => {
                self.first_store(space, &home, page, leaf, access)
            }
            Some(leaf) => self.enter_resident(space, &home, (page, leaf), need, access),
        };
        served.is_ok()
    }

    fn first_use(&self, space: &Space, home: &Home, page: usize, access: Attr) -> Result<(), OutOfFrames> {
        let (frame, kind) = if page == FILE {
            share_frame(self, self.world.file);
            (self.world.file, Kind::Shared)
        } else {
            (quietly(|| alloc_zeroed_frame(self)).ok_or(OutOfFrames)?, Kind::Owned)
        };
        self.insert(space, home, PAGES[page], (frame, kind.allowing(access)), access.contains(EXECUTE))
    }

    fn first_store(
        &self,
        space: &Space,
        home: &Home,
        page: usize,
        leaf: Leaf,
        access: Attr,
    ) -> Result<(), OutOfFrames> {
        let executes = access.contains(EXECUTE);
        let kind = match Kind::of(leaf.attr) {
            Kind::Shared => Kind::Shared,
            Kind::Owned => Kind::Owned,
            Kind::CopyOnWrite if frame_refs(self.world.pool, leaf.frame.named()) == 1 => Kind::Owned,
            Kind::CopyOnWrite => {
                let copy = quietly(|| alloc_zeroed_frame(self)).ok_or(OutOfFrames)?;
                self.world.pool.copy(leaf.frame.addr(), copy.addr(), PAGE_SIZE as usize);
                return self.break_copy(space, home, PAGES[page], (copy, access), executes);
            }
            Kind::Borrowed => panic!("the home has a borrowed page"),
        };
        let widened = Leaf { frame: leaf.frame, attr: kind.allowing(access.union(leaf.attr)) };
        self.fill(space, home, PAGES[page], widened, executes)
    }

    fn load(&self, space: &Space, page: usize) {
        if let Some(frame) = self.translate(space, page, READ) {
            let found = self.word(frame.addr()).load(Ordering::Relaxed);
            let expected = space.spec(|spec| spec.content(&self.world, page));
            assert_eq!(found, expected, "a load from page {page} through frame {:#x}", frame.0);
        }
    }

    fn store(&self, space: &Space, page: usize) {
        if let Some(frame) = self.translate(space, page, WRITE) {
            let value = self.world.ghost(|ghost| ghost.next_value());
            self.word(frame.addr()).store(value, Ordering::Relaxed);
            space.spec(|spec| {
                assert!(spec.pages[page].access.contains(WRITE), "a store to page {page} after it was protected");
                spec.written(&self.world, page, value);
            });
        }
    }

    fn fetch(&self, space: &Space) {
        if let Some(frame) = self.translate(space, CODE, EXECUTE) {
            crate::harness::point();
            let fetched = self.world.ghost(|ghost| ghost.fetched.get(&(self.id(), frame.0)).copied());
            let (allowed, expected) = space.spec(|spec| (spec.pages[CODE].access, spec.content(&self.world, CODE)));
            assert!(allowed.contains(EXECUTE), "a fetch after execution was forbidden");
            if allowed.contains(WRITE) {
                return; // it is being made writable, and others may write already
            }
            assert_eq!(fetched, Some(expected), "old instructions are executed");
        }
    }

    /// Gives a page another protection, which holds when this comes back.
    fn protect(&self, space: &Space, page: usize, access: Attr, is_new_code: bool) {
        let _guard = lock(self, &space.record.lock);
        // What is allowed in addition may be used before this comes back.
        space.spec(|spec| spec.pages[page].access = spec.pages[page].access.union(access));
        self.reprotect(space, Part { range: PAGES[page]..PAGES[page] + PAGE_SIZE, access }, is_new_code);
        space.spec(|spec| spec.pages[page].access = access);
    }

    fn protect_file(&self, space: &Space) {
        let _guard = lock(self, &space.record.lock);
        residency::write_protect_file(self, space.record, once(self.world.mapping), self.world.inode, &(0..1));
        space.spec(|spec| spec.pages[FILE].access = READ);
    }

    fn forget_file(&self, space: &Space) {
        let _guard = lock(self, &space.record.lock);
        residency::forget_file(self, space.record, once(self.world.mapping), self.world.inode, &(0..1), false);
    }

    fn drop_page(&self, space: &Space, page: usize) {
        let _guard = lock(self, &space.record.lock);
        self.drop_range(space, PAGES[page]..PAGES[page] + PAGE_SIZE);
        space.spec(|spec| spec.pages[page].content = 0);
    }

    fn remap(&self, space: &Space, page: usize) {
        let _guard = lock(self, &space.record.lock);
        if self.bug == Bug::ReplicaUnlinked {
            space.record.replicas.set(0);
        }
        residency::unmap(self, space.record, PAGES[page]..PAGES[page] + PAGE_SIZE);
        space.spec(|spec| spec.pages[page].content = 0);
    }

    /// Has a child, which runs here for a while and stays.
    fn fork(&self, parent: &Space) {
        let child = &self.world.children[self.id().index()];
        if child.record.home.get() != 0 || child.record.roots.iter().any(|root| root.load(Ordering::Relaxed) != 0) {
            return; // it has one
        }
        child.record.home.set(u32::from(self.id().0));
        if residency::make_root(self, child.record, self.id(), false).is_none() {
            return;
        }
        {
            let _guard = lock(self, &parent.record.lock);
            if self.copy(parent, child).is_err() {
                return;
            }
            let as_now = parent.spec(|spec| spec.clone());
            child.spec(|spec| *spec = as_now);
        }
        if self.activate(child) {
            for page in [PRIVATE, CODE, FILE] {
                self.load(child, page);
                self.store(child, page);
                self.load(child, page);
            }
            self.activate(parent);
        }
    }

    /// Lends a page to a device, which uses its frame for a while.
    fn lend(&self, space: &Space, page: usize) {
        let Some(frame) = self.translate(space, page, WRITE) else { return };
        // No shoot-down is served before it is counted.
        share_frame(self, frame);
        crate::harness::point();
        {
            let _guard = lock(self, &space.record.lock);
            let leaf = Home::of(self, space.record).leaf(PAGES[page]).expect("nobody takes the page away");
            assert_eq!(leaf.frame.named(), frame, "a page has moved that a device has");
        }
        release_frame(self, frame);
    }

    /// As a kernel brings a page near another island.
    fn relocate(&self, space: &Space, page: usize) {
        let (record, address) = (space.record, PAGES[page]);
        let _guard = lock(self, &record.lock);
        let home = Home::of(self, record);
        let alone = |leaf: &Leaf| frame_refs(self.world.pool, leaf.frame.named()) == 1;
        let Some(leaf) = home.leaf(address).filter(alone) else { return };
        let Some(to) = quietly(|| alloc_zeroed_frame(self)) else { return };
        self.freeze(space, address);
        let executes = space.spec(|spec| spec.pages[page].access.contains(EXECUTE));
        if self.bug != Bug::NotLookedAgain && !alone(&leaf) {
            release_frame(self, to);
            let _ = self.fill(space, &home, address, leaf, executes);
            return;
        }
        self.world.pool.copy(leaf.frame.addr(), to.addr(), PAGE_SIZE as usize);
        let _ = self.break_copy(space, &home, address, (to, leaf.attr), executes);
    }

    fn step(&self, step: Step) {
        let space = &self.world.space;
        match step {
            Step::Load(page) => self.load(space, page),
            Step::Store(page) => self.store(space, page),
            Step::Fetch => self.fetch(space),
            Step::Compile => {
                self.protect(space, CODE, READ.union(WRITE), false);
                self.store(space, CODE);
                self.protect(space, CODE, READ.union(EXECUTE), true);
                self.fetch(space);
            }
            Step::Drop(page) => self.drop_page(space, page),
            Step::Remap(page) => self.remap(space, page),
            Step::Protect(page) => {
                self.protect(space, page, READ, false);
                self.load(space, page);
                self.protect(space, page, READ.union(WRITE), false);
            }
            Step::ProtectFile => {
                self.protect_file(space);
                self.load(space, FILE);
                self.protect(space, FILE, READ.union(WRITE), false);
            }
            Step::ForgetFile => self.forget_file(space),
            Step::Fork => self.fork(space),
            Step::Relocate(page) => self.relocate(space, page),
            Step::Lend(page) => self.lend(space, page),
            Step::Sample(page) => self.sample(space, page),
            Step::Replicate(page) => self.replicate(space, page),
        }
    }

    /// Does steps of the menu, and rests then.
    fn run(self, menu: &[Step], steps: usize) {
        if self.activate(&self.world.space.clone()) {
            for _ in 0..steps {
                self.step(menu[shuttle::rand::thread_rng().gen_range(0..menu.len())]);
            }
        }
        // Nobody waits for it any more.
        self.flush_user();
        run_queue::begin_idle(&self.core, CORE_IDLE);
    }
}

/// All that programs and kernels do.
const ALL: [Step; 16] = [
    Step::Load(PRIVATE),
    Step::Store(PRIVATE),
    Step::Load(FILE),
    Step::Store(FILE),
    Step::Compile,
    Step::Fetch,
    Step::Fetch,
    Step::Drop(PRIVATE),
    Step::Remap(CODE),
    Step::Remap(PRIVATE),
    Step::Protect(PRIVATE),
    Step::ProtectFile,
    Step::ForgetFile,
    Step::Fork,
    Step::Relocate(PRIVATE),
    Step::Relocate(CODE),
];

/// A model in which `islands` islands do `steps` steps each. `spare`: how many frames they have at most, as many as there are if that is 0.
fn model(
    (islands, steps, spare): (u8, usize, u32),
    menu: &'static [Step],
    bug: Bug,
) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = World::new(spare);
        let actors = (0..islands).map(|island| {
            let island = Island::new(&world, island, bug);
            Box::new(move || island.run(menu, steps)) as Box<dyn FnOnce() + Send>
        });
        together(actors.collect());
        world.judge(&Island::new(&world, 0, Bug::None));
    }
}

#[test]
fn two_islands_agree_on_what_is_where() {
    explore(400, model((2, 5, 0), &ALL, Bug::None));
}

#[test]
fn three_islands_agree_on_what_is_where() {
    explore(200, model((3, 4, 0), &ALL, Bug::None));
}

#[test]
fn where_memory_is_short_nothing_is_lost() {
    explore(300, model((2, 5, 12), &ALL, Bug::None));
}

/// The entry of a page is no longer known when other pages have been unmapped: they may have shared a table, which has gone then.
#[test]
fn no_entry_is_known_after_pages_were_unmapped() {
    explore(1, || {
        let world = World::new(0);
        let island = Island::new(&world, 0, Bug::None);
        let space = world.space.clone();
        assert!(island.activate(&space) && island.translate(&space, FILE, READ).is_some());
        let (page, who) = (PAGES[FILE], 3);
        let known = || residency::granted(&island, space.record, page).map(|(who, _)| who);
        let (entry, frame) = residency::entry_of(&island, space.record, page).expect("the page is mapped");
        assert_eq!(frame, world.file);
        residency::grant(&island, space.record, page, who, entry);
        assert_eq!(known(), Some(who));
        residency::forget_granted_to(space.record, who + 1);
        assert_eq!(known(), Some(who), "another one's was forgotten");
        island.remap(&space, PRIVATE);
        assert_eq!(known(), None, "a table that may have gone is known");
        residency::grant(&island, space.record, page, who, entry);
        residency::forget_granted_to(space.record, who);
        assert_eq!(known(), None);
        island.flush_user();
    });
}
