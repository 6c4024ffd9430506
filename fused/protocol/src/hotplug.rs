//! Cores that are taken out of use at run time, and come back.
//!
//! Somebody asks ([`ask_to_leave`]): a word in the core's record, and a ring. The core says that it is *out* ([`leave`]), gives everything that
//! it has to others, and sleeps ([`may_sleep`]). Nobody chooses a core that is out. Who has chosen it before pushes onto its inbox, then looks at its
//! state, sees that it is out, and rings it (`run_queue::wake_core`); the core, which has stored its state first, looks at its inbox
//! before each sleep. One of the two sees the other, and what has come late goes on to another core.
//!
//! For shoot-downs a core that is out is as one that idles: neither rung nor waited for. It drops its translations before it runs user code
//! again ([`come_back`]). To whoever reclaims an island it is as any core that lives: it is rung, and passes.
//!
//! Protocol page: `docs/protocols/hotplug.md`.

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_layout::{CORE_AWAKE, CORE_OFFLINE, CORE_OUT, CoreId};

use crate::{Context, cores, cores::core_record, run_queue::has_no_thread, shootdown};

/// It is the last one of its island that is in use and has not been asked to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsLast;

/// Asks a core to leave, unless it has been asked. The caller holds the tree lock, so that of two that ask for the last two cores of an island one
/// fails, and rings the core afterwards.
///
/// # Errors
/// [`IsLast`].
pub fn ask_to_leave(context: &impl Context, core: CoreId) -> Result<(), IsLast> {
    let stays = |&other: &CoreId| {
        let record = core_record(context, other);
        let has_started = record.state.load(Ordering::Relaxed) != CORE_OFFLINE;
        other != core && has_started && record.leaves.load(Ordering::Relaxed) == 0
    };
    if cores::cores_of(context, core.island()).find(stays).is_none() {
        return Err(IsLast);
    }
    core_record(context, core).leaves.store(1, Ordering::Release);
    Ok(())
}

/// Asks a core to come back. The caller holds the tree lock, and rings the core afterwards.
pub fn ask_back(context: &impl Context, core: CoreId) {
    core_record(context, core).leaves.store(0, Ordering::Release);
}

/// Whether this core has been asked to leave, or to stay out.
#[inline(always)]
pub fn is_asked(context: &impl Context) -> bool {
    context.own_record().leaves.load(Ordering::Relaxed) != 0
}

/// Whether what a core was asked for last has been done.
pub fn is_done(context: &impl Context, core: CoreId) -> bool {
    let record = core_record(context, core);
    let wanted = record.leaves.load(Ordering::SeqCst) != 0;
    let is_out = record.state.load(Ordering::SeqCst) == CORE_OUT;
    wanted == is_out || cores::is_dead(context, core)
}

/// This core, which is awake, says that it is out. From now on it runs no user code, and gives what comes to others.
pub fn leave(context: &impl Context) {
    let record = context.own_record();
    debug_assert!(record.state.load(Ordering::Relaxed) == CORE_AWAKE);
    record.state.store(CORE_OUT, Ordering::Release);
    then_look(); // what has come meanwhile
}

/// Whether this core, which is out, has nothing to give away, is to stay out, and was not asked to pass: it may sleep until it is rung.
pub fn may_sleep(context: &impl Context) -> bool {
    has_no_thread(context) && context.own_record().leaves.load(Ordering::SeqCst) != 0 && !shootdown::is_asked(context)
}

/// This core takes threads again. Shoot-downs asked meanwhile must be served before it runs user code.
pub fn come_back(context: &impl Context) {
    context.own_record().state.store(CORE_AWAKE, Ordering::Release);
    then_look(); // whether a shoot-down was asked
}
