//! Random system calls on every island: the kernels refuse or obey, and stay.

use std::{fs, path::PathBuf, time::Duration};

use libtest_mimic::Trial;

use crate::{
    bad_input,
    process::{self, Motet},
    trial,
};

const CHILDREN: u32 = 60;
const CALLS: u32 = 300;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let fuzz = |isa: &'static str| trial(&format!("fuzz::random_system_calls_on_{isa}"), move || random_calls(isa));
    bad_input::ISAS.into_iter().map(fuzz).collect()
}

fn random_calls(isa: &str) -> Result<(), String> {
    let program: PathBuf = process::target().join(bad_input::target_of(isa)).join("release/fuzz");
    if !program.is_file() {
        return Err(format!("{} is not built", program.display()));
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let copy = folder.path().join("fuzz");
    fs::copy(&program, &copy).map_err(|error| error.to_string())?;
    let seed = bad_input::seed();
    let command = format!(
        "mkdir /tmp/work; cd /tmp/work; on {isa} /in/fuzz {seed} {CHILDREN} {CALLS} >&2 || echo failed; cd /; \
        for isa in x86_64 aarch64 riscv64; do on $isa sh -c 'echo \"$(echo alive)\" | cat'; done"
    );
    let ended = Motet::run(["--verbose".as_ref(), "--in".as_ref(), copy.as_os_str()])
        .arguments(["--", &command])
        .limit(Duration::from_secs(120))
        .wait();
    let fine = ended.expect_code(0).and_then(|ended| ended.expect_output("alive\nalive\nalive\n")).map(drop);
    fine.map_err(|error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE))
}
