//! Graphs for the search: lists of edges from SNAP, or made from a seed with as many vertices and edges.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use motet_error::{Error, ErrorKind, Result};

use crate::project::file_error;

/// An undirected graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Vertices are numbers below this.
    pub vertices: u32,
    /// Both ends of each edge.
    pub edges: Vec<[u32; 2]>,
}

impl Graph {
    /// Reads a list of edges as SNAP has them: two numbers a line, lines of `#` are comments. Vertices are numbered anew, in the
    /// order in which they appear.
    ///
    /// # Errors
    /// The file cannot be read, a line is not an edge, or there is none.
    pub fn load(path: &Path) -> Result<Self> {
        Self::parse(BufReader::new(open(path)?), &path.display().to_string())
    }

    fn parse(text: impl BufRead, name: &str) -> Result<Self> {
        let mut numbers = HashMap::new();
        let mut edges = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let bad = |why: &str| Error::new(ErrorKind::Data, format!("--graph {name}:{}: {why}", index + 1));
            let line = line.map_err(|error| bad(&format!("{error} (unpack the file first: gunzip)")))?;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let ends: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
            let Some(&[a, b]) = ends.as_deref() else {
                return Err(bad("an edge is two numbers of vertices, as in SNAP's lists of edges"));
            };
            let mut number_of = |vertex: u64| {
                let next = numbers.len();
                u32::try_from(*numbers.entry(vertex).or_insert(next)).map_err(|_| bad("more than 2^32 vertices"))
            };
            edges.push([number_of(a)?, number_of(b)?]);
        }
        if edges.is_empty() {
            return Err(Error::new(ErrorKind::Data, format!("--graph {name}: has no edges")));
        }
        Ok(Self { vertices: numbers.len() as u32, edges })
    }

    /// A connected graph whose degrees follow a power law, as social networks' do: a vertex gets its next edge the more likely
    /// the more it has. Edges are sorted by their first vertex, as SNAP's are.
    pub fn generate(vertices: u32, edges: u32, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let (vertices, edges) = (vertices.max(2), edges.max(vertices.max(2) - 1) as usize);
        let mut all: Vec<[u32; 2]> = Vec::with_capacity(edges);
        // An end of an edge is a vertex, chosen by how many edges it has.
        let popular = |all: &[[u32; 2]], random: &mut fastrand::Rng, below: u32| match random.u8(..4) {
            0 => random.u32(..below),
            _ if all.is_empty() => 0,
            _ => all[random.usize(..all.len())][random.usize(..2)],
        };
        for vertex in 1..vertices {
            let other = popular(&all, &mut random, vertex);
            all.push([vertex, other]);
        }
        while all.len() < edges {
            let ends = [popular(&all, &mut random, vertices), popular(&all, &mut random, vertices)];
            all.push(ends);
        }
        // A vertex's number says nothing about how old it is.
        let mut names: Vec<u32> = (0..vertices).collect();
        random.shuffle(&mut names);
        for ends in &mut all {
            *ends = ends.map(|vertex| names[vertex as usize]);
            if random.bool() {
                ends.swap(0, 1);
            }
        }
        all.sort_unstable();
        Self { vertices, edges: all }
    }

    /// Where the search begins: a vertex with most edges.
    pub fn source(&self) -> u32 {
        let mut degrees = vec![0_u32; self.vertices as usize];
        self.edges.iter().flatten().for_each(|vertex| degrees[*vertex as usize] += 1);
        (0..self.vertices).max_by_key(|vertex| degrees[*vertex as usize]).unwrap_or(0)
    }

    /// How many vertices a search from `source` finds, itself included.
    pub fn reached(&self, source: u32) -> u64 {
        let mut parents: Vec<u32> = (0..self.vertices).collect();
        for &[a, b] in &self.edges {
            let (a, b) = (root(&mut parents, a), root(&mut parents, b));
            parents[a as usize] = b;
        }
        let wanted = root(&mut parents, source);
        (0..self.vertices).filter(|vertex| root(&mut parents, *vertex) == wanted).count() as u64
    }

    /// Bytes that the guest program needs for it beside what it searches with: 32 for each edge, 8 for each vertex.
    pub fn bytes(&self) -> u64 {
        32 * self.edges.len() as u64 + 8 * u64::from(self.vertices)
    }

    /// Writes it as the guest program reads it.
    ///
    /// # Errors
    /// The host refuses.
    pub fn write(&self, path: &Path) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(std::fs::File::create(path)?);
            for word in [u64::from(self.vertices), self.edges.len() as u64, u64::from(self.source())] {
                file.write_all(&word.to_le_bytes())?;
            }
            for vertex in self.edges.iter().flatten() {
                file.write_all(&vertex.to_le_bytes())?;
            }
            file.flush()
        };
        write().map_err(file_error(path))
    }
}

