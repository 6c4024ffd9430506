//! Memory that islands cache in different ways: who pays for whose stores, and what software must not do.

use motet_coherence::{Kind, Model, STALE_PAGES, Sharing, StalePage, allocate};

use crate::common::{self, TINY, access, run_two};

/// Memory near "a", which caches it coherently; memory near "b", which caches it privately. Neither caches the other's.
const LINK: &str = r#"
    [[access]]
    island = "a"
    range = "far"
    memory_ns = 825
    store_ns = 1
    data = "uncached"
    [[access]]
    island = "b"
    range = "near-a"
    memory_ns = 900
    store_ns = 2
    data = "uncached"
    [[access]]
    island = "b"
    range = "far"
    memory_ns = 700
    data = "private"
"#;
/// Addresses in the pool: near "a", and the rest.
const NEAR_A: u64 = 0;
const NEAR_B: u64 = 4 << 20;

fn machine() -> String {
    format!("{TINY}{LINK}")
}

#[test]
fn a_store_over_the_link_costs_the_reader_a_miss_and_is_a_stale_read() {
    let [a, b] = run_two(&machine(), |a, b| {
        assert_eq!(access(b, Kind::Load, NEAR_B), 700);
        assert_eq!(access(b, Kind::Load, NEAR_B), 2);
        assert_eq!(access(a, Kind::Store, NEAR_B), 1);
        assert_eq!(access(b, Kind::Load, NEAR_B), 700, "its copy is old");
        assert_eq!(access(b, Kind::Load, NEAR_B), 2);
        // What it never had a copy of, it may read.
        assert_eq!(access(a, Kind::Store, NEAR_B + 64), 1);
        assert_eq!(access(b, Kind::Load, NEAR_B + 64), 700);
    });
    assert_eq!((a.stale_reads, b.stale_reads), (0, 1));
    assert_eq!((a.snoop_invalidates, b.invalidations_received), (1, 1));
}

#[test]
fn a_read_is_stale_although_the_place_of_the_old_copy_is_taken() {
    for text in [machine(), common::without_l3(&machine())] {
        let [_, b] = run_two(&text, |a, b| {
            let others = || (64..192).map(|line| NEAR_B + 64 * line);
            others().for_each(|address| _ = access(b, Kind::Load, address));
            access(b, Kind::Load, NEAR_B);
            access(a, Kind::Store, NEAR_B);
            others().for_each(|address| _ = access(b, Kind::Load, address));
            access(b, Kind::Load, NEAR_B);
        });
        assert_eq!(b.stale_reads, 1);
    }
}

#[test]
fn a_store_to_an_old_copy_is_stale_and_instructions_are_not_data() {
    let [_, b] = run_two(&machine(), |a, b| {
        access(b, Kind::Load, NEAR_B);
        access(a, Kind::Atomic, NEAR_B);
        access(b, Kind::Store, NEAR_B);
        access(b, Kind::Fetch, NEAR_B + 64);
        access(a, Kind::Store, NEAR_B + 64);
        access(b, Kind::Load, NEAR_B + 64);
    });
    assert_eq!(b.stale_reads, 1, "the rest of the line would be written back as it was");
}

#[test]
fn a_read_over_the_link_of_what_a_private_cache_has_modified_is_stale() {
    let [a, b] = run_two(&machine(), |a, b| {
        access(b, Kind::Load, NEAR_B);
        assert_eq!(access(a, Kind::Load, NEAR_B), 825, "an unmodified copy is no harm");
        access(b, Kind::Store, NEAR_B);
        assert_eq!(access(a, Kind::Load, NEAR_B), 825);
        assert_eq!(access(a, Kind::Load, NEAR_B), 825);
        // Sixteen lines more push it out of all of its caches.
        (1..=64).for_each(|line| _ = access(b, Kind::Load, NEAR_B + 64 * line));
        assert_eq!(access(a, Kind::Load, NEAR_B), 825);
    });
    assert_eq!((a.stale_reads, b.stale_reads), (2, 0));
}

#[test]
fn what_is_flushed_before_others_touch_it_is_never_stale() {
    for text in [machine(), common::without_l3(&machine())] {
        let [a, b] = run_two(&text, |a, b| {
            // Written by "b", read by "a".
            access(b, Kind::Store, NEAR_B);
            assert_eq!(
                b.flush_lines(NEAR_B, 64).map(|cost| cost.0),
                [3000, 20_000],
                "three instructions, and a line written back"
            );
            access(a, Kind::Load, NEAR_B);
            // Written by "a" after "b" had it, and before.
            access(a, Kind::Store, NEAR_B + 64);
            access(b, Kind::Load, NEAR_B + 64);
            access(a, Kind::Store, NEAR_B + 64);
            assert_eq!(b.flush_lines(NEAR_B, 128).map(|cost| cost.0), [6000, 0], "nothing is there");
            assert_eq!(access(b, Kind::Load, NEAR_B + 64), 700);
            // Elsewhere there is nothing to be flushed.
            assert_eq!(b.flush_lines(NEAR_A, 4096).map(|cost| cost.0), [0; 2]);
            assert_eq!(a.flush_lines(NEAR_B, 4096).map(|cost| cost.0), [0; 2]);
        });
        assert_eq!((a.stale_reads, b.stale_reads, a.flushed_lines, b.flushed_lines), (0, 0, 0, 3));
        assert_eq!((b.memory_write_backs, b.instructions, b.instruction_ps), (1, 9, 9000));
    }
}

