//! Event by event: a closed network of cores, an interconnect if wanted, and servers.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{Error, Times};

/// Who asks whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Cores, each with one thread.
    pub cores: u32,
    /// Servers.
    pub servers: u32,
    /// Whom a core asks.
    pub queues: Queues,
    /// How long a core computes before it asks.
    pub computing: Times,
    /// How long a service takes.
    pub service: Times,
    /// How long a request keeps the interconnect, one after another, before it is with a server. `None`: there is room for all.
    pub interconnect: Option<Times>,
}

/// Whom a core asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// One server, which is the same each time.
    OfEachServer,
    /// Whichever is free first.
    Shared,
}

/// How long a simulation takes, and which one of all it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Services that are counted. As many as a tenth of it go before, until the queues are as long as they usually are.
    pub requests: u64,
    /// The same seed gives the same times.
    pub seed: u64,
}

/// A mean, and how far the true one is away at most, in 95 of 100 simulations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the confidence interval.
    pub half_width: f64,
}

/// What a simulation has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Cores that compute.
    pub active: Estimate,
    /// Cores that wait for a server, or for the interconnect, and are not served yet.
    pub queued: Estimate,
    /// From a request to the beginning of its service.
    pub waiting: Estimate,
    /// What part of the time a server is busy.
    pub utilization: f64,
}

/// Means of so many batches are taken as independent of each other.
const BATCHES: u64 = 20;

/// Simulates a network.
///
/// # Errors
/// It has no cores or no servers, or times that are none; too few requests.
pub fn simulate(network: &Network, plan: Plan) -> Result<Outcome, Error> {
    check(network, plan)?;
    let mut run = Run::new(network, plan.seed);
    run.until_served(plan.requests / 10);
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        run.sums = Sums::default();
        run.until_served(plan.requests / BATCHES);
        batches.push(run.sums);
    }
    let estimate = |of: fn(&Sums) -> f64| Estimate::of(&batches.iter().map(of).collect::<Vec<_>>());
    let busy: f64 = batches.iter().map(|sums| sums.busy).sum();
    let elapsed: f64 = batches.iter().map(|sums| sums.elapsed).sum();
    Ok(Outcome {
        active: estimate(|sums| sums.active / sums.elapsed),
        queued: estimate(|sums| sums.queued / sums.elapsed),
        waiting: estimate(|sums| sums.waiting / sums.begun.max(1) as f64),
        utilization: busy / elapsed / f64::from(network.servers),
    })
}

fn check(network: &Network, plan: Plan) -> Result<(), Error> {
    if network.cores == 0 || network.servers == 0 {
        return Err(Error::new("there have to be a core and a server"));
    }
    if plan.requests < 10 * BATCHES {
        return Err(Error::new(format!(
            "{} requests are too few for an estimate: at least {}",
            plan.requests,
            10 * BATCHES
        )));
    }
    network.computing.check("computing")?;
    network.service.check("service")?;
    network.interconnect.iter().try_for_each(|times| times.check("interconnect"))
}

impl Estimate {
    /// Of means that are taken as independent and normally distributed.
    fn of(means: &[f64]) -> Self {
        let count = means.len() as f64;
        let mean = means.iter().sum::<f64>() / count;
        let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let quantile = StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::NAN, |student| student.inverse_cdf(0.975));
        Self { mean, half_width: quantile * (variance / count).sqrt() }
    }
}

/// Integrals over time, and sums over requests, of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    elapsed: f64,
    active: f64,
    queued: f64,
    busy: f64,
    /// Of requests whose service has begun, how many, and how long they waited.
    begun: u64,
    waiting: f64,
}

/// What happens to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// It asks.
    Asks,
    /// Its request is through the interconnect.
    Arrives,
    /// A server has served it.
    Served { server: usize },
}

#[derive(Clone, Copy, Debug)]
struct Scheduled {
    at: f64,
    /// Of events at the same time, the one that was scheduled first comes first.
    number: u64,
    core: usize,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The earliest is the greatest, for the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

struct Run<'a> {
    network: &'a Network,
    rng: Rng,
    events: BinaryHeap<Scheduled>,
    scheduled: u64,
    now: f64,
    asked_at: Vec<f64>,
    /// By core: how often it has computed.
    turns: Vec<usize>,
    /// Cores whose requests wait for the interconnect; the first is on it.
    crossing: VecDeque<usize>,
    /// By queue: cores that wait for a server.
    waiting: Vec<VecDeque<usize>>,
    is_busy: Vec<bool>,
    active: u32,
    busy: u32,
    served: u64,
    sums: Sums,
}

