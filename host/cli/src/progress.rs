//! What the user sees while islands boot: a line per island that changes on a terminal, plain lines otherwise.

use std::{
    io::{IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use motet_fabric::run::Event;
use motet_machine::MachineSpec;

/// Progress of one run, on standard error.
pub struct Progress {
    names: Vec<String>,
    labels: Vec<String>,
    verbose: bool,
    color: bool,
    bars: Option<(MultiProgress, Vec<ProgressBar>)>,
}

impl Progress {
    /// Progress of `machine`.
    pub fn new(machine: &MachineSpec, verbose: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let describe = |island: &motet_machine::IslandSpec| {
            let plural = if island.cores == 1 { "" } else { "s" };
            format!("{} ({}, {} core{plural})", island.name, island.isa.name(), island.cores)
        };
        let labels = machine.islands.iter().map(describe).collect();
        let names = machine.islands.iter().map(|island| island.name.clone()).collect();
        // Diagnostic lines and lines that change do not go together.
        let bars = (terminal && !verbose).then(|| (MultiProgress::new(), Vec::new()));
        Self { names, labels, verbose, color, bars }
    }

    /// Shows what happened.
    pub fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Started { island } => self.started(island),
            Event::Joined { island, after } => self.joined(island, after),
            Event::Line { island, line } => self.line(island, line),
            Event::Lost { island, what } => {
                print(&format!("motet: island {}: {what}; the machine goes on without it", self.names[island]));
            }
            Event::Restarting { island } => print(&format!("motet: island {} is started again", self.names[island])),
            Event::Rejoined { island, after } => {
                print(&format!("motet: {} joined again after {:.2} s", self.labels[island], after.as_secs_f64()));
            }
            Event::Running => self.finish(),
            Event::ReaderGone { .. } => {}
        }
    }

    /// Removes what changes from the terminal: other output follows.
    pub fn finish(&mut self) {
        if let Some((all, bars)) = self.bars.take() {
            bars.iter().for_each(ProgressBar::finish_and_clear);
            let _ = all.clear();
        }
    }

    fn started(&mut self, island: usize) {
        if let Some((all, bars)) = &mut self.bars {
            let template = if self.color { "{spinner:.cyan} {msg}" } else { "{spinner} {msg}" };
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = all.add(ProgressBar::new_spinner().with_style(style));
            bar.set_message(format!("{} boots", self.labels[island]));
            bar.enable_steady_tick(Duration::from_millis(100));
            bars.push(bar);
        }
    }

    fn joined(&mut self, island: usize, after: Duration) {
        let text = format!("{} joined after {:.2} s", self.labels[island], after.as_secs_f64());
        match &self.bars {
            Some((_, bars)) => bars[island].set_message(text),
            None => print(&format!("motet: {text}")),
        }
    }

    fn line(&self, island: usize, line: &str) {
        if !self.verbose {
            return;
        }
        let name = &self.names[island];
        match self.color {
            true => print(&format!("\x1b[{}m[{name}]\x1b[0m {line}", 31 + (island + 1) % 6)),
            false => print(&format!("[{name}] {line}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Whether a line found no way to standard error.
static LINE_LOST: AtomicBool = AtomicBool::new(false);

/// A line on standard error. If that does not take it, there is nobody to tell; the exit status will.
pub fn print(line: &str) {
    if writeln!(std::io::stderr(), "{line}").is_err() {
        LINE_LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether something could not be [printed](print).
pub fn has_lost_lines() -> bool {
    LINE_LOST.load(Ordering::Relaxed)
}
