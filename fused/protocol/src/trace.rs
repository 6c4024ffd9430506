//! The trace: a ring of events per core, from the core to the host.
//!
//! One producer (the core, which runs the kernel with interrupts masked) and one consumer (the host), so no locks. The
//! producer never waits: what finds no room is counted and gone.
//!
//! Protocol page: `docs/protocols/trace.md`.

use motet_layout::{CoreId, Pool, PoolAddr, TraceEvent, TraceRing, TraceTable, sync::Ordering};

/// What cores write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(u32)]
pub enum Scope {
    /// Nothing: there are no rings.
    #[default]
    Nothing = 0,
    /// When virtual machines run.
    Guests = 1,
    /// All.
    All = 2,
}

/// What happened on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// The thread begins to run, or runs another program now.
    Run = 1,
    /// It no longer runs here. Detail: an [`End`].
    Stop = 2,
    /// The core made a waiting thread ready. Detail: the core that will run it.
    Wake = 3,
    /// The core started a new thread. Detail: the core that will run it.
    Start = 4,
    /// The running thread goes to another core, by `execve` or by its affinity. Detail: that core.
    Move = 5,
    /// The core rang another one's doorbell. Detail: that core.
    Ring = 6,
    /// The core took a doorbell interrupt.
    Rung = 7,
    /// The core has nothing to do and sleeps.
    Sleep = 8,
    /// It is awake again.
    Awake = 9,
    /// The thread begins to run a core of a virtual machine. `pid`: the machine's number; detail: the core's in it.
    Guest = 10,
    /// It no longer runs it; numbers as above.
    GuestStop = 11,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Run,
        Self::Stop,
        Self::Wake,
        Self::Start,
        Self::Move,
        Self::Ring,
        Self::Rung,
        Self::Sleep,
        Self::Awake,
        Self::Guest,
        Self::GuestStop,
    ];

    /// Decodes the value in the pool.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == raw)
    }
}

/// Why a thread stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum End {
    /// It has ended, or a signal stopped it.
    Ended = 0,
    /// It waits.
    Blocked = 1,
    /// Others are to run, too.
    Yielded = 2,
    /// It went to another core.
    Moved = 3,
}

impl End {
    /// Decodes the value in the pool.
    pub fn from_raw(raw: u32) -> Option<Self> {
        [Self::Ended, Self::Blocked, Self::Yielded, Self::Moved].into_iter().find(|&end| end as u32 == raw)
    }
}

/// An event, decoded. What does not apply is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, in nanoseconds on the machine's clock.
    pub time_ns: u64,
    /// What.
    pub kind: Kind,
    /// The thread it is about.
    pub tid: u32,
    /// That thread's process, or a virtual machine: see [`Kind`].
    pub pid: u32,
    /// See [`Kind`].
    pub detail: u32,
    /// The thread's name, NUL-padded ([`Kind::Run`] only).
    pub name: [u8; 16],
}

/// Bytes of a ring with room for `capacity` events.
pub const fn ring_bytes(capacity: u64) -> u64 {
    (size_of::<TraceRing>() as u64 + capacity * size_of::<TraceEvent>() as u64).next_multiple_of(64)
}

/// Whether a ring is for all that happens, and not for virtual machines alone.
pub fn is_for_all(ring: &TraceRing) -> bool {
    ring.scope.get() == Scope::All as u32
}

/// A core's ring; `None` when nothing is traced.
pub fn ring_of(pool: Pool, core: CoreId) -> Option<&'static TraceRing> {
    let table = pool.get::<TraceTable>(PoolAddr(pool.header().trace.get()))?;
    pool.get(PoolAddr(table.get(core.index())?.get()))
}

/// Adds an event, or counts it as lost. For the ring's core only.
pub fn put(pool: Pool, ring: &'static TraceRing, event: &Event) {
    let (head, capacity) = (ring.head.load(Ordering::Relaxed), ring.capacity.get());
    if head.wrapping_sub(ring.tail.load(Ordering::Acquire)) >= capacity {
        ring.lost.set(ring.lost.get() + 1);
        return;
    }
    let Some(slot) = slot(pool, ring, head, capacity) else { return };
    slot.time_ns.set(event.time_ns);
    slot.kind.set(event.kind as u32);
    slot.tid.set(event.tid);
    slot.pid.set(event.pid);
    slot.detail.set(event.detail);
    for (to, &from) in slot.name.iter().zip(&event.name) {
        to.store(from, Ordering::Relaxed);
    }
    ring.head.store(head.wrapping_add(1), Ordering::Release);
}

/// Takes all events that are there, oldest first; how many could not be decoded. For the host only, which says itself how
/// much room (`capacity`) it gave the ring: what the ring says is a kernel's claim.
pub fn take(pool: Pool, ring: &'static TraceRing, capacity: u64, mut each: impl FnMut(Event)) -> u64 {
    let (head, tail) = (ring.head.load(Ordering::Acquire), ring.tail.load(Ordering::Relaxed));
    let mut strange = 0;
    for number in 0..head.wrapping_sub(tail).min(capacity) {
        let event = slot(pool, ring, tail.wrapping_add(number), capacity).and_then(decode);
        strange += u64::from(event.map(&mut each).is_none());
    }
    ring.tail.store(head, Ordering::Release);
    strange
}

fn slot(pool: Pool, ring: &'static TraceRing, number: u64, capacity: u64) -> Option<&'static TraceEvent> {
    let first = pool.addr_of(ring).0 + size_of::<TraceRing>() as u64;
    pool.get(PoolAddr(first + (number & capacity.wrapping_sub(1)) * size_of::<TraceEvent>() as u64))
}

fn decode(slot: &TraceEvent) -> Option<Event> {
    let kind = Kind::from_raw(slot.kind.get())?;
    let name = core::array::from_fn(|index| slot.name[index].load(Ordering::Relaxed));
    let (tid, pid, detail) = (slot.tid.get(), slot.pid.get(), slot.detail.get());
    Some(Event { time_ns: slot.time_ns.get(), kind, tid, pid, detail, name })
}
