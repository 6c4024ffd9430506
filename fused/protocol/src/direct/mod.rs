//! Direct hand-over: a caller writes a call into the cache line of a sleeping core's state, and that core answers there.
//!
//! Handing a thread over through the run queue touches its record, its process and address space, the inbox and the
//! lists of the other core: some thirty lines that both sides then miss. A call of a function needs only a few words: the
//! thread and its space, the function, stack and thread pointer, arguments. So a caller *claims* a sleeping core (its state goes from
//! idle to claimed by compare-and-swap), writes the words beside the state, and publishes them with the state. The called core
//! runs the function, stores that it sleeps again, and writes the results where the call was. The caller's core, which
//! has noted whom it called, takes them from there. So one line moves for a call, and the same line back.
//!
//! | word `call` | who moves it there | what may happen next |
//! |---|---|---|
//! | [`CALL_NONE`](motet_layout::CALL_NONE) | the caller, having taken the results; the callee, when the function goes on as an ordinary thread | a claim |
//! | [`CALL_GIVEN`] | the caller, before it publishes | the callee answers, or adopts the thread |
//! | [`CALL_RETURNED`](motet_layout::CALL_RETURNED) | the callee | the caller takes the results; or the callee takes them back |
//! | [`CALL_TAKEN`](motet_layout::CALL_TAKEN) | the caller | it reads the results |
//!
//! In each state but one only one core moves the word; the others at most set or clear a mark in it. The core that moves it away from
//! returned, by compare-and-swap, has the thread. So the thread is taken exactly once, whoever dies meanwhile ([`crate::orphans`]). A
//! core whose results wait may sleep, and be woken, but not be claimed.
//!
//! Where islands do not cache each other's memory ([`Reach::Noncoherent`]), nobody claims a core: the caller leaves the call in a slot of the callee's record, which
//! the callee reads when it has nothing to do ([`crate::noncoherent`]). The callee writes its answer into the record
//! of the caller's core (`answer`, `answer_message`), so that each reads its own memory only. A core then makes one such call at a
//! time, and the call word is the callee's own. There, a function may also *call back* a function of its caller's island. That is an
//! answer, too: the thread goes on with that function on the caller's core, and when it returns, the called core is called again to go on
//! with the first. No island dies there (timed runs end when one does).
//!
//! What differs is a `Transport`, of which there is an implementation for each design: `coherent`, and `link` with its two. Who has a [`Reach`], which says the
//! machine's, asks the functions here, with the one match over designs. Where it is a constant, nothing of that match is left in the code.
//!
//! While a function runs in this way, the thread's record belongs to the caller's core, which has stored there which core runs
//! the thread. So signals find it: whoever wants its attention marks the call and rings.
//!
//! Protocol page: `docs/protocols/crossing.md`.

mod coherent;
mod link;

use motet_layout::sync::Ordering;

use motet_layout::{CALL_GIVEN, CORE_AWAKE, CORE_IDLE, CORE_POLLING, Cell64, CoreId, CoreRecord, CrossingRecord};

use crate::{
    Context,
    cores::core_record,
    count,
    message::{CallState, phase},
};

pub use coherent::{mark_attention, stop_polling};
pub use link::{answer, answer_by_engine, has_answer, is_taken};

use coherent::Coherent;
use link::Link;

/// How calls get to another core, and their answers back: what a design does. The functions of this module with the same names say what each is.
trait Transport {
    fn claim(context: &impl Context, core: CoreId) -> Option<Claim>;
    fn message(record: &'static CoreRecord, caller: CoreId) -> Message;
    fn prepare(context: &impl Context, claim: &Claim, polled: bool);
    fn publish(context: &impl Context, claim: Claim);
    fn withdraw(context: &impl Context, claim: Claim);
    fn is_disturbed(context: &impl Context, caller: Option<CoreId>) -> bool;
    fn reply(context: &impl Context, caller: CoreId) -> &'static [Cell64; 6];
    fn reply_of(context: &impl Context, callee: CoreId) -> &'static [Cell64; 6];
    fn give_back(context: &impl Context, caller: CoreId, state: u32) -> bool;
    fn end_call(context: &impl Context, caller: Option<CoreId>);
    fn outcome(context: &impl Context, callee: CoreId) -> Outcome;
    fn has_outcome(context: &impl Context, callee: CoreId) -> bool;
    fn release(context: &impl Context, callee: CoreId);
}

/// How far a core is from the one that it calls, and so where that one says what has become of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// They cache each other's memory: the answer lies in the callee's message, where the call was.
    Coherent,
    /// They do not: the callee writes the answer into the record of the caller's core, which has room for one.
    Noncoherent,
    /// Not coherent, and this core's engine carries messages, of a length from which on that is faster than stores ([`crate::dma::words_from`]).
    Engine,
}

