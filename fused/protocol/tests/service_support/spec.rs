//! What the service core is to do, written down a second time: without lists, without tables of words, one operation after the other.
//!
//! Who stands where in a queue is not kept but found: of all threads that wait for a thing, the most urgent one, and of those the one that
//! has waited longest.

// What is not named is refused, or does nothing, in most rules.
#![allow(clippy::wildcard_enum_match_arm)]

#[path = "objects.rs"]
mod objects;

use std::collections::{BTreeMap, BTreeSet};

use motet_protocol::service::{Answer, Code, DETACHED, HARDWARE, KILLED, Kind, Operation, Request};

/// A window: its page and its number there.
pub type Id = (usize, usize);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    Lock(usize),
    Condition {
        condition: usize,
        mutex: usize,
    },
    /// For the mutex, after a condition variable; what it will be told.
    Regain(usize, Code),
    Barrier(usize),
    End(Id),
    Source(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    Nothing,
    IsNew,
    Ready,
    /// Had a turn, and was answered.
    Stopped,
    Runs,
    Waits(Wait),
    Over,
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub doing: Doing,
    pub priority: u32,
    pub islands: u32,
    /// The island whose slot it has.
    pub island: Option<usize>,
    has_turns: bool,
    is_device: bool,
    begins: bool,
    detached: bool,
    gone: bool,
    value: u32,
    outcome: (Code, u32),
    number: u8,
    /// When it came to where it waits; whose turn was taken came before all that have come by themselves, the last one first.
    since: i64,
    /// When it got its slot, or the priority with which it has it.
    came: i64,
}

#[derive(Clone, Debug)]
pub struct Mutex {
    pub owner: u32,
    kind: Kind,
    pub holder: Option<Id>,
    pub depth: u32,
    taken: i64,
    /// Its holder has died with it; nobody has repaired what it guards.
    abandoned: bool,
    lost: bool,
}

#[derive(Clone, Debug)]
pub struct Source {
    pub thread: Id,
    owner: u32,
    pub pending: u32,
}

#[derive(Clone, Default, Debug)]
pub struct Spec {
    pub mutexes_max: usize,
    pub barriers_max: usize,
    /// Islands of the machine.
    pub islands: u32,
    /// Pages: owner and core.
    pub pages: BTreeMap<usize, (u32, u32)>,
    pub threads: BTreeMap<Id, Thread>,
    pub mutexes: BTreeMap<usize, Mutex>,
    pub conditions: BTreeMap<usize, u32>,
    /// Barriers: owner and count.
    pub barriers: BTreeMap<usize, (u32, u32)>,
    pub sources: BTreeMap<usize, Source>,
    /// By owner and island.
    pub slots: BTreeMap<(u32, usize), u32>,
    /// Words that have been stored into windows.
    pub said: Vec<(Id, u64)>,
    /// Threads whose kernels are told that they have lost their turns, or have them again.
    pub told: BTreeSet<Id>,
    pub now: i64,
}

/// `None`: it waits.
type Reply = Result<Option<(Code, u32)>, Code>;

const DONE: Reply = Ok(Some((Code::Ok, 0)));

fn done(value: usize) -> Reply {
    Ok(Some((Code::Ok, value as u32)))
}

impl Spec {
    pub fn owner(&self, id: Id) -> u32 {
        self.pages[&id.0].0
    }

    fn at(&mut self, id: Id) -> &mut Thread {
        self.threads.get_mut(&id).unwrap()
    }

    fn tick(&mut self) -> i64 {
        self.now += 1;
        self.now
    }

    fn named(&self, id: Id, number: u16) -> Result<Id, Code> {
        let (core, window) = (u32::from(number) / 32, usize::from(number) % 32);
        let page = self.pages.iter().find(|(_, page)| **page == (self.owner(id), core));
        page.map(|(page, _)| (*page, window)).filter(|id| self.threads.contains_key(id)).ok_or(Code::NoThread)
    }

    /// Who waits for something, in the order in which they are served.
    pub fn queue(&self, waits: impl Fn(Doing) -> bool) -> Vec<Id> {
        let mut found: Vec<_> = self.threads.iter().filter(|(_, thread)| waits(thread.doing)).collect();
        found.sort_by_key(|(_, thread)| (thread.priority, thread.since));
        found.into_iter().map(|(id, _)| *id).collect()
    }

