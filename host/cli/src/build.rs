//! `motet build`: the kernels, one per instruction set, from one source, the firmware of RISC-V islands, and Motet's program
//! for the guest.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{place::Place, run::target_of};
use motet_layout::Isa;

use crate::{arguments::BuildOptions, progress};

/// Builds the kernels and the guest's `motet` with cargo.
///
/// # Errors
/// An unknown instruction set, or cargo is missing or fails.
pub fn build(options: &BuildOptions) -> Result<u8> {
    let place = Place::find()?;
    place.needs_source("build")?;
    let root = place.root;
    for isa in chosen(&options.isas)? {
        progress::print(&format!("motet: building the {} kernel", isa.name()));
        cargo(&root, isa, &["--profile", "kernel", "-p", "motet-image", "--bin", "motet-kernel"], &[])?;
        cargo(&root, isa, &["--release", "-p", "motet-calls", "--features", "guest", "--bin", "motet"], &[])?;
        if isa == Isa::RiscV64 {
            let firmware = ["-p", "motet-firmware", "--features", "bare", "--bin", "motet-firmware"];
            cargo(&root, isa, &[&["--profile", "kernel"], &firmware[..]].concat(), &[])?;
        }
    }
    Ok(0)
}

/// Builds something for an ISA, with further variables in the environment of build scripts.
///
/// # Errors
/// cargo is missing or fails.
pub fn cargo(root: &Path, isa: Isa, what: &[&str], environment: &[(&str, &Path)]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.arg("build").args(what).args(["--target", target_of(isa)]).envs(environment.iter().copied());
    // Standard output is the guest's.
    let status = cargo.current_dir(root).stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.map_err(|error| Error::new(ErrorKind::Unavailable, format!("cannot run cargo: {error}")))?;
    if status.success() {
        return Ok(());
    }
    let message = format!(
        "building for {} failed; a missing target is installed by `rustup target add {}`",
        isa.name(),
        target_of(isa)
    );
    Err(Error::new(ErrorKind::Software, message))
}

fn chosen(names: &[String]) -> Result<Vec<Isa>> {
    choose(&[Isa::X86_64, Isa::AArch64, Isa::RiscV64], names)
}

/// The instruction sets with these names; without names, all.
///
/// # Errors
/// A name is of no instruction set.
pub fn choose(all: &[Isa], names: &[String]) -> Result<Vec<Isa>> {
    if names.is_empty() {
        return Ok(all.into());
    }
    let find = |name: &String| {
        all.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|isa| isa.name()).collect();
            let message = format!("unknown instruction set \"{name}\"; known: {}", known.join(", "));
            Error::new(ErrorKind::Usage, message)
        })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_sets_are_chosen_by_name() {
        assert_eq!(chosen(&[]).unwrap().len(), 3);
        assert_eq!(chosen(&["riscv64".into()]).unwrap(), [Isa::RiscV64]);
        assert_eq!(chosen(&["vax".into()]).unwrap_err().exit_status(), 64);
    }
}
