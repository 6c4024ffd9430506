//! The FPGA against a specification that is written down a second time (`fpga_support/spec.rs`): random clients, kernels, failures and times.
//! Clients that are killed at every step; any word in the tables.

// What is not named has no part in what is chosen.
#![allow(clippy::wildcard_enum_match_arm)]

#[allow(dead_code)]
mod files_support;
#[allow(dead_code)]
mod fpga_support;

use std::panic::{self, AssertUnwindSafe};

use fpga_support::spec::{Does, Spec};
use fpga_support::{AREAS, FITS, FRAME, INTERFACES, Machine, OUTSIDE, load_time, result_of};
use motet_layout::sync::Ordering::SeqCst;
use motet_protocol::fpga::{Fault, Policy, REVOKE, REVOKE_LATER, RegionState, Status, clients, guest::Answer, history};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Open {
        accelerator: usize,
        priority: u32,
        deadline: u64,
    },
    Store {
        at: usize,
        frames: u32,
        outside: bool,
    },
    /// Kernels do what was asked of them.
    Answer,
    Pass {
        time: u64,
    },
    Leave {
        at: usize,
    },
    Priority {
        at: usize,
        priority: u32,
    },
    PortFails,
    Spoil {
        accelerator: usize,
        region: usize,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let frames = prop_oneof![9 => 1..5u32, 1 => any::<u32>()];
    let deadline = prop_oneof![Just(0), 1..100u64];
    prop_oneof![
        10 => (0..FITS.len(), 0..3u32, deadline).prop_map(|(accelerator, priority, deadline)| Event::Open { accelerator, priority, deadline }),
        40 => (0..INTERFACES, frames, prop::bool::weighted(0.1)).prop_map(|(at, frames, outside)| Event::Store { at, frames, outside }),
        25 => Just(Event::Answer),
        40 => prop_oneof![Just(0), 1..10u64, 10..80u64].prop_map(|time| Event::Pass { time }),
        6 => (0..INTERFACES).prop_map(|at| Event::Leave { at }),
        2 => (0..INTERFACES, 0..3u32).prop_map(|(at, priority)| Event::Priority { at, priority }),
        2 => Just(Event::PortFails),
        1 => (0..FITS.len(), 0..AREAS.len()).prop_map(|(accelerator, region)| Event::Spoil { accelerator, region }),
    ]
}

/// The FPGA and its specification, side by side.
struct Pair {
    machine: Machine,
    spec: Spec,
}

impl Pair {
    fn new(policy: Policy) -> Self {
        Self { machine: Machine::new(policy), spec: Spec::new(policy) }
    }

    fn apply(&mut self, event: &Event) {
        let (machine, spec) = (&mut self.machine, &mut self.spec);
        match *event {
            Event::Open { accelerator, priority, deadline } => {
                let (opened, expected) = (machine.open(accelerator, priority), spec.open(accelerator, priority));
                assert_eq!(opened, expected, "an interface is free or is not");
                if let Some(at) = opened {
                    machine.interface(at).deadline_ps.store(deadline, SeqCst);
                    spec.clients[at].as_mut().unwrap().deadline = deadline;
                }
            }
            Event::Store { at, frames, outside } if spec.is_there(at) => {
                machine.store(at, frames, if outside { OUTSIDE } else { 0 });
                spec.store(at, frames, outside);
            }
            Event::Answer => {
                machine.answer();
                spec.answer();
            }
            Event::Pass { time } => {
                machine.now += time;
                machine.run();
                spec.run(machine.now);
            }
            Event::Leave { at } if spec.is_there(at) => {
                machine.leave(at);
                spec.leave(at);
            }
            Event::Priority { at, priority } if spec.is_there(at) => {
                machine.interface(at).priority.store(priority, SeqCst);
                spec.clients[at].as_mut().unwrap().priority = priority;
            }
            Event::PortFails => {
                machine.fpga.port_faults.set(machine.fpga.port_faults.get() + 1);
                spec.port_faults += 1;
            }
            Event::Spoil { accelerator, region } if !spec.bad.contains(&(accelerator, region)) => {
                let bitstream = &machine.fpga.accelerators[accelerator].bitstreams[region];
                // A signature that is wrong, or one that is right for another region.
                match region % 2 {
                    0 => bitstream.signature.set(bitstream.signature.get() ^ 1 << 40),
                    _ => bitstream.region.set(region as u32 + 1),
                }
                spec.bad.push((accelerator, region));
            }
            _ => {}
        }
    }

