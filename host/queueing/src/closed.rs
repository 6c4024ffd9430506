//! Closed form: exponentially distributed times, a queue served in order of arrival.
//!
//! ρ is the mean time of a service over the mean time that a core computes before it asks.

use crate::Error;

/// The mean number of cores that compute, of `cores`, with one server (equations 6 and 7: `N = (1 − π₀)/ρ`).
///
/// Computed by mean value analysis (Reiser and Lavenberg, 1980), which for such a network is exact and, unlike the sum of factorials, does not
/// overflow.
///
/// # Errors
/// `rho` is not a number above 0.
pub fn active_cores(cores: u32, rho: f64) -> Result<f64, Error> {
    if !(rho.is_finite() && rho > 0.0) {
        return Err(Error::new(format!("the ratio of service time to computing time has to be above 0, and is {rho}")));
    }
    let (mut waiting, mut active) = (0.0, 0.0);
    for population in 1..=cores {
        // Who comes finds the queue as it is with one core less (arrival theorem). In units of the time that a core computes.
        let response = rho * (1.0 + waiting);
        active = f64::from(population) / (1.0 + response);
        waiting = active * response;
    }
    Ok(active)
}

/// The same with `servers` of which each serves a part of the cores, as equal as can be (equation 8).
///
/// # Errors
/// As [`active_cores`]; there are no servers.
pub fn active_cores_of_parts(cores: u32, servers: u32, rho: f64) -> Result<f64, Error> {
    let smaller = cores.checked_div(servers).ok_or_else(|| Error::new("there has to be a server"))?;
    let larger_ones = cores % servers;
    Ok(f64::from(larger_ones) * active_cores(smaller + 1, rho)?
        + f64::from(servers - larger_ones) * active_cores(smaller, rho)?)
}

/// The same with `servers` that share one queue.
///
/// # Errors
/// As [`active_cores_of_parts`].
pub fn active_cores_of_pool(cores: u32, servers: u32, rho: f64) -> Result<f64, Error> {
    active_cores(0, rho)?;
    if servers == 0 {
        return Err(Error::new("there has to be a server"));
    }
    // Of the birth-death chain of cores that wait: each state's probability over the last one's, kept near 1 by scaling.
    let (mut probability, mut sum, mut weighted) = (1.0f64, 1.0f64, f64::from(cores));
    for waiting in 1..=cores {
        let (asking, serving) = (f64::from(cores - waiting + 1), f64::from(waiting.min(servers)));
        probability *= asking * rho / serving;
        sum += probability;
        weighted += probability * f64::from(cores - waiting);
        if sum > 1e200 {
            (probability, sum, weighted) = (probability / sum, 1.0, weighted / sum);
        }
    }
    Ok(weighted / sum)
}

/// The mean number of cores that wait for a server and are not served yet (equation 5: `n − N(1 + ρ)`).
pub fn queued(cores: u32, active: f64, rho: f64) -> f64 {
    f64::from(cores) - active * (1.0 + rho)
}

/// The mean time in a queue (equation 4), in units of the mean computing time.
pub fn queueing_time(cores: u32, active: f64, rho: f64) -> f64 {
    queued(cores, active, rho) / active
}
