//! `execve`: a new program in the process, on an island of the program's instruction set.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, elf as abi, registers, sigframe, system};
use motet_hal::{Access, Machine};
use motet_layout::{
    CoreId, ISLAND_JOINED, InodeRecord, Isa, IslandId, PAGE_SIZE, ProcessRecord, SpaceRecord, ThreadRecord, USER_END,
    VMA_EXECUTE, VMA_READ, VMA_STACK, VMA_WRITE,
};
use motet_protocol::{Context, fs, run_queue, slab, threads, wait};

use super::{
    exit::kill_other_threads,
    load::{Executable, INTERPRETER_MAX, Loaded},
    lock_tree,
};
use crate::{
    call::{Call, PATH_MAX, PathBuf, Stop, SysResult},
    cpu::Cpu,
    file, mm, random, sched, signal,
};

/// Where position-independent programs and their interpreters are loaded.
const PROGRAM_BIAS: u64 = 0x5555_5555_0000;
const INTERPRETER_BIAS: u64 = 0x7fff_c000_0000;
/// Mappings go below this, the stack above.
const MMAP_TOP: u64 = 0x7fff_b000_0000;
/// Where handlers without a restorer of their own return to: a page with the ISA's `rt_sigreturn` call.
pub const TRAMPOLINE: u64 = 0x7fff_bfff_f000;
const STACK_TOP: u64 = USER_END;
const STACK_LEN: u64 = 128 << 10;
const STACK: mm::VmaSpec = mm::VmaSpec {
    start: STACK_TOP - STACK_LEN,
    end: STACK_TOP,
    flags: VMA_READ | VMA_WRITE | VMA_STACK,
    inode: None,
    offset: 0,
    file_len: 0,
};
/// Most bytes of argument and environment strings with their pointers (a quarter of the stack limit).
const ARGUMENTS_MAX: u64 = 2 << 20;
/// Interpreter scripts that lead to one another.
const SCRIPTS_MAX: usize = 4;
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
    if call.thread.in_syscall.get() != 0 && !is_only_thread(call) {
        return wait_for_other_threads(call);
    }
    let path = call.read_path(path_at)?;
    let mut prefix = Prefix::new();
    let program = find_program(call, dirfd, &path, flags, &mut prefix)?;
    let executable = Executable::read(call.cpu, program.inode())?;
    let island = island_for(call, executable.isa, path.as_bytes())?;
    let strings = Strings::new(call, arguments_at, environment_at, &prefix, path.as_bytes())?;
    let image = build(call, &executable, program.inode(), &strings)?;
    if !is_only_thread(call) {
        mm::release(call.cpu, image.space);
        return wait_for_other_threads(call);
    }
    commit(call, &image, program.inode(), path.as_bytes(), executable.isa);
    if island == call.cpu.island() {
        // The address space changes under the thread: load it before user code runs again.
        return match mm::activate(call.cpu, image.space) {
            Ok(()) => {
                registers::init_frame(&call.thread.frame, executable.isa, image.entry, image.stack);
                sched::reload_ext(call.cpu, call.thread);
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
    let path = PathBuf::from_bytes(&path[..path_len]);
    let mut prefix = Prefix::new();
    let program = find_program(&call, AT_FDCWD, &path, 0, &mut prefix)?;
    let executable = Executable::read(cpu, program.inode())?;
    let island = island_for(&call, executable.isa, path.as_bytes())?;
    let image = build(&call, &executable, program.inode(), &command)?;
    commit(&call, &image, program.inode(), path.as_bytes(), executable.isa);
    registers::init_frame(&thread.frame, executable.isa, image.entry, image.stack);
    let target = if island == cpu.island() {
        cpu.id
    } else {
        mm::leave_island(image.space);
        target_core(&call, island)
    };
    sched::start_on(cpu, thread, target);
    Ok(())
}

/// A program loaded into a new space.
struct Image {
    space: &'static SpaceRecord,
    entry: u64,
    stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
}

/// Where argument and environment strings come from.
trait StringSource<M: Machine> {
    /// Number of argument strings and of environment strings.
    fn counts(&self) -> (u64, u64);
    /// Calls `piece` with the bytes of string `index` (arguments, then environment), without its zero.
    fn read(&self, call: &Call<M>, index: u64, piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Errno>;
}

/// Strings of `execve`: in the caller's memory, with what interpreter scripts put in front.
struct Strings<'a> {
    arguments_at: u64,
    arguments: u64,
    environment_at: u64,
    environment: u64,
    prefix: &'a Prefix,
    path: &'a [u8],
}

impl<'a> Strings<'a> {
    fn new<M: Machine>(
        call: &Call<M>,
        arguments_at: u64,
        environment_at: u64,
        prefix: &'a Prefix,
        path: &'a [u8],
    ) -> Result<Self, Errno> {
        let arguments = count_vector(call, arguments_at)?;
        let environment = count_vector(call, environment_at)?;
        Ok(Self { arguments_at, arguments, environment_at, environment, prefix, path })
    }
}

fn count_vector<M: Machine>(call: &Call<M>, at: u64) -> Result<u64, Errno> {
    let mut count = 0;
    while at != 0 && call.read_user_u64(at.wrapping_add(8 * count))? != 0 {
        count += 1;
        if count * 9 > ARGUMENTS_MAX {
            return Err(Errno::E2BIG);
        }
    }
    Ok(count)
}

impl<M: Machine> StringSource<M> for Strings<'_> {
    fn counts(&self) -> (u64, u64) {
        let arguments = match self.prefix.count {
            // A program always finds at least its name.
            0 => self.arguments.max(1),
            prefix => prefix as u64 + self.arguments.saturating_sub(1),
        };
        (arguments, self.environment)
    }

    fn read(&self, call: &Call<M>, index: u64, piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
        let (arguments, _) = <Self as StringSource<M>>::counts(self);
        let prefix = self.prefix.count as u64;
        let pointer_at = if index >= arguments {
            self.environment_at + 8 * (index - arguments)
        } else if index < prefix {
            return piece(self.prefix.string(index as usize));
        } else if self.arguments == 0 {
            return piece(self.path);
        } else {
            // What scripts put in front stands for the program's own name.
            self.arguments_at + 8 * (index - prefix.saturating_sub(1))
        };
        read_pieces(call, call.read_user_u64(pointer_at)?, piece)
    }
}

/// The strings of the machine's first program: in the pool, put there by the host.
struct Command<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    at: u64,
    args: u32,
    env: u32,
}

