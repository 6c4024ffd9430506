//! The line that shows how far a timed run is: drawn again and again on a terminal, a plain line now and then otherwise.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use motet_fabric::{
    terminal,
    timed::{ClockReading, IslandReading},
};
use motet_machine::MachineSpec;

use crate::progress;

/// The time between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// The line of one run, on standard error.
pub struct Live {
    names: Vec<String>,
    on_terminal: bool,
    /// When the last line was shown, and what had been counted then.
    last: Option<(Instant, ClockReading)>,
    drawn: bool,
}

impl Live {
    /// The line of `machine`. Nothing is shown before the first reading.
    pub fn new(machine: &MachineSpec) -> Self {
        let names = machine.islands.iter().map(|island| island.name.clone()).collect();
        Self { names, on_terminal: terminal::draws_lines(), last: None, drawn: false }
    }

    /// Shows how far the machine is, if it is time to.
    pub fn show(&mut self, reading: &ClockReading) {
        let now = Instant::now();
        let Some((at, before)) = &self.last else {
            self.last = Some((now, reading.clone()));
            return;
        };
        let passed = now - *at;
        if !self.on_terminal && passed < PLAIN_EVERY {
            return;
        }
        let line = describe(&self.names, before, reading, passed);
        self.last = Some((now, reading.clone()));
        if self.on_terminal {
            // Cut, because a line that wraps cannot be drawn over; the cursor stays at its beginning.
            let columns = terminal::error_columns().saturating_sub(1);
            let line: String = line.chars().take(columns).collect();
            let _ = write!(std::io::stderr(), "\x1b[2K{line}\r");
            self.drawn = true;
        } else {
            progress::print(&line);
        }
    }

    /// Removes the line: other output follows.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "\x1b[2K");
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The text of the line: simulated time so far, and since the last line each island's million instructions per host second and the share of stalls.
fn describe(names: &[String], before: &ClockReading, now: &ClockReading, passed: Duration) -> String {
    let nothing = IslandReading::default();
    let (mut awake_ps, mut stall_ps) = (0, 0);
    let mut rates = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let of = |reading: &ClockReading| reading.islands.get(index).copied().unwrap_or(nothing);
        let (before, now) = (of(before), of(now));
        awake_ps += now.awake_ps.saturating_sub(before.awake_ps);
        stall_ps += now.stall_ps.saturating_sub(before.stall_ps);
        let instructions = now.instructions.saturating_sub(before.instructions);
        rates.push(format!("{name} {:.1}", instructions as f64 / 1e6 / passed.as_secs_f64().max(1e-9)));
    }
    let stalls = match awake_ps {
        0 => "idle".into(),
        _ => format!("{:.0} % of busy time in stalls", 100.0 * stall_ps as f64 / awake_ps as f64),
    };
    format!("motet: {:.3} s simulated, {stalls}; MIPS: {}", now.time_ps as f64 / 1e12, rates.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time_ps: u64, islands: &[[u64; 3]]) -> ClockReading {
        let island =
            |&[instructions, awake_ps, stall_ps]: &[u64; 3]| IslandReading { instructions, awake_ps, stall_ps };
        ClockReading { time_ps, islands: islands.iter().map(island).collect() }
    }

    #[test]
    fn rates_and_stalls_are_those_since_the_last_line() {
        let names = ["x86".to_owned(), "arm".to_owned()];
        let before = reading(1_000_000_000, &[[1_000_000, 100, 90], [0, 0, 0]]);
        let now = reading(1_234_000_000_000, &[[4_000_000, 200, 115], [500_000, 100, 25]]);
        assert_eq!(
            describe(&names, &before, &now, Duration::from_millis(500)),
            "motet: 1.234 s simulated, 25 % of busy time in stalls; MIPS: x86 6.0, arm 1.0"
        );
        assert_eq!(
            describe(&names, &now, &now, Duration::from_millis(500)),
            "motet: 1.234 s simulated, idle; MIPS: x86 0.0, arm 0.0"
        );
    }
}
