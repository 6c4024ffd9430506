//! The service core against a specification that is written down a second time (`service_support/spec.rs`): random operations of several
//! processes, and what kernels tell it. Any word as a request; any word in the tables.

// What is not named has no part in what is chosen.
#![allow(clippy::wildcard_enum_match_arm)]

#[allow(dead_code)]
mod files_support;
#[allow(dead_code)]
mod service_support;

use std::collections::{BTreeMap, BTreeSet};

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{CoreId, SERVICE_FREE};
use motet_protocol::service::{Answer, Code, DETACHED, HARDWARE, Operation, Request};
use proptest::prelude::*;
use service_support::spec::{Doing, Id, Spec};
use service_support::{BARRIERS, ISLANDS, MUTEXES, Machine, PAGES};

/// Windows that are used, of each page.
const WINDOWS: usize = 3;
/// Processes: each has two pages.
const PROCESSES: usize = PAGES / 2;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        who: usize,
        operation: Operation,
        object: u16,
        argument: u32,
    },
    /// Something that has a meaning now, by a thread that can ask.
    Fit {
        who: usize,
        choice: usize,
    },
    /// Any word.
    Store {
        who: usize,
        word: u64,
    },
    /// The device looks, and there is nothing new.
    Look {
        who: usize,
    },
    Park {
        who: usize,
        parked: bool,
    },
    Allot {
        who: usize,
    },
    Die {
        who: usize,
    },
    Leave {
        process: usize,
    },
}

fn who(number: usize) -> Id {
    (number / WINDOWS, number % WINDOWS)
}

fn owner_of(page: usize) -> u32 {
    7 + page as u32 / 2
}

