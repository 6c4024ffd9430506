//! System calls with every kind of argument (`tests/guest/conformance`): on each instruction set they do what they do on
//! Linux, or what `differences.txt` says, with the reason.
//!
//! The same program runs on the host and, compiled by `motet cc`, on every island; it prints a line for each case. What the
//! host's Linux does is kept in `linux.txt`, so that the comparison depends on no host's kernel. `MOTET_BLESS=1` writes both
//! files; reasons for new differences are for people to write. `docs/syscalls.md` is generated from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    crossing::Programs,
    libraries::{run, text},
    process::{ISAS, Motet, root},
    trial::{Trial, trial},
};

#[path = "../../../../tests/guest/conformance/record.rs"]
mod record;

/// The islands run about 1,700 cases each, a process or more for each case, at the same time.
const LIMIT: Duration = Duration::from_secs(2000);
/// What stands where a reason is missing.
const NO_REASON: &str = "# New: no reason is given yet.";

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("conformance::what_is_recorded_is_what_the_hosts_linux_does", on_host)
            .for_the_superuser()
            .left_out(of_another_version()),
        trial("conformance::system_calls_do_what_they_do_on_linux_or_what_is_listed", on_machine),
    ]
}

/// Results by case.
type Results = BTreeMap<String, String>;

fn results(printed: &str) -> Result<Results, String> {
    let results: Results =
        record::results(printed).map(|(case, result)| (case.to_owned(), result.to_owned())).collect();
    if let Some(line) = printed.lines().find(|line| !line.contains('\t') && !line.starts_with("# ")) {
        return Err(format!("not a result: {line}"));
    }
    if results.is_empty() { Err("no results".into()) } else { Ok(results) }
}

fn folder() -> PathBuf {
    root().join("tests/guest/conformance")
}

fn read(name: &str) -> Result<String, String> {
    let path = folder().join(name);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn is_blessed() -> bool {
    std::env::var_os("MOTET_BLESS").is_some()
}

fn sources() -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder()).map_err(text)?;
    let mut sources: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    Ok(sources)
}

/// Of the kernel's release, what says which features it has.
fn version_of_host() -> Result<String, String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(text)?;
    Ok(format!("# Linux {}", release.trim().split('.').take(2).collect::<Vec<_>>().join(".")))
}

/// Whether the host has not the version of Linux that is recorded, which may do something else.
fn of_another_version() -> Option<String> {
    let (version, recorded) = (version_of_host().ok()?, read("linux.txt").ok()?);
    let recorded = recorded.lines().next()?;
    let differs = recorded != version && !is_blessed();
    differs.then(|| {
        format!(
            "linux.txt is of {}, and this is {}",
            recorded.trim_start_matches("# "),
            version.trim_start_matches("# ")
        )
    })
}

