//! How much of a mapping is in memory, and how many have it.

use core::ops::Range;

use motet_hal::Machine;
use motet_layout::{InodeRecord, PAGE_SIZE, SpaceRecord, VMA_SHARED};
use motet_protocol::{
    Context,
    lock::lock,
    memory::frame_refs,
    residency::{Home, Kind},
};

use super::{pieces, vma};
use crate::call::{Call, cost};

/// Bytes of a mapping that are in memory.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// That others have, too: as a file has them, and not.
    pub shared: [u64; 2],
    /// That nobody else has: the same.
    pub private: [u64; 2],
    /// Those that are no file's.
    pub anonymous: u64,
    /// Each page divided by the number of those that have it.
    pub pss: u64,
    /// The part of these that is no file's.
    pub anonymous_pss: u64,
    /// The part that is of memory without a name, which is shared.
    pub shm_pss: u64,
    /// The part that is not as a file has it.
    pub dirty_pss: u64,
    /// The part that is locked, of a sum.
    pub locked_pss: u64,
}

impl Usage {
    /// Adds another mapping's.
    pub fn add(&mut self, other: &Self, is_locked: bool) {
        for (sum, more) in self.shared.iter_mut().zip(other.shared).chain(self.private.iter_mut().zip(other.private)) {
            *sum += more;
        }
        self.anonymous += other.anonymous;
        self.pss += other.pss;
        self.anonymous_pss += other.anonymous_pss;
        self.shm_pss += other.shm_pss;
        self.dirty_pss += other.dirty_pss;
        self.locked_pss += if is_locked { other.pss } else { 0 };
    }

    /// Adds a page that so many have. `file`: it is a file's; `shared`: of a mapping in which stores are everybody's.
    fn count(&mut self, users: u32, (is_file, is_shared, is_dirty): (bool, bool, bool)) {
        let part = PAGE_SIZE / u64::from(users.max(1));
        let counts = if users > 1 { &mut self.shared } else { &mut self.private };
        counts[usize::from(is_dirty)] += PAGE_SIZE;
        self.pss += part;
        self.dirty_pss += if is_dirty { part } else { 0 };
        if is_shared && !is_file {
            self.shm_pss += part;
        } else if !is_file {
            self.anonymous += PAGE_SIZE;
            self.anonymous_pss += part;
        }
    }
}

/// What of a range, of one mapping, is in memory. No lock is held.
pub fn usage<M: Machine>(call: &Call<M>, space: &'static SpaceRecord, range: Range<u64>) -> Usage {
    let (cpu, mut sum, mut at) = (call.cpu, Usage::default(), range.start);
    while at < range.end {
        let guard = lock(cpu, &space.lock);
        let home = Home::of(cpu, space);
        // It may have gone, or changed, since it was looked at.
        let Some(vma) = vma::find(cpu, space, at) else { break };
        let stop = home.end_of_piece(at..range.end.min(vma.end.get()), pieces::ENTRIES);
        let is_shared = vma.flags.get() & VMA_SHARED != 0;
        let has_inode = cpu.object::<InodeRecord>(vma.inode.get()).is_some();
        home.visit(at..stop, |page, leaf| {
            let is_of_file = has_inode && page - vma.start.get() < vma.file_len.get();
            let refs = frame_refs(cpu.pool, leaf.frame.named());
            match Kind::of(leaf.attr) {
                Kind::Borrowed => {}
                Kind::Owned => sum.count(1, (false, is_shared, true)),
                // The file has one.
                Kind::Shared => sum.count(refs.saturating_sub(1), (has_inode, is_shared, true)),
                Kind::CopyOnWrite if is_of_file => sum.count(refs.saturating_sub(1), (true, false, false)),
                Kind::CopyOnWrite => sum.count(refs, (false, is_shared, true)),
            }
        });
        at = stop;
        drop(guard);
        call.serve_due(cost::PAGE);
    }
    sum
}
