//! Shoot-down: once it is complete, no core uses a translation that was withdrawn; idle cores are not waited for.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{CORE_IDLE, CORE_OUT, CoreId, Frame, PAGE_SIZE, Pool, SpaceRecord};
use motet_paging::{Attr, Format, Mapped, PhysMap, Table, Withdrawal};
use motet_protocol::lock::lock;
use motet_protocol::memory::{alloc_zeroed_frame, frame_refs, release_frame};
use motet_protocol::shootdown::{self, shoot_down};
use motet_protocol::{Context, hotplug, run_queue};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, together};

/// What the page-table entry says: which frame, 0 for none.
const OLD: u64 = 1;
const NEW: u64 = 2;

/// What a model's actors share.
#[derive(Clone)]
struct World {
    space: &'static SpaceRecord,
    entry: &'static AtomicU64,
    /// Ghost: set when the shoot-down is complete.
    withdrawn: Arc<std::sync::atomic::AtomicBool>,
    bells: Arc<Bells>,
    pool: Pool,
}

impl World {
    fn new() -> Self {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let (space, entry) = (objects.make(), objects.make::<AtomicU64>());
        crate::harness::quietly(|| entry.store(OLD, Ordering::Relaxed));
        Self { space, entry, withdrawn: Arc::default(), bells: Arc::default(), pool }
    }

    fn user(&self, island: u8) -> User {
        User { core: Core::new(self.pool, island, &self.bells), world: self.clone(), cached: Cell::new(0) }
    }

    /// Island 2 makes the entry of a guest's table read-only, as a kernel does when an accelerator is disconnected.
    fn narrower(&self, says_so: bool) -> Box<dyn FnOnce() + Send> {
        let (core, world) = (Core::new(self.pool, 2, &self.bells), self.clone());
        Box::new(move || {
            let _guard = lock(&core, &world.space.lock);
            let narrow = |narrowing: &mut shootdown::Narrowing| {
                world.entry.store(NEW, Ordering::Release);
                if says_so {
                    narrowing.narrowed();
                }
            };
            shootdown::narrow(&core, world.space, || {}, narrow);
            world.withdrawn.store(true, Ordering::SeqCst);
        })
    }

    /// Island 2 withdraws the entry, as a kernel does: under the space's lock.
    fn initiator(&self) -> Box<dyn FnOnce() + Send> {
        let (core, world) = (Core::new(self.pool, 2, &self.bells), self.clone());
        Box::new(move || {
            let _guard = lock(&core, &world.space.lock);
            world.entry.store(NEW, Ordering::Release);
            shoot_down(&core, world.space, || {});
            world.withdrawn.store(true, Ordering::SeqCst);
        })
    }
}

/// A core in user mode, with a translation cache of one entry.
struct User {
    core: Core,
    world: World,
    cached: Cell<u64>,
}

impl User {
    fn id(&self) -> CoreId {
        self.core.core()
    }

    fn serve(&self) {
        shootdown::serve(&self.core, || self.cached.set(0));
    }

    fn activate(&self) {
        self.world.space.active[self.id().island().index()].fetch_or(1, Ordering::SeqCst);
        self.cached.set(0);
    }

    fn deactivate(&self) {
        self.cached.set(0);
        self.world.space.active[self.id().island().index()].fetch_and(!1, Ordering::SeqCst);
    }

    /// One user instruction: translates by the cache if it can.
    fn access(&self) {
        if self.cached.get() == 0 {
            self.cached.set(self.world.entry.load(Ordering::Acquire));
        }
        let withdrawn = self.world.withdrawn.load(Ordering::SeqCst);
        assert!(!withdrawn || self.cached.get() != OLD, "a stale translation was used after the shoot-down");
    }
}

/// Serves like a kernel while it spins: otherwise two cores could wait for each other.
struct Serving<'a>(&'a User);

impl Context for Serving<'_> {
    fn core(&self) -> CoreId {
        self.0.id()
    }
    fn pool(&self) -> Pool {
        self.0.world.pool
    }
    fn relax(&self) {
        self.0.serve();
        self.0.core.relax();
    }
    fn ring(&self, target: CoreId) {
        self.0.core.ring(target);
    }
}

/// A core rests, and is back.
type Rest = fn(&Core);

fn idle(core: &Core) {
    run_queue::begin_idle(core, CORE_IDLE);
    run_queue::end_idle(core);
}

/// It is taken out, and comes back. (A kernel has no space active then; here it has, so that all depends on what it serves when it comes back.)
fn be_out(core: &Core) {
    hotplug::leave(core);
    core.relax();
    hotplug::come_back(core);
}

