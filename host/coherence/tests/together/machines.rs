//! The shipped machine descriptions, and what is refused.

use motet_coherence::{
    Config, Core, Island, Kind, Model, ModelTable, Piece, Policy, Shape, Sharing, Target, TrapCycles, allocate,
};
use serde::Deserialize;

use crate::common::{self, config, shape};

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
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines").join(format!("{name}.toml"));
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
        traps: TrapCycles { syscall: Some([79, 71]), ..TrapCycles::default() },
    };
    let shape = Shape { pool: 1 << 30, islands: machine.island.iter().map(island).collect(), own: Vec::new() };
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
    assert_eq!(first_loads("stramash-shared"), [[142, 142, 304], [150, 310, 310]]);
    assert_eq!(first_loads("stramash-fully-shared"), [[142, 142, 142], [150, 150, 150]]);
    assert_eq!(first_loads("flick"), [[125, 125, 825], [267, 825, 267]]);
    assert_eq!(first_loads("ftm"), [[0; 3], [0; 3]]);
    for size in ["separated", "shared", "fully-shared"] {
        let (small, large) = (load(&format!("stramash-{size}")), load(&format!("stramash-{size}-32m")));
        assert_eq!(small.domains[0].l3.sets * 8, large.domains[0].l3.sets);
        assert_eq!(small.domains.len(), if size == "fully-shared" { 1 } else { 2 });
    }
}

/// Nanoseconds of loads by the kernel of each island, for kernels that have one each: of its own memory's last line, of a line of the window that nobody has,
/// and of one that the other kernel has written; and of a store to one that it has read.
fn window_accesses(name: &str) -> [[u64; 4]; 2] {
    let config = load(name);
    let local = |mib: u64| (4 << 30) + ((mib - 256) << 20);
    [0, 1].map(|island| {
        let region = allocate(Model::region_words(&config));
        let model = Model::create(config.clone(), &region, Sharing::Threads).unwrap();
        let [mut own, mut other] = [island, 1 - island].map(|island| model.core(model.core_number(island, 0)).unwrap());
        let window = local(888);
        other.access(Kind::Store, window + 64, 8);
        other.access(Kind::Load, window + 128, 8);
        let loads = [local(444 * (island as u64 + 1)) - 64, window, window + 64];
        let [memory, nobodys, written] = loads.map(|address| own.access(Kind::Load, address, 8).0 / 1000);
        [memory, nobodys, written, own.access(Kind::Store, window + 128, 8).0 / 1000]
    })
}

/// Stramash, section 8.2: windows are near to x86-64, far from both, or near to both, and all other memory is near to who has it.
#[test]
fn windows_between_kernels_are_as_near_as_the_memory_model_says() {
    assert_eq!(window_accesses("multikernel-separated"), [[142, 142, 302, 302], [150, 310, 470, 470]]);
    assert_eq!(window_accesses("multikernel-shared"), [[142, 304, 464, 464], [150, 310, 470, 470]]);
    assert_eq!(window_accesses("multikernel-fully-shared"), [[142, 142, 38, 38], [150, 150, 30, 30]]);
}

