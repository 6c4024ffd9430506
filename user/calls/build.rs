//! Places the programs where Linux programs are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // lld's default is 2 MiB; some kernels put nothing there, all of them expect 4 MiB.
    println!("cargo::rustc-link-arg-bins=--image-base=0x400000");
    println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
}
