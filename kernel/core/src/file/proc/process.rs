//! procfs files about one process (or thread).
//!
//! What is needed of a process is copied under the process-tree lock; formatting, which copies to user memory and may
//! fault, comes after.

use core::fmt::{Result as FmtResult, Write};

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::Device};
use motet_hal::{Access, Machine};
use motet_layout::{
    Cell32, Cell64, GROUPS_MAX, Isa, PAGE_SIZE, PROCESS_ZOMBIE, ProcessRecord, SpaceRecord, THREAD_DEAD, THREAD_ENDING,
    THREAD_PREPARING, THREAD_RUNNING, THREAD_STOPPED, ThreadRecord,
};
use motet_protocol::{
    Context,
    run_queue::is_ready,
    schedule::{self, Schedule},
    stacked,
};

use super::{Text, cores, machine::NS_PER_TICK, nodes, with_thread};
use crate::{
    ability,
    call::{Call, SysResult},
    console::tty::terminal::{Terminal, session_of},
    cpu::Cpu,
    cursor::Cursor,
    mm,
    permission::{self, Identity},
    tree,
};

/// What is shown of a thread and its process.
pub struct Summary {
    pub pid: u32,
    pub tid: u32,
    pub parent: u32,
    pub pgid: u32,
    pub sid: u32,
    /// Whose terminal controls it.
    session: u32,
    pub state: char,
    pub uid: u32,
    pub core: u32,
    pub user_ns: u64,
    pub system_ns: u64,
    identity: Identity,
    groups: ([u32; GROUPS_MAX], usize),
    barred: bool,
    capabilities: [u64; 2],
    child_ns: [u64; 2],
    nice: i32,
    schedule: Schedule,
    threads: u32,
    started_ns: u64,
    isa: u32,
    mapped_len: u64,
    locked_len: u64,
    resident: u64,
    exit_signal: u32,
    pending: [u64; 2],
    blocked: u64,
    umask: u32,
    affinity: [u64; 2],
    name: [u8; 16],
}

impl Summary {
    /// The summary of a thread id, with the times of its process as a whole or of itself.
    pub fn of<M: Machine>(cpu: &Cpu<M>, id: u32, whole: bool) -> Option<Self> {
        with_thread(cpu, id, |thread, process| {
            let leads = thread.tid.get() == process.pid.get();
            let (user_ns, system_ns) =
                if whole { tree::times_ns(cpu, process) } else { (thread.user_ns.get(), thread.system_ns.get()) };
            let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed));
            let state = match thread.state.load(Ordering::Relaxed) {
                _ if process.state.load(Ordering::Relaxed) == PROCESS_ZOMBIE => 'Z',
                _ if stacked::waits(cpu, thread) => 'S',
                // Who prepares to wait looks at what it waits for first: nobody may take it for one that has seen that it waits.
                THREAD_RUNNING | THREAD_PREPARING | THREAD_ENDING => 'R',
                state if is_ready(state) => 'R',
                THREAD_STOPPED => 'T',
                THREAD_DEAD => 'X',
                _ => 'S',
            };
            let name = if leads { &process.name } else { &thread.name };
            Self {
                pid: process.pid.get(),
                tid: thread.tid.get(),
                parent: tree::parent_of(cpu, process).map_or(0, |parent| parent.pid.get()),
                pgid: process.pgid.load(Ordering::Relaxed),
                sid: process.sid.load(Ordering::Relaxed),
                session: session_of(process),
                state,
                uid: process.credentials.users[1].get(),
                core: thread.core.load(Ordering::Relaxed),
                user_ns,
                system_ns,
                identity: Identity::of(process),
                groups: {
                    let groups = permission::groups_of(&process.credentials);
                    (core::array::from_fn(|index| groups.get(index).map_or(0, Cell32::get)), groups.len())
                },
                barred: permission::has_new_privileges_barred(process),
                capabilities: [process.credentials.inheritable.get(), process.credentials.bounding.get()],
                child_ns: [process.child_times_ns[0].get(), process.child_times_ns[1].get()],
                nice: thread.nice.get().cast_signed(),
                schedule: schedule::of(thread),
                threads: process.thread_count.load(Ordering::Relaxed),
                started_ns: process.started_ns.get(),
                isa: process.isa.load(Ordering::Relaxed),
                mapped_len: space.map_or(0, |space| space.mapped_len.get()),
                locked_len: space.map_or(0, |space| space.locked_len.get()),
                resident: space.map_or(0, |space| u64::from(space.resident.load(Ordering::Relaxed))),
                exit_signal: process.exit_signal.get(),
                pending: [thread.pending.load(Ordering::Relaxed), process.pending.load(Ordering::Relaxed)],
                blocked: thread.signal_mask.load(Ordering::Relaxed),
                umask: process.umask.get(),
                affinity: ability::affinity(thread),
                name: core::array::from_fn(|index| name[index].load(Ordering::Relaxed)),
            }
        })
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        self.name[..end].utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
}

