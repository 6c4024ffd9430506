//! Threads that go where their instructions are: cores of one instruction set that have different extensions.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    crossing::{Programs, source},
    process::{Ended, Motet, root},
    random_vectors,
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 23] = [
        ("extensions::vector_registers_survive_every_way_between_cores", ways),
        ("extensions::hints_move_a_thread_ahead_of_its_instructions", hints),
        ("extensions::a_thread_that_is_handed_to_and_fro_loses_nothing", handed),
        ("extensions::values_are_dropped_only_when_vectors_are_named", || done(TWO_WITH, "needed", NEEDED)),
        ("extensions::dropped_values_do_not_come_back_on_another_core", || {
            done(TWO_WITH, "discarded 0 16 32", DISCARDED)
        }),
        ("extensions::an_idle_core_of_the_threads_island_comes_first", || done(NEAR, "near 16", "core 16, core 17\n")),
        ("extensions::what_a_thread_needs_comes_before_its_affinity", affinity),
        ("extensions::many_threads_share_one_core_with_vectors", crowd),
        ("extensions::an_instruction_that_no_core_has_is_named", nowhere),
        ("extensions::programs_are_told_what_all_cores_have", told),
        ("extensions::commands_stay_on_cores_with_the_extensions_that_on_names", on_cores_with),
        ("extensions::on_says_which_extensions_there_are_not", on_refuses),
        ("extensions::what_vendors_have_made_is_where_the_file_says", custom),
        ("extensions::random_vector_programs_do_not_notice_their_moves", random_vectors::check),
        ("extensions::who_does_not_use_vectors_any_more_goes_back", || going("back", BACK)),
        ("extensions::who_comes_again_and_again_stays_longer", || going("patience", PATIENCE)),
        ("extensions::threads_take_turns_or_come_first_as_the_file_says", turns),
        ("extensions::ordinary_threads_make_room_at_once", || going("way 16", "away 1\nat once 1\n")),
        ("extensions::needs_are_of_one_instruction_set", several_isas),
        ("extensions::threads_go_to_the_core_of_their_island_that_the_file_leaves_vectors", one_island),
        ("extensions::vector_registers_of_1024_bits_survive_every_way", long_registers),
        ("extensions::values_in_vector_registers_stay_with_their_length", two_lengths),
        ("extensions::threads_share_cores_with_registers_of_two_lengths", crowd_of_two_lengths),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Two islands, of which the second one's core has vectors.
pub const TWO_ISLANDS: &str = "[[island]]\nname = \"application\"\nisa = \"riscv64\"\ncores = 1\n\
    [[island]]\nname = \"accelerator\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=128\"\n";
/// One island, of whose cores the file leaves one its vectors.
const ONE_ISLAND: &str = "[[island]]\nname = \"mixed\"\nisa = \"riscv64\"\ncores = 3\ncpu = \"rv64,v=true,vlen=256\"\n\
    extensions = [\"-v\"]\n[[island.core]]\ncores = [2]\nextensions = [\"v\"]\n";
/// One core that has vector registers of 1024 bits.
const LONG: &str = "[[island]]\nname = \"long\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=1024\"\n";
/// Three islands: core 0 has no vector registers, core 16 some of 256 bits, core 32 some of 1024.
const TWO_LENGTHS: &str = "[[island]]\nname = \"plain\"\nisa = \"riscv64\"\ncores = 1\n\
    [[island]]\nname = \"short\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=256\"\n\
    [[island]]\nname = \"long\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=1024\"\n";
/// A core without vector registers, and two that have some.
const TWO_WITH: &str = "[[island]]\nname = \"plain\"\nisa = \"riscv64\"\ncores = 1\n\
    [[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=512\"\n\
    [[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=512\"\n";
/// Core 0 has vector registers, as has core 17, but not core 16.
const NEAR: &str = "[[island]]\nname = \"far\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=256\"\n\
    [[island]]\nname = \"mixed\"\nisa = \"riscv64\"\ncores = 2\ncpu = \"rv64,v=true,vlen=256\"\n\
    extensions = [\"-v\"]\n[[island.core]]\ncores = [1]\nextensions = [\"v\"]\n";
const NEEDED: &str = "need 0 0, done 0, value 7, done 0, value 0\n";
const DISCARDED: &str = "core 16, core 32: 7, core 16: 0\n";
const WITHOUT: &str = "[[island]]\nname = \"plain\"\nisa = \"riscv64\"\ncores = 2\n";

/// Simulated, so that what a thread's moves depend on is always the same; slow, because all of it is waiting for slices to end.
const SIMULATED: [&str; 2] = ["--timed", "--deterministic"];
const SLOW_CORES: &str = "[[model.core]]\nfrequency_mhz = 50\ncpi = 1.0\nmemory_cycles = 0\n";
const BACK: &str = "away 1\nthere 1 back 1 patience 2\n";
const PATIENCE: &str = "patience 2\npatience 4\npatience 8\npatience 16\nstayed\n";
/// The last one of each instruction set has vectors.
const FOUR_ISLANDS: &str = "[[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 1\n\
    [[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\ncpu = \"rv64,v=true,vlen=128\"\n\
    [[island]]\nname = \"c\"\nisa = \"x86_64\"\ncores = 1\n\
    [[island]]\nname = \"d\"\nisa = \"x86_64\"\ncores = 1\ncpu = \"max\"\n";

/// A program, and a machine.
pub struct Machine {
    program: &'static str,
    programs: Programs,
    path: PathBuf,
}

impl Machine {
    /// With the program of this file.
    ///
    /// # Errors
    /// It does not compile.
    pub fn new(islands: &str) -> Result<Self, String> {
        Self::with("extension", islands)
    }

    /// With a program for RISC-V alone.
    fn with(program: &'static str, islands: &str) -> Result<Self, String> {
        Self::compiled(program, Programs::new()?, &source(program), islands)
    }

    /// With such a program of this text.
    ///
    /// # Errors
    /// It does not compile.
    pub fn made(program: &'static str, text: &str, islands: &str) -> Result<Self, String> {
        let programs = Programs::new()?;
        let source = programs.path.join(program).with_extension("c");
        fs::write(&source, text).map_err(|error| error.to_string())?;
        Self::compiled(program, programs, &source, islands)
    }

    fn compiled(program: &'static str, programs: Programs, source: &Path, islands: &str) -> Result<Self, String> {
        let path = programs.path.join(program).display().to_string();
        let include = format!("-I{}", root().join("tests/guest/cc").display());
        programs.compile(source, "fat", &["--isa", "riscv64", "-O1", &include, "--emit-isa", "riscv64", &path])?;
        Self::of(program, programs, islands)
    }

    fn of(program: &'static str, programs: Programs, islands: &str) -> Result<Self, String> {
        let path = programs.path.join("machine.toml");
        fs::write(&path, format!("[pool]\nsize = \"256MiB\"\n{islands}")).map_err(|error| error.to_string())?;
        Ok(Self { program, programs, path })
    }

    /// Runs a command; the program is in `/in`.
    pub fn run(&self, command: &str) -> Ended {
        self.run_with(&[] as &[&str], command)
    }

    fn run_with(&self, options: &[impl AsRef<OsStr>], command: &str) -> Ended {
        let program = self.programs.path.join(self.program);
        let motet = Motet::run(["--in".as_ref(), program.as_os_str()]).argument("--machine").argument(&self.path);
        motet.arguments(options).arguments(["--", command]).wait()
    }
}

const KEPT: &str = "system call kept\npage faults kept\nshoot-down kept\nsignal handler kept\nyield kept\nsleep kept\n\
    another thread kept\nslices without use kept\n";

fn check_ways(islands: &str) -> Result<(), String> {
    let ended = Machine::new(islands)?.run("/in/extension ways");
    ended.expect_code(0)?;
    let (before, after) = ended.output.split_at_checked(KEPT.len()).ok_or_else(|| ended.describe())?;
    // Parent and child run at the same time.
    let mut both: Vec<&str> = after.lines().collect();
    both.sort_unstable();
    if before == KEPT && both == ["child kept", "parent kept"] { Ok(()) } else { Err(ended.describe()) }
}

fn ways() -> Result<(), String> {
    check_ways(TWO_ISLANDS)
}

fn one_island() -> Result<(), String> {
    check_ways(ONE_ISLAND)?;
    let ended = Machine::new(ONE_ISLAND)?.run("/in/extension crowd 20");
    ended.expect_code(0)?.expect_output("right 20 of 20\n").map(drop)
}

fn long_registers() -> Result<(), String> {
    check_ways(LONG)?;
    let ended = Machine::new(LONG)?.run("/in/extension length; /in/extension minimum; /in/extension clears");
    // The stack of a handler: the frame without vectors, the record's header, the registers, and alignment.
    let minimum = 1088 + 56 + 32 * 128 + 16;
    let wanted = format!("128\n{minimum}\ncleared: 0 bytes left, type and length 0\n");
    ended.expect_code(0)?.expect_output(&wanted).map(drop)
}

/// Simulated: on a busy host a slice may end between any two instructions, and two slices without vectors let a thread go elsewhere, where the program
/// says that it is refused, or once more to the core that it counts its moves to.
fn two_lengths() -> Result<(), String> {
    let machine = Machine::new(&format!("{TWO_LENGTHS}{SLOW_CORES}"))?;
    for (length, own, other) in [(32, "10000", "100000000"), (128, "100000000", "10000")] {
        // Without values in them, the same program runs on cores of either length.
        let command = format!(
            "taskset {own} /in/extension length; taskset {other} /in/extension length; /in/extension lengths {own} {other}"
        );
        let ended = machine.run_with(&SIMULATED, &command);
        let wanted = format!(
            "{length}\n{}\nlength {length}\nwhile it needs them: bound 0, elsewhere 1\nthere kept\nelsewhere 1\n\
            values of another length kept\nlength {length}, moves 1\nchild kept\nparent kept\n",
            160 - length
        );
        ended.expect_code(0)?.expect_output(&wanted)?;
    }
    Ok(())
}

/// A program that is made for registers of so many bits, as it says in its `.riscv.attributes`. Its exit code is how many bytes they have.
fn made_for(bits: u32, programs: &Programs) -> Result<PathBuf, String> {
    // csrr a0, vlenb; li a7, 93; ecall
    const CODE: [u32; 3] = [0xc220_2573, 0x05d0_0893, 0x73];
    let code: Vec<u8> = CODE.into_iter().flat_map(u32::to_le_bytes).collect();
    let attributes = format!("rv64i2p1_v1p0_zvl128b1p0_zvl{bits}b1p0\0");
    saying(&format!("made{bits}"), 243, &code, (0x7000_0003, attributes.as_bytes()), programs)
}

/// An executable for an `e_machine`: its code, and what it says in a program header of this kind.
///
/// # Errors
/// It cannot be written.
pub fn saying(
    name: &str,
    machine: u64,
    code: &[u8],
    (kind, said): (u64, &[u8]),
    programs: &Programs,
) -> Result<PathBuf, String> {
    const AT: u64 = 0x1_0000;
    const CODE_AT: u64 = 64 + 2 * 56;
    let said_at = CODE_AT + code.len() as u64;
    let len = said_at + said.len() as u64;
    let segment =
        |kind: u64, flags: u64, at: u64, len: u64| [kind | flags << 32, at, AT + at, AT + at, len, len, 0x1000];
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let header = [0x1_0000_0002 | machine << 16, AT + CODE_AT, 64, 0, 0x38_0040_0000_0000, 2];
    let words = header.into_iter().chain(segment(1, 5, 0, len));
    let words = words.chain(segment(kind, 4, said_at, said.len() as u64));
    elf.extend(words.flat_map(u64::to_le_bytes));
    elf.extend(code);
    elf.extend(said);
    let path = programs.path.join(name);
    let written = fs::write(&path, elf).and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)));
    written.map(|()| path).map_err(|error| error.to_string())
}

