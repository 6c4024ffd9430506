//! Sets of semaphores: several of a set change at once, or none does.
//!
//! A change of several words is written down first (the journal), then made. Who takes the lock of a dead core over makes it again.

use motet_abi::Errno;
use motet_layout::{
    Cell32, Cell64, IPC_JOURNAL, IPC_SEMAPHORES_PER_FRAME, IPC_WORDS, IpcObject, IpcState, IpcUndoList, PAGE_SIZE,
    in_order,
};

use super::{frame_at, release_frames, state, take_frame, undo};
use crate::{Context, wait};

/// Semaphores of a set (`SEMMSL`).
pub const SET_MAX: u64 = 32000;
/// Semaphores of all sets (`SEMMNS`).
pub const ALL_MAX: u64 = 1_024_000_000;
/// Operations at once (`SEMOPM`).
pub const OPERATIONS_MAX: usize = 500;
/// The highest value, and the greatest adjustment (`SEMVMX`, `SEMAEM`).
pub const VALUE_MAX: i32 = 32767;

const _: () = assert!(OPERATIONS_MAX <= IPC_JOURNAL);

/// Semaphores of which waiters are told apart.
const CLASSES: u32 = 15;
/// Of waiters for several operations: they look again whatever changes.
const ANY: u32 = 1 << 30;
/// An entry of the journal that has an adjustment.
const HAS_ADJUSTMENT: u64 = 1 << 48;
/// What an operation costs, in instructions, and a look at another one.
const OPERATION: u64 = 60;
const LOOKED: u64 = 6;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Of which semaphore.
    pub number: u16,
    /// What is added; 0: it is to be 0.
    pub change: i16,
    /// It is undone when the process ends.
    pub undo: bool,
}

/// What came of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All are done.
    Done,
    /// None is: this one (by its index) has to wait.
    Waits(usize),
    /// None is: a value, or an adjustment, were too great.
    OutOfRange,
}

/// Frames for the semaphores of a set that its record has no room for.
pub const fn frames_of(semaphores: u64) -> usize {
    if semaphores as usize <= IPC_WORDS { 0 } else { (semaphores as usize).div_ceil(IPC_SEMAPHORES_PER_FRAME) }
}

/// Bytes that a set is counted for, beside its record.
pub const fn cost_of(semaphores: u64) -> u64 {
    frames_of(semaphores) as u64 * PAGE_SIZE
}

/// Makes room for a new set's semaphores; they are 0.
///
/// # Errors
/// `ENOMEM`.
pub fn prepare(context: &impl Context, set: &IpcObject, semaphores: u64) -> Result<(), Errno> {
    set.size.set(semaphores);
    set.words.iter().take(frames_of(semaphores)).try_for_each(|word| take_frame(context, word))
}

/// A set's semaphores go.
pub(super) fn release(context: &impl Context, set: &IpcObject) {
    if let Some(frames) = set.words.get(..frames_of(set.size.get())) {
        release_frames(context, frames);
    }
}

