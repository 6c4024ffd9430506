//! Machines whose islands have a kernel each, with windows between them (`docs/protocols/messages.md`): a scenario for each kernel.

use std::sync::PoisonError;

use motet_hal_hosted::{Config, Driver, Failure, Host, WindowConfig};
use motet_layout::Pool;

use crate::{Console, Scenario, Texts, run_motet, three_islands};

/// The smallest rings.
pub const SMALL: WindowConfig =
    WindowConfig { slots: 2, slot_len: 8 << 10, coalesces: false, prefetch: 0, by_reference: false };

/// How a run of several kernels ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelsEnded {
    /// Each of them.
    pub kernels: Vec<KernelEnded>,
    /// Points passed, under a seed.
    pub steps: u64,
    /// Hash of the schedule, under a seed.
    pub trace: u64,
}

/// How one of them ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelEnded {
    /// Its first process's exit status. `None`: that has not ended, or it had none.
    pub status: Option<u32>,
    /// Standard output.
    pub output: String,
    /// Standard error and kernel messages.
    pub errors: String,
}

/// A machine of so many kernels, on x86-64, AArch64 and RISC-V, with two cores each.
pub fn machine(driver: Driver, kernels: usize, windows: WindowConfig) -> Config {
    let mut islands = three_islands([2; 3]);
    islands.truncate(kernels);
    // A kernel that waits a second for room takes some millions.
    let steps_max = 200_000_000;
    Config { pool_len: 32 << 20, windows: Some(windows), steps_max, ..Config::new(driver, islands) }
}

/// Runs a scenario on each kernel of a machine. The run ends when all that have a command and live have ended; `look` sees the pools then.
///
/// # Errors
/// A kernel panicked, or the run did not end.
///
/// # Panics
/// There are more or fewer scenarios than kernels.
pub fn boot_kernels<T>(
    config: Config,
    scenarios: &[Scenario],
    look: impl FnOnce(&[Pool]) -> T,
) -> Result<(KernelsEnded, T), Failure> {
    let texts: Vec<Texts> = scenarios.iter().map(|_| Texts::default()).collect();
    let host = |texts: &Texts| -> Box<dyn Host> {
        Box::new(Console { texts: texts.clone(), look: None, left: Default::default() })
    };
    let outcome = run_motet(config, texts.iter().map(host).collect(), scenarios);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let said: Vec<[String; 2]> = texts
        .iter()
        .map(|texts| std::mem::take(&mut *texts.lock().unwrap_or_else(PoisonError::into_inner)).map(text))
        .collect();
    let outcome = outcome.map_err(|mut failure| {
        for (kernel, [output, errors]) in said.iter().enumerate() {
            failure.message.push_str(&format!("\n--- output of kernel {kernel}\n{output}\n--- its errors\n{errors}"));
        }
        failure
    })?;
    let kernels = said.into_iter().zip(&outcome.logs).zip(&outcome.statuses);
    let kernels = kernels
        .map(|(([output, errors], log), &status)| {
            KernelEnded { status, output, errors: errors + &text(log.clone()) } //
        })
        .collect();
    let pools: Vec<Pool> = (0..scenarios.len()).map(|kernel| outcome.pool(kernel)).collect();
    let seen = look(&pools);
    Ok((KernelsEnded { kernels, steps: outcome.steps, trace: outcome.trace }, seen))
}
