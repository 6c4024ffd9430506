//! Which core runs a called function, and what happens to the call if there is none, or all are busy.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    convention::{self, Arguments},
    fat::Signature,
    own::{CrossingPolicies, CrossingPolicy},
    registers,
};
use motet_hal::Machine;
use motet_layout::{CoreId, FatProgram, ISLAND_JOINED, Isa, IslandId, ProcessRecord, SpaceRecord, ThreadRecord};
use motet_protocol::{Context, direct::is_about_to_sleep, noncoherent, run_queue};

use super::{
    Fetch,
    answers::make_returned_ready,
    back,
    call::{call_again_noncoherent, make},
    cores::{core_of, island_of},
    elsewhere, migration, report,
    request::{Request, thread_pointer},
    state::Pinned,
};
use crate::{
    away,
    call::{self, Call, Stop, SysResult},
    cpu::Cpu,
    handover, mm, peers,
    process::fat,
    signal,
};

/// As [`super::fetch()`], when the core that the thread has called last is not to run the function.
#[cold]
pub fn choose<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
    address: u64,
) -> Fetch {
    if cpu.crossing.migrates()
        && let Some(fetch) = migration::redirect(cpu, thread, space, address)
    {
        return fetch;
    }
    let Some(program) = cpu.object::<FatProgram>(space.fat.get()) else { return Fetch::Fault };
    let fetched = Fetched { thread, process, space, program, address };
    match fetched.function(cpu).and_then(|pin| fetched.call(cpu, &pin)) {
        Ok(fetch) | Err(fetch) => fetch,
    }
}

/// A thread of a program for several ISAs has fetched an instruction from where only another ISA may.
#[derive(Clone, Copy)]
struct Fetched {
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
    program: &'static FatProgram,
    address: u64,
}

impl Fetched {
    /// The function that it calls, which this core knows from now on.
    ///
    /// # Errors
    /// It calls none, and that has been dealt with.
    fn function<M: Machine>(self, cpu: &Cpu<M>) -> Result<Pinned, Fetch> {
        let function = registers::pc(&self.thread.frame);
        let epoch = mm::epoch(cpu, self.space);
        let pins = cpu.crossing.pins(cpu.crossing.reach());
        if let Some(pin) = pins.get(function, epoch) {
            return Ok(pin);
        }
        let isa = mm::pin_at(cpu, self.space, self.address).ok_or(Fetch::Fault)?;
        let Some(pin) = fat::pin_of(cpu, self.program, function).filter(|pin| pin.isa == isa) else {
            if let Some(pages) = mm::go_on_locally(cpu, self.space, self.address) {
                self.program.local_pages.fetch_add(pages, Ordering::Relaxed);
                return Err(Fetch::Run);
            }
            return Err(self.end(cpu, format_args!("it jumps into the middle of code for {}", isa.name())));
        };
        let pin = Pinned::new(&pin, self.program);
        pins.put(function, epoch, pin);
        Ok(pin)
    }

    /// Calls the function on the core that the process's policies say.
    ///
    /// # Errors
    /// It is not called now, and that has been dealt with.
    fn call<M: Machine>(self, cpu: &Cpu<M>, pin: &Pinned) -> Result<Fetch, Fetch> {
        let Self { thread, space, .. } = self;
        let policies = CrossingPolicies::from_raw(self.process.crossing_policy.load(Ordering::Relaxed));
        let may_wait = self.may_wait(cpu, pin.isa, policies)?;
        if peers::are_there(cpu)
            && let Some(node) = elsewhere::kernel_for(cpu, thread, pin.isa)
        {
            return self.call_elsewhere(cpu, pin, node);
        }
        let target = self.target(cpu, pin, policies)?;
        let tls = registers::tls_of(M::ISA, &thread.frame);
        if thread_pointer(Some(self.program), M::ISA, tls, pin.isa).is_none() {
            let isa = pin.isa.name();
            let what = format_args!("it calls a function for {isa} with thread pointer {tls:#x}, which is no address");
            return Err(self.end(cpu, what));
        }
        let is_free = target == cpu.id || noncoherent::is_free(cpu, target);
        if may_wait && !is_free && cpu.crossing.turn().waits(cpu.raw(thread), cpu.now_ns()) {
            return Err(try_again(cpu, thread));
        }
        let function = registers::pc(&thread.frame);
        cpu.mm.take_awaited();
        let made = Request::of(cpu, thread, space, function, pin).and_then(|mut request| {
            let read = |address| mm::read_word(cpu, space, address).ok();
            let mut arguments = Arguments::default();
            convention::arguments(M::ISA, &thread.frame, &pin.signature, read, &mut arguments).ok_or(Errno::EFAULT)?;
            if target == cpu.id {
                (request.isa, request.is_local) = (M::ISA, true);
            }
            make(cpu, thread, space, target, request, &arguments)
        });
        Ok(made.unwrap_or_else(|errno| {
            if comes_later(cpu, errno) {
                return Fetch::Page;
            }
            signal::memory_fault(cpu, thread, self.address, errno);
            Fetch::Run
        }))
    }

