//! Programs whose counts follow from arithmetic.

use motet_coherence::{Class, Core, Counters, Kind, Model, Picoseconds, Sharing, TrapEvent, allocate};

use crate::common::{self, PRIVATE, TINY, config, no_l3, pool_base};

const LINE: u64 = 64;

/// The default core's caches are 32 KiB, 1 MiB and 4 MiB.
const DEFAULT: &str = "";

/// Runs a program on a machine and returns its result and the counters of all cores.
fn run<R>(cores: &[usize], text: &str, program: impl FnOnce(&mut [Core<'_>]) -> R) -> (R, Vec<Counters>) {
    let config = config(cores, text);
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let count = model.config().core_count();
    let mut handles: Vec<Core<'_>> = (0..count).map(|core| model.core(core).unwrap()).collect();
    let result = program(&mut handles);
    model.check().unwrap();
    (result, (0..count).map(|core| model.counters(core)).collect())
}

fn walk(core: &mut Core<'_>, kind: Kind, bytes: u64, stride: u64) -> Picoseconds {
    (0..bytes / stride).map(|step| core.access(kind, PRIVATE + step * stride, 8)).sum()
}

#[test]
fn a_stride_misses_once_per_line() {
    for (stride, misses) in [(8, 1024), (16, 1024), (64, 1024), (128, 512), (4096, 16)] {
        let (cost, counters) = run(&[1], DEFAULT, |cores| walk(&mut cores[0], Kind::Load, 64 << 10, stride));
        let (accesses, count) = ((64 << 10) / stride, counters[0]);
        assert_eq!((count.loads, count.l1d_misses, count.l3d_misses), (accesses, misses, misses));
        // 2 GHz: a hit is 2 ns, near memory 150 ns.
        assert_eq!(cost.0, (accesses - misses) * 2_000 + misses * 150_000);
        assert_eq!(count.stall_ps(), cost.0);
    }
}

#[test]
fn a_working_set_stays_in_the_level_that_it_fits() {
    // Second walk of each size: lines that miss L1, L2, L3. LRU keeps nothing of a set walked in order that does not fit.
    for (bytes, l1, l2, l3) in [(32 << 10, 0, 0, 0), (33 << 10, 33 * 16, 0, 0), (1 << 20, 1 << 14, 0, 0)] {
        let (_, counters) = run(&[1], DEFAULT, |cores| {
            walk(&mut cores[0], Kind::Load, bytes, LINE);
            walk(&mut cores[0], Kind::Load, bytes, LINE)
        });
        let (cold, count) = (bytes / LINE, counters[0]);
        // 33 KiB: the extra 16 lines overflow 16 of the 64 sets, all 9 lines of which miss.
        let l1 = if bytes == 33 << 10 { 16 * 9 } else { l1 };
        assert_eq!(count.l1d_misses - cold, l1, "{bytes}");
        assert_eq!((count.l2d_misses - cold, count.l3d_misses - cold), (l2, l3), "{bytes}");
    }
    for (bytes, l2, l3) in [(2 << 20, 1 << 15, 0), (4 << 20, 1 << 16, 0), (8 << 20, 1 << 17, 1 << 17)] {
        let (_, counters) = run(&[1], DEFAULT, |cores| {
            walk(&mut cores[0], Kind::Load, bytes, LINE);
            walk(&mut cores[0], Kind::Load, bytes, LINE)
        });
        let cold = bytes / LINE;
        assert_eq!((counters[0].l2d_misses - cold, counters[0].l3d_misses - cold), (l2, l3), "{bytes}");
    }
}

#[test]
fn stores_are_written_back_once_per_line_and_level() {
    let (_, counters) = run(&[1], DEFAULT, |cores| walk(&mut cores[0], Kind::Store, 8 << 20, 8));
    let (lines, count) = ((8 << 20) / LINE, counters[0]);
    assert_eq!((count.stores, count.l1d_misses), (1 << 20, lines));
    // What is still in each level at the end has not left it.
    assert_eq!(count.l1_write_backs, lines - (32 << 10) / LINE);
    assert_eq!(count.l2_write_backs, lines - (1 << 20) / LINE);
    assert_eq!(count.memory_write_backs, lines - (4 << 20) / LINE);
    assert_eq!(count.upgrades, 0);
}

/// Walks with loads, then with stores, as far as they are usual; how many were.
fn usual(core: &mut Core<'_>, bytes: u64) -> [u64; 2] {
    [false, true].map(|store| {
        let addresses = (0..bytes / LINE).map(|line| PRIVATE + line * LINE);
        addresses.filter(|&address| core.access_usual(store, address).is_some()).count() as u64
    })
}

/// 32 KiB and 1 MiB.
const WITHOUT_L3: &str = "[[core]]\nfrequency_mhz = 1000\nmemory_cycles = 300\nl1d = { size = \"32KiB\", ways = 8, cycles = 4 }\n\
                          l1i = { size = \"32KiB\", ways = 8, cycles = 1 }\nl2 = { size = \"1MiB\", ways = 16, cycles = 14 }\n";

/// Fills the caches by loads, then walks with loads and with stores as far as they are usual: how many were, and the counts of these.
fn walk_usually(cores: &[usize], text: &str, bytes: u64) -> ([u64; 2], Counters) {
    let config = config(cores, text);
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::OneAtATime).unwrap();
    let mut core = model.core(0).unwrap();
    assert_eq!(usual(&mut core, bytes), [0; 2], "no memory is known to be cached yet");
    for _ in 0..2 {
        walk(&mut core, Kind::Load, bytes, LINE);
    }
    let before = model.counters(0);
    let done = usual(&mut core, bytes);
    model.check().unwrap();
    (done, model.counters(0).since(&before))
}

#[test]
fn a_core_with_a_directory_to_itself_has_usual_misses_once_its_caches_are_full() {
    let (bytes, l1, l2) = (4 << 20, (32 << 10) / LINE, (1 << 20) / LINE);
    let lines = bytes / LINE;
    for cores in [&[1][..], &[1, 1]] {
        let (done, count) = walk_usually(cores, WITHOUT_L3, bytes);
        assert_eq!(done, [lines; 2], "{cores:?}");
        assert_eq!((count.loads, count.stores, count.near_reads), (lines, lines, 2 * lines));
        // What the stores left in a cache goes to the next level later.
        assert_eq!((count.l1_write_backs, count.memory_write_backs), (lines - l1, lines - l2));
        assert_eq!(count.stall_ps(), 2 * lines * 300_000);
    }
    assert_eq!(walk_usually(&[2], WITHOUT_L3, bytes).0, [0; 2], "two cores share a directory");
}

#[test]
fn a_core_with_an_l3_to_itself_has_usual_hits_and_misses_of_it() {
    let l3 = |mib: u64| format!("{WITHOUT_L3}l3 = {{ size = \"{mib}MiB\", ways = 16, cycles = 40 }}\n");
    let (bytes, l1, l2) = (4 << 20, (32 << 10) / LINE, (1 << 20) / LINE);
    let lines = bytes / LINE;
    for cores in [&[1][..], &[1, 1]] {
        let (done, count) = walk_usually(cores, &l3(4), bytes);
        assert_eq!(done, [lines; 2], "{cores:?}");
        assert_eq!((count.l2d_misses, count.l3d_misses, count.near_reads), (2 * lines, 0, 0));
        assert_eq!((count.l1_write_backs, count.l2_write_backs, count.memory_write_backs), (lines - l1, lines - l2, 0));
        assert_eq!((count.stall_l3_ps, count.stall_ps()), (2 * lines * 40_000, 2 * lines * 40_000));

        let (done, count) = walk_usually(cores, &format!("link = {{ write_back_ns = 20 }}\n{}", l3(2)), bytes);
        assert_eq!(done, [lines; 2], "{cores:?}");
        let written = lines - (2 << 20) / LINE;
        assert_eq!((count.l3d_misses, count.near_reads), (2 * lines, 2 * lines));
        assert_eq!((count.l2_write_backs, count.memory_write_backs), (lines - l2, written));
        assert_eq!((count.stall_coherence_ps, count.stall_near_ps), (written * 20_000, 2 * lines * 300_000));
    }
    assert_eq!(walk_usually(&[2], &l3(4), bytes).0, [0; 2], "two cores share an L3");
}

#[test]
fn hits_of_l2_are_usual() {
    let (bytes, l1) = (512 << 10, (32 << 10) / LINE);
    let lines = bytes / LINE;
    for cores in [&[1][..], &[1, 1]] {
        let (done, count) = walk_usually(cores, WITHOUT_L3, bytes);
        assert_eq!((done, count.l1d_misses, count.l2d_misses), ([lines; 2], 2 * lines, 0));
        assert_eq!((count.stall_l2_ps, count.stall_ps()), (2 * lines * 14_000, 2 * lines * 14_000));
        assert_eq!((count.l1_write_backs, count.l2_write_backs), (lines - l1, 0));
    }
}

#[test]
fn a_free_way_of_l1_is_filled_before_a_line_of_a_core_alone_goes() {
    let config = config(&[1], &no_l3());
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::OneAtATime).unwrap();
    let mut core = model.core(0).unwrap();
    // All in one set of each cache: L1D has two ways, L2 has four.
    let address = |line: u64| PRIVATE + line * 4 * LINE;
    let [a, b, c, x, d, e, f] = [0, 1, 2, 3, 4, 5, 6].map(address);
    for load in [a, x, b, x, c, x] {
        core.access(Kind::Load, load, 8);
    }
    // The second one takes from L2 what L1D has used last: of loads, L2 saw that one before `b` and `c`.
    for fetch in [d, e] {
        core.access(Kind::Fetch, fetch, 8);
    }
    let before = model.counters(0);
    let cost = core.access_usual(false, f).map_or_else(|| core.access(Kind::Load, f, 8), |(cost, _)| cost);
    let hit = core.access(Kind::Load, c, 8);
    assert_eq!((cost.0, hit.0), (300_000, 2_000));
    assert_eq!(model.counters(0).since(&before).l1d_misses, 1);
    model.check().unwrap();
}

