//! A kernel that goes astray: it reads memory of another one, where each island has a kernel of its own. It must fault.

use motet_layout::{Cell64, DEVICE_VA, PRIVATE_VA, PoolAddr};

use super::Suite;
use crate::{Machine, registers::touch};

/// Where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// The first kernel: behind its own memory and its windows, in its map of the pool.
    Behind,
    /// The first kernel: to the next one's first byte, where it maps private memory by physical addresses.
    Above,
    /// The last kernel: to the byte before its own first one, likewise.
    Below,
    /// The last kernel: to that byte, where it maps devices by physical addresses.
    Device,
}

impl Stray {
    /// What `mode=` asks for.
    pub fn of(mode: &str) -> Option<Self> {
        match mode {
            "stray-behind" => Some(Self::Behind),
            "stray-above" => Some(Self::Above),
            "stray-below" => Some(Self::Below),
            "stray-device" => Some(Self::Device),
            _ => None,
        }
    }
}

/// One kernel goes astray; the others sleep. What it finds goes to its diagnostic console.
pub fn run<M: Machine>(machine: &'static M, stray: Stray) -> ! {
    let suite = Suite::new(machine);
    let (pool, header) = (machine.pool(), machine.pool().header());
    let (node, count) = (header.peers.node.get(), header.peers.count.get());
    let wanted = if matches!(stray, Stray::Behind | Stray::Above) { 0 } else { count - 1 };
    if machine.core().index_in_island() == 0 && node == wanted {
        let own = &header.islands[suite.island.index()].ranges[0];
        let (first, end) = (own.local_phys.get(), own.local_phys.get() + own.len.get());
        let behind = pool.len() + header.peers.windows_len.get() + header.peers.others_len(pool.len());
        let address = match stray {
            Stray::Behind => core::ptr::from_ref(header).expose_provenance() as u64 + behind,
            Stray::Above => PRIVATE_VA + end,
            Stray::Below => PRIVATE_VA + first - 1,
            Stray::Device => DEVICE_VA + first - 1,
        };
        let is_refused =
            pool.get::<Cell64>(PoolAddr(pool.len())).is_none() && machine.windows().ring(PoolAddr(behind)).is_none();
        suite.log(format_args!("stray: the pool's handle refuses the address: {is_refused}; reading {address:#x}"));
        suite.log(format_args!("stray: found {:#x} there", touch(address as usize)));
    }
    machine.park()
}
