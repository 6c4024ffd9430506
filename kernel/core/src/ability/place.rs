//! Which cores can run a thread.

use motet_layout::sync::Ordering;

use motet_abi::{
    extension::{Described, ExtensionSet},
    registers, visible,
};
use motet_hal::Machine;
use motet_layout::{
    AT_LOAD_HIDE, AT_LOAD_OPEN, CORES_MAX, Cell64, CoreId, CoreRecord, Isa, IslandId, IslandRecord, ProcessRecord,
    ThreadRecord, visible_words,
};
use motet_protocol::{
    Context,
    cores::{all_cores, core_record, cores_in},
    direct,
    run_queue::{self, Reserved, allowed, is_online},
};

use super::{
    area,
    length::{length_in_process, length_of, with_lengths},
    of_core, of_thread, uses_vectors,
    values::writes,
    vectors,
};
use crate::cpu::{Cpu, Way, cores_of_isa};

/// Slices without use after which a thread goes back.
pub const PATIENCE_SLICES: u32 = 2;

/// Publishes this core's extensions, without those that the machine file takes away; returns the latter. Called before the core runs anything.
pub fn announce<M: Machine>(cpu: &Cpu<M>) -> ExtensionSet {
    let withheld = ExtensionSet::from_bits(M::ISA, cpu.own.withheld.get());
    if vectors::<M>().is_some_and(|vectors| withheld.contains(vectors)) {
        cpu.machine.withhold_vectors();
    }
    let mut has = Described { isa: M::ISA, text: cpu.machine.extensions(), withheld }.set();
    if let Some(vectors) = vectors::<M>()
        && cpu.machine.vector_bytes() == 0
    {
        has = has.without(ExtensionSet::empty(M::ISA).with(vectors));
    }
    has = has.union(with_lengths::<M>(cpu.machine.vector_bytes()));
    // What vendors have made is in no processor's description: the machine's is to be believed.
    has = has.union(ExtensionSet::from_bits(M::ISA, cpu.own.claimed.get()));
    cpu.own.capabilities.set(has.bits());
    cpu.own.vector_bytes.set(cpu.machine.vector_bytes());
    withheld
}

/// Whether this core, on which the thread runs, has all of `set`, and can take what the thread has in vector registers.
pub fn is_able<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, set: ExtensionSet) -> bool {
    set.is_subset(of_core::<M>(cpu.own)) && takes(cpu.own, live_bytes(cpu, thread, set))
}

/// Whether a core can take values of so many bytes in each vector register; 0: there are none.
fn takes(core: &CoreRecord, live_bytes: u32) -> bool {
    live_bytes == 0 || live_bytes == core.vector_bytes.get()
}

/// Bytes in the vector registers that the running thread has to have, if instructions of `set` use some; 0: any.
fn live_bytes<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, set: ExtensionSet) -> u32 {
    match uses_vectors::<M>(set) {
        true if cpu.machine.are_vectors_open() => cpu.own.vector_bytes.get(),
        true => length_of(cpu, thread),
        false => 0,
    }
}

/// Cores of this ISA that have all that the running thread would need, by core index, and all cores of other ISAs, to which that says
/// nothing. If it has values in vector registers, these cores have registers of the same length.
pub fn able<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, needs: ExtensionSet) -> [u64; 2] {
    let live_bytes = live_bytes(cpu, thread, needs);
    match cpu.ability.able(needs, live_bytes) {
        Some(mask) => mask,
        None => find_able(cpu, needs, live_bytes),
    }
}

#[cold]
fn find_able<M: Machine>(cpu: &Cpu<M>, needs: ExtensionSet, live_bytes: u32) -> [u64; 2] {
    let mut mask = cpu.ability.peers().map(|word| !word);
    for core in cores_in(cpu.ability.peers()) {
        let record = core_record(cpu, core);
        if needs.is_subset(of_core::<M>(record)) && takes(record, live_bytes) {
            mask[core.index() / 64] |= 1 << (core.index() % 64);
        }
    }
    cpu.ability.put_able(needs, live_bytes, mask);
    mask
}

/// Whether any core of this ISA has all of `set`.
pub fn is_somewhere<M: Machine>(cpu: &Cpu<M>, set: ExtensionSet) -> bool {
    cores_with(cpu, set).next().is_some()
}

