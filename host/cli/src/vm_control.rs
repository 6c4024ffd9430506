//! `motet vm list` and `motet vm kill`: virtual machines of the machines that run on this host.

use motet_fabric::{Error, ErrorKind, Result, control};

use crate::arguments::VmKillOptions;

/// A virtual machine.
struct Found {
    /// The process that runs its machine.
    run: u32,
    /// Its number there.
    id: u32,
    /// What else is shown.
    rest: Vec<String>,
}

/// All of them.
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

/// Shows them.
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

/// Ends one.
///
/// # Errors
/// There is none of that number, or there are several.
pub fn kill(options: &VmKillOptions) -> Result<u8> {
    let found = all()?;
    let is_meant = |vm: &&Found| vm.id == options.id && options.run.is_none_or(|run| run == vm.run);
    let meant: Vec<_> = found.iter().filter(is_meant).collect();
    let wrong = |message| Err(Error::new(ErrorKind::Usage, message));
    match meant.as_slice() {
        [vm] => control::ask(vm.run, &format!("kill {}", vm.id)).map(|_| 0),
        [] => wrong(format!("there is no virtual machine {} (motet vm list shows them)", options.id)),
        _ => {
            wrong(format!("several machines have a virtual machine {}: say which by --run (motet vm list)", options.id))
        }
    }
}
