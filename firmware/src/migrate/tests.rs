use std::{cell::RefCell, collections::BTreeMap};

use dtoolkit::fdt::Fdt;
use motet_abi::hidden::{CAUSE, COUNTER, FORMAT, REGISTERS, STAMP, VECTOR_LEN};
use proptest::prelude::*;

use super::*;
use crate::{FIRMWARE, traveller::CALLED_HOME};

const MEMORY: u64 = 0x8030_0000;
const SATP: u64 = 8 << 60 | 0x8_0400;
const LEN: usize = 16;

/// Memory, travellers, and who was rung.
struct Fake {
    words: RefCell<BTreeMap<u64, u64>>,
    places: RefCell<BTreeMap<usize, Traveller>>,
    rung: RefCell<Vec<usize>>,
    lost: RefCell<HartSet>,
}

impl Machine for Fake {
    fn ring(&self, hart: HartId) {
        self.rung.borrow_mut().push(hart.index());
    }
    fn is_lost(&self, hart: HartId) -> bool {
        self.lost.borrow().contains(hart)
    }
    fn load(&self, address: u64) -> u64 {
        assert!(address.is_multiple_of(8) && !FIRMWARE.contains(address) && address >= FIRMWARE.end(), "{address:x}");
        *self.words.borrow().get(&address).unwrap_or(&0)
    }
    fn store(&self, address: u64, word: u64) {
        assert!(address.is_multiple_of(8) && !FIRMWARE.contains(address) && address >= FIRMWARE.end(), "{address:x}");
        self.words.borrow_mut().insert(address, word);
    }
    fn with<R>(&self, place: Place, act: impl FnOnce(&mut Traveller) -> R) -> R {
        act(self.places.borrow_mut().entry(place.index()).or_insert(Traveller::new()))
    }
    fn permissions(&self) -> Permissions {
        Permissions { environment: 1, counters: 2, state_enable: 3 }
    }
    fn vector_len(&self) -> usize {
        LEN
    }
    fn take_over(&self, _: bool) {}
}

struct Firmware {
    fake: Fake,
    board: Board,
    trips: Trips,
}

impl Firmware {
    /// Three harts, of which the last one is hidden.
    fn new() -> Self {
        let mut board = Board::parse(Fdt::new(include_bytes!("../../testdata/virt-vectors.dtb")).unwrap()).unwrap();
        board.hide(1).unwrap();
        let fake = Fake {
            words: RefCell::default(),
            places: RefCell::default(),
            rung: RefCell::default(),
            lost: RefCell::default(),
        };
        let firmware = Self { fake, board, trips: Trips::new() };
        firmware.context(MEMORY);
        firmware
    }

    fn context(&self, at: u64) {
        let registers = (REGISTERS..=STAMP).map(|index| (index, MEMORY + 0x1000 * index as u64));
        for (index, word) in [(0, FORMAT), (VECTOR_LEN, LEN as u64), (COUNTER, 0x1234)].into_iter().chain(registers) {
            self.fake.words.borrow_mut().insert(at + 8 * index as u64, word);
        }
    }

    fn call(&self, hart: usize, function: usize, arguments: [u64; 2]) -> SbiRet {
        let own = HartId::new(hart).unwrap();
        let desk = Desk { own, machine: &self.fake, board: &self.board, trips: &self.trips };
        desk.call(function, arguments.map(|word| word as usize))
    }

    fn word(&self, index: usize) -> u64 {
        *self.fake.words.borrow().get(&(MEMORY + 8 * index as u64)).unwrap_or(&0)
    }
}

fn hidden() -> HartId {
    HartId::new(2).unwrap()
}

