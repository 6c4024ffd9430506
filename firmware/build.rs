//! Where the programs lie: the firmware at the start of RAM, what tests start on it where QEMU loads a kernel.

fn main() {
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed={dir}/firmware.ld");
    if os == "none" {
        println!("cargo:rustc-link-arg-bins=-T{dir}/firmware.ld");
        println!("cargo:rustc-link-arg-bins=--no-relax");
        println!("cargo:rustc-link-arg-bins=--build-id=none");
        println!("cargo:rustc-link-arg-bin=motet-firmware=--defsym=BASE=0x80000000");
        println!("cargo:rustc-link-arg-bin=motet-firmware-check=--defsym=BASE=0x80200000");
    }
}
