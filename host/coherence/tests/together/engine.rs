//! Transfer engines: what they write leaves caches, what they read is made true where caches are coherent, and found out where not.

use motet_coherence::Kind;

use crate::common::{self, TINY, access, run_two};

const PRIVATELY: &str = "[[access]]\nisland = \"b\"\nrange = \"far\"\nmemory_ns = 700\ndata = \"private\"";
/// Addresses in the pool: cached coherently by both islands, and, with [`PRIVATELY`], privately by "b".
const SHARED: u64 = 0;
const NEAR_B: u64 = 4 << 20;

#[test]
fn what_an_engine_writes_leaves_the_caches_of_all_islands_its_own_too() {
    for text in [TINY.to_owned(), common::no_l3(), common::only_l1(), common::one_l3()] {
        let [a, b] = run_two(&text, |a, b| {
            let cached = access(a, Kind::Load, SHARED + 64);
            access(a, Kind::Store, SHARED);
            access(b, Kind::Load, SHARED + 64);
            let before = a.losses();
            // Half of each of the two lines.
            a.engine_copies(NEAR_B, SHARED + 32, 64);
            assert_ne!(a.losses(), before, "who remembers lines must hear of it");
            for cost in [access(a, Kind::Load, SHARED), access(b, Kind::Load, SHARED + 64)] {
                assert!(cost > 100 && cost.abs_diff(cached) < 400, "{cost}: from memory");
            }
        });
        assert_eq!((a.stale_reads, b.stale_reads), (0, 0), "coherent caches are never old");
    }
}

#[test]
fn what_an_engine_reads_from_a_coherent_cache_is_shared_from_then_on_and_stays() {
    let [a, b] = run_two(TINY, |a, b| {
        access(b, Kind::Store, SHARED);
        a.engine_copies(SHARED, NEAR_B, 64);
        assert_eq!(access(b, Kind::Load, SHARED), 2, "it keeps its copy");
        assert_ne!(access(b, Kind::Store, SHARED), 2, "which it must not modify without asking");
    });
    assert_eq!((a.snoop_data, b.downgrades_received, a.stale_reads), (1, 1, 0));
}

#[test]
fn private_copies_of_what_an_engine_writes_are_old_whoever_starts_it() {
    for starts in 0..2 {
        let [a, b] = run_two(&format!("{TINY}{PRIVATELY}"), |a, b| {
            access(b, Kind::Load, NEAR_B);
            let starter = if starts == 0 { &*a } else { &*b };
            starter.engine_copies(SHARED, NEAR_B, 128);
            assert_eq!(access(b, Kind::Load, NEAR_B), 700, "its copy is old");
            // What it had no copy of, it may read.
            assert_eq!(access(b, Kind::Load, NEAR_B + 64), 700);
        });
        assert_eq!((a.stale_reads, b.stale_reads), (0, 1));
    }
}

#[test]
fn an_engine_does_not_see_what_a_private_cache_has_modified() {
    let [a, b] = run_two(&format!("{TINY}{PRIVATELY}"), |a, b| {
        access(b, Kind::Store, NEAR_B);
        a.engine_copies(NEAR_B, SHARED, 64);
        a.engine_copies(NEAR_B + 64, SHARED, 64);
    });
    assert_eq!((a.stale_reads, b.stale_reads), (1, 0));
}