/// The one match over designs.
macro_rules! by {
    ($reach:expr, $design:ident => $then:expr) => {
        match $reach {
            Reach::Coherent => {
                type $design = Coherent;
                $then
            }
            Reach::Noncoherent => {
                type $design = Link<false>;
                $then
            }
            Reach::Engine => {
                type $design = Link<true>;
                $then
            }
        }
    };
}

impl Reach {
    /// Between the islands of this machine.
    #[inline(always)]
    pub fn of(context: &impl Context) -> Self {
        if context.is_uncached() { Self::Noncoherent } else { Self::Coherent }
    }

    /// Whether it is not [`Coherent`](Self::Coherent).
    #[inline(always)]
    pub const fn is_noncoherent(self) -> bool {
        !matches!(self, Self::Coherent)
    }

    /// Whether it is [`Engine`](Self::Engine).
    #[inline(always)]
    pub const fn has_engine(self) -> bool {
        matches!(self, Self::Engine)
    }
}

/// Where a call is written.
#[derive(Clone, Copy)]
pub struct Message {
    /// What every call needs.
    pub message: &'static [Cell64; 6],
    /// Further argument words.
    pub words: &'static [Cell64; 8],
    /// Floating-point arguments.
    pub floats: &'static [Cell64; 8],
}

impl Message {
    /// In the record of the core that is called, by a core of `caller`'s island.
    #[inline(always)]
    pub fn of(record: &'static CoreRecord, caller: CoreId, reach: Reach) -> Self {
        by!(reach, Design => Design::message(record, caller))
    }

    /// In the caller's own record, for its engine.
    pub fn outgoing(own: &'static CoreRecord) -> Self {
        let out = &own.out_call;
        Self { message: &out.message, words: &out.words, floats: &out.floats }
    }
}

/// Where the answer to a call from afar is written.
#[derive(Clone, Copy)]
pub struct Reply {
    /// Results, or a call back.
    pub message: &'static [Cell64; 6],
    /// Of a call back: further argument words.
    pub words: &'static [Cell64; 5],
    /// The same: who calls, and what it needs to go on.
    pub caller: &'static CrossingRecord,
}

impl Reply {
    /// In the record of the core that has called.
    #[inline(always)]
    pub fn there(context: &impl Context, caller: CoreId) -> Self {
        let record = core_record(context, caller);
        Self { message: &record.answer_message, words: &record.answer_words, caller: &record.answer_caller }
    }

    /// In this core's own record, for its engine, which is through with all that was there before.
    pub fn outgoing(context: &impl Context) -> Self {
        let own = context.own_record();
        context.await_transfer(own.dma_ends_ns.get());
        Self { message: &own.out_message, words: &own.out_words, caller: &own.out_caller }
    }
}

/// A core that this one may write a call to. Coherent: it sleeps, and nobody else wakes it meanwhile; not coherent: the island's slot there is
/// this core's.
#[must_use = "a claimed core sleeps until the call is published or the claim withdrawn"]
pub struct Claim {
    core: CoreId,
    record: &'static CoreRecord,
    /// It polls.
    polls: bool,
    reach: Reach,
    /// This core's engine carries the call.
    by_engine: bool,
}

/// Claims a core that sleeps, or polls, unless the results of another call wait there; not coherent: its slot, whatever it does, unless another
/// core of this island has that.
#[inline(always)]
pub fn claim(context: &impl Context, core: CoreId, reach: Reach) -> Option<Claim> {
    by!(reach, Design => Design::claim(context, core))
}

impl Claim {
    /// Not coherent: lets this core's engine carry the call. The engine has finished with all that it carried before.
    pub fn by_engine(self, context: &impl Context) -> Self {
        context.await_transfer(context.own_record().dma_ends_ns.get());
        Self { by_engine: true, ..self }
    }

    /// Where the call is to be written.
    #[inline(always)]
    pub fn message(&self, context: &impl Context) -> Message {
        if self.by_engine {
            return Message::outgoing(context.own_record());
        }
        Message::of(self.record, context.core(), self.reach)
    }

    /// Stores whose call it is, and whether this core will poll for its end ([`has_outcome`]) and need not be rung. From
    /// now on, whoever wants the thread's attention can mark the call.
    #[inline(always)]
    pub fn prepare(&self, context: &impl Context, polled: bool) {
        by!(self.reach, Design => Design::prepare(context, self, polled));
    }

    /// Publishes the call, which is prepared and written; rings the core unless it polls.
    #[inline(always)]
    pub fn publish(self, context: &impl Context) {
        by!(self.reach, Design => Design::publish(context, self));
    }