fn cores_with<M: Machine>(cpu: &Cpu<M>, set: ExtensionSet) -> impl Iterator<Item = CoreId> {
    cores_in(cpu.ability.peers()).filter(move |&core| set.is_subset(of_core::<M>(core_record(cpu, core))))
}

/// Marks the cores that have what others of their ISA lack, and those whose vector registers all of them have. Once, when all islands
/// have joined.
pub fn find_scarce<M: Machine>(cpu: &Cpu<M>) {
    for core in all_cores(cpu) {
        let (isa, record) = (cpu.isa_of(core), core_record(cpu, core));
        let (has, vector_bytes) = (record.capabilities.get(), record.vector_bytes.get());
        let all = || all_cores(cpu).filter(|&other| cpu.isa_of(other) == isa).map(|other| core_record(cpu, other));
        let lacks = |other: &CoreRecord| {
            has & !other.capabilities.get() != 0 || vector_bytes != 0 && other.vector_bytes.get() != vector_bytes
        };
        let is_scarce = all().any(lacks);
        let has_common = vector_bytes != 0 && all().all(|other| other.vector_bytes.get() == vector_bytes);
        record.scarce.set(is_scarce.into());
        record.at_load.set(if has_common { AT_LOAD_OPEN } else { 0 });
    }
}

/// Finds what programs are to see of all cores of an instruction set alike, where its islands differ ([`visible`]). Once, as
/// [`find_scarce`], and after it.
///
/// # Errors
/// The island that cannot be made like those before it, and how the user can.
pub fn find_common<M: Machine>(cpu: &Cpu<M>) -> Result<(), (IslandId, &'static str)> {
    let islands = || cpu.pool.header().islands.iter().enumerate().filter(|(_, record)| record.isa.get() != 0);
    let seen = |record: &IslandRecord| record.visible.each_ref().map(Cell64::get);
    for (index, record) in islands() {
        let Some(isa) = Isa::from_raw(record.isa.get()) else { continue };
        let peers = || islands().map(|(_, record)| record).filter(|other| other.isa.get() == record.isa.get());
        let mut shown = seen(record);
        for other in peers() {
            let island = IslandId::from_raw(index as u32).unwrap_or(cpu.island());
            shown = visible::common(isa, shown, seen(other)).map_err(|why| (island, why))?;
        }
        // Islands have begun to count at different moments, and a thread may go from one to another.
        let counters = u32::from(peers().count() > 1) << visible_words::COUNTERS;
        let hides = peers().fold(counters, |bits, other| bits | visible::differing(seen(other), shown));
        record.shown.iter().zip(shown).for_each(|(to, word)| to.set(word));
        record.hides.set(hides);
        if hides != 0 {
            let of_island = all_cores(cpu).filter(|core| core.island().index() == index);
            of_island
                .map(|core| &core_record(cpu, core).at_load)
                .for_each(|at_load| at_load.set(at_load.get() | AT_LOAD_HIDE));
        }
    }
    Ok(())
}

/// Before this core's extended registers are loaded.
#[inline(always)]
pub fn before_load<M: Machine>(cpu: &Cpu<M>) {
    let at_load = cpu.own.at_load.get();
    if at_load != 0 {
        if at_load & AT_LOAD_OPEN != 0 {
            cpu.machine.keep_vectors_open();
        }
        if at_load & AT_LOAD_HIDE != 0 {
            cpu.machine.hide(cpu.island_record().hides.get());
        }
    }
}

/// The cores that a thread may run on by its affinity.
pub fn affinity(thread: &ThreadRecord) -> [u64; 2] {
    [0, 1].map(|word: usize| thread.affinity[word].load(Ordering::Relaxed))
}

/// Sets the extensions that the thread needs.
pub fn set_needs<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, needs: ExtensionSet) {
    let mask = if needs.is_empty() { [u64::MAX; 2] } else { able(cpu, thread, needs) };
    set_needs_and_cores(cpu, thread, needs, mask);
}

