//! Making threads run: inboxes, ready queues, idle cores.
//!
//! A wake-up is a store: the waker pushes the thread onto the inbox of the thread's core (a lock-free stack in the
//! pool) and rings that core only if it sleeps. The core takes the whole inbox at once and keeps its ready threads
//! to itself ([`crate::ready`]). Idling is a Dekker-style handshake: the core stores "idle", then looks at its inbox again; the waker pushes,
//! then looks whether the core is idle. One of the two sees the other. The waker that moves the core from idle to awake rings,
//! so a core is rung at most once each time it stores "idle".
//!
//! Protocol page: `docs/protocols/wake-up.md`.

use motet_layout::{
    handshake::then_look,
    sync::{AtomicU64, Ordering},
};

use motet_layout::{
    CORE_AWAKE, CORE_CALLED, CORE_IDLE, CORE_OFFLINE, CORE_OUT, CORE_POLLING, CORE_WAKING, CoreId, CoreRecord,
    IslandId, PENDING_URGENT, THREAD_IN_TRANSIT, THREAD_READY, ThreadRecord,
};

use crate::{
    Context,
    cores::{self, core_record, is_dead},
    count, handed, message, noncoherent,
    ready::{self, Position},
    schedule,
};

/// The state of a thread that `core` is about to hand to another one.
#[inline]
pub const fn in_transit_by(core: CoreId) -> u32 {
    THREAD_IN_TRANSIT | (core.0 as u32) << 8
}

/// Whether a thread is ready, be it in a queue or on the way there.
pub fn is_ready(state: u32) -> bool {
    state == THREAD_READY || state & 0xff == THREAD_IN_TRANSIT
}

/// Hands a thread, whose state the caller has moved to [`in_transit_by`] this core, to the core it should run on: its last one, or
/// an idle one of the same island when that one is busy.
pub fn hand_over(context: &impl Context, thread: &'static ThreadRecord) {
    debug_assert!(is_ready(thread.state.load(Ordering::Relaxed)));
    let is_realtime = schedule::of(thread).is_realtime();
    let target = target_of(context, thread);
    thread.core.store(u32::from(target.0), Ordering::Relaxed);
    context.woke(thread, target);
    if target == context.core() && may_keep(context.own_record()) {
        return keep(context, thread, is_realtime);
    }
    push(context, thread, target);
    if target.island() != context.core().island() {
        count(&context.counters().foreign_wakeups);
    }
}

/// The core that a thread runs on if this one wakes it now.
#[inline]
pub fn target_of(context: &impl Context, thread: &ThreadRecord) -> CoreId {
    let own = context.core();
    let is_alone = context.pool().header().islands[own.island().index()].core_count.get() <= 1;
    if is_alone && thread.core.load(Ordering::Relaxed) == u32::from(own.0) && is_online(context, own) {
        return own;
    }
    if schedule::of(thread).is_realtime() { place_realtime(context, thread) } else { place(context, thread) }
}

/// Whether this core, which wakes a thread for itself, need not push it: it is awake, and nothing that has come before waits in its inbox.
fn may_keep(own: &CoreRecord) -> bool {
    own.state.load(Ordering::Relaxed) == CORE_AWAKE && own.inbox.load(Ordering::Relaxed) == 0
}

/// As [`push`], onto this core, for which it need not be: the ready queue is its own.
fn keep(context: &impl Context, thread: &'static ThreadRecord, is_realtime: bool) {
    let record = context.own_record();
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    ready::add(context, record, thread, Position::ByRank);
    if is_realtime
        && !context.looks_at_ready()
        && let Some(current) = context.object::<ThreadRecord>(record.current_thread.load(Ordering::Relaxed))
    {
        current.attention.store(1, Ordering::Release);
    }
}

/// Pushes a ready thread onto a core's inbox and wakes the core if it sleeps.
pub fn push(context: &impl Context, thread: &'static ThreadRecord, target: CoreId) {
    // First, so that it is never below zero.
    let reserved = count_on(context, target);
    push_reserved(context, thread, reserved);
}

