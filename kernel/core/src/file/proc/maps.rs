//! `/proc/PID/maps`, `smaps` and `smaps_rollup`: what an address space has where, and how much of it is in memory.
//!
//! Each mapping is copied out of the address space by itself, and its pages are counted piece by piece: user memory is not touched with the space locked.
//! How many have a page is known by the references to its frame, not by whose they are: a page that one process maps twice counts as one of two.

use core::fmt::{Result as FmtResult, Write};

use motet_layout::sync::Ordering;

use motet_hal::Machine;
use motet_layout::{
    InodeRecord, IpcObject, PAGE_SIZE, SpaceRecord, VMA_DONT_FORK, VMA_EXECUTE, VMA_HEAP, VMA_LOCKED, VMA_NEVER_WRITE,
    VMA_NO_RESERVE, VMA_READ, VMA_SHARED, VMA_STACK, VMA_WIPE_ON_FORK, VMA_WRITE, VmaRecord,
};
use motet_protocol::{Context, fs, lock::lock};

use super::{super::path::absolute::path_or_last, Text, process::SpaceOf};
use crate::{
    call::{Call, PATH_MAX},
    cpu::Cpu,
    mm::{self, Usage},
};

/// `maps`. Each line is copied out of the address space by itself, so user memory is not touched with it locked.
pub fn maps<M: Machine>(call: &Call<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(space) = SpaceOf::new(call.cpu, id) else { return Ok(()) };
    let mut at = out.begin_lines();
    while out.begin_line(at)
        && let Some(line) = MapLine::next(call.cpu, space.space, at)
    {
        at = line.end;
        write_line(call, &line, out)?;
    }
    Ok(())
}

/// A line of `maps`.
fn write_line<M: Machine>(call: &Call<M>, line: &MapLine<M>, out: &mut Text<M>) -> FmtResult {
    let flag = |bit, set, clear| if line.flags & bit != 0 { set } else { clear };
    let [r, w, x, s] =
        [flag(VMA_READ, 'r', '-'), flag(VMA_WRITE, 'w', '-'), flag(VMA_EXECUTE, 'x', '-'), flag(VMA_SHARED, 's', 'p')];
    let device = if line.segment.is_some() { 1 } else { 2 };
    write!(out, "{:08x}-{:08x} {r}{w}{x}{s} {:08x} 00:{device:02} ", line.start, line.end, line.offset)?;
    let mut path = [0; PATH_MAX];
    let name: &[u8] = match &line.inode {
        Some(inode) => {
            write!(out, "{} ", inode.number.get())?;
            path_or_last(call, &inode.clone().into(), &mut path).unwrap_or(b" (deleted)")
        }
        None if let Some((key, id)) = line.segment => {
            write!(out, "{id} /SYSV{key:08x}")?;
            b" (deleted)"
        }
        None => {
            out.write_str("0 ")?;
            let flags = line.flags;
            if flags & VMA_STACK != 0 {
                b"[stack]"
            } else if flags & VMA_HEAP != 0 {
                b"[heap]"
            } else {
                b""
            }
        }
    };
    for chunk in name.utf8_chunks() {
        out.write_str(chunk.valid())?;
    }
    out.write_char('\n')
}

/// `smaps`: a line of `maps` for each mapping, and what of it is in memory.
pub fn smaps<M: Machine>(call: &Call<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(space) = SpaceOf::new(call.cpu, id) else { return Ok(()) };
    let mut at = out.begin_lines();
    while out.begin_line(at)
        && let Some(line) = MapLine::next(call.cpu, space.space, at)
    {
        at = line.end;
        write_line(call, &line, out)?;
        let usage = mm::usage(call, space.space, line.start..line.end);
        for (name, bytes) in
            [("Size", line.end - line.start), ("KernelPageSize", PAGE_SIZE), ("MMUPageSize", PAGE_SIZE)]
        {
            write_size(out, name, bytes)?;
        }
        write_usage(out, &usage, line.flags & VMA_LOCKED != 0, false)?;
        writeln!(out, "THPeligible:    {:8}", 0)?;
        write_flags(out, line.flags)?;
    }
    Ok(())
}

/// `smaps_rollup`: the sums of `smaps`.
pub fn smaps_rollup<M: Machine>(call: &Call<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(space) = SpaceOf::new(call.cpu, id) else { return Ok(()) };
    let (mut sum, mut first, mut end) = (Usage::default(), None, 0);
    while let Some(line) = MapLine::next(call.cpu, space.space, end) {
        first.get_or_insert(line.start);
        end = line.end;
        sum.add(&mm::usage(call, space.space, line.start..line.end), line.flags & VMA_LOCKED != 0);
    }
    writeln!(out, "{:08x}-{end:08x} ---p 00000000 00:00 0                          [rollup]", first.unwrap_or(0))?;
    write_usage(out, &sum, false, true)
}

