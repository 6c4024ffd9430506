//! References to open files that nobody has any more, because a core has died with them in hand: between a descriptor's end and the drop of its
//! reference, or the other way round in a fork. Who waits for the other end of a pipe to be closed would wait for ever.
//!
//! All cores that live stand still between two system calls, so references are where they can be counted: in descriptor tables, and with threads
//! whose transfers have paused.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{
    FILE_PIPE_BOTH, FILE_PIPE_READ, FILE_PIPE_WRITE, FileRecord, FilesRecord, Frame, PipeRecord, ThreadRecord,
};
use motet_protocol::{Context, memory::release_frame, slab, threads, wait};

use super::{description, rw, table};
use crate::{
    cpu::Cpu,
    process::{self, lock_tree},
};

/// Counts references to open files again, and drops those that nobody has.
pub fn recount<M: Machine>(cpu: &Cpu<M>) {
    slab::all_used::<FileRecord>(cpu).for_each(|file| file.counted.set(0));
    slab::all_used::<FilesRecord>(cpu).for_each(|files| files.counted.set(0));
    {
        let _tree = lock_tree(cpu);
        process::for_each(cpu, |process| {
            if let Some(files) = cpu.object::<FilesRecord>(process.files.load(Ordering::Relaxed)) {
                files.counted.set(files.counted.get() + 1);
                if files.counted.get() == 1 {
                    table::for_each(cpu, files, |file| file.counted.set(file.counted.get() + 1));
                }
            }
        });
        threads::all(cpu)
            .filter_map(|thread| kept(cpu, thread))
            .for_each(|file| file.counted.set(file.counted.get() + 1));
    }
    for files in slab::all_used::<FilesRecord>(cpu).filter(|files| files.counted.get() == 0) {
        files.frames.iter().filter(|frame| frame.get() != 0).for_each(|frame| release_frame(cpu, Frame(frame.get())));
        slab::free(cpu, files);
    }
    for file in slab::all_used::<FileRecord>(cpu) {
        drop_unfound(cpu, file);
    }
    recount_pipes(cpu);
}

fn kept<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<&'static FileRecord> {
    rw::paused_file(cpu, thread)
}

/// Drops the references to an open file that were not found.
fn drop_unfound<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    let (refs, found) = (file.refs.load(Ordering::Relaxed), file.counted.get());
    // None: a dead core was closing it. Of what it was is counted below, if it was a pipe's end.
    if refs == 0 && is_end(file) {
        slab::free(cpu, file);
    }
    for _ in found..refs {
        cpu.pool.header().references_found.fetch_add(1, Ordering::Relaxed);
        description::put(cpu, file);
    }
}

/// Whether it is an end of a pipe without a name.
fn is_end(file: &FileRecord) -> bool {
    matches!(file.kind.get(), FILE_PIPE_READ | FILE_PIPE_WRITE | FILE_PIPE_BOTH) && file.inode.get() == 0
}

/// Counts the ends of pipes without names again, as far as there are any.
fn recount_pipes<M: Machine>(cpu: &Cpu<M>) {
    let ends = || {
        let ends = slab::all_used::<FileRecord>(cpu).filter(|file| is_end(file));
        ends.filter_map(|file| Some((file, cpu.object::<PipeRecord>(file.object.get())?)))
    };
    ends().for_each(|(_, pipe)| pipe.counted.iter().for_each(|counted| counted.set(0)));
    for (end, pipe) in ends() {
        let [readers, writers] = &pipe.counted;
        readers.set(readers.get() + u32::from(end.kind.get() != FILE_PIPE_WRITE));
        writers.set(writers.get() + u32::from(end.kind.get() != FILE_PIPE_READ));
    }
    for (_, pipe) in ends() {
        let [readers, writers] = [pipe.counted[0].get(), pipe.counted[1].get()];
        let was = [pipe.readers.load(Ordering::Relaxed), pipe.writers.load(Ordering::Relaxed)];
        if was != [readers, writers] {
            pipe.readers.store(readers, Ordering::Release);
            pipe.writers.store(writers, Ordering::Release);
            pipe.refs.store(readers + writers, Ordering::Release);
            wait::wake(cpu, &pipe.read_waiters);
            wait::wake(cpu, &pipe.write_waiters);
        }
    }
}
