//! Small machines for tests, and events.

pub mod reference;
pub mod tlbs;

use motet_coherence::{
    Config, Core, Counters, Island, Kind, Model, ModelTable, Piece, Shape, Sharing, Target, allocate,
};

/// Bytes of each island's private memory.
pub const PRIVATE: u64 = 1 << 20;
/// Bytes of the pool. It is at `PRIVATE` on even islands and at `3 * PRIVATE` on odd ones.
pub const POOL: u64 = 8 << 20;

/// The local address of the pool's first byte on an island.
pub fn pool_base(island: usize) -> u64 {
    if island % 2 == 0 { PRIVATE } else { 3 * PRIVATE }
}

/// Islands named `a`, `b`, ... with so many cores each.
pub fn shape(cores: &[usize]) -> Shape {
    let island = |(index, &cores): (usize, &usize)| Island {
        name: char::from(b'a' + index as u8).to_string(),
        cores,
        memory: vec![
            Piece { local: 0, size: PRIVATE, target: Target::Private(0) },
            Piece { local: pool_base(index), size: POOL, target: Target::Pool(0) },
        ],
        traps: Default::default(),
    };
    Shape { pool: POOL, islands: cores.iter().enumerate().map(island).collect(), own: Vec::new() }
}

/// Resolves `[model]`'s text, without its first line.
pub fn config(cores: &[usize], text: &str) -> Config {
    let table: ModelTable = toml::from_str(text).expect("a table");
    table.resolve(&shape(cores)).expect("a machine")
}

/// Runs a program on two islands of one core each, with and without threads, and returns their counters.
pub fn run_two(text: &str, program: impl Fn(&mut Core<'_>, &mut Core<'_>)) -> [Counters; 2] {
    let counters = [Sharing::Threads, Sharing::OneAtATime].map(|sharing| {
        let config = config(&[1, 1], text);
        let region = allocate(Model::region_words(&config));
        let model = Model::create(config, &region, sharing).unwrap();
        let (mut a, mut b) = (model.core(0).unwrap(), model.core(1).unwrap());
        program(&mut a, &mut b);
        model.check().unwrap();
        [0, 1].map(|core| model.counters(core))
    });
    assert_eq!(counters[0], counters[1]);
    counters[0]
}

/// The latency in nanoseconds of an access of island 0 or 1 to the pool.
pub fn access(core: &mut Core<'_>, kind: Kind, address: u64) -> u64 {
    let address = pool_base(core.number()) + address;
    core.settle();
    let usual = match kind {
        Kind::Load | Kind::Store => core.access_usual(kind == Kind::Store, address),
        Kind::Fetch | Kind::Atomic | Kind::Walk => None,
    };
    usual.map_or_else(|| core.access(kind, address, 8), |(cost, _)| cost).0 / 1000
}

/// Tiny caches: 8-line L1s, 16-line L2, 32-line L3; everything costs a different amount.
pub const TINY: &str = r#"
    link = { snoop_invalidate_ns = 7000, snoop_data_ns = 9000, back_invalidate_ns = 50, write_back_ns = 20 }
    [[core]]
    frequency_mhz = 1000
    l1i = { size = "512", ways = 2, cycles = 1 }
    l1d = { size = "512", ways = 2, cycles = 2 }
    l2 = { size = "1KiB", ways = 4, cycles = 10 }
    l3 = { size = "2KiB", ways = 4, cycles = 40 }
    peer_cycles = 15
    atomic_cycles = 5
    memory_cycles = 300
    remote_cycles = 640
    [[range]]
    name = "near-a"
    end = "4MiB"
    near = ["a"]
    [[range]]
    name = "far"
"#;

/// One last-level cache for all islands.
pub fn one_l3() -> String {
    let own = "l3 = { size = \"2KiB\", ways = 4, cycles = 40 }";
    format!("l3 = {{ size = \"4KiB\", ways = 8 }}\n{}", TINY.replace(own, "l3_cycles = 40"))
}

/// No last-level cache.
pub fn no_l3() -> String {
    without_l3(TINY)
}

/// The same machine without last-level caches of the islands.
pub fn without_l3(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("l3 = ")).map(|line| format!("{line}\n")).collect()
}

/// Only L1s.
pub fn only_l1() -> String {
    no_l3().replace("l2 = { size = \"1KiB\", ways = 4, cycles = 10 }", "")
}

pub const KINDS: [Kind; 5] = [Kind::Fetch, Kind::Load, Kind::Store, Kind::Atomic, Kind::Walk];

/// An access by a core, to be generated.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub core: usize,
    pub kind: Kind,
    pub address: u64,
    pub size: u32,
}
