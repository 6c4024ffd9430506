//! Calls that cross instruction sets (Flick, sections III and IV): a thread that calls a function pinned to another ISA
//! runs it on a core of that ISA, and comes back with its result.
//!
//! A fetch from a view that only another ISA executes is a call; a fetch from the *return gate*, an address where nothing
//! is, is a return. The kernel does both at once, without the program's help: it turns the registers of one ISA into
//! those of the other by the calling conventions (`motet_abi::convention`) and gives the thread to the other island's
//! core. What the caller needs to go on is in a [`CrossingRecord`]; records of one thread form a stack.

mod back;
mod called;
mod direct;
mod report;
mod stack;

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    convention::{self, Arguments, Entry},
    fat::Signature,
    own::{CrossingPolicies, CrossingPolicy},
    registers,
};
use motet_hal::Machine;
use motet_layout::{
    CoreId, CrossingRecord, FatProgram, ISLAND_JOINED, Isa, IslandId, PoolAddr, ProcessRecord, SpaceRecord,
    ThreadRecord,
};
use motet_protocol::{Context, run_queue, slab};

pub use called::called;
pub use direct::{has_news, is_called_for, returned, stop_polling};
pub use report::{Snapshot, backtrace};
pub use stack::release_stacks;

use crate::{
    call::{Call, Stop, SysResult},
    cpu::{Cpu, Pinned},
    file, mm,
    process::{exit, fat},
    sched, signal,
};

/// Functions of other ISAs return here. Nothing is ever mapped at this address unless a program insists.
pub const GATE: u64 = 0x7fff_bfff_d000;

/// What became of a fetch that this island could not serve.
pub enum Fetch {
    /// It is an ordinary page fault.
    Fault,
    /// The thread goes on here.
    Run,
    /// The thread no longer belongs to this core.
    Gone,
}

/// A thread has fetched an instruction from an address where this island may not.
pub fn fetch<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
) -> Fetch {
    let function = registers::pc(&thread.frame);
    if address == GATE && function == GATE {
        return come_back(cpu, thread, process);
    }
    let space = mm::space_of(cpu, process);
    let called = if cpu.uncached {
        call_far(cpu, thread, process, space)
    } else {
        call_again(cpu, thread, process, space, false)
    };
    called.unwrap_or_else(|| choose(cpu, thread, process, space, address))
}

/// As [`call_again`]: apart from it, so that the other one has more registers.
#[inline(never)]
fn call_far<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
) -> Option<Fetch> {
    call_again(cpu, thread, process, space, true)
}

/// Calls a function that this core knows on the core that the thread has called last. `far`: islands do not cache each other's memory.
#[inline(always)]
fn call_again<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
    far: bool,
) -> Option<Fetch> {
    let function = registers::pc(&thread.frame);
    let pin = cpu.pins.get(function, mm::epoch(cpu, space))?;
    let (record, core) = last_callee(cpu, thread, process, pin.isa)?;
    let request = Request::of(cpu, thread, space, function, &pin).ok()?;
    direct::call(cpu, thread, space, record, core, &request, stack::top(thread, pin.isa), far)
}

