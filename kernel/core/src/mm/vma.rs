//! VMAs: a list ordered by address, under the space's lock.

use core::{ops::Range, sync::atomic::Ordering};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{InodeRecord, Isa, PAGE_SIZE, SpaceRecord, VMA_STACK, VmaRecord};
use motet_protocol::{Context, fs, lock::lock, slab};

use super::space::tell_cores;
use crate::cpu::Cpu;

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
    /// 1 + the island that its frames should be near to; 0: whichever touches a page first.
    pub node: u32,
    /// What it shows, for views.
    pub view: View,
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
    /// What a VMA shows.
    pub fn of(vma: &VmaRecord) -> Self {
        Self {
            store: core::array::from_fn(|isa| vma.store[isa].get()),
            pin: Isa::from_raw(vma.pin.get()),
            local_calls: vma.local_calls.get(),
        }
    }

    fn put(&self, vma: &VmaRecord, displaced: u64) {
        for (slot, &store) in vma.store.iter().zip(&self.store) {
            slot.set(if store == 0 { 0 } else { store + displaced });
        }
        vma.pin.set(self.pin.map_or(0, |isa| isa as u32));
        vma.local_calls.set(self.local_calls);
    }
}

/// Bytes below the stack VMA that an access may grow it by at once.
const STACK_GROWTH_MAX: u64 = 8 << 20;

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

/// As [`find`]; grows the stack downwards when `address` is just below it.
pub fn find_or_grow<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
    let vma = first_ending_after(cpu, space, address)?;
    if vma.start.get() <= address {
        return Some(vma);
    }
    let page = address & !(PAGE_SIZE - 1);
    let floor =
        cpu.object::<VmaRecord>(vma.prev.get()).map_or(PAGE_SIZE * 16, |below| below.end.get() + PAGE_SIZE * 256);
    if vma.flags.get() & VMA_STACK == 0 || vma.end.get() - page > STACK_GROWTH_MAX || page < floor {
        return None;
    }
    space.mapped_len.set(space.mapped_len.get() + vma.start.get() - page);
    vma.start.set(page);
    Some(vma)
}

/// The first VMA whose end is above `address`.
pub fn first_ending_after<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
    let mut at = cpu.object::<VmaRecord>(space.first_vma.get());
    while let Some(vma) = at {
        if vma.end.get() > address {
            return Some(vma);
        }
        at = cpu.object(vma.next.get());
    }
    None
}

/// Calls `each` with every VMA in ascending order. The space's lock is held.
pub fn for_each<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, mut each: impl FnMut(&'static VmaRecord)) {
    let mut at = cpu.object::<VmaRecord>(space.first_vma.get());
    while let Some(vma) = at {
        let next = vma.next.get();
        each(vma);
        at = cpu.object(next);
    }
}

/// The address ranges of all VMAs, ascending. The space's lock is held, or nobody else uses it.
pub fn ranges<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> impl Iterator<Item = Range<u64>> {
    let first = cpu.object::<VmaRecord>(space.first_vma.get());
    core::iter::successors(first, |vma| cpu.object(vma.next.get())).map(|vma| vma.start.get()..vma.end.get())
}

/// Inserts a VMA. Merges it with the one below when they are alike (anonymous).
///
/// # Errors
/// `ENOMEM`, also when the range is not free (an executable may ask for the stack's place).
pub fn insert<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, spec: &VmaSpec) -> Result<(), Errno> {
    let next = first_ending_after(cpu, space, spec.start);
    if next.is_some_and(|next| next.start.get() < spec.end) {
        return Err(Errno::ENOMEM);
    }
    let prev = match next {
        Some(next) => cpu.object::<VmaRecord>(next.prev.get()),
        None => last(cpu, space),
    };
    let mapped_len = space.mapped_len.get() + spec.end - spec.start;
    if let Some(prev) = prev
        && spec.inode.is_none()
        && prev.inode.get() == 0
        && prev.flags.get() == spec.flags
        && prev.node.get() == spec.node
        && prev.end.get() == spec.start
        && spec.flags & VMA_STACK == 0
    {
        prev.end.set(spec.end);
        space.mapped_len.set(mapped_len);
        return Ok(());
    }
    let vma = slab::alloc::<VmaRecord>(cpu).ok_or(Errno::ENOMEM)?;
    vma.start.set(spec.start);
    vma.end.set(spec.end);
    vma.flags.set(spec.flags);
    vma.node.set(spec.node);
    vma.offset.set(spec.offset);
    vma.file_len.set(spec.file_len);
    spec.view.put(vma, 0);
    if let Some(inode) = spec.inode {
        fs::get(inode);
        vma.inode.set(cpu.raw(inode));
    }
    link(cpu, space, prev, vma, next);
    space.mapped_len.set(mapped_len);
    Ok(())
}

