//! Pipes and host streams: bytes come out as they went in, limits hold, memory is given back.

mod files_support;

use std::collections::VecDeque;

use files_support::Actor;
use motet_abi::Errno;
use motet_layout::{
    HostStream, PAGE_SIZE, PIPE_CAPACITY, PipeRecord, PoolAddr,
    sync::{AtomicU32, Ordering},
};
use motet_protocol::{
    Context, memory, pipe,
    stream::{self, Part, Side},
};
use proptest::prelude::*;

/// Two frames next to each other, as user memory.
fn buffer(actor: &Actor) -> PoolAddr {
    let frames = [memory::alloc_frame(actor).unwrap(), memory::alloc_frame(actor).unwrap()];
    assert_eq!(frames[0].0 + 1, frames[1].0);
    frames[0].addr()
}

fn push(
    actor: &Actor,
    pipe: &'static PipeRecord,
    at: PoolAddr,
    bytes: &[u8],
    whole: bool,
) -> Result<Option<usize>, Errno> {
    actor.pool().write(at, bytes);
    let first = bytes.len().min(PAGE_SIZE as usize);
    pipe::push(actor, pipe, whole, || Ok([(at, first), (at.add(first as u64), bytes.len() - first)]))
}

fn pop(actor: &Actor, pipe: &'static PipeRecord, at: PoolAddr, len: usize) -> Option<Vec<u8>> {
    let read = pipe::pop::<Errno>(actor, pipe, || Ok((at, len))).unwrap()?;
    let mut bytes = vec![0; read];
    actor.pool().read(at, &mut bytes);
    Some(bytes)
}

fn peek(actor: &Actor, pipe: &'static PipeRecord, skip: usize, at: PoolAddr, len: usize) -> Vec<u8> {
    let seen = pipe::peek::<Errno>(actor, pipe, (pipe::place(pipe), skip), || Ok((at, len))).unwrap().unwrap();
    let mut bytes = vec![0; seen];
    actor.pool().read(at, &mut bytes);
    bytes
}

fn open(actor: &Actor) -> &'static PipeRecord {
    let pipe = pipe::create(actor).unwrap();
    pipe::open(actor, pipe, pipe::READER | pipe::WRITER, &AtomicU32::new(pipe::READER | pipe::WRITER));
    pipe::put(actor, pipe);
    pipe
}

fn close(actor: &Actor, pipe: &'static PipeRecord, end: u32) {
    assert_eq!(pipe::close(actor, pipe, end, &AtomicU32::new(!end)), end);
    pipe::put(actor, pipe);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_pipe_is_a_queue_of_bytes(steps in prop::collection::vec((any::<bool>(), 1..8192usize, any::<u8>()), 1..200)) {
        let actor = Actor::new(32 << 20);
        let at = buffer(&actor);
        let pipe = open(&actor);
        let mut model = VecDeque::new();
        for (write, len, seed) in steps {
            if write {
                let bytes: Vec<u8> = (0..len).map(|index| (index as u8).wrapping_mul(seed)).collect();
                let whole = len <= 4096;
                let room = PIPE_CAPACITY - model.len();
                let expected = if room == 0 || whole && room < len { None } else { Some(len.min(room)) };
                let place = pipe::place(pipe);
                prop_assert_eq!(push(&actor, pipe, at, &bytes, whole), Ok(expected));
                prop_assert_eq!(pipe::place(pipe), place);
                model.extend(&bytes[..expected.unwrap_or(0)]);
            } else {
                let skip = usize::from(seed) * 17;
                let waiting: Vec<u8> = model.iter().copied().skip(skip).take(len).collect();
                prop_assert!(peek(&actor, pipe, skip, at, len) == waiting);
                let expected: Vec<u8> = model.drain(..len.min(model.len()).min(4096)).collect();
                let place = pipe::place(pipe);
                let found = pop(&actor, pipe, at, len.min(4096));
                // What was seen there before is not looked at any more.
                let seen = pipe::peek::<Errno>(&actor, pipe, (place, 0), || Ok((at, 1))).unwrap();
                prop_assert_eq!(seen.is_none(), found.is_some());
                prop_assert!(found.unwrap_or_default() == expected);
            }
            prop_assert_eq!(pipe::used(pipe), model.len());
        }
        close(&actor, pipe, pipe::WRITER);
        while !model.is_empty() {
            let expected: Vec<u8> = model.drain(..model.len().min(4096)).collect();
            prop_assert!(pop(&actor, pipe, at, 4096) == Some(expected));
        }
        prop_assert_eq!(pop(&actor, pipe, at, 1), Some(Vec::new()));
        close(&actor, pipe, pipe::READER);
        prop_assert_eq!((actor.frames_in_use(), actor.objects_in_use()), (2, 0));
    }

    #[test]
    fn a_stream_is_a_queue_of_bytes(steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..3000usize, any::<u8>()), 1..100)) {
        let actor = Actor::new(32 << 20);
        let stream = attach(&actor);
        let mut model = VecDeque::new();
        for (write, whole, len, seed) in steps {
            if write {
                let bytes = vec![seed; len];
                let part = if whole { Part::Whole } else { Part::Fitting };
                let moved = stream::produce_bytes(&actor, Side::Machine, stream, part, &bytes);
                let room = 4096 - model.len();
                prop_assert_eq!(moved.len, if whole && len > room { 0 } else { len.min(room) });
                model.extend(&bytes[..moved.len]);
            } else {
                let mut bytes = vec![0; len];
                let moved = stream::consume_bytes(&actor, Side::Host, stream, &mut bytes);
                let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                prop_assert!(bytes[..moved.len] == expected[..]);
            }
        }
    }
}

