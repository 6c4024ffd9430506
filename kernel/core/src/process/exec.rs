//! `execve`: a new program in the process, on an island of the program's instruction set.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    file::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, R_OK},
    property, registers,
};
use motet_hal::Machine;
use motet_layout::{
    CoreId, InodeRecord, Isa, IslandId, PAGE_SIZE, ProcessRecord, SpaceRecord, ThreadRecord, VMA_STACK,
};
use motet_protocol::{Context, fs, lock::lock, run_queue, slab, threads, wait};

use super::{
    executable::{Executable, INTERPRETER_MAX, NO_HEADERS},
    exit::kill_other_threads,
    places::Places,
    refusal::Refusal,
    stack::{self, Image, StackBuilder},
    strings::{Command, Prefix, StringSource, Strings, ToldName},
};
use crate::{
    ability, away,
    call::{self, BUDGET, Call, PATH_MAX, Stop, SysResult, cost},
    chain,
    cpu::Cpu,
    cputime, due, file, handover,
    kinds::service,
    mm::{self, Policy},
    permission::{self, FileRights, Identity, Owned},
    signal, time,
    tree::{self, lock_tree},
};

/// Interpreter scripts that lead to one another.
const SCRIPTS_MAX: usize = 5;
/// Bytes of a script's first line that count.
const SCRIPT_LINE_MAX: usize = 256;
const AT_FDCWD: i32 = -100;
const POLL_NS: u64 = 500_000;

/// `execve(path, arguments, environment)`.
pub fn execve<M: Machine>(call: &Call<M>) -> SysResult {
    execute(call, AT_FDCWD, call.args[0], call.args[1], call.args[2], 0)
}

/// `execveat(dirfd, path, arguments, environment, flags)`.
pub fn execveat<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[4] as u32 & !(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL.into());
    }
    execute(call, call.args[0] as i32, call.args[1], call.args[2], call.args[3], call.args[4])
}

fn execute<M: Machine>(
    call: &Call<M>,
    dirfd: i32,
    path_at: u64,
    arguments_at: u64,
    environment_at: u64,
    flags: u64,
) -> SysResult {
    if call.has_waited() && !is_only_thread(call) {
        return wait_for_other_threads(call);
    }
    let mut path = file::Path::new();
    path.read_user(call, path_at)?;
    call.serve_due(cost::STEP);
    let mut prefix = Prefix::new();
    let program = find_program(call, dirfd, path.as_bytes(), flags, &mut prefix)?;
    call.serve_due(cost::STEP);
    let owned = {
        let _guard = lock(call.cpu, &program.inode().lock);
        Owned::of(program.inode())
    };
    let identity = Identity::after_exec(call.process, &owned);
    call.serve_due(cost::STEP);
    let refuse = |refusal: Refusal| refusal.say(call.cpu, prefix.program(path.as_bytes()));
    let wished = Isa::from_raw(call.process.start_isa.load(Ordering::Relaxed));
    let mut headers = NO_HEADERS;
    let executable = Executable::read(call.cpu, program.inode(), wished, &mut headers).map_err(refuse)?;
    call.serve_due(BUDGET);
    let island = island_for(call, executable.isa).map_err(refuse)?;
    let length = length_for(call, &executable, program.inode()).map_err(refuse)?;
    call.serve_due(cost::STEP);
    let strings = Strings::new(call, arguments_at, environment_at, &prefix)?;
    call.serve_due(cost::STEP);
    let name = ToldName::of(dirfd, path.as_bytes());
    let built = build(call, &executable, program.inode(), (&strings, name), island, identity);
    let waits = |refusal: &Refusal| matches!(refusal, Refusal::Later);
    let image = built.map_err(|refusal| if waits(&refusal) { Stop::Page } else { refuse(refusal).into() })?;
    if !is_only_thread(call) {
        mm::release(call.cpu, image.space);
        return wait_for_other_threads(call);
    }
    if let Err(errno) = unshare(call) {
        mm::release(call.cpu, image.space);
        return Err(errno.into());
    }
    commit(call, &image, program.inode(), path.as_bytes(), (executable.isa, length));
    if stays(call, island) {
        // The address space changes under the thread: load it before user code runs again.
        return match mm::activate(call.cpu, image.space) {
            Ok(()) => {
                registers::init_frame(&call.thread.frame, executable.isa, image.entry, image.stack);
                handover::reload_ext(call.cpu, call.thread);
                Err(Stop::Replaced)
            }
            Err(_) => {
                super::exit::exit_group_by_signal(call.cpu, call.thread, call.process, signal::SIGKILL);
                Err(Stop::Gone)
            }
        };
    }
    registers::init_frame(&call.thread.frame, executable.isa, image.entry, image.stack);
    move_to(call, island);
    Err(Stop::Gone)
}

