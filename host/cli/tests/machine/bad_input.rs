//! What is wrong must be said, and must not stop a machine: machine descriptions, kernels, a missing QEMU, programs
//! that are broken or for another instruction set, a full pool.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    process::{self, ISAS, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

const ONE_ISLAND: &str = "[pool]\nsize = \"128MiB\"\n[[island]]\nname = \"only\"\nisa = \"x86_64\"\ncores = 1\n";

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 16] = [
        ("bad::unknown_key_is_named_with_line_and_column", unknown_key),
        ("bad::a_pool_too_small_for_its_files_is_refused", small_pool),
        ("bad::missing_files_are_named", missing_files),
        ("bad::a_missing_qemu_is_named", missing_qemu),
        ("bad::timed_runs_refuse_an_old_qemu_with_both_versions", old_qemu),
        ("bad::timed_runs_refuse_a_qemu_without_plugins", qemu_without_plugins),
        ("bad::a_plugin_with_other_layouts_refuses_the_machine_with_both_versions", plugin_with_other_layouts),
        ("bad::a_missing_kernel_is_named", missing_kernel),
        ("bad::a_kernel_with_other_layouts_does_not_join", other_layouts),
        ("bad::a_kernel_of_another_isa_is_refused", wrong_kernel),
        ("bad::corrupt_programs_do_not_stop_the_machine", corrupt_programs),
        ("bad::truncated_programs_fail", truncated_programs),
        ("bad::programs_without_island_are_refused_with_the_isa", absent_isa),
        ("bad::what_is_no_program_of_the_machine_is_named", foreign_programs),
        ("bad::a_full_pool_is_an_error_of_the_program", full_pool),
        ("bad::too_many_processes_are_an_error_of_the_program", many_processes),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A folder, and a file of this name in it.
fn file(name: &str, contents: impl AsRef<[u8]>) -> Result<(tempfile::TempDir, PathBuf), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join(name);
    fs::write(&path, contents).map_err(|error| error.to_string())?;
    Ok((folder, path))
}

fn on_machine(text: &str, command: &str) -> Result<process::Ended, String> {
    let (_folder, path) = file("machine.toml", text)?;
    Ok(Motet::run(["--machine".as_ref(), path.as_os_str()]).arguments(["--", command]).wait())
}

fn unknown_key() -> Result<(), String> {
    let text = ONE_ISLAND.replace("cores = 1", "cores = 1\ncolour = \"red\"");
    on_machine(&text, "true")?.expect_code(78)?.expect_errors(&["machine.toml:7:1: ", "colour"])?;
    let text = ONE_ISLAND.replace("x86_64", "vax");
    on_machine(&text, "true")?.expect_code(78)?.expect_errors(&["machine.toml:5:7: ", "\"vax\"", "riscv64"])?;
    let text = ONE_ISLAND.replace("128MiB", "1MiB");
    on_machine(&text, "true")?.expect_code(78)?.expect_errors(&["machine.toml:2:8: ", "too small"]).map(drop)
}

fn small_pool() -> Result<(), String> {
    let (_folder, large) = file("large", vec![1; 40 << 20])?;
    let (_other, machine) = file("machine.toml", ONE_ISLAND.replace("128MiB", "32MiB"))?;
    let ended = Motet::run(["--in".as_ref(), large.as_os_str(), "--machine".as_ref(), machine.as_os_str()])
        .arguments(["--", "true"])
        .wait();
    ended.expect_code(78)?.expect_errors(&["/in/large", "[pool] size"]).map(drop)
}

