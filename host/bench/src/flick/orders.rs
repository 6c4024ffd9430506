//! Null calls with the board's kernel linked in random orders: how much the time of a call depends on addresses by chance, by both protocols.
//!
//! Functions whose lines share a set of the board's instruction cache evict each other. The shipped kernel lays what calls execute together
//! (`kernel/image/ld/together.txt`); here its functions follow each other at random, on the Flick machine and on one with half of that cache.

use std::{
    fmt::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::run::target_of;
use motet_layout::Isa;

use super::{
    calls::{OVER_PROTOCOL_TARGET, WAYS, us_on},
    machines::{Bench, Protocol},
    paper,
};
use crate::{
    process,
    project::{self, Project, file_error},
    report::{Measurement, median, number},
};

/// How many orders.
const ORDERS: usize = 12;
const QUICK_ORDERS: usize = 3;
/// The first build makes the kernel's libraries, too.
const BUILD_AT_MOST: Duration = Duration::from_secs(1800);
/// Where the linker script says which functions lie together.
const ORDERED: &str = "INCLUDE together.ld";
const ISA: Isa = Isa::RiscV64;

/// The cache as it is, and half of it: in metrics, for people, and in the machine file.
const CACHES: [[&str; 3]; 2] = [
    ["", "the Flick machine", SHIPPED],
    ["_16kib", "an instruction cache of 16 KiB", "l1i = { size = \"16KiB\", ways = 4,"],
];
const SHIPPED: &str = "l1i = { size = \"32KiB\", ways = 4,";

/// Microseconds of a call, with each order.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// Of [`CACHES`].
    cache: usize,
    way: &'static str,
    isas: [Isa; 2],
    /// By [`Protocol::BOTH`].
    us: [Vec<f64>; 2],
}

/// Measures both ways by both protocols, with each order.
///
/// # Errors
/// The kernel cannot be linked so, or a run fails.
pub fn measure(bench: &Bench, count: u64, quick: bool) -> Result<Vec<Spread>> {
    let orders = if quick { QUICK_ORDERS } else { ORDERS };
    eprintln!("motet: linking the board's kernel in {orders} random orders");
    let kernels = link(bench, orders)?;
    let ways = [(WAYS[0], [Isa::X86_64, ISA]), (WAYS[1], [ISA, Isa::X86_64])];
    let all =
        (0..CACHES.len()).flat_map(|cache| ways.map(|(way, isas)| Spread { cache, way, isas, us: Default::default() }));
    let mut spreads: Vec<_> = all.collect();
    for (index, kernel) in kernels.iter().enumerate() {
        let project = with_kernel(&bench.project, &bench.folder.join(format!("order-{index}")), kernel)?;
        let bench = Bench { project, folder: bench.folder.clone() };
        for spread in &mut spreads {
            let [_, title, cache] = CACHES[spread.cache];
            let machine = bench.changed(&bench.machine("flick")?, "cache", &[(SHIPPED, cache)])?;
            for (protocol, all) in Protocol::BOTH.into_iter().zip(&mut spread.us) {
                let machine = bench.crossing(machine.clone(), protocol)?;
                let us = us_on(&bench, &machine, false, spread.isas, count)?;
                let [from, to] = spread.isas.map(Isa::name);
                eprintln!("motet: order {index}, {title}: {from} to {to}, {}: {} us", protocol.name(), number(us));
                all.push(us);
            }
        }
    }
    Ok(spreads)
}

/// Links the board's kernel once for each order: `rustc` calls a linker that does so after it has done what it was asked for.
fn link(bench: &Bench, orders: usize) -> Result<Vec<PathBuf>> {
    let (root, folder) = (&bench.project.root, &bench.folder);
    let script = root.join("kernel/image/ld").join(ISA.name()).with_extension("ld");
    let text = std::fs::read_to_string(&script).map_err(file_error(&script))?;
    let plain = folder.join("plain.ld");
    std::fs::write(&plain, unordered(&text)?).map_err(file_error(&plain))?;
    let kernels: Vec<_> = (0..orders).map(|order| folder.join(format!("kernel-{order}"))).collect();
    // `rustc` knows by the name how to call it.
    let linker = folder.join("rust-lld");
    std::fs::write(&linker, linker_script(&real_linker()?, &plain, &kernels)).map_err(file_error(&linker))?;
    std::fs::set_permissions(&linker, PermissionsExt::from_mode(0o755)).map_err(file_error(&linker))?;
    let target = target_of(ISA);
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--profile", "kernel", "-p", "motet-image", "--bin", "motet-kernel"]);
    cargo.args(["--target", target, "--target-dir"]).arg(folder.join("build"));
    cargo.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_")), &linker);
    process::expect(cargo.current_dir(root), BUILD_AT_MOST)?;
    Ok(kernels)
}

