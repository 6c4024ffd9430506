//! Clocks of islands that count differently: what programs read never goes back.

use std::process::{Child, Command, Stdio};

use crate::{
    crossing::compiled,
    trial::{Trial, of_long, trial},
};

/// Readings: a quarter by a thread that crosses, the others by a process on each island that tell each other through shared memory.
const READINGS: u64 = 60_000;
/// In `./motet test long`.
const READINGS_LONG: u64 = 240_000;
/// Busy processes of the host, so that it takes processors from islands.
const BUSY: usize = 3;

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![trial("clock::readings_never_go_back", readings)]
}

/// A process that computes until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self, String> {
        // Should this test be killed, it ends by itself.
        let spin = "ulimit -t 300; while :; do :; done";
        let child = Command::new("sh").args(["-c", spin]).stdin(Stdio::null()).spawn();
        child.map(Self).map_err(|error| error.to_string())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn readings() -> Result<(), String> {
    let programs = compiled("clock", &["-O2"])?;
    let _busy = (0..BUSY).map(|_| Busy::start()).collect::<Result<Vec<_>, _>>()?;
    let readings = of_long(READINGS, READINGS_LONG);
    let ended = programs.run(&format!("clock {readings}"), None);
    ended.expect_code(0)?;
    // Three processes, then one thread: it did what it was to do.
    let counts = ["shared memory", "shared memory", "shared memory", "crossing"]
        .map(|how| format!("{how}: {} readings, 0 back", readings / 4));
    if ended.output.lines().zip(counts).filter(|(line, start)| line.starts_with(start)).count() == 4 {
        Ok(())
    } else {
        Err(ended.describe())
    }
}
