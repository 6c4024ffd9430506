//! With what a point is measured.

use std::process::Command;

use motet_fabric::place::{Place, VERSION};
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
    pub fn now(home: &Place) -> Self {
        let isa = motet_fabric::qemu::locate(motet_layout::Isa::X86_64);
        let qemu = isa.ok().and_then(|path| output(Command::new(path).arg("--version")));
        let qemu = qemu.as_deref().and_then(|text| text.lines().next()?.split(" version ").nth(1));
        Self {
            motet: VERSION.into(),
            commit: home.commit(),
            qemu: qemu.unwrap_or("unknown").into(),
            host: output(Command::new("uname").args(["-srmn"])).unwrap_or_default(),
        }
    }
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
