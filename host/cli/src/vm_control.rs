//! `motet vm list`, `motet vm kill` and `motet vm console`: virtual machines of the machines that run on this host.

use std::io::Write as _;

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    control,
    vm_console::{self, Outcome},
};

use crate::arguments::{VmConsoleOptions, VmKillOptions};

/// A virtual machine.
struct Found {
    /// The process that runs its machine.
    run: u32,
    /// Its number in that machine.
    id: u32,
    /// The other columns of the list.
    rest: Vec<String>,
}

/// All virtual machines of this user on this host.
fn all() -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut failure = None;
    let runs = control::running()?;
    for &run in &runs {
        match control::ask(run, "list") {
            Ok(text) => found.extend(text.lines().filter_map(|line| {
                let mut words = line.split(' ');
                let id = words.next()?.parse().ok()?;
                Some(Found { run, id, rest: words.map(str::to_owned).collect() })
            })),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        // Others' machines, and those that have just ended, are not shown.
        Some(error) if found.is_empty() && runs.len() == 1 => Err(error),
        _ if runs.is_empty() => {
            Err(Error::new(ErrorKind::Unavailable, "no machine runs on this host: motet vm run starts one"))
        }
        _ => Ok(found),
    }
}

/// Prints the list of virtual machines.
///
/// # Errors
/// No machine runs.
pub fn list() -> Result<u8> {
    let line = |run: &str, words: [&str; 6]| {
        let [id, pid, user, cores, memory, time] = words;
        motet_error::print(&format!("{run:>8} {id:>4} {pid:>6} {user:>6} {cores:>5} {memory:>9} {time:>9}\n"))
    };
    let found = all()?;
    line("RUN", ["ID", "PID", "USER", "VCPUS", "MEM_KIB", "TIME_MS"])?;
    for vm in found {
        let rest = [0, 1, 2, 3, 4].map(|index: usize| vm.rest.get(index).map_or("", String::as_str));
        let [pid, user, cores, memory, time] = rest;
        line(&vm.run.to_string(), [&vm.id.to_string(), pid, user, cores, memory, time])?;
    }
    Ok(0)
}

/// The virtual machine of that number; without a number, the only one.
fn find(id: Option<u32>, run: Option<u32>) -> Result<Found> {
    if let Some(run) = run {
        // Why it does not answer, if it does not.
        control::ask(run, "list")?;
    }
    let is_meant = |vm: &Found| id.is_none_or(|id| id == vm.id) && run.is_none_or(|run| run == vm.run);
    let mut meant = all()?.into_iter().filter(is_meant);
    let wrong = |message| Err(Error::new(ErrorKind::Usage, message));
    match (meant.next(), meant.next(), id) {
        (Some(vm), None, _) => Ok(vm),
        (None, _, Some(id)) => wrong(format!("there is no virtual machine {id} (motet vm list shows them)")),
        (None, _, None) => wrong("there is no virtual machine".into()),
        (Some(_), Some(_), Some(id)) => {
            wrong(format!("several machines have a virtual machine {id}: say which by --run (motet vm list)"))
        }
        (Some(_), Some(_), None) => wrong("there are several virtual machines: say which (motet vm list)".into()),
    }
}

/// Ends a virtual machine.
///
/// # Errors
/// There is none of that number, or there are several.
pub fn kill(options: &VmKillOptions) -> Result<u8> {
    let vm = find(Some(options.id), options.run)?;
    control::ask(vm.run, &format!("kill {}", vm.id)).map(|_| 0)
}

/// Makes standard input and output the console of a virtual machine.
///
/// # Errors
/// There is none of that number, or there are several; somebody else uses its console.
pub fn console(options: &VmConsoleOptions) -> Result<u8> {
    let vm = find(options.id, options.run)?;
    let say = |what: &str| {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "motet: {what}");
    };
    let begins = |is_terminal: bool| {
        let how = if is_terminal { "Ctrl-] leaves it" } else { "it ends with the virtual machine" };
        say(&format!("the console of virtual machine {} of run {}; {how}", vm.id, vm.run));
    };
    match vm_console::attach(vm.run, vm.id, begins)? {
        Outcome::Left => Ok(0),
        Outcome::Ended => {
            say(&format!("virtual machine {} has ended", vm.id));
            Ok(0)
        }
        Outcome::Interrupted(signal) => Ok(128 + signal as u8),
    }
}