fn crowd_of_two_lengths() -> Result<(), String> {
    check_ways(TWO_LENGTHS)?;
    // Processes of either length, and threads of one.
    let crowd = "/in/extension crowd 60; /in/extension threads 40; on riscv64,zvl512b /in/extension threads 4; \
        on riscv64,zvl128b grep -c '^extensions.* zvl256b' /proc/cpuinfo; on riscv64 /in/extension long; \
        /in/made512; echo $?; on riscv64,zvl1024b /in/made128; echo $?; /in/made2048; echo $?";
    let machine = Machine::new(TWO_LENGTHS)?;
    let mut options = Vec::new();
    for bits in [128, 512, 2048] {
        options.extend(["--in".to_owned(), made_for(bits, &machine.programs)?.display().to_string()]);
    }
    let ended = machine.run_with(&options, crowd);
    let wanted = "right 60 of 60\nother lengths 0\nother lengths 0\n2\nneed 0: 128 128\n128\n128\n126\n";
    let why =
        "/in/made2048: is made for vector registers of 2048 bits (zvl2048b), and no core of this machine has them";
    ended.expect_code(0)?.expect_output(wanted)?.expect_errors(&[why]).map(drop)
}

fn handed() -> Result<(), String> {
    let wanted = "lost 0, signals 1\n";
    for islands in [TWO_ISLANDS, ONE_ISLAND] {
        Machine::with("handed", islands)?.run("/in/handed 3000").expect_code(0)?.expect_output(wanted)?;
    }
    Ok(())
}

