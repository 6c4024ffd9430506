//! Where the programs lie.

fn main() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let script = format!("{}/guest.ld", variable("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={script}");
    if variable("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    // As far behind the start of memory as firmware and QEMU's device tree need at most.
    let base = if variable("CARGO_CFG_TARGET_ARCH") == "riscv64" { "0x80200000" } else { "0x40200000" };
    for argument in [&format!("-T{script}"), &format!("--defsym=BASE={base}"), "--no-relax", "--build-id=none"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
