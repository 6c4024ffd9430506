//! Events that an open file was told and has not read: a chain of frames, in which each event is as programs read it.

use motet_abi::{
    inotify::{IN_Q_OVERFLOW, InotifyEvent},
    wire::Wire,
};
use motet_layout::{InotifyRecord, NAME_MAX, PoolAddr, TOLD_BYTES, ToldFrame, in_order, sync::Ordering};

use super::{EVENTS_MAX, frames_max, lock_all, state, sum_of_user};
use crate::{Context, slab, wait};

/// Bytes of an event without a name.
const HEAD: usize = InotifyEvent::SIZE;
/// Bytes of the longest event: its name ends in a zero, and takes a multiple of [`HEAD`].
pub const EVENT_MAX: usize = HEAD + (NAME_MAX + 1).next_multiple_of(HEAD);

/// Something that is told.
pub(super) struct Event<'a> {
    /// The watch.
    pub number: u32,
    /// `IN_*`.
    pub mask: u32,
    pub cookie: u32,
    pub name: &'a [u8],
}

impl Event<'_> {
    fn name_len(&self) -> usize {
        if self.name.is_empty() { 0 } else { (self.name.len().min(NAME_MAX) + 1).next_multiple_of(HEAD) }
    }

    fn len(&self) -> usize {
        HEAD + self.name_len()
    }

    /// As programs read it.
    fn bytes(&self) -> [u8; EVENT_MAX] {
        let mut bytes = [0; EVENT_MAX];
        let (wd, len) = (self.number.cast_signed(), self.name_len() as u32);
        bytes[..HEAD].copy_from_slice(&InotifyEvent { wd, mask: self.mask, cookie: self.cookie, len }.to_bytes());
        let name = &self.name[..self.name.len().min(NAME_MAX)];
        bytes[HEAD..HEAD + name.len()].copy_from_slice(name);
        bytes
    }
}

/// What comes behind events that were lost.
const OVERFLOW: Event<'static> = Event { number: u32::MAX, mask: IN_Q_OVERFLOW, cookie: 0, name: b"" };

/// What reading gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// There is nothing.
    Nothing,
    /// The first event is longer than the room.
    TooLong,
    /// An event of so many bytes.
    Event(usize),
}

/// Whether there is something to read. Without the lock.
pub fn has_told(instance: &InotifyRecord) -> bool {
    instance.count.load(Ordering::Relaxed) != 0 || instance.lost.load(Ordering::Relaxed) != 0
}