/// The linker script without an order of functions.
fn unordered(script: &str) -> Result<String> {
    let is_ordered = |line: &&str| line.trim_start().starts_with(ORDERED);
    if !script.lines().any(|line| is_ordered(&line)) {
        return Err(Error::new(ErrorKind::Software, "the linker script orders no functions any more"));
    }
    Ok(script.lines().filter(|line| !is_ordered(line)).map(|line| format!("{line}\n")).collect())
}

/// The linker that the compiler has brought.
fn real_linker() -> Result<PathBuf> {
    let ask = |what: &str| {
        let text = process::expect(Command::new("rustc").args(["--print", what]), Duration::from_secs(60));
        text.map(|text| text.trim().to_owned())
    };
    let linker = Path::new(&ask("sysroot")?).join("lib/rustlib").join(ask("host-tuple")?).join("bin/rust-lld");
    if linker.is_file() {
        return Ok(linker);
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("{} is not there; the compiler's own linker is used", linker.display()),
    ))
}

/// A program for the shell that links what it is asked for, and then each of these kernels.
fn linker_script(linker: &Path, plain: &Path, kernels: &[PathBuf]) -> String {
    let linker = quoted(linker);
    let mut text = format!("#!/bin/sh\nset -e\n{linker} \"$@\"\nfor argument do\n    shift\n    case $argument in\n");
    let _ =
        write!(text, "        -T*) argument=-T{} ;;\n    esac\n    set -- \"$@\" \"$argument\"\ndone\n", quoted(plain));
    for (kernel, seed) in kernels.iter().zip(1..) {
        // The entry comes first and traps' code where it is, as the script says: that is no function.
        let _ = writeln!(text, "{linker} \"$@\" -o {} --shuffle-sections='.text.*={seed}'", quoted(kernel));
    }
    text
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// The project's build results with another kernel for the board.
fn with_kernel(project: &Project, folder: &Path, kernel: &Path) -> Result<Project> {
    let (target, name) = (target_of(ISA), "motet-kernel");
    let kernels = Path::new(target).join("kernel");
    std::fs::create_dir_all(folder.join(&kernels)).map_err(file_error(folder))?;
    link_all_but(&project.target, folder, target)?;
    link_all_but(&project.target.join(target), &folder.join(target), "kernel")?;
    link_all_but(&project.target.join(&kernels), &folder.join(&kernels), name)?;
    let to = folder.join(kernels).join(name);
    symlink(kernel, &to).map_err(file_error(&to))?;
    Ok(Project { root: project.root.clone(), target: folder.to_owned() })
}

fn link_all_but(from: &Path, into: &Path, name: &str) -> Result<()> {
    for entry in from.read_dir().map_err(file_error(from))? {
        let entry = entry.map_err(file_error(from))?;
        if entry.file_name() != name {
            let to = into.join(entry.file_name());
            symlink(entry.path(), &to).map_err(file_error(&to))?;
        }
    }
    Ok(())
}

/// The median and the ends, and how much faster calls are than by Flick's protocol: the smaller ratio of both ways, of medians.
///
/// # Errors
/// The machine cannot be described.
pub fn measurements(bench: &Bench, spreads: &[Spread], count: u64) -> Result<Vec<Measurement>> {
    let machine = project::describe(&bench.machine("flick")?.machine)?;
    let source = |spread: &Spread| {
        let orders = spread.us[0].len();
        let title = CACHES[spread.cache][1];
        format!(
            "{title}, {orders} random orders of the board's kernel, {count} calls each; reference: Flick, Table III"
        )
    };
    let mut all = Vec::new();
    for spread in spreads {
        let reference = if spread.way == WAYS[0] { paper::HOST_NXP_HOST_US } else { paper::NXP_HOST_NXP_US };
        for (protocol, us) in Protocol::BOTH.into_iter().zip(&spread.us) {
            for (name, value) in ["least", "median", "most"].into_iter().zip(summary(us)) {
                all.push(Measurement {
                    metric: format!("orders{}_{}{}_{name}", CACHES[spread.cache][0], protocol.prefix(), spread.way),
                    value,
                    unit: "us",
                    machine: machine.clone(),
                    reference: Some(reference),
                    target: None,
                    source: source(spread),
                });
            }
        }
    }
    for (name, of_flick, what) in [
        ("", 1, "medians over random orders of the board's kernel, the smaller of both ways"),
        (
            "_least",
            0,
            "Flick's protocol with the order that suits it best, ours with the median, the smaller of both ways",
        ),
    ] {
        for (cache, [suffix, title, _]) in CACHES.iter().enumerate() {
            let of_cache = spreads.iter().filter(|spread| spread.cache == cache);
            let ratios = of_cache.map(|spread| summary(&spread.us[0])[of_flick] / summary(&spread.us[1])[1]);
            all.extend(ratios.min_by(f64::total_cmp).map(|ratio| Measurement {
                metric: format!("orders{suffix}_null_call_over_flick_protocol{name}"),
                value: ratio,
                unit: "Flick's time / ours",
                machine: machine.clone(),
                reference: None,
                target: Some(OVER_PROTOCOL_TARGET),
                source: format!("{title}: {what}"),
            }));
        }
    }
    Ok(all)
}

/// The least, the median and the most; there are some.
fn summary(values: &[f64]) -> [f64; 3] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, median(values), values.iter().copied().fold(0.0, f64::max)]
}