/// A user core that runs, takes the space's lock in the kernel, rests, and runs again.
fn run_lock_idle_run(user: &User, rest: Rest, serve_after_idle: bool) {
    user.activate();
    for _ in 0..2 {
        user.access();
        user.serve(); // an interrupt
        user.access();
        drop(lock(&Serving(user), &user.world.space.lock)); // a system call
        user.serve();
        user.access();
        rest(&user.core);
        if serve_after_idle {
            user.serve();
        }
        user.access();
    }
    // It would go on serving interrupts for ever.
    user.deactivate();
    while !user.world.withdrawn.load(Ordering::SeqCst) {
        user.serve();
        user.core.relax();
    }
}

fn model(rest: Rest, serve_after_idle: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = World::new();
        let mut actors = vec![world.initiator()];
        for island in 0..2 {
            let user = world.user(island);
            actors.push(Box::new(move || run_lock_idle_run(&user, rest, serve_after_idle)));
        }
        together(actors);
    }
}

fn narrowing(says_so: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = World::new();
        let mut actors = vec![world.narrower(says_so)];
        for island in 0..2 {
            let user = world.user(island);
            actors.push(Box::new(move || run_lock_idle_run(&user, idle, true)));
        }
        together(actors);
    }
}

#[test]
fn no_guest_writes_by_what_was_made_read_only() {
    explore(1500, narrowing(true));
}

#[test]
fn narrowing_without_saying_so_is_caught() {
    must_be_caught(1500, narrowing(false));
}

#[test]
fn no_stale_translation_after_completion() {
    explore(1500, model(idle, true));
}

#[test]
fn no_stale_translation_where_cores_are_taken_out_and_come_back() {
    explore(1500, model(be_out, true));
}

#[test]
fn forgetting_to_serve_after_being_out_is_caught() {
    must_be_caught(1500, model(be_out, false));
}

/// It runs again before it says that it is back.
#[test]
fn saying_too_late_that_one_is_back_is_caught() {
    let rest = |core: &Core| {
        if core.own_record().state.load(Ordering::Relaxed) != CORE_OUT {
            hotplug::leave(core);
        }
    };
    must_be_caught(1500, model(rest, true));
}

#[test]
fn forgetting_to_serve_after_idling_is_caught() {
    must_be_caught(1500, model(idle, false));
}

/// A core that sleeps for good does not hold up the initiator.
#[test]
fn an_idle_core_is_not_waited_for() {
    explore(1500, || {
        let world = World::new();
        let user = world.user(0);
        user.activate();
        together(vec![
            world.initiator(),
            Box::new(move || {
                user.access();
                user.serve();
                user.access();
                assert!(run_queue::begin_idle(&user.core, CORE_IDLE));
            }),
        ]);
    });
}

/// The initiator tells the cores first and edits the entry afterwards.
#[test]
fn editing_after_asking_is_caught() {
    must_be_caught(1500, || {
        let world = World::new();
        let (user, initiator) = (world.user(0), Core::new(world.pool, 2, &world.bells));
        let edited = world.clone();
        together(vec![
            Box::new(move || {
                shoot_down(&initiator, edited.space, || {});
                edited.entry.store(NEW, Ordering::Release);
                edited.withdrawn.store(true, Ordering::SeqCst);
            }),
            Box::new(move || run_lock_idle_run(&user, idle, true)),
        ]);
    });
}

/// A core that activates the space during the shoot-down either is asked or translates by the new entry.
#[test]
fn activation_beside_a_shoot_down() {
    explore(1500, || {
        let world = World::new();
        let user = world.user(0);
        together(vec![
            world.initiator(),
            Box::new(move || {
                for _ in 0..2 {
                    user.activate();
                    user.access();
                    user.serve();
                    user.access();
                    user.deactivate();
                }
                while !user.world.withdrawn.load(Ordering::SeqCst) {
                    user.serve();
                    user.core.relax();
                }
            }),
        ]);
    });
}

/// Where [`Tree`] maps its page.
const VA: u64 = 0x4000_0000;
/// What the page contains.
const CONTENT: u64 = 0x5eed;

/// A space with a real table, one page, and what becomes of frames that are released.
#[derive(Clone)]
struct Tree {
    world: World,
    root: Frame,
    page: Frame,
    /// What entries of a frame that was used again name.
    trap: Frame,
}

/// A withdrawal that keeps nothing: it releases tables as it gets them, and they are used again at once.
struct Hasty<'a>(&'a Tree, &'a Core);

