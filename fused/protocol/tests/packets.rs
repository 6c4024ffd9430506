//! Packets and marks of streams: what was looked at is known again as long as it is there, and no longer.

mod files_support;

use files_support::Actor;
use motet_abi::Errno;
use motet_layout::{PIPE_CAPACITY, PacketRecord, PipeRecord, PoolAddr, sync::AtomicU32};
use motet_protocol::{
    memory,
    pipe::{
        self,
        packet::{self, Limits, Reading, Seen},
    },
};

const NO_LIMITS: Limits = Limits { from: 0, cost: u32::MAX, packets: u32::MAX, by_writer: false };

fn open(actor: &Actor) -> &'static PipeRecord {
    let pipe = pipe::create(actor).unwrap();
    pipe::open(actor, pipe, pipe::READER | pipe::WRITER, &AtomicU32::new(pipe::READER | pipe::WRITER));
    pipe
}

/// A page, as user memory.
fn buffer(actor: &Actor) -> PoolAddr {
    memory::alloc_frame(actor).unwrap().addr()
}

/// A record with room for open files, of which it says to have one.
fn with_files(actor: &Actor, len: u32) -> &'static PacketRecord {
    let record = packet::create(actor).unwrap();
    record.rights.set(memory::alloc_common_zeroed_frame(actor).unwrap().0);
    record.rights_count.set(1);
    record.len.set(len);
    record.reach.set(len);
    record
}

fn is_there(actor: &Actor, queue: &PipeRecord, seen: Seen) -> bool {
    packet::with_seen(actor, queue, seen, |_| ()).is_some()
}

#[test]
fn a_packet_that_was_seen_is_no_other_one() {
    let actor = Actor::new(32 << 20);
    let (at, queue) = (buffer(&actor), open(&actor));
    queue.packets_max.set(10);
    let send = || {
        let record = with_files(&actor, 0);
        assert_eq!(packet::push(&actor, queue, record, NO_LIMITS), Ok(true));
        record
    };
    let peek = |seen| packet::peek::<Errno>(&actor, queue, (seen, 0), || Ok((at, 1))).unwrap();
    let first = send();
    let seen = packet::with_first(&actor, queue, |_, seen| seen).unwrap();
    let second = send();
    assert!(is_there(&actor, queue, seen));
    assert_eq!(peek(seen), Some(0));
    packet::free(&actor, packet::pop_if(&actor, queue, |_| true).unwrap());
    assert!(!is_there(&actor, queue, seen));
    // The record is another packet's, first behind others, then the first one.
    assert!(std::ptr::eq(send(), first), "the record is used again");
    assert!(!is_there(&actor, queue, seen));
    assert!(std::ptr::eq(packet::pop_if(&actor, queue, |_| true).unwrap(), second));
    packet::free(&actor, second);
    assert!(!is_there(&actor, queue, seen));
    assert_eq!(peek(seen), None);
}

#[test]
fn a_mark_that_was_seen_is_no_other_one() {
    let actor = Actor::new(32 << 20);
    let at = buffer(&actor);
    // The stream is emptied in between, or not.
    for has_more in [false, true] {
        let stream = open(&actor);
        let write = |files| {
            let written = packet::write(&actor, stream, (at, 1), [files, None], PIPE_CAPACITY as u32);
            assert_eq!(written, Ok(true));
        };
        let first = with_files(&actor, 1);
        write(Some(first));
        let ahead = packet::look_ahead(&actor, stream, false);
        let (seen, count) = ahead.files.unwrap();
        assert_eq!((ahead.len, count), (1, 1));
        if has_more {
            write(None);
        }
        assert!(is_there(&actor, stream, seen));
        let mut reading = Reading::default();
        packet::read::<Errno>(&actor, stream, &mut reading, || Ok((at, 1)), |_| {}).unwrap();
        packet::free(&actor, reading.rights.unwrap());
        assert!(!is_there(&actor, stream, seen));
        let second = with_files(&actor, 1);
        assert!(std::ptr::eq(second, first), "the record is used again");
        write(Some(second));
        assert!(!is_there(&actor, stream, seen), "has_more: {has_more}");
    }
}

/// Whoever sends by a connection may have asked before that was shut whether it is.
#[test]
fn no_packet_follows_the_end_of_its_writer() {
    let actor = Actor::new(32 << 20);
    let queue = pipe::create(&actor).unwrap();
    let closed = AtomicU32::new(pipe::READER | pipe::WRITER);
    pipe::open(&actor, queue, pipe::READER | pipe::WRITER, &closed);
    queue.packets_max.set(10);
    let (first, second) = (with_files(&actor, 0), with_files(&actor, 0));
    let by_writer = Limits { by_writer: true, ..NO_LIMITS };
    assert_eq!(packet::push(&actor, queue, first, by_writer), Ok(true));
    pipe::close(&actor, queue, pipe::WRITER, &closed);
    assert_eq!(packet::push(&actor, queue, second, by_writer), Err(Errno::EPIPE));
    // A queue of datagrams has no such end.
    assert_eq!(packet::push(&actor, queue, second, NO_LIMITS), Ok(true));
}
