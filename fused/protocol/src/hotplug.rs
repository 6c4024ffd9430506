//! Hot removal: cores that are taken out of use at run time, and come back.
//!
//! Somebody asks ([`ask_to_leave`]), by a word in the core's record and a ring. The core stores that it is *out* ([`leave`]), gives all its
//! threads to others, and sleeps ([`may_sleep`]). Nobody chooses a core that is out. A waker that has chosen it before pushes the thread onto its inbox, then reads its
//! state, sees that it is out, and rings it (`run_queue::wake_core`). The core has stored its state first, and looks at its inbox
//! before each sleep. So one of the two sees the other, and a thread that has come late goes on to another core.
//!
//! A shoot-down treats a core that is out as an idle one: it neither rings it nor waits for it. The core drops its translations before it runs user code
//! again ([`come_back`]). The reclamation of an island treats it as any core that lives: it is rung, and passes.
//!
//! Protocol page: `docs/protocols/hotplug.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{CORE_AWAKE, CORE_OFFLINE, CORE_OUT, CoreId, CoreRecord, PENDING_LEAVES};

use crate::{Context, cores, cores::core_record, run_queue::has_no_thread, shootdown};

/// The core is the last one of its island that is in use and has not been asked to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsLast;

/// Asks a core to leave, unless it has been asked. The caller rings the core afterwards. It holds the tree lock, so that of two callers that ask the last two cores
/// of an island, one fails.
///
/// # Errors
/// [`IsLast`].
pub fn ask_to_leave(context: &impl Context, core: CoreId) -> Result<(), IsLast> {
    let stays = |&other: &CoreId| {
        let record = core_record(context, other);
        let has_started = record.state.load(Ordering::Relaxed) != CORE_OFFLINE;
        other != core && has_started && !is_wanted_out(record, Ordering::Relaxed)
    };
    if cores::cores_of(context, core.island()).find(stays).is_none() {
        return Err(IsLast);
    }
    core_record(context, core).pending.fetch_or(PENDING_LEAVES, Ordering::Release);
    Ok(())
}

/// Asks a core to come back. The caller holds the tree lock, and rings the core afterwards.
pub fn ask_back(context: &impl Context, core: CoreId) {
    core_record(context, core).pending.fetch_and(!PENDING_LEAVES, Ordering::Release);
}

/// Whether this core has been asked to leave, or to stay out.
#[inline(always)]
pub fn is_asked(context: &impl Context) -> bool {
    is_wanted_out(context.own_record(), Ordering::Relaxed)
}

#[inline(always)]
fn is_wanted_out(record: &CoreRecord, order: Ordering) -> bool {
    record.pending.load(order) & PENDING_LEAVES != 0
}

/// Whether a core has done what it was last asked to: to leave, or to come back.
pub fn is_done(context: &impl Context, core: CoreId) -> bool {
    let record = core_record(context, core);
    let wanted = is_wanted_out(record, Ordering::SeqCst);
    let is_out = record.state.load(Ordering::SeqCst) == CORE_OUT;
    wanted == is_out || cores::is_dead(context, core)
}

/// Stores that this core, which is awake, is out. From now on it runs no user code, and gives threads that come to others.
pub fn leave(context: &impl Context) {
    let record = context.own_record();
    debug_assert!(record.state.load(Ordering::Relaxed) == CORE_AWAKE);
    record.state.store(CORE_OUT, Ordering::Release);
    then_look(); // what has come meanwhile
}

/// Whether this core, which is out, has nothing to give away, is to stay out, and was not asked to pass: it may sleep until it is rung.
pub fn may_sleep(context: &impl Context) -> bool {
    has_no_thread(context) && is_wanted_out(context.own_record(), Ordering::SeqCst) && !shootdown::is_asked(context)
}

/// Stores that this core takes threads again. It must serve shoot-downs asked meanwhile before it runs user code.
pub fn come_back(context: &impl Context) {
    context.own_record().state.store(CORE_AWAKE, Ordering::Release);
    then_look(); // whether a shoot-down was asked
}
