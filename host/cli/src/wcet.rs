//! `motet wcet`: the worst-case latency of allocations of the FPGA, from a machine file.

use std::{fmt::Write, io};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::place::Place;
use motet_machine::MachineSpec;
use motet_wcet::{Analysis, Bound, Client, LEAST_URGENT, Terms};

use crate::{arguments::WcetOptions, output::OutputFile};

/// Prints the table, and writes the JSON file if one is wanted.
///
/// # Errors
/// The machine has no FPGA, or an option names what is not there.
pub fn wcet(options: &WcetOptions) -> Result<u8> {
    let file = Place::find()?.machine(options.machine.as_deref());
    let machine = MachineSpec::load(&file)?;
    let named = |error: Error| Error::new(error.kind, format!("{}: {error}", file.display()));
    let analysis = Analysis::new(&machine, options.island.as_deref()).map_err(named)?;
    let clients = options.clients.iter().map(|text| client(&analysis, text)).collect::<Result<Vec<_>>>()?;
    let bounds = if clients.is_empty() { analysis.bounds(options.queue) } else { analysis.bounds_of(&clients) };
    if let Some(path) = &options.json {
        let results = serde_json::json!({ "terms": analysis.terms(), "bounds": bounds });
        let write = |out: &mut dyn io::Write| {
            serde_json::to_writer_pretty(&mut *out, &results)?;
            out.write_all(b"\n")
        };
        OutputFile::create("--json", path)?.write(write)?;
    }
    motet_error::print(&table(analysis.terms(), &bounds)).map(|()| 0)
}

/// `ACCELERATOR:PRIORITY:JOB_US`.
fn client(analysis: &Analysis, text: &str) -> Result<Client> {
    let wrong = || {
        let message = format!(
            "--client {text}: not ACCELERATOR:PRIORITY:JOB_US with a priority of 0 to {LEAST_URGENT}, such as qam16:5:200"
        );
        Error::new(ErrorKind::Usage, message)
    };
    let [name, priority, job_us] = text.split(':').collect::<Vec<_>>().try_into().map_err(|_| wrong())?;
    let priority = priority.parse().ok().filter(|priority| *priority <= LEAST_URGENT).ok_or_else(wrong)?;
    let job_us: u64 = job_us.parse().ok().filter(|job_us| *job_us <= JOB_US_MAX).ok_or_else(wrong)?;
    Ok(Client { accelerator: analysis.accelerator(name)?, priority, job_ps: job_us * 1_000_000 })
}

/// Longest job: an hour.
const JOB_US_MAX: u64 = 3_600_000_000;

fn table(terms: Terms, bounds: &[Bound]) -> String {
    let us = |ps: u64| format!("{:.2}", ps as f64 / 1e6);
    let perhaps = |ps: Option<u64>| ps.map_or("-".to_owned(), us);
    let mut text = format!(
        "trap {} us, revoke {}, resume {}; manager: search {}, solutions {}, {} and {}, port {}, stop {}\n\n",
        us(terms.trap_ps),
        us(terms.revoke_ps),
        us(terms.resume_ps),
        us(terms.search_ps),
        us(terms.assign_ps),
        us(terms.reconfigure_ps),
        us(terms.preempt_ps),
        us(terms.port_ps),
        us(terms.stop_ps)
    );
    let heads = ["stop", "load", "direct", "reconfigure", "preempt", "both", "queue", "rivals", "worst"];
    let heads = heads.iter().fold(String::new(), |line, head| format!("{line}{head:>12}"));
    let _ = writeln!(text, "{:<12}{:>8}{heads}   (us)", "accelerator", "priority");
    for bound in bounds {
        let cells = [
            perhaps(bound.preemption_wait_ps),
            us(bound.reconfiguration_ps),
            us(bound.direct_ps),
            us(bound.reconfigure_ps),
            perhaps(bound.preempt_ps),
            perhaps(bound.both_ps),
            us(bound.queue_ps),
            us(bound.rivals_ps),
            us(bound.worst_ps),
        ];
        let cells = cells.iter().fold(String::new(), |line, cell| format!("{line}{cell:>12}"));
        let _ = writeln!(text, "{:<12}{:>8}{cells}", bound.accelerator, bound.priority);
    }
    text
}
