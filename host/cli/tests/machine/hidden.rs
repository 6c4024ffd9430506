//! Harts with vector registers that the firmware hides: Debian's Linux, on harts without, runs programs that need them
//! (`tests/guest/linux/vectors.c`); Motet sends threads there itself (`tests/guest/cc/hidden.c`, `extension.c`).

use std::{fs, path::PathBuf};

use motet_fabric::stats::Stats;
use motet_layout::Isa;
use motet_toolchain::Tools;

use crate::{
    crossing::{Programs, source},
    firmware::{Board, archive, firmware, linux_kernel},
    hthreads::FOR_ONE,
    placement::shipped,
    process::{Motet, root, target},
    trial::{Trial, of_long, trial},
};

/// Interrupt controllers of both kinds, who sets the timer, how long registers are, and whether harts wait for each other.
const BOARDS: [(&str, &str, &[&str]); 3] = [
    ("messages", "2", &["-machine", "virt,aia=aplic-imsic", "-cpu", "rv64,v=true"]),
    ("wires_and_the_firmwares_timer", "2", &["-machine", "virt", "-cpu", "rv64,v=true,vlen=256,sstc=off,sv57=off"]),
    ("one_hidden_hart", "1", &["-machine", "virt,aia=aplic-imsic", "-cpu", "max,vlen=1024"]),
];

/// What Motet's threads on hidden harts do, as a command of a program, and what that prints.
const MOTET: [(&str, &str, &str); 7] = [
    ("keeps_vectors_through_every_way_home", "extension ways | sort", WAYS),
    ("lets_threads_wait_for_room_in_the_firmware", "extension crowd 40", "right 40 of 40\n"),
    ("tells_programs_that_there_are_no_vectors", "extension told", "hwcap 0 hwprobe 0 0\n"),
    ("kills_a_thread_on_a_hidden_hart", "hidden kill", "killed 1\nstopped 1\n"),
    ("signals_a_thread_on_a_hidden_hart", "hidden alarm", "counted 1\nsent 1\ncalled home 1\n"),
    ("ends_slices_on_hidden_harts", "hidden turns TURNS", "took turns TURNS of TURNS\n"),
    ("calls_threads_home_before_pages_change", "hidden protect", "frozen 1\nfaulted\n"),
];
/// Sorted, as parent and child run at the same time.
const WAYS: &str = "another thread kept\nchild kept\npage faults kept\nparent kept\nshoot-down kept\nsignal handler kept\n\
    sleep kept\nslices without use kept\nsystem call kept\nyield kept\n";

/// All of them.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("firmware::harts_that_cannot_be_hidden_are_named", refused),
        trial("firmware::the_check_program_does_not_see_hidden_harts", check),
        trial("firmware::hidden_harts_have_their_part_of_simulated_time", timed),
        trial("firmware::timed_runs_refuse_more_harts_than_they_have_places_for", too_many),
    ];
    trials.extend(MOTET.map(|(name, program, output)| {
        let [program, output] = [program, output].map(|text| text.replace("TURNS", of_long("10", "40")));
        trial(&format!("firmware::motet_{name}"), move || motet(&program, &output))
    }));
    trials.extend(BOARDS.map(|(name, hidden, board)| {
        let name = format!("firmware::debians_linux_runs_vectors_on_hidden_harts_with_{name}");
        trial(&name, || linux(hidden, board)).sharing(FOR_ONE)
    }));
    trials
}

/// The option that asks for hidden harts.
fn option(number: &str) -> String {
    format!("name=opt/org.motet/hidden-harts,string={number}")
}

/// The program, for Linux.
fn program() -> Result<Vec<u8>, String> {
    let tools = Tools::find(&target().join("toolchain")).map_err(|error| error.message)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let output = folder.path().join("init");
    let mut compile = tools.command("cc");
    compile.args(["-target", "riscv64-linux-musl", "-static", "-O2", "-Wall", "-Werror"]);
    compile.arg(root().join("tests/guest/linux/vectors.c")).arg("-o").arg(&output);
    compile.env("ZIG_GLOBAL_CACHE_DIR", target().join("toolchain/zig-cache"));
    let ended = compile.output().map_err(|error| error.to_string())?;
    if !ended.status.success() {
        return Err(String::from_utf8_lossy(&ended.stderr).into_owned());
    }
    fs::read(output).map_err(|error| error.to_string())
}

fn linux(hidden: &str, board: &[&str]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let initramfs = folder.path().join("initramfs");
    fs::write(&initramfs, archive(&[("init", &program()?)])).map_err(|error| error.to_string())?;
    let initramfs = initramfs.to_str().ok_or("the folder's name must be UTF-8")?;
    let option = option(hidden);
    let linux = ["-initrd", initramfs, "-append", "console=ttyS0 quiet panic=-1", "-no-reboot", "-fw_cfg", &option];
    let text = Board::start(&firmware(), &linux_kernel(Isa::RiscV64)?, &[board, &linux].concat())?.ended()?;
    let seen = 4 - hidden.parse::<u32>().map_err(|error| error.to_string())?;
    let wanted = [
        &format!("program: {seen} harts without vectors")[..],
        "program: all ok",
        " trips to hidden harts: ",
        &format!("{seen} harts and {hidden} hidden"),
    ];
    match wanted.iter().find(|part| !text.contains(**part)) {
        None if ended_in_all_ways(&text) => Ok(()),
        None => Err(format!("trips did not end in all ways\n{text}")),
        Some(part) => Err(format!("{part:?} is not in\n{text}")),
    }
}