/// What is recorded is what Linux does. A case that does not is tried again by itself: Linux passes some things on later (what is written to a terminal), on a busy
/// computer much later than the case waits.
fn on_host() -> Result<(), String> {
    const AGAIN: usize = 3;
    let version = version_of_host()?;
    let program = HostProgram::new()?;
    let printed = program.run(None)?;
    if is_blessed() {
        return fs::write(folder().join("linux.txt"), format!("{version}\n{printed}")).map_err(text);
    }
    let recorded = read("linux.txt")?;
    let (wanted, got) = (results(&recorded)?, results(&printed)?);
    let mut faults = different_cases(&wanted, &got);
    for (case, wanted) in &wanted {
        // A kernel may be built without a call.
        let Some(got) = got.get(case).filter(|got| *got != wanted && *got != " = ENOSYS") else { continue };
        let mut is_alike = false;
        for _ in 0..AGAIN {
            is_alike |= results(&program.run(Some(case))?)?.get(case) == Some(wanted);
        }
        if !is_alike {
            faults.push(format!("{case}\n  recorded{wanted}\n  here    {got}"));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("{} cases differ from linux.txt\n{}", faults.len(), faults.join("\n")))
}

/// The program, made by the host's compiler.
struct HostProgram(Programs);

impl HostProgram {
    fn new() -> Result<Self, String> {
        let programs = Programs::new()?;
        let program = programs.path.join("conformance");
        // The host's own compiler and C library, so that nothing of Motet's is in what is recorded.
        run(Command::new("cc").args(["-O1", "-w", "-static", "-o"]).arg(&program).args(sources()?).arg("-lpthread"))?;
        Ok(Self(programs))
    }

    /// Runs all cases, or those whose name contains a text, in a folder in memory, as `/tmp` of the machine is.
    fn run(&self, only: Option<&str>) -> Result<String, String> {
        let memory = Path::new("/dev/shm");
        let scratch = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.map_err(text)?;
        run(Command::new("chmod").arg("777").arg(scratch.path()))?;
        run(Command::new(self.0.path.join("conformance")).arg(scratch.path()).args(only))
    }
}

/// On all islands at once.
fn on_machine() -> Result<(), String> {
    let linux = results(&read("linux.txt")?)?;
    let differences = read("differences.txt")?;
    let listed: BTreeMap<_, _> = record::groups(&differences).iter().flat_map(|group| group.results.clone()).collect();
    let machine = run_on_machine()?;
    let mut faults = Vec::new();
    for (isa, results) in &machine {
        // The older calls, which have successors with a folder's descriptor or with flags, are x86-64's alone.
        let calls: BTreeSet<&str> = results.keys().map(|case| record::call_of(case)).collect();
        let mut wanted = linux.clone();
        wanted.retain(|case, _| *isa == ISAS[0] || calls.contains(record::call_of(case)));
        faults.extend(different_cases(&wanted, results).into_iter().map(|fault| format!("{fault} on {isa}")));
        for (case, on_linux) in &wanted {
            let Some(got) = results.get(case) else { continue };
            match listed.get(case.as_str()) {
                Some(_) if got == on_linux => {
                    faults.push(format!("{case}: is listed as different, but on {isa} it does the same:{got}"));
                }
                Some(known) if got == known => {}
                None if got == on_linux => {}
                _ => faults.push(format!("{case}\n  on Linux{on_linux}\n  on {isa}{got}")),
            }
        }
    }
    let unknown = listed.keys().filter(|case| !linux.contains_key(**case));
    faults.extend(unknown.map(|case| format!("{case}: is listed, but there is no such case")));
    if is_blessed() {
        let differences = rewritten(&differences, &linux, &machine);
        fs::write(folder().join("differences.txt"), differences).map_err(text)?;
    }
    if !faults.is_empty() {
        return Err(format!("{} faults\n{}", faults.len(), faults.join("\n")));
    }
    if differences.contains(NO_REASON) { Err("differences.txt lacks a reason".into()) } else { Ok(()) }
}

/// Cases of one that the other has not.
fn different_cases(wanted: &Results, got: &Results) -> Vec<String> {
    let missing = wanted.keys().filter(|case| !got.contains_key(*case)).map(|case| format!("{case}: no result"));
    let unknown = got.keys().filter(|case| !wanted.contains_key(*case)).map(|case| format!("{case}: not in linux.txt"));
    missing.chain(unknown).collect()
}

/// The differences that there are, with the reasons that there were.
fn rewritten(differences: &str, linux: &Results, machine: &BTreeMap<&str, Results>) -> String {
    let mut found = BTreeMap::new();
    for results in machine.values() {
        found.extend(results.iter().filter(|(case, result)| linux.get(*case).is_some_and(|linux| linux != *result)));
    }
    let mut out = String::new();
    for group in record::groups(differences) {
        let results: Vec<_> =
            group.results.iter().filter_map(|(case, _)| found.remove_entry(&(*case).to_owned())).collect();
        if !results.is_empty() {
            let lines: String = results.iter().map(|(case, result)| format!("{case}\t{result}\n")).collect();
            let _ = write!(out, "# {}: {}\n{lines}\n", group.title, group.reason);
        }
    }
    if !found.is_empty() {
        let lines: String = found.iter().map(|(case, result)| format!("{case}\t{result}\n")).collect();
        let _ = write!(out, "{NO_REASON}\n{lines}\n");
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn run_on_machine() -> Result<BTreeMap<&'static str, Results>, String> {
    let programs = Programs::new()?;
    let mut sources = sources()?;
    let main = sources.pop().ok_or("there are no sources")?;
    let mut options: Vec<&str> = sources.iter().filter_map(|path| path.to_str()).collect();
    options.extend(["-O1", "-w"]);
    programs.compile(&main, "conformance", &options)?;
    let out = tempfile::tempdir().map_err(text)?;
    // Through a pipe: a limit for files must not concern what is printed.
    let command = format!(
        "for isa in {}; do mkdir -m 777 /tmp/$isa; \
         (on $isa /in/programs/conformance /tmp/$isa | cat > /out/$isa) & done; wait; echo alive",
        ISAS.join(" ")
    );
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str(), "--out".as_ref(), out.path().as_os_str()])
        .arguments(["--", &command])
        .limit(LIMIT)
        .wait();
    ended.expect_code(0)?.expect_output("alive\n")?;
    let read = |isa| {
        let printed = fs::read_to_string(out.path().join(isa)).map_err(text)?;
        Ok((isa, results(&printed).map_err(|error| format!("{isa}: {error}"))?))
    };
    ISAS.into_iter().map(read).collect()
}
