//! Repair of what the kernel's own locks protect, when an island has died with one held. The protocols' locks are repaired by [`motet_protocol::recover`].

use core::mem::offset_of;

use motet_hal::Machine;
use motet_layout::{DmaFile, EpollRecord, FilesRecord, LockClass, PoolAddr, SocketRecord, SpaceRecord, Tty};
use motet_protocol::recover::{self, object};

use crate::{console, cpu::Cpu, file, kinds::dma, mm, process, vm};

/// Repairs what a lock protects that a dead core held and this one has taken over. `false`: nobody knows how.
pub fn recover<M: Machine>(cpu: &Cpu<M>, class: LockClass, lock: PoolAddr) -> bool {
    let pool = cpu.pool;
    match class {
        LockClass::Tree => process::recover::recover(cpu),
        LockClass::Guests => vm::recover(cpu),
        LockClass::Descriptors => match pool.get(object(lock, offset_of!(FilesRecord, lock))) {
            Some(files) => file::table::recover(cpu, files),
            None => return false,
        },
        LockClass::Space => match pool.get::<SpaceRecord>(object(lock, offset_of!(SpaceRecord, lock))) {
            Some(space) => mm::recover(cpu, space),
            None => return false,
        },
        LockClass::Watches => {
            file::epoll::recover_all(cpu);
            file::owner::recover(cpu);
        }
        LockClass::Interests => match pool.get(object(lock, offset_of!(EpollRecord, lock))) {
            Some(list) => file::epoll::recover_list(cpu, list),
            None => return false,
        },
        LockClass::Socket => match pool.get::<SocketRecord>(object(lock, offset_of!(SocketRecord, lock))) {
            Some(socket) => file::socket::recover(cpu, socket),
            None => return false,
        },
        LockClass::Rights => file::socket::recover_rights(cpu),
        // What was typed is lost.
        LockClass::Terminal => match pool.get::<Tty>(object(lock, offset_of!(Tty, lock))) {
            Some(tty) => console::tty::forget_input(tty),
            None => return false,
        },
        LockClass::Ptys => console::pty::recover(cpu),
        LockClass::Transfers => match pool.get::<DmaFile>(object(lock, offset_of!(DmaFile, lock))) {
            Some(transfers) => dma::recover(transfers),
            None => return false,
        },
        LockClass::Ids
        | LockClass::Ipc
        | LockClass::Notify
        | LockClass::File
        | LockClass::Rename
        | LockClass::Inode
        | LockClass::Bound
        | LockClass::Stream
        | LockClass::Pipe
        | LockClass::Event
        | LockClass::Clock
        | LockClass::Fpga
        | LockClass::Engine
        | LockClass::Interrupts
        | LockClass::Waiters
        | LockClass::Timers
        | LockClass::Messages
        | LockClass::Slab
        | LockClass::Frames
        | LockClass::Blocks => return recover::recover(cpu, class, lock),
    }
    true
}
