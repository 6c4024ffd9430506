//! Memory is used up: a process is ended, so that others go on (docs/memory.md).
//!
//! It is the process whose end helps most: of those that may be ended for the one that asks, which are its user's, or all if the superuser
//! asks, the one that has most memory. Users other than the superuser reach their limit earlier (`motet_protocol::memory`), and end their own
//! processes.

use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, PROCESS_ALIVE, ProcessRecord, SpaceRecord, sync::Ordering};
use motet_protocol::{Context, memory};

use crate::{
    console,
    cpu::Cpu,
    signal::{self, Origin, SIGKILL},
    tree::{self, lock_tree},
};

/// Who has fewer pages is not worth ending for somebody else.
const PAGES_MIN: u32 = 256;

/// What becomes of a thread that has found no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scarce {
    /// It tries again: somebody else is ending.
    Again,
    /// Its own process has most.
    Ends,
}

/// A thread of `process` has found no memory at an access to a page.
#[cold]
pub fn make_room<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Scarce {
    let _tree = lock_tree(cpu);
    let user = process.credentials.users[0].get();
    let is_limited = cpu.is_limited();
    let (mut most, mut is_ending) = ((false, resident(cpu, process), process), false);
    tree::for_each(cpu, |other| {
        let may_end = other.pid.get() != 1 && (!is_limited || other.credentials.users[0].get() == user);
        if other.state.load(Ordering::Relaxed) != PROCESS_ALIVE || !may_end || core::ptr::eq(other, process) {
            return;
        }
        let pages = resident(cpu, other);
        if pages < PAGES_MIN {
            return;
        }
        if other.exiting.load(Ordering::Relaxed) != 0 {
            is_ending = true;
            return;
        }
        // Rather another user's than the superuser's.
        let is_users = !is_limited && other.credentials.users[0].get() != 0;
        if (is_users, pages) > (most.0, most.1) {
            most = (is_users, pages, other);
        }
    });
    if is_ending {
        return Scarce::Again;
    }
    let (_, pages, victim) = most;
    let kib = u64::from(pages) * PAGE_SIZE / 1024;
    let (pid, owner) = (victim.pid.get(), victim.credentials.users[0].get());
    let left = memory::usage(cpu.pool).0 / 1024;
    console::kernel_message(
        cpu,
        format_args!(
            "process {pid} of user {owner} is killed: memory is used up ({left} KiB left), and it has {kib} KiB"
        ),
    );
    signal::send_locked(cpu, victim, SIGKILL, Origin::KERNEL);
    if core::ptr::eq(victim, process) { Scarce::Ends } else { Scarce::Again }
}

fn resident<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u32 {
    let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed));
    space.map_or(0, |space| space.resident.load(Ordering::Relaxed))
}