/// Requests that often have a meaning: few objects, few threads, few priorities.
fn request() -> impl Strategy<Value = (Operation, u16, u32)> {
    let object = prop_oneof![9 => 0..3u16, 2 => 0..6u16, 1 => any::<u16>()];
    let number = prop_oneof![20 => (0..2u16, 0..3u16).prop_map(|(core, window)| core * 32 + window), 1 => any::<u16>()];
    let about = prop::sample::select(Operation::ALL);
    let argument = prop_oneof![12 => 0..4u32, 1 => any::<u32>()];
    let made = (0..4u32, 0..5u32, 0..12u32).prop_map(|(priority, islands, flags)| {
        priority | islands << 8 | [DETACHED, HARDWARE, 0][flags.min(2) as usize]
    });
    (about, object, number, argument, made).prop_map(|(operation, object, number, argument, made)| match operation {
        Operation::Create => (operation, number, made),
        Operation::Join | Operation::SetPriority | Operation::Detach | Operation::Delete => {
            (operation, number, argument)
        }
        _ => (operation, object, argument),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let all = PAGES * WINDOWS;
    // Half of all steps are one process's, so that its threads meet.
    let who = || prop_oneof![1 => 0..2 * WINDOWS, 1 => 0..all];
    prop_oneof![
        90 => (who(), any::<usize>()).prop_map(|(who, choice)| Step::Fit { who, choice }),
        50 => (who(), request()).prop_map(|(who, (operation, object, argument))| Step::Ask { who, operation, object, argument }),
        3 => (who(), any::<u64>()).prop_map(|(who, word)| Step::Store { who, word }),
        2 => who().prop_map(|who| Step::Look { who }),
        12 => (who(), any::<bool>()).prop_map(|(who, parked)| Step::Park { who, parked }),
        6 => who().prop_map(|who| Step::Allot { who }),
        3 => who().prop_map(|who| Step::Die { who }),
        1 => (0..4 * PROCESSES).prop_map(|process| Step::Leave { process }),
    ]
}

/// The core and its specification, side by side.
struct Pair {
    machine: Machine,
    spec: Spec,
    answers: BTreeMap<Id, u64>,
    parked: BTreeSet<Id>,
}

impl Pair {
    fn new() -> Self {
        let spec = Spec { mutexes_max: MUTEXES, barriers_max: BARRIERS, islands: ISLANDS, ..Spec::default() };
        let mut pair = Self { machine: Machine::new(), spec, answers: BTreeMap::new(), parked: BTreeSet::new() };
        for page in 0..PAGES {
            pair.come(page);
            (0..WINDOWS).for_each(|window| pair.allot((page, window)));
        }
        pair
    }

    fn come(&mut self, page: usize) {
        self.machine.use_page(page, owner_of(page), page as u32 % 2);
        self.spec.pages.insert(page, (owner_of(page), page as u32 % 2));
    }

    fn allot(&mut self, id: Id) {
        if !self.spec.threads.contains_key(&id) {
            // As kernels do.
            self.machine.window(id).answer.store(0, SeqCst);
            self.answers.remove(&id);
            self.machine.allot(id);
            self.spec.allot(id);
        }
    }

    fn store(&mut self, id: Id, request: Request) {
        let before = self.machine.window(id).request.load(SeqCst);
        self.machine.window(id).request.store(request.0, SeqCst);
        assert_eq!(self.machine.serve(id), request.0 != before, "a request is served once");
        if request.0 != before {
            self.spec.ask(id, request);
        }
    }

    /// The next thread that can ask, and what it may ask for.
    fn fit(&self, number: usize, choice: usize) -> Option<(Id, Operation, u16, u32)> {
        let all = PAGES * WINDOWS;
        let can_ask = |id: &Id| {
            let thread = self.spec.threads.get(id);
            thread.is_some_and(|thread| {
                matches!(thread.doing, Doing::Nothing | Doing::IsNew | Doing::Runs | Doing::Stopped)
            })
        };
        let id = (0..all).map(|after| who((number + after) % all)).find(can_ask)?;
        let fit = self.all_fit(id, choice);
        let (operation, object, argument) = fit[choice % fit.len()];
        Some((id, operation, object as u16, argument as u32))
    }

    fn all_fit(&self, id: Id, choice: usize) -> Vec<(Operation, usize, usize)> {
        use Operation::*;
        let (spec, owner) = (&self.spec, owner_of(id.0));
        if spec.threads[&id].doing == Doing::IsNew {
            return vec![(Start, 0, 0)];
        }
        let mut fit =
            vec![(MutexCreate, 0, owner as usize % 3), (ConditionCreate, 0, 0), (BarrierCreate, 0, 2), (Yield, 0, 0)];
        let conditions = spec.conditions.iter().filter(|(_, of)| **of == owner).map(|(number, _)| *number);
        let conditions: Vec<_> = conditions.collect();
        for (number, mutex) in spec.mutexes.iter().filter(|(_, mutex)| mutex.owner == owner) {
            fit.extend([(Lock, *number, 0); 3]);
            if mutex.holder == Some(id) {
                fit.extend([(Unlock, *number, 0), (Unlock, *number, 0), (Consistent, *number, 0)]);
                fit.extend(conditions.iter().flat_map(|condition| [(ConditionWait, *condition, *number); 3]));
            }
        }
        fit.extend(conditions.iter().flat_map(|condition| [(Signal, *condition, 0), (Broadcast, *condition, 0)]));
        fit.extend(
            spec.barriers.iter().filter(|(_, barrier)| barrier.0 == owner).map(|(number, _)| (BarrierWait, *number, 0)),
        );
        fit.extend(spec.sources.keys().flat_map(|number| [(SourceRaise, *number, 0), (SourceWait, *number, 0)]));
        fit.extend([(Slots, 0, 1), (Slots, 1, 1)]);
        // Threads that run, and those that wait for turns, become more and less urgent.
        let with_turns = spec.threads.iter().filter(|(id, thread)| {
            owner_of(id.0) == owner
                && (thread.island.is_some() || matches!(thread.doing, Doing::Ready | Doing::Stopped))
        });
        fit.extend(
            with_turns.map(|(id, thread)| (SetPriority, id.0 % 2 * 32 + id.1, (thread.priority as usize + choice) % 4)),
        );
        fit
    }

    fn leave(&mut self, owner: u32) {
        self.machine.left(owner);
        self.spec.left(owner);
        self.parked.retain(|id| owner_of(id.0) != owner);
    }

    fn does(&mut self, step: &Step) {
        self.machine.rung.clear();
        match *step {
            Step::Ask { who: number, operation, object, argument } => {
                let request = self.machine.request(who(number), operation, object, argument);
                self.store(who(number), request);
            }
            Step::Fit { who: number, choice } => {
                if let Some((id, operation, object, argument)) = self.fit(number, choice) {
                    self.store(id, self.machine.request(id, operation, object, argument));
                }
            }
            Step::Store { who: number, word } => self.store(who(number), Request(word)),
            Step::Look { who: number } => assert!(!self.machine.serve(who(number)), "nothing is asked for"),
            Step::Park { who: number, parked } => {
                self.machine.window(who(number)).parked.store(parked.into(), SeqCst);
                if parked {
                    self.parked.insert(who(number))
                } else {
                    self.parked.remove(&who(number))
                };
            }
            Step::Allot { who: number } => self.allot(who(number)),
            Step::Die { who: number } => {
                self.machine.died(who(number));
                self.spec.died(who(number));
            }
            Step::Leave { process } if process < PROCESSES => {
                self.leave(owner_of(2 * process));
                self.check();
                for page in [2 * process, 2 * process + 1] {
                    self.come(page);
                    self.allot((page, 0));
                }
            }
            Step::Leave { .. } => {}
        }
        self.check();
    }

    /// What was answered, who is woken, and every table.
    fn check(&mut self) {
        let mut woken = BTreeSet::new();
        for (id, word) in std::mem::take(&mut self.spec.said) {
            self.answers.insert(id, word);
            if word == 0 {
                self.parked.remove(&id);
            } else if Answer(word).is_done() && self.parked.contains(&id) {
                woken.insert(id);
            }
        }
        for page in 0..PAGES {
            for window in 0..WINDOWS + 1 {
                let expected = self.answers.get(&(page, window)).copied().unwrap_or(0);
                assert_eq!(self.machine.answer((page, window)), Answer(expected), "page {page}, window {window}");
            }
        }
        let told = std::mem::take(&mut self.spec.told);
        self.check_wakes(&woken, &told);
        self.check_threads();
        self.check_objects();
    }

    fn check_wakes(&self, woken: &BTreeSet<Id>, told: &BTreeSet<Id>) {
        let core = self.machine.core;
        let mut rings = BTreeSet::new();
        for (page, client) in core.control.iter().enumerate().take(PAGES) {
            let expected =
                (0..32).filter(|window| woken.contains(&(page, *window))).fold(0, |bits, bit| bits | 1 << bit);
            assert_eq!(client.answered.swap(0, SeqCst), expected, "who is woken of page {page}");
            if expected != 0 {
                rings.insert(client.core.get());
            }
            let told = (0..32).filter(|window| told.contains(&(page, *window))).fold(0, |bits, bit| bits | 1 << bit);
            assert_eq!(client.told.swap(0, SeqCst), told, "whose kernel is told of page {page}");
            if told != 0 {
                rings.insert(client.core.get());
            }
        }
        assert_eq!(core.answered.swap(0, SeqCst), u32::from(!woken.is_empty() || !told.is_empty()));
        assert!(self.machine.rung.iter().copied().eq(rings.into_iter().filter_map(CoreId::from_raw)), "who is rung");
    }

    fn check_threads(&self) {
        let (core, spec) = (self.machine.core, &self.spec);
        for (page, client) in core.control.iter().enumerate().take(PAGES) {
            let windows = (0..32).filter(|window| spec.threads.contains_key(&(page, *window)));
            assert_eq!(client.windows.load(SeqCst), windows.fold(0, |bits, bit| bits | 1 << bit), "page {page}");
            let stopped = spec.threads.iter().filter(|(id, thread)| id.0 == page && thread.doing == Doing::Stopped);
            assert_eq!(
                client.stopped.load(SeqCst),
                stopped.fold(0, |bits, (id, _)| bits | 1 << id.1),
                "page {page}: who is stopped"
            );
        }
        for (id, thread) in &spec.threads {
            let record = self.machine.record(*id);
            let state = match thread.doing {
                Doing::Nothing => 0,
                Doing::IsNew => 1,
                Doing::Ready => 2,
                Doing::Runs => 3,
                Doing::Waits(_) => 4,
                Doing::Over => 5,
                Doing::Stopped => 6,
            };
            let expected = (state, thread.priority, thread.island.map_or(0, |island| island as u32 + 1));
            assert_eq!((record.state.get(), record.priority.get(), record.island.get()), expected, "{id:?}");
        }
        for process in core.processes.iter().take(PAGES).filter(|process| process.owner.get() != 0) {
            let owner = process.owner.get();
            assert_eq!(self.machine.list(process.ready.get()), spec.ready(owner), "who is ready");
            for island in 0..8 {
                assert_eq!(process.running[island].get() as usize, spec.running(owner, island), "island {island}");
            }
        }
    }

    fn check_objects(&self) {
        let (core, spec) = (self.machine.core, &self.spec);
        for (number, mutex) in core.mutex.iter().enumerate().take(MUTEXES) {
            let Some(expected) = spec.mutexes.get(&number) else {
                assert_eq!(mutex.owner.get(), 0, "mutex {number} is free");
                continue;
            };
            let holder = self.machine.list(mutex.holder.get()).first().copied();
            assert_eq!(
                (mutex.owner.get(), holder, mutex.depth.get()),
                (expected.owner, expected.holder, expected.depth)
            );
            assert_eq!(self.machine.list(mutex.waiters.get()), spec.mutex_queue(number), "who waits for {number}");
        }
        for (number, condition) in core.condition.iter().enumerate().take(MUTEXES) {
            assert_eq!(condition.owner.get(), spec.conditions.get(&number).copied().unwrap_or(0), "condition {number}");
            if condition.owner.get() != 0 {
                assert_eq!(self.machine.list(condition.waiters.get()), spec.condition_queue(number));
            }
        }
        for (number, barrier) in core.barrier.iter().enumerate().take(BARRIERS) {
            let expected = spec.barriers.get(&number).copied().unwrap_or((0, 0));
            assert_eq!(barrier.owner.get(), expected.0, "barrier {number}");
            if expected.0 != 0 {
                assert_eq!(self.machine.list(barrier.waiters.get()), spec.barrier_queue(number));
                assert_eq!(barrier.arrived.get() as usize, spec.barrier_queue(number).len());
            }
        }
        for (number, source) in core.sources.iter().enumerate() {
            let expected = spec
                .sources
                .get(&number)
                .map_or((0, 0), |source| (source.thread.0 as u32 * 32 + source.thread.1 as u32 + 1, source.pending));
            assert_eq!((source.thread.get(), source.pending.get()), expected, "source {number}");
        }
    }

    /// Slots are not exceeded: of threads that run, no more than there are.
    fn check_slots(&self, before: &[u32]) {
        for (process, at) in self.machine.core.processes.iter().zip(before.chunks(8)) {
            for ((running, slots), before) in process.running.iter().zip(&process.slots).zip(at) {
                let (running, slots) = (running.get(), slots.get());
                assert!(slots == 0 || running <= slots.max(*before), "{running} run, {slots} may");
            }
        }
    }

    fn running(&self) -> Vec<u32> {
        let processes = self.machine.core.processes.iter().take(PAGES);
        processes.flat_map(|process| process.running.iter().map(|running| running.get())).collect()
    }
}

/// All that is left of processes when they have gone.
fn assert_empty(machine: &Machine) {
    let core = machine.core;
    for client in &core.control {
        assert_eq!(client.state.load(SeqCst), SERVICE_FREE);
        assert_eq!((client.windows.load(SeqCst), client.died.load(SeqCst), client.stopped.load(SeqCst)), (0, 0, 0));
    }
    for process in &core.processes {
        let words =
            process.slots.iter().chain(&process.running).chain([&process.owner, &process.ready, &process.holders]);
        assert!(words.into_iter().all(|word| word.get() == 0), "a process is left");
    }
    assert!(core.mutex.iter().all(|mutex| mutex.owner.get() == 0), "a mutex is left");
    assert!(core.condition.iter().all(|one| one.owner.get() == 0), "a condition variable is left");
    assert!(core.barrier.iter().all(|barrier| barrier.owner.get() == 0), "a barrier is left");
    let free = |source: &motet_layout::ServiceSource| {
        source.owner.get() == 0 && source.thread.get() == 0 && source.pending.get() == 0
    };
    assert!(core.sources.iter().all(free), "a source is left");
    for record in &core.threads {
        let words = [&record.state, &record.next, &record.waits, &record.mutex, &record.island, &record.owned];
        assert!(words.iter().all(|word| word.get() == 0), "a thread is left");
        assert_eq!((record.flags.get(), record.served.get()), (0, 0), "a thread is left");
    }
    for window in core.pages.iter().flat_map(|page| &page.windows) {
        assert_eq!((window.request.load(SeqCst), window.answer.load(SeqCst), window.parked.load(SeqCst)), (0, 0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_core_does_what_the_specification_says(steps in prop::collection::vec(step(), 1..250)) {
        let mut pair = Pair::new();
        for step in &steps {
            let before = pair.running();
            pair.does(step);
            pair.check_slots(&before);
        }
        for process in 0..PROCESSES {
            pair.leave(owner_of(2 * process));
            pair.check();
        }
        assert_empty(&pair.machine);
    }

    /// All 64 bits of a request, from a thread that runs and from one that waits.
    #[test]
    fn every_word_is_answered(words in prop::collection::vec(any::<u64>(), 1..100), few in any::<bool>()) {
        let (mut machine, one, other) = Machine::with_two();
        machine.ask(one, Operation::MutexCreate, 0, 0);
        machine.ask(one, Operation::Lock, 0, 0);
        machine.ask(other, Operation::Lock, 0, 0);
        for (at, word) in words.into_iter().enumerate() {
            // Those with small objects, and those of operations that there are, would be rare.
            let operation = Operation::ALL[at % Operation::ALL.len()];
            let word = if few { word & 0xff00_0003_0000_00ff | (operation as u64) << 48 } else { word };
            for id in [one, other] {
                if machine.window(id).request.load(SeqCst) == word {
                    continue;
                }
                let answer = machine.put(id, word);
                prop_assert_eq!(answer.sequence(), Request(word).sequence());
                prop_assert!(answer.is_wait() || answer.is_done() && Code::from_raw(answer.code()).is_some());
            }
        }
    }

    /// Whatever is in the tables, every operation ends.
    #[test]
    fn damaged_tables_end_nothing(
        damage in prop::collection::vec((0..6usize, 0..96usize, 0..12usize, prop_oneof![3 => 0..100u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]), 1..30),
        steps in prop::collection::vec((step(), 0..6u32), 1..60),
    ) {
        let mut machine = Pair::new().machine;
        machine.core.sources[0].owner.set(7);
        let mut damage = damage.iter().cycle();
        for (step, count) in &steps {
            for (table, entry, field, value) in damage.by_ref().take(*count as usize) {
                hurt(&machine, *table, *entry, *field, *value);
            }
            match *step {
                Step::Ask { who: number, operation, object, argument } => {
                    let request = machine.request(who(number), operation, object, argument);
                    machine.put(who(number), request.0);
                }
                Step::Store { who: number, word } => _ = machine.put(who(number), word),
                Step::Die { who: number } => machine.died(who(number)),
                Step::Leave { process } if process < PROCESSES => machine.left(owner_of(2 * process)),
                _ => {}
            }
        }
    }
}

/// Changes a word of a table.
fn hurt(machine: &Machine, table: usize, entry: usize, field: usize, value: u32) {
    let core = machine.core;
    match table {
        0 => {
            let (mutex, at) = (&core.mutex[entry % MUTEXES], field % 8);
            [
                &mutex.owner,
                &mutex.kind,
                &mutex.holder,
                &mutex.depth,
                &mutex.waiters,
                &mutex.dead,
                &mutex.next,
                &mutex.conditions,
            ][at]
                .set(value);
        }
        1 => {
            let condition = &core.condition[entry % MUTEXES];
            [&condition.owner, &condition.waiters, &condition.mutex][field % 3].set(value);
        }
        2 => {
            let barrier = &core.barrier[entry % BARRIERS];
            [&barrier.owner, &barrier.waiters, &barrier.arrived, &barrier.count][field % 4].set(value);
        }
        3 => {
            let process = &core.processes[entry % PAGES];
            [
                &process.owner,
                &process.ready,
                &process.holders,
                &process.slots[0],
                &process.running[0],
                &process.running[1],
            ][field % 6]
                .set(value);
        }
        4 => {
            let source = &core.sources[entry % 3];
            [&source.owner, &source.thread, &source.pending][field % 3].set(value);
        }
        _ => {
            let record = machine.record((entry % PAGES, entry / PAGES % WINDOWS));
            let words = [&record.state, &record.priority, &record.next, &record.waits, &record.mutex, &record.islands];
            let more = [&record.island, &record.flags, &record.value, &record.code, &record.answer, &record.owned];
            words.iter().chain(&more).nth(field).unwrap().set(value);
        }
    }
}