    /// Withdraws the claim without a call: the core wakes and looks for work, which may have come meanwhile.
    pub fn withdraw(self, context: &impl Context) {
        by!(self.reach, Design => Design::withdraw(context, self));
    }
}

/// Whether a core sleeps, or polls (approximate).
pub fn sleeps(context: &impl Context, core: CoreId) -> bool {
    matches!(core_record(context, core).state.load(Ordering::Relaxed), CORE_IDLE | CORE_POLLING)
}

/// Whether a core is awake and has nothing to run (approximate).
pub fn is_about_to_sleep(context: &impl Context, core: CoreId) -> bool {
    let record = core_record(context, core);
    record.state.load(Ordering::Relaxed) == CORE_AWAKE
        && record.current_thread.load(Ordering::Relaxed) == 0
        && record.inbox.load(Ordering::Relaxed) == 0
        && record.ready_count.load(Ordering::Relaxed) == 0
}

/// The core that has called this one, which has read the message. `None`: the record is damaged.
pub fn caller(context: &impl Context) -> Option<CoreId> {
    match CallState::of(context.own_record().call.load(Ordering::Acquire)) {
        Some(CallState::Given(caller)) => Some(caller),
        Some(CallState::None | CallState::Returned(_) | CallState::Taken(_)) | None => None,
    }
}

/// Whether the function that this core is called to run has to become an ordinary thread first: somebody wants its
/// thread's attention, or another thread waits for this core.
#[inline(always)]
pub fn is_disturbed(context: &impl Context, caller: Option<CoreId>, reach: Reach) -> bool {
    by!(reach, Design => Design::is_disturbed(context, caller))
}

/// Where this core, called by `caller`, writes results.
#[inline(always)]
pub fn reply(context: &impl Context, caller: CoreId, reach: Reach) -> &'static [Cell64; 6] {
    by!(reach, Design => Design::reply(context, caller))
}

/// Where `callee`, called by this core, has written results.
#[inline(always)]
pub fn reply_of(context: &impl Context, callee: CoreId, reach: Reach) -> &'static [Cell64; 6] {
    by!(reach, Design => Design::reply_of(context, callee))
}

/// Gives `caller` the results of the called function, which are in the [`reply`], and announces that this
/// core is about to sleep (or to poll, if `state` is [`CORE_POLLING`]). The core runs no thread before [`end_idle`](crate::run_queue::end_idle). Rings the
/// caller's core unless that polls.
///
/// `false`: somebody has marked the call, and this core still has the thread, and is awake.
#[must_use]
#[inline(always)]
pub fn give_back(context: &impl Context, caller: CoreId, state: u32, reach: Reach) -> bool {
    by!(reach, Design => Design::give_back(context, caller, state))
}

/// Ends a call whose function goes on as an ordinary thread of this core: `caller` no longer waits
/// for results.
pub fn end_call(context: &impl Context, caller: Option<CoreId>, reach: Reach) {
    by!(reach, Design => Design::end_call(context, caller));
}

/// What has become of a call that this core has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The function runs, or is about to.
    Runs,
    /// It has returned, and its results are in the callee's reply, which belongs to this core until [`release`].
    Returned,
    /// It calls a function of this island, which is in `answer_message`, `answer_words` and `answer_caller` until [`release`].
    Calls,
    /// It has become an ordinary thread: this core has nothing to wait for.
    Left,
    /// Not coherent: the call has not been taken, and the thread is this core's again ([`withdraw`](crate::noncoherent::withdraw)).
    Withdrawn,
}

/// What has become of the call that this core has made to `callee`. If it has returned, this core has taken the thread.
#[inline(always)]
pub fn outcome(context: &impl Context, callee: CoreId, reach: Reach) -> Outcome {
    by!(reach, Design => Design::outcome(context, callee))
}

/// Whether a core that polls should look at the call that it has made to `callee` with [`outcome`].
#[inline(always)]
pub fn has_outcome(context: &impl Context, callee: CoreId, reach: Reach) -> bool {
    by!(reach, Design => Design::has_outcome(context, callee))
}

/// Releases the call to `callee`: this core has read the answer and recorded that the thread is here; or it has nothing to wait for.
#[inline(always)]
pub fn release(context: &impl Context, callee: CoreId, reach: Reach) {
    by!(reach, Design => Design::release(context, callee));
}

/// Whether a core is given a call, or runs one.
pub fn is_called(record: &CoreRecord) -> bool {
    phase(record.call.load(Ordering::SeqCst)) == CALL_GIVEN
}

/// A core is to look at what was written for it.
#[inline(always)]
fn wake(context: &impl Context, core: CoreId, polls: bool) {
    if polls {
        context.wrote(core);
    } else {
        context.ring(core);
        count(&context.counters().doorbells_rung);
    }
}
