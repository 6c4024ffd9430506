//! The paper's equations with measured times, and the model that goes on from them.

use motet_error::{Error, ErrorKind, Result};
use motet_queueing::{
    Times, closed,
    simulate::{Network, Plan, Queues, simulate},
};

use super::paper;

/// How many starting times are tried; the mean over them counts, on the machine as in the model.
pub const BEGINNINGS: u32 = 20;
const REQUESTS: u64 = 20_000;
/// Two requests in each iteration.
const REQUESTS_OF_ITERATION: f64 = 2.0;

/// Who serves requests, one after the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Server {
    /// How many servers there are.
    pub servers: u32,
    /// Which server a core asks.
    pub queues: Queues,
    /// Cycles for which a server is busy with a request.
    pub service: f64,
    /// Cycles for which a request and its answer would occupy a bus.
    pub bus: Option<f64>,
}

impl Server {
    /// The upper limit of the speed-up: from so many threads on, all servers are always busy. `alone`: cycles of an iteration of one
    /// thread alone.
    pub fn limit(&self, alone: f64) -> f64 {
        f64::from(self.servers) * alone / (REQUESTS_OF_ITERATION * self.service)
    }

    /// The same with a bus that requests wait for.
    pub fn bus_limit(&self, alone: f64) -> Option<f64> {
        self.bus.map(|bus| self.limit(alone).min(alone / (REQUESTS_OF_ITERATION * bus)))
    }
}

/// Equations 3 to 7 for one number of threads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Derived {
    /// Number of threads.
    pub threads: f64,
    /// Cores that compute (N).
    pub active: f64,
    /// Cores that wait for others (E[Nq]).
    pub queued: f64,
    /// How long a request waits, in cycles (Tq).
    pub waiting: f64,
}

/// Cycles that a core computes between two requests.
fn computing() -> f64 {
    let [_, outside, inside] = paper::LOOP.map(f64::from);
    (outside + inside) / REQUESTS_OF_ITERATION
}

/// The ratio of time in services to the time between them, in the paper's loop. `alone`: cycles of an iteration of one thread alone.
pub fn rho(alone: f64) -> f64 {
    alone / REQUESTS_OF_ITERATION / computing() - 1.0
}

/// Equations 3 to 7, for threads that take `cycles` for an iteration each.
pub fn derive(threads: f64, cycles: f64, rho: f64) -> Derived {
    let active = threads * REQUESTS_OF_ITERATION * computing() / cycles;
    let queued = (threads - active * (1.0 + rho)).max(0.0);
    Derived { threads, active, queued, waiting: queued * computing() / active }
}

/// The same by the paper's model, with the ratio that it assumes.
///
/// # Errors
/// The model refuses, which is a mistake here.
pub fn assumed(threads: u32, servers: u32, rho: f64) -> Result<Derived> {
    let active = closed::active_cores_of_parts(threads, servers, rho).map_err(refused)?;
    let (queued, waiting) = (closed::queued(threads, active, rho), closed::queueing_time(threads, active, rho));
    Ok(Derived { threads: threads.into(), active, queued, waiting: waiting * computing() })
}

/// Iterations in a cycle by the model, in which a core does what one alone does: two services, and between them what is left of its time.
///
/// # Errors
/// The model refuses, because the times do not fit together.
pub fn iterations(cores: u32, alone: f64, server: Server) -> Result<f64> {
    let [_, outside, inside] = paper::LOOP.map(f64::from);
    let Server { servers, queues, service, bus } = server;
    // A server that is interrupted by who waits may take longer than one that nobody waits for.
    let other = ((alone - outside - inside) / REQUESTS_OF_ITERATION - service - bus.unwrap_or(0.0)).max(0.0);
    let network = Network {
        cores,
        servers,
        queues,
        computing: Times::InTurn([outside + other, inside + other].into()),
        service: Times::Fixed(service),
        interconnect: bus.map(Times::Fixed),
    };
    throughput(&network)
}

