//! The cross-island lock: mutual exclusion, and a word that names its holder.

use std::sync::Arc;

use motet_layout::sync::Ordering;
use motet_layout::{Cell64, FileLock};
use motet_protocol::{Context, lock};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, together};

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
