//! Transfers of virtual machines against a map: random pages in the tables of two islands, random transfers, which find all their bytes or nothing.

#[allow(dead_code)]
mod files_support;

use std::collections::BTreeMap;

use files_support::Actor;
use motet_layout::{Fpga, Frame, IslandId, PAGE_SIZE, PoolAddr, VmRecord, sync::Ordering::SeqCst};
use motet_paging::{Attr, Stage2};
use motet_protocol::{
    Context,
    fpga::{
        Fault, InterfaceId,
        guest::{self, Answer},
    },
    memory,
};
use proptest::prelude::*;

/// Where the FPGA, its registers and the machine's record lie: behind what the pool is formatted with.
const AT: PoolAddr = PoolAddr(16 << 20);
const REGISTERS: PoolAddr = PoolAddr(17 << 20);
const VM: PoolAddr = PoolAddr(18 << 20);
const FRAMES: u64 = 19 << 20 >> 12;
/// First address of the guest's that is used here, and how many pages.
const FIRST: u64 = 0x8000_0000;
const PAGES: u64 = 12;

thread_local! {
    static ACTOR: Actor = Actor::new(32 << 20);
}

/// What is at a page: in which island's table, whether stores are allowed, and whether it is registers.
type Known = BTreeMap<u64, (usize, bool, bool)>;

fn known() -> impl Strategy<Value = Known> {
    let page = (0..2usize, prop::bool::weighted(0.8), prop::bool::weighted(0.1));
    prop::collection::btree_map(0..PAGES, page, 0..PAGES as usize)
}

fn frame_of(page: u64, is_registers: bool) -> Frame {
    // Neighbours of the guest's are no neighbours in the pool.
    if is_registers { Frame((REGISTERS.0 >> 12) as u32) } else { Frame((FRAMES + page * 5 % PAGES) as u32) }
}

fn set_up(actor: &Actor, known: &Known) -> &'static Fpga {
    let pool = actor.pool();
    pool.zero(AT, size_of::<Fpga>());
    pool.zero(VM, size_of::<VmRecord>());
    let (fpga, vm) = (pool.at::<Fpga>(AT), pool.at::<VmRecord>(VM));
    fpga.interface_count.set(1);
    fpga.registers.set(REGISTERS.0);
    fpga.interfaces[0].guest.store(VM.0, SeqCst);
    for (island, format) in [Stage2::Sv48x4, Stage2::AArch64Bits40].into_iter().enumerate() {
        let range = &pool.header().islands[island].ranges[0];
        range.local_phys.set(0x4000_0000 << island);
        range.len.set(pool.len());
        let frames = (format.root_bytes() / PAGE_SIZE) as u32;
        let root = memory::alloc_run(actor, frames, frames).unwrap();
        (0..frames).for_each(|n| pool.zero_frame(Frame(root.0 + n)));
        vm.space.roots[island].store(root.0, SeqCst);
        let code = Stage2::ALL.iter().position(|known| *known == format).unwrap();
        vm.formats[island].store(code as u8 + 1, SeqCst);
        let table = guest::table_of(pool, vm, IslandId::from_raw(island as u32).unwrap()).unwrap();
        for (&page, &(_, may_store, is_registers)) in known.iter().filter(|(_, known)| known.0 == island) {
            let allow = if may_store { Attr::READ.union(Attr::WRITE) } else { Attr::READ };
            let mut allocate = || memory::alloc_zeroed_frame_on(actor, 0);
            table.map(FIRST + page * PAGE_SIZE, frame_of(page, is_registers), allow, &mut allocate).unwrap();
        }
    }
    fpga
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transfers_find_all_their_bytes_or_nothing(
        known in known(),
        transfers in prop::collection::vec((0..PAGES * PAGE_SIZE, 1..4 * PAGE_SIZE, any::<bool>()), 1..8),
    ) {
        let actor = ACTOR.with(|actor| *actor);
        let fpga = set_up(&actor, &known);
        let id = InterfaceId::new(0).unwrap();
        for (from, len, stores) in transfers {
            fpga.interfaces[0].wants.store(0, SeqCst);
            let transfer = guest::begin(actor.pool(), fpga, id).unwrap();
            let mut found = Vec::new();
            let result = transfer.pieces(FIRST + from, len, stores, |at, bytes| {
                found.extend((at.0..).zip(bytes).map(|(at, byte)| (byte as u64, at)));
            });
            drop(transfer);
            prop_assert_eq!(fpga.transfer.load(SeqCst), 0);
            // The first page that is not there, or is no memory.
            let wrong = (from / PAGE_SIZE..(from + len).div_ceil(PAGE_SIZE)).find_map(|page| match known.get(&page) {
                Some((_, may_store, false)) if *may_store || !stores => None,
                Some(_) => Some(Err(Fault::Address)),
                None => Some(Err(Fault::Page)),
            });
            prop_assert_eq!(result, wrong.unwrap_or(Ok(())));
            prop_assert_eq!(fpga.interfaces[0].wants.load(SeqCst) != 0, result == Err(Fault::Page));
            let expected = (0..len).map(|byte| {
                let at = from + byte;
                (byte, frame_of(at / PAGE_SIZE, false).addr().0 + at % PAGE_SIZE)
            });
            let is_right = if result.is_ok() { found.iter().copied().eq(expected) } else { found.is_empty() };
            prop_assert!(is_right, "other bytes");
        }
    }
}

#[test]
fn what_is_answered_is_told_once() {
    let actor = ACTOR.with(|actor| *actor);
    let fpga = set_up(&actor, &Known::new());
    let look = || {
        let transfer = guest::begin(actor.pool(), fpga, InterfaceId::new(0).unwrap()).unwrap();
        transfer.pieces(FIRST, 1, true, |_, _| ())
    };
    for (answer, fault) in [(Answer::Outside, Fault::Address), (Answer::Exhausted, Fault::Memory)] {
        assert_eq!(look(), Err(Fault::Page));
        guest::take_wanted(&fpga.interfaces[0], |_, page| {
            assert_eq!(page, FIRST);
            answer
        });
        assert_eq!(look(), Err(fault));
    }
    assert_eq!(look(), Err(Fault::Page), "it asks again");
    let transfer = guest::begin(actor.pool(), fpga, InterfaceId::new(0).unwrap()).unwrap();
    assert_eq!(transfer.pieces(u64::MAX - 3, 8, true, |_, _| ()), Err(Fault::Address));
    drop(transfer);
    fpga.interfaces[0].guest.store(0, SeqCst);
    assert!(guest::begin(actor.pool(), fpga, InterfaceId::new(0).unwrap()).is_none());
}
