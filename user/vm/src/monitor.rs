//! A machine and its monitor: a thread for each core.

use alloc::{string::String, vec::Vec};
use core::{
    ffi::CStr,
    fmt,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed},
};

use motet_abi::vm::{self as abi, Exit, reason};
use motet_calls::{
    Isa,
    system::{self, Arguments, Failure, ISA, STDOUT, machine},
};
use motet_vm::{Shares, aarch64, board, image, options::Options, tree};

use crate::{FAILED, HAS_RESET, accelerators, interrupts, say, serial, share, with_path};

pub const EINTR: Failure = -4;
const ENODEV: Failure = -19;
/// How long a core runs while others wait for the real one (Ker-ONE, section 5.1).
const SLICE_NS: u64 = 33_000_000;
/// Most bytes of the device tree, which is at the end of memory.
const TREE_BYTES: u64 = 64 << 10;
/// This program, for each instruction set of virtual machines.
const PATH_AARCH64: &CStr = c"/isa/aarch64/bin/vm";
const PATH_RISCV64: &CStr = c"/isa/riscv64/bin/vm";
/// Bytes copied at once.
const PIECE: usize = 4096;

/// First address of a machine's memory, its most cores, and the ELF machine of this program: virtual machines have the same instruction set.
const MEMORY_START: u64 = if IS_AARCH64 { aarch64::MEMORY } else { board::MEMORY };
const CPUS_MAX: u64 = if IS_AARCH64 { aarch64::CPUS_MAX } else { abi::VCPUS_MAX };
/// Where areas are that it shares.
pub const SHARED: Shares = if IS_AARCH64 { aarch64::SHARES } else { board::SHARES };
pub const IS_AARCH64: bool = matches!(ISA, Isa::AArch64);

/// The machine, for all threads.
static MACHINE: AtomicI32 = AtomicI32::new(-1);
static MEMORY: AtomicI32 = AtomicI32::new(-1);
static MEMORY_BYTES: AtomicU64 = AtomicU64::new(0);
/// The machine ends when the guest resets it.
static ENDS_BY_RESET: AtomicBool = AtomicBool::new(false);
/// How many areas the machine shares.
static SHARES: AtomicU64 = AtomicU64::new(0);

/// Why a machine cannot be run.
struct Refusal(u8);

fn refuse(why: fmt::Arguments<'_>) -> Refusal {
    say(why);
    Refusal(FAILED)
}

/// Makes a machine and runs it. Returns the exit status.
pub fn run(arguments: &Arguments, options: &Options<'_>) -> u8 {
    match make(arguments, options) {
        Ok(()) => {
            for core in 1..options.cpus as usize {
                if machine::spawn(core_thread, core).is_err() {
                    say(format_args!("there is no thread for core {core}"));
                    return FAILED;
                }
            }
            core_thread(0)
        }
        Err(Refusal(status)) => status,
    }
}