impl<'a> Run<'a> {
    fn new(network: &'a Network, seed: u64) -> Self {
        let (cores, servers) = (network.cores as usize, network.servers as usize);
        let queues = if network.queues == Queues::Shared { 1 } else { servers };
        let mut run = Self {
            network,
            rng: Rng::with_seed(seed),
            events: BinaryHeap::with_capacity(cores),
            scheduled: 0,
            now: 0.0,
            asked_at: vec![0.0; cores],
            turns: vec![0; cores],
            crossing: VecDeque::new(),
            waiting: vec![VecDeque::new(); queues],
            is_busy: vec![false; servers],
            active: network.cores,
            busy: 0,
            served: 0,
            sums: Sums::default(),
        };
        // Each begins somewhere in its loop: where times are always the same, who begins together stays together.
        for core in 0..cores {
            run.turns[core] = run.rng.usize(..1 << 16);
            let time = network.computing.sample(&mut run.rng, run.turns[core]) * run.rng.f64();
            run.turns[core] += 1;
            run.schedule(time, core, Event::Asks);
        }
        run
    }

    /// Goes on until so many more requests were served.
    fn until_served(&mut self, requests: u64) {
        let last = self.served + requests;
        while self.served < last {
            let Some(next) = self.events.pop() else { return };
            self.pass(next.at);
            self.act(next.core, next.event);
        }
    }

    fn pass(&mut self, to: f64) {
        let time = to - self.now;
        let queued = self.network.cores - self.active - self.busy;
        self.sums.elapsed += time;
        self.sums.active += time * f64::from(self.active);
        self.sums.queued += time * f64::from(queued);
        self.sums.busy += time * f64::from(self.busy);
        self.now = to;
    }

    fn act(&mut self, core: usize, event: Event) {
        match event {
            Event::Asks => {
                self.active -= 1;
                self.asked_at[core] = self.now;
                self.crossing.push_back(core);
                if self.network.interconnect.is_none() {
                    self.arrive();
                } else if self.crossing.len() == 1 {
                    self.cross();
                }
            }
            Event::Arrives => {
                self.arrive();
                self.cross();
            }
            Event::Served { server } => {
                self.served += 1;
                self.busy -= 1;
                self.is_busy[server] = false;
                self.active += 1;
                self.compute(core);
                self.serve_next(self.queue_of(server));
            }
        }
    }

    fn compute(&mut self, core: usize) {
        let time = self.network.computing.sample(&mut self.rng, self.turns[core]);
        self.turns[core] += 1;
        self.schedule(time, core, Event::Asks);
    }

    /// The next request takes the interconnect, if there is one.
    fn cross(&mut self) {
        if let (Some(&core), Some(times)) = (self.crossing.front(), &self.network.interconnect) {
            let time = times.sample(&mut self.rng, self.turns[core]);
            self.schedule(time, core, Event::Arrives);
        }
    }

    /// The first request on the interconnect is with its server.
    fn arrive(&mut self) {
        let Some(core) = self.crossing.pop_front() else { return };
        let queue = core % self.waiting.len();
        self.waiting[queue].push_back(core);
        self.serve_next(queue);
    }

    /// A server of a queue that is free serves who waits there first.
    fn serve_next(&mut self, queue: usize) {
        let free = match self.network.queues {
            Queues::OfEachServer => Some(queue).filter(|&server| !self.is_busy[server]),
            Queues::Shared => self.is_busy.iter().position(|is_busy| !is_busy),
        };
        let Some(server) = free else { return };
        let Some(core) = self.waiting[queue].pop_front() else { return };
        self.is_busy[server] = true;
        self.busy += 1;
        self.sums.begun += 1;
        self.sums.waiting += self.now - self.asked_at[core];
        let time = self.network.service.sample(&mut self.rng, self.turns[core]);
        self.schedule(time, core, Event::Served { server });
    }

    fn queue_of(&self, server: usize) -> usize {
        server % self.waiting.len()
    }

    fn schedule(&mut self, after: f64, core: usize, event: Event) {
        self.scheduled += 1;
        self.events.push(Scheduled { at: self.now + after, number: self.scheduled, core, event });
    }
}
