//! TLBs, walks and flushes, by arithmetic.

use motet_coherence::{Core, Counters, Flush, Kind, Model, Page, Picoseconds, Sharing, Side, Walk, allocate};

use crate::common::{config, pool_base};

const KIB_4: Page = Page { shift: 12, global: false };
/// Cycles of 1 ns: L1D takes 2, memory 300, the second-level TLB 7.
const CORE: &str = "[[core]]\nfrequency_mhz = 1000\nmemory_cycles = 300\n\
    l1i = { size = \"4KiB\", ways = 2, cycles = 1 }\nl1d = { size = \"4KiB\", ways = 2, cycles = 2 }\n";
const TLBS: &str = "itlb = { entries = 4, ways = 4 }\ndtlb = { entries = 8, ways = 2 }\n\
    l2_tlb = { entries = 32, ways = 4, cycles = 7 }\n";

/// Runs a program on a core with these keys; its counters.
fn run(keys: &str, program: impl FnOnce(&mut Core<'_>)) -> Counters {
    let config = config(&[1], &format!("{CORE}{keys}"));
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config, &region, Sharing::OneAtATime).unwrap();
    let mut core = model.core(0).unwrap();
    program(&mut core);
    assert_eq!(model.check(), Ok(()));
    model.counters(0)
}

/// What a walk reads for an address: entries of four tables, each in lines of its own.
fn walk(address: u64, page: Page) -> Walk {
    let count = match page.shift {
        12 => 4,
        21 => 3,
        _ => 2,
    };
    let entry = |level: u32| pool_base(0) + u64::from(level) * (4096 + 512) + (address >> (39 - 9 * level) & 511) * 8;
    Walk { entries: [0, 1, 2, 3].map(entry), count, page: Some(page) }
}

fn load(core: &mut Core<'_>, address: u64, space: u64) -> u64 {
    core.translate(Side::Data, address, space, || walk(address, KIB_4)).cost.0
}

#[test]
fn a_miss_walks_through_the_caches_and_a_hit_is_free() {
    let count = run(TLBS, |core| {
        assert_eq!(load(core, 0x40_0000, 0), 7_000 + 4 * 300_000);
        assert_eq!(load(core, 0x40_0ff8, 0), 0);
        // The next page's entry is beside the first one's, and the upper tables' are the same.
        assert_eq!(load(core, 0x40_1000, 0), 7_000 + 4 * 2_000);
        assert_eq!(core.access(Kind::Load, walk(0x40_0000, KIB_4).entries[3], 8), Picoseconds(2_000), "L1D has it");
    });
    assert_eq!((count.dtlb_misses, count.tlb_walks, count.walks, count.itlb_misses), (2, 2, 8, 0));
    assert_eq!((count.l1d_misses, count.stall_tlb_ps), (4, 2 * 7_000));
    assert_eq!(count.stall_ps(), 2 * 7_000 + 4 * 300_000 + 5 * 2_000);
}

#[test]
fn without_buffers_translation_is_free_and_not_counted() {
    let count = run("", |core| {
        assert!(!core.translates());
        assert_eq!(load(core, 0x40_0000, 0), 0);
        core.flush(Flush::All);
    });
    assert_eq!((count.dtlb_misses, count.walks, count.tlb_flushes), (0, 0, 0));
}

#[test]
fn what_the_first_level_gives_up_the_second_has_and_says_so() {
    let count = run(TLBS, |core| {
        // Pages 0, 4 and 8 share the set of two ways; the one used last but one goes.
        for page in [0_u64, 4, 0] {
            load(core, page << 12, 0);
        }
        let third = core.translate(Side::Data, 8 << 12, 0, || walk(8 << 12, KIB_4));
        assert_eq!(third.gone.map(|gone| (gone.address, gone.shift)), Some((4 << 12, 12)));
        assert_eq!(third.read.map(|walk| walk.count), Some(4));
        assert_eq!(load(core, 0, 0), 0);
        assert_eq!(load(core, 4 << 12, 0), 7_000);
        // Instructions have a first level of their own.
        assert_eq!(core.translate(Side::Fetch, 4 << 12, 0, || unreachable!()).cost.0, 7_000);
    });
    assert_eq!((count.dtlb_misses, count.itlb_misses, count.tlb_walks), (4, 1, 3));
}