impl Withdrawal for Hasty<'_> {
    fn home(&self) -> Frame {
        Frame::NONE
    }
    fn narrowed(&mut self) {}
    fn take_table(&mut self, table: Frame, _holds_pages: bool) {
        crate::harness::quietly(|| release_frame(self.1, table));
        self.0.use_again(self.1);
    }
    fn take_range(&mut self, _range: Range<u64>) {}
    fn take_page(&mut self, _page: Mapped) {}
}

impl Tree {
    fn new() -> (Self, Core) {
        let world = World::new();
        let core = Core::new(world.pool, 2, &world.bells);
        let tree = crate::harness::quietly(|| {
            let whole = &world.pool.header().islands[0].ranges[0];
            whole.len.set(world.pool.len());
            let allocate = || alloc_zeroed_frame(&core).expect("a model's pool has frames");
            let tree = Self { root: allocate(), page: allocate(), trap: allocate(), world };
            tree.table().map(VA, tree.page, Attr::READ, &mut || Some(allocate())).expect("there are frames");
            tree.world.pool.at::<AtomicU64>(tree.page.addr()).store(CONTENT, Ordering::Relaxed);
            tree
        });
        (tree, core)
    }

    fn table(&self) -> Table<'static> {
        let pool = self.world.pool;
        let map = PhysMap::new(&pool.header().islands[0].ranges, pool.len());
        Table { pool, root: self.root, format: Format::X86_64, map }
    }

    /// Somebody uses whatever was released. In the place of a table, it names a page that is none of the space's.
    fn use_again(&self, core: &Core) {
        crate::harness::quietly(|| {
            let format = Format::X86_64;
            for _ in 0..4 {
                let frame = alloc_zeroed_frame(core).expect("a model's pool has frames");
                for word in self.world.pool.page_words(frame.addr()).expect("it is in the pool") {
                    word.store(format.leaf(self.trap.addr().0, Attr::READ), Ordering::Relaxed);
                }
            }
        });
    }

    /// A core that walks, as its MMU does or its kernel for a system call, uses what it has found, and serves.
    fn user(&self) -> Box<dyn FnOnce() + Send> {
        let (user, tree) = (self.world.user(0), self.clone());
        Box::new(move || {
            user.activate();
            while !tree.world.withdrawn.load(Ordering::SeqCst) {
                if let Some(found) = tree.table().readable(VA) {
                    assert_eq!(found, tree.page.addr(), "a walk went through a table that was released");
                    let word = tree.world.pool.at::<AtomicU64>(found).load(Ordering::Relaxed);
                    assert_eq!(word, CONTENT, "a page was used that was released");
                }
                user.serve();
                user.core.relax();
            }
            user.deactivate();
        })
    }
}

/// A model in which island 2 unmaps the page by `unmap`, with the space's lock, while island 0 uses it.
fn unmapping(unmap: fn(&Tree, &Core)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (tree, core) = Tree::new();
        let user = tree.user();
        together(vec![
            user,
            Box::new(move || {
                let _guard = lock(&core, &tree.world.space.lock);
                unmap(&tree, &core);
                tree.use_again(&core);
                tree.world.withdrawn.store(true, Ordering::SeqCst);
            }),
        ]);
    }
}

fn unmap(tree: &Tree, core: &Core) {
    let home = tree.table();
    shootdown::edit(
        core,
        tree.world.space,
        &home,
        || {},
        |stale| {
            home.unlink(VA..VA + PAGE_SIZE, stale);
            home.withdraw(VA..VA + PAGE_SIZE, stale);
        },
    );
    crate::harness::quietly(|| assert_eq!(frame_refs(tree.world.pool, tree.page), 0, "the page was lost"));
}

#[test]
fn frames_outlive_their_last_translation() {
    explore(200, unmapping(unmap));
}

/// The page's frame is released when its entry is gone, and the shoot-down comes afterwards.
#[test]
fn releasing_a_page_before_the_shoot_down_is_caught() {
    must_be_caught(
        200,
        unmapping(|tree, core| {
            let home = tree.table();
            shootdown::edit(
                core,
                tree.world.space,
                &home,
                || {},
                |stale| {
                    home.forget(VA..VA + PAGE_SIZE, stale, |leaf| {
                        release_frame(core, leaf.frame.named());
                        true
                    });
                    tree.use_again(core);
                },
            );
        }),
    );
}

/// The page is unmapped rightly; then its tables are taken out of the tree and released at once.
#[test]
fn releasing_tables_without_a_shoot_down_is_caught() {
    must_be_caught(
        1000,
        unmapping(|tree, core| {
            let home = tree.table();
            shootdown::edit(core, tree.world.space, &home, || {}, |stale| home.withdraw(VA..VA + PAGE_SIZE, stale));
            home.unlink(VA..VA + PAGE_SIZE, &mut Hasty(tree, core));
        }),
    );
}