#[test]
fn a_thread_goes_and_comes_home() {
    let firmware = Firmware::new();
    assert_eq!(firmware.trips.rest(hidden()), None);
    assert_eq!(firmware.call(0, MIGRATE, [MEMORY, SATP]), SbiRet::success(0));
    assert_eq!(*firmware.fake.rung.borrow(), [2]);
    assert_eq!(
        (firmware.call(0, WAITING, [0; 2]), firmware.call(0, COLLECT, [0; 2])),
        (SbiRet::success(1), SbiRet::success(0))
    );
    let place = firmware.trips.take(hidden()).unwrap();
    firmware.fake.with(place, |traveller| {
        assert_eq!((traveller.counter, traveller.satp, traveller.permissions.counters), (0x1234, SATP, 2));
        (traveller.counter, traveller.cause) = (0x5678, 8);
    });
    assert_eq!(
        (firmware.call(0, AT_HOME, [0; 2]), firmware.call(0, WAITING, [0; 2])),
        (SbiRet::success(0), SbiRet::success(0))
    );
    firmware.trips.end(place);
    assert_eq!(firmware.call(0, AT_HOME, [0; 2]), SbiRet::success(1));
    assert_eq!(firmware.call(1, AT_HOME, [0; 2]), SbiRet::success(0), "another hart's");
    assert_eq!(firmware.call(1, COLLECT, [0; 2]), SbiRet::invalid_param());
    assert_eq!(firmware.call(0, COLLECT, [0; 2]), SbiRet::success(1));
    assert_eq!((firmware.word(COUNTER), firmware.word(CAUSE)), (0x5678, 8));
    assert_eq!(firmware.call(0, COLLECT, [0; 2]), SbiRet::invalid_param(), "it has been taken");
}

#[test]
fn a_thread_that_is_called_comes_home() {
    let firmware = Firmware::new();
    firmware.call(0, MIGRATE, [MEMORY, SATP]);
    assert_eq!(firmware.call(1, CALL_HOME, [0; 2]), SbiRet::invalid_param());
    assert_eq!(firmware.call(0, CALL_HOME, [0; 2]), SbiRet::success(0));
    assert_eq!((firmware.trips.take(hidden()), firmware.call(0, COLLECT, [0; 2])), (None, SbiRet::success(1)));
    assert_eq!((firmware.word(COUNTER), firmware.word(CAUSE)), (0x1234, CALLED_HOME));
    firmware.call(0, MIGRATE, [MEMORY, SATP]);
    let place = firmware.trips.take(hidden()).unwrap();
    assert_eq!(firmware.call(0, CALL_HOME, [0; 2]), SbiRet::success(0));
    assert!(firmware.trips.is_called(place));
    assert_eq!(firmware.fake.rung.borrow().last(), Some(&2));
}

#[test]
fn a_lost_hart_gives_its_thread_back() {
    let firmware = Firmware::new();
    firmware.call(0, MIGRATE, [MEMORY, SATP]);
    firmware.trips.take(hidden()).unwrap();
    *firmware.fake.lost.borrow_mut() = HartSet::default().with(hidden());
    assert_eq!(
        (firmware.call(0, AT_HOME, [0; 2]), firmware.call(0, COLLECT, [0; 2])),
        (SbiRet::success(1), SbiRet::success(1))
    );
    assert_eq!(firmware.word(CAUSE), LOST);
    assert_eq!(firmware.call(0, MIGRATE, [MEMORY, SATP]), SbiRet::failed());
    assert_eq!(firmware.call(0, DESCRIBE, [HIDDEN_HARTS as u64, 0]), SbiRet::success(0));
}

#[test]
fn a_hart_that_is_taken_out_sends_its_thread_home_and_comes_back() {
    let mut firmware = Firmware::new();
    let other = HartId::new(3).unwrap();
    firmware.board.hidden = firmware.board.hidden.with(other);
    let employed = |firmware: &Firmware| firmware.call(0, DESCRIBE, [EMPLOYED as u64, 0]).value;
    firmware.call(0, MIGRATE, [MEMORY, SATP]);
    let place = firmware.trips.take(hidden()).unwrap();
    assert_eq!(firmware.call(1, EMPLOY, [0, 0]), SbiRet::success(0));
    assert!(firmware.trips.is_called(place) && firmware.fake.rung.borrow().last() == Some(&2));
    firmware.trips.end(place);
    assert_eq!((firmware.call(1, EMPLOY, [0, 0]), employed(&firmware)), (SbiRet::success(1), 1));
    assert_eq!(firmware.call(1, EMPLOY, [1, 0]), SbiRet::denied());
    assert_eq!((firmware.call(0, EMPLOY, [0, 1]), employed(&firmware)), (SbiRet::success(1), 2));
    *firmware.fake.lost.borrow_mut() = HartSet::default().with(other);
    assert_eq!(firmware.call(1, EMPLOY, [1, 0]), SbiRet::failed());
    // The other one is lost, so this is the last.
    assert_eq!(firmware.call(1, EMPLOY, [0, 0]), SbiRet::denied());
}

