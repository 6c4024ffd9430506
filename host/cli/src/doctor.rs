//! `motet doctor`: is everything here that Motet needs?

use std::io::Write;

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    place::Place,
    qemu,
    run::{kernel_path, target_of},
};
use motet_layout::Isa;

const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];

/// Prints one line per check; the exit status is 0 when nothing is missing.
///
/// # Errors
/// The project's folder cannot be found, or the lines cannot be written.
pub fn doctor() -> Result<u8> {
    let place = Place::find()?;
    let target = &place.built;
    let mut report = Report::default();
    for isa in ISAS {
        report.check(&format!("QEMU for {}", isa.name()), check_qemu(isa));
    }
    if !place.is_installed {
        report.check("Rust targets of the kernels", check_rust_targets());
    }
    for isa in ISAS {
        let kernel = target.join(kernel_path(isa));
        report.check(&format!("{} kernel", isa.name()), exists(&kernel, "run `motet build`"));
    }
    for isa in ISAS {
        let busybox = target.join("userland").join(isa.name()).join("busybox");
        report.check(&format!("programs for {}", isa.name()), exists(&busybox, "./motet sets them up"));
    }
    report.check("host processors", check_processors());
    let written = std::io::stderr().write_all(report.lines.as_bytes());
    written.map_err(|error| Error::new(ErrorKind::Io, format!("standard error: {error}")))?;
    Ok(if report.missing == 0 { 0 } else { ErrorKind::Unavailable as u8 })
}

#[derive(Default)]
struct Report {
    missing: usize,
    lines: String,
}

impl Report {
    fn check(&mut self, what: &str, result: std::result::Result<String, String>) {
        match result {
            Ok(found) => self.lines += &format!("ok       {what}: {found}\n"),
            Err(missing) => {
                self.missing += 1;
                self.lines += &format!("missing  {what}: {missing}\n");
            }
        }
    }
}

fn check_qemu(isa: Isa) -> std::result::Result<String, String> {
    let program = qemu::locate(isa).map_err(|error| error.message)?;
    let ((major, minor), recent) = qemu::version(&program).map_err(|error| error.message)?;
    let text = format!("{} {major}.{minor}", program.display());
    let (need_major, need_minor) = qemu::VERSION_MIN;
    if recent { Ok(text) } else { Err(format!("{text} is too old, {need_major}.{need_minor} or later is needed")) }
}

fn check_rust_targets() -> std::result::Result<String, String> {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let library = std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib");
    let missing: Vec<&str> = ISAS.into_iter().map(target_of).filter(|name| !library.join(name).is_dir()).collect();
    match missing.is_empty() {
        true => Ok("installed".into()),
        false => Err(format!("run `rustup target add {}`", missing.join(" "))),
    }
}

fn check_processors() -> std::result::Result<String, String> {
    let count = std::thread::available_parallelism().map_err(|error| error.to_string())?.get();
    Ok(format!("{count} (every island uses its own; with fewer than islands they take turns)"))
}

fn exists(path: &std::path::Path, advice: &str) -> std::result::Result<String, String> {
    if path.exists() { Ok(path.display().to_string()) } else { Err(format!("{}; {advice}", path.display())) }
}