    pub fn mutex_queue(&self, mutex: usize) -> Vec<Id> {
        self.queue(|doing| match doing {
            Doing::Waits(Wait::Lock(number) | Wait::Regain(number, _)) => number == mutex,
            _ => false,
        })
    }

    pub fn condition_queue(&self, condition: usize) -> Vec<Id> {
        self.queue(|doing| matches!(doing, Doing::Waits(Wait::Condition { condition: one, .. }) if one == condition))
    }

    pub fn barrier_queue(&self, barrier: usize) -> Vec<Id> {
        self.queue(|doing| doing == Doing::Waits(Wait::Barrier(barrier)))
    }

    pub fn ready(&self, owner: u32) -> Vec<Id> {
        let ready = self.queue(|doing| matches!(doing, Doing::Ready | Doing::Stopped));
        ready.into_iter().filter(|id| self.owner(*id) == owner).collect()
    }

    /// How many threads of a process have slots of an island.
    pub fn running(&self, owner: u32, island: usize) -> usize {
        self.threads.iter().filter(|(id, thread)| self.owner(**id) == owner && thread.island == Some(island)).count()
    }

    fn say(&mut self, id: Id, number: u8, (code, value): (Code, u32)) {
        self.said.push((id, Answer::done(number, code, value).0));
    }

    fn say_outcome(&mut self, id: Id) {
        let (number, outcome) = (self.at(id).number, self.at(id).outcome);
        self.say(id, number, outcome);
    }

    pub fn allot(&mut self, id: Id) {
        let fresh = Thread {
            doing: Doing::Nothing,
            priority: 0,
            islands: 0,
            island: None,
            has_turns: false,
            is_device: false,
            begins: false,
            detached: false,
            gone: false,
            value: 0,
            outcome: (Code::Ok, 0),
            number: 0,
            since: 0,
            came: 0,
        };
        self.threads.insert(id, fresh);
    }

    pub fn ask(&mut self, id: Id, request: Request) {
        let (number, operation) = (request.sequence(), request.operation());
        let Some(thread) = self.threads.get_mut(&id) else { return self.say(id, number, (Code::NoThread, 0)) };
        let doing = thread.doing;
        if matches!(doing, Doing::Ready | Doing::Waits(_)) && operation != Some(Operation::Withdraw) {
            return self.say(id, number, (Code::Waits, 0));
        }
        thread.number = number;
        if doing == Doing::Stopped {
            self.at(id).doing = Doing::Runs;
            self.told.insert(id);
        }
        let thread = self.at(id);
        let reply = match (operation, doing) {
            (None, _) => Err(Code::Unknown),
            (_, Doing::Over) => Err(Code::NoThread),
            (Some(operation), Doing::IsNew) if operation != Operation::Start => Err(Code::Invalid),
            (Some(operation), _) => {
                if doing == Doing::Nothing {
                    thread.doing = Doing::Runs;
                }
                self.does(id, operation, request.object(), request.argument())
            }
        };
        self.ends_operation(id, reply.unwrap_or_else(|code| Some((code, 0))));
    }

    fn ends_operation(&mut self, id: Id, reply: Option<(Code, u32)>) {
        let owner = self.owner(id);
        self.settle(owner, reply.is_some().then_some(id));
        if let Some(outcome) = reply {
            self.at(id).outcome = outcome;
            let thread = self.at(id);
            if thread.doing != Doing::Runs || !thread.has_turns || thread.island.is_some() {
                return self.say_outcome(id);
            }
            self.resume(id, outcome);
            self.settle(owner, None);
        }
        if self.at(id).doing != Doing::Runs {
            let number = self.at(id).number;
            self.said.push((id, Answer::waits(number).0));
        }
    }

    /// Free slots go to the most urgent threads that are ready, and then the turns of less urgent ones. `asks`: a thread that has not been answered.
    fn settle(&mut self, owner: u32, asks: Option<Id>) {
        loop {
            let ready = self.ready(owner);
            let free = ready.iter().find_map(|id| Some((*id, self.free_island(owner, self.threads[id].islands)?)));
            let (id, island) = match free {
                Some(found) => found,
                None => match ready.iter().find_map(|id| Some((*id, self.loser(owner, *id)?))) {
                    Some((id, loser)) => (id, self.loses_turn(loser, asks == Some(loser))),
                    None => return,
                },
            };
            let came = self.tick();
            let thread = self.at(id);
            let is_answered = thread.doing == Doing::Stopped;
            (thread.doing, thread.island, thread.came) = (Doing::Runs, Some(island), came);
            if is_answered {
                self.told.insert(id);
                continue;
            }
            if thread.begins {
                (thread.begins, thread.islands, thread.outcome.1) = (false, 1 << island, island as u32);
            }
            self.say_outcome(id);
        }
    }

