//! Owners of files that are told by signals: whatever wakers do at both sides of a file, the handler of a signal sees what they have done.

use std::sync::Arc;

use motet_layout::sync::{AtomicU32, Ordering};
use motet_layout::{OWNER_INPUT, OWNER_OUTPUT, OwnerRecord, WaitQueue, ones};
use motet_protocol::{Context, lock::lock, owner, wait};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, point, quietly, together};

const SIDES: usize = 2;
const CHANGES: u32 = 2;

/// A file: at each side what has changed and was not handled yet, and who waits for that. Its owner is told.
#[derive(Clone, Copy)]
struct File {
    changes: [&'static AtomicU32; SIDES],
    queues: [&'static WaitQueue; SIDES],
    /// Not 0: somebody has found no room.
    wants_room: &'static AtomicU32,
    owner: &'static OwnerRecord,
}

impl File {
    fn new(objects: &Objects, core: &Core) -> Self {
        quietly(|| {
            let file = Self {
                changes: std::array::from_fn(|_| objects.make()),
                queues: std::array::from_fn(|_| objects.make()),
                wants_room: objects.make(),
                owner: objects.make(),
            };
            for (side, queue) in [OWNER_INPUT, OWNER_OUTPUT].into_iter().zip(file.queues) {
                owner::enter(core, file.owner, side, queue);
            }
            file
        })
    }

    /// The handler of a signal about a side: handles what has changed.
    fn handle(&self, side: usize) -> u32 {
        self.changes[side].swap(0, Ordering::SeqCst)
    }
}

/// Takes an owner off the stack, and its sides.
type Take = fn(&Core) -> Option<(&'static OwnerRecord, u32)>;

/// As a core does that has woken a queue: sends the signals that are due, from whomever. `handled`: what was handled at each side.
fn send_signals(core: &Core, file: &File, take: Take, handled: &[AtomicU32; SIDES]) {
    loop {
        let taken = {
            let _guard = lock(core, &core.pool().header().epoll_lock);
            take(core)
        };
        let Some((owner, sides)) = taken else { return };
        assert!(std::ptr::eq(owner, file.owner));
        for side in ones(sides.into()) {
            handled[side as usize].fetch_add(file.handle(side as usize), Ordering::SeqCst);
        }
    }
}

fn changes(take: Take) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let cores: [Core; SIDES] = std::array::from_fn(|island| Core::new(pool, island as u8, &bells));
        let file = File::new(&objects, &cores[0]);
        let handled: Arc<[AtomicU32; SIDES]> = Arc::default();
        let actor = |(side, core): (usize, Core)| -> Box<dyn FnOnce() + Send> {
            let handled = handled.clone();
            Box::new(move || {
                for _ in 0..CHANGES {
                    file.changes[side].fetch_add(1, Ordering::SeqCst);
                    wait::wake(&core, file.queues[side]);
                    send_signals(&core, &file, take, &handled);
                }
            })
        };
        together(cores.clone().into_iter().enumerate().map(actor).collect());
        quietly(|| {
            let all = handled.each_ref().map(|count| count.load(Ordering::SeqCst));
            assert_eq!(all, [CHANGES; SIDES], "a change of which nobody was told");
            owner::leave(&cores[0], file.owner);
            for queue in file.queues {
                assert_eq!(queue.head.load(Ordering::Relaxed), 0, "an owner stayed in its file's queue");
            }
        });
    }
}

#[test]
fn every_change_is_told() {
    explore(1500, changes(owner::take));
}

#[test]
fn forgetting_the_sides_before_the_owner_is_off_the_stack_is_caught() {
    must_be_caught(
        20000,
        changes(|core| {
            let stack = &core.pool().header().owners_told;
            let owner = core.object::<OwnerRecord>(stack.load(Ordering::SeqCst))?;
            stack.store(owner.next.get(), Ordering::SeqCst);
            let sides = owner.sides.swap(0, Ordering::SeqCst);
            // Long enough for a waker to find it on the stack.
            (0..10).for_each(|_| core.relax());
            owner.in_stack.store(0, Ordering::SeqCst);
            Some((owner, sides))
        }),
    );
}

/// Says that a writer has found no room, and looks once more: whether there is some after all.
type Look = fn(&File) -> bool;

/// A writer that finds no room goes away until a signal comes; a reader makes room meanwhile.
fn room(look: Look) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        let (objects, bells) = (Objects::new(pool, base), Arc::new(Bells::default()));
        let reader = Core::new(pool, 0, &bells);
        let file = File::new(&objects, &reader);
        quietly(|| file.owner.room.set(reader.raw(file.wants_room)));
        let handled: Arc<[AtomicU32; SIDES]> = Arc::default();
        let found = Arc::new(AtomicU32::new(0));
        let (told, has_found) = (handled.clone(), found.clone());
        together(vec![
            Box::new(move || {
                file.changes[1].fetch_add(1, Ordering::SeqCst);
                wait::wake(&reader, file.queues[1]);
                send_signals(&reader, &file, owner::take, &told);
            }),
            Box::new(move || has_found.store(u32::from(look(&file)), Ordering::SeqCst)),
        ]);
        quietly(|| {
            let [found, told] = [&*found, &handled[1]].map(|count| count.load(Ordering::SeqCst));
            assert!(found + told >= 1, "there is room, and the writer is not told");
        });
    }
}

fn says_it_then_looks(file: &File) -> bool {
    if file.changes[1].load(Ordering::SeqCst) != 0 {
        return true;
    }
    file.wants_room.swap(1, Ordering::SeqCst);
    file.changes[1].load(Ordering::SeqCst) != 0
}

#[test]
fn room_is_told_to_who_has_found_none() {
    explore(1500, room(says_it_then_looks));
}

#[test]
fn saying_that_there_is_no_room_after_the_look_is_caught() {
    must_be_caught(
        20000,
        room(|file| {
            let has_room = file.changes[1].load(Ordering::SeqCst) != 0;
            point();
            file.wants_room.store(1, Ordering::SeqCst);
            has_room
        }),
    );
}