/// Starts the machine's first process on this island.
///
/// # Errors
/// What is wrong with the program.
pub fn start_first<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    thread: &'static ThreadRecord,
) -> Result<(), Errno> {
    let header = cpu.pool.header();
    let empty = mm::create(cpu)?;
    process.space.store(cpu.raw(empty), Ordering::Relaxed);
    let call = Call { cpu, thread, process, args: [0; 6], isa: M::ISA };
    let command =
        Command { cpu, at: header.command.get(), args: header.command_args.get(), env: header.command_env.get() };
    let mut path = [0; PATH_MAX];
    let path_len = command.string(0, &mut path).ok_or(Errno::ENOENT)?;
    let path = &path[..path_len];
    let mut prefix = Prefix::new();
    let program = find_program(&call, AT_FDCWD, path, 0, &mut prefix).map_err(Stop::unless_waiting)?;
    let refuse = |refusal: Refusal| refusal.say(cpu, prefix.program(path));
    let mut headers = NO_HEADERS;
    let executable = Executable::read(cpu, program.inode(), None, &mut headers).map_err(refuse)?;
    let island = island_for(&call, executable.isa).map_err(refuse)?;
    let length = length_for(&call, &executable, program.inode()).map_err(refuse)?;
    let identity = Identity::of(process);
    let strings: (&dyn StringSource<M>, _) = (&command, ToldName::of(AT_FDCWD, path));
    let image = build(&call, &executable, program.inode(), strings, island, identity).map_err(refuse)?;
    commit(&call, &image, program.inode(), path, (executable.isa, length));
    registers::init_frame(&thread.frame, executable.isa, image.entry, image.stack);
    let target = if island == cpu.island() { cpu.id } else { target_core(&call, island) };
    handover::start_on(cpu, thread, target);
    Ok(())
}

/// Opens the program, through interpreter scripts.
fn find_program<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &[u8],
    flags: u64,
    prefix: &mut Prefix,
) -> Result<fs::Held<'c, Cpu<M>>, Stop> {
    let mut program = file::open_executable(call, dirfd, path, flags)?;
    call.serve_due(cost::STEP);
    for _ in 0..=SCRIPTS_MAX {
        let mut line = [0; SCRIPT_LINE_MAX];
        let len = fs::read_bytes(call.cpu, program.inode(), 0, &mut line);
        if len < 2 || &line[..2] != b"#!" {
            return Ok(program);
        }
        let line = &line[2..len];
        let end = line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len());
        let line = line[..end].trim_ascii();
        let cut = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
        let (interpreter, argument) = (&line[..cut], line[cut..].trim_ascii());
        if interpreter.is_empty() {
            return Err(Errno::ENOEXEC.into());
        }
        if prefix.count == 0 {
            prefix.prepend(&ToldName::of(dirfd, path).parts())?;
        }
        if !argument.is_empty() {
            prefix.prepend(&[argument])?;
        }
        prefix.prepend(&[interpreter])?;
        program = file::open_executable(call, AT_FDCWD, interpreter, 0)?;
    }
    Err(Errno::ELOOP.into())
}

/// The island to run a program of `isa` on: this one if it can and the thread's affinity has this core, otherwise the least loaded that can, of
/// those with a core in the affinity if there are any.
fn island_for<M: Machine>(call: &Call<M>, isa: Isa) -> Result<IslandId, Refusal> {
    let affinity = ability::affinity(call.thread);
    if isa == M::ISA && run_queue::allowed(affinity, call.cpu.id) {
        return Ok(call.cpu.island());
    }
    let rank = |&island: &IslandId| {
        let core = run_queue::least_loaded(call.cpu, island, affinity);
        (!run_queue::allowed(affinity, core), island != call.cpu.island(), run_queue::load(call.cpu, core))
    };
    call.cpu.islands_of(isa).min_by_key(rank).ok_or(Refusal::NoIsland(isa))
}

/// How long RISC-V's vector registers are to be for a program ([`ability::for_program`]).
///
/// # Errors
/// No core is what the program is made for, and it would not notice.
fn length_for<M: Machine>(
    call: &Call<M>,
    executable: &Executable<'_>,
    inode: &'static InodeRecord,
) -> Result<u32, Refusal> {
    if let Some(level) = executable.x86_level(call.cpu, inode)
        && !ability::all_have(call.cpu, property::unnoticed())
    {
        return Err(Refusal::Level(level));
    }
    match executable.vector_bytes(call.cpu, inode) {
        0 => Ok(0),
        least => {
            ability::for_program(call.cpu, call.thread, executable.isa, least).map_err(|()| Refusal::Vectors(least))
        }
    }
}

