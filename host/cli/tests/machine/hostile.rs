//! What an unprivileged process tries to do to the processes and files of others, on every island: it ends as on Linux, and
//! nothing of theirs has changed.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use crate::{
    crossing::{Programs, compiled as compiled_for_all},
    process::{self, ISAS, Motet},
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("hostile::attempts_on_others_end_as_on_linux", on_machine),
        trial("hostile::addresses_of_one_program_say_nothing_of_the_next", placed),
        trial("hostile::the_table_is_that_of_the_hosts_linux", on_host).for_the_superuser(),
    ]
}

/// Programs are placed at random on each instruction set, unless they or the superuser say otherwise, and on timed machines.
fn placed() -> Result<(), String> {
    let programs = compiled_for_all("placed", &["-O1"])?;
    let placed = |way: &str| format!("stack {way} heap {way} mappings {way}\n");
    let (at_random, as_ever) = (placed("at random"), placed("as ever"));
    let each = |isa: &&str| format!("on {isa} /in/programs/placed; ");
    let command: String = ISAS.iter().map(each).collect();
    let setting = "/proc/sys/kernel/randomize_va_space";
    let command =
        format!("cat {setting}; {command} echo 0 >{setting}; /in/programs/placed; echo 3 >{setting}; cat {setting}");
    let both = format!("unasked: {at_random}personality: {as_ever}");
    let neither = format!("unasked: {as_ever}personality: {as_ever}");
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str()]).arguments(["--", &command]).wait();
    ended.expect_code(0)?.expect_output(&format!("2\n{}{neither}0\n", both.repeat(ISAS.len())))?;
    let ended = Motet::run(["--timed", "--quiet", "--in"])
        .arguments([programs.path.as_os_str(), "--".as_ref(), "/in/programs/placed".as_ref()])
        .wait();
    ended.expect_code(0)?.expect_output(&neither).map(drop)
}

/// The program's sources.
fn sources() -> Result<Vec<PathBuf>, String> {
    let folder = process::root().join("tests/guest/hostile");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sources: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    Ok(sources)
}

/// The program, compiled for all instruction sets.
fn compiled() -> Result<Programs, String> {
    let programs = Programs::new()?;
    let mut sources = sources()?;
    let main = sources.pop().ok_or("there are no sources")?;
    let mut options: Vec<&str> = sources.iter().filter_map(|path| path.to_str()).collect();
    options.push("-O1");
    programs.compile(&main, "hostile", &options)?;
    Ok(programs)
}

/// On each island, as two users that are not the superuser.
fn on_machine() -> Result<(), String> {
    let programs = compiled()?;
    let command = format!(
        "for isa in {}; do echo $isa; on $isa /in/programs/hostile 1000 1001 || echo failed; done; echo alive",
        ISAS.join(" ")
    );
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str()])
        .arguments(["--", &command])
        .limit(Duration::from_secs(600))
        .wait();
    let ended = ended.expect_code(0)?;
    let mut lines = ended.output.lines();
    let mut counts = ISAS.iter().map(|isa| (lines.next() == Some(*isa)).then(|| lines.next()).flatten());
    let first = counts.next().flatten().filter(|line| line.ends_with(" attempts, 0 not as on Linux"));
    let well = first.is_some() && counts.all(|count| count == first) && lines.eq(["alive"]);
    if well { Ok(()) } else { Err(ended.describe()) }
}

/// What is expected is what Linux does. Only the superuser can become another user.
fn on_host() -> Result<(), String> {
    let programs = Programs::new()?;
    let program = programs.path.join("hostile");
    // The host's own compiler and C library, so that nothing of Motet's is in the table.
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&program).args(sources()?).output();
    let compiled = compiled.map_err(|error| format!("cc, which ./motet test installs: {error}"))?;
    if !compiled.status.success() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
    }
    // Users that have no processes of their own here.
    let ended = Command::new(program).args(["64001", "64002"]).output();
    let ended = ended.map_err(|error| error.to_string())?;
    let [output, errors] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if ended.status.success() && output.lines().count() == 1 { Ok(()) } else { Err(format!("{output}{errors}")) }
}
