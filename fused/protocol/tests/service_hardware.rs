//! Devices that are threads: what they ask for and compute, what memory they touch, and when (`docs/protocols/hardware-threads.md`).

#[allow(dead_code)]
mod files_support;
#[allow(dead_code)]
mod service_support;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{
    HARDWARE_DONE, HARDWARE_FILTERS, HARDWARE_FREE, HARDWARE_SORTS, HARDWARE_WRITES, HardwareLeaf, HardwareTable,
    PAGE_SIZE, Pool, PoolAddr, ServiceHardware,
};
use motet_protocol::service::{Answer, Code, Device, HARDWARE, KILLED, Operation, Operation::*, ThreadIndex, hardware};
use proptest::prelude::*;
use service_support::{Machine, spec::Id};

const A: Id = (0, 0);
const B: Id = (0, 1);
/// The device's.
const D: Id = (0, 2);
const OWNER: u32 = 7;

const TABLE: PoolAddr = PoolAddr(20 << 20);
const LEAF: PoolAddr = PoolAddr((20 << 20) + PAGE_SIZE);
/// Frames of the process: the first, and others two frames apart, so that who goes past one is caught.
const FRAMES: u64 = 24 << 20;
const PAGES: u64 = 16;
/// Where the process has them.
const HERE: u64 = 0x7000_0000;
/// Where it has the argument: the first page, which the device may read.
const WORK: u64 = HERE;
/// And the counter.
const COUNTER: u64 = HERE + PAGE_SIZE;
const DATA: u64 = HERE + PAGE_SIZE + 64;
const OUT: u64 = HERE + 8 * PAGE_SIZE;
const COUNT_MAX: usize = 3000;

const GUARD: u8 = 0x5a;

struct Rig {
    machine: Machine,
    pool: Pool,
    device: &'static ServiceHardware,
}

#[derive(Clone, Copy, Default)]
struct Work {
    count: u32,
    blocks: u32,
    kind: u32,
    mutex: u32,
    condition: u32,
    taps: u32,
    shift: u32,
    data: u64,
    out: u64,
    counter: u64,
    coefficients: [i32; 8],
}

impl Rig {
    /// A process of two threads and one that a device is.
    fn new(does: u32) -> Self {
        let machine = Machine::new();
        machine.use_page(0, OWNER, 0);
        [A, B].iter().for_each(|id| machine.allot(*id));
        let pool = service_support::pool();
        for page in 0..2 * PAGES {
            pool.write(PoolAddr(FRAMES + page * PAGE_SIZE), &[GUARD; PAGE_SIZE as usize]);
        }
        let table = pool.at::<HardwareTable>(TABLE);
        pool.zero(TABLE, 2 * PAGE_SIZE as usize);
        let leaf = pool.at::<HardwareLeaf>(LEAF);
        table.leaves[0].set(LEAF.0);
        (0..PAGES).for_each(|page| leaf.pages[page as usize].set(FRAMES + 2 * page * PAGE_SIZE));
        for (region, (first, count, flags)) in
            table.regions.iter().zip([(0, 1, 0), (1, 7, HARDWARE_WRITES), (8, 8, HARDWARE_WRITES)])
        {
            region.start.set(HERE + first * PAGE_SIZE);
            // The last one ends in the middle of a word of 64 bits.
            region.bytes.set(count * PAGE_SIZE - if first == 8 { 4 } else { 0 });
            region.first.set(first);
            region.flags.set(flags);
        }
        let device = &machine.core.hardware[0];
        device.does.set(does);
        device.state.store(HARDWARE_FREE, SeqCst);
        Self { machine, pool, device }
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        for (offset, byte) in bytes.iter().enumerate() {
            self.pool.write(place(address + offset as u64), &[*byte]);
        }
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        for (offset, byte) in bytes.iter_mut().enumerate() {
            self.pool.read(place(address + offset as u64), std::slice::from_mut(byte));
        }
        bytes
    }

    fn words(&self, address: u64, count: usize) -> Vec<i32> {
        (0..count as u64).map(|index| i32::from_le_bytes(self.read(address + 4 * index))).collect()
    }

