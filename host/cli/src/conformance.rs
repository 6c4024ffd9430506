//! `motet conformance`: the hardware conformance suite on a real machine.

use motet_error::Result;
use motet_fabric::{
    Command, HostPool,
    place::Place,
    run::{Event, Hooks, Mode, Outcome},
};

use crate::{
    arguments::{ConformanceOptions, NetworkOptions, Stray},
    progress::Progress,
    run,
};

/// Boots a machine in conformance mode; what the islands report goes to standard error.
///
/// # Errors
/// An island failed, hung or died.
pub fn conformance(options: &ConformanceOptions) -> Result<u8> {
    let place = Place::find()?;
    let mode = match options.stray {
        None => Mode::Conformance,
        Some(Stray::Behind) => Mode::StrayBehind,
        Some(Stray::Above) => Mode::StrayAbove,
        Some(Stray::Below) => Mode::StrayBelow,
        Some(Stray::Device) => Mode::StrayDevice,
    };
    let mut settings = run::settings(&place, &options.machine, mode, Command::default())?;
    let network = NetworkOptions { net: options.net, ..NetworkOptions::default() };
    settings.network = run::network(&settings.machine, &network, false)?;
    let mut hooks = ConformanceHooks { progress: Progress::new(&settings.machine, true) };
    Ok(match motet_fabric::run::run(&settings, &mut hooks)? {
        Outcome::Exited(status) => status,
        Outcome::Interrupted(signal) => 128 + signal as u8,
    })
}

struct ConformanceHooks {
    progress: Progress,
}

impl Hooks for ConformanceHooks {
    fn event(&mut self, event: Event<'_>) {
        self.progress.event(event);
    }

    fn prepare(&mut self, _pool: &HostPool) -> Result<()> {
        Ok(())
    }

    fn collect(&mut self, _pool: &HostPool) -> Result<()> {
        Ok(())
    }
}
