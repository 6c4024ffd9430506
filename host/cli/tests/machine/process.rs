//! Runs of the program `motet`, with a time limit and a watch on what they leave behind.

use rustix::process::Pid;
use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The instruction sets of a whole machine, as commands name them.
pub const ISAS: [&str; 3] = ["x86_64", "aarch64", "riscv64"];

/// A run that takes longer hangs.
pub const LIMIT: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// The folder of build results.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The program `motet`, as users have it.
pub fn program() -> PathBuf {
    target().join("release/motet")
}

/// What is to be run.
#[derive(Default)]
pub struct Motet {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    folder: Option<PathBuf>,
    limit: Option<Duration>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Ended {
    /// Standard output.
    pub output: String,
    /// Standard output, byte by byte.
    pub bytes: Vec<u8>,
    /// Standard error.
    pub errors: String,
    /// How it ended; `None`: it was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// How long it took.
    pub took: Duration,
    /// What the machine said of its cores and threads when it was killed at its time limit, twice, a second apart: whether it hung or was slow.
    pub state: String,
}

impl Motet {
    /// `motet run` with these arguments.
    pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self::default().argument("run").arguments(arguments)
    }

    /// `motet run -- COMMAND`.
    pub fn command(command: &str) -> Self {
        Self::run(["--", command])
    }

    /// Adds an argument.
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn arguments<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// What it reads.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Where it runs.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Kills it after this time instead of after [`LIMIT`].
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The command, for those that start it in another way.
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(program());
        command.args(&self.arguments).env("MOTET_ROOT", root()).env("CARGO_TARGET_DIR", target());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Starts it.
    pub fn start(&self) -> Running {
        let mut command = self.to_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("motet starts");
        let (mut stdin, input) = (child.stdin.take().expect("piped"), self.input.clone());
        // A machine that ends without reading everything is no error.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = Collected::new(child.stdout.take().expect("piped"));
        let errors = Collected::new(child.stderr.take().expect("piped"));
        Running { child, output, errors, started: Instant::now(), limit: self.limit.unwrap_or(LIMIT) }
    }

    /// Runs it to its end.
    pub fn wait(&self) -> Ended {
        self.start().wait()
    }
}

/// Bytes that a thread reads from a pipe.
pub struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Collected {
    /// Starts reading.
    pub fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 65536];
            // A pseudo-terminal ends with an error.
            while let Ok(got @ 1..) = pipe.read(&mut chunk) {
                sink.lock().expect("no reader panics").extend_from_slice(&chunk[..got]);
            }
        });
        Self { bytes, reader }
    }

    /// What has come so far.
    pub fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("no reader panics")).into_owned()
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.lock().expect("no reader panics").len()
    }

    /// Whether there is no more to come.
    pub fn has_ended(&self) -> bool {
        self.reader.is_finished()
    }

    /// Everything.
    pub fn finish(self) -> Vec<u8> {
        let _ = self.reader.join();
        std::mem::take(&mut self.bytes.lock().expect("no reader panics"))
    }
}

/// A run in progress.
pub struct Running {
    child: Child,
    /// Its standard output.
    pub output: Collected,
    /// Its standard error.
    pub errors: Collected,
    started: Instant,
    limit: Duration,
}

