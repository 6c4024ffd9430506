//! The program: on a terminal until a key ends it, or as text.

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Parser;
use motet_error::{Context as _, Error, ErrorKind, Result};
use motet_fabric::{control, watched::Watched};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use crate::{
    batch,
    options::TopOptions,
    screen::{Screen, Wish},
    view::Meter,
};

#[derive(Parser, Debug)]
#[command(name = "motet top", about = "Watch a machine that runs")]
struct Arguments {
    #[command(flatten)]
    options: TopOptions,
}

/// Longest sleep on a terminal: signals are looked for so often.
const LOOK: Duration = Duration::from_millis(200);

/// Runs it.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(ErrorKind::Usage as u8) } else { ExitCode::SUCCESS };
        }
    };
    motet_error::end("motet top", run(&arguments.options))
}

fn run(options: &TopOptions) -> Result<u8> {
    let is_text = options.batch || options.json;
    if options.count.is_some() && !is_text {
        return Err(Error::usage("--count is for --batch or --json"));
    }
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_text && !is_terminal {
        return Err(Error::usage(
            "standard input and output are no terminal: --batch prints tables, --json lines of JSON",
        ));
    }
    let run = control::choose(options.run, "start one in another terminal (./motet run), and then watch it")?;
    let machine = Watched::attach(run)?;
    let interval = Duration::from_secs_f64(options.interval);
    if is_text { print(options, &machine, interval) } else { show(&machine, interval) }
}

/// Prints what happens in each of so many intervals.
fn print(options: &TopOptions, machine: &Watched, interval: Duration) -> Result<u8> {
    let mut meter = Meter::new(machine.process());
    let mut left = options.count.unwrap_or(1);
    let mut has_printed = false;
    let mut due = Instant::now();
    loop {
        let Some(sample) = machine.sample() else {
            return if has_printed { Ok(ended(machine)) } else { Err(gone(machine)) };
        };
        if let Some(view) = meter.next(sample) {
            let separator = if has_printed && !options.json { "\n" } else { "" };
            let text = if options.json { batch::json(&view) } else { batch::text(&view) };
            motet_error::print(&format!("{separator}{text}"))?;
            has_printed = true;
            if left == 1 {
                return Ok(0);
            }
            left = left.saturating_sub(1);
        }
        due += interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Shows it on the terminal, which is as before when this returns, and after a panic.
fn show(machine: &Watched, interval: Duration) -> Result<u8> {
    let is_over = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicBool::new(false));
    flag::register_conditional_default(SIGHUP, reads.clone()).host("a signal handler")?;
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        flag::register(signal, is_over.clone()).host("a signal handler")?;
    }
    let keys = Keys { is_over, reads };
    // It has the terminal restored by the hook for panics, too.
    let mut terminal = ratatui::try_init().context(ErrorKind::Io, || "the terminal".into())?;
    // What cannot be drawn on a terminal that has hung up is no failure.
    let outcome =
        draw(machine, interval, &mut terminal, &keys).or_else(|error| match keys.have_ended(Duration::ZERO) {
            Ok(true) => Ok(End::Asked),
            Ok(false) | Err(_) => Err(error),
        });
    // One that has hung up is not to be restored; and what is dropped would say so where nobody hears it, which is a panic.
    if ratatui::try_restore().and_then(|()| terminal.show_cursor()).is_err() {
        std::mem::forget(terminal);
    }
    match outcome.context(ErrorKind::Io, || "the terminal".into())? {
        End::Asked => Ok(0),
        End::Machine => Ok(ended(machine)),
    }
}

enum End {
    /// By a key or a signal, or by a terminal that has hung up.
    Asked,
    /// The machine has.
    Machine,
}

fn draw(
    machine: &Watched,
    interval: Duration,
    terminal: &mut ratatui::DefaultTerminal,
    keys: &Keys,
) -> std::io::Result<End> {
    let mut meter = Meter::new(machine.process());
    let mut screen = Screen::default();
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= due {
            let Some(sample) = machine.sample() else { return Ok(End::Machine) };
            // The intervals go on while the screen stands still.
            let view = meter.next(sample);
            view.filter(|_| !screen.is_paused).into_iter().for_each(|view| screen.update(view));
            due = (due + interval).max(now);
        }
        terminal.draw(|frame| screen.draw(frame))?;
        match keys.next(LOOK.min(due.saturating_duration_since(Instant::now())))? {
            Some(pressed) if pressed.iter().all(|&key| screen.key(key) != Wish::Quit) => {}
            _ => return Ok(End::Asked),
        }
    }
}

/// Keys of the terminal on standard input.
struct Keys {
    /// A signal has come that ends the program.
    is_over: Arc<AtomicBool>,
    /// It is being read from. A terminal that hangs up then is read over and over by crossterm, so SIGHUP does at that time what it does to others.
    reads: Arc<AtomicBool>,
}

impl Keys {
    /// Waits for keys for this time at most. Whether there will be none any more: a signal has come, or the terminal has hung up.
    fn have_ended(&self, within: Duration) -> std::io::Result<bool> {
        let input = std::io::stdin();
        let mut ends = [PollFd::new(&input, PollFlags::IN)];
        let within = Timespec::try_from(within).map_err(std::io::Error::other)?;
        match poll(&mut ends, Some(&within)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.is_over.load(Ordering::Relaxed) || ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }

    /// Those that are pressed within this time: when there are some, it waits no longer. `None`: there will be no more.
    fn next(&self, within: Duration) -> std::io::Result<Option<Vec<KeyEvent>>> {
        if self.have_ended(within)? {
            return Ok(None);
        }
        self.reads.store(true, Ordering::Relaxed);
        let mut pressed = Vec::new();
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                pressed.push(key);
            }
        }
        self.reads.store(false, Ordering::Relaxed);
        Ok(Some(pressed))
    }
}

fn ended(machine: &Watched) -> u8 {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "motet top: the machine of process {} has ended", machine.process());
    0
}

fn gone(machine: &Watched) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the machine of process {} has ended before the first interval had", machine.process()),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_is_refused() {
        use clap::Parser as _;
        for wrong in [
            &["--interval", "0"][..],
            &["--interval", "nan"],
            &["--interval", "x"],
            &["--run", "x"],
            &["--batch", "--json"],
            &["x"],
        ] {
            let words = ["motet top"].iter().chain(wrong);
            assert!(Arguments::try_parse_from(words).is_err(), "{wrong:?}");
        }
    }
}
