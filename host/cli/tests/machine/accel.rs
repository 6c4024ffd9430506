//! The FPGA (`docs/protocols/fpga.md`) as programs without a library see it: what accelerators compute for all instruction sets at once, a client
//! that is stopped and goes on, clients that are killed, and what is refused.

use std::fs;

use libtest_mimic::Trial;

use crate::{crossing::compiled, process::Motet, trial};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("accel::programs_of_all_instruction_sets_share_regions", shared),
        ("accel::who_is_preempted_goes_on_with_the_same_result", || everywhere("preemption")),
        ("accel::a_killed_client_is_noticed_by_nobody", || everywhere("killed")),
        ("accel::what_accelerators_do_not_do_is_refused", || everywhere("refused")),
        ("accel::a_port_that_fails_is_a_bus_error_once", || right("on riscv64 /in/accel port", "port_faults = 1\n", 1)),
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
    let programs = compiled("accel", &["-O2"])?;
    let (path, program) = (programs.path.join("machine.toml"), programs.path.join("accel"));
    let islands = ["x86_64", "aarch64", "riscv64"]
        .map(|isa| format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 1\n"));
    let text = format!("[pool]\nsize = \"512MiB\"\n{}[fpga]\n{keys}{FPGA}", islands.concat());
    fs::write(&path, text).map_err(|error| error.to_string())?;
    let ended = Motet::run(["--in".as_ref(), program.as_os_str(), "--machine".as_ref(), path.as_os_str()])
        .arguments(["--quiet"])
        .arguments(["--", command])
        .wait();
    ended.expect_code(0)?.expect_output(&"right\n".repeat(times)).map(drop)
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

fn absent() -> Result<(), String> {
    let ended = compiled("accel", &["-O2"])?.run("accel refused", None);
    ended.expect_code(1)?.expect_output("/dev/accel/fft512: No such file or directory\n").map(drop)
}