/// Opens a list of edges.
///
/// # Errors
/// It cannot be read.
pub fn open(path: &Path) -> Result<std::fs::File> {
    let failed = |error| Error::new(ErrorKind::NoInput, format!("--graph {}: {error}", path.display()));
    std::fs::File::open(path).map_err(failed)
}

/// The vertex that stands for all that are connected with this one so far.
fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
    while parents[vertex as usize] != vertex {
        parents[vertex as usize] = parents[parents[vertex as usize] as usize];
        vertex = parents[vertex as usize];
    }
    vertex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_edges_are_read_and_mistakes_located() {
        let graph = Graph::parse("# Nodes: 3\n5\t7\n7 5\n\n900 5\n".as_bytes(), "f").unwrap();
        assert_eq!(graph, Graph { vertices: 3, edges: vec![[0, 1], [1, 0], [2, 0]] });
        for (text, line) in [("1 2\n1\n", "f:2: "), ("a b\n", "f:1: "), ("1 2 3\n", "f:1: "), ("1 -2\n", "f:1: ")] {
            let error = Graph::parse(text.as_bytes(), "f").unwrap_err();
            assert!(error.message.contains(line), "{error}");
        }
        assert!(Graph::parse("# nothing\n".as_bytes(), "f").unwrap_err().message.contains("no edges"));
        assert!(Graph::load(Path::new("/nowhere/g")).unwrap_err().message.contains("--graph /nowhere/g"));
    }

    #[test]
    fn generated_graphs_are_connected_repeatable_and_have_a_heavy_tail() {
        let graph = Graph::generate(2000, 15000, 7);
        assert_eq!((graph.vertices, graph.edges.len()), (2000, 15000));
        assert!(graph.edges.is_sorted() && graph.edges.iter().flatten().all(|vertex| *vertex < 2000));
        assert_eq!(graph.reached(graph.source()), 2000);
        assert_eq!(graph, Graph::generate(2000, 15000, 7));
        assert_ne!(graph, Graph::generate(2000, 15000, 8));
        let source = graph.source();
        let most = graph.edges.iter().flatten().filter(|vertex| **vertex == source).count();
        assert!(most > 10 * 15, "{most} edges at the most popular vertex, 15 on average");
        assert_eq!(Graph::generate(0, 0, 1).edges.len(), 1);
    }

    #[test]
    fn what_is_not_connected_is_not_reached() {
        let graph = Graph { vertices: 6, edges: vec![[0, 1], [1, 2], [4, 5]] };
        assert_eq!((graph.reached(2), graph.reached(3), graph.reached(4)), (3, 1, 2));
        assert_eq!(graph.source(), 1);
    }

    #[test]
    fn files_have_three_words_and_the_edges() {
        let path = std::env::temp_dir().join(format!("motet-graph-{}", std::process::id()));
        Graph { vertices: 3, edges: vec![[0, 2], [2, 1]] }.write(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let words: Vec<u32> = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [3, 0, 2, 0, 2, 0, 0, 2, 2, 1]);
    }
}