/// `stat`: one line; field 39 is the core. Its times are the whole process's, or the thread's.
pub fn stat<M: Machine>(cpu: &Cpu<M>, id: u32, whole: bool, out: &mut Text<M>) -> FmtResult {
    let Some(summary) = Summary::of(cpu, id, whole) else { return Ok(()) };
    let terminal = Terminal::controlling(cpu, summary.session);
    let (terminal, foreground) =
        terminal.map_or((0, -1), |terminal| (terminal.device().encode() as i32, terminal.foreground_pgid.get() as i32));
    let Summary { pid: _, tid, parent, pgid, sid, state, .. } = summary;
    write!(out, "{tid} ({}) {state} {parent} {pgid} {sid} {terminal} {foreground} 0 0 0 0 0", summary.name())?;
    for ns in [summary.user_ns, summary.system_ns, summary.child_ns[0], summary.child_ns[1]] {
        write!(out, " {}", ns / NS_PER_TICK)?;
    }
    let nice = summary.nice;
    let (policy, realtime) = (summary.schedule.policy(), summary.schedule.priority());
    let priority = if realtime == 0 { 20 + nice } else { -1 - realtime as i32 };
    write!(out, " {priority} {nice} {} 0 {}", summary.threads, summary.started_ns / NS_PER_TICK)?;
    // Sizes, then limits and addresses that are not told.
    write!(out, " {} {} {} 0 0 0 0 0", summary.mapped_len, summary.resident, u64::MAX)?;
    write!(out, " {} {} 0 0", summary.pending[0], summary.blocked)?;
    // wchan, nswap, cnswap, exit signal, processor, real-time priority and policy, then what is not kept.
    writeln!(out, " 0 0 0 {} {} {realtime} {policy} 0 0 0 0 0 0 0 0 0 0 0", summary.exit_signal, summary.core)
}

/// `status`.
pub fn status<M: Machine>(cpu: &Cpu<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(summary) = Summary::of(cpu, id, true) else { return Ok(()) };
    let state = match summary.state {
        'R' => "R (running)",
        'T' => "T (stopped)",
        'Z' => "Z (zombie)",
        'X' => "X (dead)",
        _ => "S (sleeping)",
    };
    writeln!(out, "Name:\t{}\nUmask:\t{:04o}\nState:\t{state}", summary.name(), summary.umask)?;
    writeln!(out, "Tgid:\t{}\nPid:\t{}\nPPid:\t{}\nTracerPid:\t0", summary.pid, summary.tid, summary.parent)?;
    let Identity { users, groups, effective, permitted } = summary.identity;
    writeln!(out, "Uid:\t{}\t{}\t{}\t{}", users.real.0, users.effective.0, users.saved.0, users.file.0)?;
    writeln!(out, "Gid:\t{}\t{}\t{}\t{}", groups.real.0, groups.effective.0, groups.saved.0, groups.file.0)?;
    write!(out, "FDSize:\t64\nGroups:\t")?;
    summary.groups.0[..summary.groups.1].iter().try_for_each(|group| write!(out, "{group} "))?;
    out.write_char('\n')?;
    let (size, resident) = (summary.mapped_len / 1024, summary.resident * PAGE_SIZE / 1024);
    writeln!(out, "VmSize:\t{size:>8} kB\nVmLck:\t{:>8} kB", summary.locked_len / 1024)?;
    writeln!(out, "VmRSS:\t{resident:>8} kB\nThreads:\t{}", summary.threads)?;
    writeln!(out, "SigPnd:\t{:016x}\nShdPnd:\t{:016x}", summary.pending[0], summary.pending[1])?;
    writeln!(out, "SigBlk:\t{:016x}", summary.blocked)?;
    let [inheritable, bounding] = summary.capabilities;
    writeln!(out, "CapInh:\t{inheritable:016x}\nCapPrm:\t{permitted:016x}\nCapEff:\t{effective:016x}")?;
    writeln!(out, "CapBnd:\t{bounding:016x}\nCapAmb:\t{:016x}\nNoNewPrivs:\t{}", 0, u32::from(summary.barred))?;
    cores::write_allowed(cpu, summary.affinity, out)?;
    nodes::write_allowed(cpu, out)?;
    let isa = Isa::from_raw(summary.isa).map_or("?", Isa::name);
    writeln!(out, "MotetIsa:\t{isa}\nMotetIsland:\t{}\nMotetCore:\t{}", summary.core / 16, summary.core)
}

