//! To add a file system is one file and one row (`kernel/core/src/file/path/node.rs`): held by looking at the sources.
//!
//! A node's variant is named by the list alone, so no other code can ask which file system a node is of. A root's code (`MOUNT_*`) is named by the file
//! system that has it. And mounts are crossed in one place.

use std::collections::BTreeMap;

use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::sources::{below, code, read};
use motet_tests_hosted::{Scenario, everywhere};

const LIST: &str = "kernel/core/src/file/path/node.rs";
const MOUNTS: &str = "kernel/core/src/file/path/mount.rs";
const RAMFS: &str = "kernel/core/src/file/path/ramfs.rs";

/// Words of some code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_').filter(|word| !word.is_empty())
}

/// The rows of the list: a variant and its type.
fn rows(list: &str) -> Vec<(&str, &str)> {
    let begins = list.split_once("macro_rules! file_systems {").map_or("", |(_, rest)| rest);
    let rows = begins.split("\n}\n").next().unwrap_or("");
    rows.lines().filter_map(|line| line.trim().strip_suffix("),")?.split_once('(')).collect()
}

/// The types that a source says are nodes of a file system.
fn homes(code: &str) -> Vec<&str> {
    let begins = code.split("FileSystem<'c, M> for ").skip(1);
    begins.filter_map(|rest| rest.split_once(" {").map(|(kind, _)| kind)).collect()
}

/// The codes of roots that a source says its file system has.
fn roots(code: &str) -> Vec<&str> {
    let lists = code.split("const ROOTS: &'static [Root] = &[").skip(1).filter_map(|rest| rest.split(']').next());
    lists.flat_map(words).filter(|word| word.starts_with("MOUNT_")).collect()
}

/// Codes of all roots: the constants that the layout describes so.
fn codes() -> Vec<String> {
    let layout = read("fused/layout/src/files.rs");
    let lines: Vec<&str> = layout.lines().collect();
    let described = lines.windows(2).filter(|pair| pair[0].starts_with("/// [`InodeRecord::mount`]:"));
    described.filter_map(|pair| pair[1].strip_prefix("pub const ")?.split(':').next()).map(Into::into).collect()
}

/// The kernel's sources, by path.
fn sources() -> BTreeMap<String, String> {
    below("kernel/core/src").into_iter().map(|path| (path.clone(), code(&read(&path)))).collect()
}

#[test]
fn a_file_system_is_one_file_and_one_row() {
    let sources = sources();
    let rows = rows(&sources[LIST]);
    assert!(rows.len() > 2, "only {rows:?}: file systems are no longer found");
    let mut found: Vec<&str> = sources.values().flat_map(|code| homes(code)).collect();
    let mut listed: Vec<&str> = rows.iter().map(|(_, kind)| *kind).collect();
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(found, listed, "types that are file systems, and rows in {LIST}");
    for (variant, _) in rows {
        let name = format!("Node::{variant}");
        let others: Vec<&String> =
            sources.iter().filter(|(path, code)| *path != LIST && code.contains(&name)).map(|(path, _)| path).collect();
        assert!(others.is_empty(), "{name} in {others:?}: who asks for it asks a node instead (`FileSystem`)");
    }
}

#[test]
fn a_root_is_named_by_its_file_system_alone() {
    let (sources, codes) = (sources(), codes());
    assert!(codes.len() > 2, "only {codes:?}: roots are no longer found");
    for root in codes {
        let homes: Vec<&String> =
            sources.iter().filter(|(_, code)| roots(code).contains(&root.as_str())).map(|(path, _)| path).collect();
        assert_eq!(homes.len(), 1, "{root}: one file says in its `ROOTS` that it has it, and not {homes:?}");
        // That a node is not covered anyone may say.
        if root != "MOUNT_NONE" {
            let names = |code: &String| words(code).any(|word| word == root);
            let named: Vec<&String> = sources.iter().filter(|(_, code)| names(code)).map(|(path, _)| path).collect();
            assert_eq!(named, homes, "{root}");
        }
    }
}