/// Whether a thread begins its program on this core: not if what it needed before has kept it outside of its affinity.
fn stays<M: Machine>(call: &Call<M>, island: IslandId) -> bool {
    let (here, mask) = (call.cpu.id, run_queue::cores_of(call.thread));
    let is_bound = || run_queue::allowed(mask, target_core(call, island));
    island == here.island() && (run_queue::allowed(mask, here) || !is_bound())
}

/// Loads program, interpreter, arguments and environment into a new space.
fn build<M: Machine>(
    call: &Call<M>,
    executable: &Executable<'_>,
    inode: &'static InodeRecord,
    strings: (&dyn StringSource<M>, ToldName<'_>),
    island: IslandId,
    identity: Identity,
) -> Result<Image, Refusal> {
    let space = mm::create_for(call.cpu, island, executable.is_fat())?;
    let built = fill(call, executable, inode, strings, space, island, identity);
    if built.is_err() {
        mm::release(call.cpu, space);
    }
    built
}

fn fill<M: Machine>(
    call: &Call<M>,
    executable: &Executable<'_>,
    inode: &'static InodeRecord,
    (strings, name): (&dyn StringSource<M>, ToldName<'_>),
    space: &'static SpaceRecord,
    island: IslandId,
    identity: Identity,
) -> Result<Image, Refusal> {
    let cpu = call.cpu;
    call.serve_due(cost::STEP);
    let places = Places::choose(cpu, call.process, identity);
    space.mmap_top.set(places.mappings_top);
    let program = executable.map(cpu, space, inode, places.program_bias)?;
    call.serve_due(BUDGET);
    let mut path = [0; INTERPRETER_MAX];
    let interpreter = match executable.interpreter(cpu, inode, &mut path)? {
        None => None,
        Some(len) => {
            let file = file::open_executable(call, AT_FDCWD, &path[..len], 0)?;
            // As of Linux: the program is well, what is to load it is not.
            let bad = |refusal: Refusal| {
                let errno = refusal.say(cpu, &path[..len]);
                if matches!(errno, Errno::ENOEXEC | Errno::EOPNOTSUPP) { Errno::ELIBBAD } else { errno }
            };
            let mut headers = NO_HEADERS;
            call.serve_due(cost::STEP);
            let interpreter = Executable::read(cpu, file.inode(), None, &mut headers).map_err(bad)?;
            if interpreter.isa != executable.isa {
                return Err(Errno::ELIBBAD.into());
            }
            Some(interpreter.map(cpu, space, file.inode(), places.interpreter_bias).map_err(bad)?)
        }
    };
    let heap = program.end.next_multiple_of(PAGE_SIZE) + places.before_heap;
    space.brk[0].set(heap);
    space.brk[1].set(heap);
    // What is written here is read there; later pages of the stack are whoever's that runs then.
    let policy = Policy::near(island);
    mm::insert(cpu, space, &mm::VmaSpec { policy, ..stack::spec(call.process, places.stack_top) })?;
    call.serve_due(BUDGET);
    let builder = StackBuilder { call, space, isa: executable.isa, identity, name, top: places.stack_top };
    builder.map_stubs(space.fat.get() != 0, policy)?;
    call.serve_due(cost::STEP);
    let entry = interpreter.as_ref().map_or(program.entry, |interpreter| interpreter.entry);
    let stack = builder.build(strings, &program, interpreter.as_ref())?;
    call.serve_due(cost::STEP);
    mm::for_each_vma(cpu, space, |vma| {
        if vma.flags.get() & VMA_STACK != 0 {
            vma.policy.set(Policy::DEFAULT.0);
        }
    });
    Ok(Image { space, entry, identity, ..stack })
}

/// Whether no other thread of the process is left. The list tells, not the count: a thread that has left the list, under
/// the tree lock, touches no shared record any more.
pub(super) fn is_only_thread<M: Machine>(call: &Call<M>) -> bool {
    let _tree = lock_tree(call.cpu);
    call.process.threads.get() == call.cpu.raw(call.thread) && call.thread.sibling.get() == 0
}

/// Asks the other threads to end, and tries again when they have.
fn wait_for_other_threads<M: Machine>(call: &Call<M>) -> SysResult {
    // Of two threads that execute programs, the one that was asked to end first gives way.
    if call.thread.kill.load(Ordering::SeqCst) == 0 {
        kill_other_threads(call.cpu, call.thread, call.process);
    }
    call.thread.deadline_ns.set(call.cpu.now_ns() + POLL_NS);
    wait::prepare(call.thread);
    Err(Stop::Block)
}

/// Gives the process descriptors and signal actions of its own, if it shares them with another one: who started a program
/// does not reach into it.
fn unshare<M: Machine>(call: &Call<M>) -> Result<(), Errno> {
    file::unshare_files(call.cpu, call.process)?;
    signal::unshare_actions(call.cpu, call.process)
}

/// Replaces what the process was. Nothing can fail any more.
fn commit<M: Machine>(
    call: &Call<M>,
    image: &Image,
    inode: &'static InodeRecord,
    path: &[u8],
    (isa, length): (Isa, u32),
) {
    let (cpu, thread, process) = (call.cpu, call.thread, call.process);
    mm::deactivate(cpu);
    mm::release(cpu, super::replace_space(cpu, process, cpu.raw(image.space)));
    due::spend_locked(cpu, cost::STEP);
    file::close_on_exec(cpu, process);
    service::release_of_thread(cpu, thread);
    file::set_executable(cpu, process, inode);
    due::spend_locked(cpu, cost::STEP);
    signal::reset_for_exec(cpu, process);
    time::end_timers(cpu, process);
    due::spend_locked(cpu, cost::STEP);
    for word in &thread.altstack {
        word.set(0);
    }
    chain::forget(cpu, thread);
    away::forget(cpu, thread);
    ability::forget(cpu, thread);
    ability::begin_with_length(process, length);
    ability::promise(cpu, thread, isa);
    thread.clear_child_tid.set(0);
    thread.robust_list.set(0);
    process.exit_signal.set(signal::SIGCHLD);
    process.isa.store(isa as u32, Ordering::Relaxed);
    for (to, from) in [(&process.arguments, image.arguments), (&process.environment, image.environment)] {
        to[0].set(from[0]);
        to[1].set(from[1]);
    }
    super::set_name(process, thread, path);
    become_leader(cpu, thread, process);
    due::spend_locked(cpu, cost::STEP);
    let _tree = lock_tree(cpu);
    take_identity(call, image.identity, inode);
    // Signals that a child has chosen for its end were meant for the program before.
    for child in tree::children(cpu, process).filter(|child| child.exit_signal.get() != 0) {
        child.exit_signal.set(signal::SIGCHLD);
    }
    process.execed.set(1);
    wait::wake(cpu, &process.vfork_waiters);
}

/// The program acts by its own rights from now on. It may be looked into by those of its user if it has no more rights than
/// they, and if they could read it anyway. The tree lock is held.
fn take_identity<M: Machine>(call: &Call<M>, identity: Identity, program: &InodeRecord) {
    let process = call.process;
    let readable = FileRights::of(process).check(program, R_OK).is_ok();
    identity.become_of(process);
    permission::start_program(process, readable && !identity.is_secure());
    if identity.is_secure() {
        process.personality.set(0);
    }
}

/// The only thread left takes the process's id, if it was not the first one.
fn become_leader<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &ProcessRecord) {
    let (tid, pid) = (thread.tid.get(), process.pid.get());
    if tid == pid {
        return;
    }
    let _tree = lock_tree(cpu);
    let leader = threads::lookup(cpu, pid);
    threads::replace(cpu, pid, thread);
    motet_layout::in_order();
    thread.tid.set(pid);
    threads::unregister(cpu, tid);
    if let Some(leader) = leader {
        slab::free(cpu, leader);
    }
}

/// Moves the running thread, whose frame and space are those of the new program, to another island. That may have died since it was chosen, and its
/// dead may be reclaimed: then to another one of its instruction set, or, if there is none, to this core, where the thread ends.
fn move_to<M: Machine>(call: &Call<M>, island: IslandId) {
    let (cpu, thread) = (call.cpu, call.thread);
    mm::deactivate(cpu);
    cpu.handover.forget();
    cputime::charge(cpu, thread);
    call::end_call(thread);
    cpu.own.current_thread.store(0, Ordering::Release);
    // This core does not pass from here on: who reclaims the island waits until the thread is there.
    let isa = cpu.isa_of(CoreId::new(island, 0));
    let living = || isa.into_iter().flat_map(|isa| cpu.islands_of(isa));
    let island = living().find(|&other| other == island).or_else(|| living().next());
    handover::start_on(cpu, thread, island.map_or(cpu.id, |island| target_core(call, island)));
}

fn target_core<M: Machine>(call: &Call<M>, island: IslandId) -> CoreId {
    run_queue::least_loaded(call.cpu, island, run_queue::cores_of(call.thread))
}