/// As [`fetch`], when the core that the thread has called last is not to run the function.
#[cold]
fn choose<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
    address: u64,
) -> Fetch {
    let Some(program) = cpu.object::<FatProgram>(space.fat.get()) else { return Fetch::Fault };
    let function = registers::pc(&thread.frame);
    let epoch = mm::epoch(cpu, space);
    let pin = match cpu.pins.get(function, epoch) {
        Some(pin) => pin,
        None => {
            let Some(isa) = mm::pin_at(cpu, space, address) else { return Fetch::Fault };
            let Some(pin) = fat::pin_of(cpu, program, function).filter(|pin| pin.isa == isa) else {
                if let Some(pages) = mm::go_on_locally(cpu, space, address) {
                    program.local_pages.fetch_add(pages, Ordering::Relaxed);
                    return Fetch::Run;
                }
                let what = format_args!("it jumps into the middle of code for {}", isa.name());
                return report::kill(cpu, thread, process, what);
            };
            let pin = Pinned { isa, strict: pin.strict, signature: pin.signature, program };
            cpu.pins.put(function, epoch, pin);
            pin
        }
    };
    let isa = pin.isa;
    let policies = CrossingPolicies::from_raw(process.crossing_policy.load(Ordering::Relaxed));
    let Some(core) = island_of(cpu, thread, isa) else {
        if pin.strict || policies.missing == CrossingPolicy::End {
            let what = format_args!("it calls a function for {}, of which no island is there", isa.name());
            return report::kill(cpu, thread, process, what);
        }
        program.local_pages.fetch_add(mm::run_locally(cpu, space, address), Ordering::Relaxed);
        return Fetch::Run;
    };
    let is_busy = policies.busy != CrossingPolicy::Wait && has_other_work(cpu, core);
    let target = match policies.busy {
        CrossingPolicy::Local if is_busy && !pin.strict => cpu.id,
        CrossingPolicy::End if is_busy => {
            let what = format_args!("it calls a function for {}, all of whose cores are busy", isa.name());
            return report::kill(cpu, thread, process, what);
        }
        CrossingPolicy::Wait | CrossingPolicy::Local | CrossingPolicy::End => core,
    };
    let made = Request::of(cpu, thread, space, function, &pin).and_then(|mut request| {
        let read = |address| mm::read_word(cpu, space, address).ok();
        let mut arguments = Arguments::default();
        convention::arguments(M::ISA, &thread.frame, &pin.signature, read, &mut arguments).ok_or(Errno::EFAULT)?;
        if target == cpu.id {
            (request.isa, request.is_local) = (M::ISA, true);
        }
        make(cpu, thread, space, target, &request, &arguments)
    });
    made.unwrap_or_else(|errno| {
        signal::memory_fault(cpu, thread, address, errno);
        Fetch::Run
    })
}

/// Whether a core has something to do: not if it has just done what there was, and is on its way to sleep.
fn has_other_work<M: Machine>(cpu: &Cpu<M>, core: CoreId) -> bool {
    run_queue::load(cpu, core) != 0 && !motet_protocol::direct::is_about_to_sleep(cpu, core)
}

/// `crossings(busy, missing)`: sets the calling process's [`CrossingPolicies`].
///
/// # Errors
/// `EINVAL`.
pub fn set_policy<M: Machine>(call: &Call<M>) -> SysResult {
    let [busy, missing, ..] = call.args;
    let word = &call.process.crossing_policy;
    let policies = CrossingPolicies::from_raw(word.load(Ordering::Relaxed)).changed(busy, missing);
    word.store(policies.ok_or(Errno::EINVAL)?.raw(), Ordering::Relaxed);
    Ok(0)
}

