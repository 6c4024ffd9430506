//! VMAs: the ranges of a space, and what each contains. They are in a tree by address (`motet_protocol::range_tree`), under the space's
//! lock.
//!
//! A record and its tree slot both say where it starts and ends: only this file changes that.

use core::{ops::Range, sync::atomic::Ordering};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    InodeRecord, Isa, PAGE_SIZE, PoolAddr, SpaceRecord, ThreadRecord, VMA_EXECUTE, VMA_LOCKED, VMA_READ, VMA_SHARED,
    VMA_STACK, VMA_STORE, VMA_VIEW, VMA_WRITE, VmaRecord, handshake::then_look, in_order,
};
use motet_paging::Attr;
use motet_protocol::{
    Context, fs, ipc,
    lock::lock,
    range_tree::{self, Entry},
    slab,
};

use super::{epoch::changed, policy::Policy};
use crate::{call::cost, cpu::Cpu, due, registers::fpga, tree::process_of};

/// What a new VMA is.
#[derive(Clone, Copy)]
pub struct VmaSpec {
    /// First address, page-aligned.
    pub start: u64,
    /// First address past it, page-aligned.
    pub end: u64,
    /// `VMA_*`.
    pub flags: u32,
    /// The file it maps; the VMA takes a reference of its own.
    pub inode: Option<&'static InodeRecord>,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Bytes of the file mapped from `start` on; the rest is zero.
    pub file_len: u64,
    /// Which islands its frames should be near to.
    pub policy: Policy,
    /// What it shows, for views.
    pub view: View,
}

impl VmaSpec {
    /// Memory that belongs to no file.
    pub fn anonymous(start: u64, end: u64, flags: u32) -> Self {
        Self { start, end, flags, inode: None, offset: 0, file_len: 0, policy: Policy::DEFAULT, view: View::default() }
    }

    /// The contents of a VMA, decoded.
    pub fn of<M: Machine>(cpu: &Cpu<M>, vma: &VmaRecord) -> Self {
        Self {
            start: vma.start.get(),
            end: vma.end.get(),
            flags: vma.flags.get(),
            inode: cpu.object(vma.inode.get()),
            offset: vma.offset.get(),
            file_len: vma.file_len.get(),
            policy: Policy(vma.policy.get()),
            view: View::of(vma),
        }
    }

    fn len(&self) -> u64 {
        self.end - self.start
    }

    /// The one VMA that is the same as this one and its neighbour `above`, if there is one.
    fn joined(&self, above: &Self) -> Option<Self> {
        let stays_alone = (self.flags | above.flags) & (VMA_STACK | VMA_VIEW | VMA_STORE) != 0;
        let is_alike =
            self.end == above.start && self.flags == above.flags && self.policy == above.policy && !stays_alone;
        let file_len = match (self.inode, above.inode) {
            (None, None) => Some(0),
            (Some(inode), Some(other)) if core::ptr::eq(inode, other) && self.offset + self.len() == above.offset => {
                match self.file_len {
                    whole if whole >= self.len() => Some(self.len() + above.file_len),
                    part => (above.file_len == 0).then_some(part),
                }
            }
            (Some(_) | None, _) => None,
        };
        file_len.filter(|_| is_alike).map(|file_len| Self { end: above.end, file_len, ..*self })
    }
}

/// What a view ([`motet_layout::VMA_VIEW`]) shows. Nothing, for other VMAs.
#[derive(Clone, Copy, Default)]
pub struct View {
    /// By ISA code - 1: address in that ISA's store which the view's start shows; 0: none.
    pub store: [u64; 4],
    /// The ISA that alone executes it.
    pub pin: Option<Isa>,
    /// Calls that let other ISAs execute it, too.
    pub local_calls: u32,
}

impl View {
    /// What a view shows, decoded.
    pub fn of(vma: &VmaRecord) -> Self {
        Self {
            store: core::array::from_fn(|isa| vma.store[isa].get()),
            pin: Isa::from_raw(vma.pin.get()),
            local_calls: vma.local_calls.get(),
        }
    }

