//! Clang, lld and the sources of the C library, from the Python package `ziglang`.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use crate::error::{Error, ErrorKind, Result, create_folder};

/// The version of the package: clang and lld 19.1, musl 1.2.5.
const VERSION: &str = "0.14.1";

/// Programs and files of the package.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The one program that is all of them.
    pub program: PathBuf,
    /// The package's `lib`.
    pub library: PathBuf,
    /// Motet's folder for what the toolchain makes.
    pub folder: PathBuf,
}

impl Tools {
    /// The tools below `folder`, fetched if they are not there yet.
    ///
    /// # Errors
    /// Python's package installer is missing or fails.
    pub fn find(folder: &Path) -> Result<Self> {
        let package = folder.join(format!("ziglang-{VERSION}"));
        let root = package.join("ziglang");
        let tools = Self { program: root.join("zig"), library: root.join("lib"), folder: folder.to_owned() };
        if tools.program.is_file() {
            return Ok(tools);
        }
        create_folder(folder)?;
        let _lock = lock(&folder.join("lock"))?;
        if !tools.program.is_file() {
            fetch(folder, &package)?;
        }
        Ok(tools)
    }

    /// A call of one of the programs: `clang`, `ld.lld`, `ar`.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name);
        command
    }
}

fn fetch(folder: &Path, package: &Path) -> Result<()> {
    eprintln!("motet: fetching the compiler: ziglang {VERSION} (once, 80 MB)");
    let partial = folder.join("partial");
    let _ = std::fs::remove_dir_all(&partial);
    let arguments =
        ["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--disable-pip-version-check", "--target"];
    let install = Command::new("python3").args(arguments).arg(&partial).arg(format!("ziglang=={VERSION}")).output();
    let unavailable = |why: &str| {
        let advice = format!(
            "Have python3 with pip (Debian: apt-get install python3-pip), or put the package there yourself:\n  python3 -m pip install --no-deps --target {} ziglang=={VERSION}",
            package.display()
        );
        Error::new(ErrorKind::Unavailable, format!("cannot fetch the compiler: {why}\n{advice}"))
    };
    let install = install.map_err(|error| unavailable(&format!("python3: {error}")))?;
    if !install.status.success() {
        return Err(unavailable(String::from_utf8_lossy(&install.stderr).trim_end()));
    }
    std::fs::rename(&partial, package).map_err(|error| Error::write(package, error))
}

/// Waits until no other process holds the lock file `path`, and holds it until the result is dropped.
///
/// # Errors
/// The file cannot be made.
pub fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).map_err(|error| Error::write(path, error))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).map_err(|error| Error::write(path, error))?;
    Ok(file)
}