/// The same by the paper's model: all that a request takes is the server's. `pairs`: two of them, as measured.
///
/// # Errors
/// As [`iterations`].
pub fn congregate_iterations(cores: u32, servers: u32, pairs: &[f64]) -> Result<f64> {
    let [_, outside, inside] = paper::LOOP.map(f64::from);
    let services: Vec<f64> = pairs.iter().map(|pair| pair / REQUESTS_OF_ITERATION).collect();
    throughput(&Network {
        cores,
        servers,
        queues: Queues::Shared,
        computing: Times::InTurn([outside, inside].into()),
        service: Times::measured(&services),
        interconnect: None,
    })
}

/// With times that are always the same, who meets whom follows from how the cores began.
fn throughput(network: &Network) -> Result<f64> {
    let per_request = network.service.mean() * REQUESTS_OF_ITERATION / f64::from(network.servers);
    // A server does one after the other while it is busy.
    let begun = (0..BEGINNINGS.into()).map(|seed| {
        simulate(network, Plan { requests: REQUESTS, seed }).map(|outcome| outcome.utilization / per_request)
    });
    Ok(begun.sum::<std::result::Result<f64, _>>().map_err(refused)? / f64::from(BEGINNINGS))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: motet_queueing::Error) -> Error {
    Error::new(ErrorKind::Software, format!("the queueing model refuses: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_of_the_paper_give_what_one_thread_does() {
        let alone = 275.0 * 1.5;
        assert!((rho(alone) - 0.5).abs() < 1e-12);
        let one = derive(1.0, alone, 0.5);
        assert!((one.active - 1.0 / 1.5).abs() < 1e-12 && one.queued.abs() < 1e-12 && one.waiting.abs() < 1e-9);
        // Two threads that wait for each other half of the time.
        let two = derive(2.0, 2.0 * alone, 0.5);
        assert!((two.active - 1.0 / 1.5).abs() < 1e-12 && (two.queued - 1.0).abs() < 1e-12);
        assert!((two.waiting - 137.5 * 1.5).abs() < 1e-9);
    }

    #[test]
    fn assumed_ratios_give_the_published_table() {
        // Of 256 cores 20 compute, 1 is served, and the others wait.
        let many = assumed(256, 1, 0.05).unwrap();
        assert!((many.active - 20.0).abs() < 1e-6 && (many.queued - 235.0).abs() < 1e-6);
        assert!((many.waiting - 235.0 / 20.0 * 137.5).abs() < 1e-3);
        assert!(assumed(4, 1, 0.0).is_err());
    }

    #[test]
    fn the_model_of_one_core_takes_what_it_takes_alone() {
        let server = Server { servers: 1, queues: Queues::Shared, service: 40.0, bus: None };
        assert!((iterations(1, 500.0, server).unwrap() - 1.0 / 500.0).abs() < 1e-6);
        let with_bus = Server { bus: Some(10.0), ..server };
        assert!((iterations(1, 500.0, with_bus).unwrap() - 1.0 / 500.0).abs() < 1e-6);
        assert!((congregate_iterations(1, 1, &[200.0, 250.0]).unwrap() - 1.0 / 500.0).abs() < 1e-5);
    }

    #[test]
    fn servers_and_buses_that_are_always_busy_are_the_limit() {
        let server = Server { servers: 1, queues: Queues::Shared, service: 40.0, bus: None };
        assert!((server.limit(500.0) - 6.25).abs() < 1e-12);
        assert!((iterations(64, 500.0, server).unwrap() - 6.25 / 500.0).abs() < 1e-6);
        let four = Server { servers: 4, queues: Queues::OfEachServer, ..server };
        assert!((iterations(64, 500.0, four).unwrap() - four.limit(500.0) / 500.0).abs() < 1e-5);
        assert_eq!(four.bus_limit(500.0), None);
        let narrow = Server { bus: Some(25.0), ..four };
        assert!((narrow.bus_limit(500.0).unwrap() - 10.0).abs() < 1e-12);
        assert!((iterations(64, 500.0, narrow).unwrap() - 10.0 / 500.0).abs() < 1e-4);
        // Servers that take longer when they are asked by many.
        assert!((iterations(64, 300.0, server).unwrap() - 1.0 / 80.0).abs() < 1e-5);
        // All of a request in the server: one more core than servers, and they wait.
        assert!((congregate_iterations(64, 1, &[200.0]).unwrap() - 1.0 / 200.0).abs() < 1e-6);
    }
}