fn done(islands: &str, how: &str, wanted: &str) -> Result<(), String> {
    let ended = Machine::with("done", islands)?.run(&format!("/in/done {how}"));
    ended.expect_code(0)?.expect_output(wanted).map(drop)
}

fn hints() -> Result<(), String> {
    let wanted = "at first: needs\t\tnothing\nat first: hint\t\tnone\nneed 0\nmoved 1\nneeds v: needs\t\tv\n\
        needs v: hint\t\tstay\ndone 0\nmoved 0\ndone: needs\t\tnothing\ndone: hint\t\tnone\nunknown 1\nbad address 1\n";
    Machine::new(TWO_ISLANDS)?.run("/in/extension hints").expect_code(0)?.expect_output(wanted).map(drop)
}

fn affinity() -> Result<(), String> {
    let wanted = "need 0\nmoved 1\nbound 0, elsewhere 1\ndone 0, at home 1\nelsewhere kept\nelsewhere 1\nat home 1\n\
        still bound 1\nno core: refused 1\nexecuted at home 1\n";
    Machine::new(TWO_ISLANDS)?.run("/in/extension affinity").expect_code(0)?.expect_output(wanted).map(drop)
}

fn crowd() -> Result<(), String> {
    let ended = Machine::new(TWO_ISLANDS)?.run("/in/extension crowd 1000; grep -c needs /proc/self/migrations");
    ended.expect_code(0)?.expect_output("right 1000 of 1000\n1\n").map(drop)
}

