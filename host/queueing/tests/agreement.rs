//! Closed form and simulation agree with each other, with what textbooks derive, and with the published table.

use motet_queueing::{
    Times,
    closed::{active_cores, active_cores_of_parts, active_cores_of_pool, queued, queueing_time},
    simulate::{Estimate, Network, Outcome, Plan, Queues, simulate},
};
use proptest::prelude::*;

const PLAN: Plan = Plan { requests: 40_000, seed: 7 };

fn network(cores: u32, servers: u32, queues: Queues, rho: f64) -> Network {
    let (computing, service) = (Times::Exponential(1.0), Times::Exponential(rho));
    Network { cores, servers, queues, computing, service, interconnect: None }
}

fn one_server(cores: u32, rho: f64) -> Network {
    network(cores, 1, Queues::Shared, rho)
}

/// Far beyond chance, and less than any mistake in a model makes. Of queues that are next to never there, a simulation sees none.
fn agrees(estimate: Estimate, exact: f64) -> bool {
    (estimate.mean - exact).abs() <= 3.0 * estimate.half_width + 0.002 * exact.abs() + 0.001
}

/// Equation 7, as it stands.
fn by_sum(cores: u32, rho: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for waiting in 1..=cores {
        term *= rho * f64::from(cores - waiting + 1);
        sum += term;
    }
    (1.0 - 1.0 / sum) / rho
}

#[test]
fn small_systems_are_as_computed_by_hand() {
    // One core never waits for another: N = 1/(1 + ρ).
    assert!((active_cores(1, 0.25).unwrap() - 0.8).abs() < 1e-12);
    // Two cores, one server, ρ = 1: states with 0, 1, 2 waiting weigh 1, 2, 2.
    assert!((active_cores(2, 1.0).unwrap() - 0.8).abs() < 1e-12);
    // Two cores, two servers: neither waits.
    assert!((active_cores_of_pool(2, 2, 1.0).unwrap() - 1.0).abs() < 1e-12);
    // Three cores, two servers in one pool, ρ = 1: 1, 3, 3, 3/2.
    assert!((active_cores_of_pool(3, 2, 1.0).unwrap() - 12.0 / 8.5).abs() < 1e-12);
    assert_eq!(active_cores(0, 1.0).unwrap(), 0.0);
}

/// Table II of the paper, with four servers of the microkernels, which it does not state.
#[test]
fn the_published_table_is_met() {
    let cores = [4, 8, 16, 32, 64, 128, 192, 256];
    let hardware = [4.0, 8.0, 16.0, 32.0, 64.0, 127.0, 191.0, 254.0];
    let software = [4.0, 8.0, 15.0, 30.0, 57.0, 80.0, 80.0, 80.0];
    let rpc = [4.0, 7.0, 14.0, 20.0, 20.0, 20.0, 20.0, 20.0];
    for (servers, rho, published) in [(4, 0.005, hardware), (4, 0.05, software), (1, 0.05, rpc)] {
        for (cores, published) in cores.into_iter().zip(published) {
            let active = active_cores_of_parts(cores, servers, rho).unwrap().round();
            assert!(
                (active - published).abs() <= 1.0,
                "{cores} cores, {servers} servers: {active}, published {published}"
            );
        }
    }
}

#[test]
fn ten_thousand_cores_are_no_trouble() {
    // A server that is always busy serves 1/ρ for each core's computing time.
    for pooled in [active_cores_of_pool(10_000, 4, 0.005).unwrap(), active_cores_of_parts(10_000, 4, 0.005).unwrap()] {
        assert!((pooled - 800.0).abs() < 1e-6, "{pooled}");
    }
    let plan = Plan { requests: 100_000, seed: 1 };
    let outcome = simulate(&network(10_000, 4, Queues::Shared, 0.005), plan).unwrap();
    assert!(outcome.utilization > 0.999 && agrees(outcome.queued, queued(10_000, 800.0, 0.005)), "{outcome:?}");
}

/// What a single queue does at any distribution of its times: how many compute follows from how busy the servers are (Little).
#[test]
fn fixed_and_measured_times_obey_littles_law() {
    let measured = Times::measured(&[0.01, 0.01, 0.01, 0.17]);
    assert!((measured.mean() - 0.05).abs() < 1e-12);
    for service in [Times::Fixed(0.05), measured] {
        for computing in [Times::Exponential(1.0), Times::Fixed(1.0)] {
            let network = Network { service: service.clone(), computing, ..one_server(16, 0.05) };
            let outcome = simulate(&network, PLAN).unwrap();
            assert!(
                (outcome.active.mean - outcome.utilization / 0.05).abs() < 0.02 * outcome.active.mean,
                "{outcome:?}"
            );
            let by_law = outcome.queued.mean / outcome.active.mean;
            assert!((outcome.waiting.mean - by_law).abs() < 0.02 * by_law.max(0.05), "{network:?}: {outcome:?}");
        }
    }
}