    /// What is shown from that many bytes above its start on.
    fn displaced(&self, by: u64) -> Self {
        Self { store: self.store.map(|store| if store == 0 { 0 } else { store + by }), ..*self }
    }

    fn put(&self, vma: &VmaRecord) {
        for (slot, &store) in vma.store.iter().zip(&self.store) {
            slot.set(store);
        }
        vma.pin.set(self.pin.map_or(0, |isa| isa as u32));
        vma.local_calls.set(self.local_calls);
    }
}

/// What the VMA allows, as page attributes.
pub fn attr_of(vma: &VmaRecord) -> Attr {
    let flags = vma.flags.get();
    let mut attr = Attr::NONE;
    for (flag, bit) in [(VMA_READ, Attr::READ), (VMA_WRITE, Attr::WRITE), (VMA_EXECUTE, Attr::EXECUTE)] {
        if flags & flag != 0 {
            attr = attr.union(bit);
        }
    }
    attr.normalised()
}

/// The island (an index) whose memory a VMA's new frames should be.
pub fn island_for<M: Machine>(cpu: &Cpu<M>, vma: &VmaRecord) -> usize {
    Policy(vma.policy.get()).or(Policy::of_current(cpu)).island().unwrap_or(cpu.memory_index())
}

/// Most VMAs that a program may have (Linux's default of `vm.max_map_count`): nobody fills the pool with them.
pub const COUNT_MAX: u32 = 65_530;

/// What finding the next VMA costs.
const FOUND: u64 = 100;

/// The lowest address that is given to who does not ask for one.
pub const FLOOR: u64 = PAGE_SIZE * 16;

/// The VMA that contains `address`. The space's lock is held.
pub fn find<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
    if let Some(hint) = cpu.object::<VmaRecord>(space.last_vma.get())
        && hint.start.get() <= address
        && address < hint.end.get()
    {
        return Some(hint);
    }
    let found = first_ending_after(cpu, space, address).filter(|vma| vma.start.get() <= address)?;
    space.last_vma.set(cpu.raw(found));
    Some(found)
}

/// Whether `address` is in a VMA, whatever that allows.
pub fn is_mapped<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> bool {
    let _guard = lock(cpu, &space.lock);
    find(cpu, space, address).is_some()
}

/// The addresses of the VMA that `address` is in; none, if there is none.
pub fn area_at<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Range<u64> {
    let _guard = lock(cpu, &space.lock);
    find(cpu, space, address).map_or(0..0, |vma| vma.start.get()..vma.end.get())
}

/// The first VMA whose end is above `address`.
pub fn first_ending_after<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
    record_of(cpu, range_tree::first_ending_after(cpu, &space.vma_root, address)?)
}

/// The last VMA whose start is below `address`.
pub fn last_starting_before<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
    record_of(cpu, range_tree::last_starting_before(cpu, &space.vma_root, address)?)
}

fn record_of<M: Machine>(cpu: &Cpu<M>, entry: Entry) -> Option<&'static VmaRecord> {
    let vma = cpu.pool.get::<VmaRecord>(PoolAddr(entry.value))?;
    // So a damaged link cannot lead in circles: who goes from VMA to VMA always goes up.
    (vma.start.get() == entry.start && vma.end.get() == entry.end).then_some(vma)
}

/// The VMAs that have part of a range, in ascending order. None is added or removed meanwhile. The space's lock is held, or
/// nobody else uses it. However many there are, the core looks in between what else is due.
pub fn within<'a, M: Machine>(
    cpu: &'a Cpu<M>,
    space: &'a SpaceRecord,
    range: Range<u64>,
) -> impl Iterator<Item = &'static VmaRecord> + 'a {
    let entries = range_tree::from(cpu, &space.vma_root, range.start);
    let found = entries.map_while(|entry| record_of(cpu, entry)).take_while(move |vma| vma.start.get() < range.end);
    found.inspect(|_| due::spend_locked(cpu, FOUND))
}

