//! Breadth-first search of a graph in the NxP's memory (Table IV): by the host over the link, and by the NxP, which calls the
//! host for each vertex that it discovers.

use std::{path::PathBuf, time::Duration};

use motet_fabric::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::{
    graphs::Graph,
    machines::{Bench, FLICK_SEARCH_QUANTUM_US, island_of, sum},
    paper::{DATASETS, Dataset},
};
use crate::{
    project,
    report::{Measurement, number},
};

/// Full graphs take an hour on a slow host.
const AT_MOST: Duration = Duration::from_secs(6 * 3600);
/// Graphs up to this size, in bytes, are searched on the Flick machine as it is; larger ones on one with more memory.
const USUAL_BYTES: u64 = 320 << 20;

/// Graphs with less than so many vertices are small: a sixtyfourth of them would fit into the board's cache.
const SMALL_VERTICES: u32 = 100_000;

/// What is searched.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Lists of edges, instead of the generated graphs.
    pub files: Vec<PathBuf>,
    /// Generated graphs have this part of the vertices and edges.
    pub scale: u32,
    /// But for graphs that are small enough to be searched as they are.
    pub small_ones_whole: bool,
    /// Of generated graphs.
    pub seed: u64,
    /// Searches of which the mean is taken.
    pub iterations: u64,
}

impl Choice {
    fn scale_of(&self, dataset: &Dataset) -> u32 {
        if self.small_ones_whole && dataset.vertices < SMALL_VERTICES { 1 } else { self.scale }
    }
}

/// Both searches of a graph.
#[derive(Clone, Debug)]
pub struct Search {
    /// The graph's name.
    pub name: String,
    /// As metrics call it.
    pub key: String,
    /// The row of Table IV, and whether it is of the same size.
    pub dataset: Option<(Dataset, bool)>,
    /// Vertices and edges.
    pub size: [u64; 2],
    /// Seconds of a search by the host, and by the NxP.
    pub seconds: [f64; 2],
    /// Calls from the NxP to the host in each search.
    pub calls: u64,
    described: String,
}

/// Searches all graphs.
///
/// # Errors
/// A graph cannot be read or does not fit, a run fails, or a search does not find what there is.
pub fn measure(bench: &Bench, choice: &Choice) -> Result<Vec<Search>> {
    let program = bench.program("bfs")?;
    let mut searches = Vec::new();
    for path in &choice.files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        eprintln!("motet: reading {}", path.display());
        searches.push(search(bench, &program, choice, &name, &Graph::load(path)?)?);
    }
    if choice.files.is_empty() {
        for dataset in DATASETS {
            let scale = choice.scale_of(&dataset);
            let [vertices, edges] = [dataset.vertices, dataset.edges].map(|size| size / scale);
            eprintln!("motet: making a graph like {}: {vertices} vertices, {edges} edges", dataset.name);
            let graph = Graph::generate(vertices, edges, choice.seed);
            let found = search(bench, &program, choice, dataset.name, &graph)?;
            let key = dataset.key.to_owned();
            searches.push(Search { key, dataset: Some((dataset, scale == 1)), ..found });
        }
    }
    Ok(searches)
}

fn search(bench: &Bench, program: &PathBuf, choice: &Choice, name: &str, graph: &Graph) -> Result<Search> {
    let flick = bench.machine("flick")?;
    let machine = if graph.bytes() <= USUAL_BYTES { flick } else { bench.large(&flick)? };
    let room = machine.machine.pool.size * 5 / 8;
    if graph.bytes() > room {
        let message =
            format!("{name} needs {} MiB of the board's memory, which has {}", graph.bytes() >> 20, room >> 20);
        return Err(Error::new(ErrorKind::Data, message));
    }
    let islands = [island_of(&machine, Isa::X86_64)?, island_of(&machine, Isa::RiscV64)?];
    let file = bench.folder.join("graph");
    graph.write(&file)?;
    let iterations = choice.iterations;
    let command = format!("/in/bfs /in/graph {} {} {iterations}", islands[0], islands[1]);
    let run = bench.run(&machine, FLICK_SEARCH_QUANTUM_US, &[program, &file], &command, AT_MOST)?;
    let found = graph.reached(graph.source());
    let calls = (found - 1) * iterations;
    let wrong =
        |what: &str| Error::new(ErrorKind::Software, format!("{name}: {what}; the program said:\n{}", run.output));
    for who in ["host", "nxp"] {
        if !run.output.lines().any(|line| line == format!("{who} {found} {calls}")) {
            return Err(wrong(&format!("the {who} should find {found} vertices and call {calls} times")));
        }
    }
    if run.crossings(islands[1], islands[0])? != calls {
        return Err(wrong(&format!("{calls} calls should cross to the host")));
    }
    let host = machine.machine.islands[islands[0]].name.as_str();
    let reads = sum(&run.region("host")?.cores, host, |core| core.count("uncached_reads"));
    if reads < iterations * found {
        return Err(wrong("the graph is not in the board's memory"));
    }
    let seconds = |region: &str| Ok::<_, Error>(run.region(region)?.time_ps as f64 / 1e12 / iterations as f64);
    let search = Search {
        name: name.into(),
        key: name.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_"),
        dataset: None,
        size: [u64::from(graph.vertices), graph.edges.len() as u64],
        seconds: [seconds("host")?, seconds("nxp")?],
        calls: found - 1,
        described: project::describe(&machine.machine)?,
    };
    eprintln!("motet: {name}: host {} s, NxP {} s", number(search.seconds[0]), number(search.seconds[1]));
    Ok(search)
}

/// The figures.
pub fn measurements(searches: &[Search], choice: &Choice) -> Vec<Measurement> {
    let mut all = Vec::new();
    for search in searches {
        let [vertices, edges] = search.size;
        let mut add = |name: &str, value: f64, unit, reference: Option<f64>, source: &str| {
            let searches = choice.iterations;
            all.push(Measurement {
                metric: format!("bfs_{}_{name}", search.key),
                value,
                unit,
                machine: search.described.clone(),
                reference,
                source: format!("{vertices} vertices, {edges} edges, mean of {searches}; {source}"),
            });
        };
        let published = search.dataset.filter(|(_, same_size)| *same_size).map(|(dataset, _)| dataset);
        let [host, nxp] = search.seconds;
        let table = if published.is_some() { "reference: Flick, Table IV" } else { "no published figure of this size" };
        add("baseline_s", host, "s", published.map(|row| row.baseline_s), table);
        add("nxp_s", nxp, "s", published.map(|row| row.flick_s), table);
        let flick = search.dataset.map(|(row, _)| row.baseline_s / row.flick_s);
        add("speedup", host / nxp, "times the host's speed", flick, "reference: Flick, Table IV, full size");
    }
    all
}
