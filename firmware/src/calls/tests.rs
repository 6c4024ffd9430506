use std::cell::RefCell;

use dtoolkit::fdt::Fdt;
use rustsbi::spec::{base, dbcn, hsm, rfnc, spi, srst, time};

use super::*;
use crate::{FIRMWARE, state::Next};

const MEMORY: usize = 0x8020_0000;
const ALL: usize = usize::MAX;

/// Hardware that notes what it is asked for. Rung harts serve their mail at once.
struct Fake<'a> {
    shared: &'a Shared,
    done: RefCell<Vec<String>>,
}

impl Fake<'_> {
    fn note(&self, what: String) {
        self.done.borrow_mut().push(what);
    }
}

impl Machine for Fake<'_> {
    fn ring(&self, hart: HartId) {
        let index = hart.index();
        self.note(format!("ring {index}"));
        self.shared.mail.serve(hart, |fence| self.note(format!("{index} does {fence:x?}")));
        if self.shared.mail.take_interrupt(hart) {
            self.note(format!("interrupt {index}"));
        }
    }
    fn serve(&self) {
        self.note("serve".into());
    }
    fn fence(&self, fence: Fence) {
        self.note(format!("own {fence:x?}"));
    }
    fn set_timer(&self, ticks: u64) {
        self.note(format!("timer {ticks}"));
    }
    fn end(&self, how: End) {
        self.note(format!("{how:?}"));
    }
    fn write_console(&self, from: Range) {
        self.note(format!("write {from:x?}"));
    }
    fn write_console_byte(&self, byte: u8) {
        self.note(format!("byte {byte}"));
    }
    fn read_console(&self, _: Range) -> usize {
        3
    }
    fn ids(&self) -> [usize; 3] {
        [7, 8, 9]
    }
}

/// Answers of hart 0 of a machine with three harts, of which 0 and 1 run, and what the hardware was asked for.
fn calls(calls: &[(usize, usize, [usize; 3])]) -> (Vec<SbiRet>, Vec<String>, Shared) {
    let board = Board::parse(Fdt::new(include_bytes!("../../testdata/virt-aia-sockets.dtb")).unwrap()).unwrap();
    let shared = Shared::new();
    for own in [0, 1].map(|id| HartId::new(id).unwrap()) {
        shared.states.start(own, Launch { address: 0, argument: 0 }).unwrap();
        shared.states.take_launch(own).unwrap();
    }
    let machine = Fake { shared: &shared, done: RefCell::default() };
    let caller = Caller { own: HartId::new(0).unwrap(), machine: &machine, board: &board, shared: &shared };
    let answers = calls.iter().map(|&(extension, function, [a, b, c])| {
        // Further arguments of fences.
        caller.call(extension, function, [a, b, c, 0x2000, 5, 0])
    });
    let answers = answers.collect();
    let done = machine.done.take();
    (answers, done, shared)
}

fn answer(extension: usize, function: usize, arguments: [usize; 3]) -> SbiRet {
    calls(&[(extension, function, arguments)]).0[0]
}

fn done(extension: usize, function: usize, arguments: [usize; 3]) -> Vec<String> {
    let (answers, done, _) = calls(&[(extension, function, arguments)]);
    assert_eq!(answers[0].error, 0, "{answers:?}");
    done
}

#[test]
fn callers_learn_what_there_is() {
    let has = |extension| answer(base::EID_BASE, base::PROBE_EXTENSION, [extension, 0, 0]).value != 0;
    let there =
        [base::EID_BASE, time::EID_TIME, spi::EID_SPI, rfnc::EID_RFNC, hsm::EID_HSM, srst::EID_SRST, dbcn::EID_DBCN];
    assert!(there.into_iter().all(has));
    assert!(!has(0x50_4d55) && !has(0) && !has(usize::MAX), "no counters, nothing of SBI 0.1");
    assert_eq!(answer(base::EID_BASE, base::GET_SBI_SPEC_VERSION, [0; 3]), SbiRet::success(2 << 24));
    assert_eq!(answer(base::EID_BASE, base::GET_MARCHID, [0; 3]), SbiRet::success(8));
}

