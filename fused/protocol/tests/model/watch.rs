//! Interest lists: whatever two writers do to two watched files, who waits for the list hears of it.

use std::sync::Arc;

use motet_layout::sync::{AtomicU32, Ordering};
use motet_layout::{CoreId, EpollRecord, IslandId, WaitQueue, WatchRecord};
use motet_protocol::{Context, lock, wait, watch};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, quietly, together};
use crate::wake_up::wait_for;

const FILES: usize = 2;
const WRITES: u32 = 2;
const READABLE: u32 = 1;

/// A file: how many bytes are to be read, who waits for them, and its watch.
#[derive(Clone, Copy)]
struct File {
    bytes: &'static AtomicU32,
    readers: &'static WaitQueue,
    watch: &'static WatchRecord,
}

/// Takes a ready list and then calls the last argument for each watch.
type Take = fn(&Core, &'static EpollRecord, &mut dyn FnMut(&'static WatchRecord));

fn take_then_ask(core: &Core, list: &'static EpollRecord, ask: &mut dyn FnMut(&'static WatchRecord)) {
    let mut found = Vec::new();
    watch::take_ready(core, list, |watch| found.push(watch));
    found.into_iter().for_each(ask);
}

fn model(take: Take) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let list = objects.make::<EpollRecord>();
        let reader = Core::new(pool, FILES as u8, &bells);
        let files: [File; FILES] = std::array::from_fn(|_| {
            let watch = objects.make::<WatchRecord>();
            let file = File { bytes: objects.make(), readers: objects.make(), watch };
            quietly(|| {
                watch.list.set(reader.raw(list));
                watch.events.set(READABLE);
                watch::enter(&reader, watch, 0, file.readers, READABLE);
            });
            file
        });
        let thread = objects.thread(CoreId::new(IslandId(FILES as u8), 0));
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (island, file) in files.into_iter().enumerate() {
            let core = Core::new(pool, island as u8, &bells);
            actors.push(Box::new(move || {
                for _ in 0..WRITES {
                    file.bytes.fetch_add(1, Ordering::SeqCst);
                    wait::wake(&core, file.readers);
                }
            }));
        }
        actors.push(Box::new(move || {
            let mut read = 0;
            while read < FILES as u32 * WRITES {
                wait_for(&reader, thread, &list.waiters, || {
                    let before = read;
                    let _guard = lock::lock(&reader, &list.lock);
                    take(&reader, list, &mut |found| {
                        let file = files.iter().find(|file| std::ptr::eq(file.watch, found)).expect("a watch of mine");
                        read += file.bytes.swap(0, Ordering::SeqCst);
                    });
                    read != before
                });
            }
            for file in files {
                watch::leave(&reader, file.watch);
            }
        }));
        together(actors);
        quietly(|| {
            for file in files {
                assert_eq!(file.readers.head.load(Ordering::Relaxed), 0, "a watch stayed in its file's queue");
            }
        });
    }
}

#[test]
fn no_event_is_lost() {
    explore(1500, model(take_then_ask));
}

#[test]
fn asking_before_the_watch_is_off_the_stack_is_caught() {
    must_be_caught(
        20000,
        model(|core, list, ask| {
            let mut at = list.ready.swap(0, Ordering::SeqCst);
            while let Some(watch) = core.object::<WatchRecord>(at) {
                at = watch.ready_next.get();
                ask(watch);
                // Long enough for the file to change meanwhile.
                (0..10).for_each(|_| core.relax());
                watch.in_ready.store(0, Ordering::SeqCst);
            }
        }),
    );
}