fn missing_files() -> Result<(), String> {
    let ended = Motet::run(["--in", "/nowhere/data", "--", "true"]).wait();
    ended.expect_code(66)?.expect_errors(&["/nowhere/data"])?;
    let ended = Motet::run(["--machine", "/dev/urandom", "--", "true"]).wait();
    ended.expect_code(66)?.expect_errors(&["machine file /dev/urandom: is a pipe, socket or device"])?;
    let ended = Motet::run(["--machine", "/nowhere/machine.toml", "--", "true"]).wait();
    ended.expect_errors(&["/nowhere/machine.toml"])?;
    let ended = Motet::run(["--out", "/proc/nowhere", "--", "true"]).wait();
    ended.expect_code(73)?.expect_errors(&["--out /proc/nowhere"])?;
    Motet::run(["--colour"]).wait().expect_code(64)?.expect_errors(&["--colour"]).map(drop)
}

fn missing_qemu() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ended = Motet::command("true").variable("PATH", folder.path()).wait();
    ended.expect_code(69)?.expect_errors(&["qemu-system-x86_64 is not installed", "apt install"]).map(drop)
}

/// A folder of build results whose kernels are these, by ISA.
fn results_with(kernels: &[(&str, Vec<u8>)]) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let make = || -> std::io::Result<()> {
        symlink(process::target().join("userland"), folder.path().join("userland"))?;
        for isa in ISAS {
            let release = Path::new(target_of(isa)).join("release");
            fs::create_dir_all(folder.path().join(target_of(isa)))?;
            symlink(process::target().join(&release), folder.path().join(&release))?;
        }
        for (isa, bytes) in kernels {
            let path = folder.path().join(kernel_path(isa));
            fs::create_dir_all(path.parent().expect("has one"))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    };
    make().map_err(|error| error.to_string())?;
    Ok(folder)
}

fn kernel_path(isa: &str) -> PathBuf {
    Path::new(target_of(isa)).join("kernel").join("motet-kernel")
}

/// The Rust target that kernels and guest programs of an instruction set are built for.
pub fn target_of(isa: &str) -> &'static str {
    match isa {
        "x86_64" => "x86_64-unknown-none",
        "aarch64" => "aarch64-unknown-none-softfloat",
        _ => "riscv64imac-unknown-none-elf",
    }
}

