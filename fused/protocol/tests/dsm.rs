//! All schedules of a few faults on one page between kernels without shared memory: each read sees the last write, nobody waits for ever, and which of the rules for
//! faults that come together are needed.

use std::collections::{HashMap, HashSet, VecDeque};

use motet_protocol::dsm::{
    Effects, Message, Outcome, Received, Rights, Site,
    table::{Fault, Place, action},
};

/// A thread: at which kernel, and whether each of its accesses writes.
type Script<'a> = (usize, &'a [bool]);

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    sites: Vec<Site>,
    /// By kernel: what its page tables let threads do.
    mapped: Vec<Rights>,
    /// By kernel: which write its copy of the page has seen.
    copies: Vec<u8>,
    /// The last write.
    written: u8,
    /// By sender and receiver: messages under way, each with the page as it was.
    channels: Vec<VecDeque<(Message, u8)>>,
    /// By thread: accesses done, and whether it waits.
    threads: Vec<(usize, bool)>,
    /// Kernels that may wish for the page, to write or to read, each once.
    wishes: Vec<(usize, bool)>,
    /// Messages so far, where they are counted.
    messages: u32,
    broken: Broken,
    /// A kernel that may die, and how far that is.
    mortal: Option<(usize, Life)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Life {
    Lives,
    /// It does nothing any more, and nobody knows.
    Died,
    /// The home sends it nothing any more, and takes nothing of it.
    Broken,
    /// The home has let go of it.
    Lost,
}

/// What is wrong with a machine, on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Broken {
    Nothing,
    /// Messages overtake each other.
    Order,
    /// Kernels keep what their page tables say when they lose a right.
    Tables,
    /// Threads that wait for the page are forgotten.
    Waiters,
    /// A fault for which a message could not be sent leaves no trace, though other kernels were told of it.
    Unsent,
    /// A kernel does not note that it has wished for a page.
    Unnoted,
    /// The home does not answer a wish that it does not fulfil.
    Unanswered,
    /// The home forgets for a wish whom it serves.
    Forgetful,
    /// A page that was wished for goes out while the sender's threads may still write it.
    Wished,
}

/// What one kernel does in a step.
struct Doing<'a> {
    node: usize,
    world: &'a mut World,
    came: u8,
    /// What it does is to answer a wish.
    is_wished: bool,
    wakes: bool,
    /// A message went to a kernel that has died.
    has_failed: bool,
}

impl Effects for Doing<'_> {
    fn protect(&mut self, rights: Rights) {
        let mapped = &mut self.world.mapped[self.node];
        let keeps = self.world.broken == Broken::Tables || self.is_wished && self.world.broken == Broken::Wished;
        if rights > *mapped || !keeps {
            *mapped = rights;
        }
    }

    fn send(&mut self, to: u32, message: Message) {
        if let Message::Data { write } = message {
            let most = if write { Rights::None } else { Rights::Read };
            assert!(self.world.mapped[self.node] <= most, "the page is written while it is sent");
        }
        let count = self.world.sites.len();
        if self.is_wished && message == Message::Retry && self.world.broken == Broken::Unanswered {
            return;
        }
        if self
            .world
            .mortal
            .is_some_and(|(node, life)| node == to as usize && matches!(life, Life::Broken | Life::Lost))
        {
            self.has_failed = true;
            return;
        }
        self.world.messages += 1;
        self.world.channels[self.node * count + to as usize].push_back((message, self.world.copies[self.node]));
    }

    fn install(&mut self) {
        self.world.copies[self.node] = self.came;
    }

    fn wake(&mut self) {
        self.wakes = self.world.broken != Broken::Waiters;
    }
}