    /// Has another kernel run the function.
    fn call_elsewhere<M: Machine>(self, cpu: &Cpu<M>, pin: &Pinned, node: u32) -> Result<Fetch, Fetch> {
        let Self { thread, process, space, .. } = self;
        let function = registers::pc(&thread.frame);
        cpu.mm.take_awaited();
        let made = Request::of(cpu, thread, space, function, pin).and_then(|request| {
            let read = |address| mm::read_word(cpu, space, address).ok();
            let mut arguments = Arguments::default();
            convention::arguments(M::ISA, &thread.frame, &pin.signature, read, &mut arguments).ok_or(Errno::EFAULT)?;
            elsewhere::call(cpu, (thread, process, space), &request, &arguments, node)
        });
        made.map_err(|errno| {
            if comes_later(cpu, errno) {
                return Fetch::Page;
            }
            let isa = pin.isa.name();
            self.end(cpu, format_args!("it cannot call a function for {isa} in kernel {node}: {}", errno.name()))
        })
    }

    /// Whether the call may wait for its turn at a core. First it waits for threads of this core that are away, if it may.
    ///
    /// # Errors
    /// It waits for these, or has been made meanwhile.
    fn may_wait<M: Machine>(self, cpu: &Cpu<M>, isa: Isa, policies: CrossingPolicies) -> Result<bool, Fetch> {
        let Self { thread, process, space, .. } = self;
        let may_wait = cpu.crossing.reach().is_noncoherent()
            && !cpu.crossing.is_to_take_long_way(cpu.raw(thread))
            && !back::moves_home(cpu, thread, space, isa);
        if !may_wait || policies.busy != CrossingPolicy::Wait || cpu.crossing.awaited().is_empty() {
            return Ok(may_wait);
        }
        match after_others(cpu, thread, process, space) {
            Some(fetch) => Err(fetch),
            None => Ok(cpu.crossing.awaited().is_empty()), // if not, it has waited for long
        }
    }

    /// The core that is to run the function.
    ///
    /// # Errors
    /// The thread runs the function itself, or has been ended.
    fn target<M: Machine>(self, cpu: &Cpu<M>, pin: &Pinned, policies: CrossingPolicies) -> Result<CoreId, Fetch> {
        let isa = pin.isa.name();
        let Some(core) = island_of(cpu, self.thread, pin.isa) else {
            if pin.strict || policies.missing == CrossingPolicy::End {
                let what = format_args!("it calls a function for {isa}, of which no island is there");
                return Err(self.end(cpu, what));
            }
            let pages = mm::run_locally(cpu, self.space, self.address);
            self.program.local_pages.fetch_add(pages, Ordering::Relaxed);
            return Err(Fetch::Run);
        };
        let is_busy = policies.busy != CrossingPolicy::Wait && has_other_work(cpu, core);
        match policies.busy {
            CrossingPolicy::Local if is_busy && !pin.strict => Ok(cpu.id),
            CrossingPolicy::End if is_busy => {
                Err(self.end(cpu, format_args!("it calls a function for {isa}, all of whose cores are busy")))
            }
            CrossingPolicy::Wait | CrossingPolicy::Local | CrossingPolicy::End => Ok(core),
        }
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, what: core::fmt::Arguments<'_>) -> Fetch {
        report::kill(cpu, self.thread, self.process, what)
    }
}

