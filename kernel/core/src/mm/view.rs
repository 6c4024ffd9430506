//! Text that differs by ISA: each island sees, at the same addresses, the code that was compiled for its ISA.
//!
//! A program's text of each ISA lies in a *store*, an ordinary mapping of the file at addresses that nothing else uses and
//! that the program cannot change. At the addresses that the program uses for its text there is a *view*, which has no pages of its own: an island's
//! table shows there the frames of its ISA's store. Leaves of views are *borrowed*, in the home's table, too: they hold
//! no reference; the store's leaves do.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    FatProgram, Isa, IslandId, PAGE_SIZE, SpaceRecord, VMA_EXECUTE, VMA_LOCAL, VMA_RAN_LOCALLY, VMA_STORE, VMA_VIEW,
    VMA_WRITE, VmaRecord,
};
use motet_protocol::{Context, lock::lock, residency, slab};

use super::{epoch::changed, vma};
use crate::cpu::Cpu;

/// Returns the address at which the store of an ISA has what a view shows at `address`.
pub fn store_address(vma: &VmaRecord, isa: Isa, address: u64) -> Option<u64> {
    let start = vma.store.get(isa as usize - 1).map_or(0, |store| store.get());
    (start != 0).then(|| start + (address - vma.start.get()))
}

/// Whether cores of an ISA execute what a view shows.
pub fn executes(vma: &VmaRecord, isa: Isa) -> bool {
    let pinned_here = vma.pin.get() == 0 || vma.pin.get() == isa as u32;
    let is_local = vma.flags.get() & VMA_LOCAL != 0 || vma.local_calls.get() != 0;
    vma.flags.get() & VMA_EXECUTE != 0 && (pinned_here || is_local)
}

/// The ISA that alone executes the code at `address`, if this island is of another one.
pub fn pin_at<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) -> Option<Isa> {
    let _guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, address)?;
    let here = vma.flags.get() & VMA_VIEW == 0 || vma.flags.get() & VMA_EXECUTE == 0 || executes(vma, M::ISA);
    if here { None } else { Isa::from_raw(vma.pin.get()) }
}

/// Lets every island execute the pinned code around `address`; returns how many pages that are.
pub fn run_locally<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) -> u64 {
    let _guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, address).filter(|vma| vma.flags.get() & VMA_VIEW != 0);
    vma.map_or(0, |vma| make_local(cpu, space, vma))
}

fn make_local<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &VmaRecord) -> u64 {
    vma.flags.set(vma.flags.get() | VMA_LOCAL);
    changed(cpu, space);
    (vma.end.get() - vma.start.get()) / PAGE_SIZE
}

/// As [`run_locally`], if a call has run the code around `address` locally. Another thread of the process could go there meanwhile without
/// a call of its own; it is there still, and only it knows until when. `None`: no call has.
pub fn go_on_locally<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) -> Option<u64> {
    let _guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, address).filter(|vma| vma.flags.get() & VMA_RAN_LOCALLY != 0)?;
    Some(make_local(cpu, space, vma))
}

/// Lets every island execute the pinned code around `address` until [`end_local_call`].
pub fn begin_local_call<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) {
    let _guard = lock(cpu, &space.lock);
    if let Some(vma) = vma::find(cpu, space, address).filter(|vma| vma.pin.get() != 0) {
        vma.local_calls.set(vma.local_calls.get() + 1);
        vma.flags.set(vma.flags.get() | VMA_RAN_LOCALLY);
        changed(cpu, space);
    }
}

/// A call that ran pinned code around `address` locally is over. After the last one, only the pin's ISA executes it.
pub fn end_local_call<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) {
    let _guard = lock(cpu, &space.lock);
    let Some(vma) = vma::find(cpu, space, address).filter(|vma| vma.local_calls.get() != 0) else { return };
    vma.local_calls.set(vma.local_calls.get() - 1);
    changed(cpu, space);
    if vma.local_calls.get() == 0 && vma.flags.get() & VMA_LOCAL == 0 {
        let islands = &cpu.pool.header().islands;
        let is_other = |island: IslandId| islands[island.index()].isa.get() != vma.pin.get();
        residency::hide(cpu, space, vma.start.get()..vma.end.get(), is_other);
    }
}

/// Makes the view that ends at `start` longer, if there is one with the same pin.
pub fn extend_view<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64, pin: Option<Isa>) -> bool {
    let below = vma::first_ending_after(cpu, space, start - 1).filter(|vma| vma.end.get() == start);
    let Some(vma) = below.filter(|vma| vma.flags.get() & VMA_VIEW != 0 && Isa::from_raw(vma.pin.get()) == pin) else {
        return false;
    };
    if vma::resize(cpu, space, vma, vma.start.get(), end).is_err() {
        return false;
    }
    changed(cpu, space);
    true
}

/// Refuses changes of a range that has a store in it.
///
/// # Errors
/// `EPERM` when one lies in the range.
pub fn check_no_store<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, start: u64, end: u64) -> Result<(), Errno> {
    // Only programs for several ISAs have them.
    let is_store = |vma: &VmaRecord| vma.flags.get() & VMA_STORE != 0;
    if space.fat.get() != 0 && vma::within(cpu, space, start..end).any(is_store) { Err(Errno::EPERM) } else { Ok(()) }
}

/// Refuses protections that would make text of several ISAs writable, or change a store's protection.
///
/// # Errors
/// `EPERM`, `EACCES`.
pub fn check_protection<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    start: u64,
    end: u64,
    flags: u32,
) -> Result<(), Errno> {
    check_no_store(cpu, space, start, end)?;
    let is_view = |vma: &VmaRecord| vma.flags.get() & VMA_VIEW != 0;
    let writes = flags & VMA_WRITE != 0 && space.fat.get() != 0;
    if writes && vma::within(cpu, space, start..end).any(is_view) { Err(Errno::EACCES) } else { Ok(()) }
}

/// Gives a forked space its own counts of the same program.
///
/// # Errors
/// `ENOMEM`.
pub fn copy_program<M: Machine>(cpu: &Cpu<M>, parent: &SpaceRecord, child: &SpaceRecord) -> Result<(), Errno> {
    let Some(from) = cpu.object::<FatProgram>(parent.fat.get()) else { return Ok(()) };
    let to = slab::alloc::<FatProgram>(cpu).ok_or(Errno::ENOMEM)?;
    to.inode.set(from.inode.get());
    to.pins_at.set(from.pins_at.get());
    to.pins.set(from.pins.get());
    to.names_len.set(from.names_len.get());
    to.texts.set(from.texts.get());
    to.one_stack.set(from.one_stack.get());
    for (to, from) in to.thread_pointer_bias.iter().zip(&from.thread_pointer_bias) {
        to.set(from.get());
    }
    child.fat.set(cpu.raw(to));
    Ok(())
}
