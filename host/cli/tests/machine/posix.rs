//! The Open POSIX Test Suite, as Debian has it: its tests of interfaces, on every instruction set. `tests/guest/posix/failing.txt` has what does not pass, and why.
//!
//! All of them in `./motet test long`; who names the test gets those of some interfaces, which change from day to day.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    bad_input::{SEED_VARIABLE, seed},
    libc_test::parallel,
    libraries::{cc, fetched, text},
    process::{self, ISAS, Motet},
    trial::{Trial, of_long, trial},
};

/// As its makefile has them.
const OPTIONS: [&str; 5] = ["-O1", "-w", "-std=gnu99", "-D_GNU_SOURCE", "-Iinclude"];
/// Tests that run at a time on each instruction set.
const WORKERS: usize = 4;
/// Programs that a machine has at a time: each has 200 KiB.
const PROGRAMS_MAX: usize = 420;
/// One interface of so many, unless what is slow is asked for.
const PART: usize = 24;

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![trial("posix::interfaces_do_what_the_open_posix_test_suite_wants", check).long()]
}

/// A test's name, `INTERFACE.N-M`, and its source.
type Sources = BTreeMap<String, PathBuf>;
/// What a test does on each instruction set: as `tests/guest/posix/run.c` says.
type Outcomes = BTreeMap<String, [String; 3]>;

fn check() -> Result<(), String> {
    let sources = fetched("posixtestsuite")?;
    let tests = chosen(tests_of(&sources)?);
    let folder = tempfile::tempdir().map_err(text)?;
    let programs = folder.path().join("posix");
    fs::create_dir(&programs).map_err(text)?;
    let run = process::root().join("tests/guest/posix/run.c");
    let mut to_compile: Vec<(String, PathBuf)> = tests.clone().into_iter().collect();
    to_compile.push(("run".into(), run));
    parallel(&to_compile, |(name, source)| build(&sources, source, &programs.join(name)))?;
    let names: Vec<&String> = tests.keys().filter(|name| programs.join(name).exists()).collect();
    let mut outcomes: Outcomes = tests.keys().map(|name| (name.clone(), ISAS.map(|_| "not built".into()))).collect();
    for part in names.chunks(PROGRAMS_MAX) {
        on_machine(part, &programs, &mut outcomes)?;
    }
    compare(&outcomes)
}

/// The tests in the folders of interfaces: files with a `main` that are named by two numbers.
fn tests_of(sources: &Path) -> Result<Sources, String> {
    let folder = sources.join("conformance/interfaces");
    let mut all = Sources::new();
    for interface in fs::read_dir(&folder).map_err(text)?.flatten() {
        let name = interface.file_name().to_string_lossy().into_owned();
        let Ok(files) = fs::read_dir(interface.path()) else { continue };
        for path in files.flatten().map(|file| file.path()) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_numbered = stem.split_once('-').is_some_and(|(assertion, part)| {
                [assertion, part].iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            });
            let is_c = path.extension().is_some_and(|extension| extension == "c");
            if is_c && is_numbered && String::from_utf8_lossy(&fs::read(&path).map_err(text)?).contains("main") {
                all.insert(format!("{name}.{stem}"), path);
            }
        }
    }
    Ok(all)
}

/// The interface that a test is of.
fn interface_of(test: &str) -> &str {
    test.split_once('.').map_or(test, |(interface, _)| interface)
}

/// Those of some interfaces, by the day's seed; or all.
fn chosen(tests: Sources) -> Sources {
    let mut interfaces: Vec<String> = tests.keys().map(|test| interface_of(test).to_owned()).collect();
    interfaces.dedup();
    let today = of_long(seed() as usize % PART, 0);
    let wanted: Vec<String> = interfaces.into_iter().skip(today).step_by(of_long(PART, 1)).collect();
    tests.into_iter().filter(|(test, _)| wanted.iter().any(|one| one == interface_of(test))).collect()
}