/// `motet_call_on(island, function, argument)`: calls a function on a core of an island. As a call of a C function does, it
/// preserves only the registers that the calling convention preserves. What becomes of it if the island's cores are busy, or it
/// has died, is the process's policy, as for functions that are pinned.
///
/// # Errors
/// `EINVAL`: there is no such island, or the program has no text for it; `ENOMEM`.
pub fn call_on<M: Machine>(call: &Call<M>) -> SysResult {
    let [island, function, argument, ..] = call.args;
    let cpu = call.cpu;
    let island = u32::try_from(island).ok().and_then(IslandId::from_raw).ok_or(Errno::EINVAL)?;
    let record = &cpu.pool.header().islands[island.index()];
    let isa = Isa::from_raw(record.isa.get()).ok_or(Errno::EINVAL)?;
    let space = mm::space_of(cpu, call.process);
    let has_text = match cpu.object::<FatProgram>(space.fat.get()) {
        Some(program) => isa == M::ISA || program.texts.get() >> (isa as u32) & 1 != 0,
        None => isa == M::ISA,
    };
    if !has_text {
        return Err(Errno::EINVAL.into());
    }
    let target = core_of(cpu, call.thread, island);
    let policies = CrossingPolicies::from_raw(call.process.crossing_policy.load(Ordering::Relaxed));
    let (policy, why) = if record.state.load(Ordering::Acquire) != ISLAND_JOINED {
        (policies.missing, "has died")
    } else if target != cpu.id && has_other_work(cpu, target) {
        (policies.busy, "has only busy cores")
    } else {
        (CrossingPolicy::Wait, "")
    };
    if policy == CrossingPolicy::End {
        let what = format_args!("it calls a function on island {}, which {why}", island.index());
        report::kill(cpu, call.thread, call.process, what);
        return Err(Stop::Gone);
    }
    let is_local = policy == CrossingPolicy::Local;
    let (target, isa) = if is_local { (cpu.id, M::ISA) } else { (target, isa) };
    let frame = &call.thread.frame;
    let request = Request {
        function,
        signature: Signature::POINTER,
        isa,
        first: argument,
        pc: registers::pc(frame),
        sp: registers::sp(frame),
        program: cpu.object(space.fat.get()),
        is_local,
    };
    let mut arguments = Arguments::default();
    arguments.words[0] = argument;
    sched::save_ext(cpu, call.thread);
    sched::end_call(call.thread);
    match make(cpu, call.thread, space, target, &request, &arguments)? {
        Fetch::Gone => Err(Stop::Gone),
        Fetch::Run | Fetch::Fault => Err(Stop::Replaced),
    }
}

/// A call that is to be made.
struct Request {
    function: u64,
    signature: Signature,
    isa: Isa,
    /// The first argument word.
    first: u64,
    /// Where the caller goes on.
    pc: u64,
    sp: u64,
    program: Option<&'static FatProgram>,
    /// It is pinned to another ISA, but is to run on the caller's.
    is_local: bool,
}

impl Request {
    /// The call of a function that the thread has fetched from. Stores the thread's extended registers.
    ///
    /// # Errors
    /// `EFAULT`: the return address cannot be read.
    #[inline(always)]
    fn of<M: Machine>(
        cpu: &Cpu<M>,
        thread: &'static ThreadRecord,
        space: &'static SpaceRecord,
        function: u64,
        pin: &Pinned,
    ) -> Result<Self, Errno> {
        let (frame, signature) = (&thread.frame, pin.signature);
        if signature.floats != 0 {
            sched::save_ext(cpu, thread);
        } else {
            cpu.machine.save_kept_ext(frame);
        }
        let read = |address| mm::read_word(cpu, space, address).ok();
        let (pc, sp) = convention::return_point(M::ISA, frame, read).ok_or(Errno::EFAULT)?;
        let first = convention::word_in_register(M::ISA, frame, 0);
        Ok(Self { function, signature, isa: pin.isa, first, pc, sp, program: Some(pin.program), is_local: false })
    }

    /// The function's thread pointer: those of all ISAs point to the same block.
    #[inline(always)]
    fn tls<M: Machine>(&self, thread: &ThreadRecord) -> u64 {
        thread_pointer(self.program, M::ISA, registers::tls_of(M::ISA, &thread.frame), self.isa)
    }

    /// Writes what the caller needs to go on into the record.
    #[inline(always)]
    fn record<M: Machine>(&self, cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &CrossingRecord, target: CoreId) {
        nest(cpu, thread, record);
        record.caller_isa.set(M::ISA as u32);
        record.callee_isa.set(self.isa as u32);
        record.caller_core.set(u32::from(cpu.id.0));
        record.callee_core.set(u32::from(target.0));
        record.function.set(self.function);
        record.return_pc.set(self.pc);
        record.caller_sp.set(self.sp);
        record.caller_tls.set(registers::tls_of(M::ISA, &thread.frame));
        record.outer_used.set(thread.stack_used[M::ISA as usize - 1].get());
        record.result.set(self.signature.result.into());
        record.is_saved.set(0);
        record.is_local.set(self.is_local.into());
    }

