//! Breadth-first search of a graph in the NxP's memory (Table IV): by the host over the link, and by the NxP, which calls the
//! host for each vertex that it discovers.

use std::{fmt::Write, path::PathBuf, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use super::{
    graphs::Graph,
    machines::{Bench, FLICK_SEARCH_QUANTUM_US, Protocol, Run, island_of, sum},
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

/// All searches of a graph.
#[derive(Clone, Debug)]
pub struct Search {
    /// The graph's name.
    pub name: String,
    /// Its name in metrics.
    pub key: String,
    /// The row of Table IV, and whether it is of the same size.
    pub dataset: Option<(Dataset, bool)>,
    /// Vertices and edges.
    pub size: [u64; 2],
    /// Seconds of a search by the host.
    pub host_s: f64,
    /// And by the NxP, by each of [`Protocol::BOTH`].
    pub nxp_s: [f64; 2],
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

/// The graph's searches, of which the host's is made once: nothing crosses in it.
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
    let described = project::describe(&machine.machine)?;
    let (iterations, found) = (choice.iterations, graph.reached(graph.source()));
    let host = machine.machine.islands[islands[0]].name.clone();
    let mut host_s = f64::NAN;
    let mut nxp_s = [f64::NAN; 2];
    // Motet's first, which is searched by the host, too.
    for (protocol, nxp_s) in Protocol::BOTH.into_iter().zip(&mut nxp_s).rev() {
        let who = if protocol == Protocol::Motet { &["host", "nxp"][..] } else { &["nxp"] };
        let machine = bench.crossing(machine.clone(), protocol)?;
        let command = format!("/in/bfs /in/graph {} {} {iterations} {}", islands[0], islands[1], who.join(" "));
        let run = bench.run(&machine, FLICK_SEARCH_QUANTUM_US, &[program, &file], &command, AT_MOST)?;
        check(&run, name, who, islands, [found, (found - 1) * iterations])?;
        let seconds = |region: &str| Ok::<_, Error>(run.region(region)?.time_ps as f64 / 1e12 / iterations as f64);
        *nxp_s = seconds("nxp")?;
        if protocol == Protocol::Motet {
            host_s = seconds("host")?;
            let reads = sum(&run.region("host")?.cores, &host, |core| core.count("uncached_reads"));
            if reads < iterations * found {
                return Err(Error::new(ErrorKind::Software, format!("{name}: the graph is not in the board's memory")));
            }
        }
    }
    let search = Search {
        name: name.into(),
        key: name.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_"),
        dataset: None,
        size: [u64::from(graph.vertices), graph.edges.len() as u64],
        host_s,
        nxp_s,
        calls: found - 1,
        described,
    };
    let [flick, ours] = nxp_s.map(number);
    eprintln!("motet: {name}: host {} s, NxP {ours} s, by Flick's protocol {flick} s", number(host_s));
    Ok(search)
}

/// Whether each found what there is, and each discovery of the NxP has crossed.
fn check(run: &Run, name: &str, who: &[&str], [host, nxp]: [usize; 2], [found, calls]: [u64; 2]) -> Result<()> {
    let wrong =
        |what: &str| Error::new(ErrorKind::Software, format!("{name}: {what}; the program said:\n{}", run.output));
    for who in who {
        if !run.output.lines().any(|line| line == format!("{who} {found} {calls}")) {
            return Err(wrong(&format!("the {who} should find {found} vertices and call {calls} times")));
        }
    }
    match run.crossings(nxp, host)? == calls {
        true => Ok(()),
        false => Err(wrong(&format!("{calls} calls should cross to the host"))),
    }
}

/// What was measured, for the table and the JSON file.
pub fn measurements(searches: &[Search], choice: &Choice) -> Vec<Measurement> {
    let mut all = Vec::new();
    for search in searches {
        let [vertices, edges] = search.size;
        let mut add = |prefix: &str, name: &str, value: f64, unit, reference: Option<f64>, source: &str| {
            let searches = choice.iterations;
            all.push(Measurement {
                metric: format!("{prefix}bfs_{}_{name}", search.key),
                value,
                unit,
                machine: search.described.clone(),
                reference,
                target: None,
                source: format!("{vertices} vertices, {edges} edges, mean of {searches}; {source}"),
            });
        };
        let published = search.dataset.filter(|(_, same_size)| *same_size).map(|(dataset, _)| dataset);
        let table = if published.is_some() { "reference: Flick, Table IV" } else { "no published figure of this size" };
        add("", "baseline_s", search.host_s, "s", published.map(|row| row.baseline_s), table);
        let flick = search.dataset.map(|(row, _)| row.baseline_s / row.flick_s);
        for (protocol, nxp_s) in Protocol::BOTH.into_iter().zip(search.nxp_s) {
            let prefix = protocol.prefix();
            add(prefix, "nxp_s", nxp_s, "s", published.map(|row| row.flick_s), table);
            let what = "reference: Flick, Table IV, full size";
            add(prefix, "speedup", search.host_s / nxp_s, "times the host's speed", flick, what);
        }
    }
    all
}

/// The headings of the columns of [`rows`].
pub const COLUMNS: [&str; 12] = [
    "graph",
    "vertices",
    "edges",
    "calls to the host",
    "host, s",
    "NxP, s: Flick's protocol, on this machine",
    "Motet",
    "speed-up: Flick's protocol, on this machine",
    "Motet",
    "Flick's paper (full size): host, s",
    "NxP, s",
    "speed-up",
];

/// A row for each graph.
pub fn rows(searches: &[Search]) -> Vec<[String; 12]> {
    let row = |search: &Search| {
        let published =
            |of: fn(&Dataset) -> f64| search.dataset.as_ref().map_or("–".into(), |(row, _)| number(of(row)));
        let [flick, ours] = search.nxp_s;
        [
            search.name.clone(),
            search.size[0].to_string(),
            search.size[1].to_string(),
            search.calls.to_string(),
            number(search.host_s),
            number(flick),
            number(ours),
            number(search.host_s / flick),
            number(search.host_s / ours),
            published(|row| row.baseline_s),
            published(|row| row.flick_s),
            published(|row| row.baseline_s / row.flick_s),
        ]
    };
    searches.iter().map(row).collect()
}

/// How much faster the NxP searches than the host, for people.
pub fn table(searches: &[Search]) -> String {
    let mut text = String::new();
    let heads =
        ["times the host's speed", "Flick's paper", "its protocol, on this machine", "Motet"].map(str::to_owned);
    let rows = rows(searches).into_iter().map(|[name, .., flick, ours, _, _, paper]| [name, paper, flick, ours]);
    for [name, paper, flick, ours] in (!searches.is_empty()).then_some(heads).into_iter().chain(rows) {
        let _ = writeln!(text, "  {name:<24}{paper:>14}{flick:>32}{ours:>10}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_the_papers_figures_and_both_protocols() {
        let [dataset, ..] = DATASETS;
        let search = Search {
            name: dataset.name.into(),
            key: dataset.key.into(),
            dataset: Some((dataset, true)),
            size: [5, 6],
            host_s: 2.0,
            nxp_s: [4.0, 1.0],
            calls: 4,
            described: String::new(),
        };
        let choice = Choice { files: Vec::new(), scale: 1, small_ones_whole: true, seed: 1, iterations: 1 };
        let all = measurements(std::slice::from_ref(&search), &choice);
        let found: Vec<_> = all.iter().map(|one| (&*one.metric, one.value, one.reference)).collect();
        let wanted = [
            ("bfs_epinions1_baseline_s", 2.0, Some(1.8)),
            ("flick_protocol_bfs_epinions1_nxp_s", 4.0, Some(2.4)),
            ("flick_protocol_bfs_epinions1_speedup", 0.5, Some(0.75)),
            ("bfs_epinions1_nxp_s", 1.0, Some(2.4)),
            ("bfs_epinions1_speedup", 2.0, Some(0.75)),
        ];
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found.0, found.1) == (wanted.0, wanted.1), "{found:?}");
            assert!((found.2.unwrap() - wanted.2.unwrap()).abs() < 1e-9, "{found:?}");
        }
        let text = table(&[search]);
        assert_eq!(
            text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>(),
            ["Epinions1", "0.750", "0.500", "2.000"]
        );
    }
}