/// The headings of the columns of [`rows`].
pub const COLUMNS: [&str; 6] = ["random orders of the board's kernel, us", "on", "by", "least", "median", "most"];

/// The rows of the printed table.
pub fn rows(spreads: &[Spread]) -> Vec<[String; 6]> {
    let both = |spread: &Spread| {
        let [from, to] = spread.isas.map(Isa::name);
        let row = |(protocol, us): (Protocol, &Vec<f64>)| {
            let [least, median, most] = summary(us).map(number);
            let title = CACHES[spread.cache][1].to_owned();
            [format!("{from} to {to}"), title, protocol.name().to_owned(), least, median, most]
        };
        Protocol::BOTH.into_iter().zip(&spread.us).map(row).collect::<Vec<_>>()
    };
    spreads.iter().flat_map(both).collect()
}

/// The printed table.
pub fn table(spreads: &[Spread]) -> String {
    let mut text = String::new();
    let rows = rows(spreads);
    for row in (!rows.is_empty()).then(|| COLUMNS.map(str::to_owned)).iter().chain(&rows) {
        let [way, on, by, least, median, most] = row;
        let _ = writeln!(text, "  {way:<44}{on:<34}{by:<20}{least:>9}{median:>9}{most:>9}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_ends() {
        assert_eq!(summary(&[3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
        assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]), [1.0, 2.5, 4.0]);
    }

    #[test]
    fn the_order_leaves_the_script_and_nothing_else() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let script = std::fs::read_to_string(root.join("kernel/image/ld/riscv64.ld")).unwrap();
        let plain = unordered(&script).unwrap();
        assert_eq!(plain.lines().count() + 1, script.lines().count());
        assert!(plain.contains("*(.text .text.*)") && plain.contains("*(.text.trap)"));
        assert!(unordered(&plain).is_err());
    }

    #[test]
    fn the_linker_gets_what_it_was_asked_for_but_the_script() {
        let folder = tempfile::tempdir().unwrap();
        let [real, linker, log] = ["real linker", "rust-lld", "log"].map(|name| folder.path().join(name));
        let run = |path: &Path, text: &str| {
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        run(&real, &format!("#!/bin/sh\nprintf '[%s]' \"$@\" >> {0}\necho >> {0}\n", quoted(&log)));
        run(&linker, &linker_script(&real, Path::new("plain.ld"), &["a".into(), "b".into()]));
        let status = Command::new(&linker).args(["-flavor", "gnu", "an object", "-Tscript.ld"]).status().unwrap();
        assert!(status.success());
        let of = |rest: &str| format!("[-flavor][gnu][an object]{rest}\n");
        let wanted = [
            of("[-Tscript.ld]"),
            of("[-Tplain.ld][-o][a][--shuffle-sections=.text.*=1]"),
            of("[-Tplain.ld][-o][b][--shuffle-sections=.text.*=2]"),
        ];
        assert_eq!(std::fs::read_to_string(log).unwrap(), wanted.concat());
    }
}
