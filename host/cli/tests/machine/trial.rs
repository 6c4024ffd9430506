//! Tests of machines as things with names, and how `host/trials` runs them: `--list` names them, `--run FILE NAME...` runs some.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

/// A test.
pub struct Trial {
    name: String,
    shares: Option<&'static str>,
    is_long: bool,
    left_out: Option<String>,
    test: Box<dyn FnOnce() -> Result<(), String>>,
}

/// A test of this name, which states a fact; it fails with a text.
pub fn trial(name: &str, test: impl FnOnce() -> Result<(), String> + 'static) -> Trial {
    Trial { name: name.to_owned(), shares: None, is_long: false, left_out: None, test: Box::new(test) }
}

impl Trial {
    /// What it is known as.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// It shares a boot with the others that say the same: they are run by one process.
    pub fn sharing(mut self, boot: &'static str) -> Self {
        self.shares = Some(boot);
        self
    }

    /// It is slow by nature: `./motet test long` runs it, or who names it.
    pub fn long(mut self) -> Self {
        self.is_long = true;
        self
    }

    /// It is left out, for this reason, which is told.
    pub fn left_out(mut self, why: Option<String>) -> Self {
        self.left_out = self.left_out.or(why);
        self
    }

    /// It becomes other users of the host, which only the superuser can; others leave it out.
    pub fn for_the_superuser(self) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        self.left_out((!is_root).then(|| "it takes the superuser's rights".into()))
    }
}

/// Whether what is slow by nature is asked for (`./motet test long`).
pub fn is_long() -> bool {
    std::env::var_os("MOTET_LONG").is_some()
}

/// One of two: how much, or what, is tested where what is slow by nature is not asked for, and where it is.
pub fn of_long<T>(quick: T, long: T) -> T {
    if is_long() { long } else { quick }
}

/// Which tests a process is to run; those that share a boot prepare it for these only.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All.
    All,
    /// Those of these names.
    Named(Vec<String>),
}

impl Wanted {
    /// Whether a test of this name is run.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}

/// Prints a line for each test: its name, the name of the process that runs it, and `long` or `quick`, with tabs between them.
pub fn list(trials: &[Trial]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    trials.iter().try_for_each(|trial| {
        let class = if trial.is_long { "long" } else { "quick" };
        writeln!(out, "{}\t{}\t{class}", trial.name, trial.shares.unwrap_or(&trial.name))
    })
}

/// Runs tests one after the other. Each one's line is in `results` when it has ended: name, seconds, seconds of processor time, what was wrong,
/// why it was left out.
pub fn run(trials: Vec<Trial>, results: &Path) -> io::Result<()> {
    let mut results = File::create(results)?;
    for trial in trials {
        let (started, cpu) = (Instant::now(), cpu());
        let failure = if trial.left_out.is_none() { (trial.test)().err() } else { None };
        let took = [started.elapsed(), self::cpu().saturating_sub(cpu)].map(|time| time.as_secs_f64());
        writeln!(results, "{}", serde_json::json!([trial.name, took[0], took[1], failure, trial.left_out]))?;
    }
    Ok(())
}

/// Processor time of this process and of those that it has collected (proc_pid_stat(5): utime, stime, cutime, cstime).
fn cpu() -> Duration {
    /// `sysconf(_SC_CLK_TCK)` on every Linux.
    const MS_PER_TICK: u64 = 10;
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * MS_PER_TICK)
}
