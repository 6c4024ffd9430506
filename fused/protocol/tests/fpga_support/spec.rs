//! What the FPGA does, written down a second time, from the paper's side: clients and regions as values, lists as lists.

use super::{AREAS, EXPIRE, FITS, FRAME, FRAMES_MAX, INTERFACES, load_time, result_of};
use motet_protocol::fpga::{Fault, Policy, Status};

/// What a region does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    Idle,
    Busy {
        until: u64,
    },
    Preempt {
        until: u64,
    },
    Switch,
    /// Waits for the port (0), or goes through it.
    Reconfig {
        until: u64,
    },
    Hold {
        until: u64,
    },
}

#[derive(Clone, Debug)]
pub struct Region {
    pub does: Does,
    /// Which accelerator it is.
    pub is: Option<usize>,
    pub client: Option<usize>,
    pub next: Option<usize>,
}

/// A job: frames that it has, and that are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Work {
    frames: u32,
    done: u32,
    outside: bool,
}

#[derive(Clone, Debug)]
pub struct Client {
    pub accelerator: usize,
    pub priority: u32,
    pub deadline: u64,
    pub status: u32,
    pub over: bool,
    pub result: u64,
    pub connected: bool,
    /// It has trapped, and nobody has heard of it.
    trapped: bool,
    /// Its request has been refused, and it has not come again. Nobody hears of it before.
    refused: bool,
    /// Whether its registers are mapped writably, and whether that is to end: now, or when who has its region has begun.
    pub writable: bool,
    pub revoked: bool,
    pub revoked_later: bool,
    /// Its start flag, with what it stored.
    stored: Work,
    started: bool,
    work: Option<Work>,
    requested: u64,
    has_left: bool,
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub policy: Policy,
    pub regions: Vec<Region>,
    pub clients: Vec<Option<Client>>,
    /// Requests that wait, as they came.
    pub list: Vec<usize>,
    /// Regions that wait for the port, as they came, or go through it.
    port: Vec<usize>,
    pub port_faults: u32,
    /// Bitstreams that are not what they say: accelerator and region.
    pub bad: Vec<(usize, usize)>,
    /// Regions that kernels may give to clients, by accelerator; and those that they have given.
    pub offers: Vec<Option<usize>>,
    taken: Vec<(usize, usize)>,
    pub now: u64,
}

impl Client {
    /// A kernel is to take its registers away, now or later.
    fn revokes(&self) -> bool {
        self.revoked || self.revoked_later
    }
}

impl Spec {
    pub fn new(policy: Policy) -> Self {
        let region = Region { does: Does::Idle, is: None, client: None, next: None };
        Self {
            policy,
            regions: vec![region; AREAS.len()],
            clients: vec![None; INTERFACES],
            list: Vec::new(),
            port: Vec::new(),
            port_faults: 0,
            bad: Vec::new(),
            offers: vec![None; FITS.len()],
            taken: Vec::new(),
            now: 0,
        }
    }

    pub fn open(&mut self, accelerator: usize, priority: u32) -> Option<usize> {
        let at = self.clients.iter().position(Option::is_none)?;
        self.clients[at] = Some(Client {
            accelerator,
            priority,
            deadline: 0,
            status: 0,
            over: false,
            result: 0,
            connected: false,
            trapped: false,
            refused: false,
            writable: false,
            revoked: false,
            revoked_later: false,
            stored: Work { frames: 0, done: 0, outside: false },
            started: false,
            work: None,
            requested: 0,
            has_left: false,
        });
        Some(at)
    }

    pub fn is_there(&self, at: usize) -> bool {
        self.clients[at].as_ref().is_some_and(|client| !client.has_left)
    }

    fn client(&mut self, at: usize) -> &mut Client {
        self.clients[at].as_mut().expect("a client")
    }

    fn known(&self, at: usize) -> &Client {
        self.clients[at].as_ref().expect("a client")
    }

    pub fn store(&mut self, at: usize, frames: u32, outside: bool) {
        let accelerator = self.known(at).accelerator;
        let client = self.client(at);
        if !client.writable && !client.connected {
            // Nobody has asked its kernel for registers, as they are not mapped.
            let Some(number) = self.offers[accelerator].take().filter(|_| !self.known(at).revokes()) else {
                self.client(at).trapped = true;
                self.client(at).refused = false;
                return;
            };
            self.taken.push((number, at));
        }
        let client = self.client(at);
        client.writable = true;
        client.stored = Work { frames, done: 0, outside };
        client.started = true;
    }

    /// Kernels take away what was asked of them.
    pub fn answer(&mut self) {
        for client in self.clients.iter_mut().flatten().filter(|client| client.revoked) {
            client.revoked = false;
            client.writable = false;
        }
    }

