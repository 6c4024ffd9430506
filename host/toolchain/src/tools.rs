//! Clang, lld and the sources of the C library, from the Python package `ziglang`.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{FlockOperation, flock};

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

/// Waits until no other process holds the lock file `path`, after having said so, and holds it until the result is dropped.
///
/// # Errors
/// The file cannot be made.
pub fn lock(path: &Path) -> Result<File> {
    lock_or_say(path, || {
        eprintln!("motet: another build of the compiler's libraries is under way; waiting for it ({})", path.display());
    })
}

fn lock_or_say(path: &Path, waits: impl FnOnce()) -> Result<File> {
    let file = File::create(path).map_err(|error| Error::write(path, error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            waits();
            flock(&file, FlockOperation::LockExclusive)
        }
        other => other,
    }
    .map_err(|error| Error::write(path, error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread, time::Duration};

    #[test]
    fn who_waits_for_another_build_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = lock_or_say(&path, || panic!("nobody holds it")).unwrap();
        let (said, heard) = mpsc::channel();
        let waiter = thread::spawn(move || lock_or_say(&path, || said.send(()).unwrap()).map(drop));
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!waiter.is_finished());
        drop(held);
        waiter.join().unwrap().unwrap();
    }
}