fn nowhere() -> Result<(), String> {
    let ended = Machine::new(WITHOUT)?.run("/in/extension once");
    ended.expect_code(128 + 4)?.expect_output("")?;
    let message = "is ended by SIGILL: the instruction at 0x";
    ended.expect_errors(&[message, "needs the riscv64 extension v, and no core of the machine has it"]).map(drop)
}

fn going(how: &str, wanted: &str) -> Result<(), String> {
    going_on(TWO_ISLANDS, how, wanted)
}

/// The accelerator's queue.
fn turns() -> Result<(), String> {
    going_on(TWO_ISLANDS, "turns", "abcabc\n")?;
    going_on(&format!("{TWO_ISLANDS}queue = \"fifo\"\n"), "turns", "aabbcc\n")
}

fn going_on(islands: &str, how: &str, wanted: &str) -> Result<(), String> {
    let machine = Machine::with("going", &format!("{islands}{SLOW_CORES}"))?;
    let ended = machine.run_with(&SIMULATED, &format!("/in/going {how}"));
    ended.expect_code(0)?.expect_output(wanted).map(drop)
}

/// A thread that needs vectors of RISC-V runs functions on x86-64, longer than it keeps what it does not use.
fn several_isas() -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&source("needs"), "needs", &["--isa", "riscv64", "-O1"])?;
    let wanted = "RISC-V 1: needs\t\tv\nx86-64 without AVX 2: needs\t\tv\nx86-64 with AVX 3: needs\t\tavx\n\
        RISC-V again 1: needs\t\tavx\n42\n";
    let machine = Machine::of("needs", programs, &format!("{FOUR_ISLANDS}{SLOW_CORES}"))?;
    let ended = machine.run_with(&SIMULATED, "/in/needs");
    ended.expect_code(0)?.expect_output(wanted).map(drop)
}