#[test]
fn unknown_calls_are_not_supported() {
    for (extension, function) in [(0, 0), (0x1234, 0), (hsm::EID_HSM, 4), (spi::EID_SPI, 1), (rfnc::EID_RFNC, 7)] {
        assert_eq!(answer(extension, function, [1, 0, 0]), SbiRet::not_supported(), "{extension:x} {function}");
    }
    assert_eq!(answer(rfnc::EID_RFNC, rfnc::REMOTE_HFENCE_GVMA, [1, 0, 0]), SbiRet::not_supported());
}

#[test]
fn interrupts_reach_the_harts_of_the_mask() {
    assert_eq!(done(spi::EID_SPI, 0, [0b11, 0, 0]), ["ring 0", "interrupt 0", "ring 1", "interrupt 1"]);
    assert_eq!(done(spi::EID_SPI, 0, [1, 2, 0]), ["ring 2", "interrupt 2"]);
    assert!(done(spi::EID_SPI, 0, [0, 0, 0]).is_empty());
    let (answers, done, _) = calls(&[(spi::EID_SPI, 0, [0b1001, 0, 0])]);
    assert_eq!((answers[0], done.len()), (SbiRet::invalid_param(), 0), "nobody is interrupted by a wrong mask");
}

#[test]
fn fences_are_done_by_all_that_run() {
    assert_eq!(
        done(rfnc::EID_RFNC, rfnc::REMOTE_FENCE_I, [0, ALL, 0]),
        ["ring 1", "1 does Instructions", "own Instructions"]
    );
    let range = "Addresses { start: 1000, len: 2000, asid: None }";
    assert_eq!(
        done(rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA, [0b110, 0, 0x1000]),
        ["ring 1", &format!("1 does {range}")]
    );
    assert_eq!(
        done(rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA_ASID, [1, 0, 0x1000]),
        ["own Addresses { start: 1000, len: 2000, asid: Some(5) }"]
    );
}

#[test]
fn wrong_fences_are_refused() {
    let sfence = |mask: [usize; 2], start| answer(rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA, [mask[0], mask[1], start]);
    assert_eq!(sfence([0b1000, 0], 0x1000), SbiRet::invalid_param());
    assert_eq!(sfence([1, 0], usize::MAX - 0x1000), SbiRet::invalid_address());
    assert_eq!(sfence([1, 0], usize::MAX - 0x1fff), SbiRet::success(0), "up to the last byte");
    assert_eq!(fence_of(0x1000, 1, Some(1 << 16)), Err(SbiRet::invalid_param()));
    let everything = Ok(Fence::Addresses { start: 0, len: ALL, asid: None });
    assert_eq!(fence_of(0, 0, None), everything);
    assert_eq!(fence_of(0x1000, ALL, None), everything);
}

#[test]
fn harts_start_once_where_memory_is() {
    let start = |hart, address| (hsm::EID_HSM, hsm::HART_START, [hart, address, 7]);
    let (answers, done, shared) = calls(&[
        start(2, FIRMWARE.start as usize),
        start(2, FIRMWARE.end() as usize - 2),
        start(2, MEMORY + 1),
        start(2, 0x1000_0000),
        start(2, ALL),
        start(3, MEMORY),
        start(64, MEMORY),
        start(ALL, MEMORY),
        start(1, MEMORY),
        start(2, MEMORY),
        start(2, MEMORY),
        (hsm::EID_HSM, hsm::HART_GET_STATUS, [2, 0, 0]),
        (hsm::EID_HSM, hsm::HART_GET_STATUS, [3, 0, 0]),
    ]);
    let mut wanted = vec![SbiRet::invalid_address(); 5];
    wanted.extend([SbiRet::invalid_param(); 3]);
    wanted.extend([SbiRet::already_available(), SbiRet::success(0), SbiRet::already_available()]);
    wanted.extend([SbiRet::success(hsm::hart_state::START_PENDING), SbiRet::invalid_param()]);
    assert_eq!(answers, wanted);
    assert_eq!(done, ["ring 2"]);
    let launch = Launch { address: MEMORY as u64, argument: 7 };
    assert_eq!(shared.states.take_launch(HartId::new(2).unwrap()), Some(launch));
}

