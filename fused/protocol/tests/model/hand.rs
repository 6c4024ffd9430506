//! References in hand: however far a core came that died, others count right and close once.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use motet_layout::{
    CoreId, FileRecord, FilesRecord, ISLAND_DEAD, ISLAND_JOINED, ISLAND_RECLAIMING, IslandId, LockClass, Pool,
    PoolAddr,
    sync::{AtomicU32, Ordering},
};
use motet_protocol::{
    Context,
    hand::{self, Found, Holder},
    lock, orphans, rejoin, shootdown,
};

use crate::harness::{
    Bells, Core, Objects, as_its_core, dies_after, explore, fresh_pool, must_be_caught, quietly, together,
};

/// The island of the core that dies, and the first one, which reclaims it.
const DYING: u8 = 2;
const FIRST: u8 = 0;
/// More operations than the core that dies has.
const OPERATIONS: u32 = 150;
/// The same, of one that meets another one at a count.
const MEETINGS: u32 = 40;
/// Schedules of each death there.
const MEETING_SCHEDULES: usize = 300;

/// A core that repairs descriptor tables, in some way.
#[derive(Clone)]
struct Actor {
    core: Core,
    world: World,
    settles: bool,
    /// How often its island had died when it started.
    life: u32,
}

/// A file in the first descriptor of a table, which two more words of the table may come to have.
#[derive(Clone, Copy)]
struct World {
    file: &'static FileRecord,
    table: &'static FilesRecord,
    closed: &'static AtomicU32,
}

impl World {
    fn new(objects: &Objects) -> Self {
        let world = Self { file: objects.make(), table: objects.make(), closed: objects.make() };
        quietly(|| {
            world.file.refs.store(1, Ordering::Relaxed);
            world.table.inline[0].store(objects.pool.addr_of(world.file).0, Ordering::Relaxed);
        });
        world
    }

    /// With a file that nobody has opened.
    fn unopened(objects: &Objects) -> Self {
        Self { file: objects.make(), table: objects.make(), closed: objects.make() }
    }

    /// As many references as descriptors: how many.
    fn check_references(&self) -> u32 {
        let there = self.table.inline.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).count() as u32;
        assert_eq!(self.file.refs.load(Ordering::Relaxed), there, "references that nobody has, or too few");
        there
    }
}

impl Context for Actor {
    as_its_core!();

    fn life(&self) -> u32 {
        self.life
    }

    fn recover(&self, class: LockClass, _: PoolAddr) -> bool {
        assert_eq!(class, LockClass::Descriptors);
        if self.settles {
            self.settle_moves();
        }
        true
    }
}

fn dying() -> CoreId {
    CoreId::new(IslandId(DYING), 0)
}

impl Actor {
    fn place(&self, index: usize) -> Holder {
        Holder::Descriptor(self.pool().addr_of(self.world.table), index as u32)
    }

    fn has(&self, index: usize) -> bool {
        self.world.table.inline[index].load(Ordering::Relaxed) != 0
    }

    fn put(&self) {
        if hand::drop_one(self, self.world.file) {
            self.close();
        }
    }

    fn close(&self) {
        self.world.closed.store(1, Ordering::Relaxed); // may be done twice
        hand::closed(self, self.world.file);
    }

    /// `dup`, from the first descriptor.
    fn duplicate(&self, to: usize) {
        let guard = ManuallyDrop::new(lock::lock(self, &self.world.table.lock));
        let has = self.has(0);
        if has {
            hand::take(self, self.world.file);
        }
        drop(ManuallyDrop::into_inner(guard));
        if has {
            let guard = ManuallyDrop::new(lock::lock(self, &self.world.table.lock));
            let word = self.pool().addr_of(self.world.file).0;
            let store = || self.world.table.inline[to].store(word, Ordering::Relaxed);
            hand::give(self, self.world.file, self.place(to), store);
            drop(ManuallyDrop::into_inner(guard));
        }
    }

    fn close_descriptor(&self, index: usize) {
        let guard = ManuallyDrop::new(lock::lock(self, &self.world.table.lock));
        let has = self.has(index);
        if has {
            let store = || self.world.table.inline[index].store(0, Ordering::Relaxed);
            hand::fetch(self, self.world.file, self.place(index), store);
        }
        drop(ManuallyDrop::into_inner(guard));
        if has {
            self.put();
        }
    }

    fn settle_moves(&self) {
        if let Some(Holder::Descriptor(_, index)) = hand::place(self, dying()) {
            let word = self.world.table.inline[index as usize].load(Ordering::Relaxed);
            hand::settle_moves(self, dying(), PoolAddr(word));
        }
    }

    fn await_death(&self) {
        while self.pool().header().islands[usize::from(DYING)].state.load(Ordering::SeqCst) != ISLAND_DEAD {
            self.relax();
        }
    }