    /// Of those that run where a more urgent thread may: the least urgent, and of several the last to come.
    fn loser(&self, owner: u32, urgent: Id) -> Option<Id> {
        let urgent = &self.threads[&urgent];
        let would_do = self.threads.iter().filter(|(id, thread)| {
            self.owner(**id) == owner
                && thread.doing == Doing::Runs
                && thread.island.is_some_and(|island| urgent.islands >> island & 1 != 0)
                && thread.priority > urgent.priority
        });
        would_do.max_by_key(|(_, thread)| (thread.priority, thread.came)).map(|(id, _)| *id)
    }

    /// A thread loses its turn: where. Who `asks` waits for the answer then.
    fn loses_turn(&mut self, id: Id, asks: bool) -> usize {
        let since = -self.tick();
        let thread = self.at(id);
        let island = thread.island.take().unwrap();
        if !asks {
            (thread.doing, thread.since) = (Doing::Stopped, since);
            self.told.insert(id);
        }
        island
    }

    /// The first of those with the most free slots.
    fn free_island(&self, owner: u32, islands: u32) -> Option<usize> {
        let free = |island: usize| {
            let slots = match self.slots.get(&(owner, island)) {
                None | Some(0) => usize::MAX >> 1,
                Some(slots) => *slots as usize,
            };
            // All there are is more than any number.
            slots.saturating_sub(self.running(owner, island)).min(u32::MAX as usize - self.running(owner, island))
        };
        let allowed = (0..8).filter(|island| islands >> island & 1 != 0 && free(*island) > 0);
        allowed.rev().max_by_key(|island| free(*island))
    }

    fn resume(&mut self, id: Id, outcome: (Code, u32)) {
        let since = self.tick();
        let thread = self.at(id);
        (thread.outcome, thread.since) = (outcome, since);
        if thread.has_turns {
            thread.doing = Doing::Ready;
        } else {
            thread.doing = Doing::Runs;
            self.say_outcome(id);
        }
    }

    fn waits(&mut self, id: Id, wait: Wait) -> Reply {
        let since = self.tick();
        let thread = self.at(id);
        (thread.doing, thread.since, thread.island) = (Doing::Waits(wait), since, None);
        Ok(None)
    }

    fn does(&mut self, id: Id, operation: Operation, object: u16, argument: u32) -> Reply {
        match operation {
            Operation::Nothing => DONE,
            Operation::Own => done(self.pages[&id.0].1 as usize * 32 + id.1),
            Operation::Start if self.at(id).doing == Doing::IsNew => {
                let turns = !self.at(id).is_device;
                (self.at(id).has_turns, self.at(id).begins) = (turns, turns);
                self.resume(id, (Code::Ok, 0));
                Ok(None)
            }
            Operation::Start => Err(Code::Invalid),
            Operation::Exit => {
                self.end(id, argument);
                DONE
            }
            Operation::Yield => {
                let owner = self.owner(id);
                if self.at(id).island.is_none() || self.ready(owner).is_empty() {
                    return DONE;
                }
                self.at(id).island = None;
                self.resume(id, (Code::Ok, 0));
                Ok(None)
            }
            Operation::Slots if object < 8 => {
                let owner = self.owner(id);
                self.slots.insert((owner, object.into()), argument);
                DONE
            }
            Operation::Slots => Err(Code::Invalid),
            Operation::Create | Operation::Join | Operation::SetPriority | Operation::Detach | Operation::Delete => {
                self.about_thread(id, operation, object, argument)
            }
            Operation::Withdraw => self.withdraw(id),
            Operation::SourceBind | Operation::SourceWait | Operation::SourceRaise => {
                self.with_source(id, operation, object.into())
            }
            _ => self.with_object(id, operation, object.into(), argument),
        }
    }

