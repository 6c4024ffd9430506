//! Places the programs where Linux programs are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // lld's default is 2 MiB; some kernels put nothing there, all of them expect 4 MiB.
    println!("cargo::rustc-link-arg-bins=--image-base=0x400000");
    // What is measured is recognised by its bytes, which must not depend on lines in other files.
    println!("cargo::rustc-link-arg-bins=--strip-debug");
    println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
}
