//! Pages follow the islands that use them (`policy = "adaptive"` in the machine file).
//!
//! Who uses a page is learnt by sampling, at the end of a slice: rights to a few pages that lie far from the core's island are taken away, and the next access faults. A region (2 MiB)
//! which an island was found to use several times in a row, and no other island in between, *follows* that island: then all rights to its far pages are taken away, and at the next access of the
//! island each of them comes to near memory. What the island writes to moves there; of what it only reads it gets a replica. Each time that a region has followed, it takes longer until it
//! follows another island.
//!
//! This is for programs of several ISAs, whose threads go from island to island. Protocol page: `docs/protocols/residency.md`.

use core::hint::black_box;

use motet_hal::{Access, Machine};
use motet_layout::{
    Frame, PAGE_SIZE, ProcessRecord, SpaceRecord, ThreadRecord, VMA_EXECUTE, VMA_SHARED, VMA_STORE, VMA_VIEW,
    VmaRecord,
    sync::{AtomicU64, Ordering},
};
use motet_paging::{Attr, Leaf, OutOfFrames};
use motet_protocol::{
    Context, count,
    lock::lock,
    memory::{NEAR, alloc_frame_on, distance_to, release_frame},
    residency::{self, Home, Kind, Region},
};

use super::{
    frames::is_alone,
    policy::Policy,
    relocate, space_of,
    use_of_region::{SLOTS, Use},
    vma::attr_of,
};
use crate::{cpu::Cpu, due};

/// Regions that are looked at each time, and parts of each, from each of which on a page is looked for that loses its rights.
const REGIONS: usize = 8;
const PARTS: u64 = 4;
/// Entries of tables in which such pages are looked for, of all regions together; and so many at once.
const ENTRIES: u64 = 2048;
const AT_ONCE: u64 = 4;
/// Ends of slices that pass at most between two looks, where nothing is missed.
const PAUSE_MAX: u32 = 7;
/// Lines of a page that are read, to learn whether it is in a cache, and nanoseconds for each that say that it is not: no cache takes as long, and no memory less.
const PROBES: u64 = 8;
const LINE_NS: u64 = 80;
/// What looking at a region costs, in instructions.
const LOOK_COST: u64 = 500;
/// And at an entry of a table.
const ENTRY_COST: u64 = 20;

/// A page of a space, for its user.
pub struct Asked<'a> {
    pub vma: &'a VmaRecord,
    pub page: u64,
    pub access: Access,
}

/// The end of a slice of a thread: looks which of its process's pages this island may be using from afar.
#[inline(always)]
pub fn sample<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if cpu.islands.samples()
        && let Some(process) = cpu.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed))
    {
        sample_space(cpu, space_of(cpu, process));
    }
}

#[cold]
#[inline(never)]
fn sample_space<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) {
    if space.fat.get() == 0 || space.unprepared.load(Ordering::Relaxed) != 0 {
        return;
    }
    let _guard = lock(cpu, &space.lock);
    if space.pause_left.get() != 0 {
        return space.pause_left.set(space.pause_left.get() - 1);
    }
    // Until something is missed, ever more seldom.
    space.pause.set((2 * space.pause.get() + 1).min(PAUSE_MAX));
    space.pause_left.set(space.pause.get());
    let home = Home::of(cpu, space);
    let mut pages = [0; REGIONS * PARTS as usize];
    let (mut len, mut left) = (0, ENTRIES);
    for _ in 0..REGIONS {
        let Some(region) = residency::next_region(cpu, &home, space.sampled.get()) else {
            space.sampled.set(0); // from the first one, at the next end
            break;
        };
        space.sampled.set(region.range().end);
        let mut known = Use(region.known());
        if !known.may_ask() {
            // Such pages may have been unmapped or protected meanwhile.
            known.asked(without_rights(&home, region));
            left = left.saturating_sub(SLOTS);
        }
        let first = known.slot();
        for part in 0..PARTS {
            let slot = first + part * (SLOTS / PARTS);
            if known.may_ask()
                && let Some(page) = candidate(cpu, space, &home, (region, slot), &pages[..len], &mut left)
            {
                known.ask((page - region.range().start) / PAGE_SIZE);
                (pages[len], len) = (page, len + 1);
            }
        }
        region.remember(known.0);
        due::spend_locked(cpu, LOOK_COST);
        // What is left out now comes first at the next end.
        if left == 0 {
            break;
        }
    }
    due::spend_locked(cpu, (ENTRIES - left) * ENTRY_COST);
    let ranges = pages[..len].iter().map(|&page| page..page + PAGE_SIZE);
    residency::freeze_those(cpu, space, ranges, |_| true);
}

