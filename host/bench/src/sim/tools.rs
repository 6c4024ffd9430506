//! The other simulators: fetched and built when an experiment first needs them, below `target/sim`.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};

use crate::{
    process,
    project::{Project, file_error},
};

/// QEMU's contrib plugin and Valgrind.
#[derive(Clone, Debug)]
pub struct Tools {
    folder: PathBuf,
    /// The contrib plugin `cache`.
    pub contrib: PathBuf,
    /// The version of QEMU's source package that it was built from.
    pub version: String,
}

impl Tools {
    /// Fetches and builds what is missing.
    ///
    /// # Errors
    /// Debian's archive cannot be reached, or the compiler refuses.
    pub fn prepare(project: &Project) -> Result<Self> {
        let folder = project.target.join("sim");
        let version = folder.join("version");
        if !version.is_file() {
            let mut setup = Command::new(project.root.join("scripts/setup.sh"));
            let output = process::run(setup.arg("--simulators").arg(&folder), Duration::from_secs(900))?;
            if !output.success {
                let message = format!("the other simulators cannot be fetched\n{}", process::tail("", &output.stderr));
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
        }
        let contrib = folder.join("libcontrib_cache.so");
        if !contrib.is_file() {
            build(&folder, &contrib)?;
        }
        let version = std::fs::read_to_string(&version).map_err(file_error(&version))?.trim().to_owned();
        Ok(Self { folder, contrib, version })
    }

    /// Valgrind's command, without arguments.
    pub fn valgrind(&self) -> Command {
        let root = self.folder.join("valgrind/usr");
        let mut command = Command::new(root.join("bin/valgrind.bin"));
        // It finds its tools by this.
        command.env("VALGRIND_LIB", root.join("libexec/valgrind"));
        command
    }
}

/// Builds the plugin. QEMU has GLib, so nothing is linked: only its headers are needed.
fn build(folder: &Path, to: &Path) -> Result<()> {
    eprintln!("motet: building QEMU's contrib plugin cache");
    let glib = folder.join("glib/usr");
    let config = std::fs::read_dir(glib.join("lib")).map_err(file_error(&glib.join("lib")))?.flatten();
    let config = config.map(|entry| entry.path().join("glib-2.0/include")).find(|path| path.is_dir());
    let config = config.ok_or_else(|| {
        Error::new(
            ErrorKind::Unavailable,
            format!("{}: no glibconfig.h; remove target/sim and try again", glib.display()),
        )
    })?;
    // Complete under its own name only.
    let unfinished = to.with_extension("new");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-fPIC", "-shared", "-o"]).arg(&unfinished).arg(folder.join("contrib/plugins/cache.c"));
    compile.arg("-I").arg(folder).arg("-I").arg(glib.join("include/glib-2.0")).arg("-I").arg(config);
    process::expect(&mut compile, Duration::from_secs(300))?;
    std::fs::rename(&unfinished, to).map_err(file_error(to))
}
