//! Watches a run from outside: when its programs said that they began and ended, and how much memory its QEMUs had.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use motet_error::{Error, ErrorKind, Result};

use crate::process;

/// How often memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// When the first program began.
    pub began: Instant,
    /// From the first program's begin to the last one's end, on the host's clock.
    pub seconds: f64,
    /// Most that any QEMU had in memory beside what guests and the pool have, in bytes; 0 if it was never looked at.
    pub memory_bytes: u64,
}

/// Runs to the end. `programs` must say `begin` and `end verified`. Memory is looked at if `private`, the sizes of the
/// islands' private memories in bytes, are given; looking takes time.
///
/// # Errors
/// The run fails or takes longer than `at_most`, or a program's result is wrong or missing.
pub fn watch(command: &mut Command, programs: usize, at_most: Duration, private: &[u64]) -> Result<Watched> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child =
        spawned.map_err(|error| Error::new(ErrorKind::Unavailable, format!("cannot run motet: {error}")))?;
    let stderr = process::collect(child.stderr.take());
    let (send, lines) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(std::result::Result::ok);
            lines.map(|line| (line, Instant::now())).try_for_each(|line| send.send(line))
        });
    }
    let start = Instant::now();
    let (mut begin, mut end, mut verified, mut memory_bytes) = (None, None, 0, 0);
    while start.elapsed() < at_most {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok((line, at)) if line == "begin" => begin = begin.or(Some(at)),
            Ok((line, at)) if line.starts_with("end verified") => {
                verified += 1;
                end = Some(at);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                if !private.is_empty() && begin.is_some() && end.is_none() {
                    memory_bytes = memory_bytes.max(largest_qemu(&child, private));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let ended = process::wait(&mut child, Duration::from_secs(10).min(at_most));
    let said = stderr.text();
    match (begin, end) {
        (Some(begin), Some(end)) if verified == programs && ended == Some(true) => {
            Ok(Watched { began: begin, seconds: end.duration_since(begin).as_secs_f64(), memory_bytes })
        }
        _ => {
            let message =
                format!("{verified} of {programs} programs had the right result\n{}", process::tail("", &said));
            Err(Error::new(ErrorKind::Software, message))
        }
    }
}

/// The QEMUs are children of the run's threads.
fn largest_qemu(motet: &Child, private: &[u64]) -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", motet.id())).into_iter().flatten().flatten();
    let children: Vec<String> = tasks.map(|task| read(&task.path().join("children"))).collect();
    let pids = children.iter().flat_map(|pids| pids.split_whitespace());
    pids.map(|pid| own_memory(&read(&Path::new("/proc").join(pid).join("smaps")), private)).max().unwrap_or(0)
}

/// Bytes in memory of a process, without mappings of the pool and of islands' private memories (proc(5), `smaps`).
fn own_memory(smaps: &str, private: &[u64]) -> u64 {
    let (mut bytes, mut counts) = (0, true);
    for line in smaps.lines() {
        if let Some(len) = mapping_len(line) {
            counts = !private.contains(&len) && !line.contains("memfd:motet-pool");
        } else if counts && let Some(size) = line.strip_prefix("Rss:") {
            let kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            bytes += kib << 10;
        }
    }
    bytes
}

/// From the first line of a mapping, `START-END PERMISSIONS ...`.
fn mapping_len(line: &str) -> Option<u64> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some(u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_memory_is_not_qemus() {
        let smaps = "\
00001000-00003000 r-xp 00000000 00:00 0    /usr/bin/qemu
Rss:                   8 kB
Pss:                   4 kB
10000000-14000000 rw-p 00000000 00:00 0
Rss:                4096 kB
20000000-40000000 rw-s 00000000 00:01 7    /memfd:motet-pool (deleted)
Rss:               65536 kB
50000000-50004000 rw-p 00000000 00:00 0    [heap]
Rss:                  16 kB
";
        assert_eq!(own_memory(smaps, &[64 << 20, 256 << 20]), 24 << 10);
        assert_eq!(own_memory("", &[]), 0);
    }

    #[test]
    fn programs_are_timed_and_must_be_right() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let at_most = Duration::from_secs(20);
        let right = watch(&mut shell("echo begin; sleep 0.1; echo end verified 1.0"), 1, at_most, &[]).unwrap();
        // When this thread hears of a line depends on what else the host does.
        assert!(right.seconds > 0.0, "{right:?}");
        let error = watch(&mut shell("echo begin; echo end wrong 1.0; echo why >&2"), 1, at_most, &[]).unwrap_err();
        assert!(error.message.contains("0 of 1") && error.message.contains("why"));
    }
}
