//! The extension of the SBI by which a supervisor sends threads to hidden harts itself, and runs others meanwhile.

use motet_abi::hidden::{
    AT_HOME, CALL_HOME, COLLECT, CONTEXT_BYTES, DESCRIBE, EMPLOY, EMPLOYED, HIDDEN_HARTS, MIGRATE, PLACES, TAKE_OVER,
    VECTOR_BYTES, WAITING,
};
use rustsbi::SbiRet;

use crate::{
    board::{Board, Range},
    hart::{HartId, HartSet},
    traveller::{self, CONTEXT_WORDS, LOST, Permissions, Refused, Traveller},
    trips::{Called, POSTED_MAX, Place, Stand, Trips},
    vault::Translation,
};

pub use motet_abi::hidden::EXTENSION;

/// What calls need of the machine.
pub trait Machine {
    /// Makes a hart look at its trips.
    fn ring(&self, hart: HartId);
    /// Whether the firmware has lost a hart.
    fn is_lost(&self, hart: HartId) -> bool;
    /// Loads a word of open memory.
    fn load(&self, address: u64) -> u64;
    /// Stores a word to open memory.
    fn store(&self, address: u64, word: u64);
    /// The traveller of a place that the caller has.
    fn with<R>(&self, place: Place, act: impl FnOnce(&mut Traveller) -> R) -> R;
    /// What the supervisor of this hart lets programs use.
    fn permissions(&self) -> Permissions;
    /// Bytes of a vector register of hidden harts.
    fn vector_len(&self) -> usize;
    /// From now on the supervisor, or again the firmware, sees to illegal instructions of programs. On this hart, and on those that start later,
    /// they go there without the firmware.
    fn take_over(&self, by_supervisor: bool);
}

/// The calls of one hart.
#[derive(Debug)]
pub struct Desk<'a, M> {
    /// The hart.
    pub own: HartId,
    /// Its machine.
    pub machine: &'a M,
    /// The board.
    pub board: &'a Board,
    /// All trips.
    pub trips: &'a Trips,
}

