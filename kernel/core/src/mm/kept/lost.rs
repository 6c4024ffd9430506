//! A kernel has died that had a part of a process of this one: what its copies of pages were is the protocol's ([`Site::lose`](motet_protocol::dsm::Site::lose)).

use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, PoolAddr, SpaceRecord, USER_END, sync::Ordering};
use motet_protocol::lock::lock;

use super::{NAMES, areas::next_known, damage, is_remote, of, page::Here, site};
use crate::{
    cpu::{AwaitedPage, Cpu},
    mm::vma,
};

/// Home: kernel `node` has died. Accesses to pages that it alone had fail from now on (`SIGBUS`). The tree lock is held. `wake` is told what threads wait at.
pub fn lose<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, node: u32, wake: impl Fn(PoolAddr)) {
    let Some(kept) = of(cpu, space).filter(|kept| !is_remote(cpu, kept)) else { return };
    if kept.pids[node as usize].swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let guard = lock(cpu, &space.lock);
    let mut at = 0;
    while let Some(page) = next_known(cpu, kept, at, USER_END) {
        let mut site = site(cpu, kept, page);
        let mut here = Here::new(cpu, (space, kept), vma::find(cpu, space, page), page);
        site.lose(node, &mut here);
        if here.finish(site.word()).is_err() {
            damage(cpu, kept);
        }
        at = page + PAGE_SIZE;
    }
    drop(guard);
    (0..NAMES).for_each(|index| wake(AwaitedPage::arrival(cpu.pool.addr_of(kept), index)));
}
