//! Calls of functions that another kernel's cores run (`docs/protocols/away.md`): the thread's other half there runs them, and this half waits in a system call that no
//! program makes. Calls nest as others do: a function may call back, and then that half waits.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno, Syscall,
    convention::{self, Arguments, Entry, Results, StackWords},
    registers,
};
use motet_hal::Machine;
use motet_layout::{
    AWAY_CALL, AWAY_END, AWAY_NOTHING, AWAY_RETURN, AWAY_SYSTEM_CALL, AwayRecord, CrossingRecord, InodeRecord, Isa,
    ProcessRecord, SpaceRecord, ThreadRecord,
};
use motet_protocol::{
    Context,
    peer::bodies::{STEP_WORDS, Step},
};

use super::{
    Fetch, gate, long,
    records::{chain, end, innermost, nest, new_record, spare_record},
    report,
    request::Request,
    stack,
};
use crate::{
    away,
    call::{Call, PATH_MAX, Stop, SysResult},
    cpu::Cpu,
    file, futex, handover,
    mm::{self, kept},
    peers,
    process::{exit, remote},
    signal,
};

/// The kernel that is to run a function of an instruction set that this one's cores have not; of a remote's, only home can.
pub fn kernel_for<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, isa: Isa) -> Option<u32> {
    match away::home(cpu, thread) {
        Some(home) if away::is_remote(thread) => Some(home.node.get()),
        Some(_) | None => peers::of_isa(cpu, isa),
    }
}

/// The thread calls a function in kernel `node`, and waits for its return from now on.
///
/// # Errors
/// `ENOMEM`, `EFAULT`, `EIO`: nothing has happened.
pub fn call<M: Machine>(
    cpu: &Cpu<M>,
    (thread, process, space): (&'static ThreadRecord, &'static ProcessRecord, &'static SpaceRecord),
    request: &Request,
    arguments: &Arguments,
    node: u32,
) -> Result<Fetch, Errno> {
    let is_remote = away::is_remote(thread);
    // Processes that share their memory (`vfork`) would each have remotes of their own.
    if !is_remote && space.refs.load(Ordering::Relaxed) > 1 {
        return Err(Errno::EOPNOTSUPP);
    }
    if !is_remote && kept::of(cpu, space).is_none() {
        kept::begin(cpu, space, peers::own_node(cpu))?;
    }
    let away = away::with_or_new(cpu, thread, node)?;
    // Of a thread that comes home, home knows where its stack is.
    let stack = if is_remote { 0 } else { stack::of(cpu, thread, space, request.isa, cpu.island())? };
    let tls = request.tls::<M>(thread).ok_or(Errno::EFAULT)?;
    let record = spare_record(cpu, thread).or_else(|| new_record(cpu, thread)).ok_or(Errno::ENOMEM)?;
    request.record(cpu, thread, record, cpu.id);
    // No core here is the one to be asked the next time.
    record.callee_core.set(u32::MAX);
    record.caller_node.set(0);
    record.callee_node.set(node + 1);
    convention::save_caller(M::ISA, &thread.frame, record);
    record.is_saved.set(1);
    let step = Step::call(request.function, &request.signature, (stack, tls), request.sp, arguments);
    let sent = if is_remote {
        away::migrate_back(cpu, node, away.peer.load(Ordering::Acquire), step)
    } else {
        let mut room = [0; PATH_MAX];
        program(cpu, thread, process, space, &mut room)
            .and_then(|program| away::migrate(cpu, (away, process), program, step))
    };
    if let Err(errno) = sent {
        record.callee_node.set(0);
        thread.spare_crossing.set(cpu.raw(record)); // if it is not there already
        return Err(errno);
    }
    request.begin(cpu, thread, record);
    if !is_remote {
        signal::hold_handlers(cpu, thread, process);
    }
    remote::wait_for_step::<M>(thread);
    Ok(Fetch::Waits)
}

/// The program, as another kernel finds it.
fn program<'a, M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &SpaceRecord,
    room: &'a mut [u8; PATH_MAX],
) -> Result<away::Program<'a>, Errno> {
    let fat = cpu.object::<motet_layout::FatProgram>(space.fat.get()).ok_or(Errno::ENOEXEC)?;
    let inode = cpu.object::<InodeRecord>(fat.inode.get()).ok_or(Errno::ENOEXEC)?;
    let call = Call { cpu, thread, process, args: [0; 6], isa: M::ISA };
    let path = file::executable_path(&call, room)?;
    let (file_len, changed_ns) = (inode.size.load(Ordering::Relaxed), inode.modified_ns.get());
    Ok(away::Program { path, file_len, changed_ns })
}