    fn about_thread(&mut self, id: Id, operation: Operation, number: u16, argument: u32) -> Reply {
        let target = self.named(id, number)?;
        let joined = self.threads.values().any(|thread| thread.doing == Doing::Waits(Wait::End(target)));
        let (all, since) = (self.islands, self.tick());
        let thread = self.threads.get_mut(&target).unwrap();
        let exists = thread.doing != Doing::Nothing;
        match operation {
            Operation::Create => {
                let islands = if argument >> 8 & 0xff == 0 { all } else { argument >> 8 & 0xff & all };
                if exists || islands == 0 {
                    return Err(Code::Invalid);
                }
                (thread.doing, thread.priority, thread.islands) = (Doing::IsNew, argument & 0xff, islands);
                (thread.detached, thread.is_device) = (argument & DETACHED != 0, argument & HARDWARE != 0);
                done(number.into())
            }
            Operation::Join if target == id => Err(Code::Deadlock),
            Operation::Join | Operation::Detach if thread.detached || joined || !exists => Err(Code::Invalid),
            Operation::Join if thread.doing != Doing::Over => self.waits(id, Wait::End(target)),
            Operation::Join | Operation::Detach => {
                let value = if operation == Operation::Join { thread.value } else { 0 };
                thread.detached = true;
                self.reclaim(target);
                done(value as usize)
            }
            Operation::SetPriority if argument > 255 || !exists || thread.doing == Doing::Over => Err(Code::Invalid),
            Operation::SetPriority => {
                if thread.priority != argument {
                    (thread.priority, thread.since, thread.came) = (argument, since, since);
                }
                DONE
            }
            _ if thread.doing != Doing::IsNew => Err(Code::Invalid),
            _ => {
                self.end(target, KILLED);
                (self.at(target).gone, self.at(target).detached) = (true, true);
                self.reclaim(target);
                DONE
            }
        }
    }

    fn reclaim(&mut self, id: Id) {
        let thread = self.at(id);
        if thread.doing == Doing::Over && thread.detached && thread.gone {
            self.threads.remove(&id);
            self.said.push((id, 0));
        }
    }

    fn end(&mut self, id: Id, value: u32) {
        if self.at(id).doing == Doing::Stopped {
            self.told.insert(id);
        }
        let thread = self.at(id);
        (thread.doing, thread.value, thread.island) = (Doing::Over, value, None);
        let mut held: Vec<_> = self.mutexes.iter().filter(|(_, mutex)| mutex.holder == Some(id)).collect();
        held.sort_by_key(|(_, mutex)| mutex.taken);
        let held: Vec<_> = held.into_iter().rev().map(|(number, _)| *number).collect();
        for number in held {
            self.mutexes.get_mut(&number).unwrap().abandoned = true;
            self.pass_on(number);
        }
        self.sources.retain(|_, source| source.thread != id);
        let joiner = self.queue(|doing| doing == Doing::Waits(Wait::End(id))).first().copied();
        if let Some(joiner) = joiner {
            self.at(id).detached = true;
            self.resume(joiner, (Code::Ok, value));
        }
    }

    pub fn died(&mut self, id: Id) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let was_created = thread.has_turns || thread.is_device || thread.doing == Doing::IsNew;
        if thread.doing != Doing::Over {
            self.end(id, KILLED);
            self.settle(self.owner(id), None);
        }
        self.at(id).gone = true;
        self.at(id).detached |= !was_created;
        self.reclaim(id);
    }

    /// A process has gone.
    pub fn left(&mut self, owner: u32) {
        let of_owner: BTreeSet<_> =
            self.pages.iter().filter(|(_, page)| page.0 == owner).map(|(page, _)| *page).collect();
        for page in &of_owner {
            self.said.extend((0..32).map(|window| ((*page, window), 0)));
        }
        let stopped =
            self.threads.iter().filter(|(id, thread)| of_owner.contains(&id.0) && thread.doing == Doing::Stopped);
        self.told.extend(stopped.map(|(id, _)| *id));
        self.threads.retain(|id, _| !of_owner.contains(&id.0));
        self.mutexes.retain(|_, mutex| mutex.owner != owner);
        self.conditions.retain(|_, one| *one != owner);
        self.barriers.retain(|_, barrier| barrier.0 != owner);
        self.sources.retain(|_, source| source.owner != owner);
        self.slots.retain(|slots, _| slots.0 != owner);
        self.pages.retain(|page, _| !of_owner.contains(page));
    }

    fn withdraw(&mut self, id: Id) -> Reply {
        match self.at(id).doing {
            Doing::Ready | Doing::Waits(Wait::Regain(..)) => {}
            Doing::Waits(Wait::Condition { mutex, .. }) => self.regain(id, mutex, Code::Withdrawn),
            Doing::Waits(_) => self.resume(id, (Code::Withdrawn, 0)),
            _ => return Ok(Some(self.at(id).outcome)),
        }
        Ok(None)
    }
}
