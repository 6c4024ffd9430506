//! Chooses the HAL and the linker script of the target's ISA, and tells the linker which functions lie together.

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
        let together = format!("{dir}/ld/together.txt");
        println!("cargo:rerun-if-changed={together}");
        fs::write(Path::new(&out).join("together.ld"), patterns(&fs::read_to_string(together)?))?;
        println!("cargo:rustc-link-arg-bins=-L{out}");
        println!("cargo:rustc-link-arg-bins=-T{script}");
        println!("cargo:rustc-link-arg-bins=--no-relax");
        println!("cargo:rustc-link-arg-bins=--build-id=none");
    }
    Ok(())
}

/// The input sections of the functions in a list, a line for each (see there).
fn patterns(list: &str) -> String {
    let names = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.map(|name| format!("*(.text.{}*)\n", symbol(name))).collect()
}

/// How the symbols begin of what a path names, in the compiler's first mangling scheme: each part with its length before it.
fn symbol(path: &str) -> String {
    let (first, rest) = path.split_once("::").unwrap_or((path, ""));
    let parts = |path: &str| path.split("::").map(|part| format!("{}{part}", part.len())).collect::<String>();
    match first {
        "Machine" => format!("*TheMachine*Machine*{}", parts(rest)),
        "motet_hal" => format!("_ZN*motet_hal_*{}", parts(rest)),
        _ => format!("_ZN{}", parts(path)),
    }
}
