//! The FPGA (`docs/protocols/fpga.md`) as programs without a library see it: what accelerators compute for all instruction sets at once, a client
//! that is stopped and goes on, clients that are killed, and what is refused.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::{
    crossing::{Programs, compiled},
    process::{self, Motet},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 12] = [
        ("accel::programs_of_all_instruction_sets_share_regions", shared),
        ("accel::who_is_preempted_goes_on_with_the_same_result", || everywhere("preemption")),
        ("accel::a_killed_client_is_noticed_by_nobody", || everywhere("killed")),
        ("accel::what_accelerators_do_not_do_is_refused", || everywhere("refused")),
        ("accel::a_port_that_fails_is_a_bus_error_once", || right("on riscv64 /in/accel port", "port_faults = 1\n", 1)),
        ("accel::a_machine_that_is_gone_leaves_the_data_where_they_were", || {
            right("on riscv64 /in/accel machines", "", 1)
        }),
        ("accel::timed_runs_compute_the_same", timed),
        ("accel::deterministic_runs_are_the_same_each_time", deterministic),
        ("accel::allocations_take_no_longer_than_at_worst", bounded),
        ("accel::work_for_modest_clients_does_not_delay_an_urgent_thread", inherited),
        ("accel::bounds_of_what_is_not_there_are_refused", refused_bounds),
        ("accel::machines_without_an_fpga_have_no_accelerators", absent),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// Two regions. Only the larger one takes transforms, whose frames take long.
pub const FPGA: &str = "port_kib_ns = 7062
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

/// On `machines/embedded.toml`, whose core has each instruction set in turn: the longest allocations that were measured, with cold caches and without, beside the
/// bounds of `motet wcet`.
fn bounded() -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&process::root().join("user/ker-one/accelerators.c"), "accelerators", &["-O2"])?;
    let text = fs::read_to_string(process::root().join("machines/embedded.toml")).map_err(|error| error.to_string())?;
    for isa in process::ISAS {
        let machine = programs.path.join("machine.toml");
        fs::write(&machine, text.replace("aarch64", isa)).map_err(|error| error.to_string())?;
        let file = ["--machine".as_ref(), machine.as_os_str()];
        let program = programs.path.join("accelerators");
        // How long a preemption waits depends on where in a block the accelerator is: some of many come near the longest.
        let ended = Motet::run(["--timed", "--deterministic", "--quantum", "1", "--quiet", "--in"])
            .argument(&program)
            .arguments(file)
            .arguments(["--", "/in/accelerators allocate 16"])
            .wait();
        let json = programs.path.join("bounds.json");
        let computed = Motet::default().argument("wcet").arguments(file).argument("--json").argument(&json).wait();
        computed.expect_code(0)?;
        let bounds: Value =
            fs::read(&json).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        compare(&ended.expect_code(0)?.output, &bounds).map_err(|what| format!("{isa}: {what}"))?;
    }
    Ok(())
}

/// No allocation takes longer than its bound, and for each path some accelerator comes near it.
fn compare(output: &str, bounds: &Value) -> Result<(), String> {
    let least = |path: &str| {
        let all = output.lines().filter(|line| line.split([' ', '-']).next() == Some(path));
        let ratios = all.map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let times: Vec<f64> = words[2..].iter().filter_map(|word| word.parse().ok()).collect();
            let is_it = |bound: &&Value| bound["accelerator"] == words[1] && bound["priority"] == 0;
            let bound = bounds["bounds"].as_array().and_then(|all| all.iter().find(is_it));
            let bound_ps = bound.and_then(|bound| bound[format!("{path}_ps")].as_f64()).unwrap_or(f64::NAN);
            (bound_ps / (1000.0 * (times[1] - times[0])), line)
        });
        ratios.min_by(|one, other| one.0.total_cmp(&other.0)).ok_or_else(|| format!("nothing took the path {path}"))
    };
    for path in ["direct", "reconfigure", "preempt", "both"] {
        let (ratio, line) = least(path)?;
        // The bound is that of a thread that sleeps, and these look. With reconfiguration, it is not always that of the largest region.
        let most = if path == "reconfigure" { 5.0 } else { 4.0 };
        if !(1.0..most).contains(&ratio) {
            return Err(format!("the bound is {ratio:.2} of `{line}`"));
        }
    }
    Ok(())
}

/// On one core, in deterministic runs: the longest piece of an urgent thread's work, with modest clients whose regions become ready meanwhile, and without.
/// Each time an interrupt comes, but what it is for is done later. It would take about 10 us.
fn inherited() -> Result<(), String> {
    const MORE_NS: u64 = 5000;
    let programs = compiled("urgent", &["-O2"])?;
    let run = |part: &str| -> Result<u64, String> {
        let (embedded, command) = (process::root().join("machines/embedded.toml"), format!("/in/urgent {part}"));
        let ended = Motet::run(["--timed", "--deterministic", "--quantum", "1", "--quiet", "--in"])
            .argument(programs.path.join("urgent"))
            .arguments(["--machine".as_ref(), embedded.as_os_str()])
            .arguments(["--", command.as_str()])
            .wait();
        ended.expect_code(0)?.output.trim().parse().map_err(|_| ended.describe())
    };
    let (alone, beside) = (run("alone")?, run("urgent")?);
    let is_right = alone < beside && beside < alone + MORE_NS;
    if is_right { Ok(()) } else { Err(format!("{alone} ns alone, {beside} ns beside others")) }
}

fn refused_bounds() -> Result<(), String> {
    let embedded = process::root().join("machines/embedded.toml");
    let wcet = |arguments: &[&str]| Motet::default().argument("wcet").arguments(arguments).wait();
    let with = |arguments: &[&str]| {
        Motet::default().argument("wcet").argument("--machine").argument(&embedded).arguments(arguments).wait()
    };
    let cases = [
        (wcet(&[]), "the machine has no FPGA: its file has no [fpga] table"),
        (with(&["--island", "x"]), "no island is called \"x\"; there are: ps"),
        (with(&["--client", "dct:1:1"]), "no accelerator is called \"dct\"; there are: qam16, "),
        (with(&["--client", "fir:40:1"]), "not ACCELERATOR:PRIORITY:JOB_US with a priority of 0 to 39"),
        (with(&["--client", "fir"]), "not ACCELERATOR:PRIORITY:JOB_US"),
    ];
    for (ended, message) in cases {
        if !ended.expect_code(64)?.errors.contains(message) {
            return Err(format!("{} is not in: {}", message, ended.errors));
        }
    }
    Ok(())
}

fn absent() -> Result<(), String> {
    let ended = compiled("accel", &["-O2"])?.run("accel refused", None);
    ended.expect_code(1)?.expect_output("/dev/accel/fft512: No such file or directory\n").map(drop)
}
