//! Damage: it changes a word of a call across instruction sets, or a word that links a kernel's records, as if another island had
//! written it wrongly.

use motet_layout::sync::{AtomicU64, Ordering};
use motet_layout::{
    CALL_GIVEN, CALL_RETURNED, Cell64, CoreId, CoreRecord, CrossingRecord, FRAME_REGS, FrameRecord, PAGE_SIZE, Pool,
    PoolAddr, SLAB_FRAME, ThreadRecord,
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

/// The threads that have a number.
pub fn threads(pool: Pool) -> impl Iterator<Item = &'static ThreadRecord> {
    let header = pool.header();
    let high = header.threads_high.load(Ordering::Relaxed).min(header.threads_len.get());
    let at = move |tid: u32| PoolAddr(header.threads.get() + u64::from(tid) * size_of::<AtomicU64>() as u64);
    let slot = move |tid| pool.get::<AtomicU64>(at(tid)).map(|slot| PoolAddr(slot.load(Ordering::Relaxed)));
    (1..high).filter_map(move |tid| pool.get(slot(tid)?))
}