    /// The thread is in the call from now on.
    #[inline(always)]
    fn begin<M: Machine>(&self, cpu: &Cpu<M>, thread: &ThreadRecord, record: &'static CrossingRecord) {
        thread.crossing.set(cpu.raw(record));
        thread.spare_crossing.set(0);
        thread.stack_used[M::ISA as usize - 1].set(self.sp);
    }

    fn count<M: Machine>(&self, cpu: &Cpu<M>, target: CoreId) {
        count_call(self.program, [cpu.id, target], self.is_local);
    }
}

/// The pointer of `isa` to the block that the thread pointer `tls` of `from` points to.
#[inline(always)]
fn thread_pointer(program: Option<&FatProgram>, from: Isa, tls: u64, isa: Isa) -> u64 {
    match program {
        Some(program) if tls != 0 => {
            let bias = |isa: Isa| program.thread_pointer_bias[isa as usize - 1].get();
            tls.wrapping_sub(bias(from)).wrapping_add(bias(isa))
        }
        Some(_) | None => tls,
    }
}

/// Counts a call from one core to another.
#[inline(always)]
fn count_call(program: Option<&FatProgram>, cores: [CoreId; 2], is_local: bool) {
    if let Some(program) = program {
        let pair = cores[0].island().index() * 8 + cores[1].island().index();
        let count = if is_local { &program.local_calls } else { &program.calls[pair] };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Says in a record in which call of the thread the new one is made.
#[inline(always)]
fn nest<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &CrossingRecord) {
    let outer = thread.crossing.get();
    record.outer.set(outer);
    // Without one around it, any depth will do.
    if let Some(outer) = record_at(cpu, thread, outer) {
        record.depth.set(outer.depth.get().wrapping_add(1));
    }
}

/// Makes a call: directly if `target` sleeps, and otherwise through its queue. Afterwards the thread is not this core's, or is
/// back.
fn make<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    target: CoreId,
    request: &Request,
    arguments: &Arguments,
) -> Result<Fetch, Errno> {
    // A function of the caller's ISA goes on below the caller, as if it had been called without a crossing.
    let is_same_stack = request.isa == M::ISA;
    let stack = if is_same_stack { request.sp } else { stack::of(cpu, thread, space, request.isa, target.island())? };
    let record = spare_record(cpu, thread).or_else(|| new_record(cpu, thread)).ok_or(Errno::ENOMEM)?;
    let is_wanted = thread.attention.load(Ordering::Relaxed) != 0;
    if !request.is_local
        && !is_wanted
        && let Some(fetch) = direct::call(cpu, thread, space, record, target, request, stack, cpu.uncached)
    {
        return Ok(fetch);
    }
    request.record(cpu, thread, record, target);
    request.begin(cpu, thread, record);
    request.count(cpu, target);
    if request.is_local {
        mm::begin_local_call(cpu, space, request.function);
    }
    convention::save_caller(M::ISA, &thread.frame, record);
    record.is_saved.set(1);
    let entry = Entry { function: request.function, gate: GATE, stack, tls: request.tls::<M>(thread) };
    let words = convention::enter(&thread.frame, request.isa, &entry, &request.signature, arguments);
    record.callee_sp.set(words.sp_at_return);
    if !stack::push(cpu, space, &words) {
        // No memory for the function's stack: as if it had returned nothing, then the signal.
        pop(cpu, thread, record, &convention::Results::default());
        sched::reload_ext(cpu, thread);
        return Err(Errno::ENOMEM);
    }
    sched::hand_to(cpu, thread, target);
    Ok(Fetch::Gone)
}