    fn put_work(&self, work: &Work) {
        let mut bytes = Vec::new();
        [work.data, work.out, work.counter].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let words = [work.count, work.blocks, work.kind, work.mutex, work.condition, work.taps, work.shift, 0];
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        work.coefficients.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        self.write(WORK, &bytes);
    }

    fn ask(&mut self, id: Id, operation: Operation, object: u16, argument: u32) -> Answer {
        self.machine.ask(id, operation, object, argument)
    }

    /// As a kernel does when a program wants the device for the thread `D`.
    fn create(&mut self, work: &Work) {
        self.machine.allot(D);
        self.put_work(work);
        assert_eq!(self.ask(A, Create, 2, 128 | HARDWARE).code(), 0);
        let device = hardware::claim(self.machine.core, self.device.does.get()).unwrap();
        device.thread.set(ThreadIndex::new(D.0, D.1).unwrap().raw());
        device.owner.set(OWNER);
        device.core.set(3);
        device.argument.set(WORK);
        device.table.set(TABLE.0);
        hardware::begin(self.machine.core, device);
    }

    /// Lets the device go on until it waits or is done, in steps of so many pieces.
    fn go_on(&mut self, pieces: u64) {
        for _ in 0..100_000 {
            let mut device = Device::new(self.machine.core, 0);
            let moved = device.run_hardware(self.pool, 0, pieces);
            self.machine.rung.extend(device.rings());
            if !moved {
                return;
            }
        }
        panic!("it never ends");
    }

    fn is_done(&self) -> bool {
        self.device.state.load(SeqCst) == HARDWARE_DONE
    }

    /// What the thread has ended with.
    fn join(&mut self) -> u32 {
        let answer = self.ask(A, Join, 2, 0);
        assert!(answer.is_done() && answer.code() == 0, "{answer:?}");
        answer.value()
    }

    fn mutex(&mut self) -> u32 {
        self.ask(A, MutexCreate, 0, 0).value() + 1
    }

    /// Nobody has written between the process's frames.
    fn assert_guarded(&self) {
        for page in 0..PAGES {
            let mut bytes = [0; PAGE_SIZE as usize];
            self.pool.read(PoolAddr(FRAMES + (2 * page + 1) * PAGE_SIZE), &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == GUARD), "memory of others was written");
        }
    }
}

fn place(address: u64) -> PoolAddr {
    let offset = address - HERE;
    PoolAddr(FRAMES + offset / PAGE_SIZE * 2 * PAGE_SIZE + offset % PAGE_SIZE)
}

fn fault() -> u32 {
    -14i32 as u32
}

fn invalid() -> u32 {
    -22i32 as u32
}

fn sort(count: u32) -> Work {
    Work { count, data: DATA, ..Work::default() }
}

#[test]
fn it_is_created_computes_counts_and_is_joined_with_the_blocks_it_has_done() {
    let mut rig = Rig::new(HARDWARE_SORTS);
    let words = [5u32, u32::MAX, 0, 7, 7, 1, 2, 9];
    words.iter().zip(0u64..).for_each(|(word, index)| rig.write(DATA + 4 * index, &word.to_le_bytes()));
    rig.write(COUNTER, &40u64.to_le_bytes());
    rig.create(&Work { blocks: 2, counter: COUNTER, ..sort(4) });
    assert!(hardware::claim(rig.machine.core, HARDWARE_SORTS).is_err_and(|exists| exists), "it is busy");
    assert!(
        hardware::claim(rig.machine.core, HARDWARE_FILTERS).is_err_and(|exists| !exists),
        "there is no such device"
    );
    rig.go_on(1);
    assert!(rig.is_done() && rig.machine.rung.iter().any(|core| core.0 == 3), "a kernel is told that it is done");
    let sorted: Vec<u32> = rig.words(DATA, 8).into_iter().map(|word| word as u32).collect();
    assert_eq!((sorted, u64::from_le_bytes(rig.read(COUNTER))), (vec![0, 5, 7, u32::MAX, 1, 2, 7, 9], 42));
    assert_eq!(rig.join(), 2);
    assert_eq!(rig.machine.core.control[0].windows.load(SeqCst), 0b11, "its window is free");
    // It can be a thread again, when a kernel has taken back its memory.
    let mut taken = 0;
    hardware::take_done(rig.machine.core, |_| taken += 1);
    assert_eq!(taken, 1);
    rig.create(&sort(8));
    rig.go_on(u64::MAX);
    assert_eq!(rig.join(), 1);
    rig.assert_guarded();
}