/// Even times leave more cores to compute than exponential ones, and those more than very uneven ones: Pollaczek and Khinchin's formula has the
/// variance of the service in the same place.
#[test]
fn uneven_services_make_queues() {
    let of = |service| simulate(&Network { service, ..one_server(16, 0.05) }, PLAN).unwrap().active;
    let uneven = [vec![0.0; 19], vec![1.0]].concat();
    let [fixed, exponential, uneven] = [Times::Fixed(0.05), Times::Exponential(0.05), Times::measured(&uneven)].map(of);
    let apart = |a: Estimate, b: Estimate| a.mean - a.half_width > b.mean + b.half_width;
    assert!(apart(fixed, exponential) && apart(exponential, uneven), "{fixed:?} {exponential:?} {uneven:?}");
}

/// An interconnect that takes as long as a service is a second server in a row: of so many cores, what the slower one lets through.
#[test]
fn a_slow_interconnect_is_a_bottleneck() {
    let with = |interconnect| simulate(&Network { interconnect, ..one_server(64, 0.05) }, PLAN).unwrap();
    let slow = with(Some(Times::Exponential(0.1)));
    assert!(agrees(slow.active, 10.0), "{slow:?}");
    let fast = with(Some(Times::Fixed(0.000_1)));
    assert!(agrees(fast.active, active_cores(64, 0.05).unwrap()), "{fast:?}");
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let [first, second] = [3, 3].map(|seed| simulate(&one_server(8, 0.1), Plan { seed, ..PLAN }).unwrap());
    assert_eq!(first, second);
    assert_ne!(first, simulate(&one_server(8, 0.1), Plan { seed: 4, ..PLAN }).unwrap());
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |network: &Network, plan: Plan| simulate(network, plan).unwrap_err().to_string();
    assert_eq!(refused(&one_server(0, 1.0), PLAN), "there have to be a core and a server");
    assert_eq!(refused(&network(1, 0, Queues::OfEachServer, 1.0), PLAN), "there have to be a core and a server");
    for service in
        [Times::Fixed(0.0), Times::Exponential(f64::NAN), Times::measured(&[]), Times::measured(&[1.0, -1.0])]
    {
        let message = refused(&Network { service, ..one_server(1, 1.0) }, PLAN);
        assert!(message.starts_with("service: times have to be finite and above 0"), "{message}");
    }
    let message = refused(&one_server(1, 1.0), Plan { requests: 10, seed: 0 });
    assert_eq!(message, "10 requests are too few for an estimate: at least 200");
    for rho in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(active_cores(4, rho).is_err() && active_cores_of_pool(4, 1, rho).is_err());
    }
    assert!(active_cores_of_parts(4, 0, 1.0).is_err() && active_cores_of_pool(4, 0, 1.0).is_err());
}

fn agreement(outcome: Outcome, cores: u32, active: f64, rho: f64) -> Result<(), TestCaseError> {
    prop_assert!(agrees(outcome.active, active), "{active}: {outcome:?}");
    prop_assert!(agrees(outcome.queued, queued(cores, active, rho)), "{outcome:?}");
    prop_assert!(agrees(outcome.waiting, queueing_time(cores, active, rho)), "{outcome:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mean_value_analysis_is_the_sum(cores in 1..150u32, rho in 0.001..2.0f64) {
        let (exact, sum) = (active_cores(cores, rho).unwrap(), by_sum(cores, rho));
        prop_assert!((exact - sum).abs() < 1e-9 * sum, "{} {}", exact, sum);
        let pool = active_cores_of_pool(cores, 1, rho).unwrap();
        prop_assert!((exact - pool).abs() < 1e-9 * sum, "{} {}", exact, pool);
    }

    #[test]
    fn one_server_is_simulated_as_computed(cores in 1..200u32, rho in 0.002..1.0f64, seed in 0..1000u64) {
        let outcome = simulate(&one_server(cores, rho), Plan { seed, ..PLAN }).unwrap();
        agreement(outcome, cores, active_cores(cores, rho).unwrap(), rho)?;
    }

    #[test]
    fn several_servers_are_simulated_as_computed(
        cores in 1..100u32, servers in 1..8u32, rho in 0.002..1.0f64, seed in 0..1000u64,
    ) {
        let plan = Plan { seed, ..PLAN };
        let pool = simulate(&network(cores, servers, Queues::Shared, rho), plan).unwrap();
        agreement(pool, cores, active_cores_of_pool(cores, servers, rho).unwrap(), rho)?;
        let parts = simulate(&network(cores, servers, Queues::OfEachServer, rho), plan).unwrap();
        agreement(parts, cores, active_cores_of_parts(cores, servers, rho).unwrap(), rho)?;
    }
}
