//! Damage: it changes a word of a call across instruction sets, or a word that links a kernel's records, as if another island had
//! written it wrongly; or what a kernel of its own sends to another one.

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{
    CALL_GIVEN, CALL_RETURNED, Cell64, CoreId, CoreRecord, CrossingRecord, FRAME_REGS, FrameRecord, PAGE_SIZE, Peers,
    Pool, PoolAddr, SLAB_FRAME, ThreadRecord, Windows,
};
use motet_protocol::{
    peer::{HEADER_LEN, Header, MessageKind},
    ring::{Ring, ring_len},
};

/// Damages one word of a message that is under way, or of a call's record or registers. `false`: there is no call.
/// `below` gives random numbers.
pub fn damage_crossing(pool: Pool, below: &mut dyn FnMut(u64) -> u64) -> bool {
    let called = pool.header().cores.iter().find_map(|core| under_way(core, pool.header().uncached.get() != 0));
    if let Some(message) = called.filter(|_| below(3) != 0) {
        let word = &message[below(6) as usize];
        return spoil(word, below);
    }
    let calls = threads(pool).filter(|thread| thread.crossing.get() != 0);
    let Some(thread) = calls.max_by_key(|thread| thread.tid.get()) else { return false };
    let Some(record) = pool.get::<CrossingRecord>(PoolAddr(thread.crossing.get())) else { return false };
    match below(4) {
        0 => spoil(&thread.crossing, below),
        1 => spoil(&thread.frame.regs[below(FRAME_REGS as u64) as usize], below),
        _ => {
            let words = size_of::<CrossingRecord>() as u64 / 8;
            let at = pool.addr_of(record).add(8 * below(words));
            pool.get::<Cell64>(at).is_some_and(|word| spoil(word, below))
        }
    }
}

/// The message of a call that a core was given, or that waits for it.
fn under_way(core: &CoreRecord, uncached: bool) -> Option<&[Cell64; 6]> {
    let call = core.call.load(Ordering::Relaxed);
    let is_called = matches!(call & 0xff, CALL_GIVEN | CALL_RETURNED);
    if !uncached {
        return is_called.then_some(&core.message);
    }
    let waiting = core.calls.iter().find(|slot| slot.request.load(Ordering::Relaxed) != 0);
    let caller = CoreId::from_raw(call >> 8 & 0xff).filter(|_| is_called);
    let taken = caller.map(|caller| &core.calls[caller.island().index()]);
    Some(&taken.or(waiting)?.message)
}

/// Damages one word of the kernels' objects that names another one, or a free one's. `false`: there is none yet.
pub fn damage_link(pool: Pool, below: &mut dyn FnMut(u64) -> u64) -> bool {
    let header = pool.header();
    let is_cut = |&frame: &u64| {
        let record = PoolAddr(header.memory.frames.get() + frame * size_of::<FrameRecord>() as u64);
        pool.get::<FrameRecord>(record).is_some_and(|record| record.synced.load(Ordering::Relaxed) & SLAB_FRAME != 0)
    };
    let frames: Vec<u64> = (0..pool.len() / PAGE_SIZE).filter(is_cut).collect();
    let Some(last) = (frames.len() as u64).checked_sub(1) else { return false };
    let frame = frames[below(last + 1) as usize] * PAGE_SIZE;
    let (words, first) = (PAGE_SIZE / 8, below(PAGE_SIZE / 8));
    let is_link =
        |word: &&Cell64| word.get() % 8 == 0 && (size_of_val(header) as u64..pool.len()).contains(&word.get());
    let word =
        (0..words).filter_map(|step| pool.get::<Cell64>(PoolAddr(frame + (first + step) % words * 8))).find(is_link);
    word.is_some_and(|word| spoil(word, below))
}

fn spoil(word: &Cell64, below: &mut dyn FnMut(u64) -> u64) -> bool {
    let old = word.get();
    word.set(match below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => old ^ 1 << below(64),
        3 => old.wrapping_add(64),
        4 => below(1 << 24) & !63,
        _ => below(u64::MAX),
    });
    true
}

/// A kernel sends a message that it should not, or (seldom) spoils a word of a ring's record in one of its windows.
pub fn damage_window(peers: &'static Peers, windows: Windows, below: &mut dyn FnMut(u64) -> u64) {
    let (own, count) = (peers.node.get(), peers.count.get());
    let node = (own + 1 + below(u64::from(count) - 1) as u32) % count;
    if below(64) != 0 {
        let message = nonsense(own as u8, below);
        if let Some(ring) = Ring::to(windows, peers, node) {
            // If it is full, nothing happens.
            let _ = ring.send(|slot| slot.write(0, &message));
        }
        return;
    }
    let (slots, slot_len) = (peers.slots.get(), peers.slot_len.get());
    let ring = PoolAddr(peers.windows[node as usize].get() + below(2) * ring_len(slots, slot_len));
    let Some(record) = windows.ring(ring) else { return };
    let turn = &record.turns[below(slots.into()) as usize];
    match below(6) {
        0 | 1 => record.asleep.store(below(3) as u32, Ordering::Relaxed),
        2 => turn.store(0, Ordering::Relaxed),
        3 => turn.store(below(8), Ordering::Relaxed),
        4 => turn.store(below(u64::MAX), Ordering::Relaxed),
        _ => _ = turn.fetch_xor(1, Ordering::Relaxed),
    }
}

/// A message of any kind, with a small number, of which a byte may be any.
fn nonsense(node: u8, below: &mut dyn FnMut(u64) -> u64) -> [u8; 32] {
    let kind = MessageKind::ALL[below(MessageKind::ALL.len() as u64) as usize];
    let mut message = [0; 32];
    message[..HEADER_LEN].copy_from_slice(&Header { node, kind, pages: 0 }.to_bytes());
    message[HEADER_LEN..][..8].copy_from_slice(&below(4).to_le_bytes());
    if below(2) == 0 {
        message[below(32) as usize] = below(256) as u8;
    }
    message
}

/// The threads that have a number.
pub fn threads(pool: Pool) -> impl Iterator<Item = &'static ThreadRecord> {
    let header = pool.header();
    let high = header.threads_high.load(Ordering::Relaxed).min(header.threads_len.get());
    let at = move |tid: u32| PoolAddr(header.threads.get() + u64::from(tid) * size_of::<AtomicU64>() as u64);
    let slot = move |tid| pool.get::<AtomicU64>(at(tid)).map(|slot| PoolAddr(slot.load(Ordering::Relaxed)));
    (1..high).filter_map(move |tid| pool.get(slot(tid)?))
}
