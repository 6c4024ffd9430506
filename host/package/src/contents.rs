//! What is in the package, and where it lies.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    place::{LIBRARY, Place, SHARE, VERSIONS},
    rootfs::{guest_program_path, guest_programs},
    run::{firmware_path, kernel_path},
    timed::plugin_path,
};
use motet_layout::Isa;

use crate::{elf, facts::Facts, tools};

const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];
/// The programs of this computer.
const PROGRAMS: [&str; 3] = ["motet", "motet-top", "motet-sweep"];
/// What users call: `motet`, and its compilers in one word, each with where it leads.
const COMMANDS: [(&str, &str); 6] = [
    ("motet", "../lib/motet/release/motet"),
    ("motet-ar", "../share/motet/host/toolchain/bin/motet-ar"),
    ("motet-c++", "../share/motet/host/toolchain/bin/motet-c++"),
    ("motet-cc", "../share/motet/host/toolchain/bin/motet-cc"),
    ("motet-ld", "../share/motet/host/toolchain/bin/motet-ld"),
    ("motet-ranlib", "../share/motet/host/toolchain/bin/motet-ranlib"),
];
/// What of the source tree programs and examples read.
const SHARED: [&str; 5] = ["examples", "host/toolchain/bin", "host/toolchain/share", "machines", "user/include"];
/// What people read: documents and licenses.
const DOCUMENTS: [&str; 4] = ["*.md", "CITATION.cff", "LICENSE*", "docs"];
/// Where documents go.
const DOC: &str = "usr/share/doc/motet";

/// Puts everything into a folder as it is to lie below `/`, but for what programs write: manual pages, completions and others' licenses.
///
/// # Errors
/// Something is not built, or the host refuses.
pub fn gather(place: &Place, tree: &Path, facts: &Facts) -> Result<()> {
    let (library, share) = (tree.join("usr").join(LIBRARY), tree.join("usr").join(SHARE));
    let folders = folders(place);
    let mut c_library = None;
    for path in built() {
        let bytes = program(&place.built.join(&path), &folders)?;
        if path.starts_with("release") {
            c_library = c_library.max(needed_c_library(&bytes));
        }
        let to = library.join(&path);
        tools::copy(&place.built.join(&path), &to)?;
        tools::write(&to, bytes)?;
    }
    for path in userland() {
        tools::copy(&place.built.join(&path), &library.join(&path))?;
    }
    let (major, minor) = c_library.ok_or_else(|| Error::new(ErrorKind::Software, "no program names its C library"))?;
    tools::write(&library.join(VERSIONS), facts.text(&format!("{major}.{minor}")))?;
    for path in tracked(place, &SHARED)? {
        tools::copy(&place.root.join(&path), &share.join(&path))?;
    }
    // As in the source tree, where scripts find it.
    tools::link("../../lib/motet/release/motet", &share.join("motet"))?;
    for path in
        tracked(place, &DOCUMENTS)?.iter().filter(|path| path.components().count() == 1 || path.starts_with("docs"))
    {
        tools::copy(&place.root.join(path), &tree.join(DOC).join(path))?;
    }
    tools::write(&tree.join(DOC).join("INSTALLED"), include_str!("INSTALLED"))?;
    COMMANDS.iter().try_for_each(|(name, target)| tools::link(target, &tree.join("usr/bin").join(name)))
}

/// Programs, kernels and the plugin, by their paths below the folder of build results.
fn built() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = PROGRAMS.iter().map(|name| Path::new("release").join(name)).collect();
    paths.extend([plugin_path(), firmware_path()]);
    for isa in ISAS {
        paths.push(kernel_path(isa));
        paths.extend(guest_programs(isa).iter().map(|name| guest_program_path(isa, name)));
    }
    paths
}

/// The machine's own programs as Debian has them, which stay as they are.
fn userland() -> Vec<PathBuf> {
    let of_isa =
        |isa: Isa| ["busybox", "busybox.copyright"].map(|name| format!("userland/{}/{name}", isa.name()).into());
    let mut paths: Vec<PathBuf> = ISAS.into_iter().flat_map(of_isa).collect();
    paths.push("userland/MANIFEST".into());
    paths
}

/// A program without what only debuggers read, and without the names of this computer's folders.
fn program(path: &Path, folders: &[(Vec<u8>, &str)]) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("{}: {error}; ./motet package builds it", path.display()))
    })?;
    let broken = || Error::new(ErrorKind::Data, format!("{} is no ELF file", path.display()));
    let mut bytes = Some(bytes).filter(|bytes| elf::is_elf(bytes)).and_then(elf::strip).ok_or_else(broken)?;
    elf::rename_folders(&mut bytes, folders);
    Ok(bytes)
}

/// Folders of this computer that programs may name, the longest first, and what they are called instead.
fn folders(place: &Place) -> Vec<(Vec<u8>, &'static str)> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folder = |variable: &str, below_home: &str| {
        std::env::var_os(variable).map(PathBuf::from).or_else(|| home.as_ref().map(|home| home.join(below_home)))
    };
    let named = [
        (Some(place.built.clone()), "target"),
        (Some(place.root.clone()), "motet"),
        (folder("CARGO_HOME", ".cargo"), "cargo"),
        (folder("RUSTUP_HOME", ".rustup"), "rustup"),
    ];
    let bytes = |path: PathBuf| path.into_os_string().into_encoded_bytes();
    let mut all: Vec<_> = named.into_iter().filter_map(|(path, name)| Some((bytes(path?), name))).collect();
    all.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    all
}

/// The newest version of glibc that a program names, of which it needs something.
fn needed_c_library(bytes: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"\0GLIBC_";
    let versions = bytes.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    let version = |at: usize| {
        let text = bytes[at + PREFIX.len()..].split(|byte| *byte == 0).next()?;
        let mut numbers = std::str::from_utf8(text).ok()?.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    versions.filter_map(|(at, _)| version(at)).max()
}

/// Files of the source tree, as git knows them: what examples have left there is not among them.
fn tracked(place: &Place, what: &[&str]) -> Result<Vec<PathBuf>> {
    let listed =
        tools::output(Command::new("git").arg("-C").arg(&place.root).args(["ls-files", "-z", "--"]).args(what))?;
    let paths: Vec<PathBuf> = listed.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    if paths.is_empty() {
        return Err(Error::new(ErrorKind::Unavailable, "git knows no files of the source tree"));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_counts() {
        assert_eq!(needed_c_library(b"\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(needed_c_library(b"GLIBC"), None);
    }
}