fn make(arguments: &Arguments, options: &Options<'_>) -> Result<(), Refusal> {
    let file = read_file(options.image)?;
    let bytes = options.memory_mib << 20;
    let range = MEMORY_START..MEMORY_START + bytes;
    let name = options.image.escape_ascii();
    if let Some(isa) = abi::image_isa(file).filter(|&isa| isa != ISA) {
        return Err(go_to(arguments, isa, options.image));
    }
    if options.cpus > CPUS_MAX {
        return Err(refuse(format_args!("a machine of {} has {CPUS_MAX} cores at most", ISA.name())));
    }
    let plan = image::plan(ISA, file, &range).map_err(|wrong| refuse(format_args!("{name}: {wrong}")))?;
    if let Some(nice) = options.nice {
        machine::set_nice(nice).map_err(|_| refuse(format_args!("the nice value {nice} is not allowed here")))?;
    }
    match options.realtime {
        Some(priority) => {
            let not_allowed = |_| refuse(format_args!("the real-time priority {priority} is not allowed here"));
            machine::set_realtime(priority).map_err(not_allowed)?;
        }
        // A machine without a policy of its own has slices as Ker-ONE's.
        None => drop(machine::set_slice(SLICE_NS)),
    }
    let vm = open().map_err(|failure| match failure {
        ENODEV if IS_AARCH64 => refuse(format_args!(
            "this island runs no guests: the machine's file has to say guests = true for it (as machines/guests.toml); in timed runs its cores need FEAT_ECV, as `cpu = \"max\"` has"
        )),
        ENODEV => refuse(format_args!("this core runs no guests: it has no hypervisor extension (H), or hidden harts")),
        _ => refuse(format_args!("/dev/vm cannot be opened (error {})", -failure)),
    })?;
    let no_memory = |_| refuse(format_args!("there is no memory for {} MiB", options.memory_mib));
    let memory = machine::memory(bytes).map_err(no_memory)?;
    machine::control(vm, abi::MEMORY, &mut [MEMORY_START, bytes, memory as u64, 0]).map_err(no_memory)?;
    for piece in &plan.pieces {
        machine::write_at(memory, &file[piece.bytes.clone()], piece.address - MEMORY_START).map_err(no_memory)?;
    }
    let tree_at = range.end - TREE_BYTES;
    if plan.end > tree_at {
        return Err(refuse(format_args!("{name}: it leaves no room for the device tree: more memory is needed")));
    }
    let initrd = match options.initrd {
        Some(path) => Some(load_initrd(memory, path, plan.end..tree_at)?),
        None => None,
    };
    let command_line = options.append;
    let shares = join_shares(vm, options)?;
    let accelerators = add_accelerators(vm, &options.accelerators)?;
    let described = tree::Machine {
        memory_bytes: bytes,
        cpus: options.cpus,
        command_line,
        initrd,
        shares: &shares,
        accelerators: &accelerators,
    };
    let write = if IS_AARCH64 { aarch64::write_tree } else { tree::write };
    let tree = write(&described).map_err(|error| refuse(format_args!("no device tree: {error:?}")))?;
    machine::write_at(memory, &tree, tree_at - MEMORY_START).map_err(no_memory)?;
    for _ in 0..options.cpus {
        machine::command(vm, abi::VCPU, 0).map_err(no_memory)?;
    }
    let [first, second] = if IS_AARCH64 { [tree_at, 0] } else { [0, tree_at] };
    machine::control(vm, abi::START, &mut [0, plan.entry, first, second]).map_err(no_memory)?;
    MACHINE.store(vm, Relaxed);
    ENDS_BY_RESET.store(options.no_reboot, Relaxed);
    interrupts::start(options.cpus as usize);
    share::start(shares.len()).map_err(|_| refuse(format_args!("there is no thread for what is shared")))?;
    serial::start().map_err(|_| refuse(format_args!("there is no thread for what is typed")))?;
    MEMORY.store(memory, Relaxed);
    MEMORY_BYTES.store(bytes, Relaxed);
    Ok(())
}

/// Gives a machine accelerators, each at its address. Returns their numbers on the board, and their addresses.
fn add_accelerators(vm: i32, chosen: &[Option<u64>]) -> Result<Vec<(usize, Range<u64>)>, Refusal> {
    let chosen = chosen.iter().enumerate().filter_map(|(index, one)| Some((index, (*one)?)));
    let added = chosen.map(|(index, deadline_us)| Ok((index, accelerators::add(vm, index, deadline_us)?)));
    added.collect::<Result<_, String>>().map_err(|why| refuse(format_args!("{why}")))
}

/// Joins the areas of memory that the machine shares. Returns their names and sizes.
fn join_shares<'a>(vm: i32, options: &Options<'a>) -> Result<Vec<(&'a str, u64)>, Refusal> {
    let mut shares = Vec::new();
    for (index, share) in options.shares.iter().flatten().enumerate() {
        let bytes = share::join(vm, index, share.name, share.kib);
        shares.push((share.name, bytes.map_err(|why| refuse(format_args!("{why}")))?));
    }
    SHARES.store(shares.len() as u64, Relaxed);
    Ok(shares)
}

