//! The time from power-on to the shell's prompt, seen as a user sees it: on a terminal.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use motet_error::{Error, ErrorKind, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{process, project::Project};

const AT_MOST: Duration = Duration::from_secs(60);

/// One boot: the time until the prompt of the default machine's shell. The kernels start the shell when every island
/// has joined.
///
/// # Errors
/// No prompt comes, or the machine does not end when the shell is told to.
pub fn time(project: &Project) -> Result<Duration> {
    let (mut terminal, guest_end) = open_terminal()
        .map_err(|error| Error::new(ErrorKind::Temporary, format!("the host refuses a terminal: {error}")))?;
    let duplicate = || guest_end.try_clone().map_err(|error| Error::new(ErrorKind::Temporary, error.to_string()));
    let mut motet = Command::new(project.motet());
    motet.arg("run").env("TERM", "dumb");
    motet.stdin(Stdio::from(duplicate()?)).stdout(Stdio::from(duplicate()?)).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = motet.spawn().map_err(|error| Error::new(ErrorKind::Unavailable, format!("motet: {error}")))?;
    let messages = process::collect(child.stderr.take());
    let mut seen = String::new();
    let after = loop {
        let left = AT_MOST.saturating_sub(begin.elapsed());
        if left.is_zero() || child.try_wait().is_ok_and(|status| status.is_some()) {
            break None;
        }
        read_some(&mut terminal, &mut seen, left.min(Duration::from_millis(100)));
        if has_prompt(&seen) {
            break Some(begin.elapsed());
        }
    };
    if after.is_some() {
        let _ = terminal.write_all(b"exit\r");
    }
    let ended = process::wait(&mut child, if after.is_some() { AT_MOST } else { Duration::ZERO });
    let messages = messages.text();
    match (after, ended) {
        (Some(after), Some(_)) => Ok(after),
        (None, _) => Err(failure("no prompt", &seen, &messages)),
        (Some(_), None) => Err(failure("the machine did not end on `exit`", &seen, &messages)),
    }
}

fn failure(what: &str, seen: &str, messages: &str) -> Error {
    Error::new(ErrorKind::Software, format!("boot: {what}\n{}", process::tail(seen, messages)))
}

/// Our end of a new terminal, and the end that programs get.
fn open_terminal() -> rustix::io::Result<(File, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
    tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
    // What poll has seen may be gone when it is read: nothing here waits for a terminal without an end.
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((File::from(ours), theirs))
}

fn read_some(terminal: &mut File, seen: &mut String, at_most: Duration) {
    let timeout = Timespec::try_from(at_most).ok();
    let ready = {
        let mut fds = [PollFd::new(&*terminal, PollFlags::IN)];
        matches!(poll(&mut fds, timeout.as_ref()), Ok(1))
    };
    let mut bytes = [0; 4096];
    if let (true, Ok(count)) = (ready, terminal.read(&mut bytes)) {
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}

/// `motet:FOLDER# `, as /etc/profile in the machine sets it.
fn has_prompt(text: &str) -> bool {
    let last = text.lines().last().unwrap_or_default();
    last.split_once("motet:").is_some_and(|(_, rest)| rest.contains("# ") || rest.contains("$ "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_on_which_nothing_is_said_is_not_waited_for() {
        let (mut terminal, theirs) = open_terminal().unwrap();
        assert_eq!(terminal.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        // Nobody reads what is typed.
        assert!(terminal.write_all("x\n".repeat(1 << 19).as_bytes()).is_err());
        drop(theirs);
    }

    #[test]
    fn prompts_are_told_from_other_lines() {
        assert!(has_prompt("hello\r\nmotet:~# ") && has_prompt("motet:/tmp$ ") && has_prompt("motet:/# \x1b[6n"));
        assert!(!has_prompt("motet: x86 joined\n") && !has_prompt("") && !has_prompt("motet:~"));
    }
}
