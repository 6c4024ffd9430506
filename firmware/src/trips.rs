//! Threads' trips to hidden harts: who waits, in which order hidden harts take them, and how a trip ends.
//!
//! There is a word for each place from which threads leave. A hart that sends a thread posts it there with a ticket; of all threads that wait, a
//! hidden hart takes the one with the lowest ticket. So there is no queue that can be full. The hart that posted a trip may withdraw it before it
//! begins, and call the thread home afterwards; the hidden hart ends the trip, and the hart that posted it takes the thread.

use motet_layout::{
    handshake::then_look,
    ones,
    sync::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    },
};

use crate::hart::{HARTS_MAX, HartId, HartSet};

/// Places that supervisors send threads from.
pub const POSTED_MAX: usize = motet_abi::hidden::PLACES_MAX;
/// Places from which threads leave: one of each hart, for the thread that it waits for itself, and those.
pub const PLACES: usize = HARTS_MAX + POSTED_MAX;

const IDLE: u64 = 0;
const WAITING: u64 = 1;
const AWAY: u64 = 2;
const CALLED: u64 = 3;
const HOME: u64 = 4;
/// Somebody writes the trip that is to be posted.
const CLAIMED: u64 = 5;
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

    /// The place of this number among all.
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < PLACES { Some(Self(index as u8)) } else { None }
    }

    /// The place that a supervisor knows by this number.
    pub const fn posted(number: usize) -> Option<Self> {
        if number < POSTED_MAX { Some(Self((HARTS_MAX + number) as u8)) } else { None }
    }

    /// The number by which a supervisor knows it; `None`: it is a hart's own.
    pub const fn number(self) -> Option<usize> {
        self.index().checked_sub(HARTS_MAX)
    }

    /// Its number among all.
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
    /// There is none.
    Nobody,
}

/// What becomes of a trip that is called home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    /// It had not begun, and will not: the place is as before it was posted.
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
    /// Which may hold a trip that waits, a bit each: every place that does has it, and others may.
    waiting: [AtomicU64; PLACES.div_ceil(64)],
    /// Who has claimed those of supervisors: 1 + the hart's id.
    owners: [AtomicU64; POSTED_MAX],
    /// The same by hart: a bit for each number. Only the hart itself looks at it.
    claims: [AtomicU64; HARTS_MAX],
    next: AtomicU64,
    /// Hidden harts that wait for a trip and that nobody has rung.
    idle: AtomicU64,
    /// Hidden harts that are taken out: they take no trips.
    out: AtomicU64,
}