impl World {
    fn new(kernels: usize, scripts: &[Script<'_>], broken: Broken) -> Self {
        let sites: Vec<Site> = (0..kernels as u32).map(|node| Site::new(node, 0)).collect();
        Self {
            mapped: sites.iter().map(Site::rights).collect(),
            sites,
            copies: vec![0; kernels],
            written: 0,
            channels: vec![VecDeque::new(); kernels * kernels],
            threads: vec![(0, false); scripts.len()],
            wishes: Vec::new(),
            messages: 0,
            broken,
            mortal: None,
        }
    }

    fn is_dead(&self, node: usize) -> bool {
        self.mortal.is_some_and(|(mortal, life)| mortal == node && life != Life::Lives)
    }

    /// The threads of a kernel do no more.
    fn end_threads(&mut self, node: usize, scripts: &[Script<'_>]) {
        for (thread, (home, accesses)) in self.threads.iter_mut().zip(scripts) {
            if *home == node {
                *thread = (accesses.len(), false);
            }
        }
    }

    /// The kernel that may die goes on with that.
    fn die(&self, scripts: &[Script<'_>]) -> Option<Self> {
        let (node, life) = self.mortal?;
        let mut after = self.clone();
        match life {
            Life::Lives => {
                after.mortal = Some((node, Life::Died));
                after.mapped[node] = Rights::None;
                after.end_threads(node, scripts);
            }
            Life::Died => {
                after.mortal = Some((node, Life::Broken));
                let count = self.sites.len();
                for (channel, messages) in after.channels.iter_mut().enumerate() {
                    if channel / count == node || channel % count == node {
                        messages.clear();
                    }
                }
            }
            Life::Broken => {
                after.mortal = Some((node, Life::Lost));
                after.act(0, scripts, 0, |site, doing| site.lose(node as u32, doing));
            }
            Life::Lost => return None,
        }
        Some(after)
    }

    /// Kernel `node` does something with its site; what it may do with the page is what it was told last.
    fn act<R>(
        &mut self,
        node: usize,
        scripts: &[Script<'_>],
        came: u8,
        act: impl FnOnce(&mut Site, &mut Doing<'_>) -> R,
    ) -> R {
        // Kernels keep a word of it.
        let mut site = Site::from_word(node as u32, 0, self.sites[node].word());
        assert_eq!(site, self.sites[node], "a word does not say what is known of a page");
        let before = site;
        let mut doing = Doing { node, world: self, came, is_wished: false, wakes: false, has_failed: false };
        let result = act(&mut site, &mut doing);
        let (wakes, has_failed) = (doing.wakes, doing.has_failed);
        if has_failed && self.broken == Broken::Unsent {
            site = before;
        }
        self.sites[node] = site;
        assert!(self.mapped[node] >= site.rights(), "a kernel was not told what it may do");
        if wakes {
            for (thread, (home, _)) in self.threads.iter_mut().zip(scripts) {
                thread.1 &= *home != node;
            }
        }
        result
    }

    /// No two kernels may do what excludes the other.
    fn check(&self) {
        let count = |rights| self.mapped.iter().filter(|mapped| **mapped == rights).count();
        let (writers, readers) = (count(Rights::Write), count(Rights::Read));
        assert!(writers == 0 || writers == 1 && readers == 0, "{writers} kernels write, {readers} read");
    }

    fn has_ended(&self, scripts: &[Script<'_>]) -> bool {
        self.threads.iter().zip(scripts).all(|((done, _), (_, accesses))| *done == accesses.len())
    }
}

/// Places where two faults have met: which, and which first one.
type Met = HashSet<(bool, bool, bool, bool, bool, bool)>;

/// Notes which rule is asked for a fault at a kernel.
fn note(world: &World, node: usize, new: Fault, met: &mut Met) {
    if let Some((current, invalidated)) = world.sites[node].served() {
        let place = if node == 0 { Place::Home } else { Place::Remote };
        assert!(
            action(place, current, invalidated, new).is_some(),
            "{place:?} {current:?} {invalidated} {new:?} is impossible"
        );
        met.insert((node != 0, current.is_remote, invalidated, current.write, new.write, new.is_remote));
    }
}

/// The states that follow, in each schedule.
fn next(world: &World, scripts: &[Script<'_>], met: &mut Met) -> Vec<World> {
    let mut all: Vec<World> = world.die(scripts).into_iter().collect();
    for (thread, &(node, accesses)) in scripts.iter().enumerate() {
        let (done, waits) = world.threads[thread];
        let Some(&write) = accesses.get(done).filter(|_| !waits) else { continue };
        let mut after = world.clone();
        if world.mapped[node] >= if write { Rights::Write } else { Rights::Read } {
            // No kernel sees it.
            assert_eq!(after.copies[node], after.written, "a kernel has an old page");
            after.written += u8::from(write);
            after.copies[node] = after.written;
            after.threads[thread].0 += 1;
        } else {
            note(world, node, Fault { write, is_remote: false }, met);
            let outcome = after.act(node, scripts, 0, |site, doing| site.fault(write, doing));
            after.threads[thread].1 = outcome == Outcome::Wait;
            if outcome == Outcome::Lost {
                after.threads[thread].0 = accesses.len();
            }
        }
        all.push(after);
    }
    for (index, &(node, write)) in world.wishes.iter().enumerate().filter(|(_, (node, _))| !world.is_dead(*node)) {
        for from in if node == 0 { 1..world.sites.len() } else { 0..1 } {
            let mut after = world.clone();
            after.wishes.remove(index);
            if after.act(node, scripts, 0, |site, doing| site.wish(from as u32, write, doing)) {
                if world.broken == Broken::Unnoted {
                    after.sites[node] = world.sites[node];
                }
                all.push(after);
            }
        }
    }
    let count = world.sites.len();
    for (channel, messages) in world.channels.iter().enumerate() {
        let (from, node) = (channel / count, channel % count);
        if world.is_dead(node) {
            continue;
        }
        let most = if world.broken == Broken::Order { messages.len() } else { 1 };
        for (index, &(message, page)) in messages.iter().enumerate().take(most) {
            let mut after = world.clone();
            after.channels[channel].remove(index);
            if let Message::Request { write } = message {
                assert!(node == 0 || world.sites[node].served().is_none(), "the home asks who asks it");
                note(world, node, Fault { write, is_remote: true }, met);
            }
            if let Message::Wish { .. } = message {
                assert!(node == 0 || world.sites[node].served().is_none(), "the home wishes for what it is asked for");
            }
            let received = after.act(node, scripts, page, |site, doing| {
                doing.is_wished = matches!(message, Message::Wish { .. });
                if doing.is_wished && doing.world.broken == Broken::Forgetful {
                    *site = Site::from_word(node as u32, 0, site.word() & !SERVED);
                }
                site.receive(from as u32, message, doing)
            });
            if node == 0 && world.sites[0].is_lost() {
                // Who asks is told that there is no such page.
                after.end_threads(from, scripts);
            }
            assert!(
                received != Received::Ignored,
                "kernel {node} does not know what to do with {message:?} of kernel {from}"
            );
            all.push(after);
        }
    }
    all.iter().for_each(World::check);
    all
}

/// Goes through all schedules. From each state that is reached, all accesses can still be done.
fn explore(kernels: usize, scripts: &[Script<'_>], met: &mut Met) -> usize {
    explore_broken(Broken::Nothing, kernels, scripts, met)
}

fn explore_broken(broken: Broken, kernels: usize, scripts: &[Script<'_>], met: &mut Met) -> usize {
    explore_from(World::new(kernels, scripts, broken), scripts, met)
}

/// As [`explore`]; a kernel dies at some time, which the home learns.
fn explore_dying(broken: Broken, mortal: usize, kernels: usize, scripts: &[Script<'_>]) -> usize {
    let start = World { mortal: Some((mortal, Life::Lives)), ..World::new(kernels, scripts, broken) };
    explore_from(start, scripts, &mut Met::new())
}

fn explore_from(start: World, scripts: &[Script<'_>], met: &mut Met) -> usize {
    let kernels = start.sites.len();
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let (mut states, mut before, mut ends) = (vec![start], vec![Vec::new()], Vec::new());
    let mut index = 0;
    while index < states.len() {
        let world = states[index].clone();
        if world.has_ended(scripts) && world.channels.iter().all(VecDeque::is_empty) {
            let is_served = |node: usize| !world.is_dead(node) && world.sites[node].served().is_some();
            // What was wished of a kernel that has died is given up when the home lets go of it.
            let is_settled = !matches!(world.mortal, Some((_, Life::Died | Life::Broken)));
            assert!(!(is_settled && (0..kernels).any(is_served)), "somebody is served for ever");
            ends.push(index);
        }
        for mut after in next(&world, scripts, met) {
            after.messages = 0;
            let number = *numbers.entry(after.clone()).or_insert_with(|| {
                states.push(after);
                before.push(Vec::new());
                states.len() - 1
            });
            before[number].push(index);
        }
        index += 1;
    }
    let (mut reaches, mut todo) = (vec![false; states.len()], ends);
    while let Some(state) = todo.pop() {
        if !std::mem::replace(&mut reaches[state], true) {
            todo.extend(&before[state]);
        }
    }
    let stuck = reaches.iter().filter(|&&reaches| !reaches).count();
    assert_eq!(stuck, 0, "{stuck} of {} states of {kernels} kernels with {scripts:?} lead to no end", states.len());
    states.len()
}

/// In the word of a page: somebody is served.
const SERVED: u64 = 1 << 32;

const ACCESSES: [&[bool]; 4] = [&[false], &[true], &[false, true], &[true, false]];

/// Who is served, and what comes: at which place, the first one's kernel and kind, whether it has lost its copy, the second one's kind and kernel.
const NEEDED: [&str; 22] = [
    "home: own read, own read",
    "home: own read, own write",
    "home: own read, other's read",
    "home: own read, other's write",
    "home: own write, own read",
    "home: own write, own write",
    "home: own write, other's read",
    "home: own write, other's write",
    "home: other's read, own read",
    "home: other's read, own write",
    "home: other's read, other's read",
    "home: other's read, other's write",
    "home: other's write, own read",
    "home: other's write, own write",
    "home: other's write, other's read",
    "home: other's write, other's write",
    "remote: own read, own read",
    "remote: own read, own write",
    "remote: own write, own read",
    "remote: own write, own write",
    "remote: own write that has lost its copy, own read",
    "remote: own write that has lost its copy, own write",
];

fn described(
    (remote, current_remote, invalidated, current_write, write, is_remote): (bool, bool, bool, bool, bool, bool),
) -> String {
    let fault = |is_remote, write| {
        format!("{} {}", if is_remote { "other's" } else { "own" }, if write { "write" } else { "read" })
    };
    let lost = if invalidated { " that has lost its copy" } else { "" };
    let place = if remote { "remote" } else { "home" };
    format!("{place}: {}{lost}, {}", fault(current_remote, current_write), fault(is_remote, write))
}

/// Of Popcorn's rules, those are needed that are listed here, and no schedule asks for another: a holder has no fault of its own when the home asks it,
/// because answers come in the order in which they were sent.
#[test]
fn all_schedules_are_coherent_and_end_and_need_these_rules() {
    let (mut met, mut states) = (Met::new(), 0);
    for first in ACCESSES {
        for second in ACCESSES {
            for third in ACCESSES {
                // Two threads at home or away, or a thread at each of three kernels.
                states += explore(2, &[(0, first), (0, second), (1, third)], &mut met);
                states += explore(2, &[(0, first), (1, second), (1, third)], &mut met);
                states += explore(3, &[(0, first), (1, second), (2, third)], &mut met);
                states += explore(3, &[(1, first), (1, second), (2, third)], &mut met);
            }
        }
    }
    // A kernel has the page, two others and the home want it.
    for (second, third, fourth) in
        [(false, false, false), (false, true, true), (true, false, true), (true, true, false)]
    {
        states += explore(4, &[(1, &[true]), (2, &[second]), (3, &[third]), (0, &[fourth])], &mut met);
    }
    let met: std::collections::BTreeSet<String> = met.into_iter().map(described).collect();
    println!("{states} states, {} rules", met.len());
    let needed = NEEDED.map(str::to_owned).into_iter().collect();
    assert_eq!(met, needed);
}

/// A kernel dies in any state, and is let go of in any later one. Nobody waits for it for ever, nobody reads an old page, and nobody reads one that it alone had.
#[test]
fn nobody_waits_for_a_kernel_that_has_died() {
    let mut states = 0;
    for first in ACCESSES {
        for second in ACCESSES {
            for third in ACCESSES {
                states += explore_dying(Broken::Nothing, 1, 2, &[(0, first), (0, second), (1, third)]);
                states += explore_dying(Broken::Nothing, 1, 3, &[(0, first), (1, second), (2, third)]);
            }
        }
    }
    println!("{states} states");
}

/// Kernels wish for the page at any time, beside what their threads need: nobody is served for ever, and each read sees the last write.
#[test]
fn pages_that_are_wished_for_are_as_right_as_those_that_are_asked_for() {
    let (mut met, mut states) = (Met::new(), 0);
    let mut wishing = |wishes: &[(usize, bool)], kernels: usize, scripts: &[Script<'_>]| {
        let start = World { wishes: wishes.to_vec(), ..World::new(kernels, scripts, Broken::Nothing) };
        states += explore_from(start, scripts, &mut met);
    };
    for first in ACCESSES {
        for second in ACCESSES {
            for wishes in [[(0, false), (1, true)], [(0, true), (1, false)], [(1, false), (1, true)]] {
                wishing(&wishes, 2, &[(0, first), (1, second)]);
                wishing(&wishes, 2, &[(0, first), (0, second), (1, &[true])]);
                wishing(&wishes, 3, &[(0, &[true]), (1, first), (2, second)]);
            }
            wishing(&[(1, true), (2, true)], 3, &[(0, first), (1, second), (2, &[false])]);
        }
    }
    println!("{states} states");
    let met: std::collections::BTreeSet<String> = met.into_iter().map(described).collect();
    assert!(met.iter().all(|rule| NEEDED.contains(&rule.as_str())), "{met:?}");
}

/// As [`nobody_waits_for_a_kernel_that_has_died`], with wishes.
#[test]
fn nobody_waits_for_what_was_wished_of_a_kernel_that_has_died() {
    let mut states = 0;
    for first in ACCESSES {
        for wishes in [[(0, false), (1, true)], [(0, true), (1, false)], [(0, true), (2, true)]] {
            for second in ACCESSES {
                let scripts: [Script<'_>; 3] = [(0, first), (1, second), (2, &[true])];
                let kernels = if wishes[1].0 == 2 { 3 } else { 2 };
                let scripts = &scripts[..kernels];
                let world = World::new(kernels, scripts, Broken::Nothing);
                let start = World { wishes: wishes.to_vec(), mortal: Some((1, Life::Lives)), ..world };
                states += explore_from(start, scripts, &mut Met::new());
            }
        }
    }
    println!("{states} states");
}

/// A wish costs no other kernel anything: it is fulfilled only where the page is at hand.
#[test]
fn nobody_else_is_asked_for_a_wish() {
    let wish = |setup: &[(usize, bool)], (node, from, write): (usize, u32, bool)| {
        let mut world = World::new(3, &[], Broken::Nothing);
        let settle = |world: &mut World| {
            while let Some(channel) = world.channels.iter().position(|messages| !messages.is_empty()) {
                let Some((message, page)) = world.channels[channel].pop_front() else { break };
                let from = channel as u32 / 3;
                world.act(channel % 3, &[], page, |site, doing| site.receive(from, message, doing));
            }
        };
        for &(node, write) in setup {
            let _ = world.act(node, &[], 0, |site, doing| site.fault(write, doing));
            settle(&mut world);
        }
        let before = world.messages;
        let wished = world.act(node, &[], 0, |site, doing| site.wish(from, write, doing));
        settle(&mut world);
        (wished.then(|| world.messages - before), world.sites[node].rights())
    };
    assert_eq!(wish(&[], (1, 0, false)), (Some(2), Rights::Read), "home has it");
    assert_eq!(wish(&[(1, false)], (1, 0, true)), (Some(2), Rights::Write), "both have it: an upgrade");
    assert_eq!(wish(&[(1, true)], (0, 1, true)), (Some(2), Rights::Write), "home wishes for it");
    assert_eq!(
        wish(&[(2, false)], (1, 0, true)),
        (Some(2), Rights::None),
        "a third kernel would have to drop its copy"
    );
    assert_eq!(wish(&[(2, false)], (1, 0, false)), (Some(2), Rights::Read));
    assert_eq!(wish(&[(2, true)], (1, 0, false)), (Some(2), Rights::None), "a third kernel has it");
    assert_eq!(wish(&[(2, true)], (0, 1, false)), (None, Rights::None), "another one is asked");
    assert_eq!(wish(&[(1, false)], (0, 1, true)), (None, Rights::Read), "home asks nobody for what it has");
    assert_eq!(wish(&[], (1, 2, true)), (None, Rights::None), "only the home is asked");
    assert_eq!(wish(&[(1, true)], (1, 0, true)), (None, Rights::Write), "it has it");
}

/// Two messages a miss or an upgrade between two kernels; four where a third one has the page.
#[test]
fn misses_cost_what_they_cost_in_popcorn() {
    let mut world = World::new(3, &[], Broken::Nothing);
    let mut costs = |node: usize, write: bool| {
        let before = world.messages;
        let _ = world.act(node, &[], 0, |site, doing| site.fault(write, doing));
        while let Some(channel) = world.channels.iter().position(|messages| !messages.is_empty()) {
            let Some((message, page)) = world.channels[channel].pop_front() else { break };
            let from = channel as u32 / 3;
            let received = world.act(channel % 3, &[], page, |site, doing| site.receive(from, message, doing));
            assert_ne!(received, Received::Ignored);
        }
        assert!(world.sites[node].rights() >= if write { Rights::Write } else { Rights::Read });
        world.messages - before
    };
    assert_eq!(costs(0, true), 0, "at home, of what nobody else has");
    assert_eq!(costs(1, false), 2, "a read miss");
    assert_eq!(costs(1, true), 2, "an upgrade");
    assert_eq!(costs(0, false), 2, "a read miss at home");
    assert_eq!(costs(0, true), 2, "an upgrade at home");
    assert_eq!(costs(1, true), 2, "a write miss");
    assert_eq!(costs(0, true), 2, "a write miss at home");
    assert_eq!(costs(1, true), 2);
    assert_eq!(costs(2, false), 4, "of what a third kernel writes");
    assert_eq!(costs(2, true), 4, "of what a third kernel reads");
}

/// Who has asked for a page keeps it for a moment. A page that only passes through, and one that nobody has asked for, is no reason to keep others waiting.
#[test]
fn only_who_has_asked_is_given_a_page() {
    let mut world = World::new(3, &[], Broken::Nothing);
    let mut takes = |node: usize, write: bool| {
        let _ = world.act(node, &[], 0, |site, doing| site.fault(write, doing));
        let mut given = Vec::new();
        while let Some(channel) = world.channels.iter().position(|messages| !messages.is_empty()) {
            let Some((message, page)) = world.channels[channel].pop_front() else { break };
            let (from, node) = (channel as u32 / 3, channel % 3);
            let received = world.act(node, &[], page, |site, doing| site.receive(from, message, doing));
            if received == Received::Given {
                given.push(node);
            }
            let again = world.act(node, &[], page, |site, doing| site.receive(from, Message::Retry, doing));
            assert_eq!(again, Received::Ignored, "nobody has asked");
        }
        given
    };
    assert_eq!(takes(1, true), [1]);
    assert_eq!(takes(2, true), [2], "it passes through the home");
    assert_eq!(takes(1, false), [1], "so does its copy");
    assert_eq!(takes(0, true), [0]);
}

/// What kernels rely on: an exploration without it must fail.
#[test]
fn what_is_broken_is_found() {
    let scripts: [Script<'_>; 3] = [(0, &[true, false]), (1, &[true, false]), (2, &[false, true])];
    for broken in [Broken::Order, Broken::Tables, Broken::Waiters] {
        let ended = std::panic::catch_unwind(|| explore_broken(broken, 3, &scripts, &mut Met::new()));
        assert!(ended.is_err(), "nobody notices");
    }
    for broken in [Broken::Unnoted, Broken::Unanswered, Broken::Forgetful, Broken::Wished] {
        let wishes = vec![(0, true), (1, false), (1, true)];
        let start = World { wishes, ..World::new(2, &scripts[..2], broken) };
        let ended = std::panic::catch_unwind(|| explore_from(start, &scripts[..2], &mut Met::new()));
        assert!(ended.is_err(), "nobody notices");
    }
    let ended = std::panic::catch_unwind(|| explore_dying(Broken::Unsent, 1, 3, &scripts));
    assert!(ended.is_err(), "nobody notices");
}
