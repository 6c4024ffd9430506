//! Links the program without any library, at the place where Linux programs are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let hosted = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let arguments: &[&str] = if hosted {
        // The linker is a C compiler, and has to be told that there is no C.
        &["-nostdlib", "-static", "-no-pie", "-Wl,-z,max-page-size=4096", "-Wl,--build-id=none", "-Wl,-s"]
    } else {
        &["--image-base=0x400000", "--strip-all", "-zmax-page-size=4096"]
    };
    for argument in arguments {
        println!("cargo::rustc-link-arg-bin=kernels={argument}");
    }
    // Where the memory of QEMU's `virt` begins.
    println!("cargo::rustc-link-arg-bin=bare=--image-base=0x80000000");
    println!("cargo::rustc-link-arg-bin=bare=--strip-all");
}
