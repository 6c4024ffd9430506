//! The model's counts beside those of gem5's Ruby with the protocol `MESI_Three_Level`, for traces of one, two and four cores.
//!
//! `testdata/ORIGIN.gem5.txt` is what gem5 counted; `./motet bench sim-accuracy --gem5 PATH --record` makes it anew, with the traces.
//! docs/benchmarks.md says what gem5's protocol does otherwise.

use std::{fs::File, io::BufReader, path::Path};

use motet_coherence::{
    Config, Island, ModelTable, Piece, Shape, Target,
    interleaved::{self, ACCESS_BYTES, Step, Tally},
};

use crate::common::reference::Reference;
use crate::common::{self, pool_base};

/// Whose traces, and how many: patterns, and programs.
const ORIGINS: [(&str, usize); 2] = [("sharing", 8), ("recorded", 5)];
const MEMORY_BYTES: u64 = 16 << 20;
/// Rates of 0 to 1 differ by less.
const HIT_RATES: f64 = 0.02;

fn testdata(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn machine(origin: &str, cores: usize) -> Config {
    let text = std::fs::read_to_string(testdata(&format!("{origin}.toml"))).unwrap();
    let table: ModelTable = toml::from_str(&text).unwrap();
    let memory = vec![Piece { local: 0, size: MEMORY_BYTES, target: Target::Pool(0) }];
    let island = Island { name: "a".into(), cores, memory, traps: Default::default() };
    table.resolve(&Shape { pool: MEMORY_BYTES, islands: vec![island], own: Vec::new() }).unwrap()
}

/// Shares of accesses that L1, L2 and the last level completed.
fn hit_rates(counts: &[u64]) -> [f64; 3] {
    let [fetches, data, fetches_beyond_l1, data_beyond_l1, beyond_l2, memory_reads, ..] = counts else {
        panic!("{counts:?}")
    };
    let beyond_l1 = fetches_beyond_l1 + data_beyond_l1;
    [(beyond_l1, fetches + data), (*beyond_l2, beyond_l1), (*memory_reads, *beyond_l2)]
        .map(|(beyond, all)| 1.0 - beyond as f64 / all.max(1) as f64)
}

fn is_within(ours: f64, theirs: f64, percent: f64) -> bool {
    (ours - theirs).abs() <= theirs * percent / 100.0
}

/// Downgrades where programs share their code, which gem5 does by other rules: those of the reference with these rules.
/// (`tests/recorded.rs` compares the model with the reference, both with the model's rules.)
fn downgrades_by_rules_of_gem5(origin: &str, cores: usize, steps: &[Step]) -> u64 {
    let text = std::fs::read_to_string(testdata(&format!("{origin}.toml"))).unwrap();
    let mut reference = Reference::with_rules_of_gem5(&common::config(&[cores], &text));
    for step in steps {
        reference.access(step.core, step.kind, pool_base(0) + step.address, ACCESS_BYTES);
    }
    reference.counters.iter().map(|counters| counters.peer_data).sum()
}

/// The model beside gem5, for the trace of a line of gem5's counts.
fn compare(origin: &str, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, cores) = (words[0], words[1].parse().unwrap());
    let theirs: Vec<u64> = words[2..].iter().map(|word| word.parse().unwrap()).collect();
    let file = File::open(testdata(&format!("{origin}-{name}.trace.gz"))).unwrap();
    let steps = interleaved::read(BufReader::new(flate2::read::GzDecoder::new(file))).unwrap();
    let ours = interleaved::replay(machine(origin, cores), &steps).unwrap().values();
    for (level, (ours, theirs)) in hit_rates(&ours).into_iter().zip(hit_rates(&theirs)).enumerate() {
        assert!((ours - theirs).abs() < HIT_RATES, "{origin}-{name}: L{} hits {ours}, gem5 {theirs}", level + 1);
    }
    for ((count, ours), theirs) in Tally::NAMES.into_iter().zip(ours).zip(theirs) {
        let percent = match count {
            "latency_ps" => 10.0,
            // Above, as hit rates.
            "fetches_beyond_l1" | "data_beyond_l1" => continue,
            _ => 3.0,
        };
        let ours = match count {
            "downgrades" if origin == "recorded" => downgrades_by_rules_of_gem5(origin, cores, &steps),
            _ => ours,
        };
        assert!(is_within(ours as f64, theirs as f64, percent), "{origin}-{name}: {count} {ours}, gem5 {theirs}");
    }
}

#[test]
fn hit_rates_coherence_and_latencies_are_those_of_gem5() {
    for (origin, traces) in ORIGINS {
        let text = std::fs::read_to_string(testdata(&format!("{origin}.gem5.txt"))).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), traces, "{origin}");
        lines.into_iter().for_each(|line| compare(origin, line));
    }
}
