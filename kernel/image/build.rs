//! Chooses the linker script of the target's ISA.

fn main() {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("{dir}/ld/{arch}.ld");
    println!("cargo:rerun-if-changed={script}");
    if os == "none" {
        println!("cargo:rustc-link-arg-bins=-T{script}");
        println!("cargo:rustc-link-arg-bins=--no-relax");
        println!("cargo:rustc-link-arg-bins=--build-id=none");
    }
}
