//! The FPGA (`docs/protocols/fpga.md`) as programs without a library see it: what accelerators compute for all instruction sets at once, a client
//! that is stopped and goes on, clients that are killed, and what is refused.

use std::{fs, path::PathBuf};

use libtest_mimic::Trial;

use crate::{crossing::compiled, process::Motet, trial};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 8] = [
        ("accel::programs_of_all_instruction_sets_share_regions", shared),
        ("accel::who_is_preempted_goes_on_with_the_same_result", || everywhere("preemption")),
        ("accel::a_killed_client_is_noticed_by_nobody", || everywhere("killed")),
        ("accel::what_accelerators_do_not_do_is_refused", || everywhere("refused")),
        ("accel::a_port_that_fails_is_a_bus_error_once", || right("on riscv64 /in/accel port", "port_faults = 1\n", 1)),
        ("accel::timed_runs_compute_the_same", timed),
        ("accel::deterministic_runs_are_the_same_each_time", deterministic),
        ("accel::machines_without_an_fpga_have_no_accelerators", absent),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Two regions. Only the larger one takes transforms, whose frames take long.
const FPGA: &str = "port_kib_ns = 7062
[[fpga.region]]
bitstream = 33495
[[fpga.region]]
bitstream = 117450
[[fpga.accelerator]]
name = \"qam16\"
frame_ns = 47000
regions = [1, 2]
[[fpga.accelerator]]
name = \"fft512\"
frame_ns = 20000000
regions = [2]
[[fpga.accelerator]]
name = \"fft1024\"
frame_ns = 1000000
regions = [2]
";

/// Runs a command; it says so often that all is right.
fn right(command: &str, keys: &str, times: usize) -> Result<(), String> {
    run(command, keys, &[], times).map(drop)
}

/// The same with arguments of `motet run`, of which those that begin with `@` name a file beside the program. What these files contain.
fn run(command: &str, keys: &str, arguments: &[&str], times: usize) -> Result<Vec<Vec<u8>>, String> {
    let programs = compiled("accel", &["-O2"])?;
    let (path, program) = (programs.path.join("machine.toml"), programs.path.join("accel"));
    let islands = ["x86_64", "aarch64", "riscv64"]
        .map(|isa| format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 1\n"));
    let text = format!("[pool]\nsize = \"512MiB\"\n{}[fpga]\n{keys}{FPGA}", islands.concat());
    fs::write(&path, text).map_err(|error| error.to_string())?;
    let file = |argument: &str| argument.strip_prefix('@').map(|name| programs.path.join(name));
    let told =
        arguments.iter().map(|argument| file(argument).map_or_else(|| (*argument).into(), PathBuf::into_os_string));
    let ended = Motet::run(["--in".as_ref(), program.as_os_str(), "--machine".as_ref(), path.as_os_str()])
        .arguments(told.collect::<Vec<_>>())
        .arguments(["--quiet", "--", command])
        .wait();
    ended.expect_code(0)?.expect_output(&"right\n".repeat(times))?;
    let read = |path: PathBuf| fs::read(&path).map_err(|error| format!("{}: {error}", path.display()));
    arguments.iter().filter_map(|argument| file(argument)).map(read).collect()
}

/// On each instruction set, one after the other.
fn everywhere(part: &str) -> Result<(), String> {
    let commands = ["x86_64", "aarch64", "riscv64"].map(|isa| format!("on {isa} /in/accel {part}"));
    right(&commands.join(" && "), "", commands.len())
}

fn shared() -> Result<(), String> {
    let all = ["x86_64", "aarch64", "riscv64"].map(|isa| format!("on {isa} /in/accel qam &"));
    right(&format!("{} wait", all.join(" ")), "", all.len())
}

/// Everything at once: all parts on all instruction sets.
fn all_parts(arguments: &[&str]) -> Result<Vec<Vec<u8>>, String> {
    let islands = ["x86_64", "aarch64", "riscv64"];
    let parts = ["qam", "preemption", "refused"];
    let commands = parts.map(|part| islands.map(|isa| format!("on {isa} /in/accel {part}")).join(" && "));
    let shared = islands.map(|isa| format!("on {isa} /in/accel qam &")).join(" ");
    run(&format!("{} && {{ {shared} wait; }}", commands.join(" && ")), "", arguments, 4 * islands.len())
}

fn timed() -> Result<(), String> {
    all_parts(&["--timed"])?;
    run("on riscv64 /in/accel port", "port_faults = 1\n", &["--timed"], 1)?;
    run("on aarch64 /in/accel killed", "", &["--timed"], 1).map(drop)
}

fn deterministic() -> Result<(), String> {
    let arguments = ["--timed", "--deterministic", "--stats", "@stats.json", "--trace", "@trace.json"];
    let (first, second) = (all_parts(&arguments)?, all_parts(&arguments)?);
    if first == second { Ok(()) } else { Err("two runs differ".into()) }
}

fn absent() -> Result<(), String> {
    let ended = compiled("accel", &["-O2"])?.run("accel refused", None);
    ended.expect_code(1)?.expect_output("/dev/accel/fft512: No such file or directory\n").map(drop)
}
