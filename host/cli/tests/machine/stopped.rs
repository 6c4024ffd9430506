//! Processes that stop and go on (job control).

use std::fs;

use crate::{
    crossing::compiled,
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    ISAS.iter()
        .map(|isa| trial(&format!("stopped::no_thread_runs_once_the_parent_knows_on_{isa}"), || at_rest(isa)))
        .collect()
}

/// Threads on the cores of two islands.
fn at_rest(isa: &str) -> Result<(), String> {
    let programs = compiled("stopped", &["-O2", "--isa", isa])?;
    let machine = programs.path.join("machine.toml");
    let island = |name| format!("[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\ncores = 2\n");
    let text = format!("[pool]\nsize = \"256MiB\"\n{}{}", island("first"), island("second"));
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    let arguments = ["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()];
    let ended = Motet::run(arguments).arguments(["--", "/in/programs/stopped"]).wait();
    ended.expect_code(0)?.expect_output("stopped 30, changed 0, continued 30\nseen 0, ended 1\nneither 0\n").map(drop)
}