/// `statm`: sizes in pages.
pub fn statm<M: Machine>(cpu: &Cpu<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(summary) = Summary::of(cpu, id, true) else { return Ok(()) };
    writeln!(out, "{} {} 0 0 0 0 0", summary.mapped_len / PAGE_SIZE, summary.resident)
}

/// `comm`.
pub fn comm<M: Machine>(cpu: &Cpu<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(summary) = Summary::of(cpu, id, true) else { return Ok(()) };
    writeln!(out, "{}", summary.name())
}

/// `personality`: what the call of that name says.
pub fn personality<M: Machine>(cpu: &Cpu<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let Some(persona) = with_thread(cpu, id, |_, process| process.personality.get()) else { return Ok(()) };
    writeln!(out, "{persona:08x}")
}

/// `limits`: what `getrlimit` says.
pub fn limits<M: Machine>(cpu: &Cpu<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    let of = |_: &ThreadRecord, process: &ProcessRecord| process.limits.each_ref().map(Cell64::get);
    let Some(limits) = with_thread(cpu, id, of) else { return Ok(()) };
    writeln!(out, "{:<25} {:<20} {:<20} {:<10}", "Limit", "Soft Limit", "Hard Limit", "Units")?;
    for (pair, (name, unit)) in limits.chunks(2).zip(tree::limits::LIMITS) {
        write!(out, "{name:<25} ")?;
        for &value in pair {
            match value {
                u64::MAX => write!(out, "{:<20} ", "unlimited")?,
                value => write!(out, "{value:<20} ")?,
            }
        }
        match unit {
            "" => writeln!(out)?,
            unit => writeln!(out, "{unit:<10}")?,
        }
    }
    Ok(())
}

/// `cmdline`, `environ`: memory of the process between two addresses.
pub fn read_memory<M: Machine>(
    call: &Call<M>,
    id: u32,
    position: u64,
    into: &mut Cursor<M>,
    range: fn(&ProcessRecord) -> &[Cell64; 2],
) -> SysResult {
    let cpu = call.cpu;
    let Some((start, end)) = with_thread(cpu, id, |_, process| (range(process)[0].get(), range(process)[1].get()))
    else {
        return Err(Errno::ESRCH.into());
    };
    let Some(space) = SpaceOf::new(cpu, id) else { return Ok(0) };
    let mut at = start.saturating_add(position);
    while at < end && into.remaining() > 0 {
        let mut bytes = [0; 256];
        let len = (end - at).min(PAGE_SIZE - at % PAGE_SIZE).min(bytes.len() as u64).min(into.remaining()) as usize;
        mm::with_resolved(cpu, space.space, at, Access::Read, |run| cpu.pool.read(run, &mut bytes[..len]))?;
        into.write(&bytes[..len])?;
        at += len as u64;
    }
    Ok(into.done())
}

/// The address space of any process, kept for the time of this value.
pub struct SpaceOf<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    pub space: &'static SpaceRecord,
}

impl<'c, M: Machine> SpaceOf<'c, M> {
    pub fn new(cpu: &'c Cpu<M>, id: u32) -> Option<Self> {
        with_thread(cpu, id, |_, process| {
            let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed))?;
            // A process that ends lets its space go without the tree lock: it may be free already.
            let more = |refs| if refs == 0 { None } else { Some(refs + 1) };
            space.refs.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).ok()?;
            Some(Self { cpu, space })
        })?
    }
}

impl<M: Machine> Drop for SpaceOf<'_, M> {
    fn drop(&mut self) {
        mm::release(self.cpu, self.space);
    }
}

const _: () = assert!(Device { major: 5, minor: 1 }.encode() == 0x501);
