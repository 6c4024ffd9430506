//! Nanoseconds of host time that the model needs for an access, by where it hits. Run with `--release`; an argument
//! picks those that have it in their names.

use std::hint::black_box;
use std::time::Instant;

use motet_coherence::{
    Config, Core, Held, Island, Kind, Model, ModelTable, Picoseconds, Piece, Shape, Sharing, Target, allocate,
};

const KIB: u64 = 1024;

/// What `motet bench sim-speed` has.
const WITHOUT_L3: &str = "
[[core]]
frequency_mhz = 2000
memory_cycles = 300
l1i = { size = \"32KiB\", ways = 8, cycles = 0 }
l1d = { size = \"32KiB\", ways = 8, cycles = 4 }
l2 = { size = \"1MiB\", ways = 16, cycles = 14 }
";

/// Islands of one core each; `table`: the model, as in a machine's description.
fn config(table: &ModelTable, islands: &[&str]) -> Config {
    let island = |name: &str| Island {
        name: name.into(),
        cores: 1,
        memory: vec![
            Piece { local: 0, size: 64 << 20, target: Target::Private(0) },
            Piece { local: 64 << 20, size: 256 << 20, target: Target::Pool(0) },
        ],
        traps: Default::default(),
    };
    let islands = islands.iter().map(|name| island(name)).collect();
    let shape = Shape { pool: 256 << 20, islands, own: Vec::new() };
    table.resolve(&shape).expect("the model fits the machine")
}

/// Walks `bytes` in steps, again and again, with each way of sharing; nanoseconds per step in the best of many short
/// rounds (so that other programs on the host disturb little), and hit rates.
fn measure(config: &Config, label: &str, bytes: u64, stride: u64, step: impl Fn(&mut Core<'_>, u64) -> Picoseconds) {
    if std::env::args().nth(1).is_some_and(|wanted| !label.contains(&wanted)) {
        return;
    }
    let mut rates = [0.0; 4];
    let best = [Sharing::OneAtATime, Sharing::Threads].map(|sharing| {
        let region = allocate(Model::region_words(config));
        let model = Model::create(config.clone(), &region, sharing).expect("the region is large enough");
        let mut core = model.core(0).expect("nobody else has it");
        let count = (bytes / stride).min(1 << 17);
        let mut at = 0;
        let mut walk = |count: u64| {
            let start = Instant::now();
            core.settle();
            for _ in 0..count {
                black_box(step(&mut core, black_box((64 << 20) + at)));
                at = if at + stride < bytes { at + stride } else { 0 };
            }
            start.elapsed().as_nanos() as f64 / count as f64
        };
        walk(2 * bytes / stride);
        let before = model.counters(0);
        let best = (0..200).map(|_| walk(count.clamp(4096, 16384))).fold(f64::INFINITY, f64::min);
        rates = model.counters(0).since(&before).hit_rates();
        best
    });
    println!("{label:34} {:7.2} {:7.2}   {:.3}   {:.3}   {:.3}", best[0], best[1], rates[1], rates[2], rates[3]);
}

/// A load within a line, as the plugin makes it.
#[inline(never)]
fn load(core: &mut Core<'_>, address: u64) -> Picoseconds {
    load_and_hold(core, address).0
}

#[inline(always)]
fn load_and_hold(core: &mut Core<'_>, address: u64) -> (Picoseconds, Held) {
    core.access_usual(false, address).unwrap_or_else(|| load_unusual(core, address))
}

#[inline(never)]
fn load_unusual(core: &mut Core<'_>, address: u64) -> (Picoseconds, Held) {
    core.access_other(Kind::Load, address)
}

/// A store to what was loaded last.
#[inline(never)]
fn store_again(core: &mut Core<'_>, address: u64) -> Picoseconds {
    black_box(core.modify_recent(address));
    core.accessed_again(0, 1)
}

/// A store, likewise.
#[inline(never)]
fn store(core: &mut Core<'_>, address: u64) -> Picoseconds {
    core.access_other(Kind::Store, address).0
}

/// Nanoseconds of one link of a chain of multiplications: what this host is worth at the moment.
fn cycle() -> f64 {
    let round = || {
        let start = Instant::now();
        let mut sum = black_box(1_u64);
        for _ in 0..1000 {
            for _ in 0..10 {
                sum = black_box(sum.wrapping_mul(3));
            }
        }
        black_box(sum);
        start.elapsed().as_nanos() as f64 / 10_000.0
    };
    (0..200).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    // The kind is known where a plugin calls, and the size usually is.
    println!("{:34} {:7.2}", "multiply through memory", cycle());
    println!("{:34} {:>7} {:>7}   hits L1D L2      L3", "ns per step", "one", "threads");
    let usual = config(&ModelTable::default(), &["a", "b"]);
    measure(&usual, "L1 hit, way used last", 4 * KIB, 64, load);
    measure(&usual, "L1 hit, store", 4 * KIB, 64, store);
    measure(&usual, "L1 hit, 8-byte steps", 32 * KIB, 8, load);
    measure(&usual, "L1 hit, other way each time", 32 * KIB, 64, load);
    measure(&usual, "L2 hit", 512 * KIB, 64, load);
    measure(&usual, "L3 hit", 3 << 20, 64, load);
    measure(&usual, "miss", 64 << 20, 64, load);
    measure(&usual, "sequential, 8-byte steps", 64 << 20, 8, load);
    let load_and_store = |core: &mut Core<'_>, address| {
        let (loaded, held) = load_and_hold(core, address);
        loaded + if held == Held::Only { store_again(core, address) } else { store(core, address) }
    };
    measure(&usual, "16 MiB by lines, load and store", 16 << 20, 64, load_and_store);
    let alone_with_l3 = config(&ModelTable::default(), &["a"]);
    measure(&alone_with_l3, "the same, one island", 16 << 20, 64, load_and_store);
    measure(&alone_with_l3, "miss, one island", 64 << 20, 64, load);
    measure(&alone_with_l3, "L3 hit, one island", 3 << 20, 64, load);
    let without_l3: ModelTable = toml::from_str(WITHOUT_L3).expect("a model");
    measure(&config(&without_l3, &["a", "b"]), "the same without L3", 16 << 20, 64, load_and_store);
    let alone = config(&without_l3, &["a"]);
    measure(&alone, "the same, one island", 16 << 20, 64, load_and_store);
    let small: ModelTable =
        toml::from_str(&WITHOUT_L3.replace("1MiB", "64KiB").replace("32KiB", "4KiB")).expect("a model");
    measure(&config(&small, &["a"]), "small caches, one island", 16 << 20, 64, load_and_store);
    measure(&alone, "L2 hit, one island", 512 * KIB, 64, load);
}
