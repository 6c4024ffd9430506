//! hthreads (`user/hthreads`): the library for `-lhthread`, and archives for programs of one ISA, built from sources in this program.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{Error, ErrorKind, Result, create_folder, write},
    isa::{ISAS, TARGETS},
    libc::{COMMON_FLAGS, Libc, TYPED},
    library::{Library, Sources},
    sequential::FENCE,
    tools::{Tools, lock},
};

/// What one links with `-l`.
pub const NAME: &str = "hthread";
/// The same for the adaptor, which makes mutexes of pthreads the library's.
pub const ADAPTOR: &str = "hthread-pthread";
/// Its header.
pub const HEADER: (&str, &str) = ("hthread.h", include_str!("../../../user/hthreads/hthread.h"));
/// The header that a source needs of those that all programs have.
const MARKS: (&str, &str) = ("motet.h", include_str!("../../../user/include/motet.h"));

macro_rules! sources {
    ($($name:literal),*) => { &[$(($name, include_str!(concat!("../../../user/hthreads/", $name)))),*] };
}

/// Its files; the headers among them are its own.
const FILES: &[(&str, &str)] = sources![
    "functions.c",
    "fused.c",
    "hardware.c",
    "hardware.h",
    "hthread.c",
    "hybrid.c",
    "internal.h",
    "life.c",
    "place.c",
    "servers.c",
    "start.c",
    "tables.c",
    "tables.h",
    "threads.c",
    "wait.c"
];

/// The adaptor's.
const ADAPTOR_FILES: &[(&str, &str)] = sources!["adaptor.c", "adaptor.h", "c11.c", "pthread_cond.c", "pthread_mutex.c"];
/// Files of musl that the adaptor stands before and needs still: compiled once more, `pthread_NAME` as `ht_musl_NAME`.
const MUSL_FILES: &[&str] = &[
    "mutex_init",
    "mutex_destroy",
    "mutex_consistent",
    "cond_init",
    "cond_destroy",
    "cond_signal",
    "cond_broadcast",
    "barrier_init",
    "barrier_destroy",
    "barrier_wait",
];

const FLAGS: &[&str] = &["-std=c99", "-O2", "-DNDEBUG", "-w"];
/// In programs for several ISAs.
const SEVERAL: &str = "-DHTHREAD_SEVERAL_ISAS";

/// The built library.
pub struct Hthreads {
    folder: PathBuf,
}

