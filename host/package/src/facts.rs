//! What is packed, and what it was built with: the file of versions.

use std::process::Command;

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    place::{Place, VERSION},
    qemu,
};
use motet_layout::Isa;

use crate::tools;

/// The version of QEMU's interface for plugins that the plugin is built for.
const PLUGIN_API: u32 = 4;

/// About a package.
#[derive(Debug)]
pub struct Facts {
    /// The date of everything in it: the commit's, in seconds since 1970, unless `SOURCE_DATE_EPOCH` says another.
    pub date: u64,
    commit: String,
    rust: String,
    qemu: String,
}

impl Facts {
    /// Asks git, Rust and QEMU.
    ///
    /// # Errors
    /// One of them is not there, or there is no commit.
    pub fn gather(place: &Place) -> Result<Self> {
        let date = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(date) => date,
            Err(_) => {
                tools::output(Command::new("git").arg("-C").arg(&place.root).args(["log", "-1", "--format=%ct"]))?
            }
        };
        let date = date.trim().parse();
        let date = date.map_err(|_| Error::new(ErrorKind::Usage, "SOURCE_DATE_EPOCH is no number of seconds"))?;
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let qemu = first_line(tools::output(Command::new(qemu::locate(Isa::X86_64)?).arg("--version"))?);
        let qemu = qemu.split_once(" version ").map_or(qemu.as_str(), |(_, version)| version).to_owned();
        let rust = first_line(tools::output(Command::new("rustc").arg("--version"))?);
        Ok(Self { date, commit: place.commit(), rust, qemu })
    }

    /// The file of versions; `c_library` is the oldest glibc that has all that the programs need.
    pub fn text(&self, c_library: &str) -> String {
        let (major, minor) = qemu::VERSION_MIN;
        format!(
            "motet {VERSION}\ncommit {}\nrust {}\nqemu {major}.{minor} or later; built beside {}\nqemu-plugin-api {PLUGIN_API}\nglibc {c_library} or later\n",
            self.commit, self.rust, self.qemu
        )
    }
}
