//! Making, copying, using and ending address spaces.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, FatProgram, Frame, IslandId, PoolAddr, SpaceRecord, USER_END, VMA_DONT_FORK,
    VMA_LOCKED, VMA_SHARED, VMA_VIEW, VMA_WIPE_ON_FORK, VmaRecord,
};
use motet_paging::OutOfFrames;
use motet_protocol::{
    Context,
    cores::is_dead,
    lock::{Guard, lock},
    residency, run_queue, slab,
};

use super::{
    epoch::{epoch, tell_cores},
    kept, view, vma,
};
use crate::{
    ability::hidden,
    call::{BUDGET, cost},
    cpu::Cpu,
    due, registers,
};

/// What frames cost that go back at once.
const RELEASED: u64 = slab::RELEASED_AT_ONCE as u64 * cost::FRAME;

/// What a new VMA costs.
const ADDED: u64 = 400;

/// Epochs of a space, before they would be another's.
const EPOCH_SHIFT: u32 = 32;

/// A new, empty space of a program for one ISA, whose home is this island.
///
/// # Errors
/// `ENOMEM`.
pub fn create<M: Machine>(cpu: &Cpu<M>) -> Result<&'static SpaceRecord, Errno> {
    create_for(cpu, cpu.island(), false)
}

/// As [`create`], to be filled here and used on `island`, which is its home; `is_fat`: by a program for several ISAs.
///
/// # Errors
/// `ENOMEM`.
pub fn create_for<M: Machine>(cpu: &Cpu<M>, island: IslandId, is_fat: bool) -> Result<&'static SpaceRecord, Errno> {
    let space = slab::alloc::<SpaceRecord>(cpu).ok_or(Errno::ENOMEM)?;
    space.refs.store(1, Ordering::Relaxed);
    let made = cpu.pool.header().spaces_made.fetch_add(1, Ordering::Relaxed);
    space.epoch.store((made + 1) << EPOCH_SHIFT, Ordering::Relaxed);
    space.home.set(u32::from(island.0));
    space.mmap_top.set(USER_END);
    if residency::make_root(cpu, space, island, is_fat || island != cpu.island()).is_none() {
        slab::free(cpu, space);
        return Err(Errno::ENOMEM);
    }
    Ok(space)
}

/// Adds a user.
pub fn share(space: &SpaceRecord) {
    space.refs.fetch_add(1, Ordering::Relaxed);
}

/// Drops a user; the last one frees everything. The space must not be active on this core.
pub fn release<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) {
    if space.refs.fetch_sub(1, Ordering::SeqCst) != 1 {
        return;
    }
    tell_cores(cpu, space);
    // A core that is just switching away may still walk the tables (its kernel half may be in the root), and one to
    // which calls came from here may sleep with them: it wakes and switches away.
    for (active, island) in space.active.iter().zip((0..).filter_map(IslandId::from_raw)) {
        for core in (0..CORES_PER_ISLAND_MAX).filter(|core| active.load(Ordering::SeqCst) >> core & 1 != 0) {
            let core = CoreId::new(island, core);
            if !run_queue::wake_core(cpu, core) {
                cpu.ring(core); // it may run guests, which need no space, for long
            }
        }
        while active.load(Ordering::SeqCst) != 0 && !is_dead(cpu, CoreId::new(island, 0)) {
            cpu.relax();
        }
    }
    if let Some(fat) = cpu.object::<FatProgram>(space.fat.get()) {
        slab::free(cpu, fat);
    }
    // Of what several kernels keep alike, pages may be where no VMA is.
    let is_kept = kept::end(cpu, space);
    recover(cpu, space);
    dismantle(cpu, space, is_kept);
    vma::clear(cpu, space);
    slab::free(cpu, space);
}

/// Repairs a space whose lock a dead core held and this one has now, or that nobody else uses. Page tables are whole at any time; of a tree of
/// VMAs that was being changed nothing is left, and the space's processes end ([`crate::death`]).
pub fn recover<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    if space.changing.get() != 0 {
        space.damaged.store(1, Ordering::Release);
        vma::give_up(cpu, space);
    }
}