/// Pages of a region that have no rights.
fn without_rights(home: &Home, region: Region) -> u32 {
    let mut pages = 0;
    home.visit(region.range(), |_, leaf| pages += u32::from(!leaf.attr.is_active()));
    pages
}

/// A page of a region, the first one from a slot on, that this island would use from afar and that is not one of those which are `chosen`. `left`: how many entries may still be looked at.
fn candidate<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    home: &Home,
    (region, slot): (Region, u64),
    chosen: &[u64],
    left: &mut u64,
) -> Option<u64> {
    let mut found = None;
    for at in (slot..slot + SLOTS).step_by(AT_ONCE as usize) {
        if found.is_some() || *left == 0 {
            break;
        }
        *left = left.saturating_sub(AT_ONCE);
        let from = region.range().start + at % SLOTS / AT_ONCE * AT_ONCE * PAGE_SIZE;
        home.visit(from..from + AT_ONCE * PAGE_SIZE, |page, leaf| {
            let is_other = found.is_none() && !chosen.contains(&page);
            if is_other && is_far(cpu, leaf) && !residency::reads_replica(cpu, space, page) {
                found = Some(page);
            }
        });
    }
    found
}

/// Whether the leaf's page may follow its user, which has rights to it, and this island has nearer memory.
fn is_far<M: Machine>(cpu: &Cpu<M>, leaf: Leaf) -> bool {
    // Last what needs a look at the frame's record.
    leaf.attr.is_active()
        && distance_to(cpu.pool, leaf.frame.named(), cpu.memory_index()) != NEAR
        && is_alone(cpu, leaf)
}

/// Whether most of a page is in no cache of this core, so that using it from afar takes time: some of its lines are read, and the time is taken. Untimed runs, which have no caches, say yes.
fn is_missed<M: Machine>(cpu: &Cpu<M>, frame: Frame) -> bool {
    if !cpu.is_timed() {
        return true;
    }
    let begun = cpu.now_ns();
    for line in 0..PROBES {
        let word = frame.addr().add(line * (PAGE_SIZE / PROBES));
        black_box(cpu.pool.at::<AtomicU64>(word).load(Ordering::Relaxed));
    }
    cpu.now_ns() - begun > PROBES * LINE_NS
}

/// The leaf with the rights that a sample has taken away, but for stores: they show who writes.
pub fn thawed(vma: &VmaRecord, leaf: Leaf) -> Leaf {
    let attr =
        if leaf.attr.is_active() { leaf.attr } else { Kind::of(leaf.attr).allowing(attr_of(vma).without(Attr::WRITE)) };
    Leaf { frame: leaf.frame, attr }
}