impl<M: Machine> Command<'_, M> {
    /// Copies string `index`; returns its length.
    fn string(&self, index: u64, into: &mut [u8]) -> Option<usize> {
        let mut at = self.at;
        let mut byte = [0];
        for _ in 0..index {
            loop {
                self.cpu.pool.read(motet_layout::PoolAddr(at), &mut byte);
                at += 1;
                if byte[0] == 0 {
                    break;
                }
            }
        }
        for (len, slot) in into.iter_mut().enumerate() {
            self.cpu.pool.read(motet_layout::PoolAddr(at + len as u64), &mut byte);
            if byte[0] == 0 {
                return Some(len);
            }
            *slot = byte[0];
        }
        None
    }
}

impl<M: Machine> StringSource<M> for Command<'_, M> {
    fn counts(&self) -> (u64, u64) {
        (u64::from(self.args), u64::from(self.env))
    }

    fn read(
        &self,
        _call: &Call<M>,
        index: u64,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut bytes = [0; PATH_MAX];
        let len = self.string(index, &mut bytes).ok_or(Errno::E2BIG)?;
        piece(&bytes[..len])
    }
}

/// Strings that interpreter scripts put in front of the arguments, in order.
struct Prefix {
    bytes: [u8; 1024],
    len: usize,
    count: usize,
}

impl Prefix {
    fn new() -> Self {
        Self { bytes: [0; 1024], len: 0, count: 0 }
    }

    fn string(&self, index: usize) -> &[u8] {
        self.bytes[..self.len].split(|&byte| byte == 0).nth(index).unwrap_or(&[])
    }

    /// Puts a string in front.
    fn prepend(&mut self, text: &[u8]) -> Result<(), Errno> {
        if self.len + text.len() + 1 > self.bytes.len() {
            return Err(Errno::E2BIG);
        }
        self.bytes.copy_within(..self.len, text.len() + 1);
        self.bytes[..text.len()].copy_from_slice(text);
        self.bytes[text.len()] = 0;
        self.len += text.len() + 1;
        self.count += 1;
        Ok(())
    }
}

/// Opens the program, through interpreter scripts.
fn find_program<'c, M: Machine>(
    call: &Call<'c, M>,
    dirfd: i32,
    path: &PathBuf,
    flags: u64,
    prefix: &mut Prefix,
) -> Result<fs::Held<'c, Cpu<M>>, Errno> {
    let mut program = file::open_executable(call, dirfd, path.as_bytes(), flags)?;
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
            return Err(Errno::ENOEXEC);
        }
        if prefix.count == 0 {
            prefix.prepend(path.as_bytes())?;
        }
        if !argument.is_empty() {
            prefix.prepend(argument)?;
        }
        prefix.prepend(interpreter)?;
        program = file::open_executable(call, AT_FDCWD, interpreter, 0)?;
    }
    Err(Errno::ELOOP)
}

