//! What dead cores had in hand: references to open files and descriptor tables, which are dropped (`motet_protocol::hand`).

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{CoreId, FILES_CLOEXEC, FileRecord, FilesRecord, PoolAddr};
use motet_protocol::{
    cores::{all_cores, is_dead},
    hand::{self, Found, Holder},
    lock::lock,
    slab,
};

use super::{
    descriptor::{description, table},
    kinds::inotify,
    socket,
};
use crate::{console::pty, cpu::Cpu};

/// Drops all references that dead cores had in hand, and closes files that they were closing. Every core that lives has passed since they died; this one holds no
/// lock. It is the first core, with whose death the run ends, so no other core takes over from it.
pub fn drop_all<M: Machine>(cpu: &Cpu<M>) {
    slab::all::<FileRecord>(cpu).for_each(|file| hand::disown(cpu, file));
    slab::all::<FilesRecord>(cpu).for_each(|files| hand::disown(cpu, files));
    for core in dead_cores(cpu) {
        hand::settle_counts(cpu, core);
    }
    for core in dead_cores(cpu) {
        settle_move(cpu, core);
    }
    socket::settle_the_dead(cpu);
    for core in dead_cores(cpu) {
        while let Some((found, is_closing)) = hand::take_over(cpu, core) {
            match (found, is_closing) {
                (Found::File(file), true) => description::close_last(cpu, file),
                (Found::File(file), false) => description::put(cpu, file),
                (Found::Table(files), true) => table::close_table(cpu, files),
                (Found::Table(files), false) => table::release(cpu, files),
            }
        }
    }
    socket::close_of_the_dead(cpu);
    pty::settle_the_dead(cpu);
    inotify::settle_the_dead(cpu);
}

fn settle_move<M: Machine>(cpu: &Cpu<M>, core: CoreId) {
    match hand::place(cpu, core) {
        Some(Holder::Descriptor(table, _)) => {
            let files = cpu.pool.at::<FilesRecord>(table);
            // Whoever takes it over from the dead core does it; if nobody has it, nobody else knows the table.
            let _guard = lock(cpu, &files.lock);
            table::settle_moves(cpu, files);
        }
        Some(Holder::Word(word)) => {
            let word = cpu.pool.at::<motet_layout::sync::AtomicU64>(word).load(Ordering::Acquire);
            hand::settle_moves(cpu, core, PoolAddr(word & !FILES_CLOEXEC));
        }
        None => {}
    }
}

fn dead_cores<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = CoreId> {
    all_cores(cpu).filter(|&core| is_dead(cpu, core))
}
