//! The model's counts equal those of another cache simulator, QEMU's own contrib plugin `cache`, on a recorded program.
//!
//! `testdata/kernels.trace.gz` is everything that a bare RISC-V machine did to run small NAS kernels
//! (`user/kernels/src/bare.rs`); `kernels.contrib.txt` is what contrib counted meanwhile, in several geometries.
//! `./motet bench sim-accuracy --record` makes both anew.

use std::{io::Read, path::Path, sync::LazyLock};

use motet_coherence::{
    Core, Counters, Island, Kind, LINE_SIZE, Model, ModelTable, Piece, Shape, Sharing, Target, allocate,
    trace::{self, Reader, Run},
};

/// One line of contrib's counts.
struct Contrib {
    /// Bytes and ways of L1D, L1I and L2.
    caches: [u64; 6],
    data: u64,
    data_misses: u64,
    instructions: u64,
    instruction_misses: u64,
    l2: u64,
    l2_misses: u64,
}

fn testdata(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn counts() -> Vec<Contrib> {
    let text = std::fs::read_to_string(testdata("kernels.contrib.txt")).unwrap();
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [a, b, c, d, e, f, data, data_misses, instructions, instruction_misses, l2, l2_misses] = numbers[..] else {
            panic!("twelve numbers: {line}")
        };
        Contrib { caches: [a, b, c, d, e, f], data, data_misses, instructions, instruction_misses, l2, l2_misses }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// The trace, unpacked once for all tests.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(testdata("kernels.trace.gz")).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
});

/// Contrib knows instructions by where QEMU has them in its own memory, and data by the guest's addresses. So a line with
/// both is two lines to it; instructions are therefore replayed at addresses of their own.
const CODE: u64 = 1 << 40;
const RAM: u64 = 0x8000_0000;
const RAM_BYTES: u64 = 64 << 20;

/// QEMU's `virt` with one core: boot ROM and RAM, and both again for instructions.
fn machine<R>(caches: &str, run: impl FnOnce(&mut Core<'_>) -> R) -> (R, Counters) {
    let text = format!("[[core]]\nfrequency_mhz = 1000\nmemory_cycles = 100\n{caches}");
    let table: ModelTable = toml::from_str(&text).unwrap();
    let pieces = [(0, 0), (RAM, RAM_BYTES), (CODE, 2 * RAM_BYTES), (CODE + RAM, 3 * RAM_BYTES)];
    let piece = |(local, at)| Piece { local, size: RAM_BYTES, target: Target::Pool(at) };
    let memory = pieces.map(piece).to_vec();
    let shape = Shape {
        pool: 4 * RAM_BYTES,
        islands: vec![Island { name: "riscv".into(), cores: 1, memory, traps: Default::default() }],
        own: Vec::new(),
    };
    let config = table.resolve(&shape).unwrap();
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::OneAtATime).unwrap();
    let mut core = model.core(0).unwrap();
    let result = run(&mut core);
    model.check().unwrap();
    drop(core);
    (result, model.counters(0))
}

fn runs() -> impl Iterator<Item = Run> {
    let at_code = |run: Run| Run { line: run.line + CODE / LINE_SIZE, ..run };
    Reader::new(&BYTES[..]).unwrap().map(move |run| at_code(run.unwrap()))
}

fn cache(name: &str, bytes: u64, ways: u64) -> String {
    format!("{name} = {{ size = {bytes}, ways = {ways}, cycles = 1 }}\n")
}

fn first_level([d, d_ways, i, i_ways, ..]: [u64; 6]) -> String {
    cache("l1d", d, d_ways) + &cache("l1i", i, i_ways)
}

#[test]
fn the_first_level_counts_exactly_as_contrib_does() {
    for contrib in counts() {
        let (instructions, counted) = machine(&first_level(contrib.caches), |core| {
            runs()
                .map(|run| {
                    trace::replay(core, &run);
                    run.instructions
                })
                .sum::<u64>()
        });
        assert_eq!(instructions, contrib.instructions);
        assert_eq!(counted.loads + counted.stores, contrib.data);
        // No access of the program crosses a line, where the two would differ: contrib looks at the first line only.
        assert_eq!((counted.straddles, counted.device_accesses), (0, 0));
        assert_eq!(counted.l1d_misses, contrib.data_misses, "{:?}", contrib.caches);
        assert_eq!(counted.l1i_misses, contrib.instruction_misses, "{:?}", contrib.caches);
    }
}

/// Contrib's L2 is a cache of what L1 misses, and does not include it. The model can be put together like that.
#[test]
fn a_second_level_of_what_the_first_misses_counts_exactly_as_contribs() {
    for contrib in counts().into_iter().filter(|contrib| contrib.caches[4] > 0) {
        let second = cache("l1d", contrib.caches[4], contrib.caches[5]);
        let (first, behind) = machine(&second, |second| {
            machine(&first_level(contrib.caches), |first| {
                for run in runs() {
                    let hit = first.access(Kind::Fetch, run.line * LINE_SIZE, 64);
                    if hit.0 > 1000 {
                        second.access(Kind::Load, run.line * LINE_SIZE, 64);
                    }
                    for access in run.accesses {
                        let kind = if access.store { Kind::Store } else { Kind::Load };
                        let size = 1 << access.size_log2;
                        if first.access(kind, access.address, size).0 > 1000 {
                            second.access(Kind::Load, access.address, size);
                        }
                    }
                }
            })
            .1
        });
        assert_eq!(first.l1d_misses + first.l1i_misses, contrib.l2, "{:?}", contrib.caches);
        assert_eq!((behind.loads, behind.l1d_misses), (contrib.l2, contrib.l2_misses), "{:?}", contrib.caches);
    }
}

/// The model as it is: L2 includes L1, so what leaves L2 leaves L1, and is missed there when it is needed again.
#[test]
fn an_inclusive_second_level_differs_by_what_it_takes_from_the_first() {
    for contrib in counts().into_iter().filter(|contrib| contrib.caches[4] > 0) {
        let caches = first_level(contrib.caches) + &cache("l2", contrib.caches[4], contrib.caches[5]);
        let ((), counted) = machine(&caches, |core| {
            runs().for_each(|run| trace::replay(core, &run));
        });
        let first = counted.l1d_misses + counted.l1i_misses;
        let second = counted.l2d_misses + counted.l2i_misses;
        let lines = contrib.caches[4] / LINE_SIZE;
        if contrib.l2_misses <= lines && second <= lines {
            // Nothing left L2.
            assert_eq!((first, second), (contrib.l2, contrib.l2_misses), "{:?}", contrib.caches);
        }
        // An L2 of only a few L1s takes away what L1 uses most, since it does not see that it is used.
        let off = |ours: u64, theirs: u64| ours.abs_diff(theirs) as f64 / theirs as f64;

        assert!(off(first, contrib.l2) < 0.01, "{:?}: {first} {}", contrib.caches, contrib.l2);
        assert!(off(second, contrib.l2_misses) < 0.05, "{:?}: {second} {}", contrib.caches, contrib.l2_misses);
    }
}
