//! The command line of `motet top`.

use clap::Args;

const EXAMPLES: &str = "\
Examples, beside `./motet run` in another terminal:
  ./motet top
  ./motet top --interval 0.5 --run 4711           of several machines, that of process 4711
  ./motet top --batch                             tables of one second, for scripts
  ./motet top --batch --interval 10 --count 0     every ten seconds, until the machine ends
  ./motet top --json --count 60 > minute.jsonl    a line of JSON each second

Keys: q ends it, space stops and goes on, Tab shows other tables (counts, memory, caches, messages), c m t p n sort processes by processor time in
the interval, memory, time in all, number or name, arrows scroll, ? explains. docs/top.md says what the columns mean.
Nothing of the machine is stopped or changed. Exit status: 0 when it was ended, or the machine has.";

/// `motet top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TopOptions {
    /// The process that runs the machine, if several run
    #[arg(long, value_name = "PROCESS")]
    pub run: Option<u32>,
    /// What is counted is counted over so many seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
    /// Print tables as plain text
    #[arg(long, short)]
    pub batch: bool,
    /// How often; 0: until the machine ends (with --batch or --json) [default: 1]
    #[arg(long, short = 'n', value_name = "N")]
    pub count: Option<u64>,
    /// Print a line of JSON instead
    #[arg(long, conflicts_with = "batch")]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let range = 0.1..=3600.0;
    if range.contains(&seconds) { Ok(seconds) } else { Err("0.1 to 3600".into()) }
}
