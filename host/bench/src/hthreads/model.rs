//! How many cores compute, by queueing models: as published, beyond, and with times that the paper does not assume.

use motet_error::{Error, ErrorKind, Result};
use motet_queueing::{
    Times, closed,
    simulate::{Network, Outcome, Plan, Queues, simulate},
};

use super::paper::{CORES, STRUCTURES, Structure};
use crate::report::{Measurement, number};

/// Numbers of cores beyond the published ones.
const BEYOND: [u32; 4] = [512, 1024, 2048, 4096];
/// Services that are simulated at each point.
const REQUESTS: u64 = 400_000;
const QUICK_REQUESTS: u64 = 40_000;

/// How many cores compute at a time, for one number of cores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Number of cores.
    pub cores: u32,
    /// Cores that compute, in closed form.
    pub closed: f64,
    /// The same, simulated with exponential times.
    pub simulated: f64,
    /// The same, simulated with services that all take the same time.
    pub even: f64,
    /// The paper's value.
    pub published: Option<f64>,
}

/// The curve of one structure: a point for each number of cores.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// The structure.
    pub structure: Structure,
    /// Its points.
    pub points: Vec<Point>,
}

/// Computes all points.
///
/// # Errors
/// The model refuses, which is a mistake here.
pub fn compute(quick: bool) -> Result<Vec<Curve>> {
    let requests = if quick { QUICK_REQUESTS } else { REQUESTS };
    let curve = |structure: Structure| {
        eprintln!("motet: simulating {} for 4 to {} cores", structure.title, BEYOND[BEYOND.len() - 1]);
        let published = structure.active.map(Some).into_iter().chain(BEYOND.map(|_| None));
        let points = CORES.into_iter().chain(BEYOND).zip(published);
        let points = points.map(|(cores, published)| point(&structure, cores, published, requests));
        Ok(Curve { structure, points: points.collect::<Result<_>>()? })
    };
    STRUCTURES.into_iter().map(curve).collect()
}

fn point(structure: &Structure, cores: u32, published: Option<f64>, requests: u64) -> Result<Point> {
    let Structure { servers, rho, .. } = *structure;
    let active = |service: Times| simulated(cores, servers, service, requests).map(|outcome| outcome.active.mean);
    Ok(Point {
        cores,
        closed: closed::active_cores_of_parts(cores, servers, rho).map_err(refused)?,
        simulated: active(Times::Exponential(rho))?,
        even: active(Times::Fixed(rho))?,
        published,
    })
}

fn simulated(cores: u32, servers: u32, service: Times, requests: u64) -> Result<Outcome> {
    let (queues, computing) = (Queues::OfEachServer, Times::Exponential(1.0));
    let network = Network { cores, servers, queues, computing, service, interconnect: None };
    simulate(&network, Plan { requests, seed: cores.into() }).map_err(refused)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: motet_queueing::Error) -> Error {
    Error::new(ErrorKind::Software, format!("the queueing model refuses: {error}"))
}

/// What was measured, for the table and the JSON file.
pub fn measurements(curves: &[Curve]) -> Vec<Measurement> {
    let measurement = |metric: String, value: f64, unit, source: &str| Measurement {
        metric,
        value,
        unit,
        machine: "a queueing model".into(),
        reference: None,
        target: None,
        source: source.into(),
    };
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let errors = points().filter_map(|point| Some((point.closed.round() - point.published?).abs()));
    let apart = points().map(|point| 100.0 * (point.simulated / point.closed - 1.0).abs());
    let mut all = vec![
        Measurement {
            target: Some(1.0),
            ..measurement(
                "table2_max_error_cores".into(),
                errors.fold(0.0, f64::max),
                "cores",
                "closed form, rounded, beside hthreads, Table II; 4 servers of microkernels",
            )
        },
        measurement(
            "model_simulated_over_closed_max_percent".into(),
            apart.fold(0.0, f64::max),
            "percent",
            "simulation with exponential times beside the closed form, at 4 to 4096 cores",
        ),
    ];
    for Curve { structure, points } in curves {
        let source = format!("closed form, {} servers, rho {}", structure.servers, structure.rho);
        for point in points {
            let metric = format!("active_cores_{}_{}", point.cores, structure.name);
            all.push(Measurement { reference: point.published, ..measurement(metric, point.closed, "cores", &source) });
        }
    }
    all
}

/// The headings of the columns of [`rows`].
pub const COLUMNS: [&str; 6] = ["cores that compute", "of", "closed form", "simulated", "even services", "the paper"];

/// The rows of the printed table.
pub fn rows(curves: &[Curve]) -> Vec<[String; 6]> {
    let of = |curve: &Curve| {
        let title = curve.structure.title;
        let row = move |point: &Point| {
            let published = point.published.map_or("–".into(), number);
            let [closed, simulated, even] = [point.closed, point.simulated, point.even].map(number);
            [title.to_owned(), point.cores.to_string(), closed, simulated, even, published]
        };
        curve.points.iter().map(row).collect::<Vec<_>>()
    };
    curves.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_where_the_paper_is() {
        let curves = compute(true).unwrap();
        let all = measurements(&curves);
        let value = |metric: &str| all.iter().find(|one| one.metric == metric).unwrap().value;
        assert!(value("table2_max_error_cores") <= 1.0);
        assert!(value("model_simulated_over_closed_max_percent") < 2.0);
        // Servers that are always busy.
        assert!((value("active_cores_4096_rpc") - 20.0).abs() < 1e-6);
        assert!((value("active_cores_4096_hardware") - 800.0).abs() < 1e-6);
        assert_eq!(rows(&curves).len(), STRUCTURES.len() * (CORES.len() + BEYOND.len()));
    }
}
