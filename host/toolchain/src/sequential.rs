//! Sequentially consistent stores of AArch64: each gets a fence behind it.
//!
//! Such a store is `stlr`, and such a load `ldar`. AArch64's memory model keeps the one before the other (Arm ARM, B2.3: "barrier-ordered-before"), but
//! QEMU's fences are before the store and behind the load, so an x86-64 host may do the store after the load. Then two threads that each store and
//! then look at the other's word both see the old value, which C11 forbids. With `dmb ish` between them it holds under
//! QEMU, and on every other AArch64. `stlr` is the code of release stores, too, which need no fence; so the fence is put
//! where the compiler still knows which is which, into its intermediate code after all optimisation.

use std::{fs, path::Path, process::Command};

use object::{Object, ObjectSection, SectionKind};

use crate::{
    error::{Error, Result, read, write},
    isa::{ISAS, TARGETS},
    wide,
};

/// The line of intermediate code behind a store; part of what built libraries are known by.
pub const FENCE: &str = "  fence seq_cst\n";

/// Compiles once more, with fences, what has become `object` for an ISA and has stores that need one.
///
/// `compiler` is clang with every option that the object was compiled with, but without `-c`, input and output; `add_source` gives it its input.
///
/// # Errors
/// A file cannot be read or written, or the compiler fails where it has not failed before.
pub fn fence_stores(
    isa: usize,
    object: &Path,
    compiler: &dyn Fn() -> Result<Command>,
    add_source: &dyn Fn(&mut Command),
) -> Result<()> {
    if !TARGETS[isa].fences_stores || !has_suspects(&read(object)?) {
        return Ok(());
    }
    let code = object.with_extension("ll");
    let mut command = compiler()?;
    command.args(["-w", "-S", "-emit-llvm", "-o"]).arg(&code);
    add_source(&mut command);
    succeeds(&mut command, "fencing stores", isa)?;
    let text = String::from_utf8_lossy(&read(&code)?).into_owned();
    let called = wide::called(&text).map_err(|line| {
        let message = "has no function for this atomic operation of 16 bytes; use compare-and-exchange";
        Error::data(format!("motet cc: the C library {message}: {line}"))
    })?;
    let fenced = fenced(called.as_ref().unwrap_or(&text)).or(called);
    if let Some(fenced) = fenced {
        write(&code, fenced.as_bytes())?;
        // All passes over intermediate code have been done: what is left is the machine code.
        let mut command = compiler()?;
        command.args(["-w", "-Xclang", "-disable-llvm-passes", "-c", "-o"]).arg(object).args(["-x", "ir"]).arg(&code);
        succeeds(&mut command, "fencing stores", isa)?;
    }
    fs::remove_file(&code).map_err(|error| Error::write(&code, error))
}

/// Intermediate code with a fence behind each sequentially consistent store; `None` if it has no such store.
fn fenced(code: &str) -> Option<String> {
    let is_store = |line: &str| line.trim_start().starts_with("store atomic ") && line.contains(" seq_cst, align ");
    let mut fenced = String::with_capacity(code.len());
    for line in code.split_inclusive('\n') {
        fenced.push_str(line);
        if is_store(line) {
            fenced.push_str(FENCE);
        }
    }
    (fenced.len() > code.len()).then_some(fenced)
}

/// Whether AArch64 code has a store-release (`stlr`, `stlur`) of any size, or an atomic access of two registers (`ldxp`, `stxp`, `casp` and their like); or
/// other words in its text that look like one.
fn has_suspects(object: &[u8]) -> bool {
    let Ok(file) = object::File::parse(object) else { return false };
    let is_pair = |word: u32| word & 0xffa0_0000 == 0xc820_0000 || word & 0xffa0_7c00 == 0x4820_7c00;
    let is_release = |word: u32| word & 0x3fff_fc00 == 0x089f_fc00 || word & 0x3fe0_0c00 == 0x1900_0000;
    let is_one = |word: u32| is_release(word) || is_pair(word);
    file.sections().filter(|section| section.kind() == SectionKind::Text).any(|section| {
        let code = section.data().unwrap_or_default();
        code.as_chunks().0.iter().any(|&word| is_one(u32::from_le_bytes(word)))
    })
}

/// Runs a compiler for what has compiled before; `what` it does is for the message.
///
/// # Errors
/// It fails.
pub fn succeeds(command: &mut Command, what: &str, isa: usize) -> Result<()> {
    let output = command.output().map_err(|error| Error::read(command.get_program().as_ref(), error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let message = format!("motet cc: {what} for {} failed:\n{}", ISAS[isa].name(), text.trim_end());
    Err(Error::new(crate::error::ErrorKind::Software, message))
}

#[cfg(test)]
mod tests {
    use super::fenced;

    #[test]
    fn only_sequentially_consistent_stores_get_a_fence() {
        let code = "  store atomic i32 %0, ptr @x seq_cst, align 4, !dbg !52\n  \
            store atomic volatile i8 3, ptr %z release, align 1\n  store i32 1, ptr %1, align 4\n  \
            %2 = load atomic i32, ptr @x seq_cst, align 4\n";
        let (first, rest) = code.split_once('\n').unwrap();
        assert_eq!(fenced(code), Some(format!("{first}\n  fence seq_cst\n{rest}")));
        assert_eq!(fenced(rest), None);
    }
}
