//! Others' work in the package, and its licenses: crates, of which cargo tells, and the machine's first programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{place::Place, run::target_of};
use motet_layout::Isa;
use serde_json::Value;

use crate::tools;

/// What is packed, for this computer.
const HOST: [&str; 4] = ["motet-cli", "motet-top", "motet-sweep", "motet-timing-plugin"];
/// What is packed, for islands of each instruction set.
const ISLANDS: [&str; 2] = ["motet-image", "motet-calls"];
/// How the names of files begin that have a license.
const FILES: [&str; 6] = ["license", "licence", "copying", "notice", "copyright", "unlicense"];

const HEAD: &str = "\
Others' work in this package
============================

Motet itself is licensed under MIT or Apache-2.0, at your option: LICENSE, LICENSE-MIT, LICENSE-APACHE.

The programs hold the crates below, in the versions that are named, and Rust's standard library (MIT or Apache-2.0, copyright of the Rust Project's
contributors). The texts of their licenses follow.

The machine's first programs (usr/lib/motet/userland) are Debian's busybox-static, unmodified: version 2 of the GNU General Public License, with parts of
glibc, under the GNU Lesser General Public License. busybox.copyright beside each says more, and userland/MANIFEST which Debian packages they are.
Their sources are Debian's source packages busybox and glibc of these versions. Whoever passes
this package on passes these programs on, too, and is bound by their licenses.

QEMU, which runs the islands, is not in this package. The plugin, usr/lib/motet/release/libmotet_timing_plugin.so, is loaded by QEMU, which is licensed
under version 2 of the GNU General Public License.
";

/// The text.
///
/// # Errors
/// cargo does not say, or a crate names no license.
pub fn third_party(place: &Place) -> Result<String> {
    let linked = linked(place)?;
    let packages = packages(place)?;
    let mut crates = String::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in &linked {
        let missing = || Error::new(ErrorKind::Data, format!("cargo does not say which license {name} has"));
        let package = packages.get(name).ok_or_else(missing)?;
        let (license, files) = (package.license.as_deref().ok_or_else(missing)?, package.texts());
        let note = if files.is_empty() { "; its package has no text of it" } else { "" };
        crates += &format!("{name}: {license}{note}\n");
        for text in files {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    let mut texts: Vec<(BTreeSet<String>, String)> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    let line = "-".repeat(100);
    let texts = texts.into_iter().map(|(names, text)| {
        let names: Vec<String> = names.into_iter().collect();
        format!("\n{line}\n{}:\n\n{}\n", names.join(", "), text.trim_end())
    });
    Ok(format!(
        "{HEAD}\nCrates\n======\n\n{crates}\nTexts of licenses\n=================\n{}",
        texts.collect::<String>()
    ))
}

/// The crates of others that are linked into programs: name and version.
fn linked(place: &Place) -> Result<BTreeSet<String>> {
    let mut all =
        tree(place, &HOST, &["--target", "x86_64-unknown-linux-gnu", "--features", "motet-sweep/run,motet-top/run"])?;
    for isa in [Isa::X86_64, Isa::AArch64, Isa::RiscV64] {
        all.extend(tree(place, &ISLANDS, &["--target", target_of(isa), "--features", "motet-calls/guest"])?);
    }
    for isa in [Isa::AArch64, Isa::RiscV64] {
        all.extend(tree(place, &["motet-vm"], &["--target", target_of(isa), "--features", "motet-vm/guest"])?);
    }
    let firmware = ["--target", target_of(Isa::RiscV64), "--features", "motet-firmware/bare"];
    all.extend(tree(place, &["motet-firmware"], &firmware)?);
    Ok(all)
}

fn tree(place: &Place, packages: &[&str], options: &[&str]) -> Result<BTreeSet<String>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&place.root).args(["tree", "--locked", "--prefix", "none", "--edges", "normal,no-proc-macro"]);
    for package in packages {
        cargo.args(["-p", package]);
    }
    let listed = tools::output(cargo.args(options))?;
    // `NAME vVERSION`, and behind it the folder of what is the project's own.
    let others = listed
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|line| !line.contains(" (") && !line.is_empty());
    Ok(others.map(|line| line.replacen(" v", " ", 1)).collect())
}

struct Package {
    license: Option<String>,
    license_file: Option<PathBuf>,
    folder: PathBuf,
}

impl Package {
    /// The texts of its licenses, in the order of their names.
    fn texts(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: BTreeSet<PathBuf> = entries.filter(|path| path.is_file() && is_license(path)).collect();
        files.extend(self.license_file.iter().map(|file| self.folder.join(file)));
        files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
    }
}

fn is_license(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    FILES.iter().any(|start| name.starts_with(start)) && !name.ends_with(".rs")
}

/// All packages that the lock file names.
fn packages(place: &Place) -> Result<BTreeMap<String, Package>> {
    let mut cargo = Command::new("cargo");
    let told = tools::output(cargo.current_dir(&place.root).args(["metadata", "--format-version", "1", "--locked"]))?;
    let told: Value = serde_json::from_str(&told).map_err(|error| Error::data(format!("cargo metadata: {error}")))?;
    let packages = told["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = |package: &Value| {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        let folder = Path::new(&text("manifest_path")?).parent()?.to_owned();
        let license = text("license").or_else(|| text("license_file").map(|file| format!("as {file} says")));
        let name = format!("{} {}", text("name")?, text("version")?);
        Some((name, Package { license, license_file: text("license_file").map(PathBuf::from), folder }))
    };
    Ok(packages.iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_licenses_are_known_by_name() {
        for name in ["LICENSE", "LICENSE-MIT", "License.txt", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"] {
            assert!(is_license(name.as_ref()), "{name}");
        }
        for name in ["README.md", "license.rs", "Cargo.toml"] {
            assert!(!is_license(name.as_ref()), "{name}");
        }
    }
}