impl<M: Machine> Desk<'_, M> {
    /// Does a call.
    pub fn call(&self, function: usize, [first, second]: [usize; 2]) -> SbiRet {
        match function {
            TAKE_OVER if first < 2 => {
                self.machine.take_over(first == 1);
                SbiRet::success(0)
            }
            TAKE_OVER => SbiRet::invalid_param(),
            _ if self.board.hidden == HartSet::default() => SbiRet::not_supported(),
            DESCRIBE => self.describe(first),
            MIGRATE => self.migrate(first as u64, second as u64),
            CALL_HOME => self.on_place(first, |place| {
                self.call_home(place);
                SbiRet::success(0)
            }),
            COLLECT => self.on_place(first, |place| self.collect(place)),
            AT_HOME => SbiRet::success(self.at_home()),
            WAITING => SbiRet::success(self.trips.waiting()),
            EMPLOY if second < 2 => self.employ(first, second == 1),
            EMPLOY => SbiRet::invalid_param(),
            _ => SbiRet::not_supported(),
        }
    }

    fn describe(&self, what: usize) -> SbiRet {
        match what {
            HIDDEN_HARTS => SbiRet::success(self.usable().iter().count()),
            EMPLOYED => SbiRet::success(self.usable().iter().filter(|hart| !self.trips.is_out(*hart)).count()),
            VECTOR_BYTES => SbiRet::success(self.machine.vector_len()),
            CONTEXT_BYTES => SbiRet::success(8 * CONTEXT_WORDS),
            PLACES => SbiRet::success(POSTED_MAX),
            _ => SbiRet::invalid_param(),
        }
    }

    /// Hidden harts that are not lost.
    fn usable(&self) -> HartSet {
        let usable = self.board.hidden.iter().filter(|hart| !self.machine.is_lost(*hart));
        usable.fold(HartSet::default(), HartSet::with)
    }

    /// Takes the hidden hart of this number out of use, or has it back.
    fn employ(&self, number: usize, employed: bool) -> SbiRet {
        let Some(hart) = self.board.hidden.iter().nth(number) else { return SbiRet::invalid_param() };
        if self.machine.is_lost(hart) {
            return SbiRet::failed();
        }
        if employed {
            self.trips.employ(hart);
            self.machine.ring(hart);
            return SbiRet::success(1);
        }
        if !self.trips.dismiss(hart, self.usable()) {
            return SbiRet::denied();
        }
        let has_one = self.trips.call_home_from(hart);
        if has_one {
            self.machine.ring(hart);
        }
        SbiRet::success(usize::from(!has_one))
    }

    fn is_any_usable(&self) -> bool {
        self.board.hidden.iter().any(|hart| !self.machine.is_lost(hart))
    }

    fn on_place(&self, number: usize, act: impl FnOnce(Place) -> SbiRet) -> SbiRet {
        self.trips.claimed(self.own, number).map_or(SbiRet::invalid_param(), act)
    }

    fn migrate(&self, context: u64, satp: u64) -> SbiRet {
        let range = Range { start: context, len: 8 * CONTEXT_WORDS as u64 };
        if !context.is_multiple_of(8) || !self.board.is_open(range) {
            return SbiRet::invalid_address();
        }
        if Translation::new(satp).is_none() {
            return SbiRet::invalid_param();
        }
        if !self.is_any_usable() {
            return SbiRet::failed();
        }
        let Some(place) = self.trips.claim(self.own) else { return SbiRet::denied() };
        let read = self.machine.with(place, |traveller| {
            traveller.satp = satp;
            traveller.context = context;
            traveller.permissions = self.machine.permissions();
            let word = |index: usize| self.machine.load(context + 8 * index as u64);
            traveller::read(traveller, self.machine.vector_len(), self.board, word)
        });
        if let Err(refused) = read {
            self.trips.clear(place);
            return match refused {
                Refused::NoContext => SbiRet::invalid_param(),
                Refused::NotOpen => SbiRet::invalid_address(),
            };
        }
        if let Some(hart) = self.trips.post(place, self.trips.ticket()) {
            self.machine.ring(hart);
        }
        SbiRet::success(place.number().unwrap_or_default())
    }

    /// Calls a thread home. Whether it is, or it takes a moment still.
    pub fn call_home(&self, place: Place) -> bool {
        match self.trips.call_home(place) {
            Called::Withdrawn => {
                self.machine.with(place, |traveller| traveller.cause = traveller::CALLED_HOME);
                self.trips.end_withdrawn(place);
                true
            }
            Called::Ring(hart) => {
                self.machine.ring(hart);
                self.is_home(place)
            }
            Called::Home => true,
        }
    }

    /// Whether a thread is home, or will not come.
    fn is_home(&self, place: Place) -> bool {
        match self.trips.stand(place) {
            Stand::Home => true,
            Stand::Away(hart) => self.machine.is_lost(hart),
            Stand::Waits => !self.is_any_usable(),
            Stand::Nobody => false,
        }
    }

    fn at_home(&self) -> usize {
        let home = self.trips.all_claimed(self.own).filter(|place| self.is_home(*place));
        home.filter_map(Place::number).fold(0, |set, number| set | 1 << number)
    }

    /// Writes a thread's context, if it is home, and frees its place.
    fn collect(&self, place: Place) -> SbiRet {
        if !self.is_home(place) {
            return SbiRet::success(0);
        }
        let is_lost = self.trips.stand(place) != Stand::Home;
        self.machine.with(place, |traveller| {
            if is_lost {
                // What it has done since is lost, and so is the place's hart, which does not come back to it.
                traveller.cause = LOST;
            }
            let at = traveller.context;
            traveller::write(traveller, |index, word| self.machine.store(at + 8 * index as u64, word));
        });
        self.trips.clear(place);
        SbiRet::success(1)
    }
}

#[cfg(test)]
mod tests;