/// Whether the firmware has counted some of each: system calls, page faults, other exceptions, interrupts.
fn ended_in_all_ways(text: &str) -> bool {
    let Some((_, counts)) = text.split_once(" trips to hidden harts: ") else { return false };
    let line = counts.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.len() == 4 && numbers.iter().all(|number| *number > 0)
}

/// Runs a program on Motet, with more hidden harts than cores, with fewer, and with registers that are long.
fn motet(command: &str, output: &str) -> Result<(), String> {
    let program = command.split(' ').next().unwrap_or_default();
    let programs = Programs::new()?;
    let path = programs.path.join(program).display().to_string();
    programs.compile(&source(program), "fat", &["--isa", "riscv64", "-O1", "--emit-isa", "riscv64", &path])?;
    let machine = programs.path.join("machine.toml");
    for (cores, hidden, cpu) in [(1, 2, "rv64,v=true"), (3, 1, "rv64,v=true"), (2, 2, "rv64,v=true,vlen=1024")] {
        let text = format!(
            "migration = \"firmware\"\n[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\n\
             cores = {cores}\ncpu = \"{cpu}\"\nfirmware = \"motet\"\nhidden_harts = {hidden}\n"
        );
        fs::write(&machine, text).map_err(|error| error.to_string())?;
        let arguments = ["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
        let ended = Motet::run(arguments).arguments(["--", &format!("/in/programs/{command}")]).wait();
        ended.expect_code(0)?.expect_output(output)?;
    }
    Ok(())
}

/// Vector instructions are charged to the hidden hart, and the program's clock shows their time; twice the same in deterministic runs.
fn timed() -> Result<(), String> {
    const VECTORS: u64 = 200_000;
    let programs = Programs::new()?;
    let path = programs.path.join("trips").display().to_string();
    programs.compile(&source("trips"), "fat", &["--isa", "riscv64", "-O1", "--emit-isa", "riscv64", &path])?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let run = |name: &str, options: &[&str]| {
        let stats = folder.path().join(name);
        let motet = Motet::run(["--timed", "--quiet"]).arguments(options).argument("--stats").argument(&stats);
        let motet =
            motet.argument("--machine").argument(shipped("ftm-firmware")).argument("--in").argument(&programs.path);
        let ended = motet.arguments(["--", &format!("/in/programs/trips compute {VECTORS}")]).wait();
        ended.expect_code(0)?.expect_output("took time 1\n")?;
        fs::read_to_string(stats).map_err(|error| error.to_string())
    };
    let text = run("by side", &[])?;
    let stats: Stats = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let [home, hidden] = &stats.cores[..] else { return Err(format!("not two cores: {text}")) };
    let is_charged = hidden.instructions >= VECTORS && hidden.time_ps - hidden.idle_ps >= VECTORS * 1000;
    let is_marked = (home.hidden, hidden.hidden, stats.machine.islands[0].hidden_harts) == (0, 1, 1);
    // The core sleeps meanwhile, which holds nobody up.
    if !is_charged || !is_marked || home.idle_ps < VECTORS * 900 || stats.time_ps < hidden.time_ps {
        return Err(format!("{home:?}\n{hidden:?}"));
    }
    let [one, other] = ["one", "other"].map(|name| run(name, &["--deterministic"]));
    if one? == other? { Ok(()) } else { Err("two deterministic runs differ".into()) }
}

fn too_many() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let machine = folder.path().join("machine.toml");
    let text = "migration = \"firmware\"\n[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\n\
        cores = 10\nfirmware = \"motet\"\nhidden_harts = 7\n";
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    let ended =
        Motet::run(["--timed".as_ref(), "--machine".as_ref(), machine.as_os_str()]).arguments(["--", "true"]).wait();
    ended.expect_code(78)?.expect_errors(&["hidden_harts: 7 of island \"a\" and its 10 cores", "at most 16 in all"])?;
    Ok(())
}

fn refused() -> Result<(), String> {
    let check = check_program();
    for (cpu, number, reason) in [
        ("rv64,v=true", "4", "as many harts are to be hidden as there are"),
        ("rv64", "1", "no vector registers: start QEMU with -cpu rv64,v=true"),
        ("rv64,v=true", "some", "must be a number of harts"),
    ] {
        let mut board =
            Board::start(&firmware(), &check, &["-machine", "virt", "-cpu", cpu, "-fw_cfg", &option(number)])?;
        let text = board.until(std::time::Duration::from_secs(600), |text| text.contains('\n'));
        if !text.contains(reason) {
            return Err(format!("{cpu}, {number}: {text}"));
        }
    }
    Ok(())
}

/// To a supervisor that asks, there are two harts, and the program uses all of them.
fn check() -> Result<(), String> {
    let option = option("2");
    let board = ["-machine", "virt", "-cpu", "rv64,v=true", "-fw_cfg", &option];
    let text = Board::start(&firmware(), &check_program(), &board)?.ended()?;
    if text.contains("check: all of 2 harts ok") { Ok(()) } else { Err(text) }
}

fn check_program() -> PathBuf {
    target().join("riscv64imac-unknown-none-elf/kernel/motet-firmware-check")
}
