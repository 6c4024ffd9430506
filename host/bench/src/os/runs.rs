//! The program on Motet and on Linux.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use motet_calls::Operation;
use motet_error::Result;
use motet_layout::Isa;

use super::{operations, results::Column};
use crate::{
    counts,
    linux::{self, Program, Reference, Settings},
    motet::{self, Described},
    profile,
    project::{self, Project, file_error},
    symbols::Symbols,
};

const AT_MOST: Duration = Duration::from_secs(900);
const SAYS: &str = "os: ok";

/// How the program is run.
#[derive(Debug)]
pub struct Runs {
    project: Project,
    quick: bool,
    /// Linux has its usual settings alone.
    usual: bool,
    remeasure: bool,
    operations: Vec<Operation>,
}

impl Runs {
    /// # Errors
    /// It was not the front door that started this program.
    pub fn new(quick: bool, usual: bool, remeasure: bool) -> Result<Self> {
        Ok(Self { project: Project::find()?, quick, usual, remeasure, operations: operations::executed(quick) })
    }

    /// Counts the operations of an instruction set on both systems.
    ///
    /// # Errors
    /// The program does not compile, or one of them does not run it to its end.
    pub fn measure(&self, isa: Isa) -> Result<Column> {
        let program = self.compile(isa)?;
        eprintln!("motet: counting instructions on Motet, {}", isa.name());
        let (described, counted) = self.on_motet(isa, &program, "out")?;
        let motet = counts::read_of(&counted, &self.operations)?;
        let further = if self.usual { &[][..] } else { &Settings::FURTHER[..] };
        let usual = [Settings::Usual];
        let linux =
            usual.iter().chain(further).map(|&settings| Ok((settings, self.on_linux(isa, &program, settings)?)));
        Column::new(isa, project::describe(&described.machine)?, &motet, linux.collect::<Result<_>>()?)
    }

    /// Prints the functions of Motet's kernel that the instructions of each operation are in.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn profile(&self, isa: Isa) -> Result<()> {
        let (_, counted) = self.on_motet(isa, &self.compile(isa)?, "profile")?;
        let text = std::fs::read_to_string(&counted).map_err(file_error(&counted))?;
        profile::print_operations(isa, &text, &Symbols::of_kernel(&self.project, isa)?, &self.operations);
        Ok(())
    }

    fn compile(&self, isa: Isa) -> Result<PathBuf> {
        let program = self.project.scratch(&format!("os-{}", isa.name()))?.join("os");
        motet::compile(&self.project, isa, ["-O2".into(), self.project.root.join("user/os/os.c")], &program)?;
        Ok(program)
    }

    /// On an island alone in its machine: the file that the plugin wrote.
    fn on_motet(&self, isa: Isa, program: &Path, mode: &str) -> Result<(Described, PathBuf)> {
        let folder = self.project.scratch(&format!("os-{}-motet", isa.name()))?;
        let machine = motet::describe(&folder, &[(isa, 1)])?;
        let counted = folder.join("counted");
        let plugin = format!("-plugin {},{mode}={}", self.project.counting_plugin()?.display(), counted.display());
        let options =
            ["--qemu".to_owned(), format!("{}={plugin}", isa.name()), "--in".to_owned(), program.display().to_string()];
        // Where memory is placed at random, whether a page needs page tables of its own is random, too.
        let command = format!("echo 0 > /proc/sys/kernel/randomize_va_space; /in/os {}", self.words());
        motet::run(&self.project, &machine, &options, &command, AT_MOST)?;
        Ok((machine, counted))
    }

    /// With the shell that Motet has, too.
    fn on_linux(&self, isa: Isa, program: &Path, settings: Settings) -> Result<Reference<Vec<f64>>> {
        let bytes = std::fs::read(program).map_err(file_error(program))?;
        let shell = self.project.target.join("userland").join(isa.name()).join("busybox");
        let shell = std::fs::read(&shell).map_err(file_error(&shell))?;
        let files = [("bin/sh", &shell[..])];
        let program = Program { name: "os", bytes: &bytes, words: self.words(), files: &files, says: SAYS };
        let read = |counted: &Path| counts::read_of(counted, &self.operations);
        linux::figures(&self.project, isa, settings, self.remeasure, &program, read)
    }

    fn words(&self) -> &'static str {
        if self.quick { "quick" } else { "whole" }
    }
}