/// `/proc/cpuinfo` tells of each core, all else of all cores on which the program may run.
fn told() -> Result<(), String> {
    let command = "grep -o 'rv64[a-z]*' /proc/cpuinfo; /in/extension told; taskset 10000 /in/extension told";
    let wanted = "rv64imafdch\nrv64imafdcvh\nhwcap 0 hwprobe 0 0\nhwcap 1 hwprobe 0 1\n";
    Machine::new(TWO_ISLANDS)?.run(command).expect_code(0)?.expect_output(wanted)?;
    let wanted = "rv64imafdch\nrv64imafdch\nrv64imafdcvh\nhwcap 0 hwprobe 0 0\nhwcap 1 hwprobe 0 1\n";
    let ended = Machine::new(ONE_ISLAND)?.run(&command.replace("10000", "4"));
    ended.expect_code(0)?.expect_output(wanted).map(drop)
}

/// `on ISA,EXTENSION...`: a command, what it starts, and what that starts on another instruction set and back.
fn on_cores_with() -> Result<(), String> {
    let core = "grep MotetCore /proc/self/status";
    let command = format!(
        "on riscv64,v,zba sh -c 'for _ in 1 2 3 4; do {core} & done; wait; /in/extension told; /in/extension once'"
    );
    let wanted = format!("{}hwcap 1 hwprobe 0 1\ndone\n", "MotetCore:\t2\n".repeat(4));
    Machine::new(ONE_ISLAND)?.run(&command).expect_code(0)?.expect_output(&wanted)?;
    let command = format!(
        "on x86_64,avx2,fma sh -c \"{core}; on riscv64,v sh -c '{core}; on x86_64 {core}; on x86_64 on riscv64 {core}; nproc'\""
    );
    let wanted = [48, 16, 48, 16].map(|core| format!("MotetCore:\t{core}\n")).concat();
    let ended = Machine::new(FOUR_ISLANDS)?.run(&command);
    ended.expect_code(0)?.expect_output(&format!("{wanted}2\n")).map(drop)
}

fn on_refuses() -> Result<(), String> {
    let command = "on riscv64,v,w true; echo $?; on riscv64,v,custom-0 true; echo $?; taskset 1 on riscv64,v true; echo $?; \
        on riscv64,v nothing; echo $?; on --help | head -n 1";
    let ended = Machine::new(TWO_ISLANDS)?.run(command);
    let wanted = "125\n125\n125\n127\nusage: on ISA[,EXTENSION...] COMMAND [ARGUMENT...]\n";
    ended.expect_code(0)?.expect_output(wanted)?;
    let unknown = "motet with: `w` is no extension of riscv64 that Motet knows; it knows f, d, v, ";
    let nowhere = "motet with: no riscv64 core of the machine has all of: v custom-0 (see /proc/cpuinfo)";
    let elsewhere = "motet with: no riscv64 core in this process's affinity has all of: v";
    ended.expect_errors(&[unknown, nowhere, elsewhere, "motet: nothing: not found"]).map(drop)
}

/// Of two cores one that has a vendor's extension, as far as the file says: QEMU's have none.
const CUSTOM: &str = "[[island]]\nname = \"vendor\"\nisa = \"riscv64\"\ncores = 2\n\
    [[island.core]]\ncores = [1]\nextensions = [\"custom-0\"]\n";

fn custom() -> Result<(), String> {
    let machine = Machine::with("custom", CUSTOM)?;
    let command = "/in/custom 0 handled; /in/custom 1 handled; on riscv64,custom-0 grep MotetCore /proc/self/status; \
        grep -c custom-0 /proc/cpuinfo";
    // A core that has it is tried once, and no core is for what none has.
    let wanted = "core 1, moves 1\ncore 0, moves 0\nMotetCore:\t1\n1\n";
    machine.run(command).expect_code(0)?.expect_output(wanted)?;
    let needs =
        "needs the riscv64 extension custom-0, which this machine's description gives core 1, and the core refuses it";
    machine
        .run("/in/custom 0")
        .expect_code(128 + 4)?
        .expect_errors(&["is ended by SIGILL: the instruction at", needs])?;
    let nowhere = "needs the riscv64 extension custom-1, and no core of the machine has it";
    machine.run("/in/custom 1").expect_code(128 + 4)?.expect_errors(&[nowhere]).map(drop)
}
