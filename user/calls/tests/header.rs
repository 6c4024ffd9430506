//! `user/include/motet.h` and `motet_layout::marks` agree, and the header does no harm on the host.

use std::{fs, path::Path, process::Command};

use motet_calls::marks;

const PROGRAM: &str = r#"
#include "motet.h"
int main(int count, char **arguments) {
    motet_roi_begin("a name");
    motet_roi_begin(arguments[count - 1]);
    motet_roi_begin("");
    motet_roi_begin(0);
    motet_roi_end("a name");
    return 7;
}
"#;

fn include() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../include"))
}

/// The program compiled by the host's compiler as `language`.
fn compile(folder: &Path, language: &str, options: &[&str]) -> Vec<u8> {
    let program = folder.join("program");
    fs::write(folder.join("program.c"), PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-x", language, "-Wall", "-Wextra", "-Werror"]).args(options).arg("-I").arg(include());
    let output =
        compiler.arg(folder.join("program.c")).arg("-o").arg(&program).output().expect("cc links Rust programs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(Command::new(&program).arg("x".repeat(5000)).status().unwrap().code(), Some(7));
    fs::read(program).unwrap()
}

/// How often a mark of the host's instruction set is in a program.
fn occurrences(program: &[u8], mark: u8) -> usize {
    let wanted = if cfg!(target_arch = "x86_64") {
        [&[0x0f, 0x1f, 0x80], &marks::x86_64(mark).to_le_bytes()[..]].concat()
    } else if cfg!(target_arch = "aarch64") {
        marks::aarch64(mark).to_le_bytes().to_vec()
    } else {
        marks::riscv64(mark).to_le_bytes().to_vec()
    };
    program.windows(wanted.len()).filter(|window| *window == wanted).count()
}

#[test]
fn compiled_marks_are_those_of_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    for options in [&["-std=c99", "-Wpedantic", "-O2"], &["-std=gnu17", "-g", "-O2"]] {
        let program = compile(folder.path(), "c", options);
        // How many is the compiler's choice.
        assert!(occurrences(&program, marks::ROI_BEGIN) > 0);
        assert!(occurrences(&program, marks::ROI_END) > 0);
    }
    // Without optimisation the functions are called.
    let program = compile(folder.path(), "c", &["-O0"]);
    assert_eq!((occurrences(&program, marks::ROI_BEGIN), occurrences(&program, marks::ROI_END)), (1, 1));
}

#[test]
fn the_header_has_the_marks_of_every_instruction_set() {
    let text = fs::read_to_string(include().join("motet.h")).unwrap();
    for mark in [marks::ROI_BEGIN, marks::ROI_END] {
        for word in [marks::x86_64(mark), marks::aarch64(mark), marks::riscv64(mark)] {
            assert_eq!(text.matches(&format!("0x{word:08x}\"")).count(), 1, "{word:#x}");
        }
    }
    assert!(text.contains(&format!("#define MOTET_ROI_NAME_MAX {}\n", marks::ROI_NAME_MAX)));
}
