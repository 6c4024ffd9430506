//! Starting an island's QEMU, at first and again: with which image, memory and descriptors.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Instant,
};

use motet_error::{Context, Error, ErrorKind, Result};
use motet_layout::Isa;
use object::ReadCache;

use super::{Island, Options, firmware_path, kernel_path};
use crate::{
    image,
    ivshmem::Doorbells,
    pool::HostPool,
    qemu::{self, Launch, Qemu},
    timed::PluginLaunch,
};
use motet_machine::Firmware;

/// Starts islands of one machine.
pub(super) struct Launcher<'a> {
    options: &'a Options,
    kernels: Vec<(Isa, OwnedFd)>,
    firmware: Option<OwnedFd>,
    without: Vec<&'static str>,
    pub(super) pool: &'a HostPool,
    pub(super) bells: &'a Doorbells,
    plugin: Option<PluginLaunch<'a>>,
}

/// What QEMUs load, and are made of.
pub(super) struct Images {
    kernels: Vec<(Isa, OwnedFd)>,
    firmware: Option<OwnedFd>,
    /// What their cores are not to have.
    without: Vec<&'static str>,
}

impl Images {
    /// Reads what the machine's islands need.
    ///
    /// # Errors
    /// Something is not built.
    pub(super) fn load(options: &Options) -> Result<Self> {
        let (kernels, firmware) = (load_kernels(options)?, load_firmware(options)?);
        Ok(Self { kernels, firmware, without: qemu::unshared(&options.machine)? })
    }
}

impl<'a> Launcher<'a> {
    pub(super) fn new(
        options: &'a Options,
        images: Images,
        pool: &'a HostPool,
        bells: &'a Doorbells,
        plugin: Option<PluginLaunch<'a>>,
    ) -> Self {
        let Images { kernels, firmware, without } = images;
        Self { options, kernels, firmware, without, pool, bells, plugin }
    }

    /// Starts an island's QEMU; `doorbell`: the socket for its doorbell device.
    ///
    /// # Errors
    /// QEMU is not installed, or the host refuses resources.
    pub(super) fn start(&self, index: usize, doorbell: OwnedFd) -> Result<Island> {
        let island = &self.options.machine.islands[index];
        let (number, pool_phys) = self.pool.place(index);
        let qemu = Qemu::start(Launch {
            island,
            index,
            number,
            pool_phys,
            kernel: kernel_of(&self.kernels, island.isa),
            firmware: self.firmware.as_ref().filter(|_| island.firmware == Firmware::Motet).map(AsFd::as_fd),
            mode: self.options.mode.name(),
            pool: self.pool.memory(),
            map_len: self.pool.map_len(index),
            doorbell,
            vectors: self.bells.vectors(),
            plugin: self.plugin.as_ref(),
            without: &self.without,
            network: &self.options.network.arguments(index),
            further: self.options.qemu_arguments.get(index).map_or(&[], Vec::as_slice),
        })?;
        Ok(Island {
            qemu,
            started: Instant::now(),
            joined: false,
            lost: false,
            restart: None,
            server: None,
            heartbeat: 0,
            pings: 0,
            said: Instant::now(),
        })
    }
}

/// Kernel images, one per ISA of the machine: islands of one ISA share it. QEMU reads of a file what it loads; most of it is for debuggers.
fn load_kernels(options: &Options) -> Result<Vec<(Isa, OwnedFd)>> {
    let mut kernels: Vec<(Isa, OwnedFd)> = Vec::new();
    for island in &options.machine.islands {
        let isa = island.isa;
        if kernels.iter().any(|(have, _)| *have == isa) {
            continue;
        }
        let path = options.kernels.join(kernel_path(isa));
        let file = open(&path, || format!("the {} kernel", isa.name()))?;
        let image = if isa == Isa::AArch64 { flattened(&file, &path)? } else { file.into() };
        kernels.push((isa, image));
    }
    Ok(kernels)
}

fn flattened(kernel: &File, path: &Path) -> Result<OwnedFd> {
    let image = image::flatten_aarch64(&ReadCache::new(kernel));
    let image = image.map_err(|what| Error::new(ErrorKind::Unavailable, format!("kernel {}: {what}", path.display())));
    qemu::memory_file(&image?)
}

/// Opens what `motet build` makes; what is built anew meanwhile is another file.
fn open(path: &Path, what: impl FnOnce() -> String) -> Result<File> {
    let missing = || format!("{} is not there (run `motet build`): {}", what(), path.display());
    File::open(path).context(ErrorKind::Unavailable, missing)
}

/// Motet's own firmware, if an island has it.
fn load_firmware(options: &Options) -> Result<Option<OwnedFd>> {
    if options.machine.islands.iter().all(|island| island.firmware == Firmware::OpenSbi) {
        return Ok(None);
    }
    let path = options.kernels.join(firmware_path());
    Ok(Some(open(&path, || "the firmware".to_owned())?.into()))
}

fn kernel_of(kernels: &[(Isa, OwnedFd)], isa: Isa) -> BorrowedFd<'_> {
    let (_, fd) = kernels.iter().find(|(have, _)| *have == isa).expect("loaded for every island");
    fd.as_fd()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::Mode, *};
    use crate::{network::Network, pool::Command};
    use motet_machine::MachineSpec;

    #[test]
    fn a_missing_image_says_what_to_do() {
        let options = |island: &str| Options {
            machine: MachineSpec::parse(&format!(
                "[pool]\nsize = \"32MiB\"\n[[island]]\nname = \"a\"\ncores = 1\n{island}"
            ))
            .unwrap(),
            kernels: "/nonexistent".into(),
            mode: Mode::Run,
            command: Command::default(),
            boot_timeout: Duration::from_secs(1),
            hang_timeout: Duration::from_secs(1),
            verbose: false,
            timed: None,
            survive: false,
            network: Network::default(),
            qemu_arguments: Vec::new(),
        };
        let error = load_kernels(&options("isa = \"x86_64\"")).unwrap_err();
        assert_eq!(error.exit_status(), 69);
        assert!(
            error.message.contains("motet build") && error.message.contains("x86_64-unknown-none/kernel/motet-kernel")
        );
        assert!(load_firmware(&options("isa = \"riscv64\"")).unwrap().is_none());
        let error = load_firmware(&options("isa = \"riscv64\"\nfirmware = \"motet\"")).unwrap_err();
        assert_eq!(error.exit_status(), 69);
        assert!(error.message.contains("motet build") && error.message.contains("/kernel/motet-firmware"), "{error:?}");
    }
}
