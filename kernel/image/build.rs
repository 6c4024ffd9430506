//! Chooses the HAL and the linker script of the target's ISA.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let dir = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let out = env::var("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&out).join("entry.rs"), format!("motet_hal_{arch}::entry!(motet_image::main);\n"))?;
    let script = format!("{dir}/ld/{arch}.ld");
    println!("cargo:rerun-if-changed={script}");
    if os == "none" {
        println!("cargo:rustc-link-arg-bins=-T{script}");
        println!("cargo:rustc-link-arg-bins=--no-relax");
        println!("cargo:rustc-link-arg-bins=--build-id=none");
    }
    Ok(())
}
