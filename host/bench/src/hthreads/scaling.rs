//! Where each way of asking stops scaling, and why: the measured speed-up, and by the model on to 4,096 cores.

use motet_error::Result;

use super::{
    equations::{self, Server},
    machine::Column,
};

const CORES: [u32; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];

/// The speed-up of one way of asking, beyond what was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct End {
    /// Its name in metrics.
    pub name: &'static str,
    /// Its name in tables and on the page.
    pub title: String,
    /// Its class in the style sheet.
    pub colour: &'static str,
    /// The upper limit of its speed-up; there is none where threads share nothing.
    pub limit: Option<f64>,
    /// The resource that is always busy at the limit.
    pub why: &'static str,
    /// Numbers of cores, with the speed-up over one core.
    pub points: Vec<[f64; 2]>,
}

/// All of them, and the service core once more with a bus that requests wait for.
///
/// # Errors
/// The model refuses.
pub fn ends(columns: &[Column]) -> Result<Vec<End>> {
    let mut ends = Vec::new();
    for column in columns {
        let (name, title) = (column.way.name, column.way.title.to_owned());
        let Some(server) = column.server else {
            ends.push(End { name, title, limit: None, why: why(name), points: straight(column), ..end(column) });
            continue;
        };
        let alone = Server { bus: None, ..server };
        let limit = Some(alone.limit(column.alone));
        ends.push(End { name, title, limit, why: why(name), points: points(column, alone)?, ..end(column) });
        if let Some(limit) = server.bus_limit(column.alone) {
            let title = format!("{}, one bus", column.way.title);
            let (limit, why) = (Some(limit), "a bus that takes one request or answer at a time");
            let name = "hardware_bus";
            ends.push(End { name, title, limit, why, points: points(column, server)?, ..end(column) });
        }
    }
    Ok(ends)
}

fn end(column: &Column) -> End {
    let (colour, why) = (column.way.colour, "");
    End { name: "", title: String::new(), colour, limit: None, why, points: Vec::new() }
}

/// The resource that limits the speed-up, in words.
pub fn why(name: &str) -> &'static str {
    match name {
        "hardware" => "the core executes one operation at a time",
        "software" => "all four servers are busy",
        "rpc" => "the master is busy",
        _ => "nothing: who has a mutex of its own shares nothing",
    }
}

fn points(column: &Column, server: Server) -> Result<Vec<[f64; 2]>> {
    let begin = column.speedup.last().copied();
    let modelled = CORES.iter().map(|&cores| {
        let iterations = equations::iterations(cores, column.alone, server)?;
        Ok([f64::from(cores), iterations * column.alone])
    });
    begin.into_iter().map(Ok).chain(modelled).collect()
}

/// The points of the curve, from one core to the last number that was measured.
fn straight(column: &Column) -> Vec<[f64; 2]> {
    let Some(&[threads, speedup]) = column.speedup.last() else { return Vec::new() };
    let on = CORES.iter().map(|&cores| [f64::from(cores), f64::from(cores) * speedup / threads]);
    std::iter::once([threads, speedup]).chain(on).collect()
}
