//! `motet restart`: an island that has died is started again, in a machine that runs. `motet state`: what such a machine is doing.

use std::{io::Write as _, time::Duration};

use motet_error::Result;
use motet_fabric::control::{self, choose};

use crate::{
    arguments::{RestartOptions, StateOptions},
    progress,
};

const HINT: &str = "motet run --survive starts one that goes on when an island dies";

/// Starts it, and waits until it has joined.
///
/// # Errors
/// No machine runs, or several, or the machine refuses: it says why.
pub fn restart(options: &RestartOptions) -> Result<u8> {
    let run = choose(options.run, HINT)?;
    let answer = control::ask(run, &format!("restart {}", options.island))?;
    let after = Duration::from_millis(answer.trim_end().parse().unwrap_or_default());
    progress::print(&format!("motet: island {} joined again after {:.2} s", options.island, after.as_secs_f64()));
    Ok(0)
}

/// Shows what a machine is doing.
///
/// # Errors
/// No machine runs, or several, or it does not answer.
pub fn state(options: &StateOptions) -> Result<u8> {
    let run = choose(options.run, HINT)?;
    let text = control::ask(run, "state")?;
    // A reader that has gone has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(0)
}
