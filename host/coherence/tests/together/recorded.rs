//! Traces recorded from programs on the machine itself, kernel included: every cost equals the reference's, and every count.
//!
//! `testdata/recorded-*.trace.gz` are those of `./motet bench sim-accuracy --gem5 PATH --record`; `host/bench/src/sim/gem5/recorded.rs`
//! has the programs.

use std::{fs::File, io::BufReader, path::Path};

use motet_coherence::{
    Core, Kind, Model, Picoseconds, Sharing, allocate,
    interleaved::{self, ACCESS_BYTES, Step},
};

use crate::common::reference::Reference;
use crate::common::{config, pool_base};

/// Names, and cores.
const TRACES: [(&str, usize); 5] = [("cg", 1), ("is", 1), ("pipe", 2), ("queue", 2), ("lock", 4)];
/// What the reference takes to be near.
const RANGES: &str =
    "remote_cycles = 300\n[[range]]\nname = \"near-a\"\nend = \"4MiB\"\nnear = [\"a\"]\n[[range]]\nname = \"far\"\n";

fn testdata(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn read(name: &str) -> Vec<Step> {
    let file = File::open(testdata(&format!("recorded-{name}.trace.gz"))).unwrap();
    interleaved::read(BufReader::new(flate2::read::GzDecoder::new(file))).unwrap()
}

fn count(steps: &[Step], is: impl Fn(&Step) -> bool) -> usize {
    steps.iter().filter(|step| is(step)).count()
}

#[test]
fn costs_and_counts_equal_the_references() {
    let text = std::fs::read_to_string(testdata("recorded.toml")).unwrap() + RANGES;
    for (name, core_count) in TRACES {
        let config = config(&[core_count], &text);
        let region = allocate(Model::region_words(&config));
        let mut reference = Reference::new(&config);
        let model = Model::create(config, &region, Sharing::OneAtATime).unwrap();
        let mut cores: Vec<Core<'_>> = (0..core_count).map(|core| model.core(core).unwrap()).collect();
        for (at, step) in read(name).into_iter().enumerate() {
            let address = pool_base(0) + step.address;
            let ours = cores[step.core].access(step.kind, address, ACCESS_BYTES);
            let expected = reference.access(step.core, step.kind, address, ACCESS_BYTES);
            assert_eq!(ours, Picoseconds(expected), "{name}: cost of access {at}: {step}");
        }
        model.check().unwrap();
        for core in 0..core_count {
            assert_eq!(model.counters(core), reference.counters[core], "{name}: core {core}");
        }
    }
}

#[test]
fn traces_have_what_they_are_for() {
    for (name, core_count) in TRACES {
        let steps = read(name);
        assert_eq!(steps.len(), 60_000, "{name}");
        for core in 0..core_count {
            for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                assert!(
                    count(&steps, |step| step.core == core && step.kind == kind) > 500,
                    "{name}: {kind:?} by {core}"
                );
            }
            let atomics = count(&steps, |step| step.core == core && step.kind == Kind::Atomic);
            assert!(core_count == 1 || atomics > 50, "{name}: {atomics} atomics of core {core}");
        }
        // Cores take turns often enough to meet.
        let changes = steps.chunk_by(|a, b| a.core == b.core).count();
        assert!(core_count == 1 || changes > 300, "{name}: {changes} turns");
    }
}
