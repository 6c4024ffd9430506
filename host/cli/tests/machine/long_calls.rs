//! System calls that take long: what else is due on their core is done meanwhile. One program says so for each instruction set;
//! what it prints, Linux prints.

use std::time::Duration;

use crate::{
    crossing::{Programs, source},
    process::{Ended, ISAS, Motet},
    trial::{Trial, trial},
};

/// On a busy host the calls take long.
const LIMIT: Duration = Duration::from_secs(1200);
/// Calls that `many` tells of.
const MANY: usize = 63;
const SAID: &str = "\
reads_random: done, others ran
gets_random: done, others ran
reads_zeros: done, others ran
writes_file: done, others ran
reads_file: done, others ran
reads_vector: done, others ran
sends_file: done, others ran
copies_file: done, others ran
reads_random: ended by a signal
reads_zeros: ended by a signal
writes_file: not ended by a signal
reads_file: not ended by a signal
reads_vector: not ended by a signal
sends_file: ended by a signal
copies_file: ended by a signal
reads_random: killed
gets_random: killed
reads_zeros: killed
writes_file: killed
reads_file: killed
reads_vector: killed
sends_file: killed
copies_file: killed
shared: 12582912 bytes, 2 changes, at 12582912
appending: 12582912 bytes, 2 changes, at 12582912
closed meanwhile: read
truncates: done
fills and unlinks: done
makes and lists: done
";

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("long_calls::others_run_and_signals_end_what_they_end_on_linux", others_run),
        trial("long_calls::calls_about_many_things_do_what_they_do_on_linux", many_things),
    ]
}

/// A program, for each instruction set under its name.
fn programs(name: &str) -> Result<Programs, String> {
    let programs = Programs::new()?;
    let path = |isa: &str| programs.path.join(isa).display().to_string();
    let files = ISAS.map(path);
    let mut options = vec!["-O1"];
    for (isa, file) in ISAS.into_iter().zip(&files) {
        options.extend(["--emit-isa", isa, file]);
    }
    programs.compile(&source(name), "fat", &options)?;
    Ok(programs)
}

fn others_run() -> Result<(), String> {
    let programs = programs("long")?;
    run(&programs)?.expect_output(&SAID.repeat(ISAS.len())).map(drop)
}

/// Thousands of descriptors, processes, threads, ranges, pages and locks: the program says of each call whether it is done.
fn many_things() -> Result<(), String> {
    let ended = run(&programs("many")?)?;
    let lines = ended.output.lines();
    let is_well = lines.clone().count() == MANY * ISAS.len() && lines.clone().all(|line| line.ends_with(": done"));
    if is_well { Ok(()) } else { Err(ended.describe()) }
}

fn run(programs: &Programs) -> Result<Ended, String> {
    let command = format!("for isa in {}; do /in/programs/$isa || exit; done", ISAS.join(" "));
    let motet = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(["--", &command]);
    let ended = motet.limit(LIMIT).wait();
    ended.expect_code(0)?;
    Ok(ended)
}
