//! Pseudo-terminals: a program types and reads on one instruction set, and a shell has the terminal on another one.

use crate::{
    crossing::{Programs, source},
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![trial("terminals::a_shell_of_another_instruction_set_has_jobs_there", shells)]
}

/// On each instruction set in turn, with a shell of the next one.
fn shells() -> Result<(), String> {
    let programs = Programs::new()?;
    let path = |isa: &str| programs.path.join(isa).display().to_string();
    let files = ISAS.map(path);
    let mut options = vec!["-O1"];
    for (isa, file) in ISAS.into_iter().zip(&files) {
        options.extend(["--emit-isa", isa, file]);
    }
    programs.compile(&source("terminal"), "fat", &options)?;
    let next = |at: usize| ISAS[(at + 1) % ISAS.len()];
    let runs = ISAS.iter().enumerate().map(|(at, isa)| format!("/in/programs/{isa} {}", next(at)));
    let command = runs.collect::<Vec<_>>().join(" && ");
    let said = (0..ISAS.len()).map(|at| format!("a shell of {}: well\n", next(at))).collect::<String>();
    let motet = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(["--", &command]);
    motet.wait().expect_code(0)?.expect_output(&said).map(drop)
}