fn kernel(isa: &str) -> Result<Vec<u8>, String> {
    let path = process::target().join(kernel_path(isa));
    fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn with_kernels(kernels: &[(&str, Vec<u8>)]) -> Result<process::Ended, String> {
    let folder = results_with(kernels)?;
    let (_machine, path) = file("machine.toml", ONE_ISLAND)?;
    let motet = Motet::run(["--machine".as_ref(), path.as_os_str()]).arguments(["--", "true"]);
    Ok(motet.variable("CARGO_TARGET_DIR", folder.path()).wait())
}

/// A timed run with a program in the place of QEMU that says this to `--version` and `--help`.
fn with_qemu(version: &str, help: &str) -> Result<process::Ended, String> {
    let script = format!("#!/bin/sh\ncase $1 in --version) echo '{version}' ;; *) echo '{help}' ;; esac\n");
    let (folder, program) = file("qemu-system-x86_64", script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let (_machine, machine) = file("machine.toml", ONE_ISLAND)?;
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let ended = Motet::run(["--timed".as_ref(), "--machine".as_ref(), machine.as_os_str()]);
    Ok(ended.arguments(["--", "true"]).variable("PATH", path).wait())
}

fn old_qemu() -> Result<(), String> {
    let ended = with_qemu("QEMU emulator version 9.1.2 (Debian 1:9.1.2)", "-plugin [file=]<file>")?;
    ended.expect_code(69)?.expect_errors(&["qemu-system-x86_64 is version 9.1", "10.0 or later"]).map(drop)
}

fn qemu_without_plugins() -> Result<(), String> {
    let ended = with_qemu("QEMU emulator version 10.1.0", "-machine [type=]name")?;
    ended.expect_code(69)?.expect_errors(&["(version 10.1) was built without plugins"]).map(drop)
}

fn plugin_with_other_layouts() -> Result<(), String> {
    let plugin =
        fs::read(process::target().join("release/libmotet_timing_plugin.so")).map_err(|error| error.to_string())?;
    let plugin = other_fingerprint(plugin, "plugin")?;
    let folder = results_with(&[("x86_64", kernel("x86_64")?)])?;
    fs::create_dir_all(folder.path().join("release")).map_err(|error| error.to_string())?;
    fs::write(folder.path().join("release/libmotet_timing_plugin.so"), plugin).map_err(|error| error.to_string())?;
    let (_machine, machine) = file("machine.toml", ONE_ISLAND)?;
    let timed = Motet::run(["--timed".as_ref(), "--machine".as_ref(), machine.as_os_str()]).arguments(["--", "true"]);
    let ended = timed.variable("CARGO_TARGET_DIR", folder.path()).wait();
    let there = format!("{:016x}", motet_layout::FINGERPRINT);
    let here = format!("{:016x}", motet_layout::FINGERPRINT ^ 1);
    ended.expect_errors(&[
        "motet-timing-plugin",
        &format!("layouts {there}"),
        &format!("layouts {here}"),
        "./motet build",
    ])?;
    if ended.code() < 64 { Err(ended.describe()) } else { Ok(()) }
}

fn missing_kernel() -> Result<(), String> {
    with_kernels(&[])?.expect_code(69)?.expect_errors(&["x86_64 kernel", "motet build"]).map(drop)
}

/// The fingerprint is a constant in the kernel's code; one with a bit changed stands for a kernel of another source.
/// A program of this source, as if its layouts were others.
fn other_fingerprint(mut bytes: Vec<u8>, what: &str) -> Result<Vec<u8>, String> {
    let fingerprint = motet_layout::FINGERPRINT.to_le_bytes();
    let found: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == fingerprint).collect();
    if found.is_empty() {
        return Err(format!("the {what} does not contain the fingerprint of this source: it is not built from it"));
    }
    for at in found {
        bytes[at] ^= 1;
    }
    Ok(bytes)
}

fn other_layouts() -> Result<(), String> {
    let kernel = other_fingerprint(kernel("x86_64")?, "kernel")?;
    let ended = with_kernels(&[("x86_64", kernel)])?;
    ended.expect_code(70)?.expect_errors(&["island only refuses to join", "fingerprint"]).map(drop)
}

fn wrong_kernel() -> Result<(), String> {
    let text = ONE_ISLAND.replace("x86_64", "aarch64");
    let folder = results_with(&[("aarch64", kernel("riscv64")?)])?;
    let (_machine, path) = file("machine.toml", text)?;
    let motet = Motet::run(["--machine".as_ref(), path.as_os_str()]).arguments(["--", "true"]);
    let ended = motet.variable("CARGO_TARGET_DIR", folder.path()).wait();
    ended
        .expect_code(69)?
        .expect_errors(&["aarch64-unknown-none-softfloat/kernel/motet-kernel", "not an AArch64 file"])
        .map(drop)
}

/// Mutated headers for each ISA.
const MUTANTS: usize = 70;
/// Changes the result of a failing run.
pub const SEED_VARIABLE: &str = "MOTET_TEST_SEED";
/// What is mutated: file header and program headers are in it.
const HEAD_LEN: usize = 1024;

/// The seed of everything that is random.
pub fn seed() -> u64 {
    std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(20_251_121)
}

/// One of several, by the seed: another one on another day.
pub fn of_the_day<T: Copy>(all: &[T]) -> T {
    all[seed() as usize % all.len()]
}

/// What is the same on each instruction set, and long: one of them is tested each day where what is slow is not asked for.
pub fn of_its_day(trial: Trial, isa: &str) -> Trial {
    if of_the_day(&ISAS) == isa { trial } else { trial.long() }
}

/// The first bytes of an ELF file with one to three fields changed.
fn mutant(random: &mut fastrand::Rng, busybox: &[u8]) -> Vec<u8> {
    let mut head = busybox[..HEAD_LEN].to_vec();
    let headers = headers_len(&head).min(HEAD_LEN - 8);
    for _ in 0..random.usize(1..=3) {
        mutate(random, &mut head, 4..headers);
    }
    head
}

/// Bytes of an ELF file's own header and its program headers.
pub fn headers_len(head: &[u8]) -> usize {
    64 + 56 * usize::from(u16::from_le_bytes([head[56], head[57]]))
}

/// Changes a field that begins in a part of a file's first bytes, at least eight bytes before their end.
pub fn mutate(random: &mut fastrand::Rng, head: &mut [u8], part: std::ops::Range<usize>) {
    let at = random.usize(part.clone());
    match random.u8(0..5) {
        0 => head[at] ^= 1 << random.u8(0..8),
        1 => head[at] = random.u8(..),
        2 => head[at..at + 8].fill([0, 0xff][random.usize(0..2)]),
        // Fields of 8 bytes at the ends of what they can hold.
        3 => {
            let at = at & !7;
            let extreme = [u64::MAX, 1 << 63, (1 << 47) - 1, 1 << 47, 0xffff_9000_0000_0000, u64::MAX - 4095];
            head[at..at + 8].copy_from_slice(&extreme[random.usize(0..extreme.len())].to_le_bytes());
        }
        _ => {
            let from = random.usize(part);
            head.copy_within(from..from + 4, at);
        }
    }
}

fn corrupt_programs() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let heads = folder.path().join("heads");
    fs::create_dir(&heads).map_err(|error| error.to_string())?;
    let mut random = fastrand::Rng::with_seed(seed());
    for isa in ISAS {
        let path = process::target().join("userland").join(isa).join("busybox");
        let busybox = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for number in 0..MUTANTS {
            fs::write(heads.join(format!("{isa}.{number}")), mutant(&mut random, &busybox))
                .map_err(|e| e.to_string())?;
        }
    }
    let command = "cd /tmp; for isa in x86_64 aarch64 riscv64; do cp /isa/$isa/bin/busybox program; \
        for head in /in/heads/$isa.*; do dd if=$head of=program conv=notrunc 2>/dev/null; \
        timeout -s KILL 3 ./program true >/dev/null 2>&1 </dev/null; echo \"${head##*/} $?\"; done; \
        on $isa echo \"$isa is well\"; done";
    let ended = Motet::run(["--in".as_ref(), heads.as_os_str()])
        .arguments(["--", command])
        .limit(Duration::from_secs(900))
        .wait();
    let context = |error| format!("{SEED_VARIABLE}={}: {error}", seed());
    ended.expect_code(0).map_err(context)?;
    let failed = ended.output.lines().filter(|line| line.contains('.') && !line.ends_with(" 0")).count();
    let well = ISAS.iter().all(|isa| ended.output.contains(&format!("{isa} is well\n")));
    let lines = ended.output.lines().count();
    if lines == ISAS.len() * (MUTANTS + 1) && well && failed > MUTANTS {
        return Ok(());
    }
    Err(context(format!("{lines} lines, {failed} failures\n{}", ended.describe())))
}

