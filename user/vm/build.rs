//! Places the program where Linux programs are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "none") {
        for argument in ["--image-base=0x400000", "--strip-debug", "-zmax-page-size=4096"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
