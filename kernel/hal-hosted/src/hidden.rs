//! Hidden harts, as those of the firmware (docs/firmware.md): they run threads of their island's cores, by the interpreter, until a system
//! call, a fault, or their core wants them.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use motet_hal::{Interrupts, Trap, Unsent};
use motet_layout::sync::{AtomicU32, fence};
use motet_layout::{CoreId, Frame, Pool, PoolAddr, ProcessRecord, SpaceRecord, ThreadRecord, UserFrame};

use crate::baton::Point;
use crate::hart::{Registers, area_of};
use crate::machine::{Island, lock};

/// Places for threads of all cores: few, so that some find none.
pub const PLACES: usize = 3;

thread_local! {
    /// The space of the thread that this hidden hart runs.
    static SPACE: Cell<Option<&'static SpaceRecord>> = const { Cell::new(None) };
}

/// How a thread's trip stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stand {
    Waits,
    Away,
    Called,
    Home(Trap),
}

/// A thread that a core has sent.
#[derive(Clone, Copy)]
struct Trip {
    owner: CoreId,
    ticket: u64,
    frame: &'static UserFrame,
    stamp: &'static AtomicU32,
    root: Frame,
    stand: Stand,
    /// The hidden hart that has it.
    hart: Option<usize>,
}

/// What there is of an island's trips.
#[derive(Default)]
struct State {
    next: u64,
    places: [Option<Trip>; PLACES],
    /// Hidden harts that are taken out, a bit each.
    out: u64,
}

/// The trips of an island. Whoever holds the lock lets nobody else go on.
#[derive(Default)]
pub struct Trips(Mutex<State>);

impl Trips {
    pub fn clear(&self) {
        *lock(&self.0) = Default::default();
    }

    fn with<R>(&self, act: impl FnOnce(&mut u64, &mut [Option<Trip>; PLACES]) -> R) -> R {
        let state = &mut *lock(&self.0);
        act(&mut state.next, &mut state.places)
    }

    fn is_out(&self, hart: usize) -> bool {
        lock(&self.0).out >> hart & 1 != 0
    }

    /// Takes a hidden hart out, and calls its trip home, or has it back. `false`: its trip is not home.
    fn employ(&self, hart: usize, employed: bool) -> bool {
        let state = &mut *lock(&self.0);
        state.out = state.out & !(1 << hart) | u64::from(!employed) << hart;
        let is_its = |trip: &&mut Trip| trip.hart == Some(hart) && matches!(trip.stand, Stand::Away | Stand::Called);
        match state.places.iter_mut().flatten().find(is_its) {
            Some(trip) if !employed => {
                trip.stand = Stand::Called;
                false
            }
            Some(_) | None => true,
        }
    }

    /// `None`: all places are taken.
    fn post(&self, owner: CoreId, frame: &'static UserFrame, stamp: &'static AtomicU32, root: Frame) -> Option<usize> {
        self.with(|next, places| {
            let place = places.iter().position(Option::is_none)?;
            places[place] = Some(Trip { owner, ticket: *next, frame, stamp, root, stand: Stand::Waits, hart: None });
            *next += 1;
            Some(place)
        })
    }

    /// Takes the trip that has waited longest for a hidden hart.
    fn begin(&self, hart: usize) -> Option<(usize, Trip)> {
        if self.is_out(hart) {
            return None;
        }
        self.with(|_, places| {
            let all = places.iter_mut().enumerate().filter_map(|(place, trip)| Some((place, trip.as_mut()?)));
            let waiting = all.filter(|(_, trip)| trip.stand == Stand::Waits);
            let (place, trip) = waiting.min_by_key(|(_, trip)| trip.ticket)?;
            trip.stand = Stand::Away;
            trip.hart = Some(hart);
            Some((place, *trip))
        })
    }

    fn stand(&self, place: usize) -> Option<Stand> {
        self.with(|_, places| places[place].map(|trip| trip.stand))
    }

    fn end(&self, place: usize, trap: Trap) {
        self.with(|_, places| {
            if let Some(trip) = &mut places[place] {
                trip.stand = Stand::Home(trap);
            }
        });
    }

    /// Those of a core: a bit for each place whose trip is so.
    fn of(&self, owner: CoreId, is_so: impl Fn(Stand) -> bool) -> u64 {
        let bit = |(place, trip): (usize, &Option<Trip>)| match trip {
            Some(trip) if trip.owner == owner && is_so(trip.stand) => 1 << place,
            Some(_) | None => 0,
        };
        self.with(|_, places| places.iter().enumerate().map(bit).sum())
    }

    pub fn at_home(&self, owner: CoreId) -> u64 {
        self.of(owner, |stand| matches!(stand, Stand::Home(_)))
    }

