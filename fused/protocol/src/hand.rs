//! References in hand: reference counts that stay right when a core dies.
//!
//! A core that has taken a reference to an open file and not stored it anywhere yet, or that has emptied a descriptor and not dropped the
//! reference yet, has the reference *in hand*. Each core notes in its record what it has in hand, so that whoever reclaims the core drops that. Otherwise
//! an end of a pipe would stay open for ever. No core has to stop for this, and nothing is counted anew.
//!
//! A count is a word with its owner above: the core that changes it owns it for the few stores that this takes, and notes what it is about
//! to do between taking the owner and storing the new count. So if the owner is dead, the count is unchanged; if a dead core's
//! note says that it changes a count that it does not own, the count is changed. Whoever finds a dead owner undoes its note and goes on; nobody
//! waits for the reclamation. For moves between the hand and a place (a descriptor, say), the place's own word says whether they have happened.
//! Protocol page: `docs/protocols/hand.md`. Model: `fused/protocol/tests/model/hand.rs`.

use motet_layout::{
    CoreId, FileRecord, FilesRecord, PoolAddr, PoolSafe, in_order,
    sync::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    Context,
    cores::{core_record, is_dead},
};

/// The count in a word of references; above it: 1 + the core that is changing it, or 0.
const COUNT: u32 = (1 << OWNER_SHIFT) - 1;
const OWNER_SHIFT: u32 = 24;

/// A note is the object's address with its type and one of these, or 0.
const STATE: u64 = 7;
/// A reference is being taken: it counts from when this core does not own the count any more.
const TAKING: u64 = 1;
/// It is in hand.
const HELD: u64 = 2;
/// It is being dropped: it counts until this core does not own the count any more.
const DROPPING: u64 = 3;
/// The same, of the last one: whoever drops it closes the object.
const LAST: u64 = 4;
/// It is in hand, or where the record's `hand_place` says, if that has it.
const MOVING: u64 = 5;
/// The type of the object.
const TABLE: u64 = 8;

/// An object whose references are counted so.
pub trait Counted: PoolSafe {
    /// Its type in a note.
    const TYPE: u64;

    /// Its word of references. Not among the words that a free object's memory is used for.
    fn refs(&self) -> &AtomicU32;
}

impl Counted for FileRecord {
    const TYPE: u64 = 0;

    #[inline(always)]
    fn refs(&self) -> &AtomicU32 {
        &self.refs
    }
}

impl Counted for FilesRecord {
    const TYPE: u64 = TABLE;

    #[inline(always)]
    fn refs(&self) -> &AtomicU32 {
        &self.refs
    }
}

/// How many references an object has.
#[inline(always)]
pub fn count<T: Counted>(object: &T) -> u32 {
    object.refs().load(Ordering::Acquire) & COUNT
}

/// Where references go to from a hand, and come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// A descriptor of a table (its address), whose lock is held unless nobody else knows the table.
    Descriptor(PoolAddr, u32),
    /// A word that holds the object's address and that nobody else changes.
    Word(PoolAddr),
}

const NUMBER_SHIFT: u32 = 48;

impl Holder {
    /// The place that is a word of the pool.
    ///
    /// # Panics
    /// When it is not in the pool.
    pub fn word<T: PoolSafe>(context: &impl Context, word: &T) -> Self {
        Self::Word(context.pool().find(word).expect("a place is in the pool"))
    }

    const fn raw(self) -> u64 {
        match self {
            Self::Descriptor(table, number) => table.0 | (number as u64 + 1) << NUMBER_SHIFT,
            Self::Word(word) => word.0,
        }
    }

    const fn from_raw(raw: u64) -> Self {
        let addr = PoolAddr(raw & ((1 << NUMBER_SHIFT) - 1));
        match raw >> NUMBER_SHIFT {
            0 => Self::Word(addr),
            number => Self::Descriptor(addr, number as u32 - 1),
        }
    }
}