/// The island to run a program of `isa` on: this one if it can, otherwise the least loaded that can.
fn island_for<M: Machine>(call: &Call<M>, isa: Isa, path: &[u8]) -> Result<IslandId, Errno> {
    if isa == M::ISA {
        return Ok(call.cpu.island());
    }
    let header = call.cpu.pool.header();
    (0..header.island_count.get())
        .filter_map(IslandId::from_raw)
        .filter(|island| {
            let record = &header.islands[island.index()];
            record.isa.get() == isa as u32 && record.state.load(Ordering::Acquire) == ISLAND_JOINED
        })
        .min_by_key(|&island| island_load(call.cpu, island))
        .ok_or_else(|| {
            let name = core::str::from_utf8(path).unwrap_or("program");
            file::kernel_message(
                call.cpu,
                format_args!("{name}: is a program for {}, and this machine has no {} island", isa.name(), isa.name()),
            );
            Errno::ENOEXEC
        })
}

fn island_load<M: Machine>(cpu: &Cpu<M>, island: IslandId) -> u32 {
    let core = run_queue::least_loaded(cpu, island, [u64::MAX; 2]);
    let record = run_queue::core_record(cpu, core);
    let busy = record.current_thread.load(Ordering::Relaxed) != 0;
    record.ready_count.load(Ordering::Relaxed) + u32::from(busy)
}

/// Loads program, interpreter, arguments and environment into a new space.
fn build<M: Machine>(
    call: &Call<M>,
    executable: &Executable,
    inode: &'static InodeRecord,
    strings: &dyn StringSource<M>,
) -> Result<Image, Errno> {
    let space = mm::create(call.cpu)?;
    let built = fill(call, executable, inode, strings, space);
    if built.is_err() {
        mm::release(call.cpu, space);
    }
    built
}

fn fill<M: Machine>(
    call: &Call<M>,
    executable: &Executable,
    inode: &'static InodeRecord,
    strings: &dyn StringSource<M>,
    space: &'static SpaceRecord,
) -> Result<Image, Errno> {
    let cpu = call.cpu;
    space.mmap_top.set(MMAP_TOP);
    let program = executable.map(cpu, space, inode, PROGRAM_BIAS)?;
    let mut path = [0; INTERPRETER_MAX];
    let interpreter = match executable.interpreter(cpu, inode, &mut path)? {
        None => None,
        Some(len) => {
            let file = file::open_executable(call, AT_FDCWD, &path[..len], 0)?;
            let interpreter = Executable::read(cpu, file.inode())?;
            if interpreter.isa != executable.isa {
                return Err(Errno::ENOEXEC);
            }
            Some(interpreter.map(cpu, space, file.inode(), INTERPRETER_BIAS)?)
        }
    };
    let heap = program.end.next_multiple_of(PAGE_SIZE);
    space.brk[0].set(heap);
    space.brk[1].set(heap);
    mm::insert(cpu, space, &STACK)?;
    let builder = StackBuilder { call, space, isa: executable.isa };
    builder.map_trampoline()?;
    let entry = interpreter.as_ref().map_or(program.entry, |interpreter| interpreter.entry);
    let stack = builder.build(strings, &program, interpreter.as_ref())?;
    Ok(Image { space, entry, ..stack })
}

/// Writes the initial stack: from the top down strings, random bytes, auxiliary vector, environment, arguments, count.
struct StackBuilder<'a, 'b, M: Machine> {
    call: &'a Call<'b, M>,
    space: &'static SpaceRecord,
    isa: Isa,
}