fn truncated_programs() -> Result<(), String> {
    let command = "cd /tmp; for isa in x86_64 aarch64 riscv64; do for len in 4 15 16 17 63 64 65 119 120 176 400 4096 \
        100000; do head -c $len /isa/$isa/bin/busybox > program; chmod +x program; \
        (./program true) >/dev/null 2>&1 </dev/null && echo \"$isa $len succeeded\"; rm program; done; done; \
        on aarch64 echo end";
    Motet::command(command).wait().expect_code(0)?.expect_output("end\n").map(drop)
}

fn absent_isa() -> Result<(), String> {
    let (_folder, foreign) = file("foreign", {
        let busybox = process::target().join("userland/riscv64/busybox");
        fs::read(busybox).map_err(|error| error.to_string())?
    })?;
    let (_other, unknown) = file("unknown", {
        let mut bytes = fs::read(&foreign).map_err(|error| error.to_string())?;
        // EM_PPC64 (elf.h)
        bytes[18] = 21;
        bytes
    })?;
    for path in [&foreign, &unknown] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).map_err(|e| e.to_string())?;
    }
    let machine = process::root().join("machines/pair-x86-arm.toml");
    let command = "on riscv64 true; echo $?; on aarch64 /in/foreign true || echo foreign; \
        /in/unknown true 2>/dev/null || echo unknown; on aarch64 uname -m";
    let ended = Motet::run(["--verbose".as_ref(), "--machine".as_ref(), machine.as_os_str()])
        .arguments(["--in".as_ref(), foreign.as_os_str(), "--in".as_ref(), unknown.as_os_str()])
        .arguments(["--", command])
        .wait();
    ended.expect_code(0)?.expect_output("125\nforeign\nunknown\naarch64\n")?;
    let on = "on: no programs for 'riscv64'; there are: aarch64 x86_64";
    ended.expect_errors(&[on, "foreign: is a program for riscv64, and this machine has no riscv64 island"]).map(drop)
}

