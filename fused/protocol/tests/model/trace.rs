//! The trace's rings: every event arrives whole and in order, or is counted as lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use motet_layout::sync::Ordering;
use motet_layout::{Pool, PoolAddr, TraceEvent, TraceRing};
use motet_protocol::trace::{Event, Kind, put, take};

use crate::harness::{explore, fresh_pool, must_be_caught, quietly, together};

const CAPACITY: u64 = 2;
const EVENTS: u64 = 4;

/// An event all of whose fields say its number.
fn event(number: u64) -> Event {
    let tid = number as u32;
    Event { time_ns: number, kind: Kind::Wake, tid, pid: tid, detail: tid, name: [number as u8; 16] }
}

fn model(put: fn(Pool, &'static TraceRing, &Event)) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, at) = fresh_pool(2);
        let ring = pool.at::<TraceRing>(PoolAddr(at.0.next_multiple_of(64)));
        quietly(|| {
            pool.zero(pool.addr_of(ring), size_of::<TraceRing>() + CAPACITY as usize * size_of::<TraceEvent>());
            ring.capacity.set(CAPACITY);
        });
        let done = Arc::new(AtomicBool::new(false));
        let over = done.clone();
        let core = move || {
            (1..=EVENTS).for_each(|number| put(pool, ring, &event(number)));
            over.store(true, SeqCst);
        };
        let host = move || {
            let (mut taken, mut latest) = (0, 0);
            loop {
                let last = done.load(SeqCst);
                let strange = take(pool, ring, CAPACITY, |got| {
                    assert_eq!(got, event(got.time_ns), "an event in pieces");
                    assert!(got.time_ns > latest, "out of order");
                    (taken, latest) = (taken + 1, got.time_ns);
                });
                assert_eq!(strange, 0);
                if last {
                    break;
                }
                shuttle::thread::yield_now();
            }
            assert_eq!(taken + quietly(|| ring.lost.get()), EVENTS);
        };
        together(vec![Box::new(core), Box::new(host)]);
    }
}

#[test]
fn events_arrive_whole_and_in_order_or_are_counted() {
    explore(1500, model(put));
}

#[test]
fn announcing_an_event_before_writing_it_is_caught() {
    must_be_caught(
        1500,
        model(|pool, ring, event| {
            let head = ring.head.load(Ordering::Relaxed);
            ring.head.store(head + 1, Ordering::Release);
            let first = pool.addr_of(ring).0 + size_of::<TraceRing>() as u64;
            let slot = pool.at::<TraceEvent>(PoolAddr(first + head % CAPACITY * size_of::<TraceEvent>() as u64));
            slot.kind.set(event.kind as u32);
            slot.time_ns.set(event.time_ns);
        }),
    );
}

#[test]
fn writing_over_what_was_not_taken_is_caught() {
    must_be_caught(
        1500,
        model(|pool, ring, event| {
            quietly(|| ring.tail.store(ring.head.load(Ordering::Relaxed), Ordering::Relaxed));
            put(pool, ring, event);
        }),
    );
}
