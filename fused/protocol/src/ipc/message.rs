//! Messages, and their order in a queue.
//!
//! A message that is being sent or received belongs to the core that does it: its own word says so, before it is out of the queue, and until it is in one.

use motet_abi::Errno;
use motet_layout::{
    CoreId, IPC_INLINE, IPC_MESSAGE, IpcMessage, IpcObject, PAGE_SIZE, PoolAddr, in_order, sync::Ordering,
};

use super::{RECORD_SIZE, charge, discharge, frame_at, lock_all, release_frames, take_frame};
use crate::{Context, slab};

/// Bytes of a message (`MSGMAX`).
pub const LEN_MAX: u64 = 8192;
/// Bytes that a new queue may have, and that one who is not privileged may let it have (`MSGMNB`).
pub const QUEUE_MAX: u64 = 16384;
/// What a look at a message costs, in instructions.
const LOOKED: u64 = 30;

const _: () = assert!(LEN_MAX <= 2 * PAGE_SIZE);

/// Which message is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The first one.
    Any,
    /// The first one of a type.
    Type(i64),
    /// The first one of another type.
    Not(i64),
    /// The first one of the lowest type, which is not above this one.
    UpTo(i64),
}

impl Wanted {
    /// What `msgrcv` asks for.
    pub fn of(mtype: i64, is_excepted: bool) -> Self {
        match mtype {
            0 => Self::Any,
            ..0 => Self::UpTo(mtype.checked_neg().unwrap_or(i64::MAX)),
            _ if is_excepted => Self::Not(mtype),
            _ => Self::Type(mtype),
        }
    }
}

const fn frames_of(len: u64) -> usize {
    if len as usize <= IPC_INLINE { 0 } else { len.div_ceil(PAGE_SIZE) as usize }
}

/// Bytes that a message of `len` bytes is counted for.
pub fn cost_of(len: u64) -> u64 {
    RECORD_SIZE + frames_of(len) as u64 * PAGE_SIZE
}

/// A message of `len` bytes, [`LEN_MAX`] at most, for who sends it; it is counted for a user. The lock is not held.
///
/// # Errors
/// `ENOMEM`.
pub fn make(
    context: &impl Context,
    mtype: i64,
    len: u64,
    (uid, is_privileged): (u32, bool),
) -> Result<&'static IpcMessage, Errno> {
    let _guard = lock_all(context);
    make_locked(context, mtype, len, (uid, is_privileged))
}

/// As [`make`], with the lock held.
fn make_locked(
    context: &impl Context,
    mtype: i64,
    len: u64,
    (uid, is_privileged): (u32, bool),
) -> Result<&'static IpcMessage, Errno> {
    let user = charge(context, uid, cost_of(len), is_privileged)?;
    let Some(message) = slab::alloc::<IpcMessage>(context) else {
        discharge(context, user, cost_of(len));
        return Err(Errno::ENOMEM);
    };
    message.len.set(len as u32);
    message.mtype.set(mtype.cast_unsigned());
    message.user.set(user);
    message.holder.store(holder(context), Ordering::Relaxed);
    in_order();
    message.kind.set(IPC_MESSAGE);
    let mut frames = message.frames.iter().take(frames_of(len));
    if let Err(errno) = frames.try_for_each(|word| take_frame(context, word)) {
        free(context, message);
        return Err(errno);
    }
    Ok(message)
}

fn holder(context: &impl Context) -> u32 {
    u32::from(context.core().0) + 1
}

/// The core that a message belongs to, if it is in no queue.
pub(super) fn holder_of(message: &IpcMessage) -> Option<CoreId> {
    CoreId::from_raw(message.holder.load(Ordering::Relaxed).checked_sub(1)?)
}

/// Where a message's bytes from one on are, up to where they go on elsewhere; no more than `len`.
pub fn run(context: &impl Context, message: &'static IpcMessage, from: u64, len: u64) -> Option<(PoolAddr, usize)> {
    let left = u64::from(message.len.get()).min(LEN_MAX).checked_sub(from)?.min(len);
    if frames_of(u64::from(message.len.get())) == 0 {
        return Some((context.pool().addr_of(message.bytes.first()?).add(from), left as usize));
    }
    let frame = frame_at(context, message.frames.get((from / PAGE_SIZE) as usize)?)?;
    Some((frame.add(from % PAGE_SIZE), left.min(PAGE_SIZE - from % PAGE_SIZE) as usize))
}

/// Frees a message that is in no queue.
pub fn free(context: &impl Context, message: &'static IpcMessage) {
    discharge(context, message.user.get(), cost_of(u64::from(message.len.get())));
    release_frames(context, &message.frames);
    message.kind.set(0);
    in_order();
    slab::free(context, message);
}

/// Whether a queue has room for so many bytes more.
pub fn has_room(queue: &IpcObject, len: u64) -> bool {
    let most = queue.size.get();
    queue.bytes.get().saturating_add(len) <= most && queue.count.get() < most
}

/// Puts a message at the end of a queue.
pub fn send(context: &impl Context, queue: &IpcObject, message: &'static IpcMessage) {
    put_behind(context, queue, context.object(queue.messages[1].get()), message);
}