/// A file that the machine cannot run: its name, its contents, and what is said of it.
type Foreign = (&'static str, Vec<u8>, &'static str);

fn foreign_files() -> Result<Vec<Foreign>, String> {
    let path = process::target().join("userland/riscv64/busybox");
    let busybox = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    // Bytes from an offset on changed: 4 is the class, 5 the order of bytes, 16 the type, 18 the machine (elf.h).
    let changed = |changes: &[(usize, &[u8])]| {
        let mut bytes = busybox[..4096].to_vec();
        changes.iter().for_each(|(at, new)| bytes[*at..*at + new.len()].copy_from_slice(new));
        bytes
    };
    let padded = |start: &[u8]| [start, &[0; 600]].concat();
    Ok(vec![
        (
            "i386",
            changed(&[(4, &[1]), (18, &[3, 0])]),
            "is a 32-bit ELF program for Intel 80386; this machine runs 64-bit",
        ),
        ("mips", changed(&[(4, &[1]), (5, &[2]), (18, &[0, 8])]), "is a 32-bit big-endian ELF program for MIPS"),
        ("s390x", changed(&[(5, &[2]), (18, &[0, 22])]), "is a big-endian ELF program for IBM System/390"),
        ("ppc64", changed(&[(18, &[21, 0])]), "is an ELF program for 64-bit PowerPC; this machine runs"),
        (
            "unknown",
            changed(&[(18, &[0xdc, 0xfe])]),
            "is an ELF program for machine 0xfedc; this machine runs 64-bit little-endian ELF programs for x86_64, aarch64, riscv64",
        ),
        ("object", changed(&[(16, &[1, 0])]), "is no program but an object file, which has yet to be linked"),
        (
            "library",
            [changed(&[(16, &[3, 0]), (24, &[0; 8])]), busybox[4096..].to_vec()].concat(),
            "is no program but a library, without an entry point",
        ),
        ("cut", changed(&[]), "is a damaged ELF file: a segment is not in the file, which may be cut off"),
        ("stub", busybox[..10].to_vec(), "is a damaged ELF file: its header is cut off"),
        (
            "headers",
            changed(&[(56, &[0xff, 0xff])]),
            "is a damaged ELF file: number or size of its program headers is wrong",
        ),
        ("mach", padded(b"\xcf\xfa\xed\xfe\x07\0\0\x01"), "is a program for macOS (64-bit Mach-O); this machine runs"),
        ("windows", padded(b"MZ\x90\0\x03"), "is a program for Windows or DOS; this machine runs"),
        ("noise", padded(b"\x01\x02(((\0"), "is a binary file in a format that is not known here; this machine runs"),
    ])
}