    pub fn leave(&mut self, at: usize) {
        self.client(at).has_left = true;
    }

    pub fn run(&mut self, until: u64) {
        while let Some((time, region)) = self.next().filter(|(time, _)| *time <= until) {
            self.now = time;
            self.takes();
            self.ends(region);
            self.settle();
        }
        self.now = until;
        self.takes();
        for at in 0..INTERFACES {
            match &self.clients[at] {
                Some(client) if client.has_left => self.gone(at),
                Some(client) if client.trapped && !client.refused => self.hears(at),
                _ => {}
            }
        }
        self.settle();
    }

    /// Regions that kernels have given away.
    fn takes(&mut self) {
        for (number, at) in std::mem::take(&mut self.taken) {
            let is_asked = |client: &Client| client.work.is_some() || client.has_left;
            if is_asked(self.known(at))
                || self.has_request(at)
                || self.regions.iter().any(|region| region.client == Some(at))
            {
                if self.is_there(at) && !self.known(at).connected {
                    self.client(at).revoked = true;
                }
                continue;
            }
            if let Some(before) = self.regions[number].client.filter(|before| self.is_there(*before)) {
                let before = self.client(before);
                before.connected = false;
                before.revoked_later = before.writable;
            }
            self.connect(number, at);
        }
    }

    /// Registers are taken away that were to be taken away later.
    fn revokes_now(&mut self) {
        for client in self.clients.iter_mut().flatten().filter(|client| client.revoked_later) {
            (client.revoked, client.revoked_later) = (true, false);
        }
    }

    fn next(&self) -> Option<(u64, usize)> {
        let until = |does: Does| match does {
            Does::Busy { until } | Does::Preempt { until } | Does::Hold { until } => Some(until),
            Does::Reconfig { until } => Some(until).filter(|until| *until != 0),
            Does::Idle | Does::Switch => None,
        };
        (0..self.regions.len()).filter_map(|at| Some((until(self.regions[at].does)?, at))).min()
    }

    fn hears(&mut self, at: usize) {
        if self.client(at).connected {
            self.client(at).trapped = false;
        } else if !self.regions.iter().any(|region| region.client == Some(at)) {
            self.client(at).trapped = false;
            if !self.has_request(at) {
                self.request(at);
            }
        }
    }

    fn has_request(&self, at: usize) -> bool {
        self.list.contains(&at) || self.regions.iter().any(|region| region.next == Some(at))
    }

    fn request(&mut self, at: usize) {
        let now = self.now;
        self.list.push(at);
        let client = self.client(at);
        client.requested = now;
        client.status = if client.work.is_some() { Status::Preempted } else { Status::Waiting } as u32;
    }

    fn gone(&mut self, at: usize) {
        self.client(at).connected = false;
        self.client(at).revoked = false;
        self.client(at).revoked_later = false;
        self.list.retain(|one| *one != at);
        for number in 0..self.regions.len() {
            let serves_other = self.regions[number].client.is_some_and(|client| self.is_there(client));
            let region = &mut self.regions[number];
            if region.next == Some(at) {
                region.next = None;
                if let (Does::Preempt { until }, true) = (region.does, serves_other) {
                    region.does = Does::Busy { until };
                }
            }
            if region.client == Some(at) {
                match region.does {
                    Does::Busy { until } => region.does = Does::Preempt { until },
                    Does::Idle | Does::Hold { .. } => (region.does, region.client) = (Does::Idle, None),
                    Does::Preempt { .. } | Does::Switch | Does::Reconfig { .. } => {}
                }
            }
        }
    }

    fn ends(&mut self, number: usize) {
        match self.regions[number].does {
            Does::Hold { .. } => {
                self.regions[number].does = Does::Idle;
                self.revokes_now();
            }
            Does::Reconfig { .. } => self.loaded(number),
            Does::Busy { .. } => {
                if let Some(client) = self.regions[number].client.filter(|client| self.is_there(*client)) {
                    let goes_on = self.frame(client);
                    let until = self.now + FRAME[self.known(client).accelerator];
                    self.regions[number].does = if goes_on { Does::Busy { until } } else { Does::Idle };
                } else {
                    self.regions[number].does = Does::Idle;
                }
            }
            Does::Preempt { .. } => {
                if let Some(client) = self.regions[number].client.filter(|client| self.is_there(*client))
                    && self.frame(client)
                {
                    self.client(client).status = Status::Preempted as u32;
                }
                self.switch(number);
            }
            Does::Idle | Does::Switch => unreachable!("nothing ends"),
        }
    }

