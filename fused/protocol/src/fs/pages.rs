//! A file's pages: a radix tree of 512-entry index frames over 4 KiB frames. Absent pages are holes.

use motet_abi::Errno;
use motet_layout::{
    Frame, InodeRecord, PAGE_SHIFT, PAGE_SIZE, in_order,
    sync::{AtomicU64, Ordering},
};

use crate::{
    Context,
    lock::lock,
    memory::{alloc_file_frame, frame_refs, release_frame, share_frame},
};

/// Largest file, in bytes.
pub const FILE_SIZE_MAX: u64 = 1 << 40;
/// log2 of the entries of an index frame.
const LEVEL_BITS: u32 = 9;
/// With more levels, a tree would reach beyond any index.
const LEVELS_MAX: u32 = u64::BITS / LEVEL_BITS;

/// The frame of page `index` with a reference added for the caller, `None` for a hole.
pub fn page(context: &impl Context, inode: &'static InodeRecord, index: u64) -> Option<Frame> {
    let _guard = lock(context, &inode.lock);
    let frame = find(context, inode, index)?;
    share_frame(context, frame);
    Some(frame)
}

/// The frame of page `index`, which is made (zeroed) if it is a hole, with a reference added for the caller. The
/// file's size does not change.
///
/// # Errors
/// `ENXIO`: the file ends before it; `ENOSPC`.
pub fn page_or_allocate(context: &impl Context, inode: &'static InodeRecord, index: u64) -> Result<Frame, Errno> {
    let _guard = lock(context, &inode.lock);
    if !has_page(inode, index) {
        return Err(Errno::ENXIO);
    }
    let frame = find_or_allocate(context, inode, index)?;
    share_frame(context, frame);
    Ok(frame)
}

/// The word at `offset`, a multiple of 8, of a file that is a table of words: it has no name, and whoever uses it sees to it that nobody else does. It is neither
/// counted as read or written, nor told to anybody. `None`: it is in a hole.
pub fn word(context: &impl Context, inode: &'static InodeRecord, offset: u64) -> Option<&'static AtomicU64> {
    let frame = find(context, inode, offset >> PAGE_SHIFT)?;
    context.pool().get(frame.addr().add(offset % PAGE_SIZE))
}

/// As [`word`]; a hole is filled.
///
/// # Errors
/// `ENOSPC`.
pub fn word_or_allocate(
    context: &impl Context,
    inode: &'static InodeRecord,
    offset: u64,
) -> Result<&'static AtomicU64, Errno> {
    if let Some(word) = word(context, inode, offset) {
        return Ok(word);
    }
    let _guard = lock(context, &inode.lock);
    find_or_allocate(context, inode, offset >> PAGE_SHIFT)?;
    word(context, inode, offset).ok_or(Errno::ENOSPC)
}

/// Whether any byte of page `index` is before the file's end.
pub fn has_page(inode: &InodeRecord, index: u64) -> bool {
    index < inode.size.load(Ordering::Relaxed).div_ceil(PAGE_SIZE)
}

/// The frame of a page. The inode's lock is held.
#[inline]
pub(super) fn find(context: &impl Context, inode: &InodeRecord, index: u64) -> Option<Frame> {
    let mut level = inode.page_levels.get();
    let mut frame = Frame(inode.pages.get());
    if index >> (LEVEL_BITS * level) != 0 {
        return None;
    }
    while level > 0 && !frame.is_none() {
        level -= 1;
        frame = entry(context, frame, index, level);
    }
    (!frame.is_none()).then_some(frame)
}

/// How many pages from `index` on are known to be holes, by one look at the tree: 0 if that page is none.
pub fn absent_pages(context: &impl Context, inode: &'static InodeRecord, index: u64) -> u64 {
    let _guard = lock(context, &inode.lock);
    let mut level = inode.page_levels.get();
    let mut frame = Frame(inode.pages.get());
    if index >> (LEVEL_BITS * level) != 0 {
        return u64::MAX;
    }
    while level > 0 && !frame.is_none() {
        level -= 1;
        frame = entry(context, frame, index, level);
    }
    let span = 1 << (LEVEL_BITS * level);
    if frame.is_none() { span - index % span } else { 0 }
}