/// A fault of this island on a page that the home has: brings it near if its region follows this island. `None`: all is done, otherwise what the home's leaf is to allow at least. The
/// space's lock is held.
#[cold]
#[inline(never)]
pub fn serve<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    home: &Home,
    asked: &Asked<'_>,
    leaf: Leaf,
) -> Option<Leaf> {
    let page = asked.page;
    let is_written = asked.access == Access::Write;
    if !is_written && residency::reads_replica(cpu, space, page) {
        // Another core of the island has got it, or this one translates by what was.
        cpu.flush_page(page);
        return None;
    }
    let region = residency::region_at(cpu, home, page)?;
    let mut known = Use(region.known());
    let own = cpu.island();
    let is_sampled = !leaf.attr.is_active();
    if is_sampled {
        known.answered();
    }
    let is_missed = is_sampled && is_missed(cpu, leaf.frame.named());
    if is_missed {
        space.pause.set(0);
        space.pause_left.set(0);
    }
    let begins = is_missed && known.found(own, is_written);
    if is_written {
        known.written_by(own);
    }
    region.remember(known.0);
    if begins {
        count(&own_record(cpu).regions_followed);
        residency::freeze_those(cpu, space, core::iter::once(region.range()), |leaf| is_far(cpu, leaf));
        due::spend_locked(cpu, SLOTS * ENTRY_COST);
    }
    // It may have been frozen just now.
    let leaf = Leaf { frame: leaf.frame, attr: home.leaf(page).map_or(leaf.attr, |leaf| leaf.attr) };
    let thawed = thawed(asked.vma, leaf);
    if known.follower() != Some(own) || stays(cpu, asked.vma) || !is_alone(cpu, leaf) {
        return Some(thawed);
    }
    let is_brought = if is_written || known.is_written() || home.island() == own {
        move_here(cpu, space, home, asked, thawed)
    } else {
        residency::may_replicate(cpu.pool, leaf.frame.named()) && replicate_here(cpu, space, home, page, thawed)
    };
    if is_brought { None } else { Some(thawed) }
}

/// Whether pages of a range lie where they do for a reason: text, what others have, and what the program wants near some island.
fn stays<M: Machine>(cpu: &Cpu<M>, vma: &VmaRecord) -> bool {
    vma.flags.get() & (VMA_EXECUTE | VMA_SHARED | VMA_STORE | VMA_VIEW) != 0
        || Policy(vma.policy.get()).or(Policy::of_current(cpu)).island().is_some()
}

/// Moves the page near this island. `false`: it could not be.
fn move_here<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, home: &Home, asked: &Asked<'_>, leaf: Leaf) -> bool {
    let Some(to) = nearer(cpu, leaf.frame.named()) else { return false };
    // What is written for the first time is entered so at once.
    let is_owned = asked.access == Access::Write || Kind::of(leaf.attr) == Kind::Owned;
    let attr = if is_owned { Kind::Owned.allowing(attr_of(asked.vma)) } else { leaf.attr };
    if !relocate::copy_alone(cpu, space, asked.page, leaf.frame.named(), to) {
        return false;
    }
    count(&own_record(cpu).pages_moved);
    // If there is no memory for a table, the next fault finds the page at home.
    let _: Result<(), OutOfFrames> = residency::break_copy(cpu, space, home, asked.page, (to, attr), false);
    true
}

/// Gives this island a replica of the page. `false`: it could not be.
fn replicate_here<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, home: &Home, page: u64, leaf: Leaf) -> bool {
    let Some(to) = nearer(cpu, leaf.frame.named()) else { return false };
    if !relocate::copy_alone(cpu, space, page, leaf.frame.named(), to) {
        return false;
    }
    let shown = residency::replicate(cpu, space, home, page, leaf, to);
    if shown.is_ok() {
        count(&own_record(cpu).pages_replicated);
    }
    shown.is_ok()
}

/// A new frame that is nearer to this island than another one.
fn nearer<M: Machine>(cpu: &Cpu<M>, than: Frame) -> Option<Frame> {
    let own = cpu.memory_index();
    let frame = alloc_frame_on(cpu, own)?;
    if distance_to(cpu.pool, frame, own) < distance_to(cpu.pool, than, own) {
        return Some(frame);
    }
    release_frame(cpu, frame);
    None
}

fn own_record<M: Machine>(cpu: &Cpu<M>) -> &'static motet_layout::IslandRecord {
    &cpu.pool.header().islands[cpu.island().index()]
}