impl<M: Machine> StackBuilder<'_, '_, M> {
    fn build(
        &self,
        strings: &dyn StringSource<M>,
        program: &Loaded,
        interpreter: Option<&Loaded>,
    ) -> Result<Image, Errno> {
        let (arguments, environment) = strings.counts();
        let count = arguments + environment;
        let mut strings_len = 0;
        for index in 0..count {
            strings.read(self.call, index, &mut |piece| {
                strings_len += piece.len() as u64;
                if strings_len > ARGUMENTS_MAX { Err(Errno::E2BIG) } else { Ok(()) }
            })?;
            strings_len += 1;
            if strings_len + 8 * count > ARGUMENTS_MAX {
                return Err(Errno::E2BIG);
            }
        }
        let strings_at = STACK_TOP - 16 - strings_len;
        let extra_at = (strings_at - 64) & !15;
        let auxiliary = self.auxiliary(extra_at, strings_at, program, interpreter)?;
        let vector_len = 8 * (1 + count + 2) + 16 * auxiliary.len() as u64;
        let stack = (extra_at - vector_len) & !15;
        self.write_words(stack, &[arguments])?;
        let mut pointer_at = stack + 8;
        let mut at = strings_at;
        let mut environment_at = strings_at;
        for index in 0..count {
            if index == arguments {
                self.write_words(pointer_at, &[0])?;
                pointer_at += 8;
                environment_at = at;
            }
            self.write_words(pointer_at, &[at])?;
            pointer_at += 8;
            at = self.write_string(strings, index, at, strings_at + strings_len)?;
        }
        if environment == 0 {
            self.write_words(pointer_at, &[0])?;
            pointer_at += 8;
            environment_at = at;
        }
        self.write_words(pointer_at, &[0])?;
        pointer_at += 8;
        for (key, value) in auxiliary {
            self.write_words(pointer_at, &[key, value])?;
            pointer_at += 16;
        }
        Ok(Image {
            space: self.space,
            entry: 0,
            stack,
            arguments: [strings_at, environment_at],
            environment: [environment_at, at],
        })
    }

    fn map_trampoline(&self) -> Result<(), Errno> {
        let Some(code) = sigframe::trampoline(self.isa) else { return Ok(()) };
        let (start, end) = (TRAMPOLINE, TRAMPOLINE + PAGE_SIZE);
        mm::insert(self.call.cpu, self.space, &mm::VmaSpec { start, end, flags: VMA_READ | VMA_WRITE, ..STACK })?;
        self.write(start, code)?;
        mm::protect(self.call.cpu, self.space, start, end, VMA_READ | VMA_EXECUTE)
    }

    /// The auxiliary vector; writes the platform name and random bytes it points to at `extra_at`.
    fn auxiliary(
        &self,
        extra_at: u64,
        path_at: u64,
        program: &Loaded,
        interpreter: Option<&Loaded>,
    ) -> Result<[(u64, u64); 20], Errno> {
        let process = self.call.process;
        let mut random = [0; 16];
        random::fill(self.call.cpu, &mut random);
        self.write(extra_at, &random)?;
        let platform_at = match abi::platform(self.isa) {
            Some(platform) => {
                self.write(extra_at + 16, platform.as_bytes())?;
                extra_at + 16
            }
            None => 0,
        };
        let (hwcap, hwcap2) = self.hwcap();
        Ok([
            (abi::AT_PHDR, program.headers_at),
            (abi::AT_PHENT, 56),
            (abi::AT_PHNUM, program.header_count),
            (abi::AT_PAGESZ, PAGE_SIZE),
            (abi::AT_BASE, interpreter.map_or(0, |interpreter| interpreter.bias)),
            (abi::AT_FLAGS, 0),
            (abi::AT_ENTRY, program.entry),
            (abi::AT_UID, u64::from(process.ids[0].get())),
            (abi::AT_EUID, u64::from(process.ids[1].get())),
            (abi::AT_GID, u64::from(process.ids[3].get())),
            (abi::AT_EGID, u64::from(process.ids[4].get())),
            (abi::AT_SECURE, 0),
            (abi::AT_CLKTCK, crate::time::TICKS_PER_SECOND),
            (abi::AT_HWCAP, hwcap),
            (abi::AT_HWCAP2, hwcap2),
            (abi::AT_RANDOM, extra_at),
            (abi::AT_EXECFN, path_at),
            (abi::AT_MINSIGSTKSZ, sigframe::min_stack_size(self.isa)),
            (abi::AT_PLATFORM, platform_at),
            (abi::AT_NULL, 0),
        ])
    }

    fn hwcap(&self) -> (u64, u64) {
        let islands = &self.call.cpu.pool.header().islands;
        let Some(island) = islands.iter().find(|island| island.isa.get() == self.isa as u32) else { return (0, 0) };
        let mut text = [0; 448];
        for (to, from) in text.iter_mut().zip(&island.extensions) {
            *to = from.load(Ordering::Relaxed);
        }
        let len = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        system::hwcap(self.isa, core::str::from_utf8(&text[..len]).unwrap_or(""))
    }

    fn write_string(&self, strings: &dyn StringSource<M>, index: u64, mut at: u64, end: u64) -> Result<u64, Errno> {
        strings.read(self.call, index, &mut |piece| {
            // Another thread may have made the string longer since it was measured.
            if at + piece.len() as u64 >= end {
                return Err(Errno::E2BIG);
            }
            self.write(at, piece)?;
            at += piece.len() as u64;
            Ok(())
        })?;
        self.write(at, &[0])?;
        Ok(at + 1)
    }