/// Takes `[start, end)` out of the VMAs, splitting those that it cuts. Pages stay mapped: the caller unmaps them.
///
/// # Errors
/// `ENOMEM` when a split finds no memory; nothing is changed beyond the splits made.
pub fn unmap<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> Result<(), Errno> {
    for_each_within(cpu, space, start, end, |vma| {
        space.mapped_len.set(space.mapped_len.get() - (vma.end.get() - vma.start.get()));
        unlink(cpu, space, vma);
        free(cpu, vma);
        Ok(())
    })
}

/// Calls `each` with VMAs that cover exactly `[start, end)` (as far as it is mapped), after splitting at its borders.
///
/// # Errors
/// `ENOMEM`; what `each` fails with.
pub fn for_each_within<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    mut each: impl FnMut(&'static VmaRecord) -> Result<(), Errno>,
) -> Result<(), Errno> {
    split_at(cpu, space, start)?;
    split_at(cpu, space, end)?;
    let mut at = first_ending_after(cpu, space, start);
    while let Some(vma) = at.filter(|vma| vma.start.get() < end) {
        at = cpu.object(vma.next.get());
        each(vma)?;
    }
    Ok(())
}

/// Frees a VMA that is not linked.
pub fn free<M: Machine>(cpu: &Cpu<M>, vma: &'static VmaRecord) {
    if let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()) {
        fs::put(cpu, inode);
    }
    slab::free(cpu, vma);
}

/// The highest address range of `len` bytes below `top` that no VMA uses. The space's lock is held.
pub fn find_free<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, len: u64, top: u64) -> Option<u64> {
    let mut above = top;
    let mut at = last(cpu, space);
    loop {
        let below = at.map_or(PAGE_SIZE * 16, |vma| vma.end.get());
        if at.is_none_or(|vma| vma.start.get() < above) && above >= below && above - below >= len {
            return Some(above - len);
        }
        let vma = at?;
        above = above.min(vma.start.get());
        at = cpu.object(vma.prev.get());
    }
}

fn split_at<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Result<(), Errno> {
    let Some(vma) = first_ending_after(cpu, space, address).filter(|vma| vma.start.get() < address) else {
        return Ok(());
    };
    let upper = slab::alloc::<VmaRecord>(cpu).ok_or(Errno::ENOMEM)?;
    let cut = address - vma.start.get();
    upper.start.set(address);
    upper.end.set(vma.end.get());
    upper.flags.set(vma.flags.get());
    upper.node.set(vma.node.get());
    upper.inode.set(vma.inode.get());
    upper.offset.set(vma.offset.get() + cut);
    upper.file_len.set(vma.file_len.get().saturating_sub(cut));
    View::of(vma).put(upper, cut);
    if let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()) {
        fs::get(inode);
    }
    vma.end.set(address);
    vma.file_len.set(vma.file_len.get().min(cut));
    link(cpu, space, Some(vma), upper, cpu.object(vma.next.get()));
    Ok(())
}

/// A VMA was added, taken away, or means something else than before: what cores remember of the space is no longer true.
/// The space's lock is held.
pub fn changed<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    space.epoch.store(space.epoch.load(Ordering::Relaxed) + 1, Ordering::SeqCst);
    tell_cores(cpu, space);
}

fn last<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> Option<&'static VmaRecord> {
    let mut at = cpu.object::<VmaRecord>(space.first_vma.get())?;
    while let Some(next) = cpu.object::<VmaRecord>(at.next.get()) {
        at = next;
    }
    Some(at)
}

fn link<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    prev: Option<&'static VmaRecord>,
    vma: &'static VmaRecord,
    next: Option<&'static VmaRecord>,
) {
    let raw = cpu.raw(vma);
    vma.prev.set(prev.map_or(0, |prev| cpu.raw(prev)));
    vma.next.set(next.map_or(0, |next| cpu.raw(next)));
    match prev {
        Some(prev) => prev.next.set(raw),
        None => space.first_vma.set(raw),
    }
    if let Some(next) = next {
        next.prev.set(raw);
    }
    space.vma_count.set(space.vma_count.get() + 1);
    changed(cpu, space);
}

fn unlink<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &'static VmaRecord) {
    match cpu.object::<VmaRecord>(vma.prev.get()) {
        Some(prev) => prev.next.set(vma.next.get()),
        None => space.first_vma.set(vma.next.get()),
    }
    if let Some(next) = cpu.object::<VmaRecord>(vma.next.get()) {
        next.prev.set(vma.prev.get());
    }
    if space.last_vma.get() == cpu.raw(vma) {
        space.last_vma.set(0);
    }
    space.vma_count.set(space.vma_count.get() - 1);
    changed(cpu, space);
}
