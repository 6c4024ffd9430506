//! Islands of one instruction set whose models of processors differ: programs see the same of all of them, or the machine is refused; and
//! models that kernels cannot run on are refused by name.

use std::fs;

use crate::{
    crossing::{Programs, compiled},
    extensions,
    process::{self, Ended, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("models::counters_of_time_do_not_go_back_between_islands", counters),
        ("models::aarch64_cores_show_the_same_lines_blocks_and_frequency", aarch64),
        ("models::x86_64_cores_decode_the_same_and_pinned_programs_are_told_of_avx", x86_64),
        ("models::programs_that_need_a_level_are_refused_where_they_would_not_notice", levels),
        ("models::riscv64_cores_that_zero_different_blocks_are_refused", blocks),
        ("models::processors_that_kernels_cannot_run_on_are_refused_by_name", refused),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A machine whose islands of one instruction set, of a core each, are these models; `None`: the default one.
fn run(isa: &str, cpus: &[Option<&str>], command: &str) -> Result<Ended, String> {
    let programs = compiled("models", &["-O1"])?;
    run_files(&programs, &["models"], isa, cpus, command)
}

/// As [`run`], with these files of the programs' folder in `/in`.
fn run_files(
    programs: &Programs,
    files: &[&str],
    isa: &str,
    cpus: &[Option<&str>],
    command: &str,
) -> Result<Ended, String> {
    let island = |(index, cpu): (usize, &Option<&str>)| {
        let cpu = cpu.map_or_else(String::new, |cpu| format!("cpu = \"{cpu}\"\n"));
        format!("[[island]]\nname = \"i{index}\"\nisa = \"{isa}\"\ncores = 1\n{cpu}")
    };
    let islands: String = cpus.iter().enumerate().map(island).collect();
    let path = programs.path.join("machine.toml");
    fs::write(&path, format!("[pool]\nsize = \"256MiB\"\n{islands}")).map_err(|error| error.to_string())?;
    let mut motet = Motet::run(["--machine".as_ref(), path.as_os_str()]);
    for file in files {
        motet = motet.argument("--in").argument(programs.path.join(file));
    }
    Ok(motet.arguments(["--", command]).wait())
}

/// Islands begin to count when their QEMU starts, some milliseconds apart. RISC-V's firmware answers reads of `time`, whatever the kernel hides.
fn counters() -> Result<(), String> {
    for isa in process::ISAS {
        let ended = run(isa, &[None, None], &format!("on {isa} /in/models counters"))?;
        ended.expect_code(0)?.expect_output("readings 40 back 0\n").map_err(|error| format!("{isa}: {error}"))?;
    }
    Ok(())
}

/// Lengths of SVE as programs choose them.
const SVE: &str = "wrong -1 -1 -1\nlongest 256\nlongest: 256 256\nshorter 64\nshorter: 64 64\nwith another thread 64\n\
    another thread: 64 64\nfor the next program 256\nas before: 64 64\nnext: 256 256\ninherited 64\nlast: 64 inherited 64\n";

/// The default one zeroes 64 bytes at a time, and a64fx 256; `max` has another frequency.
fn aarch64() -> Result<(), String> {
    let command = "on aarch64 /in/models seen; on aarch64 /in/models zeroes; echo $?";
    let more = format!("{command}; on aarch64 /in/models sve");
    let ended = run("aarch64", &[None, Some("a64fx"), Some("max")], &more)?;
    ended.expect_code(0)?.expect_output(&format!("cores 3 unlike 0 late 0\n132\n{SVE}"))?;
    // Of one model, nothing is hidden.
    let ended = run("aarch64", &[None, None], command)?;
    ended.expect_code(0)?.expect_output("cores 2 unlike 0 late 0\nhas zeroed 0\n0\n").map(drop)
}

fn x86_64() -> Result<(), String> {
    let command = "on x86_64 /in/models seen; on x86_64,avx2 /in/models avx; on x86_64,avx2 sh -c '/in/models avx'; \
        on x86_64 /in/models avx";
    let ended = run("x86_64", &[Some("Nehalem"), Some("Haswell")], command)?;
    let told = "osxsave 1 avx 1 xcr0 1\n";
    let wanted = format!("cores 2 unlike 0 late 0\n{told}{told}osxsave 0 avx 0 xcr0 0\n");
    ended.expect_code(0)?.expect_output(&wanted).map(drop)
}

/// Of programs that say what they need, those are refused that would not notice that cores lack it.
fn levels() -> Result<(), String> {
    // mov edi, 7; mov eax, 60; syscall
    const CODE: [u8; 12] = [0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 5];
    const PT_GNU_PROPERTY: u64 = 0x6474_e553;
    let programs = Programs::new()?;
    for level in 2..=4 {
        // A note of the linker, with the level and those below it in a property.
        let words = [4, 16, 5, 0x0055_4e47, 0xc000_8002, 4, (1_u32 << level) - 1, 0];
        let note: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        extensions::saying(&format!("v{level}"), 62, &CODE, (PT_GNU_PROPERTY, &note), &programs)?;
    }
    let command = "for level in 2 3 4; do /in/v$level; echo $?; done";
    let run_on = |cpus: &[&str]| {
        let cpus: Vec<_> = cpus.iter().copied().map(Some).collect();
        run_files(&programs, &["v2", "v3", "v4"], "x86_64", &cpus, command)
    };
    run_on(&["Haswell"])?.expect_code(0)?.expect_output("7\n7\n7\n")?;
    let why = "and this machine's cores of x86_64 do not all have its lzcnt and tzcnt";
    let refused = [3, 4].map(|level| format!("/in/v{level}: is made for x86-64-v{level}, {why}"));
    for cpus in [&["Nehalem"][..], &["Nehalem", "Haswell"]] {
        run_on(cpus)?
            .expect_code(0)?
            .expect_output("7\n126\n126\n")?
            .expect_errors(&refused.each_ref().map(|text| text.as_str()))?;
    }
    Ok(())
}

fn blocks() -> Result<(), String> {
    let cpus = [None, Some("rv64,cboz_blocksize=128,cbom_blocksize=128,cbop_blocksize=128")];
    let ended = run("riscv64", &cpus, "true")?;
    ended.expect_code(70)?.expect_errors(&["island i0 ", "refuses to join: ", "cbo.zero", "cboz_blocksize"]).map(drop)
}

fn refused() -> Result<(), String> {
    for (isa, cpu, why) in [
        ("aarch64", "cortex-a53", "lacks the atomic instructions of Armv8.1"),
        ("riscv64", "rv64,sv48=false", "lack Sv48"),
        ("riscv64", "rv64,d=false,v=false,zcd=false,zcf=false", "lack F and D"),
        ("x86_64", "qemu32", "lacks 64-bit mode or NX"),
    ] {
        let ended = run(isa, &[Some(cpu)], "true")?;
        let who = format!("island i0 (cpu = \"{cpu}\") refuses to join: ");
        ended.expect_code(70)?.expect_errors(&[&who, why])?;
    }
    Ok(())
}
