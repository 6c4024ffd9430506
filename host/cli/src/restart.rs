//! `motet restart`: an island that has died is started again, in a machine that runs. `motet state`: what such a machine is doing.

use std::{io::Write as _, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::control;

use crate::{
    arguments::{RestartOptions, StateOptions},
    progress,
};

/// Starts it, and waits until it has joined.
///
/// # Errors
/// No machine runs, or several, or the machine refuses: it says why.
pub fn restart(options: &RestartOptions) -> Result<u8> {
    let run = the_run(&control::running()?, options.run)?;
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
    let run = the_run(&control::running()?, options.run)?;
    let text = control::ask(run, "state")?;
    // A reader that has gone has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(0)
}

/// The running machine that the options name; without one, the only one.
fn the_run(running: &[u32], named: Option<u32>) -> Result<u32> {
    let wrong = |kind, message: String| Err(Error::new(kind, message));
    match (named, running) {
        (Some(named), _) if running.contains(&named) => Ok(named),
        (Some(named), _) => {
            wrong(ErrorKind::Usage, format!("process {named} runs no machine; {}", those_that_do(running)))
        }
        (None, []) => wrong(
            ErrorKind::Unavailable,
            "no machine runs on this host: motet run --survive starts one that goes on when an island dies".into(),
        ),
        (None, [only]) => Ok(*only),
        (None, _) => {
            wrong(ErrorKind::Usage, format!("several machines run: say which by --run; {}", those_that_do(running)))
        }
    }
}

fn those_that_do(running: &[u32]) -> String {
    if running.is_empty() {
        return "no process of this host does".into();
    }
    let processes: Vec<String> = running.iter().map(u32::to_string).collect();
    format!("these do: {}", processes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::the_run;

    #[test]
    fn the_only_machine_is_meant_and_of_several_the_one_that_is_named() {
        let message = |running: &[u32], named| the_run(running, named).unwrap_err().message;
        assert_eq!(the_run(&[7], None).unwrap(), 7);
        assert_eq!(the_run(&[7, 9], Some(9)).unwrap(), 9);
        assert!(message(&[7, 9], None).ends_with("say which by --run; these do: 7, 9"));
        assert!(message(&[7], Some(8)).contains("process 8 runs no machine; these do: 7"));
        assert!(message(&[], None).contains("motet run --survive"));
        assert!(message(&[], Some(8)).ends_with("no process of this host does"));
    }
}