/// A place in a core's inbox, which counts as if the thread that is about to be pushed there had come. The caller passes no place where it
/// has no thread in transit until it has done so ([`crate::orphans`]).
#[derive(Debug)]
#[must_use = "a place that is counted is filled, or given back"]
pub struct Reserved {
    core: CoreId,
    /// Which half of the core's count it is in: 0 or 1.
    half: u32,
}

impl Reserved {
    /// The core.
    #[inline(always)]
    pub fn core(&self) -> CoreId {
        self.core
    }
}

/// The half in which cores count from a reclamation on until the next one.
#[inline(always)]
pub(crate) fn half_of(reclamations: u32) -> u32 {
    reclamations & 1
}

/// One thread in a half of a count.
#[inline(always)]
const fn one_in(half: u32) -> u32 {
    1 << (16 * half)
}

/// All of a half.
pub(crate) const fn all_of(half: u32) -> u32 {
    0xffff << (16 * half)
}

/// A link of an inbox: the thread's address, and the half in which it counts.
#[inline(always)]
fn parts(link: u64) -> (u64, u32) {
    (link & !1, link as u32 & 1)
}

/// Counts a thread that the caller is about to push onto a core, whatever that has to do.
#[inline(always)]
pub fn count_on(context: &impl Context, core: CoreId) -> Reserved {
    // Whoever has passed since a reclamation began sees that it has.
    let half = half_of(context.pool().header().reclamations.load(Ordering::Relaxed));
    core_record(context, core).inbox_count.fetch_add(one_in(half), Ordering::SeqCst);
    Reserved { core, half }
}

/// Counts a thread that the caller is about to push onto a core, which it has chosen by its [`load`]. `None`: others have come since,
/// so nothing is counted, and there may be a better one. Without this, all that choose at the same time choose the same.
pub fn reserve(context: &impl Context, core: CoreId, load_seen: u32) -> Option<Reserved> {
    let reserved = count_on(context, core);
    if load(context, core) <= load_seen + 1 {
        return Some(reserved);
    }
    unreserve(context, reserved);
    None
}

/// Takes back what [`reserve`] counted.
pub fn unreserve(context: &impl Context, Reserved { core, half }: Reserved) {
    core_record(context, core).inbox_count.fetch_sub(one_in(half), Ordering::Relaxed);
}

/// As [`push`], onto a core where the thread counts already ([`reserve`]).
pub fn push_reserved(context: &impl Context, thread: &'static ThreadRecord, reserved: Reserved) {
    let target = reserved.core;
    let record = core_record(context, target);
    let raw = context.raw(thread) | u64::from(reserved.half);
    let mut head = record.inbox.load(Ordering::Relaxed);
    loop {
        thread.queue_next.store(head, Ordering::Relaxed);
        match record.inbox.compare_exchange_weak(head, raw, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => break,
            Err(found) => head = found,
        }
    }
    let looks = wake_core(context, target);
    if schedule::of(thread).is_realtime() && !looks {
        hurry(context, target);
    }
}

/// A real-time thread has been pushed onto a core that is awake: it looks whether that is more urgent than what it runs.
#[cold]
fn hurry(context: &impl Context, target: CoreId) {
    core_record(context, target).pending.fetch_or(PENDING_URGENT, Ordering::Release);
    if target != context.core() {
        count(&context.counters().doorbells_rung);
        return context.ring(target);
    }
    let current = context.own_record().current_thread.load(Ordering::Relaxed);
    if let Some(current) = context.object::<ThreadRecord>(current) {
        current.attention.store(1, Ordering::Release);
    }
}

