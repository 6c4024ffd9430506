//! Arithmetic that the compiler calls functions for, because an ISA has no instructions for it: the compiler's own, in
//! Zig, one object each.

use std::path::Path;

use crate::{
    error::{Error, ErrorKind, Result, create_folder, read, write},
    fat_object,
    isa::{ISAS, PerIsa, TARGETS},
    tools::Tools,
};

/// Files of the compiler's `compiler_rt`: 128-bit integers, complex numbers, powers, half precision.
pub const SOURCES: &[&str] = &[
    "divti3",
    "modti3",
    "udivti3",
    "umodti3",
    "udivmodti4",
    "mulXi3",
    "shift",
    "fixdfti",
    "fixsfti",
    "fixunsdfti",
    "fixunssfti",
    "floattidf",
    "floattisf",
    "floatuntidf",
    "floatuntisf",
    "divdc3",
    "divsc3",
    "muldc3",
    "mulsc3",
    "powiXf2",
    "count0bits",
    "popcount",
    "parity",
    "bswap",
    "mulo",
    "addo",
    "subo",
    "extendhfsf2",
    "extendhfdf2",
    "truncsfhf2",
    "truncdfhf2",
];

/// Builds them into `objects`.
///
/// # Errors
/// The compiler fails.
pub fn build(tools: &Tools, objects: &Path) -> Result<()> {
    // Zig leaves more there than it is asked for.
    let scratch = objects.join("scratch");
    create_folder(&scratch)?;
    for source in SOURCES {
        let mut built: PerIsa<Vec<u8>> = Default::default();
        for (isa, object) in built.iter_mut().enumerate() {
            let output = scratch.join(ISAS[isa].name());
            let mut command = tools.command("build-obj");
            command.arg(tools.library.join(format!("compiler_rt/{source}.zig")));
            command.args([
                "-target",
                TARGETS[isa].triple,
                "-O",
                "ReleaseFast",
                "-ffunction-sections",
                "-fdata-sections",
            ]);
            command.args(["-fno-PIC", "-fstrip", "-fno-unwind-tables", "-fno-stack-check", "-fno-stack-protector"]);
            command.args(["-mcpu", TARGETS[isa].processor]).arg(format!("-femit-bin={}", output.display()));
            let cache = tools.folder.join("zig-cache");
            command.arg("--cache-dir").arg(&cache).arg("--global-cache-dir").arg(&cache);
            let result = command.output().map_err(|error| Error::read(&tools.program, error))?;
            if !result.status.success() {
                let text = String::from_utf8_lossy(&result.stderr);
                let message = format!("building {source} for {} failed:\n{}", ISAS[isa].name(), text.trim_end());
                return Err(Error::new(ErrorKind::Software, message));
            }
            *object = read(&output)?;
        }
        write(
            &objects.join(format!("builtin_{source}.o")),
            &fat_object::join(source, &built, &fat_object::Notes::default())?,
        )?;
    }
    Ok(())
}
