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
    tools::{Tools, lock},
};

/// What one links with `-l`.
pub const NAME: &str = "hthread";
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
        (FILES, HEADER, MARKS, FLAGS, COMMON_FLAGS, libc.archive(), tools.library.file_name()).hash(&mut hasher);
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

    fn build(&self, tools: &Tools, libc: &Libc) -> Result<()> {
        let _ = fs::remove_dir_all(&self.folder);
        let (own, objects) = (self.folder.join("sources"), self.folder.join("objects"));
        create_folder(&own)?;
        create_folder(&objects)?;
        let mut sources = Sources::new();
        for (name, contents) in FILES.iter().chain([&HEADER, &MARKS]) {
            let path = own.join(name);
            write(&path, contents.as_bytes())?;
            if let Some(object) = name.strip_suffix(".c") {
                sources.insert(format!("hthread_{object}"), ISAS.map(|_| path.clone()));
            }
        }
        write(&self.folder.join(HEADER.0), HEADER.1.as_bytes())?;
        let compiler = |_: &str, isa: usize, path: &Path| {
            let mut command = tools.command("clang");
            command.arg(format!("--target={}", TARGETS[isa].triple)).args(TARGETS[isa].flags).args(COMMON_FLAGS);
            command.args((isa == TYPED).then_some("-g")).arg("-nostdinc").args(FLAGS).arg(SEVERAL);
            for folder in libc.include_folders(isa) {
                command.arg("-isystem").arg(folder);
            }
            command.arg("-c").arg(path);
            Ok(command)
        };
        let library = Library { tools, name: "hthreads", objects: &objects, compiler: &compiler };
        library.compile(&sources)?;
        library.archive(&self.archive())?;
        (0..ISAS.len()).try_for_each(|isa| self.build_for(tools, isa, &own))?;
        let _ = fs::remove_dir_all(&objects);
        Ok(())
    }

    /// An archive for ordinary programs of one ISA, whichever C library they have.
    fn build_for(&self, tools: &Tools, isa: usize, own: &Path) -> Result<()> {
        let folder = self.folder.join(ISAS[isa].name());
        create_folder(&folder)?;
        let mut objects = Vec::new();
        for name in FILES.iter().filter_map(|(name, _)| name.strip_suffix(".c")) {
            let object = folder.join(name).with_extension("o");
            let mut command = tools.command("cc");
            command
                .args(["-target", TARGETS[isa].triple, "-fPIE"])
                .args(FLAGS)
                .arg("-c")
                .arg(own.join(format!("{name}.c")));
            command.env("ZIG_GLOBAL_CACHE_DIR", tools.folder.join("zig-cache"));
            expect(tools, command.arg("-o").arg(&object), isa)?;
            objects.push(object);
        }
        expect(tools, tools.command("ar").arg("rcs").arg(folder.join("libhthread.a")).args(&objects), isa)?;
        objects.iter().for_each(|object| drop(fs::remove_file(object)));
        Ok(())
    }
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