/// The record that the thread has kept from its last call.
#[inline(always)]
fn spare_record<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static CrossingRecord> {
    record_at(cpu, thread, thread.spare_crossing.get())
}

fn new_record<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static CrossingRecord> {
    let record = slab::alloc::<CrossingRecord>(cpu)?;
    record.owner.set(cpu.raw(thread));
    Some(record)
}

/// A thread's record; `None`: there is none, or what says where it is, or whose it is, is damaged.
#[inline(always)]
fn record_at<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, raw: u64) -> Option<&'static CrossingRecord> {
    let record = cpu.pool.get::<CrossingRecord>(PoolAddr(raw))?;
    (record.owner.get() == cpu.raw(thread)).then_some(record)
}

/// The record of the call that a thread is in.
fn innermost<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static CrossingRecord> {
    record_at(cpu, thread, thread.crossing.get())
}

fn free_record<M: Machine>(cpu: &Cpu<M>, record: &'static CrossingRecord) {
    record.owner.set(0);
    slab::free(cpu, record);
}

/// The function has returned: the caller goes on, on its core.
fn come_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Fetch {
    let Some(record) = innermost(cpu, thread) else {
        let what = match thread.crossing.get() {
            0 => format_args!("it returns from a call that it has not made"),
            _ => format_args!("the record of its call is damaged"),
        };
        return report::kill(cpu, thread, process, what);
    };
    if record.callee_isa.get() != M::ISA as u32 || record.callee_sp.get() != registers::sp(&thread.frame) {
        let what = format_args!("it returns through a frame that is not its last call's (longjmp over a crossing?)");
        return report::kill(cpu, thread, process, what);
    }
    let core = CoreId::from_raw(record.caller_core.get());
    let Some(core) = core.filter(|&core| cpu.isa_of(core).is_some_and(|isa| isa as u32 == record.caller_isa.get()))
    else {
        return report::kill(cpu, thread, process, format_args!("the record of its call is damaged"));
    };
    let signature = signature_of(record);
    if signature.has_floats() {
        sched::save_ext(cpu, thread);
    }
    let results = convention::results(M::ISA, &thread.frame, &signature);
    if may_run(thread, core)
        && let Some(fetch) = back::go_back(cpu, thread, mm::space_of(cpu, process), record, core, &results)
    {
        return fetch;
    }
    let state = cpu.pool.header().islands[core.island().index()].state.load(Ordering::Relaxed);
    if state != ISLAND_JOINED {
        let what = format_args!("it returns to island {}, which has died", core.island().index());
        return report::kill(cpu, thread, process, what);
    }
    let target = if core.island() == cpu.island() && core != cpu.id || !may_run(thread, core) {
        core_of(cpu, thread, core.island())
    } else {
        core
    };
    pop(cpu, thread, record, &results);
    sched::hand_to(cpu, thread, target);
    Fetch::Gone
}

/// Takes the last record, which has the caller's registers, off the thread and gives it those.
fn pop<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    results: &convention::Results,
) {
    let isa = Isa::from_raw(record.caller_isa.get()).unwrap_or(M::ISA);
    if record.is_local.get() != 0 {
        let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
        mm::end_local_call(cpu, mm::space_of(cpu, process), record.function.get());
    }
    convention::resume_caller(&thread.frame, isa, record, &signature_of(record), results);
    end(cpu, thread, record, isa);
}

/// The thread is no longer in its last call, which was made on `isa`.
#[inline(always)]
fn end<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &'static CrossingRecord, isa: Isa) {
    thread.crossing.set(record.outer.get());
    thread.stack_used[isa as usize - 1].set(record.outer_used.get());
    keep_record(cpu, thread, record);
}

/// A record that is not needed any more: kept for the thread's next call, if it has none yet.
#[inline(always)]
fn keep_record<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &'static CrossingRecord) {
    if thread.spare_crossing.get() == 0 {
        thread.spare_crossing.set(cpu.raw(record));
    } else {
        free_record(cpu, record);
    }
}

