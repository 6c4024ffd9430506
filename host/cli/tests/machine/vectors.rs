//! Vector registers beyond those of the base ISA: programs that use them without asking start where there are none, and end where there
//! are some, with all of them as they should be (`tests/guest/cc/vectors.c`).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    crossing::Programs,
    process::{Ended, Motet, root},
    trial::{Trial, trial},
};

/// `cpu` of cores with them; the default ones have none. Of models with AVX, this one needs nothing that TCG lacks.
const WITH_AVX: &str = "max";
const WITH_SVE: &str = "neoverse-v1";
/// Registers of 2048 bits: the longest that the model has.
const WITH_LONG_SVE: &str = "max";

/// The suite's own waits are long, for busy hosts.
const CONFORMANCE_LIMIT: Duration = Duration::from_secs(900);

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("vectors::avx_takes_a_thread_to_a_core_with_it_and_is_kept", || moves("x86_64", WITH_AVX)),
        trial("vectors::models_are_named_as_they_are", || check_moves("x86_64", [Some("Nehalem"), Some("Haswell")])),
        trial("vectors::sve_takes_a_thread_to_a_core_with_it_and_is_kept", || moves("aarch64", WITH_SVE)),
        trial("vectors::avx_that_all_cores_have_is_told_and_kept", avx_everywhere),
        trial("vectors::avx_is_opened_for_who_looks_at_the_extended_state", looks_at_state),
        trial("vectors::avx_is_seen_in_proc", || is_seen("x86_64", WITH_AVX, &Seen::avx())),
        trial("vectors::sve_is_seen_in_proc", || is_seen("aarch64", WITH_SVE, &Seen::sve(32))),
        trial("vectors::sve_of_2048_bits_is_seen_in_proc", || is_seen("aarch64", WITH_LONG_SVE, &Seen::sve(256))),
        trial("vectors::v_of_1024_bits_is_seen_in_proc", || is_seen("riscv64", "rv64,v=true,vlen=1024", &Seen::v(128))),
        trial("vectors::handlers_change_avx_in_their_contexts", || contexts("x86_64", WITH_AVX, 4, "")),
        trial("vectors::handlers_change_sve_in_their_contexts", || contexts("aarch64", WITH_SVE, 5, CLEARED)),
        trial("vectors::handlers_change_sve_of_2048_bits", || contexts("aarch64", WITH_LONG_SVE, 5, CLEARED)),
        trial("vectors::handlers_change_v_in_their_contexts", || contexts("riscv64", "rv64,v=true,vlen=256", 4, "")),
        trial("vectors::avx_conforms", || conforms("x86_64", WITH_AVX)),
        trial("vectors::sve_conforms", || conforms("aarch64", WITH_SVE)),
        trial("vectors::v_of_risc_v_conforms", || conforms("riscv64", "rv64,v=true,vlen=256")),
        trial("vectors::v_of_1024_bits_conforms", || conforms("riscv64", "rv64,v=true,vlen=1024")),
        trial("vectors::sve_of_2048_bits_conforms", || conforms("aarch64", WITH_LONG_SVE)),
    ]
}

/// The file of a machine of two islands of one core each.
fn machine_file(folder: &Path, isa: &str, cpus: [Option<&str>; 2]) -> Result<PathBuf, String> {
    let machine = folder.join("machine.toml");
    let mut text = String::from("[pool]\nsize = \"256MiB\"\n");
    for (name, cpu) in ["first", "second"].into_iter().zip(cpus) {
        text += &format!("\n[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\ncores = 1\n");
        text += &cpu.map_or(String::new(), |cpu| format!("cpu = \"{cpu}\"\n"));
    }
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    Ok(machine)
}

/// Runs a command there.
fn run(isa: &str, cpus: [Option<&str>; 2], command: &str) -> Result<Ended, String> {
    let programs = Programs::new()?;
    programs.compile(&root().join("tests/guest/cc/vectors.c"), "vectors", &["-O2"])?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = machine_file(folder.path(), isa, cpus)?;
    let arguments = ["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
    Ok(Motet::run(arguments).arguments(["--", command]).wait())
}

fn moves(isa: &str, with: &str) -> Result<(), String> {
    check_moves(isa, [None, Some(with)])
}

fn check_moves(isa: &str, cpus: [Option<&str>; 2]) -> Result<(), String> {
    let ended = run(isa, cpus, "/in/programs/vectors asked && /in/programs/vectors")?;
    // Each process starts on the first island and has its registers on the second.
    ended.expect_code(0)?.expect_output("nothing\n0 1\n0 1\n0 1\n0 1\n").map(drop)
}

fn avx_everywhere() -> Result<(), String> {
    let ended = run("x86_64", [Some(WITH_AVX); 2], "/in/programs/vectors asked && /in/programs/vectors > /dev/null")?;
    ended.expect_code(0)?.expect_output("avx\n").map(drop)
}

/// Where one core has AVX, and where none has.
fn looks_at_state() -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&root().join("tests/guest/cc/state.c"), "state", &["--isa", "x86_64", "-O1"])?;
    let run = |with| {
        let machine = machine_file(&programs.path, "x86_64", [None, with])?;
        let arguments = ["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
        Ok::<_, String>(Motet::run(arguments).arguments(["--", "/in/programs/state"]).wait())
    };
    run(Some(WITH_AVX))?.expect_code(0)?.expect_output("x87, SSE, AVX: 1, moved 1\nkept 1\n")?;
    let needs = "needs the x86_64 extension avx, and no core of the machine has it";
    run(None)?.expect_code(128 + 4)?.expect_errors(&[needs]).map(drop)
}