/// An object that a dead core had in hand.
#[derive(Clone, Copy)]
pub enum Found {
    /// An open file.
    File(&'static FileRecord),
    /// A descriptor table.
    Table(&'static FilesRecord),
}

/// Takes a reference, which is then in hand. The object has another reference meanwhile.
pub fn take<T: Counted>(context: &impl Context, object: &'static T) {
    let count = begin(context, object);
    count_one_more(context, object, count);
}

/// Takes the first reference, in hand, of a new object that nobody else knows. Only the reclaimer may find it, which looks at all objects: so this
/// core becomes the count's owner here as well. Otherwise the reference would be lost if it died between counting and noting it.
pub fn take_first<T: Counted>(context: &impl Context, object: &'static T) {
    object.refs().store(ownership(context), Ordering::Relaxed);
    count_one_more(context, object, 0);
}

/// Takes a reference of an object that has `count`, which this core owns.
#[inline(always)]
fn count_one_more<T: Counted>(context: &impl Context, object: &'static T, count: u32) {
    let note = write(context, note_of(context, object, TAKING));
    end(object, count + 1);
    change(note, note_of(context, object, HELD));
}

/// Drops a reference that is in hand. `true`: it was the last one; the caller closes the object, and then says so ([`closed`]).
#[must_use]
pub fn drop_one<T: Counted>(context: &impl Context, object: &'static T) -> bool {
    let note = find(context, note_of(context, object, HELD));
    let count = begin(context, object);
    // What is in hand is counted.
    let left = count.checked_sub(1).expect("a reference that nobody has counted: shared structures are corrupt");
    let is_last = left == 0;
    change(note, note_of(context, object, if is_last { LAST } else { DROPPING }));
    end(object, left);
    if !is_last {
        change(note, 0);
    }
    is_last
}

/// Notes that an object is closed, whose last reference this core has dropped: if this core dies now, only the object's memory is
/// lost. Everything that was done before this call may be done twice.
pub fn closed<T: Counted>(context: &impl Context, object: &'static T) {
    change(find(context, note_of(context, object, LAST)), 0);
}

/// Moves a reference that is in hand to a place (`store` puts it there).
pub fn give<T: Counted>(context: &impl Context, object: &'static T, place: Holder, store: impl FnOnce()) {
    exchange(context, Some(object), None, place, store);
}

/// Takes a reference from a place, which `store` empties, in hand.
pub fn fetch<T: Counted>(context: &impl Context, object: &'static T, place: Holder, store: impl FnOnce()) {
    exchange(context, None, Some(object), place, store);
}

/// Moves a reference that is in hand to a place, and that of another object from there in hand. `store` does that with one store.
pub fn exchange<T: Counted>(
    context: &impl Context,
    into: Option<&'static T>,
    from: Option<&'static T>,
    place: Holder,
    store: impl FnOnce(),
) {
    context.own_record().hand_place.store(place.raw(), Ordering::Relaxed);
    let into = into.and_then(|object| {
        let note = find(context, note_of(context, object, HELD));
        change(note, note_of(context, object, MOVING));
        note
    });
    let from = from.map(|object| (object, write(context, note_of(context, object, MOVING))));
    in_order();
    store();
    in_order();
    change(into, 0);
    if let Some((object, note)) = from {
        change(note, note_of(context, object, HELD));
    }
}

/// Whether this core has nothing in hand: so it is between two system calls.
pub fn is_empty(context: &impl Context) -> bool {
    context.own_record().hand.iter().all(|note| note.load(Ordering::Relaxed) == 0)
}

/// Takes an object's count away from a dead core that owns it. A reclamation does that with all objects before it [settles](settle_counts) what the core
/// had noted: once its island is started again, a core of that number lives, and the count would be waited for for ever.
pub fn disown<T: Counted>(context: &impl Context, object: &'static T) {
    let word = object.refs().load(Ordering::Acquire);
    if let Some(dead) = owner(word).filter(|&core| is_dead(context, core)) {
        undo(context, dead, context.pool().addr_of(object), object.refs(), word);
    }
}

/// Settles the counts that a dead core was changing: those that its notes name were changed, as it owns none any more.
pub fn settle_counts(context: &impl Context, dead: CoreId) {
    for note in &core_record(context, dead).hand {
        let before = note.load(Ordering::Acquire);
        match before & STATE {
            TAKING => note.store(before ^ TAKING ^ HELD, Ordering::Release),
            DROPPING => note.store(0, Ordering::Release),
            _ => {}
        }
    }
}

/// Where a dead core was moving something to or from, if it was. That is settled by [`settle_moves`], with the table's lock.
pub fn place(context: &impl Context, dead: CoreId) -> Option<Holder> {
    let record = core_record(context, dead);
    let is_moving = record.hand.iter().any(|note| note.load(Ordering::Acquire) & STATE == MOVING);
    is_moving.then(|| Holder::from_raw(record.hand_place.load(Ordering::Acquire)))
}

/// Settles the moves of a dead core: whether they have happened is seen by `there`, the address of the object that its place has.
pub fn settle_moves(context: &impl Context, dead: CoreId, there: PoolAddr) {
    for note in &core_record(context, dead).hand {
        let before = note.load(Ordering::Acquire);
        if before & STATE == MOVING {
            let after = if before & !(STATE | TABLE) == there.0 { 0 } else { before ^ MOVING ^ HELD };
            // Somebody else may have done it.
            let _ = note.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Takes over something that a dead core had in hand, and for which all is settled. It is in this core's hand then. `true`: it has no
/// reference any more and was being closed, which is done once more.
pub fn take_over(context: &impl Context, dead: CoreId) -> Option<(Found, bool)> {
    core_record(context, dead).hand.iter().find_map(|note| {
        let word = note.load(Ordering::Acquire);
        let (object, state) = read(context, word)?;
        write(context, word);
        in_order();
        note.store(0, Ordering::Release);
        Some((object, state == LAST))
    })
}

/// Becomes the owner of a count, and returns it. Nobody owns one for longer than a few stores.
#[inline(always)]
fn begin<T: Counted>(context: &impl Context, object: &'static T) -> u32 {
    let refs = object.refs();
    let me = ownership(context);
    let count = refs.load(Ordering::Relaxed) & COUNT;
    if refs.compare_exchange(count, count | me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return count;
    }
    begin_contended(context, context.pool().addr_of(object), refs, me)
}

#[cold]
fn begin_contended(context: &impl Context, object: PoolAddr, refs: &AtomicU32, me: u32) -> u32 {
    loop {
        let word = refs.load(Ordering::Acquire);
        match owner(word) {
            None if refs.compare_exchange_weak(word, word | me, Ordering::Acquire, Ordering::Relaxed).is_ok() => {
                return word;
            }
            Some(core) if is_dead(context, core) => undo(context, core, object, refs, word),
            _ => context.relax(),
        }
    }
}

/// The count is changed, and nobody's.
#[inline(always)]
fn end<T: Counted>(object: &T, count: u32) {
    in_order();
    object.refs().store(count, Ordering::Release);
    in_order();
}

/// A dead core owns a count: it has not changed it, and what it has written down of that is undone. Several may do this at once; the notes come
/// first, so that whoever sees that nobody owns the count sees them. `word`: what was read, perhaps before the core died.
#[cold]
fn undo(context: &impl Context, dead: CoreId, object: PoolAddr, refs: &AtomicU32, word: u32) {
    if refs.load(Ordering::Acquire) != word {
        return; // it has changed the count since: what it has written down now is of something else
    }
    for note in &core_record(context, dead).hand {
        let before = note.load(Ordering::Acquire);
        if before & !(STATE | TABLE) != object.0 {
            continue;
        }
        let after = match before & STATE {
            TAKING => 0,
            state @ (DROPPING | LAST) => before ^ state ^ HELD,
            _ => continue,
        };
        let _ = note.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed);
    }
    let _ = refs.compare_exchange(word, word & COUNT, Ordering::AcqRel, Ordering::Relaxed);
}

/// What a count that this core owns has above it.
#[inline(always)]
fn ownership(context: &impl Context) -> u32 {
    (context.core().0 as u32 + 1) << OWNER_SHIFT
}

fn owner(word: u32) -> Option<CoreId> {
    (word >> OWNER_SHIFT).checked_sub(1).and_then(CoreId::from_raw)
}

#[inline(always)]
fn note_of<T: Counted>(context: &impl Context, object: &'static T, state: u64) -> u64 {
    context.pool().addr_of(object).0 | T::TYPE | state
}

fn read(context: &impl Context, note: u64) -> Option<(Found, u64)> {
    let addr = PoolAddr(note & !(STATE | TABLE));
    let found = match note {
        0 => return None,
        note if note & TABLE != 0 => Found::Table(context.pool().get(addr)?),
        _ => Found::File(context.pool().get(addr)?),
    };
    Some((found, note & STATE))
}

/// A note of this core, found or written; none if it has more in hand than it can write down: that is lost if it dies.
type Note = Option<&'static AtomicU64>;

#[inline(always)]
fn write(context: &impl Context, word: u64) -> Note {
    let note = find(context, 0);
    change(note, word);
    note
}

#[inline(always)]
fn find(context: &impl Context, word: u64) -> Note {
    context.own_record().hand.iter().find(|note| note.load(Ordering::Relaxed) == word)
}

#[inline(always)]
fn change(note: Note, word: u64) {
    in_order();
    if let Some(note) = note {
        note.store(word, Ordering::Relaxed);
    }
    in_order();
}