/// The calls that a thread is in, the last one first.
fn chain<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> impl Iterator<Item = &'static CrossingRecord> {
    core::iter::successors(innermost(cpu, thread), move |record| outer_of(cpu, thread, record))
}

/// The call that a call was made in. It is less deep, so that a damaged chain has an end.
fn outer_of<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &CrossingRecord,
) -> Option<&'static CrossingRecord> {
    record_at(cpu, thread, record.outer.get()).filter(|outer| outer.depth.get() < record.depth.get())
}

fn signature_of(record: &CrossingRecord) -> Signature {
    Signature { words: 0, floats: 0, result: record.result.get() as u32 & 0xfff }
}

/// The record that the thread has kept, and the core of an ISA that its last call went to, if it may be called there without
/// knowing whether it is busy: most likely it sleeps again, and holds what the function needs.
#[inline(always)]
fn last_callee<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &ProcessRecord,
    isa: Isa,
) -> Option<(&'static CrossingRecord, CoreId)> {
    let record = spare_record(cpu, thread)?;
    let core = CoreId::from_raw(record.callee_core.get()).filter(|_| record.callee_isa.get() == isa as u32)?;
    let policies = CrossingPolicies::from_raw(process.crossing_policy.load(Ordering::Relaxed));
    (may_run(thread, core) && policies.busy == CrossingPolicy::Wait).then_some((record, core))
}

/// The island of an ISA that has least to do, as a core; `None` if none is there.
fn island_of<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, isa: Isa) -> Option<CoreId> {
    cpu.islands_of(isa).map(|island| core_of(cpu, thread, island)).min_by_key(|&core| run_queue::load(cpu, core))
}

fn core_of<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, island: IslandId) -> CoreId {
    run_queue::least_loaded(cpu, island, affinity(thread))
}

#[inline(always)]
fn may_run(thread: &ThreadRecord, core: CoreId) -> bool {
    thread.affinity[core.index() / 64].load(Ordering::Relaxed) >> (core.index() % 64) & 1 != 0
}

fn affinity(thread: &'static ThreadRecord) -> [u64; 2] {
    [0, 1].map(|word: usize| thread.affinity[word].load(Ordering::Relaxed))
}

/// A forked thread is in the same calls as its parent.
///
/// # Errors
/// `ENOMEM`; the child then has the calls copied so far.
pub fn copy_chain<M: Machine>(
    cpu: &Cpu<M>,
    parent: &'static ThreadRecord,
    child: &'static ThreadRecord,
) -> Result<(), Errno> {
    for (to, from) in child.stack_top.iter().zip(&parent.stack_top) {
        to.set(from.get());
    }
    for (to, from) in child.stack_used.iter().zip(&parent.stack_used) {
        to.set(from.get());
    }
    let mut slot = &child.crossing;
    for from in chain(cpu, parent) {
        let to = slab::alloc::<CrossingRecord>(cpu).ok_or(Errno::ENOMEM)?;
        cpu.pool.copy(cpu.pool.addr_of(from), cpu.pool.addr_of(to), size_of::<CrossingRecord>());
        to.outer.set(0);
        to.owner.set(cpu.raw(child));
        slot.set(cpu.raw(to));
        slot = &to.outer;
    }
    Ok(())
}

/// The thread ends, or executes another program: it returns to nobody.
pub fn forget<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let mut next = innermost(cpu, thread);
    while let Some(record) = next {
        next = outer_of(cpu, thread, record);
        free_record(cpu, record);
    }
    thread.crossing.set(0);
    if let Some(spare) = record_at(cpu, thread, thread.spare_crossing.get()) {
        free_record(cpu, spare);
    }
    thread.spare_crossing.set(0);
    for slot in thread.stack_used.iter().chain(&thread.stack_top) {
        slot.set(0);
    }
}