/// Makes sure that a core looks at its inbox and other words soon: rings it if it sleeps, runs a called function, which
/// has no time slice, or is out of use, where it sleeps nearly always ([`crate::hotplug`]). `false`: it was awake, and looks when what it
/// runs stops.
pub fn wake_core(context: &impl Context, target: CoreId) -> bool {
    let record = core_record(context, target);
    let mut state = record.state.load(Ordering::SeqCst);
    while matches!(state, CORE_IDLE | CORE_POLLING) {
        match record.state.compare_exchange(state, CORE_AWAKE, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(CORE_POLLING) => {
                context.wrote(target);
                return true;
            }
            Ok(_) => break,
            Err(found) => state = found,
        }
    }
    let is_rung = matches!(state, CORE_IDLE | CORE_CALLED | CORE_OUT) && target != context.core();
    if is_rung {
        count(&context.counters().doorbells_rung);
        context.ring(target);
    }
    is_rung
}

/// The next thread for this core. Takes new arrivals from the inbox.
#[inline]
pub fn next(context: &impl Context) -> Option<&'static ThreadRecord> {
    let record = context.own_record();
    if record.inbox.load(Ordering::Relaxed) != 0 {
        if ready::is_empty(record)
            && let Some(only) = take_only(context, record)
        {
            return Some(only);
        }
        drain_inbox(context, record);
    }
    ready::take(context, record)
}

/// Takes the thread in this core's inbox if it is the only one, as mostly when a core has been woken. No ready thread waits: it goes past their
/// queue. Nobody carries it any more.
#[inline]
fn take_only(context: &impl Context, record: &'static CoreRecord) -> Option<&'static ThreadRecord> {
    let link = record.inbox.load(Ordering::Acquire);
    let (raw, half) = parts(link);
    let thread = context.object::<ThreadRecord>(raw)?;
    // Whoever pushes another one changes the word; nobody else takes this one out.
    let is_only = thread.queue_next.load(Ordering::Relaxed) == 0;
    if !is_only || record.inbox.compare_exchange(link, 0, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return None;
    }
    record.inbox_count.fetch_sub(one_in(half), Ordering::Relaxed);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    ready::take_past(context, record, thread);
    Some(thread)
}

/// The thread that is [`next`], if nothing has come since that was last asked.
#[inline]
pub fn first(context: &impl Context) -> Option<&'static ThreadRecord> {
    let record = context.own_record();
    if record.inbox.load(Ordering::Relaxed) == 0 { ready::first(context, record) } else { None }
}

/// Whether another thread waits for this core.
#[inline]
pub fn has_ready(record: &CoreRecord) -> bool {
    !ready::is_empty(record) || record.inbox.load(Ordering::Relaxed) != 0
}

/// Puts a thread of this core, whose state is [`THREAD_READY`], into the core's ready queue, by its priority.
pub fn append(context: &impl Context, thread: &'static ThreadRecord) {
    let record = context.own_record();
    if record.inbox.load(Ordering::Relaxed) != 0 {
        drain_inbox(context, record);
    }
    ready::add(context, record, thread, Position::ByRank);
}

/// As [`append`], for a thread that has used up its time: behind all others, whatever their priority, so that each runs.
pub fn append_last(context: &impl Context, thread: &'static ThreadRecord) {
    let record = context.own_record();
    if record.inbox.load(Ordering::Relaxed) != 0 {
        drain_inbox(context, record);
    }
    ready::add(context, record, thread, Position::Last);
}

/// As [`append`], for a thread that a more urgent one has preempted: before its equals.
pub fn append_first(context: &impl Context, thread: &'static ThreadRecord) {
    ready::add(context, context.own_record(), thread, Position::First);
}

/// Announces that this core is about to sleep (or to poll, if `state` is [`CORE_POLLING`]). `false`: there is work, it must
/// not. In any case [`end_idle`] comes next, after the sleep if there is one.
pub fn begin_idle(context: &impl Context, state: u32) -> bool {
    announce_idle(context, state);
    is_quiet(context)
}

/// As [`begin_idle`], where the caller looks for work afterwards itself ([`is_quiet`]).
#[inline(always)]
pub fn announce_idle(context: &impl Context, state: u32) {
    context.own_record().state.store(state, Ordering::Release);
}

