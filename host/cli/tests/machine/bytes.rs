//! The kernels' own memory functions, run as a program on the instruction set that they are written for.

use crate::{
    crossing::{Programs, source},
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![trial("bytes::kernels_copy_move_and_fill_what_they_are_told", memory_functions)]
}

fn memory_functions() -> Result<(), String> {
    let programs = Programs::new()?;
    let assembly = source("bytes").with_extension("S").display().to_string();
    programs.compile(&source("bytes"), "bytes", &["-O1", &assembly])?;
    let command = format!("for isa in {}; do on $isa /in/programs/bytes || exit; done", ISAS.join(" "));
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(["--", &command]).wait();
    ended.expect_code(0)?;
    ended.expect_output(&"as they should be\n".repeat(ISAS.len())).map(drop)
}