fn write_size<M: Machine>(out: &mut Text<M>, name: &str, bytes: u64) -> FmtResult {
    let width = 24 - name.len() - 1;
    writeln!(out, "{name}:{:width$} kB", bytes / 1024)
}

/// The rows of `smaps`, or, of all of a process, those of its sum.
fn write_usage<M: Machine>(out: &mut Text<M>, usage: &Usage, is_locked: bool, is_sum: bool) -> FmtResult {
    let Usage { pss, anonymous_pss, dirty_pss, .. } = *usage;
    let resident: u64 = usage.shared.iter().chain(&usage.private).sum();
    let kinds =
        [("Pss_Anon", anonymous_pss), ("Pss_File", pss - anonymous_pss - usage.shm_pss), ("Pss_Shmem", usage.shm_pss)];
    for (name, bytes) in [("Rss", resident), ("Pss", pss), ("Pss_Dirty", dirty_pss)]
        .into_iter()
        .chain(kinds.into_iter().filter(|_| is_sum))
    {
        write_size(out, name, bytes)?;
    }
    for (name, bytes) in [
        ("Shared_Clean", usage.shared[0]),
        ("Shared_Dirty", usage.shared[1]),
        ("Private_Clean", usage.private[0]),
        ("Private_Dirty", usage.private[1]),
        // Nobody has looked who uses a page: all are taken for used.
        ("Referenced", resident),
        ("Anonymous", usage.anonymous),
        ("KSM", 0),
        ("LazyFree", 0),
        ("AnonHugePages", 0),
        ("ShmemPmdMapped", 0),
        ("FilePmdMapped", 0),
        ("Shared_Hugetlb", 0),
        ("Private_Hugetlb", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", if is_locked { pss } else { usage.locked_pss }),
    ] {
        write_size(out, name, bytes)?;
    }
    Ok(())
}

/// What a mapping is, by Linux's two letters.
fn write_flags<M: Machine>(out: &mut Text<M>, flags: u32) -> FmtResult {
    out.write_str("VmFlags: ")?;
    let may_write = flags & VMA_NEVER_WRITE == 0;
    for (is_so, name) in [
        (flags & VMA_READ != 0, "rd"),
        (flags & VMA_WRITE != 0, "wr"),
        (flags & VMA_EXECUTE != 0, "ex"),
        (flags & VMA_SHARED != 0, "sh"),
        (true, "mr"),
        (may_write, "mw"),
        (true, "me"),
        (flags & VMA_SHARED != 0 && may_write, "ms"),
        (flags & VMA_STACK != 0, "gd"),
        (flags & VMA_LOCKED != 0, "lo"),
        (flags & VMA_DONT_FORK != 0, "dc"),
        (flags & VMA_NO_RESERVE != 0, "nr"),
        (flags & VMA_WIPE_ON_FORK != 0, "wf"),
    ] {
        if is_so {
            write!(out, "{name} ")?;
        }
    }
    out.write_char('\n')
}

/// One line of `maps`.
struct MapLine<'c, M: Machine> {
    start: u64,
    end: u64,
    flags: u32,
    offset: u64,
    inode: Option<fs::Held<'c, Cpu<M>>>,
    /// The key that a segment was made with, and its id.
    segment: Option<(u32, u32)>,
}

impl<'c, M: Machine> MapLine<'c, M> {
    /// The first VMA that starts at `from` or above.
    fn next(cpu: &'c Cpu<M>, space: &SpaceRecord, from: u64) -> Option<Self> {
        let inode_of = |vma: &VmaRecord| cpu.object::<InodeRecord>(vma.inode.get());
        let segment_of = |vma| cpu.object::<IpcObject>(inode_of(vma)?.segment.load(Ordering::Relaxed));
        let _guard = lock(cpu, &space.lock);
        mm::vmas_within(cpu, space, from..u64::MAX).find(|vma| vma.start.get() >= from).map(|vma| Self {
            start: vma.start.get(),
            end: vma.end.get(),
            flags: vma.flags.get(),
            offset: vma.offset.get(),
            // A reference to a segment's pages would count as an attachment.
            inode: inode_of(vma).filter(|_| segment_of(vma).is_none()).map(|inode| fs::Held::new(cpu, inode)),
            segment: segment_of(vma).map(|segment| (segment.words[0].get(), segment.id.get())),
        })
    }
}
