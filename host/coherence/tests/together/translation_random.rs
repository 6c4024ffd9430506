//! Random translations and flushes: what each costs, what it finds and what is counted equals what lists say that are searched.

use motet_coherence::{Flush, Kind, Model, PAGE_SHIFTS, Page, Sharing, Side, Translated, Walk, allocate};
use proptest::prelude::*;

use crate::common::tlbs::{Found, Shape, Tlbs};
use crate::common::{config, pool_base};

const SECOND_PS: u64 = 7_000;

#[derive(Clone, Debug)]
enum Event {
    Translate { side: Side, address: u64, space: u64, walk: Walk },
    Flush(Flush),
}

/// Addresses in few pages, of each size.
fn addresses() -> impl Strategy<Value = u64> {
    let page = |shift: u32, pages: u64| (0..pages).prop_map(move |page| (u64::from(shift) << 40) + (page << shift));
    let upper = prop_oneof![4 => Just(0_u64), 1 => Just(0xffff_8000_0000_0000)];
    let pages = prop_oneof![6 => page(12, 40), 2 => page(21, 6), 1 => page(30, 3)];
    (pages, 0..4_u64, upper).prop_map(|(first, part, upper)| (first + part * 4096) | upper)
}

/// What a walk finds: of addresses like these, all pages have the size that the address says.
fn walks(address: u64) -> impl Strategy<Value = Walk> {
    let shift = match (address >> 40) as u8 {
        21 => 21,
        30 => 30,
        _ => 12,
    };
    let count = 4 - PAGE_SHIFTS.iter().position(|&size| size == shift).unwrap();
    let entry = move |level: u64| pool_base(0) + level * 0x4000 + (address >> (39 - 9 * level) & 127) * 8;
    let page = prop_oneof![9 => any::<bool>().prop_map(Some), 1 => Just(None)];
    page.prop_map(move |global| Walk {
        entries: [0, 1, 2, 3].map(entry),
        count,
        page: global.map(|global| Page { shift, global }),
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let translate = (addresses(), 0..3_u64, prop_oneof![1 => Just(Side::Fetch), 3 => Just(Side::Data)]);
    let translate = translate.prop_flat_map(|(address, space, side)| {
        walks(address).prop_map(move |walk| Event::Translate { side, address, space, walk })
    });
    let flush = prop_oneof![
        4 => (addresses(), 0..3_u64, any::<bool>())
            .prop_map(|(address, space, global)| Flush::Address { address, space, global }),
        2 => addresses().prop_map(Flush::Everywhere),
        1 => (0..3_u64).prop_map(Flush::Space),
        1 => Just(Flush::NotGlobal),
        1 => Just(Flush::All),
    ];
    prop::collection::vec(prop_oneof![30 => translate, 1 => flush.prop_map(Event::Flush)], 1..800)
}

fn shapes() -> impl Strategy<Value = Shape> {
    let ways = prop_oneof![4 => 1..=4_usize, 1 => 5..=20_usize];
    (ways, 0..4_u32, 1..=3_usize).prop_map(|(ways, sets, sizes)| Shape { entries: ways << sets, ways, sizes })
}

fn keys(name: &str, shape: Shape, more: &str) -> String {
    let pages = ["4KiB", "2MiB", "1GiB"].map(|size| format!("{size:?}"))[..shape.sizes].join(", ");
    format!("{name} = {{ entries = {}, ways = {}, pages = [{pages}]{more} }}\n", shape.entries, shape.ways)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn translations_are_found_kept_and_dropped_as_in_lists(
        first in prop::array::uniform2(shapes()),
        second in prop::option::of(shapes()),
        tables in 0..4_usize,
        filtered in any::<bool>(),
        events in events(),
    ) {
        let caches = "[[core]]\nfrequency_mhz = 1000\nmemory_cycles = 300\nl1d = { size = \"512\", ways = 2, cycles = 2 }\n";
        let mut text = caches.to_owned();
        if tables != 0 {
            text += &format!("walk_cache_entries = {tables}\n");
        }
        text += &(keys("itlb", first[0], "") + &keys("dtlb", first[1], ""));
        text += &second.map_or(String::new(), |shape| keys("l2_tlb", shape, ", cycles = 7"));
        // What walks read costs what it costs a core that has no TLBs.
        let configs = [config(&[1], &text), config(&[1], caches)];
        let regions = configs.each_ref().map(|config| allocate(Model::region_words(config)));
        let [with, without] = [0, 1].map(|at| Model::create(configs[at].clone(), &regions[at], Sharing::OneAtATime).unwrap());
        let [mut core, mut reads] = [with.core(0).unwrap(), without.core(0).unwrap()];
        let mut lists = Tlbs::new(first, second, tables);
        let second_ps = if second.is_some() { SECOND_PS } else { 0 };
        let (mut misses, mut walked, mut flushes, mut flushed) = ([0, 0], 0, 0, 0);
        for (at, event) in events.into_iter().enumerate() {
            let (side, address, space, walk) = match event {
                Event::Translate { side, address, space, walk } => (side, address, space, walk),
                Event::Flush(flush) => {
                    core.flush(flush);
                    (flushes, flushed) = (flushes + 1, flushed + lists.flush(flush));
                    continue;
                }
            };
            let (found, gone) = lists.translate(side, address, space, &walk);
            if filtered && core.has_translated(side, address, space) {
                prop_assert_eq!(found, Found::First, "event {}", at);
                continue;
            }
            let translated = core.translate(side, address, space, || walk);
            let mut expected = Translated { gone, ..Translated::default() };
            if found != Found::First {
                misses[side as usize] += 1;
                expected.cost.0 = second_ps;
            }
            if let Found::Nowhere(from) = found {
                walked += 1;
                expected.cost += walk.entries[from..walk.count].iter().map(|&entry| reads.access(Kind::Walk, entry, 8)).sum();
                expected.read = Some(walk);
            }
            prop_assert_eq!(translated, expected, "event {}: {:?} at {:#x} in {}", at, side, address, space);
        }
        let [count, read] = [with.counters(0), without.counters(0)];
        prop_assert_eq!([count.itlb_misses, count.dtlb_misses], misses);
        prop_assert_eq!((count.tlb_walks, count.tlb_flushes, count.tlb_flushed), (walked, flushes, flushed));
        prop_assert_eq!((count.walks, count.l1d_misses), (read.walks, read.l1d_misses));
    }
}