/// Whether a call cannot be made because a page of the caller's stack, of which this core had noted none before, comes later.
fn comes_later<M: Machine>(cpu: &Cpu<M>, errno: Errno) -> bool {
    errno == Errno::EFAULT && cpu.mm.awaits_page()
}

/// Over a link, a core has room for one answer, and another thread of this one is away: the call waits until that is back, as nothing is
/// as long as the long way. `None`: it is back, and the call cannot be made the short way nevertheless; or this one has waited for long.
fn after_others<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
) -> Option<Fetch> {
    make_returned_ready(cpu);
    if cpu.crossing.awaited().is_empty() {
        return call_again_noncoherent(cpu, thread, process, space);
    }
    cpu.crossing.turn().waits(cpu.raw(thread), cpu.now_ns()).then(|| try_again(cpu, thread))
}

/// The thread fetches again when all others of this core have run.
fn try_again<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Fetch {
    handover::yield_core(cpu, thread);
    Fetch::Gone
}

/// Whether a core has something to do: not if it has just done what there was, and is on its way to sleep.
fn has_other_work<M: Machine>(cpu: &Cpu<M>, core: CoreId) -> bool {
    run_queue::load(cpu, core) != 0 && !is_about_to_sleep(cpu, core)
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
/// `EINVAL`: there is no such island, or the program has no text for it; `EFAULT`: the thread pointer is not an address; `ENOMEM`.
pub fn call_on<M: Machine>(call: &Call<M>) -> SysResult {
    let [island, function, argument, ..] = call.args;
    let cpu = call.cpu;
    if peers::are_there(cpu) {
        return call_on_kernel(call, island as u32, function, argument);
    }
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
        stack: 0, // `make` finds it
        program: cpu.object(space.fat.get()),
        is_local,
        by_system_call: true,
    };
    let mut arguments = Arguments::default();
    arguments.words[0] = argument;
    handover::save_ext(cpu, call.thread);
    call::end_call(call.thread);
    match make(cpu, call.thread, space, target, request, &arguments)? {
        Fetch::Gone => Err(Stop::Gone),
        Fetch::Run | Fetch::Fault | Fetch::Page => Err(Stop::Replaced),
        Fetch::Waits => Err(Stop::Again),
    }
}

/// As [`call_on`], where each island has a kernel of its own: `node` is its number.
#[cold]
fn call_on_kernel<M: Machine>(call: &Call<M>, node: u32, function: u64, argument: u64) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let space = mm::space_of(cpu, call.process);
    let own = peers::own_node(cpu);
    let isa = if node == own { Some(M::ISA) } else { peers::isa_of(cpu, node) }.ok_or(Errno::EINVAL)?;
    let program = cpu.object::<FatProgram>(space.fat.get());
    let has_text = program.is_some_and(|program| program.texts.get() >> (isa as u32) & 1 != 0);
    if node != own && !has_text {
        return Err(Errno::EINVAL.into());
    }
    if node != own && elsewhere::kernel_for(cpu, thread, isa) != Some(node) && away::is_remote(thread) {
        return Err(Errno::EOPNOTSUPP.into()); // it would have to go home first
    }
    let frame = &thread.frame;
    let mut request = Request {
        function,
        signature: Signature::POINTER,
        isa,
        first: argument,
        pc: registers::pc(frame),
        sp: registers::sp(frame),
        stack: 0,
        program,
        is_local: node == own,
        by_system_call: true,
    };
    let mut arguments = Arguments::default();
    arguments.words[0] = argument;
    handover::save_ext(cpu, thread);
    call::end_call(thread);
    let made = if node == own {
        request.is_local = false;
        make(cpu, thread, space, cpu.id, request, &arguments)?
    } else {
        elsewhere::call(cpu, (thread, call.process, space), &request, &arguments, node)?
    };
    match made {
        Fetch::Gone => Err(Stop::Gone),
        Fetch::Waits => Err(Stop::Again),
        Fetch::Run | Fetch::Fault | Fetch::Page => Err(Stop::Replaced),
    }
}