/// What `/proc/PID/vectors` says of registers that have their number and one in each byte.
struct Seen {
    format: &'static str,
    bytes: usize,
    before: String,
    name: &'static str,
    registers: usize,
    behind: String,
}

impl Seen {
    fn avx() -> Self {
        let before = "mxcsr\t\t0x1f80\n".to_owned();
        Self { format: "x86_64 avx", bytes: 32, before, name: "ymm", registers: 16, behind: String::new() }
    }

    fn sve(bytes: usize) -> Self {
        let predicates = (0..16).map(|number| format!("p{number}")).chain(["ffr".into()]);
        let behind = predicates.map(|name| format!("{name}\t\t{}\n", "ff".repeat(bytes / 8))).collect();
        Self { format: "aarch64 sve", bytes, before: String::new(), name: "z", registers: 32, behind }
    }

    fn v(bytes: usize) -> Self {
        let before = format!("vstart\t\t0x0\nvtype\t\t0xc0\nvl\t\t{bytes:#x}\nvcsr\t\t0x0\n");
        Self { format: "riscv64 v", bytes, before, name: "v", registers: 32, behind: String::new() }
    }

    fn text(&self, as_of: &str) -> String {
        let Self { format, bytes, before, name, registers, behind } = self;
        let register = |number| format!("{name}{number}\t\t{}\n", format!("{:02x}", number + 1).repeat(*bytes));
        let registers: String = (0..*registers).map(register).collect();
        format!(
            "format\t\t{format}\nas_of\t\t{as_of}\nvalues\t\tlive\nregister_bytes\t{bytes}\n{before}{registers}{behind}"
        )
    }
}

fn is_seen(isa: &str, with: &str, seen: &Seen) -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&root().join("tests/guest/cc/seen.c"), "seen", &["--isa", isa, "-O1"])?;
    let machine = machine_file(&programs.path, isa, [None, Some(with)])?;
    let arguments = ["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
    let ended = Motet::run(arguments).arguments(["--", "/in/programs/seen"]).wait();
    let wanted = format!(
        "running\n{}stopped\n{}others may not\ngone 1\nown\nformat\t\t{}\nas_of\t\tnow\nvalues\t\tnone\n",
        seen.text("end of its last slice, it runs"),
        seen.text("now"),
        seen.format
    );
    ended.expect_code(0)?.expect_output(&wanted).map(drop)
}

/// What SVE registers' upper bits are after instructions that clear them, wherever their thread was before.
const CLEARED: &str = "clear after slices 1\nclear after going back in a handler 1, waits 0\npinned -1: exit 0\n";

/// What handlers change in their contexts; so many damages of them.
fn contexts(isa: &str, with: &str, damages: usize, more: &str) -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&root().join("tests/guest/cc/contexts.c"), "contexts", &["--isa", isa, "-O1"])?;
    let machine = machine_file(&programs.path, isa, [None, Some(with)])?;
    let arguments = ["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
    let ended = Motet::run(arguments).arguments(["--", "/in/programs/contexts"]).wait();
    let damaged: String = (0..damages).map(|which| format!("damage {which}: signal 11\n")).collect();
    ended.expect_code(0)?.expect_output(&format!("changed 1\n{damaged}changed 1\n{more}")).map(drop)
}

/// The suite for hardware layers on a machine where only the second island has vector registers.
fn conforms(isa: &str, with: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = machine_file(folder.path(), isa, [None, Some(with)])?;
    let arguments = ["conformance".as_ref(), "--machine".as_ref(), machine.as_os_str()];
    let ended = Motet::default().arguments(arguments).limit(CONFORMANCE_LIMIT).wait();
    let passed = "[second] conformance: vectors_survive_closing ok";
    ended.expect_code(0)?.expect_errors(&["[first] conformance: no vector registers", passed]).map(drop)
}