impl Hthreads {
    /// The library, built first if this has not been done for these sources.
    ///
    /// # Errors
    /// A source does not compile, or the folder cannot be written.
    pub fn find(tools: &Tools, libc: &Libc) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        (
            FILES,
            ADAPTOR_FILES,
            MUSL_FILES,
            HEADER,
            MARKS,
            FLAGS,
            FENCE,
            COMMON_FLAGS,
            libc.archive(),
            tools.library.file_name(),
        )
            .hash(&mut hasher);
        let stamp = format!("{:016x}", hasher.finish());
        let hthreads = Self { folder: tools.folder.join("hthreads") };
        if !hthreads.is_built(&stamp) {
            let _lock = lock(&tools.folder.join("lock"))?;
            if !hthreads.is_built(&stamp) {
                hthreads.build(tools, libc)?;
                write(&hthreads.folder.join("complete"), stamp.as_bytes())?;
            }
        }
        Ok(hthreads)
    }

    fn is_built(&self, stamp: &str) -> bool {
        fs::read(self.folder.join("complete")).is_ok_and(|found| found == stamp.as_bytes())
    }

    /// For programs for several ISAs.
    pub fn archive(&self) -> PathBuf {
        self.folder.join("libhthread.a")
    }

    /// The adaptor for programs for several ISAs. The library is needed, too.
    pub fn adaptor(&self) -> PathBuf {
        self.folder.join("libhthread-pthread.a")
    }

    fn build(&self, tools: &Tools, libc: &Libc) -> Result<()> {
        let _ = fs::remove_dir_all(&self.folder);
        let own = self.folder.join("sources");
        create_folder(&own)?;
        for (name, contents) in FILES.iter().chain(ADAPTOR_FILES).chain([&HEADER, &MARKS]) {
            write(&own.join(name), contents.as_bytes())?;
        }
        write(&self.folder.join(HEADER.0), HEADER.1.as_bytes())?;
        let of = |files: &[(&'static str, &str)]| -> Sources {
            let source = |name| (format!("hthread_{name}"), ISAS.map(|_| own.join(name).with_extension("c")));
            objects_of(files).map(source).collect()
        };
        self.build_archive(tools, libc, &of(FILES), &self.archive())?;
        let mut adaptor = of(ADAPTOR_FILES);
        adaptor.extend(MUSL_FILES.iter().map(|name| (format!("{MUSL}{name}"), ISAS.map(|_| musl_file(tools, name)))));
        self.build_archive(tools, libc, &adaptor, &self.adaptor())?;
        (0..ISAS.len()).try_for_each(|isa| self.build_for(tools, isa, &own))
    }

    fn build_archive(&self, tools: &Tools, libc: &Libc, sources: &Sources, archive: &Path) -> Result<()> {
        let objects = self.folder.join("objects");
        let name = if archive == self.adaptor() { "the adaptor of hthreads" } else { "hthreads" };
        create_folder(&objects)?;
        let compiler = |name: &str, isa: usize, path: &Path| {
            if name.starts_with(MUSL) {
                let mut command = libc.compiler(isa);
                command.args(renames());
                return Ok((command, path.to_owned()));
            }
            let mut command = tools.command("clang");
            command.arg(format!("--target={}", TARGETS[isa].triple)).args(TARGETS[isa].flags).args(COMMON_FLAGS);
            command.args((isa == TYPED).then_some("-g")).arg("-nostdinc").args(FLAGS).arg(SEVERAL);
            for folder in libc.include_folders(isa) {
                command.arg("-isystem").arg(folder);
            }
            Ok((command, path.to_owned()))
        };
        let library = Library { tools, name, objects: &objects, compiler: &compiler, first: None };
        library.compile(sources)?;
        library.archive(archive)?;
        let _ = fs::remove_dir_all(&objects);
        Ok(())
    }

    /// Archives for ordinary programs of one ISA: the library for whichever C library they have, the adaptor for musl.
    fn build_for(&self, tools: &Tools, isa: usize, own: &Path) -> Result<()> {
        let folder = self.folder.join(ISAS[isa].name());
        create_folder(&folder)?;
        let compile = |source: &Path, options: &[String]| -> Result<PathBuf> {
            let object = folder.join(source.file_name().unwrap_or_default()).with_extension("o");
            let mut command = tools.command("cc");
            command.args(["-target", TARGETS[isa].triple, "-fPIE"]).args(FLAGS).args(options).arg("-c").arg(source);
            command.env("ZIG_GLOBAL_CACHE_DIR", tools.folder.join("zig-cache"));
            expect(tools, command.arg("-o").arg(&object), isa)?;
            Ok(object)
        };
        let archive = |name: &str, objects: &[PathBuf]| {
            expect(tools, tools.command("ar").arg("rcs").arg(folder.join(name)).args(objects), isa)?;
            objects.iter().for_each(|object| drop(fs::remove_file(object)));
            Ok(())
        };
        let of = |files: &[(&'static str, &str)]| -> Result<Vec<PathBuf>> {
            objects_of(files).map(|name| compile(&own.join(name).with_extension("c"), &[])).collect()
        };
        archive("libhthread.a", &of(FILES)?)?;
        let mut adaptor = of(ADAPTOR_FILES)?;
        let musl = tools.library.join("libc/musl");
        let folders = [&format!("arch/{}", ISAS[isa].name()), "arch/generic", "src/include", "src/internal"];
        let folders = folders.map(|folder| format!("-I{}", musl.join(folder).display()));
        let options: Vec<String> = renames().chain(folders).chain(["-D_XOPEN_SOURCE=700".into()]).collect();
        for name in MUSL_FILES {
            adaptor.push(compile(&musl_file(tools, name), &options)?);
        }
        archive("libhthread-pthread.a", &adaptor)
    }
}

/// Objects of musl's files begin so.
const MUSL: &str = "musl_";

fn musl_file(tools: &Tools, name: &str) -> PathBuf {
    tools.library.join("libc/musl/src/thread").join(format!("pthread_{name}.c"))
}

/// Options that rename what [`MUSL_FILES`] define.
fn renames() -> impl Iterator<Item = String> {
    MUSL_FILES.iter().map(|name| format!("-Dpthread_{name}=ht_musl_{name}"))
}

/// The names, without their ends, of those files that are compiled.
fn objects_of(files: &[(&'static str, &str)]) -> impl Iterator<Item = &'static str> {
    files.iter().filter_map(|(name, _)| name.strip_suffix(".c"))
}

fn expect(tools: &Tools, command: &mut Command, isa: usize) -> Result<()> {
    let result = command.output().map_err(|error| Error::read(&tools.program, error))?;
    if result.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&result.stderr);
    let message = format!("building hthreads for {} failed:\n{}", ISAS[isa].name(), text.trim_end());
    Err(Error::new(ErrorKind::Software, message))
}