/// The function of a caller in another kernel has returned, by the innermost record: the caller gets its results, and this half waits.
pub fn give_back<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    record: &'static CrossingRecord,
    results: &Results,
) -> Fetch {
    let node = record.caller_node.get().wrapping_sub(1);
    let Some(away) = away::with(cpu, thread, node) else {
        return report::kill(cpu, thread, process, format_args!("the record of its call is damaged"));
    };
    let isa = Isa::from_raw(record.caller_isa.get()).unwrap_or(M::ISA);
    record.caller_node.set(0);
    end(cpu, thread, record, isa);
    let step = Step::results(results);
    let sent = if away.is_remote.get() != 0 {
        let peer = away.peer.load(Ordering::Acquire);
        if thread.crossing.get() == 0 {
            // Whoever comes next may have it.
            away.peer.store(0, Ordering::Release);
        }
        away::migrate_back(cpu, away.node.get(), peer, step)
    } else {
        signal::hold_handlers(cpu, thread, process);
        away::migrate(cpu, (away, process), away::Program::NONE, step)
    };
    if sent.is_err() {
        return report::kill(cpu, thread, process, format_args!("its other half in kernel {node} cannot be reached"));
    }
    remote::wait_for_step::<M>(thread);
    Fetch::Waits
}

/// What the system call is to do in which a half waits.
pub enum Awaited {
    /// It ends, or waits, so.
    Result(SysResult),
    /// It makes this call for the other half, by the ABI of that instruction set.
    Serve(Syscall, [u64; 6], Isa, &'static AwayRecord),
}

/// The system call in which a half waits for what the other one sends.
pub fn wait<M: Machine>(call: &Call<M>) -> Awaited {
    let Some(away) = awaited(call.cpu, call.thread) else { return Awaited::Result(Err(Errno::ENOSYS.into())) };
    if away.in_call.get() != 0 {
        return serve(call, away);
    }
    let came = || {
        let came = away.came.load(Ordering::Acquire);
        Ok((came != AWAY_NOTHING).then_some(came))
    };
    match call.wait_for(&away.waiters, came) {
        Err(stop) => Awaited::Result(Err(stop)),
        Ok(AWAY_SYSTEM_CALL) if away::take_call(call, away) => serve(call, away),
        Ok(AWAY_SYSTEM_CALL) => Awaited::Result(Err(Stop::Again)),
        Ok(came) => Awaited::Result(Err(go_on(call, away, came))),
    }
}

/// Whose message a half waits for: that of the kernel which runs its innermost call's function, or home's.
fn awaited<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static AwayRecord> {
    match innermost(cpu, thread).map_or(0, |record| record.callee_node.get()) {
        0 if thread.crossing.get() == 0 => away::home(cpu, thread),
        0 => None,
        node => away::with(cpu, thread, node - 1),
    }
}

/// The kernel for whose half this one is in the middle of a system call.
pub fn served<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<&'static AwayRecord> {
    awaited(cpu, thread).filter(|away| away.is_remote.get() == 0 && away.in_call.get() != 0)
}

fn serve<M: Machine>(call: &Call<M>, away: &'static AwayRecord) -> Awaited {
    match away::begin_call(call, away) {
        Some((name, args, isa)) => Awaited::Serve(name, args, isa, away),
        None => Awaited::Result(Err(kill(call, format_args!("its other half has made a call that cannot be")))),
    }
}