impl Running {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs, and is within its time.
    pub fn goes_on(&mut self) -> bool {
        self.started.elapsed() < self.limit && matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `done` says so; false when the run ended before.
    pub fn until(&mut self, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            if !self.goes_on() {
                return done(self);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        while self.goes_on() {
            std::thread::sleep(LOOK_EVERY);
        }
        let status = self.child.try_wait().ok().flatten();
        let mut state = String::new();
        if status.is_none() {
            state = state_of(self.id());
            std::thread::sleep(Duration::from_secs(1));
            state = format!("--- its state:\n{state}--- and a second later:\n{}", state_of(self.id()));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let took = self.started.elapsed();
        let (bytes, errors) = (self.output.finish(), self.errors.finish());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { output: text(&bytes), errors: text(&errors), bytes, status, took, state }
    }
}

/// What a machine says of its islands, cores and threads.
fn state_of(run: u32) -> String {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(motet_fabric::control::ask(run, "state")));
    match told.recv_timeout(Duration::from_secs(10)) {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => format!("{}\n", error.message),
        Err(_) => "motet itself does not answer\n".into(),
    }
}

impl Ended {
    /// The exit status; -1 when it has none.
    pub fn code(&self) -> i32 {
        self.status.and_then(|status| status.code()).unwrap_or(-1)
    }

    /// Everything about the run, for failures.
    pub fn describe(&self) -> String {
        let how = match self.status {
            Some(status) => format!("ended after {:.1} s: {status}", self.took.as_secs_f64()),
            None => format!("was killed at its time limit, after {:.1} s", self.took.as_secs_f64()),
        };
        let (output, errors) = (tail(&self.output), tail(&self.errors));
        format!("motet {how}\n--- its output:\n{output}\n--- its errors:\n{errors}\n{}", self.state)
    }

    /// Checks the exit status.
    ///
    /// # Errors
    /// It is another one.
    pub fn expect_code(&self, wanted: i32) -> Result<&Self, String> {
        let got = self.code();
        if got == wanted { Ok(self) } else { Err(format!("exit status {got}, not {wanted}\n{}", self.describe())) }
    }

    /// Checks the output.
    ///
    /// # Errors
    /// It is another one.
    pub fn expect_output(&self, wanted: &str) -> Result<&Self, String> {
        let same = self.output == wanted;
        if same { Ok(self) } else { Err(format!("the output is not {wanted:?}\n{}", self.describe())) }
    }

    /// Checks the output's lines, in any order.
    ///
    /// # Errors
    /// They are others.
    pub fn expect_lines(&self, wanted: &str) -> Result<&Self, String> {
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(Into::into).collect();
            lines.sort_unstable();
            lines
        };
        let same = sorted(&self.output) == sorted(wanted);
        if same { Ok(self) } else { Err(format!("the lines are not those of {wanted:?}\n{}", self.describe())) }
    }

    /// Checks that all of `parts` are in the errors.
    ///
    /// # Errors
    /// One is not.
    pub fn expect_errors(&self, parts: &[&str]) -> Result<&Self, String> {
        match parts.iter().find(|part| !self.errors.contains(**part)) {
            None => Ok(self),
            Some(part) => Err(format!("{part:?} is not in the errors\n{}", self.describe())),
        }
    }
}

/// The last lines of a text.
fn tail(text: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(LINES);
    let mut end = if skipped == 0 { String::new() } else { format!("({skipped} more lines)\n") };
    end.push_str(&lines[skipped..].join("\n"));
    end
}

/// The process ids of a process's children.
pub fn children_of(parent: u32) -> BTreeSet<u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|&id| parent_of(id) == Some(parent)).collect()
}

/// Whether a process is there and not only waits to be collected.
pub fn is_alive(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != "Z" && state != "X")
}

fn parent_of(id: u32) -> Option<u32> {
    stat(id).map(|(_, parent)| parent)
}

/// State and parent of a process (proc_pid_stat(5)).
fn stat(id: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it may contain anything.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// The command line of a process.
pub fn command_line(id: u32) -> String {
    let bytes = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Waits for the word `started` of a command; the QEMUs.
pub fn started(running: &mut Running) -> Result<BTreeSet<u32>, String> {
    if !running.until(|running| running.output.so_far().contains("started")) {
        running.kill();
        return Err(format!("the command has not started:\n{}", running.errors.so_far()));
    }
    let islands = children_of(running.id());
    if islands.len() == 3 { Ok(islands) } else { Err(format!("not three islands: {islands:?}")) }
}

/// The same number as [`rustix`] has it.
pub fn pid(id: u32) -> Result<Pid, String> {
    i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(|| format!("no process {id}"))
}

/// Waits until none of these processes is alive.
///
/// # Errors
/// Those that stay.
pub fn expect_gone(ids: &BTreeSet<u32>) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while ids.iter().any(|&id| is_alive(id)) {
        if Instant::now() > deadline {
            let left: Vec<String> = ids.iter().filter(|&&id| is_alive(id)).map(|&id| command_line(id)).collect();
            return Err(format!("left behind: {}", left.join("; ")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