    fn write_words(&self, at: u64, words: &[u64]) -> Result<(), Errno> {
        words.iter().enumerate().try_for_each(|(index, word)| self.write(at + 8 * index as u64, &word.to_le_bytes()))
    }

    /// Writes to the new space, which is not active and known to nobody else.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        let cpu = self.call.cpu;
        let mut done = 0;
        while done < bytes.len() {
            let address = at + done as u64;
            let here = ((PAGE_SIZE - address % PAGE_SIZE) as usize).min(bytes.len() - done);
            let run = mm::resolve(cpu, self.space, address, Access::Write)?;
            cpu.pool.write(run, &bytes[done..done + here]);
            done += here;
        }
        Ok(())
    }
}

/// Copies a zero-terminated user string in pieces.
fn read_pieces<M: Machine>(
    call: &Call<M>,
    mut at: u64,
    piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut bytes = [0; 256];
    loop {
        let here = (PAGE_SIZE - at % PAGE_SIZE).min(bytes.len() as u64) as usize;
        call.read_user(at, &mut bytes[..here])?;
        match bytes[..here].iter().position(|&byte| byte == 0) {
            Some(0) => return Ok(()),
            Some(end) => return piece(&bytes[..end]),
            None => piece(&bytes[..here])?,
        }
        at += here as u64;
    }
}

/// Whether no other thread of the process is left. The list tells, not the count: a thread that has left the list, under
/// the tree lock, touches no shared record any more.
fn is_only_thread<M: Machine>(call: &Call<M>) -> bool {
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

/// Replaces what the process was. Nothing can fail any more.
fn commit<M: Machine>(call: &Call<M>, image: &Image, inode: &'static InodeRecord, path: &[u8], isa: Isa) {
    let (cpu, thread, process) = (call.cpu, call.thread, call.process);
    mm::deactivate(cpu);
    mm::release(cpu, super::replace_space(cpu, process, cpu.raw(image.space)));
    file::close_on_exec(cpu, process);
    file::set_executable(cpu, process, inode);
    signal::reset_for_exec(cpu, process);
    for word in &thread.altstack {
        word.set(0);
    }
    thread.clear_child_tid.set(0);
    thread.robust_list.set(0);
    process.exit_signal.set(signal::SIGCHLD);
    process.isa.store(isa as u32, Ordering::Relaxed);
    for (to, from) in [(&process.arguments, image.arguments), (&process.environment, image.environment)] {
        to[0].set(from[0]);
        to[1].set(from[1]);
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    for (index, (of_process, of_thread)) in process.name.iter().zip(&thread.name).enumerate() {
        let byte = if index < 15 { name.get(index).copied().unwrap_or(0) } else { 0 };
        of_process.store(byte, Ordering::Relaxed);
        of_thread.store(byte, Ordering::Relaxed);
    }
    become_leader(cpu, thread, process);
    let _tree = lock_tree(cpu);
    process.execed.set(1);
    wait::wake(cpu, &process.vfork_waiters);
}

/// The only thread left takes the process's id, if it was not the first one.
fn become_leader<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &ProcessRecord) {
    let (tid, pid) = (thread.tid.get(), process.pid.get());
    if tid == pid {
        return;
    }
    let _tree = lock_tree(cpu);
    if let Some(leader) = threads::lookup(cpu, pid) {
        slab::free(cpu, leader);
    }
    threads::unregister(cpu, tid);
    threads::replace(cpu, pid, thread);
    thread.tid.set(pid);
}

/// Moves the running thread, whose frame and space are those of the new program, to another island.
fn move_to<M: Machine>(call: &Call<M>, island: IslandId) {
    let (cpu, thread) = (call.cpu, call.thread);
    mm::deactivate(cpu);
    mm::leave_island(mm::space_of(cpu, call.process));
    cpu.ext_owner.set((0, 0));
    sched::charge(cpu, thread);
    sched::end_call(thread);
    run_queue::core_record(cpu, cpu.id).current_thread.store(0, Ordering::SeqCst);
    sched::start_on(cpu, thread, target_core(call, island));
}

fn target_core<M: Machine>(call: &Call<M>, island: IslandId) -> CoreId {
    let affinity = [0, 1].map(|word: usize| call.thread.affinity[word].load(Ordering::Relaxed));
    run_queue::least_loaded(call.cpu, island, affinity)
}