/// Calls `each` with every VMA in ascending order. The space's lock is held.
pub fn for_each<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, each: impl FnMut(&'static VmaRecord)) {
    within(cpu, space, 0..u64::MAX).for_each(each);
}

/// The address ranges of all VMAs, ascending. The space's lock is held, or nobody else uses it.
pub fn ranges<'a, M: Machine>(cpu: &'a Cpu<M>, space: &'a SpaceRecord) -> impl Iterator<Item = Range<u64>> + 'a {
    within(cpu, space, 0..u64::MAX).map(|vma| vma.start.get()..vma.end.get())
}

/// Inserts a VMA, and merges it with its neighbours if they are alike.
///
/// # Errors
/// `ENOMEM`, also when the range is not free (an executable may ask for the stack's place).
pub fn insert<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, spec: &VmaSpec) -> Result<(), Errno> {
    let above = first_ending_after(cpu, space, spec.start);
    if above.is_some_and(|above| above.start.get() < spec.end) {
        return Err(Errno::ENOMEM);
    }
    let below = last_starting_before(cpu, space, spec.start);
    if let Some((below, joined)) = below.and_then(|below| Some((below, VmaSpec::of(cpu, below).joined(spec)?))) {
        become_joined(cpu, space, below, &joined)?;
        join_with_next(cpu, space, below);
        return Ok(());
    }
    match above.and_then(|above| Some((above, spec.joined(&VmaSpec::of(cpu, above))?))) {
        Some((above, joined)) => become_joined(cpu, space, above, &joined),
        None => add(cpu, space, spec),
    }
}

/// Adds a VMA of its own.
///
/// # Errors
/// As for [`insert`].
pub fn add<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, spec: &VmaSpec) -> Result<(), Errno> {
    let vma = slab::alloc::<VmaRecord>(cpu).ok_or(Errno::ENOMEM)?;
    let entry = Entry { start: spec.start, end: spec.end, value: cpu.raw(vma) };
    begin_change(space);
    if range_tree::insert(cpu, &space.vma_root, entry).is_err() {
        end_change(space);
        slab::free(cpu, vma);
        return Err(Errno::ENOMEM);
    }
    vma.start.set(spec.start);
    vma.end.set(spec.end);
    vma.flags.set(spec.flags);
    vma.policy.set(spec.policy.0);
    vma.offset.set(spec.offset);
    vma.file_len.set(spec.file_len);
    spec.view.put(vma);
    if let Some(inode) = spec.inode {
        fs::get(inode);
        fpga::forget_grant(space, inode);
        if spec.flags & VMA_SHARED == 0 && inode.mapped_privately.load(Ordering::Relaxed) == 0 {
            inode.mapped_privately.store(1, Ordering::Relaxed);
            then_look(); // at the file's size, when there are faults
        }
        vma.inode.set(cpu.raw(inode));
    }
    space.vma_count.set(space.vma_count.get() + 1);
    space.mapped_len.set(space.mapped_len.get() + spec.len());
    count_locked(space, spec.flags, 0, spec.len());
    end_change(space);
    changed(cpu, space);
    Ok(())
}

/// Whether a program may unmap `[start, end)`: not if that makes two of one VMA and it has as many as it may.
///
/// # Errors
/// `ENOMEM`: it may not.
pub fn may_cut<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> Result<(), Errno> {
    let cut = first_ending_after(cpu, space, start).filter(|vma| vma.start.get() < start && vma.end.get() > end);
    if cut.is_some() { has_room(space) } else { Ok(()) }
}

/// Takes `[start, end)` out of the VMAs, splitting those that it cuts. Pages stay mapped: the caller unmaps them.
///
/// # Errors
/// `ENOMEM` when a split finds no memory; nothing is changed beyond the splits made.
pub fn unmap<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> Result<(), Errno> {
    split_at(cpu, space, start)?;
    split_at(cpu, space, end)?;
    let first = || first_ending_after(cpu, space, start).filter(|vma| vma.start.get() < end);
    while let Some(vma) = first() {
        if !remove(cpu, space, vma) {
            break; // a damaged tree
        }
    }
    Ok(())
}