#[test]
fn it_waits_for_a_mutex_and_others_wait_for_it() {
    let mut rig = Rig::new(HARDWARE_SORTS);
    let mutex = rig.mutex();
    let number = mutex as u16 - 1;
    rig.ask(A, Lock, number, 0);
    rig.create(&Work { mutex, counter: COUNTER, ..sort(COUNT_MAX as u32) });
    rig.go_on(16);
    assert!(!rig.is_done());
    assert_eq!(rig.machine.answer(D), Answer::waits(2));
    rig.ask(A, Unlock, number, 0);
    assert_eq!(rig.machine.answer(D).code(), Code::Ok as u16, "the mutex is the device's");
    assert!(rig.ask(B, Lock, number, 0).is_wait());
    rig.go_on(16);
    assert!(rig.is_done() && rig.machine.answer(B).is_done(), "it has unlocked");
    assert_eq!(rig.join(), 1);
}

#[test]
fn who_joins_it_or_waits_for_its_signal_is_answered() {
    let mut rig = Rig::new(HARDWARE_SORTS);
    let mutex = rig.mutex();
    let condition = rig.ask(A, ConditionCreate, 0, 0).value() + 1;
    rig.ask(B, Lock, mutex as u16 - 1, 0);
    assert!(rig.ask(B, ConditionWait, condition as u16 - 1, mutex - 1).is_wait());
    rig.create(&Work { mutex, condition, ..sort(4) });
    assert!(rig.ask(A, Join, 2, 0).is_wait());
    rig.go_on(3);
    assert!(rig.machine.answer(B).is_done());
    assert_eq!((rig.machine.answer(A).is_done(), rig.machine.answer(A).value()), (true, 1));
}

#[test]
fn what_it_may_not_touch_ends_it_and_is_as_it_was() {
    let beyond = HERE + PAGES * PAGE_SIZE;
    for (work, ends) in [
        (Work { data: HERE - 4096, ..sort(8) }, fault()),
        (Work { data: beyond - 8, ..sort(8) }, fault()),
        (Work { data: beyond - 16, kind: 1, ..sort(2) }, fault()),
        (Work { data: u64::MAX - 3, ..sort(8) }, fault()),
        // It may read it, and not write.
        (Work { data: WORK + 1024, ..sort(8) }, fault()),
        (Work { counter: WORK + 1024, ..sort(1) }, fault()),
        (Work { counter: beyond, ..sort(1) }, fault()),
        (Work { data: DATA + 2, ..sort(8) }, invalid()),
        (Work { counter: COUNTER + 4, ..sort(1) }, invalid()),
        (Work { kind: 2, ..sort(8) }, invalid()),
        (Work { count: u32::MAX, ..sort(8) }, invalid()),
        (Work { mutex: 1 << 16, ..sort(8) }, invalid()),
        // A mutex and a condition variable that there are not.
        (Work { mutex: 3, ..sort(8) }, invalid()),
        (Work { condition: 3, ..sort(8) }, invalid()),
    ] {
        let mut rig = Rig::new(HARDWARE_SORTS);
        rig.create(&work);
        rig.go_on(u64::MAX);
        assert!(rig.is_done());
        assert_eq!(rig.join(), ends);
        let untouched: [u8; 64] = rig.read(WORK + 1024);
        assert_eq!(untouched, [GUARD; 64]);
        rig.assert_guarded();
    }
}

