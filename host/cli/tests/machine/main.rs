//! Tests of whole machines: `motet` boots fused QEMU islands and runs programs on them.
//!
//! `./motet test machine` runs them; a filter and `--list` work as with any Rust test:
//! `cargo test --release -p motet-cli --test machine -- pipelines`. `MOTET_TEST_HOST=1` replaces the machine by a second
//! run on the host: a check of the scripts themselves.
#![forbid(unsafe_code)]

mod accel;
mod accel_guests;
mod accel_looks;
mod accel_stores;
mod accel_vms;
mod accesses;
mod bad_input;
mod bytes;
mod charged;
mod clock;
mod command_line;
mod conformance;
mod cpp;
mod crossing;
mod crossing_policies;
mod el2;
mod engine_calls;
mod extensions;
mod fairness;
mod firmware;
mod fuzz;
mod golang;
mod guests;
mod hardware_threads;
mod hidden;
mod hostile;
mod hotplug;
mod hthreads;
mod late;
mod libc_test;
mod libraries;
mod litmus;
mod long_calls;
mod measured;
mod placement;
mod preemption;
mod process;
mod pthreads;
mod random_programs;
mod random_vectors;
mod realtime;
mod regions;
mod restart;
mod scripts;
mod service;
mod shares;
mod streams;
mod timed;
mod transfers;
mod vectors;
mod vm;
mod vm_aarch64;
mod vm_consoles;
mod vm_switches;
mod vm_times;
mod vm_users;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each machine uses several host processors.
    arguments.test_threads.get_or_insert(1);
    let mut trials = script_trials(&arguments);
    if !on_host_only() {
        trials.extend(command_line::trials());
        trials.extend(bad_input::trials());
        trials.extend(engine_calls::trials());
        trials.extend(charged::trials());
        trials.extend(clock::trials());
        trials.extend(extensions::trials());
        trials.extend(fuzz::trials());
        trials.extend(fairness::trials());
        trials.extend(firmware::trials());
        trials.extend(guests::trials());
        trials.extend(hidden::trials());
        trials.extend(hostile::trials());
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
        trials.extend(measured::trials());
        trials.extend(timed::trials());
        trials.extend(accel::trials());
        trials.extend(accel_guests::trials());
        trials.extend(accel_looks::trials());
        trials.extend(accel_stores::trials());
        trials.extend(accel_vms::trials());
        trials.extend(service::trials());
        trials.extend(shares::trials());
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
        trials.extend(crossing::trials(&arguments));
        trials.extend(crossing_policies::trials());
        trials.extend(cpp::trials());
        trials.extend(late::trials());
        trials.extend(libraries::trials());
        trials.extend(litmus::trials());
        trials.extend(libc_test::trials());
        trials.extend(golang::trials());
    }
    if !arguments.list {
        eprintln!("random tests: {}={}", bad_input::SEED_VARIABLE, bad_input::seed());
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test of this name that fails with a text.
pub fn trial(name: &str, test: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::test(name.to_owned(), move || test().map_err(Failed::from))
}

fn on_host_only() -> bool {
    std::env::var_os("MOTET_TEST_HOST").is_some()
}

/// A busybox that the host can run.
fn host_busybox() -> PathBuf {
    process::target().join("userland").join(std::env::consts::ARCH).join("busybox")
}

/// One trial per script. The first one that runs boots the machine, for all that are not filtered out.
fn script_trials(arguments: &Arguments) -> Vec<Trial> {
    let mut trials = Vec::new();
    for folder in ["same", "motet"] {
        let name = |script: &scripts::Script| format!("{folder}::{}", script.name);
        let wanted = |script: &scripts::Script| is_wanted(arguments, &name(script));
        let batch: Vec<scripts::Script> = scripts::in_folder(folder).into_iter().filter(wanted).collect();
        if folder == "motet" && on_host_only() {
            continue;
        }
        let shared = Arc::new((batch.clone(), OnceLock::new()));
        for script in batch {
            let shared = shared.clone();
            trials.push(trial(&name(&script), move || {
                let want = if folder == "same" { script.on_host(&host_busybox()) } else { script.as_written() }?;
                if on_host_only() {
                    return scripts::compare(&want, &script.on_host(&host_busybox())?);
                }
                let results = shared.1.get_or_init(|| scripts::on_machine(&shared.0, &[]));
                let got = results.get(&script.name).ok_or("no result")?.as_ref().map_err(String::clone)?;
                scripts::compare(&want, got)
            }));
        }
    }
    trials
}

/// Whether a test of this name is run.
pub fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    let matches = |filter: &String| if arguments.exact { name == filter } else { name.contains(filter.as_str()) };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}
