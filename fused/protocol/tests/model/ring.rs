//! Messages between kernels through a ring of two slots: none is lost, torn or taken twice, a sender's stay in order, and whoever waits is rung.

use std::sync::Arc;

use motet_layout::PoolAddr;
use motet_protocol::ring::{Full, Ring, ring_len};

use crate::harness::{Bell, explore, fresh_pool, must_be_caught, point, quietly, together};

const SLOTS: u32 = 2;
const SLOT_LEN: u32 = 64;
/// Of each of two senders: more than fit.
const MESSAGES: u8 = 3;

/// What the two kernels do, each step exchangeable by a broken one.
#[derive(Clone, Copy)]
struct Steps {
    send: fn(Ring, &mut dyn FnMut(PoolAddr)) -> Result<(), Full>,
    wait_for_room: fn(Ring) -> bool,
    is_awaited: fn(Ring) -> bool,
    wait_for_message: fn(Ring) -> bool,
}

const RIGHT: Steps = Steps {
    send: |ring, write| ring.send(write),
    wait_for_room: Ring::wait_for_room,
    is_awaited: Ring::is_awaited,
    wait_for_message: Ring::wait_for_message,
};

/// Two cores of one kernel send, a core of another one receives. Whoever has nothing to do sleeps until its kernel is rung; both senders hear a ring.
fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, base) = fresh_pool(2);
        quietly(|| pool.zero(base, ring_len(SLOTS, SLOT_LEN) as usize));
        let ring = Ring::new(pool, base, SLOTS, SLOT_LEN);
        let bells: Arc<[Bell; 3]> = Arc::default();
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for sender in [0, 1u8] {
            let bells = bells.clone();
            actors.push(Box::new(move || {
                for number in 0..MESSAGES {
                    let mut write = |slot: PoolAddr| {
                        pool.write(slot, &[sender]);
                        point();
                        pool.write(slot.add(1), &[number]);
                    };
                    while (steps.send)(ring, &mut write).is_err() {
                        if (steps.wait_for_room)(ring) {
                            bells[usize::from(sender)].sleep();
                        }
                    }
                    if ring.is_asleep() {
                        bells[2].ring();
                    }
                }
            }));
        }
        actors.push(Box::new(move || {
            let mut next = [0, 0u8];
            while next != [MESSAGES; 2] {
                let mut bytes = [0; 2];
                let taken = ring.take(|slot| {
                    pool.read(slot, &mut bytes);
                    pool.write(slot, &[0xff; 2]);
                });
                if taken.is_none() {
                    if (steps.wait_for_message)(ring) {
                        bells[2].sleep();
                    }
                    continue;
                }
                let [sender, number] = bytes;
                assert_eq!(next.get(usize::from(sender)), Some(&number), "a message is torn, lost, or out of order");
                next[usize::from(sender)] += 1;
                if (steps.is_awaited)(ring) {
                    bells[0].ring();
                    bells[1].ring();
                }
            }
            assert!(ring.take(|_| ()).is_none(), "a message too many");
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
    fn send(ring: Ring, write: &mut dyn FnMut(PoolAddr)) -> Result<(), Full> {
        let mut at = None;
        ring.send(|slot| at = Some(slot))?;
        at.into_iter().for_each(write);
        Ok(())
    }
    must_be_caught(500, model(Steps { send, ..RIGHT }));
}

#[test]
fn sleeping_without_a_look_for_room_is_caught() {
    fn wait_for_room(ring: Ring) -> bool {
        let _ = ring.wait_for_room();
        true
    }
    must_be_caught(500, model(Steps { wait_for_room, ..RIGHT }));
}

#[test]
fn taking_a_message_without_ringing_who_waits_for_room_is_caught() {
    must_be_caught(500, model(Steps { is_awaited: |_| false, ..RIGHT }));
}

#[test]
fn sleeping_without_a_look_for_messages_is_caught() {
    fn wait_for_message(ring: Ring) -> bool {
        let _ = ring.wait_for_message();
        true
    }
    must_be_caught(500, model(Steps { wait_for_message, ..RIGHT }));
}