#[test]
fn harts_sleep_as_they_are_able_to() {
    let next = |kind, address| {
        let (answers, _, shared) = calls(&[(hsm::EID_HSM, hsm::HART_SUSPEND, [kind, address, 0])]);
        (answers[0], shared.states.next(HartId::new(0).unwrap()))
    };
    assert_eq!(next(0, 0), (SbiRet::success(0), Next::Sleep));
    assert_eq!(next(0x8000_0000, MEMORY), (SbiRet::success(0), Next::SleepAndLaunch));
    assert_eq!(next(0x8000_0000, 0x1000), (SbiRet::invalid_address(), Next::Return));
    for kind in [1, 0x1000_0000, 0x8000_0001, 1 << 32, ALL] {
        assert_eq!(next(kind, MEMORY), (SbiRet::invalid_param(), Next::Return), "{kind:x}");
    }
}

#[test]
fn the_machine_ends_as_it_is_told_to() {
    let reset = |kind, reason| {
        let (answers, mut done, _) = calls(&[(srst::EID_SRST, srst::SYSTEM_RESET, [kind, reason, 0])]);
        (answers[0], done.pop().unwrap_or_default())
    };
    let failed = SbiRet::failed();
    assert_eq!(reset(0, 0), (failed, "Off".into()), "the fake goes on, as a board without the device does");
    assert_eq!(reset(0, 1), (failed, "Failed".into()));
    assert_eq!(reset(1, 0), (failed, "Restart".into()));
    for (kind, reason) in [(3, 0), (0xf000_0000, 0), (0, 2), (1 << 32, 0)] {
        assert_eq!(reset(kind, reason), (SbiRet::invalid_param(), String::new()));
    }
}

#[test]
fn the_console_touches_open_memory_only() {
    let write = |len, low, high| answer(dbcn::EID_DBCN, dbcn::CONSOLE_WRITE, [len, low, high]);
    assert_eq!(write(5, MEMORY, 0), SbiRet::success(5));
    assert_eq!(write(0, MEMORY, 0), SbiRet::success(0));
    assert_eq!(write(1000, MEMORY, 0), SbiRet::success(CONSOLE_BYTES_MAX));
    for (len, low, high) in
        [(5, MEMORY, 1), (5, FIRMWARE.start as usize, 0), (5, MEMORY - 1, 0), (5, ALL, 0), (ALL, MEMORY, 0)]
    {
        assert_eq!(write(len, low, high), SbiRet::invalid_param(), "{len:x} {low:x} {high:x}");
        let read = answer(dbcn::EID_DBCN, dbcn::CONSOLE_READ, [len, low, high]);
        assert_eq!(read, SbiRet::invalid_param(), "{len:x} {low:x} {high:x}");
    }
    assert_eq!(answer(dbcn::EID_DBCN, dbcn::CONSOLE_READ, [16, MEMORY, 0]), SbiRet::success(3));
    assert_eq!(done(dbcn::EID_DBCN, dbcn::CONSOLE_WRITE_BYTE, [0x141, 0, 0]), ["byte 65"]);
}

#[test]
fn a_fence_does_not_wait_for_a_lost_hart() {
    let board = Board::parse(Fdt::new(include_bytes!("../../testdata/virt-aia-sockets.dtb")).unwrap()).unwrap();
    let shared = Shared::new();
    let [own, other] = [0, 1].map(|id| HartId::new(id).unwrap());
    shared.states.start(other, Launch { address: 0, argument: 0 }).unwrap();
    /// The other hart dies instead of serving.
    struct Deaf<'a>(&'a Shared, HartId);
    impl Machine for Deaf<'_> {
        fn ring(&self, _: HartId) {}
        fn serve(&self) {
            self.0.states.halt(self.1);
        }
        fn fence(&self, _: Fence) {}
        fn set_timer(&self, _: u64) {}
        fn end(&self, _: End) {}
        fn write_console(&self, _: Range) {}
        fn write_console_byte(&self, _: u8) {}
        fn read_console(&self, _: Range) -> usize {
            0
        }
        fn ids(&self) -> [usize; 3] {
            [0; 3]
        }
    }
    let machine = Deaf(&shared, other);
    let caller = Caller { own, machine: &machine, board: &board, shared: &shared };
    assert_eq!(caller.call(rfnc::EID_RFNC, rfnc::REMOTE_FENCE_I, [0b10, 0, 0, 0, 0, 0]), SbiRet::success(0));
}