#[test]
fn an_argument_that_it_may_not_read_and_a_damaged_table_are_faults() {
    for damage in [0, 1, 2, 3] {
        let mut rig = Rig::new(HARDWARE_SORTS);
        rig.create(&sort(8));
        let (table, leaf) = (rig.pool.at::<HardwareTable>(TABLE), rig.pool.at::<HardwareLeaf>(LEAF));
        match damage {
            0 => rig.device.argument.set(HERE - 64),
            1 => table.leaves[0].set(1 << 40),
            2 => table.regions[1].first.set(u64::MAX - 1),
            _ => leaf.pages[1].set(rig.pool.len() - 8),
        }
        rig.go_on(u64::MAX);
        assert_eq!(rig.join(), fault(), "{damage}");
        rig.assert_guarded();
    }
}

#[test]
fn one_that_is_cancelled_leaves_its_mutex_to_others_and_touches_nothing_more() {
    let mut rig = Rig::new(HARDWARE_SORTS);
    let mutex = rig.mutex();
    rig.create(&Work { mutex, ..sort(COUNT_MAX as u32) });
    let mut device = Device::new(rig.machine.core, 0);
    // It starts, fetches, asks for the mutex, has it, and begins to compute.
    (0..5).for_each(|_| assert!(device.run_hardware(rig.pool, 0, 1)));
    assert!(rig.ask(B, Lock, mutex as u16 - 1, 0).is_wait(), "it has the mutex");
    let thread = ThreadIndex::new(D.0, D.1).unwrap();
    assert!(!hardware::stop(rig.machine.core, OWNER + 1, thread), "it is another process's");
    assert!(hardware::stop(rig.machine.core, OWNER, thread));
    let before = rig.words(DATA, COUNT_MAX);
    rig.go_on(u64::MAX);
    assert!(rig.is_done());
    assert_eq!(rig.words(DATA, COUNT_MAX), before);
    assert_eq!(rig.machine.answer(B).code(), Code::OwnerDead as u16);
    assert_eq!(rig.join(), KILLED);
}

#[test]
fn one_that_waits_is_cancelled_and_waits_no_longer() {
    let mut rig = Rig::new(HARDWARE_SORTS);
    let mutex = rig.mutex();
    rig.ask(A, Lock, mutex as u16 - 1, 0);
    rig.create(&Work { mutex, ..sort(8) });
    rig.go_on(1);
    hardware::stop(rig.machine.core, OWNER, ThreadIndex::new(D.0, D.1).unwrap());
    rig.go_on(1);
    assert!(rig.is_done());
    assert_eq!(rig.join(), KILLED);
    assert_eq!(rig.ask(A, Unlock, mutex as u16 - 1, 0).code(), 0);
    assert_eq!(rig.ask(B, Lock, mutex as u16 - 1, 0).code(), 0, "nobody waits for it");
}

#[test]
fn one_whose_process_has_gone_stops() {
    let mut rig = Rig::new(HARDWARE_SORTS);
    rig.create(&sort(COUNT_MAX as u32));
    let mut device = Device::new(rig.machine.core, 0);
    (0..5).for_each(|_| assert!(device.run_hardware(rig.pool, 0, 1)));
    rig.machine.left(OWNER);
    // The page is another process's by now.
    rig.machine.use_page(0, OWNER + 1, 0);
    rig.machine.allot(D);
    rig.machine.rung.clear();
    let before = rig.words(DATA, COUNT_MAX);
    rig.go_on(u64::MAX);
    assert!(rig.is_done() && !rig.machine.rung.is_empty());
    assert_eq!(rig.words(DATA, COUNT_MAX), before);
    assert_eq!(rig.machine.window(D).request.load(SeqCst), 0, "it does not ask for the other process's thread");
    assert_eq!(rig.ask(D, Own, 0, 0).value(), 2);
}

