//! A guest's interrupt controller beside a small specification: an interrupt is a few facts, and a core takes the most urgent one that is
//! due to it.

#[allow(dead_code)]
mod files_support;

use std::collections::BTreeMap;

use files_support::Actor;
use motet_layout::{
    GuestGic, GuestSystem,
    aarch64_guest::{INTERRUPT_CONTROL, LIST, LIST_LEN},
};
use motet_protocol::{
    Context,
    gic::{self, Cores, FIRST_SHARED, INTERRUPTS},
    memory,
};
use proptest::prelude::*;

const CORES: usize = 3;
const PENDING: u64 = 1 << 62;
const ACTIVE: u64 = 1 << 63;

/// What the specification knows of an interrupt.
#[derive(Clone, Default, Debug, PartialEq)]
struct Interrupt {
    group_1: bool,
    enabled: bool,
    latched: bool,
    line: bool,
    edge: bool,
    /// On which core it is active.
    active: Option<usize>,
    priority: u8,
    route: u64,
}

impl Interrupt {
    fn pending(&self) -> bool {
        self.latched || self.line && !self.edge
    }
}

/// An interrupt: of a core's own, or shared (core 0 then).
type Key = (usize, u32);

struct Specification {
    groups: u64,
    interrupts: BTreeMap<Key, Interrupt>,
}

fn key(core: usize, id: u32) -> Key {
    (if id < FIRST_SHARED { core } else { 0 }, id)
}

impl Specification {
    fn new() -> Self {
        let keys = (0..CORES).flat_map(|core| (0..FIRST_SHARED).map(move |id| (core, id)));
        let shared = (FIRST_SHARED..INTERRUPTS).map(|id| (0, id));
        let new = |key: Key| (key, Interrupt { edge: key.1 < 16, ..Interrupt::default() });
        Self { groups: 0, interrupts: keys.chain(shared).map(new).collect() }
    }

    fn get(&mut self, core: usize, id: u32) -> &mut Interrupt {
        self.interrupts.get_mut(&key(core, id)).unwrap()
    }

    fn goes_to(&self, core: usize, key: Key) -> bool {
        let route = self.interrupts[&key].route;
        if key.1 < FIRST_SHARED {
            key.0 == core
        } else if route >> 31 & 1 != 0 {
            core == 0
        } else {
            route == core as u64
        }
    }

    /// What is due to a core, the most urgent first, but for what is in a list register.
    fn due(&self, core: usize, listed: &[Key]) -> Vec<Key> {
        let is_due = |(key, interrupt): &(&Key, &Interrupt)| {
            let group = if interrupt.group_1 { 2 } else { 1 };
            let is_on = interrupt.enabled && self.groups & group != 0 && self.goes_to(core, **key);
            is_on && interrupt.pending() && interrupt.active.is_none() && !listed.contains(key)
        };
        let mut due: Vec<Key> = self.interrupts.iter().filter(is_due).map(|(key, _)| *key).collect();
        due.sort_by_key(|key| (self.interrupts[key].priority, key.1));
        due
    }

    fn all_due(&self, listed: &[Key]) -> [Vec<Key>; CORES] {
        std::array::from_fn(|core| self.due(core, listed))
    }

    /// Cores to which more is due than `before`.
    fn told(&self, before: &[Vec<Key>; CORES], listed: &[Key]) -> Cores {
        let has_more = |core: &usize| self.due(*core, listed).iter().any(|key| !before[*core].contains(key));
        Cores((0..CORES).filter(has_more).map(|core| 1 << core).sum())
    }
}

/// What happens outside of a core that runs.
#[derive(Clone, Debug)]
enum Event {
    Groups(u64),
    Group(usize, u32, bool),
    Enabled(usize, u32, bool),
    Pending(usize, u32, bool),
    Priority(usize, u32, u8),
    Edge(usize, u32, bool),
    Route(u32, u64),
    Line(usize, u32, bool),
    Software { from: usize, list: u64, id: u32, to_others: bool },
}

/// What a core does while it runs.
#[derive(Clone, Debug)]
enum Step {
    Acknowledge,
    End,
    Event(Event),
}

#[derive(Clone, Debug)]
enum Action {
    Event(Event),
    Run(usize, Vec<Step>),
}

/// Few ids, so that they meet.
const IDS: [u32; 12] = [0, 1, 15, 16, 27, 31, 32, 33, 34, 63, 64, 95];

fn id() -> impl Strategy<Value = u32> {
    prop::sample::select(IDS.as_slice())
}