    /// Both say the same.
    fn compare(&self) {
        self.machine.check();
        for (number, region) in self.spec.regions.iter().enumerate() {
            let (expected, until) = match region.does {
                Does::Idle => (RegionState::Idle, 0),
                Does::Busy { until } => (RegionState::Busy, until),
                Does::Preempt { until } => (RegionState::Preempt, until),
                Does::Switch => (RegionState::Switch, 0),
                Does::Reconfig { until } => (RegionState::Reconfig, until),
                Does::Hold { until } => (RegionState::Hold, until),
            };
            let record = &self.machine.fpga.regions[number];
            assert_eq!(self.machine.state(number), expected, "region {number}");
            assert!(until == 0 || record.until_ps.get() == until, "region {number}: until {until}");
            let link = |word: u32| (word as usize).checked_sub(1);
            assert_eq!(link(record.accelerator.get()), region.is, "what region {number} is");
            assert_eq!(link(record.interface.get()), region.client, "whose region {number} is");
            assert_eq!(link(record.successor.get()), region.next, "whose region {number} will be");
        }
        for (at, client) in self.spec.clients.iter().enumerate() {
            let Some(client) = client.as_ref().filter(|_| self.spec.is_there(at)) else { continue };
            let (interface, registers) = (self.machine.interface(at), self.machine.registers(at));
            assert_eq!(registers.status.load(SeqCst), client.status, "status of {at}");
            assert_eq!(registers.over.load(SeqCst) != 0, client.over, "whether {at} is over");
            assert_eq!(registers.result.load(SeqCst), client.result, "result of {at}");
            assert_eq!(interface.connected.load(SeqCst) != 0, client.connected, "whether {at} is connected");
            let revoke = if client.revoked {
                REVOKE
            } else if client.revoked_later {
                REVOKE_LATER
            } else {
                0
            };
            assert_eq!(interface.revoke.load(SeqCst), revoke, "what is asked of {at}'s kernel");
            assert_eq!(interface.request.get() == 1, self.spec.list.contains(&at), "whether {at} waits");
        }
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    prop::sample::select(Policy::ALL)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fpga_does_what_the_specification_says(policy in policy(), events in prop::collection::vec(event(), 1..120)) {
        let mut pair = Pair::new(policy);
        for event in &events {
            pair.apply(event);
            pair.compare();
        }
    }

    #[test]
    fn when_all_have_gone_everything_can_be_used_again(policy in policy(), events in prop::collection::vec(event(), 1..120)) {
        let mut pair = Pair::new(policy);
        events.iter().filter(|event| !matches!(event, Event::Spoil { .. })).for_each(|event| pair.apply(event));
        let machine = &mut pair.machine;
        (0..INTERFACES).filter(|at| !machine.is_free(*at)).for_each(|at| machine.leave(at));
        machine.drain();
        machine.fpga.port_faults.set(0);
        expect_usable(machine);
    }

    #[test]
    fn no_word_in_the_tables_makes_it_fail(
        words in prop::collection::vec((0..17_920u64, any::<u32>()), 1..60),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut machine = Machine::new(Policy::Deadline);
        for (event, (word, value)) in events.iter().zip(&words) {
            let mut pair = Pair { machine, spec: Spec::new(Policy::Deadline) };
            match event {
                Event::Open { accelerator, priority, .. } => drop(pair.machine.open(*accelerator, *priority)),
                Event::Store { at, frames, .. } => drop(pair.machine.store(*at, *frames, 0)),
                Event::Pass { time } => {
                    pair.machine.now += time;
                    // Not where registers and data are: who damages those words damages the pool.
                    if !fpga_support::PLACES.contains(word) {
                        fpga_support::damage(&pair.machine, *word, *value);
                    }
                    let _ = pair.machine.run();
                }
                Event::Leave { at } => pair.machine.leave(*at),
                _ => pair.machine.answer(),
            }
            machine = pair.machine;
        }
    }
}

/// Each region is idle and computes for new clients, for each accelerator that fits.
fn expect_usable(machine: &mut Machine) {
    for region in 0..AREAS.len() {
        assert_eq!(machine.state(region), RegionState::Idle, "region {region}");
        assert_eq!(machine.client(region), None, "region {region}");
    }
    assert!((0..INTERFACES).all(|at| machine.is_free(at)), "an interface is nobody's and not free");
    for accelerator in 0..FITS.len() {
        assert_eq!(compute(machine, accelerator, 3), Some(result_of(accelerator, 3)), "accelerator {accelerator}");
    }
}

/// A client comes, computes and goes.
fn compute(machine: &mut Machine, accelerator: usize, frames: u32) -> Option<u64> {
    let at = machine.open(accelerator, 0)?;
    for _ in 0..200 {
        if machine.registers(at).over.load(SeqCst) != 0 {
            break;
        }
        let status = machine.status(at);
        if matches!(Status::from_raw(status), Some(Status::None | Status::Ready)) {
            machine.store(at, frames, 0);
        }
        machine.answer();
        machine.now += 10;
        machine.run();
    }
    let result = machine.registers(at).result.load(SeqCst);
    machine.leave(at);
    machine.drain();
    Some(result)
}

/// Three clients on few regions: what they do, until all are through. The second one is killed at a step; returns the results of the others,
/// and the states in which regions were that had to do with the killed one.
fn scenario(seed: u64, killed_at: usize) -> (Vec<u64>, Vec<RegionState>, bool) {
    let mut machine = Machine::new(Policy::ALL[seed as usize % 3]);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    // Less urgent, killed, more urgent; where accelerators fit, they meet.
    let accelerators = [next(2) as usize, next(3) as usize, next(2) as usize];
    let clients: Vec<_> = (0..3).map(|at| machine.open(accelerators[at], 2 - at as u32).unwrap()).collect();
    let frames: Vec<_> = (0..3).map(|_| 2 + next(4) as u32).collect();
    let (mut touched, mut was_killed) = (Vec::new(), false);
    for step in 0..400 {
        if step == killed_at && !was_killed {
            was_killed = true;
            let link = clients[1] as u32 + 1;
            let is_its = |region: &usize| {
                let record = &machine.fpga.regions[*region];
                record.interface.get() == link || record.successor.get() == link
            };
            touched.extend((0..AREAS.len()).filter(is_its).map(|region| machine.state(region)));
            machine.leave(clients[1]);
        }
        let at = next(3) as usize;
        let is_over = machine.registers(clients[at]).over.load(SeqCst) != 0;
        let is_gone = at == 1 && was_killed;
        if !is_gone && !is_over && machine.status(clients[at]) != Status::Running as u32 {
            machine.store(clients[at], frames[at], 0);
        }
        // Kernels take their time: who has lost its registers is to be connected again before one has taken them away.
        if next(6) == 0 {
            machine.answer();
        }
        machine.now += next(6);
        machine.run();
        machine.check();
    }
    let results = [0, 2].map(|at| machine.registers(clients[at]).result.load(SeqCst));
    let is_right = (0..2).all(|at| results[at] == result_of(accelerators[2 * at], frames[2 * at]));
    (0..3).filter(|at| *at != 1 || !was_killed).for_each(|at| machine.leave(clients[at]));
    machine.drain();
    expect_usable(&mut machine);
    (results.to_vec(), touched, is_right)
}

#[test]
fn a_client_that_is_killed_at_any_step_is_noticed_by_nobody() {
    let mut seen = Vec::new();
    for seed in 1..100 {
        let (expected, _, is_right) = scenario(seed, usize::MAX);
        assert!(is_right, "seed {seed}: {expected:?} is not what accelerators compute");
        for step in 0..120 {
            let (results, touched, _) = scenario(seed, step);
            assert_eq!(results, expected, "seed {seed}, killed at step {step}");
            seen.extend(touched);
        }
    }
    for state in RegionState::ALL {
        assert!(seen.contains(state), "nobody was killed while its region was in {state:?}");
    }
}

/// Each path of Ker-ONE's Figure 15, as far as it is the FPGA's: when a region is ready for who has asked.
#[test]
fn the_manager_takes_its_time_one_routine_after_the_other() {
    let mut machine = Machine::new(Policy::SmallestFirst);
    let fpga = machine.fpga;
    fpga.manager_search_ps.set(1);
    fpga.manager_assign_ps.set(20);
    fpga.manager_reconfigure_ps.set(300);
    fpga.manager_preempt_ps.set(4000);
    fpga.manager_port_ps.set(50_000);
    fpga.manager_stop_ps.set(600_000);
    fpga.accelerators[2].frame_ps.set(9_000_000);
    fpga.expire_ps.set(7_000_000_000);
    let ready_ps = |region: usize| fpga.regions[region].until_ps.get() - fpga.expire_ps.get();
    let ask = |machine: &mut Machine, accelerator, priority, now| {
        machine.now = now;
        let client = machine.open(accelerator, priority).unwrap();
        assert!(!machine.store(client, 3, 0), "nobody has connected it");
        machine.run();
        client
    };
    // With reconfiguration: two at once wait for the manager, and for the port.
    let first = ask(&mut machine, 2, 9, 100);
    assert_eq!(fpga.regions[2].until_ps.get(), 100 + 301 + load_time(2));
    ask(&mut machine, 0, 9, 200);
    assert_eq!(fpga.manager_until_ps.get(), 100 + 301 + 301, "the second request is looked at after the first");
    machine.now = 200_000;
    machine.run();
    let loaded = 100 + 301 + 301 + 50_000;
    assert_eq!(ready_ps(2), loaded, "its interrupt waits for the manager");
    assert_eq!(ready_ps(0), loaded + load_time(0) + 50_000);
    // Preemption: the first one is stopped at the end of its frame.
    assert!(machine.store(first, 3, 0));
    machine.run();
    let ends = 200_000 + 9_000_000;
    assert_eq!(fpga.regions[2].until_ps.get(), ends);
    let urgent = ask(&mut machine, 2, 0, 300_000);
    assert_eq!(machine.state(2), RegionState::Preempt);
    assert_eq!(fpga.manager_until_ps.get(), 300_000 + 4001);
    machine.now = ends;
    machine.run();
    assert_eq!(fpga.manager_until_ps.get(), ends + 600_020, "what has stopped is assigned");
    machine.now = ends + 600_020;
    machine.answer();
    machine.run();
    // It is a request of the stopped one that the manager looks at now.
    assert_eq!(machine.client(2), Some(urgent));
    assert_eq!(ready_ps(2), ends + 600_020);
    // Assignment alone.
    machine.leave(urgent);
    machine.now += 1_000_000;
    let now = machine.now;
    machine.run();
    assert_eq!(fpga.manager_until_ps.get(), now + 21);
    assert_eq!(machine.client(2), Some(first));
}

#[test]
fn the_history_says_what_regions_were_and_for_how_long() {
    let mut machine = Machine::new(Policy::SmallestFirst);
    let client = machine.open(2, 9).unwrap();
    assert!(!machine.store(client, 2, 0));
    machine.now = 5;
    machine.run();
    machine.now = 100;
    machine.run();
    assert!(machine.store(client, 2, 0));
    machine.run();
    machine.now = 1000;
    machine.run();
    let told = history::changes(machine.fpga).map(|change| {
        assert_eq!(change.region.index(), 2);
        (change.at_ps, change.state, change.accelerator.map(|is| is.index()), change.owner)
    });
    let loaded = 5 + load_time(2);
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (5, RegionState::Reconfig, None, None),
            (loaded, RegionState::Hold, Some(2), Some(7)),
            (100, RegionState::Busy, Some(2), Some(7)),
            (100 + 2 * FRAME[2], RegionState::Idle, Some(2), Some(7)),
        ]
    );
    let region = motet_protocol::fpga::RegionId::new(2).unwrap();
    let (spent_ps, until_ps) = history::spent_ps(machine.fpga, region);
    assert_eq!((spent_ps, until_ps), ([5, 22, 0, 0, 60, 100 - loaded], 122));
    assert_eq!(history::lost(machine.fpga), 0);
}