#[test]
fn writing_without_readers_fails() {
    let actor = Actor::new(32 << 20);
    let (at, pipe) = (buffer(&actor), open(&actor));
    assert_eq!(pop(&actor, pipe, at, 1), None);
    close(&actor, pipe, pipe::READER);
    assert_eq!(push(&actor, pipe, at, b"x", true), Err(Errno::EPIPE));
    assert!(pipe::readiness(pipe).no_reader);
    close(&actor, pipe, pipe::WRITER);
}

#[test]
fn short_messages_stay_in_one_frame() {
    let actor = Actor::new(32 << 20);
    let (at, pipe) = (buffer(&actor), open(&actor));
    for _ in 0..10_000 {
        assert_eq!(push(&actor, pipe, at, b"ping", true), Ok(Some(4)));
        assert_eq!(pop(&actor, pipe, at, 100).as_deref(), Some(&b"ping"[..]));
    }
    assert_eq!(pipe.frames.iter().filter(|frame| frame.get() != 0).count(), 1);
}

fn attach(actor: &Actor) -> &'static HostStream {
    let stream = &actor.pool().header().console_out;
    stream.data.set(memory::alloc_frame(actor).unwrap().addr().0);
    stream.capacity.set(PAGE_SIZE);
    stream
}

#[test]
fn a_waiting_side_is_rung_once() {
    let actor = Actor::new(32 << 20);
    let stream = attach(&actor);
    assert!(stream::consumer_waits(stream));
    assert!(stream::produce_bytes(&actor, Side::Machine, stream, Part::Fitting, b"a").ring);
    assert!(!stream::produce_bytes(&actor, Side::Machine, stream, Part::Fitting, b"b").ring);
    assert!(!stream::consumer_waits(stream), "there are bytes");
    stream.consumer_waiting.store(0, Ordering::Relaxed);
    assert_eq!(stream::produce_bytes(&actor, Side::Machine, stream, Part::Fitting, &[0; 5000]).len, 4094);
    assert!(stream::producer_waits(stream, 1));
    assert!(stream::consume_bytes(&actor, Side::Host, stream, &mut [0; 1]).ring);
    assert!(!stream::leave(stream));
    let discarded = stream::produce_bytes(&actor, Side::Machine, stream, Part::Fitting, &[0; 5000]);
    assert_eq!(discarded.len, 5000, "nobody listens: bytes are taken and forgotten");
    assert!(!stream::close(stream));
}

/// Who replays gets every byte in its order, but for those that newer ones have replaced, and learns how many these are.
#[test]
fn what_is_recorded_is_replayed_or_said_to_be_lost() {
    let actor = Actor::new(32 << 20);
    let stream = attach(&actor);
    let mut written: u64 = 0;
    let mut record = |len: usize| {
        let bytes: Vec<u8> = (written..).take(len).map(|number| (number % 251) as u8).collect();
        written += len as u64;
        (stream::record(&actor, stream, &bytes), written)
    };
    let (mut position, mut into) = (0, [0; 700]);
    for (len, wanted_lost) in [(10, 0), (0, 0), (4096, 0), (5000, 904), (4097, 1), (20_000, 15_904), (3, 0)] {
        let (_, head) = record(len);
        let (mut lost, before) = (0, position);
        loop {
            let (lost_here, got) = stream::replay(&actor, stream, &mut position, &mut into);
            lost += lost_here;
            let first = position - got as u64;
            assert!(into[..got].iter().zip(first..).all(|(byte, number)| u64::from(*byte) == number % 251), "{len}");
            if got == 0 {
                break;
            }
        }
        assert_eq!((position, lost, position - before), (head, wanted_lost, len as u64));
        assert_eq!(stream::oldest(stream), head.saturating_sub(PAGE_SIZE));
    }
    assert!(stream::replay_waits(stream, position), "everything has been replayed");
    assert!(record(1).0.ring && !record(1).0.ring, "who waits is rung once");
    assert!(!stream::replay_waits(stream, position), "there is more");
    position = u64::MAX;
    assert_eq!(stream::replay(&actor, stream, &mut position, &mut into), (0, 0), "a position that is none");
}