/// Takes the tables of a space apart that no core has active, and releases its pages.
fn dismantle<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, has_more: bool) {
    if has_more || space.damaged.load(Ordering::Relaxed) != 0 {
        residency::dismantle(cpu, space, || core::iter::once(0..u64::MAX));
    } else {
        // Tables lie where VMAs are.
        residency::dismantle(cpu, space, || vma::ranges(cpu, space));
    }
}

/// Makes this core translate by the space's table (making one for this island if there is none).
///
/// # Errors
/// `ENOMEM`.
#[inline(always)]
pub fn activate<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) -> Result<(), Errno> {
    if cpu.mm.active() == cpu.raw(space) { Ok(()) } else { change_to(cpu, space) }
}

#[inline(never)]
fn change_to<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) -> Result<(), Errno> {
    let root = match Frame(space.roots[cpu.island().index()].load(Ordering::Relaxed)) {
        Frame::NONE => {
            let _guard = lock(cpu, &space.lock);
            residency::ensure_root(cpu, space).ok_or(Errno::ENOMEM)?
        }
        root => root,
    };
    if space.unprepared.load(Ordering::Acquire) != 0 {
        residency::prepare(cpu, space);
    }
    if cpu.island_life != 0 {
        // The dead kernel's half of it, unless that has been done.
        cpu.machine.prepare_root(root);
    }
    // Set the bit, then translate: from then on a core that edits the table asks this one to drop translations.
    space.active[cpu.island().index()].fetch_or(own_bit(cpu), Ordering::SeqCst);
    cpu.activate_space(root);
    leave_active(cpu, cpu.raw(space));
    Ok(())
}

/// A thread of the space is about to be away from this core: shoot-downs ask this core, whatever it has active.
pub fn keep_active<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) {
    space.active[cpu.island().index()].fetch_or(own_bit(cpu), Ordering::SeqCst);
}

/// A thread of the space is home: shoot-downs need not ask this core any more, unless others are away or it has the space active.
pub fn leave_if_unused<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) {
    let raw = cpu.raw(space);
    if cpu.mm.active() != raw && !hidden::has_away(cpu, raw) {
        space.active[cpu.island().index()].fetch_and(!own_bit(cpu), Ordering::SeqCst);
    }
}

/// Whether the space that this core has active, if any, still belongs to somebody.
#[inline(always)]
pub fn may_stay_active<M: Machine>(cpu: &Cpu<M>) -> bool {
    let Some(space) = cpu.object::<SpaceRecord>(cpu.mm.active()) else { return true };
    if cpu.islands.are_uncached() {
        if cpu.mm.epoch() != 0 && cpu.own.space_changed.load(Ordering::SeqCst) == 0 {
            return true;
        }
        epoch(cpu, space);
    }
    let may_stay = space.refs.load(Ordering::SeqCst) != 0;
    if !may_stay {
        cpu.own.space_changed.store(1, Ordering::Release); // for the next look
    }
    may_stay
}

/// Makes this core translate no user address.
pub fn deactivate<M: Machine>(cpu: &Cpu<M>) {
    if cpu.mm.active() != 0 {
        cpu.activate_space(Frame::NONE);
        leave_active(cpu, 0);
    }
}

/// This core is about to wait for others. Who ends a space waits for the cores that have it active: this one keeps none that no thread of it needs.
pub fn leave_before_waiting<M: Machine>(cpu: &Cpu<M>) {
    if cpu.own.current_thread.load(Ordering::Relaxed) == 0 {
        deactivate(cpu);
    }
}

/// Gives frames of kernel objects back that nobody uses any more, if there are some: all cores are waited for. `false`: something else is due
/// before all have gone back; the next call, of any core, goes on.
#[inline(always)]
pub fn return_slabs<M: Machine>(cpu: &Cpu<M>) -> bool {
    !slab::has_retired(cpu) || {
        leave_before_waiting(cpu);
        slab::return_retired(cpu, || cpu.spend(RELEASED) && due::has_come(cpu))
    }
}

