//! The cross-island lock: mutual exclusion, a word that names its holder, what becomes of it when that dies, and the order in which locks are taken.

use std::sync::Arc;

use motet_layout::sync::Ordering;
use motet_layout::{Cell64, CoreId, FileLock, ISLAND_DEAD, InodeLock, LockClass, PipeLock, Pool, PoolAddr};
use motet_protocol::{Context, lock};

use crate::harness::{Bells, Core, Objects, as_its_core, explore, fresh_pool, must_be_caught, together};

const ACTORS: u8 = 3;
const ROUNDS: u64 = 2;

fn model(section: fn(&Core, &'static FileLock, &'static Cell64)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let (word, counter) = (objects.make::<FileLock>(), objects.make::<Cell64>());
        let bells = Arc::new(Bells::default());
        together(
            (0..ACTORS)
                .map(|island| {
                    let core = Core::new(pool, island, &bells);
                    Box::new(move || (0..ROUNDS).for_each(|_| section(&core, word, counter))) as _
                })
                .collect(),
        );
        assert_eq!(counter.get(), u64::from(ACTORS) * ROUNDS);
        assert_eq!(lock::holder(word), None);
    }
}

/// Reads and writes a word that is not incremented atomically.
fn count(core: &Core, word: &FileLock, counter: &Cell64) {
    let before = counter.get();
    assert_eq!(lock::holder(word), Some(core.core()), "the lock does not name its holder");
    counter.set(before + 1);
}

#[test]
fn excludes_and_names_its_holder() {
    explore(
        1500,
        model(|core, word, counter| {
            let _guard = lock::lock(core, word);
            count(core, word, counter);
        }),
    );
}

#[test]
fn try_lock_excludes() {
    explore(
        1500,
        model(|core, word, counter| {
            loop {
                if let Some(_guard) = lock::try_lock(core, word) {
                    return count(core, word, counter);
                }
                core.relax();
            }
        }),
    );
}

#[test]
fn looking_before_taking_is_caught() {
    must_be_caught(
        1500,
        model(|core, word, counter| {
            while word.word().load(Ordering::Acquire) != 0 {
                core.relax();
            }
            word.word().store(u64::from(core.core().0) + 1, Ordering::Relaxed);
            counter.set(counter.get() + 1);
            word.word().store(0, Ordering::Release);
        }),
    );
}

/// Two words that are the same whenever nobody has the lock; who repairs them counts that.
#[derive(Clone, Copy)]
struct Pair {
    lock: &'static FileLock,
    words: [&'static Cell64; 2],
    repaired: &'static Cell64,
}

/// A core that repairs the pair.
struct Repairing {
    core: Core,
    pair: Pair,
}

impl Context for Repairing {
    as_its_core!();

    fn recover(&self, class: LockClass, lock: PoolAddr) -> bool {
        assert_eq!((class, lock), (LockClass::File, self.pool().addr_of(self.pair.lock)));
        self.pair.repair();
        true
    }
}

impl Pair {
    fn repair(&self) {
        self.words[1].set(self.words[0].get());
        self.repaired.set(self.repaired.get() + 1);
    }

    fn count(&self) {
        let before = self.words[0].get();
        assert_eq!(self.words[1].get(), before, "somebody sees what a dead core left half done");
        self.words.iter().for_each(|word| word.set(before + 1));
    }
}

/// Island 2's core dies in the middle of its change; the others go on.
fn death(section: fn(&Repairing, &Pair)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let words = [objects.make::<Cell64>(), objects.make::<Cell64>()];
        let pair = Pair { lock: objects.make::<FileLock>(), words, repaired: objects.make::<Cell64>() };
        let bells = Arc::new(Bells::default());
        let dying = Core::new(pool, 2, &bells);
        let dies = move || {
            core::mem::forget(lock::lock(&dying, pair.lock));
            pair.words[0].set(pair.words[0].get() + 1);
            let island = &pool.header().islands[2];
            island.deaths.fetch_add(1, Ordering::SeqCst);
            island.state.store(ISLAND_DEAD, Ordering::SeqCst);
        };
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(dies)];
        for island in 0..2 {
            let core = Repairing { core: Core::new(pool, island, &bells), pair };
            actors.push(Box::new(move || (0..ROUNDS).for_each(|_| section(&core, &pair))));
        }
        together(actors);
        // It took the lock last, or its change is among those that were counted.
        let rounds = 2 * ROUNDS + 1;
        assert_eq!(pair.words[0].get(), rounds);
        assert!(pair.repaired.get() <= 1, "repaired {} times", pair.repaired.get());
        let is_left = lock::holder(pair.lock).is_some();
        assert_eq!(u64::from(is_left) + pair.repaired.get(), 1, "the dead core's lock is neither left nor repaired");
    }
}

#[test]
fn a_dead_cores_lock_is_taken_over_once_and_repaired_first() {
    explore(
        1500,
        death(|core, pair| {
            let _guard = lock::lock(core, pair.lock);
            pair.count();
        }),
    );
}

/// Somebody else may come in between.
#[test]
fn freeing_a_dead_cores_lock_before_the_repair_is_caught() {
    must_be_caught(
        1500,
        death(|core, pair| {
            let is_dead = || core.pool().header().islands[2].state.load(Ordering::SeqCst) == ISLAND_DEAD;
            let dead = u64::from(CoreId::new(motet_layout::IslandId(2), 0).0) + 1;
            let word = pair.lock.word();
            if is_dead() && word.compare_exchange(dead, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                pair.repair();
            }
            let _guard = lock::lock(core, pair.lock);
            pair.count();
        }),
    );
}

/// Of what a core holds.
#[test]
fn taking_a_lock_out_of_order_is_caught() {
    must_be_caught(1, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let core = Core::new(pool, 0, &Arc::new(Bells::default()));
        let (file, pipe) = (objects.make::<FileLock>(), objects.make::<PipeLock>());
        let _pipe = lock::lock(&core, pipe);
        let _file = lock::lock(&core, file);
    });
}

#[test]
fn locks_are_taken_in_order_and_in_any_order_without_waiting() {
    explore(1, || {
        let (pool, base) = fresh_pool(2);
        let objects = Objects::new(pool, base);
        let core = Core::new(pool, 0, &Arc::new(Bells::default()));
        let (file, pipe) = (objects.make::<FileLock>(), objects.make::<PipeLock>());
        let inodes = [objects.make::<InodeLock>(), objects.make::<InodeLock>()];
        {
            let _file = lock::lock(&core, file);
            let _inodes = inodes.map(|inode| lock::lock(&core, inode));
            let _pipe = lock::lock(&core, pipe);
        }
        let _pipe = lock::lock(&core, pipe);
        drop(lock::try_lock(&core, file).expect("nobody has it"));
        let (word, at) = (LockClass::Pipe as usize / 16, LockClass::Pipe as u32 % 16);
        assert_eq!(core.own_record().locks_held[word].load(Ordering::Relaxed), 1 << (4 * at));
    });
}
