//! With what a point is measured.

use std::{path::Path, process::Command};

use serde::{Deserialize, Serialize};

/// With what a point was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Motet's.
    pub motet: String,
    /// The commit; `-changed` behind it if files differ from it; `unknown` outside a clone.
    pub commit: String,
    /// QEMU's, for x86-64.
    pub qemu: String,
    /// The host.
    pub host: String,
}

impl Versions {
    /// As things are now.
    pub fn now(root: &Path) -> Self {
        let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(root).args(arguments));
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
        let commit = git(&["rev-parse", "HEAD"]).map(|commit| commit + if changed { "-changed" } else { "" });
        let isa = motet_fabric::qemu::locate(motet_layout::Isa::X86_64);
        let qemu = isa.ok().and_then(|path| output(Command::new(path).arg("--version")));
        let qemu = qemu.as_deref().and_then(|text| text.lines().next()?.split(" version ").nth(1));
        Self {
            motet: env!("CARGO_PKG_VERSION").into(),
            commit: commit.unwrap_or_else(|| "unknown".into()),
            qemu: qemu.unwrap_or("unknown").into(),
            host: output(Command::new("uname").args(["-srmn"])).unwrap_or_default(),
        }
    }
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
