//! One user cannot take the machine, and what is done for many takes about as long for each as for few.

use std::{fs, time::Duration};

use crate::{
    bad_input::of_its_day,
    crossing::compiled,
    process::{Ended, ISAS, Motet},
    trial::{Trial, of_long, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    let of_isas = ISAS.iter().map(|isa| {
        let name = format!("scaling::what_is_done_for_one_of_many_takes_as_long_as_for_one_of_few_on_{isa}");
        of_its_day(trial(&name, || growth(isa)), isa)
    });
    let others = [
        trial("scaling::a_user_who_takes_all_memory_leaves_the_superuser_some", hogs),
        trial("scaling::memory_of_files_and_threads_goes_back", slabs),
        trial("scaling::lines_about_programs_that_crash_are_limited", lines),
    ];
    others.into_iter().chain(of_isas).collect()
}

/// Runs a program of `tests/guest/cc` on a machine of one island.
fn run_on(isa: &str, size: &str, cores: u32, program: &str, options: &[&str]) -> Result<Ended, String> {
    let programs = compiled(program.split(' ').next().unwrap_or(program), &["-O2"])?;
    let machine = programs.path.join("machine.toml");
    let text = format!("[pool]\nsize = \"{size}\"\n[[island]]\nname = \"only\"\nisa = \"{isa}\"\ncores = {cores}\n");
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    Ok(Motet::run(options)
        .arguments(["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), programs.path.as_os_str()])
        .arguments(["--", &format!("/in/programs/{program}")])
        .limit(Duration::from_secs(of_long(300, 3000)))
        .wait())
}

fn hogs() -> Result<(), String> {
    let ways = ["files", "folders", "names", "sockets", "pages", "tables", "areas"];
    let wanted: String = ways.iter().map(|way| format!("{way}: root goes on\n")).collect();
    run_on("x86_64", "128MiB", 2, "hog", &[])?
        .expect_code(0)?
        .expect_output(&wanted)?
        .expect_errors(&["of user 1000 is killed: memory is used up ("])
        .map(drop)
}

/// Each list that a user can make long, one after the other: nothing that is done for one of it grows with it. In the long run there are a hundred thousand.
fn growth(isa: &str) -> Result<(), String> {
    let (size, program) = of_long(("768MiB", "growth"), ("6GiB", "growth long"));
    let ended = run_on(isa, size, 1, program, &["--timed", "--quiet"])?;
    ended.expect_code(0)?;
    let cases = ended.output.lines().count();
    if cases > 20 && ended.output.lines().all(|line| line.ends_with(": no matter")) {
        Ok(())
    } else {
        Err(ended.describe())
    }
}

/// What is left in `Slab:` is little, once what needed it has gone.
fn slabs() -> Result<(), String> {
    run_on("x86_64", "256MiB", 2, "crowd", &[])?
        .expect_code(0)?
        .expect_output("files: memory has gone back\n4096 locks: no more\nthreads: memory has gone back\n")
        .map(drop)
}

/// A program that is refused 701 times: at first each time is said, and then how many were not.
fn lines() -> Result<(), String> {
    let command = "printf '\\177ELFdamaged' > /tmp/bad; chmod +x /tmp/bad; begun=$(date +%s); n=0; \
        while [ $n -lt 700 ]; do /tmp/bad 2>/dev/null; n=$((n + 1)); done; \
        echo $(($(date +%s) - begun)); sleep 1; /tmp/bad 2>/dev/null; echo end";
    let ended = Motet::command(command).limit(Duration::from_secs(300)).wait();
    ended.expect_code(0)?;
    let seconds = ended.output.strip_suffix("\nend\n").and_then(|seconds| seconds.parse::<usize>().ok());
    let said = ended.errors.lines().filter(|line| line.starts_with("motet: /tmp/bad: ")).count();
    let is_whole = ended.errors.lines().all(|line| line.matches("motet: ").count() <= 1);
    let left_out = |line: &str| {
        let count = line.strip_prefix("motet: ")?.strip_suffix(" lines were left out: too many came at once")?;
        count.parse::<usize>().ok()
    };
    let all = said + ended.errors.lines().filter_map(left_out).sum::<usize>();
    // 256 at once, and 32 a second.
    let is_limited = seconds.is_some_and(|seconds| (200..256 + 32 * (seconds + 2)).contains(&said));
    if is_limited && is_whole && all == 701 { Ok(()) } else { Err(ended.describe()) }
}
