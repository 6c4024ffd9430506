//! The message in the line of a core's state: the state of the call that the core was given, whose call it is, and for which
//! thread.
//!
//! This is all that pieces of [`crate::direct`]'s protocol below it know of calls: a core that wakes
//! ([`crate::run_queue`]), and the code that settles what dead islands have left ([`crate::orphans`]).

use motet_layout::sync::Ordering;

use motet_layout::{
    CALL_ATTENTION, CALL_GIVEN, CALL_NONE, CALL_RETURNED, CALL_TAKEN, CORE_CLAIMED, CoreId, CoreRecord, PoolAddr,
    ThreadRecord,
};

use crate::{Context, cores::core_record};

/// In which state a call is that a core was given: its call word, without marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallState {
    /// There is none, or its function has become an ordinary thread.
    None,
    /// By this core: the function is about to run, or runs.
    Given(CoreId),
    /// To this core: the results wait there.
    Returned(CoreId),
    /// By this core, which reads the results.
    Taken(CoreId),
}

impl CallState {
    /// The call word.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        let (phase, core) = match self {
            Self::None => return CALL_NONE,
            Self::Given(core) => (CALL_GIVEN, core),
            Self::Returned(core) => (CALL_RETURNED, core),
            Self::Taken(core) => (CALL_TAKEN, core),
        };
        phase | (core.0 as u32) << 8
    }

    /// The state in a call word, whatever its marks; `None`: the word is damaged.
    pub fn of(word: u32) -> Option<Self> {
        let caller = owner(word);
        match phase(word) {
            CALL_NONE => Some(Self::None),
            CALL_GIVEN => caller.map(Self::Given),
            CALL_RETURNED => caller.map(Self::Returned),
            CALL_TAKEN => caller.map(Self::Taken),
            _ => None,
        }
    }

    /// Whether this is the state in a call word, whatever its marks.
    #[inline(always)]
    pub fn is_in(self, word: u32) -> bool {
        without_marks(word) == self.word()
    }

    /// Whose call it is.
    pub fn caller(self) -> Option<CoreId> {
        match self {
            Self::None => None,
            Self::Given(core) | Self::Returned(core) | Self::Taken(core) => Some(core),
        }
    }

    /// Moves a core's call from this state, whatever the word's marks, to another one, without marks.
    ///
    /// # Errors
    /// In which state it was instead; `None`: the word is damaged.
    pub(crate) fn change(self, record: &CoreRecord, to: Self) -> Result<(), Option<Self>> {
        let mut found = record.call.load(Ordering::SeqCst);
        while self.is_in(found) {
            match record.call.compare_exchange(found, to.word(), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Ok(()),
                Err(call) => found = call,
            }
        }
        Err(Self::of(found))
    }
}

/// Bits of a pool address in the first word of a message, whose others are the caller's.
pub const ADDRESS_BITS: u32 = 40;

/// The thread that a message is about; `None`: the message is damaged.
pub fn thread_of(context: &impl Context, record: &CoreRecord) -> Option<&'static ThreadRecord> {
    thread_in(context, record.message[0].get())
}

/// The thread that the first word of a message is about; `None`: the message is damaged.
#[inline(always)]
pub fn thread_in(context: &impl Context, word: u64) -> Option<&'static ThreadRecord> {
    context.pool().get(PoolAddr(word & ((1 << ADDRESS_BITS) - 1)))
}

/// Who has claimed the core that is in `state`.
pub(crate) fn claimer(state: u32) -> Option<CoreId> {
    if phase(state) == CORE_CLAIMED { owner(state) } else { None }
}

/// Undoes the claim of a dead core, which will publish nothing any more: this core is as if it had not been claimed.
pub(crate) fn undo_claim(context: &impl Context, claimer: CoreId) {
    let record = core_record(context, context.core());
    if CallState::Given(claimer).is_in(record.call.load(Ordering::Acquire)) {
        // It may have said already that its thread runs here.
        if let Some(thread) = thread_of(context, record)
            && thread.core.load(Ordering::Relaxed) == u32::from(context.core().0)
        {
            thread.core.store(u32::from(claimer.0), Ordering::Release);
        }
        record.call.store(CALL_NONE, Ordering::Release);
    }
}

/// What a word says without the core that it names, and without marks.
pub(crate) fn phase(word: u32) -> u32 {
    word & 0xff
}

/// The core that a word names.
pub(crate) fn owner(word: u32) -> Option<CoreId> {
    CoreId::from_raw(word >> 8 & 0xff)
}

fn without_marks(call: u32) -> u32 {
    call % CALL_ATTENTION // the lowest mark
}