#[test]
fn ping_pong_between_islands() {
    let rounds = 1000;
    let (cost, counters) = run(&[1, 1], TINY, |cores| {
        let mut cost = [Picoseconds(0); 2];
        for _ in 0..rounds {
            for (island, core) in cores.iter_mut().enumerate() {
                cost[island] += core.access(Kind::Load, pool_base(island), 8);
                cost[island] += core.access(Kind::Store, pool_base(island), 8);
            }
        }
        cost
    });
    let [a, b] = [counters[0], counters[1]];
    // Each load finds the line modified by the other side (except the very first); each store finds it shared with it.
    assert_eq!((a.l3d_misses, b.l3d_misses), (rounds, rounds));
    assert_eq!((a.snoop_data, b.snoop_data), (rounds - 1, rounds));
    assert_eq!((a.snoop_invalidates, b.snoop_invalidates), (rounds - 1, rounds));
    assert_eq!((a.upgrades, b.upgrades), (rounds - 1, rounds));
    assert_eq!(a.memory_write_backs + b.memory_write_backs, 2 * rounds - 1);
    // Near 300 and far 640 cycles of 1 ns, snoops 9 us and 7 us, write-back 20 ns, L1 2 ns, ownership at L3 40 ns.
    let round = |memory: u64| memory + 9_000_000 + 20_000 + 2_000 + 40_000 + 7_000_000;
    assert_eq!(cost[1].0, rounds * round(640_000));
    assert_eq!(cost[0].0, (rounds - 1) * round(300_000) + 300_000 + 2_000);
}

