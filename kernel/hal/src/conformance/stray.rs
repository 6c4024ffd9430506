//! A kernel that goes astray: it reads memory of another one, where each island has a kernel of its own. It must fault.

use motet_layout::{Cell64, PRIVATE_VA, PoolAddr};

use super::Suite;
use crate::{Machine, registers::touch};

/// Where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// Behind its own memory and its windows, in its map of the pool.
    Behind,
    /// Where it maps private memory by physical addresses: what lies behind its own part of the machine's memory there is the next kernel's.
    Beside,
}

impl Stray {
    /// What `mode=` asks for.
    pub fn of(mode: &str) -> Option<Self> {
        match mode {
            "stray-behind" => Some(Self::Behind),
            "stray-beside" => Some(Self::Beside),
            _ => None,
        }
    }
}

/// The first kernel goes astray; the others sleep. What the first one finds goes to the diagnostic console.
pub fn run<M: Machine>(machine: &'static M, stray: Stray) -> ! {
    let suite = Suite::new(machine);
    let (pool, header) = (machine.pool(), machine.pool().header());
    let range = &header.islands[suite.island.index()].ranges[0];
    if machine.core().index_in_island() == 0 && header.peers.node.get() == 0 {
        let base = core::ptr::from_ref(header).expose_provenance();
        let address = match stray {
            Stray::Behind => base + pool.len() as usize,
            Stray::Beside => (PRIVATE_VA + range.local_phys.get() + range.len.get()) as usize,
        };
        let is_refused = pool.get::<Cell64>(PoolAddr(pool.len())).is_none();
        suite.log(format_args!("stray: the pool's handle refuses the address: {is_refused}; reading {address:#x}"));
        suite.log(format_args!("stray: found {:#x} there", touch(address)));
    }
    machine.park()
}
