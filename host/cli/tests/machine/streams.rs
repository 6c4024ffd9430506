//! Standard output that programs of all instruction sets share.

use motet_layout::PIPE_BUF;

use crate::{
    crossing::compiled,
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![trial("streams::short_writes_are_not_mixed", not_mixed)]
}

/// Short and long lines that a pipe would not mix, from programs that run beside each other. The long ones fill the stream.
fn not_mixed() -> Result<(), String> {
    let programs = compiled("lines", &["-O1"])?;
    let program = programs.path.join("lines");
    for (lines, length) in [(2000, 10), (200, PIPE_BUF - 1)] {
        let all = ISAS.map(|isa| format!("on {isa} /in/lines {lines} {length} &"));
        let command = format!("{} wait", all.join(" "));
        let ended = Motet::run(["--in".as_ref(), program.as_os_str()]).arguments(["--quiet", "--", &command]).wait();
        let line = format!("{}\n", "x".repeat(length));
        ended.expect_code(0)?.expect_output(&line.repeat(lines * ISAS.len()))?;
    }
    Ok(())
}
