//! What is to be true of pages, and of frames in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::sync::{Arc, Mutex};

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{Frame, InodeRecord, Isa, IslandId, PAGE_SIZE, Pool, SpaceRecord, VMA_SHARED, VmaRecord};
use motet_paging::Attr;
use motet_protocol::Context;
use motet_protocol::memory::{alloc_zeroed_frame, frame_refs, usage};
use motet_protocol::residency::{self, Kind};

use super::Island;
use crate::harness::{Bells, Core, Objects, fresh_pool, quietly};

/// Addresses of the pages of a space, and which one is which. Those of a file have a table of their own.
pub const PAGES: [u64; 3] = [0x4000_0000, 0x4000_1000, 0x8000_0000];
pub const PRIVATE: usize = 0;
pub const CODE: usize = 1;
pub const FILE: usize = 2;

/// Where islands see the pool, in their physical memory.
const LOCAL: [u64; 3] = [0, 0x4000_0000, 0x8000_0000];

/// What a page contains, and what is allowed; nothing, where it is not mapped.
#[derive(Clone)]
pub struct Page {
    pub content: u64,
    pub access: Attr,
}

#[derive(Clone)]
pub struct Spec {
    pub pages: [Page; 3],
}

impl Spec {
    pub fn content(&self, world: &World, page: usize) -> u64 {
        if page == FILE { world.ghost(|ghost| ghost.file) } else { self.pages[page].content }
    }

    pub fn written(&mut self, world: &World, page: usize, value: u64) {
        if page == FILE {
            world.ghost(|ghost| ghost.file = value);
        } else {
            self.pages[page].content = value;
        }
    }
}

#[derive(Clone)]
pub struct Space {
    pub record: &'static SpaceRecord,
    spec: Arc<Mutex<Spec>>,
}

impl Space {
    fn new(objects: &Objects) -> Self {
        let page = |access| Page { content: 0, access };
        let both = Attr::READ.union(Attr::WRITE);
        let pages = [page(both), page(both), page(both)];
        Self { record: objects.make(), spec: Arc::new(Mutex::new(Spec { pages })) }
    }

    /// Looks at the specification, or changes it: no step of the model's.
    pub fn spec<R>(&self, body: impl FnOnce(&mut Spec) -> R) -> R {
        body(&mut self.spec.lock().expect("no panic while it was held"))
    }
}

/// What no kernel keeps.
#[derive(Default)]
pub struct Ghost {
    /// What the file's page contains.
    pub file: u64,
    /// Roots that have the kernel's half.
    pub prepared: BTreeSet<u32>,
    /// What islands execute from a frame: what was in it when they last synchronised their fetches with it.
    pub fetched: BTreeMap<(IslandId, u32), u64>,
    values: u64,
}

impl Ghost {
    pub fn next_value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }
}

#[derive(Clone)]
pub struct World {
    pub pool: Pool,
    pub bells: Arc<Bells>,
    pub space: Space,
    /// Of each island, one that it may fork.
    pub children: [Space; 3],
    pub inode: &'static InodeRecord,
    /// The frame of the file's only page; the file has a reference.
    pub file: Frame,
    /// Where spaces have the file mapped.
    pub mapping: &'static VmaRecord,
    free: u64,
    ghost: Arc<Mutex<Ghost>>,
}

