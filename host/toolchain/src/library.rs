//! Building a library: each source is compiled for each ISA, many at once, and the objects go into one archive.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    error::{Error, ErrorKind, Result, read, write},
    fat_object,
    isa::{self, ISAS, PerIsa},
    sequential,
    tools::Tools,
};

/// The source of each object for each ISA.
pub type Sources = BTreeMap<String, PerIsa<PathBuf>>;

/// The compiler's call for an object, an ISA and a source, without what goes in and comes out; and the file to give it.
pub type Compiler<'a> = &'a (dyn Fn(&str, usize, &Path) -> Result<(Command, PathBuf)> + Sync);

/// Makes something for an ISA that all its files need.
pub type First<'a> = &'a (dyn Fn(usize) -> Result<()> + Sync);

/// How a library is built.
pub struct Library<'a> {
    /// The compiler's package.
    pub tools: &'a Tools,
    /// In messages.
    pub name: &'a str,
    /// Where objects go.
    pub objects: &'a Path,
    /// How its files are compiled.
    pub compiler: Compiler<'a>,
    /// What is made for each ISA before.
    pub first: Option<First<'a>>,
}

impl Library<'_> {
    /// Compiles all sources, and shows how far it is.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile(&self, sources: &Sources) -> Result<()> {
        let progress = self.progress(sources.len());
        if let Some(first) = self.first {
            isa::at_once(first)?;
        }
        let work: Vec<_> = sources.iter().collect();
        let next = AtomicUsize::new(0);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let fail = |error| {
            next.store(work.len(), Ordering::Relaxed);
            *failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some((name, paths)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = self.compile_one(name, paths) {
                            fail(error);
                        }
                        progress.inc(1);
                    }
                });
            }
        });
        progress.finish_and_clear();
        failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn compile_one(&self, name: &str, paths: &PerIsa<PathBuf>) -> Result<()> {
        let mut built: PerIsa<Vec<u8>> = Default::default();
        for (isa, path) in paths.iter().enumerate() {
            let output = self.objects.join(format!("{name}.{}", ISAS[isa].name()));
            let (mut command, source) = (self.compiler)(name, isa, path)?;
            command.arg("-c").arg(&source).arg("-o").arg(&output);
            let result = command.output().map_err(|error| Error::read(&self.tools.program, error))?;
            if !result.status.success() {
                let text = String::from_utf8_lossy(&result.stderr);
                let message = format!("building {} for {} failed:\n{}", self.name, ISAS[isa].name(), text.trim_end());
                return Err(Error::new(ErrorKind::Software, message));
            }
            if !is_assembly(&source) {
                let compiler = || Ok((self.compiler)(name, isa, path)?.0);
                sequential::fence_stores(isa, &output, &compiler, &|command| {
                    command.arg(&source);
                })?;
            }
            built[isa] = read(&output)?;
            let _ = fs::remove_file(&output);
        }
        write(&self.objects.join(format!("{name}.o")), &fat_object::join(name, &built, &fat_object::Notes::default())?)
    }

    /// Puts all objects into an archive, which is there as a whole or not at all.
    ///
    /// # Errors
    /// What the archiver says.
    pub fn archive(&self, archive: &Path) -> Result<()> {
        let entries = fs::read_dir(self.objects).map_err(|error| Error::read(self.objects, error))?;
        let is_object = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "o");
        let members: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_object).collect();
        let partial = archive.with_extension("partial");
        let result = self.tools.command("ar").arg("rcs").arg(&partial).args(members).output();
        let result = result.map_err(|error| Error::read(&self.tools.program, error))?;
        if !result.status.success() {
            let text = String::from_utf8_lossy(&result.stderr);
            return Err(Error::new(ErrorKind::Software, format!("archiving {} failed: {text}", self.name)));
        }
        fs::rename(&partial, archive).map_err(|error| Error::write(&partial, error))
    }

    fn progress(&self, files: usize) -> ProgressBar {
        if !std::io::stderr().is_terminal() {
            eprintln!("motet: building {} for {} (once, a few minutes)", self.name, crate::isa::names());
            return ProgressBar::hidden();
        }
        let template = format!("motet: building {} (once) {{bar:40}} {{pos}}/{{len}} {{eta}}", self.name);
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(files as u64).with_style(style)
    }
}

/// Whether a file is assembly, by its name.
pub fn is_assembly(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| ["s", "S", "sx"].contains(&extension))
}