#[test]
fn strides_over_more_pages_than_there_are_entries_miss_each_time() {
    for (pages, misses, walks) in [(8_u64, 8, 8), (9, 8 + 3 * 10 - 2, 9), (32, 320, 32), (48, 480, 0)] {
        let count = run(TLBS, |core| {
            for page in (0..10).flat_map(|_| 0..pages) {
                load(core, page << 12, 0);
            }
        });
        match pages {
            8 | 32 => assert_eq!((count.dtlb_misses, count.tlb_walks), (misses, walks), "{pages}"),
            // Three pages of the one set with three miss each time.
            9 => assert_eq!((count.dtlb_misses, count.tlb_walks), (6 + 3 * 10, walks), "{pages}"),
            // Of each set, six pages in four ways.
            _ => assert_eq!((count.dtlb_misses, count.tlb_walks), (misses, 480), "{pages}"),
        }
    }
}

#[test]
fn huge_pages_are_one_translation_and_read_fewer_tables() {
    let count = run(TLBS, |core| {
        for (page, reads) in [(Page { shift: 21, global: false }, 3), (Page { shift: 30, global: false }, 2)] {
            let first = 1_u64 << 34;
            let address = first << (page.shift - 21);
            let cost = core.translate(Side::Data, address, 0, || walk(address, page)).cost.0;
            assert!(cost > 7_000);
            for part in [1, 7, 511] {
                let other = address + part * 4096;
                assert_eq!(core.translate(Side::Data, other, 0, || panic!("{reads}")).cost.0, 0);
            }
        }
    });
    assert_eq!((count.tlb_walks, count.walks), (2, 3 + 2));
    // A buffer of pages of 4 KiB alone keeps the part that was used.
    let small = "itlb = { entries = 4, ways = 4 }\ndtlb = { entries = 8, ways = 2, pages = [\"4KiB\"] }";
    let huge = Page { shift: 21, global: false };
    let count = run(small, |core| {
        for address in [0, 8, 4096, 4096] {
            core.translate(Side::Data, address, 0, || walk(address, huge));
        }
    });
    assert_eq!((count.dtlb_misses, count.walks), (2, 6));
}

#[test]
fn address_spaces_do_not_see_each_other_s_pages_but_global_ones() {
    let count = run(TLBS, |core| {
        load(core, 0x1000, 1);
        assert!(load(core, 0x1000, 2) > 0);
        assert_eq!((load(core, 0x1000, 1), load(core, 0x1000, 2)), (0, 0));
        let global = Page { shift: 12, global: true };
        core.translate(Side::Data, 0x2000, 1, || walk(0x2000, global));
        assert_eq!(load(core, 0x2000, 2), 0);
    });
    assert_eq!(count.tlb_walks, 3);
}

#[test]
fn flushes_drop_what_they_say_and_nothing_else() {
    let global = Page { shift: 12, global: true };
    // Page 1 in the spaces 1 and 2, page 2 in space 1, page 3 global: which of them are dropped.
    for (flush, dropped) in [
        (Flush::Address { address: 0x1fff, space: 1, global: true }, [true, false, false, false]),
        (Flush::Address { address: 0x3000, space: 1, global: true }, [false, false, false, true]),
        (Flush::Address { address: 0x3000, space: 1, global: false }, [false, false, false, false]),
        (Flush::Everywhere(0x1000), [true, true, false, false]),
        (Flush::Space(1), [true, false, true, false]),
        (Flush::NotGlobal, [true, true, true, false]),
        (Flush::All, [true, true, true, true]),
    ] {
        let pages = [(0x1000, 1, KIB_4), (0x1000, 2, KIB_4), (0x2000, 1, KIB_4), (0x3000, 1, global)];
        let count = run(TLBS, |core| {
            for (address, space, page) in pages {
                core.translate(Side::Data, address, space, || walk(address, page));
            }
            core.flush(flush);
            for ((address, space, page), dropped) in pages.into_iter().zip(dropped) {
                let cost = core.translate(Side::Data, address, space, || walk(address, page)).cost.0;
                assert_eq!(cost != 0, dropped, "{flush:?}: {address:#x} in {space}");
            }
        });
        let dropped = dropped.iter().filter(|dropped| **dropped).count() as u64;
        // In both levels.
        assert_eq!((count.tlb_flushes, count.tlb_flushed, count.tlb_walks), (1, 2 * dropped, 4 + dropped), "{flush:?}");
    }
}

#[test]
fn a_walker_that_remembers_tables_reads_only_what_is_below_them() {
    let keys = format!("{TLBS}walk_cache_entries = 2\n");
    let count = run(&keys, |core| {
        load(core, 0, 0); // four tables
        load(core, 0x1000, 0); // the last one
        load(core, 1 << 21, 0); // the last two
        load(core, 1 << 30, 0); // the last three
        load(core, 2 << 21, 0); // the last two; of two tables of that level, the first is forgotten
        core.flush(Flush::Address { address: 0x9999_0000, space: 0, global: true });
        load(core, 0x2000, 0); // all again
    });
    assert_eq!((count.tlb_walks, count.walks), (6, 4 + 1 + 2 + 3 + 2 + 4));
}
