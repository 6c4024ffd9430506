//! Locks that an island has died with: what the kernel's own protect. The others are the protocols' ([`motet_protocol::recover`]).

use core::mem::offset_of;

use motet_hal::Machine;
use motet_layout::{DmaFile, EpollRecord, FilesRecord, LockClass, PoolAddr, SocketRecord, SpaceRecord};
use motet_protocol::recover::{self, object};

use crate::{cpu::Cpu, file, mm, process, vm};

/// Repairs what a lock protects that a dead core held and this one has taken over. `false`: nobody knows how.
pub fn recover<M: Machine>(cpu: &Cpu<M>, class: LockClass, lock: PoolAddr) -> bool {
    let pool = cpu.pool;
    let repaired = match class {
        LockClass::Tree => Some(process::recover::recover(cpu)),
        LockClass::Guests => Some(vm::recover(cpu)),
        LockClass::Descriptors => {
            pool.get(object(lock, offset_of!(FilesRecord, lock))).map(|files| file::table::recover(cpu, files))
        }
        LockClass::Space => pool.get(object(lock, offset_of!(SpaceRecord, lock))).map(|space| mm::recover(cpu, space)),
        LockClass::Watches => Some(file::epoll::recover_all(cpu)),
        LockClass::Interests => {
            pool.get(object(lock, offset_of!(EpollRecord, lock))).map(|list| file::epoll::recover_list(cpu, list))
        }
        LockClass::Socket => {
            pool.get(object(lock, offset_of!(SocketRecord, lock))).map(|socket| file::socket::recover(cpu, socket))
        }
        // What was typed is lost.
        LockClass::Terminal => Some(file::tty::flush_input(&pool.header().tty)),
        LockClass::Transfers => pool.get::<DmaFile>(object(lock, offset_of!(DmaFile, lock))).map(file::dma::recover),
        _ => return recover::recover(cpu, class, lock),
    };
    repaired.is_some()
}
