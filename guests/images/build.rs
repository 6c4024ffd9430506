//! Where the programs lie, and what FreeRTOS's is made of besides Rust: its sources, out of the crate `freertos-next`, and
//! `guests/freertos`. The compiler is clang as `motet guests` names it: `MOTET_ZIG` is the program of the package `ziglang`. If it is
//! empty nothing is compiled, for who only checks the Rust.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

/// Flags for both instruction sets: no C library, no position-independent code, nothing that only hosts have.
const FLAGS: [&str; 8] = [
    "-O2",
    "-g",
    "-ffreestanding",
    "-fno-pic",
    "-fno-unwind-tables",
    "-ffunction-sections",
    "-Wall",
    "-Wno-unused-parameter",
];
const RISCV64: [&str; 5] =
    ["--target=riscv64-unknown-elf", "-march=rv64imac", "-mabi=lp64", "-mcmodel=medany", "-mno-relax"];
/// Translation is off, so no access may be unaligned; GUEST selects EL1 in FreeRTOS's port.
const AARCH64: [&str; 4] = ["--target=aarch64-unknown-elf", "-march=armv8-a", "-mstrict-align", "-DGUEST"];
/// For C alone: FreeRTOS's assembly has floating-point registers.
const AARCH64_C: &str = "-mgeneral-regs-only";

fn main() {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let script = here.join("guest.ld");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rerun-if-env-changed=MOTET_ZIG");
    if variable("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    let is_riscv = variable("CARGO_CFG_TARGET_ARCH") == "riscv64";
    // As far behind the start of memory as firmware and QEMU's device tree need at most.
    let base = if is_riscv { "0x80200000" } else { "0x40200000" };
    for argument in
        [&format!("-T{}", script.display()), &format!("--defsym=BASE={base}"), "--no-relax", "--build-id=none"]
    {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    if env::var_os("CARGO_FEATURE_FREERTOS").is_some() {
        compile_freertos(&here.join("../freertos"), is_riscv);
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn compile_freertos(own: &Path, is_riscv: bool) {
    println!("cargo::rerun-if-changed={}", own.display());
    let zig = env::var_os("MOTET_ZIG").expect("MOTET_ZIG names the compiler: build with ./motet guests");
    if zig.is_empty() {
        return;
    }
    let kernel = PathBuf::from(env::var("DEP_FREERTOS_KERNEL").expect("freertos-next says where its sources are"));
    let port = if is_riscv { own.join("riscv64") } else { kernel.join("portable/GCC/ARM_AARCH64_SRE") };
    let mut sources: Vec<PathBuf> =
        ["tasks.c", "queue.c", "list.c", "portable/MemMang/heap_4.c"].map(|name| kernel.join(name)).into();
    sources.push(own.join("shim.c"));
    if is_riscv {
        sources.extend(["port.c", "switch.S"].map(|name| port.join(name)));
    } else {
        sources.extend(["port.c", "portASM.S"].map(|name| port.join(name)));
        sources.extend(["interrupts.c", "vectors.S"].map(|name| own.join("aarch64").join(name)));
    }
    let include = [own, &own.join("include"), &kernel.join("include"), &port];
    for source in &sources {
        let object = Path::new(&variable("OUT_DIR")).join(source.file_name().expect("a file")).with_extension("o");
        compile(&zig, source, &object, &include, is_riscv);
        println!("cargo::rustc-link-arg-bin=guest-freertos={}", object.display());
    }
}

fn compile(zig: &OsStr, source: &Path, object: &Path, include: &[&Path], is_riscv: bool) {
    // The compiler's own headers, such as stdint.h.
    let headers = Path::new(zig).with_file_name("lib").join("include");
    let mut clang = Command::new(zig);
    clang.arg("clang").args(FLAGS).arg("-nostdinc").arg("-isystem").arg(headers);
    clang.args(if is_riscv { &RISCV64[..] } else { &AARCH64[..] });
    if !is_riscv && source.extension().is_some_and(|extension| extension == "c") {
        clang.arg(AARCH64_C);
    }
    for folder in include {
        clang.arg("-I").arg(folder);
    }
    let status = clang.arg("-c").arg(source).arg("-o").arg(object).status().expect("the compiler runs");
    assert!(status.success(), "{} does not compile", source.display());
}
