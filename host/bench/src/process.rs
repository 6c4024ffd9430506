//! Other programs, with a limit on their time.

use std::{
    io::{ErrorKind, Read},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use motet_error::{Error, ErrorKind as Kind, Result};

/// How long the rest of what a program has said may take to arrive once it has ended.
const REST_WITHIN: Duration = Duration::from_secs(5);

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Output {
    /// It ended with status 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a program to its end, without input.
///
/// # Errors
/// It cannot be started, or took longer than `at_most` and was killed.
pub fn run(command: &mut Command, at_most: Duration) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| Error::new(Kind::Unavailable, format!("cannot run {program}: {error}")))?;
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let ended = wait(&mut child, at_most);
    let (stdout, stderr) = (stdout.text(), stderr.text());
    match ended {
        Some(success) => Ok(Output { success, stdout, stderr }),
        None => {
            let message = format!("{program} did not end within {} s\n{}", at_most.as_secs(), tail(&stdout, &stderr));
            Err(Error::new(Kind::Software, message))
        }
    }
}

/// Runs a program that has to succeed; its standard output.
///
/// # Errors
/// As [`run`], and when it fails.
pub fn expect(command: &mut Command, at_most: Duration) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = run(command, at_most)?;
    if output.success {
        return Ok(output.stdout);
    }
    let message = format!("{program} failed\n{}", tail(&output.stdout, &output.stderr));
    Err(Error::new(Kind::Software, message))
}

/// Waits for the end, and kills the program if it does not come; tells whether it ended with status 0.
pub fn wait(child: &mut Child, at_most: Duration) -> Option<bool> {
    let deadline = Instant::now() + at_most;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// What a program says, as far as it has come.
#[derive(Debug)]
pub struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Without a sender when the stream has ended.
    ended: Receiver<()>,
}

/// Reads a stream to its end, in a thread of its own so that a full pipe never blocks the program.
pub fn collect(stream: Option<impl Read + Send + 'static>) -> Said {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let (end, ended) = channel();
    let into = bytes.clone();
    std::thread::spawn(move || {
        let (mut piece, _end): ([u8; 16 << 10], Sender<()>) = ([0; 16 << 10], end);
        let Some(mut stream) = stream else { return };
        loop {
            match stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(len) => into.lock().unwrap_or_else(PoisonError::into_inner).extend(&piece[..len]),
            }
        }
    });
    Said { bytes, ended }
}

impl Said {
    /// The text, of a program that has ended. What it has started and left behind may still hold the stream: that is not waited for.
    pub fn text(self) -> String {
        let _ = self.ended.recv_timeout(REST_WITHIN);
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// The last lines of what a program said.
pub fn tail(stdout: &str, stderr: &str) -> String {
    let lines: Vec<&str> = stdout.lines().chain(stderr.lines()).collect();
    lines[lines.len().saturating_sub(12)..].iter().map(|line| format!("    {}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_status_and_time_are_told() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let at_most = Duration::from_secs(20);
        let output = run(&mut shell("echo a; echo b >&2; exit 3"), at_most).unwrap();
        assert!(!output.success && output.stdout == "a\n" && output.stderr == "b\n");
        assert!(expect(&mut shell("echo why >&2; exit 1"), at_most).unwrap_err().message.contains("why"));
        let error = run(&mut shell("exec sleep 30"), Duration::from_millis(50)).unwrap_err();
        assert!(error.message.contains("did not end"));
    }

    #[test]
    fn what_a_program_leaves_behind_is_not_waited_for() {
        let (begin, mut command) = (Instant::now(), Command::new("sh"));
        let output = run(command.args(["-c", "echo a; sleep 30 &"]), Duration::from_secs(20)).unwrap();
        assert!(output.success && output.stdout == "a\n");
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    }
}
