//! `motet run --gdb`: QEMU's debugging interface of every island, as a socket that gdb takes for a machine.

use std::{path::Path, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::run;
use motet_machine::MachineSpec;

use crate::progress;

/// While someone looks at an island that stands still, it is not taken for one that hangs.
const PATIENCE: Duration = Duration::from_secs(10 * 365 * 86400);

/// The sockets of a run; they are removed with it.
pub struct Debugger(tempfile::TempDir);

impl Debugger {
    /// Gives each island's QEMU a socket, and lets islands stand still for long.
    ///
    /// # Errors
    /// There can be no folder for the sockets.
    pub fn prepare(settings: &mut run::Options) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("motet-gdb-").tempdir().map_err(|error| {
            let message = format!("--gdb: {}: {error}", std::env::temp_dir().display());
            Error::new(ErrorKind::CantCreate, message)
        })?;
        for (island, arguments) in settings.machine.islands.iter().zip(&mut settings.qemu_arguments) {
            let socket = folder.path().join(&island.name);
            arguments.extend(["-gdb".into(), format!("unix:{},server=on,wait=off", socket.display())]);
        }
        (settings.boot_timeout, settings.hang_timeout) = (PATIENCE, PATIENCE);
        Ok(Self(folder))
    }

    /// Shows what to type, for kernels below `built`.
    pub fn explain(&self, machine: &MachineSpec, built: &Path) {
        progress::print("motet: to debug an island, type one of these in another terminal:");
        for island in &machine.islands {
            let kernel = built.join(run::kernel_path(island.isa));
            let socket = self.0.path().join(&island.name);
            let name = &island.name;
            progress::print(&format!(
                "motet:   {name}: gdb-multiarch {} -ex 'target remote {}'",
                kernel.display(),
                socket.display()
            ));
        }
        progress::print("motet: and in gdb, for a program of `motet cc -g --emit-isa ISA FILE`: add-symbol-file FILE");
    }
}