/// A call, or a return, has come.
fn go_on<M: Machine>(call: &Call<M>, away: &'static AwayRecord, came: u32) -> Stop {
    let (cpu, thread, process) = (call.cpu, call.thread, call.process);
    let mut words = [0; STEP_WORDS];
    words.iter_mut().zip(&away.words).for_each(|(to, word)| *to = word.get());
    let step = Step::from_words(&words);
    match came {
        AWAY_RETURN => match innermost(cpu, thread) {
            Some(record) if record.callee_node.get() == away.node.get() + 1 => {
                away::take(away);
                come_home(cpu, thread, process, away, record, &step);
                Stop::Replaced
            }
            Some(_) | None => kill(call, format_args!("it returns from a call that it has not made")),
        },
        AWAY_CALL => match begin(call, away, &step) {
            Ok(()) => {
                away::take(away);
                Stop::Replaced
            }
            Err(Stop::Error(_)) => kill(call, format_args!("there is no memory for a function's stack")),
            Err(stop) => stop,
        },
        AWAY_END => {
            if let Err(stop) = futex::await_release(call) {
                return stop;
            }
            let (node, signal) = (away.node.get(), away.words[0].get() as u32 & 0x7f);
            report::say_killed(
                cpu,
                thread,
                process,
                format_args!("in kernel {node}, where its thread was, signal {signal} has ended it"),
            );
            exit::exit_group_by_signal(cpu, thread, process, signal);
            Stop::Gone
        }
        _ => kill(call, format_args!("its other half has sent what cannot be")),
    }
}

fn kill<M: Machine>(call: &Call<M>, what: core::fmt::Arguments<'_>) -> Stop {
    report::kill(call.cpu, call.thread, call.process, what);
    Stop::Gone
}

/// The function has returned that the thread called elsewhere.
fn come_home<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    away: &'static AwayRecord,
    record: &'static CrossingRecord,
    step: &Step,
) {
    let arguments = step.arguments();
    let results =
        Results { words: [arguments.words[0], arguments.words[1]], floats: [arguments.floats[0], arguments.floats[1]] };
    let mine = record.callee_node.get();
    record.callee_node.set(0);
    long::pop(cpu, thread, record, &results);
    let is_left = chain(cpu, thread).any(|outer| outer.callee_node.get() == mine);
    if away.is_remote.get() == 0 {
        if !is_left {
            // Its next call may meet another half there.
            away.peer.store(0, Ordering::Release);
        }
        signal::release_handlers(thread, process);
    }
    handover::reload_ext(cpu, thread);
}

/// A function is called from another kernel: the thread goes on with it.
fn begin<M: Machine>(call: &Call<M>, away: &'static AwayRecord, step: &Step) -> Result<(), Stop> {
    let (cpu, thread, process) = (call.cpu, call.thread, call.process);
    let space = mm::space_of(cpu, process);
    let isa = peers::isa_of(cpu, away.node.get()).ok_or(Errno::EIO)?;
    let stack = match step.stack.get() {
        0 => stack::of(cpu, thread, space, M::ISA, cpu.island())?,
        stack => stack,
    };
    let (signature, tls) = (step.signature(), step.tls.get());
    if !registers::can_hold_tls(M::ISA, tls) {
        return Err(Errno::EFAULT.into());
    }
    let entry = Entry { function: step.function.get(), gate: gate::address(M::ISA), stack, tls };
    let record = spare_record(cpu, thread).or_else(|| new_record(cpu, thread)).ok_or(Errno::ENOMEM)?;
    thread.spare_crossing.set(cpu.raw(record));
    let words = convention::enter(&thread.frame, M::ISA, &entry, &signature, &step.arguments());
    if let Err(stop) = write(cpu, space, &words) {
        // A page of the stack comes later: then all this is done once more.
        remote::wait_for_step::<M>(thread);
        return Err(stop);
    }
    record.callee_sp.set(words.sp_at_return);
    nest(cpu, thread, record);
    record.caller_isa.set(isa as u32);
    record.callee_isa.set(M::ISA as u32);
    record.caller_core.set(u32::from(cpu.id.0));
    record.callee_core.set(u32::from(cpu.id.0));
    record.caller_node.set(away.node.get() + 1);
    record.callee_node.set(0);
    record.function.set(step.function.get());
    record.return_pc.set(0);
    record.caller_sp.set(step.caller_sp.get());
    record.caller_tls.set(0);
    record.outer_used.set(thread.stack_used[isa as usize - 1].get());
    record.result.set(u64::from(signature.result));
    record.is_saved.set(1);
    record.is_local.set(0);
    thread.crossing.set(cpu.raw(record));
    thread.spare_crossing.set(0);
    thread.stack_used[isa as usize - 1].set(step.caller_sp.get());
    if away.is_remote.get() == 0 {
        signal::release_handlers(thread, process);
    }
    handover::reload_ext(cpu, thread);
    Ok(())
}

fn write<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, words: &StackWords) -> Result<(), Stop> {
    words.words().iter().zip((words.at..).step_by(8)).try_for_each(|(&word, at)| mm::write_word(cpu, space, at, word))
}
