//! Places the program where the firmware of bare machines goes to.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed={dir}/guest.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "none") {
        println!("cargo::rustc-link-arg-bins=-T{dir}/guest.ld");
        println!("cargo::rustc-link-arg-bins=--strip-debug");
    }
}