/// Calls `each` with VMAs that cover exactly `[start, end)` (as far as it is mapped), after splitting at its borders.
///
/// # Errors
/// `ENOMEM`, also when a program has too many VMAs; what `each` fails with.
pub fn for_each_within<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    each: impl FnMut(&'static VmaRecord) -> Result<(), Errno>,
) -> Result<(), Errno> {
    for border in [start, end] {
        if first_ending_after(cpu, space, border).is_some_and(|vma| vma.start.get() < border) {
            has_room(space)?;
            split_at(cpu, space, border)?;
        }
    }
    within(cpu, space, start..end).try_for_each(each)
}

/// Merges neighbours that are alike, within a range and at its borders.
pub fn join_within<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) {
    let mut at = first_ending_after(cpu, space, start.saturating_sub(1));
    while let Some(vma) = at.filter(|vma| vma.end.get() <= end) {
        if !join_with_next(cpu, space, vma) {
            at = first_ending_after(cpu, space, vma.end.get());
        }
    }
}

/// Whether a program may have one more VMA.
///
/// # Errors
/// `ENOMEM`: it may not.
pub fn has_room(space: &SpaceRecord) -> Result<(), Errno> {
    if space.vma_count.get() < COUNT_MAX { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// Removes all VMAs, of a space that nobody uses any more.
pub fn clear<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    range_tree::clear(cpu, &space.vma_root, |value| {
        if let Some(vma) = cpu.pool.get::<VmaRecord>(PoolAddr(value)) {
            free(cpu, space, vma);
            due::spend_locked(cpu, cost::OBJECT);
        }
    });
}

/// The highest address range of `len` bytes below `top` that no VMA uses. The space's lock is held.
pub fn find_free<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, len: u64, top: u64) -> Option<u64> {
    range_tree::highest_gap(cpu, &space.vma_root, len, FLOOR, top)
}

/// Gives a VMA other bounds, with no other VMA between them and the old ones.
///
/// # Errors
/// `ENOMEM` when there is one.
pub fn resize<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    vma: &VmaRecord,
    start: u64,
    end: u64,
) -> Result<(), Errno> {
    let (old_start, old_end) = (vma.start.get(), vma.end.get());
    begin_change(space);
    let resized = range_tree::resize(cpu, &space.vma_root, old_start, start, end);
    if resized.is_ok() {
        vma.start.set(start);
        vma.end.set(end);
    }
    end_change(space);
    resized.map_err(|_| Errno::ENOMEM)?;
    space.mapped_len.set(space.mapped_len.get() - (old_end - old_start) + (end - start));
    count_locked(space, vma.flags.get(), old_end - old_start, end - start);
    Ok(())
}

/// A VMA allows something else from now on. The space's lock is held.
pub fn set_flags<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &VmaRecord, flags: u32) {
    vma.flags.set(flags);
    if let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()) {
        fpga::forget_grant(space, inode);
    }
    changed(cpu, space);
}

/// Sets flags of a VMA that are not about what it allows, and clears others. The space's lock is held.
pub fn mark(space: &SpaceRecord, vma: &VmaRecord, set: u32, clear: u32) {
    let (old, len) = (vma.flags.get(), vma.end.get() - vma.start.get());
    let new = old & !clear | set;
    count_locked(space, old, len, 0);
    vma.flags.set(new);
    count_locked(space, new, 0, len);
}

/// A VMA with these flags gets longer or shorter.
#[inline]
fn count_locked(space: &SpaceRecord, flags: u32, old_len: u64, new_len: u64) {
    if flags & VMA_LOCKED != 0 {
        space.locked_len.set(space.locked_len.get().wrapping_sub(old_len).wrapping_add(new_len));
    }
}

