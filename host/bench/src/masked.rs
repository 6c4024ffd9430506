//! How long a kernel is deaf: the longest run of its instructions during which it takes no interrupt.
//!
//! `host/count` finds the runs while guest programs do what takes longest: long transfers, huge and scattered mappings,
//! large directories, many processes, and what hostile programs try. The island is alone and has one core, so no run
//! contains waiting for another core.

use std::{path::Path, process::Command, time::Duration};

use motet_fabric::{Error, ErrorKind, Result};
use motet_layout::Isa;

use crate::{
    motet::{self, Described},
    process,
    project::{Project, file_error},
    symbols::Symbols,
};

/// Where the guest programs' sources are, each compiled to one program by `motet cc`.
const PROGRAMS: [&str; 0] = [];
/// Busybox does the rest.
const SCRIPT: &str = "\
dd if=/dev/urandom of=/dev/null bs=16M count=1
head -c 20000000 /dev/zero > /tmp/large && cp /tmp/large /tmp/copy && cmp /tmp/large /tmp/copy && rm /tmp/large /tmp/copy
mkdir /tmp/many && cd /tmp/many && seq 3000 | xargs touch && ls | wc -l && cd / && rm -r /tmp/many
ls -laR /proc > /dev/null
i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i + 1)); done; ps > /dev/null; kill -9 -1
";
const COMPILE_AT_MOST: Duration = Duration::from_secs(600);
const RUN_AT_MOST: Duration = Duration::from_secs(600);

/// The longest run on an ISA.
#[derive(Debug)]
pub struct Longest {
    /// Its machine.
    pub machine: Described,
    /// Instructions.
    pub instructions: u64,
    /// Functions of the kernel in which it was, from its first thousands of instructions on.
    pub functions: Vec<String>,
}

/// Measures an ISA.
///
/// # Errors
/// A program is not built or fails, or nothing was counted.
pub fn longest(project: &Project, isa: Isa) -> Result<Longest> {
    let folder = project.scratch(&format!("masked-{}", isa.name()))?;
    let machine = motet::describe(&folder, &[(isa, 1)])?;
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).map_err(file_error(&programs))?;
    let mut script = String::new();
    for source in PROGRAMS {
        script += &format!("/in/programs/{} > /dev/null 2>&1\n", compile(project, source, &programs)?);
    }
    let runs = folder.join("runs");
    let options = [
        "--qemu".to_owned(),
        format!("{}=-plugin {},masked={}", isa.name(), project.counting_plugin()?.display(), runs.display()),
        "--in".to_owned(),
        programs.display().to_string(),
    ];
    motet::run(project, &machine, &options, &format!("{script}{SCRIPT}"), RUN_AT_MOST)?;
    let text = std::fs::read_to_string(&runs).map_err(file_error(&runs))?;
    let longest = text.lines().filter_map(parse).max_by_key(|(instructions, _)| *instructions);
    let (instructions, trail) = longest.ok_or_else(|| {
        Error::new(ErrorKind::Software, format!("{}: no run of the kernel was counted", runs.display()))
    })?;
    Ok(Longest { machine, instructions, functions: functions(project, isa, &trail)? })
}

/// Compiles a program for every instruction set; its name.
fn compile(project: &Project, source: &str, into: &Path) -> Result<String> {
    let source = project.root.join(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("motet: compiling the guest program `{name}` for every instruction set");
    let mut motet = Command::new(project.motet());
    motet.args(["cc", "-O2", "-I"]).arg(project.root.join("user/include"));
    process::expect(motet.arg(source).arg("-o").arg(into.join(&name)), COMPILE_AT_MOST)?;
    Ok(name)
}

/// A line of the plugin: `INSTRUCTIONS ADDRESS...`.
fn parse(line: &str) -> Option<(u64, Vec<u64>)> {
    let mut words = line.split_whitespace();
    let instructions = words.next()?.parse().ok()?;
    Some((instructions, words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect()))
}

/// The kernel's functions at these addresses, each once.
fn functions(project: &Project, isa: Isa, addresses: &[u64]) -> Result<Vec<String>> {
    let symbols = Symbols::of_kernel(project, isa)?;
    let mut names = Vec::new();
    for &address in addresses {
        let name = symbols.function_at(address);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_plugin_are_understood() {
        assert_eq!(parse("12 ffffffff80200000 10"), Some((12, vec![0xffff_ffff_8020_0000, 16])));
        assert_eq!(parse("7"), Some((7, vec![])));
        assert_eq!(parse("x"), None);
        assert_eq!(parse(""), None);
    }
}