/// What they are compared with differs in nothing but the kernels.
#[test]
fn machines_with_a_kernel_for_each_island_have_the_cores_and_links_of_the_fused_ones() {
    for model in ["separated", "shared", "fully-shared"] {
        let [kernels, fused] = ["multikernel", "stramash"].map(|os| load(&format!("{os}-{model}")));
        assert_eq!((&kernels.domains, &kernels.links), (&fused.domains, &fused.links));
        for (own, other) in kernels.islands.iter().zip(&fused.islands) {
            assert_eq!(
                (own.timing, own.l1i, own.l1d, own.l2, &own.tlbs),
                (other.timing, other.l1i, other.l1d, other.l2, &other.tlbs)
            );
        }
        let costs = |config: &Config| {
            [config.device_ps, config.device_store_ps, config.write_back_ps, config.back_invalidate_ps]
        };
        assert_eq!(costs(&kernels), costs(&fused));
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
fn fetches_that_memory_serves_have_a_latency_of_their_own() {
    let rule = |range: &str, keys: &str| format!("[[access]]\nisland = \"a\"\nrange = \"{range}\"\n{keys}\n");
    let first = |keys: [&str; 2]| {
        let text = format!("{}{}{}", common::TINY, rule("private", keys[0]), rule("far", keys[1]));
        let config = config(&[1, 1], &text);
        let region = allocate(Model::region_words(&config));
        let model = Model::create(config, &region, Sharing::Threads).unwrap();
        let mut core = model.core(0).unwrap();
        let far = common::pool_base(0) + (4 << 20);
        let times = [(Kind::Fetch, 0), (Kind::Load, 64), (Kind::Fetch, far), (Kind::Load, far + 64)]
            .map(|(kind, at)| core.access(kind, at, 4).0 / 1000);
        assert_eq!(model.counters(0).stall_ps() / 1000, times.iter().sum::<u64>());
        times
    };
    assert_eq!(first(["", ""]), [300, 300, 640, 640]);
    assert_eq!(first(["fetch_ns = 825", "fetch_ns = 700"]), [825, 300, 700, 640]);
    assert_eq!(first(["memory_ns = 400", "memory_ns = 900\nfetch_ns = 800"]), [400, 400, 800, 900]);
    assert_eq!(first(["fetch_ns = 50", "data = \"uncached\"\nfetch_ns = 825"]), [50, 300, 825, 640]);
    // A hit costs what it costs, and once a load has read the line, no memory is asked.
    let config = config(&[1, 1], &format!("{}{}", common::TINY, rule("private", "fetch_ns = 825")));
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let mut core = model.core(0).unwrap();
    let kinds = [Kind::Fetch, Kind::Fetch, Kind::Load];
    assert_eq!(kinds.map(|kind| core.access(kind, 0, 4).0 / 1000), [825, 1, 10]);
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

const CORE: &str = "[[core]]\nfrequency_mhz = 1000\nmemory_cycles = 100\n";

/// The message with which a table is refused, for islands `a` and `b` and a pool of 8 MiB.
fn refused(text: &str) -> String {
    let table: ModelTable = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    table.resolve(&shape(&[1, 1])).expect_err(text).to_string()
}

/// A cache of the core table.
fn cache(name: &str, size: &str, ways: u64, cycles: u64) -> String {
    format!("{name} = {{ size = \"{size}\", ways = {ways}, cycles = {cycles} }}\n")
}

#[test]
fn caches_that_cannot_be_built_are_refused() {
    let l1 = cache("l1d", "1KiB", 2, 1);
    for (text, want) in [
        (
            cache("l1d", "3KiB", 8, 1),
            "model.core.l1d.size: 3KiB in 8 ways of 64 bytes: the number of sets must be a power",
        ),
        (cache("l1d", "15MiB", 20, 1), "would do"),
        (cache("l1d", "100", 1, 1), "model.core.l1d.size: 100 bytes"),
        (cache("l1d", "0", 1, 1), "model.core.l1d.size: 0 bytes"),
        (cache("l1d", "2GiB", 16, 1), "model.core.l1d.size: 2GiB; a cache has"),
        (cache("l1i", "1KiB", 0, 1), "model.core.l1i.ways: 0"),
        (cache("l1i", "1KiB", 4_294_967_295, 1), "model.core.l1i.ways: 4294967295"),
        (cache("l1i", "1KiB", 1, 1_000_001), "model.core.l1i.cycles: 1000001; at most"),
        (cache("l2", "1KiB", 1, 1), "model.core.l2: without l1i or l1d"),
        (format!("{l1}{}", cache("l2", "512", 1, 2)), "model.core.l2.size: 512 bytes is less than the 1KiB of l1d"),
        (format!("{l1}{}", cache("l3", "512", 1, 2)), "model.core.l3.size: 512 bytes is less than the 1KiB of l1d"),
        (format!("{l1}l3_cycles = 3\n[l3]\nsize = 512\nways = 1"), "model.l3.size: 512 bytes is less"),
        (
            format!("{l1}{}[l3]\nsize = 1024\nways = 1", cache("l3", "1KiB", 1, 2)),
            "model.core.l3: [model.l3] is one for all",
        ),
        (format!("{l1}[l3]\nsize = 1024\nways = 1"), "model.core.l3_cycles: is missing"),
        (format!("{l1}l3_cycles = 3"), "model.core.l3_cycles: is the latency of [model.l3], which there is not"),
        (format!("{l1}l3_cycles = 3\n[l3]\nsize = 3072\nways = 1"), "model.l3.size: 3KiB in 1 ways"),
        (
            "l1d = { size = \"3KiB\", ways = 3, cycles = 1, replacement = \"tree-plru\" }".into(),
            "model.core.l1d.ways: 3; tree-plru",
        ),
    ] {
        let message = refused(&format!("{CORE}{text}"));
        assert!(message.contains(want), "{want:?} not in {message:?}");
    }
    let huge = cache("l1d", "1GiB", 1, 1) + &cache("l2", "1GiB", 1, 1);
    let message = refused(&format!("{CORE}{huge}"));
    assert!(message.starts_with("model: the caches are too large"), "{message}");
}

#[test]
fn latencies_that_contradict_each_other_are_refused() {
    let (l1, l2) = (cache("l1d", "1KiB", 2, 5), cache("l2", "1KiB", 2, 4));
    let far = "[[range]]\nname = \"x\"\nnear = [\"a\"]\n";
    let rule = |keys: &str| format!("{far}[[access]]\nisland = \"b\"\nrange = \"x\"\n{keys}");
    for (text, want) in [
        (format!("{l1}{l2}"), "model.core.l2.cycles: 4 cycles are less than the 5 of l1d"),
        (cache("l1i", "1KiB", 2, 101), "model.core.memory_cycles: 100 cycles are less than the 101 of l1i"),
        (
            format!("{l1}l3_cycles = 4\n[l3]\nsize = 1024\nways = 1"),
            "model.core.l3_cycles: 4 cycles are less than the 5",
        ),
        (format!("{l1}{}", cache("l3", "1KiB", 2, 4)), "model.core.l3.cycles: 4"),
        ("remote_cycles = 99".into(), "model.core.remote_cycles: 99 cycles are less than the 100 of memory"),
        (far.into(), "model.core.remote_cycles: is missing: \"x\" is not near to \"b\""),
        (rule("data = \"uncached\""), "model.core.remote_cycles: is missing"),
        (rule("memory_ns = 99"), "model.access.memory_ns: 99000 ps are less than the 100000 ps of near memory"),
        (
            format!("{l1}{}", rule("memory_ns = 200\nstore_ns = 3")),
            "model.access.store_ns: is for stores past the caches",
        ),
        (
            format!("{l1}[[access]]\nisland = \"a\"\nrange = \"private\"\nmemory_ns = 4"),
            "model.access.memory_ns: 4000 ps are less than the 5000 ps of the caches",
        ),
        (rule("memory_ns = 200\nfetch_ns = 99"), "model.access.fetch_ns: 99000 ps are less than the 100000 ps of near"),
        (
            format!("{}[[access]]\nisland = \"a\"\nrange = \"private\"\nfetch_ns = 4", cache("l1i", "1KiB", 2, 5)),
            "model.access.fetch_ns: 4000 ps are less than the 5000 ps of the caches",
        ),
        (
            "[[access]]\nisland = \"a\"\nrange = \"records\"\nfetch_ns = 400".into(),
            "model.access.fetch_ns: is of instructions, and there are none in records",
        ),
        (
            "[[access]]\nisland = \"a\"\nrange = \"private\"\nfetch_ns = 1000000001".into(),
            "model.access.fetch_ns: 1000000001; at most 1000000000 nanoseconds",
        ),
    ] {
        let message = refused(&format!("{CORE}{text}"));
        assert!(message.contains(want), "{want:?} not in {message:?}");
    }
}

#[test]
fn numbers_out_of_bounds_are_refused() {
    let most = i64::MAX;
    for key in ["doorbell_ns", "device_ns", "device_store_ns"] {
        assert!(refused(&format!("{key} = {most}")).starts_with(&format!("model.{key}: {most}; at most")));
    }
    for key in ["snoop_invalidate_ns", "snoop_data_ns", "transit_ns", "back_invalidate_ns", "write_back_ns"] {
        assert!(refused(&format!("[link]\n{key} = {most}")).starts_with(&format!("model.link.{key}: {most}; at most")));
    }
    for key in ["snoop_invalidate_ns", "snoop_data_ns", "transit_ns", "doorbell_ns"] {
        let text = format!("[[link.pair]]\nislands = [\"a\", \"b\"]\n{key} = {most}");
        assert!(refused(&text).starts_with(&format!("model.link.pair.{key}: {most}; at most")));
    }
    assert!(refused(&format!("[dma]\nsetup_ns = {most}")).starts_with(&format!("model.dma.setup_ns: {most}; at most")));
    for ns in [0, 1_000_001, most] {
        let message = format!("model.dma.kib_ns: {ns}; 1024 bytes take 1 to 1000000 nanoseconds");
        assert_eq!(refused(&format!("[dma]\nkib_ns = {ns}")), message);
    }
    for key in ["peer_cycles", "atomic_cycles", "remote_cycles"] {
        assert!(refused(&format!("{CORE}{key} = {most}")).starts_with(&format!("model.core.{key}: {most}; at most")));
    }
    for mhz in ["0", "100001", "9223372036854775807"] {
        let text = CORE.replace("1000", mhz);
        assert!(refused(&text).starts_with(&format!("model.core.frequency_mhz: {mhz}; ")));
    }
    for cpi in ["0", "0.0", "-1.0", "nan", "inf", "1e300", "1000.1"] {
        assert!(refused(&format!("{CORE}cpi = {cpi}")).starts_with("model.core.cpi: "), "{cpi}");
        let text = format!("{CORE}cpi_class = {{ float = {cpi} }}");
        assert!(refused(&text).starts_with("model.core.cpi_class.float: "), "{cpi}");
    }
}

#[test]
fn ranges_that_do_not_cover_the_pool_once_are_refused() {
    let range = |name: &str, keys: &str| format!("[[range]]\nname = \"{name}\"\nnear = [\"a\", \"b\"]\n{keys}\n");
    let first = range("x", "end = \"4MiB\"");
    for (text, want) in [
        (range("x", "end = \"1MiB\""), "model.range.end: the last range ends at 1MiB, the pool at 8MiB"),
        (range("x", "start = \"1MiB\""), "model.range.start: 1MiB leaves a hole after the pool's beginning"),
        (format!("{first}{}", range("y", "start = \"5MiB\"")), "model.range.start: 5MiB leaves a hole after \"x\""),
        (
            format!("{first}{}", range("y", "start = \"3MiB\"")),
            "model.range.start: 3MiB overlaps \"x\", which ends at 4MiB",
        ),
        (format!("{first}{}", range("y", "end = \"4MiB\"")), "model.range.end: \"y\" is empty"),
        (format!("{first}{}", range("y", "end = \"9MiB\"")), "model.range.end: 9MiB is beyond the pool"),
        (format!("{}{}", range("x", ""), range("y", "")), "model.range: \"y\" is empty"),
        (range("x", "end = 9223372036854775807"), "is beyond the pool"),
        (range("x", "end = 1000"), "model.range.end: 1000 bytes is not a multiple of 4KiB"),
        (format!("{first}{}", range("x", "")), "model.range.name: two ranges are called \"x\""),
        (range("private", ""), "model.range.name: \"private\" cannot"),
        (range("", ""), "model.range.name: \"\" cannot"),
        (
            "[[range]]\nname = \"x\"\nnear = [\"z\"]".into(),
            "model.range.near: there is no island \"z\"; the islands are a, b",
        ),
        ("[[range]]\nname = \"x\"\nnear = [\"a\", \"a\"]".into(), "model.range.near: \"a\" twice"),
    ] {
        let message = refused(&text);
        assert!(message.contains(want), "{want:?} not in {message:?}");
    }
}

#[test]
fn names_that_are_unknown_or_used_twice_are_refused() {
    let pair = |one: &str, other: &str| format!("[[link.pair]]\nislands = [\"{one}\", \"{other}\"]\n");
    let access = |island: &str, range: &str| format!("[[access]]\nisland = \"{island}\"\nrange = \"{range}\"\n");
    for (text, want) in [
        (format!("{CORE}island = \"z\""), "model.core.island: there is no island \"z\""),
        (format!("{CORE}island = \"a\""), "model.core: there is none for island \"b\""),
        (format!("{CORE}{CORE}"), "model.core: there is a [[model.core]] without `island` already"),
        (
            format!("{CORE}island = \"a\"\n{CORE}island = \"a\""),
            "model.core.island: \"a\" has a [[model.core]] already",
        ),
        (access("z", "private"), "model.access.island: there is no island \"z\""),
        (access("a", "z"), "model.access.range: there is no range \"z\""),
        (access("a", "private").repeat(2), "model.access: \"a\" has a [[model.access]] to \"private\" already"),
        (
            format!("{}data = \"private\"", access("a", "private")),
            "model.access.data: an island's private memory is its own",
        ),
        (
            format!("{}fetch = \"private\"", access("a", "private")),
            "model.access.fetch: an island's private memory is its",
        ),
        (pair("a", "z"), "model.link.pair.islands: there is no island \"z\""),
        (pair("a", "a"), "model.link.pair.islands: \"a\" twice"),
        (
            format!("{}{}", pair("a", "b"), pair("b", "a")),
            "model.link.pair.islands: \"b\" and \"a\" have a table already",
        ),
    ] {
        let message = refused(&text);
        assert!(message.contains(want), "{want:?} not in {message:?}");
    }
    assert!(toml::from_str::<ModelTable>("colour = 3").is_err());
}

#[test]
fn more_cores_than_a_directory_has_bits_are_refused() {
    let table: ModelTable = toml::from_str("[l3]\nsize = \"4MiB\"\nways = 16").unwrap();
    assert!(table.resolve(&shape(&[64])).is_ok());
    let error = table.resolve(&shape(&[16; 5])).unwrap_err();
    assert_eq!(error.to_string(), "model.l3: 80 cores are under it; at most 64 are possible");
}

#[test]
fn what_is_an_islands_own_is_in_memory_near_it_where_there_is_some() {
    let text = format!(
        "{CORE}remote_cycles = 300\n[[range]]\nname = \"low\"\nend = \"{}KiB\"\nnear = [\"a\"]\n\
         [[range]]\nname = \"high\"\nnear = [\"b\"]\n",
        common::POOL / 2048
    );
    let own = vec![(4096, 8192, 0), (8192, 12288, 1)];
    let shape = Shape { own, ..common::shape(&[1, 1]) };
    let config = toml::from_str::<ModelTable>(&text).unwrap().resolve(&shape).unwrap();
    let far = |island: usize, offset: u64| {
        let at = common::pool_base(island) + offset;
        config.islands[island].segments.iter().find(|s| (s.local..s.local + s.size).contains(&at)).unwrap().far
    };
    assert_eq!([0, 4096, 8192, 12287, 12288].map(|at| far(0, at)), [false, false, true, true, false]);
    assert_eq!([0, 4096, 8192, 12287, 12288].map(|at| far(1, at)), [true, true, false, false, true]);
}
