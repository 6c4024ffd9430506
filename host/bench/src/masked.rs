//! How long a kernel keeps interrupts masked: the longest run of its instructions during which it takes no interrupt.
//!
//! `host/counting-plugin` finds the runs while guest programs do what takes longest: long transfers, huge and scattered mappings,
//! large directories, many processes, and what hostile programs try. The island is alone and has one core, so no run
//! contains waiting for another core.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use crate::{
    motet::{self, Described},
    project::{Project, file_error},
    symbols::Symbols,
};

/// A guest program, compiled by `motet cc`.
struct Program {
    name: &'static str,
    /// Its sources, or folders of them.
    sources: &'static [&'static str],
    /// How it is run.
    command: &'static str,
}

const fn program(name: &'static str, sources: &'static [&'static str], command: &'static str) -> Program {
    Program { name, sources, command }
}

const PROGRAMS: [Program; 6] = [
    program("many", &["tests/guest/cc/many.c"], "/in/programs/many"),
    program("ranges", &["tests/guest/cc/ranges.c"], "/in/programs/ranges"),
    program("memory", &["tests/guest/cc/memory.c"], "/in/programs/memory"),
    program("hostile", &["tests/guest/hostile"], "/in/programs/hostile 1000 1001"),
    program("long", &["tests/guest/cc/long.c"], "/in/programs/long"),
    program(
        "conformance",
        &["tests/guest/conformance"],
        "mkdir -m 777 /tmp/all; /in/programs/conformance /tmp/all | cat",
    ),
];
/// What busybox does.
const SCRIPT: &str = "\
dd if=/dev/urandom of=/dev/null bs=16M count=1
head -c 20000000 /dev/zero > /tmp/large && cp /tmp/large /tmp/copy && cmp /tmp/large /tmp/copy && rm /tmp/large /tmp/copy
mkdir /tmp/many && cd /tmp/many && seq 3000 | xargs touch && ls | wc -l && cd / && rm -r /tmp/many
ls -laR /proc > /dev/null
i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i + 1)); done; ps > /dev/null; kill -9 -1
";
const RUN_AT_MOST: Duration = Duration::from_secs(1800);

/// The longest runs on an ISA, the longest first.
#[derive(Debug)]
pub struct Longest {
    /// Its machine.
    pub machine: Described,
    /// Each of another function of the kernel or another program; at least one.
    pub runs: Vec<Run>,
}

/// A run of instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its length, in instructions.
    pub instructions: u64,
    /// The guest program that ran.
    pub program: String,
    /// Functions of the kernel in which it was, from its first thousands of instructions on, the most frequent first.
    pub functions: Vec<String>,
}

/// Measures an ISA: each program in a machine of its own.
///
/// # Errors
/// A program is not built or fails, or nothing was counted.
pub fn longest(project: &Project, isa: Isa) -> Result<Longest> {
    let folder = project.scratch(&format!("masked-{}", isa.name()))?;
    let machine = motet::describe(&folder, &[(isa, 1)])?;
    let symbols = Symbols::of_kernel(project, isa)?;
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).map_err(file_error(&programs))?;
    let mut commands = vec![("a shell's commands", SCRIPT.to_owned())];
    for program in &PROGRAMS {
        compile(project, program, isa, &programs)?;
        commands.push((program.name, format!("({}) > /dev/null", program.command)));
    }
    let mut runs = Vec::new();
    for (name, command) in commands {
        eprintln!("motet: running {name}");
        let told = folder.join("runs");
        let options = [
            "--qemu".to_owned(),
            format!("{}=-plugin {},masked={}", isa.name(), project.counting_plugin()?.display(), told.display()),
            "--in".to_owned(),
            programs.display().to_string(),
        ];
        motet::run(project, &machine, &options, &command, RUN_AT_MOST)?;
        let text = std::fs::read_to_string(&told).map_err(file_error(&told))?;
        runs.extend(text.lines().filter_map(parse).map(|(instructions, trail)| Run {
            instructions,
            program: name.into(),
            functions: functions(&symbols, &trail),
        }));
    }
    let runs = distinct(runs);
    if runs.is_empty() {
        return Err(Error::new(ErrorKind::Software, format!("{}: no run was counted", isa.name())));
    }
    Ok(Longest { machine, runs })
}

/// Compiles a program for an instruction set.
fn compile(project: &Project, program: &Program, isa: Isa, into: &Path) -> Result<()> {
    eprintln!("motet: compiling the guest program `{}`", program.name);
    // Functions of other instruction sets run here as well.
    let mut arguments: Vec<PathBuf> = vec!["-O1".into(), "-w".into(), "-DMOTET_ONE_ISLAND".into(), "-I".into()];
    arguments.push(project.root.join("user/include"));
    for source in program.sources {
        arguments.extend(sources(&project.root.join(source))?);
    }
    motet::compile(project, isa, arguments, &into.join(program.name))
}

/// The sources that a path stands for: itself, or a folder's.
fn sources(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(file_error(path))?;
    let mut sources: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|source| source.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    Ok(sources)
}

/// Of the runs of a program that were in the same function, the longest; the longest of all first.
fn distinct(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by_key(|run| std::cmp::Reverse(run.instructions));
    let mut distinct: Vec<Run> = Vec::new();
    for run in runs {
        if !distinct
            .iter()
            .any(|other| other.program == run.program && other.functions.first() == run.functions.first())
        {
            distinct.push(run);
        }
    }
    distinct
}

/// A line of the plugin: `INSTRUCTIONS ADDRESS...`.
fn parse(line: &str) -> Option<(u64, Vec<u64>)> {
    let mut words = line.split_whitespace();
    let instructions = words.next()?.parse().ok()?;
    Some((instructions, words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect()))
}

/// The kernel's functions at these addresses, each once, the most frequent first.
fn functions(symbols: &Symbols, addresses: &[u64]) -> Vec<String> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for &address in addresses {
        let name = symbols.function_at(address);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(name, _)| name).collect()
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

    #[test]
    fn of_runs_in_one_function_the_longest_is_told() {
        let run = |instructions, program: &str, functions: &[&str]| Run {
            instructions,
            program: program.into(),
            functions: functions.iter().map(|&name| name.into()).collect(),
        };
        let runs =
            vec![run(10, "p", &["a", "b"]), run(30, "p", &["a", "c"]), run(20, "p", &["b"]), run(5, "q", &["a"])];
        assert_eq!(distinct(runs), [run(30, "p", &["a", "c"]), run(20, "p", &["b"]), run(5, "q", &["a"])]);
    }

    #[test]
    fn functions_are_told_by_how_often_they_were_seen() {
        let kernel = 1 << 63;
        let symbols = Symbols::from_functions(&[(kernel, "a"), (kernel + 16, "b")]);
        assert_eq!(functions(&symbols, &[kernel, kernel + 20, kernel + 16]), ["b", "a"]);
        assert!(functions(&symbols, &[]).is_empty());
    }
}