#[test]
fn ping_pong_under_one_last_level_cache() {
    let rounds = 1000;
    let (_, counters) = run(&[1, 1], &common::one_l3(), |cores| {
        for _ in 0..rounds {
            for (island, core) in cores.iter_mut().enumerate() {
                core.access(Kind::Atomic, pool_base(island), 8);
            }
        }
    });
    let [a, b] = [counters[0], counters[1]];
    assert_eq!((a.l2d_misses, b.l2d_misses, a.l3d_misses + b.l3d_misses), (rounds, rounds, 1));
    assert_eq!((a.peer_invalidates, b.peer_invalidates), (rounds - 1, rounds));
    assert_eq!((a.snoop_invalidates, a.memory_write_backs, b.memory_write_backs), (0, 0, 0));
}

#[test]
fn readers_share_without_snoops() {
    let (_, counters) = run(&[4, 4], TINY, |cores| {
        for _ in 0..10 {
            for (number, core) in cores.iter_mut().enumerate() {
                core.access(Kind::Load, pool_base(number / 4), 8);
            }
        }
    });
    let total = counters.iter().fold(Counters::default(), |sum, count| sum.plus(count));
    // The first reader is granted the line exclusively and loses that once; then every reader has its own copy.
    assert_eq!((total.loads, total.l1d_misses, total.l3d_misses), (80, 8, 2));
    assert_eq!((total.peer_data, total.snoop_data, total.upgrades), (1, 1, 0));
}

#[test]
fn false_sharing_costs_what_sharing_does() {
    let count = |offset| {
        let (_, counters) = run(&[2], TINY, |cores| {
            for _ in 0..100 {
                cores[0].access(Kind::Store, PRIVATE, 8);
                cores[1].access(Kind::Store, PRIVATE + offset, 8);
            }
        });
        counters[0].peer_invalidates + counters[1].peer_invalidates
    };
    assert_eq!((count(0), count(8), count(64)), (199, 199, 0));
}

