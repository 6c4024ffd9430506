//! The shipped machine descriptions, and what is refused.

mod common;

use motet_coherence::{Config, Core, Island, Kind, Model, ModelTable, Piece, Policy, Shape, Sharing, Target, allocate};
use serde::Deserialize;

use common::{config, shape};

#[derive(Deserialize)]
struct Machine {
    island: Vec<IslandTable>,
    #[serde(default)]
    model: ModelTable,
}

#[derive(Deserialize)]
struct IslandTable {
    name: String,
    cores: usize,
}

const PRIVATE: u64 = 64 << 20;

fn load(name: &str) -> Config {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(format!("{name}.toml"));
    let machine: Machine = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let island = |table: &IslandTable| Island {
        name: table.name.clone(),
        cores: table.cores,
        memory: vec![
            Piece { local: 0, size: PRIVATE, target: Target::Private(0) },
            // Two pieces, as q35 has them.
            Piece { local: PRIVATE, size: 256 << 20, target: Target::Pool(0) },
            Piece { local: 4 << 30, size: 768 << 20, target: Target::Pool(256 << 20) },
        ],
    };
    let shape = Shape { pool: 1 << 30, islands: machine.island.iter().map(island).collect() };
    machine.model.resolve(&shape).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Nanoseconds of a first load by each island: of its private memory, of the pool's first byte, and of its last line.
fn first_loads(name: &str) -> [[u64; 3]; 2] {
    let config = load(name);
    [0, 1].map(|island| {
        let region = allocate(Model::region_words(&config));
        let model = Model::create(config.clone(), &region, Sharing::Threads).unwrap();
        let mut core = model.core(model.core_number(island, 0)).unwrap();
        let addresses = [0, PRIVATE, (4 << 30) + (768 << 20) - 64];
        addresses.map(|address| core.access(Kind::Load, address, 8).0 / 1000)
    })
}

#[test]
fn memory_models_are_what_they_say() {
    assert_eq!(first_loads("stramash-separated"), [[142, 142, 304], [150, 310, 150]]);
    assert_eq!(first_loads("stramash-shared"), [[142, 304, 304], [150, 310, 310]]);
    assert_eq!(first_loads("stramash-fully-shared"), [[142, 142, 142], [150, 150, 150]]);
    assert_eq!(first_loads("flick"), [[125, 125, 825], [265, 825, 267]]);
    assert_eq!(first_loads("ftm"), [[0; 3], [0; 3]]);
    for size in ["separated", "shared", "fully-shared"] {
        let (small, large) = (load(&format!("stramash-{size}")), load(&format!("stramash-{size}-32m")));
        assert_eq!(small.domains[0].l3.sets * 8, large.domains[0].l3.sets);
        assert_eq!(small.domains.len(), if size == "fully-shared" { 1 } else { 2 });
    }
}

#[test]
fn flick_caches_only_what_it_may() {
    let config = load("flick");
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let (mut host, mut board) = (model.core(0).unwrap(), model.core(1).unwrap());
    let board_memory = 4 << 30 | 512 << 20;
    let twice = |core: &mut Core<'_>, kind, address| [(); 2].map(|()| core.access(kind, address, 8).0);
    assert_eq!(twice(&mut host, Kind::Load, board_memory), [825_000, 825_000]);
    assert_eq!(twice(&mut board, Kind::Load, board_memory), [267_000, 5_000]);
    assert_eq!(twice(&mut board, Kind::Load, PRIVATE), [825_000, 825_000]);
    assert_eq!(twice(&mut board, Kind::Fetch, PRIVATE), [825_000, 0]);
    // Nobody is snooped: the board's copies are its own affair.
    host.access(Kind::Store, PRIVATE, 8);
    assert_eq!(board.access(Kind::Fetch, PRIVATE, 8).0, 0);
    assert_eq!(model.counters(0).snoop_invalidates, 0);
    assert_eq!(model.config().islands[0].segments[0].data, Policy::Coherent);
    model.check().unwrap();
}

#[test]
fn private_memories_do_not_alias() {
    let config = config(&[1, 1], common::TINY);
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let (mut a, mut b) = (model.core(0).unwrap(), model.core(1).unwrap());
    for _ in 0..10 {
        a.access(Kind::Store, 0, 8);
        b.access(Kind::Store, 0, 8);
    }
    assert_eq!((model.counters(0).l1d_misses, model.counters(1).l1d_misses), (1, 1));
    assert_eq!(model.counters(0).snoop_invalidates + model.counters(1).snoop_invalidates, 0);
}

#[test]
fn what_cannot_exist_is_refused_by_key() {
    let core = "[[core]]\nfrequency_mhz = 1000\nmemory_cycles = 1\n";
    for (text, key) in [
        ("[[core]]\nisland = \"z\"\nfrequency_mhz = 1\nmemory_cycles = 1", "model.core.island"),
        ("[[core]]\nisland = \"a\"\nfrequency_mhz = 1\nmemory_cycles = 1", "model.core"),
        (&format!("{core}{core}"), "model.core.island"),
        (&format!("{core}l1d = {{ size = \"3KiB\", ways = 8, cycles = 1 }}"), "model.core.l1d"),
        (
            &format!("{core}l2 = {{ size = \"3KiB\", ways = 3, cycles = 1, replacement = \"tree-plru\" }}"),
            "model.core.l2",
        ),
        (&core.replace("1000", "0"), "model.core.frequency_mhz"),
        (&format!("{core}cpi = -1.0"), "model.core.cpi"),
        (&format!("{core}l3 = {{ size = \"1KiB\", ways = 1, cycles = 1 }}\n[l3]\nsize = 1024\nways = 1"), "model.l3"),
        ("[[range]]\nname = \"x\"\nend = \"1MiB\"", "model.range"),
        ("[[range]]\nname = \"x\"\nstart = \"1MiB\"", "model.range"),
        ("[[range]]\nname = \"private\"", "model.range.name"),
        ("[[range]]\nname = \"x\"\nnear = [\"z\"]", "model.range.near"),
        ("[[access]]\nisland = \"a\"\nrange = \"z\"", "model.access.range"),
        ("[[link.pair]]\nislands = [\"a\", \"z\"]", "model.link.pair.islands"),
    ] {
        let table: ModelTable = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(table.resolve(&shape(&[1, 1])).expect_err(text).key, key, "{text}");
    }
    assert!(toml::from_str::<ModelTable>("colour = 3").is_err());
}