/// The word of a semaphore: its value, and from bit 16 on who has changed it last.
fn word(context: &impl Context, set: &'static IpcObject, number: u16) -> Option<&'static Cell32> {
    let (size, number) = (set.size.get(), usize::from(number));
    if number as u64 >= size {
        return None;
    }
    if frames_of(size) == 0 {
        return set.words.get(number);
    }
    let frame = frame_at(context, set.words.get(number / IPC_SEMAPHORES_PER_FRAME)?)?;
    context.pool().get(frame.add(4 * (number % IPC_SEMAPHORES_PER_FRAME) as u64))
}

/// A semaphore's value; 0 of one that is none.
pub fn value(context: &impl Context, set: &'static IpcObject, number: u16) -> i32 {
    word(context, set, number).map_or(0, |word| i32::from(word.get() as u16))
}

/// Who has changed a semaphore last, by process id.
pub fn last_process(context: &impl Context, set: &'static IpcObject, number: u16) -> u32 {
    word(context, set, number).map_or(0, |word| word.get() >> 16)
}

/// Where who waits for an operation is told of changes: bits of a place in the set's queue.
pub fn waits_for(operation: Operation, is_one_of_several: bool) -> u32 {
    let several = if is_one_of_several { ANY } else { 0 };
    several | 1 << (u32::from(operation.number) % CLASSES + if operation.change == 0 { CLASSES } else { 0 })
}

/// Tells waiters of a change of a semaphore.
fn told_of(number: u16, before: i32, after: i32) -> u32 {
    let class = u32::from(number) % CLASSES;
    let risen = if after > before { 1 << class } else { 0 };
    let is_zero = if after == 0 { 1 << (CLASSES + class) } else { 0 };
    if before == after { 0 } else { ANY | risen | is_zero }
}

/// A change of semaphores that is being written down.
pub(super) struct Change<'a, C> {
    context: &'a C,
    state: &'static IpcState,
    set: &'static IpcObject,
    list: Option<&'static IpcUndoList>,
    used: usize,
    /// Semaphores that it may have, by their lowest bits.
    seen: u64,
    told: u32,
}

/// An entry, decoded.
#[derive(Clone, Copy)]
struct Entry {
    number: u16,
    value: i32,
    adjustment: Option<i32>,
}

impl Entry {
    fn of(word: &Cell64) -> Self {
        let word = word.get();
        let adjustment = (word & HAS_ADJUSTMENT != 0).then_some(i32::from((word >> 32) as i16));
        Self { number: word as u16, value: i32::from((word >> 16) as u16), adjustment }
    }

    fn word(self) -> u64 {
        let adjustment =
            self.adjustment.map_or(0, |adjustment| u64::from(adjustment as i16 as u16) << 32 | HAS_ADJUSTMENT);
        u64::from(self.number) | u64::from(self.value as u16) << 16 | adjustment
    }
}

impl<'a, C: Context> Change<'a, C> {
    pub fn new(context: &'a C, set: &'static IpcObject, list: Option<&'static IpcUndoList>) -> Self {
        Self { context, state: state(context), set, list, used: 0, seen: 0, told: 0 }
    }

    /// What a semaphore is going to be, and at which place that is written.
    fn entry(&self, number: u16) -> (usize, Entry) {
        self.context.spend_locked(OPERATION);
        let is_seen = self.seen >> (number % 64) & 1 != 0;
        let is_its = |place: &usize| {
            self.context.spend_locked(LOOKED);
            Entry::of(&self.state.journal[*place]).number == number
        };
        match (0..self.used).filter(|_| is_seen).find(is_its) {
            Some(place) => (place, Entry::of(&self.state.journal[place])),
            None => (self.used, Entry { number, value: value(self.context, self.set, number), adjustment: None }),
        }
    }

    fn adjustment(&self, entry: Entry) -> i32 {
        entry.adjustment.unwrap_or_else(|| {
            let word = self.list.and_then(|list| undo::word(self.context, self.set, list, entry.number));
            word.map_or(0, |word| word.get().cast_signed())
        })
    }

    /// Writes down what a semaphore is going to be.
    pub fn put(&mut self, number: u16, value: i32, adjustment: Option<i32>) {
        let (place, before) = self.entry(number);
        let entry = Entry { number, value, adjustment: adjustment.or(before.adjustment) };
        let Some(word) = self.state.journal.get(place) else { return };
        word.set(entry.word());
        self.used = self.used.max(place + 1);
        self.seen |= 1 << (number % 64);
    }

