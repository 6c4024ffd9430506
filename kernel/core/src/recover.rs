//! Locks that an island has died with: what the kernel's own protect. The others are the protocols' ([`motet_protocol::recover`]).

use core::mem::offset_of;

use motet_hal::Machine;
use motet_layout::{FilesRecord, LockClass, PoolAddr, SpaceRecord};
use motet_protocol::recover::{self, object};

use crate::{cpu::Cpu, file, mm, process};

/// Repairs what a lock protects that a dead core held and this one has taken over. `false`: nobody knows how.
pub fn recover<M: Machine>(cpu: &Cpu<M>, class: LockClass, lock: PoolAddr) -> bool {
    let pool = cpu.pool;
    if class == LockClass::Tree {
        process::recover::recover(cpu);
    } else if class == LockClass::Space
        && let Some(space) = pool.get::<SpaceRecord>(object(lock, offset_of!(SpaceRecord, lock)))
    {
        mm::recover(cpu, space);
    } else if class == LockClass::Descriptors
        && let Some(files) = pool.get::<FilesRecord>(object(lock, offset_of!(FilesRecord, lock)))
    {
        file::table::recover(cpu, files);
    } else {
        return recover::recover(cpu, class, lock);
    }
    true
}