fn split_at<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Result<(), Errno> {
    let Some(vma) = first_ending_after(cpu, space, address).filter(|vma| vma.start.get() < address) else {
        return Ok(());
    };
    let whole = VmaSpec::of(cpu, vma);
    let cut = address - whole.start;
    resize(cpu, space, vma, whole.start, address)?;
    let upper = VmaSpec {
        start: address,
        offset: whole.offset + cut,
        file_len: whole.file_len.saturating_sub(cut),
        view: whole.view.displaced(cut),
        ..whole
    };
    if let Err(errno) = add(cpu, space, &upper) {
        let _ = resize(cpu, space, vma, whole.start, whole.end); // to what it was
        return Err(errno);
    }
    vma.file_len.set(whole.file_len.min(cut));
    Ok(())
}

/// Makes one of a VMA and its upper neighbour if they are alike: whether they were.
fn join_with_next<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &'static VmaRecord) -> bool {
    let Some(next) = first_ending_after(cpu, space, vma.end.get()) else { return false };
    let Some(joined) = VmaSpec::of(cpu, vma).joined(&VmaSpec::of(cpu, next)) else { return false };
    if !remove(cpu, space, next) {
        return false;
    }
    become_joined(cpu, space, vma, &joined).is_ok()
}

/// Makes a VMA what it and a neighbour are together.
fn become_joined<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    vma: &VmaRecord,
    joined: &VmaSpec,
) -> Result<(), Errno> {
    resize(cpu, space, vma, joined.start, joined.end)?;
    vma.offset.set(joined.offset);
    vma.file_len.set(joined.file_len);
    Ok(())
}

/// Takes a VMA out of the space and frees it, unless the tree is damaged.
fn remove<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &'static VmaRecord) -> bool {
    begin_change(space);
    let removed = range_tree::remove(cpu, &space.vma_root, vma.start.get());
    end_change(space);
    if removed.is_err() {
        return false;
    }
    if space.last_vma.get() == cpu.raw(vma) {
        space.last_vma.set(0);
    }
    space.vma_count.set(space.vma_count.get() - 1);
    space.mapped_len.set(space.mapped_len.get() - (vma.end.get() - vma.start.get()));
    count_locked(space, vma.flags.get(), vma.end.get() - vma.start.get(), 0);
    changed(cpu, space);
    free(cpu, space, vma);
    true
}

/// The tree is about to change: until [`end_change`], nobody can go by it but who changes it.
fn begin_change(space: &SpaceRecord) {
    space.changing.set(1);
    in_order();
}

fn end_change(space: &SpaceRecord) {
    in_order();
    space.changing.set(0);
}

/// Removes all VMAs of a space, because a core has died while it changed the tree. Those that can be found are freed; nodes of the tree are lost.
/// The space's lock is held, or nobody else uses it.
pub fn give_up<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    // Some may be there twice. Who has been freed is not what the tree says.
    within(cpu, space, 0..u64::MAX).for_each(|vma| free(cpu, space, vma));
    space.vma_root.set(0);
    space.last_vma.set(0);
    space.vma_count.set(0);
    space.mapped_len.set(0);
    space.locked_len.set(0);
    changed(cpu, space);
    end_change(space);
}

/// Frees a VMA of a space that is in no tree.
fn free<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &'static VmaRecord) {
    if let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()) {
        fpga::forget_grant(space, inode);
        let segment = inode.segment.load(Ordering::Relaxed);
        if segment != 0 {
            detached(cpu, inode);
        }
        fs::put(cpu, inode);
        if segment != 0 {
            ipc::left(cpu, segment);
        }
    }
    slab::free(cpu, vma);
}

/// A mapping of a segment goes (`attach`).
#[cold]
fn detached<M: Machine>(cpu: &Cpu<M>, inode: &InodeRecord) {
    const NS_PER_SECOND: u64 = 1_000_000_000;
    let thread = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed));
    let pid = thread.map_or(0, |thread| process_of(cpu, thread).pid.get());
    ipc::detached(cpu, inode, pid, cpu.realtime_ns() / NS_PER_SECOND);
}
