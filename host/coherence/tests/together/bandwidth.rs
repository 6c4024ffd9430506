//! Links with a bandwidth: what they carry at most, who waits for whom, which stores become one transfer.

use motet_coherence::{Core, Counters, Kind, Model, ModelTable, Region, Sharing, allocate};
use proptest::prelude::*;

use crate::common::{self, TINY, no_l3, pool_base, shape};

/// Beyond the link of "a", which carries a byte in 10 ns.
const FAR: u64 = 4 << 20;
const BYTE_PS: u64 = 10_000;
const LATENCY_PS: u64 = 700_000;
const PACKET: u64 = 24;
/// Link time of eight bytes.
const WORD_PS: u64 = (8 + PACKET) * BYTE_PS;
const LINE_PS: u64 = (64 + PACKET) * BYTE_PS;
/// Two quanta for each core.
const WINDOW_PS: u64 = 60_000_000;
/// What nobody's posted stores take part in.
const UNPOSTED: &str = "store_ns = 0\nposted_bytes = 0";

/// What "a" reaches beyond the link, with more keys of the rule.
fn machine(keys: &str) -> String {
    format!(
        "{TINY}[[access]]\nisland = \"a\"\nrange = \"far\"\nmemory_ns = 700\nbandwidth_mb_s = 100\npacket_bytes = {PACKET}\n{keys}\n"
    )
}

fn uncached(keys: &str) -> String {
    machine(&format!("data = \"uncached\"\n{keys}"))
}

fn region(text: &str, cores: &[usize]) -> Region {
    allocate(Model::region_words(&common::config(cores, text)))
}