#[test]
fn instructions_devices_doorbells_and_straddles() {
    let text = "device_store_ns = 70\n[[core]]\nfrequency_mhz = 3000\nmemory_cycles = 100\ncpi = 0.5\ncpi_class = { float = 2.0 }";
    let (_, counters) = run(&[1], text, |cores| {
        // 166.667 ps each: parts of a picosecond are kept.
        let each: u64 = (0..3000).map(|_| cores[0].instructions(Class::Integer, 2).0).sum();
        assert_eq!(each, 1_000_002);
        assert_eq!(cores[0].instructions(Class::Float, 3000).0, 2_000_001);
        // No caches: everything goes to memory.
        assert_eq!(cores[0].access(Kind::Load, 60, 8).0, 2 * 33_333);
        assert_eq!(cores[0].access(Kind::Fetch, 0, 4).0, 33_333);
        assert_eq!(cores[0].access(Kind::Load, 1 << 40, 4).0, 500_000);
        assert_eq!(cores[0].access(Kind::Store, 1 << 40, 4).0, 70_000);
    });
    let count = counters[0];
    assert_eq!((count.straddles, count.uncached_reads, count.uncached_fetches, count.device_accesses), (1, 2, 1, 2));
    assert_eq!((count.instructions, count.loads), (9000, 0));
    let config = config(&[1, 1], "");
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    assert_eq!(model.doorbell(0, 1), Picoseconds(2_000_000));
    assert_eq!(model.dma(8 << 10), Picoseconds(1_000_000 + 8 * 128_000));
}

#[test]
fn a_core_loses_lines_to_other_cores_and_to_its_own_l2_but_not_to_accesses_of_the_same_set() {
    let (_, counters) = run(&[1, 1], TINY, |cores| {
        let [a, b] = cores else { panic!("two cores") };
        let loses = |core: &mut Core<'_>, by: &mut dyn FnMut(&mut Core<'_>)| {
            let before = core.losses();
            by(core);
            core.losses() != before
        };
        let fetch = |core: &mut Core<'_>| _ = core.access(Kind::Fetch, PRIVATE, 4);
        assert!(!loses(a, &mut |a| (fetch(a), fetch(a)).0));
        assert_eq!(a.fetched_again(2), Picoseconds(2_000));
        // Three lines of one set of L1D, which has two ways, and of the fetched line's set of L2, which has four.
        assert!(!loses(a, &mut |a| (1..4).for_each(|line| _ = a.access(Kind::Store, PRIVATE + 4 * line * LINE, 8))));
        // Two more, the first of them in place of the fetched line.
        assert!(loses(a, &mut |a| (4..6).for_each(|line| _ = a.access(Kind::Load, PRIVATE + 4 * line * LINE, 8))));
        // Another core reads, then writes a line that this one may write.
        a.access(Kind::Store, pool_base(0), 8);
        assert!(loses(a, &mut |_| _ = b.access(Kind::Load, pool_base(1), 8)));
        assert!(loses(a, &mut |_| _ = b.access(Kind::Store, pool_base(1), 8)));
        assert_eq!(a.accessed_again(1, 2), Picoseconds(6_000));
    });
    assert_eq!((counters[0].fetches, counters[0].loads, counters[0].stores), (4, 3, 6));
    assert_eq!((counters[0].invalidations_received, counters[0].downgrades_received), (1, 1));
}

#[test]
fn a_core_is_claimed_once_and_processes_must_agree() {
    let config = config(&[1, 1], TINY);
    let region = allocate(Model::region_words(&config));
    assert!(Model::attach(config.clone(), &region).is_err());
    let one = Model::create(config.clone(), &region, Sharing::Threads).unwrap();
    let other = Model::attach(config.clone(), &region).unwrap();
    let core = one.core(0).unwrap();
    assert!(other.core(0).is_none());
    drop(core);
    let mut core = other.core(0).unwrap();
    core.access(Kind::Load, 0, 8);
    assert_eq!(one.counters(0).loads, 1);
    let mut different = config;
    different.device_ps += 1;
    assert!(Model::attach(different, &region).is_err());
}

#[test]
fn traps_cost_what_the_machine_says_and_are_no_stalls() {
    let core = "[[core]]\nfrequency_mhz = 500\nmemory_cycles = 9\ntrap_entry_cycles = 10\ntrap_exit_cycles = 20\n\
                end_of_interrupt_cycles = 30\nwake_cycles = 40";
    let (costs, counters) =
        run(&[1], core, |cores| TrapEvent::ALL.map(|event| cores[0].trapped(event, 1 + event as u64).0));
    // Cores that have no instructions for system calls trap for them; 2 ns a cycle.
    assert_eq!(costs, [20_000, 2 * 40_000, 3 * 20_000, 4 * 40_000, 5 * 60_000, 6 * 80_000]);
    let count = counters[0];
    assert_eq!((count.traps, count.trap_returns, count.interrupt_ends, count.wakes), (1 + 3, 2 + 4, 5, 6));
    assert_eq!((count.trap_ps, count.stall_ps()), (costs.iter().sum(), 0));
}