/// Tells an open file something, unless that is what it was told last. The lock is held.
pub(super) fn tell(context: &impl Context, instance: &'static InotifyRecord, event: &Event) {
    if is_last(context, instance, event) {
        return;
    }
    if !enter(context, instance, event) {
        instance.lost.store(1, Ordering::Relaxed);
    }
    instance.arrivals.store(instance.arrivals.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    wait::wake(context, &instance.waiters);
}

/// Whether the last event says the same: it would be read right before this one. As on Linux, whatever the cookies.
fn is_last(context: &impl Context, instance: &InotifyRecord, event: &Event) -> bool {
    if instance.count.load(Ordering::Relaxed) == 0 || instance.lost.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let Some(frame) = context.object::<ToldFrame>(instance.frames[1].get()) else { return false };
    let mut last = [0; EVENT_MAX];
    let Some(len) = event_at(context, frame, instance.last.get() as usize, &mut last) else { return false };
    let mut bytes = event.bytes();
    // Both cookies: they do not count.
    bytes[8..12].fill(0);
    last[8..12].fill(0);
    len == event.len() && last[..len] == bytes[..len]
}

/// Puts an event at the end, behind what says that others were lost. `false`: there is no room.
fn enter(context: &impl Context, instance: &'static InotifyRecord, event: &Event) -> bool {
    if instance.count.load(Ordering::Relaxed) >= EVENTS_MAX {
        return false;
    }
    if instance.lost.load(Ordering::Relaxed) != 0 {
        if !append(context, instance, &OVERFLOW) {
            return false;
        }
        instance.lost.store(0, Ordering::Relaxed);
    }
    append(context, instance, event)
}

fn append(context: &impl Context, instance: &'static InotifyRecord, event: &Event) -> bool {
    let len = event.len();
    let last = context.object::<ToldFrame>(instance.frames[1].get());
    let has_room = |frame: &&'static ToldFrame| frame.used.get() as usize + len <= TOLD_BYTES;
    changed(context, instance, || {
        let Some(frame) = last.filter(has_room).or_else(|| add_frame(context, instance)) else { return false };
        let at = frame.used.get();
        context.pool().write(bytes_at(context, frame, at as usize), &event.bytes()[..len]);
        frame.used.set(at + len as u32);
        instance.last.set(at);
        instance.count.store(instance.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        instance.bytes.store(instance.bytes.load(Ordering::Relaxed) + len as u32, Ordering::Relaxed);
        true
    })
}

/// Changes a queue: who finds that half done empties it.
fn changed<R>(context: &impl Context, instance: &'static InotifyRecord, change: impl FnOnce() -> R) -> R {
    let changing = &state(context).changing;
    changing.set(context.raw(instance));
    in_order();
    let result = change();
    in_order();
    changing.set(0);
    result
}

fn add_frame(context: &impl Context, instance: &InotifyRecord) -> Option<&'static ToldFrame> {
    let own = sum_of_user(context, instance.uid.get(), |one| one.frame_count.get());
    let frame = if own < frames_max(context) { slab::alloc::<ToldFrame>(context) } else { None }?;
    frame.next.set(0);
    frame.used.set(0);
    let [first, last] = &instance.frames;
    in_order();
    match context.object::<ToldFrame>(last.get()) {
        Some(last) => last.next.set(context.raw(frame)),
        None => {
            instance.head.set(0);
            first.set(context.raw(frame));
        }
    }
    last.set(context.raw(frame));
    instance.frame_count.set(instance.frame_count.get() + 1);
    Some(frame)
}

fn bytes_at(context: &impl Context, frame: &'static ToldFrame, at: usize) -> PoolAddr {
    context.pool().addr_of(&frame.bytes).add(at as u64)
}

/// Copies the event at a place of a frame; returns its length. `None`: there is none, or the frame is damaged.
fn event_at(context: &impl Context, frame: &'static ToldFrame, at: usize, into: &mut [u8; EVENT_MAX]) -> Option<usize> {
    let left = (frame.used.get() as usize).min(TOLD_BYTES).checked_sub(at).filter(|&left| left >= HEAD)?;
    context.pool().read(bytes_at(context, frame, at), &mut into[..HEAD]);
    let name_len = InotifyEvent::take(&into[..HEAD]).len as usize;
    if !name_len.is_multiple_of(HEAD) || name_len > (EVENT_MAX - HEAD).min(left - HEAD) {
        return None;
    }
    context.pool().read(bytes_at(context, frame, at + HEAD), &mut into[HEAD..HEAD + name_len]);
    Some(HEAD + name_len)
}

/// The length of the first event; `None`: there is none.
pub fn first_len(context: &impl Context, instance: &'static InotifyRecord) -> Option<usize> {
    let _guard = lock_all(context);
    look(context, instance, &mut [0; EVENT_MAX])
}

/// The first event, which stays.
fn look(context: &impl Context, instance: &'static InotifyRecord, into: &mut [u8; EVENT_MAX]) -> Option<usize> {
    if instance.count.load(Ordering::Relaxed) != 0 {
        let frame = context.object::<ToldFrame>(instance.frames[0].get());
        if let Some(len) = frame.and_then(|frame| event_at(context, frame, instance.head.get() as usize, into)) {
            return Some(len);
        }
        lose_all(context, instance); // another island has written that
    }
    let is_lost = instance.lost.load(Ordering::Relaxed) != 0;
    is_lost.then(|| {
        *into = OVERFLOW.bytes();
        HEAD
    })
}

/// Takes the first event, if it is not longer than `room`.
pub fn take(context: &impl Context, instance: &'static InotifyRecord, room: u64, into: &mut [u8; EVENT_MAX]) -> Taken {
    let _guard = lock_all(context);
    let Some(len) = look(context, instance, into) else { return Taken::Nothing };
    if len as u64 > room {
        return Taken::TooLong;
    }
    if instance.count.load(Ordering::Relaxed) == 0 {
        instance.lost.store(0, Ordering::Relaxed);
        return Taken::Event(len);
    }
    changed(context, instance, || {
        instance.count.store(instance.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        let bytes = instance.bytes.load(Ordering::Relaxed);
        instance.bytes.store(bytes.saturating_sub(len as u32), Ordering::Relaxed);
        instance.head.set(instance.head.get() + len as u32);
        if let Some(frame) = context.object::<ToldFrame>(instance.frames[0].get())
            && instance.head.get() >= frame.used.get()
        {
            drop_first(context, instance, frame);
        }
    });
    Taken::Event(len)
}

/// Gives the first frame back.
fn drop_first(context: &impl Context, instance: &InotifyRecord, frame: &'static ToldFrame) {
    let [first, last] = &instance.frames;
    first.set(frame.next.get());
    if frame.next.get() == 0 {
        last.set(0);
    }
    in_order();
    instance.head.set(0);
    instance.frame_count.set(instance.frame_count.get().saturating_sub(1));
    slab::free(context, frame);
}

/// Gives back all that was told.
pub(super) fn forget_all(context: &impl Context, instance: &'static InotifyRecord) {
    changed(context, instance, || {
        while let Some(frame) = context.object::<ToldFrame>(instance.frames[0].get()) {
            drop_first(context, instance, frame);
        }
        instance.frames[1].set(0);
        instance.frame_count.set(0);
        instance.count.store(0, Ordering::Relaxed);
        instance.bytes.store(0, Ordering::Relaxed);
    });
}

/// As [`forget_all`]; it is told that events were lost.
pub(super) fn lose_all(context: &impl Context, instance: &'static InotifyRecord) {
    forget_all(context, instance);
    instance.lost.store(1, Ordering::Relaxed);
    wait::wake(context, &instance.waiters);
}
