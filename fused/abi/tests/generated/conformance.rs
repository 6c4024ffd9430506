//! What `tests/guest/conformance` has found of each call, for the documentation; and whether its cases are enough.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use motet_abi::{Syscall, implemented};

#[path = "../../../../tests/guest/conformance/record.rs"]
mod record;

/// Calls that are refused to everybody with another error than `ENOSYS`, so that programs do without.
const REFUSED: [Syscall; 4] = [Syscall::Mount, Syscall::Splice, Syscall::Tee, Syscall::Umount2];
/// Other implemented calls without a case that succeeds, and why.
const NEVER_SUCCEED: [(Syscall, &str); 4] = [
    (Syscall::Pause, "a signal ends it with EINTR"),
    (Syscall::RtSigsuspend, "a signal ends it with EINTR"),
    (Syscall::RiscvFlushIcache, "RISC-V's alone: the host's Linux does not say what it does"),
    (Syscall::RiscvHwprobe, "RISC-V's alone: the host's Linux does not say what it does"),
];
/// Implemented calls without a case that fails, and why.
const NEVER_FAIL: [(Syscall, &str); 23] = [
    (Syscall::Alarm, "alarm(2)"),
    (Syscall::Brk, "returns the end as it was"),
    (Syscall::Exit, "does not return"),
    (Syscall::ExitGroup, "does not return"),
    (Syscall::Personality, "personality(2): takes any"),
    (Syscall::Getegid, "getgid(2)"),
    (Syscall::Geteuid, "getuid(2)"),
    (Syscall::Getgid, "getgid(2)"),
    (Syscall::Getpgrp, "getpgrp(2)"),
    (Syscall::Getpid, "getpid(2)"),
    (Syscall::Getppid, "getppid(2)"),
    (Syscall::Gettid, "gettid(2)"),
    (Syscall::Getuid, "getuid(2)"),
    (Syscall::Munlockall, "everything may be unlocked"),
    (Syscall::RtSigreturn, "does not return"),
    (Syscall::SchedYield, "sched_yield(2)"),
    (Syscall::SetTidAddress, "set_tid_address(2)"),
    (Syscall::Setfsgid, "returns the group as it was"),
    (Syscall::Setfsuid, "returns the user as it was"),
    (Syscall::Sync, "sync(2)"),
    (Syscall::Umask, "umask(2)"),
    (Syscall::RiscvFlushIcache, "RISC-V's alone: the host's Linux does not say what it does"),
    (Syscall::RiscvHwprobe, "RISC-V's alone: the host's Linux does not say what it does"),
];

/// Files of this crate whose constants are arguments of system calls.
const OPTIONS_IN: [&str; 7] = ["file.rs", "inotify.rs", "ipc.rs", "process.rs", "signal.rs", "terminal.rs", "time.rs"];
/// Constants there that are no options: sizes, masks, what is told and not asked, and modes of a terminal, of which the
/// machine has only its console and the program none.
#[rustfmt::skip]
const NO_OPTIONS: [&str; 82] = [
    "IN_KNOWN",
    "PATH_MAX", "NAME_MAX", "IOV_MAX", "DIRENT_MAX", "TMPFS_MAGIC", "PROC_SUPER_MAGIC", "SYSFS_MAGIC", "PIPEFS_MAGIC",
    "SOCKFS_MAGIC", "PID_FS_MAGIC", "ANON_INODE_FS_MAGIC", "CSIGNAL",
    "CLONE_ARGS_SIZE_VER0", "FUTEX_CMD_MASK", "SIGSET_SIZE", "SIGINFO_SIZE", "NSIG", "SIGRTMIN", "UNBLOCKABLE", "SA_KNOWN", "NONE",
    "SI_KERNEL", "SI_TIMER", "SI_TKILL", "CLD_EXITED", "CLD_CONTINUED", "SEGV_MAPERR", "SEGV_ACCERR", "BUS_ADRALN",
    "BUS_ADRERR", "ILL_ILLOPC", "ILL_ILLOPN", "FPE_INTDIV", "TRAP_BRKPT", "USER_HZ", "RLIM_NLIMITS", "BRKINT", "IGNCR", "ICRNL", "INLCR",
    "ISTRIP", "IXON", "IXANY", "IMAXBEL", "IUTF8", "OPOST", "ONLCR", "OCRNL", "B38400", "CS8", "CREAD", "ISIG", "ICANON",
    "ECHO", "ECHOE", "ECHOK", "ECHONL", "NOFLSH", "TOSTOP", "ECHOCTL", "ECHOKE", "IEXTEN", "VINTR", "VQUIT", "VERASE",
    "S_IRUGO", "S_IWUGO", "S_IXUGO", "S_IRWXUGO", "VKILL", "VEOF", "VTIME", "VMIN", "VSTART", "VSTOP", "VSUSP", "VEOL", "VREPRINT", "VWERASE", "VLNEXT", "VEOL2",
];

/// What was found about a call.
#[derive(Default)]
pub struct Found {
    /// How many cases do what they do on Linux: those that succeed, and those that fail.
    alike: [usize; 2],
    /// How many do not, by the title of their group.
    differ: BTreeMap<String, usize>,
    /// Symbolic constants of the cases that succeed as on Linux.
    options: BTreeSet<String>,
}

impl Found {
    /// Two cells of a table: how many cases are alike, and how many differ, with their groups.
    pub fn cells(&self) -> String {
        let alike: usize = self.alike.iter().sum();
        let differ = self.differ.iter().map(|(title, count)| format!("{count}: [{title}](#{})", anchor(title)));
        format!(
            "{} | {}",
            if alike == 0 { String::new() } else { alike.to_string() },
            differ.collect::<Vec<_>>().join(", ")
        )
    }
}