/// As [`set_needs`], if a core in use has them: rather one of the thread's affinity. Otherwise it changes nothing. Returns whether there is
/// such a core.
pub fn try_needs<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, needs: ExtensionSet) -> bool {
    let (able, affinity, peers) = (able(cpu, thread, needs), affinity(thread), cpu.ability.peers());
    let is_in_use = |mask| cores_in(both(mask, peers)).any(|core| is_online(cpu, core));
    let mask = match () {
        () if is_in_use(both(able, affinity)) => able,
        // Those of its affinity are all taken out.
        () if is_in_use(able) => both(able, both(affinity, peers).map(|word| !word)),
        () => return false,
    };
    set_needs_and_cores(cpu, thread, needs, mask);
    true
}

/// As [`try_needs`], of a thread that needs nothing, if an idle core of its affinity has what another one went for that came to this instruction. `true`:
/// it needs that now, and this core lacks it.
#[inline(always)]
pub fn needs_again<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord, word: u32) -> bool {
    let Some(way) = cpu.ability.way(word).filter(|_| thread.needs.get() == 0) else { return false };
    let only = both(way.able, cpu.ability.peers());
    let is_idle = || cores_in(both(only, affinity(thread))).any(|core| direct::sleeps(cpu, core));
    let goes =
        length_in_process::<M>(process, thread) == way.live_bytes && is_idle() && !cpu.machine.are_vectors_open();
    if goes {
        set_needs_of(thread, way.needs, M::ISA, way.able, only);
    }
    goes
}

/// The running thread has come to this instruction, and [needs](try_needs) something since: [`needs_again`] knows it from now on.
pub fn keep_way<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord, word: u32) {
    let needs = of_thread::<M>(thread);
    let able = [0, 1].map(|half: usize| thread.able[half].load(Ordering::Relaxed));
    let live_bytes = length_in_process::<M>(process, thread);
    // Others have registers of another length, or none.
    let is_all = able == self::able(cpu, thread, needs);
    if word != 0 && is_all && uses_vectors::<M>(needs) && !cpu.machine.are_vectors_open() {
        cpu.ability.put_way(Way { word, live_bytes, needs, able });
    }
}

/// Cores that are in both sets.
#[inline(always)]
fn both([low, high]: [u64; 2], [other_low, other_high]: [u64; 2]) -> [u64; 2] {
    [low & other_low, high & other_high]
}

/// Clears the needs of a thread that no core in use is able to run, until it executes an instruction that its core lacks.
pub fn need_nothing<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    set_needs(cpu, thread, ExtensionSet::empty(M::ISA));
    thread.moves.stays.set(0);
}

fn set_needs_and_cores<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, needs: ExtensionSet, mask: [u64; 2]) {
    let only = if needs.is_empty() { [0; 2] } else { both(mask, cpu.ability.peers()) };
    set_needs_of(thread, needs, M::ISA, mask, only);
}

/// Sets what a thread needs of an ISA, the cores that have it or are of other ISAs, and those of the former that are of this one.
pub(super) fn set_needs_of(thread: &ThreadRecord, needs: ExtensionSet, isa: Isa, able: [u64; 2], only: [u64; 2]) {
    if thread.needs_isa.get() != isa as u32 {
        // What it has asked for was of another ISA.
        thread.moves.stays.set(0);
    }
    thread.needs.set(needs.bits());
    thread.needs_isa.set(isa as u32);
    // One after the other: this is on the way of each migration, and a chain of iterators takes twice as many instructions.
    thread.able[0].store(able[0], Ordering::Relaxed);
    thread.able[1].store(able[1], Ordering::Relaxed);
    thread.only[0].store(only[0], Ordering::Relaxed);
    thread.only[1].store(only[1], Ordering::Relaxed);
}

/// The core of an ISA, of those in `mask`, that has least to do; of equals, one of this island. `None`: there is none.
pub fn least_loaded<M: Machine>(cpu: &Cpu<M>, isa: Isa, mask: [u64; 2]) -> Option<CoreId> {
    least_loaded_with(cpu, isa, mask).map(|(_, core)| core)
}

