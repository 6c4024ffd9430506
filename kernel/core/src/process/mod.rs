//! Processes: making, replacing, ending and waiting for them, and what they are called.

pub mod cores;
pub mod exec;
mod executable;
pub mod exit;
pub mod fat;
pub mod fork;
pub mod identity;
pub mod ids;
pub mod isa;
pub mod limits;
mod load;
pub mod places;
pub mod prctl;
pub mod recover;
mod refusal;
pub mod remote;
pub mod schedule;
pub mod stack;
mod strings;
pub mod system;
pub mod usage;
pub mod wait;

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{ProcessRecord, SpaceRecord, ThreadRecord};

use crate::{cpu::Cpu, mm, tree::lock_tree};

/// Names a process, and its thread, after the program at `path`.
fn set_name(process: &ProcessRecord, thread: &ThreadRecord, path: &[u8]) {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    for (index, (of_process, of_thread)) in process.name.iter().zip(&thread.name).enumerate() {
        let byte = if index < 15 { name.get(index).copied().unwrap_or(0) } else { 0 };
        of_process.store(byte, Ordering::Relaxed);
        of_thread.store(byte, Ordering::Relaxed);
    }
}

/// Gives a process another address space (pool address, 0: none) and returns the former one, with its reference. Others
/// look at a process's space under the tree lock.
fn replace_space<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, space: u64) -> &'static SpaceRecord {
    let _tree = lock_tree(cpu);
    let old = mm::space_of(cpu, process);
    process.space.store(space, Ordering::Relaxed);
    old
}