    /// A frame of a client; whether there are more.
    fn frame(&mut self, at: usize) -> bool {
        let accelerator = self.known(at).accelerator;
        let client = self.client(at);
        let mut work = client.work.expect("it computes");
        work.done += 1;
        let fault = (work.outside && work.done == 2).then_some(Fault::Address);
        if fault.is_none() && work.done < work.frames {
            client.work = Some(work);
            return true;
        }
        client.work = None;
        client.over = true;
        client.result = if fault.is_some() { 0 } else { result_of(accelerator, work.frames) };
        client.status = fault.map_or(Status::Done as u32, Fault::word);
        false
    }

    fn switch(&mut self, number: usize) {
        self.regions[number].does = Does::Switch;
        let is = self.regions[number].is;
        let is_next = self.next_of(number).is_some_and(|next| is == Some(self.known(next).accelerator));
        if let Some(before) = self.regions[number].client.take().filter(|client| self.is_there(*client)) {
            let client = self.client(before);
            client.connected = false;
            (client.revoked, client.revoked_later) = (client.writable && !is_next, client.writable && is_next);
            let trapped = std::mem::take(&mut client.trapped);
            if client.work.is_some() || trapped {
                client.trapped = trapped && client.work.is_some();
                self.request(before);
            }
        }
    }

    fn loaded(&mut self, number: usize) {
        self.port.retain(|one| *one != number);
        let Some(next) = self.next_of(number) else {
            self.regions[number].does = Does::Idle;
            return;
        };
        if self.port_faults > 0 {
            self.port_faults -= 1;
            self.fails(number, Fault::Port);
            return;
        }
        self.regions[number].is = Some(self.known(next).accelerator);
        self.connect(number, next);
    }

    fn fails(&mut self, number: usize, fault: Fault) {
        self.port.retain(|one| *one != number);
        self.regions[number].does = Does::Idle;
        let Some(next) = self.regions[number].next.take() else { return };
        let client = self.client(next);
        if client.work.take().is_some() || std::mem::take(&mut client.started) {
            client.over = true;
            client.result = 0;
        } else {
            client.refused = true;
        }
        client.status = fault.word();
    }

    fn connect(&mut self, number: usize, at: usize) {
        let now = self.now;
        let region = &mut self.regions[number];
        (region.client, region.next) = (Some(at), None);
        let client = self.client(at);
        client.connected = true;
        client.trapped = false;
        client.refused = false;
        let (does, status) = match client.work {
            Some(_) => (Does::Busy { until: now + FRAME[client.accelerator] }, Status::Running),
            None => (Does::Hold { until: now + EXPIRE }, Status::Ready),
        };
        client.status = status as u32;
        let goes_on = client.work.is_some();
        self.regions[number].does = does;
        if goes_on {
            self.revokes_now();
        }
    }

    /// Rounds of: clients begin, one region ends its switch, one gets the port, one request is served; until nothing changes.
    fn settle(&mut self) {
        while self.begins() | self.ends_switch() | self.loads() | self.serves() {}
        let names = |at| self.regions.iter().any(|region| region.client == Some(at) || region.next == Some(at));
        let over = |at: &usize| self.clients[*at].as_ref().is_some_and(|client| client.has_left) && !names(*at);
        for at in (0..INTERFACES).filter(over).collect::<Vec<_>>() {
            self.clients[at] = None;
            self.list.retain(|one| *one != at);
        }
        self.offers = (0..FITS.len()).map(|accelerator| self.offer(accelerator)).collect();
    }

    /// What a client would have at once, if it asked for an accelerator.
    fn offer(&self, accelerator: usize) -> Option<usize> {
        let idle = |number: &usize| FITS[accelerator][*number] && self.regions[*number].does == Does::Idle;
        let is_it = |number: &usize| self.regions[*number].is == Some(accelerator);
        let mut idle = (0..self.regions.len()).filter(idle);
        match self.policy {
            Policy::FewestReconfigurations => idle.find(is_it),
            Policy::SmallestFirst | Policy::Deadline => idle.next().filter(is_it),
        }
    }

    /// For whom a region is made ready. Whoever has gone is nobody.
    fn next_of(&mut self, number: usize) -> Option<usize> {
        let next = self.regions[number].next.filter(|next| self.is_there(*next));
        self.regions[number].next = next;
        next
    }

    fn begins(&mut self) -> bool {
        let mut any = false;
        for at in 0..INTERFACES {
            if !self.is_there(at) || self.known(at).work.is_some() || !self.known(at).started {
                continue;
            }
            let number = self.regions.iter().position(|region| region.client == Some(at));
            if !self.known(at).connected {
                if number.is_none() && !self.has_request(at) {
                    self.request(at);
                    any = true;
                }
                continue;
            }
            let Some(number) = number else { continue };
            if matches!(self.regions[number].does, Does::Idle | Does::Hold { .. }) {
                self.begins_one(number, at);
                any = true;
            }
        }
        any
    }