/// Makes a copy of `parent` for a forked process: private pages are shared until one side writes to them. `made` is told of the copy
/// before there is anything in it, and has it even if this fails.
///
/// # Errors
/// `ENOMEM`; `EAGAIN`: a device that is a thread uses the parent's memory, and would go on with a child's.
pub fn fork<M: Machine>(
    cpu: &Cpu<M>,
    parent: &'static SpaceRecord,
    made: impl FnOnce(&'static SpaceRecord),
) -> Result<(), Errno> {
    let child = create_for(cpu, cpu.island(), parent.fat.get() != 0)?;
    made(child);
    due::spend_locked(cpu, cost::STEP);
    let guard = lock_without_transfers(cpu, parent);
    // It may compute for long, or wait for whoever forks. And what threads have taken to other kernels since it was brought home would be missing.
    if registers::has_devices(cpu, parent) || kept::has_left(cpu, parent) {
        return Err(Errno::EAGAIN);
    }
    parent.forks.set(parent.forks.get().wrapping_add(1));
    child.has_late.store(parent.has_late.load(Ordering::Relaxed), Ordering::Relaxed);
    child.brk[0].set(parent.brk[0].get());
    child.brk[1].set(parent.brk[1].get());
    child.mmap_top.set(parent.mmap_top.get());
    let copied = view::copy_program(cpu, parent, child).and_then(|()| copy_vmas(cpu, parent, child));
    drop(guard);
    // What follows finds most pages read-only, and faults.
    due::spend_locked(cpu, BUDGET);
    copied
}

/// Locks a space when no engine reads or writes its memory: a child would be written, too.
fn lock_without_transfers<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) -> Guard<'static> {
    loop {
        let guard = lock(cpu, &space.lock);
        if !registers::has_transfers(cpu, space) {
            return guard;
        }
        drop(guard);
        cpu.relax();
        due::spend_locked(cpu, cost::OBJECT);
    }
}

/// Gives the child the parent's VMAs and their pages.
fn copy_vmas<M: Machine>(cpu: &Cpu<M>, parent: &SpaceRecord, child: &SpaceRecord) -> Result<(), Errno> {
    residency::copy(cpu, parent, child, |copying| {
        let inherited = |vma: &VmaRecord| vma.flags.get() & VMA_DONT_FORK == 0;
        for vma in vma::within(cpu, parent, 0..u64::MAX).filter(|vma| inherited(vma)) {
            // What is locked is the parent's alone.
            let spec = vma::VmaSpec::of(cpu, vma);
            vma::add(cpu, child, &vma::VmaSpec { flags: spec.flags & !VMA_LOCKED, ..spec })?;
            due::spend_locked(cpu, ADDED);
            // Nothing belongs to a view: the child looks by itself.
            if vma.flags.get() & (VMA_VIEW | VMA_WIPE_ON_FORK) == 0 {
                let is_shared = vma.flags.get() & VMA_SHARED != 0;
                let copied = copying.range(vma.start.get()..vma.end.get(), is_shared);
                copied.map_err(|_: OutOfFrames| Errno::ENOMEM)?;
            }
        }
        Ok(())
    })
}

fn own_bit<M: Machine>(cpu: &Cpu<M>) -> u32 {
    1 << (cpu.id.index() % CORES_PER_ISLAND_MAX)
}

/// The core's hardware no longer uses the space that was active: says so, and remembers the new one.
fn leave_active<M: Machine>(cpu: &Cpu<M>, new: u64) {
    let old = cpu.mm.change(new);
    if old != 0 && !hidden::has_away(cpu, old) {
        let space = cpu.pool.at::<SpaceRecord>(PoolAddr(old));
        space.active[cpu.island().index()].fetch_and(!own_bit(cpu), Ordering::SeqCst);
    }
}