#[test]
fn mounts_are_crossed_in_one_place() {
    for (word, home) in [(".mounts", MOUNTS), (".mount.get()", RAMFS), (".covered_by()", MOUNTS)] {
        let sources = sources();
        let named: Vec<&String> =
            sources.iter().filter(|(_, code)| code.contains(word)).map(|(path, _)| path).collect();
        assert_eq!(named, [home], "`{word}`");
    }
}

/// Prints the working directory.
fn print_directory(program: &mut Program, len: u64) {
    program.call(Sys::Getcwd, &[DATA, 256]);
    program.or_exit_unless(len + 1, 100 + len);
    program.call(Sys::Write, &[1, DATA, len]);
    program.print(1, "\n");
}

/// Prints a file that says `told`.
fn print_file(program: &mut Program, path: &str, told: &str) {
    const AT_FDCWD: u64 = -100_i64 as u64;
    program.arg(0, AT_FDCWD);
    program.arg_string(1, path);
    program.arg(2, 0);
    program.call_as_is(Sys::Openat);
    program.or_exit(2);
    let [file, ..] = program.asm.roles.saved;
    program.result_to(file);
    program.arg_from(0, file);
    program.arg(1, DATA);
    program.arg(2, 512);
    program.call_as_is(Sys::Read);
    program.or_exit_unless(told.len() as u64, 3);
    program.call(Sys::Write, &[1, DATA, told.len() as u64]);
}

/// The way up from a root, paths, and what is told of mounts come by where they are, not by what they are.
#[test]
fn what_is_mounted_anywhere_leads_back_there() {
    let told = "ramfs / ramfs rw 0 0\nproc /away/proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\n";
    let program = Program::build(Isa::RiscV64, |program| {
        for (step, len) in [("/away/proc/self/task", 17), ("../..", 10), ("..", 5), ("proc/../..", 1)] {
            program.arg_string(0, step);
            program.call_as_is(Sys::Chdir);
            program.or_exit(1);
            print_directory(program, len);
        }
        print_file(program, "away/proc/mounts", told);
        program.exit(0);
    });
    let files = vec![("goes", program)];
    let scenario = Scenario { files, command: vec!["/goes"], proc_in: "away", ..Scenario::default() };
    let ways = "/away/proc/1/task\n/away/proc\n/away\n/\n";
    everywhere(3, &scenario, 0, &format!("{ways}{told}"));
}

/// A process is told of what it reaches from its root, as its root makes the paths.
#[test]
fn a_process_is_told_of_the_mounts_below_its_root() {
    let below = "proc /proc proc rw 0 0\n";
    let program = Program::build(Isa::RiscV64, |program| {
        for (sys, path) in [(Sys::Chroot, "/away"), (Sys::Chdir, "/")] {
            program.arg_string(0, path);
            program.call_as_is(sys);
            program.or_exit(1);
        }
        print_file(program, "/proc/self/mounts", below);
        for (sys, path) in [(Sys::Chroot, "/proc"), (Sys::Chdir, "/")] {
            program.arg_string(0, path);
            program.call_as_is(sys);
            program.or_exit(1);
        }
        print_file(program, "/mounts", "proc / proc rw 0 0\n");
        program.exit(0);
    });
    let scenario =
        Scenario { files: vec![("goes", program)], command: vec!["/goes"], proc_in: "away", ..Scenario::default() };
    everywhere(3, &scenario, 0, &format!("{below}proc / proc rw 0 0\n"));
}

#[test]
fn file_systems_are_found_however_they_are_written() {
    let list =
        "macro_rules! file_systems {\n    [\n        A(Held<'c, Cpu<M>>),\n        B(Other),\n    ]\n}\n\nf(x),\n";
    assert_eq!(rows(list), [("A", "Held<'c, Cpu<M>>"), ("B", "Other")]);
    assert_eq!(homes("impl<'c, M: Machine> FileSystem<'c, M> for Held<'c, Cpu<M>> {\n"), ["Held<'c, Cpu<M>>"]);
    assert!(homes("pub trait FileSystem<'c, M: Machine>: Clone {\n").is_empty());
    assert_eq!(
        roots("const ROOTS: &'static [Root] = &[\n Root { mount: MOUNT_A },\n Root { mount: MOUNT_B }];"),
        ["MOUNT_A", "MOUNT_B"]
    );
}