    fn reclaim(&self) {
        hand::disown(self, self.world.file);
        self.reclaim_noted();
    }

    /// What the notes of the dead core say.
    fn reclaim_noted(&self) {
        hand::settle_counts(self, dying());
        if hand::place(self, dying()).is_some() {
            let _guard = lock::lock(self, &self.world.table.lock);
            self.settle_moves();
        }
        while let Some((found, is_closing)) = hand::take_over(self, dying()) {
            assert!(matches!(found, Found::File(file) if core::ptr::eq(file, self.world.file)));
            if is_closing { self.close() } else { self.put() }
        }
    }
}

/// The core dies while it takes and drops a reference, is reclaimed, lives again and does the same once more; the second one does `lives` meanwhile.
fn rejoins(at: u32, reclaims: fn(&Actor), lives: fn(&Actor)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let world = World::new(&objects);
        quietly(|| {
            for island in &pool.header().islands[..3] {
                island.state.store(ISLAND_JOINED, Ordering::Relaxed);
            }
        });
        let (bells, is_over) = (Arc::new(Bells::default()), Arc::new(AtomicBool::new(false)));
        let actor = |(island, life)| Actor { core: Core::new(pool, island, &bells), world, settles: true, life };
        let [first, second, mortal, reborn] = [(FIRST, 0), (1, 0), (DYING, 0), (DYING, 1)].map(actor);
        let ends = is_over.clone();
        together(vec![
            Box::new(move || {
                dies_after(at, || use_once(&mortal, 1));
                let (header, island) = (pool.header(), IslandId(DYING));
                rejoin::declare_dead(header, island);
                while !rejoin::is_gone(header, island) {
                    mortal.relax();
                }
                rejoin::begin(header, island);
                quietly(|| rejoin::take_records(&reborn));
                rejoin::join(&reborn);
                // By another table than theirs: without its lock.
                hand::take(&reborn, world.file);
                reborn.put();
                ends.store(true, Relaxed);
            }),
            Box::new(move || {
                lives(&second);
                while !is_over.load(Relaxed) {
                    shootdown::pass(&second, || ());
                    second.relax();
                }
            }),
            Box::new(move || {
                first.await_death();
                orphans::wait_for_all(&first);
                pool.header().islands[usize::from(DYING)].state.store(ISLAND_RECLAIMING, Ordering::SeqCst);
                reclaims(&first);
                orphans::wait_for_all(&first);
                quietly(|| rejoin::finish_reclaiming(&first, 1 << DYING));
            }),
        ]);
        world.check_references();
    }
}

/// `dup` to a descriptor, and `close`.
fn use_once(actor: &Actor, descriptor: usize) {
    actor.duplicate(descriptor);
    actor.close_descriptor(descriptor);
}

/// Operations until both are done, at most.
const USES: u32 = 60;

/// The dying core does `dies` as far as it comes; the second one does `lives` meanwhile, and the first reclaims. Returns the world that is left.
fn die_and_reclaim(world: fn(&Objects) -> World, at: u32, settles: bool, dies: fn(&Actor), lives: fn(&Actor)) -> World {
    let (pool, base) = fresh_pool(2);
    let objects = Objects::new(pool, base);
    let world = world(&objects);
    let bells = Arc::new(Bells::default());
    let actor = |island| Actor { core: Core::new(pool, island, &bells), world, settles, life: 0 };
    let [first, second, doomed] = [FIRST, 1, DYING].map(actor);
    together(vec![
        Box::new(move || {
            dies_after(at, || dies(&doomed));
            let island = &pool.header().islands[usize::from(DYING)];
            island.deaths.fetch_add(1, Ordering::SeqCst);
            island.state.store(ISLAND_DEAD, Ordering::SeqCst);
        }),
        Box::new(move || lives(&second)),
        Box::new(move || {
            first.await_death();
            first.reclaim();
        }),
    ]);
    world
}

/// See [`die_and_reclaim`]: a file that is in use at first.
fn death(at: u32, settles: bool, dies: fn(&Actor), lives: fn(&Actor)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = die_and_reclaim(World::new, at, settles, dies, lives);
        let there = world.check_references();
        assert_eq!(world.closed.load(Ordering::Relaxed) != 0, there == 0, "closed while in use, or never");
    }
}

/// See [`die_and_reclaim`]: `opens` takes a new file's first reference. If it has not come as far, only the memory is lost.
fn opening(at: u32, opens: fn(&Actor)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = die_and_reclaim(World::unopened, at, true, opens, |_| {});
        let there = world.check_references();
        assert!(world.closed.load(Ordering::Relaxed) == 0 || there == 0, "closed while in use");
    }
}

