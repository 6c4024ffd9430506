//! The long way: the thread itself goes to the other core, through its run queue, as an ordinary thread there.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    convention::{self, Arguments, Entry},
};
use motet_hal::Machine;
use motet_layout::{CoreId, CrossingRecord, ISLAND_JOINED, Isa, PoolAddr, ProcessRecord, ThreadRecord, is_canonical};
use motet_protocol::{Context, run_queue::is_online};

use super::{
    Fetch,
    cores::{core_of, may_run},
    gate,
    records::{end, signature_of},
    report,
    request::Ready,
    stack,
};
use crate::{cpu::Cpu, handover, mm};

/// Makes a call through the queue of its target.
///
/// # Errors
/// `ENOMEM`; `EFAULT`: the thread pointer is not an address.
pub fn make<M: Machine>(cpu: &Cpu<M>, ready: Ready<'_>, arguments: &Arguments) -> Result<Fetch, Errno> {
    let Ready { thread, space, record, target, request } = ready;
    let Some(tls) = request.tls::<M>(thread) else {
        thread.spare_crossing.set(cpu.raw(record)); // if it is not there already
        return Err(Errno::EFAULT);
    };
    ready.record(cpu);
    ready.begin(cpu);
    request.count(cpu, target);
    if request.is_local {
        mm::begin_local_call(cpu, space, request.function);
    }
    convention::save_caller(M::ISA, &thread.frame, record);
    record.is_saved.set(1);
    let entry = Entry { function: request.function, gate: gate::address(request.isa), stack: request.stack, tls };
    let words = convention::enter(&thread.frame, request.isa, &entry, &request.signature, arguments);
    record.callee_sp.set(words.sp_at_return);
    if !stack::push(cpu, space, &words) {
        // No memory for the function's stack: as if it had returned nothing, then the signal.
        pop(cpu, thread, record, &convention::Results::default());
        handover::reload_ext(cpu, thread);
        return Err(Errno::ENOMEM);
    }
    handover::hand_to(cpu, thread, target);
    Ok(Fetch::Gone)
}

/// The core that the caller in a record ran on. `None`: the record is damaged.
pub fn caller_core<M: Machine>(cpu: &Cpu<M>, record: &CrossingRecord) -> Option<CoreId> {
    let is_callers = |&core: &CoreId| cpu.isa_of(core).is_some_and(|isa| isa as u32 == record.caller_isa.get());
    let core = CoreId::from_raw(record.caller_core.get()).filter(is_callers);
    core.filter(|_| is_canonical(record.caller_tls.get()))
}

/// Where a thread goes on whose caller ran on `core`.
///
/// # Errors
/// That island has died, and so the process has ended.
pub fn target<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    core: CoreId,
) -> Result<CoreId, Fetch> {
    let state = cpu.pool.header().islands[core.island().index()].state.load(Ordering::Relaxed);
    if state != ISLAND_JOINED {
        let what = format_args!("it returns to island {}, which has died", core.island().index());
        return Err(report::kill(cpu, thread, process, what));
    }
    let is_elsewhere = core.island() == cpu.island() && core != cpu.id;
    let is_other = is_elsewhere || !may_run(thread, core) || !is_online(cpu, core);
    Ok(if is_other { core_of(cpu, thread, core.island()) } else { core })
}

/// Takes the last record, which has the caller's registers, off the thread and gives it those.
pub fn pop<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    record: &'static CrossingRecord,
    results: &convention::Results,
) {
    let isa = caller_isa::<M>(record);
    convention::resume_caller(&thread.frame, isa, record, &signature_of(record), results);
    drop_last(cpu, thread, record);
}

/// Takes the last record off the thread, which goes on elsewhere.
pub fn drop_last<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, record: &'static CrossingRecord) {
    if record.is_local.get() != 0 {
        let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
        mm::end_local_call(cpu, mm::space_of(cpu, process), record.function.get());
    }
    end(cpu, thread, record, caller_isa::<M>(record));
}

fn caller_isa<M: Machine>(record: &CrossingRecord) -> Isa {
    Isa::from_raw(record.caller_isa.get()).unwrap_or(M::ISA)
}
