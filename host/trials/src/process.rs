//! A job's process: what it prints, how it ends, and the processor time that it and its children took.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::job::Job;

/// A job that takes longer hangs. Each run of a machine has a shorter limit of its own, which tells more.
const LIMIT: Duration = Duration::from_secs(3600);
/// What is told to end has so long for it.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Of what a job prints, what is shown of one that fails.
const SHOWN_MAX: usize = 64 << 10;

/// How a process ended.
pub struct Ended {
    /// `None`: killed, because it took too long.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
    /// How long it took.
    pub wall: Duration,
    /// Processor time of it and of the processes that it has waited for.
    pub cpu: Duration,
}

impl Ended {
    /// What it printed, for failures.
    pub fn shown(&self) -> String {
        let how = match self.status {
            Some(status) => status.to_string(),
            None => format!("killed after {} s", LIMIT.as_secs()),
        };
        let all = format!("{}{}({how})", self.output, self.errors);
        let cut = all.len().saturating_sub(SHOWN_MAX);
        let cut = (cut..all.len()).find(|&at| all.is_char_boundary(at)).unwrap_or(0);
        all[cut..].to_owned()
    }
}

/// Runs a job to its end. What it prints goes through files in `folder`, so that processes that outlive it keep nobody waiting.
///
/// # Errors
/// It cannot be started.
pub fn run(job: &Job, folder: &Path) -> io::Result<Ended> {
    let (output, errors) = (folder.join("output"), folder.join("errors"));
    let (program, arguments) = job.command.split_first().expect("a job has a command");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&job.folder).stdin(Stdio::null());
    command.envs(job.environment.iter().map(|(name, value)| (name, value)));
    command.stdout(File::create(&output)?).stderr(File::create(&errors)?);
    // Of its own, so that all of it can be ended.
    let mut child = command.process_group(0).spawn()?;
    let started = Instant::now();
    let is_over = wait(&child, started)?;
    let wall = started.elapsed();
    let cpu = cpu_of(child.id());
    if !is_over {
        end(&child);
    }
    let status = child.wait()?;
    let text = |path: &PathBuf| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended { status: is_over.then_some(status), output: text(&output)?, errors: text(&errors)?, wall, cpu })
}

/// Waits for its end, and does not collect it; false: it takes too long.
fn wait(child: &Child, started: Instant) -> io::Result<bool> {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(pid(child)), ended)?.is_none() {
        if started.elapsed() > LIMIT || crate::is_interrupted() {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(true)
}

/// A machine that is told to end takes its islands with it.
fn end(child: &Child) {
    // Either may come too late.
    let _ = kill_process_group(pid(child), Signal::TERM);
    std::thread::sleep(ENDS_WITHIN);
    let _ = kill_process_group(pid(child), Signal::KILL);
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Processor time of a process and of those that it has collected (proc_pid_stat(5): utime, stime, cutime, cstime).
pub fn cpu_of(id: impl std::fmt::Display) -> Duration {
    /// `sysconf(_SC_CLK_TCK)` on every Linux.
    const TICKS_PER_S: u64 = 100;
    let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name before it may contain anything.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: u64 = after.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_S)
}
