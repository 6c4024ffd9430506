//! Tests of whole machines: `motet` boots fused QEMU islands and runs programs on them.
//!
//! `./motet test machine` runs them, `./motet test machine pipelines` those with that word in their names. `MOTET_TEST_HOST=1` replaces the
//! machine by a second run on the host: a check of the scripts themselves.
#![forbid(unsafe_code)]

mod accel;
mod accel_guests;
mod accel_looks;
mod accel_stores;
mod accel_vms;
mod accesses;
mod away;
mod bad_input;
mod bytes;
mod charged;
mod clock;
mod command_line;
mod compiled;
mod conformance;
mod cpp;
mod crossing;
mod crossing_policies;
mod el2;
mod engine_calls;
mod examples;
mod extensions;
mod fairness;
mod firmware;
mod fuzz;
mod golang;
mod guests;
mod hardware_threads;
mod hidden;
mod hostile;
mod hot_paths;
mod hotplug;
mod hthreads;
mod late;
mod libc_test;
mod libraries;
mod litmus;
mod long_calls;
mod measured;
mod models;
mod multikernel;
mod network;
mod npb;
mod os;
mod outside;
mod package;
mod placement;
mod posix;
mod preemption;
mod process;
mod pthreads;
mod random_programs;
mod random_vectors;
mod realtime;
mod regions;
mod restart;
mod scaling;
mod scripts;
mod service;
mod shares;
mod shell;
mod shown;
mod stopped;
mod stramash;
mod streams;
mod sweeps;
mod terminals;
mod timed;
mod top;
mod transfers;
mod trial;
mod vectors;
mod vm;
mod vm_aarch64;
mod vm_consoles;
mod vm_switches;
mod vm_times;
mod vm_users;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use trial::{Trial, Wanted, trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--list"] => trial::list(&trials(&Wanted::All)),
        ["--run", results, ..] => run(Path::new(results), &arguments[2..]),
        _ => Err(io::Error::other("./motet test machine runs me: --list, or --run FILE NAME...")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(results: &Path, names: &[String]) -> io::Result<()> {
    let wanted = Wanted::Named(names.to_vec());
    let mut trials = trials(&wanted);
    trials.retain(|trial| wanted.has(trial.name()));
    trial::run(trials, results)
}

/// All tests; of those that share a boot, those that are wanted.
fn trials(wanted: &Wanted) -> Vec<Trial> {
    let mut trials = script_trials(wanted);
    if on_host_only() {
        return trials;
    }
    trials.extend(command_line::trials());
    trials.extend(away::trials());
    trials.extend(bad_input::trials());
    trials.extend(engine_calls::trials());
    trials.extend(examples::trials());
    trials.extend(charged::trials());
    trials.extend(clock::trials());
    trials.extend(extensions::trials());
    trials.extend(fuzz::trials());
    trials.extend(fairness::trials());
    trials.extend(firmware::trials());
    trials.extend(guests::trials());
    trials.extend(hidden::trials());
    trials.extend(hostile::trials());
    trials.extend(hot_paths::trials());
    trials.extend(hotplug::trials());
    trials.extend(hthreads::trials());
    trials.extend(hardware_threads::trials());
    trials.extend(preemption::trials());
    trials.extend(pthreads::trials());
    trials.extend(conformance::trials());
    trials.extend(realtime::trials());
    trials.extend(regions::trials());
    trials.extend(restart::trials());
    trials.extend(accesses::trials());
    trials.extend(models::trials());
    trials.extend(measured::trials());
    trials.extend(network::trials());
    trials.extend(npb::trials());
    trials.extend(os::trials());
    trials.extend(outside::trials());
    trials.extend(package::trials());
    trials.extend(shown::trials());
    trials.extend(terminals::trials());
    trials.extend(shell::trials());
    trials.extend(top::trials());
    trials.extend(timed::trials());
    trials.extend(accel::trials());
    trials.extend(accel_guests::trials());
    trials.extend(accel_looks::trials());
    trials.extend(accel_stores::trials());
    trials.extend(accel_vms::trials());
    trials.extend(scaling::trials());
    trials.extend(service::trials());
    trials.extend(shares::trials());
    trials.extend(stopped::trials());
    trials.extend(stramash::trials());
    trials.extend(sweeps::trials());
    trials.extend(transfers::trials());
    trials.extend(vectors::trials());
    trials.extend(vm_consoles::trials());
    trials.extend(vm_switches::trials());
    trials.extend(vm_times::trials());
    trials.extend(vm_users::trials());
    trials.extend(el2::trials());
    trials.extend(placement::trials());
    trials.extend(long_calls::trials());
    trials.extend(vm::trials());
    trials.extend(vm_aarch64::trials());
    trials.extend(bytes::trials());
    trials.extend(streams::trials());
    trials.extend(crossing::trials(wanted));
    trials.extend(crossing_policies::trials());
    trials.extend(cpp::trials());
    trials.extend(late::trials());
    trials.extend(multikernel::trials());
    trials.extend(libraries::trials());
    trials.extend(litmus::trials());
    trials.extend(libc_test::trials());
    trials.extend(posix::trials());
    trials.extend(golang::trials());
    trials
}

fn on_host_only() -> bool {
    std::env::var_os("MOTET_TEST_HOST").is_some()
}

/// A busybox that the host can run.
fn host_busybox() -> PathBuf {
    process::target().join("userland").join(std::env::consts::ARCH).join("busybox")
}

/// One trial per script. The first one that runs boots the machine, for all that are not filtered out.
fn script_trials(wanted: &Wanted) -> Vec<Trial> {
    let mut trials = Vec::new();
    for folder in ["same", "motet"] {
        let name = |script: &scripts::Script| format!("{folder}::{}", script.name);
        let nothing_left = format!("{folder}::scripts_leave_nothing_behind");
        let is_wanted = |script: &scripts::Script| wanted.has(&nothing_left) || wanted.has(&name(script));
        let batch: Vec<scripts::Script> = scripts::in_folder(folder).into_iter().filter(is_wanted).collect();
        if folder == "motet" && on_host_only() {
            continue;
        }
        let shared = Arc::new((batch.clone(), OnceLock::new()));
        if !on_host_only() {
            let shared = shared.clone();
            let left = trial(&nothing_left, move || {
                scripts::nothing_is_left(shared.1.get_or_init(|| scripts::on_machine(&shared.0, &[])))
            });
            trials.push(left.sharing(folder));
        }
        for script in batch {
            let shared = shared.clone();
            let scripted = trial(&name(&script), move || {
                let want = if folder == "same" { script.on_host(&host_busybox()) } else { script.as_written() }?;
                if on_host_only() {
                    return scripts::compare(&want, &script.on_host(&host_busybox())?);
                }
                let results = shared.1.get_or_init(|| scripts::on_machine(&shared.0, &[]));
                let got = results.get(&script.name).ok_or("no result")?.as_ref().map_err(String::clone)?;
                scripts::compare(&want, got)
            });
            trials.push(scripted.sharing(folder));
        }
    }
    trials
}