impl World {
    /// `spare`: how many frames are free, 0: as many as there are.
    pub fn new(spare: u32) -> Self {
        let (pool, base) = fresh_pool(4);
        let (objects, bells) = (Objects::new(pool, base), Arc::default());
        let core = Core::new(pool, 0, &bells);
        let mut world = quietly(|| {
            for (island, isa) in [Isa::X86_64, Isa::AArch64, Isa::RiscV64].into_iter().enumerate() {
                let record = &pool.header().islands[island];
                record.paging.set(isa as u32);
                record.ranges[0].local_phys.set(LOCAL[island]);
                record.ranges[0].len.set(pool.len());
            }
            let inode: &InodeRecord = objects.make();
            let mapping: &VmaRecord = objects.make();
            mapping.start.set(PAGES[FILE]);
            mapping.end.set(PAGES[FILE] + PAGE_SIZE);
            mapping.file_len.set(PAGE_SIZE);
            mapping.flags.set(VMA_SHARED);
            mapping.inode.set(core.raw(inode));
            let file = alloc_zeroed_frame(&core).expect("a model's pool has frames");
            pool.at::<AtomicU64>(file.addr()).store(0, Ordering::Relaxed);
            Self {
                pool,
                bells,
                space: Space::new(&objects),
                children: std::array::from_fn(|_| Space::new(&objects)),
                inode,
                file,
                mapping,
                free: 0,
                ghost: Arc::default(),
            }
        });
        quietly(|| {
            let first = Island::new(&world, 0, super::Bug::None);
            residency::make_root(&first, world.space.record, IslandId(0), false).expect("there are frames");
            while spare != 0 && usage(pool).0 > u64::from(spare) * PAGE_SIZE {
                let _ = alloc_zeroed_frame(&core).expect("there is one");
            }
        });
        world.free = quietly(|| usage(pool).0);
        world
    }

    pub fn ghost<R>(&self, body: impl FnOnce(&mut Ghost) -> R) -> R {
        body(&mut self.ghost.lock().expect("no panic while it was held"))
    }

    fn spaces(&self) -> impl Iterator<Item = &Space> {
        let is_used = |space: &&Space| space.record.roots.iter().any(|root| root.load(Ordering::Relaxed) != 0);
        once(&self.space).chain(&self.children).filter(is_used)
    }

    /// Nobody does anything any more: looks whether all is as it should be, and takes all apart.
    pub fn judge(&self, judge: &Island) {
        quietly(|| {
            let mut owners = BTreeMap::from([(self.file, 1)]);
            for space in self.spaces() {
                self.count_owners(judge, space, &mut owners);
            }
            for (&frame, &owners) in &owners {
                assert_eq!(frame_refs(self.pool, frame), owners, "references to frame {:#x}", frame.0);
            }
            let roots = self.spaces().count() as u64;
            for space in self.spaces() {
                space.record.active.iter().for_each(|active| active.store(0, Ordering::Relaxed));
                residency::dismantle(judge, space.record, || once(0..u64::MAX));
            }
            assert!(roots > 0 && frame_refs(self.pool, self.file) == 1, "the file's frame is not the file's alone");
            // The first root was there before.
            assert_eq!(usage(self.pool).0, self.free + PAGE_SIZE, "frames are lost, or were freed too often");
        });
    }

    fn count_owners(&self, judge: &Island, space: &Space, owners: &mut BTreeMap<Frame, u32>) {
        let record = space.record;
        let home = IslandId(record.home.get() as u8);
        let table = |island| residency::table(judge, record, island);
        let mut resident = BTreeMap::new();
        table(home).expect("a space has its home's table").visit(0..u64::MAX, |at, leaf| {
            assert!(Kind::of(leaf.attr).holds_reference(), "a leaf {leaf:?} is left at home");
            *owners.entry(leaf.frame.named()).or_default() += 1;
            resident.insert(at, leaf);
        });
        assert_eq!(record.resident.load(Ordering::Relaxed) as usize, resident.len(), "resident pages");
        let mut replicas = 0;
        for cache in (0..3).map(IslandId).filter(|&island| island != home).filter_map(table) {
            cache.visit(0..u64::MAX, |at, leaf| {
                let authority = resident.get(&at).unwrap_or_else(|| panic!("the home has no page at {at:#x}"));
                let data = Attr::READ.union(Attr::WRITE);
                let excess = leaf.attr.without(authority.attr);
                if residency::is_replica(self.pool, leaf.frame.named()) {
                    assert!(
                        !authority.attr.contains(Attr::WRITE),
                        "a page with a replica may be stored to: {authority:?}"
                    );
                    assert_eq!(leaf.attr, Kind::Borrowed.allowing(Attr::READ));
                    *owners.entry(leaf.frame.named()).or_default() += 1;
                    replicas += 1;
                    return;
                }
                assert!(leaf.frame == authority.frame, "another frame than the home's is at {at:#x}");
                assert!(!data.bits() & excess.bits() == excess.bits(), "more is allowed than at home: {leaf:?}");
            });
        }
        assert_eq!(record.replicas.get(), replicas, "replicas");
    }
}