#[test]
fn a_full_queue_takes_nobody() {
    let firmware = Firmware::new();
    for number in 0..POSTED_MAX {
        assert_eq!(firmware.call(number % 2, MIGRATE, [MEMORY, SATP]), SbiRet::success(number));
    }
    assert_eq!(firmware.call(0, MIGRATE, [MEMORY, SATP]), SbiRet::denied());
    firmware.call(1, CALL_HOME, [5, 0]);
    firmware.call(1, COLLECT, [5, 0]);
    assert_eq!(firmware.call(0, MIGRATE, [MEMORY, SATP]), SbiRet::success(5));
}

#[test]
fn wrong_calls_are_refused() {
    let firmware = Firmware::new();
    let (address, parameter) = (SbiRet::invalid_address(), SbiRet::invalid_param());
    for (function, arguments, wanted) in [
        (MIGRATE, [FIRMWARE.start, SATP], address),
        (MIGRATE, [FIRMWARE.end() - 8, SATP], address),
        (MIGRATE, [MEMORY + 4, SATP], address),
        (MIGRATE, [0x87ff_fff8, SATP], address),
        (MIGRATE, [u64::MAX - 7, SATP], address),
        (MIGRATE, [0x1000_0000, SATP], address),
        (MIGRATE, [MEMORY, 0], parameter),
        (MIGRATE, [MEMORY, 7 << 60], parameter),
        (MIGRATE, [MEMORY + 8, SATP], parameter),
        (CALL_HOME, [0, 0], parameter),
        (COLLECT, [u64::MAX, 0], parameter),
        (DESCRIBE, [5, 0], parameter),
        (TAKE_OVER, [2, 0], parameter),
        (EMPLOY, [1, 1], parameter),
        (EMPLOY, [0, 2], parameter),
        (EMPLOY, [0, 0], SbiRet::denied()),
        (8, [0, 0], SbiRet::not_supported()),
    ] {
        assert_eq!(firmware.call(0, function, arguments), wanted, "{function} {arguments:x?}");
    }
    assert_eq!(firmware.trips.all_claimed(HartId::new(0).unwrap()).count(), 0, "no place is kept");
    let Firmware { mut board, fake, trips } = firmware;
    board.hidden = HartSet::default();
    let firmware = Firmware { board, fake, trips };
    assert_eq!(firmware.call(0, DESCRIBE, [0, 0]), SbiRet::not_supported());
    assert_eq!(firmware.call(0, TAKE_OVER, [1, 0]), SbiRet::success(0));
    assert_eq!(firmware.call(0, TAKE_OVER, [2, 0]), parameter);
}

fn interesting() -> impl Strategy<Value = u64> {
    let address = prop_oneof![Just(MEMORY), Just(FIRMWARE.start), Just(FIRMWARE.end()), Just(0x8800_0000_u64)];
    let near = (address, -2000..2000_i64).prop_map(|(at, offset)| at.wrapping_add_signed(offset));
    prop_oneof![Just(MEMORY), Just(SATP), near, 0..20_u64, any::<u64>()]
}

proptest! {
    /// Any calls of both harts, with the hidden one at work between them: nothing of the firmware's is touched (the fake sees to
    /// that), nobody collects what is another's, and all places are free in the end.
    #[test]
    fn any_calls_are_survived(calls in proptest::collection::vec((0..2_usize, 0..8_usize, interesting(), interesting(), 0..4_u8), 0..80)) {
        let firmware = Firmware::new();
        let mut taken = None;
        for (hart, function, first, second, work) in calls {
            firmware.context(MEMORY);
            firmware.call(hart, function, [first, second]);
            match (work, taken) {
                (0, None) => taken = firmware.trips.take(hidden()),
                (1, Some(place)) => {
                    firmware.trips.end(place);
                    taken = None;
                }
                _ => {}
            }
        }
        if let Some(place) = taken {
            firmware.trips.end(place);
        }
        for hart in 0..2 {
            for number in 0..POSTED_MAX as u64 {
                firmware.call(hart, CALL_HOME, [number, 0]);
                firmware.call(hart, COLLECT, [number, 0]);
            }
        }
        let all = (0..POSTED_MAX).filter(|_| firmware.trips.claim(HartId::new(0).unwrap()).is_some()).count();
        prop_assert_eq!(all, POSTED_MAX);
    }
}