/// Opens `/dev/vm`. On AArch64, all threads run on one island from now on, whose cores can run guests. A virtual core's broadcasts of TLB and
/// instruction-cache maintenance do not leave an island, so all virtual cores must be on one.
fn open() -> Result<i32, Failure> {
    const CORES: usize = motet_calls::cores::PER_ISLAND;
    if !IS_AARCH64 {
        return system::open(c"/dev/vm");
    }
    let (allowed, here) = (system::affinity()?, system::core()? / CORES);
    let mut failure = ENODEV;
    let islands = allowed.len() * 64 / CORES;
    // This island first, then the others in a varying order, so that machines are spread over all of them.
    let others = (0..islands).map(|number| (number + system::getpid()) % islands).filter(|&island| island != here);
    for island in [here].into_iter().chain(others) {
        let (word, shift) = (island * CORES / 64, island * CORES % 64);
        let mut of_island = [0; _];
        of_island[word] = allowed[word] & ((1 << CORES) - 1) << shift;
        // Islands that are not there, and those of another instruction set.
        if system::set_affinity(of_island).is_err() || system::core()? / CORES != island {
            continue;
        }
        match system::open(c"/dev/vm") {
            Ok(vm) => return Ok(vm),
            Err(error) => failure = error,
        }
    }
    let _ = system::set_affinity(allowed);
    Err(failure)
}

/// Executes this program anew on cores of an image's instruction set. Returns only if there are none.
fn go_to(arguments: &Arguments, isa: Isa, image: &[u8]) -> Refusal {
    arguments.execute(if isa == Isa::AArch64 { PATH_AARCH64 } else { PATH_RISCV64 }, 0);
    let (image, name) = (image.escape_ascii(), isa.name());
    refuse(format_args!("{image}: it is for {name}, which no core of this machine is"))
}

/// The machine's descriptor.
pub fn machine() -> i32 {
    MACHINE.load(Relaxed)
}

fn read_file(path: &[u8]) -> Result<&'static [u8], Refusal> {
    let cannot =
        |failure: Failure| refuse(format_args!("{}: cannot be read (error {})", path.escape_ascii(), -failure));
    with_path(path, machine::contents).map_err(cannot)
}

/// Loads the initial ram disk at the highest page-aligned address where it fits.
fn load_initrd(memory: i32, path: &[u8], room: Range<u64>) -> Result<Range<u64>, Refusal> {
    let file = read_file(path)?;
    let start = room.end.saturating_sub(file.len() as u64) & !0xfff;
    if start < room.start {
        return Err(refuse(format_args!("{}: it does not fit: more memory is needed", path.escape_ascii())));
    }
    let cannot = |_| refuse(format_args!("{}: there is no memory for it", path.escape_ascii()));
    machine::write_at(memory, file, start - MEMORY_START).map_err(cannot)?;
    Ok(start..start + file.len() as u64)
}

/// Writes bytes to standard output, and to users of the console on the host.
pub fn send(mut bytes: &[u8]) {
    let _ = system::write(machine(), bytes);
    while !bytes.is_empty() {
        match system::write(STDOUT, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(EINTR) => {}
            // Standard output is closed.
            Err(_) => return,
        }
    }
}

/// A core of the machine.
extern "C" fn core_thread(number: usize) -> ! {
    let mut exit = Exit { vcpu: number as u64, ..Exit::default() };
    loop {
        let mut words = exit.to_words();
        match machine::control(MACHINE.load(Relaxed), abi::RUN, &mut words) {
            Ok(_) => exit = Exit::from_words(words),
            Err(EINTR) => continue,
            Err(failure) => {
                say(format_args!("core {number} cannot run (error {})", -failure));
                system::exit(FAILED)
            }
        }
        match exit.reason {
            reason::LOAD | reason::STORE => access(&mut exit),
            reason::CONSOLE_WRITE => exit.value = console_write(&exit),
            reason::CONSOLE_READ => exit.value = console_read(&exit),
            reason::CONSOLE_PUT => {
                send(&[exit.value as u8]);
                exit.value = 0;
            }
            reason::CONSOLE_GET => exit.value = serial::take().map_or(u64::MAX, u64::from),
            reason::SHUTDOWN => system::exit(if exit.value == 0 { 0 } else { FAILED }),
            reason::RESET => begin_again(),
            reason::NO_MEMORY => end(&exit, format_args!("there is no memory left for its page")),
            reason::FAULT => end(&exit, format_args!("it cannot go on")),
            other => end(&exit, format_args!("the kernel gives a reason that is not known ({other})")),
        }
    }
}