/// The frame of a page, made if it is absent. The inode's lock is held. A failure leaves index frames at most, which
/// belong to the tree.
pub(super) fn find_or_allocate(context: &impl Context, inode: &InodeRecord, index: u64) -> Result<Frame, Errno> {
    if index >= FILE_SIZE_MAX >> motet_layout::PAGE_SHIFT {
        return Err(Errno::EFBIG);
    }
    if let Some(frame) = find(context, inode, index) {
        return Ok(frame);
    }
    grow(context, inode, index)?;
    let allocate = || alloc_file_frame(context).ok_or(Errno::ENOSPC);
    let mut level = inode.page_levels.get();
    let mut frame = Frame(inode.pages.get());
    if frame.is_none() {
        frame = allocate()?;
        inode.pages.set(frame.0);
        inode.page_count.set(inode.page_count.get() + u32::from(level == 0));
    }
    while level > 0 {
        level -= 1;
        let mut below = entry(context, frame, index, level);
        if below.is_none() {
            below = allocate()?;
            set_entry(context, frame, slot(index, level), below);
            inode.page_count.set(inode.page_count.get() + u32::from(level == 0));
        }
        frame = below;
    }
    Ok(frame)
}

/// What freeing a frame, and looking at an entry of an index frame, cost of the work that may be done (instructions, roughly).
const FRAME_COST: u64 = 300;
const ENTRY_COST: u64 = 5;

/// Pages that were freed.
pub(super) struct Freed {
    /// All from here on were; those before, the next time.
    pub(super) from: u64,
    /// Somebody else uses one of them.
    pub(super) others: bool,
}

/// Frees the pages `from..to`, the last ones first, as many as `work` instructions (roughly) suffice for; at least one. The
/// inode's lock is held.
pub(super) fn free_range(context: &impl Context, inode: &InodeRecord, from: u64, to: u64, work: u64) -> Freed {
    let root = Frame(inode.pages.get());
    let mut cut = Cut { inode, from, to, work, reached: from, any: false, others: false };
    if !root.is_none() && from < to && cut.prune(context, root, inode.page_levels.get(), 0) {
        let level = inode.page_levels.get();
        inode.pages.set(0);
        inode.page_levels.set(0);
        cut.release(context, root, level);
    }
    Freed { from: cut.reached, others: cut.others }
}

/// Adds levels above the root until the tree reaches page `index`.
fn grow(context: &impl Context, inode: &InodeRecord, index: u64) -> Result<(), Errno> {
    while index >> (LEVEL_BITS * inode.page_levels.get()) != 0 {
        let below = Frame(inode.pages.get());
        if !below.is_none() {
            let above = alloc_file_frame(context).ok_or(Errno::ENOSPC)?;
            set_entry(context, above, 0, below);
            in_order();
            inode.new_root.set(u64::from(above.0) | u64::from(inode.page_levels.get() + 1) << 32);
            in_order();
            inode.pages.set(above.0);
        }
        inode.page_levels.set(inode.page_levels.get() + 1);
        in_order();
        inode.new_root.set(0);
    }
    Ok(())
}

/// Repairs the tree of a file whose lock a dead core held and this one has now, and counts its pages.
pub(super) fn recover(context: &impl Context, inode: &InodeRecord) {
    let new = inode.new_root.get();
    if new != 0 {
        inode.pages.set(new as u32);
        inode.page_levels.set((new >> 32) as u32);
        in_order();
        inode.new_root.set(0);
    }
    let mut left = context.pool().len() >> PAGE_SHIFT;
    let levels = inode.page_levels.get().min(LEVELS_MAX);
    inode.page_count.set(count(context, Frame(inode.pages.get()), levels, &mut left));
}

