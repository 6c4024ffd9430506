//! Islands whose cores can run guests: kernels of AArch64 are in EL2 there. Guests themselves are in the suite for hardware layers.

use std::{fs, path::Path, time::Duration};

use crate::{
    process::{Motet, root},
    trial::{Trial, trial},
};

/// The suite's own waits are long, for busy hosts.
const LIMIT: Duration = Duration::from_secs(900);

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("el2::aarch64_and_riscv64_conform", || conforms("cortex-a76", &["guest_timer", "guest_aborts"])),
        trial("el2::aarch64_with_sve_conforms", || conforms("max", &["guest_timer", "vectors_survive_closing"])),
        trial("el2::programs_of_a_kernel_in_el2_are_as_others", programs),
        trial("el2::translations_of_a_kernel_in_el2_are_seen_in_timed_runs", translations),
    ]
}

fn machine(folder: &Path, text: &str) -> Result<std::path::PathBuf, String> {
    let path = folder.join("machine.toml");
    fs::write(&path, format!("[pool]\nsize = \"256MiB\"\n{text}")).map_err(|error| error.to_string())?;
    Ok(path)
}

/// The suite on an AArch64 island whose kernel is in EL2, on one whose kernel is in EL1, and on one of RISC-V.
fn conforms(cpu: &str, passed: &[&str]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let island = |name: &str, isa: &str, more: &str| format!("[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\n{more}");
    let text = [
        island("el2", "aarch64", &format!("cores = 2\nguests = true\ncpu = \"{cpu}\"\n")),
        island("el1", "aarch64", "cores = 1\n"),
        island("hs", "riscv64", "cores = 1\nguests = true\n"),
    ];
    let path = machine(folder.path(), &text.concat())?;
    let arguments = ["conformance".as_ref(), "--machine".as_ref(), path.as_os_str()];
    let ended = Motet::default().arguments(arguments).limit(LIMIT).wait();
    let passed: Vec<String> = passed.iter().map(|name| format!("[el2] conformance: {name} ok")).collect();
    let mut wanted: Vec<&str> = passed.iter().map(String::as_str).collect();
    wanted.push("[hs] conformance: guest_calls ok");
    let ended = ended.expect_code(0)?.expect_errors(&wanted)?;
    let is_in_el1 = !ended.errors.contains("[el1] conformance: guest_calls");
    if is_in_el1 { Ok(()) } else { Err("a core whose kernel is in EL1 has guests".into()) }
}

/// Pipes, signals, timers, processes that come and go, pages that change, between islands and within one.
fn programs() -> Result<(), String> {
    let command = "for isa in aarch64 riscv64; do \
        on $isa sh -c 'yes | head -c 100000 | wc -c; sleep 100 & kill $!; wait $!; echo $?; usleep 1000; \
        for i in 1 2 3 4 5 6 7 8; do (dd if=/dev/zero bs=64k count=4 2>/dev/null | wc -c) & done; wait'; done; \
        on aarch64 dd if=/dev/zero bs=64k count=16 2>/dev/null | on riscv64 cat | on aarch64 wc -c";
    let each = format!("100000\n143\n{}", "262144\n".repeat(8));
    let machine = root().join("machines/guests.toml");
    let ended = Motet::run(["--machine".as_ref(), machine.as_os_str()]).arguments(["--", command]).wait();
    ended.expect_code(0)?.expect_output(&format!("{each}{each}1048576\n")).map(drop)
}

/// A timed machine's plugin knows a core's tables in EL2, too: the same program has as many walks of them.
fn translations() -> Result<(), String> {
    let walks = |guests: bool| {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let text = format!(
            "[[island]]\nname = \"a\"\nisa = \"aarch64\"\ncores = 1\nguests = {guests}\n[[model.core]]\n\
             frequency_mhz = 1000\nmemory_cycles = 100\nitlb = {{ entries = 32, ways = 32 }}\ndtlb = {{ entries = 32, ways = 32 }}\n\
             l1i = {{ size = \"32KiB\", ways = 4, cycles = 1 }}\nl1d = {{ size = \"32KiB\", ways = 4, cycles = 1 }}\n"
        );
        let (machine, stats) = (machine(folder.path(), &text)?, folder.path().join("stats.json"));
        let arguments = ["--timed".as_ref(), "--machine".as_ref(), machine.as_os_str()];
        let motet = Motet::run(arguments).argument("--stats").argument(&stats);
        motet.arguments(["--", "for i in 1 2 3; do ls /bin > /dev/null; done"]).wait().expect_code(0)?;
        let text = fs::read_to_string(&stats).map_err(|error| error.to_string())?;
        let stats: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        stats["cores"][0]["memory"]["tlb_walks"].as_u64().ok_or_else(|| format!("no walks in {text}"))
    };
    let (in_el1, in_el2) = (walks(false)?, walks(true)?);
    let is_close = in_el1 > 0 && in_el1.abs_diff(in_el2) * 10 < in_el1;
    if is_close { Ok(()) } else { Err(format!("{in_el1} walks in EL1, {in_el2} in EL2")) }
}