/// The same, with the load that it was chosen by.
fn least_loaded_with<M: Machine>(cpu: &Cpu<M>, isa: Isa, mask: [u64; 2]) -> Option<(u32, CoreId)> {
    let of_isa = if isa == M::ISA { cpu.ability.peers() } else { cores_of_isa(cpu.pool, isa) };
    let usable = cores_in(both(mask, of_isa)).filter(|&core| is_online(cpu, core));
    let with_load = usable.map(|core| (run_queue::load(cpu, core), core));
    // One word, because every placement compares.
    with_load.min_by_key(|&(load, core)| {
        let is_scarce = core_record(cpu, core).scarce.get() != 0;
        u64::from(load) << 2 | u64::from(is_scarce) << 1 | u64::from(core.island() != cpu.island())
    })
}

/// The cores of this ISA that a thread may run on: first those of this island, which share its caches.
#[inline(always)]
pub fn able_cores<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> impl Iterator<Item = CoreId> {
    let able = both(run_queue::cores_of(thread), cpu.ability.peers());
    let near = both(able, cpu.ability.neighbours());
    cores_in(near).chain(cores_in(both(able, near.map(|word| !word))))
}

/// The core of this ISA, of those that a thread may run on, that has least to do, on which the thread counts from now on. `None`: there is
/// none any more.
pub fn reserve_least_loaded<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<Reserved> {
    let mask = both(run_queue::cores_of(thread), cpu.ability.peers());
    let mut able = cores_in(mask);
    if let (Some(only), None) = (able.next(), able.next()) {
        // There is nothing to choose.
        return is_online(cpu, only).then(|| run_queue::count_on(cpu, only));
    }
    loop {
        let (load, core) = least_loaded_with(cpu, M::ISA, mask)?;
        // Others choose at the same time: each turn that fails is another's thread that has got its place.
        if let Some(reserved) = run_queue::reserve(cpu, core, load) {
            return Some(reserved);
        }
    }
}

/// Whether vector registers have been opened for a thread in the program that it runs.
pub fn has_used_vectors(thread: &ThreadRecord) -> bool {
    thread.moves.uses_vectors.get() != 0
}

/// Gives a new thread of a process its parent's needs: it executes the same code, and has a copy of the registers.
pub fn inherit(parent: &ThreadRecord, thread: &ThreadRecord) {
    thread.needs.set(parent.needs.get());
    thread.needs_isa.set(parent.needs_isa.get());
    thread.moves.patience_slices.set(PATIENCE_SLICES);
    thread.moves.uses_vectors.set(parent.moves.uses_vectors.get());
    thread.promised.set(parent.promised.get());
    for (to, from) in thread.able.iter().zip(&parent.able).chain(thread.only.iter().zip(&parent.only)) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Forgets the needs of a thread that executes another program.
pub fn forget<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    set_needs(cpu, thread, ExtensionSet::empty(M::ISA));
    thread.moves.stays.set(0);
    thread.moves.uses_vectors.set(0);
    area::release(cpu, thread);
}

/// Whether the thread's vector registers, if they have values, are as long as this core's.
pub fn fits<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    takes(cpu.own, registers::vector_bytes(&thread.frame))
}

/// Lets the running thread, which [`fits`], use the vector registers of this core, which has some. `None`: there is no memory for them.
pub fn open<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<()> {
    area::make_ready(cpu, thread)?;
    let moves = &thread.moves;
    moves.opened.set(moves.opened.get() + 1);
    moves.uses_vectors.set(1);
    // It may write the parts of the registers that are open already.
    writes(cpu, thread, || cpu.machine.open_vectors(&thread.frame));
    moves.used.set(1);
    moves.unused_slices.set(0);
    Some(())
}

const _: () = assert!(CORES_MAX == 128, "a set of cores has two words");

/// The core that is to run a thread, which has run on `last`, with an affinity: of that island if it can. `None`: the affinity has no core
/// of the thread's instruction set that is in use.
pub fn core_for<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, last: CoreId, affinity: [u64; 2]) -> Option<CoreId> {
    let isa = cpu.isa_of(last)?;
    least_loaded(cpu, isa, affinity)?;
    let mask = run_queue::cores_within(affinity, thread);
    let near = run_queue::least_loaded(cpu, last.island(), mask);
    if allowed(mask, near) {
        return Some(near);
    }
    least_loaded(cpu, isa, mask)
}