impl Trips {
    /// None.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(IDLE) }; PLACES],
            waiting: [const { AtomicU64::new(0) }; PLACES.div_ceil(64)],
            owners: [const { AtomicU64::new(0) }; POSTED_MAX],
            claims: [const { AtomicU64::new(0) }; HARTS_MAX],
            next: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            out: AtomicU64::new(0),
        }
    }

    /// Claims a place for a thread that the calling hart's supervisor sends. The caller posts it, or clears it.
    pub fn claim(&self, own: HartId) -> Option<Place> {
        let mut places = (0..POSTED_MAX).filter_map(|number| Some((number, Place::posted(number)?)));
        let (number, place) = places
            .find(|(_, place)| self.places[place.index()].compare_exchange(IDLE, CLAIMED, Acquire, Relaxed).is_ok())?;
        self.owners[number].store(own.index() as u64 + 1, Release);
        let claims = &self.claims[own.index()];
        claims.store(claims.load(Relaxed) | 1 << number, Relaxed);
        Some(place)
    }

    /// The place of this number, if the calling hart has claimed it.
    pub fn claimed(&self, own: HartId, number: usize) -> Option<Place> {
        let place = Place::posted(number)?;
        (self.owners[number].load(Relaxed) == own.index() as u64 + 1).then_some(place)
    }

    /// All places that the calling hart has claimed.
    pub fn all_claimed(&self, own: HartId) -> impl Iterator<Item = Place> {
        ones(self.claims[own.index()].load(Relaxed)).filter_map(Place::posted)
    }

    /// Whose thread comes home to this place.
    pub fn home(&self, place: Place) -> Option<HartId> {
        match place.number() {
            None => HartId::new(place.index()),
            Some(number) => HartId::new((self.owners[number].load(Acquire) as usize).checked_sub(1)?),
        }
    }

    /// How many wait for a hidden hart.
    pub fn waiting(&self) -> usize {
        self.all_waiting().count()
    }

    /// Places that hold a trip that waits, with their words.
    fn all_waiting(&self) -> impl Iterator<Item = (u64, usize)> {
        let marked = (0..).step_by(64).zip(&self.waiting);
        let marked = marked.flat_map(|(first, bits)| ones(bits.load(SeqCst)).map(move |bit| first + bit));
        marked.filter_map(|index| {
            let word = self.places[index].load(Acquire);
            (word & KIND == WAITING).then_some((word, index))
        })
    }

    /// Says that it does not. Whoever has ended the wait does so, and no other trip is posted there before.
    fn unmark(&self, index: usize) {
        self.waiting[index / 64].fetch_and(!(1 << (index % 64)), SeqCst);
    }

    /// A ticket behind all others.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.next.fetch_add(1, Relaxed))
    }

    /// Posts the trip that has been written for `place`, which only the caller uses. Answers which hidden hart has to be rung
    /// for it; if none, all are busy, and look for the next one themselves.
    pub fn post(&self, place: Place, ticket: Ticket) -> Option<HartId> {
        self.places[place.index()].store(ticket.0 << SHIFT | WAITING, Release);
        self.waiting[place.index() / 64].fetch_or(1 << (place.index() % 64), SeqCst);
        // Pairs with the look in `rest`: either that hart finds this trip, or its bit is found here.
        then_look();
        self.wake()
    }

    /// A hidden hart that waits for a trip, and that the caller rings.
    fn wake(&self) -> Option<HartId> {
        loop {
            let idle = HartSet(self.idle.load(SeqCst));
            let hart = idle.iter().next()?;
            let bit = HartSet::default().with(hart).0;
            if self.idle.fetch_and(!bit, SeqCst) & bit != 0 {
                return Some(hart);
            }
        }
    }

    /// The calling hidden hart is taken out, and has been woken, perhaps for a trip that it does not take: who is to be rung in its place.
    pub fn pass_on(&self) -> Option<HartId> {
        if self.waiting() == 0 { None } else { self.wake() }
    }

    /// Whether a hidden hart is taken out.
    pub fn is_out(&self, hart: HartId) -> bool {
        HartSet(self.out.load(SeqCst)).contains(hart)
    }

    /// Takes a hidden hart out, unless of all harts in `usable` none would be left. Answers whether it has.
    pub fn dismiss(&self, hart: HartId, usable: HartSet) -> bool {
        let bit = HartSet::default().with(hart).0;
        let mut out = self.out.load(SeqCst);
        while usable.0 & !(out | bit) != 0 {
            match self.out.compare_exchange(out, out | bit, SeqCst, SeqCst) {
                Ok(_) => {
                    // Nobody rings it for a trip from now on. One that has it already is passed on.
                    self.rise(hart);
                    return true;
                }
                Err(now) => out = now,
            }
        }
        false
    }

    /// A hidden hart takes trips again. It has to be rung, as it may sleep.
    pub fn employ(&self, hart: HartId) {
        self.out.fetch_and(!HartSet::default().with(hart).0, SeqCst);
    }

    /// Calls home the trip that a hidden hart has. `false`: it has none; one that it is just taking it calls home itself ([`take`](Self::take)).
    pub fn call_home_from(&self, hart: HartId) -> bool {
        let away = (hart.index() as u64) << SHIFT | AWAY;
        let mut has_one = false;
        then_look();
        for word in &self.places {
            let seen = word.load(Acquire);
            has_one |= stand(seen) == Stand::Away(hart);
            if seen == away {
                // If it comes home by itself meanwhile, it need not be called.
                let _ = word.compare_exchange(away, away & !KIND | CALLED, AcqRel, Relaxed);
            }
        }
        has_one
    }

    /// How the caller's trip stands.
    pub fn stand(&self, place: Place) -> Stand {
        stand(self.places[place.index()].load(Acquire))
    }

    /// The caller has taken what came home, or given its trip up, and may post again.
    pub fn clear(&self, place: Place) {
        if let Some(number) = place.number() {
            if let Some(own) = self.home(place) {
                let claims = &self.claims[own.index()];
                claims.store(claims.load(Relaxed) & !(1 << number), Relaxed);
            }
            self.owners[number].store(0, Release);
        }
        self.places[place.index()].store(IDLE, Release);
    }

    /// Calls the caller's trip home.
    pub fn call_home(&self, place: Place) -> Called {
        let word = &self.places[place.index()];
        let mut seen = word.load(Acquire);
        loop {
            let (next, answer) = match stand(seen) {
                Stand::Waits => (CLAIMED, Called::Withdrawn),
                Stand::Away(hart) => (seen & !KIND | CALLED, Called::Ring(hart)),
                Stand::Home | Stand::Nobody => return Called::Home,
            };
            match word.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) => {
                    if answer == Called::Withdrawn {
                        self.unmark(place.index());
                    }
                    return answer;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the trip that has waited longest for the calling hidden hart. It may be called home already.
    pub fn take(&self, own: HartId) -> Option<Place> {
        loop {
            if self.is_out(own) {
                return None;
            }
            let (word, index) = self.all_waiting().min()?;
            let away = (own.index() as u64) << SHIFT | AWAY;
            if self.places[index].compare_exchange(word, away, SeqCst, Relaxed).is_ok() {
                self.unmark(index);
                // Whoever takes this hart out meanwhile has either seen that it has the trip, or is seen here.
                then_look();
                if self.is_out(own) {
                    self.call_home_from(own);
                }
                return Some(Place(index as u8));
            }
        }
    }

    /// The calling hidden hart has nothing to do, and may sleep until it is rung, unless there is a trip now.
    pub fn rest(&self, own: HartId) -> Option<Place> {
        self.idle.fetch_or(HartSet::default().with(own).0, SeqCst);
        then_look();
        let taken = self.take(own);
        if taken.is_some() || self.is_out(own) {
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

    /// The caller's trip, which was withdrawn, counts as ended.
    pub fn end_withdrawn(&self, place: Place) {
        self.places[place.index()].store(HOME, Release);
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
        (HOME, _) => Stand::Home,
        _ => Stand::Nobody,
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
    fn a_hart_that_is_taken_out_sends_its_trip_home_and_takes_none() {
        let (trips, both) = (Trips::new(), HartSet::default().with(hart(8)).with(hart(9)));
        assert_eq!((trips.rest(hart(8)), trips.rest(hart(9))), (None, None));
        assert_eq!(trips.post(place(1), trips.ticket()), Some(hart(8)));
        trips.rise(hart(8));
        assert_eq!(trips.take(hart(8)), Some(place(1)));
        assert!(trips.dismiss(hart(8), both) && trips.call_home_from(hart(8)) && trips.is_called(place(1)));
        assert!(!trips.dismiss(hart(9), both), "it is the last one");
        trips.end(place(1));
        assert!(!trips.call_home_from(hart(8)));
        assert_eq!(trips.post(place(2), trips.ticket()), Some(hart(9)), "nobody else rests");
        assert_eq!((trips.rest(hart(8)), trips.pass_on()), (None, None));
        assert_eq!(trips.take(hart(9)), Some(place(2)));
        trips.employ(hart(8));
        assert_eq!(trips.rest(hart(8)), None);
        assert_eq!(trips.post(place(3), trips.ticket()), Some(hart(8)));
        // It is taken out before it comes to that: another one is rung.
        trips.end(place(2));
        trips.idle.store(HartSet::default().with(hart(9)).0, SeqCst);
        assert!(trips.dismiss(hart(8), both));
        assert_eq!((trips.take(hart(8)), trips.pass_on()), (None, Some(hart(9))));
        assert_eq!(trips.take(hart(9)), Some(place(3)));
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
    fn places_of_supervisors_are_claimed_by_one() {
        let trips = Trips::new();
        let all: Vec<_> = (0..POSTED_MAX).map(|_| trips.claim(hart(1)).unwrap()).collect();
        assert_eq!(trips.claim(hart(2)), None);
        assert_eq!((trips.claimed(hart(1), 3), trips.claimed(hart(2), 3)), (Some(all[3]), None));
        assert_eq!((trips.claimed(hart(1), POSTED_MAX), trips.claimed(hart(1), usize::MAX)), (None, None));
        assert_eq!(
            (trips.home(all[3]), trips.home(place(5)), trips.stand(all[3])),
            (Some(hart(1)), Some(hart(5)), Stand::Nobody)
        );
        trips.clear(all[3]);
        assert_eq!((trips.claimed(hart(1), 3), trips.claim(hart(2))), (None, Some(all[3])));
        assert_eq!((trips.all_claimed(hart(1)).count(), trips.all_claimed(hart(2)).count()), (POSTED_MAX - 1, 1));
        assert_eq!(trips.waiting(), 0);
        trips.post(all[3], trips.ticket());
        assert_eq!(trips.waiting(), 1);
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
