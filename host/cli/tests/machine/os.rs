//! The operations that `motet bench os` counts beside Linux (`user/os`).

use crate::{
    crossing::Programs,
    hthreads::source,
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![trial("os::every_operation_that_is_counted_succeeds_on_every_instruction_set", everywhere)]
}

fn everywhere() -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&source("user/os/os.c"), "os", &["-O2", "-Wall", "-Werror"])?;
    let command = format!("for isa in {}; do on $isa /in/programs/os quick || exit; done", ISAS.join(" "));
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str(), "--".as_ref(), command.as_ref()]).wait();
    ended.expect_code(0)?.expect_output(&"os: ok\n".repeat(ISAS.len())).map(drop)
}