    fn begins_one(&mut self, number: usize, at: usize) {
        self.revokes_now();
        let until = self.now + FRAME[self.known(at).accelerator];
        let client = self.client(at);
        client.started = false;
        if (1..=FRAMES_MAX).contains(&client.stored.frames) {
            client.over = false;
            client.work = Some(client.stored);
            client.status = Status::Running as u32;
            self.regions[number].does = Does::Busy { until };
        } else {
            client.over = true;
            client.result = 0;
            client.status = Fault::Size.word();
            self.regions[number].does = Does::Idle;
        }
    }

    fn ends_switch(&mut self) -> bool {
        // Whoever is connected again is not to lose its registers afterwards.
        let waits = |region: &Region| {
            let next = region.next.filter(|next| self.is_there(*next));
            next.is_some_and(|next| self.known(next).revoked)
        };
        let Some(number) = self.regions.iter().position(|region| region.does == Does::Switch && !waits(region)) else {
            return false;
        };
        if let Some(next) = self.next_of(number) {
            self.client(next).revoked_later = false;
        }
        match self.next_of(number) {
            None => self.regions[number].does = Does::Idle,
            Some(next) if self.regions[number].is == Some(self.known(next).accelerator) => self.connect(number, next),
            Some(_) => {
                self.regions[number].does = Does::Reconfig { until: 0 };
                self.port.push(number);
            }
        }
        true
    }

    fn loads(&mut self) -> bool {
        let Some(&number) = self.port.first() else { return false };
        if self.regions[number].does != (Does::Reconfig { until: 0 }) {
            return false;
        }
        let Some(next) = self.next_of(number) else {
            self.port.remove(0);
            self.regions[number].does = Does::Idle;
            return true;
        };
        if self.bad.contains(&(self.known(next).accelerator, number)) {
            self.fails(number, Fault::Bitstream);
            return true;
        }
        self.regions[number].is = None;
        self.regions[number].does = Does::Reconfig { until: self.now + load_time(number) };
        true
    }

    fn due(&self, at: usize) -> u64 {
        let client = self.known(at);
        if client.deadline == 0 { u64::MAX } else { client.requested + client.deadline }
    }

    /// The list, as it is served.
    pub fn ordered(&self) -> Vec<usize> {
        let mut list: Vec<_> = self.list.iter().copied().filter(|at| self.is_there(*at)).collect();
        let due = |at| if self.policy == Policy::Deadline { self.due(at) } else { 0 };
        list.sort_by_key(|at| (self.known(*at).priority, due(*at))); // a stable sort: first come, first served
        list
    }

    fn serves(&mut self) -> bool {
        let found = self.ordered().into_iter().find_map(|at| Some((at, self.find(at)?)));
        let Some((at, number)) = found else { return false };
        self.list.retain(|one| *one != at);
        self.regions[number].next = Some(at);
        match self.regions[number].does {
            Does::Busy { until } => self.regions[number].does = Does::Preempt { until },
            _ => self.switch(number),
        }
        true
    }

    fn find(&self, at: usize) -> Option<usize> {
        let me = self.known(at);
        let fits = (0..self.regions.len()).filter(|number| FITS[me.accelerator][*number]);
        let is_other = |number: usize| self.regions[number].is != Some(me.accelerator);
        let (mut idle, mut busy) = (Vec::new(), Vec::new());
        for number in fits {
            let region = &self.regions[number];
            let has_left = region.client.is_some_and(|client| !self.is_there(client));
            match region.does {
                Does::Idle => idle.push((number, self.now)),
                Does::Busy { until }
                    if !has_left && region.client.is_some_and(|client| self.known(client).priority > me.priority) =>
                {
                    busy.push((number, until));
                }
                _ => {}
            }
        }
        let ready = |(number, free): (usize, u64)| free + if is_other(number) { load_time(number) } else { 0 };
        // Regions are in the order of their sizes.
        match self.policy {
            Policy::SmallestFirst => idle.first().or(busy.first()).map(|one| one.0),
            Policy::FewestReconfigurations => {
                let least = |list: &[(usize, u64)]| list.iter().map(|one| one.0).min_by_key(|number| is_other(*number));
                least(&idle).or(least(&busy))
            }
            Policy::Deadline if me.deadline == 0 => idle.first().or(busy.first()).map(|one| one.0),
            Policy::Deadline => {
                let first = idle.first().filter(|one| ready(**one) <= self.due(at));
                let soonest = || idle.iter().chain(&busy).min_by_key(|one| (ready(**one), one.0));
                first.or_else(soonest).map(|one| one.0)
            }
        }
    }
}