/// Puts a message behind those whose type is not below its own, which all others are behind.
pub fn send_by_type(context: &impl Context, queue: &IpcObject, message: &'static IpcMessage) {
    let comes_first = |other: &IpcMessage| other.mtype.get() >= message.mtype.get();
    let before = match context.object::<IpcMessage>(queue.messages[1].get()) {
        Some(last) if comes_first(last) => Some(last),
        _ => all(context, queue).map(|(_, other)| other).take_while(|other| comes_first(other)).last(),
    };
    put_behind(context, queue, before, message);
}

/// Puts a message behind another one; `None`: before all.
fn put_behind(
    context: &impl Context,
    queue: &IpcObject,
    before: Option<&'static IpcMessage>,
    message: &'static IpcMessage,
) {
    let link = before.map_or(&queue.messages[0], |before| &before.next);
    message.next.set(link.get());
    in_order();
    link.set(context.raw(message));
    in_order();
    message.holder.store(0, Ordering::Relaxed);
    if message.next.get() == 0 {
        queue.messages[1].set(context.raw(message));
    }
    queue.count.set(queue.count.get() + 1);
    queue.bytes.set(queue.bytes.get().saturating_add(u64::from(message.len.get())));
}

/// The messages of a queue, each with the one before it.
fn all(
    context: &impl Context,
    queue: &IpcObject,
) -> impl Iterator<Item = (Option<&'static IpcMessage>, &'static IpcMessage)> {
    let mut before = None;
    let mut at = context.object::<IpcMessage>(queue.messages[0].get());
    // No more than there are: what another island has written may lead in circles.
    (0..queue.count.get()).map_while(move |_| {
        context.spend_locked(LOOKED);
        let message = at.filter(|message| message.kind.get() == IPC_MESSAGE)?;
        at = context.object(message.next.get());
        Some((before.replace(message), message))
    })
}

/// The message that is wanted, and the one before it.
pub fn find(
    context: &impl Context,
    queue: &IpcObject,
    wanted: Wanted,
) -> Option<(Option<&'static IpcMessage>, &'static IpcMessage)> {
    let type_of = |message: &IpcMessage| message.mtype.get().cast_signed();
    let mut messages = all(context, queue);
    match wanted {
        Wanted::Any => messages.next(),
        Wanted::Type(mtype) => messages.find(|(_, message)| type_of(message) == mtype),
        Wanted::Not(mtype) => messages.find(|(_, message)| type_of(message) != mtype),
        Wanted::UpTo(most) => {
            messages.filter(|(_, message)| type_of(message) <= most).min_by_key(|(_, message)| type_of(message))
        }
    }
}

/// Takes a message out of its queue, for who receives it.
pub fn take(
    context: &impl Context,
    queue: &IpcObject,
    before: Option<&'static IpcMessage>,
    message: &'static IpcMessage,
) {
    message.holder.store(holder(context), Ordering::Relaxed);
    in_order();
    before.map_or(&queue.messages[0], |before| &before.next).set(message.next.get());
    in_order();
    if message.next.get() == 0 {
        queue.messages[1].set(before.map_or(0, |before| context.raw(before)));
    }
    queue.count.set(queue.count.get().saturating_sub(1));
    queue.bytes.set(queue.bytes.get().saturating_sub(u64::from(message.len.get())));
}

/// A copy of the message that so many are before, for who receives it (`MSG_COPY`); `None`: there is none. `check` looks at the message first.
///
/// # Errors
/// `ENOMEM`; what `check` fails with.
pub fn copy_nth(
    context: &impl Context,
    queue: &IpcObject,
    before: u64,
    maker: (u32, bool),
    check: impl FnOnce(&IpcMessage) -> Result<(), Errno>,
) -> Result<Option<&'static IpcMessage>, Errno> {
    let Some((_, message)) = usize::try_from(before).ok().and_then(|before| all(context, queue).nth(before)) else {
        return Ok(None);
    };
    check(message)?;
    let len = u64::from(message.len.get());
    let copy = make_locked(context, message.mtype.get().cast_signed(), len, maker)?;
    let mut done = 0;
    // Both are cut alike.
    while let Some((from, to)) =
        run(context, message, done, len).zip(run(context, copy, done, len)).filter(|_| done < len)
    {
        context.pool().copy(from.0, to.0, from.1);
        done += from.1.max(1) as u64;
    }
    Ok(Some(copy))
}

/// Takes the first message out of a queue.
pub(super) fn take_first(context: &impl Context, queue: &IpcObject) -> Option<&'static IpcMessage> {
    let (before, message) = find(context, queue, Wanted::Any)?;
    take(context, queue, before, message);
    Some(message)
}

/// Makes all that a queue says of its messages anew from the links forward, and says whom each belongs to.
pub(super) fn repair(context: &impl Context, queue: &IpcObject) {
    let (mut count, mut bytes, mut last) = (0, 0_u64, 0);
    let mut place = &queue.messages[0];
    while let Some(message) = context.object::<IpcMessage>(place.get()).filter(|message| is_one(message, count)) {
        message.holder.store(0, Ordering::Relaxed);
        count += 1;
        bytes += u64::from(message.len.get());
        last = place.get();
        place = &message.next;
        context.spend_locked(LOOKED);
    }
    place.set(0);
    queue.messages[1].set(last);
    queue.count.set(count);
    queue.bytes.set(bytes);
}

/// No queue has more than there is room for in the machine.
fn is_one(message: &IpcMessage, before: u64) -> bool {
    message.kind.get() == IPC_MESSAGE && before < u64::from(u32::MAX)
}