/// Moves what is in hand to a descriptor that nobody else knows.
fn install(actor: &Actor) {
    let word = actor.pool().addr_of(actor.world.file).0;
    let store = || actor.world.table.inline[1].store(word, Ordering::Relaxed);
    hand::give(actor, actor.world.file, actor.place(1), store);
}

fn dies(actor: &Actor) {
    actor.duplicate(1);
    actor.close_descriptor(0);
    actor.close_descriptor(1);
}

fn lives(actor: &Actor) {
    actor.duplicate(2);
    actor.close_descriptor(0);
    actor.close_descriptor(2);
}

#[test]
fn references_in_hand_of_the_dead_are_dropped_once() {
    for at in 0..OPERATIONS {
        explore(40, death(at, true, dies, lives));
        // Nobody else meets what the dead core owns.
        explore(2, death(at, true, dies, |_| {}));
    }
}

/// Two cores meet at a count again and again. Who has read that the other one owns it, and then finds that dead, reads whether it still does: it may have changed
/// the count in between.
#[test]
fn owners_that_have_changed_a_count_before_they_died_are_left_alone() {
    let meet: fn(&Actor) = |actor| {
        for _ in 0..2 {
            hand::take(actor, actor.world.file);
            actor.put();
        }
    };
    for at in 0..MEETINGS {
        explore(MEETING_SCHEDULES, death(at, true, meet, meet));
    }
}

#[test]
fn the_first_reference_of_a_new_file_is_dropped_with_the_core_that_opens_it() {
    for at in 0..OPERATIONS {
        let opens = |actor: &Actor| {
            hand::take_first(actor, actor.world.file);
            install(actor);
            actor.close_descriptor(1);
        };
        explore(2, opening(at, opens));
    }
}

/// Nobody else knows the file, but it stays counted.
#[test]
fn counting_a_new_file_before_writing_it_down_is_caught() {
    let opens: fn(&Actor) = |actor| {
        let file = actor.world.file;
        file.refs.store(1, Ordering::Relaxed);
        let word = actor.pool().addr_of(file).0;
        actor.own_record().hand[0].store(word | 2, Ordering::Relaxed);
        install(actor);
    };
    must_be_caught(100, move || (0..4).for_each(|at| opening(at, opens)()));
}

/// Of a core that died in between nobody knows that it has counted.
#[test]
fn counting_before_writing_it_down_is_caught() {
    let dies: fn(&Actor) = |actor| {
        let file = actor.world.file;
        file.refs.fetch_add(1, Ordering::Relaxed);
        // As if it had been taken properly.
        let word = actor.pool().addr_of(file).0;
        actor.own_record().hand[0].store(word | 2, Ordering::Relaxed);
        actor.put();
    };
    must_be_caught(100, move || (0..4).for_each(|at| death(at, true, dies, |_| {})()));
}

/// In between, neither the descriptor nor the core has it.
#[test]
fn emptying_a_descriptor_before_writing_it_down_is_caught() {
    let dies: fn(&Actor) = |actor| {
        let file = actor.world.file;
        core::mem::forget(lock::lock(actor, &actor.world.table.lock));
        actor.world.table.inline[0].store(0, Ordering::Relaxed);
        let word = actor.pool().addr_of(file).0;
        actor.own_record().hand[0].store(word | 2, Ordering::Relaxed);
    };
    must_be_caught(100, move || (0..4).for_each(|at| death(at, true, dies, |_| {})()));
}

/// Who takes the table over changes the word that tells what the dead core had.
#[test]
fn taking_a_table_over_without_settling_moves_is_caught() {
    must_be_caught(60, move || (0..OPERATIONS).for_each(|at| death(at, false, dies, lives)()));
}

/// The count looks as if it had been changed.
#[test]
fn freeing_a_count_before_the_note_is_undone_is_caught() {
    let lives: fn(&Actor) = |actor| {
        actor.await_death();
        let refs = &actor.world.file.refs;
        let word = refs.load(Ordering::Relaxed);
        let _ = refs.compare_exchange(word, word & 0xff_ffff, Ordering::AcqRel, Ordering::Relaxed);
    };
    must_be_caught(60, move || (0..OPERATIONS).for_each(|at| death(at, true, dies, lives)()));
}

#[test]
fn an_island_that_joins_again_waits_for_nothing_that_its_earlier_life_owned() {
    for at in 0..USES {
        explore(20, rejoins(at, Actor::reclaim, |second| use_once(second, 2)));
        explore(2, rejoins(at, Actor::reclaim, |_| {}));
    }
}

/// It says that its own core owns the count, which lives.
#[test]
fn leaving_owners_to_whoever_meets_them_is_caught_when_an_island_joins_again() {
    must_be_caught(2, move || (0..USES).for_each(|at| rejoins(at, Actor::reclaim_noted, |_| {})()));
}