/// Whether this core, which has announced that it is about to sleep, has no work.
pub fn is_quiet(context: &impl Context) -> bool {
    has_no_thread(context) && !(context.is_uncached() && noncoherent::is_asked(context))
}

/// As [`is_quiet`], as far as threads are concerned.
pub fn has_no_thread(context: &impl Context) -> bool {
    let record = context.own_record();
    then_look();
    record.inbox.load(Ordering::SeqCst) == 0 && ready::is_empty(record)
}

/// Why a core is awake again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// It looks for work.
    Look,
    /// It is to run a function: see [`crate::direct`]. Its state stays [`CORE_CALLED`] meanwhile.
    Called,
    /// The same, of a call over a link: see [`crate::noncoherent`].
    CalledNoncoherent,
}

/// Announces that this core runs again. Shoot-downs asked meanwhile must be served before it runs user code. A thread that it was
/// [handed] is among the ready ones then.
#[inline(always)]
pub fn end_idle(context: &impl Context) -> Wake {
    let (wake, given) = end_idle_with(context);
    if let Some(thread) = given {
        handed::make_ready(context, thread);
    }
    wake
}

/// As [`end_idle`]; the thread that it was [handed], which is still in transit.
#[inline(always)]
pub fn end_idle_with(context: &impl Context) -> (Wake, Option<&'static ThreadRecord>) {
    let record = context.own_record();
    // Not a load first: this core is about to write to the line, whoever had it, and waits for it once.
    let mut state = record.state.swap(CORE_WAKING, Ordering::SeqCst);
    if let Some(claimer) = message::claimer(state) {
        // Whoever claims a core writes a few words and goes on; it waits for nothing meanwhile.
        loop {
            state = record.state.load(Ordering::Acquire);
            if state != CORE_WAKING {
                break;
            }
            if is_dead(context, claimer) {
                message::undo_claim(context, claimer);
                break;
            }
            context.relax();
        }
    }
    let given = if handed::is_in(state) { handed::thread_in(context, state) } else { None };
    let wake = if state == CORE_CALLED { Wake::Called } else { Wake::Look };
    record.state.store(if wake == Wake::Called { CORE_CALLED } else { CORE_AWAKE }, Ordering::Release);
    then_look(); // whether a shoot-down was asked
    (wake, given)
}

/// As [`end_idle`], where islands do not cache each other's memory: nobody claims a core there, but it takes a call itself, if it has no
/// thread to run, of all islands from `first` on in turn. Who has made it.
#[inline(always)]
pub fn end_idle_noncoherent(context: &impl Context, first: usize) -> Option<CoreId> {
    let record = context.own_record();
    let caller = if has_ready(record) { None } else { noncoherent::take(context, first) };
    record.state.store(if caller.is_some() { CORE_CALLED } else { CORE_AWAKE }, Ordering::Release);
    then_look(); // whether a shoot-down was asked
    caller
}