/// Of a heading, as GitHub and others make it.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-").replace(|letter: char| letter != '-' && !letter.is_alphanumeric(), "")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest/conformance")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether the kernel has a call, for the documentation.
pub fn state_of(call: Syscall) -> &'static str {
    match implemented::IMPLEMENTED.contains(&call) {
        true if REFUSED.contains(&call) => "refused",
        true => "yes",
        false => "",
    }
}

/// By call.
pub fn found() -> BTreeMap<String, Found> {
    let (linux, differences) = (read(folder().join("linux.txt")), read(folder().join("differences.txt")));
    let mut titles = BTreeMap::new();
    for group in record::groups(&differences) {
        titles.extend(group.results.iter().map(|(case, _)| (*case, group.title)));
    }
    let mut found = BTreeMap::<String, Found>::new();
    for (case, result) in record::results(&linux) {
        let of_call = found.entry(record::call_of(case).to_owned()).or_default();
        let fails = result.starts_with(" = E");
        match titles.get(case) {
            Some(title) => *of_call.differ.entry((*title).to_owned()).or_default() += 1,
            None => of_call.alike[usize::from(fails)] += 1,
        }
        if !fails && !titles.contains_key(case) {
            of_call.options.extend(constants(case));
        }
    }
    found
}

/// The words of a case that name options (`O_APPEND`, not `RW` or `BAD`).
fn constants(case: &str) -> Vec<String> {
    let own = ["PATH_FD", "DIR_FD", "PIPE_R", "PIPE_W", "NULL_FD", "ZERO_FD", "HUGE_NUMBER"];
    let words = case.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let upper = words.filter(|word| word.contains('_') && word.starts_with(|first: char| first.is_ascii_uppercase()));
    let options =
        upper.filter(|word| !word.contains(|letter: char| letter.is_ascii_lowercase()) && !own.contains(word));
    options.map(str::to_owned).collect()
}

/// The part of `docs/syscalls.md` behind the table.
pub fn chapters(found: &BTreeMap<String, Found>) -> String {
    let mut out =
        String::from("\n## Options\n\nThose of cases that succeed as on Linux.\n\n| call | options |\n|---|---|\n");
    for (name, found) in found.iter().filter(|(_, found)| !found.options.is_empty()) {
        let options: Vec<_> = found.options.iter().map(|option| format!("`{option}`")).collect();
        writeln!(out, "| {name} | {} |", options.join(" ")).unwrap();
    }
    out += "\n## What differs\n";
    let (linux, differences) = (read(folder().join("linux.txt")), read(folder().join("differences.txt")));
    let linux: BTreeMap<_, _> = record::results(&linux).collect();
    for group in record::groups(&differences) {
        writeln!(out, "\n### {}\n\n{}\n\n| case | Linux | Motet |\n|---|---|---|", group.title, group.reason).unwrap();
        for (case, here) in group.results {
            let on_linux = linux.get(case).copied().unwrap_or_default();
            let cells = [case, on_linux, here].map(|cell| format!("`{}`", cell.trim().replace('|', "\\|")));
            writeln!(out, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    out
}

/// How many cases there are, and how many differ.
pub fn counts() -> [usize; 2] {
    let (linux, differences) = (read(folder().join("linux.txt")), read(folder().join("differences.txt")));
    [record::results(&linux).count(), record::groups(&differences).iter().map(|group| group.results.len()).sum()]
}

#[test]
fn every_implemented_call_has_a_case_that_succeeds_and_one_that_fails() {
    let found = found();
    let mut faults = Vec::new();
    for (outcome, index, exceptions) in [("succeeds", 0, &NEVER_SUCCEED[..]), ("fails", 1, &NEVER_FAIL[..])] {
        for call in implemented::IMPLEMENTED {
            let is_refused = index == 0 && REFUSED.contains(call);
            let is_excepted = is_refused || exceptions.iter().any(|(excepted, _)| excepted == call);
            let has_one = found.get(call.name()).is_some_and(|found| found.alike[index] > 0);
            if has_one == is_excepted {
                let which = if has_one { "a case, though it is excepted" } else { "no case" };
                faults.push(format!("{}: {which} {outcome} as on Linux", call.name()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn calls_that_are_not_implemented_have_no_case_that_succeeds() {
    let implemented: BTreeSet<_> = implemented::IMPLEMENTED.iter().map(|call| call.name()).collect();
    for (name, found) in found() {
        assert!(implemented.contains(name.as_str()) || found.alike[0] == 0, "{name} does what it does on Linux");
    }
}

#[test]
fn every_option_is_in_a_case() {
    let mut words = BTreeSet::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            words.extend(read(&path).split(|letter| !is_word(letter)).map(str::to_owned));
        }
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut lacking = Vec::new();
    for file in OPTIONS_IN {
        let source = read(sources.join(file));
        let names = source.lines().filter_map(|line| line.trim_start().strip_prefix("pub const ")?.split_once(':'));
        let upper =
            names.map(|(name, _)| name).filter(|name| !name.contains(|letter: char| letter.is_ascii_lowercase()));
        lacking.extend(upper.filter(|name| !words.contains(*name) && !NO_OPTIONS.contains(name)).map(str::to_owned));
    }
    assert!(lacking.is_empty(), "in no case of tests/guest/conformance: {lacking:?}");
}