/// The core that takes what the FPGA wants dies before it has taken registers away. It is done again by who settles what the dead core has left.
#[test]
fn answers_that_a_dead_core_has_taken_are_taken_again() {
    let mut machine = Machine::new(Policy::SmallestFirst);
    // Of one accelerator, which fits into one region.
    let [first, second] = [0, 1].map(|_| machine.open(2, 1).expect("an interface"));
    for at in [first, second] {
        machine.store(at, 1, 0);
        if at == first {
            machine.drain();
            assert!(machine.store(at, 1, 0), "its registers are connected");
            machine.drain();
        }
    }
    while machine.interface(first).revoke.load(SeqCst) != REVOKE {
        machine.now = machine.now.max(machine.run().expect("something is to come until the registers are wanted"));
    }
    machine.fpga.answered.store(0, SeqCst);
    machine.fpga.answers.store(0, SeqCst);
    machine.answer();
    assert_eq!(machine.interface(first).revoke.load(SeqCst), REVOKE, "nobody knows any more what was wanted");
    clients::answer_again(machine.fpga);
    machine.answer();
    assert_eq!(machine.interface(first).revoke.load(SeqCst), 0);
    machine.drain();
    assert!(machine.store(second, 1, 0), "the other client's registers are connected");
}

/// A core dies when it is about to tell a client what it has taken: the client is told by who settles what the dead core has left.
#[test]
fn signals_that_a_dead_core_has_taken_are_told() {
    let mut machine = Machine::new(Policy::SmallestFirst);
    let at = machine.open(2, 1).expect("an interface");
    machine.store(at, 1, 0);
    while machine.interface(at).signals.load(SeqCst) == 0 {
        machine.now = machine.now.max(machine.run().expect("something is to come until the client is told"));
    }
    let signals = machine.interface(at).signals.load(SeqCst);
    let take = |tell: &mut dyn FnMut(u32)| {
        clients::take_answered(machine.fpga, |_, _| {}, |_, _| Answer::Outside, |_, signals| tell(signals));
    };
    let dies = panic::catch_unwind(AssertUnwindSafe(|| take(&mut |_| panic::resume_unwind(Box::new("the core dies")))));
    assert!(dies.is_err(), "it was about to tell the client");
    let mut told = Vec::new();
    for _ in 0..2 {
        clients::answer_again(machine.fpga);
        take(&mut |signals| told.push(signals));
    }
    assert_eq!(told, [signals], "told by the next one, and by nobody after that");
}

/// A store that traps may be a request again before the first one is refused, as its core looks again and again. The FPGA, which is late, hears of that after the
/// refusal: until the client has been told, the registers say why it was refused.
#[test]
fn a_request_of_before_the_refusal_is_none_after_it() {
    let mut machine = Machine::new(Policy::SmallestFirst);
    machine.fpga.port_faults.set(1);
    let at = machine.open(2, 1).expect("an interface");
    assert!(!machine.store(at, 1, 0), "nobody has connected it");
    machine.run();
    assert!(!machine.store(at, 1, 0), "the port is not through");
    machine.now += 2 * load_time(2);
    machine.run();
    assert_eq!(machine.status(at), Fault::Port.word(), "the registers do not say why");
    assert!(clients::take_refusal(machine.fpga, machine.interface(at), || {}), "the client is not told");
    machine.run();
    assert_eq!(machine.status(at), Fault::Port.word(), "the request of before has become another one");
    assert!(!clients::take_refusal(machine.fpga, machine.interface(at), || {}), "the client is told twice");
    assert!(!machine.store(at, 1, 0));
    machine.drain();
    assert!(machine.store(at, 1, 0), "the next request has no region");
}