/// Stores that this core, which has polled, is about to sleep. `false`: there is work.
pub fn poll_to_sleep(context: &impl Context) -> bool {
    let record = context.own_record();
    let slept = record.state.compare_exchange(CORE_POLLING, CORE_IDLE, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    slept && is_quiet(context)
}

/// Whether a core sleeps, or is about to.
pub fn is_idle(state: u32) -> bool {
    matches!(state, CORE_IDLE | CORE_POLLING)
}

/// Whether a core may be running user code, or may begin to without having looked for shoot-downs asked before now.
pub fn may_run_user(state: u32) -> bool {
    !matches!(state, CORE_IDLE | CORE_POLLING | CORE_OFFLINE | CORE_OUT)
}

/// Whether a core takes threads: it has started, its island has not died, and it is not out of use.
#[inline(always)]
pub fn takes_threads(state: u32) -> bool {
    !matches!(state, CORE_OFFLINE | CORE_OUT)
}

/// Whether a core takes threads (approximate: what is pushed onto one that has gone since is given to others).
#[inline(always)]
pub fn is_online(context: &impl Context, core: CoreId) -> bool {
    takes_threads(core_record(context, core).state.load(Ordering::Relaxed))
}

/// The core of `island` that a new thread should start on: an idle one, otherwise the one with the shortest queue. A mask without any
/// that takes threads does not bind it.
pub fn least_loaded(context: &impl Context, island: IslandId, affinity: [u64; 2]) -> CoreId {
    let usable = cores::cores_of(context, island).filter(|&core| allowed(affinity, core) && is_online(context, core));
    // Of equals, one without anything that other threads need.
    let rank = |core: &CoreId| (load(context, *core), core_record(context, *core).scarce.get());
    usable.min_by_key(rank).unwrap_or_else(|| any_of(context, island))
}

/// A core of an island that takes threads. There is one as long as the island lives ([`crate::hotplug::ask_to_leave`]).
#[cold]
fn any_of(context: &impl Context, island: IslandId) -> CoreId {
    let online = cores::cores_of(context, island).filter(|&core| is_online(context, core));
    online.min_by_key(|&core| load(context, core)).unwrap_or(CoreId::new(island, 0))
}

/// The cores that a thread may run on, by its affinity and by what it needs.
#[inline]
pub fn cores_of(thread: &ThreadRecord) -> [u64; 2] {
    cores_within([0, 1].map(|word: usize| thread.affinity[word].load(Ordering::Relaxed)), thread)
}

/// As [`cores_of`], with another affinity. What the thread needs comes first: without any core that has it, an affinity does not hold.
#[inline]
pub fn cores_within(affinity: [u64; 2], thread: &ThreadRecord) -> [u64; 2] {
    let read = |words: &[AtomicU64; 2]| [0, 1].map(|word: usize| words[word].load(Ordering::Relaxed));
    let able = read(&thread.able);
    if able == [u64::MAX; 2] {
        // It needs nothing, as nearly all do: the line of `only` stays where it is.
        return affinity;
    }
    let only = read(&thread.only);
    let both = [affinity[0] & able[0], affinity[1] & able[1]];
    let holds = both[0] & only[0] | both[1] & only[1] != 0;
    if holds { both } else { [both[0] | only[0], both[1] | only[1]] }
}

/// Whether an affinity mask contains a core.
#[inline]
pub fn allowed(affinity: [u64; 2], core: CoreId) -> bool {
    affinity[core.index() / 64] >> (core.index() % 64) & 1 != 0
}

/// How much a core has to do: how many threads it runs, has ready, and has not taken out of its inbox yet, which it does when what it
/// runs stops; at least 1 while it is awake (approximate).
pub fn load(context: &impl Context, core: CoreId) -> u32 {
    let record = core_record(context, core);
    let runs = record.current_thread.load(Ordering::Relaxed) != 0;
    let inbox = record.inbox_count.load(Ordering::Relaxed);
    let threads = u32::from(runs) + record.ready_count.load(Ordering::Relaxed) + (inbox & 0xffff) + (inbox >> 16);
    // Between taking a thread and running it, a core seems to have none.
    threads.max((!is_idle(record.state.load(Ordering::Relaxed))).into())
}

/// Where to run a woken thread: its last core if that is idle or alone on its island, otherwise an idle sibling.
fn place(context: &impl Context, thread: &ThreadRecord) -> CoreId {
    let last = CoreId::from_raw(thread.core.load(Ordering::Relaxed)).unwrap_or(context.core());
    let affinity = cores_of(thread);
    if !is_online(context, last) {
        return place_elsewhere(context, thread, last);
    }
    let is_alone = context.pool().header().islands[last.island().index()].core_count.get() <= 1;
    if is_alone || is_idle(core_record(context, last).state.load(Ordering::Relaxed)) && allowed(affinity, last) {
        return last;
    }
    cores::cores_of(context, last.island())
        .find(|&core| allowed(affinity, core) && is_idle(core_record(context, core).state.load(Ordering::Relaxed)))
        .unwrap_or(if allowed(affinity, last) { last } else { least_loaded(context, last.island(), affinity) })
}

/// As [`place`], for a real-time thread: without an idle core, one of its island that runs what is least urgent.
#[cold]
fn place_realtime(context: &impl Context, thread: &ThreadRecord) -> CoreId {
    let placed = place(context, thread);
    if context.pool().header().islands[placed.island().index()].core_count.get() <= 1 {
        return placed;
    }
    let affinity = cores_of(thread);
    if is_idle(core_record(context, placed).state.load(Ordering::Relaxed)) || !allowed(affinity, placed) {
        return placed;
    }
    let priority = |core: CoreId| {
        let running = context.object::<ThreadRecord>(core_record(context, core).current_thread.load(Ordering::Relaxed));
        running.map_or(0, |running| schedule::of(running).priority())
    };
    let last = CoreId::from_raw(thread.core.load(Ordering::Relaxed));
    let usable =
        cores::cores_of(context, placed.island()).filter(|&core| allowed(affinity, core) && is_online(context, core));
    usable.min_by_key(|&core| (priority(core), Some(core) != last)).unwrap_or(placed)
}

/// As [`place`], for a thread whose last core takes none.
#[cold]
fn place_elsewhere(context: &impl Context, thread: &ThreadRecord, last: CoreId) -> CoreId {
    if core_record(context, last).state.load(Ordering::Relaxed) == CORE_OFFLINE {
        return context.core(); // its island has died, and whoever runs the thread ends it
    }
    let affinity = cores_of(thread);
    let near = least_loaded(context, last.island(), affinity);
    if allowed(affinity, near) {
        return near;
    }
    // Another island of the instruction set may have one that the thread may run on.
    let islands = &context.pool().header().islands;
    let isa = |core: CoreId| islands[core.island().index()].isa.get();
    let may_run = |&core: &CoreId| isa(core) == isa(last) && allowed(affinity, core) && is_online(context, core);
    cores::all_cores(context).filter(may_run).min_by_key(|&core| load(context, core)).unwrap_or(near)
}

/// Takes all threads out of this core's inbox, and the one in its state, so that none of them is in transit any more.
pub fn collect(context: &impl Context) {
    handed::take_out(context);
    drain_inbox(context, core_record(context, context.core()));
}

/// After so many arrivals the core looks what else is due, and what turning round and adding that many costs, in instructions.
const ARRIVALS_AT_ONCE: u32 = 32;
const TURNED: u64 = ARRIVALS_AT_ONCE as u64 * 10;
const ADDED: u64 = ARRIVALS_AT_ONCE as u64 * 100;

/// Moves all arrivals to the ready queue: by priority, and of one priority the oldest first.
fn drain_inbox(context: &impl Context, record: &'static CoreRecord) {
    let (mut newest_first, mut half) = parts(record.inbox.swap(0, Ordering::Acquire));
    let mut oldest_first = 0;
    let (mut count, mut counted) = (0_u32, 0_u32);
    while let Some(thread) = context.object::<ThreadRecord>(newest_first) {
        let next = thread.queue_next.load(Ordering::Relaxed);
        thread.queue_next.store(oldest_first, Ordering::Relaxed);
        oldest_first = newest_first;
        counted += one_in(half);
        (newest_first, half) = parts(next);
        count += 1;
        if count % ARRIVALS_AT_ONCE == 0 {
            context.spend_locked(TURNED);
        }
    }
    record.inbox_count.fetch_sub(counted, Ordering::Relaxed);
    while let Some(thread) = context.object::<ThreadRecord>(oldest_first) {
        oldest_first = thread.queue_next.load(Ordering::Relaxed);
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        ready::add(context, record, thread, Position::ByRank);
        count -= 1;
        if count % ARRIVALS_AT_ONCE == ARRIVALS_AT_ONCE - 1 {
            context.spend_locked(ADDED);
        }
    }
}
