//! How much code a virtual machine must trust.

use std::path::Path;

use motet_error::Result;

use crate::project::file_error;

/// Lines that are neither blank nor comments, without tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lines {
    /// Of what is there for virtual machines: [`HYPERVISOR`].
    pub hypervisor: usize,
    /// Of the whole kernel: [`KERNEL`].
    pub kernel: usize,
}

/// What only virtual machines need: the kernel's part, the core's, registers in the pool, the calls, and the monitor.
pub const HYPERVISOR: [&str; 6] = [
    "kernel/core/src/vm",
    "kernel/hal-riscv64/src/guest.rs",
    "kernel/hal/src/guest.rs",
    "fused/layout/src/guest.rs",
    "fused/abi/src/vm.rs",
    "user/vm/src",
];

/// All that runs in the mode of a RISC-V island's kernel.
pub const KERNEL: [&str; 8] = [
    "kernel/core/src",
    "kernel/hal/src",
    "kernel/hal-riscv64/src",
    "kernel/image/src",
    "fused/layout/src",
    "fused/paging/src",
    "fused/abi/src",
    "fused/protocol/src",
];

impl Lines {
    /// Of the project.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn count(root: &Path) -> Result<Self> {
        Ok(Self { hypervisor: of_paths(root, &HYPERVISOR)?, kernel: of_paths(root, &KERNEL)? })
    }
}

fn of_paths(root: &Path, paths: &[&str]) -> Result<usize> {
    let mut sum = 0;
    for path in paths {
        let mut rest = vec![root.join(path)];
        while let Some(path) = rest.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(&path).map_err(file_error(&path))?;
                rest.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
            } else if is_code(&path) {
                sum += of_text(&std::fs::read_to_string(&path).map_err(file_error(&path))?);
            }
        }
    }
    Ok(sum)
}

/// Sources, but files and folders of tests.
fn is_code(path: &Path) -> bool {
    let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs" || part == "conformance";
    path.extension().is_some_and(|extension| extension == "rs") && !path.iter().any(is_test)
}

/// Lines of code of a file, up to its tests, which come last.
fn of_text(text: &str) -> usize {
    let lines = text.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]");
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_counts() {
        assert_eq!(of_text("//! m\n\nfn a() { // why\n    /// d\n    b();\n}\n#[cfg(test)]\nmod tests {\n}\n"), 3);
        assert!(
            is_code(Path::new("a/b.rs")) && !["a/tests/b.rs", "a/b.toml"].iter().any(|path| is_code(Path::new(path)))
        );
    }

    #[test]
    fn all_paths_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(HYPERVISOR.iter().chain(&KERNEL).all(|path| root.join(path).exists()));
        let lines = Lines::count(&root).unwrap();
        assert!(lines.hypervisor > 1000 && lines.kernel > 10 * lines.hypervisor, "{lines:?}");
    }
}
