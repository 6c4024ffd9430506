//! Direct hand-over: a core that sleeps is given a call, or the return from one, in the cache line of its state.
//!
//! Handing a thread over through the run queue touches its record, its process and address space, the inbox and the
//! lists of the other core: some thirty lines that both sides then miss. A call of a function needs a few words: which
//! thread and space, where, stack and thread pointer, arguments. So a caller *claims* a sleeping core (its state goes from
//! idle to claimed by compare-and-swap), writes the words beside the state, and publishes them with the state. The core
//! reads one line and runs the function. The return is the same in the other direction.
//!
//! While a function runs in this way, the thread's record belongs to the caller's core, which has written there what
//! others look for (the core that runs it), so that signals find it: whoever wants its attention sets the core's
//! `attention` beside the thread's and rings.
//!
//! Protocol page: `docs/protocols/crossing.md`.

use motet_layout::sync::Ordering;

use motet_layout::{CORE_AWAKE, CORE_CALLED, CORE_CLAIMED, CORE_IDLE, CORE_POLLING, CORE_RETURNED, CoreId, CoreRecord};

use crate::{Context, count, run_queue::core_record};

/// A sleeping core that this one may write a message to. Nobody else wakes it meanwhile.
#[must_use = "a claimed core sleeps until the message is published or the claim withdrawn"]
#[derive(Debug)]
pub struct Claim {
    core: CoreId,
    polls: bool,
}

/// What is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A call.
    Call,
    /// The return from a call that a thread of that core has made.
    Return,
}

/// Claims a core that sleeps or polls.
pub fn claim(context: &impl Context, core: CoreId) -> Option<Claim> {
    let record = core_record(context, core);
    let mut state = CORE_IDLE;
    loop {
        match record.state.compare_exchange(state, CORE_CLAIMED, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(was) => {
                record.attention.store(0, Ordering::Relaxed);
                return Some(Claim { core, polls: was == CORE_POLLING });
            }
            Err(CORE_POLLING) if state == CORE_IDLE => state = CORE_POLLING,
            Err(_) => return None,
        }
    }
}

impl Claim {
    /// The claimed core's record, to write the message in.
    pub fn record(&self, context: &impl Context) -> &'static CoreRecord {
        core_record(context, self.core)
    }

    /// Publishes the message; rings the core unless it polls.
    pub fn publish(self, context: &impl Context, message: Message) {
        let state = match message {
            Message::Call => CORE_CALLED,
            Message::Return => CORE_RETURNED,
        };
        self.finish(context, state);
    }

    /// There is no message after all: the core wakes and looks for work, which may have come meanwhile.
    pub fn withdraw(self, context: &impl Context) {
        self.finish(context, CORE_AWAKE);
    }

    fn finish(self, context: &impl Context, state: u32) {
        core_record(context, self.core).state.store(state, Ordering::SeqCst);
        if !self.polls {
            count(&context.counters().doorbells_rung);
            context.ring(self.core);
        }
    }
}

/// Makes the core that runs a thread look at the thread's attention word: to be rung after it.
pub fn mark_attention(context: &impl Context, core: CoreId) {
    core_record(context, core).attention.store(1, Ordering::SeqCst);
}

/// Whether somebody wants the attention of the thread whose function this core has been called to run.
pub fn wants_attention(context: &impl Context) -> bool {
    core_record(context, context.core()).attention.load(Ordering::SeqCst) != 0
}

/// The function that this core was called to run has become an ordinary thread of this core, or has ended.
pub fn end_call(context: &impl Context) {
    core_record(context, context.core()).state.store(CORE_AWAKE, Ordering::SeqCst);
}