#[test]
fn pages_with_stale_reads_are_listed_by_reader() {
    let config = common::config(&[1, 1], &machine());
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::Threads).unwrap();
    let (mut a, mut b) = (model.core(0).unwrap(), model.core(1).unwrap());
    assert_eq!(model.stale_pages(), []);
    for line in [2, 3, 64] {
        access(&mut b, Kind::Store, NEAR_B + 64 * line);
        access(&mut a, Kind::Load, NEAR_B + 64 * line);
    }
    access(&mut a, Kind::Store, NEAR_B);
    access(&mut b, Kind::Load, NEAR_B + 8);
    access(&mut a, Kind::Store, NEAR_B);
    access(&mut b, Kind::Load, NEAR_B + 8);
    let page = |core, address, reads| StalePage { core, address, reads };
    assert_eq!(model.stale_pages(), [page(0, NEAR_B, 2), page(0, NEAR_B + 4096, 1), page(1, NEAR_B, 1)]);
    // Others are counted, not listed.
    for page in 2..20 {
        access(&mut b, Kind::Store, NEAR_B + 4096 * page);
        access(&mut a, Kind::Load, NEAR_B + 4096 * page);
    }
    assert_eq!((model.stale_pages().len(), model.counters(0).stale_reads), (STALE_PAGES, 21));
}

#[test]
fn coherent_caches_are_snooped_from_over_the_link() {
    let [a, b] = run_two(&machine(), |a, b| {
        assert_eq!(access(a, Kind::Store, NEAR_A), 300);
        assert_eq!(access(b, Kind::Load, NEAR_A), 900, "the way includes the snoop");
        assert_eq!(access(a, Kind::Store, NEAR_A), 2 + 40, "its copy was shared");
        assert_eq!(access(b, Kind::Store, NEAR_A), 2);
        assert_eq!(access(a, Kind::Load, NEAR_A), 300, "its copy is gone");
    });
    assert_eq!((a.stale_reads, b.stale_reads), (0, 0));
    assert_eq!((b.snoop_data, b.snoop_invalidates), (1, 1));
    assert_eq!((a.downgrades_received, a.invalidations_received), (1, 1));
}

#[test]
fn an_atomic_operation_over_the_link_is_counted() {
    let [a, b] = run_two(&machine(), |a, b| {
        access(a, Kind::Atomic, NEAR_B);
        access(b, Kind::Atomic, NEAR_A);
        access(b, Kind::Atomic, NEAR_A + 64);
        // Near memory, cached or not.
        access(a, Kind::Atomic, NEAR_A);
        access(b, Kind::Atomic, NEAR_B);
    });
    assert_eq!((a.far_atomics, b.far_atomics), (1, 2));
}

#[test]
fn two_ways_to_cache_the_same_memory_are_found_out_too() {
    let privately = "[[access]]\nisland = \"b\"\nrange = \"far\"\ndata = \"private\"";
    let [a, b] = run_two(&format!("{TINY}{privately}"), |a, b| {
        access(b, Kind::Load, NEAR_B);
        access(a, Kind::Store, NEAR_B);
        assert_eq!(access(b, Kind::Load, NEAR_B), 640, "its copy is old, and memory, too");
        access(b, Kind::Store, NEAR_B + 64);
        access(a, Kind::Load, NEAR_B + 64);
    });
    assert_eq!((a.stale_reads, b.stale_reads), (1, 1));
    // And never where all is coherent.
    let [a, b] = run_two(TINY, |a, b| {
        for address in [NEAR_A, NEAR_B] {
            access(b, Kind::Load, address);
            access(a, Kind::Store, address);
            access(b, Kind::Atomic, address);
            access(a, Kind::Load, address);
        }
    });
    assert_eq!([a, b].map(|core| (core.stale_reads, core.far_atomics)), [(0, 0); 2]);
}

#[test]
fn an_island_s_own_records_are_cached_as_it_says() {
    let mut shape = common::shape(&[1, 1]);
    shape.own = vec![(0, 4096, 0), (4096, 8192, 1)];
    let near = "[[range]]\nname = \"near-b\"\nnear = [\"b\"]";
    let records = "[[access]]\nisland = \"b\"\nrange = \"records\"\nmemory_ns = 40\nstore_ns = 5\ndata = \"uncached\"";
    let text = machine().replace("[[range]]\n    name = \"far\"", near).replace("\"far\"", "\"near-b\"");
    let table: motet_coherence::ModelTable = toml::from_str(&format!("{text}{records}")).unwrap();
    let config = table.resolve(&shape).unwrap();
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::OneAtATime).unwrap();
    let (mut a, mut b) = (model.core(0).unwrap(), model.core(1).unwrap());
    assert_eq!([Kind::Load, Kind::Store].map(|kind| access(&mut b, kind, 4096)), [40, 5]);
    assert_eq!([Kind::Load, Kind::Store].map(|kind| access(&mut a, kind, 4096)), [825, 1]);
    // Its neighbours are what they were: a's record near "a", the rest of the range as well.
    assert_eq!([0, 8192].map(|at| access(&mut b, Kind::Load, at)), [900, 900]);
    assert_eq!([0, 8192].map(|at| access(&mut a, Kind::Load, at)), [300, 300]);
}