/// The guest resets its machine. The same program with the same arguments makes it anew; so it has another number, as `vm list` shows.
fn begin_again() -> ! {
    if ENDS_BY_RESET.load(Relaxed) {
        say(format_args!("the guest has reset its machine, which ends (--no-reboot)"));
        system::exit(HAS_RESET)
    }
    let path = if IS_AARCH64 { PATH_AARCH64 } else { PATH_RISCV64 };
    let failure = Arguments::of_program().execute(path, 0);
    say(format_args!("the guest has reset its machine, which cannot be made again (error {})", -failure));
    system::exit(FAILED)
}

fn end(exit: &Exit, why: fmt::Arguments<'_>) -> ! {
    say(format_args!("core {} at {:#x} used guest address {:#x}: {why}", exit.vcpu, exit.pc, exit.address));
    system::exit(FAILED)
}

/// Loads or stores a register of a shared area.
fn shared(exit: &mut Exit, register: u64) {
    let (index, register) = (register / Shares::REGISTER_BYTES, register % Shares::REGISTER_BYTES);
    match exit.reason {
        reason::LOAD => exit.value = u64::from(share::load(index as usize, register)),
        _ => share::store(index as usize, register, exit.value as u32),
    }
}

/// Loads or stores a device's register.
fn access(exit: &mut Exit) {
    static HAS_SAID: AtomicBool = AtomicBool::new(false);
    if serial::access(exit) {
        return;
    }
    let register = |from: u64, bytes: u64| exit.address.checked_sub(from).filter(|&register| register < bytes);
    if let Some(register) = register(SHARED.registers, SHARES.load(Relaxed) * Shares::REGISTER_BYTES) {
        return shared(exit, register);
    }
    // On AArch64 the kernel emulates the interrupt controller.
    match (register(board::PLIC, if IS_AARCH64 { 0 } else { board::PLIC_BYTES }), exit.reason) {
        (Some(register), reason::LOAD) => exit.value = u64::from(interrupts::load(register)),
        (Some(register), _) => interrupts::store(register, exit.value as u32),
        (None, _) => {
            if !HAS_SAID.swap(true, Relaxed) {
                let (core, pc, address) = (exit.vcpu, exit.pc, exit.address);
                say(format_args!(
                    "core {core} at {pc:#x} used guest address {address:#x}: there is nothing; it is told so"
                ));
            }
            exit.reason = reason::NOTHING;
        }
    }
}

/// Where in the memory file bytes of the guest are. `None`: they are not all memory.
fn offset(exit: &Exit) -> Option<u64> {
    let offset = exit.address.checked_sub(MEMORY_START)?;
    let end = offset.checked_add(exit.bytes)?;
    (end <= MEMORY_BYTES.load(Relaxed)).then_some(offset)
}

fn console_write(exit: &Exit) -> u64 {
    let Some(offset) = offset(exit) else { return u64::MAX };
    let mut piece = [0; PIECE];
    let len = exit.bytes.min(PIECE as u64) as usize;
    match machine::read_at(MEMORY.load(Relaxed), &mut piece[..len], offset) {
        Ok(read) => {
            send(&piece[..read]);
            read as u64
        }
        Err(_) => u64::MAX,
    }
}

fn console_read(exit: &Exit) -> u64 {
    let Some(offset) = offset(exit) else { return u64::MAX };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < exit.bytes.min(PIECE as u64)
        && let Some(byte) = serial::take()
    {
        bytes.push(byte);
    }
    match machine::write_at(MEMORY.load(Relaxed), &bytes, offset) {
        Ok(()) => bytes.len() as u64,
        Err(_) => u64::MAX,
    }
}