    pub fn call_home(&self, place: usize) {
        self.with(|_, places| {
            let Some(trip) = &mut places[place] else { return };
            trip.stand = match trip.stand {
                Stand::Waits => Stand::Home(Trap::Interrupt(Interrupts::EMPTY)),
                Stand::Away | Stand::Called => Stand::Called,
                home @ Stand::Home(_) => home,
            };
        });
    }

    /// Frees a place whose thread is home.
    ///
    /// # Panics
    /// It is not.
    pub fn take(&self, place: usize) -> Trap {
        let trip = self.with(|_, places| places[place].take());
        match trip.map(|trip| trip.stand) {
            Some(Stand::Home(trap)) => trap,
            other => panic!("a thread that is home is not at place {place}: {other:?}"),
        }
    }

    pub fn is_any_waiting(&self) -> bool {
        self.with(|_, places| places.iter().flatten().any(|trip| trip.stand == Stand::Waits))
    }
}

/// [`motet_hal::Machine::send_away`].
pub fn send_away(
    island: &Island,
    frame: &'static UserFrame,
    stamp: &'static AtomicU32,
    root: Frame,
) -> Result<usize, Unsent> {
    let bytes = island.hidden_vector_bytes;
    let has_values = frame.ext_valid.get() != 0 && frame.vector_bytes.get() != 0;
    if area_of(island.pool_map(), frame, bytes).is_none() || has_values && frame.vector_bytes.get() != bytes {
        return Err(Unsent::Unable);
    }
    let place = island.trips.post(island.core(), frame, stamp, root).ok_or(Unsent::Full)?;
    island.ring_hidden();
    Ok(place)
}

/// [`motet_hal::Machine::bring_home`].
pub fn bring_home(island: &Island) {
    let trips = &island.trips;
    let is_out = |stand| !matches!(stand, Stand::Home(_));
    motet_layout::ones(trips.of(island.core(), is_out)).for_each(|place| trips.call_home(place));
    while trips.of(island.core(), is_out) != 0 {
        island.point(Point::Relax);
    }
}

/// [`motet_hal::Machine::employ_hidden`].
pub fn employ(island: &Island, number: usize, employed: bool) -> bool {
    if number >= island.hidden_harts().count() {
        return false;
    }
    while !island.trips.employ(number, employed) {
        island.point(Point::Relax);
    }
    island.ring_hidden();
    true
}

/// The number of this hidden hart among its island's.
fn number(island: &Island) -> usize {
    island.hidden_harts().position(|hart| hart == island.core()).expect("a hidden hart runs this")
}

/// The life of a hidden hart.
pub fn live(island: &Island) -> ! {
    loop {
        match island.trips.begin(number(island)) {
            Some((place, trip)) => {
                let trap = run(island, place, &trip);
                island.trips.end(place, trap);
                island.ring_core(trip.owner);
            }
            None => island.sleep(),
        }
    }
}

/// Runs a thread until it stops, or is called home.
fn run(island: &Island, place: usize, trip: &Trip) -> Trap {
    let pool = island.pool_map();
    SPACE.set(Some(space_of(pool, trip.frame)));
    let mut regs = Registers::load(island.isa, trip.frame);
    {
        let mut hart = island.hart();
        hart.activate(trip.root);
        hart.flush_all();
        hart.load_ext(trip.frame);
        hart.vectors.open(pool, trip.frame);
    }
    let trap = loop {
        if island.trips.stand(place) == Some(Stand::Called) {
            let removed = island.trips.is_out(number(island));
            break Trap::Interrupt(if removed { Interrupts::REMOVED } else { Interrupts::EMPTY });
        }
        let budget = island.user_budget();
        if let Some(trap) = island.hart().run(island, &mut regs, budget) {
            break trap;
        }
        island.point(Point::User(budget));
    };
    SPACE.set(None);
    regs.store(island.isa, trip.frame);
    // As `motet_protocol::stamp` has it.
    let odd = trip.stamp.load(Ordering::Relaxed) | 1;
    trip.stamp.store(odd.wrapping_add(2), Ordering::Relaxed);
    fence(Ordering::Release);
    island.hart().save_ext(pool, trip.frame);
    trip.stamp.store(odd.wrapping_add(3), Ordering::Release);
    trap
}

/// The space of the thread that this hidden hart runs, if it is one and does.
pub fn space() -> Option<&'static SpaceRecord> {
    SPACE.get()
}

fn space_of(pool: Pool, frame: &'static UserFrame) -> &'static SpaceRecord {
    let thread = PoolAddr(pool.addr_of(frame).0 - offset_of!(ThreadRecord, frame) as u64);
    let process = pool.at::<ThreadRecord>(thread).process.load(Ordering::Relaxed);
    pool.at(PoolAddr(pool.at::<ProcessRecord>(PoolAddr(process)).space.load(Ordering::Relaxed)))
}