/// How many pages there are below a frame that is so many levels above them. `left`: how many frames there can be still; a damaged tree could have more.
fn count(context: &impl Context, frame: Frame, level: u32, left: &mut u64) -> u32 {
    if frame.is_none() || *left == 0 {
        return 0;
    }
    *left -= 1;
    if level == 0 {
        return 1;
    }
    let below = entries(context, frame).iter().map(|entry| Frame(entry.load(Ordering::Relaxed) as u32));
    below.map(|below| count(context, below, level - 1, left)).sum()
}

/// Pages that are being freed.
struct Cut<'a> {
    inode: &'a InodeRecord,
    from: u64,
    to: u64,
    /// What may still be done.
    work: u64,
    /// `from`, or where the work ended: pages before are still there.
    reached: u64,
    /// One was freed.
    any: bool,
    /// Somebody else uses one of them.
    others: bool,
}

impl Cut<'_> {
    /// Frees what `frame`, `level` levels above the pages and starting at page `first`, holds of them. `true`: nothing is left in it, and
    /// the caller frees it, once nothing refers to it.
    fn prune(&mut self, context: &impl Context, frame: Frame, level: u32, first: u64) -> bool {
        let span = 1 << (LEVEL_BITS * level);
        if self.from >= first + span || self.to <= first {
            return false;
        }
        if level == 0 {
            return true;
        }
        let below_span = span >> LEVEL_BITS;
        let below_first = |index: u64| first + index * below_span;
        let low = self.from.saturating_sub(first) / below_span;
        let high = (self.to - first).div_ceil(below_span).min(1 << LEVEL_BITS);
        let entries = entries(context, frame);
        let is_used = |entry: &AtomicU64| entry.load(Ordering::Relaxed) != 0;
        let mut empty = true;
        let mut end = high as usize;
        // From one that is used to the next: most may be absent.
        while let Some(passed) = entries[low as usize..end].iter().rev().position(is_used) {
            let index = end - 1 - passed;
            if self.work == 0 && self.any {
                self.reached = self.reached.max(below_first(index as u64 + 1));
                return false;
            }
            self.work = self.work.saturating_sub(ENTRY_COST * (passed as u64 + 1));
            end = index;
            let below = Frame(entries[index].load(Ordering::Relaxed) as u32);
            if self.prune(context, below, level - 1, below_first(index as u64)) {
                entries[index].store(0, Ordering::Relaxed);
                self.release(context, below, level - 1);
            } else {
                empty = false;
            }
        }
        if !empty || entries[..low as usize].iter().chain(&entries[high as usize..]).any(is_used) {
            return false;
        }
        true
    }

    /// Frees a frame that is no longer in the tree.
    fn release(&mut self, context: &impl Context, frame: Frame, level: u32) {
        in_order();
        if level == 0 {
            self.inode.page_count.set(self.inode.page_count.get() - 1);
            self.others |= frame_refs(context.pool(), frame) > 1;
            self.any = true;
        }
        release_frame(context, frame);
        self.work = self.work.saturating_sub(FRAME_COST);
    }
}

fn slot(index: u64, level: u32) -> usize {
    (index >> (LEVEL_BITS * level)) as usize % (1 << LEVEL_BITS)
}

#[inline(always)]
fn entry(context: &impl Context, frame: Frame, index: u64, level: u32) -> Frame {
    Frame(entries(context, frame)[slot(index, level)].load(Ordering::Relaxed) as u32)
}

#[inline(always)]
fn entries(context: &impl Context, frame: Frame) -> &'static [AtomicU64; 512] {
    match context.pool().page_words(frame.addr()) {
        Some(words) => words,
        None => panic!("page tree refers to frame {:#x} outside of the pool", frame.0),
    }
}

fn set_entry(context: &impl Context, frame: Frame, slot: usize, below: Frame) {
    entries(context, frame)[slot].store(u64::from(below.0), Ordering::Relaxed);
}