/// On every instruction set: a line says what the file is, and the shell does not take it for a script. Scripts without `#!` are run.
fn foreign_programs() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let inputs = folder.path().join("files");
    fs::create_dir(&inputs).map_err(|error| error.to_string())?;
    let files = foreign_files()?;
    let scripts: [(&str, &[u8]); 2] =
        [("y-plain", b"MZ=1\nexit $((MZ + 6))\n"), ("z-packed", b"exit 8\n\x7fELF\0\0\x01\n")];
    let all = files.iter().map(|(name, bytes, _)| (*name, bytes.as_slice())).chain(scripts);
    for (name, bytes) in all {
        let path = inputs.join(name);
        let written =
            fs::write(&path, bytes).and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(0o755)));
        written.map_err(|error| error.to_string())?;
    }
    // The second way is the C library's, which tries a shell when execve says ENOEXEC.
    let command = "for isa in x86_64 aarch64 riscv64; do for file in /in/files/*; do on $isa sh -c \"$file\"; \
        status=$?; on $isa env $file 2>/dev/null; echo ${file##*/} $status $?; done; done";
    let ended = Motet::run(["--in".as_ref(), inputs.as_os_str()]).arguments(["--", command]).wait();
    let mut names: Vec<&str> = files.iter().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    let of_one: String = names.iter().map(|name| format!("{name} 126 126\n")).collect();
    ended.expect_code(0)?.expect_output(&format!("{of_one}y-plain 7 7\nz-packed 8 8\n").repeat(ISAS.len()))?;
    for (name, _, what) in &files {
        let line = format!("motet: /in/files/{name}: {what}");
        let lines = ended.errors.lines().filter(|said| said.starts_with(&line)).count();
        // Once for each way and instruction set.
        if lines != 2 * ISAS.len() {
            return Err(format!("{lines} times {line:?}\n{}", ended.describe()));
        }
    }
    for wrong in ["syntax error", "not found"] {
        if ended.errors.contains(wrong) {
            return Err(format!("a shell has read a program\n{}", ended.describe()));
        }
    }
    Ok(())
}

/// The default machine with a smaller pool.
fn with_pool(size: &str, command: &str) -> Result<process::Ended, String> {
    let text = fs::read_to_string(process::root().join("machines/default.toml")).map_err(|error| error.to_string())?;
    on_machine(&text.replace("size = \"1GiB\"", &format!("size = \"{size}\"")), command)
}

/// Files, then memory of programs: what asks for too much fails or is killed, and then there is room again.
fn full_pool() -> Result<(), String> {
    let command = "on aarch64 dd if=/dev/zero of=/tmp/full bs=64k 2>/dev/null || echo full; rm -f /tmp/full; \
        for isa in x86_64 aarch64 riscv64; do on $isa dd if=/dev/zero of=/tmp/again bs=1M count=20 2>/dev/null; \
        echo $?; rm -f /tmp/again; on $isa awk 'BEGIN { text = \"0123456789abcdef\"; while (1) text = text text }' \
        2>/dev/null || echo failed; done; on aarch64 echo end";
    let wanted = format!("full\n{}end\n", "0\nfailed\n".repeat(3));
    with_pool("96MiB", command)?.expect_code(0)?.expect_output(&wanted).map(drop)
}

/// `fork` fails before memory runs out, so nobody is killed.
fn many_processes() -> Result<(), String> {
    let command = "(number=0; while [ $number -lt 2000 ]; do sleep 1000 & number=$((number + 1)); done) 2>/tmp/errors \
        || echo refused $?; kill -KILL -1; while set -- /proc/[0-9]*; [ $# -gt 1 ]; do :; done; \
        for isa in x86_64 aarch64 riscv64; do on $isa sh -c 'echo \"$(echo $0 forks)\"' $isa; done";
    let wanted = "refused 2\nx86_64 forks\naarch64 forks\nriscv64 forks\n";
    with_pool("64MiB", command)?.expect_code(0)?.expect_output(wanted).map(drop)
}