fn events() -> impl Strategy<Value = Event> {
    let core = || 0..CORES;
    prop_oneof![
        1 => (0..4_u64).prop_map(Event::Groups),
        1 => (core(), id(), any::<bool>()).prop_map(|(core, id, on)| Event::Group(core, id, on)),
        4 => (core(), id(), prop::bool::weighted(0.8)).prop_map(|(core, id, on)| Event::Enabled(core, id, on)),
        4 => (core(), id(), prop::bool::weighted(0.8)).prop_map(|(core, id, on)| Event::Pending(core, id, on)),
        2 => (core(), id(), 0..4_u8).prop_map(|(core, id, to)| Event::Priority(core, id, to << 4)),
        1 => (core(), id(), any::<bool>()).prop_map(|(core, id, on)| Event::Edge(core, id, on)),
        2 => (id(), prop_oneof![0..CORES as u64 + 1, Just(1 << 31)]).prop_map(|(id, route)| Event::Route(id, route)),
        6 => (core(), id(), any::<bool>()).prop_map(|(core, id, on)| Event::Line(core, id, on)),
        3 => (core(), 0..8_u64, 0..2_u32, any::<bool>())
            .prop_map(|(from, list, id, to_others)| Event::Software { from, list, id, to_others }),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let step = prop_oneof![3 => Just(Step::Acknowledge), 3 => Just(Step::End), 2 => events().prop_map(Step::Event)];
    prop_oneof![
        3 => events().prop_map(Action::Event),
        2 => (0..CORES, prop::collection::vec(step, 0..8)).prop_map(|(core, steps)| Action::Run(core, steps)),
    ]
}

thread_local! {
    /// Its pool is all tests' of a thread: making one takes longer than a test.
    static ACTOR: Actor = Actor::new(64 << 20);
}

/// Both, and what list registers hold while a core runs.
struct Test {
    gic: &'static GuestGic,
    systems: [&'static GuestSystem; CORES],
    specification: Specification,
    listed: Vec<Key>,
}

impl Test {
    fn new() -> Self {
        let actor = ACTOR.with(|actor| *actor);
        let mut addresses = (0..=CORES).map(|_| memory::alloc_zeroed_frame(&actor).unwrap().addr());
        let gic = actor.pool().at(addresses.next().unwrap());
        gic::reset(gic, CORES);
        let systems = std::array::from_fn(|_| actor.pool().at(addresses.next().unwrap()));
        Self { gic, systems, specification: Specification::new(), listed: Vec::new() }
    }

    /// Writes a register of an interrupt's bank, at the offset of the distributor.
    fn write(&self, core: usize, id: u32, offset: u64, size_bytes: u8, value: u64) -> Cores {
        if id < FIRST_SHARED {
            gic::redistributor_write(self.gic, core, 0x1_0000 + offset, size_bytes, value)
        } else {
            gic::distributor_write(self.gic, offset, size_bytes, value)
        }
    }

    fn read(&self, core: usize, id: u32, offset: u64, size_bytes: u8) -> u64 {
        if id < FIRST_SHARED {
            gic::redistributor_read(self.gic, core, 0x1_0000 + offset, size_bytes)
        } else {
            gic::distributor_read(self.gic, offset, size_bytes)
        }
    }

    fn bit(&self, core: usize, id: u32, offset: u64) -> bool {
        self.read(core, id, offset + u64::from(id / 32) * 4, 4) >> (id % 32) & 1 != 0
    }

    fn event(&mut self, event: &Event) {
        let before = self.specification.all_due(&self.listed);
        let word = |offset: u64, id: u32| offset + u64::from(id / 32) * 4;
        let answer = match *event {
            Event::Groups(groups) => {
                self.specification.groups = groups;
                gic::distributor_write(self.gic, 0, 4, groups)
            }
            Event::Group(core, id, on) => {
                self.specification.get(core, id).group_1 = on;
                let others = self.read(core, id, word(0x80, id), 4) & !(1 << (id % 32));
                self.write(core, id, word(0x80, id), 4, others | u64::from(on) << (id % 32))
            }
            Event::Enabled(core, id, on) => {
                self.specification.get(core, id).enabled = on;
                self.write(core, id, word(if on { 0x100 } else { 0x180 }, id), 4, 1 << (id % 32))
            }
            Event::Pending(core, id, on) => {
                self.specification.get(core, id).latched = on;
                self.write(core, id, word(if on { 0x200 } else { 0x280 }, id), 4, 1 << (id % 32))
            }
            Event::Priority(core, id, to) => {
                self.specification.get(core, id).priority = to;
                self.write(core, id, 0x400 + u64::from(id), 1, to.into())
            }
            Event::Edge(core, id, on) => {
                // While it is in a list register, this is not to change.
                if self.listed.contains(&key(core, id)) {
                    return;
                }
                if id >= 16 {
                    self.specification.get(core, id).edge = on;
                }
                let (at, shift) = (0xc00 + u64::from(id / 16) * 4, 2 * (id % 16) + 1);
                let others = self.read(core, id, at, 4) & !(1 << shift);
                self.write(core, id, at, 4, others | u64::from(on) << shift)
            }
            Event::Route(id, _) if id < FIRST_SHARED => return,
            Event::Route(id, route) => {
                self.specification.get(0, id).route = route;
                gic::distributor_write(self.gic, 0x6000 + 8 * u64::from(id), 8, route)
            }
            Event::Line(core, id, on) => {
                let interrupt = self.specification.get(core, id);
                if on && !interrupt.line && interrupt.edge {
                    interrupt.latched = true;
                }
                interrupt.line = on;
                gic::set_line(self.gic, core, id, on)
            }
            Event::Software { from, list, id, to_others } => {
                for core in 0..CORES {
                    if if to_others { core != from } else { list >> core & 1 != 0 } {
                        self.specification.get(core, id).latched = true;
                    }
                }
                gic::software_interrupt(self.gic, from, list | u64::from(id) << 24 | u64::from(to_others) << 40)
            }
        };
        assert_eq!(answer, self.specification.told(&before, &self.listed), "{event:?}");
    }

    /// A core of the guest runs, and does what its interface lets it do with the list registers.
    fn run(&mut self, core: usize, steps: &[Step]) {
        let words = &self.systems[core].words[LIST..LIST + LIST_LEN];
        let active = |(_, interrupt): &(&Key, &Interrupt)| interrupt.active == Some(core);
        let mut order: Vec<Key> = self.specification.interrupts.iter().filter(active).map(|(key, _)| *key).collect();
        order.sort_by_key(|key| (self.specification.interrupts[key].priority, key.1));
        order.extend(self.specification.due(core, &[]));
        let is_full = order.len() > LIST_LEN;
        order.truncate(LIST_LEN);
        gic::load(self.gic, core, self.systems[core]);
        let found: Vec<u32> =
            words.iter().map(|word| word.get()).filter(|word| *word != 0).map(|word| word as u32).collect();
        assert_eq!(found, order.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "core {core}");
        for (place, key) in order.iter().enumerate() {
            let interrupt = self.specification.interrupts.get_mut(key).unwrap();
            let is_active = interrupt.active.is_some();
            let is_pending = interrupt.pending() && interrupt.enabled && (interrupt.edge || !is_active);
            let wanted = u64::from(key.1)
                | u64::from(is_active) << 63
                | u64::from(is_pending) << 62
                | u64::from(interrupt.group_1) << 60
                | u64::from(interrupt.priority) << 48
                | u64::from(is_full || !interrupt.edge) << 41;
            assert_eq!(words[place].get(), wanted, "{key:?} {interrupt:?}");
            if interrupt.edge && is_pending {
                interrupt.latched = false;
            }
        }
        self.listed.clone_from(&order);
        for step in steps {
            let priority = |word: u64| word >> 48 & 0xff;
            let running = words.iter().map(|word| word.get()).filter(|word| word & ACTIVE != 0).map(priority).min();
            match step {
                Step::Acknowledge => {
                    let is_next = |place: &usize| words[*place].get() & (PENDING | ACTIVE) == PENDING;
                    let next = (0..words.len()).filter(is_next).min_by_key(|place| priority(words[*place].get()));
                    if let Some(word) = next.map(|place| &words[place])
                        && running.is_none_or(|running| priority(word.get()) < running)
                    {
                        word.set(word.get() & !PENDING | ACTIVE);
                    }
                }
                Step::End => {
                    let most =
                        words.iter().find(|word| word.get() & ACTIVE != 0 && Some(priority(word.get())) == running);
                    most.into_iter().for_each(|word| word.set(word.get() & !ACTIVE));
                }
                Step::Event(event) => self.event(event),
            }
        }
        for (place, key) in order.iter().enumerate() {
            let value = words[place].get();
            let interrupt = self.specification.interrupts.get_mut(key).unwrap();
            interrupt.active = (value & ACTIVE != 0).then_some(core);
            if interrupt.edge {
                interrupt.latched |= value & PENDING != 0;
            } else {
                interrupt.latched &= value & PENDING != 0;
            }
        }
        let before = self.specification.all_due(&order);
        let answer = gic::store(self.gic, core, self.systems[core]);
        self.listed.clear();
        assert_eq!(answer, self.specification.told(&before, &[]), "core {core} has run");
        assert!(words.iter().all(|word| word.get() == 0));
    }

    /// Whether something is due to a core whose interface lets all through.
    fn is_signalled(&self, core: usize) -> bool {
        self.systems[core].words[INTERRUPT_CONTROL].set(0xff << 24 | 3);
        gic::is_due(self.gic, core, self.systems[core])
    }

    fn check(&mut self) {
        for core in 0..CORES {
            assert_eq!(self.is_signalled(core), !self.specification.due(core, &[]).is_empty(), "core {core}");
            for id in IDS {
                let known = self.specification.get(core, id).clone();
                let found = [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380].map(|offset| self.bit(core, id, offset));
                let Interrupt { group_1, enabled, active, .. } = known;
                let (pending, active) = (known.pending(), active.is_some());
                assert_eq!(
                    found,
                    [group_1, enabled, enabled, pending, pending, active, active],
                    "{core} {id} {known:?}"
                );
                assert_eq!(self.read(core, id, 0x400 + u64::from(id), 1), known.priority.into());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_specification_says(actions in prop::collection::vec(actions(), 1..80)) {
        let mut test = Test::new();
        // Most of it on, so that something happens.
        test.event(&Event::Groups(3));
        for core in 0..CORES {
            for id in IDS {
                test.event(&Event::Enabled(core, id, true));
            }
        }
        for action in &actions {
            match action {
                Action::Event(event) => test.event(event),
                Action::Run(core, steps) => test.run(*core, steps),
            }
            test.check();
        }
    }

    #[test]
    fn no_access_of_a_guest_does_harm(accesses in prop::collection::vec((any::<bool>(), any::<u32>(), any::<u8>(), any::<u64>()), 1..50)) {
        let test = Test::new();
        for (is_write, offset, size, value) in accesses {
            for offset in [u64::from(offset), u64::from(offset % 0x1_1000)] {
                if is_write {
                    let _ = gic::distributor_write(test.gic, offset, size, value);
                    let _ = gic::redistributor_write(test.gic, value as usize % 9, offset, size, value);
                    let _ = gic::software_interrupt(test.gic, 0, value);
                    let _ = gic::set_line(test.gic, value as usize % 9, offset as u32, value & 1 != 0);
                } else {
                    gic::distributor_read(test.gic, offset, size);
                    gic::redistributor_read(test.gic, value as usize % 9, offset, size);
                }
            }
            test.systems[0].words[LIST].set(value);
            let _ = gic::store(test.gic, 0, test.systems[0]);
            gic::load(test.gic, 0, test.systems[0]);
        }
    }
}

/// What an operating system looks at first.
#[test]
fn it_says_what_it_is() {
    let test = Test::new();
    let word = |offset: u64| gic::distributor_read(test.gic, offset, 4);
    assert_eq!(word(0xffe8) >> 4 & 0xf, 3, "the version");
    assert_eq!(32 * (word(4) as u32 & 0x1f) + 32, INTERRUPTS);
    assert_eq!(word(0) & (1 << 4), 1 << 4, "affinity routing");
    let kind = |core: usize| gic::redistributor_read(test.gic, core, 8, 8);
    let kinds: Vec<(u64, u64)> = (0..CORES).map(|core| (kind(core) >> 32, kind(core) >> 4 & 1)).collect();
    assert_eq!(kinds, [(0, 0), (1, 0), (2, 1)], "affinities, and which redistributor is the last");
    let waker = || gic::redistributor_read(test.gic, 1, 0x14, 4);
    assert_eq!(waker(), 6);
    let _ = gic::redistributor_write(test.gic, 1, 0x14, 4, 0);
    assert_eq!(waker(), 0);
}

/// A core's own interface holds back what is not more urgent than its mask, and groups that it has not enabled.
#[test]
fn a_core_that_waits_is_woken_for_what_its_interface_lets_through() {
    let mut test = Test::new();
    for event in [
        Event::Groups(2),
        Event::Group(1, 27, true),
        Event::Enabled(1, 27, true),
        Event::Priority(1, 27, 0x80),
        Event::Line(1, 27, true),
    ] {
        test.event(&event);
    }
    for (control, wanted) in [(0xf0 << 24 | 2, true), (0x80 << 24 | 2, false), (0xf0 << 24 | 1, false), (0, false)] {
        test.systems[1].words[INTERRUPT_CONTROL].set(control);
        assert_eq!(gic::is_due(test.gic, 1, test.systems[1]), wanted, "{control:#x}");
    }
    assert!(!gic::is_due(test.gic, 0, test.systems[0]));
}
