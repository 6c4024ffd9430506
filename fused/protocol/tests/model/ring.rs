//! Messages between kernels through a ring of two slots: none is lost, torn or taken twice, a sender's stay in order, and a receiver that sleeps is rung.

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};

use motet_layout::{Pool, PoolAddr, Windows, sync::AtomicU64};
use motet_protocol::ring::{Ring, Slot, Unsent, ring_len};

use crate::harness::{Bell, dies_after, explore, fresh_pool, must_be_caught, point, quietly, together};

const SLOTS: u32 = 2;
const SLOT_LEN: u32 = 64;
/// Of each of two senders: more than fit.
const MESSAGES: u8 = 3;

/// What the two kernels do, each step exchangeable by a broken one.
#[derive(Clone, Copy)]
struct Steps {
    send: fn(Ring, &dyn Fn(Slot)) -> Result<(), Unsent>,
    take: fn(Ring, &mut dyn FnMut(Slot)) -> bool,
    fall_asleep: fn(Ring) -> bool,
    take_asleep: fn(Ring) -> bool,
}

const RIGHT: Steps = Steps {
    send: |ring, write| ring.send(write),
    take: |ring, read| ring.take(read).is_some(),
    fall_asleep: Ring::fall_asleep,
    take_asleep: Ring::take_asleep,
};

/// A ring as its two kernels see it, and where it lies.
fn ring() -> ([Ring; 2], Pool, PoolAddr) {
    let (pool, base) = fresh_pool(2);
    quietly(|| pool.zero(base, ring_len(SLOTS, SLOT_LEN) as usize));
    let next = || Box::leak(Box::new(AtomicU64::new(0)));
    let windows = Windows::within(pool, base.0);
    ([next(), next()].map(|next| Ring::new(windows, base, (SLOTS, SLOT_LEN), next).unwrap()), pool, base)
}

fn write(slot: Slot, sender: u8, number: u8) {
    slot.write(0, &[sender]);
    point();
    slot.write(1, &[number]);
}

/// Two cores of one kernel send, a core of another one receives, and sleeps until it is rung when there is nothing.
fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let ([out, into], ..) = ring();
        let bell: Arc<Bell> = Arc::default();
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for sender in [0, 1u8] {
            let bell = bell.clone();
            actors.push(Box::new(move || {
                for number in 0..MESSAGES {
                    while let Err(why) = (steps.send)(out, &|slot| write(slot, sender, number)) {
                        assert_eq!(why, Unsent::Full);
                        shuttle::thread::yield_now();
                    }
                    if (steps.take_asleep)(out) {
                        bell.ring();
                    }
                }
            }));
        }
        actors.push(Box::new(move || {
            let mut next = [0, 0u8];
            while next != [MESSAGES; 2] {
                let mut bytes = [0; 2];
                let mut read = |slot: Slot| {
                    slot.read(0, &mut bytes[..1]);
                    point();
                    slot.read(1, &mut bytes[1..]);
                };
                if !(steps.take)(into, &mut read) {
                    if (steps.fall_asleep)(into) {
                        bell.sleep();
                    }
                    continue;
                }
                let [sender, number] = bytes;
                assert_eq!(next.get(usize::from(sender)), Some(&number), "a message is torn, lost, or out of order");
                next[usize::from(sender)] += 1;
            }
            assert!(!into.has_message(), "a message too many");
        }));
        together(actors);
    }
}

#[test]
fn messages_come_once_whole_and_in_order() {
    explore(2000, model(RIGHT));
}

#[test]
fn saying_that_a_message_is_there_before_it_is_written_is_caught() {
    fn send(ring: Ring, write: &dyn Fn(Slot)) -> Result<(), Unsent> {
        let mut at = None;
        ring.send(|slot| at = Some(slot))?;
        at.into_iter().for_each(write);
        Ok(())
    }
    must_be_caught(500, model(Steps { send, ..RIGHT }));
}

#[test]
fn giving_a_slot_back_before_it_is_read_is_caught() {
    fn take(ring: Ring, read: &mut dyn FnMut(Slot)) -> bool {
        let mut at = None;
        let is_taken = ring.take(|slot| at = Some(slot)).is_some();
        at.into_iter().for_each(read);
        is_taken
    }
    must_be_caught(500, model(Steps { take, ..RIGHT }));
}

#[test]
fn sleeping_without_a_look_for_messages_is_caught() {
    fn fall_asleep(ring: Ring) -> bool {
        let _ = ring.fall_asleep();
        true
    }
    must_be_caught(500, model(Steps { fall_asleep, ..RIGHT }));
}

#[test]
fn sending_without_ringing_who_sleeps_is_caught() {
    must_be_caught(500, model(Steps { take_asleep: |_| false, ..RIGHT }));
}

/// A sender dies at any moment: what it had claimed is not taken, nor what others sent after it, and the others find the ring full in the end.
#[test]
fn a_sender_that_dies_leaves_no_torn_message() {
    explore(500, || {
        let ([out, into], ..) = ring();
        together(vec![
            Box::new(move || {
                let operations = thread_rng().gen_range(0..8);
                dies_after(operations, || {
                    for number in 0..2 {
                        let _ = out.send(|slot| write(slot, 0, number));
                    }
                });
            }),
            Box::new(move || {
                let mut next = 0;
                for _ in 0..8 {
                    let mut bytes = [0; 2];
                    if into.take(|slot| slot.read(0, &mut bytes)).is_some() {
                        assert_eq!(bytes, [0, next], "torn");
                        next += 1;
                    }
                }
            }),
        ]);
        let sent = quietly(|| (0..4).filter(|_| out.send(|_| ()).is_ok()).count());
        assert!(sent <= 2, "{sent} messages fit into two slots");
    });
}

/// Whatever another kernel has written: a sender and a receiver end, and read nothing outside of the ring.
#[test]
fn no_word_of_another_kernel_keeps_a_core() {
    explore(300, || {
        let ([out, into], pool, base) = ring();
        together(vec![
            Box::new(move || {
                for _ in 0..6 {
                    let word = PoolAddr(base.0 + 64 + 8 * thread_rng().gen_range(0..2u64));
                    let value = thread_rng().gen_range(0..6u64).wrapping_sub(2);
                    pool.write(word, &value.to_le_bytes());
                    point();
                }
            }),
            Box::new(move || {
                for _ in 0..4 {
                    let _ = out.send(|slot| write(slot, 1, 1));
                    let _ = into.take(|slot| slot.read(0, &mut [0; 2]));
                    let _ = (into.fall_asleep(), out.take_asleep());
                }
            }),
        ]);
    });
}