/// Runs a program on the three cores of "a" and the one of "b", with and without threads, which makes no difference; their counters.
fn run(text: &str, program: impl Fn(&mut [Clocked<'_>; 4])) -> [Counters; 4] {
    let counters = [Sharing::Threads, Sharing::OneAtATime].map(|sharing| {
        let region = region(text, &[3, 1]);
        let model = Model::create(common::config(&[3, 1], text), &region, sharing).unwrap();
        let mut cores = [0, 1, 2, 3].map(|core| Clocked::new(model.core(core).unwrap(), core / 3));
        program(&mut cores);
        model.check().unwrap();
        let counters = [0, 1, 2, 3].map(|core| model.counters(core));
        for (core, counters) in cores.iter().zip(&counters) {
            assert_eq!(counters.stall_ps(), core.cost_ps, "stalls add up");
        }
        counters
    });
    assert_eq!(counters[0], counters[1]);
    counters[0]
}

/// A core with a clock.
struct Clocked<'a> {
    core: Core<'a>,
    island: usize,
    now_ps: u64,
    cost_ps: u64,
}

impl<'a> Clocked<'a> {
    fn new(core: Core<'a>, island: usize) -> Self {
        Self { core, island, now_ps: 0, cost_ps: 0 }
    }

    /// An access to the pool; the core's clock goes on by its cost, which is returned.
    fn does(&mut self, kind: Kind, offset: u64, size: u32) -> u64 {
        let cost = self.core.access_at(self.now_ps, kind, pool_base(self.island) + offset, size).0;
        self.now_ps += cost;
        self.cost_ps += cost;
        cost
    }

    fn at(&mut self, now_ps: u64) -> &mut Self {
        self.now_ps = now_ps;
        self
    }

    fn loads(&mut self) -> u64 {
        self.does(Kind::Load, FAR, 8)
    }

    fn stores(&mut self) -> u64 {
        self.does(Kind::Store, FAR, 8)
    }
}

/// Whether a number is at most so many thousandths away from another.
fn is_about(value: u64, expected: u64, thousandths: u64) -> bool {
    value.abs_diff(expected) * 1000 <= expected * thousandths
}

#[test]
fn one_core_that_streams_is_as_fast_as_the_link_and_not_faster() {
    // A load that takes no longer than its data: latency does not hold it back.
    let fast = uncached("store_ns = 0").replace("bandwidth_mb_s = 100", "bandwidth_mb_s = 10");
    const COUNT: u64 = 5000;
    for (kind, posted_ps) in [(Kind::Load, 0), (Kind::Store, 2048 * 10 * BYTE_PS), (Kind::Atomic, 0)] {
        let [a, ..] = run(&fast, |[core, ..]| {
            (0..COUNT).for_each(|_| _ = core.does(kind, FAR, 8));
            let link_ps = COUNT * 10 * WORD_PS;
            let done_ps = core.now_ps + posted_ps;
            assert!(
                (link_ps - 10 * WORD_PS..link_ps + LATENCY_PS).contains(&done_ps),
                "{kind:?}: {done_ps} of {link_ps}"
            );
        });
        let ways = if kind == Kind::Atomic { 2 } else { 1 };
        let requests = if kind == Kind::Load { PACKET } else { 0 };
        assert_eq!(a.link_bytes, COUNT * (ways * (8 + PACKET) + requests));
    }
}

#[test]
fn a_store_costs_the_link_time_of_eight_bytes_unless_the_file_says_otherwise() {
    for (keys, cost) in [("", WORD_PS), ("combine = true", LINE_PS / 8), ("store_ns = 5", 5000)] {
        run(&uncached(keys), |[core, ..]| {
            (0..3).for_each(|store| assert_eq!(core.does(Kind::Store, FAR + 8 * store, 8), cost, "{keys}"));
        });
    }
    // So a core alone never waits.
    let [a, ..] = run(&uncached("posted_bytes = 0"), |[core, ..]| (0..1000).for_each(|_| _ = core.stores()));
    assert_eq!(a.stall_link_ps, 0);
}

#[test]
fn posted_stores_wait_only_when_too_many_are_under_way() {
    for posted in [0, 512, 4096] {
        let posted_ps = posted * BYTE_PS;
        run(&uncached(&format!("store_ns = 0\nposted_bytes = {posted}")), |[core, ..]| {
            let free = (0..).take_while(|_| core.stores() == 0).count() as u64;
            assert_eq!(free, posted_ps / WORD_PS + 1, "{posted}");
            // From now on, each waits for the one that goes.
            (0..100).for_each(|_| assert_eq!(core.stores(), WORD_PS));
            // A load comes after all of them.
            assert_eq!(core.loads(), LATENCY_PS + posted_ps + WORD_PS);
        });
    }
}

/// So many cores of "a" stream through the link for 20 ms. The one that is most behind goes on, for a quantum: how many accesses they
/// have made.
fn share(text: &str, kind: Kind, cores: usize, word_ps: u64, quantum_ps: u64) -> Vec<u64> {
    const END_PS: u64 = 20_000_000_000;
    let counts = std::cell::RefCell::default();
    run(text, |all| {
        let streams = &mut all[..cores];
        let mut count = vec![0; cores];
        loop {
            let behind = (0..cores).min_by_key(|&core| streams[core].now_ps).unwrap();
            let until_ps = streams[behind].now_ps + quantum_ps;
            if streams[behind].now_ps >= END_PS {
                break;
            }
            loop {
                streams[behind].does(kind, FAR + 4096 * behind as u64, 8);
                count[behind] += 1;
                if streams[behind].now_ps >= until_ps {
                    break;
                }
            }
        }
        let used_ps = count.iter().sum::<u64>() * word_ps;
        let last_ps = streams.iter().map(|core| core.now_ps).max().unwrap();
        assert!(used_ps <= last_ps + WINDOW_PS, "{kind:?}: {used_ps} in {last_ps}");
        assert!(is_about(used_ps, last_ps, 5), "{kind:?}: {used_ps} in {last_ps}");
        counts.replace(count);
    });
    counts.into_inner()
}

/// Checks that all are about as large.
fn check_even(counts: &[u64], thousandths: u64, what: &str) {
    let mean = counts.iter().sum::<u64>() / counts.len() as u64;
    assert!(counts.iter().all(|&count| is_about(count, mean, thousandths)), "{what}: {counts:?}");
}

#[test]
fn cores_that_share_a_link_get_equal_parts_of_it() {
    for (kind, mb_s) in [(Kind::Load, 10), (Kind::Load, 30), (Kind::Store, 10), (Kind::Store, 30), (Kind::Store, 100)] {
        let text = uncached(UNPOSTED).replace("bandwidth_mb_s = 100", &format!("bandwidth_mb_s = {mb_s}"));
        let word_ps = 100 * WORD_PS / mb_s;
        for (cores, quanta_ps) in [(1, &[0][..]), (2, &[0, 1_250_000, 10_000_000]), (3, &[0, 1_250_000])] {
            for &quantum_ps in quanta_ps {
                let what = format!("{kind:?}, {mb_s} MB/s, {cores} cores, a quantum of {quantum_ps} ps");
                check_even(&share(&text, kind, cores, word_ps, quantum_ps), 45, &what);
            }
        }
    }
    // Three cores that take turns do so, too, unless transfers take a large part of a turn.
    check_even(&share(&uncached(UNPOSTED), Kind::Store, 3, WORD_PS, 10_000_000), 45, "short turns");
}

#[test]
fn the_directions_and_other_islands_have_queues_of_their_own() {
    let theirs =
        "[[access]]\nisland = \"b\"\nrange = \"near-a\"\nmemory_ns = 700\nbandwidth_mb_s = 100\ndata = \"uncached\"\n";
    run(&format!("{}{theirs}", uncached(UNPOSTED)), |[a, other, third, b]| {
        // A window towards memory is full; the way back is free.
        (0..200).for_each(|_| _ = a.at(0).stores());
        assert_eq!(b.at(0).does(Kind::Load, 0, 8), LATENCY_PS);
        assert_eq!(other.at(0).loads(), LATENCY_PS + WINDOW_PS, "its request waits");
        // The way back is full, the one to memory is not.
        let later_ps = 100 * WINDOW_PS;
        (0..200).for_each(|_| _ = a.at(later_ps).loads());
        assert_eq!(third.at(later_ps).stores(), 0);
        assert_eq!(other.at(later_ps).loads(), LATENCY_PS + WINDOW_PS);
    });
}

#[test]
fn misses_carry_lines_whatever_cache_they_come_to() {
    for data in ["private", "coherent"] {
        for text in [TINY.to_owned(), no_l3()] {
            let text = machine(&format!("data = \"{data}\"")).replace(TINY, &text);
            for kind in [Kind::Fetch, Kind::Load, Kind::Store, Kind::Atomic, Kind::Walk] {
                let [a, ..] = run(&text, |[core, ..]| {
                    for line in 0..100 {
                        core.does(kind, FAR + 64 * line, 8);
                        core.does(kind, FAR + 64 * line, 8);
                    }
                    assert!(core.now_ps >= 99 * LINE_PS, "{data}, {kind:?}: {}", core.now_ps);
                });
                assert_eq!(a.link_bytes, 100 * (PACKET + 64 + PACKET), "{data}, {kind:?}");
                assert!(a.stall_link_ps > 0);
            }
        }
    }
}

/// A machine whose only core does most in the usual way.
#[test]
fn usual_misses_carry_lines_too() {
    for (text, sharing) in [TINY.to_owned(), no_l3()]
        .iter()
        .flat_map(|text| [Sharing::Threads, Sharing::OneAtATime].map(|with| (text, with)))
    {
        let text = machine("").replace(TINY, text);
        let region = region(&text, &[1]);
        let model = Model::create(common::config(&[1], &text), &region, sharing).unwrap();
        let mut core = model.core(0).unwrap();
        let mut cost_ps = 0;
        for line in 0..500 {
            let address = pool_base(0) + FAR + 64 * line;
            core.settle();
            let usual = core.access_usual(false, address).map(|(cost, _)| cost);
            cost_ps += usual.unwrap_or_else(|| core.access(Kind::Load, address, 8)).0;
        }
        // Nobody says what time it is, but what they take is known.
        assert!(is_about(cost_ps, 500 * LINE_PS, 5), "{cost_ps}");
        assert_eq!(model.counters(0).link_bytes, 500 * (PACKET + 64 + PACKET), "{sharing:?}");
    }
}

#[test]
fn a_load_across_lines_is_two_after_each_other() {
    let [a, ..] = run(&uncached(""), |[core, ..]| assert_eq!(core.does(Kind::Load, FAR + 60, 8), 2 * LATENCY_PS));
    assert_eq!((a.link_bytes, a.stall_link_ps), (8 + 4 * PACKET, 0));
}

#[test]
fn a_new_model_over_an_old_region_begins_anew() {
    let text = uncached("store_ns = 0\nposted_bytes = 0\ncombine = true");
    let region = region(&text, &[3, 1]);
    let run = || {
        let model = Model::create(common::config(&[3, 1], &text), &region, Sharing::OneAtATime).unwrap();
        let mut cores = [0, 1].map(|core| Clocked::new(model.core(core).unwrap(), 0));
        // Its time is not said: it begins at 0. A store is left that waits for others.
        (0..300).for_each(|at| _ = cores[0].core.access(Kind::Store, pool_base(0) + FAR + 16 * at, 8));
        let costs = [0, 1].map(|core| (0..300).map(|at| cores[core].does(Kind::Store, FAR + 16 * at, 8)).sum::<u64>());
        (costs, [0, 1].map(|core| model.counters(core)))
    };
    assert_eq!(run(), run());
}

#[test]
fn what_is_near_or_has_no_bandwidth_carries_nothing() {
    let [a, .., b] = run(&uncached(""), |[a, .., b]| {
        for line in 0..100 {
            a.does(Kind::Load, 64 * line, 8);
            b.does(Kind::Load, FAR + 64 * line, 8);
            b.does(Kind::Store, 64 * line, 8);
        }
    });
    assert_eq!([a, b].map(|core| (core.link_bytes, core.stall_link_ps)), [(0, 0); 2]);
}

#[test]
fn who_is_behind_is_delayed_by_what_was_then_and_not_by_what_came_later() {
    run(&uncached(UNPOSTED), |[ahead, behind, last, _]| {
        (0..200).for_each(|_| _ = ahead.at(9 * WINDOW_PS).stores());
        assert_eq!(behind.at(8 * WINDOW_PS).stores(), 0);
        assert_eq!(behind.at(9 * WINDOW_PS).stores(), WINDOW_PS);
        // A window whose place somebody far ahead has taken is forgotten.
        (0..200).for_each(|_| _ = ahead.at((9 + 1024) * WINDOW_PS).stores());
        assert_eq!(last.at(9 * WINDOW_PS).stores(), 0);
        // And stays so.
        assert_eq!(last.at((9 + 1024) * WINDOW_PS).stores(), WINDOW_PS);
    });
}

#[test]
fn a_link_that_was_idle_for_days_works_as_before() {
    // Numbers of windows are cut to 32 bits.
    for idle in [0, 1 << 31, (1 << 32) - (1 << 21), 1 << 32] {
        let waits = |cores: &mut [Clocked<'_>; 4], window: u64| -> Vec<_> {
            (0..600).map(|store| cores[store % 3].at(window * WINDOW_PS).stores()).collect()
        };
        run(&uncached(UNPOSTED), |cores| {
            let before = waits(cores, 5);
            assert!(before.iter().max() > Some(&WINDOW_PS));
            assert_eq!(waits(cores, 1024 + 5 + idle), before, "{idle}");
        });
    }
}

#[test]
fn stores_that_fill_a_line_one_after_the_other_are_one_transfer() {
    for size in [1, 2, 4, 8, 16, 32, 64] {
        let [a, ..] = run(&uncached("combine = true"), |[core, ..]| {
            (0..64).step_by(size).for_each(|at| _ = core.does(Kind::Store, FAR + at, size as u32));
        });
        assert_eq!((a.link_bytes, a.combined_stores), (64 + PACKET, 64 / size as u64 - 1), "{size}");
    }
    // Each line is one, and without the key each store.
    let lines = |[core, ..]: &mut [Clocked<'_>; 4]| (0..32).for_each(|at| _ = core.does(Kind::Store, FAR + 8 * at, 8));
    assert_eq!(run(&uncached("combine = true"), lines)[0].link_bytes, 4 * (64 + PACKET));
    for keys in ["combine = false", ""] {
        let [a, ..] = run(&uncached(keys), lines);
        assert_eq!((a.link_bytes, a.combined_stores), (32 * (8 + PACKET), 0));
    }
}

/// Four stores of eight bytes, something else, and the other four: the bytes that all this carries.
fn carried_with_between(between: impl Fn(&mut [Clocked<'_>; 4])) -> u64 {
    let [a, ..] = run(&uncached("combine = true"), |cores| {
        (0..4).for_each(|at| _ = cores[0].does(Kind::Store, FAR + 8 * at, 8));
        between(cores);
        (4..8).for_each(|at| _ = cores[0].does(Kind::Store, FAR + 8 * at, 8));
    });
    a.link_bytes
}

#[test]
fn an_access_around_the_caches_between_them_sends_what_there_is() {
    let (whole, halves) = (64 + PACKET, 64 + 2 * PACKET);
    let load = carried_with_between(|[core, ..]| _ = core.loads());
    assert_eq!(load, halves + 8 + 2 * PACKET);
    let fetch = carried_with_between(|[core, ..]| _ = core.does(Kind::Fetch, FAR, 64));
    assert_eq!(fetch, halves + 64 + 2 * PACKET);
    let atomic = carried_with_between(|[core, ..]| _ = core.does(Kind::Atomic, FAR, 8));
    assert_eq!(atomic, halves + 2 * (8 + PACKET));
    assert_eq!(carried_with_between(|[core, ..]| core.cost_ps += core.core.device_access(Kind::Store).0), halves);
    // Memory that is uncached without such a link, too.
    let near = "[[access]]\nisland = \"a\"\nrange = \"near-a\"\ndata = \"uncached\"\n";
    let [a, ..] = run(&format!("{}{near}", uncached("combine = true")), |[core, ..]| {
        core.does(Kind::Store, FAR, 8);
        core.does(Kind::Load, 0, 8);
    });
    assert_eq!(a.link_bytes, 8 + PACKET);
    // Neither hits and misses of caches nor other cores.
    assert_eq!(carried_with_between(|[core, ..]| _ = core.does(Kind::Load, 0, 8)), whole);
    assert_eq!(carried_with_between(|[_, other, ..]| _ = other.loads()), whole);
}

#[test]
fn a_store_elsewhere_begins_another_transfer() {
    let two = |offsets: [u64; 2], size| {
        let [a, ..] = run(&uncached("combine = true"), |[core, ..]| {
            let _ = offsets.map(|offset| core.does(Kind::Store, FAR + offset, size));
            core.loads();
        });
        (a.link_bytes - (8 + 2 * PACKET), a.combined_stores)
    };
    let (one, apart) = ((16 + PACKET, 1), (2 * (8 + PACKET), 0));
    assert_eq!(two([0, 8], 8), one);
    for offsets in [[0, 16], [8, 0], [0, 0], [0, 4], [56, 64], [0, 72]] {
        assert_eq!(two(offsets, 8), apart, "{offsets:?}");
    }
    // One that lies in two lines is one store in each.
    assert_eq!(two([60, 68], 8), (4 + PACKET + 12 + PACKET, 1));
}

#[test]
fn combined_stores_are_faster_where_the_link_is_what_holds_them_back() {
    let time = |keys: &str| {
        let time = std::cell::Cell::new(0);
        run(&uncached(&format!("{UNPOSTED}\n{keys}")), |[core, ..]| {
            (0..80_000).for_each(|at| _ = core.does(Kind::Store, FAR + 8 * at % (1 << 20), 8));
            time.set(core.now_ps);
        });
        time.get()
    };
    assert!(is_about(time(""), 80_000 * WORD_PS, 2));
    assert!(is_about(time("combine = true"), 10_000 * LINE_PS, 2));
}

#[test]
fn threads_together_carry_no_more_than_the_link() {
    const COUNT: u64 = 20_000;
    let text = uncached(UNPOSTED);
    let region = region(&text, &[4, 1]);
    let model = Model::create(common::config(&[4, 1], &text), &region, Sharing::Threads).unwrap();
    let last_ps = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|core| {
            let mut core = Clocked::new(model.core(core).unwrap(), 0);
            scope.spawn(move || {
                (0..COUNT).for_each(|_| _ = core.stores());
                core.now_ps
            })
        });
        threads.map(|thread| thread.join().unwrap()).into_iter().max().unwrap()
    });
    let link_ps = 4 * COUNT * WORD_PS;
    assert!(last_ps + 2 * WINDOW_PS >= link_ps, "{last_ps} of {link_ps}");
    assert!(is_about(last_ps, link_ps, 10), "{last_ps} of {link_ps}");
    let bytes: u64 = (0..4).map(|core| model.counters(core).link_bytes).sum();
    assert_eq!(bytes, 4 * COUNT * (8 + PACKET));
}

/// Accesses of three cores in a window, each a store or a load, at one of 62 moments: if all are there, they fill it.
fn in_a_window() -> impl Strategy<Value = [Vec<Option<bool>>; 3]> {
    let of_core = || prop::collection::vec(prop::option::weighted(0.9, prop::bool::ANY), 62);
    (of_core(), of_core(), of_core()).prop_map(|(a, b, c)| [a, b, c])
}

proptest! {
    /// Whatever the moments are, and whoever comes first: nobody waits for what the link can carry.
    #[test]
    fn below_what_the_link_carries_there_is_no_delay(windows in prop::collection::vec(in_a_window(), 1..6)) {
        run(&uncached("store_ns = 5\nposted_bytes = 0"), |cores| {
            for (number, window) in windows.iter().enumerate() {
                for (core, accesses) in cores.iter_mut().zip(window) {
                    for (moment, &store) in accesses.iter().enumerate().filter_map(|(at, store)| Some((at, store.as_ref()?))) {
                        let core = core.at(WINDOW_PS * number as u64 + WINDOW_PS / 62 * moment as u64);
                        let (cost, expected) = if store { (core.stores(), 5000) } else { (core.loads(), LATENCY_PS) };
                        assert_eq!(cost, expected);
                    }
                }
            }
        });
    }

    /// Each core's accesses in their order, cores' in any: what they leave behind is the same, and what each costs if all is carried.
    #[test]
    fn the_order_of_cores_within_a_window_does_not_matter(
        moments in prop::collection::vec((0..2_usize, 0..WINDOW_PS), 1..400),
        order in prop::collection::vec(prop::bool::ANY, 400),
    ) {
        let mut moments_of = [Vec::new(), Vec::new()];
        moments.iter().for_each(|&(core, moment)| moments_of[core].push(moment));
        moments_of.iter_mut().for_each(|moments| moments.sort_unstable());
        let result = |first: &dyn Fn(usize) -> bool| {
            let result = std::cell::RefCell::default();
            run(&uncached(UNPOSTED), |cores| {
                let (mut costs, mut next) = ([Vec::new(), Vec::new()], [0, 0]);
                for step in 0..moments.len() {
                    let wanted = usize::from(!first(step));
                    let core = if next[wanted] < moments_of[wanted].len() { wanted } else { 1 - wanted };
                    costs[core].push(cores[core].at(moments_of[core][next[core]]).stores());
                    next[core] += 1;
                }
                let probes: Vec<_> = (0..100).map(|at| cores[2].at(at * WINDOW_PS / 20).stores()).collect();
                result.replace((costs, probes));
            });
            result.into_inner()
        };
        let (costs, probes) = result(&|step| order[step]);
        let (other_costs, other_probes) = result(&|_| true);
        prop_assert_eq!(probes, other_probes);
        if moments.len() as u64 * WORD_PS <= WINDOW_PS / 2 {
            prop_assert_eq!(costs, other_costs);
        }
    }

    /// Any stream of stores takes as long as its bytes, and costs the same each time.
    #[test]
    fn no_stream_is_faster_than_the_link_and_each_run_is_the_same(
        stores in prop::collection::vec((0..3_usize, 0..512_u64, 0..7_u32, 0..400_000_u64), 1..1000),
        combine in prop::bool::ANY,
    ) {
        let result = || {
            let last_ps = std::cell::Cell::new(0);
            let counters = run(&uncached(&format!("{UNPOSTED}\ncombine = {combine}")), |cores| {
                for &(core, offset, size_log2, pause_ps) in &stores {
                    let offset = offset >> size_log2 << size_log2;
                    cores[core].now_ps += pause_ps;
                    cores[core].does(Kind::Store, FAR + offset, 1 << size_log2);
                }
                last_ps.set(cores.iter().map(|core| core.now_ps).max().unwrap());
            });
            let bytes: u64 = counters.iter().map(|core| core.link_bytes).sum();
            assert!(bytes * BYTE_PS <= last_ps.get() + WINDOW_PS + LINE_PS, "{bytes} bytes in {} ps", last_ps.get());
            (last_ps.get(), counters)
        };
        prop_assert_eq!(result(), result());
    }
}

/// What a rule of "a" for the far range says is wrong with it.
fn refused(keys: &str) -> String {
    let text = format!("{TINY}[[access]]\nisland = \"a\"\nrange = \"far\"\nmemory_ns = 700\n{keys}");
    toml::from_str::<ModelTable>(&text).unwrap().resolve(&shape(&[1, 1])).unwrap_err().to_string()
}

#[test]
fn links_that_cannot_be_are_refused() {
    let most = i64::MAX;
    let bandwidth = "data = \"uncached\"\nbandwidth_mb_s = 1\n";
    for value in [0, 1_000_001, most] {
        let message = format!("model.access.bandwidth_mb_s: {value}; a link carries 1 to 1000000 megabytes per second");
        assert_eq!(refused(&format!("bandwidth_mb_s = {value}")), message);
    }
    for (key, over, limit) in [("packet_bytes", 4097, 4096), ("posted_bytes", 65537, 65536)] {
        for value in [over, most] {
            let message = format!("model.access.{key}: {value}; at most {limit} bytes");
            assert_eq!(refused(&format!("{bandwidth}{key} = {value}")), message);
        }
    }
    for key in ["packet_bytes = 24", "posted_bytes = 24", "combine = true", "combine = false"] {
        let name = key.split(' ').next().unwrap();
        let message = format!("model.access.{name}: says how a link is used; with it goes bandwidth_mb_s");
        assert_eq!(refused(&format!("data = \"uncached\"\n{key}")), message);
    }
    for key in ["posted_bytes = 24", "combine = true"] {
        let name = key.split(' ').next().unwrap();
        let message = format!("model.access.{name}: is for stores past the caches; with it goes data = \"uncached\"");
        for data in ["", "data = \"private\"\n", "data = \"coherent\"\n"] {
            assert_eq!(refused(&format!("{data}bandwidth_mb_s = 1\n{key}")), message);
        }
    }
}

#[test]
fn memory_of_an_island_s_own_has_no_link() {
    for range in ["private", "records", "near-a"] {
        let text =
            format!("{TINY}[[access]]\nisland = \"a\"\nrange = \"{range}\"\ndata = \"uncached\"\nbandwidth_mb_s = 1");
        let error = toml::from_str::<ModelTable>(&text).unwrap().resolve(&shape(&[1, 1])).unwrap_err().to_string();
        assert_eq!(error, format!("model.access.bandwidth_mb_s: is of a link, and \"{range}\" is near to \"a\""));
    }
}

/// The longest times that a file can ask for: no sum of them overflows.
#[test]
fn the_slowest_and_the_fastest_link_carry_what_they_can() {
    let slowest = "memory_ns = 1000000000\nbandwidth_mb_s = 1\npacket_bytes = 4096\nposted_bytes = 65536";
    let fastest = "memory_ns = 640\nbandwidth_mb_s = 1000000\nposted_bytes = 0";
    for (keys, byte_ps) in [(slowest, 1_000_000), (fastest, 1)] {
        for combine in [false, true] {
            let rule = format!(
                "[[access]]\nisland = \"a\"\nrange = \"far\"\ndata = \"uncached\"\nstore_ns = 0\n{keys}\ncombine = {combine}\n"
            );
            let [a, ..] = run(&format!("{TINY}{rule}"), |[core, ..]| {
                core.now_ps = 10_000_000_000_000;
                for at in 0..5000 {
                    core.does(Kind::Store, FAR + 8 * at, 8);
                    if at % 1000 == 0 {
                        core.loads();
                        core.does(Kind::Atomic, FAR, 8);
                    }
                }
            });
            let (stall_ps, link_ps) = (a.stall_link_ps, a.link_bytes * byte_ps);
            assert!(stall_ps <= link_ps && stall_ps >= link_ps / 2, "{keys}: {stall_ps} of {link_ps}");
        }
    }
}