/// Compiles a test. What the compiler refuses is no program.
fn build(sources: &Path, source: &Path, program: &Path) -> Result<(), String> {
    let mut arguments: Vec<OsString> = OPTIONS.iter().map(OsString::from).collect();
    for folder in [sources.join("include").as_path(), source.parent().unwrap_or(sources)] {
        arguments.extend(["-I".into(), folder.into()]);
    }
    arguments.extend([source.into(), "-o".into(), program.into(), "-lm".into()]);
    let compiled = cc(&arguments);
    if program.ends_with("run") { compiled } else { Ok(()) }
}

/// Runs tests on all instruction sets: in three turns, as tests of an interface have names for what the whole machine shares, and no two may have them at once.
fn on_machine(tests: &[&String], programs: &Path, outcomes: &mut Outcomes) -> Result<(), String> {
    let all = tempfile::tempdir().map_err(text)?;
    let folder = all.path().join("posix");
    fs::create_dir(&folder).map_err(text)?;
    fs::copy(programs.join("run"), folder.join("run")).map_err(text)?;
    let mut lists = [String::new(), String::new(), String::new()];
    let (mut interfaces, mut last) = (0, "");
    for test in tests {
        fs::copy(programs.join(test), folder.join(test)).map_err(text)?;
        interfaces += usize::from(interface_of(test) != last);
        last = interface_of(test);
        lists[interfaces % 3] += &format!("{test}\n");
    }
    for (index, list) in lists.iter().enumerate() {
        fs::write(folder.join(format!("list.{index}")), list).map_err(text)?;
    }
    let turn = |turn: usize| {
        let one = |(index, isa): (usize, &&str)| {
            let list = (index + turn) % 3;
            format!("on {isa} /in/posix/run {WORKERS} /in/posix /in/posix/list.{list} >>/tmp/{isa} & ")
        };
        ISAS.iter().enumerate().map(one).collect::<String>() + "wait; "
    };
    let told: String = ISAS.map(|isa| format!("sed 's/^/{isa} /' /tmp/{isa}; ")).concat();
    let command: String = (0..3).map(turn).chain([told]).collect();
    let limit = Duration::from_secs(3000);
    let ended = Motet::run(["--in".as_ref(), folder.as_os_str()]).arguments(["--", &command]).limit(limit).wait();
    ended.expect_code(0)?;
    for line in ended.output.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(isa), Some(test), Some(what)) = (words.next(), words.next(), words.next()) else { continue };
        let isa = ISAS.iter().position(|name| *name == isa);
        if let (Some(isa), Some(of_test)) = (isa, outcomes.get_mut(test)) {
            what.clone_into(&mut of_test[isa]);
        }
    }
    Ok(())
}

/// What does not pass must be listed, and what is listed must not pass.
fn compare(outcomes: &Outcomes) -> Result<(), String> {
    let path = process::root().join("tests/guest/posix/failing.txt");
    let known = known(&fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?)?;
    let mut problems = Vec::new();
    for (test, of_isas) in outcomes {
        let known = known.get(test);
        for (isa, outcome) in ISAS.iter().zip(of_isas) {
            match (outcome.as_str(), known) {
                ("0", Some(true)) => problems.push(format!("{test} passes on {isa}: take it out of failing.txt")),
                ("0", _) | (_, Some(_)) => {}
                (_, None) => problems.push(format!("{test} on {isa}: {outcome}")),
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{SEED_VARIABLE}={} repeats it:\n{}", seed(), problems.join("\n")))
}

/// The tests that are known not to pass; `false`: not always.
fn known(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let mut words = line.split_whitespace();
            let (name, how, why) = (words.next(), words.next(), words.next());
            match (name, how, why) {
                (Some(name), Some("always"), Some(_)) => Ok((name.to_owned(), true)),
                (Some(name), Some("sometimes"), Some(_)) => Ok((name.to_owned(), false)),
                _ => Err(format!("failing.txt:{}: a test, `always` or `sometimes`, and a reason", number + 1)),
            }
        })
        .collect()
}
