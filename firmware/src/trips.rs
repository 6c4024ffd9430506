//! Threads' trips to hidden harts: who waits, in which order hidden harts take them, and how a trip ends.
//!
//! A word for each place from which threads leave. Who has a thread to send posts it there with a ticket; of all that wait, a
//! hidden hart takes the one with the lowest. So there is no queue that can be full. Whoever posted may withdraw a trip that has not
//! begun, and call one home that has; the hidden hart ends it, and whoever posted takes it.

use motet_layout::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    fence,
};

use crate::hart::{HARTS_MAX, HartId, HartSet};

/// Places from which threads leave: one of each hart, for the thread that it waits for itself.
pub const PLACES: usize = HARTS_MAX;

const IDLE: u64 = 0;
const WAITING: u64 = 1;
const AWAY: u64 = 2;
const CALLED: u64 = 3;
const HOME: u64 = 4;
const KIND: u64 = 7;
/// What is above the kind: a ticket, or a hidden hart.
const SHIFT: u32 = 3;

/// The order in which threads are to leave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// A place's number, below [`PLACES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u8);

impl Place {
    /// The place of the thread that `hart` waits for.
    pub const fn of(hart: HartId) -> Self {
        Self(hart.index() as u8)
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a trip stands, as whoever posted it sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// No hidden hart has taken it.
    Waits,
    /// A hidden hart has it.
    Away(HartId),
    /// It has ended.
    Home,
}

/// What becomes of a trip that is called home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    /// It had not begun, and will not.
    Withdrawn,
    /// The hidden hart has to be rung, and will end it.
    Ring(HartId),
    /// It has ended.
    Home,
}

/// All trips.
#[derive(Debug)]
pub struct Trips {
    places: [AtomicU64; PLACES],
    next: AtomicU64,
    /// Hidden harts that wait for a trip and that nobody has rung.
    idle: AtomicU64,
}

impl Trips {
    /// None.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(IDLE) }; PLACES],
            next: AtomicU64::new(0),
            idle: AtomicU64::new(0),
        }
    }

    /// A ticket behind all others.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.next.fetch_add(1, Relaxed))
    }

    /// Posts the trip that has been written for `place`, which only the caller uses. Answers which hidden hart has to be rung
    /// for it; if none, all are busy, and look for the next one themselves.
    pub fn post(&self, place: Place, ticket: Ticket) -> Option<HartId> {
        self.places[place.index()].store(ticket.0 << SHIFT | WAITING, SeqCst);
        // Pairs with the fence in `rest`: either that hart finds this trip, or its bit is found here.
        fence(SeqCst);
        loop {
            let idle = HartSet(self.idle.load(SeqCst));
            let hart = idle.iter().next()?;
            let bit = HartSet::default().with(hart).0;
            if self.idle.fetch_and(!bit, SeqCst) & bit != 0 {
                return Some(hart);
            }
        }
    }

    /// How the caller's trip stands.
    pub fn stand(&self, place: Place) -> Stand {
        stand(self.places[place.index()].load(Acquire))
    }

    /// The caller has taken what came home, or given its trip up, and may post again.
    pub fn clear(&self, place: Place) {
        self.places[place.index()].store(IDLE, Relaxed);
    }

    /// Calls the caller's trip home.
    pub fn call_home(&self, place: Place) -> Called {
        let word = &self.places[place.index()];
        let mut seen = word.load(Acquire);
        loop {
            let (next, answer) = match stand(seen) {
                Stand::Waits => (IDLE, Called::Withdrawn),
                Stand::Away(hart) => (seen & !KIND | CALLED, Called::Ring(hart)),
                Stand::Home => return Called::Home,
            };
            match word.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) => return answer,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the trip that has waited longest for the calling hidden hart.
    pub fn take(&self, own: HartId) -> Option<Place> {
        loop {
            let waiting = (0..PLACES).filter_map(|index| {
                let word = self.places[index].load(Acquire);
                (word & KIND == WAITING).then_some((word, index))
            });
            let (word, index) = waiting.min()?;
            let away = (own.index() as u64) << SHIFT | AWAY;
            if self.places[index].compare_exchange(word, away, AcqRel, Relaxed).is_ok() {
                return Some(Place(index as u8));
            }
        }
    }

    /// The calling hidden hart has nothing to do, and may sleep until it is rung, unless there is a trip now.
    pub fn rest(&self, own: HartId) -> Option<Place> {
        self.idle.fetch_or(HartSet::default().with(own).0, SeqCst);
        fence(SeqCst);
        let taken = self.take(own);
        if taken.is_some() {
            self.rise(own);
        }
        taken
    }

    /// The calling hidden hart has woken, or found something to do.
    pub fn rise(&self, own: HartId) {
        self.idle.fetch_and(!HartSet::default().with(own).0, SeqCst);
    }

    /// Whether the trip that the calling hidden hart has is called home.
    pub fn is_called(&self, place: Place) -> bool {
        self.places[place.index()].load(Acquire) & KIND == CALLED
    }

    /// The calling hidden hart has ended its trip, and written what came of it; whoever posted it has to be rung.
    pub fn end(&self, place: Place) {
        self.places[place.index()].swap(HOME, AcqRel);
    }
}

fn stand(word: u64) -> Stand {
    match (word & KIND, HartId::new((word >> SHIFT) as usize)) {
        (AWAY | CALLED, Some(hart)) => Stand::Away(hart),
        (WAITING, _) => Stand::Waits,
        _ => Stand::Home,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hart(id: usize) -> HartId {
        HartId::new(id).unwrap()
    }

    fn place(id: usize) -> Place {
        Place::of(hart(id))
    }

    #[test]
    fn a_trip_goes_to_a_hidden_hart_and_comes_home() {
        let trips = Trips::new();
        assert_eq!(trips.take(hart(8)), None);
        assert_eq!(trips.rest(hart(8)), None);
        assert_eq!(trips.post(place(1), trips.ticket()), Some(hart(8)));
        assert_eq!(trips.stand(place(1)), Stand::Waits);
        assert_eq!(trips.take(hart(8)), Some(place(1)));
        assert_eq!((trips.stand(place(1)), trips.is_called(place(1))), (Stand::Away(hart(8)), false));
        assert_eq!(trips.call_home(place(1)), Called::Ring(hart(8)));
        assert!(trips.is_called(place(1)));
        trips.end(place(1));
        assert_eq!((trips.stand(place(1)), trips.call_home(place(1))), (Stand::Home, Called::Home));
        assert_eq!(trips.take(hart(8)), None);
    }

    #[test]
    fn those_that_wait_leave_in_their_order() {
        let trips = Trips::new();
        let first = trips.ticket();
        for id in [3, 1, 2] {
            assert_eq!(trips.post(place(id), trips.ticket()), None, "no hart rests");
        }
        assert_eq!(trips.call_home(place(1)), Called::Withdrawn);
        assert_eq!(trips.post(place(1), first), None);
        let taken: Vec<_> = [9, 8, 7].map(|id| trips.take(hart(id)).unwrap().index()).into();
        assert_eq!(taken, [1, 3, 2]);
    }

    #[test]
    fn each_trip_rings_another_hart_that_rests() {
        let trips = Trips::new();
        assert_eq!((trips.rest(hart(6)), trips.rest(hart(7))), (None, None));
        let rung = [0, 1, 2].map(|id| trips.post(place(id), trips.ticket()));
        assert_eq!(rung, [Some(hart(6)), Some(hart(7)), None]);
        assert!(trips.rest(hart(6)).is_some());
    }
}