#[test]
fn in_simulated_time_each_step_is_when_it_is_due() {
    const NS: u64 = 1000;
    let mut rig = Rig::new(HARDWARE_SORTS);
    rig.machine.core.operation_ps.set(80 * NS);
    rig.device.start_ps.set(20 * NS);
    rig.device.memory_ps.set(10 * NS);
    rig.device.element_ps.set(5 * NS);
    rig.create(&sort(16));
    let core = rig.machine.core;
    assert_eq!(hardware::next(core, 1000 * NS, 1000 * NS), None, "from here on it is told that it is busy");
    let mut at = Vec::new();
    while let Some((index, at_ps)) = hardware::next(core, 0, 1_000_000 * NS) {
        at.push(at_ps / NS);
        assert!(Device::new(core, at_ps).run_hardware(rig.pool, index, u64::MAX));
    }
    // Its first request after 20; 10 there, 80 there, 10 back. 11 words of its argument. 16 elements of 4 passes, read and written.
    assert_eq!(at, [1020, 1120, 1230, 1230 + 16 * (4 * 5 + 2 * 10)]);
    assert!(rig.is_done());
    // The end is a request, too.
    assert_eq!(core.threads[2].served.get() >> 48 & 0xff, Exit as u64);
    assert_eq!(motet_protocol::service::answered_ps(core, ThreadIndex::new(D.0, D.1).unwrap()) / NS, 1870 + 10 + 80);
    assert_eq!(rig.join(), 1);
}

proptest! {
    #[test]
    fn what_it_sorts_is_sorted(words in prop::collection::vec(any::<u32>(), 0..200), pieces in 1..50u64) {
        let mut rig = Rig::new(HARDWARE_SORTS);
        words.iter().zip(0u64..).for_each(|(word, index)| rig.write(DATA + 4 * index, &word.to_le_bytes()));
        rig.create(&sort(words.len() as u32));
        rig.go_on(pieces);
        let mut expected = words.clone();
        expected.sort_unstable();
        let sorted: Vec<_> = rig.words(DATA, words.len()).into_iter().map(|word| word as u32).collect();
        prop_assert_eq!(sorted, expected);
        rig.assert_guarded();
    }

    #[test]
    fn signed_words_of_64_bits_are_sorted(words in prop::collection::vec(any::<i64>(), 0..200), pieces in 1..50u64) {
        let mut rig = Rig::new(HARDWARE_SORTS);
        words.iter().zip(0u64..).for_each(|(word, index)| rig.write(DATA + 8 * index, &word.to_le_bytes()));
        rig.create(&Work { kind: 1, ..sort(words.len() as u32) });
        rig.go_on(pieces);
        let mut expected = words.clone();
        expected.sort_unstable();
        let sorted: Vec<_> = (0..words.len() as u64).map(|index| i64::from_le_bytes(rig.read(DATA + 8 * index))).collect();
        prop_assert_eq!(sorted, expected);
    }

    #[test]
    fn what_it_filters_are_sums_of_products_over_all_blocks(
        words in prop::collection::vec(any::<i32>(), 1..100), coefficients in prop::collection::vec(any::<i32>(), 1..9),
        blocks in 1..4u32, shift in 0..64u32, pieces in 1..50u64,
    ) {
        let mut rig = Rig::new(HARDWARE_FILTERS);
        let count = words.len() as u32 / blocks;
        words.iter().zip(0u64..).for_each(|(word, index)| rig.write(DATA + 4 * index, &word.to_le_bytes()));
        let mut work = Work { count, blocks, shift, data: DATA, out: OUT, taps: coefficients.len() as u32, ..Work::default() };
        work.coefficients[..coefficients.len()].copy_from_slice(&coefficients);
        rig.create(&work);
        rig.go_on(pieces);
        let all = (count * blocks) as usize;
        let at = |index: usize| {
            let products = coefficients.iter().zip(words[..=index].iter().rev());
            let sum = products.fold(0i64, |sum, (one, other)| sum.wrapping_add(i64::from(*one) * i64::from(*other)));
            (sum >> shift) as i32
        };
        prop_assert_eq!(rig.words(OUT, all), (0..all).map(at).collect::<Vec<_>>());
        prop_assert_eq!(rig.words(DATA, words.len()), words);
        prop_assert_eq!(rig.join(), blocks);
    }
}