    /// Adds an operation.
    fn operate(&mut self, operation: Operation) -> Result<(), Outcome> {
        let (_, before) = self.entry(operation.number);
        let change = i32::from(operation.change);
        let value = before.value + change;
        if change == 0 && before.value != 0 || value < 0 {
            return Err(Outcome::Waits(0));
        }
        let adjustment = operation.undo.then(|| self.adjustment(before) - change);
        let is_far = adjustment.is_some_and(|adjustment| !(-VALUE_MAX - 1..=VALUE_MAX).contains(&adjustment));
        if value > VALUE_MAX || is_far {
            return Err(Outcome::OutOfRange);
        }
        self.put(operation.number, value, adjustment);
        Ok(())
    }

    /// Makes the change, by a process, and wakes those who have waited for it.
    pub fn make(mut self, pid: u32) {
        for word in &self.state.journal[..self.used] {
            let entry = Entry::of(word);
            self.told |= told_of(entry.number, value(self.context, self.set, entry.number), entry.value);
        }
        self.state.journal_pid.set(pid);
        self.state.journal_set.set(self.context.raw(self.set));
        self.state.journal_list.set(self.list.map_or(0, |list| self.context.raw(list)));
        in_order();
        self.state.journal_len.set(self.used as u32); // from now on it is made, by whomever
        in_order();
        make_again(self.context);
        tell(self.context, self.set, self.told);
    }
}

/// Makes the change that is written down, if there is one.
pub(super) fn make_again(context: &impl Context) {
    let state = state(context);
    let len = (state.journal_len.get() as usize).min(IPC_JOURNAL);
    let list = context.object::<IpcUndoList>(state.journal_list.get());
    if len != 0
        && let Some(set) = context.object::<IpcObject>(state.journal_set.get())
    {
        for entry in state.journal[..len].iter().map(Entry::of) {
            if let Some(word) = word(context, set, entry.number) {
                word.set(entry.value as u32 & 0xffff | state.journal_pid.get() << 16);
            }
            let adjusted = entry.adjustment.zip(list.and_then(|list| undo::word(context, set, list, entry.number)));
            if let Some((adjustment, word)) = adjusted {
                word.set(adjustment.cast_unsigned());
            }
        }
    }
    in_order();
    state.journal_len.set(0);
}

/// Wakes who waits for any of these.
pub(super) fn tell(context: &impl Context, set: &'static IpcObject, told: u32) {
    if told != 0 {
        wait::wake_matching(context, &set.waiters[0], u32::MAX, 0, told);
    }
}

/// Makes all operations, of which each is of a semaphore of the set, or none. `list` has room for what is to be undone.
pub fn operate(
    context: &impl Context,
    set: &'static IpcObject,
    operations: impl Iterator<Item = Operation>,
    list: Option<&'static IpcUndoList>,
    pid: u32,
) -> Outcome {
    let mut change = Change::new(context, set, list);
    for (index, operation) in operations.enumerate() {
        match change.operate(operation) {
            Ok(()) => {}
            Err(Outcome::Waits(_)) => return Outcome::Waits(index),
            Err(outcome) => return outcome,
        }
    }
    change.make(pid);
    Outcome::Done
}

/// Sets a semaphore. What processes have to undo of it they have no more.
pub fn set_value(context: &impl Context, set: &'static IpcObject, number: u16, value: i32, pid: u32) {
    undo::forget(context, set, number..=number);
    let before = self::value(context, set, number);
    if let Some(word) = word(context, set, number) {
        word.set(value as u32 & 0xffff | pid << 16);
    }
    tell(context, set, told_of(number, before, value));
}

/// Sets some of a set's semaphores from one on; what is to be undone of all has been [forgotten](undo::forget).
pub fn set_values(context: &impl Context, set: &'static IpcObject, first: u16, values: &[u16], pid: u32) {
    let mut told = 0;
    for (number, &new) in (first..).zip(values) {
        told |= told_of(number, value(context, set, number), i32::from(new));
        if let Some(word) = word(context, set, number) {
            word.set(u32::from(new) | pid << 16);
        }
        context.spend_locked(LOOKED);
    }
    tell(context, set, told);
}
